"""Sessions whose first messages could be in several formats."""

import json

import pytest

from agentctx import Budget, FitContextWindow, Pipeline, Session, count
from agentctx.testing import assistant, call, history, result

pytestmark = pytest.mark.anyio

PIPELINE = Pipeline(FitContextWindow(), budget=Budget(4_000))
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
