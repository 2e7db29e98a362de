"""Short words to write blocks with: messages that cost ten tokens each, whatever they say."""

from agentctx import Budget
from agentctx.builder import Block, ContextBuilder, Tier
from agentctx.builder.blocks import SharedRoom, Slot, assemble, least_of
from agentctx.protocols import Call
from agentctx.testing import assistant, call, result, transcript
from agentctx.tokens import FixedCounter
from agentctx.tokens.counting import MessageMeter


def chat(*words):
    """Messages whose role is told by their first letter: s(ystem), d(eveloper), u(ser), a(ssistant)."""
    roles = {"s": "system", "d": "developer", "u": "user", "a": "assistant"}
    return [{"role": roles[word[0]], "content": word} for word in words]


def said(messages):
    """What messages say."""
    return [message["content"] for message in messages]


def tool_round(name, *ids):
    """An assistant's turn with a call for each id, and the results."""
    calls = [call(each, "look") for each in ids]
    return transcript("openai-chat", assistant(name, *calls), *(result(each, f"saw {each}") for each in ids))


def block(name, messages, evict=None, tier=Tier.CORE, **options):
    """A block of the tier ``CORE``, where no message is the user's newest word."""
    return Block(name, messages, tier, **({} if evict is None else {"evict": evict}), **options)


def builder(tokens, *blocks, **options):
    """A builder of blocks of Chat messages that cost ten tokens each."""
    return ContextBuilder(Budget(tokens), counter=FixedCounter(10), format="openai-chat", **options).add(*blocks)


async def built(tokens, *blocks, **options):
    """What is built of these blocks."""
    return await builder(tokens, *blocks, **options).build()


async def reduced(stage, messages, tokens, keep=None, counter=None):
    """A block of these values that a stage has brought down to so many tokens."""
    call = Call(MessageMeter(counter or FixedCounter(10)))
    slot = Slot(Block("b", messages, evict=stage), "block 'b'", call, sum(map(call.count, messages)), keep)
    slot.least = least_of(slot)
    await assemble([slot], SharedRoom(tokens, 0, {}))
    return slot


async def left_by(stage, messages, tokens, keep=None, counter=None):
    """What a stage leaves of these values in so many tokens."""
    return (await reduced(stage, messages, tokens, keep, counter)).out.messages
