"""What holds nothing but text is nothing for the garbage collector to look at."""

from __future__ import annotations

import gc

import pytest

from agentctx.core.changes import Change, Outcome
from agentctx.core.message import Message, Opaque, Text, ToolCall, ToolResult
from agentctx.core.untracked import untrack


@pytest.mark.parametrize(
    "value",
    [
        Text("words"),
        (Text("words"), ToolCall("1", "read", "{}")),
        (ToolResult("1", (Text("words"),)),),
        Message.read("user", (Text("words"),), {"role": "user", "content": "words"}),
        [Change(1, "tool", Outcome.DROPPED, "TrimRounds")],
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "read", "arguments": "{}"}}]},
    ],
)
def test_what_holds_nothing_but_text_need_not_be_looked_at(value):
    """It can be in no cycle; it stays as it was."""
    before = repr(value)
    assert untrack(value)
    assert not gc.is_tracked(value)
    assert repr(value) == before


@pytest.mark.parametrize("inner", [lambda: None, Opaque("x", {}), {1}])
def test_what_may_be_in_a_cycle_is_looked_at(inner):
    """An object of which nothing is known, and all that holds it."""
    value = [{"key": (inner,)}]
    assert not untrack(value)
    assert gc.is_tracked(value)
    assert gc.is_tracked(value[0])


def test_what_is_not_looked_at_goes_with_its_last_reference():
    """No collection is needed."""
    gone = []

    class Ends(str):
        __slots__ = ()

        def __del__(self):
            gone.append("gone")

    value = [{"text": Text(Ends("words"))}]
    assert untrack(value)
    del value
    assert gone == ["gone"]
