"""Ask the provider to keep the prefix that ends with a block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentctx.core.message import Context, Message
from agentctx.tiers.formatter import Section

MOST = 4
"""The most marks of one request (Anthropic: "A maximum of 4 blocks with cache_control may be provided")."""

SYSTEM = -1
"""The place of the system prompt that is kept apart."""

_UNMARKED = ("thinking", "redacted_thinking")

Cache = bool | str | Mapping[str, Any]


def cache_points(
    sections: Sequence[Section], caches: Mapping[str, Cache], messages: Sequence[Message], context: Context
) -> dict[int, Cache]:
    """Where the prefixes end that shall be kept: places among the messages, or ``SYSTEM``; the last four of them.

    A block that a formatter has merged into another message ends there.
    """
    places = {id(message): place for place, message in enumerate(messages)}
    own = {id(message) for section in sections for message in section.messages}
    made = next((place for place, message in enumerate(messages) if id(message) not in own), None)
    apart = len(messages) - len(context.messages)
    points: dict[int, Cache] = {}
    for section in sections:
        place = places.get(id(section.messages[-1]), made)
        if section.id in caches and place is not None:
            points[max(SYSTEM, place - apart)] = caches[section.id]
    return {place: points[place] for place in sorted(points)[-MOST:]}


def mark(native: Any, cache: Cache, format_name: str) -> Any:  # noqa: ANN401 - a native message or its content
    """A native message, or a system prompt kept apart, with the mark; itself where the format has no such mark.

    Anthropic and Bedrock have marks of their own. In the Chat format only a mark given in full is written (as
    ``cache_control``, which OpenRouter and LiteLLM take): OpenAI finds the longest prefix without one.
    """
    if format_name not in ("anthropic", "bedrock", "openai-chat"):
        return native
    if format_name == "openai-chat" and not isinstance(cache, Mapping):
        return native
    content = native.get("content") if isinstance(native, Mapping) else native
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) and content.strip() else content
    if not isinstance(blocks, list):
        return native
    marked = _with_cache_point(blocks, cache) if format_name == "bedrock" else _with_cache_control(blocks, cache)
    return {**native, "content": marked} if isinstance(native, Mapping) else marked


def _with_cache_control(blocks: list[Any], cache: Cache) -> list[Any]:
    """The blocks, the last one that can carry a mark carrying it."""
    for place in range(len(blocks) - 1, -1, -1):
        block = blocks[place]
        if isinstance(block, Mapping) and block.get("type") not in _UNMARKED and block.get("text", "-").strip():
            return [*blocks[:place], {**block, "cache_control": _mark(cache, "ephemeral")}, *blocks[place + 1 :]]
    return blocks


def _with_cache_point(blocks: list[Any], cache: Cache) -> list[Any]:
    return [*blocks, {"cachePoint": _mark(cache, "default")}]


def _mark(cache: Cache, kind: str) -> dict[str, Any]:
    if isinstance(cache, Mapping):
        return dict(cache)
    return {"type": kind, "ttl": cache} if isinstance(cache, str) else {"type": kind}
