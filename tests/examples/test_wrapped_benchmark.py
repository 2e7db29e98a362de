"""The benchmark of wrapped clients runs; its figures are for whoever runs it on an idle machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def test_a_call_is_measured_in_a_session_and_alone():
    """Each row names a call and has a ratio, and the one of a call in a session has a bar."""
    command = [sys.executable, "benchmarks/wrapped.py", "--quick", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    run = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    in_session, alone = json.loads(run.stdout)["rows"]
    assert in_session["measured"] > 0
    assert alone["measured"] > 0
    assert (in_session["bar"], alone["bar"]) == (2.5, None)
