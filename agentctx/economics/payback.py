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
    rules = cache_rules(model) if rules is None else rules
    before, after = cut.head + cut.kept + cut.dropped, cut.head + cut.kept
    without = _price(model, rules, warmth * before, before + cut.new)
    with_cut = _price(model, rules, warmth * cut.head, after + cut.new)
    reads = 0.0 if rules.kind == "none" else 1.0
    later_without = _price(model, rules, reads * (before + cut.new), before + cut.new)
    later_with = _price(model, rules, reads * (after + cut.new), after + cut.new)
    return Forecast(
        without, with_cut, later_without, later_with, _calls(with_cut - without, later_without - later_with)
    )


def _price(model: ModelProfile, rules: CacheRules, read: float, prompt: int) -> float:
    """The input of a request of which ``read`` tokens are read from the cache, in USD."""
    each: Rates = rates(model, prompt)
    rest = each.written if rules.write_fee else each.fresh
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
