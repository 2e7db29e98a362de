"""Every law of stores, for every store, on both event loops, with real servers."""

import pytest

from agentctx.testing.store_laws import STORE_LAWS


@pytest.mark.both_loops
@pytest.mark.parametrize("law", STORE_LAWS)
@pytest.mark.anyio
async def test_store_laws(law, make):
    """Contents, histories and states are kept as the law says."""
    await STORE_LAWS[law](make)
