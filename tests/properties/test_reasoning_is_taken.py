"""Nothing that is sent has reasoning that its provider refuses: generated histories of models that sign theirs."""

from itertools import pairwise

import pytest
from histories import budgets, histories, stages
from hypothesis import given, settings, strategies as st

from agentctx import ContextOverflow, InvalidInput, Pipeline, validate
from agentctx.testing.laws import Scenario
from agentctx.unit import POLICIES

BOUND = {"anthropic": "claude-opus-5-5", "bedrock": "us.anthropic.claude-opus-5-5"}
ADAPTIVE = {"anthropic": "claude-opus-4-8", "bedrock": "us.anthropic.claude-opus-4-8"}
MANUAL = {"anthropic": "claude-sonnet-4-5", "bedrock": "anthropic.claude-sonnet-4-5-20250929-v1:0"}
MODELS = (BOUND, ADAPTIVE, MANUAL)
CASES = st.sampled_from(sorted(BOUND)).flatmap(histories)


def request(history, model, messages, thinking=None):
    """A request with these messages, as it would be sent."""
    given = {**history.request, "messages": list(messages), "model": model}
    if thinking is None:
        return given
    return given | ({"thinking": thinking} if history.format == "anthropic" else {})


def refused(history, model, sent, before, options):
    """The rules for which a request is refused that was made from another; unless the one before broke them too."""
    thinking = options.get("thinking", options.get("additionalModelRequestFields", {}).get("thinking"))
    if thinking is not None:
        options = {"thinking": thinking, "additionalModelRequestFields": {"thinking": thinking}}
    now = request(history, model, sent) | dict(options)
    then = request(history, model, before)
    found = validate(now, format=history.format, before=then)
    broken = {violation.rule for violation in found if violation.severity == "error"}
    return broken - {violation.rule for violation in validate(then, format=history.format)}


async def try_stateless(pipeline, history, model):
    """Prepare the whole history at once."""
    try:
        view = await pipeline.prepare(history.messages, history.system, history.tools, history.format, model)
    except (ContextOverflow, InvalidInput):
        return
    assert not refused(history, model, view.messages, history.messages, view.options)


async def try_session(pipeline, history, model):
    """Prepare every call of the history in a session; each is compared with the one before and what came since."""
    session = pipeline.session(model=model, format=history.format)
    last, known = [], 0
    for given_now in Scenario.of(pipeline, history).calls():
        try:
            view = await session.prepare(given_now, history.system, history.tools)
        except (ContextOverflow, InvalidInput):
            return
        before = [*last, *given_now[known:]]
        assert not refused(history, model, view.messages, before, view.options)
        last, known = view.messages, len(given_now)


@given(CASES, budgets(), stages(), st.sampled_from(MODELS), st.sampled_from(POLICIES))
def test_a_request_holds_no_reasoning_that_is_refused(both_loops, history, budget, stage, models, policy):
    """Whatever is cut, by whatever policy, on whatever model: the reasoning that is left is taken."""
    pipeline = Pipeline(stage, budget=budget, thinking=policy)
    both_loops(try_stateless, pipeline, history, models[history.format])


@given(CASES, budgets(), stages(), st.sampled_from(MODELS), st.sampled_from(POLICIES))
def test_a_session_sends_no_reasoning_that_is_refused(both_loops, history, budget, stage, models, policy):
    """From call to call of a session, what it has cut and what it cuts now leaves no reasoning that is refused."""
    pipeline = Pipeline(stage, budget=budget, thinking=policy)
    both_loops(try_session, pipeline, history, models[history.format])


@pytest.mark.parametrize("format_name", sorted(BOUND))
def test_the_histories_reason(format_name):
    """Most generated histories of these formats have calls in which there is reasoning to lose."""
    verdicts = []

    @settings(max_examples=60)
    @given(histories(format_name))
    def look(history):
        verdicts.append("c2lnbmVk" in str(history.messages))

    look()
    assert sum(verdicts) > len(verdicts) / 5
    assert not all(one == other for one, other in pairwise(verdicts))
