import pytest

from agentctx import ConfigError, Context, Media, Message, Text, Tool, ToolCall, ToolResult
from agentctx.tokens import FixedCounter
from agentctx.tokens.counting import MessageMeter

METER = MessageMeter(FixedCounter(10))
MESSAGES = (
    Message("user", (Text("a long story " * 100), Text("and more"))),
    Message("assistant", (ToolCall("c1", "read", '{"path": "x"}'),)),
    Message("tool", (ToolResult("c1", (Text("contents " * 1_000),)),)),
)


@pytest.mark.parametrize("message", MESSAGES)
def test_every_message_costs_the_same(message):
    """Whatever a message holds, it costs the fixed number of tokens."""
    assert METER.message(message) == 10


def test_messages_are_all_that_costs():
    """A request of three messages costs three times the fixed number and nothing else."""
    assert METER.size(Context(MESSAGES)) == 30


def test_system_and_tools_cost_once_each():
    """A system prompt costs the fixed number, and so do the tools together."""
    system, tools = Message("system", (Text("Be kind."),)), (Tool("a"), Tool("b"))
    assert METER.fixed(Context(MESSAGES, system)) == 10
    assert METER.fixed(Context(MESSAGES, system, tools)) == 20


def test_every_text_costs_the_same():
    """Each part with text costs the fixed number; the empty text nothing."""
    assert METER.parts((Text("a"), Text(""), Text("b" * 1_000))) == 20


def test_texts_are_kept_whole_or_not_at_all():
    """A text fits whole or nothing of it does, since no shorter text costs less."""
    counter = FixedCounter(10)
    assert (counter.head("abc", 10), counter.tail("abc", 9), counter.exceeds("abc", 9)) == ("abc", "", True)


def test_nothing_for_free():
    """A counter for which everything is free is refused."""
    with pytest.raises(ConfigError, match=r"^FixedCounter\.tokens must be a whole number of at least 1, got 0$"):
        FixedCounter(0)


PICTURE = Media("image", "image/png", "aGk=")
PRICED = [
    (Message("user", (Text("a long story " * 100), Text("and more"))), 10 + 2 * 3),
    (Message("assistant", (Text("so"), ToolCall("c1", "read", "{}"), ToolCall("c2", "read", "{}"))), 10 + 3 + 2 * 5),
    (Message("tool", (ToolResult("c1", (Text("contents"), PICTURE)),)), 10 + 3 + 85),
    (Message("user", (PICTURE,)), 10 + 85),
    (Message("user", ()), 10),
]


@pytest.mark.parametrize(("message", "tokens"), PRICED)
def test_parts_calls_and_media_add_what_is_said(message, tokens):
    """A message costs the fixed number and what was said for each part, call and medium in it."""
    assert MessageMeter(FixedCounter(10, per_part=3, per_call=5, per_media=85)).message(message) == tokens


def test_media_cost_what_parts_cost_unless_said():
    """Without a price for media each adds what any part adds."""
    assert FixedCounter(10, per_part=3).count_message(PRICED[2][0]) == 16


@pytest.mark.parametrize("name", ["per_part", "per_call", "per_media"])
@pytest.mark.parametrize("wrong", [-1, 0.5, True, "3"])
def test_what_is_added_is_a_number_of_tokens(name, wrong):
    """A price that is no number of tokens is refused, and named."""
    with pytest.raises(
        ConfigError, match=rf"^FixedCounter\.{name} must be a whole number of at least 0(, or None)?, got {wrong!r}$"
    ):
        FixedCounter(10, **{name: wrong})
