"""One call of a model: which API it is of, and what is done before and after it."""

from __future__ import annotations

import json
import re
import warnings
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from copy import deepcopy
from hashlib import blake2b
from inspect import isawaitable, iscoroutine
from threading import Lock
from typing import Any, Literal, get_args
from urllib.parse import parse_qs, unquote

import anyio
from attrs import Factory, define, evolve, field, frozen

from agentctx.changes import Outcome
from agentctx.characters import said_by
from agentctx.engine.plan import is_async, logger, tell
from agentctx.engine.reading import as_list, known_profile
from agentctx.engine.usage import LearnedLimits, OverflowLimit, is_one_prompt, prompt_tokens
from agentctx.errors import AgentctxError, ConfigError, ContextOverflow, StageError
from agentctx.formats.anthropic import Messages
from agentctx.formats.bedrock import Converse
from agentctx.formats.gemini import GenerateContent
from agentctx.formats.openai_chat import ChatCompletions
from agentctx.formats.openai_responses import Responses
from agentctx.formats.overflow import Overflow, classify_error, refusal_sentence
from agentctx.formats.registry import Adapter, Body, RequestParts, format_named
from agentctx.message import Native
from agentctx.pipeline import Pipeline
from agentctx.reports import OverflowMet, Report, UsageRecorded, View
from agentctx.rules import find_violations
from agentctx.session.blocking import blocking
from agentctx.session.conversations import holding, home_of
from agentctx.session.record import digest
from agentctx.session.session import Session, current, forget_limit, recover_call, save
from agentctx.session.sessions import Sessions
from agentctx.session.step_context import Deadlock, Given, Work, within, works_around
from agentctx.validators import MustBe, a, function, holds

Provider = Literal["openai", "anthropic", "gemini", "bedrock"]
"""Whose API a request is for."""

PROVIDERS: tuple[Provider, ...] = get_args(Provider)

Headers = Sequence[tuple[bytes, bytes]]
"""Header fields as they came: names in lower case."""

SESSION_HEADER = b"x-agentctx-session"
"""Names the conversation of a request to the proxy, which takes it out before it passes the request on."""


@frozen
class Incoming:
    """The head of a request, as it came.

    Args:
        method: Its method, in upper case.
        path: Its path, with what is percent-encoded in it.
        query: What stands behind the question mark.
        headers: Its header fields.
    """

    method: str
    path: str
    query: bytes
    headers: Headers = field(repr=False)

    def header(self, name: bytes) -> str | None:
        """The first value of a header field."""
        return next((value.decode("latin-1") for key, value in self.headers if key == name), None)

    @property
    def signed(self) -> bool:
        """Whether it is signed for AWS, over its host and its body."""
        return (self.header(b"authorization") or "").startswith(_SIGNED)

    @property
    def region(self) -> str | None:
        """The region that it is signed for."""
        scope = _REGION.search(self.header(b"authorization") or "") if self.signed else None
        return None if scope is None else scope[1]

    def caller(self) -> str:
        """A digest of whose keys these are: conversations of other keys are other conversations.

        What changes from one request to the next, as a signature does, is left out.
        """
        keys = [(name, value) for name in _KEYS if (value := self.header(name)) is not None]
        keys += [(b"key", key) for key in parse_qs(self.query.decode("latin-1")).get("key", ())]
        digest = blake2b(digest_size=12, person=b"agentctx-caller")
        for name, value in keys:
            key = value.split(", ")[0].split("/")[0] if value.startswith(_SIGNED) else value
            digest.update(b"\0" + name + b"\0" + key.encode())
        return digest.hexdigest()


_SIGNED = "AWS4-HMAC-SHA256"
_REGION = re.compile(r"Credential=[^/,\s]+/[0-9]{8}/([a-z0-9-]{1,40})/")
_KEYS = (b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key", b"openai-organization", b"openai-project")


@frozen
class Api:
    """What a model call is made by.

    Args:
        provider: Whose API it is.
        adapter: Reads and writes its bodies.
        model: The model that its path names.
    """

    provider: Provider
    adapter: Adapter
    model: str | None = None

    def body(self, sent: dict[str, Native]) -> dict[str, Native]:
        """A body as the adapter reads it."""
        if self.provider == "bedrock":
            return {**sent, "modelId": self.model}
        if self.provider == "gemini":
            return {_SNAKE.get(name, name): value for name, value in sent.items()}
        return sent

    def sendable(self, written: dict[str, Native]) -> tuple[dict[str, Native], tuple[str, ...]]:
        """A body as the API takes it, and the beta features that it needs in a header."""
        apart = {"bedrock": "modelId", "anthropic": "betas"}.get(self.provider)
        body = {name: value for name, value in written.items() if name != apart}
        return body, tuple(written.get("betas", ())) if self.provider == "anthropic" else ()


_SNAKE = {"system_instruction": "systemInstruction", "cached_content": "cachedContent", "tool_config": "toolConfig"}


class ConverseOverHttp(Converse):
    """Bedrock's API without botocore: events of a stream by their names."""

    def failure(self, said: Native, /) -> Native:
        """The exception in a stream, which botocore raises."""
        names = [name for name in said if name.endswith("Exception")] if isinstance(said, Mapping) else []
        return {"code": names[0], **(said[names[0]] or {})} if names else None


_ENDS: Mapping[str, Api] = {
    "/chat/completions": Api("openai", ChatCompletions()),
    "/responses": Api("openai", Responses()),
    "/v1/messages": Api("anthropic", Messages()),
}
_GEMINI = re.compile(r"/([^/:]+):(?:generateContent|streamGenerateContent)$")
_BEDROCK = re.compile(r"/model/([^/]+)/(?:converse|converse-stream)$")
_CONVERSE = ConverseOverHttp()


def api_of(request: Incoming) -> Api | None:
    """The API of a model call; None for every other request."""
    if request.method != "POST":
        return None
    path = request.path.rstrip("/")
    if (gemini := _GEMINI.search(path)) is not None:
        model = unquote(gemini[1])
        return Api("gemini", GenerateContent(model), model)
    if (bedrock := _BEDROCK.search(path)) is not None:
        return Api("bedrock", _CONVERSE, unquote(bedrock[1]))
    return next((api for end, api in _ENDS.items() if path.endswith(end)), None)


def provider_of(request: Incoming) -> Provider:
    """Whose API a request that is no model call is for, by its headers and its path."""
    if request.signed or request.path.startswith(("/model/", "/guardrail/")):
        return "bedrock"
    if request.header(b"x-goog-api-key") or request.path.startswith(("/v1beta", "/v1alpha", "/upload/v1beta")):
        return "gemini"
    if any(request.header(name) for name in (b"x-api-key", b"anthropic-version", b"anthropic-beta")):
        return "anthropic"
    return "openai"


@frozen
class Failure:
    """An answer that is given in the provider's place, in the words that the provider's SDK reads."""

    status: int
    headers: Headers
    body: bytes = field(repr=False)


def too_large(api: Api, error: ContextOverflow) -> Failure:
    """Return the refusal of a request that cannot be made to fit: the provider's own sentence, then ours."""
    return failure(api.provider, 400, too_large_text(api.adapter, error), overflow=True)


def too_large_text(adapter: Adapter, error: ContextOverflow) -> str:
    """Return the words of an overflow: agents know one by the sentence that its provider begins with."""
    return f"{refusal_sentence(adapter.format, prompt=error.tokens, limit=error.limit)} (agentctx: {error})"


def failure(provider: Provider, status: int, message: str, *, overflow: bool = False) -> Failure:
    """Return an error as the provider's API tells it; ``overflow`` where the request was too large for the model."""
    kind = _KINDS[provider].get(status) or _KINDS[provider][status // 100 * 100]
    headers = [(b"content-type", b"application/json")]
    if status not in _TO_BE_TRIED_AGAIN:
        headers.append((b"x-should-retry", b"false"))
    error: dict[str, object] = {"message": message}
    match provider:
        case "openai":
            code = "context_length_exceeded" if overflow else None
            error = {"error": {**error, "type": kind, "param": None, "code": code}}
        case "anthropic":
            error = {"type": "error", "error": {**error, "type": kind}}
        case "gemini":
            error = {"error": {**error, "code": status, "status": kind}}
        case "bedrock":
            headers.append((b"x-amzn-errortype", kind.encode()))
    return Failure(status, headers, json.dumps(error).encode())


_TO_BE_TRIED_AGAIN = frozenset({502, 503, 504})
_KINDS: Mapping[Provider, Mapping[int, str]] = {
    "openai": {400: "invalid_request_error", 500: "server_error"},
    "anthropic": {
        400: "invalid_request_error",
        408: "timeout_error",
        413: "request_too_large",
        500: "api_error",
        503: "overloaded_error",
        504: "timeout_error",
    },
    "gemini": {
        400: "INVALID_ARGUMENT",
        500: "INTERNAL",
        502: "UNAVAILABLE",
        503: "UNAVAILABLE",
        504: "DEADLINE_EXCEEDED",
    },
    "bedrock": {
        400: "ValidationException",
        500: "InternalServerException",
        502: "ServiceUnavailableException",
        503: "ServiceUnavailableException",
        504: "ModelTimeoutException",
    },
}
"""The kinds of errors by their status; a status without one of its own has that of 400 or 500."""


async def begin(conversations: Conversations, adapter: Adapter, body: Body) -> ModelCall | None:
    """Prepare a request; None when there is nothing in it to prepare.

    Raises:
        InvalidInput: If its messages are no list with something in it, or cannot be read.
    """
    request = adapter.read(body)
    if request is None:
        return None
    request = evolve(request, messages=_listed(request.messages, adapter.messages_key))
    try:
        call = await _in_conversation(conversations, adapter, body, request)
    except Deadlock:
        conversations.say_once(_WAITED_FOR)
        call = await _stateless(conversations, adapter, body, request)
    if call is not None:
        conversations.view = call.view
    return call


def _listed(messages: Native, where: str) -> Sequence[Any]:
    """The messages, which some SDKs take as any iterable, as a list."""
    if isinstance(messages, Iterable) and not isinstance(messages, list | tuple | str | bytes | Mapping):
        messages = list(messages)
    return as_list(messages, where)


async def _in_conversation(
    conversations: Conversations, adapter: Adapter, body: Body, request: RequestParts
) -> ModelCall | None:
    """A request in its conversation, if it belongs to one."""
    async with conversations.of(body, request, adapter.format) as session:
        if session is None:
            return await _stateless(conversations, adapter, body, request)
        given, model = (request.messages, request.system, request.tools), _model_to_pass(session, request.model)
        view = await session.prepare(*given, model=model, format=adapter.format)
        return ModelCall(conversations, conversations.pipeline, adapter, body, request, session, view)


async def _stateless(
    conversations: Conversations, adapter: Adapter, body: Body, request: RequestParts
) -> ModelCall | None:
    """A request that belongs to no conversation.

    One that is made for a step of the same pipeline, by a stage or a summarizer of it, is made legal and made to fit,
    and not given to the stages again; one that is made even for that (by a counter) is sent as it is.
    """
    pipeline = conversations.pipeline
    depth = sum(work.plan is pipeline for work in works_around())
    if depth > 1:
        return None
    if depth == 0:
        conversations.note_stateless(request.messages)
        view = await _alone(conversations.limits.pipeline_for(request.model), pipeline, adapter, request)
        return ModelCall(conversations, pipeline, adapter, body, request, None, view, limits=conversations.limits)
    budget = pipeline.budget_for(request.model)
    bare = Pipeline(budget=budget, counter=pipeline.counter, protect=pipeline.protect, thinking=pipeline.thinking)
    view = await _alone(bare, pipeline, adapter, request)
    return ModelCall(conversations, bare, adapter, body, request, None, view)


_WAITED_FOR = (
    "a stage, summarizer or store made a model call in a conversation whose own step was waiting for it: that call was "
    "prepared by itself, and is no part of the conversation"
)


async def _alone(narrowed: Pipeline, pipeline: Pipeline, adapter: Adapter, request: RequestParts) -> View:
    """A request by itself: by the pipeline, or by what is narrowed down of it, in a step of it all the same."""
    given = (request.messages, request.system, request.tools)
    with nullcontext() if narrowed is pipeline else within(Work(pipeline)):
        return await narrowed.prepare(*given, format=adapter.format, model=request.model)


def _model_to_pass(session: Session, model: str | None) -> str | None:
    """The model that a request names; None for a name that says nothing to a session which knows its model.

    A name that the model table does not know (a deployment's, a router's) does not replace the session's own.
    """
    return model if session.model is None or known_profile(model) is not None else None


Key = Callable[[Body], Hashable]
"""Names the conversation of a request's body; None means that it belongs to none."""


RECENT = 32
"""So many calls without a session are remembered, to notice one that goes on from another."""


@define(eq=False)
class Conversations:
    """The conversations of one wrapped client, and what was prepared for it last: ``wrapped.agentctx``.

    Args:
        pipeline: Prepares what belongs to no conversation.
        session: The session of all requests of the client, if there is one.
        key: Names the conversation of each request, if given.
        sessions: The sessions by key.
        view: The last view that was prepared for the client, with its report, of whichever conversation.
        limits: What is learned of each model's room from the requests that belong to no conversation.
    """

    pipeline: Pipeline
    session: Session | None = None
    key: Key | None = field(default=None, repr=False)
    sessions: Sessions = field(kw_only=True)
    view: View | None = field(default=None, init=False, repr=False)
    limits: StatelessLimits = field(
        init=False, default=Factory(lambda self: StatelessLimits(self.pipeline), takes_self=True), repr=False
    )
    _recent: deque[tuple[bytes, bytes, int]] | None = field(
        init=False, factory=lambda: deque(maxlen=RECENT), repr=False
    )

    _said: set[str] = field(init=False, factory=set, repr=False)

    def __repr__(self) -> str:
        """One line: the session, or how many there are by key, and the last view."""
        which = f"{len(self.sessions)} sessions by key" if self.session is None else repr(self.session)
        return f"<Conversations: {which}, last view {self.view!r}>"

    @property
    def report(self) -> Report | None:
        """The report of the last view."""
        return None if self.view is None else self.view.report

    def forget_limit(self, model: str | None = None) -> None:
        """Forget the limits that overflow errors taught: for calls without a session, and for the client's session."""
        self.limits.forget(model)
        if self.session is not None:
            forget_limit(self.session)

    @asynccontextmanager
    async def of(self, body: Body, request: RequestParts, format_name: str) -> AsyncIterator[Session | None]:
        """The session of a request, held while it is prepared; None when it belongs to no conversation.

        A model call that is made for a step of a session (by its stage, summarizer, store or listener) is no part of
        that session's conversation.
        """
        session, name = self.whose(body)
        if name is None:
            yield _of_request(session, request, format_name)
        else:
            async with self.sessions.using(name, request.model, format_name) as named:
                yield _of_request(named, request, format_name)

    def whose(self, body: Body) -> tuple[Session | None, Hashable]:
        """Return the session that a call belongs to here and now, or the name that the key gives its conversation."""
        session = self.session or current()
        return session, None if session is not None or self.key is None else _named(self.key, body)

    def say_once(self, what: str) -> None:
        """Say in the log what costs this client knowledge, once."""
        if what not in self._said:
            self._said.add(what)
            logger.warning("%s", what)

    def note_stateless(self, messages: Sequence[Any]) -> None:
        """Warn, once, when a call without a session goes on from an earlier one without a session."""
        recent = self._recent
        if recent is None:
            return
        first, length = digest(messages[0]), len(messages)
        for begins, ends, known in recent:
            if begins == first and known < length and ends == digest(messages[known - 1]):
                self._recent = None
                warnings.warn(_GOES_ON, UserWarning, stacklevel=2)
                return
        recent.append((first, digest(messages[-1]), length))


_PIPELINE = a(Pipeline, "a Pipeline, such as Pipeline(FitContextWindow(), budget=Budget(window=128_000))")
_KEY = MustBe(
    "a plain function of a request's body, such as lambda body: body['user']",
    holds(lambda key: callable(key) and not is_async(key)),
).or_none
_KEY_OF_SESSIONS = function("a function where there are sessions=, which hold the conversations that it names")


def conversations_of(
    caller: str, pipeline: Native, session: Native, key: Key | None, sessions: Sessions | None
) -> Conversations:
    """Return the conversations of a client, for the function that a user calls.

    Raises:
        ConfigError: If an argument is of another kind, or two of them do not belong together.
    """
    _PIPELINE.check(f"{caller}.pipeline", pipeline)
    a(Session, "a session, as pipeline.session() returns one").or_none.check(f"{caller}.session", session)
    _KEY.check(f"{caller}.key", key)
    if sessions is not None:
        _KEY_OF_SESSIONS.check(f"{caller}.key", key)
        MustBe("made with the same pipeline", holds(lambda it: it.pipeline is pipeline)).check(
            f"{caller}.sessions", sessions
        )
    return Conversations(pipeline, session, key, sessions=Sessions(pipeline) if sessions is None else sessions)


def _named(key: Key, body: Body) -> Hashable:
    """What the key calls the conversation of a request."""
    try:
        name: object = key(body)
    except AgentctxError:
        raise
    except Exception as error:
        msg = f"wrap: key {key!r} raised {said_by(error)}"
        raise ConfigError(msg) from error
    if not _is_a_name(name):
        msg = f"wrap: key {key!r} gave {name!r:.80}; expected what names a conversation (a str, say), or None"
        raise ConfigError(msg)
    return name


def _is_a_name(name: object) -> bool:
    """Whether it can be looked up: it has a hash, and is equal to itself, as nan is not."""
    if iscoroutine(name):
        name.close()  # else Python says that nobody awaited it
    try:
        return not isawaitable(name) and hash(name) is not None and bool(name == name)  # noqa: PLR0124
    except Exception:  # noqa: BLE001 - whatever it raises, it names nothing
        return False


def _of_request(session: Session | None, request: RequestParts, format_name: str) -> Session | None:
    if session is None:
        return None
    home, around = home_of(session), [work.session for work in works_around()]
    if any(isinstance(other, Session) and home_of(other) is home for other in around):
        return None
    return holding(session, request, format_name)


_GOES_ON = (
    "a model call of a wrapped client goes on from an earlier one without a session: each is prepared by itself, so a "
    "cut moves the prefix at every call and the provider's cache is lost; make the calls within `with "
    "pipeline.session():`, or pass session= or key= to wrap()"
)


@define
class ModelCall:
    """One model call of a wrapped client.

    Args:
        recovered: Whether it was made smaller after an overflow: that is done once.
        limits: What is learned of each model's room from the calls that belong to no conversation, as this one.
    """

    conversations: Conversations
    pipeline: Pipeline
    adapter: Adapter
    body: Body
    request: RequestParts
    session: Session | None
    view: View
    recovered: bool = False
    limits: StatelessLimits | None = None

    def written(self) -> dict[str, Any]:
        """The request to send.

        Raises:
            StageError: If a stage has left out the tool that the caller asks the model to use, or has made one that the
                provider refuses.
        """
        written = self.adapter.write(self.body, self.request, self.view)
        heads = [change for stage in self.view.report.stages for change in stage.head]
        changed_by = next((change.stage for change in heads if change.outcome is not Outcome.MARKED), None)
        if changed_by is not None:
            wire = format_named(self.adapter.format)
            known = {violation.rule for violation in find_violations(wire, self.body)}
            for violation in find_violations(wire, written):
                if violation.path.startswith("tool") and violation.rule not in known:
                    raise StageError(changed_by, f"tools: {violation.path}: {violation.message}")
        return written

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
            session = self.pipeline.session(model=given.model, format=self.adapter.format)
        else:  # the one that holds this conversation now
            session = holding(self.session, given, self.adapter.format)
        self.session = self.session and session
        passed, model = Given(given.messages, given.system, given.tools), _model_to_pass(session, given.model)
        smaller = await recover_call(session, error, passed, sent, model, self.adapter.format)
        if smaller is not None:
            self.view = self.conversations.view = smaller
        return smaller is not None

    async def _cut(self, limits: StatelessLimits, error: BaseException, sent: int) -> bool:
        overflow, model = classify_error(error), self.request.model
        if overflow is None:
            return False
        before = limits.refused(model, overflow, sent)
        budget = limits.pipeline_for(model).budget_for(model)
        smaller = await self._smaller(limits, guessed=overflow.limit is None and overflow.excess is None)
        if smaller is None:
            limits.restore(model, before)
        else:
            self.view = self.conversations.view = smaller
        allowed = None if budget is None else budget.limit
        tell(self.pipeline.all_subscribers, OverflowMet(sent, allowed, smaller is not None, None, model))
        return smaller is not None

    async def _smaller(self, limits: StatelessLimits, *, guessed: bool) -> View | None:
        try:
            narrowed = limits.pipeline_for(self.request.model, down_to_target=guessed)
            view = await _alone(narrowed, limits.pipeline, self.adapter, self.request)
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
        """Tell the subscribers of a bill that no session takes note of."""
        if not self.pipeline.all_subscribers or (billed := prompt_tokens(usage)) is None:
            return
        session, sent = None if self.session is None else self.session.id, self.view.report.tokens_after
        event = UsageRecorded(usage, billed, sent, session, self.request.model, self.adapter.format)
        tell(self.pipeline.all_subscribers, event)

    async def kept(self, *, waits: bool) -> None:
        """Save what was recorded, where the session is kept in a store. It raises nothing, and a cancellation waits.

        Args:
            waits: Whether the client is async; else this blocks.
        """
        if self.session is None or self.session.internals.keeper is None:
            return
        try:
            with anyio.CancelScope(shield=True) if waits else nullcontext():
                await save(self.session) if waits else blocking(save, self.session)
        except AgentctxError as error:
            logger.warning("what the model call cost could not be saved: %s", error)

    def untold(self) -> None:
        """A stream has ended without any usage: say once for this client what brings it."""
        if not self.adapter.tells_usage(self.body):
            self.conversations.say_once(_UNTOLD)


_UNTOLD = (
    "a stream of a wrapped client told no usage, so nothing is learned of how the provider counts: pass "
    'stream_options={"include_usage": True}'
)


MODELS_KNOWN = 64
"""The limits of so many models are remembered; the one that was refused longest ago is forgotten first."""


@define
class StatelessLimits:
    """The limits that overflows taught to calls of no conversation, by model.

    Such a call is cut to the limit, not below: the next is cut anew.
    """

    pipeline: Pipeline
    _known: OrderedDict[str | None, OverflowLimit] = field(init=False, factory=OrderedDict)
    _guard: Lock = field(init=False, factory=Lock, repr=False)

    def pipeline_for(self, model: str | None, *, down_to_target: bool = False) -> Pipeline:
        """The pipeline within the room that a model is known to have.

        ``down_to_target`` makes the budget's target the limit: where an error named none, it is only guessed.
        """
        with self._guard:
            limit = deepcopy(self._known.get(model))
        if limit is None or limit.tokens is None:
            return self.pipeline
        budget = LearnedLimits(self.pipeline.budget_for(model), learned=limit).in_force
        if budget is not None and down_to_target:
            budget = budget.scaled(budget.target_tokens / budget.limit)
        return self.pipeline if budget is None else self.pipeline.with_budget(budget)

    def refused(self, model: str | None, overflow: Overflow, sent: int) -> OverflowLimit | None:
        """Take in that a view of ``sent`` tokens was too large; gives back what was known before."""
        given = self.pipeline.budget_for(model)
        with self._guard:
            before = self._known.get(model)
            allowance = LearnedLimits(given, learned=OverflowLimit() if before is None else deepcopy(before))
            allowance.refused(overflow, sent)
            self._known[model] = allowance.learned
            self._known.move_to_end(model)
            if len(self._known) > MODELS_KNOWN:
                self._known.popitem(last=False)
        return before

    def restore(self, model: str | None, before: OverflowLimit | None) -> None:
        """Take back what an error taught: nothing smaller could be made of its request."""
        with self._guard:
            self._known[model] = OverflowLimit() if before is None else before

    def forget(self, model: str | None = None) -> None:
        """Forget what errors taught of a model, or of all of them."""
        with self._guard:
            for name in [*self._known] if model is None else [model]:
                self._known.pop(name, None)

    def taken(self, model: str | None, usage: Native) -> None:
        """Take in that the provider took a prompt, and what it billed for it."""
        billed = prompt_tokens(usage)
        if billed is None or not is_one_prompt(usage):
            return
        with self._guard:
            self._known.setdefault(model, OverflowLimit()).taken(billed)
            if len(self._known) > MODELS_KNOWN:
                self._known.popitem(last=False)
