"""What a session's calls cost, as far as the prices and the cache rules of its model are known."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from agentctx.core.forecast import Forecast
from agentctx.core.profile import ModelProfile
from agentctx.economics.cache_rules import cache_rules, warmth
from agentctx.economics.payback import Cut, forecast


def warmth_after(profile: ModelProfile | None, idle: float | None) -> float:
    """The share of the last request that the provider's cache is believed to hold.

    Args:
        profile: The model; None when it is not known: then nothing is believed to be cached.
        idle: Seconds since the last request; None when there was none.
    """
    return 0.0 if profile is None or idle is None else warmth(cache_rules(profile), idle)


def bill(
    profile: ModelProfile | None, *, sent: int, arrived: int, prefix: int, size: int, warmth: float
) -> Callable[[], Forecast] | None:
    """Works out, when asked, what a call costs with and without what was cut for it.

    Args:
        profile: The model; None when it is not known.
        sent: Tokens of the request before.
        arrived: Tokens that came since.
        prefix: Tokens at the start of this request that the one before had too.
        size: Tokens of this request.
        warmth: The share of the request before that the cache holds.

    Returns:
        None when the model has no known prices.
    """
    if profile is None or profile.prices.input is None:
        return None
    dropped = min(sent - prefix, max(0, sent + arrived - size))
    cut = Cut(prefix, max(0, sent - prefix - dropped), max(0, dropped), arrived)
    return partial(forecast, profile, cut, warmth)
