"""The frozen fact that listeners are told."""

from __future__ import annotations

from attrs import frozen

from agentctx.core.compare import Change
from agentctx.core.report import StageReport


@frozen
class Compaction:
    """A request was changed on its way to the model.

    Args:
        stages: The stages that acted, with what each did and why.
        messages_before: Number of messages before.
        messages_after: Number of messages after.
        tokens_before: Size of the request before, in tokens.
        tokens_after: Size of the request after, in tokens.
        session: The session's id, or None for a stateless call.
        step: The number of the session's step, from 0; None for a stateless call.
    """

    stages: tuple[StageReport, ...]
    messages_before: int
    messages_after: int
    tokens_before: int
    tokens_after: int
    session: str | None = None
    step: int | None = None

    @property
    def changes(self) -> tuple[Change, ...]:
        """What was dropped, edited or added, stage by stage, and why."""
        return tuple(change for stage in self.stages for change in stage.changes)

    def __str__(self) -> str:
        """One line for a log."""
        acted = ", ".join(stage.stage for stage in self.stages)
        return (
            f"compaction by {acted}: {self.messages_before} -> {self.messages_after} messages, "
            f"{self.tokens_before:,} -> {self.tokens_after:,} tokens"
        )
