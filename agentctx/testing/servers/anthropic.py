"""A local server that speaks Anthropic's Messages, as Anthropic, Vertex and Bedrock offer them.

Words of errors: https://docs.anthropic.com/en/api/errors and answers of the live API, as of 2026-11.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from attrs import frozen
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentctx.checking import count
from agentctx.engine.reading import known_profile
from agentctx.formats.overflow import refusal_sentence
from agentctx.message import Native
from agentctx.testing.servers.desk import Asked, Desk, Event, Said, Verdict, body_of, events, frames, unknown_field

Object = dict[str, Any]

_DROP = "`thinking.block_binding.prefix_mismatch_behavior`"


@frozen
class _Call:
    """A request as it came in, whoever offers the model."""

    body: Object
    betas: tuple[str, ...] = ()
    aws: bool = False


def messages(desk: Desk) -> Starlette:
    """``POST /v1/messages``, whole and as a stream, and ``/v1/messages/count_tokens``.

    Besides where Vertex and Bedrock have the former: ``…/models/{model}:rawPredict`` and ``:streamRawPredict``,
    ``/model/{model}/invoke`` and ``/invoke-with-response-stream``.
    """

    async def direct(request: Request) -> Response:
        asked_for = request.headers.get("anthropic-beta", "").split(",")
        betas = tuple(beta.strip() for beta in asked_for if beta.strip())
        return await _answer(desk, _Call(await body_of(request), betas))

    async def vertex(request: Request) -> Response:
        body = await body_of(request)
        body.pop("anthropic_version", None)
        body["model"] = request.path_params["call"].partition(":")[0]
        betas = tuple(request.headers.get("anthropic-beta", "").split(","))
        return await _answer(desk, _Call(body, betas))

    async def bedrock(request: Request) -> Response:
        body = await body_of(request)
        body.pop("anthropic_version", None)
        betas = tuple(body.pop("anthropic_beta", ()))
        streamed = {"stream": True} if request.url.path.endswith("-stream") else {}
        call = _Call({**body, "model": request.path_params["model"], **streamed}, betas, aws=True)
        return await _answer(desk, call)

    async def tokens(request: Request) -> Response:
        body = await body_of(request)
        size = count(body["messages"], body["model"], body.get("tools"), body.get("system"), "anthropic")
        return JSONResponse({"input_tokens": size})

    model = "/projects/{project}/locations/{region}/publishers/anthropic/models/{call}"
    paths = {
        "/v1/messages": direct,
        "/v1/messages/count_tokens": tokens,
        model: vertex,
        "/model/{model}/invoke": bedrock,
        "/model/{model}/invoke-with-response-stream": bedrock,
    }
    return Starlette(routes=[Route(path, endpoint, methods=["POST"]) for path, endpoint in paths.items()])


async def _answer(desk: Desk, call: _Call) -> Response:
    body = call.body
    given = (body.get("messages", ()), body.get("system"), body.get("tools"), body.get("model"))
    room = body["max_tokens"] if isinstance(body.get("max_tokens"), int) else 0
    wrong = _wrong(call)
    found = await desk.judge(body, Asked("anthropic", *given, room=room, wrong=wrong))
    if found.wrong is not None:
        return _refused(call, _error(found.wrong))
    if found.too_large and (desk.refuses == "status" or not body.get("stream")):
        return _refused(call, _overflow(body, found))
    said = desk.answer(body)
    if not body.get("stream"):
        whole = {**_message(desk, body, _usage(body, said, found)), "content": _blocks(desk, body, said), **_stop(said)}
        return JSONResponse({**whole, **_applied(body, said)})
    sent = _stream(desk, body, said, found)
    return frames(map(_chunk, sent), desk.pause) if call.aws else events(sent, desk.pause)


def _wrong(call: _Call) -> str | None:
    """What is wrong with a request apart from its conversation's rules."""
    body = call.body
    missing = next((name for name in ("model", "max_tokens", "messages") if name not in body), None)
    if missing is not None:
        return f"{missing}: Field required"
    if body["max_tokens"] == 0:
        return "max_tokens: must be greater than or equal to 1"
    unknown = unknown_field(body, "anthropic", beta=bool(call.betas))
    if unknown is not None:
        return f"{'.'.join(map(str, unknown))}: Extra inputs are not permitted"
    if "context_management" in body and _CLEARING not in call.betas:
        return "context_management: Extra inputs are not permitted"
    dropping = drops(body, call.betas)
    if dropping is None:
        return "thinking.block_binding: Extra inputs are not permitted"
    return None if dropping else _signature(body)


def _signature(body: Object) -> str | None:
    found = broken(_head(body), body["messages"], body["model"])
    if found is None:
        return None
    thought, moved = found
    said = f"{thought.path}: Invalid `signature` in `thinking` block"
    if not moved:
        return said
    return f'{said}. The block is bound to a different conversation. Remove the block, or set {_DROP} to "drop_block".'


def _head(body: Object) -> list[Any]:
    system, tools = body.get("system"), body.get("tools") or ()
    blocks = [{"type": "text", "text": system}] if isinstance(system, str) else system
    return [blocks, [tool for tool in tools if tool.get("defer_loading") is not True]]


def _applied(body: Object, said: Said) -> Object:
    """The edits that the answer lists; the last edit of the request has cleared the tokens."""
    if "context_management" not in body:
        return {}
    edits = body["context_management"].get("edits") if said.cleared else ()
    applied = [{"type": edit["type"], "cleared_input_tokens": said.cleared} for edit in (edits or ())[-1:]]
    return {"context_management": {"applied_edits": applied}}


def _stream(desk: Desk, body: Object, said: Said, found: Verdict) -> Iterator[Event]:
    def event(kind: str, **more: object) -> Event:
        return kind, {"type": kind, **more}

    yield event("message_start", message=_message(desk, body, {**_usage(body, said, found), "output_tokens": 1}))
    yield event("ping")
    if found.too_large and desk.refuses == "stream":
        yield "error", _overflow(body, found)
        return
    for place, block in enumerate(_blocks(desk, body, said)):
        yield event("content_block_start", index=place, content_block={**block, **_EMPTY[block["type"]]})
        for delta in _deltas(said, block):
            yield event("content_block_delta", index=place, delta=delta)
            if found.too_large:
                yield "error", _overflow(body, found)
                return
        yield event("content_block_stop", index=place)
    yield event("message_delta", delta=_stop(said), usage={"output_tokens": len(said.words)}, **_applied(body, said))
    yield event("message_stop")


_EMPTY: Mapping[str, Object] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}},
}


def _deltas(said: Said, block: Object) -> Iterator[Object]:
    if block["type"] == "text":
        for word in said.words:
            yield {"type": "text_delta", "text": word}
    elif block["type"] == "thinking":
        yield {"type": "thinking_delta", "thinking": block["thinking"]}
        yield {"type": "signature_delta", "signature": block["signature"]}
    else:
        yield {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}


def _chunk(event: Event) -> tuple[str, str, Object]:
    """An event as Bedrock sends it."""
    kind, said = event
    if kind == "error" and isinstance(said, Mapping):
        return "exception", "validationException", {"message": said["error"]["message"]}
    return "event", "chunk", {"bytes": b64encode(json.dumps(said).encode()).decode()}


def _message(desk: Desk, body: Mapping[str, Any], usage: Object) -> Object:
    head = {"id": desk.id("msg"), "type": "message", "role": "assistant", "model": body["model"], "content": []}
    return {**head, "stop_reason": None, "stop_sequence": None, "usage": usage}


def _blocks(desk: Desk, body: Object, said: Said) -> list[Object]:
    thought: list[Object] = []
    if said.thinking is not None:
        signature = sign(said.thinking, _head(body), body["messages"])
        thought.append({"type": "thinking", "thinking": said.thinking, "signature": signature})
    words: list[Object] = [{"type": "text", "text": said.text}] if said.text else []
    calls = [
        {"type": "tool_use", "id": desk.id("toolu"), "name": name, "input": dict(arguments)}
        for name, arguments in said.calls
    ]
    return [*thought, *words, *calls]


def _stop(said: Said) -> Object:
    return {"stop_reason": "tool_use" if said.calls else "end_turn", "stop_sequence": None}


def _usage(body: Mapping[str, Any], said: Said, found: Verdict) -> Object:
    cached = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    cleared = said.cleared if "context_management" in body else 0
    return {"input_tokens": found.tokens - cleared, **cached, "output_tokens": len(said.words)}


def _overflow(body: Mapping[str, Any], found: Verdict) -> Object:
    if found.tokens > found.window:
        return _error(refusal_sentence("anthropic", prompt=found.tokens, limit=found.window))
    return _error(
        f"input length and `max_tokens` exceed context limit: {found.tokens} + {body['max_tokens']} > {found.window}, "
        "decrease input length or `max_tokens` and try again"
    )


def _error(message: str) -> Object:
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}, "request_id": "req_1"}


def _refused(call: _Call, error: Object) -> Response:
    if call.aws:
        return JSONResponse({"message": error["error"]["message"]}, 400, {"x-amzn-ErrorType": "ValidationException"})
    return JSONResponse(error, 400)


_MARK = "local"
_MARKERS = frozenset({"cache_control", "cachePoint"})
_CLEARING = "context-management-2025-06-27"
_BETA = "thinking-binding-controls-2026-08-01"


@frozen
class Thought:
    """Reasoning in a request."""

    path: str
    text: str
    signature: str


def sign(text: str, head: Sequence[Any], messages: Sequence[Any]) -> str:
    """The signature of reasoning that begins an answer.

    Like the provider's, it holds what was thought and, on models that bind it, all that stood before: system prompt,
    tools, and every block that is no reasoning. Source: Anthropic's page on preserved thinking.
    """
    strand = _digest([head, *(said for said in _as_read(messages) if not isinstance(said, Thought))])
    return f"{_MARK}.{_digest(text)}.{strand}"


def broken(head: Sequence[Any], messages: object, model: str) -> tuple[Thought, bool] | None:
    """The first reasoning whose signature does not hold, and whether it is the prefix alone that has changed.

    Signatures that were not made here cannot be checked and are taken as they are.
    """
    profile = known_profile(model)
    bound = profile is not None and profile.bound_thinking
    before: list[Any] = [head]
    for said in _as_read(messages if isinstance(messages, list) else ()):
        if not isinstance(said, Thought):
            before.append(said)
        elif said.signature.startswith(f"{_MARK}."):
            _, text, strand = said.signature.split(".")
            if text != _digest(said.text):
                return said, False
            if bound and strand != _digest(before):
                return said, True
    return None


def drops(body: Mapping[str, Any], betas: Sequence[str]) -> bool | None:
    """Whether the request leaves it to the provider to drop what it cannot take; None when it may not say so."""
    thinking = body.get("thinking")
    binding = thinking.get("block_binding") if isinstance(thinking, Mapping) else None
    if binding is None:
        return False
    return binding.get("prefix_mismatch_behavior") == "drop_block" if _BETA in betas else None


def _as_read(messages: Sequence[Any]) -> Iterator[Any]:
    """Each block with its role; reasoning as a ``Thought``."""
    for number, message in enumerate(messages):
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or ()
        for place, block in enumerate(blocks):
            thought = _thought(f"messages.{number}.content.{place}", block)
            if thought is not None:
                yield thought
            elif (plain := _plain(block)) != {}:
                yield [message.get("role"), plain]


def _thought(path: str, block: Mapping[str, Any]) -> Thought | None:
    if block.get("type") == "thinking":
        return Thought(path, str(block.get("thinking")), str(block.get("signature")))
    said = block.get("reasoningContent")
    if isinstance(said, Mapping) and isinstance(said.get("reasoningText"), Mapping):
        return Thought(path, str(said["reasoningText"].get("text")), str(said["reasoningText"].get("signature")))
    return None


def _plain(value: object) -> Native:
    """A value without cache markers and unset keys."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items() if key not in _MARKERS and each is not None}
    if isinstance(value, list):
        return [plain for each in value if (plain := _plain(each)) != {}]
    return value


def _digest(value: object) -> str:
    return sha256(json.dumps(_plain(value), sort_keys=True).encode()).hexdigest()[:16]
