"""Every law on messages of every type that the installed SDKs define: what a new release brings shows here."""

import json
from collections.abc import Mapping

import anyio
import botocore.session
import pytest
from anthropic.types import MessageParam
from anthropic.types.beta import BetaMessageParam
from google.genai import types as google
from hypothesis import given, strategies as st
from openai.types.chat import ChatCompletionMessage, ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam, ResponseOutputItem
from sdk_values import Words, values

from agentctx import Budget, FitContextWindow, InvalidInput, Pipeline, Session, convert, count, validate
from agentctx.formats.native import to_json
from agentctx.formats.registry import format_named

CONVERSE = botocore.session.Session().get_service_model("bedrock-runtime").operation_model("Converse").input_shape
KINDS = {
    "openai-chat": ChatCompletionMessageParam | ChatCompletionMessage,
    "openai-responses": ResponseInputItemParam | ResponseOutputItem,
    "anthropic": MessageParam | BetaMessageParam,
    "gemini": google.Content | google.ContentDict,
    "bedrock": CONVERSE.members["messages"].member,
}
ASKED = {
    "openai-chat": {"role": "user", "content": "Begin."},
    "openai-responses": {"role": "user", "content": "Begin."},
    "anthropic": {"role": "user", "content": "Begin."},
    "gemini": {"role": "user", "parts": [{"text": "Begin."}]},
    "bedrock": {"role": "user", "content": [{"text": "Begin."}]},
}
STRUCTURE = frozenset(
    {"type", "role", "id", "call_id", "tool_use_id", "tool_call_id", "toolUseId", "format", "media_type", "mimeType"}
    | {"mime_type", "cache_control", "prompt_cache_breakpoint", "cachePoint", "status", "phase", "logprobs", "detail"}
)
"""Keys that are spelled anew, or say how and not what."""
# google.genai has fields that only live sessions send, and roles of any spelling.
ROLES = {"gemini": ("user", "model")}


@st.composite
def messages(draw, format_name):
    """One to three messages of the SDK's types."""
    words, found = Words(), []
    for _ in range(draw(st.integers(1, 3))):
        message = draw(values(KINDS[format_name], words))
        if (roles := ROLES.get(format_name)) is not None:
            role = draw(st.sampled_from(roles))
            message = (
                {**message, "role": role} if isinstance(message, dict) else message.model_copy(update={"role": role})
            )
        found.append(message)
    return found


def readable(wire, natives):
    """The messages that can be read; what is refused is refused by name."""
    kept, named = [], []
    for native in natives:
        try:
            wire.read_message(native, 0)
        except InvalidInput as error:
            named.append(error.where.startswith("messages[0]"))
        else:
            kept.append(native)
    assert all(named)
    return kept


def texts(value, key=""):
    """Each word in a value, but for what says how."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            if name not in STRUCTURE:
                yield from texts(each, name)
    elif isinstance(value, list):
        for each in value:
            yield from texts(each, key)
    elif isinstance(value, str) and value.startswith("word"):
        yield value


def goes_back(wire, natives):
    """What nobody touched is the same object, and is counted within reason."""
    for native in natives:
        assert wire.write_message(wire.read_message(native, 0)) is native
    size = len(json.dumps(to_json(natives, "messages")))
    assert 0 < count(natives, format=wire.name) < size + 60_000
    validate({"messages": natives}, format=wire.name)


async def goes_on(wire, natives):
    """A session takes the messages, writes them down, and goes on from there as if nothing had happened."""
    pipeline = Pipeline(FitContextWindow(), budget=Budget(10_000_000))
    session = pipeline.session(format=wire.name)
    view = await session.prepare(natives)
    again = Session.load(pipeline, json.loads(json.dumps(session.dump())))
    assert to_json((await again.prepare(natives)).messages, "view") == to_json(view.messages, "view")
    assert again.dump()["record"]["out"] == session.dump()["record"]["out"]


def loses_nothing_silently(name, natives):
    """In every other format each word is there, or its message is said to have lost something."""
    for to in KINDS:
        if to == name:
            continue
        done = convert(natives, to, format=name)
        written = json.dumps(to_json([done.messages, done.system], "made"), ensure_ascii=False)
        told = {change.index for change in done.report.changes}
        for index, native in enumerate(natives):
            if index not in told:
                assert [word for word in texts(to_json(native, "given")) if word not in written] == [], (to, native)


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
def test_every_law_on_every_type(name, data):
    """Identity, counting, dump and load, and conversion hold for whatever the SDK's types can say."""
    wire = format_named(name)
    natives = [ASKED[name], *readable(wire, data.draw(messages(name))), ASKED[name]]
    assert wire.recognises({"messages": natives}) > 0
    goes_back(wire, natives)
    anyio.run(goes_on, wire, natives)
    loses_nothing_silently(name, natives)
