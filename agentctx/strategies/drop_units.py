"""Drop whole units, so that no pair can break."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentctx.core.message import Context
from agentctx.core.pace import paced
from agentctx.core.units import Unit
from agentctx.protocols import Call


def droppable(groups: Sequence[Unit], protected: frozenset[int]) -> list[Unit]:
    """The units in which nothing is protected."""
    return [unit for unit in paced(groups) if protected.isdisjoint(range(unit.start, unit.stop))]


def without(context: Context, groups: Iterable[Unit], call: Call, why: str) -> Context:
    """The context without these units; the same object when there are none."""
    gone: set[int] = set()
    for unit in groups:
        gone.update(range(unit.start, unit.stop))
    if not gone:
        return context
    for index in paced(gone):
        call.note(context.messages[index], why)
    kept = tuple(message for index, message in enumerate(context.messages) if index not in gone)
    return context.with_messages(kept)
