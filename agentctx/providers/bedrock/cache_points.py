"""Converse's cache markers: a block of its own behind what shall be kept.

Source: AWS's prompt-caching page for Converse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import evolve, frozen

from agentctx.core.message import CacheMarker, Message, Opaque, Thinking, Ttl, is_marker
from agentctx.models.profile import ModelProfile
from agentctx.providers.cache_markers import MOST, for_minutes, ttl_of
from agentctx.providers.native import mapping_or_none
from agentctx.wire_format import CacheWish

POINT = "cachePoint"
_TAKE_POINTS = re.compile(r"claude|nova")


@frozen
class PointMarkers:
    """Markers that are a block of their own behind what shall be kept (``wire_format.CacheMarkers``).

    Args:
        marks_head: As of ``KeyMarkers``; here the first task is marked, which the system prompt precedes.
        most: As of ``KeyMarkers``.
    """

    marks_head: bool = False
    most: int = MOST

    def new(self, ttl: Ttl, profile: ModelProfile | None) -> Mapping[str, Any] | None:
        """A marker, which other models than Claude and Nova refuse."""
        if profile is None or not _TAKE_POINTS.search(profile.family):
            return None
        return {POINT: {"type": "default"} if ttl == "5m" else {"type": "default", "ttl": ttl}}

    def given(self, cache: CacheWish) -> Mapping[str, Any] | None:
        """The marker that a caller asks for: by a lifetime, or in full."""
        if isinstance(cache, Mapping):
            return {POINT: dict(cache)}
        return {POINT: {"type": "default", "ttl": cache} if isinstance(cache, str) else {"type": "default"}}

    def refused(self, _mark: Mapping[str, Any], profile: ModelProfile | None) -> bool:
        """Whether a model is known that refuses markers."""
        return profile is not None and self.new("5m", profile) is None

    def rolls(self, _profile: ModelProfile | None) -> bool:
        """The end of each request needs a marker."""
        return True

    def of(self, message: Message) -> tuple[CacheMarker, ...]:
        """The markers in a message, in order."""
        return tuple(self._markers(message))

    def put(self, message: Message, place: int, mark: Mapping[str, Any]) -> Message | None:
        """The message with a marker behind one of its parts; None when there is nothing to keep in it."""
        part = message.parts[place]
        if isinstance(part, Thinking) or is_marker(part):
            return None
        made = Opaque(POINT, mark, source=mark)
        return message.with_parts((*message.parts[: place + 1], made, *message.parts[place + 1 :]))

    def lift(self, message: Message, place: int) -> Message:
        """The message without the marker behind one of its parts."""
        stop = place + 1
        while stop < len(message.parts) and is_marker(message.parts[stop]):
            stop += 1
        return message.with_parts((*message.parts[: place + 1], *message.parts[stop:]))

    def shorten(self, message: Message, place: int) -> Message:
        """The message with markers for five minutes behind one of its parts where there are some for an hour."""
        parts = list(message.parts)
        for at in range(place + 1, len(parts)):
            part = parts[at]
            if not (isinstance(part, Opaque) and is_marker(part)):
                break
            mark = {key: for_minutes(value) for key, value in (mapping_or_none(part.data) or {}).items()}
            parts[at] = evolve(part, data=mark, source=mark)
        return message.with_parts(tuple(parts))

    def _markers(self, message: Message) -> Iterator[CacheMarker]:
        for place, part in enumerate(message.parts):
            if isinstance(part, Opaque) and is_marker(part):
                block = mapping_or_none(part.data) or {}
                yield CacheMarker(place - 1, ttl_of(block.get(POINT)), block, part.source)
