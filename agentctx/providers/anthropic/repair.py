"""What the Anthropic Messages API refuses and can be repaired within one message, without knowing any other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from attrs import evolve

from agentctx.core.message import CONTROL, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.core.pace import paced
from agentctx.providers.native import cleaned, fields_of, mapping_or_none, put_results_first, same, spoken, with_object
from agentctx.wire_format import Repaired, Spelling

IDS = Spelling("a-zA-Z0-9_-", 64)
"""How an id is spelled that has to be made anew; the provider takes longer ones."""

_SPELLED = "the id of a call is spelled as the provider takes it"
_MARKED = "a cache marker cannot stand on reasoning"
_TAKES = re.compile("[a-zA-Z0-9_-]+")
_SERVER_TAKES = re.compile("srvtoolu_[a-zA-Z0-9_]+")


def repair(messages: Sequence[Message], _earlier: object = None) -> list[Repaired]:
    """The messages that cannot be sent as they are, each with what to send instead."""
    found: list[Repaired] = []
    for index, message in paced(enumerate(messages)):
        why: list[str] = []
        parts = _repair_parts(message, why)
        if index == len(messages) - 1 and message.role == "assistant":
            parts = _without_trailing_blanks(parts, why)
        if not parts and (message.parts or message.role != "system"):  # a system message may hold settings only
            found.append((index, None, "empty content"))
        elif parts is not message.parts:
            found.append((index, message.with_parts(parts), "; ".join(dict.fromkeys(why))))
    return found


def _repair_parts(message: Message, why: list[str]) -> tuple[Part, ...]:
    """The parts to send; the very tuple when they are fine."""
    parts = message.parts
    repaired = [better for part in parts if (better := _repair_part(part, why)) is not None]
    if message.role != "assistant":
        put_results_first(repaired, why)
    return parts if same(repaired, parts) else tuple(repaired)


def _without_trailing_blanks(parts: tuple[Part, ...], why: list[str]) -> tuple[Part, ...]:
    """The last words of the transcript, when they are the model's own, must not end in blanks."""
    last = parts[-1] if parts else None
    if not isinstance(last, Text) or (text := last.text.rstrip()) == last.text or not text:
        return parts
    why.append("trailing blanks removed")
    return (*parts[:-1], evolve(last, text=text))


def _repair_part(part: Part, why: list[str]) -> Part | None:
    """The part to send instead of this one, itself when it is fine, None when it must not be sent."""
    if isinstance(part, Text):
        return spoken(part, why)
    if isinstance(part, ToolResult):
        return _repair_result(part, why)
    if isinstance(part, ToolCall):
        return _repair_call(part, why)
    if isinstance(part, Opaque):
        return _repair_server(part, why)
    return _unmarked(part, why) if isinstance(part, Thinking) else part


def _repair_call(part: ToolCall, why: list[str]) -> ToolCall:
    call, call_id = with_object(part, why), _spelled(part.id, why)
    caller, new = _repair_caller(part, why)
    if new:
        call = evolve(call, caller=caller, source={**fields_of(call.source), **new})
    return call if call_id == part.id else evolve(call, id=call_id)


def _repair_server(part: Opaque, why: list[str]) -> Opaque:
    """A server's call, or its result, under an id that the provider takes."""
    spell = _spelled if part.kind.startswith("mcp_") else _spelled_for_server
    opens = None if part.opens is None else spell(part.opens, why)
    closes = None if part.closes is None else spell(part.closes, why)
    caller, new = _repair_caller(part, why)
    if (opens, closes, caller) == (part.opens, part.closes, part.caller):
        return part
    if opens != part.opens:
        new["id"] = opens
    if closes != part.closes:
        new["tool_use_id"] = closes
    block = {**fields_of(part.source), **new}
    return evolve(part, opens=opens, closes=closes, caller=caller, data=block, source=block)


def _repair_caller(part: ToolCall | Opaque, why: list[str]) -> tuple[str | None, dict[str, Any]]:
    """The id of the server's call that made what the part holds, and the fields that say so when it is another."""
    if part.caller is None or (name := _spelled_for_server(part.caller, why)) == part.caller:
        return part.caller, {}
    return name, {"caller": {**fields_of(fields_of(part.source).get("caller")), "tool_id": name}}


def _spelled_for_server(call_id: str, why: list[str]) -> str:
    """The id of a server's call, or one that is made of it alone, so that all who name it still match."""
    if _SERVER_TAKES.fullmatch(call_id):
        return call_id
    why.append(_SPELLED)
    return "srvtoolu_" + sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _spelled(call_id: str, why: list[str]) -> str:
    """The id, or one that is made of it alone, so that call and result still match."""
    if _TAKES.fullmatch(call_id):
        return call_id
    why.append(_SPELLED)
    return IDS.respelled(call_id)


def _unmarked(part: Thinking, why: list[str]) -> Thinking:
    """Reasoning without the marker on it, which its signature does not cover."""
    block = part.source if type(part.source) is dict else mapping_or_none(part.source)
    if block is None or block.get(CONTROL) is None:
        return part
    why.append(_MARKED)
    return evolve(part, source={key: value for key, value in block.items() if key != CONTROL})


def _repair_result(part: ToolResult, why: list[str]) -> ToolResult:
    as_string = _written_as_string(part)
    content: list[Part] = []
    for item in part.content:
        better = cleaned(item, why) if as_string and isinstance(item, Text) else _repair_part(item, why)
        if better is not None:
            content.append(better)
    call_id = _spelled(part.call_id, why)
    if same(content, part.content) and call_id == part.call_id:
        return part
    return evolve(part, call_id=call_id, content=tuple(content))


def _written_as_string(part: ToolResult) -> bool:
    """Whether the content goes out as a string, which may be blank, rather than as blocks, which may not."""
    if len(part.content) != 1:
        return False
    block = mapping_or_none(part.source)
    return block is None or not isinstance(block.get("content"), (list, tuple))
