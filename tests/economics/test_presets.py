"""The presets on a recorded session, billed by the simulators."""

import json
from pathlib import Path

import anyio
import pytest

from agentctx import Budget, ClearToolResults, ConfigError, FitContextWindow, Pipeline, TrimRounds, over, when
from agentctx.core.message import Context
from agentctx.economics.blocks import BlockReader
from agentctx.economics.cache import CacheSimulator
from agentctx.economics.cache_rules import cache_rules
from agentctx.economics.conditions import cache_cold, pays_back
from agentctx.economics.prices import Usage, cost
from agentctx.presets import RECENT_RESULTS, coding_agent, late_and_large
from agentctx.reading import reader
from agentctx.replay import model_calls
from agentctx.tokens.models import profile

SESSION = json.loads(next((Path(__file__).parents[2] / "examples/sessions").glob("*.jsonl")).read_text("utf-8"))
MESSAGES = [{"role": "system", "content": SESSION["system"]}, *SESSION["messages"]]
CALLS = model_calls(MESSAGES, "openai-chat")
WINDOW = 24_000
MODELS = ["gpt-5.4", "gpt-5.6-sol", "claude-sonnet-5-5", "deepseek/deepseek-v4-pro", "gemini/gemini-2.5-pro"]


class Sent:
    """What a pipeline sends over the session, in a session of its own or statelessly; run once a pipeline."""

    def __init__(self, pipeline, stateful):
        self.contexts, self.breaks, self.compactions = [], 0, 0
        self.source = reader(MESSAGES, tools=SESSION["tools"], format="openai-chat")
        anyio.run(self.run, pipeline, stateful)

    async def run(self, pipeline, stateful):
        """Prepare each call."""
        session, fresh = pipeline.session(format="openai-chat"), 0
        for length in CALLS:
            if stateful:
                view = await session.prepare(MESSAGES[:length], tools=SESSION["tools"])
                self.breaks += view.report.first_changed is not None
                self.compactions += any(change.index < fresh for change in view.report.changes)
                fresh = length
            else:
                view = await pipeline.prepare(MESSAGES[:length], tools=SESSION["tools"], format="openai-chat")
            self.contexts.append(view.context)

    def bill(self, model):
        """All tokens and dollars at a model."""
        rules, reads = cache_rules(profile(model)), BlockReader(self.source.meter)
        cache, usage, dollars = CacheSimulator(rules), Usage(), 0.0
        for number, context in enumerate(self.contexts):
            once = cache.send(reads.read(context), 20.0 * number)
            usage, dollars = usage + once, dollars + cost(once, profile(model))
        return usage, dollars


@pytest.fixture(scope="module", params=[late_and_large, coding_agent])
def ours(request):
    """A preset of ours in a session."""
    return Sent(request.param(Budget(WINDOW)), stateful=True)


@pytest.fixture(scope="module")
def others():
    """A little less at every step, statelessly."""
    budget = Budget(WINDOW)
    return [
        Sent(Pipeline(FitContextWindow(), budget=budget), stateful=False),
        Sent(Pipeline(ClearToolResults(RECENT_RESULTS), FitContextWindow(), budget=budget), stateful=False),
    ]


@pytest.mark.parametrize("model", MODELS)
def test_presets_cost_least(model, ours, others):
    """In a window that forces compactions a preset costs less than trimming at every step, by every cache's rules."""
    assert ours.compactions >= 1
    assert ours.bill(model)[1] < min(other.bill(model)[1] for other in others)


@pytest.mark.parametrize("model", MODELS)
def test_presets_read_most_from_the_cache(model, ours, others):
    """A larger share of its input is read from the cache than of theirs."""
    assert ours.bill(model)[0].cached_share > max(other.bill(model)[0].cached_share for other in others)


def test_presets_break_the_prefix_only_to_compact(ours):
    """The cached prefix breaks at most once a compaction."""
    assert ours.breaks <= ours.compactions


@pytest.mark.parametrize("model", MODELS)
def test_unreached_window_costs_nothing(model):
    """Where the window is never reached, the bill is that of sending everything."""
    unreached = Sent(late_and_large(Budget(1_000_000)), stateful=True)
    everything = Sent(Pipeline(), stateful=True)

    assert unreached.bill(model) == everything.bill(model)


def test_presets_go_down_to_a_quarter():
    """A cut goes down to a quarter of the trigger, unless the budget has a target of its own."""
    assert late_and_large(Budget(100_000, trigger=0.8)).budget.target_tokens == 20_000
    assert coding_agent(Budget(100_000, target=0.5)).budget.target_tokens == 50_000


def test_coding_agent_cuts_large_outputs():
    """No tool output takes more than a tenth of the window when it arrives."""
    sent = Sent(coding_agent(Budget(20_000)), stateful=True)

    results = [part for context in sent.contexts for message in context.messages for part in message.results]
    assert max(sent.source.meter.parts(result.content) for result in results) <= 2_100


@pytest.mark.anyio
async def test_conditions_in_a_pipeline():
    """A stage runs when the context is large, the cache is cold, or it pays back; a stateless call knows no cache."""
    stage = when(over(0.8) | cache_cold() | pays_back(within=20), TrimRounds(2))
    view = await Pipeline(stage, budget=Budget(200_000)).prepare(MESSAGES, format="openai-chat", model="gpt-5.4")

    assert view.report.messages_after < view.report.messages_before
    assert view.report.stages[0].stage == "when(over(0.8) | cache_cold() | pays_back(within=20), TrimRounds)"


@pytest.mark.anyio
async def test_paying_back_asks_for_a_model():
    """Without a model the condition says what to pass."""
    pipeline = Pipeline(when(pays_back(within=20), TrimRounds(2)), budget=Budget(9_000))
    with pytest.raises(ConfigError, match="model="):
        await pipeline.prepare(MESSAGES, format="openai-chat")


def test_blocks_add_up_to_the_request():
    """The blocks of a request have its tokens, and its head and its end are marked."""
    source = reader(MESSAGES, tools=SESSION["tools"], format="openai-chat")
    context = Context(tuple(source.messages(MESSAGES)), *source.fixed_part(None, SESSION["tools"]))
    prompt = BlockReader(source.meter).read(context)

    assert prompt.tokens == source.meter.size(context)
    assert [place for place, block in enumerate(prompt.blocks) if block.mark] == [1, len(prompt.blocks) - 1]
