"""The model table as a whole, the script that makes it, and the reference table where it is at hand."""

import json
import re
import runpy
from importlib.resources import files
from pathlib import Path

import pytest

from agentctx import UnknownModel
from agentctx.economics import rates
from agentctx.models.table import profile

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "models.py"
REFERENCE = ROOT / "../shared/reference/providers.md"
WHOLE = json.loads((files("agentctx.models") / "models.json").read_text("utf-8"))
CLAUDE = {
    "litellm_provider": "anthropic",
    "mode": "chat",
    "max_input_tokens": 1_000_000,
    "max_output_tokens": 128_000,
    "input_cost_per_token": 1e-07,
    "cache_read_input_token_cost": 1e-08,
    "cache_creation_input_token_cost": 1.25e-07,
    "cache_creation_input_token_cost_above_1hr": 2e-07,
    "output_cost_per_token": 5e-07,
    "input_cost_per_token_above_100k_tokens": 5e-07,
    "cache_read_input_token_cost_above_100k_tokens": 5e-08,
    "output_cost_per_token_above_100k_tokens": 2.5e-06,
    "prompt_cache_min_tokens": 512,
}
QWEN = {"litellm_provider": "dashscope", "mode": "chat", "max_input_tokens": 997_952}
STEPS = [
    {"range": [0, 256_000.0], "input_cost_per_token": 4e-07, "output_cost_per_token": 1.2e-06},
    {"range": [256_000.0, 1e6], "input_cost_per_token": 1.2e-06, "output_cost_per_token": 3.6e-06},
]


def made(table, tmp_path, *earlier):
    """What the script makes of a table of litellm's, and of earlier ones."""
    target = tmp_path / "models.json"
    sources = [tmp_path / f"table{number}.json" for number in range(1 + len(earlier))]
    for source, content in zip(sources, (table, *earlier), strict=True):
        source.write_text(json.dumps(content))
    script = runpy.run_path(str(SCRIPT))
    script["main"].__globals__["TARGET"] = target
    script["main"](str(sources[0]), "9.9.9", "2030-01-01", *map(str, sources[1:]))
    return json.loads(target.read_text())


def test_the_script_takes_windows_prices_tiers_and_minimum(tmp_path):
    """Prices are in USD per million tokens; the long tier and the smallest prefix come along; the table is dated."""
    table = made({"claude-haiku-7": CLAUDE}, tmp_path)

    assert (table["source"], table["date"]) == (
        "litellm 9.9.9, model_prices_and_context_window_backup.json",
        "2030-01-01",
    )
    assert table["models"]["claude-haiku-7"] == {
        "window": 1_000_000,
        "output": 128_000,
        "prices": {"input": 0.1, "cached": 0.01, "write": 0.125, "write_long": 0.2, "output": 0.5},
        "above": {"tokens": 100_000, "input": 0.5, "cached": 0.05, "output": 2.5},
        "min_cache": 512,
    }


def test_the_script_takes_prices_in_two_steps_and_no_others(tmp_path):
    """A price in two steps is a usual and a long one; of one in more steps none is kept rather than a wrong one."""
    more = [*STEPS, {**STEPS[1], "range": [1e6, 2e6]}]
    table = {"dashscope/two": {**QWEN, "tiered_pricing": STEPS}, "dashscope/three": {**QWEN, "tiered_pricing": more}}
    models = made(table, tmp_path)["models"]

    assert models["two"]["prices"] == {"input": 0.4, "output": 1.2}
    assert models["two"]["above"] == {"tokens": 256_000, "input": 1.2, "output": 3.6}
    assert "prices" not in models["three"]


def test_the_script_prefers_the_vendor_itself(tmp_path):
    """Where several sell a model the maker's own row holds, whatever the order; other modes are left out."""
    table = {
        "azure/gpt-9": {**CLAUDE, "litellm_provider": "azure", "max_input_tokens": 1},
        "gpt-9": {**CLAUDE, "litellm_provider": "openai"},
        "gpt-9-image": {**CLAUDE, "litellm_provider": "openai", "mode": "image_generation"},
        "azure/eu/gpt-9-eu": {**CLAUDE, "litellm_provider": "azure"},
    }
    models = made(table, tmp_path)["models"]

    assert set(models) == {"gpt-9"}
    assert models["gpt-9"]["window"] == 1_000_000


def test_the_shipped_table_says_where_it_is_from():
    """Source and day stand at its head."""
    assert re.fullmatch(r"litellm \d+\.\d+\.\d+, .*\.json", WHOLE["source"])
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", WHOLE["date"])


def sensible(row):
    """Whether windows are positive, reading costs no more than plain input, and a long request no less."""
    prices, above = row.get("prices", {}), row.get("above", {})
    return (
        row["window"] > 0
        and row.get("output", 1) > 0
        and 0 <= prices.get("cached", 0) <= prices.get("input", 0)
        and all(above[kind] >= prices[kind] for kind in prices if kind in above)
    )


def test_every_row_makes_sense():
    """No row of the shipped table, of a maker or a host, has a price or a window that cannot be."""
    rows = [*WHOLE["models"].items(), *(row for rows in WHOLE["hosts"].values() for row in rows.items())]
    assert [name for name, row in rows if not sensible(row)] == []
    assert min(WHOLE["open"].values()) > 0


def test_a_window_of_nought_is_none(tmp_path):
    """What a host tells no window of is not known to be served there, and nothing is known of it."""
    row = {**CLAUDE, "litellm_provider": "vercel_ai_gateway", "max_input_tokens": 0}
    assert made({"vercel_ai_gateway/amazon/embed-v9": row}, tmp_path)["hosts"] == {}
    for model in (
        "amazon/titan-embed-text-v2",
        "cohere/embed-v4.0",
        "mistral/codestral-embed",
        "mistral/mistral-embed",
    ):
        with pytest.raises(UnknownModel):
            profile(f"vercel_ai_gateway/{model}")


def test_of_a_host_with_windows_of_its_own_the_smallest_holds_that_was_told(tmp_path):
    """Of what several tables say the smaller window holds for such a host, and the newest for all others."""
    now = {
        "github_copilot/gpt-9": {**CLAUDE, "litellm_provider": "github_copilot"},
        "gpt-9": {**CLAUDE, "litellm_provider": "openai"},
    }
    earlier = {name: {**row, "max_input_tokens": 272_000} for name, row in now.items()}
    table = made(now, tmp_path, earlier)
    assert table["models"]["gpt-9"]["window"] == 1_000_000
    assert table["hosts"]["github_copilot"]["gpt9"]["window"] == 272_000
    assert made(now, tmp_path)["hosts"]["github_copilot"]["gpt9"]["window"] == 1_000_000


@pytest.mark.parametrize("model", ["gpt-6-astra", "gpt-6-luna", "gpt-6-sol", "gpt-6.1-sol"])
def test_copilot_s_window_is_its_own(model):
    """GitHub Copilot serves OpenAI's longest with the window up to which they cost the same."""
    assert profile(f"github_copilot/{model}").window == 272_000
    assert profile(f"copilot/{model}").window == 272_000
    assert profile(model).window == 922_000


def reference_rows():
    """The rows of the reference table; none where it is not at hand."""
    lines = REFERENCE.read_text("utf-8").splitlines() if REFERENCE.exists() else []
    start = next((at for at, line in enumerate(lines) if line.startswith("| model | input | cached read |")), None)
    for line in lines[start + 2 :] if start is not None else ():
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("| ").split("|")]


def number(cell):
    """A number of the reference table; None for a dash or nought, which both mean that there is no price."""
    return None if cell == "-" else float(cell.replace(",", "")) or None


GIVEN = [
    [
        "claude-haiku-5-5",
        "0.1",
        "0.01",
        "0.125",
        "0.2",
        "0.5",
        "1,000,000",
        "128,000",
        ">100k: 0.5 / 0.05 / 2.5",
        "512",
    ],
    ["gpt-6.1-sol", "2", "0.1", "2.5", "5", "10", "922,000", "128,000", ">272k: 4 / 0.2 / 15", "-"],
    ["gpt-4o", "2.5", "1.25", "-", "-", "10", "128,000", "16,384", "-", "-"],
]


@pytest.mark.parametrize("row", [*GIVEN, *reference_rows()], ids=lambda row: row[0])
def test_rows_are_those_of_the_reference(row):
    """Prices, window, longest answer, long tier and smallest prefix of a model are as the reference table has them."""
    name, *cells, tier, smallest = row
    found = profile(name)
    kept = found.prices
    values = [kept.input, kept.cached, kept.write, kept.write_long, kept.output, found.window, found.max_output]
    long = re.fullmatch(r">(\d+)k: (\S+) / (\S+) / (\S+)", tier)

    assert values == [number(cell) for cell in cells]
    assert found.min_cache == number(smallest)
    assert found.long_from == (int(long[1]) * 1_000 if long else None)
    if long:
        each = rates(found, found.long_from + 1)
        assert [each.fresh, each.output] == [number(long[2]), number(long[4])]
        assert number(long[3]) in (None, each.cached)
