"""What may become of signed reasoning, as far as messages tell."""

import pytest

from agentctx import Message, Text, Thinking, ToolCall, ToolResult
from agentctx.unit import leading_thought, open_round, signed, signed_thinking

SIGNED, UNSIGNED, HIDDEN = Thinking("hm", "sig"), Thinking("hm"), Thinking("", encrypted="bytes")
TASK, TOLD = Message("user", (Text("do it"),)), Message("user", (ToolResult("a", ()),))
ASKED = ToolCall("a", "read", "{}")


def turn(*parts):
    return Message("assistant", parts)


def test_seals_are_what_the_provider_checks():
    """Signed and encrypted reasoning, and nothing else."""
    message = turn(UNSIGNED, SIGNED, Text("so"), HIDDEN)
    assert {SIGNED, HIDDEN} == signed_thinking(message)
    assert (True, False) == (signed(message), signed(turn(UNSIGNED, Text("so"))))


@pytest.mark.parametrize(
    ("messages", "place"),
    [([TASK], 1), ([TASK, turn(ASKED), TOLD], 1), ([turn(ASKED), TASK, TASK, turn()], 3), ([turn(ASKED), TOLD], 0)],
)
def test_the_open_round_begins_after_the_users_words(messages, place):
    """Tool results do not end a round."""
    assert place == open_round(messages)


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ([turn(SIGNED, ASKED), TOLD, turn(ASKED), TOLD], {1}),
        ([turn(SIGNED, ASKED), TOLD, turn(SIGNED, ASKED), TOLD], set()),
        ([turn(ASKED), TOLD, turn(SIGNED, ASKED)], set()),
        ([turn(ASKED, SIGNED), TOLD, turn(ASKED)], set()),
        ([turn(), TOLD, turn(ASKED)], set()),
        ([], set()),
    ],
)
def test_the_thought_that_leads_a_round_is_needed_where_no_later_step_has_one(steps, found):
    """The first step of the open round, when it begins with reasoning and a later one does not."""
    assert found == leading_thought([turn(SIGNED), TASK, *steps][1:])
