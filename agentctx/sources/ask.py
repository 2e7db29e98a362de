"""Ask one provider, so that it costs nobody else anything."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

import anyio
from anyio import CapacityLimiter
from attrs import define, field

from agentctx.core.item import ContextItem
from agentctx.errors import SourceError
from agentctx.protocols import ContextProvider
from agentctx.sources.gathered import Fared
from agentctx.sources.left_behind import call_in_thread
from agentctx.sources.secrets import redact_secrets


@define
class Answer:
    """What one provider answered.

    Args:
        provider: The provider.
        name: What it is called.
        description: What it brings, in its own words.
        max_tokens: How much it may bring, in tokens; None when it does not say.
        items: What it found.
        outcome: How it fared.
        problem: What went wrong.
        seconds: How long it took.
    """

    provider: ContextProvider
    name: str = field(init=False)
    description: str = ""
    max_tokens: int | None = None
    items: tuple[ContextItem, ...] = ()
    outcome: Fared = Fared.LATE
    problem: str = ""
    seconds: float = 0.0

    def __attrs_post_init__(self) -> None:
        """Name it after its kind until it is asked."""
        self.name = type(self.provider).__name__

    async def ask(
        self, query: str, deadline: float | None, on: tuple[type[Exception], ...], threads: CapacityLimiter
    ) -> None:
        """Ask the provider, for as long as the deadline lets it; its errors are told, not raised."""
        started = anyio.current_time()
        try:
            self._introduce()
            with anyio.move_on_after(deadline):
                self.items = checked(self.name, await answer_of(self.provider, query, threads=threads))
                self.outcome = Fared.FINE
            if self.outcome is Fared.LATE:
                self.problem = f"did not answer within {deadline:g} seconds"
        except on as error:
            self.outcome = Fared.FAILED
            self.problem = redact_secrets(f"{type(error).__name__}: {error}", "error.log")
        self.seconds = anyio.current_time() - started

    def _introduce(self) -> None:
        """Find out what the provider is called, what it brings, and how much.

        Raises:
            SourceError: If what it says of itself makes no sense.
        """
        name = getattr(self.provider, "name", None) or getattr(self.provider, "__name__", None)
        self.name = name if isinstance(name, str) else self.name
        self.description = str(getattr(self.provider, "description", ""))
        room = getattr(self.provider, "max_tokens", None)
        if room is not None and (isinstance(room, bool) or not isinstance(room, int)):
            raise SourceError(self.name, f"max_tokens: expected a whole number of tokens, got {room!r:.80}")
        self.max_tokens = room


async def answer_of(function: Callable[..., object], *arguments: str, threads: CapacityLimiter) -> object:
    """What a function returns; one that is not async runs in a thread, which is left behind when it is late."""
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        found = function(*arguments)
    else:
        found = await call_in_thread(function, *arguments, threads=threads)
    return await found if inspect.isawaitable(found) else found


def checked(name: str, found: object) -> tuple[ContextItem, ...]:
    """What a provider returned, its items named after it.

    Raises:
        SourceError: If it is not a list of items.
    """
    if found is None:
        return ()
    if not isinstance(found, Sequence) or not all(isinstance(item, ContextItem) for item in found):
        raise SourceError(name, f"returned {type(found).__name__} {found!r:.80} instead of a list of ContextItem")
    return tuple(item.found_by(name) for item in found)
