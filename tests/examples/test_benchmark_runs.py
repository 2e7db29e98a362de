import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
SCRIPT = """
import sys, overhead
from attrs import evolve

overhead.QUICK = evolve(overhead.QUICK, steps=20, repeats=1)
sys.exit(overhead.main())
"""


@pytest.fixture(scope="module")
def done():
    """The benchmark, run without other libraries and with the least effort: what it says is looked at, not how much."""
    command = [sys.executable, "-c", SCRIPT, "--quick", "--no-peers", "--json"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(REPOSITORY), str(REPOSITORY / "benchmarks")))}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)


@pytest.fixture
def rows(done):
    """Its rows."""
    assert done.stderr == ""
    return json.loads(done.stdout)["rows"]


def test_every_row_says_what_was_measured_and_what_was_wanted(rows):
    """Each of the fifteen rows that need no other library has a name and a measurement, and nine have a bar."""
    assert len({row["what"] for row in rows}) == 15
    assert all(row["measured"] > 0 for row in rows)
    assert sum(row["bar"] is not None for row in rows) == 9


def test_a_row_is_ok_when_its_bar_is_kept(rows):
    """The verdict follows from measurement and bar; without a bar it is ok."""
    for row in rows:
        if row["bar"] is None:
            assert row["ok"]
            continue
        kept = row["measured"] >= row["bar"] if row["at_least"] else row["measured"] <= row["bar"]
        assert row["ok"] == kept


def test_the_exit_code_tells_whether_all_bars_are_kept(done, rows):
    """0 when every row is ok, 1 when one is not."""
    assert done.returncode == (0 if all(row["ok"] for row in rows) else 1)
