"""Law 7: whatever was left out is named in the report, and with a store it can be had back byte for byte."""

import json

import pytest
from hypothesis import given

from agentctx import (
    Budget,
    ClearToolResults,
    FitContextWindow,
    MemoryStore,
    Outcome,
    Pipeline,
    StoreError,
    TrimRounds,
    TruncateToolOutputs,
    count,
)
from agentctx.testing import Recorder, assistant, call, result, transcript, user
from agentctx.testing.histories import broken_histories, budgets, histories, stages
from agentctx.testing.laws import reported_and_kept
from agentctx.testing.trial import Trial

FORMATS = ["openai-chat", "anthropic", "gemini", "bedrock"]
ACTING = {
    "TrimRounds": TrimRounds(2),
    "TruncateToolOutputs": TruncateToolOutputs(max_tokens=20),
    "ClearToolResults": ClearToolResults(keep_last=1),
    "FitContextWindow": FitContextWindow(max_tokens=400),
}


def rounds(format_name, number=6):
    """A task and rounds with outputs in several scripts."""
    turns = [user("task")]
    for place in range(number):
        turns += [assistant(call(f"c{place}", "read", {"n": place})), result(f"c{place}", f"输出 {place} é👩‍👧 " * 40)]
    return transcript(format_name, *turns)


@given(histories(), budgets(), stages())
def test_what_is_left_out_of_legal_histories_is_named(both_loops, history, budget, stage):
    """Each message that is not sent as it came is in the report, and its original is in the store."""
    both_loops(reported_and_kept, Trial.of(stage, history, budget))


@given(broken_histories(), budgets(), stages())
def test_what_repair_leaves_out_is_named(both_loops, history, budget, stage):
    """What repair drops, moves or mends is in the report, and its original is in the store."""
    both_loops(reported_and_kept, Trial.of(stage, history, budget))


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize(("name", "stage"), ACTING.items(), ids=ACTING.keys())
async def test_changes_name_stage_reason_and_size(format_name, name, stage):
    """A change says which stage made it, why, and how many tokens it saved; the sums are the request's."""
    messages = rounds(format_name)
    view = await Pipeline(stage).prepare(messages, format=format_name)
    report = view.report
    assert {change.stage for change in report.changes} == {name}
    assert all(change.reason for change in report.changes)
    assert all(change.tokens_before > change.tokens_after for change in report.changes)
    saved = sum(change.tokens_before - change.tokens_after for change in report.changes)
    assert report.tokens_before - saved == report.tokens_after
    assert report.tokens_before == count(messages, format=format_name)
    assert report.tokens_after == count(view.messages, format=format_name)
    assert (report.messages_before, report.messages_after) == (len(messages), len(view.messages))


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("stage", ACTING.values(), ids=ACTING.keys())
async def test_originals_come_back_byte_for_byte(format_name, stage, preparing):
    """The store gives back the native message of every change, to the byte."""
    store, messages = MemoryStore(), rounds(format_name)
    pipeline = Pipeline(stage, store=store)
    prepare = preparing(pipeline, format_name)
    view = await prepare(messages)
    assert view.report.changes
    for change in view.report.changes:
        kept = await store.get(change.handle)
        assert kept == json.dumps(messages[change.index], ensure_ascii=False).encode()


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_without_a_store_nothing_is_promised(format_name):
    """Without a store there are no handles."""
    view = await Pipeline(TrimRounds(1)).prepare(rounds(format_name), format=format_name)
    assert {change.handle for change in view.report.changes} == {None}


@pytest.mark.anyio
async def test_a_store_has_nothing_under_an_unknown_handle():
    """A handle that was never given out is an error."""
    with pytest.raises(StoreError):
        await MemoryStore().get("nothing")


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_session_goes_on_naming_what_is_left_out(format_name):
    """What was dropped at an earlier step is in force, with its handle, at every later step."""
    store, messages = MemoryStore(), rounds(format_name, 12)
    budget = Budget(100_000, trigger=1_500, target=600)
    session = Pipeline(FitContextWindow(), budget=budget, store=store).session(format=format_name)
    dropped = 0
    for stop in range(3, len(messages) + 1, 2):
        view = await session.prepare(messages[:stop])
        fates = view.report.fates
        assert len(fates) == stop
        assert fates.count(Outcome.DROPPED) == stop - len(view.messages)
        assert fates.count(Outcome.DROPPED) >= dropped
        dropped = fates.count(Outcome.DROPPED)
        for change in view.report.in_force:
            assert json.loads(await store.get(change.handle)) == messages[change.index]
    assert dropped


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_the_report_is_plain_json(format_name):
    """A report can be written down as JSON."""
    view = await Pipeline(*ACTING.values()).prepare(rounds(format_name), format=format_name)
    written = json.loads(json.dumps(view.report.to_dict()))
    assert written["messages_before"] == 13
    assert written["stages"][0]["changes"][0]["outcome"] == "dropped"


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_moved_message_is_named(format_name):
    """A stage that changes the order does not do so in silence."""

    async def reverse(context, _call):
        first, *middle, last = context.messages
        return context.with_messages((first, *reversed(middle), last))

    messages = transcript(format_name, *[user(f"number {number}") for number in range(6)])
    view = await Pipeline(reverse).prepare(messages, format=format_name)
    assert view.report.acted


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_listeners_are_told_what_the_report_says(format_name):
    """The event has the stages of the report; a step at which nothing was done tells nobody."""
    told = Recorder()
    pipeline = Pipeline(TrimRounds(2), on_compact=told)
    view = await pipeline.prepare(rounds(format_name), format=format_name)
    await pipeline.prepare(transcript(format_name, user("hi")), format=format_name)
    (event,) = told.events
    assert event.changes == view.report.changes
    assert (event.tokens_before, event.tokens_after) == (view.report.tokens_before, view.report.tokens_after)
