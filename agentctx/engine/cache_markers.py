"""Cache markers stay where they can: those whose blocks went move, and those that are too many go.

Source: Anthropic's prompt-caching page: an entry is found from a marker, so that a request which has lost its marker
pays for its whole prefix again. There are at most four, and markers with the longer lifetime must not stand behind
those with the shorter one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set as AbstractSet
from itertools import chain, dropwhile
from operator import is_not

from attrs import define, evolve, field, frozen

from agentctx.changes import match, shared
from agentctx.engine.run_stages import head_changes
from agentctx.errors import InvalidInput
from agentctx.formats.cache_markers import Marked, find_marked
from agentctx.message import CacheMarker, Context, Message, Tool
from agentctx.models.profile import ModelProfile
from agentctx.protocols import Call, ContextStrategy
from agentctx.reports import StageReport
from agentctx.users_code import offload
from agentctx.wire_format import CacheMarkers, WireFormat, head_markers


@frozen(eq=False, repr=False)
class KeepCacheMarkers(ContextStrategy):
    """Put the markers that were lost where they can stand. There are never more than the provider takes.

    A marker that meets one of the same lifetime is one with it; one that meets another lifetime goes, since it would
    have to stand before it.

    Args:
        before: The messages as they were when they had all their markers.
    """

    before: tuple[Message, ...]

    async def __call__(self, context: Context, call: Call, /) -> Context:
        """Return the context with the markers that had lost their blocks."""
        markers = None if call.wire is None else call.wire.cache_markers
        if markers is None:
            return context
        before, after = self.before, context.messages
        start = shared(before, after)
        if not _not_known_bare(before[start:], markers):
            return context
        lost = await offload(lambda: list(_lost(before, after, start, markers)), len(before) - start)
        lost = [each for each in lost if not markers.refused(each[0].mark, call.profile)]
        if not lost:
            return context
        earlier = () if call.internals.before is None else find_marked(call.internals.before(), markers).values()
        head = [*head_markers(context, markers), *chain.from_iterable(earlier)]
        keeping = _Keeping(markers, list(context.messages), head)
        moved = sum(keeping.find_block_for(*each) for each in lost)
        call.remark(
            f"cache markers whose blocks went: {moved} moved to the nearest earlier block that stays, "
            f"{len(lost) - moved} left out"
        )
        return context.with_messages(tuple(keeping.messages)) if moved else context


class PlacesMarkers(ContextStrategy):
    """A strategy that only places cache markers: it is not run where the format, or the model, has none."""

    __slots__ = ()


def _not_known_bare(messages: Sequence[Message], markers: CacheMarkers) -> list[int]:
    return [place for place, message in enumerate(messages) if message.bare_of is not markers]


def in_order(head: Sequence[CacheMarker], known: Marked, place: int, marker: CacheMarker) -> bool:
    """Whether a marker may stand on a message: an hour never stands behind five minutes."""
    before = [*head, *(each for at, found in known.items() if at < place for each in found)]
    after = (each for at, found in known.items() if at > place for each in found)
    if marker.ttl == "1h":
        return all(each.ttl == "1h" for each in before)
    return all(each.ttl == "5m" for each in after)


def _lost(
    before: Sequence[Message], after: Sequence[Message], start: int, markers: CacheMarkers
) -> Iterator[tuple[CacheMarker, int, int]]:
    """Each marker whose block is gone, with the message and the part from which to look backwards.

    Up to ``start`` all messages are the same objects. A block that was put into a message of its own took its marker
    along.
    """
    known = {start + place: found for place, found in find_marked(before[start:], markers).items()}
    if not known:
        return
    origins = match(before[start:], after[start:]).origins
    stays = {start + origin: place for place, origin in enumerate(origins, start) if origin is not None}
    made = [message for message, origin in zip(after[start:], origins, strict=True) if origin is None]
    moved = {id(marker.owner) for message in made for marker in markers.of(message)}
    for index, carried in known.items():
        found = [marker for marker in carried if id(marker.owner) not in moved]
        place = stays.get(index)
        if place is None:
            earlier = max((stays[origin] for origin in stays if origin < index), default=start - 1)
            yield from ((marker, earlier, -1) for marker in found)
        elif after[place] is not before[index]:
            there = {id(marker.owner) for marker in markers.of(after[place])}
            for marker in found:
                # A part that is there without its marker was relieved of it on purpose.
                part = before[index].parts[marker.place] if marker.place >= 0 else None
                if id(marker.owner) not in there and part not in after[place].parts:
                    yield marker, place, marker.place


def as_read(message: Message, markers: CacheMarkers) -> Message:
    """The message as it was read, when with its markers it is no other: then its own payload goes out again."""
    if message.read_parts != message.parts or message.read_role != message.role:
        return message
    read = message.with_parts(message.read_parts)
    return read if _standing(read, markers) == _standing(message, markers) else message


def _standing(message: Message, markers: CacheMarkers) -> list[tuple[CacheMarker, object]]:
    """The markers of a message with the blocks that carry them, to be compared."""
    return [(marker, marker.owner) for marker in markers.of(message)]


@frozen(eq=False, repr=False)
class LiftCacheMarkers(ContextStrategy):
    """Take off the markers that the model refuses, as far as it is known: they are another model's, or another API's.

    A message that holds nothing else goes.
    """

    async def __call__(self, context: Context, call: Call, /) -> Context:
        """Return the context without them."""
        markers = None if call.wire is None else call.wire.cache_markers
        if markers is None or call.profile is None:
            return context
        asked = _not_known_bare(context.messages, markers)
        known = await offload(lambda: find_marked(context.messages, markers, asked), len(asked))
        relieved: dict[int, Message] = {}
        for place in known:
            message = context.messages[place]
            if (bare := without_refused(message, markers, call.profile)) is not message:
                call.note(message, REFUSED)
                relieved[place] = bare
        if not relieved:
            return context
        now = (relieved.get(place, message) for place, message in enumerate(context.messages))
        return context.with_messages(tuple(message for message in now if message.parts))


REFUSED = "a cache marker that the model does not take is taken off"


def without_refused(message: Message, markers: CacheMarkers, profile: ModelProfile | None) -> Message:
    """The message without the markers that the model refuses; the same object when there are none."""
    found = markers.of(message)
    gone = {marker.place for marker in found if markers.refused(marker.mark, profile)}
    if not gone:
        return message
    bare = message
    for place in sorted(gone, reverse=True):  # taking a marker off may remove its part, so from the back
        bare = markers.lift(bare, place)
    for marker in found:  # one that the model takes may have stood on the same part
        if marker.place in gone and not markers.refused(marker.mark, profile):
            bare = markers.put(bare, marker.place, marker.mark) or bare
    return as_read(bare, markers)


def carries_refused(messages: Sequence[Message], wire: WireFormat, profile: ModelProfile | None) -> bool:
    """Whether messages carry markers that the model refuses."""
    markers = wire.cache_markers
    if markers is None or profile is None:
        return False
    found = chain.from_iterable(find_marked(messages, markers).values())
    return any(markers.refused(marker.mark, profile) for marker in found)


def relieved_head(context: Context, wire: WireFormat, profile: ModelProfile | None) -> Context:
    """The context with no markers on tools and system prompt that the model refuses; the same object without such."""
    markers = wire.cache_markers
    if markers is None or not any(markers.refused(each.mark, profile) for each in head_markers(context, markers)):
        return context
    system, tools = context.system, context.tools
    if system is not None and (bare := without_refused(system, markers, profile)) is not system:
        system = bare if bare.parts else None
    kept = tuple(_relieved_tool(tool, markers, profile) for tool in tools)
    if any(map(is_not, kept, tools)):
        tools = tuple(tool for tool in kept if tool is not None)
    return evolve(context, system=system, tools=tools)


def relief(given: Context, sent: Context, call: Call, size: int) -> tuple[StageReport, ...]:
    """The report on ``relieved_head``; empty when nothing was taken off.

    Args:
        given: System prompt and tools as they were passed in.
        sent: The same as they go on.
        call: What the stages are told.
        size: Size of the request when it was done, in tokens.
    """
    if given.system is sent.system and given.tools is sent.tools:
        return ()
    name, more = LiftCacheMarkers.__name__, call.meter.fixed(given) - call.meter.fixed(sent)
    head = tuple(evolve(change, reason=REFUSED) for change in head_changes(name, given, sent, call))
    return (StageReport(name, (), size + more, size, 0.0, (), head),)


def _relieved_tool(tool: Tool, markers: CacheMarkers, profile: ModelProfile | None) -> Tool | None:
    """The tool without such markers; None when it is nothing but one."""
    found = head_markers(Context((), None, (tool,)), markers)
    keys = {key for marker in found if markers.refused(marker.mark, profile) for key in marker.mark}
    if not keys or not isinstance(tool.source, Mapping):
        return tool
    source = {key: value for key, value in tool.source.items() if key not in keys}
    return evolve(tool, source=source) if source else None


@frozen(eq=False, repr=False)
class LimitCacheMarkers(ContextStrategy):
    """Take off the oldest markers that are more than the provider takes, and shorten an hour behind five minutes.

    Markers on tools and system prompt stay; see ``check_head``.
    """

    async def __call__(self, context: Context, call: Call, /) -> Context:
        """Return the context with markers that the provider takes."""
        markers = None if call.wire is None else call.wire.cache_markers
        if markers is None:
            return context
        asked = _not_known_bare(context.messages, markers)
        known = await offload(lambda: find_marked(context.messages, markers, asked), len(asked))
        head = head_markers(context, markers)
        if allowed(head, known, markers):
            return context
        surplus = _surplus(known, len(head) + sum(map(len, known.values())) - markers.most, call.frozen(context))
        late = _late(head, known, surplus)
        messages = list(context.messages)
        for why, places, change in ((TOO_MANY, surplus, markers.lift), (TOO_LATE, late, markers.shorten)):
            for index, place in sorted(places, reverse=True):  # as above
                call.note(context.messages[index], why)
                messages[index] = as_read(change(messages[index], place), markers)
        return context.with_messages(tuple(messages))


TOO_MANY = "more cache markers than the provider takes: the oldest are taken off"
TOO_LATE = "a cache marker of an hour behind one of five minutes is for five minutes, too"

_Places = set[tuple[int, int]]
"""Parts that carry markers: the place of the message, and of the part in it."""


def check_head(context: Context, wire: WireFormat) -> None:
    """Check the markers of what stands before all messages, which are the caller's own to take off.

    Raises:
        InvalidInput: If the provider does not take them.
    """
    markers = wire.cache_markers
    if markers is None:
        return
    head = head_markers(context, markers)
    where = "tools" if context.system is None else "system"
    if len(head) > markers.most:
        what = f"{len(head)} cache markers on tools and system prompt; the provider takes {markers.most} in a request"
        raise InvalidInput(where, f"{what}: take the others off")
    if not allowed(head, {}, markers):
        raise InvalidInput(where, f"{_ORDER}: give all of them one lifetime")


_ORDER = "a cache marker of an hour stands behind one of five minutes on tools and system prompt (tools come first)"


def allowed(head: Sequence[CacheMarker], known: Marked, markers: CacheMarkers) -> bool:
    """Whether the provider takes these markers: not too many, and none of an hour behind one of five minutes."""
    every = [*head, *chain.from_iterable(known[place] for place in sorted(known))]
    short = dropwhile(lambda marker: marker.ttl == "1h", every)
    return len(every) <= markers.most and all(marker.ttl == "5m" for marker in short)


def _surplus(known: Marked, over: int, pinned: AbstractSet[int]) -> _Places:
    """The parts whose markers are too many: the oldest, those that the caller protects at last."""
    places = Counter((index, marker.place) for index, found in known.items() for marker in found)
    gone: _Places = set()
    for at in sorted(places, key=lambda at: (at[0] in pinned, at)):
        if over > 0:
            over -= places[at]
            gone.add(at)
    return gone


def _late(head: Sequence[CacheMarker], known: Marked, surplus: _Places) -> _Places:
    """The parts whose markers of an hour stand behind one of five minutes, when those of ``surplus`` are gone."""
    stays = [
        (index, marker) for index in sorted(known) for marker in known[index] if (index, marker.place) not in surplus
    ]
    if all(marker.ttl == "1h" for marker in head):
        stays = list(dropwhile(lambda found: found[1].ttl == "1h", stays))
    return {(index, marker.place) for index, marker in stays if marker.ttl == "1h"}


@define(eq=False, repr=False)
class _Keeping:
    """Finding new places for markers.

    Args:
        markers: How the format has them written.
        messages: The messages, as they will be.
        head: The markers that stand before all these messages.
    """

    markers: CacheMarkers
    messages: list[Message]
    head: list[CacheMarker]
    known: Marked = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Look where markers are."""
        self.known = find_marked(self.messages, self.markers)

    def find_block_for(self, marker: CacheMarker, place: int, part: int) -> bool:
        """Find a marker its new block; whether there was one (or one that says the same already)."""
        for index in range(place, -1, -1):
            message = self.messages[index]
            taken = {each.place: each.ttl for each in self.known.get(index, ())}
            last = len(message.parts) - 1
            start = min(part, last) if index == place and part >= 0 else last
            for at in range(start, -1, -1):
                if at in taken:
                    return taken[at] == marker.ttl
                if (made := self.markers.put(message, at, marker.mark)) is not None:
                    return self._put(index, as_read(made, self.markers), marker)
        return False

    def _put(self, index: int, made: Message, marker: CacheMarker) -> bool:
        total = len(self.head) + sum(map(len, self.known.values()))
        if total >= self.markers.most or not in_order(self.head, self.known, index, marker):
            return False
        self.messages[index] = made
        self.known[index] = self.markers.of(made)
        return True
