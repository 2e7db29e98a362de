"""Ask the provider to keep the prefix that ends with a block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from agentctx.core.message import Context, Message
from agentctx.tiers.formatter import Section

MOST = 4
"""The most marks of one request (Anthropic: "A maximum of 4 blocks with cache_control may be provided")."""

SYSTEM = -1
"""The place of the system prompt that is kept apart."""

LONG = "1h"
"""The longer lifetime; marks with the shorter one must not stand before it."""

_UNMARKED = ("thinking", "redacted_thinking")

Cache = bool | str | Mapping[str, Any]


@frozen
class CachePoint:
    """Where a prefix ends that the provider shall keep.

    Args:
        place: Index of the message that ends it; ``SYSTEM`` for the system prompt that is kept apart.
        parts: How many parts of that message belong to it.
        cache: How long, or the provider's own mark.
    """

    place: int
    parts: int
    cache: Cache


def cache_points(
    sections: Sequence[Section], caches: Sequence[Cache | None], messages: Sequence[Message], context: Context
) -> list[CachePoint]:
    """Where the prefixes end that shall be kept: the last four of them, in order.

    A block that a formatter has merged into another message ends there. A prefix before one that is kept for an
    hour is kept for an hour as well, since providers refuse it otherwise.

    Args:
        sections: What is left of the blocks.
        caches: What the block of each section asks for; None or False asks for nothing.
        messages: The messages of the request, with the system messages.
        context: The request.
    """
    places = {id(message): place for place, message in enumerate(messages)}
    own = {id(message) for section in sections for message in section.messages}
    made = next((place for place, message in enumerate(messages) if id(message) not in own), None)
    apart = len(messages) - len(context.messages)
    found: dict[tuple[int, int], CachePoint] = {}
    for section, cache in zip(sections, caches, strict=True):
        place = places.get(id(section.messages[-1]), made)
        if cache and place is not None:
            point = _point(place, apart, messages, cache)
            found[point.place, point.parts] = point
    return _longest_first([found[key] for key in sorted(found)][-MOST:])


def _point(place: int, apart: int, messages: Sequence[Message], cache: Cache) -> CachePoint:
    if place >= apart:
        return CachePoint(place - apart, len(messages[place].parts), cache)
    return CachePoint(SYSTEM, sum(len(message.parts) for message in messages[: place + 1]), cache)


def _longest_first(points: Sequence[CachePoint]) -> list[CachePoint]:
    last = max((n for n, point in enumerate(points) if _lifetime(point.cache) == LONG), default=-1)
    return [evolve(point, cache=_for_long(point.cache)) if n < last else point for n, point in enumerate(points)]


def _lifetime(cache: Cache) -> object:
    return cache.get("ttl") if isinstance(cache, Mapping) else cache


def _for_long(cache: Cache) -> Cache:
    return {**cache, "ttl": LONG} if isinstance(cache, Mapping) else LONG


def mark(native: Any, point: CachePoint, format_name: str) -> Any:  # noqa: ANN401 - a native message or its content
    """A native message, or a system prompt kept apart, with the mark; itself where the format has no such mark.

    Anthropic and Bedrock have marks of their own. In the Chat format only a mark given in full is written (as
    ``cache_control``, which OpenRouter and LiteLLM take): OpenAI finds the longest prefix without one.
    """
    format_name = format_name.partition("/")[0]  # a dialect is named after its format
    if format_name not in ("anthropic", "bedrock", "openai-chat"):
        return native
    if format_name == "openai-chat" and not isinstance(point.cache, Mapping):
        return native
    content = native.get("content") if isinstance(native, Mapping) else native
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) and content.strip() else content
    if not isinstance(blocks, list):
        return native
    marked = _with_cache_point(blocks, point) if format_name == "bedrock" else _with_cache_control(blocks, point)
    return {**native, "content": marked} if isinstance(native, Mapping) else marked


def _with_cache_control(blocks: list[Any], point: CachePoint) -> list[Any]:
    """The blocks, the last one up to the point that can carry a mark carrying it."""
    for place in range(min(point.parts, len(blocks)) - 1, -1, -1):
        block = blocks[place]
        if isinstance(block, Mapping) and block.get("type") not in _UNMARKED and block.get("text", "-").strip():
            return [*blocks[:place], {**block, "cache_control": _mark(point.cache, "ephemeral")}, *blocks[place + 1 :]]
    return blocks


def _with_cache_point(blocks: list[Any], point: CachePoint) -> list[Any]:
    """The blocks, a mark of its own behind those up to the point (marks that stand there already are not counted)."""
    left = point.parts
    for place, block in enumerate(blocks):
        if left == 0:
            return [*blocks[:place], {"cachePoint": _mark(point.cache, "default")}, *blocks[place:]]
        left -= not (isinstance(block, Mapping) and "cachePoint" in block)
    return [*blocks, {"cachePoint": _mark(point.cache, "default")}]


def _mark(cache: Cache, kind: str) -> dict[str, Any]:
    if isinstance(cache, Mapping):
        return dict(cache)
    return {"type": kind, "ttl": cache} if isinstance(cache, str) else {"type": kind}
