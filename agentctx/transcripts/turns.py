"""What frameworks keep of a conversation, as a provider takes it: Chat Completions, or Anthropic where it is signed.

A framework's messages are no provider's. They are read as values first; whether there is signed reasoning, which only
Anthropic's shape can hold, shows when all of them are read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import define, evolve, field, frozen

from agentctx.core.message import Media, Message, Native, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.economics.prices import Usage
from agentctx.models.table import find
from agentctx.providers.registry import format_named
from agentctx.replay import Billed, Recording
from agentctx.transcripts.files import Fields

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,(.*)", re.DOTALL)
_SPOKEN = ("text", "input_text", "output_text")
_MEDIA = ("image", "image_url", "input_image", "audio", "input_audio", "video", "document", "file", "media")


@frozen
class _Bill:
    """What was billed for an answer, by the place of the answer among the turns."""

    place: int
    usage: Usage
    model: str | None
    at: float | None


@define
class Turns:
    """A conversation as it is read, message by message."""

    messages: list[Message] = field(factory=list)
    _bills: list[_Bill] = field(factory=list)

    def add(self, role: str, parts: Iterable[Part]) -> None:
        """Add a message; one that says nothing is none."""
        said = tuple(parts)
        if said:
            self.messages.append(Message(role, said))

    def bill(self, usage: Usage | None, model: str | None = None, at: float | None = None) -> None:
        """Note what the message that was added last was billed."""
        if usage is not None and self.messages:
            self._bills.append(_Bill(len(self.messages) - 1, usage, model, at))

    def recording(
        self,
        *,
        tools: Sequence[Native] | None = None,
        model: str | None = None,
        id: str | None = None,  # noqa: A002 - as a recording calls it
    ) -> Recording:
        """The conversation as it would have been sent."""
        model = model or next((bill.model for bill in reversed(self._bills) if bill.model), None)
        reasoning = (part for one in self.messages for part in one.parts if isinstance(part, Thinking))
        signed = any(part.signed for part in reasoning) and _may_be_claude(model)
        natives, places, system = (_for_anthropic if signed else _for_chat)(self.messages)
        billed = (Billed(places[bill.place], bill.usage, bill.model or model, bill.at) for bill in self._bills)
        return Recording(
            natives,
            system=system,
            tools=_tools(tools, "anthropic" if signed else "openai-chat"),
            format="anthropic" if signed else "openai-chat",
            model=model,
            id=id,
            pending=False,
            billed=tuple(billed),
        )


def _may_be_claude(model: str | None) -> bool:
    """Whether what is signed may be Anthropic's: the model is one of Claude's, or nobody knows it."""
    return model is None or "claude" in model.lower() or find(model) is None


def _for_chat(messages: Sequence[Message]) -> tuple[list[Native], list[int], Native]:
    """One message for each result; reasoning beside what is said."""
    wire = format_named("openai-chat")
    natives: list[Native] = []
    places = []
    for message in messages:
        places.append(len(natives))
        results = [part for part in message.parts if isinstance(part, ToolResult)]
        natives += [wire.write_message(Message("tool", (result,))) for result in results]
        rest = tuple(part for part in message.parts if not isinstance(part, (ToolResult, Thinking)))
        thought = "\n".join(part.text for part in message.parts if isinstance(part, Thinking) and part.text)
        if rest or thought:
            role = "user" if message.role == "tool" else message.role
            native = wire.write_message(Message(role, rest or (Text(""),)))
            natives.append({**native, "reasoning_content": thought} if thought else native)
    return natives, places, None


def _for_anthropic(messages: Sequence[Message]) -> tuple[list[Native], list[int], Native]:
    """What stands between two answers is one message, its results first; the first system messages stand apart."""
    wire = format_named("anthropic")
    system = [part.text for one in messages if one.role == "system" for part in one.parts if isinstance(part, Text)]
    merged: list[Message] = []
    places = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        parts = () if message.role == "system" else tuple(map(_without_name, filter(_may_stay, message.parts)))
        if not parts or (merged and role == "user" and merged[-1].role == "user"):
            if parts:
                merged[-1] = merged[-1].with_parts(_results_first((*merged[-1].parts, *parts)))
        else:
            merged.append(Message(role, _results_first(parts) if role == "user" else parts))
        places.append(max(0, len(merged) - 1))
    return [wire.write_message(message) for message in merged], places, "\n\n".join(system) or None


def _without_name(part: Part) -> Part:
    return evolve(part, name=None) if isinstance(part, ToolResult) else part


def _may_stay(part: Part) -> bool:
    return not isinstance(part, Thinking) or part.signed


def _results_first(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    return tuple(sorted(parts, key=lambda part: not isinstance(part, ToolResult)))


def _tools(tools: Sequence[Native] | None, format_name: str) -> list[Native] | None:
    """Definitions as ``{"name", "description", "parameters"}``, or as Chat Completions has them, for a format."""
    found = [_tool(tool, format_name) for tool in tools or () if isinstance(tool, Mapping)]
    return [tool for tool in found if tool is not None] or None


def _tool(tool: Fields, format_name: str) -> dict[str, Any] | None:
    inner = tool.get("function") if isinstance(tool.get("function"), Mapping) else tool
    if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str):
        return None
    schema = inner.get("parameters") or inner.get("input_schema") or {"type": "object", "properties": {}}
    said = {"description": inner["description"]} if isinstance(inner.get("description"), str) else {}
    if format_name == "anthropic":
        return {"name": inner["name"], **said, "input_schema": schema}
    return {"type": "function", "function": {"name": inner["name"], **said, "parameters": schema}}


def arguments(value: Native) -> str:
    """Arguments of a call as JSON text, from an object or from text."""
    if isinstance(value, str):
        return value
    return json.dumps({} if value is None else value, ensure_ascii=False)


def content_parts(content: Native, calls: Iterable[Native] = ()) -> list[Part]:
    """What a message says, from text or from blocks as the frameworks keep them.

    Args:
        content: A text, a block or a list of them. A block of a kind that is not known is said as JSON.
        calls: Ids of calls that stand beside the content: blocks that say them again are left out.
    """
    if isinstance(content, str):
        return [Text(content)] if content else []
    blocks = content if isinstance(content, list) else [content]
    known = {call for call in calls if isinstance(call, str)}
    return [part for block in blocks if (part := _part(block, known)) is not None]


def _part(block: Native, calls: set[str]) -> Part | None:
    if isinstance(block, str):
        return Text(block) if block else None
    if not isinstance(block, Mapping):
        return None
    kind = block.get("type")
    if kind in _SPOKEN and isinstance(block.get("text"), str):
        return Text(block["text"]) if block["text"] else None
    if kind in ("thinking", "reasoning", "redacted_thinking"):
        return _thinking(block)
    if kind in ("tool_use", "tool_call", "function_call", "server_tool_call"):
        return _call(block, calls)
    media = _media(block) if kind in _MEDIA else None
    return media or Text(json.dumps(block, ensure_ascii=False))


def _thinking(block: Fields) -> Thinking | None:
    extras = block.get("extras")
    signed = block.get("signature") or (extras.get("signature") if isinstance(extras, Mapping) else None)
    hidden = block.get("data") if block.get("type") == "redacted_thinking" else None
    if block.get("redacted") is True:  # as Inspect keeps it
        return Thinking("", encrypted=str(block.get("reasoning")))
    text = next((block[key] for key in ("thinking", "reasoning", "text") if isinstance(block.get(key), str)), "")
    if not text and not isinstance(hidden, str):
        return None
    return Thinking(text, signed if isinstance(signed, str) else None, hidden if isinstance(hidden, str) else None)


def _call(block: Fields, calls: set[str]) -> Part | None:
    names = [each for key in ("id", "call_id") if isinstance(each := block.get(key), str)]
    if not names or not calls.isdisjoint(names):
        return None
    given = next((block[key] for key in ("input", "args", "arguments") if key in block), None)
    return ToolCall(names[0], str(block.get("name")), arguments(given))


def _media(block: Fields) -> Media | None:
    """A picture, a sound or a document, wherever the block keeps it."""
    kind = str(block["type"]).removeprefix("input_").removesuffix("_url")
    kind = kind if kind in ("image", "audio", "video") else "document"
    held = next((block[key] for key in ("image_url", "source", "input_audio", "file", kind) if key in block), block)
    if isinstance(held, str):
        return from_url(kind, held)
    if not isinstance(held, Mapping):
        return None
    data = next((held[key] for key in ("base64", "data", "file_data") if isinstance(held.get(key), str)), None)
    url = held.get("url")
    if data is None:
        return from_url(kind, url) if isinstance(url, str) else None
    if data.startswith("data:"):
        return from_url(kind, data)
    stated = next((held[key] for key in ("media_type", "mime_type") if isinstance(held.get(key), str)), None)
    return Media(kind, stated or ("image/png" if kind == "image" else None), data)


def from_url(kind: str, url: str) -> Media:
    """A picture, a sound or a document by its address, which may hold it."""
    found = _DATA_URL.fullmatch(url)
    return Media(kind, url=url) if found is None else Media(kind, found[1], found[2])
