"""OpenAI Chat Completions; its format stands in ``format.py``, and nothing here loads it."""

from agentctx.wire_format import UsageKeys

usage_keys = UsageKeys(("prompt_tokens", "prompt_eval_count"), answer=("completion_tokens", "eval_count"))
"""What its answers say of their size; the second ones are Ollama's."""
