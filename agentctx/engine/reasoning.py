"""Reasoning that is bound to a prefix: dropped when that changed."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from agentctx.changes import match
from agentctx.engine.run_stages import Trail, run_stage
from agentctx.formats.native import mapping_or_none
from agentctx.message import KEYS, Context, Message, Thinking
from agentctx.models.table import shares_reasoning
from agentctx.protocols import Call, Stage
from agentctx.unit import FOREIGN_REASONING, open_round, signed

WHY = "the reasoning was bound to a prefix that changed"


@frozen(eq=False, repr=False)
class DropBoundThinking(Stage):
    """Drop every signed thinking block from one message on.

    Args:
        first: The index of the first message whose reasoning has lost its prefix.
    """

    first: int

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context without reasoning that its provider would refuse."""
        kept: list[Message] = list(context.messages[: self.first])
        for message in context.messages[self.first :]:
            bare = [part for part in message.parts if not (isinstance(part, Thinking) and part.signed)]
            if len(bare) == len(message.parts):
                kept.append(message)
                continue
            call.note(message, WHY)
            if bare:
                kept.append(message.with_parts(tuple(bare)))
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


async def settle_reasoning(trail: Trail, call: Call, before: Context) -> None:
    """Drop the reasoning that has lost its prefix.

    Args:
        trail: Where the step stands; brought up to date.
        call: What the stages are told.
        before: The request as it was when the reasoning was made.
    """
    if call.profile is None or not call.profile.bound_thinking:
        return
    first = _first(trail, before)
    if first is None:
        return
    messages = trail.context.messages
    lost_open = any(signed(message) for message in messages[max(first, open_round(messages)) :])
    await run_stage(DropBoundThinking(first), trail, call, by="fit", trusted=True)
    trail.unbound_from = None
    trail.lost_open = trail.lost_open or lost_open


def _first(trail: Trail, before: Context) -> int | None:
    """The first place whose reasoning has lost its prefix, now or at an earlier step; None when none has."""
    after = trail.context
    if head_of(before) != head_of(after):
        return 0
    now = first_unbound(before.messages, after.messages) if trail.reports else None
    places = [place for place in (now, trail.unbound_from) if place is not None]
    return min(places, default=None)


def head_of(context: Context) -> tuple[object, ...]:
    """What stands before all messages: the system prompt, and the tools that are not loaded later."""
    natives = [mapping_or_none(tool.source) or {"tool": tool} for tool in context.tools]
    at_once = [native for native in natives if native.get("defer_loading") is not True]
    return context.system, [{key: native[key] for key in native if key not in KEYS} for native in at_once]


FOREIGN_ID = f"its id is tied to reasoning, and {FOREIGN_REASONING}"


def understands(model: str | None, other: str | None) -> bool:
    """Whether a model takes the reasoning of another; of a model that is not named, nothing is known against it."""
    return model is None or other is None or model == other or shares_reasoning(model, other)


@frozen(eq=False, repr=False)
class DropForeignReasoning:
    """Leave out the reasoning of messages from before the model was changed.

    Args:
        origins: For each message, its index in the history.
        until: The first index in the history that the current model may have made.
    """

    origins: Sequence[int]
    until: int

    def __call__(self, context: Context, call: Call, /) -> Context:
        """Return the context without it."""
        wire = call.wire
        if wire is None:
            return context
        kept: list[Message] = []
        for message, origin in zip(context.messages, self.origins, strict=True):
            bare = wire.without_reasoning(message) if origin < self.until else message
            if bare is not message:
                by_id_only = bare is not None and bare.given is not None
                call.note(message, FOREIGN_ID if by_id_only else FOREIGN_REASONING)
            if bare is not None:
                kept.append(bare)
        same = len(kept) == len(context.messages) and all(map(_is, kept, context.messages))
        return context if same else context.with_messages(tuple(kept))


def _is(one: Message, other: Message) -> bool:
    return one is other
