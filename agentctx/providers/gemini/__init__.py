"""Google Gemini's generateContent; its format stands in ``format.py``, and nothing here loads it."""

from agentctx.wire_format import UsageKeys

usage_keys = UsageKeys(
    ("promptTokenCount", "prompt_token_count"), answer=("candidatesTokenCount", "candidates_token_count")
)
"""What its answers say of their size."""
