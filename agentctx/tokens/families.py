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

SHORT_TOOLS = re.compile(r"gpt|chatgpt|o\d|codex|computer-use|chat-latest|daybreak|davinci|babbage")
"""Models that read their tools in OpenAI's short form."""

JSON_TOOLS = re.compile(
    r"claude|gemini|gemma|nova|amazon|deepseek|grok|[a-z]*[sx]tral|kimi|moonshot|glm"
    r"|qw|llama|mimo|minimax|command|phi|jamba|granite|hermes|nemotron"
)
"""Models that are shown the JSON schemas of their tools: Anthropic's and Google's pages, the others' chat templates."""

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

OWN_WINDOWS = frozenset(
    {
        *("github_copilot", "chatgpt", "microsoft_365_copilot", "cloudflare", "novita", "sambanova", "snowflake"),
        *("nebius", "wandb", "tensormesh", "zerogpu", "libertai", "watsonx", "oci", "scaleway", "opencode_go"),
        *("gradient_ai", "pinstripes", "streamlake", "gmi", "github"),
    }
)
"""Hosts that serve models with windows of their own, often smaller ones: of what they are not known to serve nothing
is known. What GitHub Models takes in one request depends on the account, from 8,000 tokens on."""

CLOSED = re.compile(
    r"(?:openai-|anthropic-)?(?:gpt(?!-oss)|chatgpt|o\d|codex|claude|gemini|grok|amazon|nova|titan|sonar|pplx|chat-latest|palmyra)"
)
"""Models whose weights are not open: only their makers say what their windows are."""

INPUT_APART = re.compile(r"(?:gpt-?(?:[5-9]|\d\d|chat)|chat-latest)")
INPUT_OF = {128_000: 111_616, 400_000: 272_000, 1_050_000: 922_000}
"""OpenAI's models since gpt-5 by their whole windows: the most input, whatever the answer takes. The table has the one
number of some and the other of others. Source: OpenAI's model pages."""


def most_input(plain: str, window: int) -> int | None:
    """The most input of a model whose answer has room of its own; None where the answer shares the window."""
    if not INPUT_APART.match(plain):
        return None
    return INPUT_OF.get(window, window if window in INPUT_OF.values() else None)


LONGER = ((re.compile(r"claude-sonnet-4(?:-5)?(?:-2|@|$)"), 1_000_000),)
"""Windows that a model has when it is asked for (``claude-sonnet-4-5[1m]``). Source: Anthropic, context windows."""

OPEN_WEIGHTS: dict[str, int] = {
    **dict.fromkeys(("llama2", "llama2-chat", "llama2-uncensored", "vicuna", "orca-mini"), 4_096),
    **dict.fromkeys(("llama3",), 8_192),
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
"""Windows of families of open weights, by ``names.families``: as trained, without stretching; a size with a window
of its own has a row of its own. Source:
``max_position_embeddings`` in the models' ``config.json``, or the card where it says less. Whoever serves them may
give less: Ollama takes ``num_ctx``, vLLM ``--max-model-len``."""

OLDER: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("gpt4-turbo-preview", "gpt4-vision-preview", "gpt4-0125-preview"), (128_000, 4_096)),
    **dict.fromkeys(("gpt4-0314",), (8_192, 4_096)),
    **dict.fromkeys(("gpt4-32k0314", "gpt4-32k0613"), (32_768, 4_096)),
    **dict.fromkeys(("gpt3-5-turbo0301",), (4_096, 4_096)),
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
    **dict.fromkeys(("grok2-vision1212",), (32_768, 32_768)),
    **dict.fromkeys(("mistral-large2411", "mistral-large2407", "open-mistral-nemo"), (128_000, 128_000)),
    **dict.fromkeys(("open-mistral7b", "open-mixtral8x7b", "mistral-large2402"), (32_000, 8_191)),
    "open-mixtral8x22b": (64_000, 8_191),
    "kimi-k2-0905-preview": (262_144, 262_144),
    **dict.fromkeys(("kimi-k2-0711-preview", "kimi-k2-turbo-preview", "kimi-latest"), (131_072, 131_072)),
}
"""Window and longest answer of models that their makers have retired, by ``names.key``: others serve them still, and
recorded sessions name them. Source: the makers' model and deprecation pages, litellm's tables of 2024 and 2025."""
