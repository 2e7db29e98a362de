import pytest
from measuring import measured

SCRIPT = """
import json, anyio, packing

async def main():
    rows = [*await packing.greed_rows(1), *await packing.best_rows(1)]
    print(json.dumps([[row.what, row.measured, row.ok] for row in rows]))

anyio.run(main)
"""


@pytest.fixture(scope="module")
def rows():
    """The rows that compare packing with greed and with the best there is, each by its name."""
    return {what: (value, ok) for what, value, ok in measured(SCRIPT)}


def test_packing_is_measured_against_greed_and_the_optimum(rows):
    """There are rows for packing, for two greedy packers, and for the best possible; all bars are kept."""
    assert len(rows) == 7
    assert all(ok for _, ok in rows.values())


def test_packing_is_the_best_possible_where_greed_is_not(rows):
    """On small cases packing is worth all that is possible, and greed less."""
    assert rows["worth of the best possible: packing"][0] == 100
    assert rows["worth of the best possible: greedy by score"][0] < 100
