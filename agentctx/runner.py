"""Run one stage after the other: check what it made, compare, and write down what it did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from time import perf_counter

from attrs import define, evolve, field, fields, frozen

from agentctx.core.compare import Change, Matched, Outcome, match
from agentctx.core.message import Context, Message
from agentctx.core.pace import paced
from agentctx.core.pairing import broken_pair
from agentctx.core.protection import always, words
from agentctx.core.reasoning import seals
from agentctx.core.report import StageReport
from agentctx.errors import StageError
from agentctx.keeping import Originals, kept
from agentctx.offload import offload
from agentctx.protocols import CacheMarkers, Call, ContextStrategy, HoldsStages, cache_markers, holds_stages
from agentctx.strategies.naming import Naming, name_of
from agentctx.strategies.running import run


@define
class Trail:
    """Where the messages of a step came from, and what the stages did so far.

    Args:
        context: The context as it is now.
        origins: For each message of ``context``, its index in what the caller passed in; None when a stage made it.
        tokens: Size of ``context``, in tokens.
        reports: What each stage did.
        unbound_from: The first message whose reasoning has lost its prefix and is left to the provider to drop; None
            when there is none.
        lost_open: Whether reasoning of the open tool round was dropped.
        offset: How many messages of the request stand before ``context``, out of the stages' sight.
        intact: How many messages at the start are the very objects that stood there at the step before; 0 when
            nothing is known of that.
        made: The messages that stages made, by identity, each with what is said of it.
        originals: What stages changed, as it was before, by the place of the report; see ``keep_originals``.
    """

    context: Context
    origins: list[int | None]
    tokens: int
    reports: list[StageReport] = field(factory=list)
    unbound_from: int | None = None
    lost_open: bool = False
    offset: int = 0
    intact: int = 0
    made: dict[int, tuple[Message, Change]] = field(factory=dict)
    originals: dict[int, Originals] = field(factory=dict)

    def copy(self) -> Trail:
        """The same place, in containers of its own."""
        return Trail(
            self.context,
            list(self.origins),
            self.tokens,
            list(self.reports),
            self.unbound_from,
            self.lost_open,
            self.offset,
            self.intact,
            dict(self.made),
            dict(self.originals),
        )

    def restore(self, standing: Trail) -> None:
        """Go back to a copy that was made before."""
        for each in fields(Trail):
            setattr(self, each.name, getattr(standing, each.name))


async def run_stage(stage: ContextStrategy, trail: Trail, call: Call, *, trusted: bool = False) -> StageReport | None:
    """Run one stage and put what it did into the trail; of one that holds stages, what each of those did.

    Args:
        stage: The stage.
        trail: Where the step stands; brought up to date.
        call: What the stage is told.
        trusted: Do not check the stage: for the repair, which takes broken pairs and protected messages apart.

    Returns:
        Its report, or None when it changed nothing and had nothing to say, or when it holds stages.

    Raises:
        StageError: If it broke a pair or lost something protected.
    """
    holding = holds_stages(stage)
    if holding is not None:
        await _run_inner(holding, name_of(stage), trail, call)
        return None
    name, before, started = name_of(stage), trail.context, perf_counter()
    try:
        after, shared = await run(stage, before, call)
        if after is before and not call.notes.remarks:
            return None
        compared = partial(_compared, name, before, after, shared, call, None if trusted else trail.origins)
        anywhere = call.wire is not None and call.wire.results_anywhere  # then all pairs are looked at
        found = await offload(compared, len(before.messages) - (0 if anywhere else shared))
        await call.meter.settle(after.messages[shared:])
        _carry_made(before, after, shared, found, trail)
        report = await _write_down(name, before, after, found, call, trail, started)
        trail.intact = min(trail.intact, shared)
    finally:
        call.notes.clear()
    if report.acted:
        trail.reports.append(report)
    else:
        trail.originals.pop(len(trail.reports), None)
    return report


async def keep_originals(trail: Trail) -> None:
    """Put what the stages changed into the store, as it was before; the reports name the handles then.

    Raises:
        StoreError: If the store fails.
    """
    known: dict[tuple[int, bytes], str] = {}
    for place, originals in trail.originals.items():
        report = trail.reports[place]
        trail.reports[place] = evolve(report, changes=tuple(await kept(report.changes, originals, known)))
    trail.originals.clear()


async def _run_inner(holding: HoldsStages, name: str, trail: Trail, call: Call) -> None:
    """Run the stages that a stage holds, each as a stage of its own; take it all back when that says so."""
    before, standing = trail.context, trail.copy()

    async def run_one(stage: ContextStrategy, context: Context, told: Call) -> Context:
        if context is not trail.context:
            raise StageError(name, "gave one of its stages another context than the one before had returned")
        await run_stage(stage, trail, told)
        return trail.context

    with Naming(name):
        after = await holding.run_inner(run_one, before, call)
    if after is before and trail.context is not before:
        trail.restore(standing)
    elif after is not trail.context:
        raise StageError(name, "returned another context than the last of its stages")


def _compared(
    name: str, before: Context, after: Context, shared: int, call: Call, origins: Sequence[int | None] | None
) -> Matched:
    """What a stage returned, laid beside what it was given, and held to the stage's promises.

    Args:
        name: The stage's name.
        before: What it was given.
        after: What it returned.
        shared: How many messages at the start are the same objects: with those it has kept its promises.
        call: What it was told.
        origins: For each message of ``before``, its index in what the caller passed in, if any; None for a stage that
            is trusted.

    Raises:
        StageError: If it changed the system prompt, broke a pair, or lost what is protected; names the caller's index.
    """
    found = match(before.messages, after.messages, shared)
    if after is not before and origins is not None:
        if after.system is not before.system and after.system != before.system:
            raise StageError(name, "changed the system prompt, which survives byte for byte")
        if found.first_changed is not None:
            _check_pairs(name, after, found.start, call)
            _check_protected(name, before, after, found, call, origins)
    return found


def _check_pairs(name: str, after: Context, start: int, call: Call) -> None:
    """All pairs are whole; up to ``start`` the messages say what they said before, when all were."""
    wire = call.wire
    merges, anywhere = (True, False) if wire is None else (wire.merges_turns, wire.results_anywhere)
    problem = broken_pair(after.messages, merges_turns=merges, results_anywhere=anywhere, known=start)
    if problem is not None:
        raise StageError(name, f"broke a pair: {problem}")


def _check_protected(
    name: str, before: Context, after: Context, found: Matched, call: Call, origins: Sequence[int | None]
) -> None:
    def place(index: int) -> str:
        return f"messages[{origins[index]}]"

    survivors = always(before.messages, found.start)
    pinned = call.frozen(before)
    for index in found.dropped:
        if index in survivors or index in pinned:
            raise StageError(name, f"dropped {place(index)} ({before.messages[index].role}), which is protected")
    for origin, position in found.edited:
        old, new = before.messages[origin], after.messages[position]
        if origin in pinned or (origin in survivors and (words(old) != words(new) or old.role != new.role)):
            raise StageError(name, f"edited {place(origin)} ({old.role}), which is protected")
        if not seals(new) <= seals(old):
            raise StageError(name, f"edited signed reasoning in {place(origin)}; it is kept whole or dropped")


async def _write_down(
    name: str, before: Context, after: Context, found: Matched, call: Call, trail: Trail, started: float
) -> StageReport:
    work = partial(_told, name, before, after, found, call, trail)
    told = await offload(work, len(before.messages) - found.start)
    changes, grown = tuple(told.changes), told.grown
    if call.store is not None and call.wire is not None:
        trail.originals[len(trail.reports)] = Originals(told.messages, call.store, call.wire)
    if after.tools is not before.tools:
        grown += call.meter.fixed(after) - call.meter.fixed(before)
    report = StageReport(
        name, changes, trail.tokens, trail.tokens + grown, perf_counter() - started, tuple(call.notes.remarks)
    )
    trail.made |= told.added
    trail.origins = told.origins
    trail.context, trail.tokens = after, trail.tokens + grown
    return report


def _carry_made(before: Context, after: Context, shared: int, found: Matched, trail: Trail) -> None:
    """What is said of a made message goes with it when it is another object that says the same: one with a marker."""
    if not trail.made:
        return
    origins = chain(range(shared, found.start), found.later)
    for position, origin in enumerate(origins, shared):
        known = None if origin is None else trail.made.get(id(before.messages[origin]))
        if known is not None:
            made = after.messages[position]
            trail.made[id(made)] = made, known[1]


def _grown_unseen(before: Context, found: Matched, call: Call, trail: Trail) -> int:
    """Tokens that went with messages which an earlier stage had made: no change names them as they were."""
    gone = (*found.dropped, *(origin for origin, _ in found.edited))
    return -sum(call.count(before.messages[origin]) for origin in gone if trail.origins[origin] is None)


@frozen
class _Told:
    """What a stage did.

    Args:
        changes: Each change, without the handle of the original.
        messages: The message of each change: as it was, or the added one.
        grown: Tokens that the messages have grown by.
        added: Of the changes those that added a message, by the message's identity.
        origins: For each message after, its index in what the caller passed in; None when a stage made it.
    """

    changes: Sequence[Change]
    messages: Sequence[Message]
    grown: int
    added: Mapping[int, tuple[Message, Change]]
    origins: list[int | None]


def _told(name: str, before: Context, after: Context, found: Matched, call: Call, trail: Trail) -> _Told:
    changes, messages = _changes(name, before, after, found, call, trail)
    grown = sum(change.tokens_after - change.tokens_before for change in changes)
    grown += _grown_unseen(before, found, call, trail)
    pairs = zip(messages, changes, strict=True)
    added = {id(made): (made, change) for made, change in pairs if change.outcome is Outcome.ADDED}
    if found.first_changed is None:
        return _Told(changes, messages, grown, added, trail.origins)
    later = [None if origin is None else trail.origins[origin] for origin in found.later]
    return _Told(changes, messages, grown, added, [*trail.origins[: found.start], *later])


def _changes(
    name: str, before: Context, after: Context, found: Matched, call: Call, trail: Trail
) -> tuple[list[Change], list[Message]]:
    """What the stage did, and the message that it did each to."""
    marks = None if call.wire is None else cache_markers(call.wire)
    edited: Mapping[int, int] = dict((*found.remade, *found.edited, *found.moved))
    remarked = dict(found.remade).keys() - dict(found.moved).keys()
    changes: list[Change] = []
    messages: list[Message] = []
    for origin in paced(sorted((*edited, *found.dropped))):
        old = before.messages[origin]
        new = after.messages[edited[origin]] if origin in edited else None
        index = trail.origins[origin]
        if index is None:
            continue
        if origin not in remarked or new is None:
            changes.append(_change(name, index, old, new, call))
        elif marks is not None and marks.of(old) != marks.of(new):
            changes.append(_remarked(name, index, old, new, call, marks))
        else:
            continue
        messages.append(old)
    remade = {position: origin for origin, position in found.edited if trail.origins[origin] is None}
    said = {position: _said_of(before.messages[origin], trail) for position, origin in remade.items()}
    for position in sorted((*found.added, *remade)):
        made = after.messages[position]
        place, why = trail.offset + position, call.notes.why(made).why or said.get(position, "")
        changes.append(Change(place, made.role, Outcome.ADDED, name, why, 0, call.count(made)))
        messages.append(made)
    return changes, messages


def _change(name: str, index: int, old: Message, new: Message | None, call: Call) -> Change:
    said = call.notes.why(old)
    usual = Outcome.DROPPED if new is None else Outcome.MOVED if new == old else Outcome.EDITED
    size = 0 if new is None else call.count(new)
    return Change(index, old.role, said.outcome or usual, name, said.why, call.count(old), size)


def _said_of(made: Message, trail: Trail) -> str:
    """Why a message was made that a later stage has changed."""
    known = trail.made.get(id(made))
    return "" if known is None else known[1].reason


def _remarked(name: str, index: int, old: Message, new: Message, call: Call, marks: CacheMarkers) -> Change:
    """The change of a message that says the same with other cache markers; kept, when it is as it was passed in."""
    more = len(marks.of(new)) - len(marks.of(old))
    usual = "set" if more > 0 else "taken off" if more < 0 else "moved"
    why = call.notes.why(old).why or f"cache marker {usual}"
    outcome = Outcome.KEPT if new.untouched else Outcome.MARKED
    return Change(index, old.role, outcome, name, why, call.count(old), call.count(new))
