"""Turns as items of the OpenAI Responses API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from attrs import frozen

from agentctx.testing.plan import Answer, Ask, Code, Foreign, Hosted, Item, Picture, Ran, Say, Think, ToolSpec, Turn


@frozen
class ResponsesWriter:
    """Writes turns as ``openai-responses`` items; each thought, call and answer becomes an item of its own."""

    repeats_ids: bool = False
    takes_blank: bool = True
    system_apart: bool = False
    pictures_in_results: bool = True
    runs_code: bool = True

    def messages(self, turns: Sequence[Turn], /) -> list[dict[str, Any]]:
        """The turns as native items, in order; what the model made has an id, as in a response."""
        numbers = count(1)
        return [item for turn in turns for item in _turn(turn, numbers)]

    def tools(self, specs: Sequence[ToolSpec], /) -> list[dict[str, Any]]:
        """The native tool definitions."""
        return [{"type": spec.name} if spec.hosted else _function(spec) for spec in specs]


def _function(spec: ToolSpec) -> dict[str, Any]:
    parameters = {"type": "object", "properties": dict(spec.properties)}
    return {"type": "function", "name": spec.name, "description": spec.description, "parameters": parameters}


def _turn(turn: Turn, numbers: Iterator[int]) -> Iterator[dict[str, Any]]:
    if turn.role == "assistant":
        for item in turn.items:
            yield _made(item, next(numbers))
        if not turn.items:
            yield {"role": "assistant", "content": [] if turn.blocks else ""}
        return
    spoken = [item for item in turn.items if not isinstance(item, Answer)]
    for item in turn.items:
        if isinstance(item, Answer):
            yield _answer(item)
        elif item is spoken[0]:
            yield {"role": "user" if turn.role == "results" else turn.role, "content": _content(spoken, turn)}
    if not turn.items:
        yield {"role": "user" if turn.role == "results" else turn.role, "content": []}


def _made(item: Item, number: int) -> dict[str, Any]:
    """What the model, or a tool of the provider, made."""
    match item:
        case Think(text, signature, redacted):
            summary = [] if redacted else [{"type": "summary_text", "text": text}]
            sealed = f"{signature}{text}" if redacted else signature
            return {"type": "reasoning", "id": f"rs_{number}", "summary": summary, "encrypted_content": sealed}
        case Ask(call_id, name, given):
            arguments = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
            call = {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
            return {**call, "id": f"fc_{number}", **_called_by(item)}
        case Code() | Ran():
            return _programmed(item) | {"id": f"pr_{number}"}
        case Hosted(_, name, given):
            return {"type": f"{name}_call", "id": f"ws_{number}", "status": "completed", "action": dict(given)}
        case Foreign(kind, data):
            return {"type": kind, "id": f"x_{number}", **data}
        case _:
            content: list[dict[str, Any]] = [
                {"type": "output_text", "text": getattr(item, "text", ""), "annotations": []}
            ]
            message = {"type": "message", "role": "assistant", "status": "completed", "content": content}
            return {**message, "id": f"msg_{number}"}


def _programmed(item: Code | Ran) -> dict[str, Any]:
    if isinstance(item, Code):
        return {"type": "program", "call_id": item.id, "code": item.text, "fingerprint": "RmluZ2VycHJpbnQ="}
    return {"type": "program_output", "call_id": item.id, "result": item.output, "status": "completed"}


def _answer(item: Answer) -> dict[str, Any]:
    given = item.content or ""
    output = given if isinstance(given, str) else [block for each in given for block in _blocks(each)]
    return {"type": "function_call_output", "call_id": item.call_id, "output": output, **_called_by(item)}


def _called_by(item: Ask | Answer) -> dict[str, Any]:
    return {} if item.caller is None else {"caller": {"type": "program", "caller_id": item.caller}}


def _content(items: Sequence[Item], turn: Turn) -> str | list[dict[str, Any]]:
    if len(items) == 1 and isinstance(items[0], Say) and not turn.blocks:
        return items[0].text
    return [block for item in items for block in _blocks(item)]


def _blocks(item: Item) -> Iterator[dict[str, Any]]:
    match item:
        case Say(text):
            yield {"type": "input_text", "text": text}
        case Picture(data, media_type):
            yield {"type": "input_image", "image_url": f"data:{media_type};base64,{data}", "detail": "auto"}
        case Foreign(kind, data):
            yield {"type": kind, **data}
