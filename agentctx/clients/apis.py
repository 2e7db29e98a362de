"""The providers' APIs over HTTP: which one a request is for, how its body is read and written, how an error looks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Literal, get_args
from urllib.parse import parse_qs, unquote

from attrs import field, frozen

from agentctx.errors import ContextOverflow
from agentctx.formats.adapter import Adapter
from agentctx.formats.anthropic import Messages
from agentctx.formats.bedrock import Converse
from agentctx.formats.gemini import GenerateContent
from agentctx.formats.openai_chat import ChatCompletions
from agentctx.formats.openai_responses import Responses
from agentctx.message import Native

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
    return f"{adapter.too_long(error.tokens, error.limit)} (agentctx: {error})"


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
