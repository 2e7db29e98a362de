"""The model table: windows, prices, encodings and habits, as data.

``models.json`` holds windows and prices (``scripts/models.py`` makes it from litellm's table), ``families.py`` what
the providers' pages say of whole families.
"""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

from agentctx.core.profile import ImageRule, ModelProfile, Prices
from agentctx.core.profile_table import register_lookup
from agentctx.errors import ConfigError, UnknownModel
from agentctx.tokens import families

_registered: dict[str, ModelProfile] = {}

_REGION = re.compile(r"^(?:us|eu|apac|global|jp|au|ca|us-gov)\.(?=[a-z0-9]+\.)")
_VENDOR = re.compile(
    r"^(?:anthropic|amazon|meta|mistral|cohere|openai|qwen|deepseek|moonshotai|minimax|xai|google|zai)\."
)
_ALIAS = re.compile(r"^(claude-(?:opus|sonnet)-4)-0$")  # Anthropic's own second name of them
# What may follow a known name: a date, a variant, a version of the deployment; but no number of one or two digits,
# which is another model (claude-opus-4 and claude-opus-4-9), unless it follows a "v".
_SUFFIX = re.compile(r"[-@:_](?!\d{1,2}(?:\D|$))\S")


def profile(name: str) -> ModelProfile:
    """The profile of a model.

    Args:
        name: The model's name as its provider, a gateway or a cloud writes it: ``gpt-5.4``,
            ``anthropic/claude-sonnet-4-5-20250929``, ``us.anthropic.claude-opus-4-1-20250805-v1:0``,
            ``models/gemini-2.5-pro``, ``ft:gpt-4.1-mini:org::id``.

    Raises:
        UnknownModel: If the table has no such model; the message says what to pass instead.
    """
    found = next((_registered[each] for each in _spellings(name) if each in _registered), None)
    return _resolved(name) if found is None else found


def register_model(profile: ModelProfile) -> None:
    """Add a model to the table, or put another profile in the place of the one it has, for this process.

    Args:
        profile: The profile; its ``name`` is what it is found by, with or without provider prefix.
    """
    _registered[profile.name.lower()] = profile


def encoding_for(name: str) -> str:
    """The name of the tiktoken encoding to count a model's tokens with; ``o200k_base`` for unknown names.

    Of models that are not OpenAI's the tokens are estimated with ``o200k_base``.
    """
    spellings = list(_spellings(name))
    for each in spellings:
        if each in _registered:
            return _registered[each].encoding
    return "cl100k_base" if any(families.CL100K.match(each) for each in spellings) else "o200k_base"


def percent_for(name: str) -> int:
    """What a token of the model's encoding is worth in the model's own tokens, in hundredths; 100 when they are alike.

    Never fails: a model that nobody knows is counted as its encoding counts.
    """
    return families.first_match(families.TOKEN_PERCENT, list(_spellings(name))[-1], 100)


@lru_cache(1024)
def _resolved(name: str) -> ModelProfile:
    row_name, row = _row(name)
    plain = list(_spellings(row_name))[-1]
    above = row.get("above")
    return ModelProfile(
        plain,
        encoding_for(name),
        families.first_match(families.IMAGES, plain, ImageRule("openai-tiles")),
        row["window"],
        row.get("output"),
        prices=Prices(**row.get("prices", {})),
        long_from=above and above["tokens"],
        long_prices=above and Prices(**{kind: price for kind, price in above.items() if kind != "tokens"}),
        min_cache=row.get("min_cache"),
        **_habits(plain),
    )


def _habits(plain: str) -> dict[str, Any]:
    if not plain.startswith("claude"):
        return {}
    return {
        "tool_overhead": families.first_match(families.TOOL_OVERHEAD, plain, 0),
        "bound_thinking": bool(families.BOUND_THINKING.match(plain)),
        "adaptive_thinking": bool(families.ADAPTIVE_THINKING.match(plain)),
        "system_in_messages": bool(families.SYSTEM_IN_MESSAGES.match(plain)),
        "prefill": not families.NO_PREFILL.match(plain),
    }


def _row(name: str) -> tuple[str, Mapping[str, Any]]:
    """The row of a model: of its exact name, else of the longest name that it goes on from with a suffix."""
    table = _table()
    spellings = list(_spellings(name))
    for each in spellings:
        if each in table:
            return each, table[each]
    for each in spellings:
        ends = (length for length in range(len(each) - 1, 2, -1) if _SUFFIX.match(each, length))
        found = next((each[:length] for length in ends if each[:length] in table), None)
        if found is not None:
            return found, table[found]
    msg = (
        f"no context window known for model {name!r}: pass Budget(window=..., output_reserve=...), "
        f"or add the model once with register_model(ModelProfile({name!r}, window=...))"
    )
    raise UnknownModel(msg)


def _spellings(name: str) -> Iterator[str]:
    """The ways to look a name up, from as it is to without provider, region, vendor and fine-tuning."""
    given: object = name
    if not isinstance(given, str):
        msg = f"model: expected a name, got {given!r}"
        raise ConfigError(msg)
    name = name.strip().lower()
    yield name
    while "/" in name:
        name = name.partition("/")[2]
        yield name
    if name.startswith("ft:"):
        name = name.split(":")[1]
        yield name
    for prefix in (_REGION, _VENDOR):
        shorter = prefix.sub("", name)
        if shorter != name:
            name = shorter
            yield name
    if _ALIAS.match(name):
        yield _ALIAS.sub(r"\1", name)
    if name.startswith("claude") and "." in name:
        yield name.replace(".", "-")


@cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    content = pkgutil.get_data("agentctx.tokens", "models.json") or b"{}"
    table: Mapping[str, Mapping[str, Any]] = json.loads(content)["models"]
    return table


register_lookup(profile)
