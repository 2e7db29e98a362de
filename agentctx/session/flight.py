"""One at a time, also between event loops: a session may be shared by tasks, by threads, and by sync clients."""

from __future__ import annotations

from collections import deque
from threading import Lock
from typing import Any

import anyio
import anyio.lowlevel
from attrs import define, field, frozen


@frozen(eq=False)
class _Waiter:
    """A task that waits for its turn.

    Args:
        event: Set when it is its turn.
        loop: The event loop that the task runs on.
    """

    event: anyio.Event
    loop: Any

    def wake(self) -> None:
        """Tell the task, on its own loop.

        Raises:
            RuntimeError: If its loop has ended.
        """
        schedule = getattr(self.loop, "call_soon_threadsafe", None) or self.loop.run_sync_soon
        schedule(self.event.set)


@define(eq=False)
class Flight:
    """Lets one task in at a time, in the order in which they came: ``async with flight:``.

    Unlike a lock of an event loop, it holds between tasks of different loops. It takes no time when nobody is in.
    """

    _guard: Lock = field(init=False, factory=Lock)
    _busy: bool = field(init=False, default=False)
    _waiting: deque[_Waiter] = field(init=False, factory=deque)

    @property
    def busy(self) -> bool:
        """Whether somebody is in."""
        return self._busy

    async def __aenter__(self) -> None:
        """Wait until nobody is in. A task that is cancelled while it waits leaves the others their turn."""
        with self._guard:
            if not self._busy:
                self._busy = True
                return
            waiter = _Waiter(anyio.Event(), _running_loop())
            self._waiting.append(waiter)
        its_turn = False
        try:
            await waiter.event.wait()
            its_turn = True
        finally:
            if not its_turn and not self._gave_up(waiter):
                self._next()

    async def __aexit__(self, *_error: object) -> None:
        """Let the next one in."""
        self._next()

    def _gave_up(self, waiter: _Waiter) -> bool:
        """Take a task out of the queue; False when it was its turn already."""
        with self._guard:
            if waiter not in self._waiting:
                return False
            self._waiting.remove(waiter)
            return True

    def _next(self) -> None:
        while True:
            with self._guard:
                if not self._waiting:
                    self._busy = False
                    return
                waiter = self._waiting.popleft()
            try:
                waiter.wake()
            except RuntimeError:  # its loop ended without it: the turn goes to the next
                continue
            return


def _running_loop() -> Any:  # noqa: ANN401 - the loop of any back end
    token: Any = anyio.lowlevel.current_token()
    return getattr(token, "native_token", token)
