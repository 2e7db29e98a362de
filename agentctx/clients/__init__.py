"""Wrap a provider SDK's client: the same client type, prepared before each model call. One file an SDK."""

from agentctx.clients.wrap import wrap

__all__ = ["wrap"]
