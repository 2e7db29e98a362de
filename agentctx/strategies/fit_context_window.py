"""Bring the request down to the budget by leaving out the oldest rounds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from attrs import field, frozen

from agentctx.builder.eviction import answered
from agentctx.builder.summarize import fitted
from agentctx.core.budget import Budget
from agentctx.core.compare import Outcome, match
from agentctx.core.message import Context, Message
from agentctx.core.protection import first_task, summary, summed_up
from agentctx.engine.drop import drop_oldest
from agentctx.engine.options import as_budget
from agentctx.errors import ConfigError
from agentctx.offload import offload
from agentctx.protocols import Call, Scope, Summarizer

SHARE = 0.1
"""At most so much of what a cut comes down to is the summary."""


async def sum_up(before: Context, after: Context, most: int, call: Call, summarizer: Summarizer) -> Context:
    """Let one message say in few words what a cut has left out; an earlier summary in it is replaced.

    Where the summarizer fails, or says nothing, the earlier summary stays, and the report says why there is no other.

    Args:
        before: The request before the cut.
        after: The request after it.
        most: The most tokens of the summary.
        call: What the stage is told.
        summarizer: Writes the summary.
    """
    gone = [before.messages[index] for index in match(before.messages, after.messages).dropped]
    count = sum(summed_up(message) or 1 for message in gone)
    if all(map(summed_up, gone)):
        return _standing(after, gone)
    left = most - call.count(Message("user", (summary("", count),)))
    text = await _asked(gone, left, call, summarizer) if left > 0 else ""
    made = fitted(text, most, lambda said: Message("user", (summary(said, count),)), call.count)
    if made is None:
        call.remark("no summary: " + ("there is no room for one" if left <= 0 else "the summarizer gave none"))
        earlier = [message for message in gone if summed_up(message)]
        return _standing(after, earlier if sum(map(call.count, earlier)) <= most else [])
    for message in gone:
        call.note(message, "in the summary", Outcome.SUMMARISED)
    call.note(made, f"stands for {count} messages that were left out")
    return _standing(after, [made])


async def _asked(gone: Sequence[Message], tokens: int, call: Call, summarizer: Summarizer) -> str:
    """The summarizer's words; none when it fails: as that of a listener, its failure costs nothing that was there."""
    try:
        text: object = await answered("the summarizer", summarizer(tuple(gone), tokens))
    except Exception as error:  # noqa: BLE001 - user code, whatever it raises
        call.remark(f"the summarizer raised {type(error).__name__}: {error}")
        return ""
    if not isinstance(text, str):
        call.remark(f"the summarizer returned {type(text).__name__} instead of text")
        return ""
    return text


def _standing(context: Context, summaries: Sequence[Message]) -> Context:
    """The request with summaries where they stand: behind the first task, else behind the system messages that lead."""
    messages = context.messages
    leading = next((place for place, message in enumerate(messages) if not message.is_system), len(messages))
    place = next((task + 1 for task in first_task(messages)), leading)
    return context.with_messages((*messages[:place], *summaries, *messages[place:])) if summaries else context


@frozen
class FitContextWindow:
    """Drop the oldest rounds, with the questions that began them, until the request fits.

    Protected messages and the round that the model is in stay. When these alone are too large, the results of
    that round are cut so that it takes half of the room that the rest leaves.

    Where the pipeline has a summarizer, one message behind the first task stands for what was dropped: at most a tenth
    of what the cut comes down to, and at the next cut another in its place. Without a session, or with views that are
    not written back, the summarizer is asked at every call that has to be cut.

    Args:
        budget: The budget to fit; a number is a window in tokens. Without it the pipeline's budget holds.
        max_tokens: The most tokens of the request, instead of a budget.
        reserve_tokens: Tokens of ``max_tokens`` to keep free.

    Raises:
        ConfigError: If the options contradict each other or make no sense.

    Example:
        >>> from agentctx import FitContextWindow, Pipeline
        >>> from agentctx.testing import assistant, transcript, user
        >>> turns = user("One?"), assistant("1. " * 500), user("Two?"), assistant("2."), user("Three?")
        >>> messages = transcript("openai-chat", *turns)
        >>> view = await Pipeline(FitContextWindow(), budget=200).prepare(messages)
        >>> [message["content"] for message in view.messages]
        ['One?', 'Two?', '2.', 'Three?']
    """

    budget: Budget | None = field(default=None, converter=as_budget)
    max_tokens: int | None = field(default=None, kw_only=True)
    reserve_tokens: int = field(default=0, kw_only=True)
    scope: ClassVar[Scope] = Scope.PRESSURE
    summarizes: ClassVar[bool] = True

    def __attrs_post_init__(self) -> None:
        """Check the options."""
        if self.budget is not None and self.max_tokens is not None:
            msg = "FitContextWindow: pass a budget or max_tokens, not both"
            raise ConfigError(msg)
        if self.max_tokens is None and self.reserve_tokens:
            msg = "FitContextWindow: reserve_tokens goes with max_tokens; a budget has its own output_reserve"
            raise ConfigError(msg)
        if self.reserve_tokens < 0:
            msg = f"FitContextWindow: reserve_tokens must not be negative, got {self.reserve_tokens}"
            raise ConfigError(msg)
        if self.max_tokens is not None:
            Budget(self.max_tokens, self.reserve_tokens)

    @property
    def own_budget(self) -> Budget | None:
        """The budget that this stage carries itself, if any."""
        return Budget(self.max_tokens, self.reserve_tokens) if self.max_tokens is not None else self.budget

    async def __call__(self, context: Context, call: Call, /) -> Context:
        """Return the context with the oldest rounds dropped, so that it has at most the limit's tokens."""
        limit, aim = self._limits(call)
        size = call.size(context)
        if size <= aim:
            return context
        to_cut = call.meter.bytes(context) if size > limit else 0  # what fits as it is has no result to be cut
        most = 0 if call.summarizer is None else int(SHARE * aim)
        work = partial(drop_oldest, context, limit, aim - most, call, size)
        fitted = await offload(work, len(context.messages), to_cut)
        if call.summarizer is None:
            return fitted
        most = min(most, limit - call.size(fitted))
        return await sum_up(context, fitted, most, call, call.summarizer)

    def _limits(self, call: Call) -> tuple[int, int]:
        """The hard limit and the size to come down to, in tokens."""
        own = self.own_budget
        if own is not None:
            return own.limit, own.limit if call.limit is None else min(own.limit, call.limit)
        if call.budget is None or call.limit is None:
            msg = (
                "FitContextWindow: no budget in force: pass FitContextWindow(max_tokens=...), "
                "Pipeline(..., budget=Budget(window=...)), or a model that the model table knows"
            )
            raise ConfigError(msg)
        return call.budget.limit, call.limit
