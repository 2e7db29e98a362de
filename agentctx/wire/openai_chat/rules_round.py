"""Rules of Chat Completions about calls and their results."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field

from agentctx.core.violation import Violation
from agentctx.wire.openai_chat.view import ChatRequest, calls, error

_UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
    "The following tool_call_ids did not have response messages: "
)
_ORPHAN = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
_NO_ID = "Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'."


@define
class _Round:
    """An assistant message with calls, and what has answered them.

    Args:
        index: The assistant message's index.
        answers: The index of the answer to each call, by id; None while there is none.
        nameless: How many tool messages did not say which call they answer.
    """

    index: int
    answers: dict[str, int | None] = field(factory=dict)
    nameless: int = 0

    def close(self) -> Iterator[Violation]:
        """C2: each call is answered. An answer without an id may belong to any of them."""
        left = [identity for identity, answer in self.answers.items() if answer is None]
        if len(left) > self.nameless:
            yield error("call_unanswered", self.index, "messages", _UNANSWERED + ", ".join(left))


def rounds(request: ChatRequest) -> Iterator[Violation]:
    """C2 to C5: results follow their calls directly, each with the id of its call, one for each call."""
    current = _Round(-1)
    expected = 0
    for index, message in request.messages:
        broken = index != expected  # what stood between is no object
        expected = index + 1
        if message.get("role") == "tool" and not broken:
            yield from _answer(current, index, message.get("tool_call_id"))
            continue
        yield from current.close()
        current = _Round(index)
        if message.get("role") == "tool":
            yield from _answer(current, index, message.get("tool_call_id"))
        for _, call in calls(message):
            if isinstance(identity := call.get("id"), str):
                current.answers[identity] = None
    yield from current.close()


def _answer(current: _Round, index: int, identity: object) -> Iterator[Violation]:
    if not isinstance(identity, str):
        current.nameless += 1
        yield error("tool_call_id_missing", index, f"messages.[{index}].tool_call_id", _NO_ID)
    elif identity not in current.answers:
        yield error("tool_orphan", index, f"messages.[{index}].role", _ORPHAN)
    elif (first := current.answers[identity]) is not None:
        places = f"in messages[{first}] and messages[{index}]."
        text = f"Invalid parameter: Duplicate value for 'tool_call_id' of '{identity}', {places}"
        yield error("tool_dup", index, f"messages.[{index}].tool_call_id", text)
    else:
        current.answers[identity] = index
