"""Put the older part of a request, or of a block, into fewer words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

from attrs import field, frozen

from agentctx.core.compare import Outcome, match
from agentctx.core.message import Context, Message, Native, Text
from agentctx.core.protection import first_task, last_words, summaries, summary, summary_count
from agentctx.engine.drop import tokens_of, tokens_together, units_of, without
from agentctx.engine.options import limits
from agentctx.engine.run_stages import answered, run_alone
from agentctx.errors import ConfigError, StageError
from agentctx.protocols import Call, ContextStrategy, Scope, Stage, Summarizer, declared, name_of
from agentctx.providers.native import clean_text
from agentctx.strategies.drop_units import TruncateOldest, pieces, staying, staying_places
from agentctx.tokens.graphemes import floor

HEADING = "[Summary of {count} earlier messages]\n"
"""What stands before the summary of a block, so that nobody takes it for the user's own words."""

LEAST_FOR_SUMMARY = 0.25
"""The newest turn stays word for word when it leaves at least this part of the room for the summary."""


def _callable(_instance: object, _attribute: object, value: Native) -> None:
    if not callable(value) or isinstance(value, type):
        msg = f"Summarize: expected an async function of (messages, max_tokens), got {value!r}"
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
        fallback: The stage that runs instead when the summarizer raises; None lets its error through.
        on: The errors of the summarizer for which ``fallback`` is there.

    Raises:
        ConfigError: If the summarizer cannot be called.

    Example:
        >>> from agentctx.builder import Block
        >>> from agentctx.strategies import Summarize
        >>> async def in_one_line(messages, max_tokens):
        ...     return f"{len(messages)} messages about the build"
        >>> block = Block("history", [{"role": "user", "content": "…"}], evict=Summarize(in_one_line))
    """

    summarizer: Summarizer = field(validator=_callable)
    role: str = field(default="user", kw_only=True)
    heading: str = field(default=HEADING, kw_only=True)
    fallback: ContextStrategy | None = field(default=TruncateOldest(), kw_only=True)
    on: tuple[type[Exception], ...] = field(default=(Exception,), kw_only=True)
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
            StageError: If the summarizer returns something else than text.
        """
        _, aim = limits("Summarize", None, call)
        if call.size(context) <= aim:
            return context
        known = call.notes.copy()
        after = await run_alone(partial(_without_earlier, aim), context, call)
        gone = tuple(context.messages[index] for index in match(context.messages, after.messages).dropped)
        if gone and all(map(summary_count, gone)):
            call.notes.restore(known)
            return context
        write, room = partial(self._written, count=count_of(gone, call), call=call), aim - call.size(after)
        made, problem = await self._asked(gone, room, write, call)
        if made is not None:
            return with_summary(after, made, gone, call)
        if self.fallback is not None:
            call.notes.restore(known)
        call.remark(problem)
        return after if self.fallback is None else await run_alone(self.fallback, context, call)

    async def _asked(
        self, gone: Sequence[Message], room: int, write: Callable[[str], Message], call: Call
    ) -> tuple[Message | None, str]:
        """The message of the summary; None where there is none, and why."""
        left = room - call.count(write(""))
        if left <= 0 or not gone:
            return None, "no room for a summary"
        try:
            text: object = await answered(f"{name_of(self.summarizer)} of Summarize", self.summarizer(gone, left))
        except self.on as error:
            if self.fallback is None or isinstance(error, StageError):
                raise
            return None, f"the summarizer raised {type(error).__name__}: {error}"
        if not isinstance(text, str):
            raise StageError("Summarize", f"the summarizer returned {type(text).__name__} instead of text")
        return fitted(text, room, write, call.count), "the summary was empty"

    def _written(self, text: str, *, count: int, call: Call) -> Message:
        if call.stays is None:
            return Message("user", (summary(text, count),))
        return Message(self.role, (Text(self.heading.replace("{count}", str(count)) + text),))


def _without_earlier(aim: int, context: Context, call: Call) -> Context:
    """The context without what the summary shall stand for, and without earlier summaries.

    The turn that begins with the user's newest words stays when it is not too large.
    """
    bare = without_summaries(context, call)
    places = staying_places(bare, call)
    found = pieces(bare.messages, places, call)
    newest = [index for index in last_words(bare.messages) if index in places]
    turn = [piece for piece in found if piece.stays or (newest and piece.units[-1].stop > newest[0])]
    room = aim - call.size(bare) + tokens_of(bare.messages, call)
    if tokens_together(turn) > (1 - LEAST_FOR_SUMMARY) * room:
        turn = [piece for piece in found if piece.stays]
    return without(bare, units_of(piece for piece in found if piece not in turn), call, f"over {aim:,} tokens")


def without_summaries(context: Context, call: Call) -> Context:
    """The request without the summaries in it, but for those that the caller protects; the same object without such."""
    gone = frozenset(() if call.stays is not None else summaries(context.messages)) - call.frozen(context)
    kept = (message for index, message in enumerate(context.messages) if index not in gone)
    return context.with_messages(tuple(kept)) if gone else context


def count_of(gone: Sequence[Message], call: Call) -> int:
    """How many of the caller's messages these are, and those that they stand for; not what repair has made."""
    given = None if call.given is None else call.given()
    return sum(summary_count(message) or (given is None or message.identity in given) for message in gone)


def with_summary(context: Context, made: Message, gone: Sequence[Message], call: Call) -> Context:
    """The context with a summary of what is gone from it.

    In a request it stands behind the first task, else behind the system messages that lead; a block begins with it.
    """
    for message in gone:
        call.note(message, "in the summary", Outcome.SUMMARISED)
    call.note(made, f"stands for {count_of(gone, call)} messages that were left out")
    messages = context.messages
    leading = next((place for place, message in enumerate(messages) if not message.is_system), len(messages))
    place = next((task + 1 for task in first_task(messages)), leading) if call.stays is None else 0
    return context.with_messages((*messages[:place], made, *messages[place:]))


def fitted(text: str, room: int, made: Callable[[str], Message], count: Callable[[Message], int]) -> Message | None:
    """A summary of at most ``room`` tokens; None when nothing of it fits, or nothing is said in it."""
    text = clean_text(text)
    while text.strip():
        summary = made(text)
        tokens = count(summary)
        if tokens <= room:
            return summary
        text = text[: floor(text, min(len(text) - 1, len(text) * room // tokens))]
    return None
