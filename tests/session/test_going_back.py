"""A caller goes back to an earlier point, edits, or drops the tail: what counts there is there again, and no more."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest
from histories import FORMATS
from hypothesis import given, strategies as st

from agentctx import (
    Budget,
    ClearToolResults,
    CollapseRepeats,
    ContextOverflow,
    FitContextWindow,
    Pack,
    Pipeline,
    Protect,
    Session,
    TrimRounds,
    TruncateToolOutputs,
    count,
    first_of,
    validate,
)
from agentctx.strategies import TruncateOldest
from agentctx.testing import assistant, call, result, thinking, transcript, user
from agentctx.testing.assertions import texts_of

pytestmark = pytest.mark.anyio
BOUND, MANUAL = "claude-opus-5-5", "claude-sonnet-4-5"


def rounds(count, size=60, first=0):
    """Rounds of one call each, as turns."""
    turns = []
    for number in range(first, first + count):
        turns += [assistant(call(f"c{number}", "read", {"n": number})), result(f"c{number}", f"line {number}\n" * size)]
    return turns


def history_of(format_name, *more):
    """A task, twenty rounds, a second wish, twenty more."""
    turns = [user("the task"), *rounds(20), assistant("ok"), user("a wish"), *rounds(20, first=20), *more]
    return transcript(format_name, *turns)


def pipeline(**options):
    return Pipeline(ClearToolResults(2), FitContextWindow(), budget=Budget(1_500, target=500), **options)


async def walked(session, messages, step=2):
    """The session after it has prepared a growing history."""
    for length in range(1, len(messages) + 1, step):
        await session.prepare(messages[:length])
    return session


def hop(session, plan):
    """The session as it is after a restart."""
    return Session.load(plan, json.loads(json.dumps(session.dump())))


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("way", ["at once", "rebuilt", "after a load"])
async def test_unread_results_are_there_again(format_name, way):
    """Results that the model has not read at the point the caller goes back to are sent whole, with their calls."""
    messages, plan = history_of(format_name), pipeline()
    session = await walked(plan.session(format=format_name), messages)
    session = hop(session, plan) if way == "after a load" else session
    for length in (3, 7, 21):
        messages = deepcopy(messages) if way == "rebuilt" else messages
        view = await session.prepare(messages[:length])
        assert view.messages[-2:] == messages[length - 2 : length]
        assert view.messages[0] is messages[0]
        assert not [found for found in validate({"messages": view.messages}, format=format_name) if found.is_error]


@pytest.mark.parametrize(
    "format_name", [name for name in FORMATS if name != "gemini"]
)  # whose results have no ids here
@pytest.mark.parametrize("way", ["at once", "after a load"])
async def test_a_result_that_came_before_its_call_is_there_again_with_it(format_name, way):
    """In a broken history, of which repair makes a round: going back to its end brings back all that it was made of."""
    early = [user("the task"), result("e0", "came early"), assistant(call("e0", "read"), call("e1", "read"))]
    messages = transcript(format_name, *early, result("e1", "came late"), assistant("ok"), *rounds(20), user("a wish"))
    plan, answered = pipeline(), len(transcript(format_name, *early, result("e1", "came late")))
    session = await walked(plan.session(format=format_name), messages)
    assert "came early" not in json.dumps(session.view.messages)
    session = hop(session, plan) if way == "after a load" else session
    view = await session.prepare(messages[:answered])
    fresh = await plan.prepare(messages[:answered], format=format_name)
    assert view.messages == fresh.messages
    assert "came early" in json.dumps(view.messages)


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("way", ["at once", "another answer", "after a load"])
async def test_a_result_that_gave_way_to_the_latest_wish_is_there_again_after_the_next(format_name, way):
    """A result was cut beside a long wish. The user says something else before the model has read it: now it fits."""
    turns = [user("the task"), user("wish " * 300), assistant(call("c0", "read")), result("c0", "line\n" * 200)]
    messages = transcript(format_name, *turns)
    plan = Pipeline(FitContextWindow(), budget=Budget(600))
    session = plan.session(format=format_name)
    assert (await session.prepare(messages)).messages[-1] != messages[-1]
    if way == "another answer":
        await session.prepare([*messages, *transcript(format_name, assistant("ok"), user("go on"))])
    session = hop(session, plan) if way == "after a load" else session
    view = await session.prepare([*messages, *transcript(format_name, user("stop"))])
    assert view.messages[-3:-1] == messages[-2:]


async def test_a_result_that_was_dropped_for_the_latest_wish_is_there_again_after_the_next():
    """The same of a round that a stage left out altogether."""

    async def gives_way(context, _call):
        said = [message for message in context.messages if message.role == "user"]
        kept = [message for message in context.messages if not (message.calls or message.results)]
        return context.with_messages(tuple(kept)) if "wish" in str(said[-1].parts) else context

    turns = [user("the task"), user("wish " * 300), assistant(call("c0", "read")), result("c0", "line\n" * 200)]
    messages = transcript("openai-chat", *turns)
    session = Pipeline(gives_way, FitContextWindow(), budget=Budget(600)).session(format="openai-chat")
    assert (await session.prepare(messages)).messages == messages[:2]
    view = await session.prepare([*messages, *transcript("openai-chat", user("stop"))])
    assert view.messages[-3:-1] == messages[-2:]


@pytest.mark.parametrize("format_name", FORMATS)
async def test_the_wish_that_is_the_latest_again_is_there(format_name):
    """The user's message that is the latest one at that point is sent, though it had gone when others followed."""
    more = history_of(format_name, assistant("ok"), user("another"), *rounds(20, first=40))
    messages = more[: len(history_of(format_name))]
    plan = Pipeline(TruncateOldest(), budget=Budget(1_500, target=500))
    session = await walked(plan.session(format=format_name), more)
    assert "a wish" not in str((await session.prepare(more)).messages)
    assert "a wish" in str((await session.prepare(messages)).messages)


@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_wish_is_there_after_another_way_on_in_which_it_was_not_the_latest(format_name):
    """It was left out for one way on; back on a second, longer one, to where no wish came after it, it is there."""
    start = [user("the task"), assistant("ok"), user("the wish " * 9), *rounds(1)]
    shorter = transcript(format_name, *start, assistant("so"), user("another wish"))
    open_again = transcript(format_name, *start, *rounds(1, first=1))
    longer = [*open_again, *transcript(format_name, user("."), assistant("done"), user("the last"))[1:]]
    session = Pipeline(TruncateOldest(), budget=Budget(200)).session(format=format_name)
    for messages in (shorter, longer):
        assert "the wish" not in str((await session.prepare(messages)).messages)
    assert "the wish" in str((await session.prepare(open_again)).messages)


async def test_an_instruction_that_went_out_as_the_users_is_no_latest_wish():
    """In a view that was written back, the wish before an instruction is the latest, and is there again."""
    messages = transcript("anthropic", user("the task"), assistant("ok"), user("a wish"))
    plan = Pipeline(TruncateOldest(), budget=Budget(1_500, target=500))
    session = plan.session(format="anthropic", model=MANUAL)
    view = await session.prepare([*messages, {"role": "system", "content": "be careful"}])
    assert view.messages[3] == {"role": "user", "content": "be careful"}
    more = transcript("anthropic", *rounds(10), assistant("ok"), user("another"), *rounds(10, first=10))
    given = [*view.messages, *more]
    assert "a wish" not in str((await session.prepare(given)).messages)
    assert "a wish" in str((await session.prepare(given[:8])).messages)


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("rule", [Protect.last_user(2), Protect.pins(-3)], ids=["last user", "pins"])
async def test_what_a_rule_names_then_is_there_again(format_name, rule):
    """Rules are asked again about the history that the caller has gone back to."""
    wishes = [turn for n in range(9) for turn in (assistant("fine " * 90), user(f"wish {n}"))]
    messages = transcript(format_name, user("the task"), *wishes)
    plan = Pipeline(TrimRounds(1), budget=Budget(500, target=200), protect=[rule])
    session = await walked(plan.session(format=format_name), messages, 1)
    assert "wish 3" not in str((await session.prepare(messages)).messages)
    sent = texts_of((await session.prepare(messages[:11])).messages)
    named = (
        rule.bound(11, messages[:11].__getitem__).messages if hasattr(rule, "bound") else [messages[8], messages[10]]
    )
    assert all(text in sent for text in texts_of(named))


@pytest.mark.parametrize("format_name", FORMATS)
async def test_an_open_round_asks_for_nothing_before_it(format_name):
    """Back to before a compaction had seen all, into another open round: nothing is decided anew."""
    messages = history_of(format_name)
    session = pipeline().session(format=format_name)
    await session.prepare(messages)
    more = transcript(format_name, assistant(call("x", "read")), result("x", "ok"))
    view = await session.prepare([*messages[:-4], *more])
    assert view.report.in_force
    assert not view.report.changes


@pytest.mark.parametrize("format_name", ["anthropic", "openai-responses"])
async def test_results_before_a_thought_that_nothing_follows_are_there_again(format_name):
    """A thought alone is no answer: the model has not read the results before it."""
    messages = history_of(format_name)
    session = pipeline().session(format=format_name)
    await session.prepare(messages)
    thought = transcript(format_name, assistant(thinking("hm", "c2ln")))
    view = await session.prepare([*messages[:21], *thought])
    assert view.messages[1:3] == messages[19:21]


@pytest.mark.parametrize("format_name", FORMATS)
async def test_going_back_costs_no_prefix_where_nothing_is_missing(format_name):
    """Where all that counts is there, what was decided stays, and the request begins as the last one did."""
    messages = history_of(format_name)
    session = await walked(pipeline().session(format=format_name), messages)
    last = await session.prepare(messages)
    assert last.report.in_force
    edited = [*messages[:-2], *transcript(format_name, assistant("what else?"), user("this"))]
    view = await session.prepare(edited)
    kept = len(last.messages) - 2
    assert view.messages[:kept] == last.messages[:kept]
    assert view.report.first_changed == kept
    assert not view.report.changes


@pytest.mark.parametrize("format_name", FORMATS)
async def test_words_that_were_left_out_are_not_taken_for_the_same_words_later(format_name):
    """In a view that was written back, the latest "yes" is no "yes" of before, also after a load."""
    for load in (False, True):
        plan = Pipeline(FitContextWindow(), budget=Budget(400, target=0.25))
        session = plan.session(format=format_name)
        view = await session.prepare(transcript(format_name, user("build it"), user("yes")))
        more = transcript(format_name, assistant("word " * 450), user("yes"))
        view = await session.prepare([*view.messages, *more])
        session = hop(session, plan) if load else session
        given = [*view.messages, *transcript(format_name, *rounds(1, 1))]
        assert (await session.prepare(given)).messages == given


async def test_a_note_of_what_was_left_out_goes_with_what_it_tells_of():
    """What a stage says of messages that are no part of the history any more is not said; what it stood for is back."""
    messages = history_of("openai-chat")
    plan = Pipeline(Pack(keep_last=1, note=True), budget=Budget(1_500, target=500))
    session = await walked(plan.session(format="openai-chat"), messages)
    assert "[Earlier: " in str((await session.prepare(messages)).messages)
    assert (await session.prepare(messages[:5])).messages == messages[:5]


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("way", ["at once", "after a load"])
async def test_what_has_room_again_is_there(format_name, way):
    """A cut was for what came later: where the caller goes back to what fits as it is, nothing is left out for it."""
    messages = history_of(format_name)
    plan = Pipeline(ClearToolResults(2), FitContextWindow(), budget=Budget(20_000, trigger=3_000, target=500))
    session = await walked(plan.session(format=format_name), messages)
    assert session.view.report.in_force
    session = hop(session, plan) if way == "after a load" else session
    edited = [*messages[:9], *transcript(format_name, assistant("what else?"), user("this"))]
    view = await session.prepare(edited)
    assert view.messages == edited
    assert not view.report.in_force


async def test_a_message_of_a_stage_stays_as_long_as_all_that_it_stands_for():
    """A note is as true as it was when the caller goes back no further than to what was left out."""
    messages = history_of("openai-chat")
    plan = Pipeline(Pack(keep_last=1, note=True), budget=Budget(1_500, target=500))
    session = await walked(plan.session(format="openai-chat"), messages)
    last = await session.prepare(messages)
    view = await session.prepare([*messages[:-2], *transcript("openai-chat", assistant("hm"), user("well"))])
    assert view.messages[:2] == last.messages[:2]
    assert "[Earlier: " in view.messages[1]["content"]


@pytest.mark.parametrize("format_name", FORMATS)
async def test_only_some_messages_were_rebuilt(format_name):
    """What nobody touched is the caller's object of this step, whichever of its objects it has made anew."""
    messages = transcript(format_name, user("the task"), *rounds(6, 8), *rounds(1, 90, 6))
    session = Pipeline(TruncateToolOutputs(60)).session(format=format_name)
    await session.prepare(messages)
    for rebuilt in range(len(messages)):
        messages = [deepcopy(native) if place == rebuilt else native for place, native in enumerate(messages)]
        view = await session.prepare(messages)
        assert all(ours is theirs for ours, theirs in zip(view.messages[:-1], messages[:-1], strict=True))


@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_blank_message_does_not_hide_the_question(format_name, preparing):
    """The latest message of the user is the latest that says something, whatever blank one follows."""
    blank = transcript(format_name, user(" "))
    turns = [turn for n in range(20) for turn in (assistant("fine " * 60), user(f"wish {n}"))]
    messages = [*blank, *transcript(format_name, user("the task"), *turns, *rounds(4, 9)), *blank]
    view = await preparing(Pipeline(FitContextWindow(), budget=Budget(400)), format_name)(messages)
    assert "wish 19" in str(view.messages)
    assert "the task" in str(view.messages)
    assert "wish 3" not in str(view.messages)


@pytest.mark.parametrize("model", [BOUND, MANUAL])
async def test_reasoning_that_comes_back_is_taken(model):
    """What comes back stands behind another prefix: reasoning that is bound to the old one goes, other stays."""
    turns = [user("the task")]
    for number in range(30):
        turns += [
            assistant(thinking(f"thought {number}", f"c2ln{number}"), call(f"c{number}", "read")),
            result(f"c{number}", f"line {number}\n" * 60),
        ]
    messages = transcript("anthropic", *turns)
    session = await walked(pipeline(thinking="drop").session(format="anthropic", model=model), messages)
    view = await session.prepare(messages[:31])
    assert view.messages[-1] is messages[30]
    request = {"model": model, "thinking": {"type": "adaptive" if model == BOUND else "enabled"}}
    if model == MANUAL:
        request["thinking"]["budget_tokens"] = 1_024
    found = validate({**request, "messages": view.messages}, before={**request, "messages": messages[:31]})
    assert not [str(violation) for violation in found if violation.severity == "error"]


async def test_the_reasoning_of_another_model_does_not_come_back():
    """After a change of the model and a way back, what the model of before had thought stays out."""
    turns = [turn for n in range(20) for turn in (
        assistant(thinking(f"thought {n}", f"c2ln{n}"), call(f"c{n}", "read")), result(f"c{n}", f"line {n}\n" * 60)
    )]  # fmt: skip
    messages = transcript("anthropic", user("the task"), *turns)
    session = pipeline().session(format="anthropic", model=MANUAL)
    await session.prepare(messages)
    await session.prepare(messages, model=BOUND)
    for length in (41, 21, 11, 31):
        view = await session.prepare(messages[:length])
        assert "signature" not in str(view.messages)


async def test_a_line_that_points_to_a_later_result_goes_with_it():
    """A result that a later one repeats is there again when the later one is not, and only then."""
    turns = [user("the task")]
    for number, text in enumerate(["same\n" * 99, "other\n" * 99, "same\n" * 99, "same\n" * 99, "new\n" * 20]):
        turns += [assistant(call(f"c{number}", "read")), result(f"c{number}", text)]
    messages, more = transcript("openai-chat", *turns), transcript("openai-chat", assistant("ok"), user("go on"))
    plan = Pipeline(first_of(CollapseRepeats()), budget=Budget(4_000, trigger=350, target=100))
    session = plan.session(format="openai-chat")
    sent = (await session.prepare(messages)).messages
    assert [place for place, native in enumerate(sent) if "further down" in str(native)] == [2, 6]
    view = await session.prepare([*messages[:9], *more])
    assert view.messages == [*sent[:9], *more]
    assert not view.report.changes
    assert (await session.prepare([*messages[:5], *more])).messages == [*messages[:5], *more]


@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_call_that_nobody_has_answered_is_there_again(format_name):
    """The round that is open where the caller goes back to is there, also where its call has no result."""
    messages = history_of(format_name)
    session = await walked(pipeline().session(format=format_name), messages)
    view = await session.prepare(messages[:2])
    assert view.messages[:2] == messages[:2]


async def test_a_call_whose_result_comes_no_more_is_answered():
    """Back to between a call and its late result: nothing of it was touched, and now the call wants an answer."""
    asked = {"type": "function_call", "call_id": "a", "name": "run", "arguments": "{}"}
    history = [{"role": "user", "content": "task"}, asked, {"role": "user", "content": "wait"}]
    session = Pipeline().session(format="openai-responses")
    await session.prepare([*history, {"type": "function_call_output", "call_id": "a", "output": "done"}])
    view = await session.prepare(history)
    assert [str(each) for each in validate({"input": view.messages}, format="openai-responses")] == []


async def test_what_is_the_end_now_is_mended_as_an_end():
    """The model's last words end in no blanks, also where they were not the last ones before."""
    history = [{"role": "user", "content": "task"}, {"role": "assistant", "content": "so:\n"}]
    session = Pipeline().session(format="anthropic")
    await session.prepare([*history, {"role": "user", "content": "go on"}])
    view = await session.prepare(history)
    assert view.messages[-1]["content"] == "so:"


async def test_a_pin_that_moves_on_to_a_message_that_was_cut():
    """A pin that counts from the end names another message at each step: that one is there in full."""
    rule = Protect.pins(-3)
    turns = [user("task"), *rounds(1), *rounds(1, size=5, first=1)]
    history = transcript("anthropic", *turns)
    session = Pipeline(TruncateToolOutputs(40), protect=[rule]).session(format="anthropic")
    cut = await session.prepare(history[:3])
    assert cut.messages[2] != history[2]
    view = await session.prepare(history)
    assert view.messages[2] == history[2]


async def test_a_pin_that_moves_on_holds_nothing_that_was_edited():
    """What the caller has edited is there as it stands now, though a pin names a message that comes after it."""
    history = transcript("anthropic", user("task"), *rounds(6))
    session = Pipeline(TruncateToolOutputs(40), protect=[Protect.pins(-3)]).session(format="anthropic")
    await session.prepare(history[:3])
    await session.prepare(history[:9])
    edited = transcript("anthropic", result("c1", "another\n" * 60))
    view = await session.prepare([*history[:4], *edited, *history[5:11]])
    assert "another" in str(view.messages[4])


async def test_reasoning_that_lost_its_prefix_does_not_come_back_with_what_a_pin_names():
    """What a pin brings back that moves on stands behind another prefix: reasoning bound to the old one stays out."""
    turns = [
        (assistant(thinking(f"thought {n}", f"c2ln{n}"), call(f"c{n}", "read")), result(f"c{n}", f"line {n}\n" * 60))
        for n in range(10)
    ]
    messages, last = transcript("anthropic", user("the task")), set()
    session = pipeline(thinking="drop", protect=[Protect.pins(-4)]).session(format="anthropic", model=BOUND)
    for number, turn in enumerate(turns):
        messages = [*messages, *transcript("anthropic", *turn)]
        sent = str((await session.prepare(messages)).messages)
        there = {name for name in range(10) if f"thought {name}" in sent}
        assert there <= last | {number}
        last = there


async def test_a_state_after_a_shorter_history_that_cannot_be_sent():
    """Going back to what does not fit, and dump: the state can be loaded."""
    plan = Pipeline(budget=Budget(200))
    session = plan.session(format="anthropic")
    history = [
        {"role": "user", "content": "task"},
        {"role": "assistant", "content": "so"},
        {"role": "user", "content": "go"},
    ]
    await session.prepare(history)
    with pytest.raises(ContextOverflow):
        await session.prepare([{"role": "user", "content": "long " * 500}])
    assert Session.load(plan, json.loads(json.dumps(session.dump()))).dump() == session.dump()


SHAPE = st.sampled_from(["small", "large", "same", "wish", "words"])


def turns_of(shapes, first):
    """Turns of these shapes: a round with a small, a large or always the same result, a wish, words of the model."""
    for number, shape in enumerate(shapes, first):
        if shape in {"small", "large"}:
            yield from rounds(1, {"small": 2, "large": 60}[shape], number)
        elif shape == "same":
            yield from (assistant(call(f"c{number}", "read")), result(f"c{number}", "same\n" * 60))
        else:
            yield user(f"wish {number}") if shape == "wish" else assistant(f"words {number} " * 60)


def counting(natives):
    """The indexes of the first task, the user's latest message, and the round at the end."""
    said = [place for place, native in enumerate(natives) if native["role"] != "tool"]
    last = range(said[-1], len(natives)) if "tool_calls" in natives[said[-1]] else ()
    return {0, max(place for place in said if natives[place]["role"] == "user"), *last}


def whole(view, natives):
    """The indexes of the messages that are in the view as they were given."""
    sent = set(map(id, view.messages))
    return {index for index, native in enumerate(natives) if id(native) in sent}


def untrue(view, natives):
    """The indexes of the results that the view says to stand further down, where they do not."""
    told = {native["tool_call_id"] for native in view.messages if "stands further down" in str(native)}
    said = [native["content"] for native in natives]
    pointing = (index for index, native in enumerate(natives) if native.get("tool_call_id") in told)
    return {index for index in pointing if said[index] not in said[index + 1 :]}


def name_of(native):
    """What a message is known by, also when its result was cleared."""
    return native.get("tool_call_id") or str(native.get("tool_calls", native["content"]))


@given(st.lists(SHAPE, max_size=14), st.integers(1, 30), st.integers(1, 20), st.lists(SHAPE, max_size=3))
def test_what_counts_is_there_again_and_no_more(both_loops, shapes, step, back, after):
    """What counts where the caller goes back to is there, and true, and all that is passed if there is room for it.

    Where there is not, what stands before the first message that counts and was not there stays as it was.
    """
    messages = transcript("openai-chat", user("the task"), *turns_of(shapes, 0))
    kept = messages[: max(1, len(messages) - back)]
    natives = [*kept, *transcript("openai-chat", *turns_of(after, 50))]

    plan = Pipeline(CollapseRepeats(), ClearToolResults(2), FitContextWindow(), budget=Budget(1_500, target=500))

    async def main():
        session = await walked(plan.session(format="openai-chat"), messages, step)
        before, now = await session.prepare(messages), await session.prepare(natives)
        assert counting(natives) <= whole(now, natives)
        assert not untrue(now, natives)
        if count(natives, format="openai-chat") <= plan.budget.trigger_tokens:
            assert [native for native in now.messages if native in natives] == natives
            return
        lost = counting(natives) - whole(before, messages) | untrue(before, natives)
        begin = min(lost.intersection(range(len(kept))), default=len(kept))
        begin -= "tool_calls" in kept[begin - 1]  # a round is there as a whole
        stays = len({name_of(native) for native in messages[:begin]}.intersection(map(name_of, before.messages)))
        if not any(change.stage != "RepairHistory" for change in now.report.changes):
            assert now.messages[:stays] == before.messages[:stays]

    both_loops(main)


@pytest.mark.parametrize("format_name", FORMATS)
async def test_an_open_round_that_was_rebuilt_is_the_callers(format_name):
    """What waits for a result is the caller's object of the step in which the result comes."""
    turns = [user("the task"), assistant(call("c1", "read"), call("c2", "read")), result("c1", "a"), result("c2", "b")]
    messages = transcript(format_name, *turns)
    session = Pipeline().session(format=format_name)
    await session.prepare(messages[:-1])
    again = deepcopy(messages)
    view = await session.prepare(again)
    assert all(ours is theirs for ours, theirs in zip(view.messages, again, strict=True))


async def test_the_end_of_a_view_that_was_written_back_is_edited():
    """What goes on from a part of the view goes on from the view: what was left out before is not missed."""
    messages = history_of("openai-chat")
    session = pipeline().session(format="openai-chat")
    sent = (await session.prepare(messages)).messages
    view = await session.prepare([*sent[:-1], {**sent[-1], "content": "another line"}])
    assert view.report.messages_before == len(sent)
    assert view.report.first_changed == len(sent) - 1
    assert not view.report.in_force


@pytest.mark.parametrize("format_name", FORMATS)
async def test_what_stands_after_a_load_and_a_step_that_failed_is_the_callers(format_name):
    """What goes out as it came in is the caller's own object, also when a step on an edited history was refused."""
    plan = Pipeline(budget=Budget(60))
    messages, long = (transcript(format_name, user("the task"), user(text)) for text in ("a wish", "a wish " * 200))
    session = plan.session(format=format_name)
    await session.prepare(messages)
    session = hop(session, plan)
    with pytest.raises(ContextOverflow):
        await session.prepare([messages[0], long[-1]])
    assert [*map(id, (await session.prepare(messages)).messages)] == [*map(id, messages)]


@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_history_is_known_after_a_load_and_a_view_that_was_refused(format_name):
    """What was edited is still recognised as it came, also when a step on the view was refused after the load."""
    plan, messages = Pipeline(TruncateToolOutputs(40), budget=Budget(300)), history_of(format_name)[:3]
    session = plan.session(format=format_name)
    view = await session.prepare(messages)
    assert view.report.in_force
    session = hop(session, plan)
    with pytest.raises(ContextOverflow):
        await session.prepare([*view.messages, *transcript(format_name, assistant("ok"), user("a wish " * 600))])
    again = await session.prepare(messages)
    assert (again.messages, again.report.in_force) == (view.messages, view.report.in_force)
    assert not again.report.changes


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("stops", [(3, 4, 6, 3), (4, 3, 4), (6, 3, 6, 3)])
async def test_results_that_repair_put_into_one_message_go_with_what_they_came_in(format_name, stops):
    """Back in the middle of a round whose results came one by one, only those that the caller shows are there."""
    asked = assistant(*(call(f"c{name}", f"read_{name}") for name in "abc"))
    turns = [user("task"), asked, result("ca", "RA"), result("cb", "RB"), result("cc", "RC")]
    messages = transcript(format_name, *turns, assistant("ok"), user("next"))
    plan = Pipeline(budget=100_000)
    session = plan.session(format=format_name)
    for stop in stops:
        at_once = await plan.prepare(messages[:stop], format=format_name)
        assert texts_of((await session.prepare(messages[:stop])).messages) == texts_of(at_once.messages)


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("way", ["at once", "after a load"])
async def test_the_round_that_is_the_newest_again_is_there_again(format_name, way):
    """What was dropped as an old round is the newest with results, where the caller goes back to it."""
    turns = [user("the task"), *rounds(6), assistant("ok"), user("a wish"), *rounds(20, first=6)]
    messages = transcript(format_name, *turns)
    back = len(transcript(format_name, *turns[:15]))
    plan = Pipeline(FitContextWindow(), budget=Budget(1_500, target=500))
    session = await walked(plan.session(format=format_name), messages)
    session = hop(session, plan) if way == "after a load" else session
    view = await session.prepare(messages[:back])
    assert view.messages[-4:] == messages[back - 4 : back]
    assert len(view.messages) < back
