# ruff: noqa: INP001 - a script, not a package
"""Make ``agentctx/models/models.json`` from the model table inside a litellm wheel.

Usage: ``python scripts/models.py TABLE VERSION DATE [EARLIER ...]`` where TABLE is
``model_prices_and_context_window_backup.json`` of a litellm wheel, VERSION is that wheel's and DATE is the day on which
it was the newest. EARLIER are tables of older wheels: a host whose windows are its own may have been given its maker's
since, and then the smaller one holds.

``models`` holds the chat models of the makers and clouds below, under the name that each itself gives them. Where
several sell one model, the first provider of the list wins; Bedrock's regional names stay, since they have prices of
their own. ``hosts`` holds what all providers say of the models they serve, where it differs from that. ``open`` holds
the windows of open weights, by what those who serve them agree on: for a name that does not say who serves it.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agentctx.models.profile import CLOSED_WEIGHTS
from agentctx.models.table import (
    ALIKE,
    families_of,
    forms_of,
    key_of,
    open_weight_windows,
    own_windows,
    read_name,
)

TARGET = Path(__file__).parents[1] / "agentctx" / "models" / "models.json"

PROVIDERS = (
    "openai",
    "text-completion-openai",
    "anthropic",
    "gemini",
    "deepseek",
    "mistral",
    "codestral",
    "xai",
    "moonshot",
    "zai",
    "dashscope",
    "minimax",
    "cohere_chat",
    "meta_llama",
    "meta",
    "xiaomi_mimo",
    "bedrock_converse",
    "bedrock",
    "vertex_ai-anthropic_models",
    "vertex_ai-language-models",
    "vertex_ai",
    "chatgpt",
    "azure",
    "amazon_nova",
    "bedrock_mantle",
    "ai21",
    "perplexity",
)

# Names that the maker's own service does not have any more; their weights are open, and others serve them.
RETIRED = {"deepseek": {"deepseek-r1", "deepseek-v3", "deepseek-coder"}}

# Windows that are told too large: OpenAI says so on the page of the model, Cerebras of free accounts.
SMALLER = {
    "gpt-3.5-turbo-instruct": 4_096,
    "gpt-3.5-turbo-instruct-0914": 4_096,
    "vercel_ai_gateway/openai/gpt-3.5-turbo-instruct": 4_096,
    "cerebras/llama3.1-8b": 8_192,
}

# Hosts that litellm divides by the kind of model or of call.
HOST_OF = {
    "bedrock_converse": "bedrock",
    "cohere_chat": "cohere",
    "azure_text": "azure",
    "text-completion-openai": "openai",
    "text-completion-codestral": "codestral",
    "text-completion-inception": "inception",
    **{
        f"vertex_ai-{kind}": "vertex_ai"
        for kind in (
            "anthropic_models",
            "language-models",
            "mistral_models",
            "llama_models",
            "ai21_models",
            "text-models",
            "deepseek_models",
            "qwen_models",
            "zai_models",
            "openai_models",
            "minimax_models",
            "moonshot_models",
        )
    },
}

# Prices in USD per million tokens, by litellm's name for them; a 12-hour write is OpenAI's long one.
PRICES = {
    "input": ("input_cost_per_token",),
    "cached": ("cache_read_input_token_cost",),
    "write": ("cache_creation_input_token_cost",),
    "write_long": ("cache_creation_input_token_cost_above_1hr", "cache_creation_input_token_cost_above_12hr"),
    "output": ("output_cost_per_token",),
}


def price(row: Mapping[str, Any], names: tuple[str, ...], above: str = "") -> float | None:
    """A price in USD per million tokens; None where there is none."""
    found = next((row[name + above] for name in names if row.get(name + above)), None)
    return None if found is None else float(f"{found * 1e6:.6g}")


def prices(row: Mapping[str, Any], above: str = "") -> dict[str, float]:
    """All prices of a row, or those above a number of tokens."""
    found = {name: price(row, names, above) for name, names in PRICES.items()}
    return {name: value for name, value in found.items() if value is not None}


def above(row: Mapping[str, Any]) -> dict[str, float]:
    """From how many tokens on a request costs more, and what; empty where the price is one for all."""
    found = next((hit for key in row if (hit := re.fullmatch(r"input_cost_per_token_above_(\d+)k_tokens", key))), None)
    if found:
        return {"tokens": int(found[1]) * 1000, **prices(row, f"_above_{found[1]}k_tokens")}
    tiers = row.get("tiered_pricing") or ()
    return {"tokens": int(tiers[1]["range"][0]), **prices(tiers[1])} if len(tiers) == 2 else {}


def entry(row: Mapping[str, Any]) -> dict[str, Any]:
    """What we keep of one model. One whose price has more than two steps has none here: none of them is right."""
    kept: dict[str, Any] = {"window": row["max_input_tokens"]}
    if longest := row.get("max_output_tokens"):
        kept["output"] = longest
    tiers = row.get("tiered_pricing") or ()
    if found := prices(tiers[0] if len(tiers) == 2 else row):
        kept["prices"] = found
    if dearer := above(row):
        kept["above"] = dearer
    if smallest := row.get("prompt_cache_min_tokens"):
        kept["min_cache"] = smallest
    return kept


def own_name(key: str) -> str | None:
    """The name without litellm's provider prefix; None for names of one region or contract only."""
    parts = key.split("/")
    if len(parts) > 2 and parts[0] in {"bedrock", "azure", "bedrock_mantle"}:
        return None
    return parts[-1]


def corrected(table: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The table, with the windows and answers that are told too large made smaller."""
    made = dict(table)
    for name in SMALLER.keys() & made.keys():
        row, most = made[name], SMALLER[name]
        made[name] = {
            **row,
            **{f"max_{way}_tokens": min(row[f"max_{way}_tokens"], most) for way in ("input", "output")},
        }
    return made


def usable(row: Mapping[str, Any]) -> bool:
    """Whether a row is of a model that takes text and tells its window; nought means that it is not known."""
    window = row.get("max_input_tokens")
    return isinstance(window, int) and window > 0 and row.get("mode") in {"chat", "responses", "completion"}


def cautious(table: Mapping[str, Any], earlier: Mapping[str, Any]) -> dict[str, Any]:
    """The table, with the smaller window of both where a host has windows of its own."""
    made = dict(table)
    for name, row in table.items():
        before = earlier.get(name, {})
        if row.get("litellm_provider") in own_windows() and usable(row) and usable(before):
            made[name] = {**row, "max_input_tokens": min(row["max_input_tokens"], before["max_input_tokens"])}
    return made


def select(table: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and entry of each model that we keep, the first provider's first."""
    for provider in PROVIDERS:
        for key, row in table.items():
            if usable(row) and row.get("litellm_provider") == provider:
                name = own_name(key)
                if provider == "perplexity" and "sonar" not in key:
                    continue
                if name and name.lower() not in RETIRED.get(provider, ()):
                    yield name.lower(), smaller(entry(row), table.get(name, {}))


def smaller(kept: dict[str, Any], bare: Mapping[str, Any]) -> dict[str, Any]:
    """The entry, with the window of the row under the name alone where that is smaller."""
    return {**kept, "window": min(kept["window"], bare["max_input_tokens"])} if usable(bare) else kept


def plain_name(name: str) -> str:
    """A Bedrock or Vertex name without vendor, date and version: ``claude-opus-4-1`` for the longest of them."""
    plain = next(read_name(name)).plain
    return re.sub(r"[-@](?:\d{8}|default)?(?:-?v\d+(?::\d+)?)?$", "", plain)


def makers(table: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The models by their own names."""
    models: dict[str, dict[str, Any]] = {}
    for name, kept in select(table):
        models.setdefault(name, kept)
    for name in sorted(models):
        plain = plain_name(name)  # "claude" alone would answer for every Claude to come
        if re.search(r"\d", plain) and CLOSED_WEIGHTS.match(key_of(plain)):
            models.setdefault(plain, models[name])
    return models


def served(table: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """What each provider says of each model, by the key of its name there; of two that look alike the smaller one."""
    hosts: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    known = frozenset(str(row.get("litellm_provider")) for row in table.values())
    for name, row in table.items():
        if not usable(row):
            continue
        host = HOST_OF.get(provider := row["litellm_provider"], provider)
        read = next(read_name(name if name.startswith(f"{host}/") else f"{host}/{name}", known))
        key, kept = key_of(read.plain), entry(row)
        if key not in hosts[host] or kept["window"] < hosts[host][key]["window"]:
            hosts[host][key] = kept
    return hosts


def agreed(hosts: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[str, int]:
    """The window of each open model: what most say who serve it; the smallest where few do, or as many say less.

    That a model's weights are open is known from two who serve it, or from its size in its name.
    """
    told: dict[str, list[int]] = defaultdict(list)
    for rows in hosts.values():
        for key, row in rows.items():
            if re.search(r"[a-z]{3}.*\d", key) and not CLOSED_WEIGHTS.match(key):
                told[list(forms_of(key))[-1]].append(row["window"])
    return {key: usual(windows) for key, windows in told.items() if len(windows) > 1 or re.search(r"\d[bm](-|$)", key)}


def usual(windows: list[int]) -> int:
    """The window that most of at least three tell, in the smallest way that two tell it; else the smallest.

    128,000 and 131,072 are the same window, told in two ways.
    """
    if len(windows) < 3:
        return min(windows)
    counts = Counter(windows)
    most = min(window for window, count in counts.items() if count == max(counts.values()))
    return min([most, *(window for window, count in counts.items() if count > 1 and window > most * ALIKE)])


def differing(
    hosts: Mapping[str, Mapping[str, dict[str, Any]]], models: Mapping[str, dict[str, Any]]
) -> dict[str, dict[str, dict[str, Any]]]:
    """What a host says otherwise than the model's own row, or stretches; all of one whose windows are its own."""
    own = {}
    for name, row in models.items():
        own.setdefault(key_of(next(read_name(name)).plain), row)
    return {
        host: kept
        for host, rows in hosts.items()
        if (
            kept := {
                key: row
                for key, row in rows.items()
                if host in own_windows() or own.get(key) != row or stretched(key, row)
            }
        )
    }


def stretched(key: str, row: Mapping[str, Any]) -> bool:
    """Whether a host serves open weights with more than they were trained for."""
    trained = next(filter(None, map(open_weight_windows().get, families_of(key))), None)
    return trained is not None and not key.endswith("-latest") and row["window"] * ALIKE > trained


def lines_of(rows: Mapping[str, Any], indent: str) -> str:
    """One line a row."""
    return ",\n".join(
        f"{indent}{json.dumps(key)}: {json.dumps(rows[key], separators=(',', ':'))}" for key in sorted(rows)
    )


def main(source: str, version: str, date: str, *earlier: str) -> None:
    """Write the table, one line a model."""
    table = json.loads(Path(source).read_text())
    for older in earlier:
        table = cautious(table, json.loads(Path(older).read_text()))
    table = corrected(table)
    models, hosts = makers(table), served(table)
    apart = differing(hosts, models)
    told = ",\n".join(f"  {json.dumps(host)}: {{\n{lines_of(apart[host], '   ')}\n  }}" for host in sorted(apart))
    head = {"source": f"litellm {version}, model_prices_and_context_window_backup.json", "date": date}
    text = (
        f'{json.dumps(head)[:-1]}, "models": {{\n{lines_of(models, "  ")}\n}},\n'
        f'"hosts": {{\n{told}\n}},\n"open": {{\n{lines_of(agreed(hosts), "  ")}\n}}}}\n'
    )
    json.loads(text)
    TARGET.write_text(text)
    sys.stdout.write(f"{len(models)} models, {len(text)} bytes\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
