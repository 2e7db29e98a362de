import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from agentctx.engine.usage import prompt_tokens

REPOSITORY = Path(__file__).parents[2]
BENCHMARK = REPOSITORY / "benchmarks" / "estimates.py"


@pytest.fixture(scope="module")
def done():
    """The benchmark, run for machines."""
    command = [sys.executable, str(BENCHMARK), "--json"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)


def test_what_providers_reported_grows_with_the_prompt():
    """Every report has a size, and a prompt of more messages is not half the size of one before it."""
    for line in BENCHMARK.with_name("usage.jsonl").read_text("utf-8").splitlines():
        session = json.loads(line)
        told = [(report["index"], prompt_tokens(report["usage"])) for report in session["reports"]]
        assert told == sorted(told, key=lambda each: each[0])
        for (_, before), (_, after) in pairwise(told):
            assert after > before / 2 > 0


def test_estimates_are_close_to_what_real_providers_counted(done, shared):
    """On recorded sessions every bar is kept; where there are none beside the repository, the benchmark says so."""
    if shared is None:
        assert done.returncode == 1
        assert done.stderr == "no transcripts in transcripts: nothing to measure\n"
        return
    assert done.stderr == ""
    rows = {row["what"]: row for row in json.loads(done.stdout)}
    assert rows["estimate after three reports, within 2 %"]["measured"] >= 95
    assert done.returncode == 0
