"""Answers to calls: each kind says what the tool said in a way of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentctx.core.parts import Media, Opaque, Part, Text, ToolCall, ToolResult
from agentctx.errors import InvalidInput
from agentctx.wire.native import mapping_or_none
from agentctx.wire.openai_responses.blocks import located, location, read_content, string, write_content
from agentctx.wire.openai_responses.kinds import CALLS, OUTPUTS, CallKind, answered_id, caller_of

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A PNG of one pixel, in base64: the screenshot of a computer that did not answer."""

_FAILED = {"type": "exit", "exit_code": 1}
_STREAMS = ("stdout", "stderr")


def read_output(native: Any, item: Mapping[str, Any], kind: str, index: int) -> tuple[Part, ...]:  # noqa: ANN401
    """The parts of an answer: one result, and beside it what it holds that is no word.

    Raises:
        InvalidInput: If it does not say which call it answers, or its content cannot be read.
    """
    identity = answered_id(kind, item)
    if identity is None and kind == "function_call_output":
        return (Opaque(kind, item, source=native),)  # a tool that spoke without being asked
    if not isinstance(identity, str):
        key = OUTPUTS[kind].answer_keys[0]
        what = "missing" if identity is None else f"expected a string, got {identity!r}"
        raise InvalidInput(where=f"messages[{index}].{key}", what=what)
    content, beside = _said(native, item, kind, f"messages[{index}].output")
    failed = kind == "apply_patch_call_output" and item.get("status") == "failed"
    return ToolResult(identity, content, is_error=failed, source=native, caller=caller_of(item)), *beside


def _said(
    native: Any,  # noqa: ANN401 - a dict or any SDK's object
    item: Mapping[str, Any],
    kind: str,
    where: str,
) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    """What an answer says in words, and what it holds beside them."""
    output = item.get("output")
    if kind == "computer_call_output":
        return (), _screenshot(output, native)
    if kind in {"tool_search_output", "mcp_approval_response"}:
        return (), (Opaque(kind, item, source=native),)
    if kind == "shell_call_output" and isinstance(output, (list, tuple)):
        return tuple(Text(text) for _, _, text in _streams(output)), ()
    return read_content(output, where), ()


def _screenshot(output: object, native: Any) -> tuple[Part, ...]:  # noqa: ANN401 - as _said
    picture = mapping_or_none(output) or {}
    url = string(picture, "image_url") or string(picture, "file_id")
    shown = Opaque("computer_screenshot", output, source=native)
    return (located("image", url, string(picture, "detail"), native) if url else shown,)


def _streams(output: Sequence[Any]) -> Iterator[tuple[int, str, str]]:
    """What a shell printed: the chunk's place, the stream, the text; silent streams are left out."""
    for place, chunk in enumerate(output):
        for stream in _STREAMS:
            if text := string(mapping_or_none(chunk) or {}, stream):
                yield place, stream, text


def write_output(parts: tuple[Part, ...], item: Mapping[str, Any]) -> dict[str, Any]:
    """An answer as an item, with the other keys of the item that it was read from.

    Args:
        parts: One result, and what stands beside it.
        item: The item that it was read from; empty for one that was made, which answers a function call.

    Raises:
        InvalidInput: If there is no result in it.
    """
    result = next((part for part in parts if isinstance(part, ToolResult)), None)
    if result is None:
        raise InvalidInput("message.parts", "a message of role 'tool' holds one ToolResult")
    kind = OUTPUTS.get(item.get("type", "function_call_output"), OUTPUTS["function_call_output"])
    native = {**item, "type": kind.output, _id_key(item, kind): result.call_id}
    if kind.output == "computer_call_output":
        return native | _shown(parts, item)
    if kind.output in {"tool_search_output", "mcp_approval_response"}:
        return native
    if kind.output == "shell_call_output":
        return {**native, "output": _shell(result, item.get("output"))}
    if kind.output == "apply_patch_call_output":
        native["status"] = "failed" if result.is_error else item.get("status", "completed")
    native["output"] = write_content(result.content, item.get("output"), "input_text")
    if kind.output in {"local_shell_call_output", "apply_patch_call_output"}:
        native["output"] = result.text  # these two take text only
    return native


def _id_key(item: Mapping[str, Any], kind: CallKind) -> str:
    return next((key for key in kind.answer_keys if item.get(key) is not None), kind.answer_keys[0])


def _shown(parts: tuple[Part, ...], item: Mapping[str, Any]) -> dict[str, Any]:
    """The screenshot: the one that was there when it is the same, or nobody took it along."""
    picture = next((part for part in parts if isinstance(part, Media)), None)
    old = mapping_or_none(item.get("output")) or {}
    if picture is None or _screenshot(old, None) == (picture,):
        return {"output": item["output"]} if "output" in item else {}
    key, value = location(picture, "image_url")
    return {"output": {"type": "computer_screenshot", key: value}}


def _shell(result: ToolResult, old: object) -> list[Any]:
    """The chunks of a shell's output: each text in the stream that it came from, or all in new chunks."""
    chunks = list(old) if isinstance(old, (list, tuple)) else []
    texts = [part.text for part in result.content if isinstance(part, Text)]
    places = list(_streams(chunks))
    if len(places) != len(texts):
        outcome = (mapping_or_none(chunks[-1]) or {}).get("outcome") if chunks else None
        return [{"stdout": text, "stderr": "", "outcome": outcome or _FAILED} for text in texts]
    for (place, stream, was), text in zip(places, texts, strict=True):
        if text != was:
            chunks[place] = {**(mapping_or_none(chunks[place]) or {}), stream: text}
    return chunks


def kind_answering(call: ToolCall) -> str:
    """The type of the item that answers a call."""
    item = mapping_or_none(call.source) or {}
    return CALLS.get(item.get("type", ""), CALLS["function_call"]).output


def answer_as(call: ToolCall, result: ToolResult) -> dict[str, Any]:
    """The item that answers a call with what a result says, where its kind has words."""
    text = result.text
    answer = lost_output(call, text)
    match answer["type"]:
        case "function_call_output" | "custom_tool_call_output":
            answer["output"] = write_content(result.content, None, "input_text") if result.content else ""
        case "shell_call_output":
            answer["output"] = [{"stdout": text, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]
        case "apply_patch_call_output":
            answer["status"] = "failed" if result.is_error else "completed"
    return answer


def lost_output(call: ToolCall, text: str) -> dict[str, Any]:
    """The item that answers a call whose result is lost, saying ``text`` where its kind has words."""
    item = mapping_or_none(call.source) or {}
    kind = CALLS.get(item.get("type", ""), CALLS["function_call"])
    answer: dict[str, Any] = {"type": kind.output, kind.answer_keys[0]: call.id}
    match kind.call:
        case "computer_call":
            screenshot = {"type": "computer_screenshot", "image_url": f"data:image/png;base64,{PIXEL}"}
            return answer | {"output": screenshot}
        case "shell_call":
            return answer | {"output": [{"stdout": "", "stderr": text, "outcome": _FAILED}]}
        case "apply_patch_call":
            return answer | {"status": "failed", "output": text}
        case "tool_search_call":
            return answer | {"execution": "client", "status": "completed", "tools": []}
        case "mcp_approval_request":
            return answer | {"approve": False, "reason": text}
    caller = item.get("caller")
    return answer | ({"output": text} if caller is None else {"output": text, "caller": caller})
