"""What has to be known of a model to prepare a request for it."""

from __future__ import annotations

from math import isfinite
from typing import Any, TypeAlias

from attrs import field, frozen

from agentctx.errors import ConfigError
from agentctx.printable import shown

Setting: TypeAlias = Any
"""What a caller sets a field of a profile to, before it was checked."""


def _refuse(instance: object, attribute: Setting, expected: str, value: object) -> None:
    msg = f"{type(instance).__name__}: {attribute.name}: expected {expected}, got {shown(value)}"
    raise ConfigError(msg)


def _price(instance: object, attribute: Setting, value: Setting) -> None:
    known = isinstance(value, (int, float)) and not isinstance(value, bool)
    if value is not None and not (known and isfinite(value) and value >= 0):
        _refuse(instance, attribute, "USD per million tokens, not negative, or None", value)


def _tokens(instance: object, attribute: Setting, value: Setting) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        _refuse(instance, attribute, "a positive number of tokens or None", value)


def _overhead(instance: object, attribute: Setting, value: Setting) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        _refuse(instance, attribute, "a number of tokens, not negative", value)


def _name(instance: object, attribute: Setting, value: Setting) -> None:
    if not isinstance(value, str) or not value.strip():
        _refuse(instance, attribute, "a model's name", value)


@frozen
class ImageRule:
    """How a provider counts an image.

    Args:
        kind: ``"openai-tiles"``, ``"openai-patches"``, ``"claude"`` or ``"gemini"``: which formula.
        low: Tokens of a low-detail image (tile models).
        tile: Tokens a tile (tile models).
        patches: The most patches of an image (patch models).
        factor: Tokens a patch (patch models).
        edge: The longest side after resizing, in pixels (Claude).
        cap: The most tokens of an image (Claude).

    Example:
        >>> from agentctx.models import ImageRule, ModelProfile
        >>> ModelProfile("acme-vision", window=64_000, image=ImageRule("openai-tiles", low=70, tile=140)).image.tile
        140
    """

    kind: str
    low: int = 85
    tile: int = 170
    patches: int = 1536
    factor: float = 1.0
    edge: int = 1568
    cap: int = 1568


@frozen
class Prices:
    """What a model costs, in USD per million tokens; None where the provider names no price.

    Args:
        input: Input that was neither read from the cache nor written to it.
        cached: Input read from the cache.
        write: Input written to the cache for its usual time (Anthropic 5 minutes, OpenAI 30).
        write_long: Input written to the cache for its long time (Anthropic 1 hour, OpenAI 12).
        output: Output.

    Raises:
        ConfigError: If a price is no number, negative or endless.

    Example:
        >>> from agentctx.models import Prices
        >>> Prices(input=1.25, cached=0.125, output=10.0).cached
        0.125
    """

    input: float | None = field(default=None, validator=_price)
    cached: float | None = field(default=None, validator=_price)
    write: float | None = field(default=None, validator=_price)
    write_long: float | None = field(default=None, validator=_price)
    output: float | None = field(default=None, validator=_price)


@frozen
class ModelProfile:
    """A model, as data.

    Args:
        name: Its name without provider prefix.
        encoding: The tiktoken encoding to count with.
        image: How its provider counts images.
        window: Context window in tokens, when known.
        max_output: The longest answer in tokens, when known.
        prices: What it costs.
        long_from: A request of more input tokens than this costs ``long_prices``; None when there is one price only.
        long_prices: What such a request costs, as a whole.
        min_cache: The shortest prefix that the provider caches, in tokens, when known.
        tool_overhead: Tokens the provider adds to the prompt as soon as there are tools.
        bound_thinking: Whether each thinking block is bound to the prefix before it.
        adaptive_thinking: Whether thinking may be absent from an open tool round.
        system_in_messages: Whether system messages may stand within the messages (Anthropic).
        prefill: Whether the request may end on an assistant message (Anthropic).
        family: The name that its family's rules go by (how it is counted, cached, and how its reasoning is bound): its
            own, or that of the model that it is like.
        max_input: The most input in tokens, where the answer has room of its own beside it; None where the answer
            shares the window. ``window`` is then either this or the room of both.

    Raises:
        ConfigError: If the name is blank, or a number makes no sense.

    Example:
        >>> from agentctx.models import ModelProfile, Prices, register_model
        >>> register_model(ModelProfile("acme-large", window=64_000, prices=Prices(input=1.0, output=4.0)))
    """

    name: str = field(validator=_name)
    encoding: str = "o200k_base"
    image: ImageRule = field(default=ImageRule("openai-tiles"))
    window: int | None = field(default=None, validator=_tokens)
    max_output: int | None = field(default=None, validator=_tokens)
    prices: Prices = field(default=Prices(), kw_only=True)
    long_from: int | None = field(default=None, validator=_tokens, kw_only=True)
    long_prices: Prices | None = field(default=None, kw_only=True)
    min_cache: int | None = field(default=None, validator=_tokens, kw_only=True)
    tool_overhead: int = field(default=0, validator=_overhead)
    bound_thinking: bool = False
    adaptive_thinking: bool = False
    system_in_messages: bool = True
    prefill: bool = True
    max_input: int | None = field(default=None, validator=_tokens, kw_only=True)
    family: str = field(kw_only=True)

    @family.default
    def _own_name(self) -> str:
        return self.name.lower()
