"""A plain stage that a worker thread runs lets the event loop go on, whoever wrote it: the engine paces it."""

from __future__ import annotations

import pickle
from threading import Thread

import pytest

from agentctx import ClearToolResults, CollapseRepeats, Context, Pipeline, StageError, TruncateToolOutputs
from agentctx.core import pace
from agentctx.core.message import pace_messages
from agentctx.core.pace import EVERY, Paced, breathe, giving_way
from agentctx.engine.reading import reader
from agentctx.protocols import Call, Stage
from agentctx.strategies import CompressLayers, DropSuperseded, FoldOutput, ReuseLines, ShrinkArguments, TabulateJson
from agentctx.testing import assistant, call, result, transcript, user
from agentctx.tokens import HeuristicCounter

ROUNDS = 100


@pytest.fixture
def looks(monkeypatch):
    """One item for each time that a thread which gives way might have done so."""
    found = []
    monkeypatch.setattr(pace, "AT_MOST", -1.0)
    monkeypatch.setattr(pace, "AT_MOST_ALONE", -1.0)
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
    pace_messages(context)
    with giving_way():
        there = STAGES[name](context, call)
    assert len(looks) >= len(context.messages) // EVERY
    assert here == there


def test_work_that_nothing_goes_on_beside_hardly_gives_way(monkeypatch):
    """It does when another thread has been at work, if only for a moment, and when it could not tell for a while."""
    stood_back = []
    monkeypatch.setattr(pace, "AT_MOST", -1.0)
    monkeypatch.setattr(pace, "AT_MOST_ALONE", 3600.0)
    monkeypatch.setattr(pace, "sleep", stood_back.append)
    with giving_way():
        for _ in range(100):
            breathe()
        alone = len(stood_back)
        for _ in range(20):
            beside = Thread(target=sum, args=(range(1_000),))
            beside.start()
            beside.join()
            breathe()
    assert alone < 50
    assert len(stood_back) >= alone + 20
    monkeypatch.setattr(pace, "AT_MOST_ALONE", -1.0)
    with giving_way():
        breathe()
        before = len(stood_back)
        breathe()
    assert len(stood_back) == before + 1


def test_the_messages_of_a_context_equal_paced_ones():
    """They are the same tuple to whoever compares, shows or hashes them, and a stage's own are plain again."""
    context = told()[0]
    before, same = context.messages, Context(context.messages)
    pace_messages(context)
    assert (context, context.messages, repr(context)) == (same, before, repr(same))
    assert hash(context.messages[:0]) == hash(())
    assert type(context.with_messages(context.messages[1:]).messages) is tuple
    kept = pickle.loads(pickle.dumps(context))  # noqa: S301 - its own
    assert (kept, type(kept.messages)) == (same, tuple)


@pytest.mark.anyio
async def test_a_stage_that_returns_the_messages_is_told_so():
    """However many there are, the error names what a user knows."""
    messages = transcript("openai-chat", *[turn for _ in range(300) for turn in (user("a"), assistant("b"))])
    for given in (messages, messages[:8]):
        with pytest.raises(StageError, match="returned tuple instead of a Context"):
            await Pipeline(lambda context, _call: context.messages).prepare(given, format="openai-chat")


@pytest.mark.anyio
async def test_the_engine_paces_what_it_gives_to_a_worker(looks):
    """A pipeline with a plain stage of the user's, which has much to do: the context it gets gives way."""
    seen = []

    class Counts(Stage):
        def apply(self, context, _call):
            seen.append(type(context.messages))
            return context

    messages = transcript("openai-chat", *[turn for _ in range(300) for turn in (user("a"), assistant("b"))])
    await Pipeline(Counts()).prepare(messages, format="openai-chat")
    await Pipeline(Counts()).prepare(messages[:8], format="openai-chat")
    assert seen == [Paced, tuple]
