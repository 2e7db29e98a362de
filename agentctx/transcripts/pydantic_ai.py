"""Pydantic AI's messages: what ``ModelMessagesTypeAdapter.dump_json`` and ``result.all_messages_json()`` write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentctx.core.message import Media, Native, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.errors import InvalidInput
from agentctx.providers.native import string_of
from agentctx.transcripts.costs import seconds, usage_of
from agentctx.transcripts.files import Fields, Read
from agentctx.transcripts.turns import Turns, arguments, from_url

NAME = "pydantic-ai (ModelMessages)"

_KINDS = {"image": "image", "audio": "audio", "video": "video"}


def read(messages: Sequence[Native], _beside: Fields) -> Read:
    """A list of requests and responses.

    Raises:
        InvalidInput: If one of them is neither; names its place.
    """
    turns = Turns()
    instructions = [said for one in messages if isinstance(one, Mapping) and (said := one.get("instructions"))]
    if instructions and isinstance(instructions[-1], str):
        turns.add("system", [Text(instructions[-1])])
    name = None
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("parts"), list):
            where = f"messages[{index}]"
            raise InvalidInput(where, "this is no message of pydantic-ai, as the ones before it are")
        name = name or message.get("conversation_id")
        parts = [part for part in message["parts"] if isinstance(part, Mapping)]
        if message.get("kind") == "response":
            turns.add("assistant", [part for each in parts if (part := _answer(each)) is not None])
            at = seconds(message.get("timestamp"))
            turns.bill(usage_of(message.get("usage")), string_of(message, "model_name"), at)
        else:
            _add_request(turns, parts)
    return Read(turns.recording(id=name if isinstance(name, str) else None))


def _add_request(turns: Turns, parts: Sequence[Fields]) -> None:
    """What was sent beside the history: results first, as each belongs to the answer before."""
    turns.add("tool", [_result(part) for part in parts if _is_result(part)])
    for part in parts:
        kind = part.get("part_kind")
        if kind == "system-prompt":
            turns.add("system", _said(part.get("content")))
        elif kind == "user-prompt" or (kind == "retry-prompt" and not _is_result(part)):
            turns.add("user", _said(part.get("content")))


def _is_result(part: Fields) -> bool:
    kind = part.get("part_kind")
    return kind == "tool-return" or (kind == "retry-prompt" and part.get("tool_name") is not None)


def _result(part: Fields) -> ToolResult:
    content = part.get("content")
    said = _said(content) if isinstance(content, (str, list)) else [Text(arguments(content))]
    failed = part.get("part_kind") == "retry-prompt" or part.get("outcome") == "failed"
    return ToolResult(str(part.get("tool_call_id")), tuple(said), string_of(part, "tool_name"), is_error=failed)


def _answer(part: Fields) -> Part | None:
    kind, content = part.get("part_kind"), part.get("content")
    if kind == "text":
        return Text(content) if isinstance(content, str) and content else None
    if kind == "thinking":
        signature = part.get("signature")
        signed = signature if isinstance(signature, str) and part.get("provider_name") == "anthropic" else None
        return Thinking(str(content), signed) if content else None
    if kind == "tool-call":
        return ToolCall(str(part.get("tool_call_id")), str(part.get("tool_name")), arguments(part.get("args")))
    return Text(arguments(part))  # what the provider's own tools did, and files that it made


def _said(content: Native) -> list[Part]:
    if isinstance(content, str):
        return [Text(content)] if content else []
    blocks = content if isinstance(content, list) else [content]
    parts = [Text(each) if isinstance(each, str) else _media(each) for each in blocks]
    return [part for part in parts if not isinstance(part, Text) or part.text]


def _media(value: Native) -> Part:
    if isinstance(value, Mapping) and isinstance(value.get("url"), str):
        return from_url(str(value.get("kind")).removesuffix("-url"), value["url"])
    if isinstance(value, Mapping) and value.get("kind") == "binary" and isinstance(value.get("data"), str):
        stated = str(value.get("media_type"))
        data = value["data"].replace("-", "+").replace("_", "/")  # it is written with the letters of addresses
        return Media(_KINDS.get(stated.partition("/")[0], "document"), stated, data)
    return Text(arguments(value))
