"""Ask what somebody else wrote, and say in any error whom was asked."""

from __future__ import annotations

from collections.abc import Awaitable
from inspect import isawaitable
from types import TracebackType
from typing import TypeVar

from agentctx.errors import StageError

T = TypeVar("T")


async def answered(name: str, answer: Awaitable[T]) -> T:
    """What comes of an answer that has to be awaited.

    Args:
        name: Who gave it, for the error.
        answer: The answer.

    Raises:
        StageError: If it cannot be awaited, because a plain function stands where an async one is needed.
    """
    if not isawaitable(answer):
        raise StageError(name, f"is not async: calling it gave {type(answer).__name__}, which cannot be awaited")
    return await answer


class Noting:
    """Adds a note to any error that passes through it."""

    __slots__ = ("note",)

    def __init__(self, note: str) -> None:
        """Remember the note."""
        self.note = note

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Add the note."""
        if isinstance(error, Exception):
            error.add_note(self.note)
