"""OpenAI's Responses format."""

from agentctx.providers.openai_responses.format import OpenAIResponses

__all__ = ["OpenAIResponses"]
