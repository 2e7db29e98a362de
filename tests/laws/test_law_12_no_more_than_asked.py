"""Law 12: no cut takes more than its target asks, and none takes the user's words while a tool's could go."""

import pytest
from histories import FORMATS, budgets, histories
from hypothesis import given, strategies as st

from agentctx import Budget, ClearToolResults, FitContextWindow, Pipeline
from agentctx.strategies import TruncateOldest
from agentctx.testing import assistant, call, result, transcript, user
from agentctx.testing.laws import Scenario, takes_no_more

pytestmark = pytest.mark.both_loops

CUTS = {
    "window": FitContextWindow(),
    "clear": ClearToolResults(keep_last=1),
    "both": Pipeline(ClearToolResults(keep_last=1), FitContextWindow()),
    "guarantee": Pipeline(),
}


@pytest.mark.parametrize("stage", CUTS.values(), ids=CUTS)
@given(histories(), budgets())
def test_a_cut_takes_no_more_than_it_must(both_loops, stage, history, budget):
    """At once and in a session, nothing is gone that fits again, nor more of the user's words than their fifth."""
    both_loops(takes_no_more, Scenario.of(stage, history, budget))


@pytest.mark.parametrize("stage", CUTS.values(), ids=CUTS)
@given(st.data())
def test_of_a_long_history_no_more_goes_than_must(both_loops, stage, data):
    """The same of long histories, with words and results of all sizes, in all formats."""
    sizes = st.sampled_from([1, 5, 30, 120, 400])
    turns = [user("the task")]
    for place in range(data.draw(st.integers(3, 14))):
        if data.draw(st.booleans()):
            turns += [assistant("so " * data.draw(sizes)), user(f"wish {place} " * data.draw(sizes))]
        name = f"c{place}"
        turns += [assistant(call(name, "run", {"n": place})), result(name, f"line {place} " * data.draw(sizes))]
    turns += [assistant("done"), user("and now?")]
    messages = transcript(data.draw(st.sampled_from(FORMATS)), *turns)
    window = data.draw(st.integers(300, 3_000))
    target = data.draw(st.sampled_from([None, 0.2, 0.8]))
    both_loops(takes_no_more, Scenario(stage, messages, budget=Budget(window, target=target)))


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_round_that_fits_without_its_results_stays(both_loops, format_name):
    """Where a round does not fit with its results, it stays with these cleared."""
    turns = [user("the task")]
    for place, (said, told) in enumerate([(900, 5), (450, 90), (480, 60), (1, 1)]):
        turns += [assistant("so " * said, call(f"c{place}", "run")), result(f"c{place}", "line " * told)]
    messages = transcript(format_name, *turns, assistant("done"), user("and now?"))
    for window in range(950, 1_250, 15):
        both_loops(takes_no_more, Scenario(FitContextWindow(), messages, budget=Budget(window)))


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_stage_of_whole_units_drops_a_large_round_whole(both_loops, format_name):
    """Where little has to go and the oldest round is large, it goes whole: the stage clears no results."""
    turns = [user("the task"), assistant(call("a", "run")), result("a", "line " * 900), assistant("done")]
    messages = transcript(format_name, *turns, user("go on " * 300), assistant("yes"), user("and now?"))
    both_loops(takes_no_more, Scenario(TruncateOldest(), messages, budget=Budget(1_200)))


@pytest.mark.parametrize("format_name", FORMATS)
def test_one_giant_message_does_not_take_the_rest_with_it(both_loops, format_name):
    """Where the user pasted more than there is room for, it is cut, and the rounds and words around it stay."""
    turns = [user("the task"), assistant("yes"), user("never touch main")]
    for place in range(4):
        turns += [assistant(call(f"c{place}", "run", {"n": place})), result(f"c{place}", f"line {place}")]
        turns += [user("pasted text " * 2_000)] if place == 1 else []
    messages = transcript(format_name, *turns, assistant("done"), user("and now?"))
    scenario = Scenario(FitContextWindow(), messages, budget=Budget(900))
    both_loops(takes_no_more, scenario)

    async def everything_else_stays(scenario):
        view = next(step.view for step in await scenario.all_steps() if not step.in_session)
        (cut,) = view.report.changes
        assert "longest words cut" in cut.reason
        assert len(view.messages) == len(messages)
        assert view.report.tokens_after > 800

    both_loops(everything_else_stays, scenario)


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("words", [1, 40, 400])
def test_an_aim_out_of_reach_does_not_cost_the_users_words(both_loops, format_name, words):
    """Where an unread result is larger than the aim, the user's words keep their fifth of what it leaves."""
    turns = [user("the task")]
    for place in range(8):
        turns += [assistant(call(f"c{place}", "read")), result(f"c{place}", "small text " * 30)]
        turns += [assistant("ok"), user(f"rule {place} " + "never " * words)]
    arrived = assistant(call("big", "read")), result("big", "alpha beta " * 650)
    before, messages = transcript(format_name, *turns), transcript(format_name, *turns, *arrived)

    async def words_stay(scenario):
        session = scenario.pipeline().session(format=format_name)
        await session.prepare(before)
        view = await session.prepare(messages)
        said = [turn for turn in view.context.messages if "rule" in turn.text]
        tokens = sum(map(scenario.source.meter.message, said))
        big = max(map(scenario.source.meter.message, view.context.messages))
        assert len(said) == 8 or tokens + 60 >= 0.2 * (2_000 - big) * 0.9

    both_loops(words_stay, Scenario(FitContextWindow(), messages, budget=Budget(2_000)))
    both_loops(takes_no_more, Scenario(FitContextWindow(), messages, budget=Budget(2_000)))
