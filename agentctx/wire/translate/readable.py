"""What can be read in a block that only its own provider understands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentctx.core.parts import Opaque
from agentctx.wire.native import mapping_or_none

_WORDS = frozenset(
    {"title", "text", "content", "url", "uri", "query", "queries", "refusal", "code", "output", "stdout", "stderr"}
    | {"summary", "data", "transcript", "tool_name"}
)
"""Keys whose strings are meant to be read."""

_MARKERS = frozenset({"cachePoint"})
"""Blocks that say nothing: they tell the provider what to keep."""

_DEEPEST = 12


def readable(block: Opaque) -> str | None:
    """The words in a block, with its kind before them; a refusal and a summary by themselves. None when it has none."""
    if block.kind == "refusal" and isinstance(block.data, str):
        return block.data
    words = "\n".join(_words(block.data, 0)).strip()
    if not words:
        return None
    return words if block.kind in {"compaction", "text"} else f"[{block.kind}] {words}"


def is_marker(block: Opaque) -> bool:
    """Whether the block only marks a place for the provider's cache."""
    return block.kind in _MARKERS


def _words(data: Any, depth: int) -> Iterator[str]:  # noqa: ANN401 - any JSON value
    """Strings under the keys that are meant to be read, in the order in which they stand."""
    if depth > _DEEPEST:
        return
    if isinstance(data, (list, tuple)):
        for each in data:
            yield from _words(each, depth + 1)
    elif (block := mapping_or_none(data)) is not None:
        hidden = _carries_bytes(block)
        for key, value in block.items():
            if not isinstance(value, str):
                yield from _strings_of(key, value, depth)
            elif key in _WORDS and not (hidden and key == "data") and value.strip():
                yield value


def _strings_of(key: str, value: Any, depth: int) -> Iterator[str]:  # noqa: ANN401 - any JSON value
    if key in _WORDS and isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value):
        yield from (each for each in value if each.strip())
    else:
        yield from _words(value, depth + 1)


def _carries_bytes(block: Mapping[str, Any]) -> bool:
    """Whether ``data`` in this block is no text: media in base64, hidden reasoning."""
    media_type = block.get("media_type") or block.get("mimeType") or block.get("mime_type")
    return block.get("type") != "text" and not str(media_type or "").startswith("text/")
