"""Anthropic Messages: read, written, repaired and checked."""

from agentctx.providers.anthropic.format import Anthropic

__all__ = ["Anthropic"]
