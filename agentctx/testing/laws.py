"""The laws that hold for every strategy, every format and every budget, for your own strategies as well.

Example::

    @given(histories(), budgets())
    def test_my_strategy(history, budget):
        anyio.run(partial(check_laws, MyStrategy(), history.messages, budget, history.format, history.system))
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import cached_property, partial
from itertools import pairwise
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from attrs import field, frozen

from agentctx.budget import Budget
from agentctx.changes import Change, Outcome
from agentctx.engine.cut import OF_THE_USER
from agentctx.engine.plan import as_budget
from agentctx.engine.reading import Reader, reader
from agentctx.engine.recap import reserved
from agentctx.engine.shrink import cleared, edit_results
from agentctx.errors import (
    BrokenPair,
    ConfigError,
    ContextOverflow,
    EditedReasoning,
    InvalidInput,
    NoBudget,
    StageError,
    StoreError,
)
from agentctx.formats.native import unmarked
from agentctx.message import SYSTEM_ROLES, Context, Message, Native, Text, Thinking
from agentctx.pipeline import Pipeline
from agentctx.protocols import Call, CallInternals, ContextStrategy, Listener, Store, TokenCounter
from agentctx.replay import turns
from agentctx.reports import StageReport, View
from agentctx.rules import find_violations
from agentctx.session.session import Session
from agentctx.stores import MemoryStore
from agentctx.strategies.drop_units import ClearToolResults, DropTail, TruncateOldest
from agentctx.strategies.when import first_of, when
from agentctx.testing.assertions import (
    ALLOWED_EDITS,
    AllowedEdit,
    PassedIn,
    misquotes,
    outcomes,
    report_errors,
    text_of,
    texts_of,
    with_callers_ids,
)
from agentctx.testing.fakes import CountingCounter, FlakyError, FlakyStage, FlakyStore, failing_listener, unlogged
from agentctx.testing.writers import History
from agentctx.transcripts import read_transcripts
from agentctx.unit import always, is_user_turn, segments, server_calls, units, unread, words
from agentctx.validators import list_of, one_of
from agentctx.wire_format import Violation

TITLES = {
    1: "legal in, legal out; repairs are reported",
    2: "the input is unchanged; untouched messages come back as the same objects",
    3: "what fits and was not asked to change stays",
    4: "the request fits the budget, or ContextOverflow is raised",
    5: "same input and state, same bytes out",
    6: "system prompt, first task, latest user message and everything pinned survive byte for byte",
    7: "whatever was left out or touched is in the report, and can be had back from the store byte for byte",
    8: "signed reasoning is kept whole or dropped, never edited",
    9: "work per step grows with what is new",
    10: "a part that fails costs nothing that was there before",
    11: "composing stages changes neither when they run nor what they are called",
    12: "no cut takes more than its target asks, and none takes the user's words while a tool's could go",
}
"""What each law says. The twelfth holds for what ``FitContextWindow``, ``ClearToolResults``, ``Summarize`` and the fit
guarantee cut: what another stage takes is its own matter."""


async def check_laws(
    strategy: ContextStrategy,
    messages: Sequence[Any],
    budget: Budget | None = None,
    format: str | None = None,  # noqa: A002 - the name that the whole library gives it
    system: Native = None,
    tools: Native = None,
    may: Collection[AllowedEdit] = (),
) -> None:
    """Hold a strategy to the laws on one transcript: prepared at once, and step by step in a session.

    Beyond the laws, a strategy may leave out and cut, and put a notice in square brackets in the place of what it took
    (as ``[3 earlier messages were left out]``). It writes no other words in anybody's name, swaps no results, and
    keeps names, ids, arguments, error flags and the order, unless it is allowed to.

    Args:
        strategy: A stage, or a pipeline.
        messages: The transcript in its provider's own shape.
        budget: The budget in force; without it the pipeline's own.
        format: Name of the format; found out when not given.
        system: The system prompt, where the format keeps it apart.
        tools: The tool definitions.
        may: What the strategy is allowed to do besides: ``"assistant_text"``, ``"user_text"``, ``"system_text"`` or
            ``"tool_text"`` to write in that role (summaries do), ``"tool_calls"`` to change names and ids of calls,
            ``"arguments"``, ``"is_error"``, ``"swap_results"``, ``"reorder"``.

    Raises:
        AssertionError: If a law is broken; the message says which law, and at which call.
        ConfigError: If ``may`` names something else, or a stage needs a budget and there is none.

    Example:
        >>> from agentctx import TrimRounds
        >>> from agentctx.testing import assistant, call, check_laws, result, transcript, user
        >>> turns = user("Go."), assistant(call("c1", "read")), result("c1", "…"), user("And?")
        >>> await check_laws(TrimRounds(1), transcript("openai-chat", *turns))
    """
    list_of(one_of(ALLOWED_EDITS), "edits").check("check_laws.may", may)
    scenario = Scenario(strategy, messages, format, system, tools, budget, frozenset(may))
    for law in LAWS:
        try:
            await law(scenario)
        except StageError as error:
            broken = 1 if isinstance(error, BrokenPair) else 8 if isinstance(error, EditedReasoning) else 6
            _hold(broken, ok=False, what=str(error))
        except NoBudget as error:
            if budget is not None:
                raise
            msg = f"{error.stage}: no budget in force: pass budget=, such as budget=8_000"
            raise ConfigError(msg) from error


async def check_laws_on(
    strategy: ContextStrategy,
    *sources: str | PathLike[str],
    budget: Budget | int | None = None,
    may: Collection[AllowedEdit] = (),
) -> int:
    """Hold a strategy to the laws on each recorded session of files, as ``check_laws`` does on one transcript.

    Args:
        strategy: A stage, or a pipeline.
        sources: Files, folders, and patterns such as ``"recordings/*.jsonl"``, of any tool that ``agentctx replay``
            reads.
        budget: The budget in force; an integer is a window, as of ``Budget``. Without it the pipeline's own holds.
        may: What the strategy is allowed to do besides; see ``check_laws``.

    Returns:
        How many sessions there were.

    Raises:
        AssertionError: If a law is broken; the message says on which session, which law, and at which call.
        ConfigError: If there is no session, or a stage needs a budget and there is none.
        InvalidInput: If a file cannot be read.

    Example:
        >>> import json, tempfile, pathlib
        >>> from agentctx import TrimRounds
        >>> from agentctx.testing import assistant, check_laws_on, transcript, user
        >>> messages = transcript("openai-chat", user("Go."), assistant("Gone."), user("And now?"))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "own.json").write_text(json.dumps({"messages": messages}))
        ...     await check_laws_on(TrimRounds(1), f"{folder}/*.json")
        1
    """
    checked, room = 0, None if budget is None else as_budget(budget, "check_laws_on")
    for transcript in (
        found for source in sources for path in _files(fspath(source)) for found in read_transcripts(path)
    ):
        recording = transcript.recording
        given = (recording.messages, room, recording.format, recording.system, recording.tools)
        try:
            await check_laws(strategy, *given, may)
        except AssertionError as error:
            msg = f"{transcript.place}: {error}"
            raise AssertionError(msg) from error
        except InvalidInput as error:
            raise InvalidInput(transcript.place, str(error)) from error
        checked += 1
    if not checked:
        msg = f"check_laws_on: there is no recorded session in {', '.join(map(str, sources)) or 'nothing'}"
        raise ConfigError(msg)
    return checked


_EXTENSIONS = (".json", ".jsonl", ".json.gz", ".jsonl.gz")


def _files(source: str) -> Iterator[str]:
    """The files that are meant."""
    path = Path(source).expanduser()
    if path.is_dir():
        yield from sorted(str(found) for found in path.rglob("*") if found.name.endswith(_EXTENSIONS))
    elif path.exists():
        yield str(path)
    else:
        yield from sorted(map(str, Path(path.anchor or ".").glob(str(path.relative_to(path.anchor)))))


@frozen
class PreparedCall:
    """One model call that was prepared."""

    given: list[Any] = field(repr=False)
    view: View | None = field(repr=False)
    overflow: ContextOverflow | None = None
    in_session: bool = True
    refusal: InvalidInput | None = None

    def __str__(self) -> str:
        """Which call it was, for messages."""
        return f"{'session' if self.in_session else 'stateless'} call with {len(self.given)} messages"


@frozen
class Scenario:
    """A strategy, and the transcript that it runs on.

    Args:
        strategy: A stage or a pipeline.
        messages: The native transcript.
        format: Name of its format; found out when not given.
        system: The native system prompt, if it is kept apart.
        tools: The native tool definitions.
        budget: The budget in force; without it the pipeline's own, if any.
        may: What the strategy is allowed to do besides leaving out and cutting; see ``audit.ALLOWED_EDITS``.
        before: Everything that was passed in as it was before anything ran, as JSON.
    """

    strategy: ContextStrategy
    messages: Sequence[Any]
    format: str | None = None
    system: Native = None
    tools: Native = None
    budget: Budget | None = None
    may: frozenset[AllowedEdit] = frozenset()
    before: list[str] = field(init=False, repr=False)
    _steps: list[PreparedCall] = field(init=False, repr=False, eq=False, factory=list)
    _repaired: dict[int, PreparedCall] = field(init=False, repr=False, eq=False, factory=dict)

    @before.default
    def _before(self) -> list[str]:
        return self.now()

    def now(self) -> list[str]:
        """Everything that was passed in as it is now, as JSON."""
        return texts_of([*self.messages, {"system": self.system, "tools": self.tools}])

    @classmethod
    def of(
        cls,
        strategy: ContextStrategy,
        history: History,
        budget: Budget | None = None,
        may: Collection[AllowedEdit] = (),
    ) -> Scenario:
        """A strategy with a history that was generated or built."""
        return cls(strategy, history.messages, history.format, history.system, history.tools, budget, frozenset(may))

    def pipeline(
        self,
        stage: ContextStrategy | None = None,
        *,
        store: Store | None = None,
        counter: TokenCounter | None = None,
        on_compact: Listener | None = None,
    ) -> Pipeline:
        """The strategy as a pipeline with other services."""
        own = self.strategy if isinstance(self.strategy, Pipeline) else Pipeline(self.strategy)
        return Pipeline(
            *(own.stages if stage is None else (stage,)),
            budget=self.budget or own.budget,
            counter=own.counter if counter is None else counter,
            store=MemoryStore() if store is None else store,
            protect=own.protect,
            on_compact=on_compact,
            summarizer=own.summarizer,
            thinking=own.thinking,
        )

    @property
    def limit(self) -> int | None:
        """The most tokens that a request may have, or None."""
        budget = self.pipeline().budget
        return None if budget is None else budget.limit

    @cached_property
    def source(self) -> Reader:
        """Reads and counts natives, and knows nothing of what a session has read and counted."""
        counter = self.pipeline().counter
        return reader(self.messages, system=self.system, tools=self.tools, format=self.format, counter=counter)

    def read(self, natives: Sequence[Any]) -> Context:
        """A request with these native messages, as values."""
        return self.source.context(natives, self.system, self.tools)

    def request(self, natives: Sequence[Any]) -> dict[str, Any]:
        """A request with these native messages, as it is sent."""
        apart = {"system": self.system, "tools": self.tools}
        return {"messages": list(natives)} | {key: value for key, value in apart.items() if value is not None}

    def errors(self, natives: Sequence[Any], before: Sequence[Any] | None = None) -> list[Violation]:
        """The rules that a request with these messages breaks, so that its provider refuses it."""
        seen = None if before is None else self.request(before)
        found = find_violations(self.source.wire, self.request(natives), None, seen)
        return [violation for violation in found if violation.severity == "error"]

    def calls(self) -> list[list[Any]]:
        """The messages of each model call of the transcript: before each assistant turn, and the whole."""
        stops = (*turns(self.read(self.messages).messages), len(self.messages))
        return [list(self.messages[:stop]) for stop in stops]

    async def prepare(self, pipeline: Pipeline | None = None, messages: Sequence[Any] | None = None) -> PreparedCall:
        """Prepare once, remembering nothing."""
        given = list(self.messages if messages is None else messages)
        preparing = (pipeline or self.pipeline()).prepare(given, self.system, self.tools, self.format)
        return await _prepared(given, preparing, in_session=False)

    async def step(self, session: Session, given: list[Any]) -> PreparedCall:
        """One step of a session."""
        return await _prepared(given, session.prepare(given, self.system, self.tools), in_session=True)

    async def walk(self, pipeline: Pipeline | None = None, *, rebuilt: bool = False) -> list[PreparedCall]:
        """Prepare every model call of the transcript in one session."""
        session = (pipeline or self.pipeline()).session(format=self.format)
        calls = self.calls()
        return [await self.step(session, deepcopy(given) if rebuilt else given) for given in calls]

    async def all_steps(self) -> list[PreparedCall]:
        """The whole transcript without a session, and every model call of it in one; made once, for all laws."""
        if not self._steps:
            self._steps.extend([await self.prepare(), *await self.walk()])
        return self._steps

    async def repaired(self, given: list[Any]) -> PreparedCall:
        """The messages of a model call, repaired and nothing else; made once, for all laws."""
        if len(given) not in self._repaired:
            self._repaired[len(given)] = await self.prepare(Pipeline(), given)
        return self._repaired[len(given)]


async def _prepared(given: list[Any], preparing: Awaitable[View], *, in_session: bool) -> PreparedCall:
    try:
        return PreparedCall(given, await preparing, in_session=in_session)
    except ContextOverflow as overflow:
        return PreparedCall(given, None, overflow, in_session)
    except InvalidInput as refusal:
        return PreparedCall(given, None, in_session=in_session, refusal=refusal)


async def legal_in_legal_out(scenario: Scenario) -> None:
    """Law 1: no view breaks a rule of its provider; when the input does, the report says what was done about it."""
    for step in await scenario.all_steps():
        if step.refusal is not None:
            spoken = [each for each in scenario.read(step.given).messages if each.role not in SYSTEM_ROLES]
            sendable = any(message.text.strip() or message.calls for message in spoken)
            _hold(1, not sendable, f"{step}: {step.refusal}")
        if step.view is None:
            continue
        broken = scenario.errors(step.view.messages)
        _hold(1, not broken, f"{step}: {'; '.join(map(str, broken))}")
        said = scenario.read(step.view.messages).messages
        named = {getattr(part, "caller", None) for message in said for part in message.parts} - {None}
        gone = named - server_calls(said)[0]
        _hold(1, not gone, f"{step}: calls of code that is not there: {', '.join(map(str, gone))}")
        if not step.in_session and scenario.errors(step.given):
            _hold(1, step.view.report.acted, f"{step}: an illegal history was repaired in silence")


async def input_unchanged(scenario: Scenario) -> None:
    """Law 2: messages, system prompt and tools are as they were, to the byte; what is kept is the caller's own."""
    objects = list(map(id, scenario.messages))
    for step in await scenario.all_steps():
        _hold(2, scenario.now() == scenario.before, f"{step}: the input was changed")
        _hold(2, list(map(id, scenario.messages)) == objects, f"{step}: the input list was changed")
        if step.view is not None:
            kept = [step.given[index] for index, fate in enumerate(outcomes(step.view.report)) if fate is Outcome.KEPT]
            remaining = iter(step.view.messages)
            for native in kept:
                found = any(native is candidate for candidate in remaining)
                what = "a message reported as kept is not the caller's own object, or not in its place"
                _hold(2, found, f"{step}: {what}")


async def what_fits_stays(scenario: Scenario) -> None:
    """Law 3: what no report names as changed is there as it came, and nothing else; a view that fits is not cut again.

    So whatever a strategy takes from what fits, it has to own up to in the report.
    """
    for step in await scenario.all_steps():
        if step.view is None:
            continue
        own = set(map(id, step.given))
        strangers = sum(id(native) not in own for native in step.view.messages)
        named = sum(change.tokens_after > 0 for change in step.view.report.in_force)
        _hold(3, strangers <= named, f"{step}: {strangers} messages are new, {named} changes are named")
        if not step.view.report.in_force:
            same = len(step.given) == len(step.view.messages)
            _hold(3, same and not strangers, f"{step}: no change is named, and yet the view is another")
        bare = Pipeline(budget=scenario.pipeline().budget)
        again = await scenario.prepare(bare, step.view.messages)
        whole = again.view is not None and list(map(id, again.view.messages)) == list(map(id, step.view.messages))
        _hold(3, whole, f"{step}: the view fits, and yet it is cut when it is prepared again")


async def fits_or_overflows(scenario: Scenario) -> None:
    """Law 4: counted anew, every view is within the limit, and the report gives its size."""
    limit = scenario.limit
    for step in await scenario.all_steps():
        if step.overflow is not None:
            honest = step.overflow.limit == limit and step.overflow.tokens > step.overflow.limit
            _hold(4, honest, f"{step}: raised for {step.overflow.tokens} tokens, the limit is {limit}")
        if step.view is not None:
            size = scenario.source.meter.size(scenario.read(step.view.messages))
            report = step.view.report
            _hold(4, limit is None or size <= limit, f"{step}: {size} tokens are sent, the limit is {limit}")
            _hold(4, size == report.tokens_after, f"{step}: {size} tokens are sent, {report.tokens_after} are reported")


async def same_bytes(scenario: Scenario) -> None:
    """Law 5: rebuilt messages give the same bytes; a session keeps the bytes of its last view, or says where not."""
    once, again = await scenario.prepare(), await scenario.prepare(messages=deepcopy(list(scenario.messages)))
    _hold(5, _sent(once) == _sent(again), f"{once}: prepared twice, sent differently")
    (_, *walked), rebuilt = await scenario.all_steps(), await scenario.walk(rebuilt=True)
    for one, other in zip(walked, rebuilt, strict=True):
        _hold(5, _sent(one) == _sent(other), f"{one}: messages that are equal but made anew are sent differently")
    views = [(step, step.view) for step in walked if step.view is not None]
    for (_, last), (step, view) in pairwise(views):
        before, now = (texts_of(list(map(unmarked, each.messages))) for each in (last, view))  # markers are no prefix
        pairs = enumerate(zip(before, now, strict=False))
        moved = next((index for index, (one, other) in pairs if one != other), None)
        if moved is None and len(now) < len(before):
            moved = len(now)
        reported = view.report.first_changed
        _hold(5, moved == reported, f"{step}: the prefix moved at {moved}, the report says {reported}")


async def protected_survives(scenario: Scenario) -> None:
    """Law 6: what is protected in the repaired history is in every view, word for word.

    Of a message that holds tool results beside the user's words, all that is no tool result is there, byte for byte
    and in its order; the results in it may be cut as any other, unless a rule of the caller's names the message. Cache
    markers are no part of what a message says.
    """
    protect = scenario.pipeline().pinned
    for step in await scenario.all_steps():
        repaired = await scenario.repaired(step.given)
        if step.view is None or repaired.view is None:
            continue
        same = step.view.system is scenario.system or unmarked(step.view.system) == unmarked(scenario.system)
        _hold(6, same, f"{step}: the system prompt is another")
        messages = repaired.view.context.messages
        pinned = {index for rule in protect for index in rule(messages)} if not step.in_session else set()
        sent = Counter(texts_of(list(map(unmarked, step.view.messages))))
        said = [words(message) for message in scenario.read(step.view.messages).messages]
        for index in sorted(always(messages) | pinned):
            native, message = repaired.view.messages[index], messages[index]
            cut = index not in pinned and bool(message.results)  # its results may be cut, and its words are there
            kept = sent[text_of(unmarked(native))] > 0 or (cut and words(message) in said)
            _hold(6, kept, f"{step}: messages[{index}] ({message.role}) is protected and is not there")


async def reported_and_kept(scenario: Scenario) -> None:
    """Law 7: a report accounts for each difference between what came and what is sent; the store has what was changed.

    Every message, the system prompt and every tool that is not sent as it came is named with stage and reason, and no
    other is; what was added is named at its place; the numbers of messages and tokens add up.
    """
    store = MemoryStore()
    pipeline = scenario.pipeline(store=store)
    meter = scenario.source.meter
    for step in (await scenario.prepare(pipeline), *await scenario.walk(pipeline)):
        if step.view is None:
            continue
        given = PassedIn(step.given, scenario.system, scenario.tools)
        for wrong in report_errors(given, scenario.read(step.given), step.view, meter):
            _hold(7, ok=False, what=f"{step}: {wrong}")
        sent = set(map(id, step.view.messages))
        for index, native in enumerate(step.given):
            if id(native) not in sent:
                changes = [change for change in step.view.report.in_force if change.index == index]
                changes = [change for change in changes if change.outcome is not Outcome.ADDED]
                kept = [await store.get(change.handle) for change in changes if change.handle is not None]
                originals = [json.dumps(json.loads(content.decode("utf-8", "surrogatepass"))) for content in kept]
                original = text_of(native)
                _hold(7, original in originals, f"{step}: the original of messages[{index}] is not in the store")


async def signed_reasoning_whole(scenario: Scenario) -> None:
    """Law 8: signed reasoning in a view is that of the input, whole and in its order, where its provider allows it."""
    for step in await scenario.all_steps():
        if step.view is None:
            continue
        given = iter(_signed(scenario, step.given))
        for block in _signed(scenario, step.view.messages):
            whole = any(block == candidate for candidate in given)
            _hold(8, whole, f"{step}: signed reasoning was edited, moved or made: {block.text[:40]!r}")
        broken = scenario.errors(step.view.messages, step.given)
        _hold(8, not broken, f"{step}: {'; '.join(map(str, broken))}")


def _signed(scenario: Scenario, natives: Sequence[Any]) -> list[Thinking]:
    parts = [part for message in scenario.read(natives).messages for part in message.parts]
    return [part for part in parts if isinstance(part, Thinking) and part.signed]


async def composing_changes_nothing(scenario: Scenario) -> None:
    """Law 11: stages in ``first_of``, ``when`` and a pipeline send the same, and reports name them the same."""
    within = scenario.pipeline(
        first_of(Pipeline(when(lambda _context, _call: True, Pipeline(*scenario.pipeline().stages))))
    )
    _, *alone = await scenario.all_steps()
    composed = await scenario.walk(within)
    for one, other in zip(alone, composed, strict=True):
        _hold(11, _sent(one) == _sent(other), f"{one}: within other stages something else is sent")
        _hold(11, _named(one) == _named(other), f"{one}: within other stages the reports say {_named(other)}")


def _named(step: PreparedCall) -> list[str]:
    """The stages that acted at a step."""
    return [] if step.view is None else [stage.stage for stage in step.view.report.stages if stage.acted]


NEAR = 0.02
"""A cut may miss what it aims at by this share of it,"""
FEW = 48
"""and by so many tokens, before what still fits has to be put back."""

_AIM = re.compile(r"(?:over|to come down to) ([\d,]+) tokens: ")
"""How the cut begins to say why."""


async def takes_no_more(scenario: Scenario) -> None:
    """Law 12: what a cut took does not fit again, but for ``NEAR`` of its aim and ``FEW`` tokens.

    Of whole rounds the newest that went, with its question, also into a summary: without that, what is left takes no
    less. A stage that can clear results could have kept it with its results cleared. Of cleared results the newest.
    And where the user's words went, and no summary says them, those that stay take a fifth of the room.
    """
    for step in await scenario.all_steps():
        for stage in () if step.view is None else step.view.report.stages:
            reasons = [found for change in stage.changes if (found := _AIM.match(change.reason))]
            if reasons:
                _hold_cut(scenario, step, stage, int(reasons[0].group(1).replace(",", "")))
            elif stage.stage == ClearToolResults.__name__ and scenario.budget is not None:
                aim = scenario.budget.target_tokens if step.in_session else scenario.budget.limit
                at_start = CallInternals(start=scenario.read([]))
                source = scenario.source
                call = Call(source.meter, budget=scenario.budget, wire=source.wire, internals=at_start)
                for_the_recap = await reserved(scenario.pipeline().stages, call)
                _hold_newest_cleared(step, stage, stage.changes, aim - for_the_recap)


def _hold_cut(scenario: Scenario, step: PreparedCall, stage: StageReport, aim: int) -> None:
    cuts = {change.index: change for change in stage.changes if _AIM.match(change.reason)}
    cuts = {index: change for index, change in cuts.items() if change.outcome is not Outcome.ADDED}
    messages = scenario.read(step.given).messages
    gone = {index for index, change in cuts.items() if change.outcome in (Outcome.DROPPED, Outcome.SUMMARISED)}
    units = [unit.places for bundle in segments(messages) for unit in bundle]
    parted = {place for places in units if not gone.isdisjoint(places) for place in places}  # words whose call is gone
    cleared = [each for each in cuts.values() if "old results" in each.reason and each.index not in parted]
    _hold_newest_cleared(step, stage, cleared, aim)
    whole = {place for places in units if gone.issuperset(places) for place in places}
    pieces = max((place for place in gone - whole if messages[place].calls or messages[place].results), default=-1)
    for bundle in reversed(segments(messages)):
        turn = {place for unit in bundle for place in unit.places}
        if pieces > max(turn):  # a newer round that was passed in pieces went, too
            break
        if bundle[-1].is_round and gone.issuperset(bundle[-1].places):
            size = _whole if stage.stage in _WHOLE_UNITS else partial(_bare, scenario)
            more = sum(size(messages[place], cuts[place]) for place in turn & cuts.keys())
            spare = _spare(stage, aim)
            if any(change.outcome is Outcome.SUMMARISED for change in stage.changes):  # the aim had no place for it
                spare += sum(change.tokens_after for change in stage.changes if change.outcome is Outcome.ADDED)
            _hold(12, more > spare, f"{step}: {stage.stage} left {spare} tokens free; what went in {turn} takes {more}")
            break
    told = {index: change for index, change in cuts.items() if change.outcome is not Outcome.SUMMARISED}
    _hold_words(scenario, step, messages, told, aim)


def _hold_newest_cleared(step: PreparedCall, stage: StageReport, changes: Sequence[Change], aim: int) -> None:
    newest = max((each for each in changes if each.tokens_after), key=lambda each: each.index, default=None)
    if newest is not None:
        more, spare = newest.tokens_before - newest.tokens_after, _spare(stage, aim)
        what = f"{stage.stage} left {spare} tokens free; what it took from messages[{newest.index}] takes {more}"
        _hold(12, more > spare, f"{step}: {what}")


def _spare(stage: StageReport, aim: int) -> int:
    return aim - stage.tokens_after - int(NEAR * aim) - FEW


_WHOLE_UNITS = {TruncateOldest.__name__, DropTail.__name__}
"""The stages that clear no results: they drop a unit whole, or keep it whole."""


def _whole(_message: Message, change: Change) -> int:
    """Return the tokens that a message takes more when it is there again."""
    return change.tokens_before - change.tokens_after


def _bare(scenario: Scenario, message: Message, change: Change) -> int:
    """The tokens that a message takes more when it is there again, its results cleared, but if it was summed up."""
    if change.outcome is Outcome.SUMMARISED:
        return change.tokens_before - change.tokens_after
    bare = scenario.source.meter.message(edit_results(message, cleared))
    return min(bare, change.tokens_before) - change.tokens_after


def _hold_words(
    scenario: Scenario, step: PreparedCall, messages: Sequence[Message], cuts: Mapping[int, Change], aim: int
) -> None:
    """Hold that where the user's words went there was no room for them in their fifth."""
    count = scenario.source.meter.message
    said = [index for index, message in enumerate(messages) if is_user_turn(message)]
    taken = [index for index in said if index in cuts]
    if not taken:
        return
    held = sum(cuts[index].tokens_after if index in cuts else count(messages[index]) for index in said)
    least = min(cuts[index].tokens_before for index in taken)
    staying = always(messages) | set(unread(messages)) | set(units(messages)[-1].places)
    fixed = scenario.source.meter.fixed(scenario.read(step.given))
    room = aim - fixed - sum(count(messages[index]) for index in staying)
    enough = held + least + int(NEAR * aim) + FEW >= OF_THE_USER * room
    _hold(12, enough, f"{step}: {held} tokens of the user's words stay in {room}, and more of them went")


async def views_are_faithful(scenario: Scenario) -> None:
    """Beyond the laws: a view says what was said, by who said it, each result under its call, in order."""
    for step in await scenario.all_steps():
        repaired = await scenario.repaired(step.given)
        if step.view is None or repaired.view is None:
            continue
        own = {call.id for message in scenario.read(step.given).messages for call in message.calls}
        said = with_callers_ids(repaired.view.context.messages, own)
        view = with_callers_ids(scenario.read(step.view.messages).messages, own)
        for wrong in misquotes(said, view, scenario.may):
            what = "a view says what was said; write in square brackets, or allow it with may=…"
            msg = f"{what}: {step}: {wrong}"
            raise AssertionError(msg)


async def work_grows_with_the_new(scenario: Scenario) -> None:
    """Law 9: a session that gets nothing new counts nothing, and with a new message counts little more than that."""
    counter = CountingCounter()
    session = scenario.pipeline(counter=counter).session(format=scenario.format)
    last = await scenario.step(session, list(scenario.messages))
    counter.texts.clear()
    again = await scenario.step(session, list(scenario.messages))
    if last.view is None or again.view is None or _did_something(again.view):
        return
    _hold(9, not counter.texts, f"{again}: nothing is new, and {counter.characters} characters were counted")
    new = scenario.source.wire.write_message(Message("user", (Text("and then?"),)))
    more = await scenario.step(session, [*scenario.messages, new])
    if more.view is None or _did_something(more.view):
        return
    room = 4 * len(text_of(new))
    _hold(9, counter.characters <= room, f"{more}: one short message is new, {counter.characters} were counted")


def _did_something(view: View) -> bool:
    """Whether a stage did anything at a step; cache markers on system prompt and tools are set anew at each."""
    return any(stage.changes or stage.notes for stage in view.report.stages)


async def failures_cost_nothing(scenario: Scenario) -> None:
    """Law 10: a stage or a store that fails at first, and a listener that always does, leave everything as it was."""
    _, *walked = await scenario.all_steps()
    expected = [_sent(step) for step in walked]
    parts = scenario.strategy.stages if isinstance(scenario.strategy, Pipeline) else (scenario.strategy,)
    whole = parts[0] if len(parts) == 1 else Pipeline(*parts)
    listener = partial(failing_listener)  # another one than a strategy's own
    failing = {
        "stage": scenario.pipeline(FlakyStage(whole)) if len(parts) == 1 else None,
        "store": scenario.pipeline(store=FlakyStore(MemoryStore())),
        "listener": scenario.pipeline(on_compact=listener),
    }
    with unlogged(listener):
        for part, pipeline in failing.items():
            if pipeline is not None:
                await _costs_nothing(scenario, part, pipeline, expected)


async def _costs_nothing(scenario: Scenario, part: str, pipeline: Pipeline, expected: list[object]) -> None:
    """Hold that a pipeline in which a part fails sends in the end what is sent without failures."""
    session = pipeline.session(format=scenario.format)
    for given, sent in zip(scenario.calls(), expected, strict=True):
        before = texts_of(given)
        step = None
        while step is None:  # until nothing fails any more
            with suppress(FlakyError, StoreError):
                step = await scenario.step(session, given)
        _hold(10, texts_of(given) == before, f"{step}: the failing {part} changed the input")
        _hold(10, _sent(step) == sent, f"{step}: after the {part} had failed, something else is sent")


def _sent(step: PreparedCall) -> object:
    """What is sent, to the byte; or how large it would have to be."""
    if step.view is None:
        return type(step.overflow), type(step.refusal)
    return texts_of(step.view.messages)


def _hold(law: int, ok: bool, what: str) -> None:  # noqa: FBT001 - reads as a sentence
    if not ok:
        msg = f"law {law} ({TITLES[law]}): {what}"
        raise AssertionError(msg)


Law = Callable[[Scenario], Awaitable[None]]

LAWS: tuple[Law, ...] = (
    legal_in_legal_out,
    input_unchanged,
    what_fits_stays,
    fits_or_overflows,
    same_bytes,
    protected_survives,
    reported_and_kept,
    signed_reasoning_whole,
    work_grows_with_the_new,
    failures_cost_nothing,
    composing_changes_nothing,
    takes_no_more,
    views_are_faithful,
)
"""The laws, in order, and what holds beyond them."""
