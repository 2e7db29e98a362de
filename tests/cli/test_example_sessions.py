"""The commands on the recorded sessions that come with the project."""

import json
from pathlib import Path

import pytest

SESSIONS = sorted((Path(__file__).parents[2] / "examples/sessions").glob("*.jsonl"))


def test_there_is_a_session():
    """The project comes with a recorded session."""
    assert SESSIONS


@pytest.mark.parametrize("session", SESSIONS, ids=lambda path: path.stem)
@pytest.mark.parametrize("window", ["12k", "16k", "32k", "128k"])
def test_every_call_could_have_been_sent(run, session, window):
    """At each window every model call is valid and within budget, and most of what is sent is a cached prefix."""
    shown = run("replay", session, "--window", window, "--all", "--json")
    assert shown.exit_code == 0, shown.stderr
    for told in map(json.loads, shown.stdout.splitlines()):
        summary = told["summary"]
        assert summary["valid"] == summary["fitting"] == summary["steps"] > 0
        assert summary["peak_sent"] <= told["budget"]["limit"]
        assert summary["prefix_tokens"] > summary["tokens_sent"] / 2


@pytest.mark.parametrize("session", SESSIONS, ids=lambda path: path.stem)
def test_what_is_compacted_is_valid_and_fits(run, session, tmp_path):
    """A compacted session is a session again: valid, and as small as was asked for."""
    smaller = tmp_path / "smaller.jsonl"
    assert run("compact", session, "--window", "16k", "--out", smaller).exit_code == 0
    assert run("validate", smaller).exit_code == 0
    for line in run("count", smaller, "--json").stdout.splitlines():
        assert json.loads(line)["tokens"] <= 12_000
