"""``Summarize`` takes no more than its target asks, and where there is no summary the user's words go last."""

import anyio
import pytest
from histories import histories
from hypothesis import given, settings, strategies as st

from agentctx import Budget, Pipeline
from agentctx.marks import OPENING
from agentctx.strategies import Extractive, Summarize
from agentctx.testing import assistant, call, fixed_summarizer, result, transcript, user
from agentctx.testing.laws import Scenario, takes_no_more

BUDGET = Budget(2_000, target=0.5)
SUMMARIZERS = {"without a model": Extractive(), "short": fixed_summarizer("Goal: mend the build\nNext step: go on")}


def turns(number):
    """A task, and turns of about 100 tokens, each ended by a rule of the user's."""
    yield user("Task: mend the build")
    for place in range(number):
        yield assistant(f"part {place}", call(f"c{place}", "read", {"path": f"src/a{place}.py"}))
        yield result(f"c{place}", f"{place} some words " * 25)
        yield assistant("done")
        yield user(f"Rule {place}: never touch /x/{place}.py")


async def cut(stage, format_name, number=30):
    """The first view of a session that is cut, and what came before it."""
    messages = transcript(format_name, *turns(number))
    session, before = Pipeline(stage, budget=BUDGET).session(format=format_name), 0
    for end in range(1, len(messages) + 1, 4):
        view = await session.prepare(messages[:end])
        if view.report.tokens_after < before:
            return view, messages[:end]
        before = view.report.tokens_after
    raise AssertionError


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", ["openai-chat", "anthropic", "gemini"])
@pytest.mark.parametrize("summarizer", SUMMARIZERS)
async def test_it_takes_no_more_than_its_target_asks(summarizer, format_name):
    """What stays takes the target, less a quarter for the summary and the turn that does not fit; the newest stay."""
    view, messages = await cut(Summarize(SUMMARIZERS[summarizer]), format_name)
    assert 600 < view.report.tokens_after <= 1_000
    kept = [f"Rule {place}:" in str(view.messages) for place in range((len(messages) - 1) // 4)]
    assert all(kept[-4:])
    assert all(kept) or summarizer == "short"


def unreachable(_text, _name=""):
    """A redactor that fails."""
    raise ConnectionError


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", ["openai-chat", "anthropic", "gemini"])
async def test_without_a_summary_the_users_words_go_last(format_name):
    """Where the redactor fails, results go before any rule of the user's, and the recap says that there were some."""
    view, messages = await cut(Summarize(redact=unreachable), format_name)
    said = str(view.messages)
    assert all(f"Rule {place}:" in said for place in range((len(messages) - 1) // 4))
    assert OPENING in said


@pytest.mark.anyio
async def test_all_rules_are_named_that_there_is_room_for():
    """The record without a model says more than a dozen of them where there is room, all of the same weight."""
    rules = [user(f"Never touch /x/{place}.py.") for place in range(40)]
    messages = transcript("openai-chat", user("Go."), *rules, assistant("so " * 3_000), user("On."))
    view = await Pipeline(Summarize(), budget=Budget(2_500)).prepare(messages)
    assert all(f"/x/{place}.py" in str(view.messages) for place in range(40))


@pytest.mark.no_cover
@settings(max_examples=18)
@given(histories(), st.integers(100, 2_000), st.sampled_from(sorted(SUMMARIZERS)), st.sampled_from((0.3, 0.6, 1.0)))
def test_what_went_does_not_fit_again(history, window, summarizer, target):
    """As of any cut: what went into the summary does not fit beside it, and the room that was left for it."""
    stage, budget = Summarize(SUMMARIZERS[summarizer]), Budget(window, target=target)
    anyio.run(takes_no_more, Scenario(stage, history.messages, history.format, history.system, history.tools, budget))
