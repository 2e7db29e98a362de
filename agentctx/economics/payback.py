"""What a call costs with and without a compaction, and when a compaction has paid for itself."""

from __future__ import annotations

from math import ceil, inf

from attrs import frozen

from agentctx.core.forecast import Forecast
from agentctx.core.profile import ModelProfile
from agentctx.economics.cache_rules import CacheRules, cache_rules
from agentctx.economics.prices import Rates, Usage, cost, rates


@frozen
class Cut:
    """A compaction, in tokens.

    Args:
        head: What stands before the first change and can still be read from the cache.
        kept: What stands after the first change and survives: it has to be written again.
        dropped: What goes.
        new: What the next call brings, in either case.
    """

    head: int
    kept: int
    dropped: int
    new: int = 0


@frozen
class Request:
    """A request, in tokens.

    Args:
        tokens: All of it.
        known: What stands at its start as it stood in the request before.
    """

    tokens: int
    known: int


def forecast(model: ModelProfile, cut: Cut, warmth: float = 1.0, rules: CacheRules | None = None) -> Forecast:
    """What a compaction does to the bill, while the cache lives.

    In prices of plain input, with r for reading and w for writing: the loss is ``(w - r) * kept``, once; the gain
    ``r * dropped`` a call. So it pays back after ``(w - r) * kept / (r * dropped)`` calls; at once when the cache is
    cold, for then all is written anyway. Where a long request costs more, the sizes decide the prices.

    Args:
        model: The model, with its prices.
        cut: What the compaction does.
        warmth: The believed share of the last request that the cache still holds, 0 to 1.
        rules: The cache's rules; those of the model when not given.

    Raises:
        ConfigError: If the model table has no prices for the model.
    """
    before, after = cut.head + cut.kept + cut.dropped, cut.head + cut.kept
    return compared(model, Request(before + cut.new, before), Request(after + cut.new, cut.head), warmth, rules)


def compared(
    model: ModelProfile, without: Request, with_cut: Request, warmth: float = 1.0, rules: CacheRules | None = None
) -> Forecast:
    """What sending one request instead of another does to the bill of this call and of those that build on it.

    Args:
        model: The model, with its prices.
        without: The request without the compaction.
        with_cut: The request with it.
        warmth: The believed share of the last request that the cache still holds, 0 to 1.
        rules: The cache's rules; those of the model when not given.

    Raises:
        ConfigError: If the model table has no prices for the model.
    """
    rules = cache_rules(model) if rules is None else rules
    uncut, cut = (_price(model, rules, int(warmth * each.known), each.tokens) for each in (without, with_cut))
    later_uncut, later_cut = (_price(model, rules, each.tokens, each.tokens) for each in (without, with_cut))
    return Forecast(uncut, cut, later_uncut, later_cut, _calls(cut - uncut, later_uncut - later_cut))


def _price(model: ModelProfile, rules: CacheRules, held: int, prompt: int) -> float:
    """The input of a request of which the cache holds the first ``held`` tokens, in USD."""
    each: Rates = rates(model, prompt)
    read = rules.readable(held)
    rest = each.written if rules.write_fee and prompt >= rules.smallest else each.fresh
    return (read * each.cached + (prompt - read) * rest) / 1e6


def _calls(once: float, gain: float) -> float:
    if once <= 0:
        return 1
    return 1 + ceil(once / gain - 1e-9) if gain > 0 else inf


def call_cost(model: ModelProfile, prompt: int, cached: int = 0, output: int = 0) -> float:
    """What a call costs of whose prompt ``cached`` tokens are read from the cache, in USD.

    Raises:
        ConfigError: If the model table has no prices for the model.
    """
    rest = prompt - cached
    usage = Usage(0, cached, rest, 0, output) if cache_rules(model).write_fee else Usage(rest, cached, 0, 0, output)
    return cost(usage, model)
