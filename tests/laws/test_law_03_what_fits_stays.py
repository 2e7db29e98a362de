"""Law 3: what fits and was not asked to change stays."""

import pytest
from histories import broken_histories, budgets, histories, stages
from hypothesis import given, strategies as st

from agentctx import (
    Budget,
    ClearToolResults,
    FitContextWindow,
    Pipeline,
    RepairHistory,
    TrimRounds,
    TruncateToolOutputs,
    count,
    over,
    when,
)
from agentctx.testing import assistant, call, result, transcript, user
from agentctx.testing.laws import Scenario, what_fits_stays

pytestmark = pytest.mark.both_loops

FORMATS = ["openai-chat", "anthropic", "gemini", "bedrock"]
IDLE = [
    FitContextWindow(),
    RepairHistory(),
    TrimRounds(1_000),
    TruncateToolOutputs(max_tokens=1_000_000),
    ClearToolResults(keep_last=1_000),
    when(over(0.99), TrimRounds(1)),
]


def rounds(format_name, number, words=50):
    """A task and rounds with long outputs."""
    turns = [user("task")]
    for place in range(number):
        turns += [assistant(call(f"c{place}", "read", {"n": place})), result(f"c{place}", f"line {place} " * words)]
    return transcript(format_name, *turns)


def same_objects(one, other):
    """Whether two lists hold the very same objects."""
    return list(map(id, one)) == list(map(id, other))


@given(histories(), budgets(), stages())
def test_only_what_is_named_changes(both_loops, history, budget, stage):
    """A view holds the caller's own messages and what the report names, and is not cut a second time."""
    both_loops(what_fits_stays, Scenario.of(stage, history, budget))


@given(broken_histories(), budgets(), stages())
def test_only_what_is_named_changes_in_repair(both_loops, history, budget, stage):
    """Repair changes what the report names, and nothing else."""
    both_loops(what_fits_stays, Scenario.of(stage, history, budget))


@given(histories(), st.lists(st.sampled_from(IDLE), max_size=4))
def test_a_history_with_room_to_spare_comes_back_as_it_is(both_loops, history, idle):
    """Stages that have nothing to do hand back the caller's own messages, stateless and in a session."""

    async def main():
        pipeline = Pipeline(*idle, budget=Budget(10_000_000))
        view = await pipeline.prepare(history.messages, history.system, history.tools, history.format)
        assert same_objects(view.messages, history.messages)
        assert not view.report.acted
        session = pipeline.session(format=history.format)
        for _ in range(2):
            view = await session.prepare(history.messages, history.system, history.tools)
            assert same_objects(view.messages, history.messages)
            assert not view.report.acted

    both_loops(main)


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_exactly_at_the_limit_nothing_is_cut(format_name):
    """A request of exactly the limit's tokens is left alone; with one token less of room it is not."""
    messages = rounds(format_name, 8)
    size = count(messages, format=format_name)
    exact = await Pipeline(FitContextWindow(), budget=Budget(size)).prepare(messages, format=format_name)
    assert same_objects(exact.messages, messages)
    tight = await Pipeline(FitContextWindow(), budget=Budget(size - 1)).prepare(messages, format=format_name)
    assert not same_objects(tight.messages, messages)
    assert tight.report.tokens_after < size


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_session_leaves_alone_what_is_under_the_trigger(format_name):
    """Up to its trigger, a session sends the caller's own messages."""
    messages = rounds(format_name, 8)
    size = count(messages, format=format_name)
    session = Pipeline(FitContextWindow(), budget=Budget(10 * size, trigger=size, target=0.01)).session(
        format=format_name
    )
    assert same_objects((await session.prepare(messages)).messages, messages)


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_no_more_is_dropped_than_has_to_be(format_name):
    """With room for all but one token, one result is cut and all else stays."""
    messages = rounds(format_name, 8)
    size = count(messages, format=format_name)
    view = await Pipeline(FitContextWindow(), budget=Budget(size - 1)).prepare(messages, format=format_name)
    assert [place for place, (old, new) in enumerate(zip(messages, view.messages, strict=True)) if old is not new] == [
        2
    ]
    assert size - 30 < view.report.tokens_after < size


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_what_was_cut_once_is_not_cut_again(format_name):
    """A view that is prepared again by the same stages comes back as it is."""
    pipeline = Pipeline(TruncateToolOutputs(max_tokens=30), ClearToolResults(keep_last=2), TrimRounds(4))
    once = await pipeline.prepare(rounds(format_name, 8), format=format_name)
    again = await pipeline.prepare(once.messages, format=format_name)
    assert same_objects(once.messages, again.messages)
