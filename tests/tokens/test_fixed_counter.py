import pytest

from agentctx.core.message import Context, Message, Tool
from agentctx.core.parts import Text, ToolCall, ToolResult
from agentctx.errors import ConfigError
from agentctx.tokens.fixed import FixedCounter
from agentctx.tokens.meter import MessageMeter

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
    with pytest.raises(ConfigError, match="tokens: expected a positive number, got 0"):
        FixedCounter(0)
