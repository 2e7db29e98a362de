"""Anthropic Messages; its format stands in ``format.py``, and nothing here loads it."""

from agentctx.wire_format import UsageKeys

usage_keys = UsageKeys(
    ("input_tokens",),
    parts=("cache_creation_input_tokens", "cache_read_input_tokens"),
    answer=("output_tokens",),
    rounds="iterations",
    server_tools=(
        "server_tool_use",
        ("web_search_requests", "web_fetch_requests", "code_execution_requests", "tool_search_requests"),
    ),
)
"""What its answers say of their size."""
