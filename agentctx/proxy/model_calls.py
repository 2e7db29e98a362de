"""One model call on its way through: read, prepared in its conversation, sent, its answer handed on as it comes.

A call that was too large is made smaller and sent once more. A stream may say that it was: up to the model's first
words it is handed on event by event, and where an event says so, it goes on with the answer to the smaller one. From
then on bytes are handed on as they come, read on the way for the usage.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from hashlib import sha256
from time import perf_counter

from attrs import define, field, frozen

from agentctx.clients.answers import Ways, answer
from agentctx.clients.apis import SESSION_HEADER, Api, Incoming
from agentctx.clients.model_call import Conversations, ModelCall, begin
from agentctx.clients.over_http import TOO_DEEP, Reply, Unreadable, body_of, content_of, unpacked, with_betas
from agentctx.errors import AgentctxError, ConfigError, InvalidInput
from agentctx.formats.adapter import Body, RequestParts
from agentctx.formats.registry import format_named
from agentctx.message import Native
from agentctx.pipeline import Pipeline
from agentctx.protocols import StateStore
from agentctx.proxy.metrics import Metrics
from agentctx.proxy.upstream import Upstream, to_send
from agentctx.session.conversations import Histories, History, SharedHistories, branch, history_of, holding
from agentctx.session.session import Session
from agentctx.session.sessions import Sessions
from agentctx.users_code import FAILURES, described

PipelineOf = Callable[[str | None], Pipeline]
"""The pipeline for a model, given its name."""

LONGEST_NAME = 200
"""Characters that are held of a session's name in a header."""


class PipelineFailed(Exception):
    """A stage, a store, or another part of the pipeline raised what it should not."""


@frozen(eq=False)
class Exchange:
    """One model call, from its body to the provider's answer.

    Args:
        api: What it is made by.
        request: Its head.
        raw: Its body, as it came: packed or not.
        most: So many bytes of it are taken, unpacked.
    """

    api: Api
    request: Incoming
    raw: bytes = field(repr=False)
    most: int
    upstream: Upstream
    known: Known
    metrics: Metrics

    async def answered(self) -> Reply:
        """What the provider answers to the prepared request.

        Raises:
            TooLarge: If its body is larger than is taken, unpacked.
            Unreadable: If it cannot be unpacked or prepared; nothing was sent.
            ContextOverflow: If it cannot be made to fit; nothing was sent.
            ConfigError: If the window of its model is not known.
            CannotSign: If it is signed for AWS, and nothing here can sign it anew.
        """
        plain = unpacked(self.raw, self.request.header(b"content-encoding"), self.most)
        begun = perf_counter()
        body = self.api.body(body_of(plain))
        call = await self._begun(body, len(plain))
        self.metrics.prepared(call.view.report, perf_counter() - begun)
        reply: Reply = await answer(call, partial(self._send, body, call), Ways((), Reply.opened, waits=True))
        return reply

    async def _begun(self, body: dict[str, Native], size: int) -> ModelCall:
        """Prepare a body in its conversation."""
        adapter, call = self.api.adapter, None
        try:
            request = adapter.read(body)
            if request is not None and isinstance(request.messages, list) and request.messages:
                pipeline = self.known.pipeline_for(request.model)
                sessions = self.known.sessions_of(pipeline)
                asked = Asked(pipeline, sessions=sessions, known=self.known, head=self.request, size=size)
                call = await begin(asked, adapter, body)
        except InvalidInput as error:
            raise Unreadable(error.where) from None
        except RecursionError:
            raise Unreadable(TOO_DEEP) from None
        except AgentctxError:
            raise
        except FAILURES as error:  # what the pipeline's own parts raise
            raise PipelineFailed(described(error)) from error
        if call is None:
            raise Unreadable(adapter.messages_key)
        return call

    async def _send(self, body: dict[str, Native], call: ModelCall, written: dict[str, Native]) -> Reply:
        """Send what was prepared; the client's own bytes where nothing has changed."""
        if call.recovered:
            self.metrics.recovered.inc()
        content, betas = content_of(self.api, body, written)
        self.metrics.requests.labels("unchanged" if content is None else "changed").inc()
        if content is None:
            content, headers = self.raw, to_send(self.request.headers, identity=True)
        else:
            headers = with_betas(to_send(self.request.headers, whole=content, identity=True), betas)
        return Reply(await self.upstream.send(self.api.provider, self.request, headers, content))


@define(eq=False)
class Asked(Conversations):
    """The conversation of one request.

    Args:
        known: All conversations.
        head: The head of the request: whose keys it has, and the conversation's name where it gives one.
        size: Bytes of the request.
    """

    known: Known = field(kw_only=True)
    head: Incoming = field(kw_only=True)
    size: int = field(kw_only=True)

    @asynccontextmanager
    async def of(self, _body: Body, request: RequestParts, format_name: str) -> AsyncIterator[Session | None]:
        """The session of a request, held while it is prepared."""
        caller, named = f"{self.head.caller()}-{format_name}", self.head.header(SESSION_HEADER)
        store, histories = self.known.store, self.known.histories
        if named is None:
            history = history_of(request, caller, format_named(format_name), self.size)
            shared = histories if store is None else SharedHistories(store, histories)
            conversation = await shared.find(history)
            name, forgotten = conversation.name, conversation.forgotten
            before = None if conversation.branches_off is None else self.sessions.get(conversation.branches_off)
            if before is not None and before.steps and name not in self.sessions:
                self.sessions[name] = branch(before, name)
        else:
            if len(named) > LONGEST_NAME:  # its beginning, and a digest that tells it from others that begin so
                digest = sha256(named.encode("utf-8", "surrogatepass")).hexdigest()
                named = f"{named[: LONGEST_NAME - len(digest)]}{digest}"
            name = f"{caller}/{named}"
            forgotten = histories.hold(name, History(caller, b"", (name.encode(),), self.size))
        await self.known.forget(forgotten)
        async with self.sessions.using(name, request.model, format_name) as session:
            yield session if named is None else holding(session, request, format_name)

    def say_once(self, what: str) -> None:
        """Say nothing: what it says is for whoever wraps a client."""

    def note_stateless(self, messages: object) -> None:
        """Warn of nothing: here every request has its session."""


@define(eq=False)
class Known:
    """What the proxy remembers: the conversations, found by their histories, and their sessions.

    Args:
        pipeline_of: The pipeline for each model.
        histories: The conversations, by what they have shown.
        store: Where the states of their sessions are kept; None: here alone.
    """

    pipeline_of: PipelineOf
    histories: Histories
    store: StateStore | None = None
    _pipelines: dict[str | None, Pipeline] = field(init=False, factory=dict, repr=False)
    _sessions: dict[int, Sessions] = field(init=False, factory=dict, repr=False)

    def pipeline_for(self, model: str | None) -> Pipeline:
        """The pipeline for a model.

        Raises:
            ConfigError: If the model's window is not known.
        """
        if model in self._pipelines:
            return self._pipelines[model]
        pipeline = self.pipeline_of(model)
        if len(self._pipelines) < MOST_MODELS:
            self._pipelines[model] = pipeline
        elif id(pipeline) not in self._sessions:
            msg = f"more than {MOST_MODELS} models were asked for: {model!r:.100} is one more"
            raise ConfigError(msg)
        return pipeline

    def sessions_of(self, pipeline: Pipeline) -> Sessions:
        """The sessions of a pipeline."""
        if id(pipeline) not in self._sessions:
            capacity = self.histories.most + IN_FLIGHT
            self._sessions[id(pipeline)] = Sessions(pipeline, self.store, capacity=capacity)
        return self._sessions[id(pipeline)]

    async def forget(self, names: Sequence[str]) -> None:
        """Forget conversations that there is no room for."""
        for name in names:
            for sessions in self._sessions.values():
                await sessions.close(name)


MOST_MODELS = 500
IN_FLIGHT = 100
