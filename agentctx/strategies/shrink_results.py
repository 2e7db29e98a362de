"""Cut the largest tool results alike, so that together they give up a number of tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentctx.core.message import Context
from agentctx.core.parts import Text, ToolResult
from agentctx.protocols import Call
from agentctx.strategies.cut_text import Cut, cut_to_tokens
from agentctx.strategies.edit_results import edit_results, with_text

SMALLEST = 24
"""Tokens; below this a cut result says nothing but that it was cut."""


def water_level(sizes: Sequence[int], spare: int) -> int:
    """The largest cap for which ``sum(max(0, size - cap))`` is at least ``spare``; 0 when no cap frees so much."""
    freed, previous = 0, 0
    ordered = sorted(sizes, reverse=True)
    for taller, size in enumerate([*ordered[1:], 0], start=1):
        previous = ordered[taller - 1]
        step = (previous - size) * taller
        if freed + step >= spare:
            return previous - -(-(spare - freed) // taller)
        freed += step
    return 0


def shrink_results(context: Context, places: Iterable[int], spare: int, call: Call, why: str) -> Context:
    """Cut the texts of the results in ``places`` to one cap, so that the request loses at least ``spare`` tokens.

    Loses fewer when the results do not hold so much: nothing is cut below ``SMALLEST`` tokens.
    """
    places = sorted(places)
    sizes = [
        call.meter.parts((Text(part.text),))
        for index in places
        for part in context.messages[index].results
        if part.text
    ]
    if not sizes or spare <= 0:
        return context
    return _cap(context, places, max(SMALLEST, water_level(sizes, spare)), call, why)


def _cap(context: Context, places: Sequence[int], cap: int, call: Call, why: str) -> Context:
    def cut(result: ToolResult) -> ToolResult:
        text = result.text
        shorter = cut_to_tokens(text, cap, call.counter, Cut())
        return result if shorter == text else with_text(result, shorter)

    messages = list(context.messages)
    changed = False
    for index in places:
        shorter = edit_results(messages[index], cut)
        if shorter is not messages[index]:
            call.note(messages[index], f"{why}: results cut to {cap:,} tokens")
            messages[index] = shorter
            changed = True
    return context.with_messages(tuple(messages)) if changed else context
