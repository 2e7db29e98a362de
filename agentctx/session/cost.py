"""What a session's calls cost, as far as the prices and the cache rules of its model are known."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from agentctx.core.report import Forecast
from agentctx.economics.cache import cache_rules, warmth
from agentctx.economics.conditions import Request, compared
from agentctx.models.profile import ModelProfile


def warmth_after(profile: ModelProfile | None, idle: float | None) -> float:
    """The share of the last request that the provider's cache is believed to hold.

    Args:
        profile: The model; None when it is not known: then nothing is believed to be cached.
        idle: Seconds since the last request; None when there was none.
    """
    return 0.0 if profile is None or idle is None else warmth(cache_rules(profile), idle)


def priced(profile: ModelProfile) -> bool:
    """Whether what a call costs can be worked out for a model."""
    return profile.prices.input is not None and profile.prices.output is not None


def bill(
    profile: ModelProfile | None, *, sent: int, given: int, prefix: int, size: int, warmth: float
) -> Callable[[], Forecast] | None:
    """Works out, when asked, what a call costs with and without what was cut for it.

    Args:
        profile: The model; None when it is not known.
        sent: Tokens of the request before.
        given: Tokens of this request as it would be if nothing were cut for it.
        prefix: Tokens at the start of this request that the one before had too.
        size: Tokens of this request.
        warmth: The share of the request before that the cache holds.

    Returns:
        None when the model has no known prices.
    """
    if profile is None or not priced(profile):
        return None
    known = prefix if given < sent or not prefix else sent  # else the caller went back, or changed what is first
    return partial(compared, profile, Request(given, known), Request(size, prefix), warmth)
