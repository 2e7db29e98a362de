"""After the last stage: the request fits, exactly counted, or nothing is sent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from attrs import evolve, frozen

from agentctx.core.compare import match
from agentctx.core.message import Context, Media, Message, Native, Part, Text, ToolResult
from agentctx.engine.cut import cut
from agentctx.engine.drop import lay_out
from agentctx.engine.reading import place_of, write_native
from agentctx.engine.recap import counted, giving_way, line_for
from agentctx.engine.shrink import shrink_arguments, shrink_results
from agentctx.errors import BigItem, ContextOverflow
from agentctx.protocols import Call, Stage, whole_text
from agentctx.tokens.carried import base64_of

FOR_THE_RECAP = 4
"""At most this part of the room that a cut has is left free for the recap."""

NAMED = 5
"""How many of the biggest items an overflow names."""


@frozen(eq=False, repr=False)
class FitGuarantee(Stage):
    """Make the request fit ``limit`` or raise.

    In this order: the results of what must stay are cut when they alone are too large; the request is cut in the order
    of ``engine/cut.py``, and the recap counts what went; what is left of results, and then of call arguments, is cut to
    what fits; last of all the recap gives way.

    Args:
        limit: The most tokens that the request may have.
        origins: For each message that it is given, the index by which the caller knows it, for the error; None for a
            message that a stage made. Without it: as they stand.
    """

    limit: int
    origins: Sequence[int | None] | None = None
    recaps: ClassVar[bool] = True

    def effort(self, context: Context, call: Call, /) -> Iterable[int]:
        """None for a request that fits."""
        return () if call.size(context) <= self.limit else whole_text(context, call)

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context, at most ``limit`` tokens.

        Raises:
            ContextOverflow: If what must stay is larger than the limit; names the biggest items.
        """
        if call.size(context) <= self.limit:
            return context
        given = context
        free = min(call.reserved, max(0, self.limit - call.floor(context)) // FOR_THE_RECAP)
        context = counted(cut(context, self.limit, self.limit, evolve(call, reserved=free)), call)
        why = f"over {self.limit:,} tokens"
        places = frozenset(range(len(context.messages))) - call.frozen(context)
        limit = self.limit if call.size(context) <= self.limit else self.limit - line_for(context, call)
        context = shrink_results(context, places, call.size(context) - limit, call, why)
        context = _shrink_arguments(context, limit, places - call.protected(context), call, why)
        context = giving_way(context, self.limit, call)
        size = call.size(context)
        if size > self.limit:
            raise ContextOverflow(size, self.limit, biggest(context, call, known_as(given, context, self.origins)))
        return context


def _shrink_arguments(context: Context, limit: int, places: frozenset[int], call: Call, why: str) -> Context:
    """Cut call arguments until they fit or hold nothing more; JSON's own escapes make one pass miss a little."""
    while (spare := call.size(context) - limit) > 0:
        shorter = shrink_arguments(context, places, spare, call, why)
        if call.size(shorter) >= call.size(context):
            return context
        context = shorter
    return context


@frozen(eq=False, repr=False)
class RecapCounts(Stage):
    """Let a recap that stands in the request count all that is gone, whichever stage has left it out."""

    recaps: ClassVar[bool] = True
    name: ClassVar[str] = "Recap"

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context with other numbers in its recap, as it is where these are true."""
        return counted(context, call)


@frozen(eq=False, repr=False)
class RecapGivesWay(Stage):
    """Let the recap get shorter until the request fits, or go.

    Args:
        limit: The most tokens that the request may have.
    """

    limit: int
    recaps: ClassVar[bool] = True
    name: ClassVar[str] = "FitGuarantee"

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context, at most ``limit`` tokens where it is without a recap."""
        return giving_way(context, self.limit, call)


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


STEP = 0.9
"""Each try aims at this share of the tokens that would fit if all tokens had the same size."""


@frozen(eq=False, repr=False)
class FitRequestBytes(Stage):
    """Leave out as much as it takes for the body to have at most ``request_bytes`` bytes.

    Args:
        request_bytes: The largest body, in bytes.
        origins: See ``FitGuarantee``.
    """

    request_bytes: int
    origins: Sequence[int | None] | None = None
    recaps: ClassVar[bool] = True

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context, small enough.

        Raises:
            ContextOverflow: If what must stay is larger.
        """
        given = context
        while (size := body_bytes(context, call)) > self.request_bytes:
            tokens = call.size(context)
            aim = min(tokens - 1, int(tokens * self.request_bytes / size * STEP))
            known = known_as(given, context, self.origins)
            if aim < 1:
                raise ContextOverflow(tokens, 0, biggest(context, call, known))
            context = FitGuarantee(aim, known).apply(context, call)
        return context


def body_bytes(context: Context, call: Call) -> int:
    """The size of the request as JSON, in bytes: messages, system prompt and tools as they are sent."""
    wire = call.wire
    if wire is None:
        return call.meter.bytes(context)
    natives: list[Any] = [write_native(wire, each, place_of(None, at)) for at, each in enumerate(context.messages)]
    natives += [tool.source for tool in context.tools]
    if context.system is not None:
        natives.append(context.system.source)
    return len(json.dumps(natives, default=_plain).encode("utf-8", "surrogatepass"))


def _plain(value: object) -> Native:
    """What a client sends: an SDK's object as its fields; bytes, and what a file or a stream holds, as base64."""
    if (dump := getattr(value, "model_dump", None)) is not None:
        return dump(mode="json", exclude_unset=True)
    return base64_of(value) or str(value)


LEFT_OUT = "[an image was left out]"


@frozen(eq=False, repr=False)
class LimitImages(Stage):
    """Replace the oldest images by a short text until ``images`` are left; protected messages keep theirs.

    Args:
        images: The most images in one request.
    """

    images: int

    def apply(self, context: Context, call: Call, /) -> Context:
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
