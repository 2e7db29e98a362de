"""Google Gemini's generateContent: read, written, mended and checked."""

from agentctx.providers.gemini.format import Gemini

__all__ = ["Gemini"]
