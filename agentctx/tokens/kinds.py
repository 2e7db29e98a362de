"""What a request consists of: tokens by kind of content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import define, field

from agentctx.core.changes import shared
from agentctx.core.message import Context, Message, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.core.recap import is_recap
from agentctx.protocols import Meter

KINDS = ("system", "tools", "recap", "user", "assistant", "reasoning", "calls", "results", "other", "framing")
"""Every kind, in the order in which a picture stacks them, from below; the last is what a request costs by itself."""

_OF_PARTS: Mapping[type, str] = {Thinking: "reasoning", ToolCall: "calls", ToolResult: "results"}


def kind_of(part: Part, message: Message) -> str:
    """The kind of one part of a message."""
    if is_recap(message):
        return "recap"
    if message.is_system:
        return "system"
    if isinstance(part, Text):
        return "assistant" if message.role == "assistant" else "user"
    return _OF_PARTS.get(type(part), "other")


def tokens_by_kind(message: Message, meter: Meter) -> dict[str, int]:
    """Tokens of a message by kind; they add up to what the message costs.

    What the message itself costs beside its parts belongs to the first of them.
    """
    whole = meter.message(message)
    if not message.parts:
        return {"assistant" if message.role == "assistant" else "user": whole}
    kinds = [kind_of(part, message) for part in message.parts]
    if len(set(kinds)) == 1:
        return {kinds[0]: whole}
    found: dict[str, int] = {kinds[0]: 0}
    for kind, part in zip(kinds[1:], message.parts[1:], strict=True):
        found[kind] = found.get(kind, 0) + meter.parts((part,))
    found[kinds[0]] += whole - sum(found.values())
    return found


def main_kind(message: Message, meter: Meter) -> str:
    """The kind that most of a message is of."""
    found = tokens_by_kind(message, meter)
    return max(found, key=lambda kind: found[kind])


def tokens_of_head(context: Context, meter: Meter) -> dict[str, int]:
    """Tokens of what stands before the messages: the system prompt where it is kept apart, and the tools.

    What a request costs by itself belongs to the system prompt; without one it is framing.
    """
    whole = meter.fixed(context)
    first = "framing" if context.system is None else "system"
    system = meter.fixed(Context((), context.system, ()))
    return {first: system, "tools": whole - system} if context.tools else {first: whole}


@define
class KindSizes:
    """Tokens of requests by kind; what a request shares with the one before is not looked at again.

    Args:
        meter: Counts messages.
    """

    meter: Meter
    _messages: Sequence[Message] = field(factory=tuple, init=False)
    _sums: list[tuple[int, ...]] = field(factory=list, init=False)

    def of(self, context: Context) -> tuple[int, ...]:
        """Tokens of a request by kind, in the order of ``KINDS``."""
        messages = context.messages
        same = shared(self._messages, messages)
        del self._sums[same:]
        for message in messages[same:]:
            found = tokens_by_kind(message, self.meter)
            before = self._sums[-1] if self._sums else (0,) * len(KINDS)
            self._sums.append(tuple(sum_ + found.get(kind, 0) for sum_, kind in zip(before, KINDS, strict=True)))
        self._messages = messages
        head = tokens_of_head(context, self.meter)
        whole = self._sums[-1] if self._sums else (0,) * len(KINDS)
        return tuple(sum_ + head.get(kind, 0) for sum_, kind in zip(whole, KINDS, strict=True))
