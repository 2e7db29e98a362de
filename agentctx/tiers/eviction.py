"""What becomes of a block that is too large: the shape of an eviction, and what it is told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from attrs import field, frozen

from agentctx.core.message import Message
from agentctx.errors import ContextOverflow, StageError
from agentctx.protocols import Meter

CUSTOM = "evicted"
"""What a report says of a block that an eviction without a ``label`` has cut."""


@frozen
class Allowance:
    """What an eviction is told about the room that its block has.

    Args:
        tokens: The most tokens that the block may have.
        meter: Counts messages.
        keep: Indexes of the messages that must not go whatever happens: the user's newest words.
        remarks: What is said about the block as a whole; it is put into the report.
        labels: What the eviction says that it did this time, when that is not what its ``label`` says.
    """

    tokens: int
    meter: Meter
    keep: frozenset[int] = frozenset()
    remarks: list[str] = field(factory=list, eq=False, repr=False)
    labels: list[str] = field(factory=list, eq=False, repr=False)

    def count(self, messages: Iterable[Message]) -> int:
        """Tokens of these messages; each is counted once and remembers it."""
        return sum(map(self.meter.message, messages))

    def remark(self, text: str) -> None:
        """Say something about the block as a whole."""
        self.remarks.append(text)

    def relabel(self, label: str) -> None:
        """Say what was done to the block, where that is something else than usual."""
        self.labels.append(label)

    def overflow(self, tokens: int) -> ContextOverflow:
        """The error that says that the block cannot have fewer than ``tokens`` tokens."""
        return ContextOverflow(tokens, self.tokens)


class Eviction(Protocol):
    """Makes a block fit. A plain async function qualifies.

    It is asked only when the block is too large, and its answer is held to this contract: messages, at most
    ``allowance.tokens`` tokens together, in the order in which they came, no call without its result and no result
    without its call, signed reasoning whole or not at all, and every message of ``allowance.keep`` as it was. What
    breaks it is never sent.

    Three attributes may be given on the class; none has to be:

    * ``label``: what the report says of a block that was cut; ``"evicted"`` without it.
    * ``gradual``: whether more tokens give more messages, so that it is worth asking again when room was left over.
    * ``whole``: whether it can only keep everything or nothing beside ``keep``.

    And one method, ``least(messages, allowance) -> int``: the fewest tokens that the block can come down to, which
    are reserved for it before others get more than that. Without it: the tokens of ``keep``.
    """

    async def __call__(self, messages: Sequence[Message], allowance: Allowance, /) -> Sequence[Message]:
        """The messages that the model shall see instead of these.

        Raises:
            ContextOverflow: If what must stay is larger than the allowance.
        """
        ...


def label_of(eviction: Eviction) -> str:
    """What a report says of a block that this eviction has cut."""
    return str(getattr(eviction, "label", CUSTOM))


def name_of(eviction: object) -> str:
    """What an eviction or a formatter is called in reports and errors."""
    name = getattr(eviction, "__name__", None)
    return name if isinstance(name, str) else type(eviction).__name__


def least_of(eviction: Eviction, messages: Sequence[Message], allowance: Allowance) -> int:
    """The fewest tokens that a block can come down to: at most all of it.

    Raises:
        StageError: If the eviction says something else than a number of tokens.
    """
    least = getattr(eviction, "least", None)
    if not callable(least):
        return allowance.count(messages[index] for index in sorted(allowance.keep))
    tokens = least(messages, allowance)
    if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 0:
        raise StageError(name_of(eviction), f"least: expected a number of tokens, got {tokens!r}")
    return min(tokens, allowance.count(messages))
