"""What texts, names, calls and unknown blocks cost, by each counter."""

import pytest

from agentctx import ConfigError, Message, Text, ToolCall, count
from agentctx.tokens import FixedCounter, HeuristicCounter
from agentctx.tokens.meter import MessageMeter


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("abcd", 1), ("abcdefgh", 2), ("hello", 2), ("x", 1), ("привет", 2), ("😀", 2), ("Hi 世界", 3)],
)
def test_four_characters_of_latin_script_are_a_token(text, tokens):
    """Four characters of Latin script are a token; an emoji and two Han characters are more, as to real tokenizers."""
    assert HeuristicCounter(4).count(text) == tokens


def test_the_rate_is_the_callers():
    """The rate is the caller's."""
    assert HeuristicCounter(1).count("hello") == 5


@pytest.mark.parametrize("rate", [0, -1])
def test_a_rate_that_is_not_positive(rate):
    """A rate that is not positive is refused."""
    with pytest.raises(ConfigError, match="chars_per_token"):
        HeuristicCounter(rate)


def test_a_participants_name_costs_tokens():
    """A participant's name costs tokens."""
    plain = {"role": "user", "content": "hi"}
    assert count([{**plain, "name": "ada"}], format="openai-chat") > count([plain], format="openai-chat")


def test_a_call_costs_its_name_and_its_arguments():
    """A tool call costs its name and its arguments, counted."""
    meter = MessageMeter(FixedWords())
    none, call = (
        Message("assistant", (Text("ab"),)),
        Message("assistant", (Text("ab"), ToolCall("c1", "look", "a b c"))),
    )
    assert meter.message(call) - meter.message(none) == 7 + 1 + 3


class FixedWords:
    """Counts words."""

    def count(self, text):
        """One token a word."""
        return len(text.split())


def test_ten_tokens_a_message():
    """Ten tokens a message; none for none; a name costs nothing."""
    meter = MessageMeter(FixedCounter(10))
    named = Message("user", (Text("hi"),), source={"role": "user", "content": "hi", "name": "ada"})
    assert [meter.message(Message("user", ())), meter.message(named), sum(map(meter.message, ()))] == [10, 10, 0]


@pytest.mark.parametrize("counter", [FixedCounter(10), HeuristicCounter(4)])
def test_counts_of_messages_add_up(counter):
    """The counts of single messages add up to the count of all."""
    messages = [{"role": "user", "content": f"number {number} " * number} for number in range(5)]
    one_by_one = [count([message], format="openai-chat", counter=counter) for message in messages]
    opening = count([messages[0]], format="openai-chat", counter=counter) * 2 - count(
        [messages[0], messages[0]], format="openai-chat", counter=counter
    )
    whole = count(messages, format="openai-chat", counter=counter)
    assert whole == sum(one_by_one) - opening * (len(messages) - 1)


@pytest.mark.parametrize("text", ["世界" * 200, "8f3a9c" * 100, "SGVsbG8gd29ybGQh" * 50])
def test_scripts_and_digests_are_counted_by_a_tokenizer(text):
    """Han, hexadecimal and base64 are counted by a real tokenizer: far more than characters / 4."""
    assert count([{"role": "user", "content": text}], format="openai-chat") > 1.3 * len(text) / 4


def test_nothing_is_free():
    """Roles, ids and framing cost tokens, and a block that is not known costs what it holds."""
    empty = {"role": "assistant", "content": ""}
    odd = {"role": "user", "content": [{"type": "mystery", "data": "word " * 500}]}
    assert count([empty], format="openai-chat") > 0
    assert count([odd], format="openai-chat") > 500
