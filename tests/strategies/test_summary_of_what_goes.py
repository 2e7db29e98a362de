"""Where a pipeline has a summarizer, what ``FitContextWindow`` leaves out is summed up behind the first task."""

import json
from itertools import pairwise

import pytest

from agentctx import (
    Budget,
    FitContextWindow,
    Outcome,
    Pack,
    Pipeline,
    Session,
    StageError,
    TrimRounds,
    over,
    validate,
    when,
)
from agentctx.marks import is_recap, recap_of
from agentctx.presets import coding_agent
from agentctx.strategies import Summarize
from agentctx.strategies.drop_units import Tiered
from agentctx.testing import assistant, call, result, transcript, user

pytestmark = pytest.mark.anyio
FORMATS = ["openai-chat", "openai-responses", "anthropic", "gemini", "bedrock"]
MODES = ["at once", "full", "rolling", "load"]
BUDGET = Budget(4_000, trigger=0.9, target=0.4)


def summary_count(message):
    """For how many messages it stands; 0 when it is no recap."""
    return recap_of(message).messages if is_recap(message) else 0


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
        turns += [
            assistant(f"{place} " * words, call(f"call_{place}", "read", {"n": place})),
            result(f"call_{place}", "ok"),
        ]
    return turns


def said(view):
    """Where the summaries of a view stand, with their texts."""
    messages = view.context.messages
    return [(place, message.text) for place, message in enumerate(messages) if summary_count(message)]


async def test_an_empty_summary_without_a_fallback_costs_nothing(preparing):
    """It is a failed one: the stage leaves nothing out for it, says so, and the request fits all the same."""

    async def nothing(_messages, _max_tokens):
        return " "

    messages = transcript("openai-chat", *rounds(30))
    view = await preparing(Pipeline(Summarize(nothing, fallback=None), budget=Budget(1_000)), "openai-chat")(messages)
    [stage] = [stage for stage in view.report.stages if stage.stage == "Summarize"]
    assert not stage.changes
    assert stage.notes == ("the summary was empty; nothing was left out",)
    assert view.report.tokens_after <= 1_000
    view = await preparing(Pipeline(Summarize(nothing), budget=Budget(1_000)), "openai-chat")(messages)
    assert any("the summary was empty" in note for stage in view.report.stages for note in stage.notes)


async def walked(format_name, mode, summarizer, number=60):
    """The views of a conversation with a summarizer: in full, written back, or loaded after each step."""
    pipeline = Pipeline(FitContextWindow(), budget=BUDGET, summarizer=summarizer)
    return await stepped(pipeline, format_name, mode, transcript(format_name, *rounds(number)))


async def stepped(pipeline, format_name, mode, whole):
    """The views of a conversation that grows by two messages a step; "at once" is without a session."""
    session, views, given = pipeline.session(format=format_name, model="gpt-5.4"), [], []
    for stop in range(1, len(whole) + 1, 2):
        given = [*given, *whole[max(0, stop - 2) : stop]]
        if mode == "at once":
            views.append(await pipeline.prepare(given, format=format_name, model="gpt-5.4"))
            continue
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
    assert all(summary_count(messages[0]) for messages in told[1:])  # what the last one said is told to the next
    left_out = sum(sum(not summary_count(message) for message in messages) for messages in told)
    assert summary_count(cuts[-1].context.messages[said(cuts[-1])[0][0]]) == left_out


async def test_the_report_names_what_the_summary_stands_for():
    """What went is summarised, the summary is added, and the sum of both is what came out."""
    view = await Pipeline(FitContextWindow(), budget=Budget(2_000), summarizer=Telling()).prepare(
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
    [(wordless, "was empty"), (wrong, "dict instead of text"), (failing, "down"), (plain, "not async")],
)
async def test_a_summarizer_that_fails_costs_nothing(summarizer, why):
    """The cut is made without a summary, and the report says why there is none."""
    messages = transcript("openai-chat", *rounds(30))
    view = await Pipeline(FitContextWindow(), budget=Budget(2_000), summarizer=summarizer).prepare(
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
            summary_count(view.context.messages[place]) for place, _ in standing
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
    pipeline = Pipeline(FitContextWindow(), budget=Budget(2_000), summarizer=summarizer)
    sent = [message["content"] for message in (await preparing(pipeline, "openai-chat")(messages)).messages]
    assert first in sent
    assert last in sent


async def test_a_summary_that_is_too_long_is_cut():
    """To a tenth of what the cut comes down to."""

    async def chatty(_messages, _most):
        return "and then " * 600

    messages = transcript("openai-chat", *rounds(30))
    view = await Pipeline(FitContextWindow(), budget=Budget(2_000), summarizer=chatty).prepare(
        messages, format="openai-chat"
    )
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


def chat():
    """A task, a few long answers, then many short ones: whoever keeps the last rounds comes down far enough."""
    turns = [user("the task")]
    for place in range(36):
        turns += [assistant(f"{place} " * (2_000 if place == 5 else 250 if place < 5 else 60)), user(f"go on {place}")]
    return turns


FIT, TRIM = FitContextWindow(), TrimRounds(6)
NESTED = {
    "a stage before it": lambda told: Pipeline(TRIM, FIT, budget=BUDGET, summarizer=told),
    "a stage behind it": lambda told: Pipeline(Pipeline(when(over(0.85), FIT), summarizer=told), TRIM, budget=BUDGET),
    "another cut behind it": lambda told: Pipeline(
        Pipeline(FIT, budget=BUDGET, summarizer=told), FitContextWindow(Budget(1_900)), budget=Budget(4_000)
    ),
    "the guarantee": lambda told: Pipeline(
        Pipeline(when(over(0.85), FIT), budget=BUDGET, summarizer=told), budget=Budget(2_500)
    ),
    "the worth of rounds": lambda told: Pipeline(
        Pipeline(FIT, budget=BUDGET, summarizer=told),
        Pack("recent", keep_last=2, max_tokens=1_500),
        budget=Budget(4_000),
    ),
    "its tier": lambda told: Pipeline(
        Pipeline(FIT, budget=BUDGET, summarizer=told), Tiered(max_tokens=1_500), budget=Budget(4_000)
    ),
}


TAKEN = [
    (FORMATS[(row + column) % len(FORMATS)], mode, taken_by)
    for row, mode in enumerate(MODES)
    for column, taken_by in enumerate(NESTED)
]
"""Each mode with whatever leaves something out, and with each format."""


@pytest.mark.parametrize(("format_name", "mode", "taken_by"), TAKEN)
async def test_a_summary_stays_whatever_else_is_left_out(format_name, mode, taken_by):
    """Only a stage that summarises replaces it: whatever is said to be in a summary is in the one that is there.

    It counts exactly what is gone, whichever stage has left that out.
    """
    summarizer = Telling()
    pipeline = NESTED[taken_by](summarizer)
    stood = False
    for view in await stepped(pipeline, format_name, mode, transcript(format_name, *chat())):
        standing = [summary_count(message) for message in view.context.messages if summary_count(message)]
        within = sum(change.outcome is Outcome.SUMMARISED for change in view.report.in_force)
        gone = sum(change.is_gone and change.stage != "RepairHistory" for change in view.report.in_force)
        assert len(standing) <= 1
        assert standing or not (within or (stood and mode == "rolling"))
        assert mode == "rolling" or within <= sum(standing)
        assert mode == "rolling" or not standing or standing == [gone]
        stood = bool(standing)
    assert summarizer.asked or mode == "at once"


async def cutting(context, _call):
    """A stage that keeps the first and the last message, whatever stands between."""
    return context.with_messages((context.messages[0], context.messages[-1]))


async def test_a_stage_that_drops_a_summary_is_refused():
    """As one that drops the task; the error says what it dropped."""
    pipeline = Pipeline(Pipeline(FIT, summarizer=Telling()), cutting, budget=BUDGET)
    with pytest.raises(StageError, match=r"cutting.* dropped the recap"):
        await pipeline.prepare(transcript("openai-chat", *chat()), format="openai-chat")


@pytest.mark.parametrize("mode", ["at once", "full", "rolling", "load"])
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_summary_of_half_a_character_can_be_sent(format_name, mode):
    """A lone surrogate, as cutting by UTF-16 units leaves it, is sent as the character that stands for none."""

    async def halved(_messages, _most):
        return "they read a\ud83d"

    pipeline = Pipeline(FIT, budget=BUDGET, summarizer=halved)
    views = await stepped(pipeline, format_name, mode, transcript(format_name, *chat()))
    assert any(map(said, views))
    for view in views:
        json.dumps([view.messages, view.system], ensure_ascii=False).encode()
        assert all(text.endswith("they read a\ufffd") for _, text in said(view))


WITHOUT_WORDS = [
    (format_name, mode, (wordless, failing, wrong)[(row + column) % 3])
    for row, format_name in enumerate(FORMATS)
    for column, mode in enumerate(MODES)
]
"""Each format in each mode, each of them with each way to say nothing."""


@pytest.mark.parametrize(("format_name", "mode", "summarizer"), WITHOUT_WORDS)
async def test_without_its_words_what_is_sent_is_what_would_be_without_a_summarizer(format_name, mode, summarizer):
    """The room that was kept for a summary is given back when there is none."""
    whole = transcript(format_name, *chat())
    with_one = await stepped(Pipeline(FIT, budget=BUDGET, summarizer=summarizer), format_name, mode, whole)
    without = await stepped(Pipeline(FIT, budget=BUDGET), format_name, mode, whole)
    assert [view.messages for view in with_one] == [view.messages for view in without]
    assert [view.report.in_force for view in with_one] == [view.report.in_force for view in without]


@pytest.mark.parametrize("mode", ["at once", "full", "rolling", "load"])
async def test_a_later_failure_leaves_what_would_be_there_without_a_summarizer_then(mode):
    """The summary that stands there is kept as the task is, and the cut is made around it."""
    telling = Telling()

    async def once(messages, most):
        return await telling(messages, most) if not telling.asked else ""

    views = await stepped(
        Pipeline(FIT, budget=BUDGET, summarizer=once), "openai-chat", mode, transcript("openai-chat", *chat())
    )
    if mode != "at once":
        first = next(place for place, view in enumerate(views) if said(view))
        words = [[text.partition("\n")[2] for _, text in said(view)] for view in views[first:]]
        assert len(words[0]) == 1
        assert all(each == words[0] for each in words)
        for view in views[first:] if mode != "rolling" else ():  # while the number above them is true
            [count] = filter(None, map(summary_count, view.context.messages))
            assert count == sum(change.is_gone for change in view.report.in_force)
    assert all(view.report.tokens_after <= BUDGET.limit for view in views)


@pytest.mark.parametrize(
    ("format_name", "mode"),
    [*((format_name, "full") for format_name in FORMATS), ("openai-chat", "at once"), ("anthropic", "load")],
)
async def test_a_summary_counts_what_the_caller_passed(format_name, mode):
    """A result that repair made for a call without one is no earlier message of the caller's."""
    turns = rounds(60)
    lost = [turn for place, turn in enumerate(turns) if place % 6 != 4]  # the result of every third call
    whole = transcript(format_name, *lost)
    views = await stepped(Pipeline(FIT, budget=BUDGET, summarizer=Telling()), format_name, mode, whole)
    assert any(map(said, views))
    for view in views:
        within = sum(change.outcome is Outcome.SUMMARISED for change in view.report.in_force)
        assert within == sum(map(summary_count, view.context.messages))
