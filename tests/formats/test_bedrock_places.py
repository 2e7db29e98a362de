"""Through Converse, who may begin and what may stand beside results depends on the model; in every mode."""

import json

import pytest
from hypothesis import given, strategies as st

from agentctx import Budget, ContextOverflow, FitContextWindow, Pipeline, TrimRounds, count, validate

MODELS = (
    "amazon.nova-pro-v1:0",
    "mistral.mistral-large-2407-v1:0",
    "meta.llama3-1-70b-instruct-v1:0",
    "anthropic.claude-3-5-sonnet-20240620-v1:0",
    "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    None,
)
PIPELINES = (
    Pipeline(),
    Pipeline(TrimRounds(1)),
    Pipeline(FitContextWindow(), budget=Budget(220, trigger=150, target=0.4)),
)


@st.composite
def talks(draw):
    """Conversations that anybody begins, with words beside results, and results that are missing, late or apart."""
    messages, late = [], []
    for number in range(draw(st.integers(1, 7))):
        kind, size = draw(st.sampled_from(["user", "assistant", "round", "mixed"])), draw(st.integers(0, 30))
        words = [{"text": "say " + "word " * size}]
        if kind in {"user", "assistant"}:
            messages.append({"role": kind, "content": words})
            continue
        names = [f"t{number}_{place}" for place in range(draw(st.sampled_from([1, 1, 2, 3])))]
        asked = [{"toolUse": {"toolUseId": name, "name": "read", "input": {}}} for name in names]
        told = [{"toolResult": {"toolUseId": name, "content": [{"text": "line " * size + "."}]}} for name in names]
        told, late = [*told, *late], []
        where = draw(st.sampled_from(["here", "here", "nowhere", "later", "apart"]))
        last = [told.pop()] if where != "here" else []
        late = last if where == "later" else []
        beside = words if kind == "mixed" else []
        apart = [last] if where == "apart" else []
        answers = [{"role": "user", "content": each} for each in ([*told, *beside], *apart) if each]
        messages += [{"role": "assistant", "content": asked}, *answers]
    return messages


def illegal(view, model):
    """The rules that the messages break."""
    tools = [{"toolSpec": {"name": "read", "inputSchema": {"json": {"type": "object"}}}}]
    request = {"messages": view.messages, "toolConfig": {"tools": tools}}
    found = validate(request, format="bedrock", model=model)
    return [str(each) for each in found if each.severity == "error"]


@given(talks(), st.sampled_from(MODELS), st.sampled_from(PIPELINES), st.sampled_from(["full", "rolling", "load"]))
def test_messages_stand_as_the_model_takes_them(both_loops, walk, messages, model, pipeline, mode):
    """The user begins, and words stand beside no results, where the model wants it so; the request still fits."""
    before = json.dumps(messages)

    async def check():
        async for _, view in walk(pipeline, messages, mode, format="bedrock", model=model):
            assert not illegal(view, model)
            assert count(view.messages, format="bedrock", model=model) == view.report.tokens_after
        try:
            view = await pipeline.prepare(messages, format="bedrock", model=model)
        except ContextOverflow:
            return
        assert not illegal(view, model)
        assert json.dumps(messages) == before

    both_loops(check)


@pytest.mark.anyio
async def test_nova_gets_a_user_who_begins():
    """A message of the user stands before the assistant's first, and the report names it; Claude needs none."""
    messages = [{"role": "assistant", "content": [{"text": "hi"}]}, {"role": "user", "content": [{"text": "go"}]}]
    view = await Pipeline().prepare(messages, format="bedrock", model="amazon.nova-pro-v1:0")
    assert [message["role"] for message in view.messages] == ["user", "assistant", "user"]
    assert [(change.outcome, change.reason) for change in view.report.in_force] == [
        ("added", "the model wants the user to begin")
    ]
    claude = await Pipeline().prepare(messages, format="bedrock", model="us.anthropic.claude-opus-5-5")
    assert claude.messages[0] is messages[0]


@pytest.mark.parametrize(
    ("model", "severity"), [("anthropic.claude-3-5-sonnet-20240620-v1:0", "error"), ("amazon.nova-pro-v1:0", "warn")]
)
def test_older_models_want_turns(model, severity):
    """Two messages of the user in a row are refused by older models of Converse, and taken as one by later ones."""
    twice = [{"role": "user", "content": [{"text": word}]} for word in ("One?", "Two?")]
    found = validate({"messages": twice}, format="bedrock", model=model)
    assert [(each.rule, each.severity) for each in found] == [("br.alternate", severity)]


@pytest.mark.anyio
async def test_a_cut_leaves_no_two_messages_of_the_user_in_a_row_where_they_are_refused():
    """Where the answer between them goes, a word of the assistant stands for it."""
    said = (("user", "One?"), ("assistant", "1. " * 500), ("user", "Two?"), ("assistant", "2."), ("user", "Three?"))
    messages = [{"role": role, "content": [{"text": text}]} for role, text in said]
    pipeline = Pipeline(FitContextWindow(), budget=Budget(200))
    view = await pipeline.prepare(messages, format="bedrock", model="anthropic.claude-3-5-sonnet-20240620-v1:0")
    assert view.messages[1] == {"role": "assistant", "content": [{"text": "[no answer]"}]}
    assert [view.messages[0], *view.messages[2:]] == [messages[0], *messages[2:]]
