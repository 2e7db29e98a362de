"""A local server that speaks OpenAI's Chat Completions and Responses.

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

from agentctx.testing.servers.desk import Asked, Desk, Said, Verdict
from agentctx.testing.servers.sse import Event, events

CREATED = 1_780_000_000
Object = dict[str, Any]


def chat_completions(desk: Desk) -> Starlette:
    """``POST /v1/chat/completions`` (and where Azure has it), whole and as a stream.

    Args:
        desk: How the server behaves.
    """

    async def create(request: Request) -> Response:
        body = await request.json()
        asked = Asked("openai-chat", body.get("messages", ()), None, body.get("tools"), body.get("model"))
        found = await desk.judge(body, asked)
        if found.wrong is not None:
            return _refused(found.wrong, "messages")
        if found.too_large and (desk.refuses == "status" or not body.get("stream")):
            return JSONResponse({"error": _chat_overflow(desk, found)}, 400)
        said = desk.answer(body)
        if body.get("stream"):
            return events(_chat_stream(desk, body, said, found), desk.pause)
        message = {"role": "assistant", "content": said.text, "tool_calls": _calls(said) or None, "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": _finish(said), "logprobs": None}
        return JSONResponse(_completion(body, "chat.completion", [choice], _chat_usage(said, found.tokens)))

    azure = "/openai/deployments/{deployment}/chat/completions"
    return Starlette(routes=[Route(path, create, methods=["POST"]) for path in ("/v1/chat/completions", azure)])


def _chat_stream(desk: Desk, body: Object, said: Said, found: Verdict) -> Iterator[Event]:
    def chunk(delta: Object, finish: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return None, _completion(body, "chat.completion.chunk", [choice], None)

    yield chunk({"role": "assistant", "content": ""})
    if found.too_large and desk.refuses == "stream":
        yield None, {"error": _chat_overflow(desk, found)}
        return
    for place, word in enumerate(said.words):
        yield chunk({"content": word})
        if found.too_large and place == 0:
            yield None, {"error": _chat_overflow(desk, found)}
            return
    for place, call in enumerate(_calls(said)):
        yield chunk({"tool_calls": [{"index": place, **call}]})
    yield chunk({}, _finish(said))
    if (body.get("stream_options") or {}).get("include_usage"):
        yield None, _completion(body, "chat.completion.chunk", [], _chat_usage(said, found.tokens))
    yield None, "[DONE]"


def _completion(body: Mapping[str, Any], kind: str, choices: Sequence[Object], usage: Object | None) -> Object:
    whole = {"id": "chatcmpl-1", "object": kind, "created": CREATED, "model": body["model"], "choices": choices}
    return whole if usage is None else {**whole, "usage": usage}


def _calls(said: Said) -> list[Object]:
    return [
        {"id": f"call_{place}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for place, (name, arguments) in enumerate(said.calls)
    ]


def _finish(said: Said) -> str:
    return "tool_calls" if said.calls else "stop"


def _chat_usage(said: Said, tokens: int) -> Object:
    answer = len(said.words)
    return {"prompt_tokens": tokens, "completion_tokens": answer, "total_tokens": tokens + answer}


def _chat_overflow(desk: Desk, found: Verdict) -> Object:
    said = (
        f"This model's maximum context length is {desk.window} tokens. However, your messages resulted in "
        f"{found.tokens} tokens. Please reduce the length of the messages."
    )
    return _error(said, "messages", "context_length_exceeded")


def responses(desk: Desk) -> Starlette:
    """``POST /v1/responses``, whole and as a stream.

    Args:
        desk: How the server behaves.
    """

    async def create(request: Request) -> Response:
        body = await request.json()
        given = body.get("input", ())
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        asked = Asked("openai-responses", items, body.get("instructions"), body.get("tools"), body.get("model"))
        found = await desk.judge(body, asked)
        if found.wrong is not None:
            return _refused(found.wrong, "input")
        if found.too_large and (desk.refuses == "status" or not body.get("stream")):
            return JSONResponse({"error": _input_overflow()}, 400)
        said = desk.answer(body)
        if body.get("stream"):
            return events(_numbered(_response_stream(desk, body, said, found)), desk.pause)
        return JSONResponse(_response(body, "completed", _items(said), _input_usage(said, found.tokens)))

    return Starlette(routes=[Route("/v1/responses", create, methods=["POST"])])


def _response_stream(desk: Desk, body: Object, said: Said, found: Verdict) -> Iterator[Object]:
    yield {"type": "response.created", "response": _response(body, "in_progress", [])}
    yield {"type": "response.in_progress", "response": _response(body, "in_progress", [])}
    failed = {**_response(body, "failed", []), "error": _input_overflow()}
    if found.too_large and desk.refuses == "stream":
        yield {"type": "response.failed", "response": failed}
        return
    for place, item in enumerate(_items(said)):
        yield {"type": "response.output_item.added", "output_index": place, "item": {**item, "status": "in_progress"}}
        if item["type"] == "message":
            at = {"item_id": item["id"], "output_index": place, "content_index": 0}
            for word in said.words:
                yield {"type": "response.output_text.delta", **at, "delta": word, "logprobs": []}
                if found.too_large:
                    yield {"type": "response.failed", "response": failed}
                    return
        yield {"type": "response.output_item.done", "output_index": place, "item": item}
    whole = _response(body, "completed", _items(said), _input_usage(said, found.tokens))
    yield {"type": "response.completed", "response": whole}


def _numbered(sent: Iterator[Object]) -> Iterator[Event]:
    for number, event in enumerate(sent):
        yield event["type"], {**event, "sequence_number": number}


def _response(body: Mapping[str, Any], status: str, output: Sequence[Object], usage: Object | None = None) -> Object:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "model": body["model"],
        "output": output,
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": body.get("tools") or [],
        "usage": usage,
    }


def _items(said: Said) -> list[Object]:
    words = {"type": "output_text", "text": said.text, "annotations": []}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [words]}
    calls = [
        {
            "type": "function_call",
            "id": f"fc_{place}",
            "call_id": f"call_{place}",
            "name": name,
            "arguments": json.dumps(arguments),
            "status": "completed",
        }
        for place, (name, arguments) in enumerate(said.calls)
    ]
    return [message, *calls]


def _input_usage(said: Said, tokens: int) -> Object:
    answer = len(said.words)
    return {
        "input_tokens": tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": answer,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens + answer,
    }


def _input_overflow() -> Object:
    said = "Your input exceeds the context window of this model. Please adjust your input and try again."
    return _error(said, "input", "context_length_exceeded")


def _refused(message: str, param: str) -> JSONResponse:
    return JSONResponse({"error": _error(message, param, None)}, 400)


def _error(message: str, param: str, code: str | None) -> Object:
    return {"message": message, "type": "invalid_request_error", "param": param, "code": code}
