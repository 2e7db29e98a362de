import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
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
    folders = (str(REPOSITORY), str(REPOSITORY / "benchmarks"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    command = [sys.executable, "-W", "error", "-c", SCRIPT]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.stderr == ""
    return {what: (measured, ok) for what, measured, ok in json.loads(done.stdout)}


def test_packing_is_measured_against_greed_and_the_optimum(rows):
    """There are rows for packing, for two greedy packers, and for the best possible; all bars are kept."""
    assert len(rows) == 7
    assert all(ok for _, ok in rows.values())


def test_packing_is_the_best_possible_where_greed_is_not(rows):
    """On small cases packing is worth all that is possible, and greed less."""
    assert rows["worth of the best possible: packing"][0] == 100
    assert rows["worth of the best possible: greedy by score"][0] < 100
