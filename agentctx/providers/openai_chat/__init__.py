"""OpenAI Chat Completions: read, written, repaired and checked."""

from agentctx.providers.openai_chat.format import OpenAIChat

__all__ = ["OpenAIChat"]
