"""Anthropic Messages: read, written, mended and checked."""

from agentctx.providers.anthropic.format import Anthropic

__all__ = ["Anthropic"]
