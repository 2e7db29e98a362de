"""One model call: what is sent, what is sent instead when it was too large, and what is learned from the answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from attrs import define

from agentctx.clients.sessions import Sessions
from agentctx.clients.shape import Body, Request, Shape
from agentctx.economics.overflow import classify_error
from agentctx.errors import AgentctxError, ContextOverflow
from agentctx.listeners import logger
from agentctx.pipeline import Pipeline
from agentctx.reading import known_profile
from agentctx.session import Session
from agentctx.session.current import nobody
from agentctx.session.flight import Flight
from agentctx.view import View

_FLIGHTS: WeakKeyDictionary[Session, Flight] = WeakKeyDictionary()
_GUARD = Lock()


@define
class Turn:
    """One model call of a wrapped client.

    Args:
        pipeline: Prepares the requests that belong to no conversation.
        shape: How the API lays out what is sent.
        body: The request as the client was about to send it; it stays as it is.
        request: What was read of it.
        session: The conversation that it belongs to, if any.
        view: What to send.
        step: The number of steps of the session when the view was made: one more means that another call followed.
        recovered: Whether it was made smaller after an overflow: that is done once.
    """

    pipeline: Pipeline
    shape: Shape
    body: Body
    request: Request
    session: Session | None
    view: View
    step: int = 0
    recovered: bool = False

    def written(self) -> dict[str, Any]:
        """The request to send."""
        return self.shape.write(self.body, self.request, self.view)

    async def shrink(self, error: BaseException) -> bool:
        """After an overflow: prepare a strictly smaller request, once; False when there is none.

        A call that belongs to no conversation gets a session for this moment, which is told of the error.

        Args:
            error: What the client raised.

        Raises:
            AgentctxError: As ``prepare`` does.
        """
        if self.recovered:
            return False
        self.recovered = True
        given, sent = self.request, self.view.report.tokens_after
        session = self.session or self.pipeline.session(given.model, self.shape.format)
        async with _flight(session):
            try:
                # The session may have gone on with another call of the same conversation: back to this one.
                smaller: View | None = await _prepared(session, self.shape, given)
            except ContextOverflow:
                return False
            if not _mends(smaller, error, sent):  # else it has learned the limit meanwhile, from that other call
                smaller = await session.recover(error)
            self.step = session.steps
        if smaller is None or smaller.report.tokens_after >= sent:
            return False
        self.view = smaller
        return True

    def learn(self, usage: Any) -> None:  # noqa: ANN401 - a dict or any SDK's usage object
        """Record what was billed. It raises nothing: the answer is paid for, whatever is said of its price.

        The usage of a call that another call of the conversation has overtaken is passed over: a session records its
        last view's.
        """
        if self.session is None or usage is None or self.session.steps != self.step:
            return
        try:
            self.session.record(usage)
        except AgentctxError as error:
            logger.warning("what the model call cost could not be recorded: %s", error)


def _mends(view: View | None, error: BaseException, sent: int) -> bool:
    """Whether a view is small enough by itself to be sent after an overflow of a request of ``sent`` tokens."""
    overflow = classify_error(error)
    if view is None or overflow is None or view.report.tokens_after >= sent:
        return False
    counts_tokens = overflow.kind in {"window", "rate"}
    return counts_tokens and (overflow.limit is None or view.report.tokens_after <= overflow.limit)


async def begin(sessions: Sessions, shape: Shape, body: Body) -> Turn | None:
    """Prepare a request; None when there is nothing in it to prepare.

    Args:
        sessions: Finds the conversation that it belongs to.
        shape: How the API lays out what is sent.
        body: The request as the client was about to send it.

    Raises:
        InvalidInput: If something cannot be read; names the message and the field.
        ContextOverflow: If what must stay is larger than the budget.
        StageError: If a stage broke a promise.
    """
    request = shape.read(body)
    if request is None:
        return None
    session = sessions.of(body, request, shape.format)
    if session is None:
        given = (request.messages, request.system, request.tools)
        with nobody():
            view = await sessions.pipeline.prepare(*given, format=shape.format, model=request.model)
        return Turn(sessions.pipeline, shape, body, request, None, view)
    async with _flight(session):
        view = await _prepared(session, shape, request)
        return Turn(sessions.pipeline, shape, body, request, session, view, session.steps)


async def _prepared(session: Session, shape: Shape, request: Request) -> View:
    """The next step of a conversation, with the model that the request names.

    A name that the model table does not know (a deployment's, a router's) does not replace the session's own.
    """
    told = session.model is None or known_profile(request.model) is not None
    model = request.model if told else None
    given = (request.messages, request.system, request.tools)
    return await session.prepare(*given, model=model, format=shape.format)


@asynccontextmanager
async def _flight(session: Session) -> AsyncIterator[None]:
    """Alone with a session: between going back to a call and recovering it, no other call of it is prepared."""
    with _GUARD:
        flight = _FLIGHTS.setdefault(session, Flight())
    async with flight:
        with nobody():
            yield
