"""What each strategy does to a small transcript, stateless, counted in fixed tokens."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from io import BytesIO
from itertools import chain

import pytest
from anthropic.types import TextBlock

from agentctx import (
    Budget,
    Call,
    ClearToolResults,
    CollapseRepeats,
    ConfigError,
    Context,
    ContextOverflow,
    FitContextWindow,
    Message,
    Outcome,
    Pack,
    Pipeline,
    Protect,
    RepairHistory,
    StageError,
    Text,
    Tiered,
    ToolCall,
    ToolResult,
    TrimRounds,
    TruncateToolOutputs,
    first_of,
    over,
    when,
)
from agentctx.builder import Tier
from agentctx.engine.cut import bind
from agentctx.engine.guarantee import FitGuarantee, FitRequestBytes, LimitImages, body_bytes
from agentctx.engine.reading import reader
from agentctx.engine.run_stages import run_alone
from agentctx.engine.shrink import shrink_arguments
from agentctx.testing import assistant, call, result, system, transcript, user
from agentctx.tiers import TierRule
from agentctx.tokens import FixedCounter, HeuristicCounter
from agentctx.tokens.counting import MessageMeter

pytestmark = pytest.mark.anyio


def agent(rounds, **outputs):
    turns = [system("be brief"), user("the task")]
    for number in range(rounds):
        call_id = f"c{number}"
        turns += [
            assistant(call(call_id, "read", {"n": number})),
            result(call_id, outputs.get(call_id, f"out {number}")),
        ]
    return transcript("openai-chat", *turns)


def shown(view):
    return [message.get("tool_call_id") or message["role"] for message in view.messages]


async def test_trim_rounds_keeps_the_last():
    """The system prompt, the task and the last rounds stay, each call with its result."""
    view = await Pipeline(TrimRounds(2)).prepare(agent(4))
    assert ["system", "user", "assistant", "c2", "assistant", "c3"] == shown(view)


async def test_trim_rounds_keeps_the_question_of_a_kept_round():
    """A later user message stays when the round that answers it does."""
    messages = [*agent(2), *transcript("openai-chat", user("and now?"), assistant("fine"), user("thanks"))]
    view = await Pipeline(TrimRounds(1)).prepare(messages)
    assert ["system", "user", "user", "assistant", "user"] == shown(view)


async def test_trim_rounds_leaves_a_short_history_alone():
    """With no more rounds than wanted every message is the caller's own object and nothing is reported."""
    messages = agent(2)
    view = await Pipeline(TrimRounds(2)).prepare(messages)
    assert all(sent is given for sent, given in zip(view.messages, messages, strict=True))
    assert not view.report.acted


async def test_clearing_keeps_the_last_results_and_the_calls():
    """Old results become the placeholder; the calls and the last results stay."""
    pipeline = Pipeline(ClearToolResults(1, placeholder="[gone]"))
    view = await pipeline.prepare(agent(3, c0="long " * 50, c1="long " * 50, c2="last " * 50))
    contents = [message["content"] for message in view.messages if message["role"] == "tool"]
    assert ["[gone]", "[gone]", "last " * 50] == contents


async def test_clearing_spares_what_the_model_has_not_read():
    """The results of the open round stay although fewer were to be kept; once answered, they are old like others."""
    asks = [call(f"p{number}", "read") for number in range(3)]
    answers = [result(f"p{number}", "unread " * 50) for number in range(3)]
    messages = transcript("openai-chat", user("task"), assistant(*asks), *answers)
    assert not (await Pipeline(ClearToolResults(1)).prepare(messages)).report.acted
    later = [*messages, *transcript("openai-chat", assistant("I see"), user("go on"))]
    view = await Pipeline(ClearToolResults(1)).prepare(later)
    assert [change.index for change in view.report.changes] == [2, 3]


async def test_clearing_takes_one_object_in_many_places_for_many_results():
    """A message that occurs three times is cleared twice."""
    asked = Message("assistant", (ToolCall("a", "read", "{}"),))
    told = Message("tool", (ToolResult("a", (Text("long " * 50),)),))
    sent = Context((Message("user", (Text("task"),)), *(asked, told) * 3, Message("assistant", (Text("so"),))))
    cleared = await ClearToolResults(1)(sent, Call(MessageMeter(HeuristicCounter())))
    assert [message is told for message in cleared.messages if message.results] == [False, False, True]


async def test_clearing_spares_excluded_tools():
    """Results of excluded tools are never cleared."""
    view = await Pipeline(ClearToolResults(0, exclude=["read"])).prepare(agent(2, c0="long " * 50))
    assert not view.report.acted


async def test_clearing_leaves_what_is_smaller_than_the_placeholder():
    """A result that the placeholder would not make smaller stays, and nothing is reported."""
    messages = [*agent(1, c0="ok"), *transcript("openai-chat", assistant("done"), user("more"))]
    view = await Pipeline(ClearToolResults(0)).prepare(messages)
    assert view.messages[3]["content"] == "ok"
    assert not view.report.acted


async def test_clearing_counts_results_and_not_messages():
    """Of two results in one message, only the one that is older than those to be kept goes."""
    asks = [call(name, "read") for name in "ab"]
    turns = [user("task"), assistant(*asks), result("a", "long " * 50), result("b", "last " * 50), assistant("done")]
    view = await Pipeline(ClearToolResults(1)).prepare(transcript("anthropic", *turns, user("more")))
    contents = [block["content"] for block in view.messages[2]["content"]]
    assert ["cleared" in str(content) for content in contents] == [True, False]


@pytest.mark.parametrize(
    ("stage", "why"),
    [
        (ClearToolResults(1), "older than the last 1 tool results"),
        (CollapseRepeats(), "the same result stands further down"),
        (TrimRounds(1), "older than the last 1 rounds"),
        (TruncateToolOutputs(50), "tool output longer than 50 tokens"),
        (FitContextWindow(Budget(300)), "to come down to 300 tokens: the largest results cut"),
    ],
)
async def test_every_strategy_says_why(stage, why):
    """Each change that it makes is in the report with its reason."""
    same = {f"c{number}": "long " * 200 for number in range(3)}
    view = await Pipeline(stage).prepare([*agent(3, **same), *transcript("openai-chat", assistant("so"), user("on"))])
    assert {change.reason for change in view.report.changes} == {why}


IDLE = {
    "clear": ClearToolResults(0),
    "clear none": ClearToolResults(9),
    "collapse": CollapseRepeats(marker="no"),
    "cut tokens": TruncateToolOutputs(50),
    "cut characters": TruncateToolOutputs(max_chars=200),
    "trim": TrimRounds(9),
    "images": LimitImages(1),
    "guarantee": FitGuarantee(10_000),
    "bytes": FitRequestBytes(10_000),
    "repair": RepairHistory(),
    "tiers": Tiered([TierRule(Tier.HISTORY, cap=5_000)], max_tokens=9_000),
    "pack": Pack("recent", max_tokens=9_000),
}


@pytest.mark.parametrize("stage", IDLE.values(), ids=IDLE)
async def test_a_stage_with_nothing_to_do_gives_back_the_same_and_says_nothing(stage):
    """Repeated results that are no longer than what would stand for them, and all else within its limits, stay."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    turns = [turn for each in "ab" for turn in (assistant(call(each, "read")), result(each, "ok"))]
    messages = transcript("anthropic", user("task"), *turns, assistant("done"), user("more"))
    messages[-1]["content"] = [image, {"type": "text", "text": "more"}]
    source = reader(messages, format="anthropic")
    context, told = Context(tuple(source.messages(messages))), Call(source.meter, wire=source.wire)
    assert await run_alone(stage, context, told) is context
    assert not told.internals.notes.reasons
    assert not told.internals.notes.remarks


async def test_the_system_prompt_is_in_the_body():
    """What is left of a history fits in so many bytes together with it."""
    turns = [turn for each in range(9) for turn in (user(f"question {each}"), assistant("answer " * 100))]
    messages, budget = transcript("anthropic", *turns, user("now")), Budget(100_000, request_bytes=9_000)
    system = "rules " * 1_000
    view = await Pipeline(FitContextWindow(), budget=budget).prepare(messages, system, format="anthropic")
    assert 1_000 < len(json.dumps([*view.messages, system])) <= 9_000


def bytes_of(format_name, *blocks):
    """The size of a body that is one message of the user."""
    key = "parts" if format_name == "gemini" else "content"
    messages = [{"role": "user", key: list(blocks)}]
    source = reader(messages, format=format_name)
    return body_bytes(Context(tuple(source.messages(messages))), Call(source.meter, wire=source.wire))


def test_bytes_and_files_are_in_the_body_as_base64(tmp_path):
    """Bytes, a stream and a file are as long as the base64 that a client makes of them."""
    content = bytes(range(128, 256)) * 20
    (path := tmp_path / "a.png").write_bytes(content)
    data = b64encode(content).decode()
    sizes = {
        bytes_of("anthropic", {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": each}})
        for each in (data, path, BytesIO(content))
    }
    sizes_in_bedrock = {
        bytes_of("bedrock", {"image": {"format": "png", "source": {"bytes": each}}}) for each in (data, content)
    }
    assert len(sizes) == len(sizes_in_bedrock) == 1


def test_an_sdks_object_is_in_the_body_as_its_fields():
    """Those that were given, as JSON writes them."""
    sent = {"type": "text", "text": "hi"}
    assert bytes_of("anthropic", TextBlock(**sent)) == bytes_of("anthropic", sent)


async def test_fit_drops_the_oldest_rounds_first():
    """The newest rounds that fit stay; what goes is named with its reason."""
    messages = agent(6)
    pipeline = Pipeline(FitContextWindow(), budget=Budget(65), counter=FixedCounter(10))
    view = await pipeline.prepare(messages)
    assert ["system", "user", "assistant", "c4", "assistant", "c5"] == shown(view)
    dropped = [change.index for change in view.report.changes if change.outcome is Outcome.DROPPED]
    assert list(range(2, 10)) == dropped
    assert all("oldest first" in change.reason for change in view.report.changes)


@pytest.mark.parametrize("limit", [60, 61, 79, 80])
async def test_fit_drops_no_round_more_than_it_must(limit):
    """What is left is at most the limit, also exactly; one round more would be over it."""
    view = await Pipeline(FitContextWindow(Budget(limit)), counter=FixedCounter(10)).prepare(agent(6))
    assert view.report.tokens_after == limit // 20 * 20


async def test_fit_without_any_budget_says_what_to_pass():
    """A stage that needs a budget and finds none is a clear error."""
    with pytest.raises(ConfigError, match="budget"):
        await Pipeline(FitContextWindow()).prepare(agent(1))


async def test_fit_with_own_limits():
    """The stage may carry its own limits, and the guarantee holds them too."""
    pipeline = Pipeline(FitContextWindow(Budget(75, 10)), counter=FixedCounter(10))
    assert ["system", "user", "assistant", "c4", "assistant", "c5"] == shown(await pipeline.prepare(agent(6)))


async def test_the_guarantee_cuts_one_result_larger_than_the_window():
    """A single result in the last round that is larger than the window is cut, and everything fits."""
    pipeline = Pipeline(FitContextWindow(), budget=Budget(1_000))
    view = await pipeline.prepare(agent(3, c2="line of text\n" * 20_000))
    assert view.report.tokens_after <= 1_000
    assert "omitted" in view.messages[-1]["content"]
    assert ["system", "user"] == shown(view)[:2]


async def test_the_guarantee_cuts_ten_results_that_only_together_are_too_large():
    """Ten parallel results that fit one by one are cut alike until they fit together."""
    asks = [call(f"p{number}", "read") for number in range(10)]
    answers = [result(f"p{number}", "some words here\n" * 60) for number in range(10)]
    messages = transcript("openai-chat", user("task"), assistant(*asks), *answers)
    view = await Pipeline(budget=Budget(1_000)).prepare(messages)
    lengths = {len(message["content"]) for message in view.messages if message["role"] == "tool"}
    assert view.report.tokens_after <= 1_000
    assert len(view.messages) == len(messages)
    assert max(lengths) - min(lengths) < 40


async def test_the_guarantee_cuts_arguments_last():
    """When only call arguments are left to cut, their strings are cut and stay valid JSON."""
    wrote = call("w", "write", {"path": "a.py", "content": "x = 1\n" * 4_000})
    messages = transcript("openai-chat", user("task"), assistant(wrote), result("w", "written"))
    view = await Pipeline(budget=Budget(500)).prepare(messages)
    arguments = json.loads(view.messages[1]["tool_calls"][0]["function"]["arguments"])
    assert arguments["path"] == "a.py"
    assert "omitted" in arguments["content"]
    assert 450 < view.report.tokens_after <= 500
    (change,) = view.report.changes
    assert re.fullmatch(r"over 500 tokens: strings in call arguments cut to [\d,]+ tokens", change.reason)


@pytest.mark.parametrize("around", ["", "[" * 150], ids=["one string", "deep"])
def test_arguments_that_are_one_string_or_nested_deep_stay(around):
    """They are not cut, as long as they may be."""
    arguments = around + json.dumps("x = 1\n" * 400) + "]" * len(around)
    context = Context((Message("assistant", (ToolCall("w", "write", arguments),)),))
    assert shrink_arguments(context, [0], 100, Call(MessageMeter(HeuristicCounter())), "too large") is context


async def test_the_guarantee_cuts_what_no_rule_names():
    """Of two results in the open round, that which a rule names stays whole, and the other makes room."""
    answers = [result("a", "kept " * 300), result("b", "line of text\n" * 900)]
    messages = transcript("openai-chat", user("task"), assistant(call("a", "read"), call("b", "read")), *answers)
    rule = Protect.where(lambda message: any("kept" in part.text for part in message.results))
    view = await Pipeline(budget=Budget(1_000), protect=[rule]).prepare(messages)
    assert [sent is given for sent, given in zip(view.messages, messages, strict=True)] == [True, True, True, False]
    assert view.report.tokens_after <= 1_000


async def test_the_guarantee_cuts_strings_wherever_they_stand():
    """Strings in lists and in objects are cut; numbers, keys and what else the message says stay."""
    edits = [{"line": 7, "new": "x = 1\n" * 2_000}, "y = 2\n" * 2_000, None]
    wrote = call("w", "write", {"path": "a.py", "edits": edits})
    messages = transcript("openai-chat", user("task"), assistant("I write", wrote), result("w", "written"))
    view = await Pipeline(budget=Budget(500)).prepare(messages)
    arguments = json.loads(view.messages[1]["tool_calls"][0]["function"]["arguments"])
    (first, second, third) = arguments["edits"]
    assert (arguments["path"], first["line"], third, view.messages[1]["content"]) == ("a.py", 7, None, "I write")
    assert "omitted" in first["new"]
    assert "omitted" in second
    assert view.report.tokens_after <= 500


async def test_the_guarantee_cuts_no_signed_call():
    """A call that carries a signature goes back as it came, so what is too large is an overflow."""
    wrote = {"functionCall": {"name": "write", "args": {"content": "x = 1\n" * 4_000}}, "thoughtSignature": "c2ln"}
    messages = transcript("gemini", user("task"), assistant(call("w", "write")), result("w", "written"))
    messages[1]["parts"] = [wrote]
    with pytest.raises(ContextOverflow):
        await Pipeline(budget=Budget(500)).prepare(messages, format="gemini")


async def test_the_guarantee_says_why_it_cuts():
    """What it cuts of the open round is in the report, with the reason and how far."""
    view = await Pipeline(budget=Budget(1_000)).prepare(agent(1, c0="line of text\n" * 900))
    (reason,) = [change.reason for change in view.report.changes]
    assert re.fullmatch(r"what must stay is larger than the window: results cut to [\d,]+ tokens", reason)


async def test_overflow_names_the_biggest_items():
    """When what must stay is too large, the error has the numbers and the biggest items, and nothing is sent."""
    messages = transcript("openai-chat", system("rule " * 900), user("task"))
    with pytest.raises(ContextOverflow, match=r"messages\[0\] \(system\)") as raised:
        await Pipeline(budget=Budget(500)).prepare(messages)
    assert raised.value.limit == 500
    assert raised.value.biggest[0].tokens > 800
    with pytest.raises(ContextOverflow) as raised:
        await Pipeline(budget=Budget(500), protect=[Protect.last_user(9)]).prepare([*messages, *messages[1:] * 8])
    assert [each.place for each in raised.value.biggest] == [f"messages[{each}]" for each in range(5)]


async def test_overflow_names_what_a_stage_made():
    """A message that stands nowhere in what was passed is named as what it is."""

    async def lengthen(context, call):
        return context.with_messages((*context.messages, Message("user", (Text("more " * 900),))))

    with pytest.raises(ContextOverflow, match="a message that a stage made"):
        await Pipeline(lengthen, budget=Budget(500)).prepare(agent(1))


@pytest.mark.parametrize("keep", ["head", "tail", "both"])
async def test_truncation_keeps_the_wanted_end(keep):
    """Head, tail or both ends stay, marked where text is missing, never over the limit."""
    text = "".join(f"line {number}\n" for number in range(2_000))
    view = await Pipeline(TruncateToolOutputs(100, keep=keep)).prepare(agent(1, c0=text))
    cut = view.messages[-1]["content"]
    assert (keep != "tail") == cut.startswith("line 0\n")
    assert (keep != "head") == cut.endswith("line 1999\n")
    assert "characters omitted" in cut


async def test_truncation_by_characters():
    """A limit in characters holds with the marker included."""
    view = await Pipeline(TruncateToolOutputs(max_chars=200)).prepare(agent(1, c0="abc " * 1_000))
    assert 150 < len(view.messages[-1]["content"]) <= 200


async def test_truncation_says_how_many_characters():
    """The marker's number is the number of characters that are missing."""
    text = "word " * 1_000
    pipeline = Pipeline(TruncateToolOutputs(max_chars=300, marker="<{omitted}>"))
    cut = (await pipeline.prepare(agent(1, c0=text))).messages[-1]["content"]
    head, rest = cut.split("<")
    number, tail = rest.split(">")
    assert int(number.replace(",", "")) == len(text) - len(head) - len(tail)


async def test_protected_tools_are_not_touched():
    """Results of protected tools are neither cleared nor dropped."""
    pipeline = Pipeline(ClearToolResults(0), TrimRounds(1), protect=[Protect.tools("read")])
    view = await pipeline.prepare(agent(3, c0="long " * 50))
    assert not view.report.acted


def test_protected_tools_are_told_by_their_own_calls():
    """A result belongs to the call of its round, also where another tool's round has the same id."""
    turns = [
        (Message("assistant", (ToolCall("c", name, "{}"),)), Message("tool", (ToolResult("c", (Text("a"),)),)))
        for name in ("read", "write", "read")
    ]
    messages = [Message("user", (Text("task"),)), *chain.from_iterable(turns)]
    assert list(Protect.tools("read")(messages)) == [1, 2, 5, 6]


def test_rules_give_the_indexes_that_they_name():
    """Of pins only those that exist, counted from either end; bound, those of the same messages."""
    messages = [Message("user", (Text(f"q{number}"),)) for number in range(3)]
    pins = Protect.pins(0, -1, -4, 3, 4)
    rules = {Protect.last_user(): [2], Protect.where(lambda message: message.text == "q1"): [1], pins: [0, 2]}
    assert {rule: list(rule(messages)) for rule in rules} == rules
    assert [list(rule(messages[1:])) for rule in bind([pins], 3, messages.__getitem__)] == [[1]]


async def test_pins_survive_whatever_a_stage_drops_before():
    """A pinned message is recognised after other stages have moved it."""
    messages = agent(5)
    pipeline = Pipeline(TrimRounds(3), TrimRounds(1), protect=[Protect.pins(4)])
    view = await pipeline.prepare(messages)
    assert any(message is messages[4] for message in view.messages)


async def test_protecting_more_user_messages():
    """The last n user messages survive when asked for."""
    turns = [turn for number in range(4) for turn in (user(f"q{number}"), assistant(f"a{number}"))]
    pipeline = Pipeline(TrimRounds(1), protect=[Protect.last_user(3)])
    view = await pipeline.prepare(transcript("openai-chat", system("s"), *turns))
    assert {"q0", "q1", "q2", "q3"} <= {message["content"] for message in view.messages}


async def test_when_and_first_of():
    """A condition decides when a stage runs; the first stage that changes something is the last that runs."""
    late = Pipeline(when(over(10_000), TrimRounds(1)))
    assert not (await late.prepare(agent(3))).report.acted
    early = Pipeline(when(over(1) & ~over(10_000), first_of(TrimRounds(9), TrimRounds(2), TrimRounds(1))))
    assert ["system", "user", "assistant", "c1", "assistant", "c2"] == shown(await early.prepare(agent(3)))


@pytest.mark.parametrize(("amount", "acts"), [(100, False), (99, True)])
async def test_over_is_more_than(amount, acts):
    """A request of exactly so many tokens is not over them."""
    pipeline = Pipeline(when(over(amount), TrimRounds(1)), counter=FixedCounter(10))
    assert (await pipeline.prepare(agent(4))).report.acted == acts


@pytest.mark.parametrize("stage", [when(over(1), TrimRounds(1)), first_of(TrimRounds(9), TrimRounds(1))])
async def test_what_holds_stages_can_be_called_by_itself(stage):
    """A stage of a user's own may call it, like any other stage."""

    async def mine(context, call):
        return await stage(context, call)

    assert ["system", "user", "assistant", "c2"] == shown(await Pipeline(mine).prepare(agent(3)))


async def test_a_pipeline_is_a_stage():
    """A nested pipeline runs with its own budget."""
    inner = Pipeline(FitContextWindow(), budget=Budget(65))
    view = await Pipeline(inner, counter=FixedCounter(10)).prepare(agent(6))
    assert view.report.tokens_after <= 65


async def test_a_plain_function_is_a_stage():
    """Any async function with the signature is a stage, and what it did is reported under its name."""

    async def forget_middle(context, call):
        return context.with_messages(context.messages[:2] + context.messages[-2:])

    view = await Pipeline(forget_middle).prepare(agent(3))
    assert {change.stage for change in view.report.changes} == {"forget_middle"}


@pytest.mark.parametrize(
    ("name", "keep"),
    [("broke a pair", slice(None, -1)), ("protected", slice(2, None)), ("broke a pair", slice(3, None))],
)
async def test_a_stage_that_breaks_a_promise_is_named(name, keep):
    """A broken pair or a lost task is an error that names the stage."""

    async def careless(context, call):
        kept = context.messages[keep]
        return context.with_messages(kept if name == "protected" else context.messages[:2] + kept[2:])

    if keep == slice(3, None):

        async def careless(context, call):
            return context.with_messages(context.messages[:2] + context.messages[3:])

    with pytest.raises(StageError, match=f"careless.*{name}"):
        await Pipeline(careless).prepare(agent(3))


@pytest.mark.parametrize(
    "make",
    [
        lambda: TrimRounds(0),
        lambda: TrimRounds(1.5),
        TruncateToolOutputs,
        lambda: TruncateToolOutputs(0),
        lambda: TruncateToolOutputs(5, keep="middle"),
        lambda: ClearToolResults(-1),
        lambda: ClearToolResults(keep_last=True),
        lambda: ClearToolResults(1, placeholder="  "),
        lambda: FitContextWindow(-1),
        lambda: FitContextWindow(0),
        lambda: Budget(0),
        lambda: over(0),
        lambda: over(1.5),
        lambda: when(over(5)),
        first_of,
        Protect.tools,
        lambda: Protect.last_user(0),
        lambda: Pipeline(TrimRounds),
        lambda: Pipeline("TrimRounds"),
    ],
)
def test_options_that_make_no_sense_are_refused_when_built(make):
    """Every stage checks its options when it is built."""
    with pytest.raises(ConfigError):
        make()
