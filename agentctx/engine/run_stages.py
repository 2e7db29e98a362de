"""Run stages: call each, check what it returned, compare it with what it was given, and write its report.

``run`` calls a stage by itself, ``run_stage`` one of a step, with its ``Trail``; ``StageDiff`` tells, change by change,
what a stage did, from what it was given and what it returned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property, partial
from inspect import isawaitable
from itertools import accumulate, chain
from time import perf_counter
from types import TracebackType
from typing import NamedTuple, TypeVar

from attrs import define, evolve, field, fields, frozen

from agentctx.budget import Budget
from agentctx.changes import By, Change, HeadChange, Matched, Outcome, compare_tools, match, shared
from agentctx.engine.originals import ELSEWHERE, Originals, StoreShelf, kept
from agentctx.engine.repair import sendable
from agentctx.errors import BrokenPair, EditedReasoning, InvalidInput, LostProtected, StageError
from agentctx.marks import Unsaid, recaps
from agentctx.message import Context, Message, Native, Tool, ToolResult, flaw, is_marker_tool, without_marker
from agentctx.protocols import Call, ContextStrategy, Phase, RunInner, When, inside, is_ours
from agentctx.reports import StageReport
from agentctx.unit import MERGED, always, broken_pair, signed_thinking, words
from agentctx.users_code import FAILURES, in_threads_of_their_own, offload
from agentctx.wire_format import CacheMarkers, WireFormat, head_markers

T = TypeVar("T")


class Noting:
    """Adds a note to an error that passes through it."""

    __slots__ = ("alone", "kind", "note")

    def __init__(
        self, note: str, kind: type[Exception] | tuple[type[BaseException], ...] = Exception, *, alone: bool = False
    ) -> None:
        """Remember the note, of which errors it is said, and whether of those only of which nothing was said yet."""
        self.note, self.kind, self.alone = note, kind, alone

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Add the note."""
        if isinstance(error, self.kind) and not (self.alone and getattr(error, "__notes__", None)):
            error.add_note(self.note)


def naming(stage: str) -> Noting:
    """Says in an error that passes through it which stage was running."""
    return Noting(f"while stage {stage} was running; nothing was sent and nothing was changed", FAILURES, alone=True)


async def answered(name: str, answer: Awaitable[T]) -> T:
    """What comes of an answer that has to be awaited.

    Args:
        name: Who gave it, for the error.
        answer: The answer.

    Raises:
        StageError: If it cannot be awaited, because a plain function stands where an async one is needed.
    """
    if not isawaitable(answer):
        raise StageError(name, f"is not async: calling it gave {type(answer).__name__}, which cannot be awaited")
    return await answer


class Made(NamedTuple):
    """What a stage made of a context.

    Args:
        context: What it made; the same object when it changed nothing.
        shared: How many messages at the start are the very objects that it was given.
    """

    context: Context
    shared: int


async def run(stage: ContextStrategy, context: Context, call: Call, name: str | None = None) -> Made:
    """What a stage makes of a context.

    Args:
        stage: The stage.
        context: What it is given.
        call: What it is told.
        name: What it is called in errors, if not by its name.

    Raises:
        StageError: If it gave something else than a context of messages.
    """
    try:
        with nullcontext() if is_ours(stage) else in_threads_of_their_own():  # a user's stage may wait, or hang
            after: object = await stage(context, call)
    except FAILURES:
        with naming(name or stage.name):
            raise
    if after is context:
        return Made(context, len(context.messages))
    return await _checked(name or stage.name, context, after, None if is_ours(stage) else call)


@frozen(eq=False, repr=False)
class _Mending(ContextStrategy):
    """What a stage does when another one has changed something: see ``ContextStrategy.after_cut``."""

    stage: ContextStrategy
    before: Context

    @property
    def name(self) -> str:
        return self.stage.name

    @property
    def when(self) -> When:
        return self.stage.when

    def apply(self, context: Context, call: Call, /) -> Context:
        return self.stage.after_cut(self.before, context, call)


@frozen(eq=False, repr=False)
class Adjustment(ContextStrategy):
    """What the engine itself does to a request.

    Args:
        name: The name in reports and errors.
        work: Returns the adjusted context.
    """

    name: str
    work: Callable[[Context, Call], Context]

    async def __call__(self, context: Context, call: Call, /) -> Context:
        """Return the adjusted context, here: the work takes about a microsecond a message, and reads no text."""
        return self.work(context, call)


async def run_alone(stage: ContextStrategy, context: Context, call: Call, name: str | None = None) -> Context:
    """What a stage makes of a context, all messages counted; for what runs a stage beside those of a pipeline."""
    after = (await run(stage, context, call, name)).context
    for mender in call.internals.mending * len(call.internals.mending) if after is not context else ():
        after = (await run(_Mending(mender, context), after, call)).context
    await call.meter.settle(after.messages)
    return after


def mends(stage: ContextStrategy) -> bool:
    """Whether a stage has texts that refer to other messages, which it mends after a cut."""
    return type(stage).after_cut is not ContextStrategy.after_cut


def writes_recap(stage: ContextStrategy) -> bool:
    """Whether a stage, or one that it holds, writes the recap: it reserves room for that."""
    return type(stage).reserves is not ContextStrategy.reserves or any(map(writes_recap, stage.stages))


class Holder(ContextStrategy):
    """A stage that holds others, and runs them in its place.

    Called by itself it runs them alone: then they are no stages of the pipeline.
    """

    __slots__ = ()

    def runs_in(self, phase: Phase, governing: Budget | None, /) -> bool:
        """Return whether it has a stage that runs in a phase of a step.

        Args:
            phase: The part of the step.
            governing: The budget, as it was configured, that holds around it.
        """
        return any(runs_in(stage, phase, governing) for stage in self.stages)

    async def run_inner(self, run: RunInner, context: Context, call: Call, /) -> Context:
        """Run by ``run`` those of its stages that are due, each on the context that the one before returned.

        Return the context of the last one, or ``context`` itself: then it is as if none had run.
        """
        for stage in due(self.stages, call):
            context = await run(stage, context, call)
        return context

    async def __call__(self, context: Context, call: Call, /) -> Context:
        """Run all its stages."""
        mending = (*call.internals.mending, *filter(mends, all_stages(self.stages)))
        return await self.run_inner(run_alone, context, inside(call, phase=Phase.ONCE, governing=None, mending=mending))


def all_stages(stages: Iterable[ContextStrategy]) -> Iterator[ContextStrategy]:
    """Give stages, and the stages within them."""
    for stage in stages:
        yield stage
        yield from all_stages(stage.stages)


def runs_in(stage: ContextStrategy, phase: Phase, governing: Budget | None) -> bool:
    """Whether a stage, or one that it holds, runs in a phase of a step; see ``Holder.runs_in``."""
    return stage.runs_in(phase, governing) if isinstance(stage, Holder) else stage.when in phase.value


def due(stages: Iterable[ContextStrategy], call: Call) -> list[ContextStrategy]:
    """Those of the stages that run in the phase of the step that the call is part of."""
    return [stage for stage in stages if runs_in(stage, call.internals.phase, call.internals.governing)]


def _defined(name: str, before: Sequence[Tool], tools: object, wire: WireFormat | None) -> tuple[Tool, ...]:
    """The tools that a stage returned, each with a definition that says it; one of the stage's own is written."""
    if not isinstance(tools, tuple):
        raise StageError(name, f"tools: must be a tuple of tools, got {type(tools).__name__}")
    for place, tool in enumerate(tools):
        if not isinstance(tool, Tool):
            raise StageError(name, f"tools[{place}]: must be a Tool, got {type(tool).__name__}")
        if not isinstance(tool.name, str) or not isinstance(tool.description, str):
            raise StageError(name, f"tools[{place}]: must have a text as name and description, got {tool!r:.80}")
        if not isinstance(tool.parameters, Mapping | None):
            raise StageError(name, f"tools[{place}].parameters: must be a JSON schema, got {tool.parameters!r:.80}")
    names = [tool.name for tool in tools if tool.name]
    twice = next((each for each, times in Counter(names).items() if times > 1), None)
    if twice is not None and sum(tool.name == twice for tool in before) < names.count(twice):
        raise StageError(name, f"tools: must be one of each name, got {twice!r} {names.count(twice)} times")
    return tools if wire is None else tuple(_with_definition(name, tool, wire) for tool in tools)


def _with_definition(name: str, tool: Tool, wire: WireFormat) -> Tool:
    """A tool with a definition that says it."""
    try:
        said = () if tool.source is None else wire.read_tools([tool.source])
    except InvalidInput as error:
        raise StageError(name, f"the definition of the tool {tool.name!r}: {error}") from error
    return tool if tool in said else evolve(tool, source=wire.write_tool(tool))


async def _checked(name: str, before: Context, after: object, call: Call | None) -> Made:
    if not isinstance(after, Context):
        raise StageError(name, f"returned {type(after).__name__} instead of a Context")
    if after.tools is not before.tools:
        after = evolve(after, tools=_defined(name, before.tools, after.tools, None if call is None else call.wire))
    given: object = after.messages
    if not isinstance(given, tuple):
        if not isinstance(given, Iterable):
            raise StageError(name, f"messages: must be a tuple of messages, got {type(given).__name__}")
        after = evolve(after, messages=tuple(given))
    start = shared(before.messages, after.messages)
    known = set(map(id, before.messages[start:]))  # ten thousand take less than a millisecond
    made = [place for place, each in enumerate(after.messages[start:], start) if id(each) not in known]
    messages = after.messages

    def check() -> None:
        for place in made:
            wrong = flaw(messages[place])
            if wrong is not None:
                raise StageError(name, f"messages[{place}]{wrong[0]} of what it returned is {wrong[1]}")
        if after.tools is not before.tools and call is not None and call.wire is not None:
            left_out = {tool.name for tool in before.tools}.difference(tool.name for tool in after.tools)
            if left_out and call.wire.capabilities(None, call.profile).called_tools:
                asked = (each.name for message in messages for each in message.calls)
                if (called := next((each for each in asked if each in left_out), None)) is not None:
                    raise StageError(name, f"tools: must have {called!r}, since a call names it, for {call.format}")

    await offload(check, len(made))
    return Made(after, start)


@define(eq=False, repr=False)
class Trail:
    """Where the messages of a step came from, and what the stages did so far.

    Args:
        context: The context as it is now.
        origins: For each message of ``context``, its index in what the caller passed in; None when a stage made it.
        tokens: Size of the whole request, in tokens: with the head, and with what stands before ``context``.
        reports: What each stage did.
        unbound_from: The first message whose reasoning has lost its prefix because the caller changed the history;
            None when there is none.
        lost_open: Whether reasoning of the open tool round was dropped.
        start: How many messages of the request stand before ``context``, out of the stages' sight.
        intact: How many messages at the start are the very objects that stood there at the step before; 0 when
            nothing is known of that.
        made: The messages that stages made, by identity, each with what is said of it.
        originals: What stages changed, as it was before, by the place of the report; see ``keep_originals``.
        asked: The options that ask the provider for something; of several stages the first holds.
        told: The stages that ran which write the recap.
        unsaid: What the recap may have no room for; None: as it was before.
    """

    context: Context
    origins: list[int | None]
    tokens: int
    reports: list[StageReport] = field(factory=list)
    unbound_from: int | None = None
    lost_open: bool = False
    start: int = 0
    intact: int = 0
    made: dict[int, tuple[Message, Change]] = field(factory=dict)
    originals: dict[int, Originals] = field(factory=dict)
    asked: Mapping[str, Native] | None = None
    told: list[ContextStrategy] = field(factory=list)
    unsaid: Unsaid | None = None

    def copy(self) -> Trail:
        """The same place, in containers of its own."""
        return evolve(
            self,
            origins=list(self.origins),
            reports=list(self.reports),
            made=dict(self.made),
            originals=dict(self.originals),
            told=list(self.told),
        )

    def after(self, last: int) -> frozenset[int]:
        """The identities of the messages that were passed in after the one at index ``last``, wherever they stand."""
        known = zip(self.context.messages, self.origins, strict=True)
        return frozenset([message.identity for message, origin in known if origin is not None and origin > last])

    def widen(
        self, known: Sequence[Message], origins: Sequence[int | None], made: dict[int, tuple[Message, Change]]
    ) -> None:
        """Let the stages see the whole request.

        Args:
            known: Its messages up to those that they have seen so far.
            origins: As of the trail, of the messages in ``known``.
            made: As of the trail, of the messages in ``known``.
        """
        self.context = self.context.with_messages((*known, *self.context.messages))
        self.origins = [*origins, *self.origins]
        self.made = made | self.made
        self.intact, self.start = self.start, 0

    def narrow(self) -> None:
        """After ``widen``: let the trail be no more than what stands there in another way than before."""
        start, self.intact = self.intact, 0
        if start:
            self.context = self.context.with_messages(self.context.messages[start:])
            self.origins = self.origins[start:]
            self.start += start

    def go_on(self, diff: StageDiff, account: Account, report: StageReport, shared: int) -> None:
        """Go on with what a stage returned, of which so many messages at the start are those that it was given."""
        self.context, self.origins, self.tokens = diff.after, account.origins, report.tokens_after
        self.made = {**diff.made, **account.added}
        self.intact = min(self.intact, shared)

    def keep(self, report: StageReport, account: Account, call: Call) -> None:
        """Keep the report of a stage, and where there is a store what it changed, as it was before."""
        if call.store is not None and call.wire is not None:
            self.originals[len(self.reports)] = Originals(account.messages, call.store, call.wire)
        self.reports.append(report)

    def restore(self, copy: Trail) -> None:
        """Go back to a copy that was made before, at most once: what it holds is in use from then on."""
        for each in fields(Trail):
            setattr(self, each.name, getattr(copy, each.name))


_BY: Mapping[When, By] = {When.ON_ARRIVAL: "arrival", When.ALWAYS: "step"}
"""Who causes the changes of a stage that runs then; of all others the pressure."""


async def run_stage(
    stage: ContextStrategy, trail: Trail, call: Call, *, by: By | None = None, trusted: bool = False
) -> StageReport | None:
    """Run one stage and put what it did into the trail; of one that holds stages, what each of those did.

    Args:
        stage: The stage.
        trail: Where the step stands; brought up to date.
        call: What the stage is told.
        by: Who causes its changes; None: as its scope says.
        trusted: Do not check the stage: for the engine's own, which may change what is protected where the provider
            would refuse it; of what the caller protects the report says so.

    Returns:
        Its report, or None when it gave back what it was given and had nothing to say, or when it holds stages.

    Raises:
        StageError: If it broke a pair or lost something protected.
    """
    if isinstance(stage, Holder):
        await _run_inner(stage, trail, call)
        return None
    if writes_recap(stage):
        trail.told.append(stage)
    before = trail.context
    report = await _run_one(stage, trail, call, by, trusted=trusted)
    if trail.context is not before and (report is None or not report.marks_only):
        await mend(trail, before, call)
    return report


async def mend(trail: Trail, before: Context, call: Call) -> None:
    """Let no stage's words refer to what is not there any more, as it was ``before``; see ``after_cut``.

    What one of several puts back moves what others refer to, also since they have mended that: they are asked again.
    """
    left: list[Context | None] = [None] * len(call.internals.mending)
    for _ in range(_ROUNDS * len(call.internals.mending)):
        known = trail.context
        for place, mender in enumerate(call.internals.mending):
            for was in (before, left[place]) if trail.context is not left[place] else ():
                if was is not None:
                    await _run_one(_Mending(mender, was), trail, call, None, trusted=True)
            left[place] = trail.context
        if trail.context is known:
            return


_ROUNDS = 4
"""For each stage whose words refer to others; each puts less back than the one before."""


async def _run_one(
    stage: ContextStrategy, trail: Trail, call: Call, by: By | None, *, trusted: bool
) -> StageReport | None:
    before, started = trail.context, perf_counter()
    by = _BY.get(stage.when, "pressure") if by is None else by
    try:
        after, shared = await run(stage, before, call)
        trail.asked = trail.asked or call.internals.notes.asked
        trail.unsaid = call.internals.notes.unsaid or trail.unsaid
        if call.internals.shelf is not None:
            after = await call.internals.shelf.settled(before, after)
        if after is before and not call.internals.notes.remarks:
            return None
        await call.meter.settle(after.messages[shared:])
        anywhere = call.wire is not None and call.wire.rounds.results_anywhere  # then all pairs are looked at
        compare = partial(_compared, stage, before, Made(after, shared), call, trail, by, trusted=trusted)
        diff, account, shared = await offload(compare, len(before.messages) - (0 if anywhere else shared))
        report = _report(diff, account, trail.tokens, started)
    finally:
        call.internals.notes.clear()
    trail.go_on(diff, account, report, shared)
    if report.acted:
        trail.keep(report, account, call)
    return report


def _report(diff: StageDiff, account: Account, tokens: int, started: float) -> StageReport:
    """What is said of a stage that was given so many tokens."""
    before, after, call = diff.before, diff.after, diff.call
    size = tokens + account.grown
    if after.tools is not before.tools:
        size += call.meter.fixed(after) - call.meter.fixed(before)
    head, notes = tuple(head_changes(diff.name, before, after, call)), (*call.internals.notes.remarks, *account.notes)
    return StageReport(diff.name, account.changes, tokens, size, perf_counter() - started, notes, head)


async def keep_originals(trail: Trail, shelf: StoreShelf) -> None:
    """Put what the stages changed into the store, as it was before; the reports name the handles then.

    A store that fails costs the handles, and the report says so.
    """
    for place, originals in trail.originals.items():
        report = trail.reports[place]
        trail.reports[place] = evolve(report, changes=tuple(await kept(report.changes, originals, shelf)))
    places = tuple(trail.originals)
    trail.originals.clear()
    lacking = any(
        change.handle is None and change.outcome not in ELSEWHERE
        for place in places
        for change in trail.reports[place].changes
    )
    if lacking or shelf.failures:
        problems = shelf.failures or ("a message cannot be written as JSON",)
        notes = tuple(f"not all that was left out could be kept: {what}" for what in problems)
        trail.reports.append(StageReport("Store", (), trail.tokens, trail.tokens, 0.0, notes))


async def _run_inner(holding: Holder, trail: Trail, call: Call) -> None:
    """Run the stages that a stage holds, each as a stage of its own; take it all back when that says so."""
    name, before, known = holding.name, trail.context, trail.copy()
    if not trail.start:  # then what the whole weighs need not be summed up again to be told by a condition
        call = inside(call, known=(before, trail.tokens))

    async def run_one(stage: ContextStrategy, context: Context, inner: Call) -> Context:
        if context is not trail.context:
            raise StageError(name, "gave one of its stages another context than the one before had returned")
        await run_stage(stage, trail, inner)
        return trail.context

    with naming(name):
        after = await holding.run_inner(run_one, before, call)
    if after is before and trail.context is not before:
        trail.restore(known)
    elif after is not trail.context:
        raise StageError(name, "returned another context than the last of its stages")


def _compared(
    stage: ContextStrategy, before: Context, made: Made, call: Call, trail: Trail, by: By, *, trusted: bool
) -> tuple[StageDiff, Account, int]:
    """What a stage returned, laid beside what it was given, and held to its promises: what it did.

    Args:
        stage: The stage.
        before: What it was given.
        made: What it returned.
        call: What it was told.
        trail: Where the step stands; it stays as it is.
        by: Who causes the changes.
        trusted: See ``run_stage``. What a user's stage returned is mended, so that the provider takes it.

    Returns:
        The two beside each other, what the stage did, and how many messages at the start are the same objects.

    Raises:
        BrokenPair: If it parted a call and its result.
        EditedReasoning: If it edited signed reasoning.
        LostProtected: If it changed the system prompt, or lost what is protected; names the caller's index.
    """
    after, start = made
    found, name = match(before.messages, after.messages, start), stage.name
    if not trusted:
        _check(stage, before, after, found, call, trail.origins, by)
        if found.first_changed is not None and not is_ours(stage):
            legal = sendable(name, before, after, found, call)
            if legal is not after:
                after, start = legal, shared(before.messages, legal.messages)
                found = match(before.messages, after.messages, start)
    after = _with_own(before, after, found, call)
    known = trail.made | _carried(before, after, start, found, trail.made) if trail.made else trail.made
    pinned = call.frozen(before) if trusted else frozenset()
    diff = StageDiff(name, before, after, found, call, trail.origins, trail.start, known, pinned, by)
    return diff, diff.account(), start


def _check(
    stage: ContextStrategy,
    before: Context,
    after: Context,
    found: Matched,
    call: Call,
    origins: Sequence[int | None],
    by: By,
) -> None:
    name = stage.name
    if after.system is not before.system and after.system != before.system:
        raise LostProtected(name, "changed the system prompt, which survives byte for byte")
    if found.first_changed is None:
        return
    only_results = not (found.dropped or found.added or found.moved) and all(
        _answer_the_same(before.messages[origin], after.messages[position]) for origin, position in found.edited
    )
    if only_results and not call.internals.protect:
        return  # as many stages do to thousands: no pair is another, and nothing that is protected was touched
    _check_pairs(name, after, found.start, call)
    replaceable = by == "fit" or writes_recap(stage)
    _check_protected(name, before, after, found, call, origins, replaceable=replaceable)


def _answer_the_same(old: Message, new: Message) -> bool:
    """Whether two messages differ only in what tools say in them: calls, and what is answered, are the same."""
    return (
        old.role == new.role
        and len(old.parts) == len(new.parts)
        and all(
            one is other
            or (type(one) is type(other) is ToolResult and (one.call_id, one.interim) == (other.call_id, other.interim))
            for one, other in zip(old.parts, new.parts, strict=True)
        )
    )


def _check_pairs(name: str, after: Context, start: int, call: Call) -> None:
    """All pairs are whole; up to ``start`` the messages say what they said before, when all were."""
    problem = broken_pair(after.messages, MERGED if call.wire is None else call.wire.rounds, known=start)
    if problem is not None:
        raise BrokenPair(name, f"broke a pair: {problem}")


def _check_protected(
    name: str,
    before: Context,
    after: Context,
    found: Matched,
    call: Call,
    origins: Sequence[int | None],
    *,
    replaceable: bool,
) -> None:
    def place(index: int) -> str:
        origin = origins[index]
        return "the recap" if origin is None else f"messages[{origin}]"

    standing = () if replaceable else recaps(before.messages, found.start)
    survivors = always(before.messages, found.start).union(standing)
    pinned = call.frozen(before)
    for index in found.dropped:
        if index in survivors or index in pinned:
            raise LostProtected(name, f"dropped {place(index)} ({before.messages[index].role}), which is protected")
    for origin, position in found.edited:
        old, new = before.messages[origin], after.messages[position]
        if origin in pinned or (origin in survivors and (words(old) != words(new) or old.role != new.role)):
            raise LostProtected(name, f"edited {place(origin)} ({old.role}), which is protected")
        if (kept := signed_thinking(new)) and not kept <= signed_thinking(old):
            raise EditedReasoning(name, f"edited signed reasoning in {place(origin)}; it is kept whole or dropped")


def _with_own(before: Context, after: Context, found: Matched, call: Call) -> Context:
    """What a stage returned, with the messages that were there in the place of new ones that are the same."""
    reasons = call.internals.notes.reasons  # one with a reason is written anew, for what is beside its parts
    own = {
        position: before.messages[origin]
        for origin, position in found.remade
        if not marks_differ(before.messages[origin], after.messages[position], call)
        and id(before.messages[origin]) not in reasons
    }
    if not own:
        return after
    return after.with_messages(tuple([own.get(place, message) for place, message in enumerate(after.messages)]))


def _carried(
    before: Context, after: Context, shared: int, found: Matched, made: Mapping[int, tuple[Message, Change]]
) -> dict[int, tuple[Message, Change]]:
    """What is said of a made message goes with it when it is another object that says the same: one with a marker."""
    carried = {}
    origins = chain(range(shared, found.start), found.later)
    for position, origin in enumerate(origins, shared):
        known = None if origin is None else made.get(id(before.messages[origin]))
        if known is not None:
            again = after.messages[position]
            carried[id(again)] = again, known[1]
    return carried


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
        by: Who causes the changes.
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
    by: By

    def account(self) -> Account:
        """What the stage did."""
        pairs, found, origins = list(self.lines()), self.found, self.origins
        # No change names what an earlier stage had made as it was.
        gone = (*found.dropped, *(origin for origin, _ in found.edited))
        unnamed = sum(self.call.count(self.before.messages[origin]) for origin in gone if origins[origin] is None)
        grown = sum(change.tokens_after - change.tokens_before for change, _ in pairs) - unnamed
        added = {id(made): (made, change) for change, made in pairs if change.outcome is Outcome.ADDED}
        changes, messages = tuple([change for change, _ in pairs]), [message for _, message in pairs]
        notes: tuple[str, ...] = ()
        if not changes and (number := sum(origins[origin] is None for origin in found.dropped)):
            notes = (f"left out {number} {'message' if number == 1 else 'messages'} that an earlier stage had made",)
        if found.first_changed is not None:
            later = [None if origin is None else origins[origin] for origin in found.later]
            origins = [*origins[: found.start], *later]
        return Account(changes, messages, grown, added, origins, notes)

    def lines(self) -> Iterator[tuple[Change, Message]]:
        """The changes of what was there, in its order, then what was added."""
        found = self.found
        edited, moved, remade = dict(found.edited), dict(found.moved), dict(found.remade)
        for origin in sorted({*edited, *moved, *remade, *found.dropped}):
            index, old = self.origins[origin], self.before.messages[origin]
            if index is None:
                continue
            if origin in moved:
                yield self._moved(origin, moved[origin], index), old
            if origin in remade:
                now = self.after.messages[remade[origin]]
                if origin not in moved and now is not old and not marks_differ(old, now, self.call):
                    yield self._changed(origin, index, now), old
                marks = None if self.call.wire is None else self.call.wire.cache_markers
                if marks is not None and marks.of(old) != marks.of(now):
                    why = self.call.internals.notes.why(old).why or _more_marks(len(marks.of(now)) - len(marks.of(old)))
                    yield self._change(index, old, now, Outcome.KEPT if now.untouched else Outcome.MARKED, why), old
            elif origin not in moved:
                new = self.after.messages[edited[origin]] if origin in edited else None
                yield self._changed(origin, index, new), old
        yield from self._added()

    def _changed(self, origin: int, index: int, new: Message | None) -> Change:
        old = self.before.messages[origin]
        said, known_as = self.call.internals.notes.why(old), old
        if new is not None and not said.why:
            said, known_as = self.call.internals.notes.why(new), new
        outcome = said.outcome or (Outcome.DROPPED if new is None else Outcome.EDITED)
        why = self._said_on_the_way[known_as.identity] if said.why else UNSAID
        return self._change(index, old, new, outcome, f"{why}; {LEGAL_FIRST}" if origin in self.pinned else why)

    @cached_property
    def _said_on_the_way(self) -> dict[int, str]:
        """All that was said of each message, and of what was made of it before the stage was done."""
        return self.call.internals.notes.by_identity()

    def _change(self, index: int, old: Message, new: Message | None, outcome: Outcome, why: str) -> Change:
        size = 0 if new is None else self.call.count(new)
        return Change(index, old.role, outcome, self.name, why, self.call.count(old), size, by=self.by)

    def _moved(self, origin: int, position: int, index: int) -> Change:
        """A message that stands elsewhere; one of which nothing was said made way for another."""
        old = self.before.messages[origin]
        why = self.call.internals.notes.why(old).why or self._passed_for(origin, position) or UNSAID
        return self._change(index, old, old, Outcome.MOVED, why)

    def _passed_for(self, origin: int, position: int) -> str:
        """What was said of the messages on the way from where a message stood to where it stands."""
        reasons, messages = self.call.internals.notes.reasons, self.before.messages
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

    def _added(self) -> Iterator[tuple[Change, Message]]:
        """What was made, and what was made before and says something else now: by the stage that made it."""
        remade = {position: origin for origin, position in self.found.edited if self.origins[origin] is None}
        places = sorted((*self.found.added, *remade))
        said = self._said_on_the_way if places else {}
        for position in places:
            made, place = self.after.messages[position], self.start + position
            why = said.get(made.identity) or UNSAID
            line = Change(place, made.role, Outcome.ADDED, self.name, why, 0, self.call.count(made), by=self.by)
            yield self._by_its_maker(line, remade.get(position)), made

    def _by_its_maker(self, line: Change, origin: int | None) -> Change:
        """The line of a message that is there; of one that another stage had made, that one's, with what is new."""
        known = None if origin is None else self.made.get(id(self.before.messages[origin]))
        if known is None:
            return line
        first, now = known[1], f"{self.name}: {line.reason}"
        reason = first.reason if now in first.reason else f"{first.reason}; {now}"
        return evolve(line, stage=first.stage, reason=reason, by=first.by)


def marks_differ(one: Message, other: Message, call: Call) -> bool:
    """Whether two messages carry other cache markers."""
    markers = None if call.wire is None else call.wire.cache_markers
    return markers is not None and markers.of(one) != markers.of(other)


def head_changes(name: str, before: Context, after: Context, call: Call) -> Iterator[HeadChange]:
    """What a stage did to what stands before the messages."""
    markers = None if call.wire is None else call.wire.cache_markers
    if after.system is not before.system and before.system is not None:
        why = call.internals.notes.why(before.system).why
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
