"""The order of what goes holds in every stage that cuts: what the caller prefers goes after what nobody prefers."""

import json

import pytest
from hypothesis import given, settings, strategies as st

from agentctx import (
    Budget,
    ClearToolResults,
    FitContextWindow,
    Ledger,
    Pack,
    Pipeline,
    Protect,
    Tiered,
    TrimRounds,
    blocking,
)
from agentctx.marks import recap_of
from agentctx.presets import thrifty
from agentctx.strategies import DropTail, TruncateOldest, trail_in
from agentctx.testing import assistant, call, result, transcript, user

FORMATS = ("openai-chat", "openai-responses", "anthropic", "gemini", "bedrock")
MODELS = dict(
    zip(FORMATS, ("gpt-4o", "gpt-4o", "claude-sonnet-4-5", "gemini-2.5-pro", "claude-sonnet-4-5"), strict=True)
)
OBEYING = {
    "ClearToolResults": lambda budget: Pipeline(ClearToolResults(2), FitContextWindow(), budget=budget),
    "Pack": lambda budget: Pipeline(Pack("hybrid"), budget=budget),
    "Pack, shortening": lambda budget: Pipeline(Pack("compression"), budget=budget),
    "Tiered": lambda budget: Pipeline(Tiered(), budget=budget),
    "TrimRounds": lambda budget: Pipeline(TrimRounds(3), budget=budget),
    "thrifty": lambda budget: thrifty(budget=budget),
}


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(FORMATS),
    st.sampled_from(sorted(OBEYING)),
    st.sampled_from(["stateless", "session"]),
    st.integers(0, 6),
)
def test_a_preferred_result_stays_while_another_could_go(format_name, stage, mode, place):
    """Where it stands does not matter, nor whether a session has cut before."""
    turns = [user("Task: go")]
    for number in range(12):
        name, said = ("plan", "PLAN") if number == place else ("read", f"RES{number}")
        turns += [assistant(call(f"c{number}", name)), result(f"c{number}", f"{said} " + "words " * 130)]
        turns += [assistant("done"), user(f"rule {number}")]
    messages = transcript(format_name, *turns, assistant("ok"), user("go on"))
    made = OBEYING[stage](Budget(1_500))
    pipeline = Pipeline(*made.stages, budget=made.budget, protect=[Protect.prefer(Protect.tools("plan"))])
    if mode == "session":
        session = pipeline.session(format=format_name, model=MODELS[format_name])
        for stop in range(5, len(messages), 8):
            blocking(session.prepare, messages[:stop])
        view = blocking(session.prepare, messages)
    else:
        view = blocking(pipeline.prepare, messages, format=format_name, model=MODELS[format_name])
    sent = json.dumps(view.messages)
    assert "PLAN words words" in sent
    assert any(f"RES{number} words words" not in sent for number in range(12) if number != place)


CUTTING = {
    "Pack": Pack("hybrid"),
    "Pack, the newest": Pack("recent"),
    "Tiered": Tiered(),
    "TruncateOldest": TruncateOldest(),
    "DropTail": DropTail(),
    "TrimRounds": TrimRounds(4),
}


@pytest.mark.parametrize(("stage", "format_name"), list(zip(CUTTING, (*FORMATS, "openai-chat"), strict=True)))
@pytest.mark.parametrize("mode", ["stateless", "session"])
def test_a_cut_leaves_room_for_what_tells_of_it(stage, format_name, mode):
    """Whatever stage cuts, the recap behind it names every file that was written."""
    turns = [user("Task: go")]
    for number in range(24):
        write = call(f"c{number}", "write_file", {"path": f"src/part{number}.py", "content": "x"})
        turns += [assistant(f"A{number}", write), result(f"c{number}", "ok " * (200 if number % 3 else 5))]
        turns += [assistant("done"), user(f"USER{number} " + "and so on " * (number % 2 or 40))]
    messages = transcript(format_name, *turns, assistant("ok"), user("go on"))
    pipeline = Pipeline(CUTTING[stage], Ledger(), budget=Budget(2_000))
    prepare = pipeline.session(format=format_name).prepare if mode == "session" else pipeline.prepare
    options = {} if mode == "session" else {"format": format_name}
    view = blocking(prepare, messages, **options)
    [recap] = [recap for recap in map(recap_of, view.context.messages) if recap is not None]
    named, sent = trail_in(recap.written().text).files, json.dumps(view.messages)
    assert all(f"src/part{number}.py" in named or f"src/part{number}.py" in sent for number in range(24))
    assert view.report.tokens_after <= 2_000
