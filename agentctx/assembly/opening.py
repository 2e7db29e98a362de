"""Who speaks first when the beginning of a conversation was left out."""

from __future__ import annotations

from collections.abc import Sequence

from agentctx.core.message import SYSTEM_ROLES, Message
from agentctx.core.parts import Text
from agentctx.core.protection import NOT_SHOWN
from agentctx.protocols import Call, Meter, WireFormat
from agentctx.strategies.repair_history import repair

_ANY_ORDER = ("openai-chat", "openai-responses")


def legal(messages: Sequence[Message], given: Sequence[Message], meter: Meter, wire: WireFormat) -> tuple[Message, ...]:
    """The messages as their format takes them.

    Where a conversation that the user began would now begin with the model, which some providers refuse (Bedrock:
    "A conversation must start with a user message"), the user says first that something was left out.

    Args:
        messages: The messages of the request.
        given: All messages that there were before anything was left out.
        meter: Counts them.
        wire: The provider's format.
    """
    whole = repair(messages, Call(meter, wire.name, wire=wire), wire)
    made = tuple(messages if whole is None else whole)
    place = _first(made)
    if wire.name.partition("/")[0] in _ANY_ORDER or place is None or made[place].role != "assistant":
        return made
    began = _first(given)
    if began is None or given[began].role == "assistant":
        return made
    return (*made[:place], Message("user", (Text(NOT_SHOWN),)), *made[place:])


def _first(messages: Sequence[Message]) -> int | None:
    """The place of the first message of the conversation."""
    return next((place for place, message in enumerate(messages) if message.role not in SYSTEM_ROLES), None)
