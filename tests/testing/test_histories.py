"""Generated transcripts, budgets and stages."""

import json

import pytest
from histories import (
    BREAKAGES,
    FORMATS,
    broken_histories,
    budgets,
    histories,
    plans,
    single_stages,
    speaking,
    stages,
)
from hypothesis import Phase, find, given, settings, strategies as st
from plans import Say, write

from agentctx import Budget, Pipeline
from agentctx.testing.laws import Scenario

SEARCH = settings(max_examples=5_000, derandomize=True, database=None, phases=[Phase.generate])


@given(histories())
def test_a_history_is_plain_json(history):
    """What is generated is what a provider could be sent: it survives JSON."""
    assert json.loads(json.dumps(history.request)) == history.request


@given(broken_histories())
def test_the_user_speaks_in_every_broken_history(history):
    """There is always something that can be sent."""
    messages = Scenario.of(Pipeline(), history).read(history.messages).messages
    assert any(message.role == "user" and message.text.strip() for message in messages)


@given(plans("anthropic"), st.sampled_from(BREAKAGES), st.integers(0, 1_000))
def test_breaking_makes_a_new_plan(plan, breakage, pick):
    """No way of breaking fails on any plan, and what is broken can be written in every format."""
    broken = speaking(breakage(plan, pick))
    for format_name in FORMATS:
        assert write(broken, format_name).messages


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda breakage: breakage.__name__)
def test_every_breakage_breaks_something(breakage):
    """There is a plan that each way of breaking changes."""
    plan = find(plans("anthropic"), lambda plan: breakage(plan, 1) != plan, settings=SEARCH)
    assert breakage(plan, 1) != plan


@given(budgets())
def test_budgets_are_budgets(budget):
    """Every amount is in its range."""
    assert isinstance(budget, Budget)
    assert 1 <= budget.target_tokens <= budget.trigger_tokens <= budget.limit


@given(stages())
def test_stages_are_callable(stage):
    """Whatever comes out can stand in a pipeline."""
    assert callable(stage)


@pytest.mark.parametrize(
    "name",
    [
        "TrimRounds",
        "TruncateToolOutputs",
        "ClearToolResults",
        "CollapseRepeats",
        "FitContextWindow",
        "Pack",
        "RepairHistory",
    ],
)
def test_every_built_in_stage_comes_up(name):
    """The generator leaves no built-in stage out."""
    assert type(find(single_stages(), lambda stage: type(stage).__name__ == name, settings=SEARCH)).__name__ == name


@pytest.mark.parametrize("name", ["Conditional", "FirstOf", "Pipeline"])
def test_every_nesting_comes_up(name):
    """Stages come nested in each way."""
    assert find(stages(), lambda stage: type(stage).__name__ == name, settings=SEARCH)


def pictured(message):
    """Whether a result in the message has an image."""
    blocks = message["content"] if isinstance(message["content"], list) else ()
    return any('"image"' in json.dumps(block) for block in blocks if block["type"] == "tool_result")


WANTED = {
    "parallel calls": lambda text, _: text.count("tool_use_id") > text.count('"assistant"') > 0,
    "signed reasoning": lambda text, _: '"signature"' in text,
    "redacted reasoning": lambda text, _: '"redacted_thinking"' in text,
    "server tools": lambda text, _: '"server_tool_use"' in text,
    "code that calls tools": lambda text, _: '"caller"' in text,
    "unknown blocks": lambda text, _: '"block_of_tomorrow"' in text,
    "images in results": lambda _, history: any(pictured(message) for message in history.messages),
    "emoji": lambda text, _: "\\ud83d\\udc69" in text,
    "special tokens": lambda text, _: "<|endoftext|>" in text,
    "big outputs": lambda text, _: len(text) > 20_000,
    "system prompt": lambda _, history: history.system is not None,
    "tools": lambda _, history: history.tools is not None,
    "an empty result": lambda text, _: '"content": ""' in text,
}


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@pytest.mark.parametrize("wanted", WANTED.values(), ids=WANTED.keys())
def test_what_real_histories_have_comes_up(wanted):
    """Each shape that real transcripts have is generated."""
    found = find(histories("anthropic"), lambda history: wanted(json.dumps(history.messages), history), settings=SEARCH)
    assert found.messages


def test_call_ids_repeat_in_chat():
    """Real chat transcripts use the same call ids again, so generated ones do too."""

    def repeats(history):
        ids = [call["id"] for message in history.messages for call in message.get("tool_calls", ())]
        return len(set(ids)) < len(ids)

    assert find(histories("openai-chat"), repeats, settings=SEARCH)


def test_the_smallest_history_says_one_thing():
    """Shrinking ends at something that fits in a head."""
    assert find(histories("openai-chat"), lambda _: True, settings=SEARCH).messages == [
        {"role": "user", "content": "ok"}
    ]


@given(plans("openai-chat"))
def test_plans_are_values(plan):
    """A plan is equal to itself said again, and says something."""
    assert any(isinstance(item, Say) for turn in plan.turns for item in turn.items)
