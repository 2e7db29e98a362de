"""A wish that the provider's cache shall keep everything up to a place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import field, frozen

from agentctx.core.message import Tool
from agentctx.core.parts import Opaque, Part

Ttl = Literal["5m", "1h"]
"""How long the cache keeps what it is asked to: five minutes since its last use, or an hour."""


@frozen
class CacheMarker:
    """A marker that a message carries.

    Args:
        place: The index of the part up to which the prefix shall be kept.
        ttl: How long.
        mark: The marker as the provider writes it: the key and the value that stand in a block, or a block.
        owner: The native block that carries it, or that it is; tells whether it is still there.
    """

    place: int
    ttl: Ttl
    mark: Mapping[str, Any] = field(hash=False)
    owner: Any = field(default=None, eq=False, repr=False)


KEYS = frozenset({"cache_control", "prompt_cache_breakpoint"})
"""The keys of a block that are markers."""


def without_marker(data: object) -> object:
    """The data of a block without the marker that it carries as a key."""
    if not isinstance(data, Mapping) or KEYS.isdisjoint(data):
        return data
    return {key: value for key, value in data.items() if key not in KEYS}


def is_marker_tool(tool: Tool) -> bool:
    """Whether a member of the tools is none, and only marks a place for the provider's cache."""
    return isinstance(tool.source, Mapping) and "cachePoint" in tool.source


def is_marker(part: Part) -> bool:
    """Whether a part says nothing and only marks a place for the provider's cache."""
    return isinstance(part, Opaque) and part.kind == "cachePoint"
