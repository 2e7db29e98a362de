"""What is known of models, as data: of one in its profile, of whole families by how their names begin.

Of families stand here, as the providers' pages say it: how images and tools count, how reasoning is bound, how the
prompt cache works (``cache_rules``), and windows. Windows and prices of single models stand in ``models.json``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import inf
from typing import Literal, TypeVar

from attrs import evolve, field, frozen
from attrs.validators import ge, lt

from agentctx.lazy import lazy_pattern
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


T = TypeVar("T")
Rules = Sequence[tuple[str, T]]


def first_match(rules: Rules[T], name: str, default: T) -> T:
    """What the first rule says whose pattern is found at the start of ``name``."""
    return next((value for pattern, value in rules if re.match(pattern, name)), default)


# OpenAI's guide to images: base tokens and tokens a tile, or patches of 32 pixels times a factor.
_PATCHES_5_6 = ImageRule("openai-patches", patches=30_000, factor=1.2)
_CLAUDE = ImageRule("claude", edge=1568, cap=1568)
_CLAUDE_SHARP = ImageRule("claude", edge=2576, cap=4784)  # the high-resolution tier: 4.7 and later

IMAGES: Rules[ImageRule] = (
    (r"gpt-(?:5\.[6-9]|[6-9]|\d\d)|chat-latest|(?:gpt-)?daybreak", _PATCHES_5_6),
    (r"gpt-5\.[45](?:-mini|-nano)", ImageRule("openai-patches", patches=1536, factor=1.62)),
    (r"gpt-5\.[45]", ImageRule("openai-patches", patches=2500)),
    (r"gpt-5\.[23]", ImageRule("openai-patches", patches=1536, factor=1.2)),
    (r"gpt-5(?:\.1)?(?:-codex)?-mini|gpt-4\.1-mini", ImageRule("openai-patches", patches=1536, factor=1.62)),
    (r"gpt-5(?:\.1)?-nano|gpt-4\.1-nano", ImageRule("openai-patches", patches=1536, factor=2.46)),
    (r"o4-mini", ImageRule("openai-patches", patches=1536, factor=1.72)),
    (r"gpt-5", ImageRule("openai-tiles", low=70, tile=140)),
    (r"gpt-4o-mini", ImageRule("openai-tiles", low=2833, tile=5667)),
    (r"o[134]", ImageRule("openai-tiles", low=75, tile=150)),
    (r"computer-use", ImageRule("openai-tiles", low=65, tile=129)),
    (r"claude-(?:opus-4-[789]|[a-z]+-[5-9])", _CLAUDE_SHARP),
    (r"claude", _CLAUDE),
    (r"gemini-(?:[3-9]|pro-latest|flash)", ImageRule("gemini", tile=1120)),
    (r"gemini|gemma", ImageRule("gemini", tile=258)),
)
"""How images count. Where a family is not listed, like gpt-4o."""

TOOL_OVERHEAD: Rules[int] = (
    (r"claude-opus-4-8", 290),
    (r"claude-opus-4-7", 675),
    (r"claude-(?:opus|sonnet)-4-6", 497),
    (r"claude-(?:opus|sonnet|haiku)-4-5", 496),
    (r"claude-(?:opus|sonnet)-4", 313),
    (r"claude-(?:sonnet|haiku)-[5-9]", 354),
    (r"claude-(?:3-5-)?haiku", 264),
    (r"claude-(?:opus|fable|mythos)", 286),
    (r"claude", 354),
)
"""Tokens that Anthropic adds to the system prompt as soon as there are tools (tool_choice auto or none).

The numbers of the 5.5 generation, Fable and Mythos are not published: those of the nearest relative stand in.
"""

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

# What an o200k_base token is worth in tokens of models whose tokenizer is not public, in hundredths. For Claude
# before 4.7 o200k undercounts 15-20 % on prose (Anthropic's own skill text), and as much in recorded sessions of coding
# agents (benchmarks/estimates.py). The tokenizer since 4.7 counts about 30 % more than that one (Anthropic's migration
# guide). The others are estimates.
TOKEN_PERCENT: tuple[tuple[str, int], ...] = (
    (r"claude-(?:opus-4-[789]|[a-z]+-[5-9])", 150),
    (r"claude", 120),
    (r"gemini", 110),
    (r"deepseek|qwen|glm|kimi|moonshot", 105),
)

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


HOSTS_WITH_OWN_WINDOWS = frozenset(
    {
        *("github_copilot", "chatgpt", "microsoft_365_copilot", "cloudflare", "novita", "sambanova", "snowflake"),
        *("nebius", "wandb", "tensormesh", "zerogpu", "libertai", "watsonx", "oci", "scaleway", "opencode_go"),
        *("gradient_ai", "pinstripes", "streamlake", "gmi", "github"),
    }
)
"""Hosts that serve models with windows of their own, often smaller ones: of what they are not known to serve nothing
is known. What GitHub Models takes in one request depends on the account, from 8,000 tokens on."""

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

OPEN_WEIGHT_WINDOWS: dict[str, int] = {
    **dict.fromkeys(("llama2", "llama2-chat", "llama2-uncensored", "vicuna", "orca-mini"), 4_096),
    "llama3": 8_192,
    **dict.fromkeys(("llama3-1", "llama3-2", "llama3-3", "llama3-2-vision"), 128_000),
    **dict.fromkeys(("llama3-2-instruct", "hermes3", "nous-hermes3-llama3-1"), 128_000),
    "llama4-scout": 131_072,  # its card stretches it to 10M; hardly anyone who serves it gives more than this
    "llama4-maverick": 1_048_576,
    "llama-guard3": 131_072,
    "codellama": 16_384,
    "codellama70b": 4_096,
    **dict.fromkeys(("qwen2", "qwen2-5", "qwen2-5-coder", "qwen2-5-math-instruct", "codeqwen1-5"), 32_768),
    "qwen2-5-math": 4_096,
    **dict.fromkeys(("qwen2-vl", "qwen2-5-vl"), 32_768),
    **dict.fromkeys(("qwen3", "qwq"), 40_960),
    **dict.fromkeys(("qwen3-coder", "qwen3-next", "qwen3-vl", "qwen3-5"), 262_144),
    "gemma2": 8_192,
    "gemma": 8_192,
    "codegemma": 8_192,
    "gemma3": 131_072,
    **dict.fromkeys(("gemma3-1b", "gemma3-270m"), 32_768),
    "gemma3n": 32_768,
    **dict.fromkeys(("mistral", "mistral-instruct"), 32_768),
    "mixtral8x7b": 32_768,
    "mixtral8x22b": 65_536,
    "mixtral": 32_768,
    "mistral-nemo": 128_000,
    "mistral-nemo-instruct2407": 128_000,
    "mistral-small": 32_768,
    **dict.fromkeys(("mistral-small3-1", "mistral-small3-2", "devstral", "devstral-small"), 131_072),
    "devstral2": 262_144,
    **dict.fromkeys(("mistral-large-instruct2407", "mistral-large-instruct2411"), 131_072),
    "codestral": 32_768,
    "magistral": 40_960,
    "magistral-small": 40_960,
    "ministral": 131_072,
    "phi3": 4_096,
    **dict.fromkeys(("phi3-mini4k", "phi3-medium4k"), 4_096),
    **dict.fromkeys(("phi3-mini128k", "phi3-medium128k"), 128_000),
    **dict.fromkeys(("phi3-5-mini", "phi3-5", "phi4-mini"), 131_072),
    "phi4": 16_384,
    "phi4-reasoning": 32_768,
    **dict.fromkeys(("deepseek-r1", "deepseek-v3"), 131_072),
    "deepseek-r1-distill-llama": 131_072,
    "deepseek-r1-distill-qwen": 131_072,
    "deepseek-coder": 16_384,
    "deepseek-coder-v2": 163_840,
    "gpt-oss": 131_072,
    "kimi-k2-0905": 262_144,
    "command-r": 131_072,
    "command-r-plus": 131_072,
    "smollm2": 8_192,
    **dict.fromkeys(("granite3-1", "granite3-2", "granite3-3", "granite4"), 131_072),
    "granite4-350m": 32_768,
    "falcon3": 32_768,
    "falcon3-1b": 8_192,
    **dict.fromkeys(("lfm", "lfm2", "lfm2-5"), 32_768),
    "olmo2": 4_096,
    "yi": 4_096,
    "starcoder2": 16_384,
    "nemotron": 131_072,
    **dict.fromkeys(("phi3-mini", "phi3-medium"), 4_096),
    **dict.fromkeys(("c4ai-command-r-plus", "c4ai-command-r"), 131_072),
    "hermes3-llama3-1": 128_000,
    "tinyllama": 2_048,
    "zephyr": 32_768,
}
"""Windows of families of open weights, by ``table.families_of``: as trained, without stretching; a size with a window
of its own has a row of its own. Source:
``max_position_embeddings`` in the models' ``config.json``, or the card where it says less. Whoever serves them may
give less: Ollama takes ``num_ctx``, vLLM ``--max-model-len``."""

RETIRED_WINDOWS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("gpt4-turbo-preview", "gpt4-vision-preview", "gpt4-0125-preview"), (128_000, 4_096)),
    "gpt4-0314": (8_192, 4_096),
    **dict.fromkeys(("gpt4-32k0314", "gpt4-32k0613"), (32_768, 4_096)),
    "gpt3-5-turbo0301": (4_096, 4_096),
    **dict.fromkeys(("chatgpt4o-latest", "gpt4o-audio-preview", "gpt4o-search-preview"), (128_000, 16_384)),
    **dict.fromkeys(("gpt4o-mini-audio-preview", "gpt4o-mini-search-preview"), (128_000, 16_384)),
    "o1-preview": (128_000, 32_768),
    "o1-mini": (128_000, 65_536),
    "codex-mini-latest": (200_000, 100_000),
    **dict.fromkeys(("claude-v2", "claude2", "claude2-0", "claude-instant1-2", "claude-instant-v1"), (100_000, 4_096)),
    **dict.fromkeys(("claude-v2-1", "claude2-1", "claude3-sonnet", "claude3-opus", "claude3-haiku"), (200_000, 4_096)),
    **dict.fromkeys(("claude3-5-sonnet", "claude3-5-haiku"), (200_000, 8_192)),
    "claude3-7-sonnet": (200_000, 64_000),
    **dict.fromkeys(("gemini-pro", "gemini1-0-pro"), (32_760, 8_192)),
    **dict.fromkeys(("gemini1-5-pro", "gemini1-5-pro001", "gemini1-5-pro002"), (2_097_152, 8_192)),
    **dict.fromkeys(("gemini1-5-flash", "gemini1-5-flash001", "gemini1-5-flash002"), (1_048_576, 8_192)),
    **dict.fromkeys(("gemini1-5-flash8b", "gemini2-0-flash", "gemini2-0-flash-exp"), (1_048_576, 8_192)),
    **dict.fromkeys(("gemini2-0-flash001", "gemini2-0-flash-lite", "gemini2-0-flash-lite001"), (1_048_576, 8_192)),
    **dict.fromkeys(("grok4", "grok4-0709"), (256_000, 256_000)),
    **dict.fromkeys(
        ("grok3", "grok3-mini", "grok3-fast", "grok3-mini-fast", "grok2-1212", "grok-beta"), (131_072, 131_072)
    ),
    "grok2-vision1212": (32_768, 32_768),
    **dict.fromkeys(("mistral-large2411", "mistral-large2407", "open-mistral-nemo"), (128_000, 128_000)),
    **dict.fromkeys(("open-mistral7b", "open-mixtral8x7b", "mistral-large2402"), (32_000, 8_191)),
    "open-mixtral8x22b": (64_000, 8_191),
    "kimi-k2-0905-preview": (262_144, 262_144),
    **dict.fromkeys(("kimi-k2-0711-preview", "kimi-k2-turbo-preview", "kimi-latest"), (131_072, 131_072)),
}
"""Window and longest answer of models that their makers have retired, by ``table.key_of``: others serve them still, and
recorded sessions name them. Source: the makers' model and deprecation pages, litellm's tables of 2024 and 2025."""


def warmth_after(profile: ModelProfile | None, idle: float | None) -> float:
    """The share of the last request that the provider's cache is believed to hold."""
    return 0.0 if profile is None or idle is None else warmth_at(cache_rules(profile), idle)
