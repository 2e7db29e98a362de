"""Cut the longest strings in the arguments of tool calls: the last thing to do before giving up."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import evolve

from agentctx.core.message import Context, Message
from agentctx.core.parts import Part, Text, ToolCall
from agentctx.protocols import Call
from agentctx.strategies.cut_text import Cut, cut_to_tokens
from agentctx.strategies.shrink_results import SMALLEST, water_level

DEEPEST = 100
"""Arguments that are nested deeper than so many levels are left alone."""

_CUSTOM = frozenset({"custom", "custom_tool_call"})


def shrink_arguments(context: Context, places: Iterable[int], spare: int, call: Call, why: str) -> Context:
    """Cut the strings in call arguments to one cap, so that the request loses at least ``spare`` tokens if it can.

    Arguments stay valid JSON of the same shape; the free text of a custom tool is cut as one string. Signed calls,
    other arguments that are no JSON, and those that are nested very deep stay.
    """
    places = sorted(places)
    strings = [text for index in places for part in context.messages[index].calls for text in _strings(_parsed(part))]
    sizes = [call.meter.parts((Text(text),)) for text in strings if text]
    if not sizes or spare <= 0:
        return context
    cap = max(SMALLEST, water_level(sizes, spare))
    messages = list(context.messages)
    changed = False
    for index in places:
        shorter = _capped(messages[index], lambda text: cut_to_tokens(text, cap, call.counter, Cut()))
        if shorter is not messages[index]:
            call.note(messages[index], f"{why}: strings in call arguments cut to {cap:,} tokens")
            messages[index] = shorter
            changed = True
    return context.with_messages(tuple(messages)) if changed else context


def _parsed(part: ToolCall) -> Any:  # noqa: ANN401 - any JSON value
    """The arguments as a value whose strings may be cut; None where none may."""
    if part.signature is not None:
        return None
    if _is_free_text(part):
        return part.arguments
    try:
        value = json.loads(part.arguments)
    except (ValueError, RecursionError):
        return None
    return None if isinstance(value, str) or _is_deep(value) else value


def _is_free_text(part: ToolCall) -> bool:
    """Whether the call is one of a custom tool, whose input is no JSON."""
    native = part.source
    kind = native.get("type") if isinstance(native, Mapping) else getattr(native, "type", None)
    return isinstance(kind, str) and kind in _CUSTOM


def _is_deep(value: Any) -> bool:  # noqa: ANN401 - any JSON value
    level = [value]
    for _ in range(DEEPEST):
        level = [item for each in level for item in _inner(each)]
        if not level:
            return False
    return True


def _inner(value: Any) -> Iterable[Any]:  # noqa: ANN401 - any JSON value
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _strings(value: Any) -> list[str]:  # noqa: ANN401 - any JSON value
    if isinstance(value, str):
        return [value]
    return [text for item in _inner(value) for text in _strings(item)]


def _mapped(value: Any, cut: Callable[[str], str]) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, str):
        return cut(value)
    if isinstance(value, dict):
        return {key: _mapped(item, cut) for key, item in value.items()}
    return [_mapped(item, cut) for item in value] if isinstance(value, list) else value


def _capped(message: Message, cut: Callable[[str], str]) -> Message:
    parts: list[Part] = []
    changed = False
    for part in message.parts:
        value = _parsed(part) if isinstance(part, ToolCall) else None
        shorter = _mapped(value, cut)
        if isinstance(part, ToolCall) and shorter != value:
            changed = True
            arguments = shorter if isinstance(shorter, str) else json.dumps(shorter, ensure_ascii=False)
            parts.append(evolve(part, arguments=arguments))
        else:
            parts.append(part)
    return message.with_parts(tuple(parts)) if changed else message
