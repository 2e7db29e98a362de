"""Blocks in every provider's format."""

import pytest
from blocks import chat

from agentctx import Budget, Message, Text, ToolCall, ToolResult, validate
from agentctx.builder import Block, ContextBuilder, MergeSystem, Tier
from agentctx.builder.builder import NOT_SHOWN
from agentctx.formats.registry import FORMATS
from agentctx.strategies import TruncateOldest
from agentctx.testing import assistant, call, history, result, user
from agentctx.tokens import FixedCounter

pytestmark = pytest.mark.anyio

APART = ["anthropic", "bedrock", "gemini"]
KEYS = {"openai-responses": "input", "gemini": "contents"}


def value(role, text):
    """A message as a value."""
    return Message(role, (Text(text),))


def errors(out, format_name):
    """What of a request its provider refuses."""
    request = {KEYS.get(format_name, "messages"): out.messages}
    if out.system is not None:
        request["system_instruction" if format_name == "gemini" else "system"] = out.system
    return [each for each in validate(request, format_name) if each.severity == "error"]


def blocks():
    """Blocks of values."""
    return (
        Block("rules", [value("system", "rules")], Tier.SYSTEM, cache=True),
        Block("facts", [value("system", "facts")], Tier.CORE, cache="5m"),
        Block("h", [value("user", "hello"), value("assistant", "hi"), value("user", "more")], cache="1h"),
    )


@pytest.mark.parametrize("format_name", FORMATS)
async def test_values_in_every_format(format_name):
    """Values come out in the format that is asked for, and its provider takes them."""
    out = await ContextBuilder(Budget(1_000), format=format_name).add(*blocks()).build()
    assert errors(out, format_name) == []
    assert (out.system is None) == (format_name not in APART)
    assert len(out.messages) == (3 if format_name in APART else 5)
    assert len(out.report.cache_points) == 3


async def test_marks_stand_where_their_blocks_end():
    """Each mark stands at the end of its block, and none with a short life before one with a long one."""
    out = await ContextBuilder(Budget(1_000), format="anthropic").add(*blocks()).build()
    long = {"type": "ephemeral", "ttl": "1h"}
    assert out.system == [
        {"type": "text", "text": "rules", "cache_control": long},
        {"type": "text", "text": "facts", "cache_control": long},
    ]
    assert out.messages[-1]["content"] == [{"type": "text", "text": "more", "cache_control": long}]


async def test_bedrock_marks_are_blocks():
    """Bedrock's marks are blocks of their own, behind what they keep."""
    rules, facts, talk = blocks()
    plain = Block("facts", facts.messages, Tier.CORE)
    out = await ContextBuilder(Budget(1_000), format="bedrock").add(rules, plain, talk).build()
    mark = {"cachePoint": {"type": "default", "ttl": "1h"}}
    assert out.system == [{"text": "rules"}, mark, {"text": "facts"}]
    assert out.messages[-1]["content"] == [{"text": "more"}, mark]


async def test_at_most_four_marks():
    """Of more than four marks the last four are written."""
    many = [Block(f"b{place}", chat(f"u{place}"), Tier.CORE, cache=True) for place in range(6)]
    out = await ContextBuilder(Budget(1_000), format="anthropic").add(*many).build()
    assert out.report.cache_points == (2, 3, 4, 5)
    assert [isinstance(message["content"], str) for message in out.messages] == [True, True] + 4 * [False]


async def test_chat_takes_a_mark_in_full():
    """The Chat format has no marks of its own; one that is given in full is written."""
    mark = {"type": "ephemeral"}
    blocks = Block("a", chat("s1"), Tier.CORE, cache=True), Block("b", chat("s2"), Tier.CORE, cache=mark)
    out = await ContextBuilder(Budget(1_000), format="openai-chat").add(*blocks).build()
    assert [message["content"] for message in out.messages] == [
        "s1",
        [{"type": "text", "text": "s2", "cache_control": mark}],
    ]
    assert out.report.cache_points == (0, 1)


async def test_a_merged_block_ends_with_the_system_message():
    """The mark of a block that was merged into the system message stands there."""
    blocks = Block("rules", chat("s1"), Tier.SYSTEM), Block("docs", chat("u1"), Tier.RAG, cache=True)
    made = ContextBuilder(Budget(1_000), format="anthropic", formatter=MergeSystem())
    out = await made.add(*blocks, Block("h", chat("u2"))).build()
    assert out.system[0]["text"].startswith("s1\n<context>")
    assert out.system[0]["cache_control"] == {"type": "ephemeral"}


def look(call_id, format_name):
    """A round: a call and its result."""
    said = () if format_name == "openai-responses" else (Text("look"),)
    role = "tool" if format_name.startswith("openai") else "user"
    answer = ToolResult(call_id, (Text("saw"),), "look")
    return [Message("assistant", (*said, ToolCall(call_id, "look", "{}"))), Message(role, (answer,))]


@pytest.mark.parametrize("format_name", FORMATS)
async def test_who_speaks_first(format_name):
    """Where the user's words went and the model would speak first, providers that mind are told."""
    talk = [value("user", "task"), *look("c1", format_name), *look("c2", format_name), value("user", "and?")]
    made = ContextBuilder(Budget(49), counter=FixedCounter(10), format=format_name)
    out = await made.add(Block("h", talk, evict=TruncateOldest())).build()
    assert errors(out, format_name) == []
    minds = not format_name.startswith("openai")
    assert [message.text for message in out.context.messages[:1]] == [NOT_SHOWN] * minds + [talk[3].text] * (not minds)
    assert out.report.tokens == len(out.messages) * 10


@pytest.mark.parametrize("format_name", APART)
async def test_the_opening_has_its_room(format_name):
    """Where there is no room for the opening words, a round more is left out instead."""
    talk = [value("user", "task"), *look("c1", format_name), *look("c2", format_name), value("user", "and?")]
    made = ContextBuilder(Budget(39), counter=FixedCounter(10), format=format_name)
    out = await made.add(Block("h", talk, evict=TruncateOldest())).build()
    assert [message.text for message in out.context.messages] == ["and?"]


async def test_natives_of_anthropic_are_found_out():
    """The format is found out from all blocks together."""
    written = history("anthropic", user("task"), assistant("look", call("a", "x")), result("a", "1"), user("more"))
    out = (
        await ContextBuilder(Budget(1_000))
        .add(Block("s", chat("s1"), Tier.SYSTEM), Block("h", written.messages))
        .build()
    )
    assert out.messages == written.messages
    assert out.system == "s1"
