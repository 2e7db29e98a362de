"""A system prompt as a format keeps it apart from the messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agentctx.core.parts import Part, Text


def native_system(parts: Iterable[Part], format_name: str) -> Any:  # noqa: ANN401 - any provider's system prompt
    """The texts as the format's own system prompt; None when there is nothing to see in them.

    Args:
        parts: What the prompt says.
        format_name: Name of a format that keeps it apart.
    """
    texts = [part.text for part in parts if isinstance(part, Text) and part.text.strip()]
    if not texts:
        return None
    match format_name:
        case "gemini":
            return {"parts": [{"text": text} for text in texts]}
        case "bedrock":
            return [{"text": text} for text in texts]
        case "anthropic" if len(texts) > 1:
            return [{"type": "text", "text": text} for text in texts]
    return "\n\n".join(texts)
