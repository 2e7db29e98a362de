"""OpenAI's Chat Completions, as its SDK and LiteLLM send and answer them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from agentctx.core.message import Native
from agentctx.core.report import View
from agentctx.providers.adapter import Adapter, Body, RequestParts, get, name_of_model, with_view


@frozen
class ChatCompletions(Adapter):
    """``POST /chat/completions``."""

    format = "openai-chat"

    def read(self, body: Body, /) -> RequestParts | None:
        """Messages, tools and model."""
        if body.get("messages") is None:
            return None
        return RequestParts(body["messages"], None, body.get("tools"), name_of_model(body))

    def write(self, body: Body, request: RequestParts, view: View, /) -> dict[str, Any]:
        """The request with the view's messages and tools."""
        return with_view(body, request, view, "messages")

    def begins(self, event: Native, /) -> bool:
        """Whether a chunk says more than the role of the speaker."""
        return any(_says(choice) for choice in get(event, "choices") or ())

    def failure(self, said: Native, /) -> Native:
        """The ``error`` that some gateways answer with status 200."""
        return get(said, "error") if not get(said, "choices") else None

    def tells_usage(self, body: Body, /) -> bool:
        """A stream tells it only where that is asked for."""
        return not get(body, "stream") or bool(get(body, "stream_options", "include_usage"))


def _says(choice: object) -> bool:
    if get(choice, "finish_reason"):
        return True
    delta = get(choice, "delta")
    if delta is None:
        return False
    fields = delta if isinstance(delta, Mapping) else {**vars(delta), **(get(delta, "model_extra") or {})}
    return any(value for name, value in fields.items() if name != "role")
