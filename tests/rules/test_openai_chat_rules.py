"""The rules of Chat Completions."""

import itertools
import json

import pytest
from hypothesis import given, strategies as st

from agentctx.formats.openai_chat import OpenAIChat
from agentctx.models import ModelProfile
from agentctx.rules import find_violations

CHAT = OpenAIChat()
USER = {"role": "user", "content": "go"}


def call(identity="c1", name="f", arguments="{}", **more):
    """An entry of ``tool_calls``."""
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def asks(*identities, **more):
    """An assistant message with calls."""
    return {"role": "assistant", "content": None, "tool_calls": [call(one) for one in identities], **more}


def result(identity="c1", content="ok", **more):
    """A tool message."""
    return {"role": "tool", "tool_call_id": identity, "content": content, **more}


def tool(name="f"):
    """A tool definition."""
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


def calling(entry):
    """A request with one call, answered."""
    return {"messages": [{"role": "assistant", "content": None, "tool_calls": [entry]}, result()]}


GOOD = {
    "plain": {"messages": [{"role": "system", "content": "s"}, USER, {"role": "assistant", "content": "yo"}]},
    "assistant first": {"messages": [{"role": "assistant", "content": "welcome"}, USER]},
    "same roles in a row": {"messages": [USER, USER, {"role": "assistant", "content": "a"}] * 2},
    "results in another order": {"messages": [USER, asks("a", "b"), result("b"), result("a"), USER]},
    "ids come again in a later round": {"messages": [asks("a"), result("a"), asks("a"), result("a")]},
    "no tools for calls in the history": {"messages": [asks("a"), result("a")], "model": "gpt-5.4"},
    "system in the middle": {"messages": [USER, {"role": "system", "content": "s"}, USER]},
    "blank results": {"messages": [asks("a"), result("a", "")]},
    "blank text": {"messages": [{"role": "user", "content": " "}, {"role": "assistant", "content": ""}]},
    "call beside text": {"messages": [asks("a", content="let me look"), result("a")]},
    "legacy call": {
        "messages": [
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": ""}},
            {"role": "function", "name": "f", "content": None},
        ]
    },
    "custom call": {
        "messages": [
            {
                "role": "assistant",
                "tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "p", "input": "not json"}}],
            },
            result(),
        ]
    },
    "image of the user": {
        "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]}]
    },
    "blocks of text in every role": {
        "messages": [
            {"role": role, "content": [{"type": "text", "text": "t"}]}
            for role in ("system", "developer", "user", "assistant")
        ]
    },
    "refusal block": {"messages": [{"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}, USER]},
    "json said": {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Answer in JSON."}]}],
        "response_format": {"type": "json_object"},
    },
    "json said in a system prompt kept apart": {
        "messages": [USER],
        "system": "Answer in Json.",
        "response_format": {"type": "json_object"},
    },
    "no word needed for a schema": {"messages": [USER], "response_format": {"type": "json_schema"}},
    "choice of a listed tool": {
        "messages": [USER],
        "tools": [tool("a"), {"type": "custom", "custom": {"name": "b"}}],
        "tool_choice": {"type": "custom", "custom": {"name": "b"}},
    },
    "choice by word": {"messages": [USER], "tools": [tool()], "tool_choice": "required"},
    "allowed tools": {
        "messages": [USER],
        "tools": [tool("a"), tool("b")],
        "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [tool("b")]}},
    },
    "many calls": {"messages": [asks(*map(str, range(128))), *(result(str(number)) for number in range(128))]},
    "longest names and ids": {
        "messages": [
            {"role": "assistant", "content": None, "tool_calls": [call("i" * 40, "n" * 64)]},
            result("i" * 40),
        ]
    },
    "reasoning of a dialect": {
        "model": "deepseek-reasoner",
        "messages": [asks("a", reasoning_content="hm"), result("a", cache_control={"type": "ephemeral"})],
    },
    "cache options of a new model": {
        "model": "gpt-5.6",
        "prompt_cache_options": {"mode": "explicit"},
        "prompt_cache_key": "k" * 64,
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "t", "prompt_cache_breakpoint": {"mode": "explicit"}}],
            }
        ],
    },
    "short retention of an old model": {"model": "gpt-5.4", "prompt_cache_retention": "in_memory", "messages": [USER]},
}


@pytest.mark.parametrize("name", GOOD)
def test_what_the_provider_takes_breaks_no_rule(name):
    """A request that the provider takes breaks no rule."""
    assert find_violations(CHAT, GOOD[name]) == ()


BAD = [
    ("messages_missing", {}, None, "Missing required parameter: 'messages'."),
    (
        "messages_type",
        {"messages": "hi"},
        None,
        "Invalid type for 'messages': expected an array of objects, but got a string instead.",
    ),
    (
        "messages_empty",
        {"messages": []},
        None,
        "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.",
    ),
    (
        "message_type",
        {"messages": [USER, None]},
        1,
        "Invalid type for 'messages[1]': expected an object, but got null instead.",
    ),
    (
        "role",
        {"messages": [{"role": "bogus", "content": "x"}]},
        0,
        (
            "Invalid value: 'bogus'. "
            "Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'."
        ),
    ),
    ("role", {"messages": [{"content": "x"}]}, 0, "Missing required parameter: 'messages[0].role'."),
    (
        "content_required",
        {"messages": [USER, {"role": "assistant", "content": None}]},
        1,
        "Invalid value for 'content': expected a string, got null.",
    ),
    (
        "content_required",
        {"messages": [USER, {"role": "developer"}]},
        1,
        "Missing required parameter: 'messages[1].content'.",
    ),
    (
        "content_required",
        {"messages": [asks("a"), result("a", None)]},
        1,
        "Invalid value for 'content': expected a string, got null.",
    ),
    ("content_required", {"messages": [{"role": "function", "name": "f"}]}, 0, None),
    (
        "content_type",
        {"messages": [USER, {"role": "user", "content": 5}]},
        1,
        (
            "Invalid type for 'messages[1].content': expected one of a string or array of objects, "
            "but got an integer instead."
        ),
    ),
    ("content_type", {"messages": [{"role": "user", "content": {"type": "text"}}]}, 0, None),
    ("content_type", {"messages": [{"role": "user", "content": [5]}]}, 0, None),
    ("block_type", {"messages": [{"role": "user", "content": [{"text": "x"}]}]}, 0, None),
    ("block_text", {"messages": [{"role": "user", "content": [{"type": "text"}]}]}, 0, None),
    (
        "image_role",
        {
            "messages": [
                USER,
                USER,
                {"role": "assistant", "content": [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]},
            ]
        },
        2,
        (
            "Invalid 'messages[2]'. Image URLs are only allowed for messages with role 'user', "
            "but this message with role 'assistant' contains an image URL."
        ),
    ),
    (
        "image_role",
        {"messages": [{"role": "system", "content": [{"type": "file", "file": {"file_id": "f"}}]}]},
        0,
        None,
    ),
    (
        "tool_calls_empty",
        {"messages": [USER, {"role": "assistant", "content": "x", "tool_calls": []}]},
        1,
        (
            "Invalid 'messages[1].tool_calls': empty array. Expected an array with minimum length 1, "
            "but got an empty array instead."
        ),
    ),
    ("tool_calls_type", {"messages": [{"role": "assistant", "tool_calls": {}}]}, 0, None),
    ("tool_calls_type", {"messages": [{"role": "assistant", "tool_calls": [None]}]}, 0, None),
    (
        "tool_calls_too_many",
        {"messages": [USER, USER, asks(*map(str, range(200))), *(result(str(number)) for number in range(200))]},
        2,
        (
            "Invalid 'messages[2].tool_calls': array too long. Expected an array with maximum length 128, "
            "but got an array with length 200 instead."
        ),
    ),
    (
        "call_id_length",
        {"messages": [USER, USER, asks("x" * 83), result("x" * 83)]},
        2,
        (
            "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40, "
            "but got a string with length 83 instead."
        ),
    ),
    (
        "call_id_length",
        {"messages": [USER, USER, asks(""), result("")]},
        2,
        (
            "Invalid 'messages[2].tool_calls[0].id': empty string. Expected a string with minimum length 1, "
            "but got an empty string instead."
        ),
    ),
    ("call_id", {"messages": [{"role": "assistant", "tool_calls": [call(None)]}]}, 0, None),
    ("call_type", calling({"id": "c1", "function": call()["function"]}), 0, None),
    ("call_type", calling({"id": "c1", "type": "robot"}), 0, None),
    ("call_body", calling({"id": "c1", "type": "custom"}), 0, None),
    ("call_arguments", calling(call(arguments={})), 0, None),
    (
        "function_name",
        calling(call(name="my.tool")),
        0,
        (
            "Invalid 'messages[0].tool_calls[0].function.name': string does not match pattern. "
            "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
        ),
    ),
    ("function_name", calling(call(name="f\n")), 0, None),
    ("function_name", {"messages": [USER], "tools": [tool("a b")]}, None, None),
    ("function_name_length", {"messages": [USER], "tools": [tool("n" * 65)]}, None, None),
    (
        "call_unanswered",
        {"messages": [USER, asks("a", "b", "c"), result("b"), USER]},
        1,
        (
            "An assistant message with 'tool_calls' must be followed by tool messages "
            "responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: a, c"
        ),
    ),
    ("call_unanswered", {"messages": [USER, asks("a")]}, 1, None),
    ("call_unanswered", {"messages": [asks("a"), asks("b"), result("b")]}, 0, None),
    (
        "tool_orphan",
        {"messages": [result("a"), USER]},
        0,
        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
    ),
    ("tool_orphan", {"messages": [asks("a"), result("a"), result("z")]}, 2, None),
    (
        "tool_call_id_missing",
        {"messages": [asks("a"), {"role": "tool", "content": "x"}]},
        1,
        "Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'.",
    ),
    (
        "tool_dup",
        {"messages": [asks("a", "b"), result("a"), result("b"), result("a")]},
        3,
        "Invalid parameter: Duplicate value for 'tool_call_id' of 'a', in messages[1] and messages[3].",
    ),
    ("tools_type", {"messages": [USER], "tools": {}}, None, None),
    ("tools_type", {"messages": [USER], "tools": [5]}, None, None),
    (
        "tools_too_many",
        {"messages": [USER], "tools": [tool(f"f{number}") for number in range(129)]},
        None,
        (
            "Invalid 'tools': array too long. Expected an array with maximum length 128, "
            "but got an array with length 129 instead."
        ),
    ),
    ("tool_choice_name", {"messages": [USER], "tools": [tool("a")], "tool_choice": tool("b")}, None, None),
    (
        "tool_choice_name",
        {
            "messages": [USER],
            "tools": [tool("a")],
            "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [tool("b")]}},
        },
        None,
        None,
    ),
    (
        "tool_choice_name",
        {"messages": [USER], "functions": [{"name": "a"}], "function_call": {"name": "x"}},
        None,
        "Invalid value for 'function_call': no function named 'x' was specified in the 'functions' parameter.",
    ),
    (
        "tool_choice_without_tools",
        {"messages": [USER], "tool_choice": "auto"},
        None,
        "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.",
    ),
    (
        "tool_choice_without_tools",
        {"messages": [USER], "parallel_tool_calls": False},
        None,
        "Invalid value for 'parallel_tool_calls': 'parallel_tool_calls' is only allowed when 'tools' are specified.",
    ),
    (
        "json_word",
        {"messages": [USER], "response_format": {"type": "json_object"}},
        None,
        "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.",
    ),
    ("cache_key_length", {"messages": [USER], "prompt_cache_key": "k" * 65}, None, None),
    (
        "cache_retention",
        {"messages": [USER], "model": "gpt-5.6", "prompt_cache_retention": "in_memory"},
        None,
        "This model is compatible only with 24h extended prompt caching",
    ),
    ("cache_options", {"messages": [USER], "model": "openai/gpt-4o", "prompt_cache_options": {}}, None, None),
    (
        "cache_options",
        {
            "model": "o3",
            "messages": [{"role": "user", "content": [{"type": "text", "text": "t", "prompt_cache_breakpoint": {}}]}],
        },
        0,
        None,
    ),
    ("string_length", {"messages": [{"role": "user", "content": "x" * 10_485_761}]}, 0, None),
    ("surrogate", {"messages": [{"role": "user", "content": [{"type": "text", "text": "\ud800"}]}]}, 0, None),
]


@pytest.mark.parametrize(
    ("rule", "request_", "index", "message"), BAD, ids=[f"{rule}-{n}" for n, (rule, *_) in enumerate(BAD)]
)
def test_what_the_provider_refuses_breaks_one_rule(rule, request_, index, message):
    """A refused request breaks the one rule, at the message at fault, in the provider's words."""
    (found,) = find_violations(CHAT, request_)
    assert (found.rule, found.severity, found.index) == (f"chat.{rule}", "error", index)
    assert found.message == (message or found.message)
    assert found.path


WARNED = [
    ("unknown_key", {"messages": [USER], "zzz_unknown": 1}, "Unknown parameter: 'zzz_unknown'."),
    ("unknown_key", {"messages": [{**USER, "index": 1}]}, "Unknown parameter: 'messages[0].index'."),
    ("unknown_key", {"model": "gpt-5.4", "messages": [{**USER, "reasoning_content": "x"}]}, None),
    ("block_type", {"messages": [{"role": "user", "content": [{"type": "hologram"}]}]}, None),
    ("tools_empty", {"messages": [USER], "tools": []}, None),
    ("string_length", {"messages": [{"role": "user", "content": "x" * 1_048_577}]}, None),
]


@pytest.mark.parametrize(("rule", "request_", "message"), WARNED)
def test_what_some_endpoints_refuse_is_a_warning(rule, request_, message):
    """What only some endpoints refuse is a warning, not an error."""
    (found,) = find_violations(CHAT, request_)
    assert (found.rule, found.severity) == (f"chat.{rule}", "warn")
    assert found.message == (message or found.message)


def test_a_reminder_between_results_breaks_the_round():
    """Any message between the results of a round leaves a call unanswered and the later result alone."""
    request = {"messages": [asks("a", "b"), result("a"), {"role": "system", "content": "s"}, result("b")]}
    assert [one.rule for one in find_violations(CHAT, request)] == [
        "chat.call_unanswered",
        "chat.tool_orphan",
    ]


def test_violations_come_in_the_order_of_the_messages():
    """Violations of earlier messages come first, those of the request as a whole last."""
    request = {"tool_choice": "auto", "messages": [result("a"), {"role": "bogus", "content": "x"}, {"role": "user"}]}
    assert [one.index for one in find_violations(CHAT, request)] == [0, 1, 2, None]


def test_the_profile_names_the_model():
    """A model named by its profile is checked like one named in the request."""
    request = {"messages": [USER], "prompt_cache_retention": "in_memory"}
    assert find_violations(CHAT, request) == ()
    assert [one.rule for one in find_violations(CHAT, request, ModelProfile("gpt-5.6"))] == ["chat.cache_retention"]


SIGNED = {"type": "thinking", "thinking": "hm", "signature": "s"}


@pytest.mark.parametrize(
    ("was", "now", "severity"),
    [
        ({"thinking_blocks": [SIGNED]}, {"thinking_blocks": [{**SIGNED, "thinking": "h"}]}, "error"),
        ({"thinking_blocks": []}, {"thinking_blocks": [SIGNED]}, "error"),
        (
            {"reasoning_details": [{"type": "reasoning.encrypted", "data": "e"}]},
            {"reasoning_details": [{"type": "reasoning.encrypted", "data": "f"}]},
            "error",
        ),
        ({"reasoning_content": "hm"}, {"reasoning_content": "h"}, "warn"),
        (
            {"tool_calls": [call("a", extra_content={"google": {"thought_signature": "s"}})]},
            {"tool_calls": [call("a", arguments="[]", extra_content={"google": {"thought_signature": "s"}})]},
            "error",
        ),
    ],
)
def test_changed_reasoning_is_found(was, now, severity):
    """Reasoning that was not in the original request is an error when it is signed, else a warning."""
    before, after = {"messages": [asks("a", **was), result("a")]}, {"messages": [USER, asks("a", **now), result("a")]}
    (found,) = find_violations(CHAT, after, None, before)
    assert (found.rule, found.severity, found.index) == ("chat.reasoning_changed", severity, 1)


def test_reasoning_may_be_dropped_and_moved():
    """Reasoning that is gone, or that stands elsewhere because messages before it were dropped, is fine."""
    before = {
        "messages": [USER, asks("a", thinking_blocks=[SIGNED]), result("a"), asks("b", reasoning="x"), result("b")]
    }
    assert find_violations(CHAT, {"messages": before["messages"][1:]}, None, before) == ()
    assert find_violations(CHAT, {"messages": [asks("a"), result("a")]}, None, before) == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
KEYS = ["role", "content", "tool_calls", "tool_call_id", "function_call", "refusal", "thinking_blocks", "reasoning"]
LIKELY = st.sampled_from(
    [
        "user",
        "assistant",
        "tool",
        [],
        {},
        None,
        "",
        [call()],
        [{"type": [], "function": []}],
        [{"type": "custom"}],
        [SIGNED],
        [{"type": "text"}],
        [{"type": {}}],
        [{"type": "image_url"}],
        "c1",
        5,
        [call({})],
        [call(extra_content=[])],
    ]
)
MESSAGES = st.dictionaries(st.sampled_from(KEYS), LIKELY | JSON) | JSON
REQUESTS = st.fixed_dictionaries(
    {"messages": st.lists(MESSAGES, max_size=4) | JSON},
    optional=dict.fromkeys(
        ("tools", "tool_choice", "functions", "function_call", "response_format", "model", "prompt_cache_key"),
        JSON | LIKELY,
    ),
)


@given(REQUESTS, st.none() | REQUESTS)
def test_nothing_makes_the_rules_fail(request_, before):
    """Whatever the request is, the rules say what is wrong and never raise; format detection neither."""
    for violation in find_violations(CHAT, request_, None, before):
        assert str(violation)
    assert CHAT.recognises(request_) >= 0


def test_deep_nesting_is_no_failure():
    """Reasoning nested deeper than can be spelled out is compared no further and raises nothing."""
    deep = []
    for _ in itertools.repeat(None, 100_000):
        deep = [deep]
    request = {"messages": [{"role": "assistant", "content": "x", "reasoning": deep}]}
    assert find_violations(CHAT, request, None, request) == ()


def test_vectors_have_their_labels(shared):
    """Every known vector of this format comes out as it is labelled."""
    vectors = [] if shared is None else (shared / "vectors" / "wire_vectors.jsonl").read_text("utf-8").splitlines()
    chat = [vector for vector in map(json.loads, vectors) if vector["id"].startswith("C-")]
    assert chat or shared is None
    for vector in chat:
        found = find_violations(CHAT, vector["req"], None, vector.get("before"))
        expected = {(vector["expect"], vector["rule"])} if vector["expect"] != "ok" else set()
        assert expected <= {(one.severity, one.rule) for one in found}, vector["id"]
        assert expected or not found, vector["id"]
