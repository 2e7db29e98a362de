"""Callers go back to where they were, edit, drop the tail, and go on: what counts now is there, in every format.

Ten thousand conversations a property, each of several steps, on both event loops; it takes about an hour::

    HYPOTHESIS_PROFILE=nightly python -m pytest -p no:cacheprovider tests/properties/test_ways_back.py
"""

from __future__ import annotations

import json
from collections import Counter
from copy import deepcopy

from attrs import define, field, frozen
from histories import broken_histories, budgets, histories, stages
from hypothesis import given, strategies as st
from plans import WRITERS, Say, Turn

from agentctx import (
    Budget,
    ClearToolResults,
    CollapseRepeats,
    Context,
    FitContextWindow,
    Ledger,
    Outcome,
    Pack,
    Pipeline,
    PlaceCacheMarkers,
    Protect,
    Session,
    Text,
    Thinking,
    TrimRounds,
    TruncateToolOutputs,
    units,
)
from agentctx.engine.cut import bind
from agentctx.engine.reading import reader
from agentctx.engine.repair import stands_in
from agentctx.engine.run_stages import LEGAL_FIRST
from agentctx.formats.native import unmarked
from agentctx.stores import MemoryStore
from agentctx.strategies import DropSuperseded, ReuseLines, ShrinkArguments
from agentctx.testing.assertions import PassedIn, outcomes, report_errors, text_of, texts_of
from agentctx.testing.laws import Scenario
from agentctx.unit import always, unread, words

PIPELINES = (
    (ClearToolResults(0), FitContextWindow()),
    (TrimRounds(1),),
    (TruncateToolOutputs(40), ClearToolResults(1), FitContextWindow(), PlaceCacheMarkers()),
    (CollapseRepeats(), Pack(keep_last=1, note=True)),
    (CollapseRepeats(similar=1), DropSuperseded(min_lines=2, stale=True), ShrinkArguments(0, max_tokens=5)),
    (Pack("recent", keep_last=1, note=True), FitContextWindow()),
    (ClearToolResults(1), FitContextWindow(), Ledger(max_tokens=90)),
    (ReuseLines(2), ClearToolResults(1), FitContextWindow()),
)
"""Stages that lose much."""

RULES = ((), (), (Protect.last_user(2),), (Protect.tools("read_file"), Protect.pins(-3)))
MODELS = {
    "anthropic": (None, "claude-opus-5-5", "claude-sonnet-4-5"),
    "bedrock": (None, "us.anthropic.claude-opus-5-5"),
    "openai-chat": (None, "gpt-5.6"),
    "openai-responses": (None,),
    "gemini": (None,),
}
MOVES = st.lists(
    st.tuples(st.sampled_from(("on", "on", "on", "back", "edit", "tail", "again", "reload")), st.integers(0, 1_000)),
    min_size=3,
    max_size=14,
)


@frozen
class Caller:
    """What a loop does with its history.

    Args:
        rolling: Whether it goes on from the last view.
        rebuilds: Whether it makes all messages anew for each call.
    """

    rolling: bool
    rebuilds: bool


@define
class Walk:
    """One conversation.

    Args:
        scenario: The pipeline and the transcript.
        caller: What its loop does.
        model: The model, if named.
        session: The session.
        passed: Every list that was passed, and how many calls of the transcript it has seen.
        current: What the loop goes on from.
        at: How many calls of the transcript that has seen.
    """

    scenario: Scenario
    caller: Caller
    model: str | None
    session: Session = field(init=False)
    passed: list = field(init=False, factory=list)
    current: list = field(init=False, factory=list)
    at: int = field(init=False, default=0)

    def begin(self):
        """A new session."""
        return self.scenario.strategy.session(format=self.scenario.format, model=self.model)

    async def go(self, moves):
        """Make the moves, and hold every view against what was passed."""
        self.session, calls = self.begin(), self.scenario.calls()
        for move, pick in moves:
            if move == "reload":
                self.session = Session.load(self.scenario.strategy, json.loads(json.dumps(self.session.dump())))
            else:
                await self.step(self.next(calls, move, pick))

    def next(self, calls, move, pick):
        """What is passed next."""
        if self.passed and move in ("back", "edit", "tail"):
            messages, self.at = self.passed[pick % len(self.passed)]
            if move == "tail":
                return messages[: 1 + pick % len(messages)]
            return messages if move == "back" else self.edited(messages, pick)
        if move == "again" or self.at == len(calls):
            return self.current or calls[0]
        known = len(calls[self.at - 1]) if self.at else 0
        self.at += 1
        return [*self.current, *calls[self.at - 1][known:]]

    def edited(self, messages, pick):
        """The last message of the user says something else, or one more is said."""
        (said,) = WRITERS[self.scenario.format].messages((Turn("user", (Say(f"no: {pick}"),)),))
        last = self.scenario.read(messages).messages[-1]
        return [*(messages[:-1] if last.role == "user" and not last.results else messages), said]

    async def step(self, messages):
        """Prepare, and check what came out."""
        messages = deepcopy(messages) if self.caller.rebuilds else list(messages)
        before = texts_of(messages)
        step = await self.scenario.step(self.session, messages)
        assert texts_of(messages) == before
        known = self.known(before)
        self.passed.append((messages, self.at))
        self.current = messages
        if step.view is not None:
            await check(self.scenario, step, self.begin, known)
            check_accounts(self.scenario, self.model, step)
            self.current = step.view.messages if self.caller.rolling else messages

    def known(self, now):
        """How many messages at the start of these the session was passed at the step before."""
        last = texts_of(self.passed[-1][0]) if self.passed else []
        differ = (place for place, (one, other) in enumerate(zip(last, now, strict=False)) if one != other)
        return next(differ, min(len(last), len(now)))


async def check(scenario, step, begin, known):
    """Everything that is protected or unread now is in a view, what nobody touched is the caller's, and it is legal.

    Of what a rule protects, reasoning goes all the same where the provider would refuse it, and the rest can stand in
    one message with what its neighbours say, where the provider wants a turn in one.
    """
    repaired = await scenario.prepare(Pipeline(), step.given)
    if repaired.view is None:
        return
    messages, natives = repaired.view.context.messages, repaired.view.messages
    rules = bind(scenario.strategy.protect, len(messages), messages.__getitem__)
    ruled = {index for rule in rules for index in rule(messages)} if len(messages) == len(step.given) else set()
    sent, said = marked(step.view.messages), [words(message) for message in step.view.context.messages]
    relieved = {change.index for change in step.view.report.in_force if LEGAL_FIRST in change.reason} & ruled
    told = [without_reasoning(message) for message in step.view.context.messages]
    for index in relieved:
        own = without_reasoning(messages[index])
        assert any(own == all_of[at : at + len(own)] for all_of in told for at in range(1 + len(all_of) - len(own)))
    ruled -= relieved
    for index in sorted(always(messages) | ruled):
        there = sent[text_of(unmarked(natives[index]))] or (index not in ruled and words(messages[index]) in said)
        assert there, f"messages[{index}] is protected, and is not there"
    assert not await unseen(scenario, step, messages, begin, known), "unread results are not there"
    assert not scenario.errors(step.view.messages) or scenario.errors(natives)
    remaining = iter(step.view.messages)
    for index, fate in enumerate(outcomes(step.view.report)):
        own = fate is not Outcome.KEPT or any(step.given[index] is native for native in remaining)
        assert own, f"messages[{index}] was kept, and is not the caller's object of this step"


def without_reasoning(message):
    """What a message says and asks for."""
    return [part for part in words(message) if not isinstance(part, Thinking)]


async def unseen(scenario, step, messages, begin, known):
    """The unread results that are not in a view, and should be.

    How much of them fits is what new sessions say, which have nothing to remember: one of everything, and one of what
    was not left out before (stages that see less may do more: ``first_of`` goes on to the next). But for what arrives
    in this very step (from ``known`` on) and is shortened in it, which the size of the rest decides. What stands in
    for a lost result is none.
    """
    wanted, there = results([messages[index] for index in unread(messages)]), results(step.view.context.messages)
    for natives in (step.given, left(scenario, step)) if wanted - there else ():
        fresh = await scenario.step(begin(), natives)
        wanted &= results(fresh.view.context.messages if fresh.view is not None else ())
    cut = {each.index for each in step.view.report.changes if each.outcome is Outcome.EDITED and each.index >= known}
    return wanted - results(scenario.read([step.given[index] for index in sorted(cut)]).messages) - there


def left(scenario, step):
    """What was passed in, without the units that were left out before this step, and need not be there."""
    messages, now = scenario.read(step.given).messages, {change.index for change in step.view.report.changes}
    gone = {each.index for each in step.view.report.in_force if each.outcome is Outcome.DROPPED} - now
    needed = always(messages) | set(unread(messages))
    kept = [unit for unit in units(messages) if needed.intersection(range(unit.start, unit.stop))]
    gone -= {index for unit in kept for index in range(unit.start, unit.stop)}
    return [native for index, native in enumerate(step.given) if index not in gone]


def check_accounts(scenario, model, step):
    """The report says what became of everything that was passed in at this step, whatever was decided before."""
    source = reader(step.given, system=scenario.system, tools=scenario.tools, format=scenario.format, model=model)
    before = Context(tuple(source.messages(step.given)), *source.head(scenario.system, scenario.tools))
    given = PassedIn(step.given, scenario.system, scenario.tools)
    assert [] == list(report_errors(given, before, step.view, source.meter))


def results(messages):
    """What tools answered in these messages, each as often as it is there."""
    told = (result for message in messages for result in message.results if not stands_in(result))
    return Counter(repr([part for part in result.content if part != Text("")]) for result in told)


def marked(natives):
    """Each message as text, without markers for the provider's cache."""
    return Counter(text_of(unmarked(native)) for native in natives)


@given(
    history=histories(max_rounds=8),
    chosen=st.sampled_from(PIPELINES),
    window=st.integers(60, 900),
    rules=st.sampled_from(RULES),
    caller=st.builds(Caller, st.booleans(), st.booleans()),
    moves=MOVES,
    pick=st.integers(0, 5),
)
def test_what_counts_now_is_there(both_loops, *, history, chosen, window, rules, caller, moves, pick):
    """After any way back, what is latest, protected or unread is in the view, whatever was left out since."""
    models = MODELS[history.format]
    pipeline = Pipeline(*chosen, budget=Budget(window, target=0.5), protect=rules, store=MemoryStore())
    both_loops(lambda: Walk(Scenario.of(pipeline, history), caller, models[pick % len(models)]).go(moves))


@given(
    broken_histories(max_rounds=8),
    stages(),
    budgets(3_000),
    st.builds(Caller, st.booleans(), st.booleans()),
    MOVES,
)
def test_what_counts_now_is_there_of_any_history(both_loops, history, stage, budget, caller, moves):
    """The same for any stage, any budget, and histories that have to be repaired."""
    both_loops(lambda: Walk(Scenario.of(Pipeline(stage, budget=budget), history), caller, None).go(moves))
