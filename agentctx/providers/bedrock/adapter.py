"""Bedrock's Converse, as botocore sends and answers it."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from agentctx.core.message import Native
from agentctx.core.report import View
from agentctx.providers.adapter import Body, Request, get, name_of_model, put, with_view

_BEFORE_CONTENT = frozenset({"messageStart", "contentBlockStart"})


@frozen
class Converse:
    """``Converse`` and ``ConverseStream`` (``shape.Shape``).

    Args:
        format: The wire format.
    """

    format: str = "bedrock"

    def read(self, body: Body, /) -> Request | None:
        """Messages, system prompt, tools and model; None for a prompt that the provider keeps."""
        if body.get("messages") is None:
            return None
        tools = get(body.get("toolConfig"), "tools")
        return Request(body["messages"], body.get("system"), tools, name_of_model(body, "modelId"))

    def write(self, body: Body, request: Request, view: View, /) -> dict[str, Any]:
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

    def failure(self, _said: object, /) -> Native:
        """None: botocore raises every error, also those within a stream."""
        return None
