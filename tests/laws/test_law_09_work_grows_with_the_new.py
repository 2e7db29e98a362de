"""Law 9: work per step grows with what is new, not with the length of the history."""

import sys
import threading
from collections import Counter
from copy import deepcopy
from statistics import median
from typing import ClassVar

import pytest
from histories import broken_histories, budgets, histories, stages
from hypothesis import given

from agentctx import (
    Budget,
    ClearToolResults,
    ContextStrategy,
    FitContextWindow,
    Pipeline,
    PlaceCacheMarkers,
    TrimRounds,
    TruncateToolOutputs,
    When,
    first_of,
    over,
    when,
)
from agentctx.economics import cache_cold, pays_back
from agentctx.testing import CountingCounter, assistant, call, history, result, system, tool, transcript, user
from agentctx.testing.laws import Scenario, work_grows_with_the_new

FORMATS = ["openai-chat", "anthropic", "gemini", "bedrock"]
LONG = 30
"""Characters from which on a text is not one of the few short ones that many messages share."""


def a_round(format_name, number):
    """One round, every text of which occurs once."""
    return transcript(
        format_name,
        assistant(
            f"this is what I do in step number {number}", call(f"c{number}", "read", {"n": f"file {number}" * 5})
        ),
        result(f"c{number}", f"these are the contents of file {number}, all of them\n" * 5),
    )


def pipelines(counter):
    """Pipelines of built-in stages that count with ``counter``."""
    budget = Budget(100_000, trigger=1_000, target=500)
    return {
        "none": Pipeline(counter=counter),
        "fit": Pipeline(FitContextWindow(), budget=budget, counter=counter),
        "clear": Pipeline(ClearToolResults(keep_last=3), FitContextWindow(), budget=budget, counter=counter),
        "truncate": Pipeline(TruncateToolOutputs(max_chars=80), FitContextWindow(), budget=budget, counter=counter),
    }


ROOM = Budget(900_000, trigger=0.9, target=3_600)
CONDITIONS = {
    "pays_back": pays_back(within=1),
    "pays_back or over": pays_back(within=1) | over(0.9),
    "pays_back and cold": pays_back(within=20) & cache_cold(),
    "cold or over": cache_cold() | over(0.9),
}
"""Conditions that are asked at every step, and do not hold while the cache is warm."""
ASKING = {
    "when": lambda condition: Pipeline(when(condition, ClearToolResults(4)), budget=ROOM),
    "nested": lambda condition: Pipeline(Pipeline(when(condition, TrimRounds(4))), FitContextWindow(), budget=ROOM),
    "first_of": lambda condition: Pipeline(first_of(when(condition, TrimRounds(4))), PlaceCacheMarkers(), budget=ROOM),
}


async def calls_in_steps(pipeline, lengths):
    """The median of Python calls, in all threads, of the nine steps of one round up to each of these lengths.

    The median: what a collector, a finalizer or another test's thread calls meanwhile is no work of the step's.
    """
    messages = transcript("anthropic", user("task " * 300))
    rounds = [a_round("anthropic", number) for number in range(max(lengths) + 1)]
    session, calls = pipeline.session(model="claude-sonnet-4-5", format="anthropic"), []
    made = {length: [] for length in lengths}

    def see(_frame, event, _argument):
        if event == "call":
            calls.append(1)

    for number, each in enumerate(rounds):
        messages = [*messages, *each]
        near = next((length for length in lengths if length - 8 <= number <= length), None)
        if near is None:
            continue
        before = sys.getprofile()
        threading.setprofile(see)
        sys.setprofile(see)
        try:
            await session.prepare(messages)
        finally:
            sys.setprofile(before)
            threading.setprofile(None)
        made[near].append(len(calls))
        calls.clear()
    return [median(each) for each in made.values()]


@pytest.mark.no_cover
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("way", ASKING)
async def test_a_condition_that_is_asked_at_every_step_looks_at_what_is_new(condition, way):
    """What the whole request weighs is known; nothing is added up anew, however the stages are composed."""
    short, long = await calls_in_steps(ASKING[way](CONDITIONS[condition]), (40, 160))
    assert long < 1.3 * short


@given(histories(), budgets(), stages())
def test_a_step_with_nothing_new_counts_nothing(both_loops, history, budget, stage):
    """A session that is given the same history again counts nothing, with one more message little."""
    both_loops(work_grows_with_the_new, Scenario.of(stage, history, budget))


@given(broken_histories(), budgets(), stages())
def test_a_broken_history_is_not_repaired_again_and_again(both_loops, history, budget, stage):
    """What was repaired once is not counted again."""
    both_loops(work_grows_with_the_new, Scenario.of(stage, history, budget))


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("rebuild", [list, deepcopy], ids=["kept", "rebuilt"])
@pytest.mark.parametrize("name", pipelines(None))
async def test_each_text_is_counted_once_in_a_session(format_name, name, rebuild):
    """Over a whole session, with cuts in it, no text is counted twice, also when the caller rebuilds its messages."""
    counter = CountingCounter()
    request = history(format_name, system("the rules of the house " * 3), user("the task at hand " * 3))
    session = pipelines(counter)[name].session(format=format_name)
    messages = request.messages
    for number in range(40):
        messages = [*messages, *a_round(format_name, number)]
        await session.prepare(rebuild(messages), request.system)
    again = {text: times for text, times in Counter(counter.texts).items() if times > 1 and len(text) >= LONG}
    assert again == {}


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_late_steps_count_as_much_as_early_ones(format_name):
    """The hundredth step counts no more characters than the tenth."""
    counter = CountingCounter()
    session = Pipeline(FitContextWindow(), budget=Budget(1_000_000), counter=counter).session(format=format_name)
    tools = history(format_name, user("x"), tools=[tool(f"tool_{n}", "does a thing " * 9) for n in range(20)]).tools
    messages, counted = transcript(format_name, user("task")), []
    for number in range(100):
        messages += a_round(format_name, number)
        counter.texts.clear()
        await session.prepare(messages, tools=tools)
        counted.append(counter.characters)
    assert max(counted[90:]) <= 1.2 * max(counted[5:15])


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_stages_for_arrivals_see_each_message_once(format_name):
    """A stage that says that it looks at new messages is shown each of them once."""
    shown = []

    class Looking(ContextStrategy):
        when: ClassVar[When] = When.ON_ARRIVAL

        async def __call__(self, context, _call):
            shown.extend(context.messages)
            return context

    session = Pipeline(Looking()).session(format=format_name)
    messages = transcript(format_name, user("task"))
    for number in range(20):
        messages += a_round(format_name, number)
        await session.prepare(messages)
    assert len(shown) == len(messages)


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_stages_for_pressure_rest_below_the_trigger(format_name):
    """A stage that acts under pressure is not run while the request is below the trigger."""
    runs = []

    class Pressing(ContextStrategy):
        when: ClassVar[When] = When.UNDER_PRESSURE

        async def __call__(self, context, _call):
            runs.append(len(context.messages))
            return context

    budget = Budget(1_000_000, trigger=500_000)
    session = Pipeline(Pressing(), budget=budget).session(format=format_name)
    messages = transcript(format_name, user("task"))
    for number in range(20):
        messages += a_round(format_name, number)
        await session.prepare(messages)
    assert runs == []


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_after_a_cut_many_steps_pass_before_the_next(format_name):
    """A session cuts in few large steps: over a hundred rounds, at most one step in five is a cut."""
    session = Pipeline(FitContextWindow(), budget=Budget(2_000, trigger=1_500, target=700)).session(format=format_name)
    messages, cuts = transcript(format_name, user("task")), 0
    for number in range(100):
        messages += a_round(format_name, number)
        cuts += (await session.prepare(messages)).report.first_changed is not None
    assert 1 <= cuts <= 20


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_sessions_of_one_counter_share_what_was_counted(format_name):
    """The same message objects, counted in one session, are not counted again in a second of the same pipeline."""
    counter = CountingCounter()
    pipeline = Pipeline(FitContextWindow(), budget=Budget(100_000), counter=counter)
    session = pipeline.session(format=format_name)
    messages = [*transcript(format_name, user("task")), *a_round(format_name, 1)]
    await session.prepare(messages)
    counted = len(counter.texts)
    await session.prepare(messages)
    assert len(counter.texts) == counted > 0
