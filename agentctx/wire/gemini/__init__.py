"""Google Gemini's generateContent: read, written, mended and checked."""

from agentctx.wire.gemini.format import Gemini

__all__ = ["Gemini"]
