"""Whatever goes, what then stands side by side may follow each other: legal in, legal out, at every budget."""

import pytest

from agentctx import Budget, ContextOverflow, FitContextWindow, Pack, Pipeline, Session, Tiered, count, validate

pytestmark = pytest.mark.anyio

GEMINI, STRICT = ("gemini", "gemini-2.5-pro"), ("openai-chat", "mistral-large-latest")
STAGES = {
    "recent": lambda: Pack("recent", keep_last=1),
    "hybrid": lambda: Pack("hybrid", keep_last=1),
    "window": FitContextWindow,
    "tiered": Tiered,
}


def gemini(*said):
    """Contents: what the user says, what the model says (``:``), and calls (``!``) with what the tool says."""
    contents = []
    for each in said:
        if each[0] == "!":
            contents.append({"role": "model", "parts": [{"functionCall": {"name": "bash", "args": {}}}]})
            response = {"name": "bash", "response": {"output": each[1:]}}
            contents.append({"role": "user", "parts": [{"functionResponse": response}]})
        else:
            contents.append({"role": "model" if each[0] == ":" else "user", "parts": [{"text": each.lstrip(":")}]})
    return contents


def chat(*said):
    """The same as messages of Chat Completions."""
    messages = []
    for place, each in enumerate(said):
        name = f"call{place:05}"
        if each[0] == "!":
            call = {"id": name, "type": "function", "function": {"name": "bash", "arguments": "{}"}}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": name, "name": "bash", "content": each[1:]})
        else:
            messages.append({"role": "assistant" if each[0] == ":" else "user", "content": each.lstrip(":")})
    return messages


SAID = ("first task: mend the build", ":done with the first thing", "now the second " + "thing " * 60, "!" + "R " * 60)
SAID += ("!short", ":all done", "and now?")


def wrong(view, model):
    """What the provider would refuse."""
    key, name = ("contents", "gemini") if model.startswith("gemini") else ("messages", "openai-chat")
    return [e for e in validate({"model": model, key: view.messages}, format=name) if e.severity == "error"]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    ("kind", "history"), [(GEMINI, gemini(*SAID)), (STRICT, chat(*SAID))], ids=["gemini", "strict"]
)
async def test_what_follows_after_a_cut_is_legal(stage, kind, history):
    """Of a legal history comes a legal view within the budget, whatever went, stateless and in sessions."""
    name, model = kind
    full = count(history, model=model, format=name)
    sent = 0
    for window in range(40, full, 16):
        pipeline = Pipeline(STAGES[stage](), budget=Budget(window))
        try:
            view = await pipeline.prepare(history, format=name, model=model)
        except ContextOverflow:
            continue
        sent += 1
        assert wrong(view, model) == []
        assert count(view.messages, model=model, format=name) <= window
        session = pipeline.session(format=name, model=model)
        held = await session.prepare(history)
        assert wrong(held, model) == []
        loaded = Session.load(pipeline, session.dump())
        for again in (session, loaded):
            back = await again.prepare([*held.messages])
            assert back.messages == held.messages
    assert sent
