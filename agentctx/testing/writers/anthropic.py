"""Turns as Anthropic Messages messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from agentctx.testing.plan import Answer, Ask, Code, Foreign, Hosted, Item, Picture, Ran, Say, Think, ToolSpec, Turn


@frozen
class AnthropicWriter:
    """Writes turns as ``anthropic`` messages; a turn of results becomes one user message, or two when it is split."""

    repeats_ids: bool = False
    takes_blank: bool = False
    system_apart: bool = True
    pictures_in_results: bool = True
    runs_code: bool = True

    def messages(self, turns: Sequence[Turn], /) -> list[dict[str, Any]]:
        """The turns as native messages, in order."""
        return [message for turn in turns for message in self._turn(turn)]

    def tools(self, specs: Sequence[ToolSpec], /) -> list[dict[str, Any]]:
        """The native tool definitions."""
        return [_tool(spec) for spec in specs]

    def _turn(self, turn: Turn) -> Iterator[dict[str, Any]]:
        role = {"results": "user", "developer": "system"}.get(turn.role, turn.role)
        for items in _messages_of(turn):
            yield {"role": role, "content": _content(items, blocks=turn.blocks)}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    if spec.hosted:
        return {"type": f"{spec.name}_20250305", "name": spec.name}
    schema = {"type": "object", "properties": dict(spec.properties)}
    return {"name": spec.name, "description": spec.description, "input_schema": schema}


def _messages_of(turn: Turn) -> tuple[tuple[Item, ...], ...]:
    if 0 < turn.split < len(turn.items):
        return turn.items[: turn.split], turn.items[turn.split :]
    return (turn.items,)


def _content(items: Sequence[Item], *, blocks: bool) -> str | list[dict[str, Any]]:
    if not blocks and len(items) == 1 and isinstance(items[0], Say):
        return items[0].text
    return [block for item in items for block in _blocks(item)]


def _blocks(item: Item) -> Iterator[dict[str, Any]]:
    match item:
        case Say(text):
            yield {"type": "text", "text": text}
        case Picture(data, media_type):
            yield {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}
        case Think():
            yield _thinking(item)
        case Ask(call_id, name, arguments):
            given = dict(arguments) if isinstance(arguments, Mapping) else arguments
            yield {"type": "tool_use", "id": call_id, "name": name, "input": given, **_called_by(item)}
        case Answer():
            yield _answer(item)
        case Hosted():
            yield from _hosted(item)
        case Code(call_id, text):
            yield {"type": "server_tool_use", "id": call_id, "name": "code_execution", "input": {"code": text}}
        case Ran(call_id, output):
            printed = {"type": "code_execution_result", "stdout": output, "stderr": "", "return_code": 0, "content": []}
            yield {"type": "code_execution_tool_result", "tool_use_id": call_id, "content": printed}
        case Foreign(kind, data):
            yield {"type": kind, **data}


def _called_by(item: Ask) -> dict[str, Any]:
    return {} if item.caller is None else {"caller": {"type": "code_execution_20250825", "tool_id": item.caller}}


def _thinking(item: Think) -> dict[str, Any]:
    if item.redacted:
        return {"type": "redacted_thinking", "data": item.text}
    return {"type": "thinking", "thinking": item.text, "signature": item.signature}


def _answer(item: Answer) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": item.call_id}
    if isinstance(item.content, str):
        block["content"] = item.content
    elif item.content is not None:
        block["content"] = _content(item.content, blocks=True)
    return block | ({"is_error": True} if item.is_error else {})


def _hosted(item: Hosted) -> Iterator[dict[str, Any]]:
    yield {"type": "server_tool_use", "id": item.id, "name": item.name, "input": dict(item.input)}
    if item.result is not None:
        yield {"type": f"{item.name}_tool_result", "tool_use_id": item.id, "content": item.result}
