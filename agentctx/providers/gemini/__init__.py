"""Google Gemini's generateContent: read, written, repaired and checked."""

from agentctx.providers.gemini.format import Gemini

__all__ = ["Gemini"]
