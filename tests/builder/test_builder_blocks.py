"""The blocks of a builder: added, replaced, removed, cloned, and left as they were passed in."""

import copy
import json
from contextvars import ContextVar

import anyio
import pytest
from blocks import block, builder, built, chat, said, tool_round

from agentctx import ConfigError, ContextOverflow, InvalidInput, Message, Text
from agentctx.builder import Block, Tier
from agentctx.builder.blocks import concatenate
from agentctx.strategies import Drop, TruncateOldest

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("name", ["", None, 7])
def test_a_block_needs_a_name(name):
    """A block needs a name."""
    with pytest.raises(ConfigError, match=r"^Block\.id must be a name, got "):
        Block(name, [])


def test_only_blocks_can_be_added():
    """Only blocks can be added."""
    with pytest.raises(ConfigError, match=r"^ContextBuilder\.add\.blocks\[0\] must be a Block, got "):
        builder(100).add(chat("u1"))


async def test_what_was_added_first_is_served_first():
    """Within a tier, what was added first is served first."""
    out = await built(10, block("a", chat("u1"), Drop()), block("b", chat("u2"), Drop()))
    assert said(out.messages) == ["u1"]


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

    with pytest.raises(ContextOverflow):  # nothing is left to send
        await built(5, block("a", chat("u1"), drop), formatter=look)
    assert seen == ["r-1", "r-1"]


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


def test_a_message_that_cannot_be_copied_is_named():
    """One that is nested too deep, or that contains itself, is one clear error."""
    endless: dict[str, object] = {"role": "user", "content": "x"}
    endless["more"] = [endless]
    with pytest.raises(InvalidInput, match=r"messages\[1\]: it is nested too deep"):
        Block("history", [{"role": "user", "content": "y"}, endless])
