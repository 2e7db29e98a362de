"""The two ways in which providers have cache markers written: as a key of a block, and as a block of its own.

Sources: Anthropic's and OpenAI's prompt-caching pages (2026-07/08), AWS's prompt-caching page for Converse.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import evolve, field, frozen

from agentctx.core.message import (
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
    is_marker,
)
from agentctx.models.profile import ModelProfile
from agentctx.providers.native import mapping_or_none, same

MOST = 4
"""The most markers of one request, on every provider that has them."""

CONTROL, BREAKPOINT = "cache_control", "prompt_cache_breakpoint"

_KEYS = frozenset({CONTROL, BREAKPOINT})
_TEXTS = frozenset({"text", "input_text", "output_text"})
_BREAKPOINTS = re.compile(r"gpt-(?:5\.[6-9]|[6-9]|\d\d)")
_POINTS = re.compile(r"claude|nova")
_TAKE_CONTROL = re.compile(r"claude|gemini|qwen|nova")
"""The models for which gateways in the Chat format pass Anthropic's marker on; OpenAI and others refuse it."""


def unmarked(native: Native) -> Native:
    """A native message without cache markers, to be compared with another one.

    Content that is one plain text is the text, since a text becomes a block when it is marked.
    """
    if isinstance(native, (list, tuple)):
        blocks = [unmarked(each) for each in native if not _is_point(each)]
        return _only_text(blocks) if len(blocks) == 1 else blocks
    if isinstance(native, str) or (fields := mapping_or_none(native)) is None:
        return native
    return {key: unmarked(value) for key, value in fields.items() if key not in _KEYS}


def _is_point(native: Native) -> bool:
    return isinstance(native, Mapping) and set(native) == {"cachePoint"}


def _only_text(blocks: list[Native]) -> Native:
    block = blocks[0]
    plain = isinstance(block, dict) and set(block) == {"type", "text"} and block["type"] in _TEXTS
    return block["text"] if plain else blocks


NewMark = Callable[[Ttl, ModelProfile | None], "Mapping[str, Any] | None"]
_Change = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def _ttl(value: object) -> Ttl:
    return "1h" if (mapping_or_none(value) or {}).get("ttl") == "1h" else "5m"


def _for_minutes(mark: object) -> object:
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


def chat_mark(ttl: Ttl, profile: ModelProfile | None) -> Mapping[str, Any] | None:
    """The marker in the Chat format: Claude, through a gateway, has Anthropic's."""
    if profile is not None and profile.family.startswith("claude"):
        return control(ttl, profile)
    return breakpoint_of(ttl, profile)


def point(ttl: Ttl, profile: ModelProfile | None) -> Mapping[str, Any] | None:
    """Bedrock's marker, which other models than Claude and Nova refuse."""
    if profile is None or not _POINTS.search(profile.family):
        return None
    return {"cachePoint": {"type": "default"} if ttl == "5m" else {"type": "default", "ttl": ttl}}


Refuses = Callable[[Mapping[str, Any], ModelProfile], bool]


def _chat_refuses(mark: Mapping[str, Any], profile: ModelProfile) -> bool:
    return breakpoint_of("5m", profile) is None if BREAKPOINT in mark else not _TAKE_CONTROL.search(profile.family)


def _refuses_breakpoint(_mark: Mapping[str, Any], profile: ModelProfile) -> bool:
    return breakpoint_of("5m", profile) is None


def _refuses_none(_mark: Mapping[str, Any], _profile: ModelProfile) -> bool:
    return False


@frozen
class KeyMarkers:
    """Markers that are a key of a content block (``protocols.CacheMarkers``).

    Args:
        keys: The keys; the first one is the format's own.
        new: Makes a marker.
        refuses: Whether a model refuses a marker.
        text_type: The type of a text block.
        any_block: Whether calls and results can carry one themselves, and not only what is said in them.
        roles: The roles whose messages can carry one; empty for all.
        marks_head: Whether tools and a system prompt that is kept apart can carry one.
        most: The most markers of a request.
    """

    keys: tuple[str, ...]
    new: NewMark = field(repr=False)
    refuses: Refuses = field(repr=False)
    text_type: str = "text"
    any_block: bool = False
    roles: frozenset[str] = frozenset()
    marks_head: bool = False
    most: int = MOST

    def refused(self, mark: Mapping[str, Any], profile: ModelProfile | None) -> bool:
        """Whether a model is known that refuses this marker, or does not know what to do with it."""
        return profile is not None and self.refuses(mark, profile)

    def rolls(self, profile: ModelProfile | None) -> bool:
        """Whether the end of each request needs a marker; OpenAI finds it by itself."""
        return CONTROL in (self.new("5m", profile) or {})

    def of(self, message: Message) -> tuple[CacheMarker, ...]:
        """The markers in a message, in order; one that its whole message carries stands on the last part."""
        found: list[CacheMarker] = []
        for place, part in enumerate(message.parts):
            if isinstance(part, ToolResult):
                for inner in part.content:
                    self._look(inner.source, place, found)
            self._look(part.source, place, found)
        if not (found or self.any_block or not message.parts or message.role == "tool"):
            self._look(message.source, len(message.parts) - 1, found)
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
            found += [] if value is None else [CacheMarker(place, _ttl(value), {key: value}, native)]

    def _put(self, part: Part, mark: Mapping[str, Any]) -> Part | None:
        if isinstance(part, Text) and part.text.strip():
            said = self._block(part.source) or {"type": self.text_type, "text": part.text}
            return evolve(part, source={**said, **mark})
        if isinstance(part, ToolResult) and not self.any_block:
            return self._put_within(part, mark)
        if isinstance(part, (Thinking, Opaque, Text)):
            return None
        if isinstance(part, Media) and (block := self._block(part.source)) is not None:
            return evolve(part, source={**block, **mark})
        if not self.any_block:
            return None
        kinds = {ToolCall: "tool_use", ToolResult: "tool_result"}
        kind = part.kind if isinstance(part, Media) else kinds[type(part)]
        return evolve(part, source={**(self._block(part.source) or {"type": kind}), **mark})

    def _put_within(self, result: ToolResult, mark: Mapping[str, Any]) -> ToolResult | None:
        last = len(result.content) - 1
        inner = self._put(result.content[last], mark) if result.content else None
        return None if inner is None else evolve(result, content=(*result.content[:last], inner))

    def _block(self, native: object) -> Mapping[str, Any] | None:
        return None if isinstance(native, str) else mapping_or_none(native)

    def _changed(self, message: Message, place: int, change: _Change) -> Message:
        part = self._part(message.parts[place], change)
        if part is message.parts[place] and self._marks(block := self._block(message.source)):
            return message.replaced(evolve(message, source=change(block or {})))
        return message.with_parts((*message.parts[:place], part, *message.parts[place + 1 :]))

    def _part(self, part: Part, change: _Change) -> Part:
        if isinstance(part, ToolResult):
            content = tuple(self._part(item, change) for item in part.content)
            part = part if same(content, part.content) else evolve(part, content=content)
        block = self._block(part.source)
        return evolve(part, source=change(block)) if block is not None and self._marks(block) else part

    def _marks(self, block: Mapping[str, Any] | None) -> bool:
        return block is not None and any(key in block for key in self.keys)

    def _without(self, block: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in block.items() if key not in self.keys}

    def _short(self, block: Mapping[str, Any]) -> dict[str, Any]:
        return {key: _for_minutes(value) if key in self.keys else value for key, value in block.items()}


@frozen
class PointMarkers:
    """Markers that are a block of their own behind what shall be kept (``protocols.CacheMarkers``).

    Args:
        new: Makes a marker.
        marks_head: As of ``KeyMarkers``; here the first task is marked, which the system prompt precedes.
        most: As of ``KeyMarkers``.
    """

    new: NewMark = field(repr=False)
    marks_head: bool = False
    most: int = MOST

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
        made = Opaque("cachePoint", mark, source=mark)
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
            mark = {key: _for_minutes(value) for key, value in (mapping_or_none(part.data) or {}).items()}
            parts[at] = evolve(part, data=mark, source=mark)
        return message.with_parts(tuple(parts))

    def _markers(self, message: Message) -> Iterator[CacheMarker]:
        for place, part in enumerate(message.parts):
            if isinstance(part, Opaque) and is_marker(part):
                block = mapping_or_none(part.data) or {}
                yield CacheMarker(place - 1, _ttl(block.get("cachePoint")), block, part.source)


ANTHROPIC = KeyMarkers((CONTROL,), control, _refuses_none, any_block=True, marks_head=True)
CHAT = KeyMarkers((BREAKPOINT, CONTROL), chat_mark, _chat_refuses)
RESPONSES = KeyMarkers(
    (BREAKPOINT,),
    breakpoint_of,
    _refuses_breakpoint,
    "input_text",
    roles=frozenset({"user", "system", "developer"}),
)
BEDROCK = PointMarkers(point)
