"""Turns as messages of Bedrock's Converse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from agentctx.testing.plan import Answer, Ask, Foreign, Hosted, Item, Picture, Say, Think, ToolSpec, Turn


@frozen
class BedrockWriter:
    """Writes turns as ``bedrock`` messages; a turn of results becomes one user message, or two when it is split."""

    repeats_ids: bool = False
    takes_blank: bool = False
    system_apart: bool = True
    pictures_in_results: bool = True
    runs_code: bool = False

    def messages(self, turns: Sequence[Turn], /) -> list[dict[str, Any]]:
        """The turns as native messages, in order."""
        return [message for turn in turns for message in _messages(turn)]

    def tools(self, specs: Sequence[ToolSpec], /) -> list[dict[str, Any]]:
        """The native tool definitions, as ``toolConfig.tools`` lists them."""
        return [{"systemTool": {"name": spec.name}} if spec.hosted else _tool(spec) for spec in specs]


def _tool(spec: ToolSpec) -> dict[str, Any]:
    schema = {"type": "object", "properties": dict(spec.properties)}
    described = {"description": spec.description} if spec.description else {}
    return {"toolSpec": {"name": spec.name, **described, "inputSchema": {"json": schema}}}


def _messages(turn: Turn) -> Iterator[dict[str, Any]]:
    role = "assistant" if turn.role == "assistant" else "user"
    split = turn.split if 0 < turn.split < len(turn.items) else 0
    for items in (turn.items[:split], turn.items[split:]) if split else (turn.items,):
        yield {"role": role, "content": [block for item in items for block in _blocks(item)]}


def _blocks(item: Item) -> Iterator[dict[str, Any]]:
    match item:
        case Say(text):
            yield {"text": text}
        case Picture(data, media_type):
            yield {"image": {"format": media_type.partition("/")[2], "source": {"bytes": data}}}
        case Think(text, signature, redacted):
            said = {"redactedContent": text} if redacted else {"reasoningText": {"text": text, "signature": signature}}
            yield {"reasoningContent": said}
        case Ask(call_id, name, arguments):
            given = dict(arguments) if isinstance(arguments, Mapping) else arguments
            yield {"toolUse": {"toolUseId": call_id, "name": name, "input": given}}
        case Answer():
            yield {"toolResult": _answer(item)}
        case Hosted():
            yield from _hosted(item)
        case Foreign(kind, data):
            yield {kind: dict(data)}


def _answer(item: Answer) -> dict[str, Any]:
    content = item.content or ()
    content = (Say(content),) if isinstance(content, str) else content
    said = [block for part in content for block in _blocks(part)]
    said = said or [{"json": {}}]  # a result needs a block, and a text in it may not be blank
    return {"toolUseId": item.call_id, "content": said} | ({"status": "error"} if item.is_error else {})


def _hosted(item: Hosted) -> Iterator[dict[str, Any]]:
    asked = {"toolUseId": item.id, "name": item.name, "input": dict(item.input), "type": "server_tool_use"}
    yield {"toolUse": asked}
    if item.result is not None:
        found = {
            "toolUseId": item.id,
            "type": f"{item.name}_tool_result",
            "content": [{"json": {"found": item.result}}],
        }
        yield {"toolResult": found}
