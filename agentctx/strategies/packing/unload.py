"""The transcript with the chosen units in it, and what the report says of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from agentctx.core.message import Context, Message
from agentctx.core.protection import first_task
from agentctx.core.units import units
from agentctx.protocols import Call
from agentctx.strategies.packing.dropped import dropped_line, is_note
from agentctx.strategies.packing.load import Load


@frozen
class Packed:
    """What was decided.

    Args:
        load: What there was to choose from.
        chosen: The units to keep, as rising indexes into the load's.
        short: New messages of chosen units that are cut short, by the same index.
        note: A message that says what was left out, if there shall be one.
    """

    load: Load
    chosen: tuple[int, ...]
    short: Mapping[int, tuple[Message, ...]]
    note: Message | None = None

    @property
    def is_whole(self) -> bool:
        """Whether nothing changes."""
        return len(self.chosen) == len(self.load.units) and not self.short


def left_out(context: Context, load: Load, chosen: Sequence[int]) -> list[Message]:
    """The messages of the units that were not chosen, but for notes of what was left out before."""
    kept = frozenset(chosen)
    gone = (unit for index, unit in enumerate(load.units) if index not in kept)
    return [message for unit in gone for message in unit.of(context.messages) if not is_note(message)]


def unload(context: Context, packed: Packed, call: Call, why: str) -> Context:
    """The context with the chosen units, and reasons in the report for all that changed."""
    messages: list[Message | None] = list(context.messages)
    chosen = frozenset(packed.chosen)
    for index, unit in enumerate(packed.load.units):
        if index not in chosen:
            for place in range(unit.start, unit.stop):
                call.note(context.messages[place], why)
                messages[place] = None
    for index, made in packed.short.items():
        for place, message in enumerate(made, packed.load.units[index].start):
            if message is not messages[place]:
                call.note(context.messages[place], "old tool result cut short, so that more units fit")
                messages[place] = message
    return context.with_messages(_with_note(context, messages, packed.note, call))


def _with_note(
    context: Context, messages: Sequence[Message | None], note: Message | None, call: Call
) -> tuple[Message, ...]:
    if note is None:
        return tuple(message for message in messages if message is not None)
    place = _place(context, messages)
    call.note(note, "says what was left out")
    before, after = messages[:place], messages[place:]
    return tuple(message for message in (*before, note, *after) if message is not None)


def _place(context: Context, messages: Sequence[Message | None]) -> int:
    """Where the note goes: after the first task, where the user speaks anyway; else where the first unit is missing."""
    task = first_task(context.messages)
    if not task:
        return messages.index(None)
    return next(unit.stop for unit in units(context.messages) if unit.stop > task[0])


def told(context: Context, packed: Packed, strategy: str, tokens: int) -> list[str]:
    """What is said of it in the report: how much stays, and what was left out."""
    load = packed.load
    kept, free = len(packed.chosen), len(load.units)
    stayed = load.total - free
    stay = f"({stayed:,} had to stay, {len(load.recent):,} recent)"
    filled = f"{tokens:,} of {load.aim:,} tokens, {100 * tokens / load.aim:.1f}%"
    lines = [f"kept {stayed + kept:,} of {load.total:,} units {stay}; {filled}; {strategy}"]
    line = dropped_line(left_out(context, load, packed.chosen))
    return [*lines, line] if line else lines
