"""Keep the number of images within what the provider takes."""

from __future__ import annotations

from attrs import evolve, frozen

from agentctx.core.message import Context, Message
from agentctx.core.parts import Media, Part, Text, ToolResult
from agentctx.protocols import Call

LEFT_OUT = "[an image was left out]"


@frozen
class LimitImages:
    """Replace the oldest images by a short text until ``images`` are left; protected messages keep theirs.

    Args:
        images: The most images in one request.
    """

    images: int

    async def __call__(self, context: Context, call: Call, /) -> Context:
        """Return the context with no more images than the provider takes, as far as protection allows."""
        spare = sum(_count(message.parts) for message in context.messages) - self.images
        if spare <= 0:
            return context
        protected = call.protected(context)
        messages = list(context.messages)
        for index, message in enumerate(messages):
            found = _count(message.parts)
            if spare <= 0 or not found or index in protected:
                continue
            messages[index], gone = _without(message, spare)
            call.note(message, f"more than {self.images} images in the request: oldest first")
            spare -= gone
        return context.with_messages(tuple(messages))


def _count(parts: tuple[Part, ...]) -> int:
    return sum(
        _count(part.content) if isinstance(part, ToolResult) else isinstance(part, Media) and part.kind == "image"
        for part in parts
    )


def _without(message: Message, spare: int) -> tuple[Message, int]:
    parts, gone = _replaced(message.parts, spare)
    return message.with_parts(parts), gone


def _replaced(parts: tuple[Part, ...], spare: int) -> tuple[tuple[Part, ...], int]:
    """The parts with at most ``spare`` images replaced, and how many were."""
    out: list[Part] = []
    gone = 0
    for part in parts:
        if isinstance(part, ToolResult):
            content, more = _replaced(part.content, spare - gone)
            gone += more
            changed = evolve(part, content=content)
            out.append(changed if more else part)
        elif isinstance(part, Media) and part.kind == "image" and gone < spare:
            out.append(Text(LEFT_OUT))
            gone += 1
        else:
            out.append(part)
    return tuple(out), gone
