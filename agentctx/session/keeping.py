"""A session in a store: loaded, saved after each step, and gone on with where another worker was first.

What the store has wins. Who finds at a save that another worker has gone on takes over that worker's state and prepares
the step again, from what its own caller has passed: every step that was acknowledged is in what goes on, and the view
is the one that a session would have made that had never moved. What only this worker knew is what was billed since its
last save, and steps that a failing store has not taken, of which was said that they are not kept.

A store that fails, hangs or answers nonsense costs no step: what is unsaved is saved with the next one that can.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from math import inf
from os import urandom
from random import random
from time import monotonic
from typing import Any, TypeVar

import anyio
from attrs import define, field

from agentctx.core.events import SessionSaved
from agentctx.core.message import ROLES
from agentctx.engine.listeners import logger, observe
from agentctx.engine.store_waits import AGAIN_LATER, give_up, is_given_up, limit_of, took_too_long
from agentctx.errors import InvalidInput, StoreConflict, StoreError
from agentctx.offload import offload
from agentctx.protocols import StateStore
from agentctx.session.saving import NewerState, Pieces, read, written_by
from agentctx.session.session import Session
from agentctx.stores.store import ConversationStore

T = TypeVar("T")

ATTEMPTS = 64
"""So often a step is taken again where others are first."""

PAUSE = 4.0
"""Of the time limit: for how long a store that has not answered is not asked: one that hangs costs one step in several
its time limit, and no step more."""

BEGUN_ANEW = "nothing was kept of this conversation: it begins again from the history that was passed"
LOST = "the store did not have the state any more: it was saved anew"
OTHERS = f"not kept: others were first {ATTEMPTS} times"


@define(eq=False, repr=False)
class StateKeeper:
    """Keeps one session in a store.

    Args:
        store: The store.
        name: The conversation.
        timeout: Seconds that one call of the store may take.
        unsaved: Why something is not kept; None when all is.
    """

    store: StateStore
    name: str
    timeout: float
    unsaved: str | None = None
    # The version that was loaded, or saved last; None before it was loaded.
    _version: int | None = None
    # What the store has with that version.
    _known: Pieces = field(factory=Pieces)
    # The keys of writes of which it is not known whether they were done.
    _pending: set[str] = field(factory=set)
    # Whether others are known to write, too.
    _shared: bool = False
    # Whether the store had nothing, and the session had no step yet.
    _empty: bool = False
    # How often others were first in this step.
    _attempts: int = 0
    # Until when, by `monotonic`, a store that hangs is not asked.
    _silent_until: float = -inf
    # Whether this step began before then.
    _skips: bool = False
    # Whether the store was found to have lost the state in this step.
    _lost: bool = False
    # What is to be said with the step.
    _notes: list[str] = field(factory=list)

    @property
    def current(self) -> bool:
        """Whether the state was loaded, and nobody else is known to write."""
        return self._version is not None and not self._shared

    def notes(self) -> tuple[str, ...]:
        """What has to be said with the step, once."""
        notes = (*self._notes, *(() if self.unsaved is None else (self.unsaved,)))
        self._notes.clear()
        return notes

    def has_lost(self) -> bool:
        """Whether the store was found to have lost the state; asked once."""
        lost, self._lost = self._lost, False
        return lost

    async def refresh(self, session: Session, /, *, surely: bool = False) -> None:
        """Load the state, where it was not loaded yet, or others write too.

        Raises:
            UnknownModel: If the budget is the model's and the model table does not know it.
        """
        self._attempts = 0
        self._skips = monotonic() < self._silent_until
        if self._skips:
            give_up(self.store)
        if self.current and not surely:
            return
        try:
            version_of = getattr(self.store, "state_version", None)
            if self._version is not None and callable(version_of):  # the state is not loaded where it is known
                version = _checked_version(await self._asked(lambda: version_of(self.name)))
                if version == self._version:
                    self._shared = False
                    return
            version, pieces = _checked(await self._asked(lambda: self.store.load_state(self.name)))
        except StoreError as error:
            self._fail("the state cannot be loaded", error)
            return
        if version == self._version:
            self._shared = False
            return
        self._shared = self._version is not None
        await self._take_over(session, version, pieces)

    async def keep(self, session: Session, /) -> bool:
        """Save the session after a step; False: another was first, whose state the session has now.

        Raises:
            UnknownModel: If the budget is the model's and the model table does not know it.
        """
        roles = session._state.record.roles  # noqa: SLF001 - a part of the session
        begun_anew, self._empty = self._empty and ROLES.index("assistant") in roles, False
        if not await self._kept(session):
            return False
        if begun_anew:
            self._notes.append(BEGUN_ANEW)
        return True

    async def _kept(self, session: Session) -> bool:
        while self._version is not None and self._attempts < ATTEMPTS:
            if await self._saved(session):
                return True
            self._attempts += 1
            if self._attempts > 1:
                await anyio.sleep(random() * 0.002 * min(self._attempts, 10))  # noqa: S311 - not all come back at once
            try:
                version, pieces = _checked(await self._asked(lambda: self.store.load_state(self.name)))
            except StoreError as error:
                self._fail("the step is not kept", error)
                return True
            self._shared = True
            if await self._take_over(session, version, pieces):
                return False
        if self._attempts >= ATTEMPTS:
            self._fail(OTHERS)
        return True

    async def save(self, session: Session, /) -> bool:
        """Save the session between steps, and say whether all of it is kept."""
        if self._version is None:
            return not session.steps
        if not await self._saved(session):
            self._shared = True  # what was billed for a step that another worker has gone on from: the next one tells
            return True
        return self.unsaved is None

    async def _saved(self, session: Session) -> bool:
        """Save what has changed; False: it is not the store's version that this goes on from."""
        write = urandom(8).hex()
        try:
            changed, after = await offload(lambda: self._known.changed(session, write), self._known.new(session))
        except InvalidInput as error:
            self._fail("the step is not kept", error)
            return True
        except (RecursionError, TypeError, ValueError) as error:  # of values that JSON does not know
            said = "a message is nested too deep" if isinstance(error, RecursionError) else f"a message is odd: {error}"
            self._fail("the step is not kept", InvalidInput("messages", said))
            return True
        if not changed:
            return True
        self._pending.add(write)
        try:
            known = self._version
            saving = self._asked(lambda: self.store.save_state(self.name, changed, known, key=write))
            version = _checked_version(await saving)
        except StoreConflict:
            return False
        except StoreError as error:
            self._fail("the step is not kept", error)
            return True
        self._version, self._known, self.unsaved = version, after, None
        self._pending.clear()
        written = sum(len(body) for body in changed.values() if body is not None)
        observe(session.plan.observers, SessionSaved(self.name, written, after.size))
        return True

    async def _take_over(self, session: Session, version: int, pieces: Mapping[str, bytes]) -> bool:
        """Let the session go on from what the store has; False: it has nothing to go on from but what is ours."""
        if not pieces:
            if self._version is not None:
                self._notes.append(LOST)
                self._lost = True
            self._version, self._known, self._empty = version, Pieces(), not session.steps
            return False
        if self._pending and written_by(pieces) in self._pending:  # ours, though no answer came
            self._version, self._known = version, Pieces.of(pieces)
            self._pending.clear()
            return False
        try:  # where this is cancelled, or the state cannot be had, what is ours goes on from the version before
            saved = await offload(lambda: read(session.plan, pieces), len(pieces) * 32)
        except NewerState as error:
            self._version = None  # not to be written over
            self._fail("the state cannot be loaded", error)
            return False
        except InvalidInput as error:
            self._version, self._known = version, Pieces.of(pieces)
            self._notes.append(f"the state that was kept is damaged, and was given up: {error}")
            return False
        self._version, self._known, self.unsaved = version, saved.pieces, None
        self._pending.clear()
        session.go_on_from(saved.session)
        return True

    async def _asked(self, ask: Callable[[], Awaitable[T]]) -> T:
        """What the store answers in time; one that has not answered in time is not asked again for a while.

        Raises:
            StoreError: Whatever is wrong with it.
        """
        begun, limit = monotonic(), limit_of(self.store, self.timeout)
        if is_given_up(self.store) and not self._skips:  # where it was to keep what the step leaves out
            self._silent_until = max(self._silent_until, begun + PAUSE * limit)
        if begun < self._silent_until or is_given_up(self.store):
            msg = f"the {type(self.store).__name__} {AGAIN_LATER}"
            raise StoreError(msg)
        try:
            if isinstance(self.store, ConversationStore) and self.store.timeout <= self.timeout:
                return await ask()  # it keeps the time itself
            with anyio.fail_after(self.timeout):
                return await ask()
        except StoreError:
            if took_too_long(begun, limit):
                self._give_up(limit)
            raise
        except TimeoutError:
            self._give_up(limit)
            msg = f"the {type(self.store).__name__} did not answer within {self.timeout:g} seconds"
            raise StoreError(msg) from None
        except Exception as error:  # a store is the user's
            msg = f"the {type(self.store).__name__} raised {type(error).__name__}: {error}"
            raise StoreError(msg) from error

    def _give_up(self, limit: float) -> None:
        self._silent_until = monotonic() + PAUSE * limit
        give_up(self.store)

    def _fail(self, what: str, error: Exception | None = None) -> None:
        said = what if error is None else f"{what}: {error}"
        if self.unsaved is None:
            logger.warning("session %r: %s", self.name, said)
        self.unsaved = said


def _checked_version(version: object) -> int:
    """The version that a store has answered.

    Raises:
        StoreError: If it has answered something else.
    """
    if isinstance(version, bool) or not isinstance(version, int):
        msg = f"it answered {version!r:.80}, and no version"
        raise StoreError(msg)
    return version


def _checked(snapshot: object) -> tuple[int, Mapping[str, bytes]]:
    """The version and the pieces that a store has answered.

    Raises:
        StoreError: If it has answered something else.
    """
    pieces: Any = getattr(snapshot, "pieces", None)
    version = _checked_version(getattr(snapshot, "version", None))
    if not isinstance(pieces, Mapping) or not all(
        isinstance(name, str) and isinstance(body, bytes) for name, body in pieces.items()
    ):
        msg = f"it answered {snapshot!r:.80}, and no state"
        raise StoreError(msg)
    return version, pieces
