"""The model table: what is known of a model, found by any of the names that it goes by.

``models.json`` holds windows and prices (``scripts/models.py`` makes it from litellm's table), ``families.toml`` and
``profile.py`` what the providers' pages say of whole families.

One model has many spellings: its maker's, a gateway's with the maker before it (``openrouter/anthropic/…``), a cloud's
with region, vendor and version (``us.anthropic.…-v1:0``), a tool's (``openai:gpt-4o``, ``…[1m]``), a file's with its
quantisation (``…-Q4_K_M.gguf``). A name says who serves the model, what it is called there, and at times the window
that it has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, TypeAlias, TypeVar

import attrs
from attrs import frozen

from agentctx.errors import ConfigError, UnknownModel
from agentctx.lazy import lazy_pattern
from agentctx.models.profile import (
    ADAPTIVE_THINKING,
    BOUND_THINKING,
    CL100K,
    CLOSED_WEIGHTS,
    NO_PREFILL,
    SYSTEM_IN_MESSAGES,
    WINDOWS_ON_REQUEST,
    ImageRule,
    ModelProfile,
    Prices,
    families,
    most_input,
    of_family,
)
from agentctx.validators import must_be

T = TypeVar("T")

ALIKE = 0.95
"""Two windows that differ by less are one, told in two ways: 128,000 and 131,072."""


@frozen(eq=False, repr=False)
class _Registered:
    """A model of this process.

    Args:
        said: What was said of it, which holds for its other spellings, too.
        whole: Whether the profile stands for those as a whole, since it is that of another model.
    """

    profile: ModelProfile
    said: Mapping[str, Any]
    whole: bool
    name: ModelName | None


_registered: dict[str, _Registered] = {}

Row = Mapping[str, Any]


def profile(name: str) -> ModelProfile:
    """The profile of a model.

    Who serves a model may give it another window than its maker: where a name says who serves it, that one's holds
    (``azure/gpt-5.1-codex``, ``github_copilot/gpt-4.1``). A window that the name states holds (``…-v1:0:48k``), as far
    as the model has it (``claude-sonnet-4-5[1m]``). Of open weights whose name does not say who serves them the window
    is what they were trained for; a server of one's own may have been started with less.

    Args:
        name: The model's name as its provider, a gateway, a cloud or a tool writes it: ``gpt-5.4``, ``openai:gpt-4o``,
            ``anthropic/claude-sonnet-4-5-20250929``, ``us.anthropic.claude-opus-4-1-20250805-v1:0``,
            ``models/gemini-2.5-pro``, ``ft:gpt-4.1-mini:org::id``, ``meta-llama/Llama-3.3-70B-Instruct``.

    Raises:
        UnknownModel: If the table has no such model; the message says what to pass instead.
    """
    if (found := find(name)) is not None:
        return found
    from difflib import get_close_matches  # noqa: PLC0415 - for the error alone

    near = " or ".join(map(repr, get_close_matches(_plain(name), _table()["models"], 2, 0.8)))
    msg = (
        f"no context window known for model {name!r}{f' (did you mean {near}?)' if near else ''}: "
        f"pass Budget(window=..., output_reserve=...), or say once what it is: "
        f"register_model({name!r}, like=...) or register_model({name!r}, window=...)"
    )
    raise UnknownModel(msg)


def find(name: str) -> ModelProfile | None:
    """The profile of a model, as ``profile`` finds it; None for one that the table does not know."""
    return _override(_checked(name)) or _resolved(name)


Setting: TypeAlias = Any
"""What a caller sets a field of a profile to, before it was checked."""


def register_model(model: ModelProfile | str, *, like: str | None = None, **said: Setting) -> None:
    """Add a model to the table, or say otherwise of one that it has, for this process.

    ``register_model("prod-eu", like="claude-opus-5-5")`` says what a deployment is: all that is known of the model it
    is like holds for it, from how its tokens are counted to how its reasoning is bound.
    ``register_model("gpt-4o", prices=Prices(input=2.0, output=8.0))`` changes the prices of a known model and leaves
    the rest.

    What is said holds for the name, for its dated and otherwise longer spellings (``gpt-4o-2024-08-06``), with its
    maker before it (``openai/gpt-4o``), as it is called on Bedrock (``us.anthropic.…``), and through gateways that give
    models no windows of their own (``openrouter/…``, ``vllm/…``, or one that nobody knows). It does not hold for what
    a gateway is known to serve in its own way (``azure/gpt-4o``, ``github_copilot/gpt-4o``): say it of that name. What
    is said of a gateway's name (``azure/gpt-4o``) holds for that gateway only, and never for the name alone. A
    window that a name states (``…:48k``) holds up to the one that is known of the model: the table's, or the one that
    is registered where the table does not know it.

    Args:
        model: The model's name, with or without provider prefix; or a whole profile: of a known model, or with
            ``like``, what stands in it as it would without being said is taken from there.
        like: The name of the model that it is like; without it, what the table knows of the name itself.
        said: What is otherwise, by the fields of ``ModelProfile``: ``window``, ``max_output``, ``prices`` and so on.

    Raises:
        UnknownModel: If the table has no model that is called as ``like``.
        ConfigError: If ``ModelProfile`` has no such field, or what is said makes no sense.

    Example:
        >>> from agentctx import Budget
        >>> from agentctx.models import register_model
        >>> register_model("acme-medium", like="gpt-4o", window=32_000, max_output=4_000)
        >>> Budget.for_model("acme-medium").window
        32000
    """
    name = model.name if isinstance(model, ModelProfile) else _checked(model)
    if isinstance(model, ModelProfile):  # its fields that are otherwise than when nothing is said of them
        plain, fields = ModelProfile(model.name), attrs.asdict(model, recurse=False)
        own = {key: value for key, value in fields.items() if value != getattr(plain, key) and key != "name"}
        said = {**own, **said}
    if unknown := said.keys() - attrs.fields_dict(ModelProfile).keys() | said.keys() & {"name"}:
        msg = f"register_model: a model's profile has no field {min(unknown)!r} that can be set"
        raise ConfigError(msg)
    # Another limit of the input, and prices of long requests, do not hold any more when something else is said.
    apart = {"max_input": None} if "window" in said else {}
    dearer = {"long_from": None, "long_prices": None} if "prices" in said else {}
    said = {**apart, **dearer, **said}
    given = _checked(name).strip().lower()
    base = profile(like) if like is not None else _resolved(given)
    if base is not None:
        made = attrs.evolve(base, name=given.rpartition("/")[2], **said)
    else:
        made = model if isinstance(model, ModelProfile) else ModelProfile(name, **said)
    _registered[given] = _Registered(made, said, like is not None, _named(given))


def family_of(name: str) -> str:
    """The name that a model's family is known by: that of the model that it was registered to be like, else its own."""
    found = _override(_checked(name))
    return name if found is None or found.family == found.name.lower() else found.family


_VERSION = lazy_pattern(r"(?:gpt|gemini)-\d+(?:\.\d+)?")
_DATE = lazy_pattern(r"-\d{4}[-\d]*\Z")


def shares_reasoning(one: str, other: str) -> bool:
    """Whether a model reads the reasoning that another one signed.

    Claude models read each other's, unless it is bound to one model (since the 5.1 and 5.5 generations). GPT and Gemini
    models read that of their own version (5.6 that of 5.6, not of 5.5). Of others nothing is known.
    """
    profiles = find(one), find(other)
    families = [name if known is None else known.family for name, known in zip((one, other), profiles, strict=True)]
    bare = [family.lower().rpartition("/")[2] for family in families]
    first, second = (re.sub(r"^(?:[a-z]{2,6}\.)?(?:anthropic\.)?", "", name) for name in bare)
    if first.startswith("claude") and second.startswith("claude"):
        return first == second or not any(known is None or known.bound_thinking for known in profiles)
    return _generation(first) == _generation(second)


def _generation(name: str) -> str:
    return found[0] if (found := _VERSION.match(name)) else _DATE.sub("", name)


def encoding_for(name: str) -> str:
    """The name of the tiktoken encoding to count a model's tokens with; ``o200k_base`` for unknown names.

    Of models that are not OpenAI's the tokens are estimated with ``o200k_base``.
    """
    if (found := _override(_checked(name))) is not None:
        return found.encoding
    return _encoding(_plain(name))


def percent_for(name: str) -> int:
    """What a token of the model's encoding is worth in the model's own tokens, in hundredths; 100 when they are alike.

    Never fails: a model that nobody knows is counted as its encoding counts.
    """
    return int(of_family("token_percent", _plain(family_of(name)))["percent"])


def _encoding(plain: str) -> str:
    return "cl100k_base" if CL100K.match(plain) else "o200k_base"


def _override(name: str) -> ModelProfile | None:
    """The profile that was registered for a name, if any: for itself, or for the name that it goes on from."""
    if not _registered:
        return None
    given = name.strip().lower()
    if given in _registered:
        return _registered[given].profile
    named = _named(given)
    found = None if named is None else _nearest(named)
    return None if found is None or named is None else _said_of(found, given, named.window)


def _said_of(found: _Registered, given: str, stated: int | None) -> ModelProfile:
    """What is registered for a name, for another spelling of it; a window that this one states holds."""
    base = _resolved(given)
    whole = found.whole or base is None
    if stated is None or (found.name is not None and found.name.window == stated):
        return found.profile if whole or base is None else attrs.evolve(base, **found.said)
    window = min(stated, found.profile.window or stated)
    room: dict[str, Any] = {"window": window, "max_input": None}
    if base is not None:
        room = {"window": base.window, "max_input": base.max_input}
    return (
        attrs.evolve(found.profile, **room) if whole or base is None else attrs.evolve(base, **{**found.said, **room})
    )


def _nearest(named: ModelName) -> _Registered | None:
    """What was said of a name that this one is another spelling of: as served there, and with the least added."""
    forms = {each: place for place, each in reversed(list(enumerate(forms_of(named.plain))))}
    rated = [
        (-len(each.name.before), forms[key], each)
        for each in _registered.values()
        if each.name is not None and (key := key_of(each.name.plain)) in forms and _serves(each.name, named)
    ]
    return min(rated, key=lambda found: found[:2])[2] if rated else None


def _serves(said: ModelName, named: ModelName) -> bool:
    """Whether what is said of one name holds where another is served: nobody else on the way has its own windows."""
    if said.window not in (None, named.window):
        return False
    others = list(named.before)
    for each in said.before:
        if each not in others:
            return False
        others.remove(each)
    keys = tuple(forms_of(named.plain))
    hosts = [each for each in others if each in named.hosts]
    known = (_first(_table()["hosts"].get(host, {}), keys) for host in hosts)
    return own_windows().isdisjoint(hosts) and all(each is None for each in known)


@lru_cache(1024)
def _named(name: str) -> ModelName | None:
    """The name as it is likeliest read; None where it can be read in no way."""
    return next(read_name(name, _hosts()), None)


@lru_cache(1024)
def _plain(name: str) -> str:
    """The name without all that says who serves it; as it is where it can be read in no way."""
    return name if (found := _named(name)) is None else found.plain


def _checked(name: object) -> str:
    if isinstance(name, str):
        return name
    raise must_be("model", "a name", name)


@lru_cache(1024)
def _resolved(name: str) -> ModelProfile | None:
    for spelled in read_name(name, _hosts()):
        if (found := _row(spelled)) is not None:
            return _profile(*found, spelled.window)
    return None


def _profile(plain: str, row: Row, stated: int | None) -> ModelProfile:
    above, window = row.get("above"), row["window"]
    if stated is not None:  # a window that the name states holds, but no longer one than the model has
        longest = max((longer for pattern, longer in WINDOWS_ON_REQUEST if pattern.match(plain)), default=0)
        window = min(stated, max(window, longest))
    return ModelProfile(
        plain,
        encoding=_encoding(plain),
        image=ImageRule(**of_family("images", plain)["rule"]),
        window=window or None,
        max_output=row.get("output") or None,
        prices=Prices(**row.get("prices", {})),
        long_from=above and above["tokens"],
        long_prices=above and Prices(**{kind: price for kind, price in above.items() if kind != "tokens"}),
        min_cache=row.get("min_cache") or None,
        max_input=most_input(plain, window),
        family=plain,
        **_habits(plain),
    )


def _habits(plain: str) -> dict[str, Any]:
    if not plain.startswith("claude"):
        return {}
    return {
        "tool_overhead": of_family("tool_overhead", plain)["tokens"],
        "bound_thinking": bool(BOUND_THINKING.match(plain)),
        "adaptive_thinking": bool(ADAPTIVE_THINKING.match(plain)),
        "system_in_messages": bool(SYSTEM_IN_MESSAGES.match(plain)),
        "prefill": not NO_PREFILL.match(plain),
    }


def _row(name: ModelName) -> tuple[str, Row] | None:
    """Plain name and row of a model: what its hosts say of it, the smallest window; else what holds everywhere."""
    keys = tuple(forms_of(name.plain))
    own = _own_row(name, keys)
    told = [found for host in name.hosts if (found := _first(_table()["hosts"].get(host, {}), keys)) is not None]
    if not told:
        return None if own is None or own_windows().intersection(name.hosts) else own[1:]
    place, least = min(told, key=lambda found: found[1]["window"])
    if own is None:
        return name.plain, least
    nearer, plain, row = own
    window = least["window"] if place <= nearer else min(least["window"], row["window"])
    return plain, {**row, **least, "window": window}


def _own_row(name: ModelName, keys: tuple[str, ...]) -> tuple[int, str, Row] | None:
    """Which of the keys is known whoever serves the model, and its plain name and row.

    Of two windows that are told for one key the smaller one holds: the name does not say which it means. What weights
    were trained for, no name that does not say who serves them stretches.
    """
    models: Mapping[str, Row] = _table()["models"]
    trained = _first(open_weight_windows(), tuple(families_of(name.plain)))
    most = None if trained is None or name.plain.endswith("-latest") else trained[1]  # that is a maker's own service
    if name.given in models:
        return 0, name.plain, _within(models[name.given], most if name.given == name.plain else None)
    for place, each in enumerate(keys):
        found = _index().get(each)
        row = {} if found is None else models[found]
        served: int | None = _table()["open"].get(each)
        if served and trained and 1 / ALIKE > served / trained[1] > ALIKE:
            served = trained[1]  # told as the card of the weights tells it, where both mean the same
        windows = [row.get("window"), served]
        if known := [window for window in windows if window is not None]:
            plain = name.plain if found is None else _spelled(found)
            return place, plain, _within({**row, "window": min(known)}, most)
    if (older := _first(_retired(), keys)) is not None:
        return older[0], name.plain, {"window": older[1]["window"], "output": older[1]["longest"]}
    return None if trained is None else (len(keys), name.plain, {"window": trained[1]})


def _within(row: Row, most: int | None) -> Row:
    """The row, with no larger window than ``most``."""
    return row if most is None or row["window"] * ALIKE <= most else {**row, "window": most}


def _first(table: Mapping[str, T], keys: Sequence[str]) -> tuple[int, T] | None:
    """The place of the first key that the table has, and what it has there."""
    return next(((place, table[each]) for place, each in enumerate(keys) if each in table), None)


def _spelled(name: str) -> str:
    return next(read_name(name)).plain


@cache
def _hosts() -> frozenset[str]:
    return frozenset(_table()["hosts"])


@cache
def _index() -> Mapping[str, str]:
    """The names of the table by their keys; of two names with one key the shortest, which is the maker's own.

    What a cloud says of open weights under an identifier of its own holds for that cloud.
    """
    found: dict[str, str] = {}
    for name in sorted(_table()["models"], key=lambda each: (len(each), each)):
        plain = _spelled(name)
        if plain == name or CLOSED_WEIGHTS.match(plain):
            found.setdefault(key_of(plain), name)
    return found


@cache
def _table() -> Mapping[str, Any]:
    import pkgutil  # noqa: PLC0415 - not before the table is read

    table: Mapping[str, Any] = json.loads(pkgutil.get_data("agentctx.models", "models.json") or b"{}")
    return table


@cache
def own_windows() -> frozenset[str]:
    """The hosts that serve models with windows of their own."""
    return frozenset(families()["own_windows"])


@cache
def open_weight_windows() -> Mapping[str, int]:
    """Windows of families of open weights, as trained, by ``families_of``."""
    return {name: row["window"] for row in families()["open_weights"] for name in row["names"]}


@cache
def _retired() -> Mapping[str, Mapping[str, int]]:
    return {name: row for row in families()["retired"] for name in row["names"]}


@cache
def _hosts_by_alias() -> Mapping[str, str]:
    return {alias: host for host, aliases in families()["hosts"].items() for alias in (host, *aliases)}


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
    text, window = name.strip().lower(), None
    if stated := _WINDOW.search(text):
        number, unit = filter(None, stated.groups())
        text, window = text[: stated.start()], int(number) * (1_000 if unit == "k" else 1_000_000)
    if found := _ARN.match(text):
        if found["kind"] in _ARN_OF_A_MODEL:
            yield _as_served(("bedrock",), found["rest"], window, hosts)
        return
    text = text.partition("#")[0]
    if text.startswith("ft:"):
        yield _as_served((), text, window, hosts)
        return
    before, _, last = text.rpartition("/")
    path = tuple(filter(None, re.split(r"[/:]", before)))
    prefix, colon, rest = last.partition(":")
    if colon and rest and _host(prefix, hosts):
        yield _as_served((*path, prefix), rest, window, hosts)
    yield _as_served(path, last, window, hosts)


def _host(text: str, more: frozenset[str]) -> str | None:
    return _hosts_by_alias().get(text, text if text in more else None)


def _as_served(path: tuple[str, ...], given: str, window: int | None, more: frozenset[str]) -> ModelName:
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
    before = tuple(
        each
        for each in named
        if each not in _NOBODY and not plain.startswith(tuple(families()["made_by"].get(each, ())))
    )
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
        ended = _EFFORT.match(text) or _THINKING.match(text) or _GEMINI.match(text)
        shorter = text[: ended.start("end")] if ended else _SUFFIX.sub("", text)
        if not ended and shorter == text and not CLOSED_WEIGHTS.match(text):
            shorter = _PACKED.sub("", text)
