"""Cut the request to the budget, in the order of ``engine/cut.py``."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from attrs import field, frozen

from agentctx.budget import Budget
from agentctx.engine.cut import cut
from agentctx.engine.plan import Summarizing, as_budget
from agentctx.engine.recap import leave_out, room_for_handles, with_handles
from agentctx.engine.summary import Asking
from agentctx.errors import NoBudget
from agentctx.message import Context
from agentctx.protocols import Call, Summarizer, When, library_stage, run_plain


def _budget(value: Budget | int | None) -> Budget | None:
    return None if value is None else as_budget(value, "FitContextWindow")


@library_stage
@frozen
class FitContextWindow(Summarizing):
    """Cut the request until it fits, and no more than it takes.

    In this order: tool results that are out of proportion, down to head and tail; old results, oldest first, and the
    long arguments of old calls; whole rounds of the model, oldest first; and the user's own words last. Protected
    messages and the round that the model is in stay. When these alone are too large, the results of
    that round are cut so that it takes half of the room that the rest leaves. Once that round is over, it is still left
    whole while it takes no more than half of the room and no later one has results.

    Where the pipeline has a summarizer, one message behind the first task stands for what was dropped: at most a tenth
    of what the cut comes down to, and at the next cut another in its place. Where the summarizer fails, the cut is what
    it would be without one. Without a session, or with views that are
    not written back, the summarizer is asked at every call that has to be cut.

    Where it has a store and the request the recall tool (``Recall``), cut texts name the handle of what they were, and
    that message names a list of what was dropped, a handle each. With neither, nothing stands for what was dropped:
    the report says it, and ``Ledger()`` behind this stage tells the model.

    Args:
        budget: The budget to fit; an integer is a window, as of ``Budget``. Without it the pipeline's budget holds.

    Raises:
        ConfigError: If the budget is none.

    Example:
        >>> from agentctx import FitContextWindow, Pipeline
        >>> from agentctx.testing import assistant, transcript, user
        >>> turns = user("One?"), assistant("1. " * 500), user("Two?"), assistant("2."), user("Three?")
        >>> messages = transcript("openai-chat", *turns)
        >>> view = await Pipeline(FitContextWindow(), budget=200).prepare(messages)
        >>> [message["content"] for message in view.messages]
        ['One?', 'Two?', '2.', 'Three?']
    """

    budget: Budget | None = field(default=None, converter=_budget)
    when: ClassVar[When] = When.UNDER_PRESSURE

    def reserves(self, call: Call, /) -> int:
        """The room for the handle of a list of what was dropped, where the model can ask for it."""
        return room_for_handles(call)

    async def __call__(self, context: Context, call: Call, /) -> Context:
        """Return the context, cut so that it has at most the tokens to come down to."""
        limit, aim = self._limits(call)
        if call.size(context) <= aim:
            return context
        summed = None if call.summarizer is None else await _with_summary(context, limit, aim, call, call.summarizer)
        if summed is None:
            summed = await run_plain(partial(_cut, limit, aim), context, call)
        return await with_handles(summed, call)

    def _limits(self, call: Call) -> tuple[int, int]:
        """The hard limit and the size to come down to, in tokens."""
        own = self.budget
        if own is not None:
            return own.limit, own.limit if call.limit is None else min(own.limit, call.limit)
        if call.budget is None or call.limit is None:
            raise NoBudget(type(self).__name__, "budget")
        return call.budget.limit, call.limit


SHARE = 0.1
"""At most so much of what a cut comes down to is the summary."""


async def _with_summary(context: Context, limit: int, aim: int, call: Call, summarizer: Summarizer) -> Context | None:
    """The request cut to ``aim``, with one message that says in few words what went; None when there is none to say it.

    An earlier summary goes into the new one. Where there is no new one it stays, and the report says why.
    """
    known, most = call.internals.notes.copy(), int(SHARE * aim)
    left = await leave_out(partial(_cut, limit, aim - most), context, call)
    if left.is_known and sum(map(call.count, left.gone)) <= most:
        call.internals.notes.restore(known)
        return None
    room = min(most, limit - call.size(left.context))
    made, problem = await left.in_words(Asking(summarizer), room, FitContextWindow.__name__)
    if made is not None:
        return left.with_summary(made)
    call.internals.notes.restore(known)
    call.remark(f"no summary: {problem or 'the summarizer gave none'}")
    return None


def _cut(limit: int, aim: int, context: Context, call: Call) -> Context:
    """The context cut to ``aim`` tokens; it must not have more than ``limit``."""
    return cut(context, limit, aim, call)
