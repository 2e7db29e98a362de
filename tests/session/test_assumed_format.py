"""Sessions whose first messages could be in several formats."""

import json

import anyio
import pytest
from attrs import evolve
from histories import FORMATS, plans
from hypothesis import given, strategies as st
from plans import Say, Turn, write

from agentctx import Budget, FitContextWindow, InvalidInput, Pipeline, Session, count
from agentctx.testing import assistant, call, history, result
from agentctx.testing.fakes import FlakyError

pytestmark = pytest.mark.anyio

PIPELINE = Pipeline(FitContextWindow(), budget=Budget(4_000))
ROOMY = Pipeline(FitContextWindow(), budget=Budget(1_000_000))
PLAIN = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}, {"role": "user", "content": "go"}]


def worked(format_name):
    """The plain chat, and a round with a tool in this format."""
    turns = history(format_name, assistant("so", call("call_1", "look")), result("call_1", "there"))
    return [*PLAIN, *turns.messages]


async def test_a_plain_chat_needs_no_format():
    """A request that every format reads alike is prepared without a format, at once and in a session."""
    assert (await PIPELINE.prepare(PLAIN)).messages == PLAIN
    assert (await PIPELINE.session().prepare(PLAIN)).messages == PLAIN


@pytest.mark.parametrize("mode", ["full", "rolling", "loaded", "model"])
@pytest.mark.parametrize("format_name", ["openai-chat", "openai-responses", "anthropic"])
async def test_later_messages_tell_the_format(format_name, mode):
    """A session that began with what fits several formats goes on in the one that later messages are in."""
    session, messages = PIPELINE.session(), worked(format_name)
    view = await session.prepare(PLAIN[:1])
    view = await session.prepare(view.messages + PLAIN[1:] if mode == "rolling" else PLAIN)
    if mode == "loaded":
        session = Session.load(PIPELINE, json.loads(json.dumps(session.dump())))
    known = view.messages if mode == "rolling" else PLAIN
    model = "my-finetune" if mode == "model" else None
    view = await session.prepare([*known, *messages[len(PLAIN) :]], model=model)
    assert view.messages == messages
    assert view.report.tokens_after == count(messages, format=format_name, model=model)
    calls = [each for message in view.context.messages for each in message.calls]
    assert [each.name for each in calls] == ["look"]
    more = await session.prepare([*messages, {"role": "user", "content": "and then?"}])
    assert more.messages[:-1] == messages


PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
ODD = {
    "openai-chat": {"role": "user", "content": [PICTURE]},
    "openai-responses": {"role": "user", "content": [PICTURE]},
    "anthropic": {"role": "tool", "tool_call_id": "call_1", "content": "there"},
}


@pytest.mark.parametrize("mode", ["full", "rolling", "loaded"])
@pytest.mark.parametrize("format_name", sorted(ODD))
async def test_a_format_that_was_shown_is_not_in_question_again(format_name, mode):
    """Once later messages have told the format, what comes is taken as where the format was named from the start."""
    session, messages = PIPELINE.session(), worked(format_name)
    view = await session.prepare(PLAIN)
    view = await session.prepare([*(view.messages if mode == "rolling" else PLAIN), *messages[len(PLAIN) :]])
    if mode == "loaded":
        session = Session.load(PIPELINE, json.loads(json.dumps(session.dump())))
    named = PIPELINE.session(format=format_name)
    await named.prepare(messages)
    more = [*(view.messages if mode == "rolling" else messages), ODD[format_name]]
    assert await outcome(session, more) == await outcome(named, [*messages, ODD[format_name]])


async def outcome(session, messages):
    """What is sent, or why it is refused."""
    try:
        return (await session.prepare(messages)).messages
    except InvalidInput as error:
        return str(error)


@pytest.mark.parametrize("format_name", sorted(ODD))
async def test_a_step_that_fails_tells_no_format(format_name):
    """A step that fails leaves open which format the messages are in, also when its messages would have told it."""
    session = Pipeline(failing_at(len(PLAIN) + 1), budget=Budget(4_000)).session()
    await session.prepare(PLAIN)
    before = session.dump()
    with pytest.raises(FlakyError):
        await session.prepare(worked(format_name))
    assert session.dump() == before


def failing_at(length):
    """A stage that fails on so many messages and more."""

    async def fails(context, call):
        if len(context.messages) >= length:
            raise FlakyError
        return context

    return fails


MODELS = [
    "gpt-5.4",
    "o4-mini",
    "claude-sonnet-4-5",
    "anthropic/claude-sonnet-4.5",
    "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "litellm_proxy/claude-sonnet-4-5",
    "gemini-2.5-pro",
    "mistral-large-latest",
    "deepseek-chat",
    "amazon.nova-pro-v1:0",
    "my-finetune",
    None,
]


@given(st.data(), st.sampled_from(sorted(FORMATS)), st.sampled_from(MODELS), st.sampled_from(["full", "rolling"]))
def test_what_a_models_name_suggests_is_no_proof(data, format_name, model, mode):
    """Whatever the model is called, a conversation that begins with plain words is refused at no step of its own."""
    plan = data.draw(plans(format_name, max_rounds=4))
    turns = (Turn("user", (Say("Task."),)), *(turn for turn in plan.turns if turn.role != "system"))
    ends = [end for end in range(1, len(turns) + 1) if turns[end - 1].role in ("user", "results")]
    loaded, with_tools = data.draw(st.sampled_from([None, *ends])), data.draw(st.booleans())

    async def main():
        session = ROOMY.session(model=model)
        shown, known = [], 0
        for end in ends:
            written = write(evolve(plan, turns=turns[:end]), format_name)
            shown = written.messages if mode == "full" else [*shown, *written.messages[known:]]
            view = await session.prepare(shown, tools=written.tools if with_tools else None)
            shown, known = view.messages, len(written.messages)
            if end == loaded:
                session = Session.load(ROOMY, json.loads(json.dumps(session.dump())))

    anyio.run(main)
