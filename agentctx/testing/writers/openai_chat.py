"""Turns as OpenAI Chat Completions messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from attrs import frozen

from agentctx.testing.plan import Answer, Ask, Item, Picture, Say, ToolSpec, Turn


@frozen
class ChatWriter:
    """Writes turns as ``openai-chat`` messages; a turn of results becomes one message a result."""

    repeats_ids: bool = True
    takes_blank: bool = True
    system_apart: bool = False
    pictures_in_results: bool = False
    runs_code: bool = False

    def messages(self, turns: Sequence[Turn], /) -> list[dict[str, Any]]:
        """The turns as native messages, in order."""
        return [message for turn in turns for message in self._turn(turn)]

    def tools(self, specs: Sequence[ToolSpec], /) -> list[dict[str, Any]]:
        """The native tool definitions; chat has no hosted tools."""
        return [{"type": "function", "function": _function(spec)} for spec in specs if not spec.hosted]

    def _turn(self, turn: Turn) -> Iterator[dict[str, Any]]:
        if turn.role == "assistant":
            yield _assistant(turn)
        elif turn.role == "results":
            yield from _results(turn)
        else:
            yield {"role": turn.role, "content": _content(turn.items, blocks=turn.blocks)}


def _function(spec: ToolSpec) -> dict[str, Any]:
    parameters = {"type": "object", "properties": dict(spec.properties)}
    return {"name": spec.name, "description": spec.description, "parameters": parameters}


def _assistant(turn: Turn) -> dict[str, Any]:
    asked = [item for item in turn.items if isinstance(item, Ask)]
    said = [item for item in turn.items if isinstance(item, Say)]
    message: dict[str, Any] = {"role": "assistant", "content": None}
    if said or not asked:
        message["content"] = _content(said, blocks=turn.blocks)
    if asked:
        message["tool_calls"] = [_call(item) for item in asked]
    return message


def _call(item: Ask) -> dict[str, Any]:
    given = item.arguments
    arguments = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return {"id": item.id, "type": "function", "function": {"name": item.name, "arguments": arguments}}


def _results(turn: Turn) -> Iterator[dict[str, Any]]:
    for item in turn.items:
        if isinstance(item, Answer):
            content = item.content or ""
            said = content if isinstance(content, str) else _content(content, blocks=True)
            yield {"role": "tool", "tool_call_id": item.call_id, "content": said}
    if spoken := [item for item in turn.items if not isinstance(item, Answer)]:
        yield {"role": "user", "content": _content(spoken, blocks=turn.blocks)}


def _content(items: Sequence[Item], *, blocks: bool) -> str | list[dict[str, Any]]:
    """A lone text as a string, anything else as parts; what chat has no part for is left out."""
    parts = [_part(item) for item in items if isinstance(item, Say | Picture)]
    if len(items) <= 1 and not blocks and all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


def _part(item: Say | Picture) -> dict[str, Any]:
    if isinstance(item, Say):
        return {"type": "text", "text": item.text}
    return {"type": "image_url", "image_url": {"url": f"data:{item.media_type};base64,{item.data}"}}
