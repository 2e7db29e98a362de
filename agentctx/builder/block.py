"""One block of a request."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast, get_args

from attrs import evolve, field, frozen

from agentctx.core.budget import Tier, as_tier
from agentctx.core.message import Message, Native, Ttl
from agentctx.engine.options import check_tokens
from agentctx.errors import ConfigError, InvalidInput
from agentctx.protocols import ContextStrategy
from agentctx.strategies.drop_units import Strict


def own_copy(value: object) -> Native:
    """A copy that shares nothing that can be changed; a value of this library is itself."""
    if value is None or isinstance(value, (str, int, float, bytes, Message)):
        return value
    if type(value) is dict:
        return {key: own_copy(each) for key, each in value.items()}
    if type(value) is list:
        return [own_copy(each) for each in value]
    return copy.deepcopy(value)


def _own_messages(messages: Iterable[Any]) -> tuple[Any, ...]:
    if isinstance(messages, (str, bytes, Mapping, Message)) or not isinstance(messages, Iterable):
        msg = f"Block: messages: expected a list of messages, got {type(messages).__name__}"
        raise ConfigError(msg)
    return tuple(_own_message(place, message) for place, message in enumerate(messages))


def _own_message(place: int, message: object) -> Native:
    try:
        return own_copy(message)
    except RecursionError:
        where = f"messages[{place}]"
        raise InvalidInput(where, "it is nested too deep, or contains itself") from None


@frozen
class Block:
    """Messages that share a place in the request, a claim on the room, and a way to be cut.

    Args:
        id: Its name in reports; need not be unique, but must not be empty.
        messages: Native messages of a provider, or values of this library. They are copied: what happens to the
            caller's objects later does not change the block. A call and its result belong in one block.
        tier: Its place in the request and its claim on the room; any integer.
        evict: The stage that is run over it when it is too large; without one the build fails rather than cut it. It
            sees the block's messages as a request of their own, with the block's room as budget, of which nothing is
            protected but, in the tiers of the conversation (``HISTORY`` and behind it), the user's newest words. It
            may say what it does in a ``label``; what the least is that it can come down to, in a method
            ``least(context, call)``; that it keeps everything or nothing, with ``whole``; and that more room gives
            more messages, with ``gradual``: then it is asked again when room is left over.
        max_tokens: The most tokens that it may have, however much room there is; None means no cap.
        cache: Whether the provider shall keep the prefix that ends with this block: True, a lifetime (``"5m"``,
            ``"1h"``), or the provider's own mark. Written where the format has such marks.

    Raises:
        ConfigError: If an argument makes no sense.
        InvalidInput: If a message is nested too deep to be copied.

    Example:
        >>> from agentctx.builder import Block, Tier
        >>> from agentctx.strategies import DropTail
        >>> block = Block("handbook", [{"role": "user", "content": "…"}], Tier.RAG, DropTail(), max_tokens=2_000)
    """

    id: str
    messages: tuple[Any, ...] = field(converter=_own_messages)
    tier: Tier = field(default=Tier.HISTORY, converter=as_tier)
    evict: ContextStrategy = field(default=Strict())
    max_tokens: int | None = None
    cache: bool | str | Mapping[str, Any] | None = field(default=None, hash=False)

    def __attrs_post_init__(self) -> None:
        """Check the arguments."""
        if not isinstance(self.id, str) or not self.id:
            msg = f"Block: id: expected a name, got {self.id!r}"
            raise ConfigError(msg)
        if not callable(self.evict) or isinstance(self.evict, type):
            msg = f"Block {self.id!r}: evict: expected a stage, for example TruncateOldest(), got {self.evict!r}"
            raise ConfigError(msg)
        check_tokens(f"Block {self.id!r}: max_tokens", self.max_tokens)
        cache: object = self.cache
        if not (cache is None or isinstance(cache, (bool, Mapping)) or cache in get_args(Ttl)):
            lifetimes = " or ".join(map(repr, get_args(Ttl)))
            msg = f"Block {self.id!r}: cache: expected True, {lifetimes}, or the provider's own mark, got {cache!r}"
            raise ConfigError(msg)

    def with_messages(self, messages: Sequence[Any]) -> Block:
        """The same block saying something else.

        Args:
            messages: What it says instead: native messages or ``Message`` values.
        """
        return evolve(self, messages=cast("tuple[Any, ...]", messages))


def names_of(blocks: Sequence[Block]) -> list[str]:
    """What to call each block in errors and reasons: by its name, and where others have that too, by its number."""
    count = Counter(block.id for block in blocks)
    seen: Counter[str] = Counter()
    names = []
    for block in blocks:
        seen[block.id] += 1
        which = f" (number {seen[block.id]} of {count[block.id]} of this name)" if count[block.id] > 1 else ""
        names.append(f"block {block.id!r}{which}")
    return names
