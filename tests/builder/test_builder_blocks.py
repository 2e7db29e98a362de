"""The blocks of a builder: added, replaced, removed, cloned, and left as they were passed in."""

import copy
import json
from contextvars import ContextVar

import anyio
import pytest
from blocks import block, builder, built, chat, said, tool_round

from agentctx import ConfigError, ContextOverflow, Message, StageError, Text
from agentctx.builder import Block, Tier
from agentctx.builder.rendering import concatenate
from agentctx.strategies import Drop, DropTail, Strict, Summarize, TruncateOldest
from agentctx.testing import fixed_summarizer

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("name", ["", None, 7])
def test_a_block_needs_a_name(name):
    """A block needs a name."""
    with pytest.raises(ConfigError, match="expected a name"):
        Block(name, [])


def test_only_blocks_can_be_added():
    """Only blocks can be added."""
    with pytest.raises(ConfigError, match="expected a Block, got list"):
        builder(100).add(chat("u1"))


async def test_what_was_added_first_is_served_first():
    """Within a tier, what was added first is served first."""
    out = await built(10, block("a", chat("u1"), Drop()), block("b", chat("u2"), Drop()))
    assert said(out.messages) == ["u1"]


def test_a_missing_eviction_names_the_block():
    """The error for a missing eviction names the block, and says what to pass."""
    with pytest.raises(ConfigError, match=r"Block 'notes': evict.*TruncateOldest\(\)"):
        Block("notes", [], evict=None)


async def test_all_five_evictions_in_one_build():
    """Two builds with all five evictions are equal, and each asks the summarizer once."""
    asked = []

    async def summarize(messages, max_tokens):
        asked.append((len(messages), max_tokens))
        return "summary"

    made = builder(
        50,
        block("strict", chat("s-keep"), Strict()),
        block("drop", chat("u1", "u2", "u3", "u4", "u5", "u6"), Drop()),
        block("head", chat("u-old", "u-new"), TruncateOldest(), max_tokens=15),
        block("summarize", chat("u1", "u2"), Summarize(summarize, heading=""), max_tokens=19),
        block("tail", chat("u-tail-1", "u-tail-2", "u-tail-3"), DropTail()),
    )
    first, second = await made.build(), await made.build()
    assert first.messages == second.messages
    assert said(first.messages) == ["s-keep", "u-new", "summary", "u-tail-1", "u-tail-2"]
    assert len(asked) == 2


async def test_blocks_do_not_change_with_the_callers_messages():
    """What happens to the caller's messages after they were added does not change the block."""
    image = {"type": "image_url", "image_url": {"url": "https://example.com/1.png"}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "u1"}, image], "metadata": {"tags": ["a"]}}]
    before = copy.deepcopy(messages)
    made = builder(100, block("a", messages))
    messages[0]["content"][0]["text"] = "changed"
    image["image_url"]["url"] = "changed"
    messages[0]["metadata"]["tags"].append("changed")
    messages.append(chat("u2")[0])
    assert (await made.build()).messages == before


async def test_a_formatters_changes_stay_with_it():
    """What a formatter does to its sections stays with it."""

    async def greedy(sections):
        out = await concatenate(sections)
        sections.clear()
        return out

    made = builder(100, block("a", chat("u1")), formatter=greedy)
    assert (await made.build()).messages == (await made.build()).messages == chat("u1")


async def test_an_eviction_that_ignores_its_blocks_cap():
    """An eviction that ignores its block's cap fails, though there is room."""

    async def everything(context, _call):
        return context

    with pytest.raises(StageError, match="returned 20 tokens, and 10 were allowed"):
        await built(100, block("a", chat("u1", "u2"), everything, max_tokens=10))


async def test_context_variables_reach_evictions_and_formatters():
    """A value of the caller's context reaches evictions and formatters."""
    request = ContextVar("request")
    request.set("r-1")
    seen = []

    async def drop(context, _call):
        seen.append(request.get())
        return context.with_messages(())

    async def look(sections):
        seen.append(request.get())
        return await concatenate(sections)

    await built(5, block("a", chat("u1"), drop), formatter=look)
    assert seen == ["r-1", "r-1"]


async def test_the_report_lists_blocks_after_eviction():
    """The report lists the blocks as they are after eviction, also those of which nothing is left."""
    history = block("h", chat("u1", "u2"), TruncateOldest(), tier=Tier.HISTORY)
    out = await built(20, block("core", chat("s1")), block("rag", chat("s2", "s3"), Drop(), tier=Tier.RAG), history)
    assert [(each.id, each.messages_after, each.dropped) for each in out.report.blocks] == [
        ("core", 1, False),
        ("rag", 0, True),
        ("h", 1, False),
    ]


async def test_a_clone_and_its_original_go_their_own_ways():
    """A clone and its original go their own ways."""
    made = builder(100, block("a", chat("u1")))
    other = made.clone().add(block("b", chat("u2")))
    made.replace("a", chat("u3"))
    assert said((await made.build()).messages) == ["u3"]
    assert said((await other.build()).messages) == ["u1", "u2"]


async def test_clones_share_no_nested_values():
    """What a clone builds shares nothing with what its original builds."""
    made = builder(100, block("a", [{"role": "user", "content": "u1", "metadata": {"tags": ["a", {"b": [1]}]}}]))
    one = (await made.clone().build()).messages
    one[0]["metadata"]["tags"][1]["b"].append(2)
    assert (await made.build()).messages[0]["metadata"] == {"tags": ["a", {"b": [1]}]}


def test_a_name_that_no_block_has():
    """A name that no block has is an error that lists the names."""
    made = builder(100, block("a", []), block("b", []))
    for change in (lambda: made.replace("c", []), lambda: made.remove("c")):
        with pytest.raises(ConfigError, match="no block is called 'c'; there are: 'a', 'b'"):
            change()


async def test_replacing_takes_the_first_and_removing_all():
    """New messages go into the first block of a name; removing takes all of them."""
    made = builder(100, block("a", chat("u1")), block("a", chat("u2")), block("b", chat("u3")))
    assert said((await made.replace("a", chat("u4")).build()).messages) == ["u4", "u2", "u3"]
    assert said((await made.remove("a").build()).messages) == ["u3"]


def test_replacing_many_is_linear(work):
    """Giving each of many blocks new messages takes work that grows with their number, not with its square."""

    def replaced(count):
        made = builder(100, *(block(f"b{n}", []) for n in range(count)))

        def replace():
            for number in range(count):
                made.replace(f"b{number}", [])

        return replace

    assert work(replaced(2_000)) < 12 * work(replaced(200))


async def test_replacing_after_removing():
    """After blocks were removed, the first of a name is found in its new place; a clone finds its own."""
    made = builder(100, block("a", chat("u1")), block("b", chat("u2")), block("c", chat("u3")), block("c", chat("u4")))
    other = made.clone()
    made.remove("a").replace("c", chat("u5")).add(block("a", chat("u6"))).replace("a", chat("u7"))
    assert said((await made.build()).messages) == ["u2", "u5", "u4", "u7"]
    other.remove("b").replace("c", chat("u8"))
    assert said((await other.build()).messages) == ["u1", "u8", "u4"]


@pytest.mark.both_loops
async def test_thirty_two_tasks_build_at_once():
    """Thirty-two tasks clone, change and build at once, each for itself."""
    made = builder(100, block("a", chat("s1")), block("h", chat("u1"), TruncateOldest(), tier=Tier.HISTORY))
    found = {}

    async def one(number):
        out = await made.clone().replace("h", chat(f"u{number}")).build()
        found[number] = said(out.messages)

    async with anyio.create_task_group() as group:
        for number in range(32):
            group.start_soon(one, number)
    assert found == {number: ["s1", f"u{number}"] for number in range(32)}


async def test_an_eviction_that_wraps_another():
    """An eviction that wraps another is an eviction."""
    seen = []

    def logged(evict):
        async def logging(context, call):
            left = await evict(context, call)
            seen.append((len(context.messages), len(left.messages)))
            return left

        return logging

    out = await built(15, block("a", chat("u1", "u2"), logged(TruncateOldest())))
    assert (said(out.messages), seen) == (["u2"], [(2, 1)])


async def test_a_formatter_that_wraps_another():
    """A formatter that wraps another is a formatter."""

    def shouting(formatter):
        async def shout(sections):
            messages = await formatter(sections)
            return [Message(message.role, (Text(message.text.upper()),)) for message in messages]

        return shout

    out = await built(100, block("a", chat("s1")), formatter=shouting(concatenate))
    assert said(out.messages) == ["S1"]


async def test_one_oversize_unit_at_the_head():
    """One oversize unit at the head of a block is an overflow that names the block, its size and the room."""
    with pytest.raises(ContextOverflow, match=r"needs 10 tokens and 5 are available.*block 'ranked' \(core\) 10"):
        await built(5, block("ranked", chat("u1", "u2"), DropTail()))


@pytest.mark.both_loops
async def test_a_cancelled_build_goes_to_no_further_block():
    """A build that is cancelled by an eviction does not go on to the next block."""
    seen = []

    async def cancelling(context, _call):
        seen.append(len(context.messages))
        scope.cancel()
        return context.with_messages(())

    made = builder(5, block("a", chat("u1"), cancelling), block("b", chat("u2"), cancelling))
    with anyio.CancelScope() as scope:
        await made.build()
    assert (scope.cancelled_caught, seen) == (True, [1])
    assert [each.id for each in made.report.blocks] == ["a", "b"]


async def test_requests_and_reports_are_json():
    """What is built can be written as JSON and read back; so can the report."""
    out = await built(100, block("a", [*chat("u1"), *tool_round("look", "c1")]))
    assert json.loads(json.dumps(out.messages)) == out.messages
    assert json.loads(json.dumps(out.report.to_dict()))["blocks"][0]["tier"] == 1


async def test_blocks_hold_values_as_well():
    """Blocks hold values of this library as well as native messages; they come out native."""
    values = [Message("system", (Text("s1"),)), Message("user", (Text("u1"),))]
    out = await built(100, block("a", values), block("b", chat("u2")))
    assert out.messages == chat("s1", "u1", "u2")
    assert out.context.messages[0] == values[0]


async def test_a_summarizer_is_asked_once_a_build():
    """However often blocks are cut anew for the formatter, the summarizer is asked once while its answer fits."""
    asked = []

    async def summarize(messages, max_tokens):
        del max_tokens
        asked.append(len(messages))
        return await fixed_summarizer("short")(messages, 0)

    async def with_header(sections):
        return [Message("system", ()), *await concatenate(sections)]

    talk = block("talk", chat("u1", "u2", "u3"), Summarize(summarize), tier=Tier.CORE, max_tokens=25)
    history = block("h", chat("u4", "u5"), TruncateOldest(), tier=Tier.HISTORY)
    out = await built(30, talk, history, formatter=with_header)
    assert (asked, len(out.messages)) == ([3], 3)
