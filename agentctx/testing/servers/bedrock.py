"""A local server that speaks Bedrock's Converse.

Words of errors: answers of the live API, as of 2026-11.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentctx.formats.overflow import refusal_sentence
from agentctx.testing.servers.anthropic import broken, drops, sign
from agentctx.testing.servers.desk import Asked, Desk, Said, Sent, Verdict, body_of, frames

Object = dict[str, Any]

_REFUSED = {"x-amzn-ErrorType": "ValidationException"}
_MODEL = "The model returned the following errors: "


def converse(desk: Desk) -> Starlette:
    """``POST /model/{model}/converse`` and ``/converse-stream``."""

    async def create(request: Request) -> Response:
        model = unquote(request.path_params["model"])
        body = {**await body_of(request), "modelId": model}
        given = (body.get("messages", ()), body.get("system"), (body.get("toolConfig") or {}).get("tools"), model)
        found = await desk.judge(body, Asked("bedrock", *given, wrong=_wrong(body)))
        if found.wrong is not None:
            return JSONResponse({"message": found.wrong}, 400, _REFUSED)
        streamed = request.url.path.endswith("/converse-stream")
        if found.too_large and (desk.refuses == "status" or not streamed):
            return JSONResponse({"message": _overflow(found)}, 400, _REFUSED)
        said = desk.answer(body)
        if streamed:
            return frames(_stream(desk, body, said, found), desk.pause)
        message = {"role": "assistant", "content": _blocks(desk, body, said)}
        told = {"stopReason": _stop(said), "usage": _usage(said, found), "metrics": {"latencyMs": 1}}
        return JSONResponse({"output": {"message": message}, **told})

    paths = ("/model/{model}/converse", "/model/{model}/converse-stream")
    return Starlette(routes=[Route(path, create, methods=["POST"]) for path in paths])


def _wrong(body: Object) -> str | None:
    """What is wrong with what is meant for the model: reasoning whose signature does not hold."""
    fields = body.get("additionalModelRequestFields") or {}
    dropping = drops(fields, fields.get("anthropic_beta") or ())
    if dropping is None:
        return f"{_MODEL}thinking.block_binding: Extra inputs are not permitted"
    found = None if dropping else broken(_head(body), body.get("messages"), body["modelId"])
    return None if found is None else f"{_MODEL}{found[0].path}: Invalid `signature` in `thinking` block"


def _head(body: Object) -> list[Any]:
    return [body.get("system") or [], (body.get("toolConfig") or {}).get("tools") or []]


def _stream(desk: Desk, body: Object, said: Said, found: Verdict) -> Iterator[Sent]:
    refused: Sent = ("exception", "validationException", {"message": _overflow(found)})
    yield "event", "messageStart", {"role": "assistant"}
    if found.too_large and desk.refuses == "stream":
        yield refused
        return
    for place, block in enumerate(_blocks(desk, body, said)):
        if "toolUse" in block:
            start = {name: block["toolUse"][name] for name in ("toolUseId", "name")}
            yield "event", "contentBlockStart", {"start": {"toolUse": start}, "contentBlockIndex": place}
        for delta in _deltas(said, block):
            yield "event", "contentBlockDelta", {"delta": delta, "contentBlockIndex": place}
            if found.too_large:
                yield refused
                return
        yield "event", "contentBlockStop", {"contentBlockIndex": place}
    yield "event", "messageStop", {"stopReason": _stop(said)}
    yield "event", "metadata", {"usage": _usage(said, found), "metrics": {"latencyMs": 1}}


def _deltas(said: Said, block: Object) -> Iterator[Object]:
    if "text" in block:
        for word in said.words:
            yield {"text": word}
    elif "reasoningContent" in block:
        for name, value in block["reasoningContent"]["reasoningText"].items():
            yield {"reasoningContent": {name: value}}
    else:
        yield {"toolUse": {"input": json.dumps(block["toolUse"]["input"])}}


def _blocks(desk: Desk, body: Object, said: Said) -> list[Object]:
    thought: list[Object] = []
    if said.thinking is not None:
        signature = sign(said.thinking, _head(body), body["messages"])
        thought.append({"reasoningContent": {"reasoningText": {"text": said.thinking, "signature": signature}}})
    words: list[Object] = [{"text": said.text}] if said.text else []
    calls = [
        {"toolUse": {"toolUseId": desk.id("tooluse"), "name": name, "input": dict(arguments)}}
        for name, arguments in said.calls
    ]
    return [*thought, *words, *calls]


def _stop(said: Said) -> str:
    return "tool_use" if said.calls else "end_turn"


def _usage(said: Said, found: Verdict) -> Object:
    answer = len(said.words)
    return {"inputTokens": found.tokens, "outputTokens": answer, "totalTokens": found.tokens + answer}


def _overflow(found: Verdict) -> str:
    return _MODEL + refusal_sentence("anthropic", prompt=found.tokens, limit=found.window)
