"""Which conversation a request belongs to."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock

from attrs import define, field

from agentctx.clients.shape import Body, Request
from agentctx.pipeline import Pipeline
from agentctx.session import Session
from agentctx.session.current import current, steps_around

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

        A model call that is made for a step of a session (by its stage, summarizer, store or listener) is no part of
        that session's conversation.

        Args:
            body: The request's body, for the key.
            request: What was read of it.
            format_name: The wire format of its messages.

        Raises:
            UnknownModel: If the budget is that of the model, and the model table does not know it.
        """
        session = self.given or current()
        if session is None and self.key is not None:
            session = self._of_key(self.key(body), request.model, format_name)
        if session is None:
            return None
        if any(step.session is not None and session.is_beside(step.session) for step in steps_around()):
            return None
        return session.holding(request.messages, request.system, format_name, request.model)

    def _of_key(self, name: Hashable, model: str | None, format_name: str) -> Session | None:
        if name is None:
            return None
        with self._guard:
            if name not in self._named:
                self._named[name] = self.pipeline.session(model=model, format=format_name, id=str(name))
                if len(self._named) > MOST:
                    self._named.popitem(last=False)
            self._named.move_to_end(name)
            return self._named[name]
