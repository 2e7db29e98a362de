"""The benchmark of what says things in fewer tokens: what it counts, and what it says of a session."""

import pytest
from measuring import SHIPPED, measured

SCRIPT = """
import json, sys, anyio, compression, recorded
from pathlib import Path

line = Path(sys.argv[1]).read_text().splitlines()[0]
task = compression.Task(compression.SAVED, "shipped", line)
effects = compression.measure_one(task, ["as it is", "ReuseLines"])
as_preset = {"as it is": effects["as it is"], "coding_agent": effects["ReuseLines"]}
once = compression.measure_one(compression.Task(compression.AT_ONCE, "shipped", line), ["as it is", "coding_agent"])
made = compression.busy(40, 0)
print(json.dumps({
    "bare": compression.asdict(effects["as it is"]),
    "effects": {name: compression.effect_cells(each, effects["as it is"]) for name, each in effects.items()},
    "sent": {name: each.loose.tokens for name, each in effects.items()},
    "larger": {name: each.larger for name, each in effects.items()},
    "once": {name: compression.asdict(each) for name, each in once.items()},
    "markdown": compression.markdown({"all": effects}),
    "bars": [[row.what, row.ok] for row in compression.bars({compression.CODERS: as_preset})],
    "same": made == compression.busy(40, 0),
    "roles": [message["role"] for message in made[:4]],
}))
"""


@pytest.fixture(scope="module")
def found():
    """What the benchmark measures on the shipped session."""
    return measured(SCRIPT, str(SHIPPED))


def test_stages_are_compared_with_sending_everything(found):
    """Without stages all is sent, and what is left out is left out by cuts; with them there is less of both."""
    cells = found["effects"]["as it is"]
    assert cells["sent"] == cells["dropped by cuts"] == cells["visible"] == "100.0 %"
    assert found["bare"]["saved"] == 0 < found["bare"]["dropped"]
    assert found["sent"]["ReuseLines"] <= found["sent"]["as it is"]


def test_no_message_is_made_larger(found):
    """Neither by stages nor by a cut."""
    assert set(found["larger"].values()) == {0}


def test_a_request_is_made_at_once_and_judged(found):
    """As it is, the last request does not fit a third; a preset's does, and the provider takes both."""
    bare, ours = found["once"]["as it is"], found["once"]["coding_agent"]
    assert bare["tokens"] == bare["given"] > ours["tokens"]
    assert (bare["fitting"], ours["fitting"]) == (0, 1)
    assert bare["legal"] == ours["legal"] == 1


def test_bars_are_named(found):
    """Each says what is measured, and whether it is kept."""
    named = dict(map(tuple, found["bars"]))
    assert named["messages made larger"]
    assert "tokens sent without pressure, fewer" in named


def test_rows_are_lines_of_markdown(found):
    """With a head of as many columns."""
    head, *lines = found["markdown"].splitlines()
    assert {line.count("|") for line in lines} == {head.count("|")}


def test_made_transcripts_are_the_same_every_time(found):
    """By their seed, and legal."""
    assert found["same"]
    assert found["roles"] == ["system", "user", "assistant", "tool"]
