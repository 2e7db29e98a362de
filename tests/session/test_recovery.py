"""After an overflow: one smaller view, made to the limit that the provider named, once a step."""

from __future__ import annotations

import json

import anyio
import pytest
from histories import FORMATS

from agentctx import Budget, FitContextWindow, Pipeline, Session, TruncateToolOutputs, validate
from agentctx.testing import Recorder, assistant, call, result, system, transcript, user
from agentctx.tokens import FixedCounter

pytestmark = pytest.mark.anyio


def messages_of(rounds, words=300):
    """A task and rounds of one call each."""
    turns = [system("rules"), user("task")]
    for number in range(rounds):
        turns += [assistant(call(f"c{number}", "read")), result(f"c{number}", f"word{number} " * words)]
    return transcript("openai-chat", *turns)


def pipeline(window=100_000, reserve=0, **options):
    """Stages that can make anything smaller."""
    return Pipeline(TruncateToolOutputs(2_000), FitContextWindow(), budget=Budget(window, reserve), **options)


class ProviderError(Exception):
    """What a client raises."""


def too_long(requested, limit):
    """As Anthropic says it: the prompt alone, and the most it may have."""
    return ProviderError(f"prompt is too long: {requested} tokens > {limit} maximum")


async def sent(session, messages):
    """The size of the view of a step, in tokens."""
    return (await session.prepare(messages)).report.tokens_after


async def test_the_limit_less_the_reserve_is_kept():
    """The smaller view leaves the room for the answer free within the limit that the error named."""
    session = pipeline(reserve=5_000).session(format="openai-chat")
    size = await sent(session, messages_of(60))
    view = await session.recover(too_long(size, 20_000))
    assert view.report.tokens_after <= 15_000
    assert session.budget.limit <= 15_000


async def test_a_limit_in_the_words_alone_is_kept_in_the_providers_own_tokens():
    """Where only the limit is named, it is translated by what usage has taught of the provider's count."""
    session = pipeline().session(format="openai-chat")
    messages = messages_of(60)
    for length in (20, 30, 40, 50, 60):
        session.record({"prompt_tokens": round(1.5 * await sent(session, messages[: 2 * length]))})
    size = await sent(session, messages)
    limit = round(1.5 * size) - 100
    view = await session.recover(ProviderError(f"This model's maximum context length is {limit} tokens."))
    assert 1.5 * view.report.tokens_after <= limit


@pytest.mark.parametrize(
    ("limit", "answer"), [(20_000, 4_000), (20_000, 12_000), (12_000, 500)], ids=["some", "much", "little"]
)
async def test_a_total_with_the_answer_is_taken_apart(limit, answer):
    """Where the provider counts prompt and answer together, the smaller prompt fits beside the same answer."""
    session = pipeline().session(format="openai-chat")
    size = await sent(session, messages_of(60))
    error = ProviderError(
        f"This model's maximum context length is {limit} tokens. However, you requested {size + answer} tokens "
        f"({size} in the messages, {answer} in the completion)."
    )
    view = await session.recover(error)
    assert view.report.tokens_after + answer <= limit


async def test_a_limit_above_what_was_sent_still_shrinks():
    """When our count was far too low, the named limit is larger than what we sent by it: the view is smaller still."""
    session = pipeline(window=1_000_000).session(format="openai-chat")
    size = await sent(session, messages_of(60))
    view = await session.recover(ProviderError(f"input token count exceeds the maximum number of tokens {size * 4}"))
    assert view.report.tokens_after < size


@pytest.mark.parametrize("limit", [0, 1, 5])
async def test_an_absurd_limit_spoils_nothing(limit):
    """A limit that nothing fits gives no view, and the session goes on as if it had not been named."""
    session = pipeline().session(format="openai-chat")
    messages = messages_of(60)
    size = await sent(session, messages[:-2])
    budget = session.budget
    assert await session.recover(too_long(size, limit)) is None
    assert session.budget == budget
    assert await sent(session, messages) > size


async def test_nothing_but_an_overflow_is_recovered():
    """None, another error, and an error before the first step give no view."""
    session = pipeline().session(format="openai-chat")
    assert await session.recover(too_long(9, 8)) is None
    await session.prepare(messages_of(5))
    assert await session.recover(TimeoutError("timed out")) is None
    assert await session.recover(ProviderError("429 Too Many Requests")) is None


async def test_it_is_done_once_a_step_and_again_at_the_next():
    """A second overflow in a row gives no view; after the next ``prepare`` one is made again, smaller still."""
    session = pipeline().session(format="openai-chat")
    messages = messages_of(60)
    size = await sent(session, messages[:-4])
    first = await session.recover(too_long(size, 20_000))
    assert await session.recover(too_long(first.report.tokens_after, 19_000)) is None
    size = await sent(session, messages)
    again = await session.recover(too_long(size, 3_000))
    assert again.report.tokens_after < min(size, 3_000)


@pytest.mark.both_loops
async def test_listeners_hear_of_a_view_that_was_made_smaller():
    """What an overflow had cut is told as every compaction is; an overflow that cuts nothing tells nothing."""
    told = Recorder()
    session = pipeline().session(format="openai-chat", id="main", on_compact=told)
    size = await sent(session, messages_of(60))
    before = len(told.events)
    view = await session.recover(too_long(size, 20_000))
    assert [event.session for event in told.events[before:]] == ["main"]
    assert told.events[-1].tokens_after == view.report.tokens_after
    assert await session.recover(too_long(20_000, 19_000)) is None
    assert len(told.events) == before + 1


@pytest.mark.both_loops
async def test_of_two_tasks_that_failed_one_gets_a_view():
    """When two tasks recover the same step at once, it is made smaller once."""
    session = pipeline().session(format="openai-chat")
    size = await sent(session, messages_of(60))
    views = []

    async def recover():
        views.append(await session.recover(too_long(size, 20_000)))

    async with anyio.create_task_group() as group:
        group.start_soon(recover)
        group.start_soon(recover)
    assert sorted(view is None for view in views) == [False, True]


async def test_what_an_overflow_taught_outlives_a_restart():
    """The limit is part of the state; the loaded session keeps it, and recovers its own steps."""
    first = pipeline().session(format="openai-chat")
    messages = messages_of(60)
    size = await sent(first, messages[:-2])
    await first.recover(too_long(size, 10_000))
    loaded = Session.load(pipeline(), json.loads(json.dumps(first.dump())))
    assert loaded.budget == first.budget
    assert await loaded.recover(too_long(size, 10_000)) is None
    size = await sent(loaded, messages)
    assert size <= 10_000
    assert (await loaded.recover(too_long(size, 1_500))).report.tokens_after < 1_500


async def test_a_model_of_the_table_and_no_budget_at_all():
    """The named limit holds where the budget came from the model's window, and where there was none."""
    for stages, model in (((FitContextWindow(),), "gpt-5.4"), ((TruncateToolOutputs(500),), None)):
        session = Pipeline(*stages).session(format="openai-chat", model=model)
        size = await sent(session, messages_of(60))
        view = await session.recover(too_long(size, 10_000))
        assert view.report.tokens_after <= 10_000


async def test_what_fits_no_smaller_is_left_to_the_caller():
    """Where all must stay there is no view, and the message that was too large is still sent next time."""
    session = Pipeline(FitContextWindow(), budget=Budget(1_000), counter=FixedCounter(10)).session(format="openai-chat")
    messages = transcript("openai-chat", system("rules"), user("task"))
    await session.prepare(messages)
    assert await session.recover(too_long(20, 10)) is None
    assert (await session.prepare(messages)).messages == messages


async def test_a_tokens_per_minute_limit_is_an_overflow_when_it_can_never_fit():
    """A request larger than the whole allowance is made smaller; one that came too soon is not."""
    session = pipeline().session(format="openai-chat")
    size = await sent(session, messages_of(60))
    soon = f"Rate limit reached on tokens per min (TPM): Limit {size * 2}, Used {size * 2}, Requested {size}"
    assert await session.recover(ProviderError(soon)) is None
    never = f"Request too large on tokens per min (TPM): Limit {size // 2}, Requested {size}"
    assert (await session.recover(ProviderError(never))).report.tokens_after <= size // 2


@pytest.mark.parametrize("dumps", [1, 2])
async def test_a_loaded_session_recovers_the_step_that_was_the_last(dumps):
    """Directly after a load there is a smaller view, with system prompt and tools; then the history goes on."""
    tools = [{"name": "read", "input_schema": {"type": "object"}}]
    turns = [turn for n in range(40) for turn in (assistant(call(f"c{n}", "read")), result(f"c{n}", f"word{n} " * 300))]
    messages = transcript("anthropic", user("task"), *turns)
    plan = pipeline()
    first = plan.session(format="anthropic")
    size = (await first.prepare(messages[:-2], "be good", tools)).report.tokens_after
    loaded = first
    for _ in range(dumps):
        loaded = Session.load(plan, json.loads(json.dumps(loaded.dump())))
    expected, view = await first.recover(too_long(size, 6_000)), await loaded.recover(too_long(size, 6_000))
    assert view.messages == expected.messages
    assert (view.system, view.tools) == ("be good", tools)
    assert view.report.tokens_after == expected.report.tokens_after <= 6_000
    assert await loaded.recover(too_long(6_000, 5_000)) is None
    later = [await session.prepare(messages, "be good", tools) for session in (first, loaded)]
    assert later[0].messages == later[1].messages
    assert later[1].messages[-1] is messages[-1]
    assert later[1].report.prefix_tokens == later[0].report.prefix_tokens > 0


async def test_a_loaded_session_whose_tools_no_json_holds_leaves_it_to_the_caller():
    """Where the state could not hold what was sent, there is no smaller view, and nothing else is lost."""
    plan = pipeline()
    session = plan.session(format="anthropic")
    messages = transcript("anthropic", user("task"), assistant("word " * 900), user("more"))
    odd = [{"name": "f", "input_schema": {}, "odd": {1, 2}}]
    size = (await session.prepare(messages, None, odd)).report.tokens_after
    loaded = Session.load(plan, json.loads(json.dumps(session.dump())))
    assert await loaded.recover(too_long(size, size // 2)) is None
    assert (await loaded.prepare(messages, None, odd)).messages == messages


@pytest.mark.parametrize("mode", ["full", "written back"])
@pytest.mark.parametrize("way", ["on", "back", "loaded", "back and loaded"])
@pytest.mark.parametrize("format_name", FORMATS)
async def test_recovery_whatever_way_the_caller_went(format_name, way, mode):
    """After going on or back, after a load, with views written back: a smaller view, legal, of what is now."""
    turns = [user("task")]
    for number in range(30):
        turns += [assistant(call(f"c{number}", "read")), result(f"c{number}", f"word{number} " * 300)]
    messages, plan = transcript(format_name, *turns, assistant("so"), user("a wish")), pipeline()
    session, passed, given, at = plan.session(format=format_name), [], [], 0
    for stop in (1, len(messages) // 2, len(messages)):
        given, at = [*given, *messages[at:stop]], stop
        passed.append(given)
        view = await session.prepare(given)
        given = list(view.messages) if mode == "written back" else given
    if way.startswith("back"):
        view = await session.prepare(passed[1])
    if way.endswith("loaded"):
        session = Session.load(plan, json.loads(json.dumps(session.dump())))
    size = view.report.tokens_after
    smaller = await session.recover(too_long(size, size // 2))
    assert smaller.report.tokens_after <= size // 2
    assert smaller.report.messages_before == view.report.messages_before
    key = {"gemini": "contents", "openai-responses": "input"}.get(format_name, "messages")
    found = validate({key: smaller.messages}, format=format_name)
    assert [str(each) for each in found if each.severity == "error"] == []
