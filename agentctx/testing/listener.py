"""A listener that remembers."""

from __future__ import annotations

from attrs import define, field

from agentctx.core.event import Compaction


@define
class Recorder:
    """A listener that collects what it is told: pass it as ``on_compact``, then look at ``events``.

    Args:
        events: The events so far, in order.
    """

    events: list[Compaction] = field(factory=list)

    def __call__(self, event: Compaction) -> None:
        """Remember the event."""
        self.events.append(event)
