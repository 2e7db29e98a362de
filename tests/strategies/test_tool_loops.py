"""Loops of calls and results only, cut by each stage in every format."""

from copy import deepcopy

import pytest

from agentctx import (
    Budget,
    ClearToolResults,
    FitContextWindow,
    Pack,
    Pipeline,
    TrimRounds,
    TruncateToolOutputs,
    over,
    validate,
    when,
)
from agentctx.stores import MemoryStore
from agentctx.testing import assistant, call, result, transcript, user

pytestmark = pytest.mark.anyio

FORMATS = ["openai-chat", "openai-responses", "anthropic", "gemini", "bedrock"]
CUTS = [FitContextWindow(), TrimRounds(6), Pack("recent"), Pack("compression"), Pack("recent", note=True)]


def loop(rounds, form, words=60):
    """A pure tool loop: a task, and then calls and results only."""
    turns = [user("find the cause")]
    for number in range(rounds):
        turns += [assistant(call(f"c{number}", "read", {"n": number})), result(f"c{number}", f"r{number} " * words)]
    return transcript(form, *turns)


def errors(view, form):
    """The rules for which the provider refuses the view."""
    found = validate({"messages": view.messages}, format=form)
    return [violation for violation in found if violation.severity == "error"]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("stage", CUTS, ids=repr)
async def test_pairs_and_latest_rounds_stay(stage, form):
    """Where there is nobody's word to cut at, whole pairs go, and the task and the latest rounds stay."""
    messages = loop(20, form)
    assert len(messages) >= 41
    view = await Pipeline(stage, budget=Budget(1_800)).prepare(messages, format=form)
    assert errors(view, form) == []
    said = str(view.messages)
    assert "find the cause" in said
    assert all(f"r{number} r{number}" in said for number in range(17, 20))
    assert "r3 r3" not in said


@pytest.mark.parametrize("form", FORMATS)
async def test_old_results_are_cleared_until_the_request_fits(form):
    """The oldest results are cleared, as many as must be, with words of the caller's own."""
    micro = when(over(0.5), ClearToolResults(keep_last=3, placeholder="[Old tool result content cleared]"))
    few, many = loop(4, form), loop(24, form)
    pipeline = Pipeline(micro, budget=Budget(3_000))
    assert (await pipeline.prepare(few, format=form)).messages == few
    view = await pipeline.prepare(many, format=form)
    said = str(view.messages)
    gone = said.count("[Old tool result content cleared]")
    assert [f"r{number} r{number}" in said for number in range(24)] == [number >= gone for number in range(24)]
    assert 2_800 < view.report.tokens_after <= 3_000


@pytest.mark.parametrize("stage", CUTS, ids=repr)
async def test_a_few_huge_messages_are_cut(stage):
    """Twenty messages or fewer are cut when they are large: only tokens count."""
    messages = transcript("openai-chat", user("task"))
    for number in range(8):
        messages += transcript("openai-chat", assistant(f"answer {number} " + "word " * 900), user(f"and {number}?"))
    view = await Pipeline(stage, budget=Budget(4_000)).prepare(messages, format="openai-chat")
    assert len(messages) == 17
    assert view.report.tokens_after <= 4_000


@pytest.mark.parametrize("keep", range(1, 12))
async def test_no_cut_parts_a_pair(keep):
    """However many rounds are kept, no cut parts a pair."""
    turns = [user("task")]
    for number in range(6):
        turns += [
            assistant(call(f"a{number}", "read"), call(f"b{number}", "read")),
            result(f"a{number}", "A"),
            result(f"b{number}", "B"),
            *([user("go on")] if number % 2 else []),
        ]
    view = await Pipeline(TrimRounds(keep)).prepare(transcript("openai-chat", *turns), format="openai-chat")
    assert errors(view, "openai-chat") == []


async def test_words_in_angle_brackets_are_text():
    """An answer that begins with "<" is text, and no thinking to be erased."""
    messages = transcript(
        "anthropic", user("make a page"), assistant("<html>hello</html>"), user("thanks"), assistant("<b>"), user("?")
    )
    view = await Pipeline(ClearToolResults(0), TruncateToolOutputs(10), FitContextWindow(Budget(1_000))).prepare(
        messages, format="anthropic"
    )
    assert view.messages == messages


@pytest.mark.parametrize("form", FORMATS)
async def test_messages_stay_and_the_store_has_what_was_cut(form):
    """The caller's own objects are as they were, and the store has all that was cleared or dropped."""
    store = MemoryStore()
    messages = loop(12, form)
    before = deepcopy(messages)
    view = await Pipeline(ClearToolResults(2), Pack("recent"), budget=Budget(700), store=store).prepare(
        messages, format=form
    )
    assert messages == before
    kept = [await store.get(change.handle) for change in view.report.changes]
    assert len(kept) >= 10
    assert b"r2 r2 r2" in b"".join(kept)
