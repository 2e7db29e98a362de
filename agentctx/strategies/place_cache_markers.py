"""Ask the provider's cache to keep what the next request will begin with.

Sources: Anthropic's prompt-caching page (at most four markers; an entry is found from a marker at most twenty blocks
behind it), AWS's for Converse, OpenAI's for GPT-5.6 and later (an explicit breakpoint keeps the head when the middle of
a conversation is left out).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import ClassVar

from attrs import define, evolve, field, frozen

from agentctx.engine.guarantee import PlacesMarkers, as_read, in_order
from agentctx.formats.native import Marked, find_marked
from agentctx.message import SYSTEM_ROLES, CacheMarker, Context, Message, Ttl
from agentctx.protocols import Call, When, library_stage
from agentctx.unit import first_task
from agentctx.validators import one_of
from agentctx.wire_format import CacheMarkers, head_markers

_SMALLEST = 1_024
"""The shortest prefix that is kept where the model's own is not known, in tokens."""

_LIFETIME = one_of(("5m", "1h")).or_none


@library_stage
@frozen
class PlaceCacheMarkers(PlacesMarkers):
    """Put cache markers where they pay: behind tools and system prompt, and where this and the last request end.

    The places follow from the transcript alone, so that a marker stays where it is until its place among the provider's
    four is needed for a newer one. Markers that the caller has set count and stay while there is room. Formats and
    models whose cache needs no markers are left alone, and so are requests that are too short to be kept, and
    messages that the caller protects.

    Args:
        ttl: How long the conversation is kept.
        head_ttl: How long tools and system prompt are kept; None: as long as the conversation.

    Raises:
        ConfigError: If a lifetime is neither ``"5m"`` nor ``"1h"``.

    Example:
        >>> from agentctx import Pipeline, PlaceCacheMarkers
        >>> messages = [{"role": "user", "content": [{"type": "text", "text": "Read this. " * 900}]}]
        >>> view = await Pipeline(PlaceCacheMarkers()).prepare(messages, format="anthropic", model="claude-sonnet-4-5")
        >>> view.messages[0]["content"][0]["cache_control"]
        {'type': 'ephemeral'}
    """

    ttl: Ttl = field(default="5m", validator=_LIFETIME)
    head_ttl: Ttl | None = field(default=None, validator=_LIFETIME)
    when: ClassVar[When] = When.ALWAYS

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context with its markers."""
        markers = None if call.wire is None else call.wire.cache_markers
        if markers is None or markers.new(self.ttl, call.profile) is None or _too_short(context, call):
            return context
        work = _Work(context, markers, call)
        work.head(self.head_ttl or self.ttl)
        for place in _ends(context.messages) if markers.rolls(call.profile) else ():
            work.mark(place, self.ttl)
        return work.done()


def _too_short(context: Context, call: Call) -> bool:
    """Whether the request is shorter than any that is kept; looks at no more messages than it takes to know."""
    known = None if call.profile is None else call.profile.min_cache
    least = _SMALLEST if known is None else known
    sizes = accumulate(map(call.count, context.messages), initial=call.meter.fixed(context))
    return all(size < least for size in sizes)


def _ends(messages: Sequence[Message]) -> list[int]:
    """The messages with which the request before this one and this one end."""
    stops = range(1, len(messages) + 1)
    ends = (stop - 1 for stop in reversed(stops) if stop == len(messages) or messages[stop].role == "assistant")
    found: list[int] = []
    for place in ends:
        if messages[place].role != "assistant":
            found.insert(0, place)
        if len(found) == 2:
            break
    return found


def _leading(messages: Sequence[Message]) -> int:
    """How many system messages the conversation begins with."""
    return next((n for n, message in enumerate(messages) if message.role not in SYSTEM_ROLES), len(messages))


@define
class _Work:
    """Placing the markers of one request.

    Args:
        context: The request; system prompt and tools as they will be.
        markers: How its format has markers written.
        call: What the stage is told.
        messages: Its messages as they were.
        made: The messages that are others now, by place.
    """

    context: Context
    markers: CacheMarkers
    call: Call
    messages: Sequence[Message] = field(init=False)
    made: dict[int, Message] = field(init=False, factory=dict)
    known: Marked = field(init=False)
    fixed: list[CacheMarker] = field(init=False)
    frozen: frozenset[int] = field(init=False)
    wanted: set[int] = field(init=False, factory=set)

    def __attrs_post_init__(self) -> None:
        """Look where markers are."""
        self.messages = self.context.messages
        self.known = find_marked(self.messages, self.markers)
        self.fixed = head_markers(self.context, self.markers)
        self.frozen = self.call.frozen(self.context)

    def head(self, ttl: Ttl) -> None:
        """Mark what stands before the conversation: the system prompt, which the tools precede, or the tools."""
        task = first_task(self.messages)
        if leading := _leading(self.messages):
            self.mark(leading - 1, ttl)
        elif not self.fixed and not self._mark_system(ttl) and not self._mark_tools(ttl) and task:
            self.mark(task[0], ttl)
        if task and not self.markers.rolls(self.call.profile):
            self.mark(task[0], ttl)

    def mark(self, place: int, ttl: Ttl) -> None:
        """Mark the last part of a message that can carry a marker, unless the message has one."""
        self.wanted.add(place)
        message = self.messages[place]
        if place in self.known or place in self.frozen:
            return
        for wish in dict.fromkeys((ttl, "5m", "1h")):
            if (made := self._marked(message, wish)) is None:
                return
            if in_order(self.fixed, self.known, place, self.markers.of(made)[-1]):
                self.made[place] = as_read(made, self.markers)
                self.known[place] = self.markers.of(made)
                return

    def _marked(self, message: Message, ttl: Ttl) -> Message | None:
        mark = self.markers.new(ttl, self.call.profile)
        places = range(len(message.parts) - 1, -1, -1)
        made = (self.markers.put(message, place, mark) for place in places if mark is not None)
        return next((each for each in made if each is not None), None)

    def _mark_system(self, ttl: Ttl) -> bool:
        system = self.context.system
        made = None if system is None or not self.markers.marks_head else self._marked(system, self._head_ttl(ttl))
        if made is None:
            return False
        self.context = evolve(self.context, system=made)
        return True

    def _mark_tools(self, ttl: Ttl) -> bool:
        """Mark the last tool that is loaded at once."""
        mark = self.markers.new(self._head_ttl(ttl), self.call.profile)
        tools = list(self.context.tools)
        for place in range(len(tools) - 1, -1, -1) if mark is not None and self.markers.marks_head else ():
            source = tools[place].source
            if isinstance(source, dict) and source.get("defer_loading") is not True:
                tools[place] = evolve(tools[place], source={**source, **(mark or {})})
                self.context = evolve(self.context, tools=tuple(tools))
                return True
        return False

    def _head_ttl(self, ttl: Ttl) -> Ttl:
        """An hour when a marker behind it lives so long."""
        return "1h" if any(each.ttl == "1h" for found in self.known.values() for each in found) else ttl

    def done(self) -> Context:
        """The request with no more markers than there may be: the oldest that are not wanted go first."""
        over = len(head_markers(self.context, self.markers)) + sum(map(len, self.known.values())) - self.markers.most
        for wanted in (False, True):
            for place in sorted(self.known):
                if over > 0 and (place in self.wanted) is wanted and place not in self.frozen:
                    over -= len(self.known[place])
                    self._lift(place)
        if not self.made:
            return self.context
        first = min(self.made)
        later = (self.made.get(place, self.messages[place]) for place in range(first, len(self.messages)))
        return self.context.with_messages((*self.messages[:first], *later))

    def _lift(self, place: int) -> None:
        for at in sorted({marker.place for marker in self.known.pop(place)}, reverse=True):
            self.made[place] = self.markers.lift(self.made.get(place, self.messages[place]), at)
        self.made[place] = as_read(self.made[place], self.markers)
