"""Cache markers that are a key of a block, as Anthropic and OpenAI have them written.

Sources: their prompt-caching pages (2026-07/08).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen

from agentctx.formats.native import mapping_or_none, same
from agentctx.message import (
    BREAKPOINT,
    CONTROL,
    KEYS,
    CacheMarker,
    Media,
    Message,
    Native,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Ttl,
)
from agentctx.models.profile import ModelProfile
from agentctx.wire_format import CacheMarkers, CacheWish

MOST = 4
"""The most markers of one request, on every provider that has them."""

_TEXTS = frozenset({"text", "input_text", "output_text"})
_BREAKPOINTS = re.compile(r"gpt-(?:5\.[6-9]|[6-9]|\d\d)")


def unmarked(native: Native) -> Native:
    """A native message without cache markers, to be compared with another one.

    Content that is one plain text is the text, since a text becomes a block when it is marked.
    """
    if isinstance(native, (list, tuple)):
        points = [isinstance(each, Mapping) and set(each) == {"cachePoint"} for each in native]
        blocks = [unmarked(each) for each, point in zip(native, points, strict=True) if not point]
        match blocks:
            case [{"type": kind, "text": text, **more}] if kind in _TEXTS and not more:
                return text
        return blocks
    if isinstance(native, str) or (fields := mapping_or_none(native)) is None:
        return native
    return {key: unmarked(value) for key, value in fields.items() if key not in KEYS}


NewMark = Callable[[Ttl, ModelProfile | None], "Mapping[str, Any] | None"]
_Change = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def ttl_of(value: object) -> Ttl:
    """How long a marker is for."""
    return "1h" if (mapping_or_none(value) or {}).get("ttl") == "1h" else "5m"


def for_minutes(mark: object) -> object:
    """A marker as it is for five minutes, which is what one is for that does not say."""
    held = mapping_or_none(mark)
    return mark if held is None else {key: value for key, value in held.items() if key != "ttl"}


def control(ttl: Ttl, _profile: ModelProfile | None) -> Mapping[str, Any]:
    """Anthropic's marker."""
    return {CONTROL: {"type": "ephemeral"} if ttl == "5m" else {"type": "ephemeral", "ttl": ttl}}


def breakpoint_of(_ttl: Ttl, profile: ModelProfile | None) -> Mapping[str, Any] | None:
    """OpenAI's marker, which models take since GPT-5.6; those before find the longest prefix by themselves."""
    new = profile is not None and _BREAKPOINTS.match(profile.family)
    return {BREAKPOINT: {"mode": "explicit"}} if new else None


@frozen(eq=False, repr=False)
class KeyMarkers:
    """Markers that are a key of a content block (``wire_format.CacheMarkers``).

    Args:
        keys: The keys; the first one is the format's own.
        take_control: The models that take Anthropic's key; None for all.
        any_block: Whether calls and results can carry one themselves, and not only what is said in them.
        roles: The roles whose messages can carry one; empty for all.
    """

    keys: tuple[str, ...]
    new: NewMark = field(repr=False)
    take_control: re.Pattern[str] | None = None
    text_type: str = "text"
    any_block: bool = False
    roles: frozenset[str] = frozenset()
    marks_head: bool = False
    most: int = MOST

    def refused(self, mark: Mapping[str, Any], profile: ModelProfile | None) -> bool:
        """Whether a model is known that refuses this marker, or does not know what to do with it."""
        if profile is None:
            return False
        if BREAKPOINT in mark:
            return breakpoint_of("5m", profile) is None
        return self.take_control is not None and not self.take_control.search(profile.family)

    def given(self, cache: CacheWish) -> Mapping[str, Any] | None:
        """Anthropic's marker; where it is not the format's own, only one that is given in full."""
        if CONTROL not in self.keys or not (self.keys[0] == CONTROL or isinstance(cache, Mapping)):
            return None
        if isinstance(cache, Mapping):
            return {CONTROL: dict(cache)}
        return {CONTROL: {"type": "ephemeral", "ttl": cache} if isinstance(cache, str) else {"type": "ephemeral"}}

    def rolls(self, profile: ModelProfile | None) -> bool:
        """Whether the end of each request needs a marker; OpenAI finds it by itself."""
        return CONTROL in (self.new("5m", profile) or {})

    def of(self, message: Message) -> tuple[CacheMarker, ...]:
        """The markers in a message, in order; one that its whole message carries stands on the last part."""
        found: list[CacheMarker] = []
        for place, part in enumerate(message.parts):
            if isinstance(part, ToolResult):
                for inner in part.content:
                    if type(inner.source) is not str:
                        self._look(inner.source, place, found)
            source = part.source
            if type(source) is not str and not (type(source) is dict and KEYS.isdisjoint(source)):
                self._look(source, place, found)
        source, whole = message.source, not (found or self.any_block or not message.parts or message.role == "tool")
        if whole and not (type(source) is dict and KEYS.isdisjoint(source)):
            self._look(source, len(message.parts) - 1, found)
        return tuple(found)

    def put(self, message: Message, place: int, mark: Mapping[str, Any]) -> Message | None:
        """The message with a marker on one of its parts; None when that part cannot carry one."""
        if self.roles and message.role not in self.roles:
            return None
        if message.role == "assistant" and BREAKPOINT in mark:
            return None
        part = message.parts[place]
        marked = self._put(part, mark)
        if marked is None:
            return None
        return message.with_parts((*message.parts[:place], marked, *message.parts[place + 1 :]))

    def lift(self, message: Message, place: int) -> Message:
        """The message without the markers on one of its parts."""
        return self._changed(message, place, self._without)

    def shorten(self, message: Message, place: int) -> Message:
        """The message with markers for five minutes on one of its parts where there are some for an hour."""
        return self._changed(message, place, self._short)

    def _look(self, native: object, place: int, found: list[CacheMarker]) -> None:
        """Add the markers of a block; a plain dict, asked for at every step, costs next to nothing."""
        if native is None or isinstance(native, str):
            return
        block = native if type(native) is dict else mapping_or_none(native)
        if block is None:
            return
        for key in self.keys:
            value = mapping_or_none(block[key]) if key in block else None
            found += [] if value is None else [CacheMarker(place, ttl_of(value), {key: value}, native)]

    def _put(self, part: Part, mark: Mapping[str, Any]) -> Part | None:
        if isinstance(part, Text) and part.text.strip():
            said = mapping_or_none(part.source) or {"type": self.text_type, "text": part.text}
            return evolve(part, source={**said, **mark})
        if isinstance(part, ToolResult) and not self.any_block:
            inner = self._put(part.content[-1], mark) if part.content else None
            return None if inner is None else evolve(part, content=(*part.content[:-1], inner))
        if isinstance(part, (Thinking, Opaque, Text)):
            return None
        if isinstance(part, Media) and (block := mapping_or_none(part.source)) is not None:
            return evolve(part, source={**block, **mark})
        if not self.any_block:
            return None
        kinds = {ToolCall: "tool_use", ToolResult: "tool_result"}
        kind = part.kind if isinstance(part, Media) else kinds[type(part)]
        return evolve(part, source={**(mapping_or_none(part.source) or {"type": kind}), **mark})

    def _changed(self, message: Message, place: int, change: _Change) -> Message:
        part = self._part(message.parts[place], change)
        if part is message.parts[place] and self._marks(block := mapping_or_none(message.source)):
            return message.replaced(evolve(message, source=change(block or {})))
        return message.with_parts((*message.parts[:place], part, *message.parts[place + 1 :]))

    def _part(self, part: Part, change: _Change) -> Part:
        if isinstance(part, ToolResult):
            content = tuple(self._part(item, change) for item in part.content)
            part = part if same(content, part.content) else evolve(part, content=content)
        block = mapping_or_none(part.source)
        return evolve(part, source=change(block)) if block is not None and self._marks(block) else part

    def _marks(self, block: Mapping[str, Any] | None) -> bool:
        return block is not None and any(key in block for key in self.keys)

    def _without(self, block: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in block.items() if key not in self.keys}

    def _short(self, block: Mapping[str, Any]) -> dict[str, Any]:
        return {key: for_minutes(value) if key in self.keys else value for key, value in block.items()}


CONTROL_MARKERS = KeyMarkers((CONTROL,), control, any_block=True, marks_head=True)
"""Anthropic's."""


Marked = dict[int, tuple[CacheMarker, ...]]
"""The markers of messages, by the place of the message; without those that have none."""


def find_marked(messages: Sequence[Message], markers: CacheMarkers, asked: Sequence[int] | None = None) -> Marked:
    """Find the markers of messages, by place, and note on each that has none that it has none.

    For there are many such, and all are asked often. What a message says does not change, and a caller who marks its
    native payload is read again.

    Args:
        messages: The messages.
        markers: How they are written.
        asked: The places of those that may have some, where they are known.
    """
    found: Marked = {}
    places = range(len(messages)) if asked is None else asked
    for place in places:
        message = messages[place]
        if message.bare_of is not markers:
            if carried := markers.of(message):
                found[place] = carried
            else:
                object.__setattr__(message, "bare_of", markers)  # invisible to equality
    return found
