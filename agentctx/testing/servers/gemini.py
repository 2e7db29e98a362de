"""A local server that speaks Gemini's generateContent.

Words of errors: https://ai.google.dev/gemini-api/docs/troubleshooting and answers of the live API, as of 2026-11.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentctx.testing.servers.desk import Asked, Desk, Said, Verdict
from agentctx.testing.servers.sse import Event, events

Object = dict[str, Any]


def generate_content(desk: Desk) -> Starlette:
    """``POST /{version}/models/{model}:generateContent`` and ``:streamGenerateContent``.

    Args:
        desk: How the server behaves.
    """

    async def create(request: Request) -> Response:
        body = await request.json()
        model, _, operation = request.path_params["operation"].partition(":")
        asked = Asked("gemini", body.get("contents", ()), body.get("systemInstruction"), body.get("tools"), model)
        found = await desk.judge(body, asked)
        if found.wrong is not None:
            return JSONResponse({"error": _error(found.wrong)}, 400)
        streamed = operation == "streamGenerateContent"
        if found.too_large and (desk.refuses == "status" or not streamed):
            return JSONResponse({"error": _overflow(desk, found)}, 400)
        said = desk.answer(body)
        if streamed:
            return events(_stream(desk, model, said, found), desk.pause)
        return JSONResponse(_response(model, _parts(said), _usage(said, found), "STOP"))

    return Starlette(routes=[Route("/{version}/models/{operation}", create, methods=["POST"])])


def _stream(desk: Desk, model: str, said: Said, found: Verdict) -> Iterator[Event]:
    usage = {**_usage(said, found), "candidatesTokenCount": 0}
    if found.too_large and desk.refuses == "stream":
        yield None, {"error": _overflow(desk, found)}
        return
    for word in said.words:
        yield None, _response(model, [{"text": word}], usage)
        if found.too_large:
            yield None, {"error": _overflow(desk, found)}
            return
    yield None, _response(model, _parts(said)[1:], _usage(said, found), "STOP")


def _response(model: str, parts: list[Object], usage: Object, finish: str | None = None) -> Object:
    candidate: Object = {"index": 0, "content": {"role": "model", "parts": parts}}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model, "responseId": "response-1"}


def _parts(said: Said) -> list[Object]:
    calls = [{"functionCall": {"name": name, "args": dict(arguments)}} for name, arguments in said.calls]
    return [{"text": said.text}, *calls]


def _usage(said: Said, found: Verdict) -> Object:
    answer = len(said.words)
    return {
        "promptTokenCount": found.tokens,
        "candidatesTokenCount": answer,
        "totalTokenCount": found.tokens + answer,
    }


def _overflow(desk: Desk, found: Verdict) -> Mapping[str, Any]:
    return _error(
        f"The input token count ({found.tokens}) exceeds the maximum number of tokens allowed ({desk.window})."
    )


def _error(message: str) -> Mapping[str, Any]:
    return {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}
