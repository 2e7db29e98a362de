"""What holds for whole families of models, as data, and how a model's name is read that leads there.

A name says who serves the model, what it is called there, and at times the window that it has.

One model has many spellings: its maker's, a gateway's with the maker before it (``openrouter/anthropic/…``), a cloud's
with region, vendor and version (``us.anthropic.…-v1:0``), a tool's (``openai:gpt-4o``, ``…[1m]``), a file's with its
quantisation (``…-Q4_K_M.gguf``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, TypeVar

from attrs import evolve, frozen

from agentctx.lazy import lazy_pattern
from agentctx.models.profile import ImageRule, ModelProfile

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

_CACHES = (
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
    rules = next((rules for pattern, rules in _CACHES if pattern.match(model.family)), None)
    if rules is None or (rules.kind == "prefix" and model.prices.cached is None):
        rules = NONE if model.prices.cached is None else AUTOMATIC
    return rules if model.min_cache is None else evolve(rules, smallest=int(model.min_cache))


def warmth(rules: CacheRules, idle: float, *, long: bool = False) -> float:
    """The share of the last request that the cache still holds after ``idle`` seconds: all of it, or nothing."""
    lives = rules.ttl_long if long and rules.ttl_long is not None else rules.ttl
    return 1.0 if rules.kind != "none" and idle <= lives else 0.0


OWN_WINDOWS = frozenset(
    {
        *("github_copilot", "chatgpt", "microsoft_365_copilot", "cloudflare", "novita", "sambanova", "snowflake"),
        *("nebius", "wandb", "tensormesh", "zerogpu", "libertai", "watsonx", "oci", "scaleway", "opencode_go"),
        *("gradient_ai", "pinstripes", "streamlake", "gmi", "github"),
    }
)
"""Hosts that serve models with windows of their own, often smaller ones: of what they are not known to serve nothing
is known. What GitHub Models takes in one request depends on the account, from 8,000 tokens on."""

CLOSED = lazy_pattern(
    r"(?:openai-|anthropic-)?(?:gpt(?!-oss)|chatgpt|o\d|codex|claude|gemini|grok|amazon|nova|titan|sonar|pplx|chat-latest|palmyra)"
)
"""Models whose weights are not open: only their makers say what their windows are."""

INPUT_APART = lazy_pattern(r"(?:gpt-?(?:[5-9]|\d\d|chat)|chat-latest)")
INPUT_OF = {128_000: 111_616, 400_000: 272_000, 1_050_000: 922_000}
"""OpenAI's models since gpt-5 by their whole windows: the most input, whatever the answer takes. The table has the one
number of some and the other of others. Source: OpenAI's model pages."""


def most_input(plain: str, window: int) -> int | None:
    """The most input of a model whose answer has room of its own; None where the answer shares the window."""
    if not INPUT_APART.match(plain):
        return None
    return INPUT_OF.get(window, window if window in INPUT_OF.values() else None)


LONGER = ((lazy_pattern(r"claude-sonnet-4(?:-5)?(?:-2|@|$)"), 1_000_000),)
"""Windows that a model has when it is asked for (``claude-sonnet-4-5[1m]``). Source: Anthropic, context windows."""

OPEN_WEIGHTS: dict[str, int] = {
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
"""Windows of families of open weights, by ``families_of``: as trained, without stretching; a size with a window
of its own has a row of its own. Source:
``max_position_embeddings`` in the models' ``config.json``, or the card where it says less. Whoever serves them may
give less: Ollama takes ``num_ctx``, vLLM ``--max-model-len``."""

OLDER: dict[str, tuple[int, int]] = {
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
"""Window and longest answer of models that their makers have retired, by ``key_of``: others serve them still, and
recorded sessions name them. Source: the makers' model and deprecation pages, litellm's tables of 2024 and 2025."""


_HOSTS: dict[str, str] = {
    alias: host
    for host, aliases in {
        "azure": "azure_openai azure-openai azureopenai azure_text",
        "azure_ai": "azure-ai azureai azure_foundry",
        "github_copilot": "copilot github-copilot",
        "github": "github_models github-models",
        "gemini": "google google-gla google_genai google-genai google_ai_studio googleai google-generative-ai",
        "vertex_ai": "vertex vertexai google-vertex google_vertexai google-vertex-ai google_vertex vertex_ai_beta",
        "bedrock": "bedrock_converse bedrock-converse amazon-bedrock amazon_bedrock aws-bedrock aws converse",
        "together_ai": "together togetherai together-ai",
        "fireworks_ai": "fireworks fireworks-ai",
        "openai": "openai-chat openai_chat openai-responses openai_responses text-completion-openai openai-api",
        "anthropic": "claude",
        "mistral": "mistralai",
        "cohere": "cohere_chat",
        "xai": "x-ai grok",
        "moonshot": "moonshotai",
        "zai": "z-ai",
        "vercel_ai_gateway": "vercel vercel-ai-gateway",
        "litellm_proxy": "litellm gateway portkey helicone",
        "openrouter": "",
        "huggingface": "hf",
        "ollama": "ollama_chat ollama-chat",
        "lm_studio": "lmstudio lm-studio",
        "vllm": "hosted_vllm hosted-vllm sglang llamacpp llama_cpp tgi mlx",
        "perplexity": "pplx",
        "codestral": "text-completion-codestral",
        "qwen_ai_platform": "alibaba",
        "cloudflare": "@cf @hf workers-ai workers_ai cloudflare-workers-ai",
    }.items()
    for alias in (host, *aliases.split())
}

_MADE_BY: dict[str, tuple[str, ...]] = {
    "openai": ("gpt", "chatgpt", "o1", "o3", "o4", "codex", "computer-use"),
    "anthropic": ("claude",),
    "gemini": ("gemini", "gemma"),
    "mistral": ("mistral", "ministral", "magistral", "devstral", "pixtral", "codestral"),
    "cohere": ("command",),
    "xai": ("grok",),
    "moonshot": ("kimi", "moonshot"),
    "deepseek": ("deepseek",),
    "perplexity": ("sonar",),
    "zai": ("glm",),
}
"""How the models begin that a host makes itself: of those it is no gateway."""

_NOBODY = frozenset({"models", "publishers"})
"""What stands before names and says nothing of who serves them."""

_ARN = lazy_pattern(r"arn:aws[\w-]*:(?:bedrock|sagemaker):[^/]*[:/](?P<kind>[a-z-]+)/(?P<rest>.+)")
_ARN_OF_A_MODEL = frozenset({"foundation-model", "inference-profile"})
_WINDOW = lazy_pattern(r"(?:\[(\d+)([km])\]|:(\d+)(k)|:(\d)(m))$")  # but "gemma3:270m" has so many weights
_REGION = lazy_pattern(r"^(?:us|eu|apac|global|jp|au|ca|sa|us-gov)\.(?=[a-z0-9]+\.)")
_VENDOR = lazy_pattern(
    r"^(anthropic|amazon|meta|mistral|cohere|openai|qwen|deepseek|moonshotai|minimax|xai|google|zai|ai21|nvidia|writer)\."
)
_BEDROCK_VERSION = lazy_pattern(r"-(?:v\d+(?::\d+)?|\d+:\d+)$")
_GPT_35 = lazy_pattern(r"^gpt-?35(?=-|$)")  # Azure's spelling
_FILE = lazy_pattern(r"(?:-\d{5}-of-\d{5})?\.(?:gguf|safetensors|bin)$")
_ALIAS = lazy_pattern(r"^(claude-(?:opus|sonnet)-4)-0$")  # Anthropic's own second name of them

_DECIMAL = lazy_pattern(r"(?<=\d)p(?=\d)")  # Fireworks: v3p1
_BREAKS = lazy_pattern(r"[\s._:@+#-]+")
_BEFORE_DIGIT = lazy_pattern(r"(?<=[a-z])-(?=\d)")

# What may follow a name without making it another model: a full date, a variant of a gateway, how hard it thinks, how
# it is packed. "mini", "pro" and their like are models of their own, and so are numbers and years with a month.
_SUFFIX = lazy_pattern(
    r"-(?:20\d\d-?(?:0\d|1[0-2])-?[0-3]\d|latest|default|free|nitro|floor|online|extended|exacto|beta|maas)$"
)
_GEMINI = lazy_pattern(r"^(?:gemini.*(?P<end>-preview(?:-\d\d-\d\d(?:\d\d)?)?))$")
_PACKED = lazy_pattern(
    r"-(?:cloud|tput|instruct|chat|it|hf|v0-\d|versatile|instant|turbo|qat|tee|original"
    r"|gguf|ggml|awq|gptq|mlx|exl2|bnb|unsloth|imatrix|dwq|marlin|ud|f16|bf16|fp16|fp8|fp4|nvfp4|mxfp4|mxfp8"
    r"|int[48]|w\da\d+|quantized|dynamic|[2-8]-?bit|i?q[2-8](?:_?[a-z\d])*(?:-[0k1](?:-[sml])?)?(?:-xl|-xs|-xxs|-nl)?)$"
)  # of open weights only: "chat" and "instruct" are models of their own elsewhere
_EFFORT = lazy_pattern(r"^(?:gpt-[5-9]|o\d).*(?P<end>-(?:none|minimal|low|medium|high|xhigh))$")
_THINKING = lazy_pattern(r"^(?:claude|deepseek).*(?P<end>-(?:thinking|thought|reasoning))$")
_ACTIVE = r"(?:x\d+(?:-\d+)?)?[bm](?:-a\d+(?:-\d+)?b)?(?:-\d+e)?$"
_SIZES = (lazy_pattern(r"-e?\d+" + _ACTIVE), lazy_pattern(r"-[0-3]-\d+" + _ACTIVE))  # 8b, 30b-a3b, 8x22b; 1.5b
_PREFIX = lazy_pattern(r"^(?:meta-(?=llama)|qwen-(?=qwen))")
_LLAMA = lazy_pattern(r"^llama-?v(?=\d)")
_FINE_TUNED = lazy_pattern(r"^(?:ft:)(?P<base>[^:]+)")


@frozen(eq=False, repr=False)
class ModelName:
    """A name, read.

    Args:
        hosts: Who serves it, as far as the name says, the outermost first; none for a maker's own name.
        plain: What it is called there, in lower case, without host, region, vendor and version of a deployment.
        given: The same with all of that but the host, in lower case and without a stated window; of a fine-tuned model
            (``ft:…``) that which it was made from.
        window: The window that the name itself states, in tokens; None when it states none.
        before: All that stands before the name of the model, hosts by the name that they have here; without its maker.
    """

    hosts: tuple[str, ...]
    plain: str
    given: str
    window: int | None = None
    before: tuple[str, ...] = ()


def read_name(name: str, hosts: frozenset[str] = frozenset()) -> Iterator[ModelName]:
    """The ways to read a name, the likeliest first: what stands before a colon may be a host or a model's name."""
    text = name.strip().lower()
    text, window = _stated(text)
    if found := _ARN.match(text):
        if found["kind"] in _ARN_OF_A_MODEL:
            yield _named(("bedrock",), found["rest"], window, hosts)
        return
    text = text.partition("#")[0]
    if text.startswith("ft:"):
        yield _named((), text, window, hosts)
        return
    before, _, last = text.rpartition("/")
    path = tuple(filter(None, re.split(r"[/:]", before)))
    prefix, colon, rest = last.partition(":")
    if colon and rest and _host(prefix, hosts):
        yield _named((*path, prefix), rest, window, hosts)
    yield _named(path, last, window, hosts)


def _host(text: str, more: frozenset[str]) -> str | None:
    return _HOSTS.get(text, text if text in more else None)


def _stated(text: str) -> tuple[str, int | None]:
    """The name without the window that it states, and that window."""
    found = _WINDOW.search(text)
    if found is None:
        return text, None
    number, unit = filter(None, found.groups())
    return text[: found.start()], int(number) * (1_000 if unit == "k" else 1_000_000)


def _named(path: tuple[str, ...], given: str, window: int | None, more: frozenset[str]) -> ModelName:
    plain = given
    if found := _FINE_TUNED.match(plain):
        plain = given = found["base"]
    plain = _FILE.sub("", _REGION.sub("", plain))
    if vendor := _VENDOR.match(plain):
        bare = _BEDROCK_VERSION.sub("", plain)
        plain = bare if re.search(r"\d", bare) else plain  # but "claude-v2" has no other number
        own = plain[vendor.end() :]  # "deepseek.v3" is DeepSeek's v3, not a model named so
        plain = own if re.match(r"[a-z]{3}", own) else f"{vendor[1]}-{own}"
    plain = _GPT_35.sub("gpt-3.5", plain.removeprefix("databricks-"))
    if plain.startswith("claude"):
        plain = _ALIAS.sub(r"\1", plain.replace(".", "-"))
    hosts = tuple(host for each in path if (host := _host(each, more)))
    cloud = ("bedrock",) if vendor and "bedrock" not in hosts else ()
    named = (_host(each, more) or each for each in path)
    before = tuple(each for each in named if each not in _NOBODY and not plain.startswith(_MADE_BY.get(each, ())))
    return ModelName(hosts, plain, given, window, before + cloud)


def key_of(plain: str) -> str:
    """The same for all spellings of one name that differ in dots, dashes and the like: ``llama3-3-70b-instruct``."""
    return _joined(_dashed(plain))


def forms_of(plain: str) -> Iterator[str]:
    """The keys to look a name up by: of all of it, then without what may follow a name, one piece after another."""
    return map(_joined, _shortened(plain))


def families_of(plain: str) -> Iterator[str]:
    """The keys of the family of open weights that a name may belong to: without the size of the model."""
    for text in _shortened(plain):
        yield _joined(text)
        yield from (_joined(size.sub("", text)) for size in _SIZES if size.search(text))


def _dashed(plain: str) -> str:
    text = _BREAKS.sub("-", _DECIMAL.sub("-", plain.lower()).replace("/", "-")).strip("-")
    return _LLAMA.sub("llama-", _PREFIX.sub("", text))


def _joined(text: str) -> str:
    return _BEFORE_DIGIT.sub("", text)


def _shortened(plain: str) -> Iterator[str]:
    text, shorter = "", _dashed(plain)
    while shorter not in {text, ""}:
        text = shorter
        yield text
        shorter = _shorter(text)


def _shorter(text: str) -> str:
    for pattern in (_EFFORT, _THINKING, _GEMINI):
        if found := pattern.match(text):
            return text[: found.start("end")]
    shorter = _SUFFIX.sub("", text)
    return shorter if shorter != text or CLOSED.match(text) else _PACKED.sub("", text)
