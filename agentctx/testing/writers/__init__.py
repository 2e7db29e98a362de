"""Each provider's writer in a file of its own: a neutral plan becomes that provider's messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from agentctx.errors import ConfigError
from agentctx.testing.plan import History, Plan, ToolSpec, Turn
from agentctx.testing.writers.anthropic import AnthropicWriter
from agentctx.testing.writers.bedrock import BedrockWriter
from agentctx.testing.writers.gemini import GeminiWriter
from agentctx.testing.writers.openai_chat import ChatWriter
from agentctx.testing.writers.openai_responses import ResponsesWriter


class Writer(Protocol):
    """Writes turns as one provider's messages.

    To add a format, write a class of this shape in a file of its own and add it to ``WRITERS``.
    """

    @property
    def repeats_ids(self) -> bool:
        """Whether two rounds may use the same call id."""
        ...

    @property
    def takes_blank(self) -> bool:
        """Whether a message may say nothing."""
        ...

    @property
    def system_apart(self) -> bool:
        """Whether the system prompt is kept apart from the messages."""
        ...

    @property
    def pictures_in_results(self) -> bool:
        """Whether a tool may answer with a picture."""
        ...

    @property
    def runs_code(self) -> bool:
        """Whether the provider runs code that calls tools."""
        ...

    def messages(self, turns: Sequence[Turn], /) -> list[dict[str, Any]]:
        """The turns as native messages, in order."""
        ...

    def tools(self, specs: Sequence[ToolSpec], /) -> list[dict[str, Any]]:
        """The native tool definitions."""
        ...


WRITERS: Mapping[str, Writer] = {
    "openai-chat": ChatWriter(),
    "anthropic": AnthropicWriter(),
    "openai-responses": ResponsesWriter(),
    "gemini": GeminiWriter(),
    "bedrock": BedrockWriter(),
}


def write(plan: Plan, format: str) -> History:  # noqa: A002 - the name that the whole library gives it
    """Write a plan down as a provider's messages.

    Args:
        plan: The conversation.
        format: Name of the format.

    Raises:
        ConfigError: If there is no writer for the format.
    """
    if format not in WRITERS:
        msg = f"format: expected one of {', '.join(WRITERS)}, got {format!r}"
        raise ConfigError(msg)
    writer, turns, system = WRITERS[format], plan.turns, None
    if writer.system_apart and turns and turns[0].role in {"system", "developer"}:
        (opening,), turns = writer.messages(turns[:1]), turns[1:]
        system = opening["content"] if "content" in opening else {"parts": opening["parts"]}
    tools = writer.tools(plan.tools) or None
    return History(format, writer.messages(turns), system, tools)


__all__ = ["WRITERS", "Writer", "write"]
