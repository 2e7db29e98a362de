"""Facts that outlive the messages that said them."""

import anyio
import pytest
from blocks import block, builder, chat, said

from agentctx import ConfigError, Message, StageError, Text
from agentctx.builder import Facts, MergeSystem, Tier
from agentctx.builder.blocks import readings
from agentctx.strategies import TruncateOldest

pytestmark = pytest.mark.anyio


class Extractor:
    """Takes a fact from each message of the user, and remembers what it read."""

    def __init__(self):
        self.read = []

    async def __call__(self, messages):
        """A fact for each."""
        self.read.append(said_by(messages))
        return [f"s-{message.text}" for message in messages if message.role == "user"]


def said_by(messages):
    """What values say."""
    return [message.text for message in messages]


def talking(words, extractor, tokens=50, **options):
    """A builder with a conversation."""
    talk = block("h", chat(*words.split()), TruncateOldest(), tier=Tier.HISTORY)
    return builder(tokens, block("sys", chat("s0"), tier=Tier.SYSTEM), talk, facts=extractor, **options)


async def test_nothing_lost_nothing_read():
    """While the conversation fits, nobody is asked for facts."""
    extractor = Extractor()
    out = await talking("u1 a1 u2", extractor).build()
    assert (extractor.read, out.report.facts) == ([], ())


async def test_facts_of_what_was_lost():
    """Facts of what does not fit stand in the tier ``CORE``, before the rest of the conversation."""
    out = await talking("u1 a1 u2 a2 u3", Extractor()).build()
    assert said(out.messages) == ["s0", "s-u1", "u2", "a2", "u3"]
    assert out.report.facts == ("s-u1",)
    assert out.report.used_tokens == 50


async def test_room_for_facts_makes_more_facts():
    """What has to go to make room for facts is read as well."""
    extractor = Extractor()
    out = await talking("u1 a1 u2 a2 u3", Facts(extractor, share=1), tokens=40).build()
    assert extractor.read == [["u1", "a1"], ["u2"], ["a2"]]
    assert said(out.messages) == ["s0", "s-u1", "s-u2", "u3"]


async def test_each_message_is_read_once():
    """A second build and a clone do not read again what was read."""
    extractor = Extractor()
    made = talking("u1 a1 u2 a2 u3", extractor)
    first = await made.build()
    assert (await made.build()).messages == first.messages
    assert (await made.clone().build()).messages == first.messages
    assert extractor.read == [["u1"], ["a1"]]
    assert made.facts == ("s-u1",)


async def test_facts_are_kept_once():
    """A fact that is known already is not kept twice; blank ones are not kept."""

    async def same(messages):
        del messages
        return ["likes tea", " likes tea ", "", "  "]

    made = talking("u1 a1 u2 a2 u3", same)
    await made.build()
    assert made.facts == ("likes tea",)


async def test_a_cap_for_facts():
    """With a cap the oldest facts go first."""
    out = await talking("u1 u2 u3 u4 u5 u6", Facts(Extractor(), max_tokens=20)).build()
    assert said(out.messages) == ["s0", "s-u3", "s-u4", "u5", "u6"]
    assert out.report.tokens_per_block["facts"] <= 20


async def test_a_failing_extractor_costs_nothing():
    """An extractor that fails costs its facts, and the report says why."""

    async def failing(messages):
        del messages
        what = "no connection"
        raise ConnectionError(what)

    out = await talking("u1 a1 u2 a2 u3", failing).build()
    assert said(out.messages) == ["s0", "a1", "u2", "a2", "u3"]
    assert out.report.notes == ("the fact extractor raised ConnectionError: no connection",)


@pytest.mark.parametrize("answer", [None, "one fact", [1]])
async def test_an_extractor_that_returns_no_texts(answer):
    """An extractor that returns something else than texts fails by its name."""

    async def wrong(messages):
        del messages
        return answer

    with pytest.raises(StageError, match="FactExtractor: returned"):
        await talking("u1 a1 u2 a2 u3", wrong).build()


async def test_facts_in_the_system_message():
    """With a formatter that merges background, facts stand in the system message."""
    out = await talking("u1 a1 u2 a2 u3", Extractor(), formatter=MergeSystem()).build()
    assert "<facts>s-u1</facts>" in out.messages[0]["content"]


async def test_a_longer_conversation_is_read_where_it_is_new():
    """A loop that hands over its whole history anew at each step has only what is lost now read, each message once."""
    extractor = Extractor()
    made = talking("u1 a1", extractor, tokens=40)
    words = ["u1", "a1"]
    for number in range(2, 8):
        words += [f"u{number}", f"a{number}"]
        await made.replace("h", chat(*words)).build()
    read = [text for batch in extractor.read for text in batch]
    assert len(read) == len(set(read))
    assert set(read) < set(words)
    assert made.facts == tuple(f"s-u{n}" for n in range(1, 7))


async def test_the_same_words_said_twice_are_read_twice():
    """What is said again later is read again: it may answer another question."""
    extractor = Extractor()
    made = talking("a1 u-yes u2", extractor, tokens=40)
    await made.replace("h", chat("a1", "u-yes", "a2", "u-yes", "a3", "u4", "a5", "u6")).build()
    assert [text for batch in extractor.read for text in batch][:4] == ["a1", "u-yes", "a2", "u-yes"]


def test_options_of_facts():
    """An extractor can be called, and a cap is positive."""
    with pytest.raises(ConfigError, match=r"^Facts\.extractor must be an async function of messages, got "):
        builder(100, facts=7)
    with pytest.raises(ConfigError, match=r"^Facts\.extractor must be an async function of messages, got "):
        Facts(Extractor)
    for cap in (0, -1, 1.5, True):
        with pytest.raises(
            ConfigError, match=r"^Facts\.max_tokens must be a whole number of at least 1, or None, got "
        ):
            Facts(Extractor(), max_tokens=cap)


def test_many_facts_are_kept_in_linear_work(work):
    """Four times the facts are about four times the work."""

    def learned(count):
        facts = Facts(Extractor())
        lost = dict(readings(Message("user", (Text(f"u{n}"),)) for n in range(count)))
        return lambda: anyio.run(facts.learn, lost)

    learned(10)()
    assert work(learned(4_000)) < 6 * work(learned(1_000))


async def test_facts_do_not_starve_the_conversation():
    """However many facts there are, they take their share of what there is for them and the conversation; no more."""

    async def many(messages):
        return [f"{message.text} fact {number}" for message in messages for number in range(5)]

    made = talking("u1 a1 u2 a2 u3 a3 u4 a4 u5", many, tokens=90)
    for _ in range(5):
        out = await made.build()
    blocks = {block.id: block.tokens_after for block in out.report.blocks}
    assert blocks == {"sys": 10, "facts": 40, "h": 40}
    made = talking("u1 a1 u2 a2 u3 a3 u4 a4 u5", Facts(many, share=0.25), tokens=90)
    assert {block.id: block.tokens_after for block in (await made.build()).report.blocks}["facts"] == 20


@pytest.mark.parametrize("share", [0, -1, 1.5, True, "half"])
async def test_a_share_is_a_share(share):
    """A share that is none is refused."""
    with pytest.raises(ConfigError, match=r"^Facts\.share must be a share above 0 and up to 1, got "):
        Facts(Extractor(), share=share)
