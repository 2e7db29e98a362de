"""Drop the reasoning that a change has cut off from the prefix it is bound to.

Source: the client rule of Anthropic's prefix checks (models with bound thinking, 2026): a thinking block is bound
to system prompt, tools and all earlier content; after an edit at one position every later block must go.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from agentctx.core.compare import match
from agentctx.core.message import Context, Message
from agentctx.core.parts import Part, Thinking
from agentctx.protocols import Call

WHY = "the reasoning was bound to a prefix that changed"


@frozen
class DropBoundThinking:
    """Drop every signed thinking block from one message on.

    Args:
        first: The index of the first message whose reasoning has lost its prefix.
        stop: The index of the first message whose reasoning is left to the provider to drop; None when there is none.
        remark: What to say about the step as a whole.
    """

    first: int
    stop: int | None = None
    remark: str = ""

    async def __call__(self, context: Context, call: Call, /) -> Context:
        """Return the context without reasoning that its provider would refuse."""
        if self.remark:
            call.remark(self.remark)
        stop = len(context.messages) if self.stop is None else max(self.first, self.stop)
        kept: list[Message] = list(context.messages[: self.first])
        for message in context.messages[self.first : stop]:
            bare = without_thinking(message)
            if bare is not message:
                call.note(message, WHY)
            if bare is not None:
                kept.append(bare)
        kept += context.messages[stop:]
        if len(kept) == len(context.messages) and all(a is b for a, b in zip(kept, context.messages, strict=True)):
            return context
        return context.with_messages(tuple(kept))


def first_unbound(before: Sequence[Message], after: Sequence[Message]) -> int | None:
    """The first place of ``after`` whose reasoning has lost its prefix; None when nothing has."""
    found = match(before, after)
    if found.first_changed is None or found.first_changed >= len(after):
        return None
    place = found.first_changed
    in_place = found.origins[place] == place and _reasons_first(after[place]) and _reasons_first(before[place])
    return place + 1 if in_place else place


def _reasons_first(message: Message) -> bool:
    """Whether all reasoning stands before everything else, so that an edit in the message comes after it."""
    kinds = [isinstance(part, Thinking) for part in message.parts]
    return kinds == sorted(kinds, reverse=True)


def without_thinking(message: Message) -> Message | None:
    """The message without signed reasoning; the same object when it has none, None when nothing is left."""
    parts: tuple[Part, ...] = tuple(part for part in message.parts if not (isinstance(part, Thinking) and part.signed))
    if len(parts) == len(message.parts):
        return message
    return message.with_parts(parts) if parts else None
