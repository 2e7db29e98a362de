"""Histories that were broken, copied, swapped and cut anywhere: what is prepared of them is legal, in every mode.

``HYPOTHESIS_PROFILE=nightly`` takes ten thousand.
"""

import json
from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from agentctx import AgentctxError, Budget, FitContextWindow, Pipeline, Session, TrimRounds, validate
from agentctx.testing.histories import broken_histories

MODELS = {
    "anthropic": ("claude-opus-5", "claude-sonnet-4-5"),
    "bedrock": ("amazon.nova-pro-v1:0", "mistral.mistral-large-2407-v1:0", "us.anthropic.claude-sonnet-4-5"),
    "gemini": ("gemini-2.5-pro",),
    "openai-chat": ("gpt-4.1", "mistral-large-latest", "kimi-k2.6"),
    "openai-responses": ("gpt-5.4",),
}
KEYS = {"gemini": "contents", "openai-responses": "input"}
ENDS = ("prefill", "last_role")
"""Whether the request may end on the assistant's words is the caller's to know."""

PIPELINES = (Pipeline(), Pipeline(TrimRounds(1)), Pipeline(FitContextWindow(), budget=Budget(600, trigger=0.5)))
PLACES = st.integers(0, 1_000)
CHANGES = st.lists(st.tuples(st.sampled_from(["drop", "copy", "swap"]), PLACES, PLACES), max_size=3)


def scrambled(messages, changes):
    """The messages with some left out, said twice or in another order."""
    messages = deepcopy(messages)
    for kind, first, second in changes:
        if not messages:
            break
        one, other = first % len(messages), second % len(messages)
        if kind == "drop":
            del messages[one]
        elif kind == "copy":
            messages.insert(other, deepcopy(messages[one]))
        else:
            messages[one], messages[other] = messages[other], messages[one]
    return messages


def illegal(view, history, model):
    """The rules that a view breaks."""
    request = {KEYS.get(history.format, "messages"): view.messages, "tools": history.tools or [{}]}
    found = validate(request, format=history.format, model=model)
    return [
        str(each)
        for each in found
        if each.severity == "error" and each.index is not None and not any(end in each.rule for end in ENDS)
    ]


@given(broken_histories(max_rounds=4), CHANGES, st.sampled_from(PIPELINES), st.integers(1, 4), st.data())
def test_what_is_prepared_is_legal(both_loops, history, changes, pipeline, step, data):
    """At once, and with what was passed in steps: the full history, views written back, after a load."""
    messages = scrambled(history.messages, changes)
    model = data.draw(st.sampled_from(MODELS[history.format]))
    mode = data.draw(st.sampled_from(["full", "rolling", "load"]))

    async def check():
        try:
            view = await pipeline.prepare(messages, format=history.format, model=model, tools=history.tools or None)
        except AgentctxError:
            return  # empty, or larger than the budget
        assert not illegal(view, history, model)
        session, passed = pipeline.session(format=history.format, model=model), []
        for start in range(0, len(messages), step):
            passed = [*passed, *messages[start : start + step]]
            try:
                view = await session.prepare(passed, tools=history.tools or None)
            except AgentctxError:
                continue
            assert not illegal(view, history, model)
            if mode == "rolling":
                passed = list(view.messages)
            elif mode == "load":
                session = Session.load(pipeline, json.loads(json.dumps(session.dump())))

    both_loops(check)
