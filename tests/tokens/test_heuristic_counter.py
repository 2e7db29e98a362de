import pytest
import regex
from hypothesis import given, strategies as st
from scripts_of_the_world import PASSAGES

from agentctx import ConfigError, Media, Message, Text, ToolCall, ToolResult
from agentctx.tokens import HeuristicCounter
from agentctx.tokens.counting import MessageMeter, remembering
from agentctx.tokens.tiktoken import TiktokenCounter

COUNTER = HeuristicCounter()
TEXTS = st.text(max_size=200) | st.text(st.sampled_from("aA 0中カ한กअعж😀🇪🇺\u0301"), max_size=200)


@pytest.mark.parametrize(("text", "expected"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("x" * 4_000, 1_000)])
def test_four_characters_make_a_token(text, expected):
    """Plain text has a token for each four characters, rounded up."""
    assert COUNTER.count(text) == expected


def test_the_rate_can_be_chosen():
    """With two characters a token, plain text has twice as many tokens."""
    assert HeuristicCounter(chars_per_token=2).count("x" * 100) == 50


@pytest.mark.parametrize("script", PASSAGES)
def test_every_script_is_right_within_a_factor_of_two(script):
    """The estimate of natural text of any script is between half and twice what o200k_base counts."""
    exact = TiktokenCounter().count(PASSAGES[script])
    assert exact / 2 <= COUNTER.count(PASSAGES[script]) <= exact * 2


@given(text=TEXTS, tokens=st.integers(-1, 80))
def test_ends_fit_and_are_ends(text, tokens):
    """Head and tail are ends of the text within the limit, in whole grapheme clusters, and all of what fits."""
    head, tail = COUNTER.head(text, tokens), COUNTER.tail(text, tokens)
    ends = {0, *(found.end() for found in regex.finditer(r"\X", text))}
    assert text.startswith(head)
    assert text.endswith(tail)
    assert max(COUNTER.count(head), COUNTER.count(tail)) <= max(tokens, 0)
    assert {len(head), len(text) - len(tail)} <= ends
    assert (COUNTER.count(text) <= tokens) <= (head == tail == text)


@given(text=TEXTS, tokens=st.integers(-1, 80))
def test_exceeding_is_what_the_count_says(text, tokens):
    """Whether a text exceeds a limit is what its count says."""
    assert COUNTER.exceeds(text, tokens) == (COUNTER.count(text) > tokens)


@pytest.mark.parametrize("character", ["a", "中", "😀"])
def test_cutting_looks_only_at_what_is_kept(character):
    """To cut ten tokens of a million characters, few characters are counted."""
    looked = []

    class Watched(HeuristicCounter):
        def count(self, text, /):
            looked.append(len(text))
            return super().count(text)

    text, counter = character * 1_000_000, Watched()
    kept = [counter.head(text, 10), counter.tail(text, 10)]
    assert 0 < sum(looked) < 10_000
    assert all(8 <= COUNTER.count(each) <= 10 for each in kept)


@pytest.mark.parametrize("rate", [0, -4])
def test_senseless_rates_are_refused(rate):
    """A rate that is not positive is refused when the counter is built."""
    with pytest.raises(ConfigError, match="chars_per_token"):
        HeuristicCounter(chars_per_token=rate)


def call(name):
    return Message("assistant", (ToolCall("c1", name, '{"path": "a.py"}'),))


def test_media_and_calls_cost_what_is_said():
    """A flat price for media and for calls takes the place of the formulas, in messages and in results."""
    picture = Media("image", "image/png", "aGk=")
    plain, priced = MessageMeter(HeuristicCounter()), MessageMeter(HeuristicCounter(media_tokens=85, call_tokens=20))
    shown = Message("user", (Text("look"), picture)), Message("tool", (ToolResult("c1", (picture,)),))
    around = [plain.message(each) - plain.parts((picture,)) for each in shown]
    assert [priced.message(each) for each in shown] == [size + 85 for size in around]
    assert priced.parts(call("read").parts) == 20


def test_a_call_costs_what_a_function_says():
    """The price of a call may be asked of a function; a counter of one's own says what a part costs as well."""

    class Own:
        def count(self, text, /):
            return len(text)

        def count_part(self, part, /):
            return 7 if isinstance(part, ToolCall) else None

    meter = MessageMeter(HeuristicCounter(call_tokens=lambda part: len(part.name)))
    assert meter.parts(call("read").parts) == 4
    assert MessageMeter(remembering(Own())).parts((*call("read").parts, Text("abc"))) == 10


@pytest.mark.parametrize("name", ["media_tokens", "call_tokens"])
def test_a_price_is_not_negative(name):
    """A negative price is refused, and named."""
    with pytest.raises(
        ConfigError, match=rf"^HeuristicCounter\.{name} must be a whole number of at least 0, .*or None, got -1$"
    ):
        HeuristicCounter(**{name: -1})
