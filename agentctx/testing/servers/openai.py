"""Local servers that speak OpenAI's Chat Completions and Responses.

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

from agentctx.formats.overflow import refusal_sentence
from agentctx.testing.servers.desk import (
    Asked,
    Desk,
    Event,
    Path,
    Said,
    Verdict,
    body_of,
    dotted,
    events,
    unknown_field,
)

Object = dict[str, Any]

_CREATED = 1_780_000_000
"""When every answer was made, in seconds since 1970: the same bytes at each run."""


def chat_completions(desk: Desk) -> Starlette:
    """``POST /v1/chat/completions`` (and where Azure has it), whole and as a stream."""

    async def create(request: Request) -> Response:
        body = await body_of(request)
        given = (body.get("messages", ()), None, body.get("tools"), body.get("model"))
        found = await desk.judge(body, Asked("openai-chat", *given, wrong=_wrong_chat(body)))
        if found.wrong is not None:
            return JSONResponse({"error": _error(found.wrong, "messages", None)}, 400)
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
    whole = {"id": id_, "object": kind, "created": _CREATED, "model": model, "choices": choices}
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
    message = refusal_sentence("openai-chat", prompt=found.tokens, limit=found.window)
    return _error(message, "messages", "context_length_exceeded")


def _wrong_chat(body: Object) -> str | None:
    """What is wrong with a request apart from its conversation's rules."""
    if "model" not in body:
        return "you must provide a model parameter"
    unknown = unknown_field(body, "openai-chat")
    if unknown is None:
        return None
    return f"Unrecognized request argument supplied: {unknown[0]}" if len(unknown) == 1 else _unknown_parameter(unknown)


def responses(desk: Desk) -> Starlette:
    """``POST /v1/responses``, whole, as a stream and in the background; ``GET`` finds those of the background alone.

    It keeps nothing else, so it finds nothing else that was kept.
    """
    kept: dict[str, Object] = {}

    async def retrieve(request: Request) -> Response:
        known = request.path_params["id"]
        if known in kept:
            return JSONResponse(kept[known])
        return JSONResponse({"error": _error(f"Response with id '{known}' not found.", "response_id", None)}, 404)

    async def create(request: Request) -> Response:
        body = await body_of(request)
        lost = _lost(body)
        if lost is not None:
            desk.requests.append(body)
            return lost
        given = body.get("input", ())
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        asked = (items, body.get("instructions"), body.get("tools"), body.get("model"))
        found = await desk.judge(body, Asked("openai-responses", *asked, wrong=_wrong(body)))
        if found.wrong is not None:
            return JSONResponse({"error": _error(found.wrong, "input", None)}, 400)
        if found.too_large and (desk.refuses == "status" or not body.get("stream")):
            return JSONResponse({"error": _overflow()}, 400)
        said = desk.answer(body)
        whole = _response(desk, body, said, _usage(said, found.tokens))
        if body.get("stream"):
            numbered = ({**event, "sequence_number": n} for n, event in enumerate(_stream(desk, whole, said, found)))
            return events(((event["type"], event) for event in numbered), desk.pause)
        if body.get("background"):
            kept[whole["id"]] = whole
            return JSONResponse({**whole, "status": "queued", "output": [], "usage": None})
        return JSONResponse(whole)

    found_again = Route("/v1/responses/{id}", retrieve, methods=["GET"])
    return Starlette(routes=[Route("/v1/responses", create, methods=["POST"]), found_again])


def _lost(body: Object) -> Response | None:
    """The answer to a request that names something kept, which is not found."""
    if (before := body.get("previous_response_id")) is not None:
        code = "previous_response_not_found"
        said = f"Previous response with id '{before}' not found."
        return JSONResponse({"error": _error(said, "previous_response_id", code)}, 400)
    for name in ("conversation", "prompt"):
        if (kept := body.get(name)) is not None:
            known = kept.get("id") if isinstance(kept, Mapping) else kept
            return JSONResponse({"error": _error(f"{name.title()} with id '{known}' not found.", name, None)}, 404)
    return None


def _wrong(body: Object) -> str | None:
    """What is wrong with a request apart from its conversation's rules."""
    if "model" not in body:
        return "Missing required parameter: 'model'."
    told = body.get("instructions")
    if told is not None and not isinstance(told, str):
        kind = "an array" if isinstance(told, list) else "an object" if isinstance(told, Mapping) else "something else"
        return f"Invalid type for 'instructions': expected a string, but got {kind} instead."
    unknown = unknown_field(body, "openai-responses")
    return None if unknown is None else _unknown_parameter(unknown)


def _stream(desk: Desk, whole: Object, said: Said, found: Verdict) -> Iterator[Object]:
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    failed = {**begun, "status": "failed", "error": _overflow()}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    if found.too_large and desk.refuses == "stream":
        yield {"type": "response.failed", "response": failed}
        return
    for place, item in enumerate(whole["output"]):
        empty: Object = {"content": []} if item["type"] == "message" else {"arguments": ""}
        begins = {**item, **empty, "status": "in_progress"}
        yield {"type": "response.output_item.added", "output_index": place, "item": begins}
        for event in _pieces(said, item):
            yield {**event, "item_id": item["id"], "output_index": place}
            if found.too_large and event["type"].endswith(".delta"):
                yield {"type": "response.failed", "response": failed}
                return
        yield {"type": "response.output_item.done", "output_index": place, "item": item}
    yield {"type": "response.completed", "response": whole}


def _pieces(said: Said, item: Object) -> Iterator[Object]:
    if item["type"] == "function_call":
        yield {"type": "response.function_call_arguments.delta", "delta": item["arguments"]}
        told = {"name": item["name"], "arguments": item["arguments"]}
        yield {"type": "response.function_call_arguments.done", **told}
        return
    part, at = item["content"][0], {"content_index": 0}
    yield {"type": "response.content_part.added", **at, "part": {**part, "text": ""}}
    for word in said.words:
        yield {"type": "response.output_text.delta", **at, "delta": word, "logprobs": []}
    yield {"type": "response.output_text.done", **at, "text": said.text, "logprobs": []}
    yield {"type": "response.content_part.done", **at, "part": part}


def _response(desk: Desk, body: Mapping[str, Any], said: Said, usage: Object) -> Object:
    return {
        "id": desk.id("resp"),
        "object": "response",
        "created_at": _CREATED,
        "status": "completed",
        "model": body["model"],
        "output": _items(desk, said),
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": body.get("tools") or [],
        "usage": usage,
    }


def _items(desk: Desk, said: Said) -> Sequence[Object]:
    words = {"type": "output_text", "text": said.text, "annotations": []}
    message = {"type": "message", "id": desk.id("msg"), "role": "assistant", "status": "completed", "content": [words]}
    calls = [
        {
            "type": "function_call",
            "id": desk.id("fc"),
            "call_id": desk.id("call"),
            "name": name,
            "arguments": json.dumps(arguments),
            "status": "completed",
        }
        for name, arguments in said.calls
    ]
    return [message, *calls] if said.text else calls


def _usage(said: Said, tokens: int) -> Object:
    answer = len(said.words)
    return {
        "input_tokens": tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": answer,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens + answer,
    }


def _overflow() -> Object:
    said = "Your input exceeds the context window of this model. Please adjust your input and try again."
    return _error(said, "input", "context_length_exceeded")


def _error(message: str, param: str | None, code: str | None) -> dict[str, Any]:
    """An error as the APIs write it."""
    return {"message": message, "type": "invalid_request_error", "param": param, "code": code}


def _unknown_parameter(path: Path) -> str:
    """The words about a field that the APIs do not know."""
    return f"Unknown parameter: '{dotted(path)}'."
