"""What is known of models, as data: of one in its profile, of whole families by how their names begin.

Of families stand here, as the providers' pages say it: how reasoning is bound, and how the prompt cache works
(``cache_rules``). How images and tools count, and windows of families, stand in ``families.toml``; windows and prices
of single models in ``models.json``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial
from math import inf
from typing import Any, Literal

from attrs import evolve, field, frozen
from attrs.validators import ge, lt

from agentctx.lazy import data_file, lazy_pattern
from agentctx.validators import NOT_BLANK, TEXT, TRUTH, a, numeric, whole_number

_PRICE = numeric("USD per million tokens, at least 0 and not endless", ge(0), lt(inf)).or_none
_TOKENS = whole_number(1).or_none


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

    input: float | None = field(default=None, validator=_PRICE)
    cached: float | None = field(default=None, validator=_PRICE)
    write: float | None = field(default=None, validator=_PRICE)
    write_long: float | None = field(default=None, validator=_PRICE)
    output: float | None = field(default=None, validator=_PRICE)


_PRICES = a(Prices, "Prices(input=..., ...)")


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
        ConfigError: If the name is blank, a number makes no sense, or anything else is of another kind.

    Example:
        >>> from agentctx.models import ModelProfile, Prices, register_model
        >>> register_model(ModelProfile("acme-large", window=64_000, prices=Prices(input=1.0, output=4.0)))
    """

    name: str = field(validator=NOT_BLANK)
    encoding: str = field(default="o200k_base", validator=TEXT)
    image: ImageRule = field(default=ImageRule("openai-tiles"), validator=a(ImageRule, "an ImageRule"))
    window: int | None = field(default=None, validator=_TOKENS)
    max_output: int | None = field(default=None, validator=_TOKENS)
    prices: Prices = field(default=Prices(), validator=_PRICES, kw_only=True)
    long_from: int | None = field(default=None, validator=_TOKENS, kw_only=True)
    long_prices: Prices | None = field(default=None, validator=_PRICES.or_none, kw_only=True)
    min_cache: int | None = field(default=None, validator=_TOKENS, kw_only=True)
    tool_overhead: int = field(default=0, validator=whole_number(0))
    bound_thinking: bool = field(default=False, validator=TRUTH)
    adaptive_thinking: bool = field(default=False, validator=TRUTH)
    system_in_messages: bool = field(default=True, validator=TRUTH)
    prefill: bool = field(default=True, validator=TRUTH)
    max_input: int | None = field(default=None, validator=_TOKENS, kw_only=True)
    family: str = field(validator=NOT_BLANK, kw_only=True)

    @family.default
    def _own_name(self) -> str:
        return self.name.lower()


families = partial(data_file, "agentctx.models", "families.toml")
"""What is known of whole families of models."""


def of_family(kind: str, name: str) -> Mapping[str, Any]:
    """The first row of ``families`` whose pattern is found at the start of a model's name."""
    rows: Iterable[Mapping[str, Any]] = families()[kind]
    return next(row for row in rows if re.match(row["models"], name))


SHORT_TOOLS = lazy_pattern(r"gpt|chatgpt|o\d|codex|computer-use|chat-latest|daybreak|davinci|babbage")
"""Models that read their tools in OpenAI's short form."""

JSON_TOOLS = lazy_pattern(
    r"claude|gemini|gemma|nova|amazon|deepseek|grok|[a-z]*[sx]tral|kimi|moonshot|glm"
    r"|qw|llama|mimo|minimax|command|phi|jamba|granite|hermes|nemotron"
)
"""Models that are shown the JSON schemas of their tools: Anthropic's and Google's pages, the others' chat templates."""

SERVER_TOOLS = (("bash_", 325), ("text_editor_", 700), ("computer_", 4500), ("memory_", 1050))
"""Tools whose definition Anthropic holds, by the start of their type, with the tokens that they cost.

That of memory is what a recorded call with it alone cost beside its words and the surcharge for tools."""

BOUND_THINKING = lazy_pattern(r"claude-(?:(?:fable|mythos)-5-[12]|(?:opus|sonnet|haiku)-5-5)(?!\d)")
"""Models that bind each thinking block to the prefix before it."""

ADAPTIVE_THINKING = lazy_pattern(r"claude-(?:(?:opus|sonnet)-4-[6-9]|(?:opus|sonnet|haiku)-[5-9]|fable|mythos)")
"""Models that decide themselves whether to think: an open tool round may be without thinking."""

SYSTEM_IN_MESSAGES = lazy_pattern(r"claude-(?:opus-4-[89]|opus-[5-9]|(?:fable|mythos)-[5-9])")
"""Claude models that take system messages within the messages."""

NO_PREFILL = lazy_pattern(r"claude-(?:(?:opus|sonnet|haiku)-(?:4-[6-9]|[5-9])|fable|mythos)")
"""Claude models that refuse a request that ends on words of the assistant."""

CL100K = lazy_pattern(r"gpt-4(?![o.\d])|gpt-3\.?5|gpt-35|text-embedding-(?:3|ada)|ada-002|davinci-002|babbage-002")
"""Models that read cl100k_base; all later ones of OpenAI read o200k_base (whose harmony form splits text alike)."""

MINUTE, HOUR = 60.0, 3_600.0


@frozen
class CacheRules:
    """How a provider's prompt cache works: what is kept, how long, and from where it is found.

    Args:
        kind: ``"prefix"``: the longest start shared with any earlier request is read. ``"marks"``: an entry stands
            where an earlier request had a mark, and is found from a mark at most ``look_back`` blocks after it.
            ``"turns"``: an entry stands at the end of an earlier request's last user or tool message and at its
            marks, and is found at exactly such places. ``"none"``: nothing is cached.
        smallest: The shortest prefix that is kept, in tokens.
        step: A prefix is read in whole steps of so many tokens.
        ttl: How long an entry lives after its last use, in seconds.
        ttl_long: The same for entries that were written for the long time; None when there is none.
        look_back: How many blocks are searched from a mark, itself included.
        marks: How many marks one request may have.
        candidates: How many places are tried when reading, the latest first.
        write_fee: Whether writing costs more than plain input.
        source: Where that is written.
    """

    kind: Literal["prefix", "marks", "turns", "none"]
    smallest: int = 1_024
    step: int = 1
    ttl: float = 5 * MINUTE
    ttl_long: float | None = None
    look_back: int = 20
    marks: int = 4
    candidates: int = 80
    write_fee: bool = False
    source: str = ""

    def readable(self, tokens: int) -> int:
        """How much can be read of a start of so many tokens that the cache holds."""
        if self.kind == "none" or tokens < self.smallest:
            return 0
        return tokens - tokens % self.step if self.kind == "prefix" else tokens


OPENAI_CACHE = CacheRules(
    "prefix", step=128, ttl=10 * MINUTE, ttl_long=24 * HOUR, source="OpenAI, prompt caching: up to GPT-5.5"
)
OPENAI_24H_CACHE = evolve(
    OPENAI_CACHE, ttl=24 * HOUR, source="OpenAI, prompt caching: gpt-5.5 keeps prefixes for 24 hours only"
)
OPENAI_TURNS_CACHE = CacheRules(
    "turns",
    ttl=30 * MINUTE,
    ttl_long=12 * HOUR,
    write_fee=True,
    source="OpenAI, prompt caching: GPT-5.6 and later; at most 4 writes a request, reads among the latest 80 places",
)
ANTHROPIC_CACHE = CacheRules(
    "marks", ttl_long=HOUR, write_fee=True, source="Anthropic, prompt caching; also Claude on Bedrock and Vertex"
)
NOVA_CACHE = CacheRules("marks", smallest=1_000, source="AWS, prompt caching for Amazon Nova: no fee for writing")
DEEPSEEK_CACHE = CacheRules(
    "prefix", smallest=64, step=64, ttl=2 * HOUR, source="DeepSeek, context caching: hours to days; 2 hours assumed"
)
GEMINI_CACHE = CacheRules(
    "prefix", smallest=2_048, ttl=HOUR, source="Gemini, implicit caching: no lifetime is given; 1 hour assumed"
)
AUTOMATIC_CACHE = CacheRules(
    "prefix", step=64, ttl=10 * MINUTE, source="xAI, Moonshot, Z.ai, Mistral and others: automatic; details assumed"
)
NO_CACHE = CacheRules("none", source="the model table has no price for cached input")

_CACHES = (
    (lazy_pattern(r"gpt-(?:5\.[6-9]|[6-9]|\d\d)|chat-latest"), OPENAI_TURNS_CACHE),
    (lazy_pattern(r"gpt-5\.5"), OPENAI_24H_CACHE),
    (lazy_pattern(r"gpt|chatgpt|codex|o\d"), OPENAI_CACHE),
    (lazy_pattern(r"claude"), ANTHROPIC_CACHE),
    (lazy_pattern(r"nova"), NOVA_CACHE),
    (lazy_pattern(r"deepseek"), DEEPSEEK_CACHE),
    (lazy_pattern(r"gemini"), GEMINI_CACHE),
)


def cache_rules(model: ModelProfile) -> CacheRules:
    """The rules of the cache that serves a model; of an unlisted model, by whether cached input has a price."""
    rules = next((rules for pattern, rules in _CACHES if pattern.match(model.family)), None)
    if rules is None or (rules.kind == "prefix" and model.prices.cached is None):
        rules = NO_CACHE if model.prices.cached is None else AUTOMATIC_CACHE
    return rules if model.min_cache is None else evolve(rules, smallest=int(model.min_cache))


def warmth_at(rules: CacheRules, idle: float, *, long: bool = False) -> float:
    """The share of the last request that the cache still holds after ``idle`` seconds: all of it, or nothing."""
    lives = rules.ttl_long if long and rules.ttl_long is not None else rules.ttl
    return 1.0 if rules.kind != "none" and idle <= lives else 0.0


CLOSED_WEIGHTS = lazy_pattern(
    r"(?:openai-|anthropic-)?(?:gpt(?!-oss)|chatgpt|o\d|codex|claude|gemini|grok|amazon|nova|titan|sonar|pplx|chat-latest|palmyra)"
)
"""Models whose weights are not open: only their makers say what their windows are."""

_INPUT_APART = lazy_pattern(r"(?:gpt-?(?:[5-9]|\d\d|chat)|chat-latest)")
_INPUT_OF = {128_000: 111_616, 400_000: 272_000, 1_050_000: 922_000}
"""OpenAI's models since gpt-5 by their whole windows: the most input, whatever the answer takes. The table has the one
number of some and the other of others. Source: OpenAI's model pages."""


def most_input(plain: str, window: int) -> int | None:
    """The most input of a model whose answer has room of its own; None where the answer shares the window."""
    if not _INPUT_APART.match(plain):
        return None
    return _INPUT_OF.get(window, window if window in _INPUT_OF.values() else None)


WINDOWS_ON_REQUEST = ((lazy_pattern(r"claude-sonnet-4(?:-5)?(?:-2|@|$)"), 1_000_000),)
"""Windows that a model has when it is asked for (``claude-sonnet-4-5[1m]``). Source: Anthropic, context windows."""


def warmth_after(profile: ModelProfile | None, idle: float | None) -> float:
    """The share of the last request that the provider's cache is believed to hold."""
    return 0.0 if profile is None or idle is None else warmth_at(cache_rules(profile), idle)
