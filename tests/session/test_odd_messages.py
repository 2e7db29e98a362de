"""Messages that nobody expects: that contain themselves, that hold SDK objects, that are subclasses of dict."""

import json
from collections import OrderedDict

import pytest
from openai.types.chat import ChatCompletionContentPartTextParam, ChatCompletionMessage

from agentctx import InvalidInput, Pipeline, Session, count, validate
from agentctx.json_text import characters, serialise

pytestmark = pytest.mark.anyio
ENDLESS = []
ENDLESS.append(ENDLESS)


def deep(levels):
    """So many lists, one in the other."""
    value = "the end"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("value", [ENDLESS, deep(5_000)], ids=["endless", "deep"])
async def test_a_message_that_cannot_be_looked_at_is_named(value):
    """A session says which message contains itself or is too deep, and goes on with the next."""
    session = Pipeline().session(format="openai-chat")
    messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hm", "odd": value}]
    with pytest.raises(InvalidInput) as caught:
        await session.prepare(messages)
    assert caught.value.where == "messages[1]"
    assert (await session.prepare(messages[:1])).messages == messages[:1]


@pytest.mark.parametrize("value", [ENDLESS, deep(5_000)], ids=["endless", "deep"])
async def test_counting_and_checking_end(value):
    """Whatever a block holds, it has a size, and checking a request comes to an end."""
    messages = [{"role": "user", "content": [{"type": "odd", "value": value}]}]
    for name in ("openai-chat", "anthropic"):
        assert count(messages, format=name) > 0
        validate({"messages": messages}, format=name)
    assert characters(value) > 0
    assert serialise(value)


async def test_a_dict_of_another_kind_is_watched_too():
    """An edit in place of an OrderedDict is noticed."""
    messages = [OrderedDict(role="user", content="hello"), {"role": "assistant", "content": "hi"}]
    session = Pipeline().session(format="openai-chat")
    await session.prepare(messages)
    messages[0]["content"] = "goodbye"
    view = await session.prepare([*messages, {"role": "user", "content": "more"}])
    assert view.report.first_changed == 0
    assert view.report.tokens_before == count([*messages, {"role": "user", "content": "more"}], format="openai-chat")


async def test_sdk_objects_within_a_dict_are_watched_and_dumped():
    """A block that is an SDK's object is noticed when it is edited in place, and is plain JSON in a dump."""
    block = ChatCompletionMessage(role="assistant", content="let me see")
    said = [ChatCompletionContentPartTextParam(type="text", text="a"), {"type": "odd", "held": block}]
    messages = [{"role": "system", "content": "rules"}, {"role": "user", "content": said}]
    pipeline = Pipeline()
    session = pipeline.session(format="openai-chat")
    await session.prepare(messages)
    loaded = Session.load(pipeline, json.loads(json.dumps(session.dump())))
    assert (await loaded.prepare(messages)).report.first_changed is None
    block.content = "let me see something else"
    assert (await session.prepare(messages)).report.first_changed == 1


@pytest.mark.parametrize(
    ("messages", "where"),
    [
        ([{"role": "user", "content": "x"}, {"role": "wizard", "content": "x"}], "messages[1].role"),
        ([{"role": "user", "content": "x"}, 5], "messages[1]"),
        ([{"role": "user", "content": "x"}, {"content": "x"}], "messages[1]"),
        ([{"role": 3, "content": "x"}], "messages[0].role"),
    ],
)
async def test_what_is_in_no_format_is_named_by_its_place(messages, where):
    """Also when no format was named, the error says which message is in none."""
    with pytest.raises(InvalidInput) as caught:
        count(messages)
    assert caught.value.where == where
    with pytest.raises(InvalidInput) as caught:
        await Pipeline().session().prepare(messages)
    assert caught.value.where == where
