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

from agentctx.checking import count
from agentctx.formats.overflow import refusal_sentence
from agentctx.testing.servers.desk import Asked, Desk, Event, Said, Verdict, body_of, dotted, events, unknown_field

Object = dict[str, Any]


def generate_content(desk: Desk) -> Starlette:
    """``POST /{version}/models/{model}:generateContent``, ``:streamGenerateContent`` and ``:countTokens``."""

    async def create(request: Request) -> Response:
        body = await body_of(request)
        model, _, operation = request.path_params["operation"].partition(":")
        if operation == "countTokens":
            return JSONResponse({"totalTokens": count(body["contents"], model, format="gemini")})
        if operation not in {"generateContent", "streamGenerateContent"}:
            return Response(status_code=404)
        given = (body.get("contents", ()), body.get("systemInstruction"), body.get("tools"), model)
        found = await desk.judge(body, Asked("gemini", *given, wrong=_wrong(body)))
        if found.wrong is not None:
            return JSONResponse({"error": _error(found.wrong)}, 400)
        streamed = operation == "streamGenerateContent"
        if found.too_large and (desk.refuses == "status" or not streamed):
            return JSONResponse({"error": _overflow(found)}, 400)
        said = desk.answer(body)
        if streamed:
            return events(_stream(desk, model, said, found), desk.pause)
        return JSONResponse(_response(model, _parts(said), _usage(said, found), "STOP"))

    return Starlette(routes=[Route("/{version}/models/{operation}", create, methods=["POST"])])


def _wrong(body: Object) -> str | None:
    """The field that the provider does not know, in its words."""
    unknown = unknown_field(body, "gemini")
    if unknown is None:
        return None
    *way, name = unknown
    where = f" at '{dotted(way)}'" if way else ""
    return f'Invalid JSON payload received. Unknown name "{name}"{where}: Cannot find field.'


def _stream(desk: Desk, model: str, said: Said, found: Verdict) -> Iterator[Event]:
    usage = {**_usage(said, found), "candidatesTokenCount": 0}
    if found.too_large and desk.refuses == "stream":
        yield None, {"error": _overflow(found)}
        return
    for word in said.words:
        yield None, _response(model, [{"text": word}], usage)
        if found.too_large:
            yield None, {"error": _overflow(found)}
            return
    yield None, _response(model, _parts(said)[1:], _usage(said, found), "STOP")


def _response(model: str, parts: list[Object], usage: Object, finish: str | None = None) -> Object:
    candidate: Object = {"index": 0, "content": {"role": "model", "parts": parts}}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model, "responseId": "response"}


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


def _overflow(found: Verdict) -> Mapping[str, Any]:
    return _error(refusal_sentence("gemini", prompt=found.tokens, limit=found.window))


def _error(message: str) -> Mapping[str, Any]:
    return {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}
