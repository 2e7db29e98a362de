"""The rules of the Anthropic Messages API, each with requests that keep and that break it."""

import base64
import struct

import pytest
from hypothesis import given, strategies as st

from agentctx.formats.anthropic import Anthropic
from agentctx.models import ModelProfile
from agentctx.rules import anthropic as rules, find_violations
from agentctx.rules.anthropic import lay_out

wire = Anthropic()

HI = {"role": "user", "content": "hi"}
MARKER = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "S1"}
IMAGE = {"type": "image", "source": {"type": "url", "url": "https://e/x.png"}}


def text(words="x", **more):
    """A text block."""
    return {"type": "text", "text": words, **more}


def call(name="t1", **more):
    """A call of the client's tool."""
    return {"type": "tool_use", "id": name, "name": "f", "input": {}, **more}


def result(name="t1", content="ok", **more):
    """A result of the client's tool."""
    return {"type": "tool_result", "tool_use_id": name, "content": content, **more}


def search(name="srvtoolu_1", **more):
    """A call of a server tool."""
    return {"type": "server_tool_use", "id": name, "name": "web_search", "input": {}, **more}


def hits(name="srvtoolu_1", **more):
    """A result of a server tool."""
    return {"type": "web_search_tool_result", "tool_use_id": name, "content": [], **more}


def user(*blocks):
    """A user message."""
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks):
    """An assistant message."""
    return {"role": "assistant", "content": list(blocks)}


def system(words="s", **more):
    """A system message among the messages."""
    return {"role": "system", "content": words, **more}


def ask(*messages, model="claude-opus-5", **more):
    """A request."""
    return {"model": model, "messages": list(messages), **more}


ROUND = (HI, assistant(call()), user(result()))
PAUSED = ask(HI, assistant(text(), search()))
MANUAL = {"type": "enabled", "budget_tokens": 2048}
OLD = "claude-sonnet-4-5"

GOOD = [
    ask(*ROUND),
    ask(HI, assistant(call("a"), call("b")), user(result("b"), result("a"), text())),
    ask(HI, assistant(call("a")), assistant(call("b")), user(result("a")), user(result("b"), text())),
    ask(HI, assistant(call()), user({"type": "tool_result", "tool_use_id": "t1"})),
    ask(HI, assistant(call()), user(result(content=""))),
    ask(HI, assistant(call()), user(result(content=[text(), IMAGE, {"type": "tool_reference", "tool_name": "f"}]))),
    ask(HI, assistant(), model=OLD),
    ask(HI, {"role": "assistant", "content": "The answer is"}, model=OLD),
    ask(HI, assistant(text("The answer is")), model="claude-3-5-sonnet-20241022"),
    ask(HI, assistant(text("The answer is")), model="of-someone-else"),
    ask(HI, system(), model="claude-opus-4-8"),
    ask(*ROUND, system(), assistant(text()), HI),
    ask(HI, system(), system(), assistant(text()), HI),
    ask(HI, assistant(search(), hits()), system()),
    ask(HI, system(), model="claude-fable-5-1"),
    ask(HI, {"role": "system", "output_config": {"effort": "low"}}),
    ask(HI, assistant(search(), hits(), text()), HI),
    PAUSED,
    {**PAUSED, "tools": [{"type": "web_search_20250305", "name": "web_search"}]},
    ask(HI, assistant(search(), call()), user(result())),
    ask(HI, assistant(search(), call()), user(result()), assistant(hits(), text()), HI),
    ask(HI, assistant(search(), call("a")), user(result("a")), assistant(call("b")), user(result("b"))),
    ask(
        HI,
        assistant(
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "bash_code_execution", "input": {}},
            {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "m", "input": {}},
        ),
        tools=[{"type": "code_execution_20260120", "name": "code_execution"}],
    ),
    ask(HI, assistant(call(caller={"type": "code_execution_20260120"})), user(result())),
    ask(user(text(cache_control=HOUR), text(cache_control=MARKER)), system=[text(cache_control=HOUR)]),
    ask(user(*(text(cache_control=MARKER) for _ in range(3))), cache_control=MARKER),
    ask(user(text(cache_control=None))),
    ask(HI, assistant(THOUGHT, call()), user(result()), thinking=MANUAL, model=OLD),
    ask(HI, assistant(THOUGHT, call("a")), user(result("a")), assistant(call("b")), user(result("b")), thinking=MANUAL),
    ask(*ROUND, assistant(text()), HI, thinking=MANUAL, model=OLD),
    ask(HI, assistant(call()), user(result(), text()), thinking=MANUAL, model=OLD),
    ask(*ROUND, thinking={"type": "adaptive"}),
    ask(assistant({"type": "compaction", "content": "s", "signature": "S"}, text()), HI),
    ask(assistant({"type": "compaction", "content": None}), HI),
    ask(user(*[IMAGE] * 600)),
    ask(HI, tool_choice={"type": "auto"}),
    ask(HI, tool_choice={"type": "none"}),
    ask(HI, tool_choice={"type": "any"}, tools=[{"name": "f" * 128, "input_schema": {}}]),
    ask(HI, tools=[{"type": "mcp_toolset", "mcp_server_name": "a server"}]),
    ask(HI, tool_choice={"type": "tool", "name": "f"}, tools=[{"name": "f", "input_schema": {}}]),
    ask(HI, tool_choice={"type": "auto"}, model="claude-opus-5-5"),
    ask(HI, system="", model=None),
    {"messages": [HI]},
]


@pytest.mark.parametrize("request_", GOOD)
def test_a_legal_request_breaks_no_rule(request_):
    """What the provider takes is not complained of."""
    assert find_violations(wire, request_) == ()


BAD = [
    ("messages_empty", "messages", ask()),
    ("messages_empty", "messages", {}),
    ("messages_empty", "messages", {"messages": "hi"}),
    ("role", "messages.0.role", ask({"role": "tool", "content": "hi"})),
    ("system_unsupported", "messages.1.role", ask(HI, system(), model="claude-sonnet-5")),
    ("system_unsupported", "messages.1.role", ask(HI, system(), model="claude-opus-4-7")),
    ("system_first", "messages.0", ask(system(), HI)),
    ("system_in_round", "messages.2", ask(HI, assistant(call()), system(), user(result()))),
    (
        "system_in_round",
        "messages.3",
        ask(HI, assistant(call("a"), call("b")), user(result("a")), system(), user(result("b"))),
    ),
    ("system_position", "messages.2", ask(HI, assistant(text()), system())),
    ("system_position", "messages.1", ask(HI, system(), HI)),
    ("tool_use_unanswered", "messages.1", ask(HI, assistant(call()))),
    ("tool_use_unanswered", "messages.1", ask(HI, assistant(call()), HI)),
    ("tool_use_unanswered", "messages.1", ask(HI, assistant(call("a"), call("b")), user(result("a")))),
    ("tool_use_unanswered", "messages.1", ask(HI, assistant(call("a")), assistant(call("b")), user(result("b")))),
    ("tool_result_orphan", "messages.0.content.0", ask(user(result(), text()))),
    ("tool_result_orphan", "messages.2.content.1", ask(HI, assistant(call()), user(result(), result("t2")))),
    ("tool_result_orphan", "messages.4.content.0", ask(*ROUND, assistant(text()), user(result()))),
    ("tool_result_late", "messages.2.content.1", ask(HI, assistant(call()), user(text(), result()))),
    ("tool_result_late", "messages.3.content.0", ask(HI, assistant(call()), HI, user(result()))),
    ("tool_result_dup", "messages.2.content.1", ask(HI, assistant(call()), user(result(), result()))),
    ("tool_use_dup", "messages.1.content.1", ask(HI, assistant(call(), call()), user(result()))),
    ("tool_use_dup", "messages.3.content.0", ask(*ROUND, assistant(call()), user(result()))),
    ("tool_result_role", "messages.3.content.0", ask(*ROUND, assistant(result()), HI)),
    ("tool_use_role", "messages.0.content.0", ask(user(call()))),
    ("id_pattern", "messages.1.content.0.tool_use.id", ask(HI, assistant(call("a.b")), user(result("a.b")))),
    ("id_pattern", "messages.1.content.0.tool_use.id", ask(HI, assistant(call("")), user(result("")))),
    (
        "id_pattern",
        "messages.2.content.0.tool_result.tool_use_id",
        ask(HI, assistant(call("a\n")), user(result("a\n"))),
    ),
    (
        "id_pattern",
        "messages.1.content.0.server_tool_use.id",
        ask(HI, assistant(search("toolu_1"), hits("toolu_1"), text()), HI),
    ),
    ("tool_use_id_missing", "messages.1.content.0.tool_use.id", ask(HI, assistant(call(None)), HI)),
    ("tool_use_id_missing", "messages.0.content.0.tool_result.tool_use_id", ask(user(result(None)))),
    ("tool_use_id_missing", "messages.0.content.0.tool_result.tool_use_id", ask(user(result(7)))),
    ("input_type", "messages.1.content.0.tool_use.input", ask(HI, assistant(call(input="{}")), user(result()))),
    ("input_type", "messages.1.content.0.tool_use.input", ask(HI, assistant(call(input=None)), user(result()))),
    ("input_type", "messages.1.content.0.server_tool_use.input", ask(HI, assistant(search(input=[])))),
    (
        "tool_name_missing",
        "messages.1.content.0.tool_use.name",
        ask(HI, assistant({"type": "tool_use", "id": "t1", "input": {}}), user(result())),
    ),
    ("text_empty", "messages.0.content.0", ask(user(text("")))),
    ("text_blank", "messages.0.content.0", ask(user(text(" \n\t")))),
    ("text_blank", "messages.0.content", ask({"role": "user", "content": "  "})),
    (
        "text_empty",
        "messages.2.content.0.tool_result.content.0",
        ask(HI, assistant(call()), user(result(content=[text("")]))),
    ),
    ("text_empty", "system.0", ask(HI, system=[text("")])),
    ("text_type", "messages.0.content.0.text", ask(user({"type": "text"}))),
    ("text_type", "messages.0.content.0.text", ask(user(text(3)))),
    ("block_type", "messages.0.content.0.type", ask(user({"text": "x"}))),
    ("block_type", "messages.0.content.0.type", ask(user("x"))),
    ("content_empty", "messages.1", ask(HI, assistant(), HI)),
    ("content_empty", "messages.0", ask({"role": "user", "content": ""})),
    ("content_type", "messages.0.content", ask({"role": "user"})),
    ("content_type", "messages.0.content", ask({"role": "user", "content": 3})),
    ("content_type", "messages.0.content", ask({"role": "user", "content": None})),
    ("prefill", "messages.1", ask(HI, assistant(text("The answer is")), model="claude-opus-4-6")),
    ("prefill", "messages.1", ask(HI, assistant(text("The answer is ")))),
    ("prefill_whitespace", "messages.1", ask(HI, assistant(text("The answer is ")), model=OLD)),
    ("server_tool_unpaired", "messages.1.content.0", ask(HI, assistant(search(), text()), HI)),
    (
        "server_tool_unpaired",
        "messages.1.content.0",
        ask(HI, assistant(search(), call()), user(result()), assistant(text()), model=OLD),
    ),
    ("server_tool_unpaired", "messages.1.content.0", ask(HI, assistant(search(), call()), user(result(), text()))),
    ("server_tool_missing", "messages.1.content.1", {**PAUSED, "tools": [{"name": "f", "input_schema": {}}]}),
    ("server_tool_missing", "messages.1.content.1", {**PAUSED, "tools": []}),
    ("server_result_orphan", "messages.1.content.0", ask(HI, assistant(hits(), text()), HI)),
    ("server_result_orphan", "messages.1.content.0", ask(HI, assistant(hits(), search()))),
    (
        "programmatic_mixed",
        "messages.2.content.1",
        ask(HI, assistant(call(caller={"type": "code_execution_20260120"})), user(result(), text())),
    ),
    ("cache_max4", "messages", ask(user(*(text(cache_control=MARKER) for _ in range(5))))),
    ("cache_max4", "messages", ask(user(*(text(cache_control=MARKER) for _ in range(4))), cache_control=MARKER)),
    (
        "cache_max4",
        "messages",
        ask(
            HI,
            assistant(call()),
            user(result(content=[text(cache_control=MARKER)], cache_control=MARKER), text(cache_control=MARKER)),
            system=[text(cache_control=MARKER)],
            tools=[{"name": "f", "input_schema": {}, "cache_control": MARKER}],
        ),
    ),
    (
        "cache_ttl_order",
        "messages.0.content.1.cache_control.ttl",
        ask(user(text(cache_control=MARKER), text(cache_control=HOUR))),
    ),
    (
        "cache_ttl_order",
        "messages.0.content.0.cache_control.ttl",
        ask(user(text(cache_control=HOUR)), tools=[{"name": "f", "input_schema": {}, "cache_control": MARKER}]),
    ),
    ("cache_ttl_order", "cache_control.ttl", ask(user(text(cache_control=MARKER)), cache_control=HOUR)),
    ("cache_on_empty", "messages.0.content.0.text", ask(user(text("", cache_control=MARKER)))),
    (
        "cache_on_thinking",
        "messages.1.content.0.thinking.cache_control",
        ask(HI, assistant({**THOUGHT, "cache_control": MARKER}, text()), HI),
    ),
    (
        "cache_on_deferred",
        "tools.0.cache_control",
        ask(HI, tools=[{"name": "f", "input_schema": {}, "defer_loading": True, "cache_control": MARKER}]),
    ),
    (
        "cache_on_clear_at",
        "messages.1.content.0.cache_control",
        ask(HI, system([text(cache_control=MARKER)], clear_at="next_user_message")),
    ),
    ("thinking_missing", "messages.1.content.0", ask(*ROUND, thinking=MANUAL, model=OLD)),
    (
        "thinking_missing",
        "messages.1.content.0",
        ask(HI, assistant(text(), THOUGHT, call()), user(result()), thinking=MANUAL),
    ),
    (
        "compaction_empty",
        "messages.0.content.0.compaction.content",
        ask(assistant({"type": "compaction", "content": ""}), HI),
    ),
    (
        "compaction_misplaced",
        "messages.1.content.0",
        ask(HI, assistant({"type": "compaction", "content": "s", "signature": "S"}), HI),
    ),
    (
        "compaction_ambiguous",
        "messages.0.content.1",
        ask(assistant(*({"type": "compaction", "content": "s", "signature": "S"} for _ in range(2))), HI),
    ),
    (
        "compaction_conflict",
        "compaction",
        ask(HI, compaction={"type": "summarize"}, context_management={"edits": []}),
    ),
    ("images_max", "messages", ask(user(*[IMAGE] * 601))),
    ("tool_choice_forced", "tool_choice", ask(HI, tool_choice={"type": "any"}, model="claude-sonnet-5-5")),
    (
        "tool_choice_name",
        "tool_choice.name",
        ask(HI, tool_choice={"type": "tool", "name": "g"}, tools=[{"name": "f", "input_schema": {}}]),
    ),
    ("tool_choice_name", "tool_choice.name", ask(HI, tool_choice={"type": "tool", "name": "g"})),
    ("tool_choice", "tool_choice", ask(HI, tool_choice={"type": "any"})),
    ("tool_name", "tools", ask(HI, tools=[{"name": "f"}, {"name": "ex tra!"}])),
    ("tool_name", "tools", ask(HI, tools=[{"name": "f" * 129}])),
]


@pytest.mark.parametrize(("rule", "path", "request_"), BAD)
def test_a_broken_rule_is_named_with_its_place(rule, path, request_):
    """What the provider refuses is named by rule and place, with the index of its message."""
    errors = [found for found in find_violations(wire, request_) if found.severity == "error"]
    assert (f"anth.{rule}", path) in [(found.rule, found.path) for found in errors]
    expected = int(path.split(".")[1]) if path.startswith("messages.") else None
    assert expected in [found.index for found in errors]


@pytest.mark.parametrize(
    ("rule", "request_"),
    [
        ("first_user", ask(assistant(text()), HI)),
        ("signature_missing", ask(HI, assistant({"type": "thinking", "thinking": "hm", "signature": ""}, text()), HI)),
    ],
)
def test_what_only_some_endpoints_refuse_is_a_warning(rule, request_):
    """What some endpoints refuse is named as a warning."""
    assert [("warn", f"anth.{rule}")] == [(found.severity, found.rule) for found in find_violations(wire, request_)]


def test_the_words_are_the_providers():
    """The message is the provider's, with ids and numbers filled in."""
    (found,) = find_violations(wire, ask(HI, assistant(call("a"), call("b")), HI))
    assert found.message == (
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: a, b. Each `tool_use` "
        "block must have a corresponding `tool_result` block in the next message."
    )
    (found,) = find_violations(wire, ask(user(*(text(cache_control=MARKER) for _ in range(5)))))
    assert found.message == "A maximum of 4 blocks with cache_control may be provided. Found 5."


def test_violations_come_in_the_order_of_the_messages():
    """Violations are sorted by message; those of the request as a whole come first."""
    forced = {"tools": [{"name": "f"}], "tool_choice": {"type": "any"}}
    request_ = ask(user(text("")), assistant(), HI, model="claude-opus-5-5", **forced)
    assert [found.index for found in find_violations(wire, request_)] == [None, 0, 1]


def test_the_profile_decides_before_the_name():
    """A profile that the caller gives holds against what the model's name says."""
    profile = ModelProfile("own", bound_thinking=False, system_in_messages=False, prefill=False)
    rules = {found.rule for found in find_violations(wire, ask(HI, system(), assistant(text()), model=OLD), profile)}
    assert rules == {"anth.system_unsupported", "anth.prefill"}


def test_a_small_window_takes_fewer_images():
    """A model with a window of 200,000 tokens takes 100 images, also within tool results."""
    request_ = ask(HI, assistant(call()), user(result(content=[IMAGE] * 101)))
    profile = ModelProfile("small", window=200_000)
    assert [found.rule for found in find_violations(wire, request_, profile)] == ["anth.images_max"]


def png(width, height):
    """The head of an image of this size."""
    head = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", width, height) + b"\x08\x06\x00\x00\x00"
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(head).decode()}
    return {"type": "image", "source": source}


def test_many_images_must_be_small():
    """Among more than 20 images one of more than 2000 pixels is refused; among fewer it is not."""
    assert find_violations(wire, ask(user(*[png(100, 100)] * 19, png(100, 2001)))) == ()
    assert find_violations(wire, ask(user(*[png(2000, 2000)] * 21))) == ()
    (found,) = find_violations(wire, ask(user(*[png(100, 100)] * 20, png(100, 2001))))
    assert (found.rule, found.path) == ("anth.image_side", "messages.0.content.20.image.source")


def test_a_body_of_more_than_32_mb_is_refused():
    """A request whose strings alone pass 32 MB is too large."""
    long = "x" * (16 * 1024 * 1024)
    assert find_violations(wire, ask(user(text(long), text(long))))[0].rule == "anth.request_size"


def test_the_number_of_messages_is_limited():
    """A request of more than 100,000 messages is refused; the other rules, which take long for so many, not asked."""
    assert rules.message_count in rules.RULES
    assert not [*rules.message_count(lay_out(ask(*[HI] * 100_000), None))]
    assert [found.rule for found in rules.message_count(lay_out(ask(*[HI] * 100_001), None))] == ["anth.messages_max"]


class Dumped:
    """An object as the provider's SDK returns them."""

    def model_dump(self, **_):
        return assistant(call())


def test_sdk_objects_are_judged_too():
    """A message that is an SDK object is judged like a dict."""
    assert [found.rule for found in find_violations(wire, ask(HI, Dumped()))] == ["anth.tool_use_unanswered"]


KINDS = "text tool_use tool_result thinking redacted_thinking compaction image server_tool_use web_search_tool_result"
WORDS = f"user assistant system enabled claude-fable-5-1 1h tool {KINDS}".split()
FIELDS = f"{KINDS} role content type id name input tool_use_id signature data citations caller ttl clear_at".split()
OPTIONS = ("system", "tools", "model", "thinking", "tool_choice", "compaction", "cache_control")

words = st.sampled_from(["", "x", " ", *WORDS])
keys = st.sampled_from([*FIELDS, *OPTIONS])
odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=6),
    max_leaves=30,
)
odd_messages = st.lists(
    st.fixed_dictionaries(
        {
            "role": words,
            "content": st.lists(st.fixed_dictionaries({"type": words}, optional={"content": odd, "id": odd})),
        }
    )
    | odd,
    max_size=5,
)
odd_requests = st.fixed_dictionaries(
    {"messages": odd_messages | odd},
    optional=dict.fromkeys(("system", "tools", "model", "thinking", "tool_choice", "compaction", "cache_control"), odd),
)


@given(odd_requests, st.none() | odd_requests)
def test_nothing_makes_it_raise(request_, before):
    """Whatever JSON a request is made of, it is judged and not refused."""
    for found in find_violations(wire, request_, ModelProfile("m", bound_thinking=True), before):
        assert found.rule.startswith("anth.")
        assert found.severity in {"error", "warn"}


def test_deep_nesting_is_judged():
    """JSON nested deeper than Python recurses is judged too."""
    deep: object = "x"
    for _ in range(5_000):
        deep = {"content": [deep]}
    request_ = ask(HI, assistant(call(input=deep), deep), user(result(content=[deep])))
    assert {found.rule for found in find_violations(wire, request_, None, request_)} == {"anth.block_type"}
