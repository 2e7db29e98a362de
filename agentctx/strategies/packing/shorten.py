"""Old tool results cut short, so that more of them can stay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agentctx.core.message import Context, Message
from agentctx.core.parts import ToolResult
from agentctx.protocols import Call
from agentctx.strategies.cut_text import Cut, cut_to_tokens
from agentctx.strategies.edit_results import edit_results, with_text
from agentctx.strategies.packing.load import Load
from agentctx.strategies.packing.scoring import recency_score

SHORT = 200
"""The tokens that an old tool result is cut to."""

OLD = 0.7
"""Units of this recency or less are old: all but about the last eighth."""


def shortened(context: Context, load: Load, call: Call) -> dict[int, tuple[Message, ...]]:
    """The messages of old units whose results were too long, with these cut; by the unit's index in the load."""
    found: dict[int, tuple[Message, ...]] = {}
    for index, (unit, place) in enumerate(zip(load.units, load.places, strict=True)):
        if index in load.recent or recency_score(place, load.total) > OLD:
            continue
        before = unit.of(context.messages)
        after = tuple(_short(message, call) for message in before)
        if any(new is not old for new, old in zip(after, before, strict=True)):
            found[index] = after
    return found


def _short(message: Message, call: Call) -> Message:
    def cut(result: ToolResult) -> ToolResult:
        text = result.text
        shorter = cut_to_tokens(text, SHORT, call.counter, Cut())
        return result if shorter == text else with_text(result, shorter)

    return edit_results(message, cut)


def still_short(
    short: Mapping[int, tuple[Message, ...]], chosen: Sequence[int], growths: Mapping[int, int], spare: int
) -> Iterable[int]:
    """Which of the chosen units must stay short: those for which there is not room in full, the latest asked first.

    Args:
        short: The units that were cut.
        chosen: The units to keep, rising.
        growths: How many tokens more each of the short units has in full.
        spare: Tokens that are left.
    """
    for index in reversed(chosen):
        if index in short:
            if growths[index] <= spare:
                spare -= growths[index]
            else:
                yield index
