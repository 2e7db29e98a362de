"""One model call: what is sent, what is sent instead when it was too large, and what is learned from the answer."""

from __future__ import annotations

from typing import Any

from attrs import define

from agentctx.clients.conversations import Conversations, Limits
from agentctx.core.message import Native
from agentctx.core.report import View
from agentctx.engine.listeners import logger
from agentctx.engine.reading import known_profile
from agentctx.errors import AgentctxError, ContextOverflow
from agentctx.pipeline import Pipeline
from agentctx.providers.adapter import Adapter, Body, RequestParts
from agentctx.providers.overflow import classify_error
from agentctx.session.current import preparing, steps_around
from agentctx.session.lock import Deadlock
from agentctx.session.session import Session
from agentctx.session.step_context import Given


@define
class ModelCall:
    """One model call of a wrapped client.

    Args:
        client: The conversations of the client, which is told of the view.
        pipeline: Prepares the requests that belong to no conversation.
        adapter: How the API lays out what is sent.
        body: The request as the client was about to send it; it stays as it is.
        request: What was read of it.
        session: The conversation that it belongs to, if any.
        view: What to send.
        recovered: Whether it was made smaller after an overflow: that is done once.
        limits: What is learned of each model's room from the calls that belong to no conversation, as this one.
    """

    client: Conversations
    pipeline: Pipeline
    adapter: Adapter
    body: Body
    request: RequestParts
    session: Session | None
    view: View
    recovered: bool = False
    limits: Limits | None = None

    def written(self) -> dict[str, Any]:
        """The request to send."""
        return self.adapter.write(self.body, self.request, self.view)

    async def shrink(self, error: BaseException) -> bool:
        """After an overflow: prepare a strictly smaller request, once; False when there is none.

        A call that belongs to no conversation is cut to the limit that the error teaches, as all later ones are.

        Raises:
            AgentctxError: As ``prepare`` does.
        """
        if self.recovered:
            return False
        self.recovered = True
        given, sent = self.request, self.view.report.tokens_after
        if self.limits is not None:
            return await self._cut(self.limits, error, sent)
        if self.session is None:
            session = self.pipeline.session(given.model, self.adapter.format)
        else:  # the one that holds this conversation now
            session = self.session.holding(given.messages, given.system, self.adapter.format, given.model)
        self.session = self.session and session
        passed, model = Given(given.messages, given.system, given.tools), _model_to_pass(session, given.model)
        smaller = await session.recover_call(error, passed, sent, model, self.adapter.format)
        if smaller is not None:
            self.view = self.client.view = smaller
        return smaller is not None

    async def _cut(self, limits: Limits, error: BaseException, sent: int) -> bool:
        overflow, model = classify_error(error), self.request.model
        if overflow is None:
            return False
        before = limits.refused(model, overflow, sent)
        try:
            guessed = overflow.limit is None and overflow.excess is None
            view = await _alone(limits, self.adapter, self.request, down_to_target=guessed)
        except ContextOverflow:
            limits.restore(model, before)
            return False
        if view.report.tokens_after >= sent:
            limits.restore(model, before)
            return False
        self.view = self.client.view = view
        return True

    def learn(self, usage: Native) -> None:
        """Record what was billed. It raises nothing: the answer is paid for, whatever is said of its price.

        The usage of a call that another call of the conversation has overtaken is passed over: a session records its
        last view's.
        """
        if usage is None or (self.session is not None and self.session.view is not self.view):
            return
        try:
            if self.session is not None:
                self.session.record(usage)
            elif self.limits is not None:
                self.limits.taken(self.request.model, usage)
        except AgentctxError as error:
            logger.warning("what the model call cost could not be recorded: %s", error)

    def untold(self) -> None:
        """A stream has ended without any usage: say once for this client what brings it."""
        if not self.adapter.tells_usage(self.body):
            self.client.say_once(_UNTOLD)


_UNTOLD = (
    "a stream of a wrapped client told no usage, so nothing is learned of how the provider counts: pass "
    'stream_options={"include_usage": True}'
)


async def begin(conversations: Conversations, adapter: Adapter, body: Body) -> ModelCall | None:
    """Prepare a request; None when there is nothing in it to prepare.

    Raises:
        InvalidInput: If something cannot be read; names the message and the field.
        ContextOverflow: If what must stay is larger than the budget.
        StageError: If a stage broke a promise.
    """
    request = adapter.read(body)
    if request is None:
        return None
    try:
        call = await _begun(conversations, adapter, body, request)
    except Deadlock:
        conversations.say_once(_WAITED_FOR)
        call = await _stateless(conversations, adapter, body, request)
    if call is not None:
        conversations.view = call.view
    return call


_WAITED_FOR = (
    "a stage, summarizer or store made a model call in a conversation whose own step was waiting for it: that call was "
    "prepared by itself, and is no part of the conversation"
)


async def _begun(client: Conversations, adapter: Adapter, body: Body, request: RequestParts) -> ModelCall | None:
    """A request in its conversation, if it belongs to one.

    Raises:
        Deadlock: If a step of that conversation waits for the one that this call is made for.
    """
    async with client.of(body, request, adapter.format) as session:
        if session is None:
            return await _stateless(client, adapter, body, request)
        given, model = (request.messages, request.system, request.tools), _model_to_pass(session, request.model)
        view = await session.prepare(*given, model=model, format=adapter.format)
        return ModelCall(client, client.pipeline, adapter, body, request, session, view)


async def _stateless(client: Conversations, adapter: Adapter, body: Body, request: RequestParts) -> ModelCall | None:
    """A request that belongs to no conversation.

    One that is made for a step of the same pipeline, by a stage or a summarizer of it, is made legal and made to fit,
    and not given to the stages again; one that is made even for that (by a counter) is sent as it is.
    """
    pipeline = client.pipeline
    depth = sum(step.plan is pipeline for step in steps_around())
    if depth > 1:
        return None
    if depth == 0:
        client.note_stateless(request.messages)
        view = await _alone(client.limits, adapter, request)
        return ModelCall(client, pipeline, adapter, body, request, None, view, limits=client.limits)
    budget = pipeline.budget_for(request.model)
    bare = Pipeline(budget=budget, counter=pipeline.counter, protect=pipeline.protect, thinking=pipeline.thinking)
    given = (request.messages, request.system, request.tools)
    with preparing(pipeline):
        view = await bare.prepare(*given, format=adapter.format, model=request.model)
    return ModelCall(client, bare, adapter, body, request, None, view)


async def _alone(limits: Limits, adapter: Adapter, request: RequestParts, *, down_to_target: bool = False) -> View:
    """A request by itself, within the room that its model is known to have."""
    given = (request.messages, request.system, request.tools)
    narrowed = limits.pipeline_for(request.model, down_to_target=down_to_target)
    if narrowed is limits.pipeline:
        return await narrowed.prepare(*given, format=adapter.format, model=request.model)
    with preparing(limits.pipeline):
        return await narrowed.prepare(*given, format=adapter.format, model=request.model)


def _model_to_pass(session: Session, model: str | None) -> str | None:
    """The model that a request names; None for a name that says nothing to a session which knows its model.

    A name that the model table does not know (a deployment's, a router's) does not replace the session's own.
    """
    return model if session.model is None or known_profile(model) is not None else None
