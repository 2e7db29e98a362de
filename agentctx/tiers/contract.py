"""What an eviction and a formatter must keep to; what breaks it is never sent."""

from __future__ import annotations

from collections.abc import Sequence

from agentctx.core.compare import match
from agentctx.core.message import Message
from agentctx.core.pairing import broken_pair
from agentctx.core.reasoning import seals
from agentctx.core.wellformed import flaw
from agentctx.errors import StageError
from agentctx.tiers.eviction import Allowance


def check_eviction(name: str, before: Sequence[Message], after: object, allowance: Allowance) -> tuple[Message, ...]:
    """What an eviction returned, checked against its contract.

    Args:
        name: What to call the eviction in errors.
        before: The block's messages.
        after: What it returned.
        allowance: What it was told.

    Raises:
        StageError: If it returned something else than messages or too much, changed their order, broke a pair,
            edited signed reasoning, or lost what must stay.
    """
    messages = _as_messages(name, after)
    tokens = allowance.count(messages)
    if tokens > allowance.tokens:
        raise StageError(name, f"returned {tokens:,} tokens, and {allowance.tokens:,} were allowed")
    found = match(before, messages)
    origins = [origin for origin in found.origins if origin is not None]
    if origins != sorted(origins):
        raise StageError(name, "changed the order of the messages")
    lost = allowance.keep - set(origins) | allowance.keep & {origin for origin, _ in found.edited}
    if lost:
        index = min(lost)
        raise StageError(name, f"lost or changed messages[{index}] ({before[index].role}), the user's newest words")
    _check_pairs(name, before, messages)
    _check_seals(name, before, messages)
    return messages


def check_formatter(
    name: str, before: Sequence[Message], after: object, keep: Sequence[Message]
) -> tuple[Message, ...]:
    """What a formatter returned, checked against its contract.

    Args:
        name: What to call the formatter in errors.
        before: The messages of all sections.
        after: What it returned.
        keep: Messages that must be among it as they were.

    Raises:
        StageError: If it returned something else than messages, broke a pair, edited signed reasoning, or lost what
            must stay.
    """
    messages = _as_messages(name, after)
    there = set(map(id, messages))
    for message in keep:
        if id(message) not in there and message not in messages:
            raise StageError(name, f"lost or changed the user's newest words ({message.text[:40]!r})")
    _check_pairs(name, before, messages)
    _check_seals(name, before, messages)
    return messages


def _as_messages(name: str, value: object) -> tuple[Message, ...]:
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise StageError(name, f"returned {type(value).__name__} instead of messages")
    for place, each in enumerate(value):
        wrong = flaw(each)
        if wrong is not None:
            raise StageError(name, f"messages[{place}]{wrong[0]} of what it returned is {wrong[1]}")
    return tuple(value)


def _check_pairs(name: str, before: Sequence[Message], after: Sequence[Message]) -> None:
    problem = broken_pair(after)
    if problem is not None and broken_pair(before) is None:
        raise StageError(name, f"broke a pair: {problem}")


def _check_seals(name: str, before: Sequence[Message], after: Sequence[Message]) -> None:
    known = {seal for message in before for seal in seals(message)}
    for place, message in enumerate(after):
        if not seals(message) <= known:
            raise StageError(name, f"edited or made signed reasoning in messages[{place}]; it is kept whole or dropped")
