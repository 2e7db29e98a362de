"""Which messages may stand where, by the model that is called through Converse.

Source: recorded errors, as of ``rules`` and ``rules_tools``: models other than Claude and Qwen want the user to begin,
and some take no words beside the results of tools.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from agentctx.core.marker import is_marker
from agentctx.core.message import Message
from agentctx.core.parts import Text, ToolResult
from agentctx.core.profile import ModelProfile
from agentctx.core.protection import NOT_SHOWN
from agentctx.wire.translate.turns import HEARD

TAKES_ASSISTANT_FIRST = re.compile(r"claude|qwen")
"""Families that take a conversation which the assistant begins."""

REFUSES_MIXED = re.compile(r"mi[sx]tral|magistral|llama|command|jamba")
"""Families that refuse results and words in one message."""

OPENED = "the model wants the user to begin"
PARTED = "the model takes no words beside the results of tools"


def arrange_for(
    messages: Sequence[Message],
    profile: ModelProfile | None,
    note: Callable[[Message, str], None],
    after: Message | None = None,
) -> Sequence[Message]:
    """The messages as the model takes them one after the other; the same object when it takes them as they are.

    Args:
        messages: Messages whose pairs are whole.
        profile: The model's profile; None when it is not known: then they stay.
        note: Told of each message that is made or changed, and why.
        after: The message before them; None at the start of the conversation.
    """
    family = "" if profile is None else profile.family.lower()
    opened = after is None and messages and messages[0].role == "assistant" and family
    arranged = list(messages)
    if REFUSES_MIXED.search(family):
        several = [place for place, message in enumerate(messages) if len(message.parts) > 1]
        for place in reversed(several):
            arranged[place : place + 1] = _parted(messages[place], note)
    if opened and not TAKES_ASSISTANT_FIRST.search(family):
        arranged.insert(0, _noted(Message("user", (Text(NOT_SHOWN),)), OPENED, note))
    return messages if len(arranged) == len(messages) else arranged


def _parted(message: Message, note: Callable[[Message, str], None]) -> Sequence[Message]:
    """Results in one message, and the user's words in the next one, with a word of the model between them."""
    last = max((place for place, part in enumerate(message.parts) if isinstance(part, ToolResult)), default=-1)
    stop = next((place for place in range(last + 1, len(message.parts)) if not is_marker(message.parts[place])), None)
    if last < 0 or stop is None or message.role == "assistant":
        return (message,)
    note(message, PARTED)
    results = _noted(Message("user", message.parts[:stop]), PARTED, note)
    return results, _noted(Message("assistant", (Text(HEARD),)), PARTED, note), message.with_parts(message.parts[stop:])


def _noted(message: Message, why: str, note: Callable[[Message, str], None]) -> Message:
    note(message, why)
    return message
