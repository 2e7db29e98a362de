"""Which conversation a request belongs to."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock

from attrs import define, field

from agentctx.clients.shape import Body, Request
from agentctx.pipeline import Pipeline
from agentctx.session import Session
from agentctx.session.allowance import Allowance
from agentctx.session.current import current

Key = Callable[[Body], Hashable]
"""Names the conversation of a request's body; None means that it belongs to none."""

MOST = 1_024
"""So many conversations named by a key are remembered at once; the one unused for longest is forgotten first."""


@define
class Sessions:
    """Finds the session of a request: the one given for the client, the one whose ``with`` block it is in, the key's.

    Args:
        pipeline: Makes the sessions of a key.
        given: The session of all requests of the client, if there is one.
        key: Names the conversation of each request, if given.
    """

    pipeline: Pipeline
    given: Session | None = None
    key: Key | None = None
    _named: OrderedDict[Hashable, Session] = field(init=False, factory=OrderedDict, repr=False)
    _guard: Lock = field(init=False, factory=Lock, repr=False)

    def of(self, body: Body, request: Request, format_name: str) -> Session | None:
        """The session of a request; None when it belongs to no conversation.

        One that was made without a model and a format, as ``pipeline.session()``, takes those of its first request.

        Args:
            body: The request's body, for the key.
            request: What was read of it.
            format_name: The wire format of its messages.

        Raises:
            UnknownModel: If the session's budget is that of the model, and the model table does not know it.
        """
        session = self.given or current()
        if session is None and self.key is not None:
            session = self._of_key(self.key(body), request.model, format_name)
        if session is not None:
            _introduce(session, request.model, format_name)
        return session

    def _of_key(self, name: Hashable, model: str | None, format_name: str) -> Session | None:
        if name is None:
            return None
        place = (name, model, format_name)
        with self._guard:
            if place not in self._named:
                self._named[place] = self.pipeline.session(model=model, format=format_name, id=str(name))
                if len(self._named) > MOST:
                    self._named.popitem(last=False)
            self._named.move_to_end(place)
            return self._named[place]


def _introduce(session: Session, model: str | None, format_name: str) -> None:
    """Tell a session that has not begun what it speaks with, where it was not told."""
    if session.format is None:
        session.format = format_name
    if session.model is None and model is not None and session.steps == 0:
        known = session.allowance
        if known.given is None:
            session.allowance = Allowance(session.plan.budget_for(model), known.calibration, known.learned)
        session.model = model
