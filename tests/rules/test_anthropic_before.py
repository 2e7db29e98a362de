"""Signed bytes are compared with the request that a request was made from."""

import copy

import pytest

from agentctx.formats.anthropic import Anthropic
from agentctx.rules import find_violations

wire = Anthropic()
BOUND = "claude-opus-5-5"


def thought(number, words="hm"):
    """A signed thinking block."""
    return {"type": "thinking", "thinking": words, "signature": f"S{number}"}


def text(words):
    """A text block."""
    return {"type": "text", "text": words}


def history(model=BOUND):
    """A request of two closed turns, and an open round with two steps; four thoughts."""
    return {
        "model": model,
        "system": "be good",
        "tools": [{"name": "f", "input_schema": {}}, {"name": "late", "input_schema": {}, "defer_loading": True}],
        "messages": [
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": [thought(1), {"type": "tool_use", "id": "t1", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "long"}]},
            {"role": "assistant", "content": [thought(2), text("done")]},
            {"role": "user", "content": "two"},
            {"role": "assistant", "content": [thought(3), {"type": "tool_use", "id": "t2", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t2", "content": "long"}]},
            {"role": "assistant", "content": [thought(4), {"type": "tool_use", "id": "t3", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t3", "content": "long"}]},
        ],
    }


def forget(request, *numbers):
    """Take reasoning out."""
    gone = {f"S{number}" for number in numbers}
    for message in request["messages"]:
        if isinstance(message["content"], list):
            message["content"] = [block for block in message["content"] if block.get("signature") not in gone]


def rules(change, model=BOUND):
    """The rules and places that a request breaks after a change, compared with the request before it."""
    before = history(model)
    after = copy.deepcopy(before)
    change(after)
    return [
        (found.rule, found.path) for found in find_violations(wire, after, None, before) if found.severity == "error"
    ]


def nothing(request):
    """Change nothing."""


def cut_last_result(request):
    """Cut the result that no reasoning follows."""
    request["messages"][8]["content"][0]["content"] = "cut"


def cut_result(request):
    """Cut an old result."""
    request["messages"][2]["content"][0]["content"] = "cut"


def mark(request):
    """Set cache markers, and write strings as blocks."""
    request["messages"][2]["content"][0]["cache_control"] = {"type": "ephemeral"}
    request["system"] = [{"type": "text", "text": "be good", "cache_control": {"type": "ephemeral"}}]
    request["messages"][0]["content"] = [text("one")]


def defer_more(request):
    """Add a deferred tool."""
    request["tools"].append({"name": "later", "input_schema": {}, "defer_loading": True})


def cut_result_and_forget_all_later(request):
    """Cut an old result and take out all reasoning after it."""
    cut_result(request)
    forget(request, 2, 3, 4)


def forget_first(request):
    """Take out the first reasoning."""
    forget(request, 1)


def forget_last(request):
    """Take out the last reasoning."""
    forget(request, 4)


def append(request):
    """Add words at the end."""
    request["messages"][8]["content"].append(text("and now?"))


def allow_drop(request):
    """Cut an old result and let the server drop what no longer fits."""
    cut_result(request)
    request["thinking"] = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}


def compact(request):
    """Put a compaction block in place of the first two exchanges."""
    block = {"type": "compaction", "content": "summary", "signature": "C"}
    request["messages"][:4] = [{"role": "assistant", "content": [block]}]


@pytest.mark.parametrize(
    "change",
    [
        nothing,
        cut_last_result,
        mark,
        defer_more,
        cut_result_and_forget_all_later,
        forget_first,
        forget_last,
        append,
        allow_drop,
        compact,
    ],
    ids=lambda change: change.__name__,
)
def test_what_bound_reasoning_allows(change):
    """Changes after the reasoning, or that the model does not read, leave bound reasoning valid."""
    assert rules(change) == []


def forget_middle(request):
    """Take out reasoning between two that stay."""
    forget(request, 2)


def drop_first_turn(request):
    """Drop the first exchange."""
    del request["messages"][:4]


def edit_system(request):
    """Change the system prompt."""
    request["system"] = "be better"


def edit_tools(request):
    """Change a tool."""
    request["tools"][0]["description"] = "new"


def compact_and_edit(request):
    """Compact, and cut a result that is kept."""
    compact(request)
    request["messages"][3]["content"][0]["content"] = "cut"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (cut_result, "messages.3.content.0"),
        (forget_middle, "messages.5.content.0"),
        (drop_first_turn, "messages.1.content.0"),
        (edit_system, "messages.1.content.0"),
        (edit_tools, "messages.1.content.0"),
        (compact_and_edit, "messages.4.content.0"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_what_bound_reasoning_refuses(change, path):
    """A change before reasoning that stays makes the first such block invalid, on models that bind it."""
    assert rules(change) == [("anth.thinking_bound", path)]
    assert rules(change, model="claude-opus-5") == []


def test_the_first_change_is_named():
    """The message says where the conversation first differs."""
    before, after = history(), history()
    cut_result(after)
    (found,) = find_violations(wire, after, None, before)
    assert found.message.endswith("is missing from this request, starting at `messages.2.content.0`.")


def shorten_latest(request):
    """Shorten the latest reasoning."""
    request["messages"][7]["content"][0]["thinking"] = "h"


def shorten_older(request):
    """Shorten old reasoning."""
    request["messages"][1]["content"][0]["thinking"] = "h"


def reseal_latest(request):
    """Change the signature of the latest reasoning."""
    request["messages"][7]["content"][0]["signature"] = "other"


def add_to_latest(request):
    """Put old reasoning into the latest message."""
    request["messages"][7]["content"].insert(0, thought(3))


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (shorten_latest, "messages.7.content.0"),
        (shorten_older, "messages.1.content.0"),
        (reseal_latest, "messages.7.content.0"),
        (add_to_latest, "messages.7.content.0"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_reasoning_is_not_modified(change, path):
    """Reasoning that says something else than when it was signed is refused."""
    assert ("anth.thinking_modified", path) in rules(change, model="claude-opus-5")


def test_a_foreign_signature_is_refused():
    """A signature that was not in the request before is none that the provider gave."""

    def reseal(request):
        request["messages"][1]["content"][0]["signature"] = "other"

    assert rules(reseal, model="claude-opus-5") == [("anth.signature_invalid", "messages.1.content.0")]


@pytest.mark.parametrize("place", ["result", "citation", "compaction"])
def test_encrypted_bytes_are_compared(place):
    """Encrypted bytes of server results, citations and compaction blocks are refused when they changed."""
    blocks = {
        "result": [
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
            {
                "type": "web_search_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": [{"type": "web_search_result", "encrypted_content": "E"}],
            },
        ],
        "citation": [text("x"), {"type": "text", "text": "y", "citations": [{"encrypted_index": "E"}]}],
        "compaction": [text("x"), {"type": "compaction", "content": "s", "encrypted_content": "E"}],
    }[place]
    user = {"role": "user", "content": "hi"}
    before = {"messages": [user, {"role": "assistant", "content": blocks}, user]}
    after = copy.deepcopy(before)
    assert find_violations(wire, after, None, before) == ()
    changed = after["messages"][1]["content"][1]
    inner = {"result": "content", "citation": "citations"}.get(place)
    (changed[inner][0] if inner else changed)["encrypted_index" if place == "citation" else "encrypted_content"] = "F"
    assert [(found.rule, found.path) for found in find_violations(wire, after, None, before)] == [
        ("anth.encrypted_modified", "messages.1.content.1")
    ]
