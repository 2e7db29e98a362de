"""OpenAI's Responses format."""

from agentctx.wire.openai_responses.format import OpenAIResponses

__all__ = ["OpenAIResponses"]
