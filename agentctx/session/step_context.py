"""What surrounds a step: what is known of the conversation, where the step stands, and which steps are around it.

Which steps and ``with session:`` blocks are around the running code is in one context variable, ``AROUND``: tasks
inherit it, and what runs in ``anyio.to_thread`` or ``asyncio.to_thread``. Threads and pools that are started by hand do
not.

``SessionLock`` lets one in at a time, also between event loops and threads. Nobody waits for ever: whoever would wait
for somebody that waits for him is told so at once.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from functools import cached_property, partial
from threading import Lock, get_ident
from typing import Any, NamedTuple

import anyio
import anyio.lowlevel
from attrs import Factory, define, evolve, field, frozen

from agentctx.budget import Budget
from agentctx.changes import ChangesInForce
from agentctx.engine.guarantee import PlacesMarkers, check_head, head_of, relieved_head
from agentctx.engine.originals import StoreShelf, name_of_recall
from agentctx.engine.plan import Plan
from agentctx.engine.reading import Reader, found_format, known_profile, reader as reader_of
from agentctx.engine.run_stages import Trail
from agentctx.engine.usage import LearnedLimits, LimitsByModel
from agentctx.errors import ConfigError, InvalidInput
from agentctx.formats.native import Marked, snapshot
from agentctx.marks import stands_for
from agentctx.message import ROLES, Context, Message, Native, Tool
from agentctx.models.profile import warmth_after
from agentctx.protocols import Call, ContextStrategy, Meter, Phase, inside
from agentctx.reports import StageReport
from agentctx.session.record import Digest, LastRequest, Record, Sizes, digest, shared_length
from agentctx.users_code import offload

AROUND: ContextVar[tuple[object, ...]] = ContextVar("agentctx_around", default=())
"""The sessions whose ``with`` block the running code is in, and each ``Work`` that it is part of, innermost last."""


@define(eq=False, repr=False)
class Work:
    """A step under way, or something else that others wait for.

    Args:
        plan: The pipeline whose step it is: model calls that are made for it are no part of a conversation. None for
            other work.
        session: The session whose step it is; None for a stateless one.
        thread: The thread whose event loop it needs, by ``threading.get_ident``.
        waits: The locks that code within it waits for.
        over: Whether it is done. Code that it started, and that goes on, holds nobody.
    """

    plan: Plan | None = None
    session: object = None
    thread: int = Factory(get_ident)
    waits: list[SessionLock] = Factory(list)
    over: bool = False


def works_around() -> list[Work]:
    """The works that the running code is part of: it is a stage's, a summarizer's, a store's or a listener's."""
    return [each for each in AROUND.get() if isinstance(each, Work)]


@contextmanager
def within(work: Work) -> Iterator[None]:
    """Let the code inside, and what it starts, be part of ``work``."""
    before = AROUND.get()
    AROUND.set((*before, work))
    try:
        yield
    finally:
        AROUND.set(before)


class Deadlock(ConfigError):
    """Waiting here would never end: whoever is in waits, by itself or by others, for the one who came."""


_guard = Lock()
"""Held for moments only, by whoever comes or goes: who waits for whom is one question over all of them."""

_blocking: list[Work] = []
"""The calls that block a thread until something is done elsewhere: no event loop of that thread goes on meanwhile."""


def _after_fork() -> None:
    global _guard  # noqa: PLW0603 - a fork may have copied it while another thread held it
    _guard = Lock()
    _blocking.clear()


os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def blocking_the_thread() -> Iterator[None]:
    """The running thread waits inside for what is done elsewhere."""
    work = Work()
    with _guard:
        _blocking.append(work)
    try:
        with within(work):
            yield
    finally:
        work.over = True
        with _guard:
            _blocking.remove(work)


@define(eq=False, repr=False)
class SessionLock:
    """Lets one work in at a time, in the order in which they came: ``async with lock.during(work):``.

    Unlike a lock of an event loop, it holds between tasks of different loops. It takes no time when nobody is in. It is
    not re-entrant: who comes again from inside would wait for itself, and is told so.

    Args:
        holder: The work that is in, if any.
    """

    holder: Work | None = field(init=False, default=None)
    _queue: dict[Work, Callable[[], object]] = field(init=False, factory=dict)  # who waits, and what lets each in

    @asynccontextmanager
    async def during(self, work: Work) -> AsyncIterator[None]:
        """Wait until nobody is in, and let the code inside be part of ``work``; then let the next one in.

        A task that is cancelled while it waits leaves the others their turn.

        Args:
            work: What nobody else shall be in with.

        Raises:
            Deadlock: If that would never be.
        """
        waiting: list[Work] = []
        with _guard:
            if self.holder is None:
                self.holder, event = work, None
            else:
                waiting = [each for each in works_around() if not each.over]
                if self._waits_for(waiting):
                    raise Deadlock(_NEVER)
                event, token = anyio.Event(), anyio.lowlevel.current_token()
                loop: Native = getattr(token, "native_token", token)
                schedule = getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon  # of asyncio, of trio
                self._queue[work] = partial(schedule, event.set)
                for each in waiting:
                    each.waits.append(self)
        try:
            if event is not None:
                try:
                    await event.wait()
                finally:
                    with _guard:
                        for each in waiting:
                            each.waits.remove(self)
            with within(work):
                yield
        finally:
            self._leave(work)

    def _leave(self, work: Work) -> None:
        """Let the next one in; where ``work`` has not been in yet, it waits no more."""
        work.over = True
        while True:
            with _guard:
                self._queue.pop(work, None)
                if self.holder is not work:
                    return
                self.holder = next(iter(self._queue), None)
                if self.holder is None:
                    return
                work = self.holder
                let_in = self._queue.pop(work)
            with suppress(RuntimeError):  # the event loop that it waited on has ended: the turn goes to the next
                let_in()
                return

    def _waits_for(self, around: Sequence[Work]) -> bool:
        """Whether somebody ahead waits, by itself or by others, for one of these works.

        Also a work waits for a call that blocks the thread of its event loop.
        """
        ahead, seen = [self.holder, *self._queue], set[Work]()
        while ahead:
            work = ahead.pop()
            if work in around:
                return True
            if work is not None and work not in seen:
                seen.add(work)
                ahead += [lock.holder for lock in work.waits]
                ahead += [each for each in _blocking if each.thread == work.thread]
        return False


_NEVER = (
    "session: a stage, summarizer, store or hook asked for a step of the session whose step it works for, or of one "
    "whose own step waits for that, or code that is not async holds the event loop of such a step: neither would ever "
    "end; prepare its own model call with pipeline.prepare() or another session"
)


@frozen(repr=False)
class Beginning:
    """The start of a conversation, in any format: digests of the words, which a state that is kept has room for.

    Args:
        system: Of the words of the system prompt; empty when there is none, or it is not known any more.
        task: Of the words of the first message in which the user speaks; empty when there is none.
    """

    system: bytes = b""
    task: bytes = b""

    @classmethod
    def of(cls, system: Sequence[str], task: Sequence[str] = ()) -> Beginning:
        """The start that has these words."""
        return cls(digest(system) if system else b"", digest(task) if task else b"")


class Given(NamedTuple):
    """What the caller passes at a step, in the provider's own shape.

    Args:
        messages: The transcript.
        system: The system prompt, where the format keeps it apart.
        tools: The tool definitions.
        loaded: Whether they are what a dump held of the last step: the caller has not passed its own since.
    """

    messages: Sequence[Native]
    system: Native
    tools: Native
    loaded: bool = False

    def head_seen(self) -> Native:
        """What system prompt and tools look like now."""
        return snapshot([self.system, self.tools])


@frozen(eq=False, repr=False)
class StepContext:
    """What a step knows beside the messages.

    Args:
        plan: The stages and their options.
        reader: Reads the conversation.
        model: The model that is called, if known.
        format: The wire format, if it was named.
        limits: What is known of the model's room.
        budget: The budget in force.
        system: The system prompt kept apart from the messages.
        tools: The tool definitions.
        head_tokens: Tokens of system prompt and tools, with what every request costs.
        head_bytes: Bytes of system prompt and tools.
        bare_call: What stages are told when nothing has to shrink and the caller protects nothing.
        given_head: System prompt and tools as they were passed in, with cache markers that the model does not take.
        conversation: By what name a store knows the conversation; None: it belongs to none.
    """

    plan: Plan
    reader: Reader
    model: str | None
    format: str | None
    limits: LearnedLimits
    budget: Budget | None
    system: Message | None
    tools: tuple[Tool, ...]
    head_tokens: int
    head_bytes: int
    bare_call: Call
    given_head: Context
    conversation: str | None = None

    @property
    def most(self) -> int | None:
        """The tokens above which a request is refused where the budget is only aimed at: ``Plan.refuses_above``."""
        above = None if self.limits.given != self.plan.governing else self.plan.refuses_above(self.model)
        return None if above is None else self.limits.local(above.limit)

    @property
    def limit(self) -> int | None:
        """The tokens that a request may have at most; None without a budget."""
        return None if self.budget is None else self.budget.limit

    @property
    def binds(self) -> bool:
        """Whether the model binds its reasoning to all that stands before it."""
        return self.reader.profile is not None and self.reader.profile.bound_thinking

    @cached_property
    def relieved(self) -> bool:
        """Whether system prompt and tools go on without cache markers that they were passed in with."""
        return self.given_head.system is not self.system or self.given_head.tools is not self.tools

    def due(self, phase: Phase) -> tuple[ContextStrategy, ...]:
        """Return the stages of a phase, without those that place cache markers where the format or model has none."""
        stages, markers = self.plan.due(phase), self.reader.wire.cache_markers
        if markers is not None and markers.new("5m", self.reader.profile) is not None:
            return stages
        return tuple(stage for stage in stages if not _only_marks(stage))

    def with_budget(self, budget: Budget | None) -> StepContext:
        """The same with another budget in force."""
        call = evolve(self.bare_call, budget=budget)
        return evolve(self, budget=budget, bare_call=call)

    def context(self, messages: Sequence[Message]) -> Context:
        """These messages with system prompt and tools."""
        return Context(tuple(messages), self.system, self.tools)

    def weigh(self, messages: Sequence[Message]) -> Sizes:
        """What each message weighs."""
        meter = self.reader.meter
        return Sizes(list(map(meter.message, messages)), list(map(meter.weight, messages)))


@define(eq=False, repr=False)
class State:
    """What a session carries from step to step: the record, and what surrounded and came of the last request.

    A step makes a new one, or fails and leaves this as it was. The record in it is the same object, brought up to date,
    unless ``commit`` made a copy.

    Args:
        plan: The pipeline: its stages and options.
        model: The name of the model that was called last, or will be called first; None when it is not known.
        format: The wire format, if named.
        limits_by_model: What is known of the room of each model.
        limits: That of the current model.
        record: The history, and the view that was made of it.
        ctx: What surrounded the last step; None before the first, and after a load.
        sent: What the last request had beside its messages; None before the first, and after a load.
        head_seen: What system prompt and tools looked like when they were passed in last; after a load, a digest of
            that.
        head_digest: After a load, a digest of the system prompt and tools that reasoning is bound to.
        wire_name: The wire format with its dialect; None before the first step.
        last_request: What was sent last.
        steps: How many steps were prepared.
        last: What the caller passed at the last step, as far as it is known; None before the first.
        in_force: The changes in force.
        counted_by: What has counted the record; None before the first step, and after a load.
        marked_for: The model whose cache markers the record's view carries; None when it is not known.
        memo: What stages have worked out of the view, to have it again; see ``Call.memo``.
    """

    plan: Plan
    model: str | None
    format: str | None
    limits_by_model: LimitsByModel
    limits: LearnedLimits
    record: Record = field(factory=Record)
    ctx: StepContext | None = None
    sent: Trail | None = None
    head_seen: Native = None
    head_digest: Digest | None = None
    wire_name: str | None = None
    last_request: LastRequest = field(factory=LastRequest)
    steps: int = 0
    last: Given | None = None
    in_force: ChangesInForce = field(factory=ChangesInForce)
    counted_by: Meter | None = None
    marked_for: str | None = None
    memo: dict[object, object] = field(factory=dict)

    @classmethod
    def empty(
        cls, plan: Plan, model: str | None, format_name: str | None, limits_by_model: LimitsByModel | None = None
    ) -> State:
        """Nothing is known yet, but perhaps of the models.

        Raises:
            UnknownModel: If a budget is needed and the model table does not know the model.
        """
        known_profile(model)
        limits_by_model = LimitsByModel(plan, model) if limits_by_model is None else limits_by_model
        limits = limits_by_model.of(model)
        limits_by_model.keep(model, limits)
        return cls(plan, model, format_name, limits_by_model, limits)

    @property
    def assumed(self) -> bool:
        """Whether the messages so far would read alike in another format than the one that they are read in."""
        if self.format is not None or self.wire_name is None:
            return False
        return self.ctx is None or not self.ctx.reader.certain

    def reasoning_made_with(self, ctx: StepContext) -> tuple[Message | None, tuple[Tool, ...]] | None:
        """System prompt and tools of the last request where they were others than now; else None."""
        last = self.ctx
        if last is None:
            same = self.head_digest is None or self.head_digest == head_of(ctx.context(()))
            return None if same else (Message("system", ()), ())  # what they were is not known any more
        if ctx.system is last.system and ctx.tools is last.tools:
            return None
        return last.system, last.tools


async def settle(state: State, given: Given, model: str | None, format_name: str | None) -> StepContext:
    """What surrounds a step; what surrounded the one before when nothing changed.

    Args:
        state: What is known of the conversation.
        given: What the caller passes.
        model: The model that is called from now on; None: the one before.
        format_name: The wire format from now on; None: the one before.

    Raises:
        InvalidInput: If something cannot be read, or system prompt and tools have cache markers that the provider does
            not take.
        UnknownModel: If the budget is the model's and the model table does not know it.
    """
    ctx, model = state.ctx, state.model if model is None else model
    shown_format = _format_shown_by(state, given.messages)
    if ctx is not None and shown_format is not None and shown_format == state.wire_name:
        ctx = evolve(ctx, reader=evolve(ctx.reader, certain=True))
    wire_name = shown_format or state.wire_name or ""
    same = model == state.model and format_name in (None, wire_name, wire_name.partition("/")[0])
    same = same and wire_name == (state.wire_name or wire_name)
    if ctx is not None and same and state.head_seen == [given.system, given.tools]:
        budget = state.limits.in_force
        return ctx if ctx.budget is budget else ctx.with_budget(budget)
    if format_name is None or (state.format or "").partition("/")[0] == format_name:
        format_name = state.format  # which may name a dialect of it
    if ctx is not None and same:
        reader = ctx.reader
    else:
        reader = await _reader(state, given, model, format_name or wire_name.partition("/")[0] or None)
        if state.assumed and shown_format is None and format_name is None:
            reader = evolve(reader, certain=False)
    limits = state.limits if model == state.model else state.limits_by_model.of(model)
    return _surround(state.plan, reader, limits, reader.head(given.system, given.tools), (model, format_name))


async def _reader(state: State, given: Given, model: str | None, format_name: str | None) -> Reader:
    messages, system, tools, _ = given
    read = partial(reader_of, messages, system=system, tools=tools, format=format_name, model=model)
    looked_at = len(messages) if format_name is None else 0
    return await offload(lambda: read(counter=state.plan.counting), looked_at)


def _surround(
    plan: Plan,
    reader: Reader,
    limits: LearnedLimits,
    given: tuple[Message | None, tuple[Tool, ...]],
    spoken: tuple[str | None, str | None],
) -> StepContext:
    given_head, meter, budget = Context((), *given), reader.meter, limits.in_force
    head = relieved_head(given_head, reader.wire, reader.profile)
    check_head(head, reader.wire)
    call = plan.call(reader, budget, None, 0, lambda _index: None)
    sizes = meter.fixed(head), meter.bytes(head)
    return StepContext(plan, reader, *spoken, limits, budget, head.system, head.tools, *sizes, call, given_head)


def _format_shown_by(state: State, natives: Sequence[Native]) -> str | None:
    """The format that new messages show, where those before them would read alike in another one; else None."""
    new = _beyond_known(state.record, natives) if state.assumed else ()
    if not new:
        return None
    try:
        found = found_format(new, model=state.model)
    except InvalidInput:
        return None  # what is wrong with them is said when they are read
    return found.wire.name if found.certain else None


def _beyond_known(record: Record, natives: Sequence[Native]) -> Sequence[Native]:
    """What stands behind the known history, or behind the last view; all where neither seems to stand there."""
    for known in (record.seen, record.shown):
        end = len(known)
        if 0 < end <= len(natives) and shared_length([natives[end - 1]], [known[-1]]):
            return natives[end:]
    return natives


@define(eq=False, repr=False)
class Read:
    """What a step has read: the messages that are new, behind those of the tail, which are read again.

    Args:
        messages: As values.
        origins: The index in the history of each.
        seen: What each of the new ones looks like.
        sizes: What each of the new ones weighs.
    """

    messages: list[Message]
    origins: list[int]
    seen: list[Native]
    sizes: Sizes

    @property
    def new(self) -> list[Message]:
        """The new ones."""
        return self.messages[len(self.messages) - len(self.seen) :]

    def forget(self) -> None:
        """Forget the messages, once they are in the record."""
        self.messages.clear()
        self.seen.clear()
        self.origins, self.sizes = [], Sizes()


@define(eq=False, repr=False)
class Step:
    """What a step has worked out; nothing of it is remembered before ``commit``, but for what stages put into ``memo``.

    Args:
        ctx: What the step knows beside the messages.
        record: What is known of the conversation.
        natives: Everything the caller passed.
        read: What is new, and read again.
        trail: The part of the view that the step works on, and what the stages did: from the place ``trail.start`` of
            the record's view on, its messages replace it.
        idle: Seconds since the last request to this model was prepared; None when there was none.
        remembered: Whether a later step goes on from this one; else all stages run at once.
        tail_from: The index in the history at which the tail begins; None when there is none.
        quiet_until: See ``Record``.
        waiting: See ``Record``.
        reasoning_made_with: System prompt and tools that the reasoning so far was made with; None when they are those
            of now.
        marked_for: The model whose cache markers the record's view carries; None when it is not known.
        shelf: What puts contents into the store; None where there is none, or nothing was done yet.
        memo: See ``State``.
        marked: The cache markers of what was read, by its place; None where that has to be looked for anew: what
            was read is repaired, or nothing was read.
    """

    ctx: StepContext
    record: Record
    natives: Sequence[Any]
    read: Read
    trail: Trail
    idle: float | None
    remembered: bool = True
    tail_from: int | None = None
    quiet_until: int = 0
    waiting: bool = False
    reasoning_made_with: tuple[Message | None, tuple[Tool, ...]] | None = None
    marked_for: str | None = None
    shelf: StoreShelf | None = None
    memo: dict[object, object] = field(factory=dict)
    marked: Marked | None = None

    @property
    def warmth(self) -> float:
        """The believed share of the last request that the provider's cache still holds."""
        return warmth_after(self.ctx.reader.profile, self.idle)

    @property
    def as_sent(self) -> Context:
        """The request once the step is committed: its view, with system prompt and tools as the stages left them."""
        return Context(tuple(self.record.view), self.trail.context.system, self.trail.context.tools)

    @property
    def last_role(self) -> str:
        """The role of the last message of the history; empty when there is none."""
        if self.read.messages:
            return self.read.messages[-1].role
        return ROLES[self.record.roles[-1]] if self.record.roles else ""

    def role_at(self, index: int) -> str:
        """The role of the message of the history at an index."""
        known = len(self.record.seen)
        return ROLES[self.record.roles[index]] if index < known else self.read.new[index - known].role

    def widen(self) -> None:
        """Let the stages see the whole view."""
        start, record = self.trail.start, self.record
        if start:
            self.trail.widen(record.view[:start], record.origins[:start], record.made)

    def left_out(self, reports: Sequence[StageReport]) -> tuple[int, int]:
        """How many messages of the history are gone, and how many tool calls in them; what repair took is not counted.

        Args:
            reports: What the stages have done in this step so far.
        """
        record, read = self.record, self.read
        known = record.tail_origin[0] if record.tail_origin and read.seen else len(record)
        messages, calls = record.left_out(known)
        for change in (change for report in reports for change in report.changes):
            if change.is_gone and change.by != "repair":
                index, new = change.index, change.index - len(record)
                more = record.stands_for(index) if new < 0 else stands_for(read.new[new])
                messages, calls = messages + more[0], calls + more[1]
        return messages, calls

    def call(self, aim: int | None = None) -> Call:
        """What the stages are told, with the tokens to come down to."""
        ctx, length = self.ctx, len(self.natives)
        call = ctx.plan.call(ctx.reader, ctx.budget, aim, length, self.message_at, self.warmth, self.before)
        if call.store is not None and self.shelf is None:
            self.shelf = StoreShelf(call.store, ctx.reader.wire, name_of_recall(ctx.tools), ctx.conversation)
        return inside(call, shelf=self.shelf, memo=self.memo, unsaid=self.record.unsaid.now)

    def before(self) -> tuple[Message, ...]:
        """What stands before the messages that the stages see."""
        return tuple(self.record.view[: self.trail.start])

    def late(self) -> frozenset[int]:
        """The identities of the messages that came after the model's last one, wherever they stand now."""
        read, new = self.read, len(self.read.messages) - len(self.read.seen)
        known = zip(read.origins[new:], read.messages[new:], strict=True)
        spoke = [index for index, message in known if message.role == "assistant"]
        return self.trail.after(max([self.record.roles.rfind(ROLES.index("assistant")), *spoke]))

    def message_at(self, index: int) -> Message | None:
        """The message that was read from the history at ``index``; None when it is gone."""
        record, trail = self.record, self.trail
        known = zip(
            (*record.view[: self.trail.start], *trail.context.messages),
            (*record.origins[: self.trail.start], *trail.origins),
            strict=True,
        )
        return next((message for message, origin in known if origin == index), None)


def _only_marks(stage: ContextStrategy) -> bool:
    """Whether all that a stage does is to place cache markers."""
    return isinstance(stage, PlacesMarkers) or (bool(stage.stages) and all(map(_only_marks, stage.stages)))
