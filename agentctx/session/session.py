"""A session: one conversation, and everything that was decided about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from time import monotonic, perf_counter
from typing import Any, Self

from attrs import define, evolve, field

from agentctx.binding import options_of
from agentctx.core.budget import Budget
from agentctx.core.forecast import Forecast
from agentctx.core.ledger import Ledger
from agentctx.core.message import Context, Message, Tool
from agentctx.core.report import Report
from agentctx.economics.conditions import expected_forecast
from agentctx.economics.overflow import classify_error
from agentctx.errors import ContextOverflow
from agentctx.plan import Plan, native_system, since
from agentctx.protocols import Listener
from agentctx.reading import Reader, as_list, reader
from agentctx.session.allowance import Allowance
from agentctx.session.cost import bill, priced, warmth_after
from agentctx.session.current import enter, leave
from agentctx.session.flight import Flight
from agentctx.session.pressure import press
from agentctx.session.record import Record, rebased, rewound
from agentctx.session.snapshot import begins_with, shared_length, snapshot
from agentctx.session.state import VERSION, Digest, check_version, digest, dump_record, load_record
from agentctx.session.step import Step, Surroundings, before_pressing, commit, commit_aside, stand_still, take_in
from agentctx.session.usage import is_one_prompt, prompt_tokens
from agentctx.view import View
from agentctx.wire.cache_markers import unmarked
from agentctx.wire.registry import format_named


@define(eq=False)
class Session:
    """One conversation. It decides once about each message and sticks to it.

    Safe to share between tasks and threads: one step at a time. A step that fails or is cancelled leaves it as it was.

    Args:
        plan: The pipeline.
        model: The model's name, if known.
        format: The wire format, if named.
        id: The session's name in events.
        on_compact: Told of this session's compactions.
        clock: Tells the seconds by which the provider's cache is believed to age.
        steps: How many steps were prepared.
        billed_tokens: The size of the last prompt by the provider's own count; None before the first ``record``.
        allowance: The budget, and what was learned about it.
    """

    plan: Plan
    model: str | None = None
    format: str | None = None
    id: str | None = None
    on_compact: Listener | None = field(default=None, repr=False)
    clock: Callable[[], float] = field(default=monotonic, repr=False)
    steps: int = field(default=0, init=False)
    billed_tokens: int | None = field(default=None, init=False)
    allowance: Allowance = field(init=False)
    _flight: Flight = field(init=False, factory=Flight, repr=False)
    _record: Record = field(init=False, factory=Record, repr=False)
    _around: Surroundings | None = field(init=False, default=None, repr=False)
    _fixed_seen: Any = field(init=False, default=None, repr=False)
    _last: tuple[Sequence[Any], Any, Any] | None = field(init=False, default=None, repr=False)
    _retried: bool = field(init=False, default=False, repr=False)
    _sent_tokens: int = field(init=False, default=0, repr=False)
    _sent_length: int = field(init=False, default=0, repr=False)
    _sent_intact: int = field(init=False, default=0, repr=False)
    _sent_at: float | None = field(init=False, default=None, repr=False)
    _children: int = field(init=False, default=0, repr=False)
    _ledger: Ledger = field(init=False, factory=Ledger, repr=False)

    def __attrs_post_init__(self) -> None:
        """Find the budget."""
        self.allowance = Allowance(self.plan.budget_for(self.model))

    @property
    def budget(self) -> Budget | None:
        """The budget in force: the configured one, tightened by what the provider's answers taught."""
        return self.allowance.in_force

    def __enter__(self) -> Self:
        """Let the model calls of wrapped clients within the block belong to this conversation.

        Each task and thread enters for itself; those that are started within the block are in it too.
        """
        enter(self)
        return self

    def __exit__(self, *_error: object) -> None:
        """End the block."""
        leave()

    async def prepare(
        self,
        messages: Sequence[Any],
        system: Any = None,  # noqa: ANN401 - any provider's system prompt
        tools: Any = None,  # noqa: ANN401 - any provider's tools
    ) -> View:
        """Prepare the next model call of this conversation.

        Pass the whole history each time, or the last view's messages with what came since: both are recognised,
        also when every object was rebuilt. Costs what the new messages cost, unless the context has to be cut.

        Args:
            messages: The transcript in the provider's own shape; neither it nor anything in it is changed.
            system: The system prompt, where the format keeps it apart.
            tools: The tool definitions in the provider's own shape.

        Raises:
            InvalidInput: If something cannot be read; names the message and the field.
            ContextOverflow: If what must stay is larger than the budget.
            StageError: If a stage broke a promise.
        """
        as_list(messages)
        async with self._flight:
            self._retried = False
            report, view = await self._step(messages, system, tools)
            number = self.steps - 1
        await self.plan.tell(report, self.on_compact, self.id, number)
        return view

    async def recover(self, error: BaseException) -> View | None:
        """After a failed model call: a strictly smaller view of the last step, or None.

        Where the error is a context overflow, the session learns the provider's real limit from it and cuts once
        more. It does so once a step: a second overflow in a row, any other error, and a context that cannot be made
        smaller give None, and the caller raises the original error.

        Args:
            error: What the client raised; no SDK is imported to read it.
        """
        overflow = classify_error(error)
        async with self._flight:
            if overflow is None or self._retried or self._last is None:
                return None
            self._retried, refused = True, self._sent_tokens
            self.allowance.refused(overflow, refused)
            try:
                report, view = await self._step(*self._last)
            except ContextOverflow:
                return None
            number = self.steps - 1
        await self.plan.tell(report, self.on_compact, self.id, number)
        return view if report.tokens_after < refused else None

    def record(self, usage: Any) -> None:  # noqa: ANN401 - a dict or any SDK's usage object
        """Take note of what the provider billed for the last view; the next steps are counted accordingly.

        Args:
            usage: The response's ``usage``, as a dict or the SDK's object, of any provider.

        Raises:
            InvalidInput: If no prompt token count is in it.
        """
        self.billed_tokens = prompt_tokens(usage)
        if is_one_prompt(usage):
            self.allowance.learn(self._sent_tokens, self.billed_tokens)

    def forecast(self) -> Forecast | None:
        """What cutting the last view down to the budget's target now would do to the bill.

        None when there is nothing to cut, no budget, or no model whose prices are known.
        """
        around, budget = self._around, self.budget
        profile = None if around is None else around.source.profile
        if around is None or budget is None or profile is None or not priced(profile):
            return None
        idle = None if self._sent_at is None else self.clock() - self._sent_at
        call = evolve(around.bare_call, limit=budget.target_tokens, warmth=warmth_after(profile, idle))
        return expected_forecast(around.context(self._record.view), call)

    def child(self, budget: Budget | int, id: str | None = None) -> Session:  # noqa: A002 - the contract's name
        """A session of a sub-agent: the same pipeline and model, an own conversation and an own budget.

        It starts with what this session has learned about the provider's count.

        Args:
            budget: The sub-agent's room; a number is a window in tokens.
            id: The child's name in events; without it, the parent's with a number.
        """
        self._children += 1
        name = id if id is not None else f"{self.id or 'session'}/{self._children}"
        session = Session(self.plan, self.model, self.format, name, self.on_compact)
        room = Budget(budget) if isinstance(budget, int) else budget
        session.allowance = Allowance(room, deepcopy(self.allowance.calibration))
        return session

    def dump(self) -> dict[str, Any]:
        """The session's state as plain JSON values, to be loaded by ``Session.load``.

        It holds the messages of the last view; of messages that were left out it holds digests only.
        """
        return {
            "version": VERSION,
            "model": self.model,
            "format": self.format if self._around is None else self._around.source.wire.name,
            "id": self.id,
            "steps": self.steps,
            "billed_tokens": self.billed_tokens,
            "sent_tokens": self._sent_tokens,
            "sent_length": self._sent_length,
            "sent_intact": self._sent_intact,
            "learned": self.allowance.learned,
            "anchor": self.allowance.calibration.anchor,
            "reports": self.allowance.calibration.reports,
            "ratios": list(self.allowance.calibration.samples),
            "fixed": digest(self._fixed_seen),
            "record": dump_record(self._record),
        }

    @classmethod
    def load(cls, plan: Plan, state: Any, on_compact: Listener | None = None) -> Session:  # noqa: ANN401 - checked
        """The session that was dumped, to go on with the same history.

        Args:
            plan: The pipeline; the same stages as before, else what was decided stays as it is.
            state: What ``dump`` gave, or its JSON text.
            on_compact: Told of the session's compactions from now on.

        Raises:
            InvalidInput: If the state is damaged or of another version; names the place.
        """
        known = check_version(state)
        session = cls(plan, known.get("model"), known.get("format"), known.get("id"), on_compact)
        calibration = session.allowance.calibration
        anchor = known.get("anchor")
        calibration.anchor = None if anchor is None else (int(anchor[0]), int(anchor[1]))
        calibration.reports = int(known.get("reports", 0))
        calibration.samples.extend(known.get("ratios", ()))
        session.allowance = Allowance(session.allowance.given, calibration, known.get("learned"))
        session.steps, session.billed_tokens = int(known.get("steps", 0)), known.get("billed_tokens")
        session._sent_tokens = int(known.get("sent_tokens", 0))
        if session.format is not None:
            session._record = load_record(known.get("record", {}), format_named(session.format))
            session._ledger = session._record.ledger()
            session._sent_length = int(known.get("sent_length", 0))
            session._sent_intact = int(known.get("sent_intact", session._sent_length))
            session._fixed_seen = Digest(known.get("fixed", ""))
        return session

    async def _step(self, messages: Sequence[Any], system: Any, tools: Any) -> tuple[Report, View]:  # noqa: ANN401
        started = perf_counter()
        around = self._surroundings(messages, system, tools)
        record = self._recognised(messages, around)
        again = record is self._record and 0 < len(messages) == len(record)
        step = stand_still(around, record, messages) if again else await take_in(around, record, messages)
        now = self.clock()
        step.idle = None if self._sent_at is None else now - self._sent_at
        step.bound_to = self._bound_to(around)
        arrived = before_pressing(step)
        try:
            await press(step)
        except ContextOverflow:
            self._keep_arrivals(arrived, (system, tools))
            raise
        report = await self._commit(step, (system, tools), started)
        self._last, self._sent_at = (messages, system, tools), now
        return report, _view(step, system, tools, report)

    def _bound_to(self, around: Surroundings) -> tuple[Message | None, tuple[Tool, ...]] | None:
        """System prompt and tools of the last request where they were others than now; else None."""
        last = self._around
        if last is None or (around.system is last.system and around.tools is last.tools):
            return None
        return last.system, last.tools

    def _surroundings(self, messages: Sequence[Any], system: Any, tools: Any) -> Surroundings:  # noqa: ANN401
        """Reader, system prompt and tools; those of the step before when nothing changed."""
        around = self._around
        if around is not None and self._fixed_seen == [system, tools]:
            return around if around.budget is self.budget else around.with_budget(self.budget)
        source = self._reader(messages, system, tools) if around is None else around.source
        said, known = source.fixed_part(system, tools)
        empty = Context((), said, known)
        call = self.plan.call(source, self.budget, None, 0, _nobody)
        fixed, fixed_bytes = source.meter.fixed(empty), source.meter.bytes(empty)
        return Surroundings(self.plan, source, self.budget, said, known, fixed, fixed_bytes, call)

    def _reader(self, messages: Sequence[Any], system: Any, tools: Any) -> Reader:  # noqa: ANN401
        return reader(
            messages, system=system, tools=tools, format=self.format, model=self.model, counter=self.plan.counter
        )

    def _recognised(self, messages: Sequence[Any], around: Surroundings) -> Record:
        """The record to go on from: ours, or a new one when the caller has changed or replaced its history."""
        record = self._record
        if not begins_with(messages, record.seen):
            record = self._changed(messages, around)
        _refresh(record, messages)
        return record

    def _changed(self, messages: Sequence[Any], around: Surroundings) -> Record:
        """The record of what still stands of the conversation."""
        record = self._record
        prices = around.prices(record.view)
        in_view, in_history = shared_length(messages, record.shown), shared_length(messages, record.seen)
        if in_view > in_history:
            return rebased(record, messages, prices[:in_view])
        return rewound(record, in_history, prices)

    def _keep_arrivals(self, step: Step, fixed: tuple[Any, Any]) -> None:
        """Remember what arrived although it could not be sent, so that the next step need not look at it again."""
        before = self._record.shown[: self._sent_length]
        commit(step)
        self._sent_intact = min(self._sent_intact, _shared(before, step.record.shown))
        self._fixed_seen = snapshot(list(fixed))
        self._record, self._around = step.record, step.around

    async def _commit(self, step: Step, fixed: tuple[Any, Any], started: float) -> Report:
        """Remember the step and report on it. Nothing waits once this session changes: no step is ever half done."""
        old, known = self._record, self._sent_length
        appended = step.record is old and step.start >= known
        before = None if appended else old.shown[:known]
        await commit_aside(step)
        record = step.record
        same_fixed = self._same_fixed(step.around, fixed)
        if not same_fixed:
            self._fixed_seen = snapshot(list(fixed))
        shared = min(self._sent_intact, known if before is None else _shared(before, record.shown))
        prefix = self._prefix(step, shared, known) if same_fixed else 0
        self._record, self._around = record, step.around
        if step.trail.reports or not appended:
            self._ledger = record.ledger()
        unbroken = self.steps == 0 or (same_fixed and shared == known)
        first_changed = None if unbroken else shared if same_fixed else 0
        report = _report(step, self._ledger, first_changed, prefix, self._sent_tokens, started)
        self._sent_length = self._sent_intact = len(record.out)
        self._sent_tokens, self.steps = report.tokens_after, self.steps + 1
        return report

    def _same_fixed(self, around: Surroundings, fixed: tuple[Any, Any]) -> bool:
        """Whether system prompt and tools are those of the step before."""
        last = self._around
        if last is None:
            return self.steps > 0 and self._fixed_seen == list(fixed)
        return around.system is last.system and around.tools is last.tools

    def _prefix(self, step: Step, shared: int, known: int) -> int:
        """Tokens at the start of the request that the last view had too."""
        if shared == known:
            return self._sent_tokens
        return step.around.fixed + sum(price.tokens for price in step.around.prices(step.record.view[:shared]))


def _nobody(_index: int) -> None:
    """No message stands at any index."""


def _shared(before: Sequence[Any], after: Sequence[Any]) -> int:
    """How many outgoing messages at the start are the same; cache markers are no part of a prefix."""
    pairs = zip(before, after, strict=False)
    differing = (place for place, (old, new) in enumerate(pairs) if old is not new and not _alike(old, new))
    return next(differing, min(len(before), len(after)))


def _alike(old: Any, new: Any) -> bool:  # noqa: ANN401 - native messages
    return bool(old == new) or bool(unmarked(old) == unmarked(new))


def _refresh(record: Record, messages: Sequence[Any]) -> None:
    """Hand back the caller's objects of today when it has rebuilt them with the same content.

    A few places tell whether it does so: an application that rebuilds one message rebuilds all of them.
    """
    if _current(record, 0, messages) and _current(record, -1, messages) and _current(record, -2, messages):
        return
    for place, origin in enumerate(record.origins):
        if origin is not None and record.as_given(place):
            record.out[place] = messages[origin]
    record.tail = [
        evolve(message, source=messages[origin])
        for message, origin in zip(record.tail, record.tail_origin, strict=True)
    ]


def _current(record: Record, place: int, messages: Sequence[Any]) -> bool:
    if not -len(record.view) <= place < len(record.view):
        return True
    origin = record.origins[place]
    return origin is None or record.out[place] is messages[origin] or not record.as_given(place)


def _view(step: Step, system: Any, tools: Any, report: Report) -> View:  # noqa: ANN401 - handed back as they came
    record, chosen = step.record, step.trail.context.tools
    if chosen is not step.around.tools:
        tools = [tool.source for tool in chosen]
    if step.trail.context.system is not step.around.system:
        system = native_system(step.trail.context.system, step.around.source.wire)
    options = options_of(step.trail, step.around.bare_call)
    return View(list(record.out), system, tools, report, step.around.context(record.view), options)


def _report(step: Step, ledger: Ledger, first_changed: int | None, prefix: int, sent: int, started: float) -> Report:
    record, around = step.record, step.around
    tail = sum(price.bytes for price in around.prices(record.view[record.settled :]))
    budget = around.budget
    return Report(
        stages=tuple(step.trail.reports),
        ledger=ledger,
        messages_before=len(record),
        messages_after=len(record.view),
        tokens_before=around.fixed + record.given_tokens,
        tokens_after=step.tokens,
        bytes_before=around.fixed_bytes + record.given_bytes,
        bytes_after=around.fixed_bytes + record.view_bytes + tail,
        limit=None if budget is None else budget.limit,
        first_changed=first_changed,
        prefix_tokens=prefix,
        rebilled_tokens=max(0, sent - prefix),
        seconds=since(started),
        bill=bill(
            around.source.profile,
            sent=sent,
            given=step.trail.reports[0].tokens_before if step.trail.reports else step.tokens,
            prefix=prefix,
            size=step.tokens,
            warmth=step.warmth,
        ),
    )
