"""OpenAI's Chat Completions, as its SDK and LiteLLM send and answer them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from agentctx.core.message import Native
from agentctx.core.report import View
from agentctx.providers.adapter import Body, Request, get, name_of_model, with_view


@frozen
class ChatCompletions:
    """``POST /chat/completions`` (``shape.Shape``).

    Args:
        format: The wire format.
    """

    format: str = "openai-chat"

    def read(self, body: Body, /) -> Request | None:
        """Messages, tools and model."""
        if body.get("messages") is None:
            return None
        return Request(body["messages"], None, body.get("tools"), name_of_model(body))

    def write(self, body: Body, request: Request, view: View, /) -> dict[str, Any]:
        """The request with the view's messages and tools."""
        return with_view(body, request, view, "messages")

    def usage(self, said: Native, /) -> Native:
        """The ``usage`` of an answer or of a stream's last chunk."""
        return get(said, "usage")

    def begins(self, event: Native, /) -> bool:
        """Whether a chunk says more than the role of the speaker."""
        return any(_says(choice) for choice in get(event, "choices") or ())

    def failure(self, said: Native, /) -> Native:
        """The ``error`` that some gateways answer with status 200."""
        return get(said, "error") if not get(said, "choices") else None


def _says(choice: object) -> bool:
    if get(choice, "finish_reason"):
        return True
    delta = get(choice, "delta")
    if delta is None:
        return False
    fields = delta if isinstance(delta, Mapping) else {**vars(delta), **(get(delta, "model_extra") or {})}
    return any(value for name, value in fields.items() if name != "role")
