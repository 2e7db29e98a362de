"""Run a script against the modules of the benchmarks, as whoever runs them does, and read what it prints."""

import json
import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
SHIPPED = REPOSITORY / "examples/sessions/coding_agent.jsonl"


def measured(script, *arguments):
    """What a script prints as JSON; no warning may be printed beside it."""
    folders = (str(REPOSITORY), str(REPOSITORY / "benchmarks"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    command = [sys.executable, "-W", "error", "-c", script, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.stderr == ""
    return json.loads(done.stdout)
