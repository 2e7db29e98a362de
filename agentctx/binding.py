"""After an edit, on a model that binds its reasoning to all that stands before it: send none that is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentctx.core.message import Context
from agentctx.core.reasoning import open_round, signed
from agentctx.protocols import Call
from agentctx.runner import Trail, run_stage
from agentctx.strategies.drop_bound_thinking import DropBoundThinking, first_unbound
from agentctx.wire.drop_block import DROP_BLOCK
from agentctx.wire.native import mapping_or_none

LEFT = "the reasoning of the open tool round stays: the provider is asked to drop what it cannot take (View.options)"


async def settle_reasoning(trail: Trail, call: Call, before: Context) -> None:
    """Drop the reasoning that has lost its prefix, or leave that of the open round to the provider.

    Args:
        trail: Where the step stands; brought up to date.
        call: What the stages are told; says what the caller wants.
        before: The request as it was when the reasoning was made.
    """
    if call.profile is None or not call.profile.bound_thinking:
        return
    first = _first(trail, before)
    if first is None:
        return
    messages = trail.context.messages
    opened = open_round(messages)
    at_stake = any(signed(message) for message in messages[max(first, opened) :])
    leave = at_stake and call.thinking == "drop_block" and call.format in DROP_BLOCK
    remark = LEFT if leave and trail.unbound_from is None else ""
    await run_stage(DropBoundThinking(first, opened if leave else None, remark), trail, call, trusted=True)
    trail.unbound_from = first if leave else None
    trail.lost_open = trail.lost_open or (at_stake and not leave)


def options_of(trail: Trail, call: Call) -> Mapping[str, Any]:
    """What the request must hold besides, for the provider to take it."""
    return {} if trail.unbound_from is None else DROP_BLOCK.get(call.format, {})


def _first(trail: Trail, before: Context) -> int | None:
    """The first place whose reasoning has lost its prefix, now or at an earlier step; None when none has."""
    after = trail.context
    if opening(before) != opening(after):
        return 0
    now = first_unbound(before.messages, after.messages) if trail.reports else None
    places = [place for place in (now, trail.unbound_from) if place is not None]
    return min(places, default=None)


def opening(context: Context) -> tuple[object, ...]:
    """What stands before all messages: the system prompt, and the tools that are not loaded later."""
    natives = [mapping_or_none(tool.source) or {"tool": tool} for tool in context.tools]
    at_once = [native for native in natives if native.get("defer_loading") is not True]
    return context.system, [{key: native[key] for key in native if key != "cache_control"} for native in at_once]
