"""What stands for what is gone: one message says it, behind the first task, until the next cut puts another there.

A stage that leaves something out by ``leave_out`` gets back what is left, without the earlier summary, and what went,
that summary among it. It has words found for what went (``LeftOut.in_words``), and puts them there
(``LeftOut.with_summary``); where there are none it takes its cut back, or goes another way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from attrs import frozen

from agentctx.core.compare import Outcome, match
from agentctx.core.message import Context, Message
from agentctx.core.protection import first_task
from agentctx.core.summary import summaries, summary, summary_count
from agentctx.engine.run_stages import answered, run_plain
from agentctx.errors import StageError
from agentctx.protocols import Call, Summarizer, name_of
from agentctx.providers.native import clean_text
from agentctx.tokens.graphemes import floor

Cut = Callable[[Context, Call], Context]
"""Leaves something out of a context; a plain function."""

Write = Callable[[str, int], Message]
"""The message that says a text in the place of so many messages."""


@frozen
class LeftOut:
    """What a cut has left out of a request, or of a block.

    Args:
        context: What is left, without the summaries that stood there.
        gone: What went, with these summaries.
        count: How many of the caller's messages that are, with those that the summaries stood for.
        call: What the stage is told.
    """

    context: Context
    gone: tuple[Message, ...]
    count: int
    call: Call

    @property
    def is_known(self) -> bool:
        """Whether nothing went but summaries, which say it already."""
        return all(map(summary_count, self.gone))

    async def in_words(
        self,
        summarizer: Summarizer,
        room: int,
        stage: str,
        write: Write = summary,
        forgives: Callable[[Exception], bool] = lambda _error: True,
    ) -> tuple[Message | None, str]:
        """The message, of at most ``room`` tokens, that says what went; None where there is none, and why.

        Args:
            summarizer: Finds the words.
            room: Tokens that the message may have.
            stage: Who asks, for errors.
            write: Makes the message of the words.
            forgives: Whether an error of the summarizer's, or something else than text, costs no more than its words.

        Raises:
            Exception: What is not forgiven.
        """
        left = room - self.call.count(write("", self.count))
        if left <= 0 or not self.gone:
            return None, "there is no room for a summary"
        try:
            text: object = await answered(f"{name_of(summarizer)} of {stage}", summarizer(self.gone, left))
        except Exception as error:
            if not forgives(error):
                raise
            return None, f"the summarizer raised {type(error).__name__}: {error}"
        if isinstance(text, str):
            return self._within(room, text, write), ""
        problem = f"the summarizer returned {type(text).__name__} instead of text"
        if not forgives(wrong := StageError(stage, problem)):
            raise wrong
        return None, problem

    def _within(self, room: int, text: str, write: Write) -> Message | None:
        """The message, its words cut to what fits; None when nothing fits, or nothing is said."""
        text = clean_text(text)
        while text.strip():
            made = write(text, self.count)
            tokens = self.call.count(made)
            if tokens <= room:
                return made
            text = text[: floor(text, min(len(text) - 1, len(text) * room // tokens))]
        return None

    def with_summary(self, made: Message) -> Context:
        """What is left, with the message that says what went.

        In a request it stands behind the first task, else behind the system messages that lead; a block begins with it.
        """
        for message in self.gone:
            self.call.note(message, "in the summary", Outcome.SUMMARISED)
        self.call.note(made, f"stands for {self.count} messages that were left out")
        messages = self.context.messages
        leading = next((place for place, message in enumerate(messages) if not message.is_system), len(messages))
        place = next((task + 1 for task in first_task(messages)), leading) if self.call.stays is None else 0
        return self.context.with_messages((*messages[:place], made, *messages[place:]))


async def leave_out(cut: Cut, effort: Iterable[int], context: Context, call: Call) -> LeftOut:
    """What a cut takes from a context without its summaries; called where a plain stage of this ``effort`` would be."""
    return await run_plain(partial(_left_out, cut), effort, context, call)


def _left_out(cut: Cut, context: Context, call: Call) -> LeftOut:
    after = cut(_without_summaries(context, call), call)
    gone = tuple(context.messages[index] for index in match(context.messages, after.messages).dropped)
    return LeftOut(after, gone, _count_of(gone, call), call)


def _without_summaries(context: Context, call: Call) -> Context:
    """The request without the summaries in it, but for those that the caller protects; a block as it is."""
    gone = frozenset(() if call.stays is not None else summaries(context.messages)) - call.frozen(context)
    kept = (message for index, message in enumerate(context.messages) if index not in gone)
    return context.with_messages(tuple(kept)) if gone else context


def _count_of(gone: Sequence[Message], call: Call) -> int:
    """How many of the caller's messages these are, and those that they stand for; not what repair has made."""
    given = None if call.given is None else call.given()
    return sum(summary_count(message) or (given is None or message.identity in given) for message in gone)
