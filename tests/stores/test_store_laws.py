"""Every law of stores, for every store, on both event loops, with real servers."""

import pytest
from store_laws import LAWS_OF_OURS


@pytest.mark.both_loops
@pytest.mark.parametrize("law", LAWS_OF_OURS)
@pytest.mark.anyio
async def test_store_laws(law, make):
    """Contents, histories and states are kept as the law says."""
    await LAWS_OF_OURS[law](make)
