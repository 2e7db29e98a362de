"""Values as items of the Responses API: untouched items as they came, the rest of edited ones kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agentctx.core.message import Message
from agentctx.core.parts import Media, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.errors import InvalidInput
from agentctx.wire.native import fields_of
from agentctx.wire.openai_responses.blocks import write_content
from agentctx.wire.openai_responses.kinds import CALLS
from agentctx.wire.openai_responses.outputs import write_output
from agentctx.wire.openai_responses.read import arguments_key, read_call

_PARTS = "message.parts"


def write_message(message: Message) -> Any:  # noqa: ANN401 - the caller's own object, or a new dict
    """A message as an item: the payload it was read from when nobody touched it.

    Raises:
        InvalidInput: If it says more than one item can hold, for example words and a call.
    """
    if message.as_read:
        return message.source
    item = fields_of(message.source)
    if message.role == "tool":
        return _answer(message, item)
    parts = message.parts
    if len(parts) == 1 and isinstance(part := parts[0], ToolCall):
        return _call(part, fields_of(part.source) or item)
    if parts and all(isinstance(part, Thinking) for part in parts):
        return _reasoning(parts, message.source)
    if item.get("type", "message") != "message":
        return _unknown(parts, item, message.source)
    return _message(message, item)


def _message(message: Message, item: Mapping[str, Any]) -> dict[str, Any]:
    wrong = next((part for part in message.parts if isinstance(part, (Thinking, ToolCall, ToolResult))), None)
    if wrong is not None:
        raise InvalidInput(_PARTS, f"a {type(wrong).__name__} is an item of its own: give it a message of its own")
    text_type = "output_text" if message.role == "assistant" else "input_text"
    content = write_content(message.parts, item.get("content"), text_type)
    return {**item, "role": message.role, "content": content}


def _answer(message: Message, item: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a native item or a new dict
    if len(message.parts) == 1 and isinstance(part := message.parts[0], Opaque):
        return part.data if part.source is None else part.source
    return write_output(message.parts, item)


def _reasoning(parts: tuple[Part, ...], source: object) -> Any:  # noqa: ANN401 - a native item or a new dict
    """Reasoning is never edited: it goes back as it came."""
    part = parts[0]
    if len(parts) != 1 or not isinstance(part, Thinking):
        raise InvalidInput(_PARTS, "each piece of reasoning is an item of its own: give it a message of its own")
    if part.source is not None or source is not None:
        return source if part.source is None else part.source
    summary = [{"type": "summary_text", "text": part.text}] if part.text else []
    made: dict[str, Any] = {"type": "reasoning", "summary": summary}
    if part.signature is not None:
        made["id"] = part.signature
    if part.encrypted is not None:
        made["encrypted_content"] = part.encrypted
    return made


def _call(call: ToolCall, item: Mapping[str, Any]) -> dict[str, Any]:
    kind = CALLS.get(item.get("type", ""), CALLS["function_call"])
    native = {**item, "type": kind.call, kind.id_key: call.id}
    if kind.tool is None:
        native["name"] = call.name
    if not item or read_call(item, item, kind, 0).arguments != call.arguments:
        key = arguments_key(item, kind)
        old = item.get(key)
        native[key] = call.arguments if kind.tool is None or isinstance(old, str) else _parsed(call.arguments, old)
    return native


def _parsed(arguments: str, old: object) -> Any:  # noqa: ANN401 - any JSON value
    """The JSON value that the arguments of a built-in tool are; the old one when they are none."""
    try:
        return json.loads(arguments)
    except ValueError:
        return old


def _unknown(parts: tuple[Part, ...], item: dict[str, Any], source: object) -> Any:  # noqa: ANN401 - as it came
    """An item that we do not write: as it came. A generated picture may be taken out, or another may be put in."""
    if item.get("type") != "image_generation_call":
        return source
    picture = next((part for part in parts if isinstance(part, Media)), None)
    words = "\n".join(part.text for part in parts if isinstance(part, Text))
    if picture is None and words:
        return {"role": "assistant", "content": words}
    if picture is None or picture.data == item.get("result"):
        return {key: value for key, value in item.items() if picture is not None or key != "result"}
    return {**item, "result": picture.data}
