"""Put the older part of a request, or of a block, into fewer words."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from attrs import field, frozen

from agentctx.core.message import ROLES, Context, Message, Native, Text
from agentctx.core.protection import last_words
from agentctx.engine.drop import tokens_of, tokens_together, units_of, without
from agentctx.engine.options import check_places, limits
from agentctx.engine.recap import leave_out
from agentctx.engine.run_stages import run_alone
from agentctx.errors import ConfigError, StageError
from agentctx.protocols import Call, ContextStrategy, Scope, Stage, Summarizer, declared
from agentctx.strategies.drop_units import TruncateOldest, pieces, staying, staying_places

HEADING = "[Summary of {count} earlier messages]\n"
"""What stands before the summary of a block, so that nobody takes it for the user's own words."""

LEAST_FOR_SUMMARY = 0.25
"""The newest turn stays word for word when it leaves at least this part of the room for the summary."""


def _callable(_instance: object, _attribute: object, value: Native) -> None:
    if not callable(value) or isinstance(value, type):
        msg = f"Summarize: expected an async function of (messages, max_tokens), got {value!r}"
        raise ConfigError(msg)


def _fallback(_instance: object, _attribute: object, value: Native) -> None:
    if value is not None and (not callable(value) or isinstance(value, type)):
        msg = f"Summarize: fallback is {value!r}; it is a stage, for example TruncateOldest(), or None"
        raise ConfigError(msg)


def _role(_instance: object, _attribute: object, value: Native) -> None:
    if value not in _SPEAKERS:
        msg = f"Summarize: role is {value!r}; it is one of {', '.join(_SPEAKERS)}"
        raise ConfigError(msg)


_SPEAKERS = tuple(role for role in ROLES if role != "tool")


def _heading(_instance: object, _attribute: object, value: Native) -> None:
    if not isinstance(value, str):
        msg = f"Summarize: heading must be text, got {value!r}"
        raise ConfigError(msg)
    check_places("Summarize: heading", value, ("count",))


def _errors(_instance: object, _attribute: object, value: Native) -> None:
    kinds = value if isinstance(value, tuple) else (None,)
    if not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
        msg = f"Summarize: on must be a tuple of exceptions, for example (TimeoutError,), got {value!r}"
        raise ConfigError(msg)


@frozen
class Summarize(Stage):
    """Put a message that says the same in fewer words in the place of earlier messages.

    The turn that begins with the user's newest words stays as it is; of a turn that is too large these words alone.
    A summary that is too long is cut to what fits. In a request it stands behind the first task, and the next one
    takes its place and counts on; in a block it comes first.

    Args:
        summarizer: Writes the summary; not asked when everything fits, and once a build for a block.
        role: The role of the summary's message in a block; in a request it is the user's.
        heading: What stands before the summary in a block; ``{count}`` becomes the number of messages that it stands
            for. In a request it is the library's own, by which a later cut knows the summary.
        fallback: The stage that runs instead when the summarizer raises or gives no words; None lets its error through.
            No words are one in a request; of a block it is left out then, which the report says.
        on: The errors of the summarizer for which ``fallback`` is there.

    Raises:
        ConfigError: If an option makes no sense.

    Example:
        >>> from agentctx.builder import Block
        >>> from agentctx.strategies import Summarize
        >>> async def in_one_line(messages, max_tokens):
        ...     return f"{len(messages)} messages about the build"
        >>> block = Block("history", [{"role": "user", "content": "…"}], evict=Summarize(in_one_line))
    """

    summarizer: Summarizer = field(validator=_callable)
    role: str = field(default="user", kw_only=True, validator=_role)
    heading: str = field(default=HEADING, kw_only=True, validator=_heading)
    fallback: ContextStrategy | None = field(default=TruncateOldest(), kw_only=True, validator=_fallback)
    on: tuple[type[Exception], ...] = field(default=(Exception,), kw_only=True, validator=_errors)
    scope: ClassVar[Scope] = Scope.PRESSURE
    summarizes: ClassVar[bool] = True

    @property
    def label(self) -> str:
        """What a report says of a block of which no summary was written."""
        return "dropped" if self.fallback is None else declared(self.fallback).label

    def least(self, context: Context, call: Call, /) -> int:
        """What must stay, in tokens."""
        return tokens_of(staying(context, call), call)

    async def __call__(self, context: Context, call: Call, /) -> Context:
        """Return the context when it fits, else a summary and what stays.

        Raises:
            StageError: If the summarizer returns something else than text, or no words where a request has no fallback.
        """
        _, aim = limits("Summarize", None, call)
        if call.size(context) <= aim:
            return context
        known = call.notes.copy()
        left = await leave_out(partial(_without_earlier, aim), self.effort(context, call), context, call)
        if left.gone and left.is_known:
            call.notes.restore(known)
            return context
        write = None if call.stays is None else partial(self._written, count=left.recap.messages)
        room = aim - call.size(left.context)
        made, problem = await left.in_words(self.summarizer, room, "Summarize", write, self._forgives)
        if made is not None:
            return left.with_summary(made)
        if self.fallback is None and not problem and call.stays is None:
            raise StageError("Summarize", "the summary was empty; nothing was left out")
        if self.fallback is not None:
            call.notes.restore(known)
        call.remark(problem or "the summary was empty")
        return left.context if self.fallback is None else await run_alone(self.fallback, context, call)

    def _forgives(self, error: Exception) -> bool:
        """Whether the fallback is there for it; never for what is no summarizer."""
        return self.fallback is not None and isinstance(error, self.on) and not isinstance(error, StageError)

    def _written(self, text: str, *, count: int) -> Message:
        """The summary of a block."""
        return Message(self.role, (Text(self.heading.replace("{count}", str(count)) + text),))


def _without_earlier(aim: int, context: Context, call: Call) -> Context:
    """The context without what the summary shall stand for.

    The turn that begins with the user's newest words stays when it is not too large.
    """
    places = staying_places(context, call)
    found = pieces(context.messages, places, call)
    newest = [index for index in last_words(context.messages) if index in places]
    turn = [piece for piece in found if piece.stays or (newest and piece.units[-1].stop > newest[0])]
    room = aim - call.size(context) + tokens_of(context.messages, call)
    if tokens_together(turn) > (1 - LEAST_FOR_SUMMARY) * room:
        turn = [piece for piece in found if piece.stays]
    return without(context, units_of(piece for piece in found if piece not in turn), call, f"over {aim:,} tokens")
