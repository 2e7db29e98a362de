"""The message that stands for what was left out of a request: how it is written, and known again.

It is the user's, and what it begins with tells it from words of the user's: the number of messages that it stands for,
and the checksum of all that it says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from zlib import crc32

from agentctx.core.message import Message, Text
from agentctx.lazy import lazy_pattern

OPENING = "[Summary of "
"""What it begins with."""

_SUMMARY = lazy_pattern(re.escape(OPENING) + r"(\d{1,9}) earlier messages, ([0-9a-f]{8})\]\n(.*)", re.DOTALL)


def summary(text: str, count: int) -> Message:
    """The message that says ``text`` in the place of ``count`` messages."""
    return Message("user", (Text(f"{OPENING}{count} earlier messages, {_sum(text)}]\n{text}"),))


def summary_count(message: Message) -> int:
    """How many messages this one stands for, when it is a summary of such; else 0."""
    first = message.parts[0] if message.role == "user" and len(message.parts) == 1 else None
    found = _SUMMARY.fullmatch(first.text) if isinstance(first, Text) else None
    return 0 if found is None or found[2] != _sum(found[3]) else int(found[1])


def summaries(messages: Sequence[Message], start: int = 0) -> list[int]:
    """The indexes of the summaries from ``start`` on: each stays until a stage that summarises puts another there."""
    return [index for index in range(start, len(messages)) if summary_count(messages[index])]


def _sum(text: str) -> str:
    return f"{crc32(text.encode(errors='surrogatepass')):08x}"
