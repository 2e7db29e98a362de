"""The tool by which the model gets back what was left out, and how it is known among the tools of a request."""

from __future__ import annotations

from collections.abc import Iterable

from agentctx.core.message import Tool

DESCRIPTION = (
    "Get back what was left out of this conversation. Where the text says 'recall' and a handle, pass that handle to "
    "read the original; with 'lines' (such as '1-80') or 'bytes' (such as '0-4000') a part of it. 'search' finds words "
    "in it, or without a handle in everything that was left out."
)
"""What the model is told of it; by it, it is known."""

ARGUMENTS = {
    "handle": "The handle, exactly as the text shows it.",
    "lines": "Lines of it to read, counted from 1: '120-180', '120-' or '120'.",
    "bytes": "Bytes of it to read, counted from 0, the end not included: '4000-8000' or '4000-'.",
    "search": "Words to look for.",
}
"""Its arguments; each is a text, and none must be given."""


def recall_tool(name: str) -> Tool:
    """The tool under a name."""
    properties = {key: {"type": "string", "description": what} for key, what in ARGUMENTS.items()}
    return Tool(name, DESCRIPTION, {"type": "object", "properties": properties})


def name_of_recall(tools: Iterable[Tool]) -> str | None:
    """What the tool is called among those of a request; None where it is not there."""
    return next((tool.name for tool in tools if tool.description == DESCRIPTION and tool.name), None)
