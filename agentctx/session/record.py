"""What a session knows of its conversation, and by what it knows messages again: snapshots, and digests after a load.

History, view, index, place, final, tail, seen, shown, given: the words are those of CONTRIBUTING.md.
"""

from __future__ import annotations

import json
from array import array
from base64 import b64encode
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from operator import itemgetter
from typing import Annotated, Any

from attrs import define, evolve, field, frozen

from agentctx.changes import Change, ChangeLog, ChangesInForce, Outcome, numbers
from agentctx.engine.reading import first_unanswered_call, whole_until
from agentctx.engine.repair import Earlier, names_of
from agentctx.errors import InvalidInput
from agentctx.formats.native import BYTES, PLAIN, mapping_or_none, snapshot, unmarked
from agentctx.marks import recaps, stands_for
from agentctx.message import ROLES, SYSTEM_ROLES, Message, Native, Noted, ToolCall, noted_in, with_marks
from agentctx.tokens.media import base64_of
from agentctx.wire_format import WireFormat

_MOST_CALLS = 255
"""Tool calls of a message that are noted in a byte."""

Counted = Annotated[int, range(10**9)]
"""A number that a recap can tell."""


@define(eq=False, repr=False)
class Sizes:
    """What some messages weigh.

    Args:
        tokens: Tokens of each.
        bytes: Bytes of each.
    """

    tokens: Sequence[int] = ()
    bytes: Sequence[int] = ()

    def __len__(self) -> int:
        """How many messages."""
        return len(self.tokens)

    def first(self, count: int) -> Sizes:
        """What the first ``count`` of them weigh."""
        return Sizes(self.tokens[:count], self.bytes[:count])


@frozen
class LastRequest:
    """The last request.

    Args:
        tokens: Its size by our count, in tokens; 0 when there was none.
        length: How many messages it had.
        intact: How many messages at its start stand in what is known of the conversation now as they were sent.
        at: When it was prepared, in seconds since 1970; None when there was none.
        asked: Whether it asked the provider to clear some of the prompt.
    """

    tokens: int = 0
    length: int = 0
    intact: int = 0
    at: float | None = None
    asked: bool = False

    def idle(self, now: float) -> float | None:
        """Seconds since it was prepared; None when there was none."""
        return None if self.at is None else max(0.0, now - self.at)


@frozen
class UnsaidSince:
    """What the recap had no room for, and is told once there is; see ``Notes.unsaid``.

    Args:
        now: The same of all that was left out so far; empty when the recap says it all.
        before: The same of what was left out before the history began, which was a view then.
        until: While so many messages of the history stand, what is said ``before`` is true.
    """

    now: str = ""
    before: str = ""
    until: int = 0

    def at(self, length: int) -> UnsaidSince:
        """What is known of it when of the history so many messages stand, and all after them are read again."""
        return UnsaidSince(self.before, self.before, self.until) if self.until <= length else UnsaidSince()


@frozen
class Uncounted:
    """What was left out before the history began, which was a view then, without a recap in it that counts it.

    Args:
        at: Before which message of the history it stood.
        messages: How many messages.
        calls: How many tool calls were in them.
    """

    at: int
    messages: Counted
    calls: Counted


@define(eq=False, repr=False)
class Missing:
    """What a load without the caller's messages cannot put into the view yet.

    Args:
        payloads: The places of the view's messages that were not made of the caller's payload alone.
        system: The indexes of system messages that went out under another role.
        marks: The marks in messages of the view, as in ``RecordForm``.
    """

    payloads: AbstractSet[int]
    system: AbstractSet[int]
    marks: dict[int, Noted]


@define(eq=False, repr=False)
class Record:
    """The history as the caller passes it, and the view that was made of it.

    The view's messages from ``final`` on are those of the tail (``engine.tail``), and read again together with what
    comes next.

    Args:
        seen: What each message of the history looked like; of a dropped message: the caller's object
            itself.
        sizes: Tokens of each message of the history, as it was passed in.
        byte_sizes: Bytes of each message of the history, as it was passed in.
        view: What was sent, as values.
        out: What was sent, in the caller's format.
        shown: What each message of ``out`` looked like, to recognise it when the caller writes it back; the very
            object of ``seen`` for one that went out as it came in.
        origins: For each message of the view, its index in the history; None when a stage made it.
        otherwise: The places of the view whose messages do not go out as they came in; None: to be looked up.
        run: The place of the view from which on its messages stand behind each other in the history too.
        before_run: An ``itemgetter`` of the caller's messages that stand before ``run`` in the view; behind two more,
            which are left off again, so that it always gives a tuple.
        final: How many messages of the view are final.
        tail: The messages of the tail as they were read, before any repair.
        tail_origin: The index in the history of each message of ``tail``.
        log: Every change in force.
        made: The messages of the view that stages made, by identity, each with what is said of it.
        roles: The role of each message of the history, as its place in ``message.ROLES``.
        decided: For each message of the history, how many messages were known when a stage last decided about it; 0
            when none has. Repair is no decision: it comes out the same again.
        ids: The call ids of the final messages.
        items: The final messages that have a name of their own which no other may have, by that name; None until
            ``earlier`` looks it up.
        history_tokens: Sum of ``sizes``.
        history_bytes: Sum of ``byte_sizes``.
        view_tokens: Tokens of the final part of the view.
        view_bytes: Bytes of it.
        quiet_until: After a compaction that did not reach the trigger: act again above this size only, in tokens.
        unbound_from: The first place of the view whose reasoning has lost its prefix because the caller changed the
            history; the step that notes it drops the reasoning. None when there is none.
        waiting: Whether a compaction waits for the end of the open tool round.
        unsaid: What the recap has no room for.
        uncounted: What was left out before the history began, and no message of it counts; in order.
        foreign_count: How many messages at the start of the history were there before another model was called, which
            does not take their reasoning.
        instructions: What system messages look like that went out as the user's: the caller may write any view back.
        marks: The marks in messages of the history that were sent before, by index.
        calls: How many tool calls are in each message of the history; 0 for those in ``stands``.
        stands: For how many messages, and with how many tool calls, those stand that are not one message with at most
            255 calls: recaps that the caller wrote back, mostly.
        digests: The digests of the first messages of the history, as far as they were asked for.
        linked: False after a load, until the caller's own history is in the place of the digests.
        missing: After a load of a state that leaves out what the caller holds: nothing of the view was read yet, and
            ``out`` has None for what is the caller's. None once the caller has passed it.
    """

    seen: list[Any] = field(factory=list)
    sizes: array[int] = field(factory=numbers)
    byte_sizes: array[int] = field(factory=numbers)
    view: list[Message] = field(factory=list)
    out: list[Any] = field(factory=list)
    shown: list[Any] = field(factory=list)
    origins: list[int | None] = field(factory=list)
    otherwise: list[int] | None = None
    run: int = 0
    before_run: Callable[[Sequence[Native]], tuple[Native, ...]] = itemgetter(0, 0)
    final: int = 0
    tail: list[Message] = field(factory=list)
    tail_origin: list[int] = field(factory=list)
    log: ChangeLog = field(factory=ChangeLog)
    made: dict[int, tuple[Message, Change]] = field(factory=dict)
    roles: bytearray = field(factory=bytearray)
    decided: array[int] = field(factory=numbers)
    ids: set[str] = field(factory=set)
    items: dict[str, Message] | None = None
    history_tokens: int = 0
    history_bytes: int = 0
    view_tokens: int = 0
    view_bytes: int = 0
    quiet_until: int = 0
    unbound_from: int | None = None
    waiting: bool = False
    unsaid: UnsaidSince = field(default=UnsaidSince())
    uncounted: tuple[Uncounted, ...] = ()
    foreign_count: int = 0
    instructions: frozenset[bytes] = frozenset()
    marks: dict[int, Noted] = field(factory=dict)
    calls: bytearray = field(factory=bytearray)
    stands: dict[int, tuple[int, int]] = field(factory=dict)
    digests: bytearray = field(factory=bytearray)
    linked: bool = True
    missing: Missing | None = None

    def __len__(self) -> int:
        """How many messages of the history are known; ``seen`` is longer while it is compared (``begins_with``)."""
        return len(self.sizes)

    def copy(self) -> Record:
        """The same state, in containers of its own."""
        return evolve(
            self,
            seen=list(self.seen),
            sizes=self.sizes[:],
            byte_sizes=self.byte_sizes[:],
            view=list(self.view),
            out=list(self.out),
            shown=list(self.shown),
            origins=list(self.origins),
            otherwise=None if self.otherwise is None else list(self.otherwise),
            log=self.log.copy(),
            made=dict(self.made),
            roles=self.roles[:],
            decided=self.decided[:],
            ids=set(self.ids),
            items=None if self.items is None else dict(self.items),
            marks=dict(self.marks),
            calls=self.calls[:],
            stands=dict(self.stands),
            digests=self.digests[:],
        )

    def in_force(self) -> ChangesInForce:
        """The changes in force now."""
        return self.log.snapshot(self.sizes, self.roles, self.added() if self.made else ())

    def added(self) -> Iterator[Change]:
        """What is said of made messages, each with its place in the view."""
        for place, message in enumerate(self.view):
            if id(message) in self.made:
                yield evolve(self.made[id(message)][1], index=place)

    def left_out(self, length: int) -> tuple[int, int]:
        """How many of the first ``length`` messages are gone, and how many tool calls in them.

        A recap counts as what it stands for; what repair took is not counted. What was left out before the history
        began is, where nothing in it counts that.
        """
        gone = [*self.uncounted, *self._gone(length)]
        return sum(each.messages for each in gone), sum(each.calls for each in gone)

    def _gone(self, length: int) -> Iterator[Uncounted]:
        """What is gone of the first ``length`` messages, a run of them at a time."""
        for span in self.log.before(length).spans:
            if span.by != "repair":
                many = [each for place, each in self.stands.items() if span.start <= place < span.stop]
                messages = min(span.stop, len(self)) - span.start + sum(told - 1 for told, _ in many)
                calls = sum(self.calls[span.start : span.stop]) + sum(calls for _, calls in many)
                yield Uncounted(span.start, messages, calls)

    def uncounted_before(self, length: int) -> tuple[Uncounted, ...]:
        """What nothing counts of what is gone, once the first ``length`` messages of the view are the history.

        What stood behind these is taken back with all that follows there.
        """
        if any(place < length for place in recaps(self.view)):
            return ()
        known = sorted((origin, place) for place, origin in enumerate(self.origins) if origin is not None)
        found: dict[int, Uncounted] = {}
        for each in (*self.uncounted, *self._gone(len(self))):
            behind = bisect_left(known, (each.at, 0))
            place = known[behind][1] if behind < len(known) else len(self.view)
            if place < length or length == len(self.view):
                more = found.get(place, Uncounted(place, 0, 0))
                found[place] = Uncounted(place, each.messages + more.messages, each.calls + more.calls)
        return tuple(found[place] for place in sorted(found))

    def changes(self) -> list[Change]:
        """What is said of messages that are in the view, or were edited."""
        return [*self.log.lines(), *self.added()]

    def digested(self) -> bytes:
        """The digests of all messages of the history, one after the other; each is worked out once."""
        known = len(self.digests) // DIGEST_BYTES
        if known < len(self):
            self.digests[known * DIGEST_BYTES :] = b"".join([digest(seen) for seen in self.seen[known : len(self)]])
        return bytes(self.digests)

    def note_made(
        self, made: Mapping[int, tuple[Message, Change]], replaced: Iterable[Message], new: Iterable[Message]
    ) -> None:
        """Note what is said of made messages, and forget what was said of those that are not in the view any more.

        Args:
            made: The messages that stages made, as in ``made``.
            replaced: The messages that have left the view, or stand in it again.
            new: Those that stand in their place.
        """
        left = {*map(id, replaced), *(made.keys() - self.made.keys())}.difference(map(id, new))
        self.made |= made
        for gone in left & self.made.keys():
            del self.made[gone]

    def earlier(self, wire: WireFormat) -> Earlier:
        """What repair asks of the final part of the view."""
        if self.items is None:
            self.items = names_of(self.view[: self.final], wire)
        last = self.view[self.final - 1] if self.final else None
        return Earlier(self.ids, self.items, last, lambda: self.view[: self.final])

    def note_names(self, wire: WireFormat, gone: Sequence[Message], new: Sequence[Message]) -> None:
        """Note the ids and the names that are taken in the final part of the view, and those that are not any more."""
        if wire.rounds.unique_ids:
            self.ids -= call_ids(gone)
            self.ids |= call_ids(new)
        if self.items is None or wire.item_name is None:
            return
        for name, message in names_of(gone, wire).items():
            if self.items.get(name) is message:
                del self.items[name]
        self.items |= names_of(new, wire)

    def as_passed(self, messages: list[Message], first: int) -> list[Message]:
        """Return messages as they were read, from this index of the history on, with all that is known of them."""
        indexes = range(first, first + len(messages))
        return marked(with_instructions(messages, self.instructions), indexes, self.marks)

    def as_given(self, place: int) -> bool:
        """Whether the message at this place of the view goes out as it came in."""
        origin = self.origins[place]
        return origin is not None and self.shown[place] is self.seen[origin]

    def as_sent(self, place: int) -> Native:
        """The message at this place of the view as it went out: the caller may have edited its object since."""
        shown = self.shown[place]
        return self.out[place] if isinstance(shown, Digest) else shown

    def hand_back(self, natives: Sequence[Native]) -> None:
        """Send the caller's objects of today, where it has rebuilt them with the same content.

        This is done at every step, so nothing is called for each message, and the last run is copied in one piece.
        """
        if not self.origins:
            return
        if self.otherwise is None:
            self.look_otherwise(0)
        known, first = self.out, self.origins[self.run] or 0
        self.out = list(natives[first : first + len(known) - self.run])
        self.out[:0] = self.before_run(natives)[2:]
        for place in self.otherwise or ():
            self.out[place] = known[place]

    def look_otherwise(self, start: int) -> None:
        """Note which messages of the view, from a place on, do not go out as they came in, and where the run begins."""
        if self.otherwise is None:
            start, self.otherwise = 0, []
        while self.otherwise and self.otherwise[-1] >= start:
            self.otherwise.pop()
        origins, seen, shown = self.origins, self.seen, self.shown
        for at in range(start, len(self.view)):
            if (origin := origins[at]) is None or shown[at] is not seen[origin]:  # ``as_given`` is not
                self.otherwise.append(at)
        run = max(len(origins) - 1, 0)
        while run:
            before, origin = origins[run - 1], origins[run]
            if before is None or origin != before + 1:  # it does not stand directly behind that in the history too
                break
            run = self.run if self.run < run < start else run - 1  # what is before ``start`` is known
        if run != self.run or start < run:
            self.run, self.before_run = run, itemgetter(0, 0, *[origin or 0 for origin in self.origins[:run]])

    def remember(self, seen: Sequence[Any], arrived: Sequence[Message], weights: Sizes) -> None:
        """Add what arrived to the history: what it looked like, what it says, and what it weighs."""
        for message in arrived:
            self.roles.append(ROLES.index(message.role))
            if message.as_recap:
                self.note_stands(*stands_for(message))
                continue
            calls = 0
            for part in message.parts:
                calls += isinstance(part, ToolCall)
            if calls > _MOST_CALLS:
                self.note_stands(1, calls)
            else:
                self.calls.append(calls)
        self.seen.extend(seen)
        self.decided.extend([0] * len(arrived))
        self.sizes.extend(weights.tokens)
        self.byte_sizes.extend(weights.bytes)
        self.history_tokens += sum(weights.tokens)
        self.history_bytes += sum(weights.bytes)

    def note_stands(self, messages: int, calls: int) -> None:
        """Note how many messages, and with how many tool calls, the next message of the history stands for."""
        plain = messages == 1 and calls <= _MOST_CALLS
        if not plain:
            self.stands[len(self.calls)] = messages, calls
        self.calls.append(calls if plain else 0)

    def stands_for(self, index: int) -> tuple[int, int]:
        """For how many messages a message of the history stands, and with how many tool calls."""
        return self.stands.get(index, (1, self.calls[index]))

    def weigh_view(self, weights: Sizes) -> None:
        """Note what the final part of the view weighs."""
        self.view_tokens, self.view_bytes = sum(weights.tokens), sum(weights.bytes)

    def note_decided(self, changes: Iterable[Change]) -> None:
        """Note of which messages of the history something was decided now, with all of it known."""
        for change in changes:
            if change.outcome is not Outcome.ADDED and change.by != "repair":
                self.decided[change.index] = len(self)

    def decided_later(self, length: int) -> set[int]:
        """The indexes of those of the first ``length`` messages of which something was decided when more was known."""
        return {index for index, known in enumerate(self.decided[:length]) if known > length}

    def whole(self) -> set[int]:
        """The indexes in the history of the messages that are in the view as they came in; markers are no change."""
        places = zip(range(len(self.origins)), self.origins, strict=True)
        return {
            origin
            for place, origin in places
            if origin is not None and (self.as_given(place) or alike(self.shown[place], self.seen[origin]))
        }

    def forget_dropped(self, natives: Sequence[Any], gone: Iterable[int]) -> None:
        """From now on recognise dropped messages by identity: their content no longer matters."""
        for index in gone:
            self.seen[index] = natives[index]


def alike(old: object, new: object) -> bool:
    """Whether two native messages are the same but for cache markers."""
    try:
        return bool(old == new) or bool(unmarked(old) == unmarked(new))
    except RecursionError:  # nested too deep to be looked at
        return False


def call_ids(messages: Iterable[Message]) -> set[str]:
    """The ids of all tool calls in ``messages``."""
    return {call.id for message in messages for call in message.calls}


def rewound(
    record: Record,
    decided_until: int,
    weights: Sizes,
    *,
    unchanged_until: int,
    history_length: int,
    binds_reasoning: bool,
) -> Record:
    """Forget every decision about messages from ``decided_until`` on, as though they had not arrived.

    What was decided about those before stays decided, but for the tail and for what is not true any
    more: of that nothing is known any more, and it is read again.

    Args:
        record: The record; it is not changed.
        decided_until: How many messages of the history keep what was decided about them.
        weights: What each message of the record's view weighs.
        unchanged_until: How many messages of the history still stand.
        history_length: How many messages the caller passes now: with these known, what stays decided is still true.
            What was decided beside messages that have gone is not true before those that stand now in their place.
        binds_reasoning: Whether the model binds its reasoning to all that stands before it.
    """
    cut, decided_until = _cut(record, _joined_from(record, decided_until))
    new = Record(
        seen=record.seen[:decided_until],
        sizes=record.sizes[:decided_until],
        byte_sizes=record.byte_sizes[:decided_until],
        view=record.view[:cut],
        out=record.out[:cut],
        shown=record.shown[:cut],
        origins=record.origins[:cut],
        roles=record.roles[:decided_until],
        decided=numbers(
            known if known <= unchanged_until else history_length for known in record.decided[:decided_until]
        ),
        log=record.log.before(decided_until),
        made={id(each): record.made[id(each)] for each in record.view[:cut] if id(each) in record.made},
        history_tokens=sum(record.sizes[:decided_until]),
        history_bytes=sum(record.byte_sizes[:decided_until]),
        quiet_until=record.quiet_until,
        unbound_from=_unbound(record, cut, decided_until) if binds_reasoning else None,
        foreign_count=min(record.foreign_count, unchanged_until),
        instructions=record.instructions,
        marks={index: marks for index, marks in record.marks.items() if index < unchanged_until},
        calls=record.calls[:decided_until],
        stands={place: each for place, each in record.stands.items() if place < decided_until},
        digests=record.digests[: decided_until * DIGEST_BYTES],
        linked=record.linked,
    )
    gone = any(span.by != "repair" for span in new.log.spans)
    new.unsaid = record.unsaid if gone else record.unsaid.at(decided_until)
    stands = unchanged_until if unchanged_until < len(record.seen) else len(record.seen) + 1
    new.uncounted = tuple(each for each in record.uncounted if each.at < stands)
    _all_is_final(new, weights.first(cut))
    return new


def undecided(record: Record, *, binds_reasoning: bool) -> Record:
    """The record with nothing known but what the history cannot tell: whose reasoning it holds, and what that lost.

    Args:
        record: The record; it is not changed.
        binds_reasoning: Whether the model binds its reasoning to all that stands before it.
    """
    changed = (place for place, origin in enumerate(record.origins) if origin != place or not record.as_given(place))
    lost = next(changed, len(record.view))
    return Record(
        foreign_count=record.foreign_count,
        instructions=record.instructions,
        marks=record.marks,
        unsaid=record.unsaid.at(len(record.seen)),
        uncounted=record.uncounted,
        unbound_from=lost if binds_reasoning and lost < len(record.seen) else None,
    )


def with_instructions(messages: list[Message], instructions: frozenset[bytes]) -> list[Message]:
    """Messages as they were read, those of the user as system messages that look like one of ``instructions``.

    A message in which the user says the same is then taken for one of these: it is protected as they are, and counts
    neither as the first task nor as the latest words.
    """
    if not instructions:
        return messages
    return [
        evolve(message, as_system=True)
        if message.role == "user" and _bare_digest(message.source) in instructions
        else message
        for message in messages
    ]


def marked(messages: list[Message], keys: Iterable[int], marks: Mapping[int, Noted]) -> list[Message]:
    """The messages as they were read, each with the marks that are known under its key."""
    for place, key in enumerate(keys) if marks else ():
        if key in marks:
            parts = with_marks(messages[place].parts, marks[key])
            messages[place] = evolve(messages[place], parts=parts, read_parts=parts)
    return messages


def marks_in_view(record: Record, length: int) -> dict[int, Noted]:
    """The marks in the first ``length`` messages of the view, by place."""
    return {place: marks for place, each in enumerate(record.view[:length]) if (marks := noted_in(each.parts))}


def goes_out_as_another(message: Message) -> bool:
    """Whether it is a system message that goes out under another role."""
    return message.is_system and message.role not in SYSTEM_ROLES


def instruction_digests(messages: Iterable[Message], natives: Iterable[Any]) -> list[bytes]:
    """The digests of the system messages that go out under another role, without their cache markers.

    Args:
        messages: Messages of a view.
        natives: The same, as they go out.
    """
    found = []
    for message, native in zip(messages, natives, strict=True):
        if (message.as_system or message.read_role != message.role) and goes_out_as_another(message):
            found.append(_bare_digest(native))
    return found


def _bare_digest(native: Native) -> bytes:
    return digest(unmarked(native))


def _cut(record: Record, length: int) -> tuple[int, int]:
    """Where to cut the view, and the history, so that what stays is whole and nothing of it stands behind the cut.

    A message that a stage made stands for what was left out. When some of that is no part of the history any more, it
    goes, and all that was left out is read again: only then, with ``gone`` not empty, the cut is at such a message.
    """
    gone = [span for span in record.log.spans if span.by != "repair"]
    outdated = any(span.stop > length for span in gone)
    places = (
        place
        for place, origin in enumerate(record.origins)
        if (outdated and _stands_for_others(record, place) if origin is None else origin >= length)
    )
    cut = next(places, len(record.view))
    behind = (origin for origin in record.origins[cut:] if origin is not None)
    kept, origins = record.view[:cut], record.origins[:cut]
    earliest = min(length, *behind, whole_until(kept, origins, length))
    untold = outdated and record.unsaid.now != record.unsaid.before  # of what, is not known
    if untold or (cut < len(record.view) and record.origins[cut] is None):
        earliest = min(earliest, gone[0].start)
    asked = first_unanswered_call(kept, origins, 0, cut)
    if asked < cut:
        cut, earliest = asked, min(earliest, origins[asked] or 0)
    if earliest < length:
        return _cut(record, earliest)
    said = any(origin is not None or _stands_for_others(record, at) for at, origin in enumerate(record.origins[:cut]))
    return (cut if said else 0), length  # what repair put before others is nothing without them


def _joined_from(record: Record, length: int) -> int:
    """The index at which the turn begins into whose messages repair has put some that came at ``length`` or later.

    ``length`` when there is none. Providers want the results of one turn in one message, and the words of one turn.
    """
    if not any(span.by == "repair" and span.stop > length for span in record.log.spans):
        return length
    stop = next((at for at, origin in enumerate(record.origins) if (origin or 0) >= length), len(record.view))
    start = stop
    while start and record.view[start - 1].role != "assistant":
        start -= 1
    while start and record.view[start - 1].role == "assistant":
        start -= 1
    turn = [(at, origin) for at, origin in enumerate(record.origins[start:stop], start) if origin is not None]
    edited = any(not record.as_given(at) for at, _ in turn)
    return min((origin for _, origin in turn), default=length) if edited else length


def _stands_for_others(record: Record, place: int) -> bool:
    """Whether a stage made the message at this place of the view; one of repair belongs to what is beside it."""
    made = record.made.get(id(record.view[place]))
    return made is not None and made[1].by != "repair"


def _unbound(record: Record, cut: int, length: int) -> int | None:
    """Where reasoning begins that has lost its prefix: all behind the cut, when what is before was changed later on."""
    if record.unbound_from is not None and record.unbound_from < cut:
        return record.unbound_from
    late = record.decided_later(length)
    return cut if late and not late <= record.whole() else None


def rebased(record: Record, natives: Sequence[Any], weights: Sizes) -> Record:
    """The record after the caller has replaced its own history by the view (its first ``len(weights)`` messages)."""
    passed = len(weights)
    known = record.view[:passed]
    whole = whole_until(known, range(len(known)), len(known))
    length = min(whole, first_unanswered_call(known, range(len(known)), 0, len(known)))
    weights = weights.first(length)
    view = [
        # What a stage made or edited is the caller's now.
        message
        if message.untouched
        else evolve(
            message,
            source=native,
            read_role=message.role,
            read_parts=message.parts,
            given=None,
            as_system=message.is_system,
        )
        for message, native in zip(record.view[:length], natives, strict=False)
    ]
    new = Record(view=view, out=record.out[:length], origins=list(range(length)), quiet_until=record.quiet_until)
    new.instructions, new.marks, told = record.instructions, marks_in_view(record, passed), recaps(record.view)
    if told[-1:] < [length]:
        now = record.unsaid.now
        new.unsaid = UnsaidSince(now, now, told[-1] + 1 if told else length)
    new.uncounted = record.uncounted_before(passed)
    new.remember([snapshot(native) for native in natives[:length]], new.view, weights)
    new.shown = list(new.seen)
    _all_is_final(new, weights)
    return new


def _all_is_final(record: Record, weights: Sizes) -> None:
    """All of the view is final."""
    record.final = len(record.view)
    record.ids = call_ids(record.view)
    record.weigh_view(weights)


DIGEST_BYTES = 12
"""A message is compared to the one that stood at the same place, so that few bytes tell them apart."""


@frozen(eq=False, repr=False)
class Digest:
    """Equals every native message that has this digest: stands for one whose content is not kept.

    Args:
        content: The first bytes of the SHA-256 of the message's canonical JSON.
    """

    content: bytes

    def __eq__(self, other: object) -> bool:
        try:
            return self.content == digest(other)
        except RecursionError:  # it contains itself, or is nested too deep: reading it will say so
            return False

    def __hash__(self) -> int:
        return hash(self.content)


def digest(native: object) -> bytes:
    """What tells a native value from others.

    An object of an SDK, its fields as a dict, and that dict with the fields that are null, have the same digest: a
    history that was written down and read again is the same history.
    """
    if isinstance(native, Digest):
        return native.content
    return _digest_of(_sorted(_canonical(native)).encode("utf-8", "surrogatepass"))


_sorted = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode


def exact_digest(plain: object) -> bytes:
    """What tells plain JSON values from all others, those with a null and without it too."""
    return _digest_of(json.dumps(plain, sort_keys=True).encode())


def _digest_of(content: bytes) -> bytes:
    from hashlib import sha256  # noqa: PLC0415 - loads OpenSSL, for what is written down only

    return sha256(content).digest()[:DIGEST_BYTES]


def _canonical(native: object) -> Native:
    if type(native) is dict:  # the most, with few calls
        return {
            key if type(key) is str else str(key): value if type(value) in PLAIN else _canonical(value)
            for key, value in native.items()
            if value is not None
        }
    if native is None or isinstance(native, (str, int, float)):
        return native
    if isinstance(native, (list, tuple)):
        return [_canonical(each) for each in native]
    if isinstance(native, (bytes, bytearray)):
        return {BYTES: b64encode(native).decode("ascii")}
    if (found := mapping_or_none(native)) is None:
        return _file_or_repr(native)
    return {str(key): _canonical(value) for key, value in found.items() if value is not None}


def _file_or_repr(native: object) -> str:
    """A path or a stream is what it holds, as in a state; anything else is as Python writes it."""
    try:
        return base64_of(native) or repr(native)
    except (OSError, ValueError):
        return repr(native)


def snapshots(natives: Sequence[Any], first: int) -> list[Any]:
    """A snapshot of each message.

    Args:
        natives: The native messages.
        first: The index of the first one, for the error.

    Raises:
        InvalidInput: If a message contains itself, or is nested so deep that it cannot be looked at; names it.
    """
    seen: list[Any] = []
    try:
        for native in natives:
            seen.append(snapshot(native))  # noqa: PERF401 - its length tells which message failed
    except RecursionError:
        where = f"messages[{first + len(seen)}]"
        raise InvalidInput(where, "it is nested too deep, or contains itself") from None
    return seen


def begins_with(messages: Sequence[Any], known: list[Any]) -> bool:
    """Whether ``messages`` begins with ``known``: the same object, or an equal one, at every place.

    Lists of one length are compared without a look at what is the same object, and to cut one of them is to look at
    each: so what comes after is put behind ``known``, and taken off again.
    """
    length = len(known)
    if type(messages) is not list:
        # As lists: what has an order of its own, such as a tuple, must be the same and not only come before.
        return known == list(messages[:length])
    if len(messages) <= length:
        return known == messages
    known += messages[length:]
    try:
        return known == messages
    finally:
        del known[length:]


def shared_length(messages: Sequence[Any], known: list[Any]) -> int:
    """How many messages at the start are the same in both."""
    low, high = 0, min(len(messages), len(known))
    while low < high:
        middle = (low + high + 1) // 2
        if begins_with(messages[low:middle], known[low:middle]):
            low = middle
        else:
            high = middle - 1
    return low
