"""One step of a session: six phases, in this order and in no other."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

from attrs import define, evolve, field, frozen

from agentctx.core.change_log import ChangesInForce
from agentctx.core.compare import Outcome, match
from agentctx.core.message import Context, Message, Native, Tool
from agentctx.core.pace import paced
from agentctx.core.report import Report, StageReport, View
from agentctx.core.units import iter_units, unfinished_from, units
from agentctx.economics.conditions import bill
from agentctx.engine.cache_markers import LiftCacheMarkers, carries_refused
from agentctx.engine.plan import Plan, is_go_on, let_answers_follow, refuse_empty, relief, since
from agentctx.engine.reading import found_format, naming_what_is_too_deep, reader
from agentctx.engine.reasoning import DropForeignReasoning, opening, options_of, understands
from agentctx.engine.repair import Earlier, cleaned, has_server_calls, names_of, paired
from agentctx.engine.run_stages import Trail, keep_originals, run_stage
from agentctx.errors import ContextOverflow, InvalidInput
from agentctx.offload import MUCH, offload
from agentctx.protocols import Call, Meter
from agentctx.session.compaction import compact, compact_at_once
from agentctx.session.fingerprint import Digest, shared_length, snapshot, snapshots
from agentctx.session.learned_limits import LearnedLimits, LimitsByModel
from agentctx.session.matching import (
    Beginning,
    asked_at,
    beginning,
    link,
    opening_of,
    recognised,
    recount,
    shared_start,
)
from agentctx.session.record import (
    REPAIR,
    LastRequest,
    Record,
    Sizes,
    call_ids,
    first_unanswered_call,
    instruction_digests,
    rewound,
    undecided,
    with_instructions,
)
from agentctx.session.step_context import Step, StepContext, surround


class Given(NamedTuple):
    """What the caller passes at a step, in the provider's own shape.

    Args:
        messages: The transcript.
        system: The system prompt, where the format keeps it apart.
        tools: The tool definitions.
        loaded: Whether they are what a state held of the last step: the caller has not passed its own since.
    """

    messages: Sequence[Any]
    system: Any
    tools: Any
    loaded: bool = False

    def fixed(self) -> Native:
        """What system prompt and tools look like now."""
        return snapshot([self.system, self.tools])


@define(eq=False)
class Conversation:
    """A conversation, as far as it is known. A step that fails or is cancelled leaves it as it was.

    Args:
        plan: The pipeline.
        model: The name of the model that was called last, or will be called first; None when it is not known.
        format: The wire format, if named.
        limits_by_model: What is known of the room of each model.
        limits: What was learned of the current model.
        record: The history, and the view that was made of it.
        ctx: What was known beside the messages at the last step; None before the first, and after a load.
        fixed: System prompt and tools as they were passed in last; after a load, their digest.
        opening: After a load, the digest of the system prompt and tools that reasoning is bound to.
        wire_name: The wire format with its dialect; None before the first step.
        last_request: What was sent last.
        unjudged: Tokens of the last request that the one before had not; None once its usage was looked at.
        steps: How many steps were prepared.
        last: What the caller passed at the last step, as far as it is known; None before the first.
        in_force: The changes in force.
        previous: All of this as it was before the last step, if that was asked for.
    """

    plan: Plan
    model: str | None
    format: str | None
    limits_by_model: LimitsByModel
    limits: LearnedLimits = field(init=False)
    record: Record = field(init=False, factory=Record)
    ctx: StepContext | None = field(init=False, default=None)
    fixed: Any = field(init=False, default=None)
    opening: Digest | None = field(init=False, default=None)
    wire_name: str | None = field(init=False, default=None)
    last_request: LastRequest = field(init=False, factory=LastRequest)
    unjudged: int | None = field(init=False, default=None)
    steps: int = field(init=False, default=0)
    last: Given | None = field(init=False, default=None)
    in_force: ChangesInForce = field(init=False, factory=ChangesInForce)
    previous: Conversation | None = field(init=False, default=None)
    _counted_by: Meter | None = field(init=False, default=None)
    _marked_for: str | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        """Find the budget."""
        self.limits = self.limits_by_model.of(self.model)
        self.limits_by_model.keep(self.model, self.limits)

    @property
    def beginning(self) -> Beginning | None:
        """How it begins; None before the first step."""
        if not self.steps:
            return None
        if self.last is not None and self.ctx is not None:
            return opening_of(self.last.messages, self.last.system, self.ctx.source.wire).beginning
        return beginning(self.record.view, None) if self.record.view else None

    async def step(
        self,
        given: Given,
        now: float,
        model: str | None = None,
        format_name: str | None = None,
        *,
        keep_before: bool = False,
    ) -> tuple[Report, View]:
        """Prepare the next model call.

        Args:
            given: What the caller passes.
            now: Seconds since 1970.
            model: The model that is called from now on; None: the one before.
            format_name: The wire format from now on; None: the one before.
            keep_before: Keep in ``previous`` what was known before a step in which a stage did anything.

        Raises:
            InvalidInput: If something cannot be read; names the message and the field.
            ContextOverflow: If what must stay is larger than the budget.
            StageError: If a stage broke a promise.
            UnknownModel: If the budget is the model's and the model table does not know it.
        """
        with naming_what_is_too_deep(given.messages, given.system, given.tools):
            return await self._stepped(given, now, model, format_name, keep_before=keep_before)

    async def _stepped(
        self, given: Given, now: float, model: str | None, format_name: str | None, *, keep_before: bool
    ) -> tuple[Report, View]:
        started, natives, self.previous = perf_counter(), given.messages, None
        ctx = self._surroundings(given, model, format_name)
        record = await self._going_on(given, ctx)
        again = record is self.record and 0 < len(natives) == len(record)
        idle = None if ctx.model != self.model else self.last_request.idle(now)
        step = stand_still(ctx, record, natives, idle) if again else await take_in(ctx, record, natives, idle)
        step.reasoning_made_with, step.marked_for = self._reasoning_made_with(ctx), self._marked_for
        try:
            await compact(step)
            if not step.trail.start:
                refuse_empty(step.trail)
        except ContextOverflow:
            # what a load brings back of the history is digests, which cannot be read again
            anew = None if given.loaded else await self._decided_anew(step, idle)
            if anew is None:
                raise
            step = anew
        await keep_originals(step.trail)
        previous = copy(self) if keep_before and step.trail.reports else None
        report = await self._commit(step, given, now, started, on_copy=previous is not None)
        self.previous = previous
        self.last = given
        return report, view_of_step(step, given.system, given.tools, report)

    async def _decided_anew(self, refused: Step, idle: float | None) -> Step | None:
        """The step with nothing decided before, as without a session; None when that does not fit either.

        What was decided for another model, limit or end of the history may be what does not fit now.
        """
        known = undecided(refused.record, binds_reasoning=refused.ctx.binds)
        # no idle time, as without a session: nothing of the cache is worth sparing
        step = await take_in(refused.ctx, known, refused.natives, None, whole=True)
        step.reasoning_made_with = refused.reasoning_made_with  # and no marked_for: this record has no view yet
        try:
            await compact_at_once(step)
        except ContextOverflow:
            return None
        step.idle = idle
        return step

    def _reasoning_made_with(self, ctx: StepContext) -> tuple[Message | None, tuple[Tool, ...]] | None:
        """System prompt and tools of the last request where they were others than now; else None."""
        last = self.ctx
        if last is None:
            same = self.opening is None or self.opening == opening(ctx.context(()))
            return None if same else (Message("system", ()), ())  # what they were is not known any more
        if ctx.system is last.system and ctx.tools is last.tools:
            return None
        return last.system, last.tools

    def _surroundings(self, given: Given, model: str | None, format_name: str | None) -> StepContext:
        """Model, reader, system prompt and tools; those of the step before when nothing changed."""
        ctx, model = self.ctx, self.model if model is None else model
        shown_format, is_assumed = self._format_shown_by(given.messages), self.assumed
        if ctx is not None and shown_format is not None and shown_format == self.wire_name:
            ctx = evolve(ctx, source=evolve(ctx.source, certain=True))
        wire_name = shown_format or self.wire_name or ""
        same = model == self.model and format_name in (None, wire_name, wire_name.partition("/")[0])
        same = same and wire_name == (self.wire_name or wire_name)
        if ctx is not None and same and self.fixed == [given.system, given.tools]:
            budget = self.limits.in_force
            return ctx if ctx.budget is budget else ctx.with_budget(budget)
        if format_name is None or (self.format or "").partition("/")[0] == format_name:
            format_name = self.format  # which may name a dialect of it
        reader_format = format_name or wire_name.partition("/")[0] or None
        if ctx is not None and same:
            source = ctx.source
        else:
            messages, counter = given.messages, self.plan.counting
            source = reader(
                messages, system=given.system, tools=given.tools, format=reader_format, model=model, counter=counter
            )
            if is_assumed and shown_format is None and format_name is None:
                source = evolve(source, certain=False)
        limits = self.limits if model == self.model else self.limits_by_model.of(model)
        fixed = source.fixed_part(given.system, given.tools)
        return surround(self.plan, source, limits, fixed, (model, format_name))

    @property
    def assumed(self) -> bool:
        """Whether the messages so far would read alike in another format than the one that they are read in."""
        if self.format is not None or self.wire_name is None:
            return False
        return self.ctx is None or not self.ctx.source.certain

    def _format_shown_by(self, natives: Sequence[Any]) -> str | None:
        """The format that new messages show, where those before them would read alike in another one; else None."""
        new = self._beyond_known(natives) if self.assumed else ()
        if not new:
            return None
        try:
            found = found_format(new, model=self.model)
        except InvalidInput:
            return None  # what is wrong with them is said when they are read
        return found.wire.name if found.certain else None

    def _beyond_known(self, natives: Sequence[Any]) -> Sequence[Any]:
        """What stands behind the known history, or behind the last view; all where neither seems to stand there."""
        for known in (self.record.seen, self.record.shown):
            end = len(known)
            if 0 < end <= len(natives) and shared_length([natives[end - 1]], [known[-1]]):
                return natives[end:]
        return natives

    async def _going_on(self, given: Given, ctx: StepContext) -> Record:
        """The record to go on from: ours, or a new one when the caller has changed or replaced its history."""
        natives = given.messages
        record, meter, spoken = self.record, ctx.source.meter, ctx.source.wire.name
        base = (self.wire_name or "").partition("/")[0]
        if len(record) and base != spoken.partition("/")[0]:
            return Record()
        if len(record) and (self.wire_name != spoken or not understands(ctx.model, self.model)):
            return Record(foreign_count=len(natives), instructions=record.instructions)
        others = self._counted_by is not None or ctx.model != self.model  # and not only a load
        counted_anew = self._counted_by is not meter
        if counted_anew:
            if others and len(record):
                record = record.copy()  # ours stays as it was counted, until the step has succeeded
            await meter.settle(record.view)
            record.weigh_view(ctx.weigh(record.view[: record.settled]))
        if given.loaded:
            return record
        link(record, natives, ctx.source.wire)
        record = await recognised(record, natives, ctx)
        if counted_anew and others and len(record):
            await offload(lambda: recount(record, natives, ctx), len(record))
        return record

    def _adopt(self, step: Step) -> None:
        """Go on from this step."""
        ctx = step.ctx
        if ctx is not self.ctx:
            self.ctx, self.wire_name = ctx, ctx.source.wire.name
            self.model, self.format, self.limits = ctx.model, ctx.format, ctx.limits
            self.limits_by_model.keep(self.model, self.limits)
        self.record, self._counted_by = step.record, ctx.source.meter

    async def _commit(self, step: Step, given: Given, now: float, started: float, *, on_copy: bool) -> Report:
        """Remember the step and report on it. Nothing waits once anything changes: no step is ever half done."""
        old, sent = self.record, self.last_request
        step.trail.narrow()
        same = step.record is old  # and not one of a history that was changed
        start = min(step.trail.start, sent.length) if same else 0
        before, grown = old.shown[start : sent.length], same and not old.tail and old.settled == len(old.view)
        same_fixed = self._same_fixed(step.ctx, given)
        fixed = self.fixed if same_fixed and not isinstance(self.fixed, Digest) else given.fixed()
        await commit_aside(step, on_copy=on_copy)
        record, self.fixed = step.record, fixed
        shared = min(sent.intact, start + shared_start(before, record.shown[start:]))
        prefix = self._prefix(step, shared, same_fixed=same_fixed)
        self._adopt(step)
        if step.trail.reports or not grown or record is not old:
            self.in_force = record.in_force()
        report = report_on(step, self.in_force, prefix, started)
        self._marked_for = step.ctx.model
        self.last_request = LastRequest(report.tokens_after, len(record.out), len(record.out), now)
        self.steps += 1
        self.unjudged = report.tokens_after - report.prefix_tokens
        return report

    def _same_fixed(self, ctx: StepContext, given: Given) -> bool:
        """Whether system prompt and tools are those of the step before."""
        last = self.ctx
        if ctx.model != self.model:  # another model has another cache
            return False
        if last is None:
            return self.steps > 0 and bool(self.fixed == [given.system, given.tools])
        return ctx.system is last.system and ctx.tools is last.tools

    def _prefix(self, step: Step, shared: int, *, same_fixed: bool) -> Prefix:
        """How the request begins, of which ``shared`` messages at the start are those of the last one."""
        sent, ctx = self.last_request, step.ctx
        if not same_fixed:
            return Prefix(0 if self.steps else None, 0, sent.tokens)
        if shared == sent.length:
            return Prefix(None, sent.tokens, sent.tokens)
        tokens = ctx.fixed + sum(map(ctx.source.meter.message, step.record.view[:shared]))
        return Prefix(shared if self.steps else None, tokens, sent.tokens)


async def take_in(
    ctx: StepContext, record: Record, natives: Sequence[Any], idle: float | None, *, whole: bool = False
) -> Step:
    """Read, repair and treat what is new, with the unfinished round before it.

    Args:
        ctx: What is known beside the messages.
        record: The record to go on from.
        natives: The whole history.
        idle: Seconds since the last request; None when there was none.
        whole: Whether all stages will run on the whole history: none runs on what is new then.
    """
    meter = ctx.source.meter
    record, fresh, seen, asked = await _read_new(ctx, record, natives)
    if asked is not None:
        weights, known = ctx.weigh(record.view), len(record)
        record = rewound(
            record, asked, weights, unchanged_until=known, history_length=len(natives), binds_reasoning=ctx.binds
        )
        record, fresh, seen, _ = await _read_new(ctx, record, natives)
    known = len(record)
    await meter.settle(fresh)
    arrived = await offload(partial(ctx.weigh, fresh), len(fresh))
    raw = [*record.tail, *fresh]
    raw_origin = [*record.tail_origin, *range(known, known + len(fresh))]
    size = ctx.fixed + record.view_tokens + sum(map(meter.message, record.tail)) + sum(arrived.tokens)
    unbound, settled = record.unbound_from, record.settled
    trail = Trail(ctx.context(raw), list(raw_origin), size, unbound_from=unbound, start=settled)
    step = Step(ctx, record, natives, seen, trail, arrived, raw, raw_origin, idle)
    if raw:
        await _mend(step)
        if not whole:
            await _treat(step)
    return step


def stand_still(ctx: StepContext, record: Record, natives: Sequence[Any], idle: float | None) -> Step:
    """The step when nothing is new: all that was decided stays, also about a round that is not finished."""
    provisional = sum(map(ctx.source.meter.message, record.view[record.settled :]))
    size = ctx.fixed + record.view_tokens + provisional
    trail = Trail(ctx.context(()), [], size, unbound_from=record.unbound_from, start=len(record.view))
    raw, origins = list(record.tail), list(record.tail_origin)
    return Step(
        ctx,
        record,
        natives,
        [],
        trail,
        Sizes(),
        raw,
        origins,
        idle,
        open_from=origins[0] if origins else None,
    )


_New = tuple[Record, list[Message], list[Any], int | None]
"""The record; new messages as values, what they look like, and the index of an earlier call that they answer."""


async def _read_new(ctx: StepContext, record: Record, natives: Sequence[Any]) -> _New:
    return await offload(lambda: _read(ctx, record, natives), len(natives) - len(record))


def _read(ctx: StepContext, record: Record, natives: Sequence[Any]) -> _New:
    """What is new, and the record with the unfinished round as it reads beside that.

    Where the place tells which call a result answers, a later result may tell that an earlier one answers another call.
    """
    new, source, again = natives[len(record) :], ctx.source, len(record.tail)
    if again and source.wire.reads_places:
        read = source.messages([*(each.source for each in record.tail), *new], len(record) - again)
        tail, fresh = read[:again], read[again:]
        record = record if tail == record.tail else evolve(record, tail=with_instructions(tail, record.instructions))
    else:
        fresh = source.messages(new, len(record), record.tail)
    fresh = with_instructions(fresh, record.instructions)
    return record, fresh, snapshots(new, len(record)), asked_at(record, natives, fresh, source.wire)


def _open_from(trail: Trail, clean: Sequence[Message]) -> int | None:
    """The index in the history where the end begins that depends on what comes next; None when none does.

    Args:
        trail: The new messages, with those of the unfinished end before them.
        clean: The same, repaired but for their pairs.
    """
    bare = trail.context.messages
    found = [
        trail.origins[place] for place in (unfinished_from(bare), _unfinished_in(bare, clean)) if place < len(bare)
    ]
    return min((origin for origin in found if origin is not None), default=None)


def _unfinished_in(bare: Sequence[Message], clean: Sequence[Message]) -> int:
    """Where in ``bare`` the end begins that is unfinished in ``clean``, which was made of it.

    A message that was taken apart is read as a whole, with all of the unit that it begins in.
    """
    place = unfinished_from(clean)
    if place == len(clean):
        return len(bare)
    origins, starts = match(bare, clean).origins, [unit.start for unit in units(clean)]
    while True:
        read = next(origin for origin in (*reversed(origins[: place + 1]), 0) if origin is not None)
        begins = origins.index(read) if read in origins else 0
        if begins >= place:
            return read
        place = starts[bisect_right(starts, begins) - 1]


async def _mend(step: Step) -> None:
    """Make what is new legal, and find where it is unfinished.

    Cache markers that the model refuses are lifted, and reasoning of another model goes; then the history is repaired,
    as one stage, so that ``open_from`` is found in what was repaired but not yet paired.

    Raises:
        InvalidInput: If the step works on the whole view, and nothing is left to send.
    """
    ctx, call = step.ctx, step.call()
    wire = ctx.source.wire

    if carries_refused(step.raw, wire, ctx.source.profile):
        await run_stage(LiftCacheMarkers(), step.trail, call, trusted=True)
    if step.record.foreign_count > step.raw_origin[0]:
        await run_stage(
            DropForeignReasoning(step.raw_origin, step.record.foreign_count), step.trail, call, trusted=True
        )
    last = step.record.view[step.trail.start - 1] if step.trail.start else None
    bare = step.trail.context.messages

    def looked() -> tuple[list[Message] | None, int | None]:
        earlier = Earlier(step.record.ids, _named(step), last, lambda: step.record.view[: step.trail.start])
        clean = cleaned(bare, call, wire, earlier)
        whole = paired(clean, call, wire, earlier=earlier)
        legal = None if whole is bare else list(whole)
        open_ = legal is not None or has_server_calls(bare) or any(each.role not in _ANSWERING for each in bare[-1:])
        return legal, _open_from(step.trail, clean) if open_ else None

    legal, step.open_from = await offload(looked, len(bare))
    if legal is not None:

        async def repaired(context: Context, _call: Call) -> Context:
            return context.with_messages(tuple(legal))

        repaired.__name__ = REPAIR
        await run_stage(repaired, step.trail, call, trusted=True)
    after = (
        (step.record.view[step.trail.start - 1], step.record.origins[step.trail.start - 1])
        if step.trail.start
        else None
    )
    await let_answers_follow(step.trail, call, step.role_at, after)
    if step.trail.start == 0:
        refuse_empty(step.trail)


async def _treat(step: Step) -> None:
    """Run the stages that look at what is new."""
    call = step.call()
    for stage in step.ctx.plan.on_arrival:
        await run_stage(stage, step.trail, call)


_ANSWERING = frozenset({"user", "tool"})


def _named(step: Step) -> Mapping[str, Message]:
    """The settled messages that have a name of their own; looked up when the record does not know them."""
    record = step.record
    if record.items is None:
        record.items = names_of(record.view[: record.settled], step.ctx.source.wire)
    return record.items


async def commit_aside(step: Step, *, on_copy: bool = False) -> None:
    """``commit``; where it is about many messages, in a worker thread and on a copy of the record.

    Args:
        step: The step.
        on_copy: Leave the record as it was in any case.
    """
    changes = sum(len(report.changes) for report in step.trail.reports)
    again = step.trail.start == 0 or step.trail.start < step.record.settled
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
    known = dict(zip(map(id, record.view[step.trail.start :]), range(step.trail.start, len(record.view)), strict=True))
    places = [known.get(id(message)) for message in messages]
    written = _written(step, messages, places)  # first: what cannot be written leaves the record as it was
    looks = _looks(messages, written, trail.origins, places)
    record.remember(step.seen, step.fresh, step.arrived)
    _enter_in_book(step)
    replaced = record.view[step.trail.start :]
    record.shown[step.trail.start :] = [
        _look(record, look, origin, place)
        for look, origin, place in paced(zip(looks, trail.origins, places, strict=True))
    ]
    record.out[step.trail.start :] = written
    record.view[step.trail.start :] = messages
    record.note_made(trail.made, replaced, messages)
    record.origins[step.trail.start :] = trail.origins
    record.forget_dropped(step.natives, _dropped(trail.reports))
    _mark_final(step, replaced[: max(0, record.settled - step.trail.start)])
    record.quiet_until, record.waiting = step.quiet_until, step.waiting
    record.unbound_from = trail.unbound_from
    record.instructions |= frozenset(instruction_digests(messages, written))


def _look(record: Record, made: object, origin: int | None, place: int | None) -> Native:
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
    out, write, natives = step.record.out, step.ctx.source.wire.write_message, step.natives

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
    record, ctx = step.record, step.ctx
    settled, place = _open_end(step, replaced)
    record.tail, record.tail_origin = step.raw[place:], step.raw_origin[place:]
    if settled and record.origins[settled - 1] is None and is_go_on(record.view[settled - 1]):
        settled -= 1  # it is added for this step only
    start = min(step.trail.start, record.settled)
    if start < len(replaced):  # then less has to be weighed when it is all weighed again
        start, replaced, record.view_tokens, record.view_bytes = 0, record.view[:0], 0, 0
        record.ids = set() if ctx.source.wire.unique_ids else record.ids
        record.items = None
    new, meter = record.view[start:settled], ctx.source.meter
    record.view_tokens += sum(map(meter.message, new)) - sum(map(meter.message, replaced))
    record.view_bytes += sum(map(meter.weight, new)) - sum(map(meter.weight, replaced))
    if ctx.source.wire.unique_ids:
        record.ids -= call_ids(replaced)
        record.ids |= call_ids(new)
    if record.items is not None:
        for name, gone in names_of(replaced, ctx.source.wire).items():
            if record.items.get(name) is gone:
                del record.items[name]
        record.items |= names_of(new, ctx.source.wire)
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
    start, again = min(step.trail.start, record.settled), step.raw_origin[0]
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
    place, there = (
        step.raw_origin.index(open_from),
        set(step.record.origins[min(step.trail.start, step.record.settled) :]),
    )
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


@frozen
class Prefix:
    """How a request begins, compared to the one before.

    Args:
        first_changed: The first message that is not as it was; None when all that was sent is still there.
        tokens: Tokens at the start that the request before had too.
        sent: Tokens of the request before.
    """

    first_changed: int | None
    tokens: int
    sent: int


def report_on(step: Step, in_force: ChangesInForce, prefix: Prefix, started: float) -> Report:
    """The report on a step.

    Args:
        step: The step, committed.
        in_force: The changes in force.
        prefix: How the request begins.
        started: When the step began, by the clock of ``plan.since``.
    """
    record, ctx = step.record, step.ctx
    tail = sum(map(ctx.source.meter.weight, record.view[record.settled :]))
    budget, reports = ctx.budget, step.trail.reports
    began = reports[0].tokens_before if reports else step.tokens
    taken_off = relief(ctx.given, ctx.context(()), ctx.bare_call, began)
    return Report(
        stages=(*taken_off, *reports),
        in_force=in_force,
        messages_before=len(record),
        messages_after=len(record.view),
        tokens_before=sum(stage.tokens_before - began for stage in taken_off) + ctx.fixed + record.given_tokens,
        tokens_after=step.tokens,
        bytes_before=ctx.fixed_bytes + record.given_bytes,
        bytes_after=ctx.fixed_bytes + record.view_bytes + tail,
        limit=None if budget is None else budget.limit,
        first_changed=prefix.first_changed,
        prefix_tokens=prefix.tokens,
        rebilled_tokens=max(0, prefix.sent - prefix.tokens),
        seconds=since(started),
        forecast=bill(
            ctx.source.profile,
            sent=prefix.sent,
            given=began,
            prefix=prefix.tokens,
            size=step.tokens,
            warmth=step.warmth,
        ),
    )


def view_of_step(step: Step, system: Native, tools: Native, report: Report) -> View:
    """The view that a step made.

    Args:
        step: The step, committed.
        system: The system prompt as the caller passed it; handed back when no stage touched it.
        tools: The tools, likewise.
        report: The report on the step.
    """
    record, chosen, ctx = step.record, step.trail.context, step.ctx
    if chosen.tools is not ctx.given.tools:
        tools = [tool.source for tool in chosen.tools]
    if chosen.system is not ctx.given.system:
        system = None if chosen.system is None else ctx.source.wire.write_system(chosen.system)
    return View(
        list(record.out), system, tools, report, ctx.context(record.view), options_of(step.trail, ctx.bare_call)
    )
