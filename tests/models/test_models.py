import json
import re
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis.strategies import integers, sampled_from

from agentctx import Budget, UnknownModel
from agentctx.models import ImageRule, ModelProfile, Prices, register_model, table
from agentctx.models.table import encoding_for, families_of, find, open_weight_windows, profile

TABLE = files("agentctx.models") / "models.json"
NAMES = json.loads((Path(__file__).parent / "model_names.json").read_text("utf-8"))
OPEN = json.loads(TABLE.read_text())["open"]
SPELLED = [(name, window) for names in NAMES.values() for name, window in names.items()]


@pytest.fixture
def clean_register(monkeypatch):
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(table, "_registered", {})


@pytest.mark.parametrize(
    ("name", "window", "output"),
    [
        ("gpt-4o", 128_000, 16_384),
        ("gpt-6-sol", 922_000, 128_000),
        ("claude-opus-4-5", 200_000, 64_000),
        ("claude-fable-5-1", 1_000_000, 128_000),
        ("gemini-2.5-pro", 1_048_576, 65_536),
        ("amazon.nova-pro-v1:0", 300_000, 10_000),
        ("deepseek-chat", 131_072, 8_192),
    ],
)
def test_window_and_longest_answer_are_known(name, window, output):
    """The table knows window and longest answer of the main providers' models."""
    found = profile(name)
    assert (found.window, found.max_output) == (window, output)


@pytest.mark.parametrize(
    ("spelling", "plain"),
    [
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("anthropic/claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("openrouter/anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("anthropic.claude-opus-4-1-20250805-v1:0", "claude-opus-4-1"),
        ("vertex_ai/claude-opus-4-5@20251101", "claude-opus-4-5"),
        ("claude-fable-5-1-20261001", "claude-fable-5-1"),
        ("models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("gemini/gemini-2.5-flash", "gemini-2.5-flash"),
        ("openai/gpt-5.4", "gpt-5.4"),
        ("GPT-5.4", "gpt-5.4"),
        ("gpt-5.4-2030-01-01", "gpt-5.4"),
        ("azure/gpt-4o-2024-08-06", "gpt-4o"),
        ("ft:gpt-4.1-mini-2025-04-14:org::id", "gpt-4.1-mini"),
        ("moonshotai/kimi-k3", "kimi-k3"),
    ],
)
def test_every_spelling_finds_its_model(spelling, plain):
    """Provider prefixes, dates, deployment versions and fine-tunings lead to the model that they stand for."""
    assert profile(spelling).window == profile(plain).window
    assert profile(spelling).name.startswith(plain)


def window_of(name):
    """The window of a model; None for an unknown one."""
    found = find(name)
    return found and found.window


@pytest.mark.parametrize(("name", "window"), SPELLED, ids=[name for name, _ in SPELLED])
def test_names_that_people_pass(name, window):
    """Every name that people pass has the window that its source tells; what nobody can know is unknown."""
    assert window_of(name) == window


@pytest.mark.parametrize(
    ("name", "window"),
    [
        ("gpt-3.5-turbo-instruct", 4_096),
        ("openai/gpt-3.5-turbo-instruct-0914", 4_096),
        ("openrouter/openai/gpt-3.5-turbo-instruct", 4_096),
        ("vercel_ai_gateway/openai/gpt-3.5-turbo-instruct", 4_096),
        ("azure/gpt-35-turbo-instruct", 4_097),
        ("cerebras/llama3.1-8b", 8_192),
        ("cerebras:llama-3.1-8b", 8_192),
        *((f"github/{name}", None) for name in ("gpt-4o", "gpt-4.1", "openai/gpt-4o", "Llama-3.3-70B-Instruct")),
        ("github_models/gpt-4o", None),
    ],
)
def test_no_window_is_told_larger_than_it_is_served(name, window):
    """What the reference tells too large is told as it is served; what depends on the account is not known."""
    assert window_of(name) == window


@given(name=sampled_from([name for name, window in SPELLED if window and not re.search(r"[:@\[#]|arn|20\d\d", name)]))
def test_a_sibling_that_does_not_exist_is_unknown(name):
    """What follows a known name and is no date, no packing and no variant of a gateway makes another model of it."""
    for more in ("-mini9", "-ultra", "-9", "-prod", "-max-pro"):
        assert window_of(f"{name}{more}") is None


@given(
    name=sampled_from(sorted(next(names for source, names in NAMES.items() if "Ollama" in source))),
    window=integers(1, 300),
)
def test_a_window_in_the_name_never_makes_it_larger(name, window):
    """A window that a name states is taken as far as the model has it."""
    assert window_of(f"{name}[{window}k]") == min(window * 1_000, window_of(name))


def test_no_bare_name_of_open_weights_is_stretched():
    """What a name without a host is given is no more than the weights were trained for, whatever anyone serves."""
    trained = {key: next(filter(None, map(open_weight_windows().get, families_of(key))), None) for key in OPEN}
    assert [key for key, most in trained.items() if most and (window_of(key) or 0) * 0.95 > most] == []


@given(family=sampled_from(["gemma3", "smollm2", "granite4"]), weights=integers(10, 999))
def test_a_number_of_weights_is_no_window(family, weights):
    """The tag of a small model says how many million weights it has, and that never is a window."""
    assert profile(f"{family}:{weights}m").window <= profile(family).window


def test_cloudflare_s_own_spelling_is_cloudflare_s():
    """Whatever stands behind Cloudflare's own sign is what Cloudflare serves, or unknown."""
    for key in OPEN:
        assert window_of(f"@cf/maker/{key}") == window_of(f"cloudflare/@cf/maker/{key}")


def test_what_others_serve_is_not_larger_than_they_say():
    """No model of a gateway or a cloud has a larger window than it says there."""
    hosts = json.loads(TABLE.read_text())["hosts"]
    larger = [
        (host, key)
        for host in hosts
        for key, row in hosts[host].items()
        if (window_of(f"{host}/{key}") or 0) > row["window"]
    ]
    assert larger == []


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("gpt-5", 272_000),
        ("azure/gpt-5.1-codex", 272_000),
        ("gpt-5.1-codex", 272_000),
        ("gpt-6-sol", 922_000),
        ("gpt-5.5", 922_000),
        ("azure/gpt-5.1-chat", 111_616),
        ("claude-sonnet-4-5", 150_000),
        ("gpt-4o", 111_616),
    ],
)
def test_an_answer_with_room_of_its_own_takes_none_of_the_input(name, limit):
    """Where the input has a limit of its own, that holds; where the answer shares its window, the reserve is kept."""
    assert Budget.for_model(name).limit == limit


def test_what_is_reserved_beyond_the_longest_answer_is_taken_from_the_input():
    """A reserve within the longest answer costs the input nothing, a larger one what is beyond it."""
    for name in ("gpt-5", "gpt-5.1-codex"):
        limits = [Budget.for_model(name, output_reserve=each).limit for each in (8_000, 128_000, 130_000)]
        assert limits == [272_000, 272_000, 270_000]


def test_regional_prices_differ():
    """A regional name that has a price of its own has that price, and the habits of its model."""
    regional, plain = profile("us.anthropic.claude-sonnet-5-5"), profile("claude-sonnet-5-5")
    assert (regional.prices.input, plain.prices.input) == (2.2, 2.0)
    assert (regional.bound_thinking, regional.tool_overhead) == (True, plain.tool_overhead)


@pytest.mark.parametrize("name", ["gpt-99", "claude-opus-4-99", "claude", "gpt", "", "/", "my-own-model", "azure/prod"])
def test_unknown_models_are_an_error_that_helps(name):
    """An unknown name, also one that only begins like a known one, is an error that says what to pass."""
    with pytest.raises(UnknownModel, match=r"Budget\(window=.*register_model"):
        profile(name)


def test_budget_finds_the_table():
    """A budget for a model has its window, and an unknown model is an error."""
    assert Budget.for_model("claude-opus-4-5").window == 200_000
    with pytest.raises(UnknownModel):
        Budget.for_model("my-own-model")


@pytest.mark.usefixtures("clean_register")
def test_models_can_be_added():
    """A registered model is found, by its name and with a provider before it."""
    mine = ModelProfile("My-Own-Model", "cl100k_base", window=4_096)
    register_model(mine)
    assert profile("my-own-model") is profile("vllm/My-Own-Model") is mine
    assert encoding_for("vllm/my-own-model") == "cl100k_base"


@pytest.mark.usefixtures("clean_register")
def test_models_can_be_overridden():
    """A registered profile stands in the place of the table's."""
    register_model(ModelProfile("gpt-4o", window=1_000))
    assert profile("openai/gpt-4o").window == 1_000


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((name, "o200k_base") for name in ("gpt-4o", "gpt-4.1", "gpt-5", "gpt-6-sol", "gpt-6.1-sol", "o1", "o3-mini")),
        *((name, "o200k_base") for name in ("openai/gpt-5.4", "chat-latest", "codex-mini-latest", "gpt-oss-120b")),
        *((name, "o200k_base") for name in ("ft:gpt-4.1-2025-04-14:x", "ft:gpt-4o-mini", "gpt-4.5-preview")),
        *((name, "o200k_base") for name in ("chatgpt-4o-latest", "claude-opus-5", "gemini-2.5-pro", "anything", "")),
        *((name, "cl100k_base") for name in ("gpt-4", "gpt-4-turbo", "gpt-4-0613", "gpt-3.5-turbo", "ft:gpt-4-0613:x")),
        *((name, "cl100k_base") for name in ("ft:gpt-3.5-turbo", "azure/gpt-35-turbo", "openai/gpt-4")),
    ],
)  # fmt: skip
def test_encoding_of_a_model(name, expected):
    """Every model has its encoding; those of other providers and unknown ones are counted with o200k_base."""
    assert encoding_for(name) == expected


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("gpt-4o", ImageRule("openai-tiles", low=85, tile=170)),
        ("gpt-5.1", ImageRule("openai-tiles", low=70, tile=140)),
        ("gpt-4o-mini", ImageRule("openai-tiles", low=2833, tile=5667)),
        ("o3", ImageRule("openai-tiles", low=75, tile=150)),
        ("gpt-5-mini", ImageRule("openai-patches", factor=1.62)),
        ("gpt-5-nano", ImageRule("openai-patches", factor=2.46)),
        ("o4-mini", ImageRule("openai-patches", factor=1.72)),
        ("claude-3-5-sonnet", ImageRule("claude", edge=1568, cap=1568)),
        ("claude-3-7-sonnet", ImageRule("claude", edge=1568, cap=1568)),
        ("claude-opus-4-5", ImageRule("claude", edge=1568, cap=1568)),
        ("claude-opus-4-7", ImageRule("claude", edge=2576, cap=4784)),
        ("claude-sonnet-5-5", ImageRule("claude", edge=2576, cap=4784)),
        ("gemini-2.5-pro", ImageRule("gemini", tile=258)),
        ("gemini-3.1-pro-preview", ImageRule("gemini", tile=1120)),
    ],
)
def test_images_count_by_the_family(name, rule):
    """Each family counts images by its provider's formula."""
    assert profile(name).image == rule


@pytest.mark.parametrize(
    ("name", "bound", "adaptive", "system", "prefill"),
    [
        ("claude-fable-5-1", True, True, True, False),
        ("claude-mythos-5", False, True, True, False),
        ("claude-opus-5-5", True, True, True, False),
        ("claude-opus-5", False, True, True, False),
        ("claude-opus-4-8", False, True, True, False),
        ("claude-opus-4-7", False, True, False, False),
        ("claude-sonnet-5-5", True, True, False, False),
        ("claude-haiku-5-5", True, True, False, False),
        ("claude-sonnet-4-6", False, True, False, False),
        ("claude-sonnet-4-5", False, False, False, True),
        ("claude-3-haiku", False, False, False, True),
        ("gpt-5.4", False, False, True, True),
    ],
)
def test_habits_of_a_model(name, bound, adaptive, system, prefill):
    """What a model takes and refuses follows from its family and generation."""
    found = profile(name)
    habits = (found.bound_thinking, found.adaptive_thinking, found.system_in_messages, found.prefill)
    assert habits == (bound, adaptive, system, prefill)


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("claude-opus-5", 286),
        ("claude-opus-4-8", 290),
        ("claude-opus-4-7", 675),
        ("claude-opus-4-6", 497),
        ("claude-sonnet-4-6", 497),
        ("claude-haiku-4-5", 496),
        ("claude-sonnet-5", 354),
        ("claude-opus-4-1", 313),
        ("claude-sonnet-4", 313),
        ("claude-3-5-haiku", 264),
        ("gpt-5.4", 0),
    ],
)
def test_claude_charges_for_having_tools(name, tokens):
    """Anthropic's published surcharge for having tools is that of the model; others have none."""
    assert profile(name).tool_overhead == tokens


def test_prices_are_those_per_million():
    """Prices are in USD per million tokens, with the dearer ones of long requests beside them."""
    found = profile("gpt-6-sol")
    assert found.prices == Prices(2, 0.2, 2.5, 5, 10)
    assert (found.long_from, found.long_prices) == (272_000, Prices(4, 0.4, 5, 10, 15))


def test_smallest_cached_prefix_is_known():
    """The shortest prefix that Anthropic caches is that of the model."""
    assert [profile(name).min_cache for name in ("claude-opus-5", "claude-opus-4-5")] == [512, 4_096]


def test_table_says_where_it_is_from():
    """The table names its source and its date, and stays small."""
    table = json.loads(TABLE.read_text())
    assert table["source"].startswith("litellm ")
    assert len(table["date"]) == 10
    assert len(TABLE.read_bytes()) < 400_000


def test_every_row_can_be_read():
    """Every model of the table has a profile with a positive window."""
    names = json.loads(TABLE.read_text())["models"]
    assert all(profile(name).window > 0 for name in names)
    assert len(names) > 500
