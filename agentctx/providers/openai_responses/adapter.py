"""OpenAI's Responses, as its SDK sends and answers them."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from agentctx.core.message import Native
from agentctx.core.report import View
from agentctx.providers.adapter import Adapter, Body, RequestParts, get, name_of_model, with_view
from agentctx.providers.openai_responses import OpenAIResponses

_BEFORE_CONTENT = frozenset(
    {"response.created", "response.queued", "response.in_progress", "response.content_part.added", "keepalive"}
)


@frozen
class Responses(Adapter):
    """``POST /responses``."""

    format = "openai-responses"

    def read(self, body: Body, /) -> RequestParts | None:
        """Items, instructions, tools and model; None for a prompt that the provider keeps, without any input.

        Raises:
            InvalidInput: If the request goes on from what the provider keeps: that can be neither counted nor cut.
        """
        asked = body if body.get("input") is not None else {**body, "input": []}
        items = OpenAIResponses().read_request(asked)
        if asked is not body:
            return None
        return RequestParts(items, body.get("instructions"), body.get("tools"), name_of_model(body))

    def write(self, body: Body, request: RequestParts, view: View, /) -> dict[str, Any]:
        """The request with the view's items, instructions and tools; an input that was a string stays one."""
        written = with_view(body, request, view, "input", "instructions")
        if isinstance(body.get("input"), str) and view.messages == list(request.messages):
            written["input"] = body["input"]
        return written

    def usage(self, said: Native, /) -> Native:
        """The ``usage`` of a response, or of the response within an event."""
        return get(said, "usage") or get(said, "response", "usage")

    def begins(self, event: Native, /) -> bool:
        """Whether an event is of something that the model made."""
        kind = get(event, "type")
        if kind == "response.output_item.added":
            return bool(get(event, "item", "type") != "message")
        return kind not in _BEFORE_CONTENT

    def failure(self, said: Native, /) -> Native:
        """The error of a failed response, which the SDK hands over like any other."""
        if get(said, "type") == "error":
            return said
        failed = get(said, "response") if get(said, "type") == "response.failed" else said
        return get(failed, "error") if get(failed, "status") == "failed" else None
