"""Which conversation a call goes on with that a framework gives no name: the one whose history it shows.

Many conversations of one hook may begin alike: the same task for three agents at once, or again and again. A call goes
on with the one that it shows all of, from the task on, as the caller or as we have written it. Words at the end of a
request that are for that call alone, and gone once the model's answer stands behind them, do not matter. Where it shows
all of none, since its history was edited or cut at the start, that is one of which it has what the model said last
and what followed. Anything else is a conversation of its own: another run, or one that leaves a known one in its midst,
which begins with what was decided there about what both share.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager, suppress
from itertools import chain
from threading import Lock
from uuid import uuid4

from attrs import define, field, frozen

from agentctx.clients.model_call import Conversations
from agentctx.errors import InvalidInput
from agentctx.providers.adapter import Body, RequestParts
from agentctx.providers.registry import format_named
from agentctx.session.lock import steps_around
from agentctx.session.opening import Beginning, Opening, opening_of
from agentctx.session.session import Session, current

OWNER = "agentctx_owner"
"""The field of a body that says whose it is: the conversations of others are never looked at."""

MOST_TOKENS = 64_000_000
"""The histories of so many tokens together are held, about 256 MB; those unused for longest are forgotten first."""

MOST_EDITED = 16
"""So many conversations, the last ones, may go on with a history that was edited."""


@frozen
class _Known:
    """A conversation.

    Args:
        owner: Whose it is.
        begun: How its last request began.
    """

    owner: str
    begun: Beginning


_Held = tuple[Hashable, Session, Beginning]


@define(eq=False)
class Unnamed(Conversations):
    """The conversations of one hook that have no name of the framework's."""

    _known: dict[Hashable, _Known] = field(init=False, factory=dict, repr=False)
    _finding: Lock = field(init=False, factory=Lock, repr=False)

    @asynccontextmanager
    async def of(self, body: Body, request: RequestParts, format_name: str) -> AsyncIterator[Session | None]:
        """The session of a request, held while it is prepared; None when it is made for a step of one of them."""
        if self.session is not None or current() is not None:
            async with Conversations.of(self, body, request, format_name) as session:
                yield session
        elif self._is_for_a_step():
            yield None
        else:
            name = self._found(body.get(OWNER, ""), request, format_name)
            for gone in self._beyond():
                await self.sessions.close(gone)
            async with self.sessions.using(name, request.model, format_name) as session:
                yield session

    def _is_for_a_step(self) -> bool:
        around = [step.session for step in steps_around() if step.session is not None]
        return any(session in around for session in self.sessions.values()) if around else False

    def _found(self, owner: str, request: RequestParts, format_name: str) -> Hashable:
        """The name of the session of a request."""
        opening = opening_of(request.messages, request.system, format_named(format_name, request.model))
        with self._finding:
            known = self._of(owner)
            name = _going_on(known, opening)
            if name is None:
                name = self._new(known, opening)
            self._known[name] = _Known(owner, opening.beginning)
            self._forget()
        return name

    def _of(self, owner: str) -> list[_Held]:
        """The conversations of an owner that are in memory, the one that was used last first."""
        held = dict(self.sessions.items())
        named = ((name, self._known.get(name)) for name in reversed(held))
        return [(name, held[name], known.begun) for name, known in named if known is not None and known.owner == owner]

    def _new(self, known: list[_Held], opening: Opening) -> str:
        """A conversation that begins with what was decided about what it shares with another, beyond the task."""
        name, task = f"unnamed-{uuid4().hex}", opening.beginning.task
        alike = [session for _, session, begun in known if begun.task == task] or [session for _, session, _ in known]
        if alike:
            self.sessions[name] = _beginning_with(alike, name, opening)
        return name

    def _beyond(self) -> list[Hashable]:
        """Those that there is no room for."""
        held, tokens = dict(self.sessions.items()), 0
        beyond = []
        for name in reversed(held):
            tokens += held[name].history_tokens if name in self._known else 0
            if tokens > MOST_TOKENS and name in self._known:
                beyond.append(name)
        return beyond

    def _forget(self) -> None:
        """Forget those that are not in memory any more; what is new is not there yet."""
        if len(self._known) > 2 * self.sessions.capacity:
            held = set(self.sessions)
            gone = [name for name in self._known if name not in held]
            for name in gone[: -self.sessions.capacity // 2]:
                del self._known[name]


def _going_on(known: list[_Held], opening: Opening) -> Hashable | None:
    alike = [held for held in known if held[2].task == opening.beginning.task]
    whole = (name for name, session, begun in alike if session.all_shown_by(opening, begun))
    staying = (name for name, session, begun in alike if session.what_stays_shown_by(opening, begun))
    edited = (name for name, session, begun in known[:MOST_EDITED] if session.edited_in(opening, begun))
    return next(chain(whole, staying, edited), None)


def _beginning_with(alike: list[Session], name: str, opening: Opening) -> Session:
    shared, _, before = max((session.shared_with(opening), -place, session) for place, session in enumerate(alike))
    if shared > 1:
        with suppress(InvalidInput):  # JSON cannot hold what it has shown
            return Session.load(before.plan, {**before.dump(), "id": name})
    return before.another(name)
