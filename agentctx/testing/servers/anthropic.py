"""A local server that speaks Anthropic's Messages.

Words of errors: https://docs.anthropic.com/en/api/errors and answers of the live API, as of 2026-11.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentctx.testing.servers.desk import Asked, Desk, Said, Verdict
from agentctx.testing.servers.sse import Event, events

Object = dict[str, Any]


def messages(desk: Desk) -> Starlette:
    """``POST /v1/messages``, whole and as a stream.

    Args:
        desk: How the server behaves.
    """

    async def create(request: Request) -> Response:
        body = await request.json()
        if "max_tokens" not in body:
            return JSONResponse(_error("max_tokens: Field required"), 400)
        given = (body.get("messages", ()), body.get("system"), body.get("tools"), body.get("model"))
        found = await desk.judge(body, Asked("anthropic", *given, room=body["max_tokens"]))
        if found.wrong is not None:
            return JSONResponse(_error(found.wrong), 400)
        if found.too_large and (desk.refuses == "status" or not body.get("stream")):
            return JSONResponse(_overflow(desk, body, found), 400)
        said = desk.answer(body)
        if body.get("stream"):
            return events(_stream(desk, body, said, found), desk.pause)
        return JSONResponse({**_message(body, _usage(said, found.tokens)), "content": _blocks(said), **_stop(said)})

    return Starlette(routes=[Route("/v1/messages", create, methods=["POST"])])


def _stream(desk: Desk, body: Object, said: Said, found: Verdict) -> Iterator[Event]:
    def event(kind: str, **more: object) -> Event:
        return kind, {"type": kind, **more}

    yield event("message_start", message=_message(body, {**_usage(said, found.tokens), "output_tokens": 1}))
    yield event("ping")
    if found.too_large and desk.refuses == "stream":
        yield "error", _overflow(desk, body, found)
        return
    for place, block in enumerate(_blocks(said)):
        empty: Object = {"text": ""} if block["type"] == "text" else {"input": {}}
        yield event("content_block_start", index=place, content_block={**block, **empty})
        for delta in _deltas(said, block):
            yield event("content_block_delta", index=place, delta=delta)
            if found.too_large:
                yield "error", _overflow(desk, body, found)
                return
        yield event("content_block_stop", index=place)
    yield event("message_delta", delta=_stop(said), usage={"output_tokens": len(said.words)})
    yield event("message_stop")


def _deltas(said: Said, block: Object) -> Iterator[Object]:
    if block["type"] == "text":
        for word in said.words:
            yield {"type": "text_delta", "text": word}
    else:
        yield {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}


def _message(body: Mapping[str, Any], usage: Object) -> Object:
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": []}
    return {**head, "stop_reason": None, "stop_sequence": None, "usage": usage}


def _blocks(said: Said) -> list[Object]:
    words: Object = {"type": "text", "text": said.text}
    calls = [
        {"type": "tool_use", "id": f"toolu_{place}", "name": name, "input": dict(arguments)}
        for place, (name, arguments) in enumerate(said.calls)
    ]
    return [words, *calls]


def _stop(said: Said) -> Object:
    return {"stop_reason": "tool_use" if said.calls else "end_turn", "stop_sequence": None}


def _usage(said: Said, tokens: int) -> Object:
    cached = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    return {"input_tokens": tokens, **cached, "output_tokens": len(said.words)}


def _overflow(desk: Desk, body: Mapping[str, Any], found: Verdict) -> Object:
    if found.tokens > desk.window:
        return _error(f"prompt is too long: {found.tokens} tokens > {desk.window} maximum")
    return _error(
        f"input length and `max_tokens` exceed context limit: {found.tokens} + {body['max_tokens']} > {desk.window}, "
        "decrease input length or `max_tokens` and try again"
    )


def _error(message: str) -> Object:
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}, "request_id": "req_1"}
