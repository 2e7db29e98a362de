"""What models of one family have in common: how images count, what tools add, what is checked.

Source: the providers' pages, as of 2026-08 to 2026-11. The first rule whose pattern matches the name holds; a name
comes without provider prefix and in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from agentctx.core.profile import ImageRule

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

BOUND_THINKING = re.compile(r"claude-(?:(?:fable|mythos)-5-[12]|(?:opus|sonnet|haiku)-5-5)(?!\d)")
"""Models that bind each thinking block to the prefix before it."""

ADAPTIVE_THINKING = re.compile(r"claude-(?:(?:opus|sonnet)-4-[6-9]|(?:opus|sonnet|haiku)-[5-9]|fable|mythos)")
"""Models that decide themselves whether to think: an open tool round may be without thinking."""

SYSTEM_IN_MESSAGES = re.compile(r"claude-(?:opus-4-[89]|opus-[5-9]|(?:fable|mythos)-[5-9])")
"""Claude models that take system messages within the messages."""

NO_PREFILL = re.compile(r"claude-(?:(?:opus|sonnet|haiku)-(?:4-[6-9]|[5-9])|fable|mythos)")
"""Claude models that refuse a request that ends on words of the assistant."""

CL100K = re.compile(r"gpt-4(?![o.\d])|gpt-3\.?5|gpt-35|text-embedding-(?:3|ada)|ada-002|davinci-002|babbage-002")
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
