"""What texts, names, calls and unknown blocks cost, by each counter."""

import json

import pytest

from agentctx import ConfigError, InvalidInput, Message, Text, ToolCall, count
from agentctx.testing import assistant, call, history, system, tool, transcript, user
from agentctx.tokens import FixedCounter, HeuristicCounter, TiktokenCounter
from agentctx.tokens.counting import MessageMeter


class Len:
    """Counts characters."""

    def count(self, text):
        """The length."""
        return len(text)


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


@pytest.mark.parametrize(("ratio", "text", "tokens"), [(4, "x" * 16, 4), (2, "abcd", 2), (4, "", 0), (4, "x" * 17, 5)])
def test_so_many_characters_a_token(ratio, text, tokens):
    """So many characters a token, rounded up; nothing is nothing."""
    assert HeuristicCounter(ratio).count(text) == tokens


def test_a_message_costs_its_text_and_its_frame():
    """A message costs its text and what its format puts around it; a call its name and its arguments.

    Both are what the provider was measured to take.
    """
    meter = MessageMeter(Len())
    hello = meter.message(Message("user", (Text("hello"),)))
    empty = meter.message(Message("user", ()))
    assert hello - empty == 5
    assert empty > len("user")
    arguments = json.dumps({"n": 1})
    asked = meter.message(Message("user", (ToolCall("c1", "look", arguments),)))
    framed = meter.message(Message("user", (ToolCall("c1", "", ""),)))
    assert asked - framed == len("look") + len(arguments)


def test_an_image_costs_what_its_provider_says():
    """An image costs what its provider says for its size and detail."""
    image = {"type": "image_url", "image_url": {"url": "https://example.com/cat.png", "detail": "low"}}
    text = {"type": "text", "text": "see"}
    with_image = count([{"role": "user", "content": [text, image]}], format="openai-chat")
    assert with_image - count([{"role": "user", "content": [text]}], format="openai-chat") == 85


def test_a_request_costs_what_its_messages_cost():
    """A request costs what its messages cost, and the provider's few tokens for the reply."""
    messages = transcript("openai-chat", system("be brief"), user("the task"))
    meter = MessageMeter(TiktokenCounter())
    one = count(messages[:1], format="openai-chat")
    two = count(messages[:2], format="openai-chat")
    assert two - one == meter.message(Message("user", (Text("the task"),)))


def test_arguments_that_are_no_json():
    """Arguments that cannot be written as JSON are an error that names their place."""
    asked = {"type": "tool_use", "id": "c1", "name": "look", "input": {"when": {1, 2}}}
    with pytest.raises(InvalidInput, match=r"messages\[1\]\.content\[0\]\.input: cannot be written as JSON"):
        count([{"role": "user", "content": "x"}, {"role": "assistant", "content": [asked]}], format="anthropic")


def test_arguments_in_other_scripts():
    """Arguments are counted as they are sent: ten Cyrillic letters are not sixty characters of escapes."""
    spelled = call("c1", "look", json.dumps({"город": "Москва-Юг"}, ensure_ascii=False))
    escaped = call("c1", "look", json.dumps({"город": "Москва-Юг"}))
    plain, longer = (count(transcript("openai-chat", user("x"), assistant(each))) for each in (spelled, escaped))
    assert plain + 20 < longer


def test_tool_schemas_are_counted():
    """Tool schemas are counted."""
    made = history("openai-chat", user("x"), tools=[tool("look", "Looks at a thing.", n={"type": "integer"})])
    assert count(made.messages, tools=made.tools) > count(made.messages, format="openai-chat") + 10


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("", 0, 0),
        ("The quick brown fox jumps over the lazy dog and runs away.", 10, 20),
        ("func main() { var x := map[string]int{}; import fmt; return x -> y => z; def f(): class A: pass }", 20, 40),
    ],
)
def test_estimates_are_near(text, least, most):
    """Estimates are near: the heuristic counter's, where no vocabulary is wanted. Stages count exactly."""
    assert least <= HeuristicCounter().count(text) <= most


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("abc", 1), ("abcd", 1), ("a" * 12, 3), ("a" * 100, 25)])
def test_an_estimate_without_a_vocabulary(text, tokens):
    """The heuristic counter is near 4 bytes a token; files are counted by the counter in force."""
    assert abs(HeuristicCounter().count(text) - tokens) <= max(1, tokens // 4)
