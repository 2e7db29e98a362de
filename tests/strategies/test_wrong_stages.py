"""A stage that gives what no stage may give is named, wherever it stands, and nothing is sent."""

import pytest

from agentctx import Budget, Context, ContextOverflow, Message, Pipeline, StageError, Text, first_of, over, when
from agentctx.testing import assistant, system, transcript, user

pytestmark = pytest.mark.anyio

MESSAGES = transcript("openai-chat", system("rules"), user("task"), assistant("one"), user("two"))


async def nothing(context, call):
    return None


async def natives(context, call):
    return context.with_messages(tuple(MESSAGES))


async def no_role(context, call):
    return context.with_messages((*context.messages, Message("wizard", (Text("hm"),))))


async def no_parts(context, call):
    return context.with_messages((*context.messages, Message("assistant", ("hm",))))


async def no_tools(context, call):
    return Context(context.messages, context.system, None)


PLACES = {
    "alone": lambda stage: stage,
    "when": lambda stage: when(over(1), stage),
    "first_of": first_of,
    "nested": Pipeline,
}
SAID = {
    nothing: "returned NoneType instead of a Context",
    natives: "messages[0] of what it returned is no Message, but dict",
    no_role: "messages[4].role of what it returned is 'wizard'",
    no_parts: "messages[4].parts[0] of what it returned is no part, but str",
    no_tools: "must be a tuple of tools",
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("stage", SAID)
async def test_what_is_no_context_is_the_stages_error(preparing, stage, place):
    """The error names the stage itself, and what is wrong with what it gave."""
    prepare = preparing(Pipeline(PLACES[place](stage), budget=Budget(1_000)), "openai-chat")
    with pytest.raises(StageError) as caught:
        await prepare(MESSAGES)
    assert caught.value.stage == stage.__name__
    assert SAID[stage] in caught.value.what


async def test_a_list_of_messages_is_as_good_as_a_tuple():
    """A stage may build the messages as a list; the context that others see holds a tuple."""

    async def listed(context, call):
        return context.with_messages(list(context.messages))

    view = await Pipeline(listed).prepare(MESSAGES, format="openai-chat")
    assert type(view.context.messages) is tuple


async def test_what_a_failed_stage_said_is_not_said_of_the_next_step():
    """Remarks of a stage that raised are gone with it."""
    failing = [True]

    async def once(context, call):
        if failing:
            call.remark("of the step that failed")
            raise RuntimeError(failing.pop())
        return context

    session = Pipeline(once).session(format="openai-chat")
    with pytest.raises(RuntimeError):
        await session.prepare(MESSAGES)
    assert not (await session.prepare(MESSAGES)).report.stages


async def test_an_overflow_names_messages_by_the_callers_indexes(preparing):
    """Rounds that went before the big message do not change what it is called."""
    turns = [turn for number in range(6) for turn in (user(f"{number} " * 30), assistant("ok " * 30))]
    messages = transcript("openai-chat", system("rules"), user("task"), *turns, user("big " * 900))
    with pytest.raises(ContextOverflow) as caught:
        await preparing(Pipeline(budget=Budget(400)), "openai-chat")(messages)
    assert (caught.value.biggest[0].place, caught.value.biggest[0].kind) == (f"messages[{len(messages) - 1}]", "user")
    with pytest.raises(ContextOverflow) as caught:
        await preparing(Pipeline(budget=Budget(100_000, request_bytes=2_000)), "openai-chat")(messages)
    assert caught.value.biggest[0].place == f"messages[{len(messages) - 1}]"


async def test_a_lost_message_is_named_by_the_callers_index():
    """A stage that comes after others have dropped messages is told the index in what was passed in."""

    async def drops_old(context, call):
        return context.with_messages((*context.messages[:2], *context.messages[4:]))

    async def drops_last(context, call):
        return context.with_messages(context.messages[:-1])

    messages = [*MESSAGES, *transcript("openai-chat", assistant("three"), user("four"))]
    with pytest.raises(StageError, match=r"dropped messages\[5\] \(user\)"):
        await Pipeline(drops_old, drops_last).prepare(messages, format="openai-chat")
