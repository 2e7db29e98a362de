"""Turns as contents of Gemini's generateContent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from agentctx.testing.plan import Answer, Ask, Foreign, Hosted, Item, Picture, Say, Think, ToolSpec, Turn


@frozen
class GeminiWriter:
    """Writes turns as ``gemini`` contents; a turn of results is always one content.

    Args:
        call_ids: Whether calls are written with their ids, which this format does not need.
        result_ids: Whether results are.
    """

    call_ids: bool = False
    result_ids: bool = False
    repeats_ids: bool = True
    takes_blank: bool = False
    system_apart: bool = True
    pictures_in_results: bool = True
    runs_code: bool = False

    def messages(self, turns: Sequence[Turn], /) -> list[dict[str, Any]]:
        """The turns as native contents, in order."""
        asked: dict[str, str] = {item.id: item.name for turn in turns for item in turn.items if isinstance(item, Ask)}
        contents = []
        for turn in turns:
            asked.update((item.id, item.name) for item in turn.items if isinstance(item, Ask))
            role = "model" if turn.role == "assistant" else "user"
            contents.append({"role": role, "parts": [part for item in turn.items for part in self._parts(item, asked)]})
        return contents

    def tools(self, specs: Sequence[ToolSpec], /) -> list[dict[str, Any]]:
        """The native tool definitions: all functions in one, each hosted tool in one of its own."""
        functions = [_function(spec) for spec in specs if not spec.hosted]
        hosted: list[dict[str, Any]] = [{"googleSearch": {}} for spec in specs if spec.hosted]
        return ([{"functionDeclarations": functions}] if functions else []) + hosted

    def _parts(self, item: Item, asked: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        match item:
            case Say(text):
                yield {"text": text}
            case Picture(data, media_type):
                yield {"inlineData": {"mimeType": media_type, "data": data}}
            case Think(text, signature):
                yield {"text": text, "thought": True, "thoughtSignature": signature}
            case Ask(call_id, name, arguments):
                args = dict(arguments) if isinstance(arguments, Mapping) else arguments
                yield {"functionCall": ({"id": call_id} if self.call_ids else {}) | {"name": name, "args": args}}
            case Answer(call_id):
                answer = {"name": asked.get(call_id, "unknown"), **_answer(item)}
                yield {"functionResponse": ({"id": call_id} if self.result_ids else {}) | answer}
            case Hosted():
                yield from _hosted(item)
            case Foreign(kind, data):
                yield {kind: dict(data)}


def _function(spec: ToolSpec) -> dict[str, Any]:
    schema = {"type": "object", "properties": dict(spec.properties)}
    return {"name": spec.name, "description": spec.description, "parameters": schema}


def _answer(item: Answer) -> dict[str, Any]:
    key = "error" if item.is_error else "output"
    if item.content is None:
        return {"response": {}}
    if isinstance(item.content, str):
        return {"response": {key: item.content}}
    pictures = [
        {"inlineData": {"mimeType": part.media_type, "data": part.data}}
        for part in item.content
        if isinstance(part, Picture)
    ]
    said = {key: "".join(part.text for part in item.content if isinstance(part, Say))}
    return {"response": said} | ({"parts": pictures} if pictures else {})


def _hosted(item: Hosted) -> Iterator[dict[str, Any]]:
    yield {"toolCall": {"id": item.id, "toolType": "GOOGLE_SEARCH_WEB", "args": dict(item.input)}}
    if item.result is not None:
        found = {"found": item.result}
        yield {"toolResponse": {"id": item.id, "toolType": "GOOGLE_SEARCH_WEB", "response": found}}
