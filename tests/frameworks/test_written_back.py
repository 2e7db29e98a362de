"""A view becomes the framework's messages again: each call is known by its place."""

import pytest

from agentctx import FitContextWindow, Pipeline
from agentctx.formats.openai_chat import FRAMEWORK_CHAT
from agentctx.frameworks.calls import ModelCalls, Piece, Request

pytestmark = pytest.mark.anyio


def call(name, arguments="{}"):
    return {"id": name, "type": "function", "function": {"name": "read", "arguments": arguments}}


def calling(*calls):
    return {"role": "assistant", "content": None, "tool_calls": [*calls]}


@pytest.mark.parametrize(
    ("before", "left", "places"),
    [
        ([call("a"), call("b")], [call("x"), call("y")], [0, 1]),  # spelled otherwise
        ([call("a", "1"), call("a", "2")], [call("a", "1"), call("a_2", "2")], [0, 1]),  # numbered
        ([call("a", "1"), call("b", "2"), call("c", "3")], [call("a", "1"), call("c", "3")], [0, 2]),
        ([call("a", "1"), call("b", "2"), call("c", "3")], [call("x", "2")], [1]),
        ([call("a", "1"), call("a", "2")], [call("a", "1")], [0]),
        ([call("a", "1")], [call("a", "1"), call("new", "2")], [0, 1]),
        ([call("a", "1"), call("b", "2")], [call("new", "3")], [2]),
        ([], [call("new")], [0]),
        ([call("a")], [], []),
    ],
)
def test_a_call_is_known_by_its_place(before, left, places):
    """All that are left are known by their order, some by what they say; new ones come after those that were there."""
    calls = Piece(0, calling(*left), calling(*before)).calls
    assert places == list(calls)
    assert left == list(calls.values())


async def test_an_unchanged_message_is_the_framework_s_own_object():
    """It is written anew where its pieces come in another order, and where one of them is missing."""
    written = []

    def write(was, pieces):
        written.append((was, [piece.place for piece in pieces]))
        return was

    results = [{"role": "tool", "tool_call_id": name, "content": "x"} for name in ("b", "a")]
    pieces = [[{"role": "user", "content": "Go."}], [calling(call("a"))], [calling(call("b"))], results]
    calls = ModelCalls("Hook", Pipeline(FitContextWindow(), budget=10_000), None)
    sent = await calls.begin(Request("thread", FRAMEWORK_CHAT, ["task", "one", "two", "both"], pieces, write))
    assert ["task", "one", "both", "two", "both"] == sent.messages
    assert [("both", [1]), ("both", [0])] == written
