"""Bedrock's Converse: the ``bedrock-runtime`` clients of boto3 and aioboto3, ``converse`` and ``converse_stream``.

botocore emits events for each call: ``provide-client-params`` before it validates and signs the request, and
``after-call`` with the answer. The first is where a request is prepared, the second where its answer is read. A wrapped
client is a second client of the same class, on the same connections and credentials, with an emitter of its own.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from copy import copy
from inspect import iscoroutinefunction
from typing import Any, TypeVar

from attrs import define, frozen
from botocore import xform_name  # type: ignore[import-untyped]  # botocore carries no types
from botocore.client import BaseClient  # type: ignore[import-untyped]  # as above
from botocore.exceptions import ClientError  # type: ignore[import-untyped]  # as above

from agentctx.clients.model_call import Conversations, ModelCall, begin, too_large_text
from agentctx.errors import AgentctxError, ConfigError, ContextOverflow
from agentctx.formats.bedrock import Converse
from agentctx.formats.overflow import classify_error
from agentctx.message import Native
from agentctx.session.blocking import blocking, drive

T = TypeVar("T")

_ADAPTER = Converse()
_PREPARED = ("Converse", "ConverseStream")
_REFUSED = ("InvokeModel", "InvokeModelWithResponseStream", "InvokeModelWithBidirectionalStream", "StartAsyncInvoke")


def wrap(client: T, conversations: Conversations) -> T:
    """A second client, whose model calls are prepared. It has ``conversations`` as its attribute ``agentctx``.

    Raises:
        ConfigError: If ``client`` is no client of ``bedrock-runtime``.
    """
    given: Native = client
    service = given.meta.service_model.service_name if isinstance(given, BaseClient) else type(given).__qualname__
    if service != "bedrock-runtime":
        msg = f"wrap: {service} has no model calls; pass a client of bedrock-runtime"
        raise ConfigError(msg)
    wrapped: Native = object.__new__(type(given))  # copy.copy(given) recurses without end
    wrapped.__dict__ = {**vars(given), "meta": copy(given.meta), "agentctx": conversations}
    wrapped.meta.events = _Emitter(given, conversations, iscoroutinefunction(given.close))
    result: T = wrapped
    return result


@frozen(eq=False)
class _Emitter:
    """Emits the events of a wrapped client to the handlers of the given one, and prepares its model calls.

    A request is prepared before the handlers get it. Its answer is read after them.

    Args:
        client: The client that was given.
        waits: Whether that client is async.
    """

    client: Native
    conversations: Conversations
    waits: bool

    def __getattr__(self, name: str) -> Native:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.client.meta.events, name)

    def emit(self, event_name: str, **more: Native) -> Native:
        """Emit an event: what each handler returned."""
        event, _, operation = event_name.partition(".bedrock-runtime.")
        if event == "provide-client-params" and operation in _PREPARED:
            responses = self._prepare(operation, event_name, **more)
        elif event == "after-call" and operation in _PREPARED:
            responses = self._answer(operation, event_name, **more)
        else:
            if event == "provide-client-params" and operation in _REFUSED:
                _refuse(operation, more["params"])
            return self.client.meta.events.emit(event_name, **more)
        return responses if self.waits else drive(responses)

    async def _prepare(
        self, operation: str, event_name: str, *, params: Native, context: Native, **more: Native
    ) -> Native:
        try:
            call = await self._wait(begin, self.conversations, _ADAPTER, params)
        except ContextOverflow as overflow:
            message = too_large_text(_ADAPTER, overflow)
            refusal = {"Error": {"Code": "ValidationException", "Message": message}}
            answer = {**refusal, "ResponseMetadata": {"HTTPStatusCode": 400}}
            raise self.client.exceptions.ValidationException(answer, operation) from overflow
        if call is not None:
            context[self], params = call, call.written()
        emitted = self.client.meta.events.emit(event_name, params=params, context=context, **more)
        return [*(await emitted if self.waits else emitted), (self.emit, params)]

    async def _answer(
        self, operation: str, event_name: str, *, http_response: Native, parsed: Native, context: Native, **more: Native
    ) -> Native:
        answer = {"http_response": http_response, "parsed": parsed, "context": context}
        emitted = self.client.meta.events.emit(event_name, **answer, **more)
        responses = await emitted if self.waits else emitted
        call = context.get(self)
        if call is None:
            return responses
        if http_response.status_code >= 300:
            smaller = await self._again(call, operation, parsed)
            if smaller is None:
                return responses
            parsed.clear()
            parsed.update(smaller)
            http_response.status_code = smaller["ResponseMetadata"]["HTTPStatusCode"]
        if "stream" in parsed:
            parsed["stream"] = (_AsyncEvents if self.waits else _Events)(parsed["stream"], call)
        else:
            call.learn(_ADAPTER.usage(parsed))
            await call.kept(waits=self.waits)
        return responses

    async def _again(self, call: ModelCall, operation: str, refusal: Mapping[str, Any]) -> Native:
        """The answer to a smaller request; None where the first error stands.

        The smaller request is a call of the given client, which validates and signs it.
        """
        error = self.client.exceptions.from_code(refusal.get("Error", {}).get("Code"))(refusal, operation)
        if classify_error(error) is None:
            return None
        try:
            if not await self._wait(call.shrink, error):
                return None
        except AgentctxError as failed:
            raise failed from error
        ask = getattr(self.client, xform_name(operation))
        try:
            return await ask(**call.written()) if self.waits else ask(**call.written())
        except ClientError as second:
            if classify_error(second) is None:
                raise
            return None

    async def _wait(self, function: Callable[..., Awaitable[Any]], *args: Native) -> Native:
        return await function(*args) if self.waits else blocking(function, *args)


@define
class _Stream:
    """What a response streams. The usage is recorded with the event that tells it, which is the last."""

    stream: Native
    call: ModelCall

    def __getattr__(self, name: str) -> Native:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.stream, name)

    async def _read(self, event: Native, *, waits: bool) -> None:
        if (usage := _ADAPTER.usage(event)) is not None:
            self.call.learn(usage)
            await self.call.kept(waits=waits)


class _Events(_Stream):
    """Events of a sync client."""

    def __iter__(self) -> Generator[Any]:
        for event in self.stream:
            drive(self._read(event, waits=False))
            yield event


class _AsyncEvents(_Stream):
    """Events of an async client."""

    async def __aiter__(self) -> AsyncGenerator[Any]:
        async for event in self.stream:
            await self._read(event, waits=True)
            yield event


def _refuse(operation: str, params: Mapping[str, Any]) -> None:
    """Refuse a request to a language model in the model's own format; embeddings and pictures go through."""
    body = params.get("body", params.get("modelInput"))
    if isinstance(body, str | bytes | bytearray):
        try:
            body = json.loads(body)
        except (ValueError, RecursionError):
            body = None
    model = str(params.get("modelId")).lower()
    prompts = isinstance(body, Mapping) and any(name in body for name in _PROMPTS)
    if prompts and not any(name in model for name in _MAKES_NO_TEXT):
        msg = (
            f"{operation} of a wrapped client is a model call that cannot be prepared: call converse or converse_stream"
        )
        raise ConfigError(msg)


_PROMPTS = ("messages", "prompt", "message", "chat_history", "textGenerationConfig")
"""Fields of the bodies of language models: Claude, Llama, Mistral, Command, Jamba, Titan, and imported ones."""

_MAKES_NO_TEXT = ("stability.", "luma.", "image", "canvas", "reel", "embed", "rerank", "twelvelabs.")
"""What is in the names of models that take a ``prompt`` and make no text, or take text and make none."""
