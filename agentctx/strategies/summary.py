"""What stands for the rounds that a cut leaves out: the summarizer's words, behind the first task."""

from __future__ import annotations

from collections.abc import Sequence

from agentctx.core.compare import Outcome, match
from agentctx.core.message import Context, Message
from agentctx.core.parts import Text
from agentctx.core.protection import SUMMARY, first_task, summed_up
from agentctx.protocols import Call, Summarizer
from agentctx.tiers.answering import answered
from agentctx.tiers.summarize import fitted_summary

SHARE = 0.1
"""At most so much of what a cut comes down to is the summary."""


async def sum_up(before: Context, after: Context, most: int, call: Call, summarizer: Summarizer) -> Context:
    """Let one message say in few words what a cut has left out; an earlier summary in it is replaced.

    Where the summarizer fails, or says nothing, what was left out stays so without one, and the report says why.

    Args:
        before: The request before the cut.
        after: The request after it.
        most: The most tokens of the summary.
        call: What the stage is told.
        summarizer: Writes the summary.
    """
    gone = [before.messages[index] for index in match(before.messages, after.messages).dropped]
    if not gone:
        return after
    heading = SUMMARY.replace("{count}", str(sum(summed_up(message) or 1 for message in gone)))
    left = most - call.count(Message("user", (Text(heading),)))
    text = await _asked(gone, left, call, summarizer) if left > 0 else ""
    summary = fitted_summary("user", heading, text, most, call.meter)
    if summary is None:
        call.remark("no summary: " + ("there is no room for one" if left <= 0 else "the summarizer gave none"))
        return after
    for message in gone:
        call.note(message, "in the summary", Outcome.SUMMARISED)
    call.note(summary, f"stands for {len(gone)} messages that were left out")
    place = _behind_the_task(after.messages)
    return after.with_messages((*after.messages[:place], summary, *after.messages[place:]))


async def _asked(gone: Sequence[Message], tokens: int, call: Call, summarizer: Summarizer) -> str:
    """The summarizer's words; none when it fails, as that of a listener its failure costs nothing that was there."""
    try:
        text: object = await answered("the summarizer", summarizer(gone, tokens))
    except Exception as error:  # noqa: BLE001 - user code, whatever it raises
        call.remark(f"the summarizer raised {type(error).__name__}: {error}")
        return ""
    if not isinstance(text, str):
        call.remark(f"the summarizer returned {type(text).__name__} instead of text")
        return ""
    return text


def _behind_the_task(messages: Sequence[Message]) -> int:
    """Where the summary stands: behind the first task; without one, behind the system messages that lead."""
    for place in first_task(messages):
        return place + 1
    return next((place for place, message in enumerate(messages) if not message.is_system), len(messages))
