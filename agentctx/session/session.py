"""A session: one conversation, and everything that was decided about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter, time
from typing import Any, Self

from attrs import define, evolve, field

from agentctx.binding import opening, options_of
from agentctx.core.budget import Budget
from agentctx.core.event import SilentTruncationSuspected
from agentctx.core.forecast import Forecast
from agentctx.core.ledger import Ledger
from agentctx.core.message import Context, Message, Tool
from agentctx.core.report import Report
from agentctx.economics.conditions import expected_forecast
from agentctx.economics.overflow import classify_error
from agentctx.economics.truncation import Suspicion
from agentctx.errors import ContextOverflow, InvalidInput
from agentctx.listeners import logger, tell, tell_plain
from agentctx.plan import Plan, native_system, since
from agentctx.protocols import Listener, Meter
from agentctx.reading import as_list, reader
from agentctx.session.allowance import Allowance
from agentctx.session.allowances import Allowances
from agentctx.session.billing import Judgement, judge, suspected
from agentctx.session.checked import Checked
from agentctx.session.cost import bill, priced, warmth_after
from agentctx.session.current import enter, leave
from agentctx.session.flight import Flight
from agentctx.session.foreign import understands
from agentctx.session.linking import link
from agentctx.session.plain import Digest, digest
from agentctx.session.pressure import press
from agentctx.session.record import Record, rebased, rewound
from agentctx.session.record_state import dump_record, load_record
from agentctx.session.snapshot import begins_with, shared_length, snapshot
from agentctx.session.state import (
    SENT,
    VERSION,
    dump_budget,
    load_budget,
    opened,
)
from agentctx.session.step import Standing, Step, Surroundings, commit, commit_aside, stand_still, take_in
from agentctx.session.usage import is_one_prompt, prompt_tokens
from agentctx.strategies.options import as_budget
from agentctx.view import View
from agentctx.wire.cache_markers import unmarked
from agentctx.wire.registry import format_named


@define(eq=False)
class Session:
    """One conversation. It decides once about each message and sticks to it.

    Safe to share between tasks and threads: one step at a time. A step that fails or is cancelled leaves it as it was.

    Args:
        plan: The pipeline.
        model: The name of the model that was called last, or will be called first; None when it is not known.
        format: The wire format, if named.
        id: The session's name in events.
        on_compact: Told of this session's compactions.
        clock: Tells the seconds since 1970, by which the provider's cache is believed to age, also over a restart.
        steps: How many steps were prepared.
        billed_tokens: The size of the last prompt by the provider's own count; None before the first ``record``.
        allowance: The budget, and what was learned about it.
    """

    plan: Plan
    model: str | None = None
    format: str | None = None
    id: str | None = None
    on_compact: Listener | None = field(default=None, repr=False)
    clock: Callable[[], float] = field(default=time, repr=False)
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
    _fresh: int | None = field(init=False, default=None, repr=False)
    _untold: tuple[SilentTruncationSuspected, list[Listener]] | None = field(init=False, default=None, repr=False)
    _children: int = field(init=False, default=0, repr=False)
    _ledger: Ledger = field(init=False, factory=Ledger, repr=False)
    _allowances: Allowances = field(init=False, repr=False)
    _wire_name: str | None = field(init=False, default=None, repr=False)
    _counted_by: Meter | None = field(init=False, default=None, repr=False)
    _opening: Digest | None = field(init=False, default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        """Find the budget."""
        self._live_by(Allowances(self.plan, self.model))

    def _live_by(self, allowances: Allowances) -> None:
        self._allowances, self.allowance = allowances, allowances.of(self.model)
        allowances.keep(self.model, self.allowance)

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
        *,
        model: str | None = None,
        format: str | None = None,  # noqa: A002 - the contract's name
    ) -> View:
        """Prepare the next model call of this conversation.

        Pass the whole history each time, or the last view's messages with what came since: both are recognised,
        also when every object was rebuilt. Costs what the new messages cost, unless the context has to be cut.

        Another model may be called in the middle: then its window, its counts and its rules hold, from this call on,
        and what was learned of each model is kept. Where it does not take the reasoning of the one before, or speaks
        another format, the history is looked at anew as a whole, without that reasoning.

        Args:
            messages: The transcript in the provider's own shape; neither it nor anything in it is changed.
            system: The system prompt, where the format keeps it apart.
            tools: The tool definitions in the provider's own shape.
            model: The model that is called from now on; without it, the one before.
            format: The wire format of ``messages`` from now on (see ``agentctx.convert``); without it, as before.

        Raises:
            InvalidInput: If something cannot be read; names the message and the field.
            ContextOverflow: If what must stay is larger than the budget.
            StageError: If a stage broke a promise.
            UnknownModel: If the budget is the model's and the model table does not know it.
        """
        as_list(messages)
        async with self._flight:
            report, view = await self._step(messages, system, tools, model, format)
            self._retried, number = False, self.steps - 1
        await self._tell(report, number)
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
            refused, before = self._sent_tokens, self.allowance.learned
            self.allowance.refused(overflow, refused)
            report = None
            try:
                report, view = await self._step(*self._last)
            except ContextOverflow:
                self._retried = True
                return None
            finally:
                if report is None:  # also when it was cancelled, or a stage failed: nothing has happened then
                    self.allowance.forget(before)
            self._retried, number = True, self.steps - 1
        await self._tell(report, number)
        return view if report.tokens_after < refused else None

    def record(self, usage: Any) -> None:  # noqa: ANN401 - a dict or any SDK's usage object
        """Take note of what the provider billed for the last view; the next steps are counted accordingly.

        Args:
            usage: The response's ``usage``, as a dict or the SDK's object, of any provider.

        Raises:
            InvalidInput: If no prompt token count is in it.
        """
        self.billed_tokens = prompt_tokens(usage)
        if not is_one_prompt(usage):
            return
        judgement = self._judge(usage)
        if judgement.whole:
            self.allowance.learn(self._sent_tokens, self.billed_tokens)
        if judgement.doubt is not None and self.allowance.suspects(judgement.doubt):
            self._suspect(judgement.doubt)

    @property
    def suspicion(self) -> Suspicion | None:
        """Why the provider is suspected of having cut a prompt silently, with the numbers; None when it is not."""
        return self.allowance.truncation

    def _judge(self, usage: Any) -> Judgement:  # noqa: ANN401 - a dict or any SDK's usage object
        """Whether ``usage`` bills the last view as it was sent; each view is judged once."""
        around, fresh, self._fresh = self._around, self._fresh, None
        if around is None or fresh is None:
            return Judgement()
        return judge(usage, self.allowance, around, self._record.view, sent=self._sent_tokens, fresh=fresh)

    def _suspect(self, doubt: Suspicion) -> None:
        """Say it: to those listeners that do not wait at once, to the others at the next step."""
        event = suspected(doubt, self._around, self._sent_length, self.id, self.steps - 1)
        logger.warning("%s", event)
        later = tell_plain((*self.plan.listeners, self.on_compact), event)
        self._untold = (event, later) if later else None

    async def _tell(self, report: Report, number: int) -> None:
        untold, self._untold = self._untold, None
        if untold is not None:
            await tell(untold[1], untold[0])
        await self.plan.tell(report, self.on_compact, self.id, number)

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

        It starts with what this session has learned about the provider's count and its real limit.

        Args:
            budget: The sub-agent's room; a number is a window in tokens.
            id: The child's name in events; without it, the parent's with a number.
        """
        self._children += 1
        name = id if id is not None else f"{self.id or 'session'}/{self._children}"
        session = Session(self.plan, self.model, self.format, name, self.on_compact, self.clock)
        session._live_by(self._allowances.for_child(as_budget(budget), self.model))
        return session

    def dump(self) -> dict[str, Any]:
        """The session's state as plain JSON values, to be loaded by ``Session.load``.

        It holds the messages of the last view; of the history it holds about 30 characters for each message. It is
        that of the last step that succeeded, also while another one is prepared.

        Raises:
            InvalidInput: If JSON cannot hold a message of the view; names it.
        """
        fixed = None if self._fixed_seen is None else digest(self._fixed_seen).hex()
        opened_with = self._opening if self._around is None else Digest(digest(opening(self._around.context(()))))
        return {
            "version": VERSION,
            "id": self.id,
            "model": self.model,
            "home": self._allowances.home,
            "format": self.format or (self._wire_name or "").partition("/")[0] or None,
            "steps": self.steps,
            "children": self._children,
            "billed_tokens": self.billed_tokens,
            "budget": dump_budget(self._allowances.own),
            "sent": {
                "tokens": self._sent_tokens,
                "length": self._sent_length,
                "intact": self._sent_intact,
                "at": self._sent_at,
            },
            "learned": self._allowances.dump(),
            "fixed": fixed,
            "opening": None if opened_with is None else opened_with.content.hex(),
            "record": dump_record(self._record),
        }

    @classmethod
    def load(cls, plan: Plan, state: Any, on_compact: Listener | None = None) -> Session:  # noqa: ANN401 - checked
        """The session that was dumped, to go on with the same history.

        Args:
            plan: The pipeline. With other stages than before, what was decided stays as it is, and they see what
                comes; another budget or counter holds from the next step on. A child keeps its own budget.
            state: What ``dump`` gave, or its JSON text.
            on_compact: Told of the session's compactions from now on.

        Raises:
            InvalidInput: If the state is damaged or of another version; names the place.
            UnknownModel: If the budget is the model's and the model table does not know it.
        """
        known = opened(state)
        model, format_name, name = (known.text_or_none(each) for each in ("model", "format", "id"))
        session = cls(plan, model, format_name, name, on_compact)
        own = load_budget(known.values["budget"], known.at("budget"))
        allowances = Allowances(plan, known.text_or_none("home"), own)
        allowances.load(known.listed("learned"))
        session._live_by(allowances)
        session.steps, session._children = known.whole("steps"), known.whole("children")
        session.billed_tokens = known.whole_or_none("billed_tokens")
        session._fixed_seen, session._opening = known.digest_or_none("fixed"), known.digest_or_none("opening")
        session._load_record(known)
        return session

    def _load_record(self, known: Checked) -> None:
        sent = Checked.of(known.values["sent"], known.at("sent"), SENT)
        if self.format is None:
            if known.values["record"] != dump_record(Record()):
                raise known.fail("format", "it is missing, though there are messages")
            return
        try:
            wire = format_named(self.format, self.model)
        except InvalidInput as error:
            raise known.fail("format", error.what) from error
        self._wire_name, self._record = wire.name, load_record(known.values["record"], wire)
        self._ledger = self._record.ledger()
        self._sent_tokens = sent.whole("tokens")
        self._sent_length = sent.whole("length", most=len(self._record.out))
        self._sent_intact = sent.whole("intact", most=self._sent_length)
        self._sent_at = sent.real_or_none("at")

    async def _step(
        self,
        messages: Sequence[Any],
        system: Any,  # noqa: ANN401 - any provider's system prompt
        tools: Any,  # noqa: ANN401 - any provider's tools
        model: str | None = None,
        format_name: str | None = None,
    ) -> tuple[Report, View]:
        started = perf_counter()
        around = self._surroundings(messages, system, tools, model, format_name)
        record = await self._going_on(messages, around)
        again = record is self._record and 0 < len(messages) == len(record)
        now = self.clock()
        idle = None if self._sent_at is None or around.model != self.model else max(0.0, now - self._sent_at)
        step = stand_still(around, record, messages, idle) if again else await take_in(around, record, messages, idle)
        step.bound_to = self._bound_to(around)
        arrived = step.standing()
        try:
            await press(step)
        except ContextOverflow:
            self._keep_arrivals(step, arrived, (system, tools))
            raise
        report = await self._commit(step, (system, tools), started)
        self._last, self._sent_at = (messages, system, tools), now
        return report, _view(step, system, tools, report)

    def _bound_to(self, around: Surroundings) -> tuple[Message | None, tuple[Tool, ...]] | None:
        """System prompt and tools of the last request where they were others than now; else None."""
        last = self._around
        if last is None:
            same = self._opening is None or self._opening == opening(around.context(()))
            return None if same else (Message("system", ()), ())  # what they were is not known any more
        if around.system is last.system and around.tools is last.tools:
            return None
        return last.system, last.tools

    def _surroundings(
        self,
        messages: Sequence[Any],
        system: Any,  # noqa: ANN401 - any provider's system prompt
        tools: Any,  # noqa: ANN401 - any provider's tools
        model: str | None,
        format_name: str | None,
    ) -> Surroundings:
        """Model, reader, system prompt and tools; those of the step before when nothing changed."""
        around, model = self._around, self.model if model is None else model
        spoken = self._wire_name or ""
        same = model == self.model and format_name in (None, spoken, spoken.partition("/")[0])
        if around is not None and same and self._fixed_seen == [system, tools]:
            return around if around.budget is self.budget else around.with_budget(self.budget)
        if format_name is None or (self.format or "").partition("/")[0] == format_name:
            format_name = self.format  # which may name a dialect of it
        named = format_name or spoken.partition("/")[0] or None
        if around is not None and same:
            source = around.source
        else:
            source = reader(messages, system=system, tools=tools, format=named, model=model, counter=self.plan.counting)
        allowance = self.allowance if model == self.model else self._allowances.of(model)
        said, known = source.fixed_part(system, tools)
        empty = Context((), said, known)
        call = self.plan.call(source, allowance.in_force, None, 0, _nobody)
        return Surroundings(
            self.plan,
            source,
            model,
            format_name,
            allowance,
            allowance.in_force,
            said,
            known,
            source.meter.fixed(empty),
            source.meter.bytes(empty),
            call,
        )

    async def _going_on(self, messages: Sequence[Any], around: Surroundings) -> Record:
        """The record to go on from: ours, or a new one when the caller has changed or replaced its history."""
        record, meter, spoken = self._record, around.source.meter, around.source.wire.name
        if len(record) and self._wire_name != spoken:
            base = (self._wire_name or "").partition("/")[0]
            return Record(foreign=len(messages) if base == spoken.partition("/")[0] else 0)
        if len(record) and not understands(around.model, self.model):
            return Record(foreign=len(messages))
        if self._counted_by is not meter:
            await meter.settle(record.view)
            prices = around.prices(record.view[: record.settled])
            record.view_tokens = sum(price.tokens for price in prices)
            record.view_bytes = sum(price.bytes for price in prices)
            self._counted_by = meter
        link(record, messages)
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

    def _keep_arrivals(self, step: Step, arrived: Standing, fixed: tuple[Any, Any]) -> None:
        """Remember what arrived although it could not be sent, so that the next step need not look at it again."""
        before = self._record.shown[: self._sent_length]
        step.restore(arrived)
        step.quiet_until, step.waiting = 0, False
        commit(step)
        self._sent_intact = min(self._sent_intact, _shared(before, step.record.shown))
        self._fixed_seen = snapshot(list(fixed))
        self._adopt(step)

    def _adopt(self, step: Step) -> None:
        """Go on from this step."""
        around = step.around
        if around is not self._around:
            self._around, self._wire_name = around, around.source.wire.name
            self.model, self.format, self.allowance = around.model, around.format, around.allowance
            self._allowances.keep(self.model, self.allowance)
        self._record = step.record

    async def _commit(self, step: Step, fixed: tuple[Any, Any], started: float) -> Report:
        """Remember the step and report on it. Nothing waits once this session changes: no step is ever half done."""
        old, known = self._record, self._sent_length
        appended = step.record is old and step.start >= known
        before = None if appended else old.shown[:known]
        await commit_aside(step)
        record = step.record
        same_fixed = self._same_fixed(step.around, fixed)
        if not same_fixed or isinstance(self._fixed_seen, Digest):
            self._fixed_seen = snapshot(list(fixed))
        shared = min(self._sent_intact, known if before is None else _shared(before, record.shown))
        prefix = self._prefix(step, shared, known) if same_fixed else 0
        self._adopt(step)
        if step.trail.reports or not appended:
            self._ledger = record.ledger()
        unbroken = self.steps == 0 or (same_fixed and shared == known)
        first_changed = None if unbroken else shared if same_fixed else 0
        report = _report(step, self._ledger, first_changed, prefix, self._sent_tokens, started)
        self._sent_length = self._sent_intact = len(record.out)
        self._sent_tokens, self.steps = report.tokens_after, self.steps + 1
        self._fresh = report.tokens_after - report.prefix_tokens
        return report

    def _same_fixed(self, around: Surroundings, fixed: tuple[Any, Any]) -> bool:
        """Whether system prompt and tools are those of the step before."""
        last = self._around
        if around.model != self.model:  # another model has another cache
            return False
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
