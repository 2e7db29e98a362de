"""Every message and block type of the OpenAI SDK's chat definitions, read and written."""

import pytest
from openai.types.chat import (
    ChatCompletionContentPartParam,
    ChatCompletionMessage,
    ChatCompletionMessageParam,
    ChatCompletionMessageToolCallUnion,
    ChatCompletionMessageToolCallUnionParam,
)
from openai.types.chat.chat_completion_assistant_message_param import ContentArrayOfContentPart
from pydantic import TypeAdapter
from sdk_samples import made, members

from agentctx import Budget, Opaque, Pipeline, Text, TruncateToolOutputs, count, validate
from agentctx.formats.native import as_mapping
from agentctx.formats.registry import format_named

WIRE = format_named("openai-chat")
TAKEN = TypeAdapter(ChatCompletionMessageParam)


def cases(*unions):
    """A value of each class, with all its fields and with those that it needs."""
    kinds = [kind for union in unions for kind in members(union)]
    return [
        pytest.param(made(kind, full=full), id=f"{kind.__name__}-{'full' if full else 'needed'}")
        for kind in kinds
        for full in (False, True)
    ]


MESSAGES = cases(ChatCompletionMessageParam, ChatCompletionMessage)
PARTS = cases(ChatCompletionContentPartParam, ContentArrayOfContentPart)
CALLS = cases(ChatCompletionMessageToolCallUnion, ChatCompletionMessageToolCallUnionParam)


def test_all_roles_are_there():
    """The SDK's unions are found: all six roles, and blocks of every kind."""
    assert {as_mapping(case.values[0])["role"] for case in MESSAGES} == {
        "developer",
        "system",
        "user",
        "assistant",
        "tool",
        "function",
    }
    assert {case.values[0]["type"] for case in PARTS} >= {"text", "image_url", "input_audio", "file", "refusal"}


@pytest.mark.parametrize("native", MESSAGES)
def test_every_message_goes_back_as_it_came(native):
    """A message of the SDK goes back as itself, says what its dict says, is counted, and can be judged."""
    message = WIRE.read_message(native, 0)
    assert WIRE.write_message(message) is native
    assert WIRE.read_message(as_mapping(native), 0) == message
    assert count([native], format="openai-chat") > 3
    validate({"messages": [native]}, format="openai-chat")


@pytest.mark.parametrize("native", MESSAGES)
def test_every_edited_message_is_taken_by_the_sdk(native):
    """A message of which a text was changed is one that the SDK takes, and its other parts are as they were."""
    message = WIRE.read_message(native, 0)
    parts = tuple(Text("cut", source=part.source) if isinstance(part, Text) else part for part in message.parts)
    written = WIRE.write_message(message.with_parts(parts))
    TAKEN.validate_python(as_mapping(written))
    taken = WIRE.read_message(written, 0)
    others = [part for part in message.parts if not isinstance(part, Text)]
    assert [part for part in taken.parts if not isinstance(part, Text)] == others


@pytest.mark.parametrize("part", PARTS)
def test_every_part_stays_itself_beside_an_edit(part):
    """A content part of the SDK is the same object in a message of which another part was edited."""
    role = "assistant" if part["type"] == "refusal" else "user"
    native = {"role": role, "content": [part, {"type": "text", "text": "long"}]}
    message = WIRE.read_message(native, 0)
    assert WIRE.write_message(message) is native
    written = WIRE.write_message(message.with_parts((*message.parts[:-1], Text("cut"))))
    assert written["content"][0] is part
    assert written["content"][1]["text"] == "cut"
    TAKEN.validate_python(written)


def test_an_unknown_part_is_opaque():
    """A kind of part that the SDK does not know yet comes through."""
    block = {"type": "hologram", "hologram": {"of": "a cat"}}
    message = WIRE.read_message({"role": "user", "content": [block]}, 0)
    assert isinstance(message.parts[0], Opaque)
    assert WIRE.write_message(message.with_parts((*message.parts, Text("x"))))["content"][0] is block


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.anyio
async def test_objects_of_the_sdk_are_messages(preparing, call):
    """The SDK's own answer goes through a pipeline as itself; the result that is cut beside it is taken by the SDK."""
    plain = as_mapping(call)
    answer = ChatCompletionMessage(role="assistant", content=None, tool_calls=[plain])
    result = {"role": "tool", "tool_call_id": plain["id"], "content": "long " * 900}
    user = {"role": "user", "content": "go"}
    pipeline = Pipeline(TruncateToolOutputs(max_tokens=50), budget=Budget(100_000))
    view = await preparing(pipeline, "openai-chat")([user, answer, result, answer.model_copy(), result])
    assert view.messages[1] is answer
    assert len(view.messages[2]["content"]) < 1_000
    for message in view.messages:
        TAKEN.validate_python(as_mapping(message))
