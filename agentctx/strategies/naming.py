"""What a stage is called, in reports and in errors."""

from __future__ import annotations

from types import TracebackType

from agentctx.protocols import ContextStrategy


def name_of(stage: ContextStrategy) -> str:
    """What a stage is called in reports and errors."""
    name = getattr(stage, "name", None) or getattr(stage, "__name__", None)
    return name if isinstance(name, str) else type(stage).__name__


class Naming:
    """Says in any error that passes through it which stage was running."""

    __slots__ = ("stage",)

    def __init__(self, stage: str) -> None:
        """Remember the stage's name."""
        self.stage = stage

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Add the note."""
        if isinstance(error, Exception) and not getattr(error, "__notes__", None):
            error.add_note(f"while stage {self.stage} was running; nothing was sent and nothing was changed")
