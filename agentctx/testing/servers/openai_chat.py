"""A local server that speaks OpenAI's Chat Completions.

Words of errors: https://platform.openai.com/docs/guides/error-codes and answers of the live API, as of 2026-11.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentctx.testing.servers.desk import (
    CREATED,
    Asked,
    Desk,
    Event,
    Said,
    Verdict,
    body_of,
    error,
    events,
    unknown_field,
    unknown_parameter,
)

Object = dict[str, Any]


def chat_completions(desk: Desk) -> Starlette:
    """``POST /v1/chat/completions`` (and where Azure has it), whole and as a stream."""

    async def create(request: Request) -> Response:
        body = await body_of(request)
        given = (body.get("messages", ()), None, body.get("tools"), body.get("model"))
        found = await desk.judge(body, Asked("openai-chat", *given, wrong=_wrong(body)))
        if found.wrong is not None:
            return JSONResponse({"error": error(found.wrong, "messages", None)}, 400)
        if found.too_large and (desk.refuses == "status" or not body.get("stream")):
            return JSONResponse({"error": _chat_overflow(found)}, 400)
        said = desk.answer(body)
        if body.get("stream"):
            return events(_chat_stream(desk, body, said, found), desk.pause)
        message: Object = {"role": "assistant", "content": said.text, "refusal": None, "annotations": []}
        called = {"tool_calls": calls} if (calls := _calls(desk, said)) else {}
        choice = {"index": 0, "message": {**message, **called}, "finish_reason": _finish(said), "logprobs": None}
        return JSONResponse(_completion(desk, body, "chat.completion", [choice], _chat_usage(said, found.tokens)))

    azure = "/openai/deployments/{deployment}/chat/completions"
    return Starlette(routes=[Route(path, create, methods=["POST"]) for path in ("/v1/chat/completions", azure)])


def _chat_stream(desk: Desk, body: Object, said: Said, found: Verdict) -> Iterator[Event]:
    head = _completion(desk, body, "chat.completion.chunk", [])
    told = bool((body.get("stream_options") or {}).get("include_usage"))

    def chunk(delta: Object, finish: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return None, {**head, "choices": [choice], **({"usage": None} if told else {})}

    yield chunk({"role": "assistant", "content": ""})
    if found.too_large and desk.refuses == "stream":
        yield None, {"error": _chat_overflow(found)}
        return
    for place, word in enumerate(said.words):
        yield chunk({"content": word})
        if found.too_large and place == 0:
            yield None, {"error": _chat_overflow(found)}
            return
    for place, call in enumerate(_calls(desk, said)):
        yield chunk({"tool_calls": [{"index": place, **call}]})
    yield chunk({}, _finish(said))
    if told:
        yield None, {**head, "usage": _chat_usage(said, found.tokens)}
    yield None, "[DONE]"


def _completion(
    desk: Desk, body: Mapping[str, Any], kind: str, choices: Sequence[Object], usage: Object | None = None
) -> Object:
    id_, model = desk.id("chatcmpl"), body["model"]
    whole = {"id": id_, "object": kind, "created": CREATED, "model": model, "choices": choices}
    return whole if usage is None else {**whole, "usage": usage}


def _calls(desk: Desk, said: Said) -> list[Object]:
    return [
        {"id": desk.id("call"), "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for name, arguments in said.calls
    ]


def _finish(said: Said) -> str:
    return "tool_calls" if said.calls else "stop"


def _chat_usage(said: Said, tokens: int) -> Object:
    answer = len(said.words)
    return {"prompt_tokens": tokens, "completion_tokens": answer, "total_tokens": tokens + answer}


def _chat_overflow(found: Verdict) -> Object:
    said = (
        f"This model's maximum context length is {found.window} tokens. However, your messages resulted in "
        f"{found.tokens} tokens. Please reduce the length of the messages."
    )
    return error(said, "messages", "context_length_exceeded")


def _wrong(body: Object) -> str | None:
    """What is wrong with a request apart from its conversation's rules."""
    if "model" not in body:
        return "you must provide a model parameter"
    unknown = unknown_field(body, "openai-chat")
    if unknown is None:
        return None
    return f"Unrecognized request argument supplied: {unknown[0]}" if len(unknown) == 1 else unknown_parameter(unknown)
