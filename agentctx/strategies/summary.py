"""What stands for the rounds that a cut leaves out: the summarizer's words, behind the first task."""

from __future__ import annotations

from collections.abc import Sequence

from agentctx.core.compare import Outcome, match
from agentctx.core.message import Context, Message
from agentctx.core.protection import first_task, summary, summed_up
from agentctx.protocols import Call, Summarizer
from agentctx.tiers.answering import answered
from agentctx.tiers.summarize import fitted

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
