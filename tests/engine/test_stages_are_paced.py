"""A plain stage that a worker thread runs lets the event loop go on, whoever wrote it: the engine paces it."""

from __future__ import annotations

import pytest

from agentctx import ClearToolResults, CollapseRepeats, Context, TruncateToolOutputs
from agentctx.core import pace
from agentctx.core.pace import EVERY, Paced, giving_way
from agentctx.engine.reading import reader
from agentctx.protocols import Call
from agentctx.strategies import CompressLayers, DropSuperseded, FoldOutput, ReuseLines, ShrinkArguments, TabulateJson
from agentctx.testing import assistant, call, result, transcript, user
from agentctx.tokens import HeuristicCounter

ROUNDS = 100


@pytest.fixture
def looks(monkeypatch):
    """One item for each time that a thread which gives way might have done so."""
    found = []
    monkeypatch.setattr(pace, "AT_MOST", -1.0)
    monkeypatch.setattr(pace, "_stand_back", lambda _until: found.append(1))
    return found


def history():
    """Rounds in which there is something to do for each of the stages."""
    turns = [user("task")]
    for number in range(ROUNDS):
        text = "\n".join(f"line {line} of file {number // 2}, as it was read in full" for line in range(40))
        writes = call(f"c{number}", "write_file", {"path": f"{number}.py", "content": text})
        turns += [assistant(writes), result(f"c{number}", text)]
    return transcript("openai-chat", *turns)


def told():
    """A context of that history, and what a stage is told."""
    reads = reader(history(), format="openai-chat", counter=HeuristicCounter())
    return Context(tuple(reads.messages(history()))), Call(reads.meter, wire=reads.wire)


def counts_messages(context, _call):
    """A stage as a user writes it: a loop over the messages."""
    return context if sum(bool(message.results) for message in context.messages) == ROUNDS else None


STAGES = {
    "of the user's": counts_messages,
    "TruncateToolOutputs": TruncateToolOutputs(max_tokens=50).apply,
    "ClearToolResults": ClearToolResults(keep_last=1).apply,
    "ShrinkArguments": ShrinkArguments(1, max_tokens=20).apply,
    "DropSuperseded": DropSuperseded().apply,
    "CollapseRepeats": CollapseRepeats().apply,
    "CompressLayers": CompressLayers(dictionary=("as it was read",), deduplicate=True).apply,
    "ReuseLines": ReuseLines().apply,
    "FoldOutput": FoldOutput().apply,
    "TabulateJson": TabulateJson().apply,
}


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_gives_way_as_it_goes_through_a_history(looks, name):
    """In a worker's thread at least once in so many messages; elsewhere never. It makes the same of them."""
    context, call = told()
    here = STAGES[name](context, call)
    assert not looks
    with giving_way():
        there = STAGES[name](context, call)
    assert len(looks) >= len(context.messages) // EVERY
    assert here == there


def test_the_messages_of_a_context_are_a_tuple():
    """Whoever passes them, and whatever is made of them, equals a plain tuple, and looks like one."""
    messages = told()[0].messages
    for made in (
        Context(messages),
        Context((*messages,)),
        Context((*messages, messages[0])).with_messages([*messages]),
    ):
        assert type(made.messages) is Paced
        assert made.messages == (*messages,)
        assert repr(made.messages) == repr((*messages,))
        assert messages[2:4] == (*messages,)[2:4]
        assert hash(made.messages[:0]) == hash(())
