"""System messages among the messages: where Claude takes them, whatever went around them, in every mode."""

import json

import pytest
from hypothesis import given, strategies as st

from agentctx import Budget, ContextOverflow, FitContextWindow, Pipeline, Protect, TrimRounds, count, validate

MODELS = ("claude-opus-5", "claude-sonnet-4-5", None)
WORDS = st.integers(0, 40)
KINDS = {
    "user": lambda size: [{"role": "user", "content": "ask " + "word " * size}],
    "system": lambda size: [{"role": "system", "content": [{"type": "text", "text": "mind " + "rule " * size}]}],
    "assistant": lambda size: [{"role": "assistant", "content": "say " + "word " * size}],
}


def round_of(number, size):
    """One call and its result."""
    ask = {"type": "tool_use", "id": f"t{number}", "name": "read", "input": {}}
    told = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "line " * size}
    return [{"role": "assistant", "content": [ask]}, {"role": "user", "content": [told]}]


@st.composite
def talks(draw):
    """Conversations with system messages anywhere, also within a round, in parts that may be passed one by one."""
    messages = []
    for number in range(draw(st.integers(1, 9))):
        kind = draw(st.sampled_from(["user", "system", "system", "assistant", "round"]))
        made = round_of(number, draw(WORDS)) if kind == "round" else KINDS[kind](draw(WORDS))
        if kind == "round" and draw(st.booleans()):
            made.insert(1, KINDS["system"](2)[0])
        messages += made
    return messages


def illegal(view, model):
    """The rules that the messages break; whether they may end on the assistant's words is the caller's to know."""
    request = {"messages": view.messages} | ({"model": model} if model else {})
    found = validate(request, format="anthropic", model=model)
    return [str(each) for each in found if each.severity == "error" and "prefill" not in each.rule]


PIPELINES = (
    Pipeline(),
    Pipeline(TrimRounds(1)),
    Pipeline(FitContextWindow(), budget=Budget(140, trigger=100, target=0.4)),
    Pipeline(TrimRounds(1), protect=[Protect.last_user(2)]),
)


@given(talks(), st.sampled_from(MODELS), st.sampled_from(PIPELINES), st.sampled_from(["full", "rolling", "load"]))
def test_system_messages_stand_where_they_are_taken(both_loops, walk, messages, model, pipeline, mode):
    """Whatever is cut around them: behind a user turn, before the assistant or last; else the user says their words."""
    before = json.dumps(messages)

    async def check():
        async for _, view in walk(pipeline, messages, mode, format="anthropic", model=model):
            assert not illegal(view, model)
            assert count(view.messages, format="anthropic", model=model) == view.report.tokens_after
        try:
            view = await pipeline.prepare(messages, format="anthropic", model=model)
        except ContextOverflow:
            return
        assert not illegal(view, model)
        text = json.dumps(view.messages)
        for index, message in enumerate(messages):
            assert message["role"] != "system" or json.dumps(message["content"]) in text, index
        assert json.dumps(messages) == before

    both_loops(check)


@pytest.mark.anyio
async def test_a_system_message_between_two_of_the_user_stands_behind_both():
    """It is moved, it stays the caller's own object, and the report says so."""
    messages = [*KINDS["user"](1), *KINDS["system"](1), *KINDS["user"](2), *KINDS["assistant"](1), *KINDS["user"](3)]
    view = await Pipeline().prepare(messages, format="anthropic", model="claude-opus-5")
    assert [messages.index(each) for each in view.messages] == [0, 2, 1, 3, 4]
    assert all(any(each is own for own in messages) for each in view.messages)
    assert [(change.stage, change.outcome) for change in view.report.changes] == [("ArrangeMessages", "moved")]


@pytest.mark.anyio
@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-opus-5"])
async def test_a_system_message_with_no_place_is_said_by_the_user(model):
    """On models that take none, and where no user turn stands before it."""
    messages = [*KINDS["user"](1), *KINDS["assistant"](1), *KINDS["system"](1)]
    view = await Pipeline().prepare(messages, format="anthropic", model=model)
    assert view.messages[2] == {**messages[2], "role": "user"}
    (change,) = view.report.changes
    assert (change.index, change.outcome) == (2, "edited")
    assert "said by the user" in change.reason


@pytest.mark.anyio
async def test_legal_system_messages_are_left_alone():
    """Behind the user, before the assistant or last: nothing is touched."""
    messages = [*KINDS["user"](1), *KINDS["system"](1), *KINDS["assistant"](1), *KINDS["user"](1), *KINDS["system"](2)]
    view = await Pipeline().prepare(messages, format="anthropic", model="claude-opus-5")
    assert all(new is old for new, old in zip(view.messages, messages, strict=True))
    assert not view.report.acted
