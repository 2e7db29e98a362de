"""Gemini's generateContent, as Google's SDK sends and answers it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from agentctx.core.message import Native
from agentctx.core.report import View
from agentctx.errors import InvalidInput
from agentctx.providers.adapter import Adapter, Body, RequestParts, get, with_view


@frozen
class GenerateContent(Adapter):
    """``POST /models/…:generateContent`` and ``:streamGenerateContent``.

    Args:
        model: The model's name, which stands in the path.
    """

    model: str
    format = "gemini"

    def read(self, body: Body, /) -> RequestParts | None:
        """Contents, system instruction and tools.

        Raises:
            InvalidInput: If the request goes on from what the provider keeps: that can be neither counted nor cut.
        """
        if body.get("cachedContent") is not None:
            place = "cachedContent"
            raise InvalidInput(
                place, "what the provider keeps can be neither counted nor cut: pass its contents instead"
            )
        if body.get("contents") is None:
            return None
        return RequestParts(body["contents"], body.get("systemInstruction"), body.get("tools"), self.model)

    def write(self, body: Body, request: RequestParts, view: View, /) -> dict[str, Any]:
        """The request with the view's contents, system instruction and tools."""
        return with_view(body, request, view, "contents", "systemInstruction")

    def usage(self, said: Native, /) -> Native:
        """The ``usageMetadata`` of an answer or a chunk."""
        return get(_payload(said), "usageMetadata")

    def begins(self, event: Native, /) -> bool:
        """Whether a chunk has parts, or ends."""
        candidates = get(_payload(event), "candidates") or ()
        return any(get(each, "content", "parts") or get(each, "finishReason") for each in candidates)


def _payload(said: Native) -> Mapping[str, Native]:
    body = get(said, "body")
    payload = json.loads(body) if isinstance(body, str) and body else None
    return payload if isinstance(payload, Mapping) else {}
