"""Anthropic Messages: read, written, mended and checked."""

from agentctx.wire.anthropic.format import Anthropic

__all__ = ["Anthropic"]
