import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
NO_NETWORK = """\
import socket


def refuse(*args, **kwargs):
    raise OSError(f"the network is closed: {args}")


socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs the example as a user would, from anywhere, with no network."""
    folder = tmp_path_factory.mktemp("offline")
    (folder / "sitecustomize.py").write_text(NO_NETWORK, encoding="utf-8")
    path = os.pathsep.join((str(folder), str(REPOSITORY)))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "error"}

    def start(*options):
        command = [sys.executable, str(REPOSITORY / "examples" / "keep_fitting.py"), *options]
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
        )

    return start


def steps(done):
    """Tokens of the history, and tokens that were sent, step by step."""
    found = re.findall(r"^call +\d+: +([\d,]+) tokens so far, +([\d,]+) sent$", done.stdout, re.MULTILINE)
    return [tuple(int(number.replace(",", "")) for number in pair) for pair in found]


def test_packing_keeps_the_answer(run):
    """Every request fits though the history has four times the window, and the clue of the third log is still there."""
    done = run()
    assert done.returncode == 0, done.stdout + done.stderr
    history, sent = zip(*steps(done), strict=True)
    assert len(sent) == 81
    assert max(history) > 3.5 * 10_000
    assert max(sent) <= 10_000 - 1_250 - 700
    assert done.stdout.splitlines()[-1] == (
        "Refused with R17: daily limit of the card exceeded; set by limits/daily-eu."
    )


def test_packing_acts_rarely_and_says_what_went(run):
    """Few steps are cuts, each says how full the request is and what was left out; the window's parts are shown."""
    done = run()
    cuts = re.findall(r"Pack: \d+ messages changed", done.stdout)
    assert 2 <= len(cuts) <= 12
    assert done.stdout.count("Earlier: ") == len(cuts)
    assert "Context Budget (10,000 tokens total)" in done.stdout
    assert "COMPACT NEEDED" not in done.stdout


def test_oldest_first_loses_the_answer(run):
    """When the oldest rounds go instead, the answer is lost and the exit code says so."""
    done = run("--oldest-first")
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[-1].startswith("I cannot say")
    assert max(sent for _, sent in steps(done)) <= 10_000 - 1_250 - 700
