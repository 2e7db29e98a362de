"""What the model has just asked for is not cut while there is room: of the newest round with results all is there."""

import json

import pytest
from histories import FORMATS
from hypothesis import given, settings, strategies as st

from agentctx import Budget, ClearToolResults, ContextOverflow, FitContextWindow, Pipeline, Session, blocking, count
from agentctx.presets import assistant as for_people, coding_agent, general, thrifty
from agentctx.strategies import ShrinkArguments
from agentctx.testing import assistant, call, result, transcript, user
from agentctx.unit import always, has_user_words

MODELS = dict(
    zip(FORMATS, ("gpt-5.4", "gpt-5.4", "claude-sonnet-4-5", "gemini-2.5-pro", "claude-sonnet-4-5"), strict=True)
)
PRESETS = {"coding_agent": coding_agent, "thrifty": thrifty, "assistant": for_people, "general": general}
READER = Pipeline()
CUTS = {"FitContextWindow", "FitGuarantee", "ClearToolResults", "ShrinkArguments"}


@st.composite
def conversations(draw):
    """Steps of a conversation: rounds that write and read files, some of them answered by the user."""
    steps, sizes = [[user("TASK: mend it")]], st.sampled_from([3, 40, 150, 400])
    for number in range(draw(st.integers(1, 9))):
        ids = [f"c{number}_{place}" for place in range(draw(st.sampled_from([1, 2, 3, 8])))]
        text = [" ".join(f"w{number}_{word}" for word in range(draw(sizes) // len(ids))) for _ in ids]
        told = [" ".join(f"r{number}_{word}" for word in range(draw(sizes) // len(ids))) for _ in ids]
        calls = [
            call(name, "write_file", {"path": f"m{name}.py", "content": said})
            for name, said in zip(ids, text, strict=True)
        ]
        step = [assistant(*calls), *(result(name, f"written {said}") for name, said in zip(ids, told, strict=True))]
        steps.append(step + ([assistant("ok then"), user(f"U{number} go on")] if draw(st.booleans()) else []))
    return [*steps, [assistant("done"), user("and now?")]]


def views(preset, steps, format_name, mode):
    """Each view of a conversation, and what was passed for it."""
    pipeline, model, shown, known = preset, MODELS[format_name], [], 0
    session = pipeline.session(format=format_name, model=model)
    for stop in range(1, len(steps) + 1):
        history = transcript(format_name, *(turn for step in steps[:stop] for turn in step))
        passed = [*shown, *history[known:]] if mode == "views written back" else history
        try:
            if mode == "stateless":
                view = blocking(pipeline.prepare, passed, format=format_name, model=model)
            else:
                view = blocking(session.prepare, passed)
        except ContextOverflow:
            return
        yield view, passed
        shown, known = list(view.messages), len(history)
        if mode == "loaded":
            session = Session.load(pipeline, json.loads(json.dumps(session.dump())))


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(FORMATS),
    st.sampled_from(sorted(PRESETS)),
    conversations(),
    st.integers(2_500, 6_000),
    st.sampled_from(["stateless", "session", "views written back", "loaded"]),
)
def test_nothing_of_the_newest_round_goes_while_there_is_room(format_name, preset, steps, window, mode):
    """It is cut where it takes more than half of what the protected and the user's words leave, or all does not fit."""
    for view, passed in views(PRESETS[preset](Budget(window)), steps, format_name, mode):
        cuts = [each for each in view.report.in_force if each.stage in CUTS and each.outcome.value != "added"]
        if not cuts:
            continue
        read = blocking(READER.prepare, passed, format=format_name).context.messages
        assert len(read) == len(passed)
        answers = [place for place, message in enumerate(read) if message.results]
        if not answers:
            continue
        first = next(place for place in range(answers[-1], -1, -1) if read[place].calls)
        while first and read[first - 1].calls:  # one item each in some formats
            first -= 1
        newest = range(first, answers[-1] + 1)
        cuts = [each for each in cuts if each.index in newest]
        if not cuts:
            continue
        taken = sum(each.tokens_before - each.tokens_after for each in cuts)
        size = count([passed[place] for place in newest], format=format_name, model=MODELS[format_name])
        staying = always(read) | {place for place, each in enumerate(read) if has_user_words(each)}
        stays = count([passed[place] for place in staying], format=format_name, model=MODELS[format_name])
        assert view.report.tokens_after + taken > window or 2 * size > window - stays, cuts


def writing(name, written, told):
    """A round in which eight files are written side by side, and of each is said what it is now."""
    ids = [f"{name}{number}" for number in range(8)]
    calls = [call(each, "write_file", {"path": f"{each}.py", "content": "a line of code " * written}) for each in ids]
    return [assistant(*calls), *(result(each, f"{each}: " + "written " * told) for each in ids)]


@pytest.mark.parametrize(
    ("cutting", "old"),
    [
        pytest.param(ClearToolResults(2), writing("old", 100, 3), id="results"),
        pytest.param(ShrinkArguments(2), writing("old", 3, 300), id="arguments"),
    ],
)
def test_a_round_of_many_calls_is_one(cutting, old):
    """Of calls that ran side by side none is older than another, however many results a stage was told to keep."""
    turns = user("TASK"), *old, assistant("ok"), *writing("new", 30, 90), assistant("done"), user("and now?")
    history = transcript("openai-chat", *turns)
    newest = history[11:20]
    window = count([history[0], history[-1]]) + 2 * count(newest) + 50
    assert window < count(history)
    view = blocking(Pipeline(cutting, FitContextWindow(), budget=Budget(window)).prepare, history)
    assert view.messages[-11:-2] == newest
    assert view.report.changes
