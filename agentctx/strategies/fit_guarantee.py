"""After the last stage: the request fits, exactly counted, or nothing is sent."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import field, frozen

from agentctx.core.compare import match
from agentctx.core.message import Context
from agentctx.errors import BigItem, ContextOverflow
from agentctx.offload import offload
from agentctx.protocols import Call
from agentctx.strategies.drop_oldest import drop_oldest
from agentctx.strategies.room import lay_out
from agentctx.strategies.shrink_arguments import shrink_arguments
from agentctx.strategies.shrink_results import shrink_results

NAMED = 5
"""How many of the biggest items an overflow names."""


@frozen
class FitGuarantee:
    """Make the request fit ``limit`` or raise.

    In this order: the results of what must stay are cut when they alone are too large; the oldest rounds go; what
    is left of results, and then of call arguments, is cut to what fits.

    Args:
        limit: The most tokens that the request may have.
        origins: For each message that it is given, the index by which the caller knows it, for the error; None for a
            message that a stage made. Without it: as they stand.
    """

    limit: int
    origins: Sequence[int | None] | None = field(default=None, eq=False, repr=False)

    async def __call__(self, context: Context, call: Call, /) -> Context:
        """Return the context, at most ``limit`` tokens.

        Raises:
            ContextOverflow: If what must stay is larger than the limit; names the biggest items.
        """
        size = call.size(context)
        if size <= self.limit:
            return context
        return await offload(lambda: self._fitted(context, call), len(context.messages), size)

    def _fitted(self, context: Context, call: Call) -> Context:
        given = context
        context = drop_oldest(context, self.limit, self.limit, call)
        why = f"over {self.limit:,} tokens"
        places = frozenset(range(len(context.messages))) - call.frozen(context)
        context = shrink_results(context, places, call.size(context) - self.limit, call, why)
        context = self._shrink_arguments(context, places - call.protected(context), call, why)
        size = call.size(context)
        if size > self.limit:
            raise ContextOverflow(size, self.limit, biggest(context, call, known_as(given, context, self.origins)))
        return context

    def _shrink_arguments(self, context: Context, places: frozenset[int], call: Call, why: str) -> Context:
        """Cut call arguments until they fit or hold nothing more; JSON's own escapes make one pass miss a little."""
        while (spare := call.size(context) - self.limit) > 0:
            shorter = shrink_arguments(context, places, spare, call, why)
            if call.size(shorter) >= call.size(context):
                return context
            context = shorter
        return context


def known_as(given: Context, context: Context, origins: Sequence[int | None] | None) -> Sequence[int | None]:
    """For each message of ``context``, the index by which the caller knows it.

    Args:
        given: What ``context`` was made from.
        context: The messages.
        origins: The indexes of the messages of ``given``; None when they are as they stand.
    """
    found = match(given.messages, context.messages).origins
    return found if origins is None else [None if place is None else origins[place] for place in found]


def biggest(context: Context, call: Call, origins: Sequence[int | None]) -> list[BigItem]:
    """The biggest items of what must stay, largest first, at most ``NAMED``, by the caller's indexes."""
    staying = lay_out(context, call).staying
    items = [
        BigItem((_place(origins[index]), context.messages[index].role, call.count(context.messages[index])))
        for index in staying
    ]
    if fixed := call.meter.fixed(context):
        items.append(BigItem(("system, tools", "fixed", fixed)))
    return sorted(items, key=lambda item: -item.tokens)[:NAMED]


def _place(origin: int | None) -> str:
    return "a message that a stage made" if origin is None else f"messages[{origin}]"
