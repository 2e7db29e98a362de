"""What providers and frameworks write of the tokens that they billed, read as one value; and when."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from agentctx.core.message import Native
from agentctx.economics.prices import Usage

_WHOLE = ("input_tokens", "prompt_tokens", "promptTokenCount", "prompt_token_count", "inputTokens")
_ANSWER = ("output_tokens", "completion_tokens", "candidatesTokenCount", "candidates_token_count", "outputTokens")
_THOUGHTS = ("thoughtsTokenCount", "thoughts_token_count")
_APART = ("cache_read_input_tokens", "cache_creation_input_tokens", "cacheReadInputTokens", "cacheWriteInputTokens")
_READ = (
    *("cache_read_input_tokens", "cacheReadInputTokens", "cached_input_tokens", "cache_read_tokens"),
    *("cachedContentTokenCount", "cached_content_token_count", "input_tokens_cache_read"),
)
_WRITTEN = (
    *("cache_creation_input_tokens", "cacheWriteInputTokens", "cache_write_tokens", "input_tokens_cache_write"),
    "cache_write_input_tokens",
)
_DETAILS = ("prompt_tokens_details", "input_tokens_details", "input_token_details")
_DETAILS_READ = ("cached_tokens", "cache_read")
_DETAILS_WRITTEN = ("cache_creation", "cache_creation_tokens", "cache_write_tokens")
_MOST = 2**50


def usage_of(native: Native) -> Usage | None:
    """The tokens of one call as a provider, or a framework, writes them; None when it says none.

    Anthropic and Bedrock write what the cache held beside the input, all others as a part of it.
    """
    if not isinstance(native, Mapping):
        return None
    whole, output = _first(native, _WHOLE), _first(native, _ANSWER)
    if whole is None and output is None:
        return None
    details: Mapping[str, Native] = next((native[key] for key in _DETAILS if isinstance(native.get(key), Mapping)), {})
    cached = _first(native, _READ) or _first(details, _DETAILS_READ) or 0
    written = _first(native, _WRITTEN) or _first(details, _DETAILS_WRITTEN) or 0
    apart = any(key in native for key in _APART) or _is_apart(native, cached + written)
    fresh = (whole or 0) if apart else max(0, (whole or 0) - cached - written)
    long = _long(native, written)
    answer = (output or 0) + (_first(native, _THOUGHTS) or 0)
    return Usage(fresh, cached, written - long, long, answer)


def _is_apart(native: Mapping[str, Native], held: int) -> bool:
    """Whether a total shows that what the cache held is not in the input."""
    total, whole, output = (_first(native, keys) for keys in (("total_tokens",), _WHOLE, _ANSWER))
    return held > 0 and total is not None and total == (whole or 0) + (output or 0) + held


def _long(native: Mapping[str, Native], written: int) -> int:
    """What of the tokens written to the cache was written for its long time."""
    details = native.get("cache_creation")
    long = _first(details, ("ephemeral_1h_input_tokens",)) if isinstance(details, Mapping) else None
    return min(written, long or 0)


def _first(native: Mapping[str, Native], keys: tuple[str, ...]) -> int | None:
    return next((amount for key in keys if (amount := _amount(native.get(key))) is not None), None)


def _amount(value: Native) -> int | None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return int(value) if number and 0 <= value <= _MOST else None


def number(value: Native) -> float | None:
    """A number of dollars or seconds, as a log has it; None when it is none."""
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= _MOST
    return float(value) if known else None


def seconds(stamp: Native) -> float | None:
    """A date as logs write it (``2026-01-31T12:00:00.000Z``), in seconds since 1970; None when it is none."""
    if not isinstance(stamp, str):
        return None
    try:
        moment = datetime.fromisoformat(stamp)
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
