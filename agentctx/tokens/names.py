"""How a model's name is read: who serves it, what it is called there, and the window that the name itself states.

One model has many spellings: its maker's, a gateway's with the maker before it (``openrouter/anthropic/…``), a cloud's
with region, vendor and version (``us.anthropic.…-v1:0``), a tool's (``openai:gpt-4o``, ``…[1m]``), a file's with its
quantisation (``…-Q4_K_M.gguf``). Nothing here knows a model: only how names are built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from attrs import frozen

from agentctx.tokens.families import CLOSED

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

_ARN = re.compile(r"arn:aws[\w-]*:(?:bedrock|sagemaker):[^/]*[:/](?P<kind>[a-z-]+)/(?P<rest>.+)")
_ARN_OF_A_MODEL = frozenset({"foundation-model", "inference-profile"})
_WINDOW = re.compile(r"(?:\[(\d+)([km])\]|:(\d+)(k)|:(\d)(m))$")  # but "gemma3:270m" has so many weights
_REGION = re.compile(r"^(?:us|eu|apac|global|jp|au|ca|sa|us-gov)\.(?=[a-z0-9]+\.)")
_VENDOR = re.compile(
    r"^(anthropic|amazon|meta|mistral|cohere|openai|qwen|deepseek|moonshotai|minimax|xai|google|zai|ai21|nvidia|writer)\."
)
_BEDROCK_VERSION = re.compile(r"-(?:v\d+(?::\d+)?|\d+:\d+)$")
_GPT_35 = re.compile(r"^gpt-?35(?=-|$)")  # Azure's spelling
_FILE = re.compile(r"(?:-\d{5}-of-\d{5})?\.(?:gguf|safetensors|bin)$")
_ALIAS = re.compile(r"^(claude-(?:opus|sonnet)-4)-0$")  # Anthropic's own second name of them

_DECIMAL = re.compile(r"(?<=\d)p(?=\d)")  # Fireworks: v3p1
_BREAKS = re.compile(r"[\s._:@+#-]+")
_BEFORE_DIGIT = re.compile(r"(?<=[a-z])-(?=\d)")

# What may follow a name without making it another model: a full date, a variant of a gateway, how hard it thinks, how
# it is packed. "mini", "pro" and their like are models of their own, and so are numbers and years with a month.
_SUFFIX = re.compile(
    r"-(?:20\d\d-?(?:0\d|1[0-2])-?[0-3]\d|latest|default|free|nitro|floor|online|extended|exacto|beta|maas)$"
)
_GEMINI = re.compile(r"^(?:gemini.*(?P<end>-preview(?:-\d\d-\d\d(?:\d\d)?)?))$")
_PACKED = re.compile(
    r"-(?:cloud|tput|instruct|chat|it|hf|v0-\d|versatile|instant|turbo|qat|tee|original"
    r"|gguf|ggml|awq|gptq|mlx|exl2|bnb|unsloth|imatrix|dwq|marlin|ud|f16|bf16|fp16|fp8|fp4|nvfp4|mxfp4|mxfp8"
    r"|int[48]|w\da\d+|quantized|dynamic|[2-8]-?bit|i?q[2-8](?:_?[a-z\d])*(?:-[0k1](?:-[sml])?)?(?:-xl|-xs|-xxs|-nl)?)$"
)  # of open weights only: "chat" and "instruct" are models of their own elsewhere
_EFFORT = re.compile(r"^(?:gpt-[5-9]|o\d).*(?P<end>-(?:none|minimal|low|medium|high|xhigh))$")
_THINKING = re.compile(r"^(?:claude|deepseek).*(?P<end>-(?:thinking|thought|reasoning))$")
_ACTIVE = r"(?:x\d+(?:-\d+)?)?[bm](?:-a\d+(?:-\d+)?b)?(?:-\d+e)?$"
_SIZES = (re.compile(r"-e?\d+" + _ACTIVE), re.compile(r"-[0-3]-\d+" + _ACTIVE))  # 8b, 30b-a3b, 8x22b; 1.5b
_PREFIX = re.compile(r"^(?:meta-(?=llama)|qwen-(?=qwen))")
_LLAMA = re.compile(r"^llama-?v(?=\d)")
_FINE_TUNED = re.compile(r"^(?:ft:)(?P<base>[^:]+)")


@frozen
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


def read(name: str, hosts: frozenset[str] = frozenset()) -> Iterator[ModelName]:
    """The ways to read a name, the likeliest first: what stands before a colon may be a host or a model's name.

    Args:
        name: The name.
        hosts: Names of hosts beside those that are known here.
    """
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


def key(plain: str) -> str:
    """The same for all spellings of one name that differ in dots, dashes and the like: ``llama3-3-70b-instruct``."""
    return _joined(_dashed(plain))


def forms(plain: str) -> Iterator[str]:
    """The keys to look a name up by: of all of it, then without what may follow a name, one piece after another."""
    return map(_joined, _shortened(plain))


def families(plain: str) -> Iterator[str]:
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
