"""What may become of reasoning that its provider has signed, as far as messages alone tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from agentctx.core.message import Message
from agentctx.core.parts import Thinking
from agentctx.core.protection import speaks

ThinkingPolicy = Literal["postpone", "drop", "drop_block"]
"""What to do where an edit would part reasoning of the open tool round from the prefix that it is bound to.

``"postpone"``: a session edits when the round has ended, and drops the reasoning only when the request would not fit
until then; without a session, like ``"drop"``. ``"drop"``: edit at once, and drop the reasoning behind the edit.
``"drop_block"``: edit at once, send the reasoning on, and have the provider drop what it cannot take; the view's
``options`` must be sent then. Reasoning of closed turns is dropped in any case: it may be, on every model.
"""

POLICIES: tuple[str, ...] = get_args(ThinkingPolicy)


def signed(message: Message) -> bool:
    """Whether there is signed reasoning in a message."""
    return any(isinstance(part, Thinking) and part.signed for part in message.parts)


def seals(message: Message) -> frozenset[Thinking]:
    """The signed reasoning of a message: what is never edited."""
    return frozenset(part for part in message.parts if isinstance(part, Thinking) and part.signed)


def open_round(messages: Sequence[Message]) -> int:
    """Where the open tool round begins: after the last message of the user that is not only tool results."""
    return next((index + 1 for index in range(len(messages) - 1, -1, -1) if speaks(messages[index])), 0)


def leading_thought(messages: Sequence[Message]) -> frozenset[int]:
    """The message whose reasoning the open tool round begins with, when the round's next step could not lead it.

    With manual thinking the first assistant message of the open round must begin with reasoning, later ones need
    none: a model that does not interleave thinks once, at the start.
    """
    steps = [index for index in range(open_round(messages), len(messages)) if messages[index].role == "assistant"]
    if not steps or not _leads(messages[steps[0]]) or all(_leads(messages[index]) for index in steps):
        return frozenset()
    return frozenset(steps[:1])


def _leads(message: Message) -> bool:
    return bool(message.parts) and isinstance(message.parts[0], Thinking)
