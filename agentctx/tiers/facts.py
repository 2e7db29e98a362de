"""What is worth knowing when the messages that said it are gone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from attrs import define, field

from agentctx.core.message import Message
from agentctx.core.parts import Text
from agentctx.errors import StageError
from agentctx.tiers.block import Block
from agentctx.tiers.tier import Tier
from agentctx.tiers.truncate_oldest import TruncateOldest

FACTS = "facts"
"""The name of the block that keeps the facts."""


class FactExtractor(Protocol):
    """Takes facts from messages. A plain async function qualifies."""

    async def __call__(self, messages: Sequence[Message], /) -> Sequence[str]:
        """The facts that ``messages`` hold, each in a few words; empty when there are none."""
        ...


@define
class Facts:
    """The facts of one conversation, in the order in which they were learned, each once.

    Args:
        extractor: Takes facts from messages.
        max_tokens: The most tokens that they may have together; the oldest go first. None means no cap.
        on: The errors of the extractor that cost nothing but its facts, and are told in the report.
        known: The facts.
        read: The messages that were read already, by identity; each is read once.
    """

    extractor: FactExtractor
    max_tokens: int | None = None
    on: tuple[type[Exception], ...] = (Exception,)
    known: list[str] = field(factory=list)
    read: dict[int, object] = field(factory=dict, repr=False)

    def unread(self, messages: Iterable[Message]) -> list[Message]:
        """Those of the messages that were not read yet."""
        return [message for message in messages if _key(message) not in self.read]

    async def learn(self, messages: Sequence[Message]) -> bool:
        """Take the facts from messages; whether one of them is new.

        Raises:
            StageError: If the extractor returns something else than texts.
        """
        found = _as_texts(await self.extractor(messages))
        new = [fact for fact in dict.fromkeys(map(str.strip, found)) if fact and fact not in self.known]
        self.known.extend(new)
        for message in messages:
            self.read[_key(message)] = message if message.source is None else message.source
        return bool(new)

    def block(self) -> Block:
        """The facts as a block of the tier ``CORE``, a system message each."""
        messages = [Message("system", (Text(fact),)) for fact in self.known]
        return Block(FACTS, messages, Tier.CORE, TruncateOldest(), self.max_tokens)

    def copied(self) -> Facts:
        """Facts that know the same, and learn apart from these."""
        return Facts(self.extractor, self.max_tokens, self.on, list(self.known), dict(self.read))


def _as_texts(found: object) -> Sequence[str]:
    if not isinstance(found, Sequence) or isinstance(found, str) or not all(isinstance(fact, str) for fact in found):
        raise StageError("FactExtractor", f"returned {found!r:.80} instead of a list of texts")
    return found


def _key(message: Message) -> int:
    return id(message) if message.source is None else id(message.source)
