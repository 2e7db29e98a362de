"""Amazon Bedrock's Converse; its format stands in ``format.py``, and nothing here loads it."""

from agentctx.wire_format import UsageKeys

usage_keys = UsageKeys(
    ("inputTokens",), parts=("cacheReadInputTokens", "cacheWriteInputTokens"), answer=("outputTokens",)
)
"""What its answers say of their size."""
