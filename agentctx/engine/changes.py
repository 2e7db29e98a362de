"""What a stage did, change by change: told from what it was given and what it returned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate

from attrs import evolve, frozen

from agentctx.core.compare import Change, HeadChange, Matched, Outcome, compare_tools
from agentctx.core.message import Context, Message, Tool, is_marker_tool, without_marker
from agentctx.core.pace import paced
from agentctx.protocols import Call
from agentctx.wire_format import CacheMarkers, head_markers

LEGAL_FIRST = "it is protected, but a request that the provider takes goes first"
"""What is said besides of a message that the caller protects."""

UNSAID = "the stage gives no reason"
"""What stands in a report where a stage did something without a word."""


@frozen(eq=False, repr=False)
class Account:
    """What a stage did.

    Args:
        changes: Each change, without the handle of the original.
        messages: The message of each change: as it was, or the added one.
        grown: Tokens that the messages have grown by.
        added: Of the changes those that added a message, by the message's identity.
        origins: For each message after, its index in what the caller passed in; None when a stage made it.
        notes: What is said where no change tells it.
    """

    changes: tuple[Change, ...]
    messages: Sequence[Message]
    grown: int
    added: Mapping[int, tuple[Message, Change]]
    origins: list[int | None]
    notes: tuple[str, ...]


@frozen(eq=False, repr=False)
class StageDiff:
    """What a stage was given, beside what it returned: the changes can be told from that, each with its message.

    Args:
        name: The stage's name.
        before: What it was given.
        after: What it returned.
        found: The two, laid beside each other.
        call: What it was told, with the reasons that it gave.
        origins: For each message of ``before``, its index in what the caller passed in; None when a stage made it.
        start: How many messages of the request stand before these, out of the stages' sight.
        made: The messages that stages had made before, by identity, each with what is said of it.
        pinned: The messages that the caller protects, where the stage may do something to them all the same.
    """

    name: str
    before: Context
    after: Context
    found: Matched
    call: Call
    origins: list[int | None]
    start: int
    made: Mapping[int, tuple[Message, Change]]
    pinned: frozenset[int]

    def account(self) -> Account:
        """What the stage did."""
        pairs = list(self.lines())
        grown = sum(change.tokens_after - change.tokens_before for change, _ in pairs) - self._gone_unnamed()
        added = {id(made): (made, change) for change, made in pairs if change.outcome is Outcome.ADDED}
        changes, messages = tuple([change for change, _ in pairs]), [message for _, message in pairs]
        return Account(changes, messages, grown, added, self._origins_now(), self._not_said() if not changes else ())

    def _gone_unnamed(self) -> int:
        """Tokens that went with messages which an earlier stage had made: no change names them as they were."""
        gone = (*self.found.dropped, *(origin for origin, _ in self.found.edited))
        return sum(self.call.count(self.before.messages[origin]) for origin in gone if self.origins[origin] is None)

    def _not_said(self) -> tuple[str, ...]:
        """A note of the messages that an earlier stage had made and that are gone: they have no line of their own."""
        gone = sum(self.origins[origin] is None for origin in self.found.dropped)
        what = "message" if gone == 1 else "messages"
        return (f"left out {gone} {what} that an earlier stage had made",) if gone else ()

    def _origins_now(self) -> list[int | None]:
        """``origins`` for what the stage returned."""
        found, known = self.found, self.origins
        later = [None if origin is None else known[origin] for origin in found.later]
        return known if found.first_changed is None else [*known[: found.start], *later]

    def lines(self) -> Iterator[tuple[Change, Message]]:
        """The changes of what was there, in its order, then what was added."""
        found = self.found
        edited, moved, remade = dict(found.edited), dict(found.moved), dict(found.remade)
        for origin in paced(sorted({*edited, *moved, *remade, *found.dropped})):
            index, old = self.origins[origin], self.before.messages[origin]
            if index is None:
                continue
            if origin in moved:
                yield self._moved(origin, moved[origin], index), old
            if origin in remade:
                now = self.after.messages[remade[origin]]
                if origin not in moved and now is not old and not marks_differ(old, now, self.call):
                    yield self._changed(origin, index, now), old
                yield from self._remarked(index, old, now)
            elif origin not in moved:
                new = self.after.messages[edited[origin]] if origin in edited else None
                yield self._changed(origin, index, new), old
        yield from self._added()

    def _changed(self, origin: int, index: int, new: Message | None) -> Change:
        old = self.before.messages[origin]
        said, known_as = self.call.notes.why(old), old
        if new is not None and not said.why:
            said, known_as = self.call.notes.why(new), new
        outcome = said.outcome or (Outcome.DROPPED if new is None else Outcome.EDITED)
        why = self._said_on_the_way[known_as.identity] if said.why else UNSAID
        return self._change(index, old, new, outcome, f"{why}; {LEGAL_FIRST}" if origin in self.pinned else why)

    @cached_property
    def _said_on_the_way(self) -> dict[int, str]:
        """All that was said of each message, and of what was made of it before the stage was done."""
        return self.call.notes.by_identity()

    def _change(self, index: int, old: Message, new: Message | None, outcome: Outcome, why: str) -> Change:
        size = 0 if new is None else self.call.count(new)
        return Change(index, old.role, outcome, self.name, why, self.call.count(old), size)

    def _moved(self, origin: int, position: int, index: int) -> Change:
        """A message that stands elsewhere; one of which nothing was said made way for another."""
        old = self.before.messages[origin]
        why = self.call.notes.why(old).why or self._passed_for(origin, position) or UNSAID
        return self._change(index, old, old, Outcome.MOVED, why)

    def _passed_for(self, origin: int, position: int) -> str:
        """What was said of the messages on the way from where a message stood to where it stands."""
        reasons, messages = self.call.notes.reasons, self.before.messages
        if not reasons:
            return ""
        before, after = self._in_order
        at = position - self.found.start
        way = range(min(origin, before[at]), max(origin, after[at]) + 1)
        said = next((reasons[id(messages[place])].why for place in way if id(messages[place]) in reasons), "")
        return f"it makes way: {said}" if said else ""

    @cached_property
    def _in_order(self) -> tuple[list[int], list[int]]:
        """For each message of now, behind those at the start: where its nearest neighbours stood before.

        Those that were moved themselves, and those that were not there, are no neighbours; where there is none on a
        side, it is the first, or the last, message that there was.
        """
        moved, later = dict(self.found.moved), self.found.later
        stood = [None if place in moved else place for place in later]
        first, last = max(self.found.start - 1, 0), len(self.before.messages) - 1
        before = list(accumulate(stood[:-1], lambda near, place: near if place is None else place, initial=first))
        back = accumulate(reversed(stood[1:]), lambda near, place: near if place is None else place, initial=last)
        return before, list(back)[::-1]

    def _remarked(self, index: int, old: Message, new: Message) -> Iterator[tuple[Change, Message]]:
        """A message that says the same with other cache markers; kept, when it is as it was passed in."""
        marks = None if self.call.wire is None else self.call.wire.cache_markers
        if marks is None or not marks_differ(old, new, self.call):
            return
        why = self.call.notes.why(old).why or _more_marks(len(marks.of(new)) - len(marks.of(old)))
        yield self._change(index, old, new, Outcome.KEPT if new.untouched else Outcome.MARKED, why), old

    def _added(self) -> Iterator[tuple[Change, Message]]:
        """What was made, and what was made before and says something else now: by the stage that made it."""
        remade = {position: origin for origin, position in self.found.edited if self.origins[origin] is None}
        places = sorted((*self.found.added, *remade))
        said = self._said_on_the_way if places else {}
        for position in places:
            made, place = self.after.messages[position], self.start + position
            why = said.get(made.identity) or UNSAID
            line = Change(place, made.role, Outcome.ADDED, self.name, why, 0, self.call.count(made))
            yield self._by_its_maker(line, remade.get(position)), made

    def _by_its_maker(self, line: Change, origin: int | None) -> Change:
        """The line of a message that is there; of one that another stage had made, that one's, with what is new."""
        known = None if origin is None else self.made.get(id(self.before.messages[origin]))
        if known is None:
            return line
        first, now = known[1], f"{self.name}: {line.reason}"
        return evolve(line, stage=first.stage, reason=first.reason if now in first.reason else f"{first.reason}; {now}")


def marks_differ(one: Message, other: Message, call: Call) -> bool:
    """Whether two messages carry other cache markers."""
    markers = None if call.wire is None else call.wire.cache_markers
    return markers is not None and markers.of(one) != markers.of(other)


def head_changes(name: str, before: Context, after: Context, call: Call) -> Iterator[HeadChange]:
    """What a stage did to what stands before the messages."""
    markers = None if call.wire is None else call.wire.cache_markers
    if after.system is not before.system and before.system is not None:
        why = call.notes.why(before.system).why
        why = why or _marked(Context((), before.system), Context((), after.system), markers)
        yield HeadChange("system", Outcome.MARKED, name, why or UNSAID)
    for origin, position in compare_tools(before.tools, after.tools) if after.tools is not before.tools else ():
        if origin is None:
            yield HeadChange(f"tools[{position}]", Outcome.ADDED, name, UNSAID, after.tools[position or 0].name)
            continue
        old = before.tools[origin]
        outcome, why = _became(old, None if position is None else after.tools[position], markers)
        yield HeadChange(f"tools[{origin}]", outcome, name, why or UNSAID, old.name)


def _became(old: Tool, new: Tool | None, markers: CacheMarkers | None) -> tuple[Outcome, str]:
    """What a tool became, and why as far as that can be seen."""
    if new is None:
        return (Outcome.MARKED, _more_marks(-1)) if is_marker_tool(old) else (Outcome.DROPPED, "")
    if old != new or without_marker(old.source) != without_marker(new.source):
        return Outcome.EDITED, ""
    return Outcome.MARKED, _marked(Context((), None, (old,)), Context((), None, (new,)), markers)


def _marked(before: Context, after: Context, markers: CacheMarkers | None) -> str:
    """What became of the cache markers on what stands before the messages."""
    if markers is None:
        return ""
    return _more_marks(len(head_markers(after, markers)) - len(head_markers(before, markers)))


def _more_marks(more: int) -> str:
    """In words: so many cache markers more than there were."""
    return f"cache marker {'set' if more > 0 else 'taken off' if more < 0 else 'moved'}"
