"""One model call: what is sent, what is sent instead, once, when it was too large, and what is learned from the answer.

Written once for both kinds of client: for a sync client nothing in here waits, since ``Ways.wait`` blocks instead.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import nullcontext
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import anyio
from attrs import define, frozen

from agentctx.clients.bridge import blocking, drive
from agentctx.clients.conversations import Conversations, Limits
from agentctx.clients.derived_client import NotSent
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

if TYPE_CHECKING:
    from agentctx.clients.streams import Started

P = ParamSpec("P")
T = TypeVar("T")


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


Send = Callable[[dict[str, Any]], Awaitable[Any]]
"""Sends a request with this body and returns the SDK's answer."""
Again = Callable[[Exception], Awaitable["Answer | None"]]
"""Sends something smaller after an error; None when it was no overflow, or nothing smaller was taken."""


class Refused(Exception):
    """An answer that tells of an error which its SDK does not raise."""

    def __init__(self, body: Native) -> None:
        super().__init__(str(body)[:500])
        self.body = body


@define
class Answer:
    """What came back from one request.

    Args:
        refusal: The error that was found in what it returned, or read ahead in its stream.
        close: Lets go of a stream that nobody will read.
    """

    value: Any = None
    error: Exception | None = None
    refusal: Exception | None = None
    close: Callable[[], Awaitable[object]] | None = None
    stream: Started | None = None

    @property
    def too_large(self) -> Exception | None:
        """The error, when it says that the request was too large."""
        said = self.error or self.refusal
        return said if said is not None and classify_error(said) is not None else None

    async def drop(self) -> None:
        """Let go of it: nobody will read it."""
        if self.close is not None:
            await self.close()

    def given(self) -> Native:
        """What the SDK returned; what it raised is raised."""
        if self.error is not None:
            raise self.error
        return self.value


Open = Callable[[Any, ModelCall, "Ways"], Awaitable[Answer]]
"""Looks into what an SDK returned: usage is recorded, of a stream when it ends."""


@frozen
class Ways:
    """How one SDK's client answers.

    Args:
        not_sent: Its own error for a request that is too large, raised where nothing was sent.
        waits: Whether the client is async; of a sync one nothing here waits, since ``wait`` blocks instead.
    """

    errors: tuple[type[Exception], ...]
    open: Open
    not_sent: type[NotSent]
    waits: bool

    async def wait(self, function: Callable[..., Awaitable[T]], *args: Native) -> T:
        """Run an async function to its end, by waiting for it or by blocking."""
        return await function(*args) if self.waits else blocking(function, *args)

    async def sent(self, answer: Native) -> Native:
        """What a call of the client's own returned; an async client's is awaited."""
        return await answer if self.waits else answer

    def plain(self, function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Any]:
        """An async function as it is for an async client, as a plain one for a sync client."""
        if self.waits:
            return function

        @wraps(function)
        def call(*args: P.args, **more: P.kwargs) -> T:
            return drive(function(*args, **more))

        return call


async def exchange(conversations: Conversations, adapter: Adapter, body: Body, send: Send, ways: Ways) -> Native:
    """The answer to a request: prepared, sent, and sent once more when it was too large and can be made smaller."""
    call = await begun(conversations, adapter, body, ways)
    return await send(dict(body)) if call is None else await answer(call, send, ways)


async def begun(conversations: Conversations, adapter: Adapter, body: Body, ways: Ways) -> ModelCall | None:
    """The prepared request; None when there is nothing in it to prepare."""
    try:
        return await ways.wait(begin, conversations, adapter, body)
    except ContextOverflow as error:
        raise ways.not_sent.of(error) from error


async def answer(call: ModelCall, send: Send, ways: Ways) -> Native:
    """The answer to a prepared request; it is sent once more when it was too large and can be made smaller.

    A second overflow in a row gives what the first gave. No request is sent again after its answer's first content; up
    to there, a stream is restarted by itself while it is read.
    """
    first = await _attempt(call, send, ways)
    if first.stream is not None:
        first.stream.held.again = partial(_again, call, send, ways)
    if first.too_large is None or not await _shrunk(call, first, first.too_large, ways):
        return first.given()
    second = await _attempt(call, send, ways)
    kept, lost = (first, second) if second.too_large is not None else (second, first)
    await lost.drop()
    return kept.given()


async def _again(call: ModelCall, send: Send, ways: Ways, error: Exception) -> Answer | None:
    """The stream that answers a smaller request, after an overflow in one that had not said anything yet."""
    if classify_error(error) is None or not await ways.wait(call.shrink, error):
        return None
    second = await _attempt(call, send, ways)
    if second.stream is not None:
        second.refusal = await second.stream.refusal()
    if second.too_large is not None:
        await second.drop()
        return None
    second.given()
    return second


async def _shrunk(call: ModelCall, first: Answer, error: Exception, ways: Ways) -> bool:
    try:
        return await ways.wait(call.shrink, error)
    except AgentctxError as failed:
        await first.drop()
        raise failed from error


async def _attempt(call: ModelCall, send: Send, ways: Ways) -> Answer:
    try:
        value = await send(call.written())
    except ways.errors as error:
        return Answer(error=error)
    opened = await ways.open(value, call, ways)
    await call.kept(waits=ways.waits)
    return opened
