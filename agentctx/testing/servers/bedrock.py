"""A local server that speaks Bedrock's Converse.

Words of errors: answers of the live API, as of 2026-11. A stream is in AWS's binary form:
https://docs.aws.amazon.com/AmazonS3/latest/API/RESTSelectObjectAppendix.html.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from struct import pack
from typing import Any
from urllib.parse import unquote
from zlib import crc32

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from agentctx.testing.servers.desk import Asked, Desk, Said, Verdict

Object = dict[str, Any]
Sent = tuple[str, str, Mapping[str, Any]]
"""A message of a stream: whether it is an event or an exception, its name, and what it says."""

_REFUSED = {"x-amzn-ErrorType": "ValidationException"}


def converse(desk: Desk) -> Starlette:
    """``POST /model/{model}/converse`` and ``/converse-stream``.

    Args:
        desk: How the server behaves.
    """

    async def create(request: Request) -> Response:
        model = unquote(request.path_params["model"])
        body = {**await request.json(), "modelId": model}
        tools = (body.get("toolConfig") or {}).get("tools")
        found = await desk.judge(body, Asked("bedrock", body.get("messages", ()), body.get("system"), tools, model))
        if found.wrong is not None:
            return JSONResponse({"message": found.wrong}, 400, _REFUSED)
        streamed = request.url.path.endswith("/converse-stream")
        if found.too_large and (desk.refuses == "status" or not streamed):
            return JSONResponse({"message": _overflow(desk, found)}, 400, _REFUSED)
        said = desk.answer(body)
        if streamed:
            media = "application/vnd.amazon.eventstream"
            return StreamingResponse(_sent(desk, _stream(desk, said, found)), media_type=media)
        message = {"role": "assistant", "content": _blocks(said)}
        return JSONResponse(
            {
                "output": {"message": message},
                "stopReason": _stop(said),
                "usage": _usage(said, found),
                "metrics": {"latencyMs": 1},
            }
        )

    paths = ("/model/{model}/converse", "/model/{model}/converse-stream")
    return Starlette(routes=[Route(path, create, methods=["POST"]) for path in paths])


def _stream(desk: Desk, said: Said, found: Verdict) -> Iterator[Sent]:
    refused: Sent = ("exception", "validationException", {"message": _overflow(desk, found)})
    yield "event", "messageStart", {"role": "assistant"}
    if found.too_large and desk.refuses == "stream":
        yield refused
        return
    for place, block in enumerate(_blocks(said)):
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
    else:
        yield {"toolUse": {"input": json.dumps(block["toolUse"]["input"])}}


async def _sent(desk: Desk, stream: Iterator[Sent]) -> AsyncIterator[bytes]:
    for kind, name, said in stream:
        await anyio.sleep(desk.pause)
        yield _message(kind, name, json.dumps(said).encode())


def _message(kind: str, name: str, payload: bytes) -> bytes:
    """One message of AWS's event stream: lengths, headers and payload, each part with its checksum."""
    headers = {":message-type": kind, f":{kind}-type": name, ":content-type": "application/json"}
    written = b"".join(
        pack("!B", len(key)) + key.encode() + pack("!BH", 7, len(value)) + value.encode()
        for key, value in headers.items()
    )
    lengths = pack("!II", 16 + len(written) + len(payload), len(written))
    whole = lengths + pack("!I", crc32(lengths)) + written + payload
    return whole + pack("!I", crc32(whole))


def _blocks(said: Said) -> list[Object]:
    words: Object = {"text": said.text}
    calls = [
        {"toolUse": {"toolUseId": f"tooluse_{place}", "name": name, "input": dict(arguments)}}
        for place, (name, arguments) in enumerate(said.calls)
    ]
    return [words, *calls]


def _stop(said: Said) -> str:
    return "tool_use" if said.calls else "end_turn"


def _usage(said: Said, found: Verdict) -> Object:
    answer = len(said.words)
    return {"inputTokens": found.tokens, "outputTokens": answer, "totalTokens": found.tokens + answer}


def _overflow(desk: Desk, found: Verdict) -> str:
    return f"The model returned the following errors: prompt is too long: {found.tokens} tokens > {desk.window} maximum"
