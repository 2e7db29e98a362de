"""OpenAI's Responses; its format stands in ``format.py``, and nothing here loads it."""

from agentctx.wire_format import UsageKeys

usage_keys = UsageKeys(("input_tokens",), answer=("output_tokens",))
"""What its answers say of their size."""
