"""A build counts each message once, by whatever counter, and names a counter that fails."""

import anyio
import pytest
from blocks import block, builder, built, chat, left_by, said

from agentctx import Budget, ConfigError, ContextOverflow, Message, Text
from agentctx.builder import Block, ContextBuilder, Tier
from agentctx.strategies import Drop, DropTail, Strict, Summarize, TruncateOldest
from agentctx.tokens import FixedCounter

pytestmark = pytest.mark.anyio


class Costs:
    """Counts a message with the next of the given answers, the last one for ever; an error is raised."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), 0

    def count(self, text):
        """Never asked: whole messages are."""
        raise AssertionError(text)

    def count_message(self, message):
        """The next answer."""
        del message
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        if isinstance(answer, Exception):
            raise answer
        return answer


def values(*words):
    """Messages of the user."""
    return tuple(Message("user", (Text(word),)) for word in words)


async def shorter(messages, max_tokens):
    """A summarizer."""
    del messages, max_tokens
    return "in short"


EVICTIONS = [
    Strict(),
    Drop(),
    TruncateOldest(),
    TruncateOldest(keep_pairs=True, protect_roles=["user"]),
    DropTail(),
    Summarize(shorter),
]


@pytest.mark.parametrize("evict", EVICTIONS, ids=lambda evict: type(evict).__name__)
@pytest.mark.parametrize("works", [0, 2])
async def test_an_eviction_lets_a_counters_error_through(evict, works):
    """An eviction lets a counter's error through, which names the counter, at the first message and at a later one."""
    counter = Costs(*[10] * works, OSError("no vocabulary"))
    with pytest.raises(ConfigError, match="counter Costs raised OSError: no vocabulary"):
        await left_by(evict, values("u1", "u2", "u3"), 15, counter=counter)


async def test_a_counters_error_on_a_summary():
    """A counter's error on the summary comes through; the fallback is for the summarizer's own."""
    talk = block("h", chat("u1", "a1", "u2"), Summarize(shorter))
    made = ContextBuilder(Budget(25), counter=Costs(10, 10, 10, OSError("no vocabulary")), format="openai-chat").add(
        talk
    )
    with pytest.raises(ConfigError, match="counter Costs raised OSError: no vocabulary") as caught:
        await made.build()
    assert "block 'h'" in caught.value.__notes__[0]
    assert made.report.error.startswith("ConfigError: counter Costs raised OSError: no vocabulary")


async def test_a_counter_is_not_asked_twice():
    """A counter that would say something else the second time is not asked a second time."""
    counter = Costs(10, 10, 10, 100)
    left = await left_by(TruncateOldest(), values("u1", "u2", "u3"), 15, counter=counter)
    assert [message.text for message in left] == ["u3"]
    assert counter.asked == 3


@pytest.mark.parametrize(("count", "tokens", "left"), [(2, 10, 1), (3, 20, 2), (3, 30, 3), (100, 500, 50)])
@pytest.mark.parametrize("evict", [TruncateOldest(), DropTail()], ids=["head", "tail"])
async def test_each_message_is_counted_once(evict, count, tokens, left):
    """However much is dropped, each message is counted once."""
    counter = Costs(10)
    assert len(await left_by(evict, values(*map(str, range(count))), tokens, counter=counter)) == left
    assert counter.asked == count


@pytest.mark.parametrize("count", [1, 3])
async def test_what_is_too_large_is_counted_once(count):
    """Also when even the first of a block is too large, nothing is counted twice: once each, and the build fails."""
    counter = Costs(10)
    made = ContextBuilder(Budget(5), counter=counter, format="openai-chat")
    made.add(block("ranked", chat(*(f"u{n}" for n in range(count))), DropTail()))
    with pytest.raises(ContextOverflow, match=r"needs 10 tokens and 5 are available.*block 'ranked'"):
        await made.build()
    assert counter.asked == count


@pytest.mark.parametrize("answer", [None, "ten", -1, 2.5])
async def test_what_is_no_number_of_tokens(answer):
    """What is no number of tokens is refused, and the error names the counter."""
    made = ContextBuilder(Budget(50), counter=Costs(answer), format="openai-chat").add(block("a", chat("u1")))
    with pytest.raises(ConfigError, match=r"Costs: a message was counted as .*; expected a whole number of tokens"):
        await made.build()


class Floating:
    """Counts text in halves."""

    def count(self, text):
        """Half a token a character."""
        return len(text) / 2


async def test_what_is_no_number_of_tokens_of_a_text():
    """The same for a counter of text alone."""
    with pytest.raises(ConfigError, match=r"Floating: a text of 4 characters was counted as 2\.0"):
        await ContextBuilder(Budget(50), counter=Floating(), format="openai-chat").add(block("a", chat("u1"))).build()


class Indexed:
    """An integer that is not one of Python's own, as array libraries have them."""

    def __index__(self):
        """Ten."""
        return 10


async def test_integers_of_other_libraries():
    """Integers of other libraries are integers."""
    out = (
        await ContextBuilder(Budget(25), counter=Costs(Indexed()), format="openai-chat")
        .add(block("a", chat("u1")))
        .build()
    )
    assert out.report.used_tokens == 10


@pytest.mark.parametrize("counter", [7, object()])
def test_something_that_cannot_count(counter):
    """Something that cannot count is refused at once."""
    with pytest.raises(ConfigError, match="counter must be a function of a text, or an object with count, got "):
        ContextBuilder(Budget(100), counter=counter)


@pytest.mark.both_loops
async def test_a_deadline_while_a_summarizer_waits():
    """A deadline that passes while a summarizer waits ends the build: no fallback, and a report of how far it came."""

    async def forever(messages, max_tokens):
        del messages, max_tokens
        scope.deadline = anyio.current_time()
        await anyio.sleep_forever()

    made = builder(25, block("a", chat("s1")), block("h", chat("u1", "a1", "u2"), Summarize(forever)))
    with anyio.CancelScope() as scope:
        await made.build()
    assert scope.cancelled_caught
    assert "Cancelled" in made.report.error
    assert made.report.evictions == {"h": "rejected"}
    assert made.report.tokens_per_block == {"a": 10}
    made.replace("h", chat("u3"))
    assert said((await made.build()).messages) == ["s1", "u3"]


async def test_a_fixed_cost_has_no_overhead():
    """With a fixed cost a message nothing else costs anything, so that sizes can be worked out in the head."""
    out = await built(30, block("a", chat("u1", "u2", "u3")))
    assert (out.report.tokens, out.report.fixed_tokens, FixedCounter(10).count("")) == (30, 0, 0)


async def test_without_a_counter_the_models_encoding_counts():
    """Without a counter the model's own encoding counts."""
    out = await ContextBuilder(Budget(100)).add(Block("sys", chat("s1"), Tier.SYSTEM)).build()
    assert 0 < out.report.used_tokens < 10


class Broken:
    """A counter that breaks at its n-th message."""

    def __init__(self, breaks_at):
        self.left = breaks_at

    def count(self, text):
        """The length."""
        return len(text)

    def count_message(self, message):
        """Ten tokens, while it works."""
        del message
        self.left -= 1
        if self.left <= 0:
            what = "the counter is broken"
            raise ArithmeticError(what)
        return 10


@pytest.mark.parametrize("breaks_at", [1, 3])
async def test_a_counters_error_is_named_as_the_counters(breaks_at):
    """A counter's error is named as the counter's, with its words, in the report, too."""
    blocks = block("a", chat("u1", "u2", "u3"), TruncateOldest()), block("b", chat("s4"))
    made = ContextBuilder(Budget(25), counter=Broken(breaks_at), format="openai-chat").add(*blocks)
    with pytest.raises(ConfigError, match="counter Broken raised ArithmeticError: the counter is broken"):
        await made.build()
    assert made.report.error.startswith("ConfigError: counter Broken raised ArithmeticError: the counter is broken")
