"""Rules of the Anthropic Messages API about cache markers.

Source: https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching; error texts as captured from the API.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

from agentctx.core.violation import Violation
from agentctx.wire.anthropic.request import THINKING, Block, Request, refused, string
from agentctx.wire.native import mapping_or_none

_MOST = 4


@frozen
class Marker:
    """One cache marker.

    Args:
        block: The block that carries it; None on a tool and on the request itself.
        path: Its place, as the provider writes it.
        ttl: How long the entry lives: ``"5m"`` or ``"1h"``.
    """

    block: Block | None
    path: str
    ttl: str


def count(request: Request) -> Iterator[Violation]:
    """At most four markers; the automatic one of the request takes a place."""
    if (found := len(list(_markers(request)))) > _MOST:
        text = f"A maximum of {_MOST} blocks with cache_control may be provided. Found {found}."
        yield refused("cache_max4", None, text)


def order(request: Request) -> Iterator[Violation]:
    """Markers of an hour stand before markers of five minutes; tools come first, then system, then messages."""
    short = False
    for marker in _markers(request):
        if marker.ttl == "1h" and short:
            path = f"{marker.path}.ttl"
            yield refused(
                "cache_ttl_order",
                marker.block,
                f"{path}: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note "
                "that blocks are processed in the following order: `tools`, `system`, `messages`.",
                path,
            )
        short = short or marker.ttl != "1h"


def places(request: Request) -> Iterator[Violation]:
    """Thinking, empty text and messages that will be cleared carry no marker."""
    for marker in _markers(request):
        block = marker.block
        if block is None:
            continue
        if block.kind in THINKING:
            path = f"{block.path}.{block.kind}.cache_control"
            yield refused("cache_on_thinking", block, f"{path}: Extra inputs are not permitted", path)
        elif block.kind == "text" and block.data.get("text") == "":
            path = f"{block.path}.text"
            yield refused("cache_on_empty", block, f"{path}: cache_control cannot be set for empty text blocks", path)
        elif block.message is not None and _cleared(request.entries[block.message].data):
            text = f"{marker.path}: cache_control cannot be set on messages with `clear_at`"
            yield refused("cache_on_clear_at", block, text, marker.path)


def deferred(request: Request) -> Iterator[Violation]:
    """Deferred tools carry no marker."""
    for index, tool in enumerate(request.tools):
        if tool.get("defer_loading") is True and marker_of(tool) is not None:
            path = f"tools.{index}.cache_control"
            text = f"{path}: cache_control cannot be set on tools with `defer_loading`"
            yield refused("cache_on_deferred", None, text, path)


RULES = (count, order, places, deferred)


def marker_of(data: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The marker that a block, a tool or the request carries, or None."""
    return mapping_or_none(data.get("cache_control"))


def _markers(request: Request) -> Iterator[Marker]:
    """All markers in the order in which the provider reads them."""
    for index, tool in enumerate(request.tools):
        yield from _marker(tool, None, f"tools.{index}")
    for block in (*request.system, *request.blocks):
        for inner in block.inner:
            yield from _marker(inner.data, inner, inner.path)
        yield from _marker(block.data, block, block.path)
    # The automatic marker lies on the last block that can carry one.
    yield from _marker(request.data, None, "")


def _marker(data: Mapping[str, Any], block: Block | None, path: str) -> Iterator[Marker]:
    if (found := marker_of(data)) is not None:
        yield Marker(block, f"{path}.cache_control".removeprefix("."), string(found, "ttl") or "5m")


def _cleared(message: Mapping[str, Any]) -> bool:
    return message.get("clear_at") not in {None, "never"} if isinstance(message.get("clear_at"), str) else False
