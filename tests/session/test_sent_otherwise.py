"""What goes out otherwise than it came is known for what it is: after a load, and when the caller writes it back."""

import json
import re
from copy import deepcopy
from itertools import chain

import pytest
from hypothesis import given, strategies as st

from agentctx import (
    AgentctxError,
    Budget,
    ContextOverflow,
    FitContextWindow,
    Pack,
    Pipeline,
    PlaceCacheMarkers,
    Session,
    TrimRounds,
)
from agentctx.formats.registry import RequestParts
from agentctx.session.conversations import holding
from agentctx.stores import MemoryStore
from agentctx.testing import assistant, call, result, transcript, user
from agentctx.testing.assertions import texts_of

RULE, TASK, LATEST = "NEVER DELETE FILES", "TASK: mend it", "begin with the tests"
TAKES_NO_SYSTEM = {"claude-sonnet-4-5": "anthropic", "claude-haiku-4-5": "anthropic", "vllm/qwen3": "openai-chat"}
"""Models on which a system message among the others goes out as the user's, and their formats."""


def rounds(format_name, count, size=100):
    """Rounds of one call each."""
    turns = [
        each
        for number in range(count)
        for each in (assistant(call(f"c{number}", "run")), result(f"c{number}", f"{number} " + "word " * size))
    ]
    return transcript(format_name, *turns)


def said_between(format_name, place):
    """A long conversation in which the system speaks at a place among the first messages."""
    opening = transcript(format_name, user(TASK), *rounds_of_words(), user(LATEST))
    return [*opening[:place], {"role": "system", "content": RULE}, *opening[place:], *rounds(format_name, 8)]


def rounds_of_words():
    """One round of the assistant's and the tool's."""
    return assistant(call("first", "run")), result("first", "done")


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["full", "rebuilt", "rolling", "load"])
@pytest.mark.parametrize("place", [0, 1, 3])
@pytest.mark.parametrize("model", TAKES_NO_SYSTEM)
async def test_a_system_message_that_goes_out_as_the_users_stays(walk, model, place, mode):
    """It, the first task and the latest words of the user are in every view, however the caller goes on."""
    format_name = TAKES_NO_SYSTEM[model]
    pipeline = Pipeline(FitContextWindow(), budget=Budget(700))
    messages, cut = said_between(format_name, place), False
    async for given_now, view in walk(pipeline, messages, mode, 2, model=model, format=format_name):
        passed, sent = (json.dumps(texts_of(each)) for each in (given_now, view.messages))
        assert [said for said in (RULE, TASK, LATEST) if said in passed and said not in sent] == []
        cut = cut or len(view.messages) < len(given_now)
    assert cut


@pytest.mark.anyio
@pytest.mark.parametrize("model", TAKES_NO_SYSTEM)
async def test_several_are_known_after_a_load_also_the_last_of_all(model):
    """A state with two system messages that go out as the user's, one of them last, is dumped again as it was."""
    history = transcript(TAKES_NO_SYSTEM[model], user(TASK), assistant("well"))
    history = [*history, *({"role": "system", "content": rule} for rule in (RULE, "BE BRIEF"))]
    session = Pipeline().session(model=model, format=TAKES_NO_SYSTEM[model])
    await session.prepare(history)
    loaded = Session.load(Pipeline(), json.loads(json.dumps(session.dump())))
    assert loaded.dump() == session.dump()
    assert len(session.dump()["record"]["system_sent_as_user"]) == 2


@pytest.mark.anyio
@pytest.mark.parametrize("then", ["claude-haiku-4-5", "claude-opus-5-5", "claude-fable-5-1"])
async def test_it_is_still_known_when_another_model_is_called(then):
    """A system message in a view that was written back stays when the conversation goes on with another model."""
    pipeline = Pipeline(FitContextWindow(), budget=Budget(700))
    session = pipeline.session(model="claude-sonnet-4-5", format="anthropic")
    history = said_between("anthropic", 1)
    view = await session.prepare(history[:8])
    session = Session.load(pipeline, json.loads(json.dumps(session.dump())))
    for stop in range(9, len(history), 2):
        view = await session.prepare([*view.messages, *history[stop - 1 : stop + 1]], model=then)
        assert all(said in json.dumps(view.messages) for said in (RULE, TASK, LATEST))


@pytest.mark.anyio
async def test_going_back_in_what_was_written_back_leaves_it_known():
    """After a way back to an earlier view, and more that is said there, the system's words are the system's."""
    pipeline = Pipeline(FitContextWindow(), budget=Budget(700))
    session = pipeline.session(model="claude-sonnet-4-5", format="anthropic")
    history = said_between("anthropic", 1)
    first = (await session.prepare(history[:6])).messages
    view = await session.prepare([*first, *history[6:8]])
    view = await session.prepare([*view.messages, *history[8:10]])
    view = await session.prepare([*first, *transcript("anthropic", user("no: the other way"))])
    for stop in range(7, len(history), 2):
        view = await session.prepare([*view.messages, *history[stop - 1 : stop + 1]])
        assert all(said in json.dumps(view.messages) for said in (RULE, TASK, "the other way"))


MOVES = st.lists(
    st.tuples(st.sampled_from(["on", "on", "on", "back", "load", "other model"]), st.integers(0, 99)),
    min_size=5,
    max_size=14,
)
STAGES = st.sampled_from([(FitContextWindow(),), (TrimRounds(1),), (Pack(keep_last=1, note=True), PlaceCacheMarkers())])


@given(MOVES, STAGES, st.sampled_from([500, 900]), st.booleans())
def test_whichever_way_the_caller_goes_it_stays(both_loops, moves, stages, window, rolling):
    """What the system, and the user first and last, have said is in every view, whichever one they go back to."""

    async def walk():
        plan = Pipeline(*stages, budget=Budget(window))
        session, current, passed = plan.session(format="anthropic"), transcript("anthropic", user("WISH 0")), []
        for number, (move, pick) in enumerate(moves, 1):
            if move == "load":
                session = Session.load(plan, json.loads(json.dumps(session.dump())))
            base = passed[pick % len(passed)] if move == "back" and passed else current
            given_now = [*base, *said_next(number, pick), *rounds("anthropic", 1, pick)]
            model = "claude-opus-5-5" if move == "other model" else "claude-sonnet-4-5"
            try:
                view = await session.prepare(given_now, model=model)
            except ContextOverflow:
                continue
            said, sent = (re.findall(r"RULE \d+|WISH \d+", json.dumps(each)) for each in (given_now, view.messages))
            wishes = [each for each in said if each.startswith("WISH")]
            assert {wishes[0], wishes[-1], *(each for each in said if each.startswith("RULE"))} <= {*sent}
            current = list(view.messages) if rolling else given_now
            passed.append(current)

    both_loops(walk)


def said_next(number, pick):
    """What is said before a round: by the system, by the user, or nothing."""
    role, words = (("system", "RULE"), ("user", "WISH"), (None, ""))[pick % 3]
    return [{"role": role, "content": f"{words} {number}"}] if role else []


@pytest.mark.anyio
@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("rolling", [False, True])
async def test_a_block_knows_the_conversation_again(loaded, rolling):
    """A conversation that begins with such a message is held as the same one, loaded or written back."""
    pipeline = Pipeline(budget=Budget(9_000))
    session = pipeline.session(model="claude-sonnet-4-5", format="anthropic")
    history = said_between("anthropic", 0)
    view = await session.prepare(history[:4])
    if loaded:
        session = Session.load(pipeline, json.loads(json.dumps(session.dump())))
    more = [*(view.messages if rolling else history[:4]), *history[4:6]]
    assert holding(session, RequestParts(more, model="claude-sonnet-4-5"), "anthropic") is session


RESPONSES, ANTHROPIC, CHAT = "openai-responses", "anthropic", "openai-chat"
IDS, CALL_IDS = st.sampled_from(["i0", "i1", None]), st.sampled_from(["c0", "c1", "c2"])
WORDS = st.sampled_from(["the task", "go on", " ", "word " * 40])


def item(kind, identity, **fields):
    """An item of the Responses API, with an id if it has one."""
    return {"type": kind, **({} if identity is None else {"id": identity}), **fields}


SPEAKERS = st.sampled_from(["user", "user", "system", "developer"])
SAID = st.builds(lambda role, words: {"role": role, "content": words}, SPEAKERS, WORDS)


@st.composite
def calls(draw):
    """A call of a function, or of a custom tool."""
    identity, key, text = draw(IDS), draw(CALL_IDS), draw(st.sampled_from(["{}", '{"q": 1}']))
    if draw(st.booleans()):
        return item("custom_tool_call", identity, call_id=key, name="patch", input=text)
    return item("function_call", identity, call_id=key, name="run", arguments=text)


@st.composite
def answers(draw):
    """An answer to a call of a function, or of a custom tool."""
    kind = draw(st.sampled_from(["custom_tool_call_output", "function_call_output"]))
    return item(kind, draw(IDS), call_id=draw(CALL_IDS), output=draw(st.sampled_from(["A", "B", "word " * 60])))


@st.composite
def pairs(draw):
    """A call and its answer, one after the other, of any kinds and with any ids."""
    asked, answered = draw(calls()), draw(answers())
    return [asked, {**answered, "call_id": asked["call_id"]}]


@st.composite
def items(draw):
    """Items whose ids come again, whose answers are of any kind, between which anyone speaks."""
    alone = st.one_of(SAID, calls(), answers()).map(lambda each: [each])
    parts = draw(st.lists(st.one_of(pairs(), pairs(), alone), min_size=2, max_size=9))
    return (
        RESPONSES,
        draw(st.sampled_from(["gpt-5.4", "gpt-5.6-sol"])),
        [user_of(RESPONSES), *chain.from_iterable(parts)],
    )


def user_of(format_name):
    """The first task."""
    return transcript(format_name, user("the task"))[0]


@st.composite
def talks(draw):
    """Conversations in which the system speaks anywhere, with a model that takes it at the start only, or anywhere."""
    model = draw(st.sampled_from([*TAKES_NO_SYSTEM, "claude-opus-5-5", "gpt-5.6-sol"]))
    format_name = TAKES_NO_SYSTEM.get(model, ANTHROPIC if model.startswith("claude") else CHAT)
    said = [user_of(format_name), *rounds(format_name, draw(st.integers(1, 5)), 40)]
    for words in draw(st.lists(WORDS, min_size=1, max_size=3)):
        role = draw(st.sampled_from(["system", "system", "user"]))
        said.insert(draw(st.integers(0, len(said))), {"role": role, "content": words})
    return format_name, model, said


async def told(session, messages):
    """Everything that a step says, but for how long it took and under which handle an original is kept."""
    try:
        view = await session.prepare(messages)
    except AgentctxError as error:
        return None, type(error), str(error)
    report = view.report.to_dict()
    for change in (*report["in_force"], *(each for stage in report["stages"] for each in stage["changes"])):
        del change["handle"]
    for timed in (report, *report["stages"]):
        del timed["seconds"]
    return view.messages, texts_of(view.messages), report


@given(
    st.one_of(items(), talks()),
    st.sampled_from([(FitContextWindow(),), (PlaceCacheMarkers(),), (FitContextWindow(), PlaceCacheMarkers())]),
    st.one_of(st.none(), st.integers(120, 900)),
    st.integers(1, 3),
    st.sampled_from(["keeps", "rebuilds", "writes back"]),
)
def test_a_restart_forgets_nothing_of_it(both_loops, conversation, stages, window, stride, loop):
    """A session that is loaded before each step says at each what the one says that goes on."""
    format_name, model, messages = conversation

    async def walk():
        plan = Pipeline(*stages, budget=None if window is None else Budget(window), store=MemoryStore())
        sessions = [plan.session(format=format_name, model=model) for _ in range(2)]
        growing = [[], []]
        for start in range(0, len(messages), stride):
            sessions[1] = Session.load(plan, json.loads(json.dumps(sessions[1].dump())))
            said = []
            for place, session in enumerate(sessions):
                growing[place] = [*growing[place], *messages[start : start + stride]]
                now = deepcopy(growing[place]) if loop == "rebuilds" else growing[place]
                said.append(await told(session, now))
                if loop == "writes back" and said[-1][0] is not None:
                    growing[place] = list(said[-1][0])
            assert said[0][1:] == said[1][1:]

    both_loops(walk)


PATCH = {"type": "custom_tool_call", "call_id": "k", "name": "patch", "input": "*** Begin"}
RUN = {"type": "function_call", "call_id": "c", "name": "run", "arguments": "{}"}
ANSWERED_AMISS = [
    pytest.param([PATCH], id="not at all"),
    pytest.param([PATCH, {"type": "function_call_output", "call_id": "k", "output": "ok"}], id="of another kind"),
]


@pytest.mark.anyio
@pytest.mark.parametrize("answered", ANSWERED_AMISS)
async def test_what_repair_answered_is_answered_after_a_load(answered):
    """The answer to a custom call that repair made, or made another, is not repaired again after a load."""
    wish = transcript(RESPONSES, user("go on"))
    messages = [user_of(RESPONSES), *answered, *wish, RUN, *wish, {**RUN, "call_id": "d"}]
    plan, steps = Pipeline(PlaceCacheMarkers()), (len(messages) - 3, len(messages) - 1, len(messages))
    live = loaded = plan.session(model="gpt-5.6-sol", format=RESPONSES)
    for stop in steps:
        loaded = Session.load(plan, json.loads(json.dumps(loaded.dump())))
        assert (await told(live, messages[:stop]))[1:] == (await told(loaded, messages[:stop]))[1:]
