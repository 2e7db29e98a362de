"""Make what a step worked out the state of the conversation."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any

from agentctx.core.compare import Outcome
from agentctx.core.message import Message, Native
from agentctx.core.pace import paced
from agentctx.core.report import StageReport
from agentctx.core.units import iter_units
from agentctx.engine.plan import is_go_on
from agentctx.engine.repair import names_of
from agentctx.offload import MUCH, offload
from agentctx.session.fingerprint import snapshot
from agentctx.session.record import Record, call_ids, first_unanswered_call, instruction_digests
from agentctx.session.step import Step


async def commit_aside(step: Step, *, on_copy: bool = False) -> None:
    """``commit``; where it is about many messages, in a worker thread and on a copy of the record.

    Args:
        step: The step.
        on_copy: Leave the record as it was in any case.
    """
    changes = sum(len(report.changes) for report in step.trail.reports)
    again = step.start == 0 or step.start < step.record.settled
    looked_at = len(step.seen) + changes + (len(step.trail.context.messages) if again else 0)
    if looked_at >= MUCH or on_copy:
        step.record = step.record.copy()
    await offload(partial(_commit_and_let_go, step), looked_at)


def _commit_and_let_go(step: Step) -> None:
    """``commit``, and take apart here what the step need not know any more: of many messages that takes a while."""
    commit(step)
    for spent in (step.raw, step.seen):
        for _ in paced(range(len(spent))):
            spent.pop()


def commit(step: Step) -> None:
    """Make what the step worked out the state of the conversation. Nothing in it waits."""
    record, trail = step.record, step.trail
    messages = trail.context.messages
    known = dict(zip(map(id, record.view[step.start :]), range(step.start, len(record.view)), strict=True))
    places = [known.get(id(message)) for message in messages]
    written = _written(step, messages, places)  # first: what cannot be written leaves the record as it was
    looks = _looks(messages, written, trail.origins, places)
    record.remember(step.seen, step.fresh, step.arrived)
    _enter_in_book(step)
    replaced = record.view[step.start :]
    record.shown[step.start :] = [
        _look(record, look, origin, place)
        for look, origin, place in paced(zip(looks, trail.origins, places, strict=True))
    ]
    record.out[step.start :] = written
    record.view[step.start :] = messages
    record.note_made(trail.made, replaced, messages)
    record.origins[step.start :] = trail.origins
    record.forget_dropped(step.natives, _dropped(trail.reports))
    _mark_final(step, replaced[: max(0, record.settled - step.start)])
    record.quiet_until, record.waiting = step.quiet_until, step.waiting
    record.unbound_from = trail.unbound_from
    record.instructions |= frozenset(instruction_digests(messages, written))


def _look(record: Record, made: Native, origin: int | None, place: int | None) -> Native:
    """What a message of the view looks like: as it was ``made`` now, as it stood in the view, or as it came."""
    if made is not None:
        return made
    return record.seen[origin or 0] if place is None else record.shown[place]


def _looks(
    messages: Sequence[Message], written: Sequence[Any], origins: Sequence[int | None], places: Sequence[int | None]
) -> list[Any]:
    """What those messages look like that a stage made or edited; None for the others, which were seen before."""
    return [
        snapshot(native) if place is None and (origin is None or not message.untouched) else None
        for message, native, origin, place in paced(zip(messages, written, origins, places, strict=True))
    ]


def _dropped(reports: Sequence[StageReport]) -> Iterator[int]:
    """The indexes in the history of what was dropped in this step."""
    return (change.index for report in reports for change in report.changes if change.outcome is Outcome.DROPPED)


def _written(step: Step, messages: Sequence[Message], places: Sequence[int | None]) -> list[Any]:
    """The messages in the caller's format; one that stood at a place of the view before is the same object again.

    One that nobody has touched is the caller's object of this step, which may have been rebuilt since it was read.
    """
    out, write, natives = step.record.out, step.around.source.wire.write_message, step.natives

    def native(message: Message, place: int | None, origin: int | None) -> Native:
        if place is not None:
            return out[place]
        return natives[origin] if origin is not None and message.untouched else write(message)

    return [native(*each) for each in paced(zip(messages, places, step.trail.origins, strict=True))]


def _enter_in_book(step: Step) -> None:
    """What this step did, instead of what was done before to the round that was treated again."""
    record, reports = step.record, step.trail.reports
    if record.tail_origin and step.seen:
        record.book = record.book.before(record.tail_origin[0])
    if reports:
        record.book.write(change for report in reports for change in report.changes)
        record.note_decided(change for report in reports for change in report.changes)


def _mark_final(step: Step, replaced: Sequence[Message]) -> None:
    """Note which part of the view is final, and what it weighs without what was ``replaced`` of it."""
    record, around = step.record, step.around
    settled, place = _open_end(step, replaced)
    record.tail, record.tail_origin = step.raw[place:], step.raw_origin[place:]
    if settled and record.origins[settled - 1] is None and is_go_on(record.view[settled - 1]):
        settled -= 1  # it is added for this step only
    start = min(step.start, record.settled)
    if start < len(replaced):  # then less has to be weighed when it is all weighed again
        start, replaced, record.view_tokens, record.view_bytes = 0, record.view[:0], 0, 0
        record.ids = set() if around.source.wire.unique_ids else record.ids
        record.items = None
    new, meter = record.view[start:settled], around.source.meter
    record.view_tokens += sum(map(meter.message, new)) - sum(map(meter.message, replaced))
    record.view_bytes += sum(map(meter.weight, new)) - sum(map(meter.weight, replaced))
    if around.source.wire.unique_ids:
        record.ids -= call_ids(replaced)
        record.ids |= call_ids(new)
    if record.items is not None:
        for name, gone in names_of(replaced, around.source.wire).items():
            if record.items.get(name) is gone:
                del record.items[name]
        record.items |= names_of(new, around.source.wire)
    record.settled = settled


def _open_end(step: Step, replaced: Sequence[Message]) -> tuple[int, int]:
    """Where the unfinished end begins: in the view, and among the messages that this step has read.

    There is none where a message that was final before stands within it, moved behind newer ones: it is not read again,
    so that it would be lost. ``asked_at`` finds what an answer to the end belongs to then.

    Args:
        step: The step.
        replaced: What stood in the view before in the place of the step's messages, as far as it was final.
    """
    record, nothing = step.record, (len(step.record.view), len(step.raw))
    open_from = None if step.open_from is None else _open_end_without_dropped_calls(step, step.open_from)
    if open_from is None:
        return nothing
    start, again = min(step.start, record.settled), step.raw_origin[0]
    final = _final_places(record, start, again, replaced)
    settled, open_from = _where_view_is_open(record, start, open_from, again, final)
    if any(origin is not None and origin < again for origin in record.origins[settled:]):
        return nothing
    return settled, bisect_left(step.raw_origin, open_from)


def _final_places(record: Record, start: int, again: int, replaced: Sequence[Message]) -> set[int]:
    """The places of the view from ``start`` on of what was final before a step that reads from ``again`` on."""
    stood = set(map(id, replaced))
    places = zip(range(start, len(record.view)), record.view[start:], record.origins[start:], strict=True)
    return {
        place for place, message, origin in places if id(message) in stood or (origin is not None and origin < again)
    }


def _open_end_without_dropped_calls(step: Step, open_from: int) -> int | None:
    """From which index on all calls of the unfinished end are in the view: what was left out once is not read again.

    None when there is no such end.
    """
    place, there = step.raw_origin.index(open_from), set(step.record.origins[min(step.start, step.record.settled) :])
    gone = [at for at in range(place, len(step.raw)) if step.raw[at].calls and step.raw_origin[at] not in there]
    if not gone:
        return open_from
    later = iter_units(step.raw, place)
    return next((step.raw_origin[unit.start] for unit in later if unit.start > gone[-1]), None)


def _where_view_is_open(record: Record, start: int, index: int, again: int, final: Collection[int]) -> tuple[int, int]:
    """Where the unfinished part of the view begins, and from which index of the history on it was read.

    It holds all that was read from ``index`` on, and nothing older: where repair has moved an older message behind a
    newer one, both are read again, and so is a call whose result is in that part. A made message before it is final:
    it may be the result of an older call.

    Args:
        record: What is known of the conversation.
        start: A place of the view before which everything is final.
        index: The index in the history at which the unfinished round begins.
        again: The index in the history from which on this step has read.
        final: The places from ``start`` on of what was final before.
    """
    origins, place = record.origins, start
    while place < len(origins) and not _is_from(origins[place], index):
        place += 1
    asked = first_unanswered_call(record.view, origins, start, place, final)
    read = [origins[at] for at in range(asked, len(origins)) if at not in final]
    oldest = min((origin for origin in read if origin is not None), default=index)
    if asked < place and origins[asked] is None:  # no message before it is known: all is read again
        oldest = again
    if oldest < index:
        return _where_view_is_open(record, start, oldest, again, final)
    return asked, index


def _is_from(origin: int | None, index: int) -> bool:
    return origin is not None and origin >= index
