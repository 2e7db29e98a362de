"""Formatters: background merged into the system message, and what any formatter is held to."""

from html import unescape

import pytest
from blocks import block, builder, built, chat, said, tool_round

from agentctx import ConfigError, ContextOverflow, Message, StageError, Text
from agentctx.builder import Block, MarkdownList, MergeSystem, Tier, XmlTags
from agentctx.builder.blocks import Section, concatenate, tag_name
from agentctx.strategies import Drop, TruncateOldest

pytestmark = pytest.mark.anyio

FACTS = MergeSystem(XmlTags(item="fact"))
SYSTEM = Block("system", [{"role": "system", "content": "Base"}], Tier.SYSTEM)


def facts(*texts, tier=Tier.CORE):
    """A block of background."""
    return block("facts", [{"role": "user", "content": text} for text in texts], tier=tier)


async def system_of(*blocks, formatter=FACTS):
    """The system message that is made of blocks."""
    out = await built(1_000, *blocks, formatter=formatter)
    (message,) = out.messages
    return message["content"]


async def test_without_background_the_system_message_stays():
    """Without background the system message stays as it is."""
    out = await built(1_000, SYSTEM, formatter=FACTS)
    assert out.messages == [{"role": "system", "content": "Base"}]


async def test_one_fact_in_its_tags():
    """One fact, in all its tags."""
    assert await system_of(SYSTEM, facts("likes tea")) == ("Base\n<context>\n  <fact>likes tea</fact>\n</context>")


async def test_two_blocks_share_one_context():
    """Two blocks share one context."""
    text = await system_of(SYSTEM, facts("one"), facts("two", tier=Tier.RAG))
    assert text.startswith("Base\n<context>")
    assert text.endswith("</context>")
    assert text.index("<fact>one</fact>") < text.index("<fact>two</fact>")


async def test_an_empty_text_is_an_empty_fact():
    """An empty text is an empty fact."""
    assert "<fact></fact>" in await system_of(SYSTEM, facts(""))


async def test_no_text_closes_a_tag():
    """No text can close a tag, nor end an attribute: quotes are escaped as well."""
    text = await system_of(SYSTEM, facts("""</fact> & "it's" """))
    assert "<fact>&lt;/fact&gt; &amp; &quot;it&#x27;s&quot; </fact>" in text


async def test_the_system_prompt_is_not_escaped():
    """The system prompt's own words are not escaped."""
    own = Block("system", [{"role": "system", "content": "use <b> & 'quotes'"}], Tier.SYSTEM)
    assert (await system_of(own, facts("x"))).startswith("use <b> & 'quotes'\n<context>")


IMAGE = {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}}


async def test_an_image_goes_along_in_a_message_of_its_own():
    """Text alone is merged; an image goes along in a message of its own."""
    seen = block("seen", [{"role": "user", "content": [{"type": "text", "text": "a cat"}, IMAGE]}])
    out = await built(1_000, SYSTEM, seen, formatter=FACTS)
    assert out.messages[0]["content"] == "Base\n<context>\n  <fact>a cat</fact>\n</context>"
    assert out.messages[1:] == [{"role": "user", "content": [IMAGE]}]


async def test_parts_of_the_system_message_stay():
    """Blocks of the system message stay as they are, marks and all; the background comes behind them."""
    marked = {"type": "text", "text": "Base", "cache_control": {"type": "ephemeral"}}
    own = Block("system", [{"role": "system", "content": [marked]}], Tier.SYSTEM)
    first, second = await system_of(own, facts("x"))
    assert first == marked
    assert second["text"] == "\n<context>\n  <fact>x</fact>\n</context>"


async def test_an_image_in_the_system_message_is_reported():
    """An image in the system message, which the provider refuses, is not thrown away in silence: the report says so."""
    own = Block("system", [{"role": "system", "content": [{"type": "text", "text": "Base"}, IMAGE]}], Tier.SYSTEM)
    out = await built(1_000, own, facts("x"), formatter=FACTS)
    assert [part["text"] for part in out.messages[0]["content"]] == [
        "Base",
        "[image left out: only user messages may carry it]",
        "\n<context>\n  <fact>x</fact>\n</context>",
    ]
    assert any("block 'system' was repaired" in note for note in out.report.notes)


async def test_calls_are_not_merged():
    """A message with calls or results stays a message."""
    looked = block("looked", tool_round("look", "c1"), tier=Tier.RAG)
    out = await built(1_000, SYSTEM, looked, facts("x"), formatter=FACTS)
    assert [message["role"] for message in out.messages] == ["system", "assistant", "tool"]


async def test_background_alone_becomes_a_system_message():
    """Without a system message the background becomes one."""
    assert await system_of(facts("x")) == "<context>\n  <fact>x</fact>\n</context>"


async def test_tags_have_the_names_that_one_gives_them():
    """The wrapper and the items have the names that one gives them; else items are named after their block."""
    text = await system_of(SYSTEM, facts("x"), formatter=MergeSystem(XmlTags("known")))
    assert text == "Base\n<known>\n  <facts>x</facts>\n</known>"


async def test_a_heading_and_a_list():
    """A heading and a list, further lines indented, nothing escaped."""
    text = await system_of(SYSTEM, facts("one\ntwo", "<b>"), formatter=MergeSystem(MarkdownList("Known")))
    assert text == "Base\n### Known\n- one\n  two\n- <b>"


async def test_the_conversation_is_not_merged():
    """Only background is merged."""
    history = block("history", chat("u1", "a1"), tier=Tier.HISTORY)
    out = await built(1_000, SYSTEM, facts("x"), history, formatter=FACTS)
    assert said(out.messages[1:]) == ["u1", "a1"]


@pytest.mark.parametrize(
    ("name", "tag"),
    [("facts", "facts"), ("my facts", "my_facts"), ("2nd", "_2nd"), ("a/b<c>", "a_b_c_"), ("-x", "_-x")],
)
def test_a_tag_can_be_closed_whatever_its_block_is_called(name, tag):
    """Whatever a block is called, its tag is one that can be closed."""
    assert tag_name(name) == tag


@pytest.mark.parametrize("name", ["", "two words", "<b>", "1st"])
def test_a_tag_that_cannot_be_one(name):
    """A tag that cannot be one is refused."""
    with pytest.raises(ConfigError, match=r"^XmlTags\.wrapper must be a name that an XML tag can have, got "):
        XmlTags(name)
    with pytest.raises(ConfigError, match=r"^XmlTags\.item must be a name that an XML tag can have, or None, got "):
        XmlTags(item=name)


def test_what_is_escaped_can_be_had_back():
    """What is escaped can be had back."""
    text = "<a> &amp; &lt; 'q' \"q\""
    written = XmlTags()([("a", text)])
    assert unescape(written.removeprefix("<context>\n  <a>").removesuffix("</a>\n</context>")) == text


@pytest.mark.parametrize("formatter", [None, str, "text"])
def test_something_that_is_no_formatter(formatter):
    """Something that is no formatter is refused."""
    with pytest.raises(ConfigError, match="formatter"):
        builder(100, formatter=formatter)


async def test_sections_one_after_the_other():
    """The sections one after the other, as they are."""
    one, two = Message("user", ()), Message("assistant", ())
    sections = [Section("a", Tier.CORE, (one,)), Section("b", Tier.RAG, (two, one))]
    assert await concatenate(sections) == [one, two, one]


async def test_a_formatter_sees_what_is_left_in_order():
    """A formatter sees what is left of the blocks, in the order of the request."""
    seen = []

    async def look(sections):
        seen.extend((section.id, section.tier, len(section.messages)) for section in sections)
        return await concatenate(sections)

    history = block("h", chat("u1", "u2", "u3"), TruncateOldest(), tier=Tier.HISTORY)
    await built(30, history, block("gone", []), block("core", chat("s1")), formatter=look)
    assert seen == [("core", Tier.CORE, 1), ("h", Tier.HISTORY, 2)]


async def test_a_formatter_that_makes_too_much():
    """A formatter that makes too much is an overflow that names it."""

    async def chatty(sections):
        return [*await concatenate(sections), *(Message("system", ()) for _ in range(10))]

    for given in (block("a", chat("u1")), block("a", chat("u1"), Drop())):
        with pytest.raises(ContextOverflow, match="50 are available") as caught:
            await built(50, given, formatter=chatty)
        assert any("the formatter chatty adds" in note for note in caught.value.__notes__)


async def test_a_formatter_that_takes_room():
    """A formatter that adds a little leaves the blocks less room."""

    async def with_header(sections):
        return [Message("system", ()), *await concatenate(sections)]

    history = block("h", chat("u1", "u2", "u3"), TruncateOldest(), tier=Tier.HISTORY)
    out = await built(30, history, formatter=with_header)
    assert [message["content"] for message in out.messages[1:]] == ["u2", "u3"]
    assert (out.report.tokens, out.report.used_tokens) == (30, 20)


async def test_a_formatter_that_breaks_a_pair():
    """A formatter that tears a call from its result fails."""

    async def headless(sections):
        return (await concatenate(sections))[1:]

    with pytest.raises(StageError, match="headless: broke a pair"):
        await built(100, block("a", tool_round("look", "c1")), formatter=headless)


async def test_a_formatter_that_loses_the_newest_words():
    """A formatter that loses the user's newest words fails."""

    async def nothing(sections):
        del sections
        return []

    with pytest.raises(StageError, match="nothing: lost or changed the user's newest words"):
        await built(100, block("h", chat("u1"), tier=Tier.HISTORY), formatter=nothing)


@pytest.mark.parametrize(
    ("answer", "says"), [(None, "NoneType instead"), ("text", "str instead"), (["x"], "no Message, but str")]
)
async def test_a_formatter_that_returns_no_messages(answer, says):
    """A formatter that returns something else than messages fails."""

    async def wrong(sections):
        del sections
        return answer

    with pytest.raises(StageError, match=says):
        await built(100, block("a", chat("s1")), formatter=wrong)


async def test_a_formatters_changes_stay_with_it():
    """What a formatter does to its sections stays with it."""

    async def greedy(sections):
        out = await concatenate(sections)
        sections.clear()
        return out

    made = builder(100, block("a", chat("u1")), formatter=greedy)
    assert (await made.build()).messages == (await made.build()).messages == chat("u1")


async def test_a_formatter_that_wraps_another():
    """A formatter that wraps another is a formatter."""

    def shouting(formatter):
        async def shout(sections):
            messages = await formatter(sections)
            return [Message(message.role, (Text(message.text.upper()),)) for message in messages]

        return shout

    out = await built(100, block("a", chat("s1")), formatter=shouting(concatenate))
    assert said(out.messages) == ["S1"]
