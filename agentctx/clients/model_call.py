"""One model call: what is sent, what is sent instead, once, when it was too large, and what is learned from the answer.

How the answer comes, whole or as a stream, is in ``clients/answers.py``.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import anyio
from attrs import define

from agentctx.clients.bridge import blocking
from agentctx.clients.conversations import Conversations, Limits
from agentctx.core.message import Native
from agentctx.core.report import OverflowMet, UsageRecorded, View
from agentctx.engine.listeners import logger, observe
from agentctx.engine.reading import known_profile
from agentctx.errors import AgentctxError, ContextOverflow
from agentctx.pipeline import Pipeline
from agentctx.providers.adapter import Adapter, Body, RequestParts
from agentctx.providers.overflow import classify_error
from agentctx.session.lock import Deadlock, preparing, steps_around
from agentctx.session.session import Session
from agentctx.session.step_context import Given
from agentctx.session.usage import prompt_tokens


@define
class ModelCall:
    """One model call of a wrapped client.

    Args:
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
        budget = limits.pipeline_for(model).budget_for(model)
        smaller = await self._smaller(limits, guessed=overflow.limit is None and overflow.excess is None)
        if smaller is None:
            limits.restore(model, before)
        else:
            self.view = self.client.view = smaller
        allowed = None if budget is None else budget.limit
        observe(self.pipeline.observers, OverflowMet(sent, allowed, smaller is not None, None, model))
        return smaller is not None

    async def _smaller(self, limits: Limits, *, guessed: bool) -> View | None:
        try:
            view = await _alone(limits, self.adapter, self.request, down_to_target=guessed)
        except ContextOverflow:
            return None
        return view if view.report.tokens_after < self.view.report.tokens_after else None

    def learn(self, usage: Native, applied_edits: Native = None) -> None:
        """Record what was billed, and what was cleared. It raises nothing: the answer is paid for in any case.

        The usage of a call that another call of the conversation has overtaken is passed over: a session records its
        last view's.
        """
        if usage is None:
            return
        try:
            if self.session is not None and self.session.view is self.view:
                self.session.record(usage, applied_edits)
                return
            self._observe_usage(usage)
            if self.session is None and self.limits is not None:
                self.limits.taken(self.request.model, usage)
        except AgentctxError as error:
            logger.warning("what the model call cost could not be recorded: %s", error)

    def _observe_usage(self, usage: Native) -> None:
        """Tell the sinks of a bill that no session takes note of."""
        if not self.pipeline.observers or (billed := prompt_tokens(usage)) is None:
            return
        session, sent = None if self.session is None else self.session.id, self.view.report.tokens_after
        event = UsageRecorded(usage, billed, sent, session, self.request.model, self.adapter.format)
        observe(self.pipeline.observers, event)

    async def kept(self, *, waits: bool) -> None:
        """Save what was recorded, where the session is kept in a store. It raises nothing, and a cancellation waits.

        Args:
            waits: Whether the client is async; else this blocks.
        """
        if self.session is None or not self.session.is_kept:
            return
        try:
            with anyio.CancelScope(shield=True) if waits else nullcontext():
                await self.session.save() if waits else blocking(self.session.save)
        except AgentctxError as error:
            logger.warning("what the model call cost could not be saved: %s", error)

    def untold(self) -> None:
        """A stream has ended without any usage: say once for this client what brings it."""
        if not self.adapter.tells_usage(self.body):
            self.client.say_once(_UNTOLD)


_UNTOLD = (
    "a stream of a wrapped client told no usage, so nothing is learned of how the provider counts: pass "
    'stream_options={"include_usage": True}'
)


async def begin(conversations: Conversations, adapter: Adapter, body: Body) -> ModelCall | None:
    """Prepare a request; None when there is nothing in it to prepare."""
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
    """A request in its conversation, if it belongs to one."""
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
