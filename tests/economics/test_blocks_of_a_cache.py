"""Requests are cut into the blocks that a cache sees, with their sizes, their marks and the ends of turns."""

from __future__ import annotations

import anyio
import pytest
from attrs import evolve

from agentctx import Context, Message, Opaque, Pipeline
from agentctx.economics import CacheSimulator, PromptReader, made_forecast
from agentctx.engine.reading import reader
from agentctx.formats.native import CONTROL_MARKERS
from agentctx.models.profile import cache_rules
from agentctx.models.table import profile
from agentctx.protocols import Call

CLAUDE = "claude-sonnet-4-5"


def text(words, ttl=None):
    """A block of text, with a marker when it has a time to live."""
    marker = {} if ttl is None else {"cache_control": {"type": "ephemeral", "ttl": ttl}}
    return {"type": "text", "text": words, **marker}


TOOLS = [{"name": "read", "input_schema": {"type": "object"}}]
MESSAGES = [
    {"role": "user", "content": [text("one " * 50, "1h"), text("two " * 90, "5m")]},
    {"role": "assistant", "content": [text("three")]},
    {"role": "user", "content": [text("four"), text("five " * 20), text("six")]},
]
OURS = reader(MESSAGES, format="anthropic", model=CLAUDE).meter


def context(messages, system="1h", tools=TOOLS):
    """What is sent of a conversation."""
    asked = anyio.run(lambda: Pipeline().prepare(messages, [text("rules", system)], tools, "anthropic", CLAUDE))
    return asked.context


def blocks(*contexts, **options):
    """The blocks of the last of several requests of one conversation."""
    cuts = PromptReader(OURS, **options)
    return [cuts.read(each) for each in contexts][-1].blocks


def test_every_part_is_a_block_and_every_token_is_in_one():
    """Tools and system prompt are the first; what a message costs by itself is with its first part."""
    sent = context(MESSAGES)
    found = blocks(sent)
    assert [block.turn_end for block in found] == [False, False, True, False, False, False, True]
    assert found[0].tokens == OURS.fixed(sent)
    sizes = [block.tokens for block in found[1:]]
    assert [sum(sizes[:2]), sizes[2], sum(sizes[3:])] == [OURS.message(message) for message in sent.messages]
    assert sizes[1] == OURS.parts(sent.messages[0].parts[1:])


OTHER_TOOLS = {
    "schema": [{"name": "read", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}}],
    "the provider's own": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 3}],
}


@pytest.mark.parametrize("name", OTHER_TOOLS)
def test_another_definition_of_a_tool_is_another_prefix(name):
    """Also where name and description are the same: nothing is read of what was sent with the one before."""
    rules, [tool] = cache_rules(profile(CLAUDE)), OTHER_TOOLS[name]
    first = {"name": "read", "input_schema": {"type": "object"}} if name == "schema" else {**tool, "max_uses": 5}
    known, changed, marked = ([first], [tool], [first | {"cache_control": {"type": "ephemeral"}}])
    cache, cuts = CacheSimulator(rules), PromptReader(OURS)
    messages = [{"role": "user", "content": "one " * 3_000}]
    bills = [
        cache.send(cuts.read(context(messages, None, tools)), at)
        for at, tools in enumerate((known, known, marked, changed))
    ]
    assert [each.cached > 0 for each in bills] == [False, True, True, False]


def test_another_definition_of_a_tool_is_no_prefix_of_what_was_made():
    """What a cut would cost is worked out by what is sent: behind another definition nothing is known."""
    one, other = ([{"type": "web_search_20250305", "name": "web_search", "max_uses": uses}] for uses in (3, 5))
    long = [{"role": "user", "content": "one " * 3_000}, *MESSAGES[1:]]
    before, shorter = context(long, None, one), context(long[:1], None, one)
    same, cut = (
        made_forecast(before, after, Call(OURS, profile=profile(CLAUDE), warmth=1.0))
        for after in (shorter, evolve(shorter, tools=context(MESSAGES, None, other).tools))
    )
    assert before.tools == context(MESSAGES, None, other).tools
    assert cut.with_cut > same.with_cut


def test_another_block_of_the_same_kind_is_another_block():
    """Of what is not understood, all that is sent counts."""
    one, other, again = (Context((Message("user", (Opaque("file", {"id": at}),)),)) for at in (1, 2, 1))
    keys = [PromptReader(OURS).read(each).blocks[-1].key for each in (one, other, again)]
    assert keys[0] == keys[2] != keys[1]


def test_a_message_of_markers_alone_is_a_block():
    """What it costs by itself is in the request, and it ends a turn as any message of its role."""
    mark = Opaque("cachePoint", {"cachePoint": {"type": "default"}})
    for role, ends in (("user", True), ("assistant", False)):
        message = Message(role, (mark,))
        (block,) = PromptReader(OURS).read(Context((message,))).blocks[1:]
        assert (block.tokens, block.turn_end) == (OURS.message(message), ends)


@pytest.mark.parametrize(
    ("system", "marks"),
    [("1h", ["long", "long", "short"]), ("5m", ["short"] * 3), (None, [None, "long", "short"])],
)
def test_the_markers_of_the_request_are_its_marks(system, marks):
    """With the format's markers those count that are sent, with their time to live, and no others."""
    found = blocks(context(MESSAGES, system), own=CONTROL_MARKERS)
    assert [block.mark for block in found] == [*marks, None, None, None, None]


def test_a_careful_client_marks_what_requests_share():
    """The ends of the system prompt, of what is shared with the request before, of what that shared, and of all."""
    first, second, third = (context(MESSAGES[:length]) for length in (1, 2, 3))
    for sent, places in (((first,), [0, 2]), ((first, second), [0, 2, 3]), ((first, second, third), [0, 2, 3, 6])):
        assert [place for place, block in enumerate(blocks(*sent)) if block.mark] == places
    other = context([*MESSAGES[:2], {"role": "user", "content": [text("else")]}])
    assert [place for place, block in enumerate(blocks(third, other)) if block.mark] == [0, 3, 4]
    assert not any(block.mark for block in blocks(first, mark=None))


def test_blocks_are_the_same_when_they_say_the_same():
    """Another system prompt, other tools, another role or another part are other blocks; a marker changes none."""
    keys = [block.key for block in blocks(context(MESSAGES))]
    assert keys == [block.key for block in blocks(context(MESSAGES, None))]
    assert keys[0] != blocks(context(MESSAGES, tools=[{**TOOLS[0], "name": "write"}]))[0].key
    assert len(set(keys)) == len(keys)
