"""How the providers' prompt caches work, as data: what is kept, how long, and from where it is found."""

from __future__ import annotations

from typing import Literal

from attrs import evolve, frozen

from agentctx.lazy import lazy_pattern
from agentctx.models.profile import ModelProfile

MINUTE, HOUR = 60.0, 3_600.0


@frozen
class CacheRules:
    """A provider's cache.

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


OPENAI = CacheRules(
    "prefix", step=128, ttl=10 * MINUTE, ttl_long=24 * HOUR, source="OpenAI, prompt caching: up to GPT-5.5"
)
OPENAI_24H = evolve(OPENAI, ttl=24 * HOUR, source="OpenAI, prompt caching: gpt-5.5 keeps prefixes for 24 hours only")
OPENAI_TURNS = CacheRules(
    "turns",
    ttl=30 * MINUTE,
    ttl_long=12 * HOUR,
    write_fee=True,
    source="OpenAI, prompt caching: GPT-5.6 and later; at most 4 writes a request, reads among the latest 80 places",
)
ANTHROPIC = CacheRules(
    "marks", ttl_long=HOUR, write_fee=True, source="Anthropic, prompt caching; also Claude on Bedrock and Vertex"
)
NOVA = CacheRules("marks", smallest=1_000, source="AWS, prompt caching for Amazon Nova: no fee for writing")
DEEPSEEK = CacheRules(
    "prefix", smallest=64, step=64, ttl=2 * HOUR, source="DeepSeek, context caching: hours to days; 2 hours assumed"
)
GEMINI = CacheRules(
    "prefix", smallest=2_048, ttl=HOUR, source="Gemini, implicit caching: no lifetime is given; 1 hour assumed"
)
AUTOMATIC = CacheRules(
    "prefix", step=64, ttl=10 * MINUTE, source="xAI, Moonshot, Z.ai, Mistral and others: automatic; details assumed"
)
NONE = CacheRules("none", source="the model table has no price for cached input")

_FAMILIES = (
    (lazy_pattern(r"gpt-(?:5\.[6-9]|[6-9]|\d\d)|chat-latest"), OPENAI_TURNS),
    (lazy_pattern(r"gpt-5\.5"), OPENAI_24H),
    (lazy_pattern(r"gpt|chatgpt|codex|o\d"), OPENAI),
    (lazy_pattern(r"claude"), ANTHROPIC),
    (lazy_pattern(r"nova"), NOVA),
    (lazy_pattern(r"deepseek"), DEEPSEEK),
    (lazy_pattern(r"gemini"), GEMINI),
)


def cache_rules(model: ModelProfile) -> CacheRules:
    """The rules of the cache that serves a model; of an unlisted model, by whether cached input has a price."""
    rules = next((rules for pattern, rules in _FAMILIES if pattern.match(model.family)), None)
    if rules is None or (rules.kind == "prefix" and model.prices.cached is None):
        rules = NONE if model.prices.cached is None else AUTOMATIC
    return rules if model.min_cache is None else evolve(rules, smallest=int(model.min_cache))


def warmth(rules: CacheRules, idle: float, *, long: bool = False) -> float:
    """The share of the last request that the cache still holds after ``idle`` seconds: all of it, or nothing."""
    lives = rules.ttl_long if long and rules.ttl_long is not None else rules.ttl
    return 1.0 if rules.kind != "none" and idle <= lives else 0.0
