"""Facts that outlive the messages that said them."""

import pytest
from blocks import block, builder, chat, said

from agentctx import StageError
from agentctx.tiers.facts import Facts
from agentctx.tiers.merge_system import MergeSystem
from agentctx.tiers.tier import Tier
from agentctx.tiers.truncate_oldest import TruncateOldest

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
    out = await talking("u1 a1 u2 a2 u3", extractor, tokens=40).build()
    assert extractor.read == [["u1", "a1"], ["u2"], ["a2"]]
    assert said(out.messages) == ["s0", "s-u1", "s-u2", "u3"]


async def test_each_message_is_read_once():
    """A second build, a longer conversation, and a clone do not read again what was read."""
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
