"""The older part of the block is put into fewer words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from attrs import field, frozen

from agentctx.builder.eviction import (
    Allowance,
    Drop,
    Eviction,
    Piece,
    TruncateOldest,
    answered,
    label_of,
    messages_of,
    must_stay,
    name_of,
    pieces,
)
from agentctx.core.message import Message, Native, Text
from agentctx.errors import ConfigError, StageError
from agentctx.protocols import Summarizer
from agentctx.providers.native import clean_text
from agentctx.tokens.graphemes import floor

HEADING = "[Summary of {count} earlier messages]\n"
"""What stands before a summary, so that nobody takes it for the user's own words."""

LEAST_FOR_SUMMARY = 0.25
"""The newest turn stays word for word when it leaves at least this part of the room for the summary."""


def _callable(_instance: object, _attribute: object, value: Native) -> None:
    if not callable(value) or isinstance(value, type):
        msg = f"Summarize: expected an async function of (messages, max_tokens), got {value!r}"
        raise ConfigError(msg)


@frozen
class Summarize:
    """Put a message that says the same in fewer words in the place of the block's messages.

    The turn that begins with the user's newest words stays as it is, when they are in the block; of a turn that is
    too large these words alone. A summary that is too long is cut to what fits.

    Args:
        summarizer: Writes the summary; asked once a build, and not at all when the block fits.
        role: The role of the summary's message.
        heading: What stands before the summary; ``{count}`` becomes the number of messages that it stands for.
        fallback: What happens to the block when the summarizer raises; None lets its error through.
        on: The errors of the summarizer for which ``fallback`` is there.

    Raises:
        ConfigError: If the summarizer cannot be called.

    Example:
        >>> from agentctx.builder import Block, Summarize
        >>> async def in_one_line(messages, max_tokens):
        ...     return f"{len(messages)} messages about the build"
        >>> block = Block("history", [{"role": "user", "content": "…"}], evict=Summarize(in_one_line))
    """

    summarizer: Summarizer = field(validator=_callable)
    role: str = field(default="user", kw_only=True)
    heading: str = field(default=HEADING, kw_only=True)
    fallback: Eviction | None = field(default=TruncateOldest(), kw_only=True)
    on: tuple[type[Exception], ...] = field(default=(Exception,), kw_only=True)
    label: ClassVar[str] = "summarized"

    def least(self, messages: Sequence[Message], allowance: Allowance, /) -> int:
        """What must stay, in tokens."""
        return allowance.count(must_stay(messages, allowance)) if allowance.keep else 0

    async def __call__(self, messages: Sequence[Message], allowance: Allowance, /) -> Sequence[Message]:
        """The messages when they fit, else their summary and what must stay of them.

        Raises:
            ContextOverflow: If what must stay is too large.
            StageError: If the summarizer returns something else than text.
        """
        if allowance.count(messages) <= allowance.tokens:
            return messages
        found = _laid_out(messages, allowance)
        staying = messages_of(messages, [piece for piece in found if piece.stays])
        told = messages_of(messages, [piece for piece in found if not piece.stays])
        room = allowance.tokens - allowance.count(staying)
        if staying and room < 0:
            raise allowance.overflow(allowance.tokens - room)
        heading = self.heading.replace("{count}", str(len(told)))
        left = room - allowance.meter.message(Message(self.role, (Text(heading),)))
        if left <= 0 or not told:
            return await self._instead("no room for a summary", staying, messages, allowance)
        try:
            text = _as_text(await answered(f"{name_of(self.summarizer)} of Summarize", self.summarizer(told, left)))
        except self.on as error:
            if self.fallback is None or isinstance(error, StageError):
                raise
            return await self._instead(f"the summarizer raised {_said(error)}", staying, messages, allowance)
        summary = fitted(text, room, lambda said: Message(self.role, (Text(heading + said),)), allowance.meter.message)
        if summary is None:
            return await self._instead("the summary was empty", staying, messages, allowance)
        return (summary, *staying)

    async def _instead(
        self, why: str, staying: Sequence[Message], messages: Sequence[Message], allowance: Allowance
    ) -> Sequence[Message]:
        instead = Drop() if self.fallback is None else self.fallback
        allowance.remark(why)
        allowance.relabel(label_of(instead))
        return staying if self.fallback is None else await self.fallback(messages, allowance)


def _laid_out(messages: Sequence[Message], allowance: Allowance) -> list[Piece]:
    """The block in pieces; the turn that begins with the user's newest words stays when it is not too large."""
    found = pieces(messages, allowance)
    if not allowance.keep:
        return found
    newest = max(allowance.keep)
    turn = [Piece(each.start, each.stop, each.tokens, each.stays or each.stop > newest) for each in found]
    tokens = sum(piece.tokens for piece in turn if piece.stays)
    return turn if tokens <= (1 - LEAST_FOR_SUMMARY) * allowance.tokens else found


def _as_text(value: object) -> str:
    if not isinstance(value, str):
        raise StageError("Summarize", f"the summarizer returned {type(value).__name__} instead of text")
    return value


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def fitted(text: str, room: int, made: Callable[[str], Message], count: Callable[[Message], int]) -> Message | None:
    """A summary of at most ``room`` tokens; None when nothing of it fits, or nothing is said in it.

    Args:
        text: What the summarizer said.
        room: The most tokens.
        made: Makes the message of a text.
        count: Counts a message, in tokens.
    """
    text = clean_text(text)
    while text.strip():
        summary = made(text)
        tokens = count(summary)
        if tokens <= room:
            return summary
        text = text[: floor(text, min(len(text) - 1, len(text) * room // tokens))]
    return None
