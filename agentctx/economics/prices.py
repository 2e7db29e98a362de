"""What tokens cost."""

from __future__ import annotations

from attrs import frozen

from agentctx.errors import ConfigError
from agentctx.models.profile import ModelProfile, Prices

LONG_WRITE = 2.0
"""What writing for the long time costs, in prices of plain input, where the model table has no price for it."""


@frozen
class Usage:
    """The tokens of one call by how they are billed, or of several added up.

    Args:
        fresh: Input neither read from the cache nor written to it.
        cached: Input read from the cache.
        written: Input written to the cache for its usual time.
        written_long: Input written to the cache for its long time.
        output: The answer, with reasoning.
    """

    fresh: int = 0
    cached: int = 0
    written: int = 0
    written_long: int = 0
    output: int = 0

    @property
    def prompt(self) -> int:
        """The whole input."""
        return self.fresh + self.cached + self.written + self.written_long

    @property
    def cached_share(self) -> float:
        """The share of the input that was read from the cache, 0 to 1."""
        return self.cached / self.prompt if self.prompt else 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.fresh + other.fresh,
            self.cached + other.cached,
            self.written + other.written,
            self.written_long + other.written_long,
            self.output + other.output,
        )


@frozen(eq=False, repr=False)
class Rates:
    """What one million tokens cost in a request of a given size, in USD; every price is known.

    Args:
        fresh: Plain input.
        cached: Input read from the cache.
        written: Input written to the cache.
        written_long: Input written to the cache for its long time.
        output: Output.
    """

    fresh: float
    cached: float
    written: float
    written_long: float
    output: float


def rates(model: ModelProfile, prompt: int) -> Rates:
    """The prices of a request with ``prompt`` input tokens: above the model's threshold all of it costs more.

    Where a price is not listed, reading and writing cost what plain input costs; a long write twice that.

    Raises:
        ConfigError: If the model table has no price for the model's input or output.
    """
    long = model.long_from is not None and prompt > model.long_from and model.long_prices is not None
    return _complete(model, model.prices, model.long_prices if long and model.long_prices else Prices())


def _complete(model: ModelProfile, usual: Prices, long: Prices) -> Rates:
    fresh, output = long.input or usual.input, long.output or usual.output
    if fresh is None or output is None or usual.input is None:
        msg = f"no prices known for model {model.name!r}: add them with register_model(ModelProfile(..., prices=...))"
        raise ConfigError(msg)
    grown = fresh / usual.input if usual.input else 1.0
    cached = long.cached if long.cached is not None else _grown(usual.cached, grown)
    written = long.write if long.write is not None else _grown(usual.write, grown)
    stored = long.write_long if long.write_long is not None else _grown(usual.write_long, grown)
    return Rates(
        fresh,
        fresh if cached is None else cached,
        fresh if written is None else written,
        LONG_WRITE * fresh if stored is None else stored,
        output,
    )


def _grown(price: float | None, factor: float) -> float | None:
    return None if price is None else price * factor


def cost(usage: Usage, model: ModelProfile) -> float:
    """What one call costs, in USD.

    Args:
        usage: The tokens of one call: not of several added up, since the price depends on the size of each.
        model: The model, with its prices.

    Raises:
        ConfigError: If the model table has no price for the model.
    """
    each = rates(model, usage.prompt)
    millionths = (
        usage.fresh * each.fresh
        + usage.cached * each.cached
        + usage.written * each.written
        + usage.written_long * each.written_long
        + usage.output * each.output
    )
    return millionths / 1e6
