"""A deployment is what it is registered to be like, and what is said of a model holds for all its spellings."""

import anyio
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis.strategies import sampled_from

import agentctx
from agentctx import Budget, ConfigError, PlaceCacheMarkers, UnknownModel, count
from agentctx.formats.registry import format_named
from agentctx.models import ModelProfile, Prices, register_model, table
from agentctx.models.profile import cache_rules
from agentctx.models.table import encoding_for, percent_for, profile, shares_reasoning

LIKE = [
    "claude-opus-5-5",
    "claude-sonnet-4-5",
    "gpt-5.6-sol",
    "gpt-4",
    "gemini-3.1-pro-preview",
    "deepseek-chat",
    "glm-4.6",
]
TALK = [
    {"role": "user", "content": "How many tokens does this sentence have? " * 20},
    {"role": "assistant", "content": "Many."},
]
TOOLS = [{"type": "function", "function": {"name": "run", "description": "Runs.", "parameters": {"type": "object"}}}]


@pytest.fixture(autouse=True)
def _clean_register(monkeypatch):
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(table, "_registered", {})


@given(like=sampled_from(LIKE))
def test_a_deployment_is_all_that_the_model_is_that_it_is_like(like):
    """Window, prices, counting factor, cache, tools, reasoning rules and dialect come along; the name is its own."""
    register_model("prod-eu", like=like)
    mine, theirs = profile("azure/Prod-EU"), profile(like)

    assert evolve(mine, name=theirs.name) == theirs
    assert cache_rules(mine) == cache_rules(theirs)
    assert (encoding_for("prod-eu"), percent_for("prod-eu")) == (encoding_for(like), percent_for(like))
    assert format_named("openai-chat", "prod-eu") == format_named("openai-chat", like)
    assert count(TALK, model="prod-eu", tools=TOOLS) == count(TALK, model=like, tools=TOOLS)
    assert Budget.for_model("prod-eu") == Budget.for_model(like)


def test_what_is_said_of_a_deployment_holds():
    """What is said beside the model that it is like stands in the place of what comes along."""
    register_model("prod-eu", like="gpt-5", window=100_000, prices=Prices(input=1.0, output=2.0))
    register_model(ModelProfile("prod-us", window=90_000), like="claude-opus-5-5")

    assert (profile("prod-eu").window, profile("prod-eu").prices.input) == (100_000, 1.0)
    assert (profile("prod-us").window, profile("prod-us").bound_thinking) == (90_000, True)


def test_markers_and_reasoning_are_those_of_the_model():
    """A deployment of Claude has Anthropic's markers in every format, and its reasoning is bound to the one model."""
    register_model("prod", like="claude-opus-5-5")
    pipeline = agentctx.Pipeline(PlaceCacheMarkers(), budget=Budget(100_000))
    history = [{"role": "user", "content": "word " * 3_000}]
    view = anyio.run(lambda: pipeline.prepare(history, format="openai-chat", model="prod"))

    assert "cache_control" in str(view.messages)
    assert not shares_reasoning("prod", "claude-opus-5")


def test_a_price_holds_for_the_dated_names():
    """An override of a price holds for all spellings of the model; the rest of each, and a gateway's row, stay."""
    before = profile("gpt-4o-2024-05-13"), profile("github_copilot/gpt-4o")
    register_model("gpt-4o", prices=Prices(input=9.0, output=18.0))
    register_model(ModelProfile("claude-opus-5-5", prices=Prices(input=7.0, output=8.0)))

    for name in ("gpt-4o", "gpt-4o-2024-05-13", "openai:gpt-4o-2024-08-06", "litellm_proxy/gpt-4o"):
        assert profile(name).prices.input == 9.0
    assert profile("gpt-4o-2024-05-13").max_output == before[0].max_output
    assert profile("github_copilot/gpt-4o") == before[1]
    assert profile("us.anthropic.claude-opus-5-5").prices.input == 7.0
    assert (profile("claude-opus-5-5").bound_thinking, profile("claude-opus-5-5").window) == (True, 1_000_000)
    assert profile("gpt-4o-mini").prices.input != 9.0


def test_the_budget_of_a_registered_model_is_what_is_known_of_it():
    """Without a window there is none; an input larger than the window is the window."""
    register_model(ModelProfile("narrow", window=10_000, max_input=20_000, max_output=9_000))
    register_model(ModelProfile("unknown", max_output=100))
    assert Budget.for_model("narrow") == Budget(10_000)
    with pytest.raises(UnknownModel, match="'unknown': pass Budget"):
        Budget.for_model("unknown")


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-5"])
def test_a_reserve_that_is_no_share_is_named(model):
    """Also where the longest answer has room of its own beside the input."""
    with pytest.raises(ConfigError, match=r"^Budget\.output_reserve must be "):
        Budget.for_model(model, output_reserve=2.0)


def test_what_cannot_be_registered_is_refused():
    """A model that nobody knows cannot be like another, and a field that there is not cannot be set."""
    with pytest.raises(UnknownModel, match="gpt-99"):
        register_model("prod", like="gpt-99")
    with pytest.raises(ConfigError, match="windw"):
        register_model("prod", like="gpt-5", windw=1)


@pytest.mark.parametrize("field", ["window", "max_output", "max_input", "min_cache", "long_from", "tool_overhead"])
@pytest.mark.parametrize("number", [-5, 0.5, float("nan"), float("inf"), True, "8k"])
def test_numbers_that_make_no_sense_are_refused_when_they_are_said(field, number):
    """A number of tokens of a model is a whole number; another is refused at once, by name."""
    for say in (
        lambda: register_model("nonsense", like="gpt-5", **{field: number}),
        lambda: ModelProfile("m", **{field: number}),
    ):
        with pytest.raises(ConfigError, match=field):
            say()
    with pytest.raises(UnknownModel):
        profile("nonsense")


@pytest.mark.parametrize("field", ["input", "cached", "write", "write_long", "output"])
@pytest.mark.parametrize("price", [-1, float("nan"), float("inf"), True, "2"])
def test_prices_that_make_no_sense_are_refused(field, price):
    """A price is a number that is not negative, or not known."""
    with pytest.raises(ConfigError, match=field):
        Prices(**{field: price})
    assert getattr(Prices(**{field: 0}), field) == 0


@pytest.mark.parametrize("name", ["", " ", "openai/", None])
def test_a_model_has_a_name(name):
    """A blank name would stand for every model that nobody knows."""
    with pytest.raises(ConfigError, match="name"):
        register_model(name, like="gpt-4o")


HOLDS = [
    ("gpt-4.1", "gpt-4.1-2025-04-14", True),
    ("gpt-4.1", "openai/gpt-4.1", True),
    ("gpt-4.1", "openai:gpt-4.1", True),
    ("gpt-4.1", "openrouter/openai/gpt-4.1", True),
    ("gpt-4.1", "ft:gpt-4.1-2025-04-14:org::id", True),
    ("openai/gpt-4.1", "gpt-4.1", True),
    ("gpt-4.1", "github_copilot/gpt-4.1", False),
    ("gpt-4.1", "copilot/gpt-4.1", False),
    ("gpt-4o", "azure/gpt-4o", False),
    ("gpt-4o", "azure/eu/gpt-4o-2024-11-20", False),
    ("gpt-4o", "litellm_proxy/azure/gpt-4o", False),
    ("gpt-4.1", "gpt-4.1-mini", False),
    ("azure/gpt-4o", "azure/gpt-4o-2024-11-20", True),
    ("azure/gpt-4o", "azure_openai/gpt-4o", True),
    ("azure/gpt-4o", "azure/eu/gpt-4o", True),
    ("azure/gpt-4o", "litellm_proxy/azure/gpt-4o", True),
    ("azure/gpt-4o", "gpt-4o", False),
    ("azure/gpt-4o", "openai/gpt-4o", False),
    ("azure/gpt-4o", "github_copilot/gpt-4o", False),
    ("github_copilot/gpt-4.1", "gpt-4.1", False),
    ("our-gateway/gpt-4o", "our-gateway/gpt-4o-2024-11-20", True),
    ("our-gateway/gpt-4o", "gpt-4o", False),
    ("gpt-4o-2024-11-20", "gpt-4o", False),
    ("claude-opus-4-1-20250805", "us.anthropic.claude-opus-4-1-20250805-v1:0", True),
    ("us.anthropic.claude-opus-4-1-20250805-v1:0", "claude-opus-4-1-20250805", False),
    ("anthropic.claude-3-haiku-20240307-v1:0", "anthropic.claude-3-haiku-20240307-v1:0:48k", False),
    ("claude-3-haiku-20240307", "anthropic.claude-3-haiku-20240307-v1:0:48k", False),
    ("claude-sonnet-4-5", "claude-sonnet-4-5[1m]", False),
    ("claude-sonnet-4-5[1m]", "claude-sonnet-4-5", False),
    ("models/gemini-2.5-pro", "gemini-2.5-pro", True),
    ("deepseek-chat", "deepseek/deepseek-chat", True),
    ("llama3", "ollama/llama3", False),
]


@pytest.mark.parametrize(("said", "asked", "holds"), HOLDS)
@pytest.mark.parametrize("window", [3_000, 5_000_000])
@pytest.mark.parametrize("like", [None, "gpt-5"])
def test_what_is_said_of_one_deployment_is_not_said_of_another(said, asked, holds, window, like):
    """What is registered holds for that name, its dated names and aliases, and for no other gateway's deployment."""
    before = profile(asked).window
    register_model(said, like=like, window=window)

    assert (profile(said).window, profile(asked).window) == (window, window if holds else before)


def test_a_window_that_the_name_states_is_kept_of_a_deployment_that_is_like_another():
    """The name of a deployment may state its window, which is no larger than what was said."""
    register_model("prod-eu", like="claude-sonnet-4-5", prices=Prices(input=1.0))

    assert (profile("prod-eu:48k").window, profile("prod-eu:48k").prices.input) == (48_000, 1.0)
    assert profile("prod-eu[1m]").window == 200_000


@pytest.mark.parametrize(
    "said",
    [
        {"encoding": 5},
        {"image": "tiles"},
        {"prices": {"input": 1.0}},
        {"long_prices": 5},
        {"bound_thinking": "yes"},
        {"prefill": None},
        {"family": 5},
        {"family": " "},
    ],
    ids=str,
)
def test_what_is_of_another_kind_is_refused_where_it_is_said(said):
    """A setting of a model that makes no sense is an error at once, and not at some later step."""
    with pytest.raises(ConfigError, match=f"ModelProfile.{next(iter(said))} must be "):
        register_model("acme-odd", window=8_000, **said)
