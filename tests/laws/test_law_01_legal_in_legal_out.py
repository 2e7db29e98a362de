"""Law 1: legal in, legal out; an illegal history is repaired at the entry and the repair is reported."""

import json

import pytest
from histories import broken_histories, budgets, histories, stages
from hypothesis import given
from plans import Answer, Ask, Code, Plan, Ran, Say, Turn, write

from agentctx import (
    AgentctxError,
    Budget,
    ClearToolResults,
    FitContextWindow,
    Outcome,
    Pipeline,
    Session,
    TrimRounds,
    count,
    validate,
)
from agentctx.errors import BrokenPair
from agentctx.testing import assistant, call, history, result, system, thinking, transcript, user
from agentctx.testing.laws import Scenario, legal_in_legal_out
from agentctx.unit import server_calls

FORMATS = ["openai-chat", "anthropic", "gemini", "bedrock"]

ROUND = (assistant("looking", call("c1", "read", {"path": "a"})), result("c1", "text of a"))

IN_ONE_FORMAT = {"words between the results of a turn", "results of a run of turns after words"}
"""Breakages that only a format has which puts results and words into one message."""

BROKEN = {
    "unanswered at the end": (user("task"), *ROUND, assistant(call("c2", "read"))),
    "unanswered in the middle": (user("task"), assistant(call("c2", "read")), user("never mind"), *ROUND),
    "unanswered before another turn": (user("task"), assistant(call("c2", "read")), assistant("done"), user("ok")),
    "one of two unanswered": (user("task"), assistant(call("a", "x"), call("b", "y")), result("b", "of b")),
    "result before its call": (user("task"), result("c1", "early"), assistant(call("c1", "read")), user("go on")),
    "orphan at the start": (result("gone", "left over"), user("task"), *ROUND),
    "orphan at the end": (user("task"), *ROUND, user("and"), result("c1", "again")),
    "answered twice": (user("task"), ROUND[0], result("c1", "one"), result("c1", "two")),
    "user between call and result": (user("task"), ROUND[0], user("wait!"), ROUND[1]),
    "results of two rounds mixed up": (
        user("task"),
        assistant(call("a", "x")),
        result("b", "of b"),
        assistant(call("b", "y")),
        result("a", "of a"),
    ),
    "words between the results of a turn": (
        user("task"),
        assistant(call("a", "x"), call("b", "y")),
        user(result("a", "of a"), "by the way"),
        user(result("b", "of b")),
        assistant("ok"),
        user("go on"),
    ),
    "results of a run of turns after words": (
        user("task"),
        assistant(call("a", "x")),
        assistant(call("b", "y")),
        user("by the way", result("a", "of a")),
        user(result("b", "of b")),
    ),
    "the model's last words end in blanks": (user("task"), assistant("I will \n")),
    "one id for two calls of a turn": (
        user("task"),
        assistant(call("a", "x"), call("a", "y")),
        result("a", "one"),
        result("a", "two"),
    ),
    "blank words": (user("task"), assistant(" \n"), user("go on")),
    "nothing said": (user("task"), assistant(), user("go on")),
    "half a character": (user("task \ud83d"), *ROUND, user("\udc00")),
    "half a character in a result": (user("task"), ROUND[0], result("c1", "cut \ud83d")),
    "half a character in a call": (user("task"), assistant(call("c1", "x", {"q": "\ud83d"})), result("c1", "")),
    "a number that JSON has not": (user("task"), assistant(call("c1", "x", {"q": float("nan")})), result("c1", "")),
}


def errors(request, format_name):
    """The rules for which the provider refuses the request."""
    return [violation for violation in validate(request, format=format_name) if violation.severity == "error"]


@given(histories(), budgets(), stages())
def test_legal_histories_stay_legal(both_loops, history, budget, stage):
    """Whatever a stage leaves out of a legal history, what is left is legal."""
    both_loops(legal_in_legal_out, Scenario.of(stage, history, budget))


@given(broken_histories(), budgets(), stages())
def test_broken_histories_become_legal(both_loops, history, budget, stage):
    """However a history is broken, what is sent is legal, and the report says that it was repaired."""
    both_loops(legal_in_legal_out, Scenario.of(stage, history, budget))


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "format_name"),
    [(name, form) for name in BROKEN for form in FORMATS if form == "anthropic" or name not in IN_ONE_FORMAT],
)
async def test_each_breakage_is_repaired(name, format_name):
    """A known breakage becomes legal, and the report says so."""
    broken = transcript(format_name, *BROKEN[name])
    view = await Pipeline().prepare(broken, format=format_name)
    assert errors({"messages": view.messages}, format_name) == []
    assert view.report.acted or not errors({"messages": broken}, format_name)


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_results_out_of_place_are_moved_not_lost(format_name):
    """A result that stands behind the user's interruption goes back to its call, and the interruption stays."""
    view = await Pipeline().prepare(
        transcript(format_name, user("task"), ROUND[0], user("wait!"), ROUND[1]), format=format_name
    )
    said = [part for message in view.context.messages for part in message.parts]
    assert "text of a" in [part.text for part in said if type(part).__name__ == "ToolResult"]
    assert "wait!" in [part.text for part in said if type(part).__name__ == "Text"]


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_nothing_to_send_is_an_error(format_name):
    """When repair leaves nothing that a provider takes, it is an error and no empty request."""
    orphan = transcript(format_name, result("gone", "left over"))
    with pytest.raises(AgentctxError):
        await Pipeline().prepare(orphan, format=format_name)


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_stage_that_breaks_a_pair_is_named(format_name, preparing):
    """A stage that leaves a call without its result is an error that names the stage."""

    async def behead(context, _call):
        return context.with_messages(tuple(message for message in context.messages if not message.results))

    pipeline = Pipeline(behead)
    messages = transcript(format_name, user("task"), *ROUND, user("go on"))
    prepare = preparing(pipeline, format_name)
    with pytest.raises(BrokenPair, match="behead") as caught:
        await prepare(messages)
    assert caught.value.stage == "behead"


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_stage_that_breaks_a_pair_within_another_is_named(format_name):
    """A stage that breaks a pair within a nested pipeline does not get through either."""

    async def behead(context, _call):
        return context.with_messages(tuple(message for message in context.messages if not message.results))

    messages = transcript(format_name, user("task"), *ROUND, user("go on"))
    with pytest.raises(BrokenPair):
        await Pipeline(Pipeline(behead)).prepare(messages, format=format_name)


@pytest.mark.anyio
async def test_results_split_over_two_messages_go_together():
    """Anthropic: when the results of a round stand in two user messages, the round is dropped as a whole."""
    calls = assistant(call("a", "x"), call("b", "y"))
    messages = transcript("anthropic", user("task"), calls, user(result("a", "A")), user(result("b", "B")))
    messages += transcript("anthropic", assistant("ok"), user("next"), *ROUND, user("last"))
    view = await Pipeline(TrimRounds(1)).prepare(messages, format="anthropic")
    assert errors({"messages": view.messages}, "anthropic") == []
    assert "tool_use_id" not in str(view.messages[:2])


@pytest.mark.anyio
async def test_user_words_in_a_message_of_results_survive_their_round():
    """Anthropic: the latest words of the user survive though they stand in a message with results."""
    turns = [user("task")]
    for number in range(6):
        turns += [assistant(call(f"c{number}", "x")), result(f"c{number}", "word " * 300)]
    last = [assistant(call("z", "x")), user(result("z", "word " * 2_000), "what do you think?")]
    messages = transcript("anthropic", *turns, *last)
    view = await Pipeline(FitContextWindow(Budget(900))).prepare(messages, format="anthropic")
    assert errors({"messages": view.messages}, "anthropic") == []
    assert "what do you think?" in str(view.messages[-1])


@pytest.mark.anyio
async def test_server_tool_blocks_stay_together():
    """Anthropic: a server tool's call and its result are kept or dropped together."""
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    tools = [{"type": "web_search_20250305", "name": "web_search"}]
    messages = transcript("anthropic", user("task"))
    for number in range(8):
        messages.append(
            {
                "role": "assistant",
                "content": [search | {"id": f"srvtoolu_{number}"}, *([found | {"tool_use_id": f"srvtoolu_{number}"}])],
            }
        )
        messages.append({"role": "user", "content": f"and number {number}?"})
    view = await Pipeline(TrimRounds(3)).prepare(messages, tools=tools, format="anthropic")
    assert errors({"messages": view.messages, "tools": tools}, "anthropic") == []
    assert str(view.messages).count("server_tool_use") == 3


CODE = "srvtoolu_1"


def programmed(format_name, rounds=2, *between):
    """Code that the provider runs calls a tool in each of some rounds, with turns between them, and prints a word."""
    turns = [Turn("user", (Say("task"),)), Turn("assistant", (Code(CODE), Ask("t0", "read", {}, CODE)))]
    for number in range(rounds):
        turns += [Turn("assistant", (Ask(f"t{number}", "read", {}, CODE),))] * bool(number)
        turns += [Turn("results", (Answer(f"t{number}", f"text {number}", caller=CODE),)), *between]
    turns += [Turn("assistant", (Ran(CODE, "42"), Say("it is 42"))), Turn("user", (Say("thanks"),))]
    return write(Plan(tuple(turns)), format_name).messages


def uncoded(messages):
    """The ids of code that calls and results say they come from, and that is not among the messages."""
    named = {getattr(part, "caller", None) for message in messages for part in message.parts}
    return named - {None} - server_calls(messages)[0]


CODED = ["anthropic", "openai-responses"]


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["full", "rolling", "load"])
@pytest.mark.parametrize("format_name", CODED)
async def test_code_that_calls_tools_over_several_rounds_stays_whole(format_name, mode, walk):
    """While code of the provider's goes on calling, and when it has printed, every message is the caller's own."""
    messages = programmed(
        format_name, 4, *([Turn("user", (Say("hurry"),))] if format_name == "openai-responses" else [])
    )
    legal = 0
    async for passed, view in walk(Pipeline(FitContextWindow(), budget=90_000), messages, mode, format=format_name):
        if not errors({"messages": passed}, format_name):  # and no step between a call and its result
            legal += 1
            assert all(one is other for one, other in zip(passed, view.messages, strict=True))
    assert legal > 2


@pytest.mark.anyio
async def test_when_code_goes_what_it_called_stays_as_the_models_own_calls(preparing):
    """Anthropic: code that the user's words cut off goes; its calls and results stay, without their caller."""
    messages = programmed("anthropic", 2, Turn("user", (Say("hurry"),)))
    view = await preparing(Pipeline(budget=90_000), "anthropic")(messages)
    assert errors({"messages": view.messages}, "anthropic") == []
    said = json.dumps(view.messages)
    assert [word in said for word in ("srvtoolu_1", "caller", "text 0", "text 1", "hurry")] == [
        False,
        False,
        *[True] * 3,
    ]
    assert {change.reason for change in view.report.in_force} >= {
        "the code that made the call is not in the request, or had ended"
    }


@pytest.mark.anyio
async def test_calls_whose_code_ended_before_they_were_answered_are_the_models_own(preparing):
    """Anthropic: with results that come behind the end of the code, and the user's words, no code is pending."""
    code = [Code(CODE), Ask("t0", "read", {}, CODE)]
    turns = [Turn("user", (Say("task"),)), Turn("assistant", tuple(code)), Turn("assistant", (Ran(CODE, "42"),))]
    turns += [Turn("results", (Answer("t0", "late"), Say("hurry")))]
    view = await preparing(Pipeline(), "anthropic")(write(Plan(tuple(turns)), "anthropic").messages)
    assert errors({"messages": view.messages}, "anthropic") == []
    assert all(word in str(view.messages) for word in ("late", "hurry", "42"))


@pytest.mark.anyio
async def test_a_paused_server_keeps_the_last_word(preparing):
    """Anthropic: where a result without a call goes, the open call of the provider's tool before it stays open."""
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    paused = [{"role": "user", "content": "task"}, {"role": "assistant", "content": [search]}]
    view = await preparing(Pipeline(), "anthropic")([*paused, *transcript("anthropic", result("gone", "left over"))])
    assert view.messages == paused


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["full", "rolling", "load"])
@pytest.mark.parametrize("format_name", CODED)
async def test_no_cut_parts_calls_from_the_code_that_made_them(format_name, mode, walk):
    """Whatever is left out, no call names code that is not in the request, also when the user spoke between."""
    between = [Turn("user", (Say("hurry " * 30),))] if format_name == "openai-responses" else []
    messages = [*programmed(format_name, 3, *between), *programmed("openai-chat", 0)[:1]]
    messages += transcript(format_name, *[turn for n in range(6) for turn in (assistant(f"{n} " * 60), user("on"))])
    for limit in (150, 300, 450):
        pipeline = Pipeline(FitContextWindow(), budget=Budget(limit))
        async for _, view in walk(pipeline, messages, mode, format=format_name):
            assert uncoded(view.context.messages) == set()


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_clearing_results_is_legal_everywhere(format_name):
    """Clearing every result of a history with parallel calls and reasoning is legal."""
    request = history(
        format_name,
        system("be brief"),
        user("task"),
        assistant(thinking("hm"), "two at once", call("a", "x"), call("b", "y")),
        result("b", "B" * 500),
        result("a", "A" * 500),
        assistant(thinking("so"), "done"),
        user("thanks"),
    )
    view = await Pipeline(ClearToolResults(keep_last=0)).prepare(request.messages, request.system, format=format_name)
    assert errors({"messages": view.messages}, format_name) == []
    assert "AAA" not in str(view.messages)


LATE = (
    user("task"),
    assistant(call("c1", "run")),
    user("wait"),
    assistant("hm"),
    result("c1", "built"),
    assistant("done"),
    user("and now?"),
)
MIND_THE_END = [
    ("anthropic", "claude-opus-4-8"),
    ("anthropic", "claude-sonnet-4-5"),
    ("bedrock", "anthropic.claude-opus-4-5-20251101-v1:0"),
    ("gemini", "gemini-2.5-pro"),
    ("openai-chat", "mistral-large-latest"),
]


ASKING = ("user", "tool")


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["full", "rolling", "load"])
@pytest.mark.parametrize(("format_name", "model"), MIND_THE_END)
async def test_a_late_result_leaves_the_last_word_to_the_user(format_name, model, mode, walk):
    """What ended on a result does not end on the assistant's words; the same in all modes, also when it is answered."""
    messages, pipeline = transcript(format_name, *LATE), Pipeline()
    wire = {"format": format_name, "model": model}
    async for passed, view in walk(pipeline, messages, mode, **wire):
        at_once = await pipeline.prepare(passed, **wire)
        assert view.messages == at_once.messages
        assert passed[-1]["role"] not in ASKING or view.messages[-1]["role"] in ASKING
        assert count(view.messages, **wire) == view.report.tokens_after
        assert adds_up(view.report)
    assert all(word in str(view.messages) for word in ("built", "wait", "hm", "done", "and now?"))
    assert "[go on]" in str(view.messages)


def adds_up(report):
    """Whether what the report says is in force accounts for the number of messages."""
    outcomes = [change.outcome for change in report.in_force]
    made, gone = outcomes.count(Outcome.ADDED), outcomes.count(Outcome.DROPPED)
    return report.messages_before + made - gone == report.messages_after


@pytest.mark.anyio
@pytest.mark.parametrize("way", ["at once", "after a load"])
@pytest.mark.parametrize(("format_name", "model"), MIND_THE_END)
async def test_a_caller_who_goes_back_has_the_last_word_again(format_name, model, way):
    """At the late result, where the view ended on words of the user that were there for one step, they are again."""
    messages, pipeline = transcript(format_name, *LATE), Pipeline()
    late = len(transcript(format_name, *LATE[:5]))
    wire = {"format": format_name, "model": model}
    session = pipeline.session(**wire)
    for length in (late, len(messages)):
        await session.prepare(messages[:length])
        if way == "after a load":
            session = Session.load(pipeline, json.loads(json.dumps(session.dump())))
    for again in (messages[:late], messages[:late], messages):
        view = await session.prepare(again)
        assert view.messages == (await pipeline.prepare(again, **wire)).messages
        assert adds_up(view.report)


@pytest.mark.anyio
async def test_what_is_dropped_last_leaves_the_last_word_to_the_user(preparing):
    """The same where the last message is a result without a call; and a history that ends on the model is left so."""
    prepare = preparing(Pipeline(), "anthropic", "claude-opus-4-8")
    spoken = transcript("anthropic", user("task"), assistant("hm"))
    orphaned = await prepare([*spoken, *transcript("anthropic", result("gone", "left over"))])
    assert [message["role"] for message in orphaned.messages] == ["user", "assistant", "user"]
    assert (await preparing(Pipeline(), "anthropic", "claude-opus-4-8")(spoken)).messages == spoken


HI = {"role": "user", "content": "task"}
PICTURE = {"format": "png", "source": {"bytes": b"\x89PNG"}}


def hosted(call_id):
    """Anthropic: a tool that the provider ran, under an id, and a call that its code made."""
    asked = {"type": "server_tool_use", "id": call_id, "name": "code_execution", "input": {"code": "f()"}}
    caller = {"type": "code_execution_20250825", "tool_id": call_id}
    called = {"type": "tool_use", "id": "t", "name": "f", "input": {}, "caller": caller}
    told = {"type": "code_execution_tool_result", "tool_use_id": call_id, "content": {"stdout": "found"}}
    answered = {"type": "tool_result", "tool_use_id": "t", "content": "r"}
    return [
        HI,
        {"role": "assistant", "content": [asked, called]},
        {"role": "user", "content": [answered]},
        {"role": "assistant", "content": [told, {"type": "text", "text": "ok"}]},
        HI,
    ]


def bedrock(*blocks):
    """Bedrock: the assistant says something in a conversation."""
    spoken = {"role": "user", "content": [{"text": "task"}]}
    return [spoken, {"role": "assistant", "content": [{"text": "here"}, *blocks]}, spoken]


MANY = [{"id": f"c{n}", "type": "function", "function": {"name": "run", "arguments": "{}"}} for n in range(260)]
READABLE = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
SAID = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]}
REFUSED = {
    "a server's id of a gateway": ("anthropic", "claude-sonnet-4-5", hosted("call_1"), "found"),
    "a server's id with other characters": ("anthropic", "claude-sonnet-4-5", hosted("srvtoolu-a.b:0"), "found"),
    "more calls than a message may hold": (
        "openai-chat",
        "gpt-5.4",
        [
            HI,
            {"role": "assistant", "content": "all", "tool_calls": MANY},
            *({"role": "tool", "tool_call_id": each["id"], "content": f"of {each['id']}"} for each in MANY),
            HI,
        ],
        "of c259",
    ),
    "reasoning that can be read": ("openai-responses", "gpt-5.4", [HI, READABLE, SAID, HI], "hm"),
    "a picture of the assistant's": ("bedrock", None, bedrock({"image": PICTURE}), "image left out"),
    "a document of the assistant's": (
        "bedrock",
        None,
        bedrock({"document": {"format": "txt", "name": "a", "source": {"text": "its words"}}}),
        "its words",
    ),
}


@pytest.mark.anyio
@pytest.mark.parametrize("steps", ["whole", "one by one"])
@pytest.mark.parametrize("name", REFUSED)
async def test_what_a_provider_refuses_is_mended_with_its_words_kept(name, steps, preparing):
    """What is refused in a message is mended and reported, whichever step it comes in; what names it still does."""
    format_name, model, messages, words = REFUSED[name]
    prepare = preparing(Pipeline(), format_name, model)
    if steps == "one by one":
        for stop in (1, 2, 3, len(messages) - 1):
            await prepare(messages[:stop])
    view = await prepare(messages)
    assert errors({"messages": messages, "model": model}, format_name)
    assert errors({"messages": view.messages, "model": model}, format_name) == []
    assert uncoded(view.context.messages) == set()
    assert words in str(view.messages)
    assert view.report.in_force
    assert count(view.messages, format=format_name, model=model) == view.report.tokens_after


def _uses(*ids):
    return [{"type": "tool_use", "id": identity, "name": "run", "input": {}} for identity in ids]


def _told(*ids):
    return [{"type": "tool_result", "tool_use_id": identity, "content": identity} for identity in ids]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "later",
    [
        [_told("b"), "x"],
        [_told("b", "a"), "x"],
        ["w", None, _told("b"), "x"],
        ["w", None, _told("b"), _told("a"), "x"],
    ],
)
@pytest.mark.parametrize("first", [[], [_told("a")]])
@pytest.mark.parametrize("step", [1, 10])
async def test_the_user_does_not_speak_between_calls_and_their_results(later, first, step):
    """A turn of the assistant goes on though a blank message was in it: nothing parts its calls from the results."""
    say = [{"type": "text", "text": "say"}]
    blank = ["t", *first, _uses("a"), say, " ", _uses("b"), *later]
    mine = {id(say), *(id(said) for said in blank if isinstance(said, list) and said[0]["type"] == "tool_use")}
    roles = ["assistant" if said is None or id(said) in mine else "user" for said in blank]
    history = [{"role": role, "content": said or say} for role, said in zip(roles, blank, strict=True)]
    session = Pipeline().session(format="anthropic", model="claude-sonnet-4-5")
    for stop in range(min(step, len(history)), len(history) + 1):
        if history[stop - 1]["role"] == "user":
            view = await session.prepare(history[:stop])
            assert not [each for each in validate({"messages": view.messages}, "anthropic") if each.severity == "error"]
