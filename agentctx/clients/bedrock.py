"""Bedrock's Converse: the ``bedrock-runtime`` clients of boto3 and aioboto3, ``converse`` and ``converse_stream``.

Every operation of such a client goes through its ``_make_api_call``; that is where requests are prepared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from inspect import iscoroutinefunction
from typing import Any, TypeVar

from attrs import evolve
from botocore.client import BaseClient  # type: ignore[import-untyped]  # botocore carries no types
from botocore.exceptions import ClientError  # type: ignore[import-untyped]  # as above

from agentctx.clients.answers import Answer, NotSent, Ways, derived, exchange, follow, opened, proxy
from agentctx.clients.model_call import Conversations, ModelCall
from agentctx.core.message import Native
from agentctx.errors import ConfigError
from agentctx.providers.bedrock.format import Converse

T = TypeVar("T")

_ADAPTER = Converse()
_OPERATIONS = frozenset({"Converse", "ConverseStream"})
_REFUSED = frozenset(
    {"InvokeModel", "InvokeModelWithResponseStream", "InvokeModelWithBidirectionalStream", "StartAsyncInvoke"}
)
_ERRORS = (ClientError,)


def wrap(client: T, conversations: Conversations) -> T:
    """The client's proxy whose model calls are prepared.

    Raises:
        ConfigError: If it is no client of ``bedrock-runtime``.
    """
    service = client.meta.service_model.service_name if isinstance(client, BaseClient) else type(client).__qualname__
    if service != "bedrock-runtime":
        msg = f"wrap: {service} has no model calls; pass a client of bedrock-runtime"
        raise ConfigError(msg)
    kind: Native = type(client)
    waits = iscoroutinefunction(kind._make_api_call)  # noqa: SLF001 - botocore has no other seam
    ways = Ways(_ERRORS, _open, OverflowBeforeSending, waits)
    return proxy(client, {"_make_api_call": _call(kind, conversations, ways)})


def _call(kind: Native, conversations: Conversations, ways: Ways) -> Callable[..., Native]:
    async def call(client: Native, operation: str, params: dict[str, Native]) -> Native:
        async def send(body: dict[str, Native]) -> Native:
            return await ways.sent(kind._make_api_call(client, operation, body))  # noqa: SLF001 - as above

        if operation not in _OPERATIONS:
            _refuse(operation, params)
            return await send(params)
        return await exchange(conversations, _ADAPTER, params, send, _told_as(ways, client, operation))

    return ways.plain(call)


def _refuse(operation: str, params: Mapping[str, Any]) -> None:
    """Refuse what asks a language model in a body of the model's own; embeddings and pictures go through."""
    if operation not in _REFUSED:
        return
    asked = params.get("body", params.get("modelInput"))
    if isinstance(asked, str | bytes | bytearray):
        try:
            asked = json.loads(asked)
        except (ValueError, RecursionError):
            asked = None
    name = str(params.get("modelId")).lower()
    if (
        isinstance(asked, Mapping)
        and any(field in asked for field in _SAYS)
        and not any(each in name for each in _MAKES_NO_TEXT)
    ):
        msg = (
            f"{operation} of a wrapped client is a model call that cannot be prepared: call converse or converse_stream"
        )
        raise ConfigError(msg)


_SAYS = ("messages", "prompt", "message", "chat_history", "textGenerationConfig")
"""Fields of the bodies of language models: Claude, Llama, Mistral, Command, Jamba, Titan, and imported ones."""

_MAKES_NO_TEXT = ("stability.", "luma.", "image", "canvas", "reel", "embed", "rerank", "twelvelabs.")
"""What is in the names of models that take a ``prompt`` and make no text, or take text and make none."""


async def _open(value: Native, call: ModelCall, ways: Ways, /) -> Answer:
    stream = value.get("stream")
    if stream is None:
        return opened(value, value, call)
    answer = follow(aiter(stream) if ways.waits else iter(stream), call, ways, stream.close)
    return _behind(value, stream, answer, "__aiter__" if ways.waits else "__iter__")


def _behind(value: object, stream: Native, answer: Answer, iterate: str) -> Answer:
    """Let the response's stream, which belongs to this call alone, hand out what the answer reads."""
    stream._agentctx_rest = answer.value  # noqa: SLF001 - our own attribute
    kind: type = type(stream)
    stream.__class__ = _reading(kind, iterate)
    answer.value = value
    return answer


@cache
def _reading(kind: type, iterate: str) -> type:
    return derived(kind, {iterate: _rest})


def _rest(stream: Native) -> Native:
    return stream._agentctx_rest  # noqa: SLF001 - our own attribute


class OverflowBeforeSending(NotSent, ClientError):  # type: ignore[misc]  # botocore carries no types
    """A request that cannot be made to fit: nothing was sent."""

    operation = "Converse"

    def tell(self, message: str) -> None:
        """Be built as botocore builds its error."""
        said = {"Error": {"Code": "ValidationException", "Message": message}}
        ClientError.__init__(self, {**said, "ResponseMetadata": {"HTTPStatusCode": 400}}, self.operation)

    def __reduce__(self) -> tuple[Any, ...]:
        """What it is pickled as: without the client's own class, which is made at run time."""
        return OverflowBeforeSending, (self.tokens, self.limit, self.biggest)


def _told_as(ways: Ways, client: Native, operation: str) -> Ways:
    return evolve(ways, not_sent=_not_sent(client.exceptions.ValidationException, operation))


@cache
def _not_sent(kind: type[Exception], operation: str) -> type[NotSent]:
    """The overflow as the client's own exception, which ``except client.exceptions.ValidationException`` catches."""
    own: type[NotSent] = type("OverflowBeforeSending", (OverflowBeforeSending, kind), {"operation": operation})
    return own
