"""Items of the Responses API as values: one item, one message.

What an item holds beside words (a screenshot, the tools that a search found, an approval) stands beside the result
in the message, where no strategy rewrites it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentctx.core.message import Message, Tool
from agentctx.core.parts import Media, Opaque, Part, Text, Thinking, ToolCall
from agentctx.errors import InvalidInput
from agentctx.tokens.serialise import serialise
from agentctx.wire.native import as_mapping, mapping_or_none
from agentctx.wire.openai_responses.blocks import read_content, string
from agentctx.wire.openai_responses.kinds import (
    CALLS,
    REFERENCE,
    ROLES,
    SETTINGS,
    CallKind,
    caller_of,
    is_client_call,
    is_client_output,
    kind_of,
)
from agentctx.wire.openai_responses.outputs import read_output

NO_REFERENCES = (
    "an item_reference stands for an item that only the provider has, so that it can be neither counted nor kept with "
    "what belongs to it: put the item itself here (with store=False and include=['reasoning.encrypted_content'], "
    "response.output holds all that is needed)"
)


def read_message(native: Any, index: int) -> Message:  # noqa: ANN401 - a dict or any SDK's object
    """One native item as a value.

    Args:
        native: A dict, or an object of the SDK.
        index: Its index, for errors.

    Raises:
        InvalidInput: If it cannot be read; names ``messages[index]`` and the field.
    """
    item = native if type(native) is dict else as_mapping(native, f"messages[{index}]")
    kind = item.get("type")
    if (kind is None or kind == "message") and "role" in item:
        role = item["role"]
        if role not in ROLES:
            raise InvalidInput(
                where=f"messages[{index}].role", what=f"expected one of {', '.join(ROLES)}, got {role!r}"
            )
        content = item.get("content")
        where = f"messages[{index}].content"
        parts = (Text(content, source=content),) if isinstance(content, str) else read_content(content, where)
        return Message.read(role, parts, native)
    if kind == "function_call":
        role, parts = "assistant", (read_call(native, item, CALLS["function_call"], index),)
    elif kind == "function_call_output":
        role, parts = "tool", read_output(native, item, "function_call_output", index)
    else:
        role, parts = _other(native, item, index)
    return Message.read(role, parts, native)


def _other(native: Any, item: Mapping[str, Any], index: int) -> tuple[str, tuple[Part, ...]]:  # noqa: ANN401
    kind = kind_of(item)
    if kind == REFERENCE:
        raise InvalidInput(where=f"messages[{index}]", what=NO_REFERENCES)
    if not kind:
        raise InvalidInput(
            where=f"messages[{index}].type", what=f"expected an item's type as a string, got {item.get('type')!r}"
        )
    if kind == "message":
        raise InvalidInput(where=f"messages[{index}].role", what="missing")
    if kind == "reasoning":
        return "assistant", (read_reasoning(item, native),)
    if is_client_call(kind, item):
        return "assistant", (read_call(native, item, CALLS[kind], index),)
    if is_client_output(kind, item):
        return "tool", read_output(native, item, kind, index)
    if kind == "image_generation_call":
        return "assistant", _picture(native, item)
    if kind in SETTINGS:
        return "developer", (Opaque(kind, item, source=native),)
    role = item.get("role")
    return (role if role in ROLES else "assistant"), (_opaque(native, item, kind),)


def read_reasoning(item: Mapping[str, Any], native: Any) -> Thinking:  # noqa: ANN401 - as read_message
    """A reasoning item; its id is its signature, since the provider ties it to the items that follow it."""
    texts = [text for key in ("summary", "content") for text in _texts(item.get(key))]
    return Thinking("\n".join(texts), string(item, "id"), string(item, "encrypted_content"), source=native)


def _texts(blocks: object) -> list[str]:
    if not isinstance(blocks, (list, tuple)):
        return []
    return [text for block in blocks if (text := string(mapping_or_none(block) or {}, "text")) is not None]


def read_call(native: Any, item: Mapping[str, Any], kind: CallKind, index: int) -> ToolCall:  # noqa: ANN401
    """A call that the client runs; what a built-in tool shall do stands in its arguments as JSON.

    Raises:
        InvalidInput: If its id or name is no string, or a function's arguments are none.
    """
    identity, name = item.get(kind.id_key), kind.tool or item.get("name")
    key = arguments_key(item, kind)
    arguments = item.get(key)
    if kind.tool is not None and not isinstance(arguments, str):
        arguments = serialise(arguments)
    if isinstance(identity, str) and isinstance(name, str) and isinstance(arguments, str):
        asks = kind.output == "mcp_approval_response"
        return ToolCall(identity, name, arguments, source=native, optional=asks, caller=caller_of(item))
    found = ((kind.id_key, identity), ("name", name), (key, arguments))
    field, value = next(pair for pair in found if not isinstance(pair[1], str))
    raise InvalidInput(where=f"messages[{index}].{field}", what=_expected(value))


def arguments_key(item: Mapping[str, Any], kind: CallKind) -> str:
    """The key of a call that says what to do."""
    if len(kind.arguments) == 1:
        return kind.arguments[0]
    return next((key for key in kind.arguments if item.get(key) is not None), kind.arguments[0])


def _expected(value: object) -> str:
    return "missing" if value is None else f"expected a string, got {value!r}"


def _picture(native: Any, item: Mapping[str, Any]) -> tuple[Part, ...]:  # noqa: ANN401 - as read_message
    """A generated picture counts as a picture, and not as the characters that carry it."""
    result = string(item, "result")
    if not result:
        return (Opaque("image_generation_call", item, source=native),)
    rest = {key: value for key, value in item.items() if key != "result"}
    made = Media("image", f"image/{string(item, 'output_format') or 'png'}", result, source=native)
    return Opaque("image_generation_call", rest, source=native), made


def _opaque(native: Any, item: Mapping[str, Any], kind: str) -> Opaque:  # noqa: ANN401 - as read_message
    """An item that the provider made, or that nobody knows. Programs and tool searches come in two halves."""
    opens = string(item, "call_id") if kind in {"program", "tool_search_call"} else None
    closes = string(item, "call_id") if kind in {"program_output", "tool_search_output"} else None
    return Opaque(kind, item, opens, closes, source=native, caller=caller_of(item))


def read_system(native: Any) -> Message | None:  # noqa: ANN401 - a string, blocks or messages
    """The ``instructions`` of a request: a string, or (as in a response) a list of messages; None when there are none.

    Raises:
        InvalidInput: If they are anything else.
    """
    if native is None:
        return None
    if not isinstance(native, (str, list, tuple)):
        raise InvalidInput("system", f"expected instructions as a string, got {type(native).__name__}")
    if isinstance(native, str):
        parts = read_content(native, "system")
    else:
        found = [_instruction(each, place) for place, each in enumerate(native)]
        parts = tuple(part for one in found for part in one)
    return Message.read("system", parts, native)


def _instruction(native: Any, place: int) -> tuple[Part, ...]:  # noqa: ANN401 - a message or a block
    fields = as_mapping(native, f"system[{place}]")
    return read_message(native, place).parts if "role" in fields else read_content([native], "system")


def read_tools(native: Sequence[Any] | None) -> tuple[Tool, ...]:
    """The native tool definitions as values; a hosted tool has an empty name and is counted by its definition.

    Raises:
        InvalidInput: If one is no object, or a function has no name.
    """
    return tuple(_tool(tool, index) for index, tool in enumerate(native or ()))


def _tool(tool: Any, index: int) -> Tool:  # noqa: ANN401 - a dict or any SDK's object
    data = as_mapping(tool, f"tools[{index}]")
    kind = data.get("type", "function")
    if kind not in ("function", "custom"):
        return Tool("", source=tool)
    body = mapping_or_none(data.get(kind)) or data  # Chat's form, where the definition is one level deeper
    if (name := string(body, "name")) is None:
        raise InvalidInput(where=f"tools[{index}].name", what=_expected(body.get("name")))
    # A custom tool has no schema; the grammar of its input is what the model is told instead.
    keys = ("parameters", "inputSchema", "format")
    schema = next((found for key in keys if (found := mapping_or_none(body.get(key))) is not None), None)
    return Tool(name, string(body, "description") or "", schema, source=tool)
