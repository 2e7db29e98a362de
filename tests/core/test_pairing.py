"""Whether calls and results are whole pairs."""

import pytest

from agentctx.core.message import Message
from agentctx.core.pairing import broken_pair
from agentctx.core.parts import Text, ToolCall, ToolResult

ASKED = Message("assistant", (ToolCall("a", "read", "{}"),))
TOLD = Message("tool", (ToolResult("a", (Text("done"),)),))
BETWEEN = Message("developer", (Text("mind the gap"),))


def test_a_result_may_stand_apart_where_the_format_has_it_so():
    """Words between a call and its result break the pair, but for formats whose results may stand anywhere after."""
    apart = [ASKED, BETWEEN, TOLD]
    assert broken_pair(apart) is not None
    assert broken_pair(apart, results_anywhere=True) is None


@pytest.mark.parametrize("messages", [[TOLD, ASKED], [ASKED, BETWEEN], [ASKED, TOLD, TOLD], [ASKED, ASKED, TOLD]])
def test_anywhere_is_still_once_and_after_the_call(messages):
    """A result before its call, twice, or not at all is a broken pair in every format."""
    assert broken_pair(messages) is not None
    assert broken_pair(messages, results_anywhere=True) is not None
