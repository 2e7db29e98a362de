"""The entry of every pipeline: what a provider refuses is mended and said, in time that grows with what there is."""

from itertools import pairwise

import anyio
import pytest
from hypothesis import given, strategies as st

from agentctx import Call, Context, Pipeline, RepairHistory, validate
from agentctx.engine.reading import reader
from agentctx.testing import assistant, call, result, transcript, user

TASK = {"role": "user", "content": "task"}
GO_ON = {"role": "user", "content": "go on"}
KEYS = {"gemini": "contents", "openai-responses": "input"}


def use(call_id, **more):
    """A call of Anthropic's format."""
    return {"type": "tool_use", "id": call_id, "name": "run", "input": {}, **more}


def answer(call_id, text="done"):
    """The result of one."""
    return {"type": "tool_result", "tool_use_id": call_id, "content": text}


def said(role, *blocks):
    """A message of Anthropic's format."""
    return {"role": role, "content": list(blocks)}


def text(words):
    """A block of text."""
    return {"type": "text", "text": words}


def read(messages, format_name):
    """Messages as values."""
    return tuple(reader(messages, format=format_name).messages(messages))


async def said_of(messages):
    """What the report says of each message of Anthropic's format that was changed, by its index."""
    report = (await Pipeline().prepare(messages, format="anthropic")).report
    return {(change.index, change.reason) for change in report.changes if change.outcome != "added"}


async def repaired(messages, format_name="anthropic", model=None):
    """What is sent instead of messages; it is legal, and the report names what was done."""
    view = await Pipeline().prepare(messages, format=format_name, model=model)
    request = {KEYS.get(format_name, "messages"): view.messages}
    found = validate(request, format=format_name, model=model)
    assert [str(each) for each in found if each.severity == "error"] == []
    assert view.report.acted or view.context.messages == read(messages, format_name)  # a marker says nothing
    return view.messages


@pytest.mark.anyio
async def test_a_result_among_the_assistants_blocks_answers_its_call():
    """A result in a message of the assistant goes to the user's side; what the model said after it stays after it."""
    sent = await repaired([TASK, said("assistant", use("c1"), answer("c1"), text("so it is")), GO_ON])
    assert sent == [
        TASK,
        said("assistant", use("c1")),
        said("user", answer("c1")),
        said("assistant", text("so it is")),
        GO_ON,
    ]


@pytest.mark.anyio
async def test_a_message_of_results_that_bears_the_assistants_name_is_the_users():
    """A message of results only is moved to the user's side as a whole."""
    sent = await repaired([TASK, said("assistant", use("c1")), said("assistant", answer("c1")), GO_ON])
    assert sent == [TASK, said("assistant", use("c1")), said("user", answer("c1")), GO_ON]


@pytest.mark.anyio
async def test_a_call_in_a_message_of_the_user_is_the_assistants():
    """A call between the user's words is said by the model, and has its result."""
    sent = await repaired([said("user", text("task"), use("c1")), said("user", answer("c1"))])
    assert sent == [said("user", text("task")), said("assistant", use("c1")), said("user", answer("c1"))]


@pytest.mark.anyio
async def test_a_result_in_a_system_message_is_the_users():
    """Neither calls nor results stand in what the system says; the report names which of them it was."""
    messages = [TASK, said("assistant", use("c1")), said("system", answer("c1")), GO_ON]
    assert await repaired(messages) == [*messages[:2], said("user", answer("c1")), GO_ON]
    assert await said_of(messages) == {(2, "a tool result cannot stand in a message of the system")}


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", ["gemini", "bedrock"])
async def test_results_on_the_wrong_side_in_other_formats(format_name):
    """Gemini and Bedrock: a response in a content of the model goes to the other side."""
    if format_name == "gemini":
        call = {"functionCall": {"name": "run", "args": {}}}
        response = {"functionResponse": {"name": "run", "response": {"output": "done"}}}
        one, other = {"role": "user", "parts": [{"text": "task"}]}, {"role": "model", "parts": [call, response]}
        parts = "parts"
    else:
        call = {"toolUse": {"toolUseId": "c1", "name": "run", "input": {}}}
        response = {"toolResult": {"toolUseId": "c1", "content": [{"text": "done"}]}}
        one, other = {"role": "user", "content": [{"text": "task"}]}, {"role": "assistant", "content": [call, response]}
        parts = "content"
    assert await repaired([one, other], format_name) == [
        one,
        {**other, parts: [call]},
        {"role": "user", parts: [response]},
    ]


ANSWERED = st.lists(st.sampled_from(["here", "here", "lost", "late"]), min_size=1, max_size=4)


@given(st.lists(ANSWERED, min_size=1, max_size=4), st.sampled_from(["anthropic", "bedrock", "gemini"]))
def test_what_is_made_up_or_moved_stands_with_the_results_that_are_there(rounds, format_name):
    """Whichever results are lost, or come a turn too late: those of a turn are one message."""
    turns, late = [user("task")], []
    for number, each in enumerate(rounds):
        calls = {f"c{number}_{place}": where for place, where in enumerate(each)}
        turns.append(assistant(*(call(name, f"run_{name}") for name in calls)))
        turns += [result(name, "ok") for name, where in calls.items() if where == "here"]
        turns += [*(result(name, "at last") for name in late), user("and?")]
        late = [name for name, where in calls.items() if where == "late"]
    messages = transcript(format_name, *turns, assistant("done"), *(result(name, "at last") for name in late))
    view = anyio.run(Pipeline().prepare, messages, None, None, format_name)
    for said, answer in pairwise(view.context.messages):
        assert {one.id for one in said.calls} == {one.call_id for one in answer.results}


@pytest.mark.anyio
async def test_ids_that_anthropic_refuses_are_spelled_anew_in_call_and_result():
    """Ids of other providers get characters that are taken: alike on both sides, never one for two, always the same."""
    ids = ["functions.f:0", "functions.f.0", "functions:f:0", "", "a b"]
    messages = [TASK, said("assistant", *map(use, ids)), said("user", *map(answer, ids)), GO_ON]
    sent = await repaired(messages)
    made = [block["id"] for block in sent[1]["content"]]
    assert made == [block["tool_use_id"] for block in sent[2]["content"]]
    assert len(set(made)) == len(ids)
    assert await repaired(messages) == sent


SPELLED = st.tuples(st.sampled_from(["", "", "c", "c" * 90, "a b"]), st.sampled_from(["", "run", "a b", "run" * 40]))


@given(
    st.lists(SPELLED, min_size=1, max_size=5),
    st.sampled_from(["openai-chat", "openai-chat/deepseek", "openai-responses", "anthropic", "bedrock", "gemini"]),
)
def test_calls_without_ids_or_names_are_respelled_as_any_that_are_not_taken(calls, format_name):
    """However calls are spelled, nothing that is sent is refused, no id or name is empty, and each has its result."""
    turns = [turn for each in calls for turn in (assistant(call(*each)), result(each[0], "ok"))]
    messages = transcript(format_name.partition("/")[0], user("task"), *turns)
    anyio.run(repaired, messages, format_name)
    sent = anyio.run(Pipeline().prepare, messages, None, None, format_name).context.messages
    for said, answer in pairwise(sent):
        assert [one.id for one in said.calls] == [one.call_id for one in answer.results]
        assert all(one.id and one.name for one in said.calls)


@pytest.mark.anyio
async def test_a_cache_marker_on_reasoning_goes_and_the_reasoning_stays():
    """The provider takes no marker on reasoning; its signature does not cover one."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    marked = {**thought, "cache_control": {"type": "ephemeral"}}
    assert await repaired([TASK, said("assistant", marked, text("ok")), GO_ON]) == [
        TASK,
        said("assistant", thought, text("ok")),
        GO_ON,
    ]


@pytest.mark.anyio
async def test_the_users_words_end_a_servers_call():
    """A call of the provider's own tool that was open when the user spoke is no pair with a result after that."""
    asked = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    sent = await repaired(
        [TASK, said("assistant", text("wait"), asked), GO_ON, said("assistant", found, text("ok")), GO_ON]
    )
    assert sent == [TASK, said("assistant", text("wait")), GO_ON, said("assistant", text("ok")), GO_ON]


SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
HITS = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}


@pytest.mark.anyio
async def test_a_servers_call_that_is_made_again_was_not_answered():
    """Of two with one id the result belongs to the later one; the other is half, and the report says so."""
    messages = [TASK, said("assistant", SEARCH, text("again"), SEARCH, HITS, text("ok")), GO_ON]
    assert await repaired(messages) == [TASK, said("assistant", text("again"), SEARCH, HITS, text("ok")), GO_ON]
    assert await said_of(messages) == {(1, "half of a call that the provider's server runs")}


@pytest.mark.anyio
async def test_a_message_that_is_but_half_of_a_servers_call_goes():
    """There is nothing left of it to send."""
    assert await repaired([TASK, said("assistant", SEARCH), GO_ON]) == [TASK, GO_ON]


@pytest.mark.anyio
async def test_a_call_of_code_that_is_not_there_is_the_models_own():
    """Also where nothing in the request was run by the provider."""
    caller = {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}
    sent = await repaired([TASK, said("assistant", use("c1", caller=caller)), said("user", answer("c1")), GO_ON])
    assert sent == [TASK, said("assistant", use("c1")), said("user", answer("c1")), GO_ON]


def test_a_legal_history_comes_back_as_the_same_object():
    """Responses: also where the result of a call stands behind words."""
    asked = {"type": "function_call", "call_id": "c1", "name": "run", "arguments": "{}"}
    messages = [TASK, asked, GO_ON, {"type": "function_call_output", "call_id": "c1", "output": "done"}]
    source = reader(messages, format="openai-responses")
    context = Context(tuple(source.messages(messages)))
    assert RepairHistory().apply(context, Call(source.meter, wire=source.wire)) is context


@pytest.mark.anyio
async def test_messages_hold_as_many_calls_as_they_may():
    """More than a message of Chat takes are parted into messages that are full, but for the last one."""
    asked, *answers = chat(260)[:0:-1]
    sent = await repaired([TASK, asked, *answers, GO_ON], "openai-chat")
    assert [len(message["tool_calls"]) for message in sent if message["role"] == "assistant"] == [128, 128, 4]


@pytest.mark.anyio
async def test_a_servers_call_waits_while_the_client_answers():
    """At the end its result may still come, over rounds of results; not behind anybody's words."""
    waiting = [TASK, said("assistant", SEARCH, use("c1")), said("user", answer("c1"))]
    assert await repaired(waiting) == waiting
    waiting += [said("assistant", use("c2")), said("user", answer("c2"))]
    assert await repaired(waiting) == waiting
    for more in (GO_ON, said("assistant", text("ok"))):
        sent = await repaired([*waiting, more])
        assert sent[1] == said("assistant", use("c1"))


@pytest.mark.anyio
async def test_a_number_for_a_repeated_id_is_reported():
    """The call and its result are edited, and both say why."""
    why = "a repeated call id got a number"
    assert await said_of([TASK, *[said("assistant", use("c1")), said("user", answer("c1"))] * 2]) == {
        (3, why),
        (4, why),
    }


@pytest.mark.anyio
@pytest.mark.parametrize("taken", [(), ("c_3",), ("c_2", "c_5")])
async def test_repeated_ids_get_the_first_number_that_is_free(taken):
    """However often an id comes again, and whatever numbers are taken: nothing comes twice, and results follow."""
    ids = [*taken, *["c"] * 9]
    sent = await repaired(
        [TASK, *(each for name in ids for each in (said("assistant", use(name)), said("user", answer(name))))]
    )
    called, answered = (
        [message["content"][0][key] for message in sent[start::2]] for start, key in ((1, "id"), (2, "tool_use_id"))
    )
    free = [f"c_{number}" for number in range(2, 12) if f"c_{number}" not in taken]
    assert called == answered == [*taken, "c", *free[:8]]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answered", "why"),
    [
        (("c1", "c9"), "some results have no call: 'c9'"),
        (("c8", "c9"), "the tool result has no call, or is one too many: 'c8', 'c9'"),
    ],
)
async def test_results_without_a_call_are_named(answered, why):
    """A message that loses some of its results, or all of them, says which, and that these were not all."""
    messages = [TASK, said("assistant", use("c1")), said("user", *map(answer, answered)), GO_ON]
    assert (2, why) in await said_of(messages)


@pytest.mark.anyio
async def test_what_is_taken_apart_stays_the_callers_message():
    """The first part of its own side keeps whatever else the caller's message has; what goes over has none of it."""
    odd = {**said("assistant", text("I run it"), use("c1"), answer("c1"), text("it is done")), "note": "mine"}
    sent = await repaired([TASK, odd, GO_ON])
    assert [message.get("note") for message in sent] == [None, "mine", None, None, None]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("format_name", "model", "call_id"),
    [
        ("openai-chat", None, "x" * 40),
        ("openai-chat", "mistral-large-latest", "abcdefghi"),
        ("openai-chat", "kimi-k2.6", "x" * 40),
        ("anthropic", None, "x" * 64),
        ("bedrock", None, "x" * 64),
        ("openai-responses", None, "x" * 64),
    ],
)
async def test_a_repeated_id_gets_a_number_within_what_an_id_may_be(format_name, model, call_id):
    """However long an id is, the one that is made of it when it comes again is still taken."""
    if format_name == "openai-chat":
        call = {"id": call_id, "type": "function", "function": {"name": "run", "arguments": "{}"}}
        asked = {"role": "assistant", "content": None, "tool_calls": [call, call], "reasoning_content": "so"}
        messages = [TASK, asked, *[{"role": "tool", "tool_call_id": call_id, "content": "done"}] * 2]
    elif format_name == "openai-responses":
        call = {"type": "function_call", "call_id": call_id, "name": "run", "arguments": "{}"}
        messages = [TASK, *[call, {"type": "function_call_output", "call_id": call_id, "output": "done"}] * 2]
    elif format_name == "bedrock":
        call = {"toolUse": {"toolUseId": call_id, "name": "run", "input": {}}}
        result = {"toolResult": {"toolUseId": call_id, "content": [{"text": "done"}]}}
        messages = [{"role": "user", "content": [{"text": "task"}]}]
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}] * 2
    else:
        messages = [TASK, *[said("assistant", use(call_id)), said("user", answer(call_id))] * 2]
    await repaired(messages, format_name, model)


def chat(count):
    """Calls with one id in one turn, their results in front of them."""
    call = {"id": "c", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    results = [{"role": "tool", "tool_call_id": "c", "content": "done"}] * count
    return [TASK, *results, {"role": "assistant", "content": None, "tool_calls": [call] * count}]


def rounds(count):
    """Rounds with one id."""
    return [TASK, *[said("assistant", use("c")), said("user", answer("c"))] * count]


def unanswered(count):
    """Calls with one id that nobody answers until the end."""
    return [TASK, *[said("assistant", use("c")), GO_ON] * count, said("user", *[answer("c")] * count)]


def backwards(count):
    """Calls of one turn, each answered by a content of its own, the last one first."""
    ids = [f"c{number}" for number in range(count)]
    calls = [{"functionCall": {"name": "run", "args": {}, "id": each}} for each in ids]
    answers = [{"functionResponse": {"name": "run", "response": {}, "id": each}} for each in reversed(ids)]
    parted = [{"role": "user", "parts": [each]} for each in answers]
    return [{"role": "user", "parts": [{"text": "task"}]}, {"role": "model", "parts": calls}, *parted]


@pytest.mark.parametrize(
    ("format_name", "made"),
    [("openai-chat", chat), ("anthropic", rounds), ("anthropic", unanswered), ("gemini", backwards)],
)
def test_repair_and_validation_are_linear(work, format_name, made):
    """Four times as many calls with one id, or in a hostile order, are about four times the work."""

    def done(count):
        messages = made(count)
        preparing = work(lambda: anyio.run(lambda: Pipeline().prepare(messages, format=format_name)))
        judged = work(lambda: validate({KEYS.get(format_name, "messages"): messages}, format=format_name))
        return preparing, judged

    done(10)
    for few, many in zip(done(100), done(400), strict=True):
        assert many < few * 6


@pytest.mark.anyio
async def test_reasoning_goes_with_the_blank_words_that_stood_before_it():
    """A model that binds its reasoning to all before it: when repair takes words from before it, it goes as well."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    sent = await repaired([TASK, said("assistant", text(" "), thought, text("ok")), GO_ON], model="claude-opus-5-5")
    assert sent == [TASK, said("assistant", text("ok")), GO_ON]
