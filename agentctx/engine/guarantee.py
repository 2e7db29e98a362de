"""What holds of every request whatever the stages did: it fits, bound reasoning is whole, cache markers stay.

Reasoning may not be parted from what it was made with. Cache markers stay where they can: those whose blocks went move,
and those that are too many go.

Source: Anthropic's prompt-caching page: an entry is found from a marker, so that a request which has lost its marker
pays for its whole prefix again. There are at most four, and markers with the longer lifetime must not stand behind
those with the shorter one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set as AbstractSet
from itertools import chain, dropwhile
from operator import is_not
from typing import Any, ClassVar

from attrs import define, evolve, field, frozen

from agentctx.budget import Budget
from agentctx.changes import match, shared
from agentctx.engine.cut import cut, lay_out
from agentctx.engine.reading import place_of, write_native
from agentctx.engine.recap import counted, giving_way, line_for, reserved
from agentctx.engine.repair import GO_ON_MESSAGE, arranged_by, lacks_end
from agentctx.engine.run_stages import Adjustment, Trail, head_changes, run_stage
from agentctx.engine.shrink import shrink_arguments, shrink_results
from agentctx.errors import BigItem, ContextOverflow, InvalidInput
from agentctx.formats.native import Marked, find_marked, mapping_or_none
from agentctx.message import KEYS, CacheMarker, Context, Media, Message, Native, Part, Text, Thinking, Tool, ToolResult
from agentctx.models.profile import ModelProfile
from agentctx.models.table import shares_reasoning
from agentctx.protocols import Call, ContextStrategy, floor_of, inside, library_stage
from agentctx.reports import StageReport
from agentctx.tokens.media import base64_of
from agentctx.unit import FOREIGN_REASONING, open_at_end, open_round, signed
from agentctx.users_code import offload
from agentctx.wire_format import CacheMarkers, WireFormat, head_markers

WHY = "the reasoning was bound to a prefix that changed"


@frozen(eq=False, repr=False)
class DropBoundThinking(ContextStrategy):
    """Drop every signed thinking block from one message on.

    Args:
        first: The index of the first message whose reasoning has lost its prefix.
    """

    first: int

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context without reasoning that its provider would refuse."""
        kept: list[Message] = list(context.messages[: self.first])
        for message in context.messages[self.first :]:
            bare = [part for part in message.parts if not (isinstance(part, Thinking) and part.signed)]
            if len(bare) == len(message.parts):
                kept.append(message)
                continue
            call.note(message, WHY)
            if bare:
                kept.append(message.with_parts(tuple(bare)))
        return context.with_messages(tuple(kept))


def first_unbound(before: Sequence[Message], after: Sequence[Message]) -> int | None:
    """The first place of ``after`` whose reasoning has lost its prefix; None when nothing has."""
    found = match(before, after)
    if found.first_changed is None or found.first_changed >= len(after):
        return None
    place = found.first_changed
    in_place = found.origins[place] == place and _reasons_first(after[place]) and _reasons_first(before[place])
    return place + 1 if in_place else place


def _reasons_first(message: Message) -> bool:
    """Whether all reasoning stands before everything else, so that an edit in the message comes after it."""
    kinds = [isinstance(part, Thinking) for part in message.parts]
    return kinds == sorted(kinds, reverse=True)


async def settle_reasoning(trail: Trail, call: Call, before: Context) -> None:
    """Drop the reasoning that has lost its prefix.

    Args:
        trail: Where the step stands; brought up to date.
        call: What the stages are told.
        before: The request as it was when the reasoning was made.
    """
    if call.profile is None or not call.profile.bound_thinking:
        return
    first = _first(trail, before)
    if first is None:
        return
    messages = trail.context.messages
    lost_open = any(signed(message) for message in messages[max(first, open_round(messages)) :])
    await run_stage(DropBoundThinking(first), trail, call, by="fit", trusted=True)
    trail.unbound_from = None
    trail.lost_open = trail.lost_open or lost_open


def _first(trail: Trail, before: Context) -> int | None:
    """The first place whose reasoning has lost its prefix, now or at an earlier step; None when none has."""
    after = trail.context
    if head_of(before) != head_of(after):
        return 0
    now = first_unbound(before.messages, after.messages) if trail.reports else None
    places = [place for place in (now, trail.unbound_from) if place is not None]
    return min(places, default=None)


def head_of(context: Context) -> tuple[object, ...]:
    """What stands before all messages: the system prompt, and the tools that are not loaded later."""
    natives = [mapping_or_none(tool.source) or {"tool": tool} for tool in context.tools]
    at_once = [native for native in natives if native.get("defer_loading") is not True]
    return context.system, [{key: native[key] for key in native if key not in KEYS} for native in at_once]


FOREIGN_ID = f"its id is tied to reasoning, and {FOREIGN_REASONING}"


def understands(model: str | None, other: str | None) -> bool:
    """Whether a model takes the reasoning of another; of a model that is not named, nothing is known against it."""
    return model is None or other is None or model == other or shares_reasoning(model, other)


@frozen(eq=False, repr=False)
class DropForeignReasoning(ContextStrategy):
    """Leave out the reasoning of messages from before the model was changed.

    Args:
        origins: For each message, its index in the history.
        until: The first index in the history that the current model may have made.
    """

    origins: Sequence[int]
    until: int

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context without it."""
        wire = call.wire
        if wire is None:
            return context
        kept: list[Message] = []
        for message, origin in zip(context.messages, self.origins, strict=True):
            bare = wire.without_reasoning(message) if origin < self.until else message
            if bare is not message:
                by_id_only = bare is not None and bare.given is not None
                call.note(message, FOREIGN_ID if by_id_only else FOREIGN_REASONING)
            if bare is not None:
                kept.append(bare)
        same = len(kept) == len(context.messages) and all(map(_is, kept, context.messages))
        return context if same else context.with_messages(tuple(kept))


def _is(one: Message, other: Message) -> bool:
    return one is other


PARTS_FREE = 4
"""Of the room that a cut has, so much as one of this many equal parts is left free for the recap, at most."""

NAMED = 5
"""How many of the biggest items an overflow names."""


@library_stage
@frozen(eq=False, repr=False)
class FitGuarantee(ContextStrategy):
    """Make the request fit ``limit`` or raise.

    In this order: the results of what must stay are cut when they alone are too large; the request is cut in the order
    of ``engine/cut.py``, and the recap counts what went; what is left of results, and then of call arguments, is cut to
    what fits; last of all the recap gives way.

    Args:
        limit: The most tokens that the request may have.
        origins: For each message that it is given, the index by which the caller knows it, for the error; None for a
            message that a stage made. Without it: as they stand.
    """

    limit: int
    origins: Sequence[int | None] | None = None

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context, at most ``limit`` tokens.

        Raises:
            ContextOverflow: If what must stay is larger than the limit; names the biggest items.
        """
        if call.size(context) <= self.limit:
            return context
        given = context
        free = min(call.internals.reserved, max(0, self.limit - floor_of(call, context)) // PARTS_FREE)
        context = counted(cut(context, self.limit, self.limit, inside(call, reserved=free)), call)
        why = f"over {self.limit:,} tokens"
        places = frozenset(range(len(context.messages))) - call.frozen(context)
        limit = self.limit if call.size(context) <= self.limit else self.limit - line_for(context, call)
        context = shrink_results(context, places, call.size(context) - limit, call, why)
        context = _shrink_arguments(context, limit, places - call.protected(context), call, why)
        context = giving_way(context, self.limit, call)
        size = call.size(context)
        if size > self.limit:
            raise ContextOverflow(size, self.limit, biggest(context, call, known_as(given, context, self.origins)))
        return context


def _shrink_arguments(context: Context, limit: int, places: frozenset[int], call: Call, why: str) -> Context:
    """Cut call arguments until they fit or hold nothing more; JSON's own escapes make one pass miss a little."""
    while (spare := call.size(context) - limit) > 0:
        shorter = shrink_arguments(context, places, spare, call, why)
        if call.size(shorter) >= call.size(context):
            return context
        context = shorter
    return context


@library_stage
@frozen(eq=False, repr=False)
class RecapCounts(ContextStrategy):
    """Let a recap that stands in the request count all that is gone, whichever stage has left it out."""

    name: ClassVar[str] = "Recap"

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context with other numbers in its recap, as it is where these are true."""
        return counted(context, call)


@library_stage
@frozen(eq=False, repr=False)
class RecapGivesWay(ContextStrategy):
    """Let the recap get shorter until the request fits, or go.

    Args:
        limit: The most tokens that the request may have.
    """

    limit: int
    name: ClassVar[str] = "FitGuarantee"

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context, at most ``limit`` tokens where it is without a recap."""
        return giving_way(context, self.limit, call)


def known_as(given: Context, context: Context, origins: Sequence[int | None] | None) -> Sequence[int | None]:
    """For each message of ``context``, the index by which the caller knows it.

    Args:
        given: What ``context`` was made from.
        context: The messages.
        origins: The indexes of the messages of ``given``; None when they are as they stand.
    """
    found = match(given.messages, context.messages).origins
    return found if origins is None else [None if place is None else origins[place] for place in found]


def biggest(context: Context, call: Call, origins: Sequence[int | None]) -> list[BigItem]:
    """The biggest items of what must stay, largest first, at most ``NAMED``, by the caller's indexes."""
    staying = lay_out(context, call).staying
    items = [
        BigItem((_place(origins[index]), context.messages[index].role, call.count(context.messages[index])))
        for index in staying
    ]
    if fixed := call.meter.fixed(context):
        items.append(BigItem(("system, tools", "fixed", fixed)))
    return sorted(items, key=lambda item: -item.tokens)[:NAMED]


def _place(origin: int | None) -> str:
    return "a message that a stage made" if origin is None else f"messages[{origin}]"


STEP = 0.9
"""Each try aims at this share of the tokens that would fit if all tokens had the same size."""


@library_stage
@frozen(eq=False, repr=False)
class FitRequestBytes(ContextStrategy):
    """Leave out as much as it takes for the body to have at most ``request_bytes`` bytes.

    Args:
        request_bytes: The largest body, in bytes.
        origins: See ``FitGuarantee``.
    """

    request_bytes: int
    origins: Sequence[int | None] | None = None

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context, small enough.

        Raises:
            ContextOverflow: If what must stay is larger.
        """
        given = context
        while (size := body_bytes(context, call)) > self.request_bytes:
            tokens = call.size(context)
            aim = min(tokens - 1, int(tokens * self.request_bytes / size * STEP))
            known = known_as(given, context, self.origins)
            if aim < 1:
                raise ContextOverflow(tokens, 0, biggest(context, call, known))
            context = FitGuarantee(aim, known).apply(context, call)
        return context


def body_bytes(context: Context, call: Call) -> int:
    """The size of the request as JSON, in bytes: messages, system prompt and tools as they are sent."""
    wire = call.wire
    if wire is None:
        return call.meter.bytes(context)
    natives: list[Any] = [write_native(wire, each, place_of(None, at)) for at, each in enumerate(context.messages)]
    natives += [tool.source for tool in context.tools]
    if context.system is not None:
        natives.append(context.system.source)
    return len(json.dumps(natives, default=_plain).encode("utf-8", "surrogatepass"))


def _plain(value: object) -> Native:
    """What a client sends: an SDK's object as its fields; bytes, and what a file or a stream holds, as base64."""
    if (dump := getattr(value, "model_dump", None)) is not None:
        return dump(mode="json", exclude_unset=True)
    return base64_of(value) or str(value)


LEFT_OUT = "[an image was left out]"


@library_stage
@frozen(eq=False, repr=False)
class LimitImages(ContextStrategy):
    """Replace the oldest images by a short text until ``images`` are left; protected messages keep theirs.

    Args:
        images: The most images in one request.
    """

    images: int

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context with no more images than the provider takes, as far as protection allows."""
        spare = sum(_count(message.parts) for message in context.messages) - self.images
        if spare <= 0:
            return context
        protected = call.protected(context)
        messages = list(context.messages)
        for index, message in enumerate(messages):
            found = _count(message.parts)
            if spare <= 0 or not found or index in protected:
                continue
            messages[index], gone = _without(message, spare)
            call.note(message, f"more than {self.images} images in the request: oldest first")
            spare -= gone
        return context.with_messages(tuple(messages))


def _count(parts: tuple[Part, ...]) -> int:
    return sum(
        _count(part.content) if isinstance(part, ToolResult) else isinstance(part, Media) and part.kind == "image"
        for part in parts
    )


def _without(message: Message, spare: int) -> tuple[Message, int]:
    parts, gone = _replaced(message.parts, spare)
    return message.with_parts(parts), gone


def _replaced(parts: tuple[Part, ...], spare: int) -> tuple[tuple[Part, ...], int]:
    """The parts with at most ``spare`` images replaced, and how many were."""
    out: list[Part] = []
    gone = 0
    for part in parts:
        if isinstance(part, ToolResult):
            content, more = _replaced(part.content, spare - gone)
            gone += more
            changed = evolve(part, content=content)
            out.append(changed if more else part)
        elif isinstance(part, Media) and part.kind == "image" and gone < spare:
            out.append(Text(LEFT_OUT))
            gone += 1
        else:
            out.append(part)
    return tuple(out), gone


def refuse_empty(trail: Trail) -> None:
    """Refuse a request of which repair, and the rules of reasoning, left nothing to send.

    Raises:
        InvalidInput: If it left nothing.
    """
    if not trail.context.messages:
        where = "messages"
        what = "every message was empty, a tool result without a call, or reasoning that the provider would refuse"
        raise InvalidInput(where, f"nothing is left to send: {what}")


async def guarantee(
    trail: Trail,
    call: Call,
    budget: Budget | None,
    before: Context,
    last: str,
    most: int | None = None,
    telling: Sequence[ContextStrategy] = (),
) -> None:
    """Make sure that the request fits the budget, that its reasoning is taken, and that it may end as it does.

    Args:
        trail: Where the step stands; brought up to date.
        call: What the stages are told.
        budget: The budget in force.
        before: The request as it was when the model's reasoning was made.
        last: The role of the last message that was passed in.
        most: The tokens above which it is refused, where the budget is only aimed at; see ``Plan.refuses_above``.
        telling: The stages that tell in the recap what was left out, as far as there is room for it.

    Raises:
        ContextOverflow: If it cannot be made to fit.
        InvalidInput: If nothing is left to send.
    """
    call = inside(call, growth=False)
    acted = not all(report.marks_only for report in trail.reports)  # markers alone leave nothing out
    if acted and call.internals.start is not None and trail.context is not call.internals.start:
        await run_stage(RecapCounts(), trail, call, by="fit")
    await _arrange(trail, call)
    if budget is not None:
        if budget.media.images is not None:
            await run_stage(LimitImages(budget.media.images), trail, call, by="fit")
        await _fit_or_say(trail, call, budget.limit, last, most, telling)
        if budget.request_bytes is not None:
            room = budget.request_bytes - (call.meter.weight(GO_ON_MESSAGE) if _lacks_end(trail, call, last) else 0)
            await run_stage(FitRequestBytes(room, trail.origins), trail, call, by="fit")
    await _arrange(trail, call)  # which costs nothing: it was counted before
    await settle_reasoning(trail, call, before)
    await _arrange(trail, call)
    if _lacks_end(trail, call, last):
        await run_stage(Adjustment(_ARRANGES, _append_go_on), trail, call, by="fit", trusted=True)
    if trail.reports:
        await _keep_markers(trail, call, budget, before)
    await run_stage(LimitCacheMarkers(), trail, call, by="fit", trusted=True)  # the request only gets smaller by it
    if not trail.start:
        refuse_empty(trail)
    if budget is not None and trail.tokens > (limit := most or budget.limit):  # whatever ran, what goes out fits
        raise ContextOverflow(trail.tokens, limit, biggest(trail.context, call, trail.origins))


async def _fit_or_say(
    trail: Trail, call: Call, limit: int, last: str, most: int | None, telling: Sequence[ContextStrategy]
) -> None:
    """Make the request fit, or say that it cannot be made to, where more is taken than the budget aims at."""
    if most is None:
        return await _fit(trail, call, limit, last, telling)
    known = trail.copy()
    try:
        await _fit(trail, call, limit, last, telling)
    except ContextOverflow:
        trail.restore(known)
        note = f"{trail.tokens - limit:,} tokens over the {limit:,} of a pipeline within: no more may be left out"
        trail.reports.append(StageReport("FitGuarantee", (), trail.tokens, trail.tokens, 0.0, (note,)))
        await _fit(trail, call, most, last, telling)


async def _fit(trail: Trail, call: Call, limit: int, last: str, telling: Sequence[ContextStrategy]) -> None:
    """Make the request fit, without new handles where it does not fit with them: they are worth no error."""
    if call.internals.shelf is None or call.internals.shelf.tool is None:
        return await _fit_whole(trail, call, limit, last, telling)
    known = trail.copy()
    try:
        await _fit_whole(trail, call, limit, last, telling)
    except ContextOverflow:
        trail.restore(known)
        await _fit_whole(trail, inside(call, shelf=call.internals.shelf.unnamed()), limit, last, telling)


async def _fit_whole(trail: Trail, call: Call, limit: int, last: str, telling: Sequence[ContextStrategy]) -> None:
    """Make the request fit, with what has to stand between messages that only now are neighbours, or behind them."""

    def closing() -> int:
        return call.meter.message(GO_ON_MESSAGE) if _lacks_end(trail, call, last) else 0

    aim, given = limit - closing(), trail.context
    if telling and trail.tokens > aim:
        call = inside(call, reserved=await reserved(telling, inside(call, start=given)))
    while trail.tokens + closing() > limit:
        try:
            await run_stage(FitGuarantee(aim, trail.origins), trail, call, by="fit")
        except ContextOverflow as error:
            raise ContextOverflow(error.tokens + limit - aim, limit, error.biggest) from None
        await _arrange(trail, call)
        aim -= max(0, trail.tokens + closing() - limit)
    if trail.context is not given:
        known = trail.copy()
        for stage in telling:
            await run_stage(stage, trail, call)
        await _arrange(trail, call)
        await run_stage(RecapGivesWay(limit - closing()), trail, call, by="fit")
        await _arrange(trail, call)
        if trail.tokens + closing() > limit:  # what went has left neighbours, too: nothing is told
            trail.restore(known)


def is_go_on(message: Message) -> bool:
    """Whether it is what ``guarantee`` adds to the end of a request, for one step."""
    return message.role == GO_ON_MESSAGE.role and message.parts == GO_ON_MESSAGE.parts


def _lacks_end(trail: Trail, call: Call, last: str) -> bool:
    known = trail.context.messages[-1:] or (call.internals.before() if call.internals.before is not None else ())[-1:]
    return bool(known) and lacks_end(known[0], last, call) and not open_at_end(trail.context.messages)


def _append_go_on(context: Context, call: Call) -> Context:
    """Let the user speak last, who did so when the request came in."""
    said = Message(GO_ON_MESSAGE.role, GO_ON_MESSAGE.parts)
    call.note(said, "the request came in ending on the user or a tool, and would end on the assistant for this model")
    return context.with_messages((*context.messages, said))


_ARRANGES = "ArrangeMessages"
"""How reports name all that is done so that messages stand where the model takes them."""


async def _arrange(trail: Trail, call: Call) -> None:
    """Let messages stand where the model takes them, after what stood around them went."""
    wire = call.wire
    if trail.start or wire is None:
        return

    def arranged(context: Context, call: Call) -> Context:
        made = wire.arrange_for(context.messages, call.profile, call.note)
        return context if made is context.messages else context.with_messages(tuple(made))

    def neighboured(context: Context, call: Call) -> Context:
        made = arranged_by(context.messages, call, wire)
        return context if made is context.messages else context.with_messages(tuple(made))

    await run_stage(Adjustment(_ARRANGES, arranged), trail, call, by="fit", trusted=True)
    if trail.reports:
        await run_stage(Adjustment(_ARRANGES, neighboured), trail, call, by="fit", trusted=True)


async def _keep_markers(trail: Trail, call: Call, budget: Budget | None, before: Context) -> None:
    """Move markers whose blocks went, where the request still fits with them: nothing is left out for a marker."""
    known = trail.copy()
    await run_stage(KeepCacheMarkers(before.messages), trail, call, by="fit", trusted=True)
    if trail.context is known.context or budget is None:
        return
    most = budget.request_bytes
    if trail.tokens > budget.limit or (most is not None and body_bytes(trail.context, call) > most):
        trail.restore(known)
        note = "cache markers whose blocks went are left out: the request would not fit with them"
        trail.reports.append(StageReport("KeepCacheMarkers", (), trail.tokens, trail.tokens, 0.0, (note,)))


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
