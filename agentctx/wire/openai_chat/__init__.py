"""OpenAI Chat Completions: read, written, mended and checked."""

from agentctx.wire.openai_chat.format import OpenAIChat

__all__ = ["OpenAIChat"]
