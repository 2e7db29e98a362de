# ruff: noqa: INP001 - a script, not a package
"""Make ``agentctx/tokens/models.json`` from the model table inside a litellm wheel.

Usage: ``python scripts/models.py TABLE VERSION DATE`` where TABLE is ``model_prices_and_context_window_backup.json``
of a litellm wheel, VERSION is that wheel's and DATE is the day on which it was the newest.

Chat models of the providers below are taken, under the name that the provider itself gives them. Where several sell
one model, the first provider of the list wins; Bedrock's regional names stay, since they have prices of their own.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "agentctx" / "tokens" / "models.json"

PROVIDERS = (
    "openai",
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
    "groq",
    "cerebras",
)

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


def select(table: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and entry of each model that we keep, the first provider's first."""
    for provider in PROVIDERS:
        for key, row in table.items():
            usable = isinstance(row.get("max_input_tokens"), int) and row.get("mode") in {"chat", "responses"}
            if usable and row.get("litellm_provider") == provider and (name := own_name(key)):
                yield name.lower(), entry(row)


def plain_name(name: str) -> str:
    """A Bedrock or Vertex name without vendor, date and version: ``claude-opus-4-1`` for the longest of them."""
    name = re.sub(r"^(?:anthropic|amazon|meta|mistral|cohere|openai|qwen|deepseek)\.", "", name)
    return re.sub(r"[-@](?:\d{8}|default)?(?:-?v\d+(?::\d+)?)?$", "", name)


def main(source: str, version: str, date: str) -> None:
    """Write the table, one line a model."""
    models: dict[str, dict[str, Any]] = {}
    for name, kept in select(json.loads(Path(source).read_text())):
        models.setdefault(name, kept)
    for name in sorted(models):
        if re.search(r"\d", plain_name(name)):  # "claude" alone would answer for every Claude to come
            models.setdefault(plain_name(name), models[name])
    lines = ",\n".join(
        f"  {json.dumps(name)}: {json.dumps(models[name], separators=(',', ':'))}" for name in sorted(models)
    )
    head = {"source": f"litellm {version}, model_prices_and_context_window_backup.json", "date": date}
    text = json.dumps(head)[:-1] + f', "models": {{\n{lines}\n}}}}\n'
    json.loads(text)
    TARGET.write_text(text)
    sys.stdout.write(f"{len(models)} models, {len(text)} bytes\n")


if __name__ == "__main__":
    main(*sys.argv[1:4])
