"""Where a pipeline has a summarizer, what ``FitContextWindow`` leaves out is summed up behind the first task."""

import json
from itertools import pairwise

import pytest

from agentctx import Budget, FitContextWindow, Outcome, Pipeline, Session, validate
from agentctx.core.protection import summed_up
from agentctx.presets import coding_agent
from agentctx.testing import assistant, call, result, transcript, user

pytestmark = pytest.mark.anyio
FORMATS = ["openai-chat", "openai-responses", "anthropic", "gemini", "bedrock"]
BUDGET = Budget(4_000, trigger=0.9, target=0.4)


class Telling:
    """A summarizer that tells how many messages it was given, and remembers them."""

    def __init__(self):
        self.asked = []

    async def __call__(self, messages, max_tokens):
        self.asked.append((list(messages), max_tokens))
        return f"{len(messages)} messages, summary {len(self.asked)}."


def rounds(number, words=120):
    """A task, and rounds with long outputs."""
    turns = [user("the task")]
    for place in range(number):
        turns += [assistant(call(f"call_{place}", "read", {"n": place})), result(f"call_{place}", f"{place} " * words)]
    return turns


def said(view):
    """Where the summaries of a view stand, with their texts."""
    messages = view.context.messages
    return [(place, message.text) for place, message in enumerate(messages) if summed_up(message)]


async def walked(format_name, mode, summarizer, number=60):
    """The views of a conversation with a summarizer: in full, written back, or loaded after each step."""
    pipeline = Pipeline(FitContextWindow(), budget=BUDGET, summarizer=summarizer)
    session, shown, views = pipeline.session(format=format_name, model="gpt-5.4"), 0, []
    given, whole = [], transcript(format_name, *rounds(number))
    while shown < len(whole):
        given, shown = [*given, *whole[shown : shown + 2]], shown + 2
        views.append(await session.prepare(given))
        if mode == "rolling":
            given = list(views[-1].messages)
        elif mode == "load":
            session = Session.load(pipeline, json.loads(json.dumps(session.dump())))
    return views


@pytest.mark.parametrize("mode", ["full", "rolling", "load"])
@pytest.mark.parametrize("format_name", FORMATS)
async def test_one_summary_behind_the_task_is_replaced_at_each_cut(format_name, mode):
    """It counts all that it stands for, is legal, within the target, in the report, and the same between two cuts."""
    summarizer = Telling()
    views = await walked(format_name, mode, summarizer)
    cuts = [view for view in views if any(stage.stage == "FitContextWindow" for stage in view.report.stages)]
    assert len(cuts) == len(summarizer.asked) >= 3
    for number, view in enumerate(cuts, 1):
        [(place, text)] = said(view)
        assert view.context.messages[place - 1].text == "the task"
        assert text.endswith(f"summary {number}.")
        assert view.report.tokens_after <= BUDGET.target_tokens
        request = {"messages": view.messages, "system": view.system}
        assert not [found for found in validate(request, format=format_name) if found.severity == "error"]
    for before, after in pairwise(views):
        assert after in cuts or said(before) == said(after)
    told = [messages for messages, _ in summarizer.asked]
    assert all(summed_up(messages[0]) for messages in told[1:])  # what the last one said is told to the next
    left_out = sum(sum(not summed_up(message) for message in messages) for messages in told)
    assert summed_up(cuts[-1].context.messages[said(cuts[-1])[0][0]]) == left_out


async def test_the_report_names_what_the_summary_stands_for():
    """What went is summarised, the summary is added, and the sum of both is what came out."""
    view = await Pipeline(FitContextWindow(), budget=2_000, summarizer=Telling()).prepare(
        transcript("openai-chat", *rounds(30)), format="openai-chat"
    )
    fates = view.report.in_force
    gone = [change for change in fates if change.outcome is Outcome.SUMMARISED]
    added = [change for change in fates if change.outcome is Outcome.ADDED]
    assert len(gone) - len(added) == view.report.messages_before - view.report.messages_after
    assert f"stands for {len(gone)} messages" in added[0].reason


async def wordless(_messages, _most):
    """A summarizer that says nothing."""
    return " \n"


async def wrong(_messages, _most):
    """A summarizer that returns no text."""
    return {"text": "x"}


async def failing(_messages, _most):
    """A summarizer that raises."""
    raise OSError(-1, "down")


def plain(_messages, _most):
    """A summarizer that is not async."""
    return "x"


@pytest.mark.parametrize(
    ("summarizer", "why"),
    [(wordless, "gave none"), (wrong, "dict instead of text"), (failing, "down"), (plain, "not async")],
)
async def test_a_summarizer_that_fails_costs_nothing(summarizer, why):
    """The cut is made without a summary, and the report says why there is none."""
    messages = transcript("openai-chat", *rounds(30))
    view = await Pipeline(FitContextWindow(), budget=2_000, summarizer=summarizer).prepare(
        messages, format="openai-chat"
    )
    assert not said(view)
    assert view.report.tokens_after <= 2_000
    assert why in " ".join(note for stage in view.report.stages for note in stage.notes)


@pytest.mark.parametrize("mode", ["full", "rolling", "load"])
async def test_a_summary_outlives_a_summarizer_that_fails_later(mode):
    """What it stands for stays said, and the next one that is made takes it in."""
    telling = Telling()

    async def moody(messages, most):
        made = await telling(messages, most)
        return "" if len(telling.asked) % 2 == 0 else made

    before = None
    for view in await walked("openai-chat", mode, moody, number=100):
        standing = said(view)
        assert len(standing) == (before is not None or bool(standing))
        assert sum(change.outcome is Outcome.SUMMARISED for change in view.report.in_force) <= sum(
            summed_up(view.context.messages[place]) for place, _ in standing
        )
        before = standing or None
    number = len(telling.asked)
    assert number > 5
    assert telling.asked[-1][0][0].text.endswith(f"summary {number - 1 - number % 2}.")  # the last that was said


@pytest.mark.parametrize("summarizer", [None, Telling()])
async def test_words_of_the_user_that_look_like_a_summary_are_the_user_s(summarizer, preparing):
    """As the first task and as the latest words: what the user said is not ours to leave out."""
    first, last = "[Summary of 3 earlier messages, 0a1b2c3d]\nmine", "[Summary of 9 earlier messages]\nmine, too"
    messages = transcript("openai-chat", user(first), *rounds(30)[1:], user(last), *rounds(30)[1:])
    pipeline = Pipeline(FitContextWindow(), budget=2_000, summarizer=summarizer)
    sent = [message["content"] for message in (await preparing(pipeline, "openai-chat")(messages)).messages]
    assert first in sent
    assert last in sent


async def test_a_summary_that_is_too_long_is_cut():
    """To a tenth of what the cut comes down to."""

    async def chatty(_messages, _most):
        return "and then " * 10_000

    messages = transcript("openai-chat", *rounds(30))
    view = await Pipeline(FitContextWindow(), budget=2_000, summarizer=chatty).prepare(messages, format="openai-chat")
    [(_place, text)] = said(view)
    assert 100 < len(text) < 2_000
    assert view.report.tokens_after <= 2_000


async def test_a_preset_within_asks_the_summarizer_around_it():
    """The pipeline's summarizer holds for the stages of one within it."""
    pipeline = Pipeline(coding_agent(Budget(4_000)), summarizer=Telling())
    view = await pipeline.prepare(transcript("openai-chat", *rounds(200)), format="openai-chat")
    assert len(said(view)) == 1


async def test_what_the_user_said_last_stays_though_a_summary_stands_there():
    """A summary is not taken for the user's latest words, nor for the task."""
    messages = transcript(
        "openai-chat", *rounds(20), user("the last words"), *rounds(20, 200)[1:], user("and now this"), *rounds(9)[1:]
    )
    session = Pipeline(FitContextWindow(), budget=BUDGET, summarizer=Telling()).session(format="openai-chat")
    for stop in range(2, len(messages) + 1, 2):
        view = await session.prepare(messages[:stop])
        spoken = [message["content"] for message in messages[:stop] if message["role"] == "user"]
        sent = [message["content"] for message in view.messages if message["role"] == "user"]
        assert spoken[0] == sent[0]
        assert spoken[-1] in sent
