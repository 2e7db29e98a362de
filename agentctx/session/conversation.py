"""What a session remembers of its conversation, and how it goes on from one step to the next."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from time import perf_counter
from typing import Any, NamedTuple

from attrs import define, evolve, field

from agentctx.core.change_log import ChangesInForce
from agentctx.core.message import Message, Native, Tool
from agentctx.core.report import Report, View
from agentctx.engine.plan import Plan, refuse_empty
from agentctx.engine.reading import found_format, naming_what_is_too_deep, reader
from agentctx.engine.reasoning import opening
from agentctx.engine.run_stages import keep_originals
from agentctx.errors import ContextOverflow, InvalidInput
from agentctx.offload import offload
from agentctx.protocols import Meter
from agentctx.session.allowances import Allowances
from agentctx.session.commit import commit_aside
from agentctx.session.fingerprint import Digest, shared_length, snapshot
from agentctx.session.foreign import understands
from agentctx.session.learned_limits import Allowance
from agentctx.session.matching import Beginning, beginning, link, opening_of, recognised, recount, shared_start
from agentctx.session.outcome import Prefix, report_on, view_of_step
from agentctx.session.pressure import press, press_as_without_session
from agentctx.session.record import Record, Sent, undecided
from agentctx.session.step import Step, narrow, stand_still, take_in
from agentctx.session.surroundings import Surroundings, surround


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
        allowances: What is known of the room of each model.
        allowance: That of the model of now.
        record: The history, and the view that was made of it.
        around: What was known beside the messages at the last step; None before the first, and after a load.
        fixed: System prompt and tools as they were passed in last; after a load, what tells them from others.
        opening: After a load, what tells the system prompt and tools that reasoning is bound to from others.
        wire_name: The wire format with its dialect; None before the first step.
        sent: What was sent last.
        unjudged: Tokens of the last request that the one before had not; None once its usage was looked at.
        steps: How many steps were prepared.
        last: What the caller passed at the last step, as far as it is known; None before the first.
        in_force: The changes in force.
        previous: All of this as it was before the last step, if that was asked for.
    """

    plan: Plan
    model: str | None
    format: str | None
    allowances: Allowances
    allowance: Allowance = field(init=False)
    record: Record = field(init=False, factory=Record)
    around: Surroundings | None = field(init=False, default=None)
    fixed: Any = field(init=False, default=None)
    opening: Digest | None = field(init=False, default=None)
    wire_name: str | None = field(init=False, default=None)
    sent: Sent = field(init=False, factory=Sent)
    unjudged: int | None = field(init=False, default=None)
    steps: int = field(init=False, default=0)
    last: Given | None = field(init=False, default=None)
    in_force: ChangesInForce = field(init=False, factory=ChangesInForce)
    previous: Conversation | None = field(init=False, default=None)
    _counted_by: Meter | None = field(init=False, default=None)
    _marked_for: str | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        """Find the budget."""
        self.allowance = self.allowances.of(self.model)
        self.allowances.keep(self.model, self.allowance)

    @property
    def beginning(self) -> Beginning | None:
        """How it begins; None before the first step."""
        if not self.steps:
            return None
        if self.last is not None and self.around is not None:
            return opening_of(self.last.messages, self.last.system, self.around.source.wire).beginning
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
        around = self._surroundings(given, model, format_name)
        record = await self._going_on(given, around)
        again = record is self.record and 0 < len(natives) == len(record)
        idle = None if around.model != self.model else self.sent.idle(now)
        step = stand_still(around, record, natives, idle) if again else await take_in(around, record, natives, idle)
        step.reasoning_made_with, step.marked_for = self._reasoning_made_with(around), self._marked_for
        try:
            await press(step)
            if not step.start:
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
        known = undecided(refused.record, binds_reasoning=refused.around.binds)
        # no idle time, as without a session: nothing of the cache is worth sparing
        step = await take_in(refused.around, known, refused.natives, None, whole=True)
        step.reasoning_made_with = refused.reasoning_made_with  # and no marked_for: this record has no view yet
        try:
            await press_as_without_session(step)
        except ContextOverflow:
            return None
        step.idle = idle
        return step

    def _reasoning_made_with(self, around: Surroundings) -> tuple[Message | None, tuple[Tool, ...]] | None:
        """System prompt and tools of the last request where they were others than now; else None."""
        last = self.around
        if last is None:
            same = self.opening is None or self.opening == opening(around.context(()))
            return None if same else (Message("system", ()), ())  # what they were is not known any more
        if around.system is last.system and around.tools is last.tools:
            return None
        return last.system, last.tools

    def _surroundings(self, given: Given, model: str | None, format_name: str | None) -> Surroundings:
        """Model, reader, system prompt and tools; those of the step before when nothing changed."""
        around, model = self.around, self.model if model is None else model
        shown_format, is_assumed = self._format_shown_by(given.messages), self.assumed
        if around is not None and shown_format is not None and shown_format == self.wire_name:
            around = evolve(around, source=evolve(around.source, certain=True))
        wire_name = shown_format or self.wire_name or ""
        same = model == self.model and format_name in (None, wire_name, wire_name.partition("/")[0])
        same = same and wire_name == (self.wire_name or wire_name)
        if around is not None and same and self.fixed == [given.system, given.tools]:
            budget = self.allowance.in_force
            return around if around.budget is budget else around.with_budget(budget)
        if format_name is None or (self.format or "").partition("/")[0] == format_name:
            format_name = self.format  # which may name a dialect of it
        reader_format = format_name or wire_name.partition("/")[0] or None
        if around is not None and same:
            source = around.source
        else:
            messages, counter = given.messages, self.plan.counting
            source = reader(
                messages, system=given.system, tools=given.tools, format=reader_format, model=model, counter=counter
            )
            if is_assumed and shown_format is None and format_name is None:
                source = evolve(source, certain=False)
        allowance = self.allowance if model == self.model else self.allowances.of(model)
        fixed = source.fixed_part(given.system, given.tools)
        return surround(self.plan, source, allowance, fixed, (model, format_name))

    @property
    def assumed(self) -> bool:
        """Whether the messages so far would read alike in another format than the one that they are read in."""
        if self.format is not None or self.wire_name is None:
            return False
        return self.around is None or not self.around.source.certain

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

    async def _going_on(self, given: Given, around: Surroundings) -> Record:
        """The record to go on from: ours, or a new one when the caller has changed or replaced its history."""
        natives = given.messages
        record, meter, spoken = self.record, around.source.meter, around.source.wire.name
        base = (self.wire_name or "").partition("/")[0]
        if len(record) and base != spoken.partition("/")[0]:
            return Record()
        if len(record) and (self.wire_name != spoken or not understands(around.model, self.model)):
            return Record(foreign_count=len(natives), instructions=record.instructions)
        others = self._counted_by is not None or around.model != self.model  # and not only a load
        counted_anew = self._counted_by is not meter
        if counted_anew:
            if others and len(record):
                record = record.copy()  # ours stays as it was counted, until the step has succeeded
            await meter.settle(record.view)
            record.weigh_view(around.weigh(record.view[: record.settled]))
        if given.loaded:
            return record
        link(record, natives, around.source.wire)
        record = await recognised(record, natives, around)
        if counted_anew and others and len(record):
            await offload(lambda: recount(record, natives, around), len(record))
        return record

    def _adopt(self, step: Step) -> None:
        """Go on from this step."""
        around = step.around
        if around is not self.around:
            self.around, self.wire_name = around, around.source.wire.name
            self.model, self.format, self.allowance = around.model, around.format, around.allowance
            self.allowances.keep(self.model, self.allowance)
        self.record, self._counted_by = step.record, around.source.meter

    async def _commit(self, step: Step, given: Given, now: float, started: float, *, on_copy: bool) -> Report:
        """Remember the step and report on it. Nothing waits once anything changes: no step is ever half done."""
        old, sent = self.record, self.sent
        narrow(step)
        same = step.record is old  # and not one of a history that was changed
        start = min(step.start, sent.length) if same else 0
        before, grown = old.shown[start : sent.length], same and not old.tail and old.settled == len(old.view)
        same_fixed = self._same_fixed(step.around, given)
        fixed = self.fixed if same_fixed and not isinstance(self.fixed, Digest) else given.fixed()
        await commit_aside(step, on_copy=on_copy)
        record, self.fixed = step.record, fixed
        shared = min(sent.intact, start + shared_start(before, record.shown[start:]))
        prefix = self._prefix(step, shared, same_fixed=same_fixed)
        self._adopt(step)
        if step.trail.reports or not grown or record is not old:
            self.in_force = record.in_force()
        report = report_on(step, self.in_force, prefix, started)
        self._marked_for = step.around.model
        self.sent = Sent(report.tokens_after, len(record.out), len(record.out), now)
        self.steps += 1
        self.unjudged = report.tokens_after - report.prefix_tokens
        return report

    def _same_fixed(self, around: Surroundings, given: Given) -> bool:
        """Whether system prompt and tools are those of the step before."""
        last = self.around
        if around.model != self.model:  # another model has another cache
            return False
        if last is None:
            return self.steps > 0 and bool(self.fixed == [given.system, given.tools])
        return around.system is last.system and around.tools is last.tools

    def _prefix(self, step: Step, shared: int, *, same_fixed: bool) -> Prefix:
        """How the request begins, of which ``shared`` messages at the start are those of the last one."""
        sent, around = self.sent, step.around
        if not same_fixed:
            return Prefix(0 if self.steps else None, 0, sent.tokens)
        if shared == sent.length:
            return Prefix(None, sent.tokens, sent.tokens)
        tokens = around.fixed + sum(map(around.source.meter.message, step.record.view[:shared]))
        return Prefix(shared if self.steps else None, tokens, sent.tokens)
