"""Files that were changed are named as long as there is room, also after steps in which there was none."""

import json
import random

import pytest

from agentctx import Budget, ContextOverflow, FitContextWindow, Ledger, Pipeline, Session, Tiered
from agentctx.engine.reading import reader
from agentctx.marks import recap_of
from agentctx.presets import coding_agent
from agentctx.strategies import trail_in
from agentctx.strategies.ledger import TRAIL
from agentctx.testing import assistant, call, result, transcript, user

pytestmark = pytest.mark.anyio

FORMAT = "openai-chat"
NAME = 16
"""At most so many tokens a name takes."""


def working(seed, window, files=8):
    """A task in which files are written, of which some leave little room, with the paths by index."""
    rng = random.Random(seed)  # noqa: S311 - the same task every time
    turns, paths = [user("Mend the build.")], {}
    for at in range(files):
        path = f"src/component_{at * 37 % 101}/module_{at}.py"
        content = "text of it " * rng.randrange(5, window // 8)
        paths[len(turns)] = path
        turns += [assistant(call(f"c{at}", "write", {"path": path, "content": content})), result(f"c{at}", "written")]
        if rng.random() < 0.4:
            log = "a line of a log\n" * rng.randrange(5, window // 3)
            turns += [assistant(call(f"d{at}", "bash", {"command": "make"})), result(f"d{at}", log)]
        if rng.random() < 0.3:
            more = "please " * rng.randrange(window // 6)
            turns += [assistant("Done. " * rng.randrange(40)), user(f"Go on. {more}")]
    return transcript(FORMAT, *turns, assistant("Done."), user("Which files did you change?")), paths


def made(kind, window):
    """A pipeline with a ledger."""
    if kind == "preset":
        return coding_agent(Budget(window), "gpt-4o")
    return Pipeline(FitContextWindow(), Ledger(), budget=Budget(window))


def left_out(view):
    """How many files the recap counts that it does not name."""
    messages = reader(view.messages, format=FORMAT).messages(view.messages)
    told = [recap.sections.get(TRAIL, "") for each in messages if (recap := recap_of(each)) is not None]
    return sum(trail_in(text).left_out for text in told)


TIGHT = [("plain", 400, 49), ("plain", 500, 32), ("plain", 700, 18), ("plain", 900, 78), ("preset", 900, 87)]


@pytest.mark.parametrize("mode", ["history", "written back", "loaded"])
@pytest.mark.parametrize(("kind", "window", "seed"), TIGHT)
async def test_each_changed_file_is_named_where_there_is_room_and_counted_where_there_is_none(kind, window, seed, mode):
    """Also one that a tight step had no room for: the next cut that has room names it again."""
    (messages, paths), pipeline = working(seed, window), made(kind, window)
    session, shown, passed, cuts = pipeline.session(model="gpt-4o"), [], 0, 0
    for end in range(1, len(messages) + 1):
        if messages[end - 1]["role"] == "assistant":
            continue
        shown, passed = [*shown, *messages[passed:end]], end
        try:
            view = await session.prepare(shown)
        except ContextOverflow:
            continue
        text = json.dumps(view.messages)
        missing = [path for at, path in paths.items() if at < end and path.rpartition("/")[2] not in text]
        assert ".py x" not in text  # each was written once
        free = window - view.report.tokens_after
        if view.report.first_changed is not None:
            cuts += 1
            assert free < NAME * (len(missing) + 1) or not missing
        assert len(missing) <= left_out(view) or free < NAME
        if mode == "written back":
            shown = list(view.messages)
        elif mode == "loaded":
            session = Session.load(pipeline, json.loads(json.dumps(session.dump())))
    assert cuts


async def test_a_state_remembers_names_without_room_and_forgets_them_once_they_are_told():
    """What the recap says is kept nowhere else; going back takes with it what was left out since."""
    messages, paths = working(18, 700)
    pipeline, known = made("plain", 700), []
    session = pipeline.session(model="gpt-4o")
    for end in range(1, len(messages) + 1):
        if messages[end - 1]["role"] != "assistant":
            await session.prepare(messages[:end])
            known.append(session.dump()["record"]["unsaid"]["now"])
            if known[-1]:
                back, least = Session.load(pipeline, session.dump()), list(paths)[2]
                view = await back.prepare([*messages[: least + 2], {"role": "user", "content": "Another way."}])
                assert all(path not in str(view.messages) for at, path in paths.items() if at > least)
                assert not any(
                    path in back.dump()["record"]["unsaid"]["now"] for at, path in paths.items() if at > least
                )
    assert any("module_" in text for text in known)
    assert known[-1] == ""


async def test_what_a_recap_named_that_gave_way_is_named_again():
    """In a step where the ledger has nothing new to tell, and the recap goes: at the next cut it is known still."""
    messages, paths = working(51, 200)
    session, view = Pipeline(Tiered(), Ledger(), budget=Budget(200)).session(model="gpt-4o"), None
    for end in [at for at in range(1, 18) if messages[at - 1]["role"] != "assistant"]:
        try:
            view = await session.prepare(messages[:end])
        except ContextOverflow:
            continue
    missing = [path for at, path in paths.items() if at < 17 and path.rpartition("/")[2] not in str(view.messages)]
    assert len(missing) <= left_out(view)
