"""Bedrock's Converse, as botocore sends and answers it."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from agentctx.core.message import Native
from agentctx.core.report import View
from agentctx.providers.adapter import Adapter, Body, RequestParts, get, name_of_model, put, with_view

_BEFORE_CONTENT = frozenset({"messageStart", "contentBlockStart"})


@frozen
class Converse(Adapter):
    """``Converse`` and ``ConverseStream``."""

    format = "bedrock"

    def read(self, body: Body, /) -> RequestParts | None:
        """Messages, system prompt, tools and model; None for a prompt that the provider keeps."""
        if body.get("messages") is None:
            return None
        tools = get(body.get("toolConfig"), "tools")
        return RequestParts(body["messages"], body.get("system"), tools, name_of_model(body, "modelId"))

    def write(self, body: Body, request: RequestParts, view: View, /) -> dict[str, Any]:
        """The request with the view's messages, system prompt, tools and options."""
        written = with_view(body, request, view, "messages", "system")
        if view.tools is not request.tools:
            written.pop("tools", None)
            put(written, "toolConfig", {**(body.get("toolConfig") or {}), "tools": view.tools} if view.tools else None)
        return written

    def usage(self, said: Native, /) -> Native:
        """The ``usage`` of an answer, or of a stream's ``metadata`` event."""
        return get(said, "usage") or get(said, "metadata", "usage")

    def begins(self, event: Native, /) -> bool:
        """Whether an event carries something that the model said."""
        return not _BEFORE_CONTENT.issuperset(event)
