"""One model call on its way through: read, prepared in its conversation, sent, and once more where it was too large."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import count
from time import perf_counter

from attrs import define, field, frozen

from agentctx.clients.answers import Answer, NotSent, RequestRefused, Started, Ways, answer, object_in, opened
from agentctx.clients.model_call import Conversations, ModelCall, begin
from agentctx.core.message import Native
from agentctx.errors import AgentctxError, ConfigError, InvalidInput
from agentctx.pipeline import Pipeline
from agentctx.protocols import StateStore
from agentctx.providers.adapter import Body, RequestParts
from agentctx.providers.registry import format_named
from agentctx.proxy.apis import SESSION_HEADER, Api, Headers, Incoming
from agentctx.proxy.aws import Signer
from agentctx.proxy.histories import FindsConversations, Histories, History, history_of
from agentctx.proxy.metrics import Metrics
from agentctx.proxy.relay import AwsEventStream, Framing, ServerSentEvents, listed, relayed
from agentctx.proxy.upstream import ProviderResponse, Upstream, to_send
from agentctx.session.session import Session
from agentctx.session.sessions import Sessions
from agentctx.users_code import FAILURES, described

PipelineOf = Callable[[str | None], Pipeline]
"""The pipeline for a model, given its name."""

LONGEST_NAME = 200
"""Characters that a session's name in a header may have."""


class CannotSign(Exception):
    """A request is signed for AWS over this proxy's address, and nothing here can sign it for the provider's."""


class PipelineFailed(Exception):
    """A stage, a store, or another part of the pipeline raised what it should not."""


class Unreadable(Exception):
    """A model call that cannot be prepared: it is passed on as it came, and the provider judges it.

    Args:
        why: What cannot be read, without what is said in it.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@define(eq=False)
class Known:
    """What the proxy remembers: the conversations, found by their histories, and their sessions.

    Args:
        pipeline_of: The pipeline for each model.
        histories: The conversations, by what they have shown.
        store: Where the states of their sessions are kept; None: here alone.
    """

    pipeline_of: PipelineOf
    histories: FindsConversations = field(factory=Histories)
    store: StateStore | None = None
    _pipelines: dict[str | None, Pipeline] = field(init=False, factory=dict, repr=False)
    _sessions: dict[int, Sessions] = field(init=False, factory=dict, repr=False)

    def __len__(self) -> int:
        """How many sessions are in memory."""
        return sum(map(len, self._sessions.values()))

    def pipeline_for(self, model: str | None) -> Pipeline:
        """The pipeline for a model.

        Raises:
            ConfigError: If the model's window is not known.
        """
        found = self._pipelines.get(model)
        if found is not None:
            return found
        found = self.pipeline_of(model)
        if len(self._pipelines) < MOST_MODELS:
            self._pipelines[model] = found
        elif id(found) not in self._sessions:
            msg = f"more than {MOST_MODELS} models were asked for: {model!r:.100} is one more"
            raise ConfigError(msg)
        return found

    def sessions_of(self, pipeline: Pipeline) -> Sessions:
        """The sessions of a pipeline."""
        found = self._sessions.get(id(pipeline))
        if found is None:
            found = self._sessions[id(pipeline)] = Sessions(
                pipeline, self.store, capacity=self.histories.most + IN_FLIGHT
            )
        return found

    async def forget(self, name: str) -> None:
        """Forget a conversation that there is no room for."""
        for sessions in self._sessions.values():
            await sessions.close(name)


MOST_MODELS = 500
IN_FLIGHT = 100


@define(eq=False)
class Asked(Conversations):
    """The conversation of one request.

    Args:
        known: All conversations.
        caller: A digest of whose keys they are.
        named: The conversation's name, where the client gives one.
        size: Bytes of the request.
    """

    known: Known = field(kw_only=True)
    caller: str = field(kw_only=True)
    named: str | None = field(kw_only=True)
    size: int = field(kw_only=True)

    @asynccontextmanager
    async def of(self, _body: Body, request: RequestParts, format_name: str) -> AsyncIterator[Session | None]:
        """The session of a request, held while it is prepared."""
        caller = f"{self.caller}-{format_name}"
        if self.named is not None:
            name = f"{caller}/{self.named}"
            named = History(caller, b"", (name.encode(),), bytes=self.size)
            await self._forget(self.known.histories.hold(name, named))
            async with self.sessions.using(name, request.model, format_name) as session:
                yield session.holding(request.messages, request.system, format_name, request.model)
            return
        name = await self._found(request, caller, format_name)
        async with self.sessions.using(name, request.model, format_name) as session:
            yield session

    async def _found(self, request: RequestParts, caller: str, format_name: str) -> str:
        history = history_of(request, caller, format_named(format_name), self.size)
        found = await self.known.histories.find(history)
        await self._forget(found.forgotten)
        before = None if found.branches_off is None else self.sessions.get(found.branches_off)
        if before is not None and before.steps and found.name not in self.sessions:
            with suppress(InvalidInput):  # JSON cannot hold what it has shown
                self.sessions[found.name] = Session.load(self.pipeline, {**before.dump(), "id": found.name})
        return found.name

    async def _forget(self, names: Sequence[str]) -> None:
        for name in names:
            await self.known.forget(name)

    def say_once(self, what: str) -> None:
        """Say nothing: what it says is for whoever wraps a client."""

    def note_stateless(self, messages: object) -> None:
        """Warn of nothing: here every request has its session."""


@define(eq=False)
class Reply:
    """The provider's answer to a model call.

    Args:
        response: Its status and header fields.
        whole: Its body, where it came as a whole.
        stream: Its body otherwise, to be read and then dropped.
    """

    response: ProviderResponse
    whole: bytes | None = None
    stream: Started | None = None


@frozen(eq=False)
class Exchange:
    """One model call, from its body to the provider's answer.

    Args:
        api: What it is made by.
        request: Its head.
        raw: Its body, as it came.
        plain: Its body, unpacked.
        signer: Signs for AWS; None: what is signed is refused.
    """

    api: Api
    request: Incoming
    raw: bytes = field(repr=False)
    plain: bytes = field(repr=False)
    upstream: Upstream
    known: Known
    metrics: Metrics
    signer: Signer | None = None

    async def answered(self) -> Reply:
        """What the provider answers to the prepared request.

        Raises:
            Unreadable: If it cannot be prepared; nothing was sent.
            ContextOverflow: If it cannot be made to fit; nothing was sent.
            ConfigError: If the window of its model is not known.
            CannotSign: If it is signed for AWS, and nothing here can sign it anew.
        """
        begun = perf_counter()
        body = self.api.body(_object(self.plain))
        call = await self._begun(body)
        self.metrics.prepared(call.view.report, perf_counter() - begun)
        tries = count()
        reply: Reply = await answer(call, partial(self._send, body, tries), Ways((), _opened, NotSent, waits=True))
        return reply

    async def _begun(self, body: dict[str, Native]) -> ModelCall:
        try:
            request = self.api.adapter.read(body)
            if request is None or not isinstance(request.messages, list) or not request.messages:
                raise Unreadable(self.api.adapter.messages_key)
            call = await self._in_its_conversation(request.model, body)
        except InvalidInput as error:
            raise Unreadable(error.where) from None
        except RecursionError:
            raise Unreadable(_TOO_DEEP) from None
        if call is None:
            raise Unreadable(self.api.adapter.messages_key)
        return call

    async def _in_its_conversation(self, model: str | None, body: dict[str, Native]) -> ModelCall | None:
        try:
            return await begin(self._asked(self.known.pipeline_for(model)), self.api.adapter, body)
        except (AgentctxError, RecursionError):
            raise
        except FAILURES as error:  # what the pipeline's own parts raise
            raise PipelineFailed(described(error)) from error

    def _asked(self, pipeline: Pipeline) -> Asked:
        named = self.request.header(SESSION_HEADER)
        return Asked(
            pipeline,
            sessions=self.known.sessions_of(pipeline),
            known=self.known,
            caller=self.request.caller(),
            named=None if named is None else named[:LONGEST_NAME],
            size=len(self.plain),
        )

    async def _send(self, given: dict[str, Native], tries: Iterator[int], written: dict[str, Native]) -> Reply:
        """Send what was prepared; the client's own bytes where nothing has changed."""
        if next(tries):
            self.metrics.recovered.inc()
        content, headers = self.raw, to_send(self.request.headers, identity=True)
        if written != given:
            sendable, betas = self.api.sendable(written)
            content = _bytes(sendable)
            headers = with_betas(to_send(self.request.headers, whole=content, identity=True), betas)
        self.metrics.sent(changed=content is not self.raw)
        url = self.upstream.url(self.api.provider, self.request)
        if self.request.signed:
            headers = await signed_anew(self.signer, self.request, url, headers, content)
        return Reply(await self.upstream.send("POST", url, headers, content))


async def signed_anew(
    signer: Signer | None, request: Incoming, url: str, headers: Headers, content: bytes
) -> list[tuple[bytes, bytes]]:
    """The header fields with a signature for the provider's address.

    Raises:
        CannotSign: If nothing here signs.
    """
    if signer is None or request.region is None:
        raise CannotSign(CANNOT_SIGN)
    return [*await signer.signed(request.method, url, headers, content, request.region)]


CANNOT_SIGN = (
    "agentctx proxy: this request is signed for AWS over the proxy's own address, so its signature does not hold for "
    "the provider's: start the proxy with --sign-aws, which signs with the AWS credentials of its machine"
)


_ITS_JSON, _TOO_DEEP, ITS_ENCODING = "its JSON", "what is nested too deep", "its content encoding"


def _object(plain: bytes) -> dict[str, Native]:
    if (found := object_in(plain)) is None:
        raise Unreadable(_ITS_JSON)
    return found


def _bytes(body: Mapping[str, object]) -> bytes:
    """A body in JSON; what UTF-8 cannot hold is written in escapes."""
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(body, separators=(",", ":")).encode()


_BETAS = b"anthropic-beta"


def with_betas(headers: list[tuple[bytes, bytes]], betas: Sequence[str]) -> list[tuple[bytes, bytes]]:
    """Header fields that ask for these beta features as well."""
    if not betas:
        return headers
    asked = (value.decode("latin-1").split(",") for name, value in headers if name == _BETAS)
    features = dict.fromkeys([*filter(None, (each.strip() for values in asked for each in values)), *betas])
    others = [(name, value) for name, value in headers if name != _BETAS]
    return [*others, (_BETAS, ",".join(features).encode("latin-1"))]


async def _opened(reply: Reply, call: ModelCall, _ways: Ways, /) -> Answer:
    """Look into an answer: one that is no stream is read as a whole."""
    response = reply.response
    framing = _FRAMINGS.get(response.headers.get("content-type", "").partition(";")[0].strip().lower())
    if response.is_success and framing is not None:
        reply.stream = relayed(response, call, framing)
        return Answer(reply, close=reply.stream.drop, stream=reply.stream)
    if response.is_success and _in_a_list(response):
        reply.stream = listed(response, call)
        return Answer(reply, close=reply.stream.drop)
    reply.whole = await response.aread()
    if not response.is_success:
        return Answer(reply, refusal=RequestRefused(response.status_code, response.text))
    return opened(reply, object_in(reply.whole), call)


_FRAMINGS: Mapping[str, Framing] = {
    "text/event-stream": ServerSentEvents(),
    "application/vnd.amazon.eventstream": AwsEventStream(),
}


def _in_a_list(response: ProviderResponse) -> bool:
    """Whether it streams in one JSON document."""
    return response.request.url.path.endswith(":streamGenerateContent")
