"""Anthropic's Messages, as its SDK sends and answers them."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from agentctx.core.message import Native
from agentctx.core.report import View
from agentctx.errors import InvalidInput
from agentctx.providers.adapter import Adapter, Body, RequestParts, get, name_of_model, with_view

_BEFORE_CONTENT = frozenset({"message_start", "ping"})
_EMPTY_AT_FIRST = frozenset({"text", "thinking", "tool_use", "server_tool_use", "mcp_tool_use"})


@frozen
class Messages(Adapter):
    """``POST /v1/messages``."""

    format = "anthropic"

    def read(self, body: Body, /) -> RequestParts | None:
        """Messages, system prompt, tools and model.

        Raises:
            InvalidInput: If the request goes on from a thread that the provider keeps: that can be neither counted
                nor cut.
        """
        if body.get("thread") is not None:
            what = "the provider adds what it has kept, which can be neither counted nor cut here: send all messages"
            raise InvalidInput("thread", what)
        if body.get("messages") is None:
            return None
        return RequestParts(body["messages"], body.get("system"), body.get("tools"), name_of_model(body))

    def write(self, body: Body, request: RequestParts, view: View, /) -> dict[str, Any]:
        """The request with the view's messages, system prompt, tools and options; ``betas`` belong into a header."""
        return with_view(body, request, view, "messages", "system")

    def usage(self, said: Native, /) -> Native:
        """The ``usage`` of a message; of a stream that at its start, or at its end when the prompt is in it."""
        usage = get(said, "message", "usage") or get(said, "usage")
        return usage if get(usage, "input_tokens") is not None else None

    def begins(self, event: Native, /) -> bool:
        """Whether an event carries something that the model said; most blocks are empty when they start."""
        kind = get(event, "type")
        if kind == "content_block_start":
            return get(event, "content_block", "type") not in _EMPTY_AT_FIRST
        return kind not in _BEFORE_CONTENT

    def failure(self, said: Native, /) -> Native:
        """The error event of a stream's body; the SDK raises it where it reads the stream itself."""
        return said if get(said, "type") == "error" else None
