"""Wrap a provider SDK's client: the same client type, prepared before each model call."""

from agentctx.clients.wrap import wrap

__all__ = ["wrap"]
