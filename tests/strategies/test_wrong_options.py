"""A wrong option is refused where it is given, in a sentence that names it."""

from functools import partial

import pytest
from attrs import frozen

from agentctx import (
    Budget,
    ClearToolResults,
    CollapseRepeats,
    ConfigError,
    ContextStrategy,
    FitContextWindow,
    InvalidInput,
    Pipeline,
    Protect,
    Sessions,
    TrimRounds,
    TruncateToolOutputs,
    When,
    count,
    first_of,
    over,
    when,
)
from agentctx.builder import Block, ContextBuilder
from agentctx.economics import cache_cold, pays_back
from agentctx.presets import coding_agent, general, thrifty
from agentctx.strategies import Summarize, TruncateOldest
from agentctx.testing.fakes import fixed_summarizer
from agentctx.tokens import FixedCounter

HELLO = [{"role": "user", "content": "hello"}]


async def waiting(_context, _call):
    """An async function where a condition is expected."""


class Waiting(ContextStrategy):
    """A stage that waits where it must not."""

    async def apply(self, context, _call):
        """What is said in ``__call__``."""
        return context


class WhenInWords(ContextStrategy):
    """A stage that says in a word when it is run."""

    when = "pressure"

    def apply(self, context, _call):
        """Nothing."""
        return context


@frozen
class WhenAsOption(ContextStrategy):
    """A stage whose ``when`` attrs takes for its first option."""

    when: When = When.UNDER_PRESSURE
    word: str = ""

    def apply(self, context, _call):
        """Nothing."""
        return context


class Underived:
    """A stage that is not derived, and says in a word when it is run."""

    when = "arrivals"

    def __call__(self, context, _call):
        """Nothing."""
        return context


WRONG = {
    "budget": lambda: Pipeline(budget="8k"),
    "protect must be a list": lambda: Pipeline(protect=Protect.system()),
    "protect must be a list of": lambda: Pipeline(protect="system"),
    "protect[0]": lambda: Pipeline(protect=["system"]),
    "counter": lambda: Pipeline(counter=5),
    "store": lambda: Pipeline(store={}),
    "on_compact": lambda: Pipeline(on_compact=5),
    "summarizer is given": lambda: Pipeline(TrimRounds(1), summarizer=fixed_summarizer("so")),
    "no stage asks it": lambda: Pipeline(when(over(1), Pipeline(TrimRounds(1))), summarizer=fixed_summarizer("so")),
    "output_reserve": lambda: Budget(100, "10"),
    "trigger": lambda: Budget(100, trigger="x"),
    "request_bytes": lambda: Budget(100, request_bytes="1MB"),
    "model: expected a name": lambda: Budget.for_model(None),
    "marker": lambda: TruncateToolOutputs(5, marker=None),
    "exclude": lambda: ClearToolResults(1, exclude="bash"),
    "exclude must be a list": lambda: ClearToolResults(1, exclude=None),
    "placeholder": lambda: ClearToolResults(1, placeholder=None),
    "budget: expected a Budget": lambda: FitContextWindow("8k"),
    "over": lambda: over("80%"),
    "when: the condition": lambda: when(0.8, TrimRounds(1)),
    "which is a stage": lambda: when(TrimRounds(1), over(1)),
    "which is async": lambda: when(waiting, TrimRounds(1)),
    "over(0.8): join": lambda: when(over(0.8) and cache_cold(), TrimRounds(1)),
    "within must be": lambda: pays_back(within="20"),
    "when: stages[0]": lambda: when(over(1), TrimRounds),
    "first_of: stages[0]": lambda: first_of(5),
    "one by one, Pipeline(a, b)": lambda: Pipeline([TrimRounds(1), TrimRounds(2)]),
    "got a tuple of 0": lambda: Pipeline(TrimRounds(1), ()),
    "one by one, when(condition, a, b)": lambda: when(over(1), [TrimRounds(1)]),
    "one by one, first_of(a, b)": lambda: first_of([TrimRounds(1)]),
    "give it a plain apply": lambda: Pipeline(ContextStrategy()),
    "where it waits": lambda: when(over(1), Waiting()),
    "its when is 'pressure': write when: ClassVar[When] = When.UNDER_PRESSURE": lambda: Pipeline(WhenInWords()),
    "its when is 'x': write": lambda: first_of(TrimRounds(1), WhenAsOption("x")),
    "when: stages[0] is": lambda: when(over(1), Underived()),
    "derive its class from ContextStrategy": lambda: Pipeline(Underived()),
    "Protect.last_user": lambda: Protect.last_user("2"),
    "Protect.where": lambda: Protect.where("user"),
    "Protect.pins": lambda: Protect.pins("0"),
    "tokens: expected": lambda: FixedCounter("10"),
    "Pipeline: summarizer is 3": lambda: Pipeline(FitContextWindow(), summarizer=3),
    "Pipeline: budget: expected": lambda: Pipeline(budget="8k"),
    "Pipeline: counter is 3": lambda: Pipeline(counter=3),
    "Budget: window": lambda: Budget(0),
    "Budget: trigger": lambda: Budget(8_000, trigger=1.5),
    "Tier: expected an integer": lambda: Block("a", HELLO, tier="x"),
    "FitContextWindow: budget": lambda: FitContextWindow("8k"),
    "ContextBuilder: budget": lambda: ContextBuilder("8k"),
    "ContextBuilder: counter": lambda: ContextBuilder(1_000, counter=3),
    "coding_agent: budget": lambda: coding_agent(3.5),
    "general: budget": lambda: general(None),
    "thrifty: budget": lambda: thrifty("8k"),
    "Summarize: fallback": lambda: Summarize(waiting, fallback=3),
    "Summarize: role is 'robot'": lambda: Summarize(waiting, role="robot"),
    "Summarize: heading must be text": lambda: Summarize(waiting, heading=3),
    "Summarize: heading: {number}": lambda: Summarize(waiting, heading="{number} earlier"),
    "Summarize: on must be": lambda: Summarize(waiting, on=Exception),
    "got (3,)": lambda: Summarize(waiting, on=(3,)),
    "Sessions: pipeline is 3": lambda: Sessions(3),
    "Protect.tools: expected the names": lambda: Protect.tools(3, "bash"),
    "ClearToolResults: exclude must be": lambda: ClearToolResults(1, exclude=[3]),
    "'robot' is no role": lambda: TruncateOldest(protect_roles={"robot"}),
    "CollapseRepeats: marker: {foo} stands for nothing": lambda: CollapseRepeats(marker="{foo}"),
    "TruncateToolOutputs: marker: {left}": lambda: TruncateToolOutputs(5, marker="{left} more"),
    "model: expected a name, got 3": lambda: Pipeline().session(model=3),
    "model": lambda: count(HELLO, model=5, format="openai-chat"),
}


@pytest.mark.parametrize("said", WRONG)
def test_a_wrong_option_is_refused_at_once(said):
    """Nothing is built from it, and the option is named."""
    with pytest.raises(ConfigError) as caught:
        WRONG[said]()
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "wrong", [lambda: Pipeline().session(format="opnai"), lambda: ContextBuilder(9, format="opnai")]
)
def test_a_format_that_is_none_is_refused_at_once(wrong):
    """Not at the first step; the error lists the names."""
    with pytest.raises(InvalidInput, match=r"no wire format is called 'opnai'.*'openai-chat'"):
        wrong()


@pytest.mark.parametrize("join", [lambda one: one | 1, lambda one: one & None])
def test_a_condition_is_joined_with_a_condition_only(join):
    """Something else beside it is Python's usual error, which names both kinds."""
    with pytest.raises(TypeError, match="'Condition' and"):
        join(over(0.8))


def test_a_stage_that_cannot_be_called_as_one_is_refused():
    """A function of the context alone is no stage, wherever it stands; whatever else can be called with two is."""
    for build in (Pipeline, lambda stage: when(over(0.8), stage), first_of):
        with pytest.raises(ConfigError, match=r"a stage takes \(context, call\), and this cannot be called so"):
            build(lambda context: context)
    Pipeline(lambda *given: given[0], partial(max, 1))
