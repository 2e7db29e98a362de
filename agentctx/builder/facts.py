"""What is worth knowing when the messages that said it are gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from attrs import define, field

from agentctx.builder.blocks import Block
from agentctx.core.message import Message, Native, Text
from agentctx.core.tier import Tier
from agentctx.engine.options import check_tokens
from agentctx.engine.run_stages import Noting, answered
from agentctx.errors import ConfigError, StageError
from agentctx.strategies.drop_units import TruncateOldest

FACTS = "facts"
"""The name of the block that keeps the facts."""


class FactExtractor(Protocol):
    """Takes facts from messages. A plain async function qualifies.

    Example:
        >>> from agentctx.builder import Facts
        >>> async def names_of_files(messages):
        ...     return [word for message in messages for word in message.text.split() if word.endswith(".py")]
        >>> facts = Facts(names_of_files, max_tokens=200)
    """

    async def __call__(self, messages: Sequence[Message], /) -> Sequence[str]:
        """The facts that ``messages`` hold, each in a few words; empty when there are none."""
        ...


Reading = tuple[int, int]
"""A message that was or could be read: what it says, as a number, and how many before it say the same.

Frameworks build their messages anew at each step: not the object counts but what it says.
"""


def readings(messages: Iterable[Message]) -> list[tuple[Reading, Message]]:
    """Each message of a conversation with its reading, in order."""
    seen: Counter[int] = Counter()
    found = []
    for message in messages:
        said = hash(message)
        found.append(((said, seen[said]), message))
        seen[said] += 1
    return found


def _callable(_instance: object, _attribute: object, value: Native) -> None:
    if not callable(value) or isinstance(value, type):
        msg = f"Facts: extractor: expected an async function of messages, got {value!r}"
        raise ConfigError(msg)


def _share(_instance: object, _attribute: object, value: Native) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        msg = f"Facts: share: expected a share above 0 and up to 1, got {value!r}"
        raise ConfigError(msg)


@define
class Facts:
    """The facts of one conversation, in the order in which they were learned, each once.

    Args:
        extractor: Takes facts from messages.
        max_tokens: The most tokens that they may have together; the oldest go first. None means ``share``.
        share: The most of the room for facts and conversation together that the facts may have, so that they do not
            crowd out the conversation that they come from; asked only without ``max_tokens``.
        on: The errors of the extractor that cost nothing but its facts, and are told in the report.
        known: The facts.
        read: What was read already; each message is read once.

    Raises:
        ConfigError: If the extractor cannot be called, ``max_tokens`` is not positive, or ``share`` is not above 0 and
            up to 1.

    Example:
        >>> from agentctx.builder import ContextBuilder, Facts
        >>> async def no_facts(messages):
        ...     return []
        >>> builder = ContextBuilder(16_000, facts=Facts(no_facts))
    """

    extractor: FactExtractor = field(validator=_callable)
    max_tokens: int | None = field(
        default=None, validator=lambda _facts, _option, value: check_tokens("Facts: max_tokens", value)
    )
    on: tuple[type[Exception], ...] = (Exception,)
    known: list[str] = field(factory=list)
    read: set[Reading] = field(factory=set, repr=False)
    share: float = field(default=0.5, validator=_share, kw_only=True)

    async def learn(self, lost: Mapping[Reading, Message]) -> bool:
        """Take the facts from those messages that were not read yet; whether one of them is new.

        Args:
            lost: The messages that are gone from the conversation, in order, by ``readings``.

        Raises:
            StageError: If the extractor is not async, or returns something else than texts.
        """
        unread = {reading: message for reading, message in lost.items() if reading not in self.read}
        if not unread:
            return False
        messages = list(unread.values())
        with Noting("while the extractor of facts was running"):
            found: Native = await answered("FactExtractor", self.extractor(messages))
            a_list = isinstance(found, Sequence) and not isinstance(found, str)
            if not a_list or not all(isinstance(fact, str) for fact in found):
                raise StageError("FactExtractor", f"returned {found!r:.80} instead of a list of texts")
        known = set(self.known)
        new = [fact for fact in dict.fromkeys(map(str.strip, found)) if fact and fact not in known]
        self.known.extend(new)
        self.read.update(unread)
        return bool(new)

    def block(self, room: int) -> Block:
        """The facts as a block of the tier ``CORE``, a system message each.

        Args:
            room: Tokens that are left for facts and history; without ``max_tokens`` the facts get ``share`` of them.
        """
        messages = [Message("system", (Text(fact),)) for fact in self.known]
        most = max(1, int(room * self.share)) if self.max_tokens is None else self.max_tokens
        return Block(FACTS, messages, Tier.CORE, TruncateOldest(), most)

    def copied(self) -> Facts:
        """Facts that know the same, and learn apart from these."""
        return Facts(self.extractor, self.max_tokens, self.on, list(self.known), set(self.read), share=self.share)
