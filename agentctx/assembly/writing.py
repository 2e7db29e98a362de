"""Values as a provider's own request, with the system prompt where its format wants it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from agentctx.assembly.cache_marks import SYSTEM, CachePoint, mark
from agentctx.core.message import SYSTEM_ROLES, Context, Message, Tool
from agentctx.protocols import WireFormat
from agentctx.tiers.block import own_copy


def as_context(messages: Sequence[Message], tools: tuple[Tool, ...], wire: WireFormat) -> Context:
    """The request; its leading system messages become the system prompt where the format keeps that apart.

    The Responses format has ``instructions``, and takes system messages among its items as well: there they stay.
    """
    count = 0
    if wire.system_apart and wire.name != "openai-responses":
        count = next((n for n, message in enumerate(messages) if message.role not in SYSTEM_ROLES), len(messages))
    if count == 0:
        return Context(tuple(messages), None, tools)
    parts = tuple(part for message in messages[:count] for part in message.parts)
    return Context(tuple(messages[count:]), Message("system", parts), tools)


def written(context: Context, points: Iterable[CachePoint], wire: WireFormat) -> tuple[Any, list[Any]]:
    """System prompt and messages as the format writes them, with cache marks; they share nothing with the blocks."""
    system = own_copy(_native_system(context.system, wire))
    natives = [own_copy(wire.write_message(message)) for message in context.messages]
    for point in points:
        if point.place == SYSTEM:
            system = mark(system, point, wire.name)
        else:
            natives[point.place] = mark(natives[point.place], point, wire.name)
    return system, natives


def _native_system(system: Message | None, wire: WireFormat) -> Any:  # noqa: ANN401 - any provider's system prompt
    """The system prompt as its format writes it; None when there is none."""
    if system is None:
        return None
    native = wire.write_message(Message("user", system.parts))
    return {"parts": native["parts"]} if "parts" in native else native["content"]
