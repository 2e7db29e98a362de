"""A transcript is rebuilt byte for byte from what was made of it: the view, its report, and the store."""

from __future__ import annotations

import json
from itertools import product

import anyio
from attrs import frozen
from histories import broken_histories, histories
from hypothesis import given, strategies as st

from agentctx import (
    Budget,
    ClearToolResults,
    ContextOverflow,
    FitContextWindow,
    Ledger,
    Outcome,
    Pipeline,
    Session,
    TrimRounds,
    TruncateToolOutputs,
    View,
)
from agentctx.recall import Recall
from agentctx.stores import MemoryStore
from agentctx.strategies import Offload
from agentctx.testing import assistant, call, result, transcript, user
from agentctx.testing.assertions import texts_of
from agentctx.testing.laws import Scenario

FORMATS = ("openai-chat", "openai-responses", "anthropic", "gemini", "bedrock")
PIPELINES = (
    (TruncateToolOutputs(12), ClearToolResults(1), FitContextWindow(), Ledger(max_tokens=40)),
    (Offload(over=12, older_than=1, preview=4), FitContextWindow()),
    (FitContextWindow(), Ledger(max_tokens=40)),
    (TrimRounds(1), TruncateToolOutputs(12)),
)
MOVES = st.lists(
    st.tuples(st.sampled_from(("on", "on", "on", "back", "again", "load")), st.integers(0, 1_000)),
    min_size=3,
    max_size=10,
)


LEFT_OUT = {Outcome.DROPPED, Outcome.EDITED, Outcome.SUMMARISED}


@frozen
class Step:
    """One step of a conversation.

    Args:
        view: What came of it.
        passed: How many messages were passed in.
        whole: The transcript so far, as it was.
        before: The step whose view was written back; None where the transcript was passed.
    """

    view: View
    passed: int
    whole: list
    before: Step | None = None

    async def rebuilt(self, store, shown=None):
        """What was passed in: what the view shows as it came, and the rest from the store."""
        shown = zip(self.view.messages if shown is None else shown, self.view.origins, strict=True)
        there = {origin: message for message, origin in shown if origin is not None}
        changed = {change.index: change.handle for change in self.view.report.in_force if change.outcome in LEFT_OUT}
        return [json.loads(await store.get(changed[index])) if index in changed else there[index]
                for index in range(self.passed)]  # fmt: skip

    async def transcript(self, store, shown=None):
        """The whole transcript: what was written back is rebuilt by the report of the step before."""
        passed = await self.rebuilt(store, shown)
        if self.before is None:
            return passed
        start = len(self.before.view.messages)
        return [*await self.before.transcript(store, passed[:start]), *passed[start:]]


@frozen
class Loop:
    """What a loop does: it passes the transcript or the last view with what is new, in a session or without one.

    Args:
        scenario: The stages and the transcript.
        pipeline: The pipeline, with the store.
        recall: The tool among the request's tools; None: it is not there.
        rolling: Whether views are written back.
        alone: Whether each call is prepared without a session.
    """

    scenario: Scenario
    pipeline: Pipeline
    recall: Recall | None
    rolling: bool
    alone: bool

    async def go(self, moves):
        """Make the moves; after each step rebuild all that was passed so far."""
        session, calls, steps = self.pipeline.session(format=self.scenario.format), self.scenario.calls(), []
        at = 0
        for move, pick in moves:
            if move == "load":
                session = Session.load(self.pipeline, json.loads(json.dumps(session.dump())))
            elif move == "back":
                steps = steps[: 1 + pick % len(steps)] if steps else []
                at = next((at for at, call_ in enumerate(calls, 1) if steps and call_ == steps[-1].whole), 0)
            else:
                at = min(at + 1, len(calls)) if move == "on" else at
                step = await self.step(session, calls[max(0, at - 1)], steps[-1] if steps else None)
                steps += [] if step is None else [step]
        return steps

    async def step(self, session, whole, before):
        """Prepare, and rebuild."""
        goes_on = self.rolling and before is not None and len(before.whole) <= len(whole)
        passed = [*before.view.messages, *whole[len(before.whole) :]] if goes_on else list(whole)
        tools = self.scenario.tools if self.recall is None else [
            *(self.scenario.tools or ()), self.recall.definition(self.scenario.format)]  # fmt: skip
        try:
            if self.alone:
                view = await self.pipeline.prepare(passed, self.scenario.system, tools, format=self.scenario.format)
            else:
                view = await session.prepare(passed, self.scenario.system, tools)
        except ContextOverflow:
            return None
        step, store = Step(view, len(passed), whole, before if goes_on else None), self.pipeline.store
        assert texts_of(await step.rebuilt(store)) == texts_of(passed)
        assert texts_of(await step.transcript(store)) == texts_of(whole)
        return step


@given(
    history=st.one_of(histories(), broken_histories()),
    stages=st.sampled_from(PIPELINES),
    window=st.integers(150, 900),
    moves=MOVES,
    has_tool=st.booleans(),
    rolling=st.booleans(),
    alone=st.booleans(),
)
def test_a_transcript_is_rebuilt(both_loops, *, history, stages, window, moves, has_tool, rolling, alone):
    """In all formats, without a session, with one, and with views written back, after loads and going back."""
    store = MemoryStore()
    pipeline = Pipeline(*stages, budget=Budget(window, trigger=0.7, target=0.4), store=store)
    scenario = Scenario.of(pipeline, history)
    both_loops(Loop(scenario, pipeline, Recall(store) if has_tool else None, rolling, alone).go, moves)


def test_the_loop_rebuilds_what_was_left_out():
    """The walk is one in which much goes: else nothing would be shown by it."""
    store, turns = MemoryStore(), [user("task")]
    for place in range(12):
        turns += [
            assistant(call(f"c{place}", "read", {"n": place})),
            result(f"c{place}", f"output {place} é👩‍👧 " * 40),
        ]
    moves = [*[("on", 0)] * 8, ("load", 0), ("on", 0), ("back", 4), *[("on", 0)] * 5]
    for format_name in FORMATS:
        messages = transcript(format_name, *turns)
        for stages, rolling, alone in product(PIPELINES, (False, True), (False, True)):
            pipeline = Pipeline(*stages, budget=Budget(1_600, trigger=0.7, target=0.4), store=store)
            loop = Loop(Scenario(pipeline, messages, format_name), pipeline, Recall(store), rolling, alone)
            steps = anyio.run(loop.go, moves)
            assert any(change.handle for step in steps for change in step.view.report.in_force)
