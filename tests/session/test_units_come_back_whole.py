"""What stands or falls together was left out as a whole, and comes back as a whole; late results bind no more."""

import pytest

from agentctx import Budget, FitContextWindow, Pack, Pipeline, TrimRounds, validate
from agentctx.testing import assistant, transcript, user

pytestmark = pytest.mark.anyio
FILL = "alpha beta gamma delta " * 20
STAGES = [FitContextWindow(), TrimRounds(1), Pack()]


def thought(number):
    """A reasoning item."""
    return {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "c2VjcmV0"}


def said(number, text):
    """An assistant's message with an id, which may not stand without the reasoning that led to it."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "id": f"msg_{number}", "status": "completed", "content": content}


def asked(number, **more):
    """A call with an id, which may not stand without the reasoning that led to it either."""
    call = {"type": "function_call", "id": f"fc_{number}", "call_id": f"c{number}", "name": "read", "arguments": "{}"}
    return {**call, **more}


def answered(number, text):
    """Its output."""
    return {"type": "function_call_output", "call_id": f"c{number}", "output": text}


def words(*turns):
    """Messages without ids."""
    return transcript("openai-responses", *turns)


def errors(view, history):
    """What the provider would refuse."""
    found = validate({"input": view.messages}, format="openai-responses", before={"input": history})
    return [str(each) for each in found]


async def walk(stage, tokens, *histories):
    """The last view of a session that was shown these histories, each checked."""
    session = Pipeline(stage, budget=Budget(tokens, target=0.3)).session(model="gpt-5.4", format="openai-responses")
    for history in histories:
        view = await session.prepare(history)
        assert errors(view, history) == []
    return view


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: type(stage).__name__)
@pytest.mark.parametrize(
    ("place", "item"),
    [(2, said(1, "[redacted]")), (5, asked(2, arguments='{"n": 1}')), (6, answered(2, "[redacted]"))],
    ids=["words", "call", "output"],
)
async def test_an_edit_of_what_was_left_out_brings_all_of_its_unit_back(stage, place, item):
    """An item that was left out with its reasoning and is edited later does not come back without it."""
    start = [*words(user("task")), thought(1), said(1, f"secret {FILL}"), *words(user("go on"))]
    before = [*start, thought(2), asked(2), answered(2, f"out {FILL}"), said(3, "fine"), *words(user(f"now {FILL}"))]
    edited = [*before[:place], item, *before[place + 1 :]]
    view = await walk(stage, 300, before, [*edited, said(9, "ok"), *words(user("next"))])
    assert item in view.messages


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: type(stage).__name__)
async def test_a_late_output_brings_the_reasoning_of_its_call_back(stage):
    """A call that was left out before its output came does not come back without the reasoning that led to it."""
    before = [*words(user("task"), assistant(FILL * 2), user(f"go {FILL * 2}")), thought(1), asked(1)]
    before += words(user("stop, something else"), assistant("fine"), user("latest " + "alpha beta " * 60))
    view = await walk(stage, 400, before, [*before, answered(1, "late")])
    assert {"fc_1", "rs_1"} <= {each.get("id") for each in view.messages}


BUSY = [turn for n in range(20) for turn in (asked(n), answered(n, f"{n} " + "line of a log " * 100), said(n, "next"))]


@pytest.mark.parametrize("behind", [0, 3])
async def test_a_background_tool_binds_nothing_of_what_stands_before_its_output(behind):
    """Call and late output stay or go without what stands between: as much fits as without them."""
    slow = [asked("slow", id=None) | {"id": "fc_slow"}, answered("slow", "the build is green")]
    more = words(*(turn for n in range(behind) for turn in (user(f"and {n}?"), assistant("x " * 50))), user("latest"))
    task, budget = words(user("task")), Budget(2_000)
    for pipeline in (Pipeline(FitContextWindow(), budget=budget), Pipeline(TrimRounds(3), budget=budget)):
        with_it, without = [
            await pipeline.prepare([*task, *first, *words(assistant("so")), *BUSY, *last, *more], model="gpt-5.4")
            for first, last in ((slow[:1], slow[1:]), ((), ()))
        ]
        assert len(with_it.messages) >= len(without.messages)
        assert errors(with_it, []) == []


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: type(stage).__name__)
@pytest.mark.parametrize("extra", [(), (user("and now?"),), (user("and now?"), assistant(FILL), user("again"))])
async def test_a_late_output_fits_where_call_and_output_do(stage, extra):
    """What stands between a call and its late output may go, in a session as without one."""
    between = words(user(f"stop {FILL * 2}"), assistant(FILL * 2), user(f"more {FILL * 2}"), assistant(FILL * 2))
    before = [*words(user("task")), thought(1), asked(1), *between, *words(user("latest"))]
    late = [*before, answered(1, "late"), *words(*extra)]
    for histories in ([before, late], [late]):
        view = await walk(stage, 400, *histories)
        assert view.report.tokens_after <= 400


async def test_an_open_round_after_a_late_output_is_read_again_with_it():
    """A round that waits for its results between a call and its late output costs that output nothing."""
    base = [*words(user("task")), asked(1), asked(2), answered(2, "two"), *words(assistant("so"))]
    open_round = [*base, asked(3), answered(1, "late")]
    view = await walk(FitContextWindow(), 4_000, open_round, [*open_round, answered(3, "three")])
    assert view.messages == [*open_round, answered(3, "three")]


async def test_a_thought_at_the_end_is_read_again_behind_a_late_output_of_a_call_that_was_left_out():
    """Reasoning that nothing follows yet is not lost where its round is open and a call before it was left out."""
    late = [*words(user("task"), assistant(FILL * 2), assistant(FILL * 2)), asked(1), asked(2), answered(2, FILL * 2)]
    late += [asked(3), asked(4), answered(1, FILL * 2), thought(5)]
    pipeline = Pipeline(TrimRounds(2), FitContextWindow(), budget=Budget(300, trigger=0.5, target=0.3))
    session = pipeline.session(model="gpt-5.4", format="openai-responses")
    await session.prepare(late)
    view = await session.prepare([*late, asked(5)])
    assert thought(5) in view.messages
    assert errors(view, late) == []
