"""Whole rounds that go, long outputs that are cut, and windows that are kept to."""

import json

import pytest

from agentctx import (
    Budget,
    Call,
    ClearToolResults,
    CollapseRepeats,
    ConfigError,
    ContextOverflow,
    FitContextWindow,
    Pack,
    Pipeline,
    Protect,
    TrimRounds,
    TruncateToolOutputs,
    units,
)
from agentctx.stores import MemoryStore
from agentctx.testing import CountingCounter, Recorder, assistant, call, result, system, transcript, user
from agentctx.tokens import FixedCounter, HeuristicCounter
from agentctx.tokens.counting import MessageMeter

pytestmark = pytest.mark.anyio

MARKER = "...[truncated]"


def a_round(number, output="ok", words=()):
    """A round of the tool-using agent."""
    return assistant(*words, call(f"c{number}", "look", {"n": number})), result(f"c{number}", output)


def rounds(count, *, first=(), output="ok"):
    """System prompt, task and so many rounds."""
    turns = [system("be brief"), *first, user("the task")]
    for number in range(1, count + 1):
        turns += a_round(number, output)
    return transcript("openai-chat", *turns)


def said(view):
    """What is sent, message by message: its text, or the ids of its calls."""
    return [message.get("content") or [each["id"] for each in message["tool_calls"]] for message in view.messages]


async def test_system_task_and_rounds_are_told_apart():
    """System prompt, task and three rounds, each with its result, are told apart."""
    context = (await Pipeline().prepare(rounds(3))).context
    assert [(len(unit), unit.is_round) for unit in units(context.messages)] == [(1, False)] * 2 + [(2, True)] * 3
    assert [unit.of(context.messages)[0].role for unit in units(context.messages)][:2] == ["system", "user"]


async def test_two_rounds_of_four():
    """Two rounds of four leave six messages, each call followed by its result."""
    view = await Pipeline(TrimRounds(2)).prepare(rounds(4))
    roles = [message["role"] for message in view.messages]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert [message["tool_call_id"] for message in view.messages if message["role"] == "tool"] == ["c3", "c4"]


async def test_fewer_rounds_than_wanted_stay_as_they_are():
    """With fewer rounds than wanted all is as it was: the same messages, in a list of the view's own."""
    messages = rounds(2)
    view = await Pipeline(TrimRounds(5)).prepare(messages)
    assert all(sent is given for sent, given in zip(view.messages, messages, strict=True))
    assert not view.report.acted


@pytest.mark.parametrize(
    "make",
    [
        lambda: TrimRounds(0),
        lambda: FitContextWindow(0),
        lambda: TruncateToolOutputs(max_chars=0),
        lambda: HeuristicCounter(0),
    ],
)
def test_options_that_make_no_sense_are_value_errors(make):
    """What makes no sense is a ``ValueError``."""
    with pytest.raises(ValueError, match=r"expected|must|positive"):
        make()


def test_a_reserve_larger_than_the_window():
    """A reserve above the maximum is refused."""
    with pytest.raises(
        ConfigError,
        match=r"^Budget\.output_reserve must be less than the window of 10 tokens, or nothing can be sent, got 11$",
    ):
        FitContextWindow(Budget(10, 11))


async def test_a_long_output_is_cut_and_marked_once():
    """A long output is cut and marked, others are not touched; cutting again changes nothing.

    The limit holds with the marker.
    """
    messages = rounds(1, output="x" * 100)
    stage = TruncateToolOutputs(max_chars=24, keep="head", marker=MARKER)
    view = await Pipeline(stage).prepare(messages)
    assert view.messages[-1]["content"] == "x" * 10 + MARKER
    assert all(sent is given for sent, given in zip(view.messages[:3], messages, strict=False))
    again = await Pipeline(stage).prepare(view.messages)
    assert again.messages[-1] is view.messages[-1]


async def test_a_short_output_is_the_callers_own():
    """A short output is the caller's own object."""
    messages = rounds(1, output="x" * 10)
    view = await Pipeline(TruncateToolOutputs(max_chars=10)).prepare(messages)
    assert view.messages[-1] is messages[-1]


async def loop(pipeline, steps, *, ends=True, output="ok"):
    """An agent loop: what was sent at each step, the loop's own transcript, and the events."""
    events = Recorder()
    session = pipeline.session(format="openai-chat", on_compact=events)
    messages, sent = rounds(0), []
    for number in range(1, steps + 1):
        sent.append(await session.prepare(messages))
        messages += transcript("openai-chat", *a_round(number, output))
    if ends:
        sent.append(await session.prepare(messages))
        messages += transcript("openai-chat", assistant("done"))
    return sent, messages, events.events


async def test_a_loop_that_keeps_two_rounds():
    """Four rounds and an end with two rounds kept: fewer than eleven messages are sent, and an event tells of it.

    The loop's own transcript keeps all eleven: what is sent is a view.
    """
    sent, messages, events = await loop(Pipeline(TrimRounds(2)), 4)
    assert len(messages) == 11
    assert max(len(view.messages) for view in sent) < 11
    assert events


async def test_a_loop_that_cuts_outputs():
    """An output of 5,000 characters is cut to 100, marker included."""
    sent, _, events = await loop(Pipeline(TruncateToolOutputs(max_chars=100, marker=MARKER)), 1, output="y" * 5_000)
    assert len(sent[-1].messages[-1]["content"]) <= 100
    assert MARKER in sent[-1].messages[-1]["content"]
    assert events


async def test_a_loop_without_a_stage():
    """Without a stage one round and an end are five messages, all of them sent as they are."""
    sent, messages, events = await loop(Pipeline(), 1)
    assert len(messages) == 5
    assert sent[-1].messages == messages[:4]
    assert not events


async def test_a_stage_that_returns_what_it_got():
    """A stage that returns what it got changes nothing."""

    async def identity(context, _call):
        return context

    messages = rounds(2)
    view = await Pipeline(identity).prepare(messages)
    assert list(map(id, view.messages)) == list(map(id, messages))


class Len:
    """Counts characters."""

    def count(self, text):
        """The length."""
        return len(text)


class Sized:
    """System prompt and task cost 7 tokens together, a round 23."""

    def count(self, text):
        """Nothing is counted by text."""
        return len(text)

    def count_message(self, message):
        """By role."""
        return {"system": 3, "user": 4, "assistant": 10, "tool": 13}[message.role]


@pytest.mark.parametrize(
    ("options", "kept"), [((10_000, 0), ["c1", "c2", "c3"]), ((60, 0), ["c2", "c3"]), ((60, 10), ["c3"])]
)
async def test_as_many_rounds_as_fit(options, kept):
    """With 7 tokens fixed and 23 a round: 10,000 keep everything, 60 the last two rounds, 60 less 10 the last."""
    limit, reserve = options
    messages = rounds(3)
    stage = FitContextWindow(Budget(limit, reserve))
    view = await Pipeline(stage, counter=Sized()).prepare(messages)
    asked = [each["id"] for message in view.messages for each in message.get("tool_calls", ())]
    answered = [message["tool_call_id"] for message in view.messages if message["role"] == "tool"]
    assert asked == answered == kept
    if limit == 10_000:
        assert list(map(id, view.messages)) == list(map(id, messages))


async def test_a_window_that_holds_nothing():
    """Five tokens hold nothing: nothing is sent."""
    with pytest.raises(ContextOverflow):
        await Pipeline(FitContextWindow(Budget(5)), counter=Sized()).prepare(rounds(3))


async def test_a_loop_that_never_ends_stays_within_its_window():
    """A model that never ends, eight steps in 40 tokens: compactions happen, and never more than 40 are sent."""
    sent, messages, events = await loop(Pipeline(FitContextWindow(Budget(40)), counter=Sized()), 8, ends=False)
    assert events
    assert max(view.report.tokens_after for view in sent) <= 40
    assert len(messages) == 2 + 2 * 8


async def test_an_output_that_ends_with_the_marker_is_cut():
    """An output that ends with the marker is cut all the same: no tool escapes the limit by it."""
    messages = rounds(1, output="y" * 5_000 + MARKER)
    view = await Pipeline(TruncateToolOutputs(max_chars=100, marker=MARKER)).prepare(messages)
    assert len(view.messages[-1]["content"]) <= 100


async def test_a_lower_limit_cuts_again():
    """What was cut to 200 is cut to 100 when that is asked for later."""
    first = await Pipeline(TruncateToolOutputs(max_chars=200)).prepare(rounds(1, output="y" * 5_000))
    then = await Pipeline(TruncateToolOutputs(max_chars=100)).prepare(first.messages)
    assert 100 < len(first.messages[-1]["content"]) <= 200
    assert len(then.messages[-1]["content"]) <= 100


async def test_cutting_never_makes_longer():
    """105 characters with a limit of 100 do not grow to 114."""
    view = await Pipeline(TruncateToolOutputs(max_chars=100, marker=MARKER)).prepare(rounds(1, output="z" * 105))
    assert len(view.messages[-1]["content"]) <= 100


async def test_outputs_of_parts_are_cut():
    """An output that is given as parts is cut as well."""
    messages = rounds(1)
    messages[-1] = {**messages[-1], "content": [{"type": "text", "text": "w" * 5_000}]}
    view = await Pipeline(TruncateToolOutputs(max_chars=100)).prepare(messages)
    assert len(view.messages[-1]["content"][0]["text"]) <= 100


async def test_no_character_is_cut_in_two():
    """A family of four is never cut in two."""
    family = "👨‍👩‍👧‍👦"
    view = await Pipeline(TruncateToolOutputs(max_chars=60, keep="head", marker="|")).prepare(
        rounds(1, output=family * 50)
    )
    assert view.messages[-1]["content"].rstrip("|").replace(family, "") == ""


async def test_a_copy_is_no_compaction():
    """A stage that returns an equal copy is no compaction: before and after are compared, not the objects."""
    events = Recorder()

    async def copying(context, _call):
        return context.with_messages(tuple(context.messages))

    await Pipeline(copying, on_compact=events).prepare(rounds(2))
    assert not events.events


async def test_an_event_says_what_was_saved():
    """Cutting leaves the number of messages as it was; the event has the tokens before and after."""
    events = Recorder()
    await Pipeline(TruncateToolOutputs(max_tokens=20), on_compact=events).prepare(rounds(1, output="word " * 500))
    [event] = events.events
    assert event.messages_before == event.messages_after
    assert event.tokens_before - event.tokens_after > 400


async def test_nothing_can_be_cut_in_place():
    """A stage that cuts the list which it was given fails, named, and nothing is lost."""

    async def in_place(context, _call):
        context.messages.pop()
        return context

    messages = rounds(2)
    with pytest.raises(AttributeError) as caught:
        await Pipeline(in_place).prepare(messages)
    assert "while stage in_place was running" in caught.value.__notes__[0]
    assert messages == rounds(2)


async def test_calls_that_are_none():
    """``tool_calls: None`` is no error."""
    messages = [*rounds(0), {"role": "assistant", "content": "hi", "tool_calls": None}]
    assert (await Pipeline().prepare(messages)).messages[-1] is messages[-1]


@pytest.mark.parametrize("kept", [1, 2])
async def test_what_the_user_asked_last_stays(kept):
    """What the user asked last stays, however few rounds are kept."""
    turns = [system("s"), user("q1"), *a_round(1), user("q2 MUST KEEP"), *a_round(2), *a_round(3), *a_round(4)]
    view = await Pipeline(TrimRounds(kept)).prepare(transcript("openai-chat", *turns))
    assert "q2 MUST KEEP" in said(view)


async def test_all_that_the_user_said_stays_when_asked_for():
    """All that the user ever said stays when asked for, also a second message before the first round."""
    turns = [system("s"), user("q1"), user("q1b"), *a_round(1), user("q2"), *a_round(2), user("q3"), *a_round(3)]
    protect = [Protect.where(lambda message: message.role == "user")]
    view = await Pipeline(TrimRounds(1), protect=protect).prepare(transcript("openai-chat", *turns))
    assert [text for text in said(view) if str(text).startswith("q")] == ["q1", "q1b", "q2", "q3"]


async def test_a_system_message_in_the_middle_stays():
    """A system message in the middle stays."""
    turns = [system("s"), user("q1"), *a_round(1), system("never delete files"), *a_round(2), *a_round(3)]
    view = await Pipeline(TrimRounds(1)).prepare(transcript("openai-chat", *turns))
    assert "never delete files" in said(view)


async def test_the_task_stays_when_the_assistant_spoke_first():
    """The task stays also when the assistant spoke first."""
    turns = [system("s"), assistant("hello, how can I help?"), user("the task"), *a_round(1), *a_round(2), *a_round(3)]
    view = await Pipeline(TrimRounds(1)).prepare(transcript("openai-chat", *turns, user("go on")))
    assert "the task" in said(view)


async def test_a_system_prompt_that_fills_the_window():
    """A system prompt that fills the window is an error before anything is sent."""
    turns = [system("rule " * 3_000), user("the task"), *a_round(1)]
    with pytest.raises(ContextOverflow, match="system"):
        await Pipeline(FitContextWindow(Budget(100))).prepare(transcript("openai-chat", *turns))


async def test_a_round_that_is_too_large_is_cut_within():
    """A single round that is too large is cut within, until it fits."""
    view = await Pipeline(FitContextWindow(Budget(500))).prepare(rounds(1, output="word " * 5_000))
    assert len(view.messages) == 4
    assert view.report.tokens_after <= 500


async def test_what_was_left_out_is_in_the_store():
    """The caller's transcript keeps every message, and the store gives back what was left out."""
    store = MemoryStore()
    messages = rounds(5)
    view = await Pipeline(TrimRounds(1), store=store).prepare(messages)
    assert len(messages) == 12
    handles = {change.index: change.handle for change in view.report.changes}
    assert {index: json.loads(await store.get(handle)) for index, handle in handles.items()} == {
        index: messages[index] for index in range(2, 10)
    }


async def test_both_ends_of_an_output_stay():
    """Both ends of an output stay, so that the last line and a closing fence do."""
    output = "<untrusted_tool_output>\n" + "noise " * 2_000 + "\nexit code 1\n</untrusted_tool_output>"
    view = await Pipeline(TruncateToolOutputs(max_chars=300)).prepare(rounds(1, output=output))
    kept = view.messages[-1]["content"]
    assert kept.startswith("<untrusted_tool_output>")
    assert kept.endswith("exit code 1\n</untrusted_tool_output>")


async def test_an_older_round_that_fits_is_kept():
    """An older round that fits is kept though a newer one before it does not."""
    turns = [system("s"), user("t"), *a_round(1, "small one"), *a_round(2, "huge " * 900), *a_round(3), *a_round(4)]
    pipeline = Pipeline(Pack("recent", keep_last=0), budget=Budget(200))
    view = await pipeline.prepare(transcript("openai-chat", *turns))
    assert [message["tool_call_id"] for message in view.messages if message["role"] == "tool"] == ["c1", "c3", "c4"]


async def test_results_are_spared_and_messages_pinned():
    """A tool's results can be spared, and single messages pinned."""
    messages = rounds(4, output="long " * 50)
    spared = await Pipeline(ClearToolResults(0, exclude=["look"])).prepare(messages)
    assert not spared.report.acted
    pinned = await Pipeline(TrimRounds(1), protect=[Protect.pins(2)]).prepare(messages)
    assert pinned.messages[2] is messages[2]


async def test_a_repeated_result_is_sent_once():
    """A result that says what another says already is not sent twice."""
    messages = rounds(4, output="the same long listing " * 50)
    view = await Pipeline(CollapseRepeats()).prepare(messages)
    assert view.report.tokens_after < view.report.tokens_before / 2
    assert len(view.messages) == len(messages)


async def test_room_for_the_answer_is_kept_and_counts_are_corrected():
    """Room for the answer is kept free, and what the provider counts corrects a counter that is wrong."""
    budget = Budget(1_000, 300)
    session = Pipeline(FitContextWindow(), budget=budget, counter=FixedCounter(10)).session(format="openai-chat")
    messages = rounds(100)
    first = await session.prepare(messages)
    assert first.report.tokens_after <= 700
    session.record({"prompt_tokens": 2 * first.report.tokens_after, "completion_tokens": 1})
    again = await session.prepare([*messages, *transcript("openai-chat", *a_round(101))])
    assert len(again.messages) < len(first.messages)


async def test_a_result_without_a_call_is_not_sent():
    """Results are found by id, and a result without a call does not reach the provider."""
    messages = [*rounds(1), *transcript("openai-chat", result("c9", "whose?")), *rounds(0)[1:]]
    view = await Pipeline(TrimRounds(1)).prepare(messages)
    assert "whose?" not in said(view)


async def test_each_text_is_counted_once_in_400_steps():
    """Over 400 steps each text is counted once, and not at every step."""
    counter = CountingCounter()
    session = Pipeline(FitContextWindow(), budget=Budget(10_000_000), counter=counter).session(format="openai-chat")
    messages, written = rounds(0), 0
    for number in range(400):
        output = f"{number} " * 200
        written += len(output)
        messages += transcript("openai-chat", *a_round(number, output))
        await session.prepare(messages)
    assert counter.characters < 1.2 * written


async def test_cuts_are_rare_and_large():
    """Once full, the prefix is not cut at every step, but rarely and by much."""
    budget = Budget(1_000, trigger=0.9, target=0.5)
    session = Pipeline(FitContextWindow(), budget=budget, counter=FixedCounter(10)).session(format="openai-chat")
    messages, cuts = rounds(0), 0
    for number in range(200):
        messages += transcript("openai-chat", *a_round(number))
        cuts += (await session.prepare(messages)).report.first_changed is not None
    assert 1 <= cuts <= 200 // 15


async def test_unknown_fields_survive_cutting():
    """What else the caller's message holds survives cutting, and the caller's own object is not changed."""
    messages = rounds(1, output="v" * 500)
    messages[-1]["my_own_field"] = {"deep": [1, 2]}
    before = json.dumps(messages)
    view = await Pipeline(TruncateToolOutputs(max_chars=50)).prepare(messages)
    assert view.messages[-1]["my_own_field"] == {"deep": [1, 2]}
    assert json.dumps(messages) == before
    assert Call(MessageMeter(Len())).count(view.context.messages[-1]) < 200
