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
    Session,
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


WRONG = [
    (
        "Pipeline.protect must be a list of rules, such as [Protect.last_user(2)], got ",
        lambda: Pipeline(protect=Protect.system()),
    ),
    (
        "Pipeline.protect must be a list of rules, such as [Protect.last_user(2)], got 'system'",
        lambda: Pipeline(protect="system"),
    ),
    (
        "Pipeline.protect[0] must be a rule, which is called with the messages: see Protect, got 'system'",
        lambda: Pipeline(protect=["system"]),
    ),
    ("counter", lambda: Pipeline(counter=5)),
    ("store", lambda: Pipeline(store={})),
    ("on_compact", lambda: Pipeline(on_compact=5)),
    (
        "Pipeline.summarizer must be left out where no stage asks it, got ",
        lambda: Pipeline(TrimRounds(1), summarizer=fixed_summarizer("so")),
    ),
    ("no stage asks it", lambda: Pipeline(when(over(1), Pipeline(TrimRounds(1))), summarizer=fixed_summarizer("so"))),
    ("output_reserve", lambda: Budget(100, "10")),
    ("trigger", lambda: Budget(100, trigger="x")),
    ("request_bytes", lambda: Budget(100, request_bytes="1MB")),
    ("model must be a name, got None", lambda: Budget.for_model(None)),
    ("TruncateToolOutputs.marker must be a text", lambda: TruncateToolOutputs(5, marker=None)),
    ("exclude", lambda: ClearToolResults(1, exclude="bash")),
    ("ClearToolResults.exclude must be a list of names, got None", lambda: ClearToolResults(1, exclude=None)),
    (
        "ClearToolResults.placeholder must be a text that is not blank, got None",
        lambda: ClearToolResults(1, placeholder=None),
    ),
    ("FitContextWindow.budget must be a Budget or a number of tokens, got '8k'", lambda: FitContextWindow("8k")),
    ("over.amount must be a number of tokens, or a share above 0.0 and up to 1.0, got '80%'", lambda: over("80%")),
    (
        "when.condition must be a function of (context, call), such as over(0.8), got 0.8",
        lambda: when(0.8, TrimRounds(1)),
    ),
    (
        "when.condition must be a plain function, which comes first, and not a stage, got TrimRounds(",
        lambda: when(TrimRounds(1), over(1)),
    ),
    (
        "when.condition must be a plain function, which comes first, and not async, got <function waiting",
        lambda: when(waiting, TrimRounds(1)),
    ),
    ("over(0.8): join", lambda: when(over(0.8) and cache_cold(), TrimRounds(1))),
    ("pays_back.within must be a whole number of at least 1, got '20'", lambda: pays_back(within="20")),
    (
        "when.stages[0] must be a strategy, or a function of (context, call), got <class",
        lambda: when(over(1), TrimRounds),
    ),
    ("first_of.stages[0] must be a strategy, or a function of (context, call), got 5", lambda: first_of(5)),
    ("one by one, Pipeline(a, b)", lambda: Pipeline([TrimRounds(1), TrimRounds(2)])),
    ("Pipeline.stages[1] must be passed one by one", lambda: Pipeline(TrimRounds(1), ())),
    ("one by one, when(condition, a, b)", lambda: when(over(1), [TrimRounds(1)])),
    ("one by one, first_of(a, b), or unpacked, first_of(*stages), got [TrimRounds(", lambda: first_of([TrimRounds(1)])),
    ("must be a strategy with a plain apply, or with an async __call__", lambda: Pipeline(ContextStrategy())),
    ("where it waits", lambda: when(over(1), Waiting())),
    (
        "stages[0].when must be a When, written when: ClassVar[When] = When.UNDER_PRESSURE, got 'pre",
        lambda: Pipeline(WhenInWords()),
    ),
    (
        "first_of.stages[1].when must be a When, written when: ClassVar",
        lambda: first_of(TrimRounds(1), WhenAsOption("x")),
    ),
    ("when.stages[0] must be of a class that derives", lambda: when(over(1), Underived())),
    ("must be of a class that derives from ContextStrategy, since it has a when, got", lambda: Pipeline(Underived())),
    ("Protect.last_user.count must be a whole number of at least 1, got '2'", lambda: Protect.last_user("2")),
    ("Protect.where.predicate must be a function of one message, got 'user'", lambda: Protect.where("user")),
    ("Protect.pins.indexes[0] must be a whole number, got '0'", lambda: Protect.pins("0")),
    ("FixedCounter.tokens must be a whole number of at least 1, got '10'", lambda: FixedCounter("10")),
    (
        "Pipeline.summarizer must be an async function of (messages, max_tokens), got 3",
        lambda: Pipeline(FitContextWindow(), summarizer=3),
    ),
    ("Pipeline.budget must be a Budget or a number of tokens, got '8k'", lambda: Pipeline(budget="8k")),
    ("Pipeline.counter must be a function of a text, or an object with count, got 3", lambda: Pipeline(counter=3)),
    ("Budget.window must be a whole number from 1 to 1,000,000,000,000, got 0", lambda: Budget(0)),
    (
        "Budget.trigger must be a number of tokens, or a share above 0.0 and up to 1.0, or None, got 1.5",
        lambda: Budget(8_000, trigger=1.5),
    ),
    ("Tier must be a whole number, for example Tier.HISTORY, got 'x'", lambda: Block("a", HELLO, tier="x")),
    ("ContextBuilder.budget must be a Budget or a number of tokens, got '8k'", lambda: ContextBuilder("8k")),
    (
        "ContextBuilder.counter must be a function of a text, or an object with count, got 3",
        lambda: ContextBuilder(1_000, counter=3),
    ),
    ("coding_agent.budget must be a Budget, a number of tokens or a model's name, got 3.5", lambda: coding_agent(3.5)),
    ("general.budget must be a Budget, a number of tokens or a model's name, got None", lambda: general(None)),
    ("thrifty: budget", lambda: thrifty("8k")),
    (
        "Summarize.fallback must be a stage, for example TruncateOldest(), or None, got 3",
        lambda: Summarize(waiting, fallback=3),
    ),
    (
        "Summarize.role must be 'system', 'developer', 'user' or 'assistant', got 'robot'",
        lambda: Summarize(waiting, role="robot"),
    ),
    (
        "Summarize.heading must be a text with nothing but {count} in braces, got 3",
        lambda: Summarize(waiting, heading=3),
    ),
    (
        "Summarize.heading must be a text with nothing but {count} in braces, got '{number} earlier'",
        lambda: Summarize(waiting, heading="{number} earlier"),
    ),
    (
        "Summarize.on must be a tuple of exceptions, for example (TimeoutError,), got <class 'Exception'>",
        lambda: Summarize(waiting, on=Exception),
    ),
    ("got (3,)", lambda: Summarize(waiting, on=(3,))),
    ("Sessions.pipeline must be a Pipeline, got 3", lambda: Sessions(3)),
    ("Protect.tools.names must be the names of tools, at least one, got (3, 'bash')", lambda: Protect.tools(3, "bash")),
    ("ClearToolResults.exclude[0] must be a text, got 3", lambda: ClearToolResults(1, exclude=[3])),
    (
        "TruncateOldest.protect_roles[0] must be 'system', 'developer', 'user', 'assistant' or 'tool', got 'robot'",
        lambda: TruncateOldest(protect_roles={"robot"}),
    ),
    (
        "CollapseRepeats.marker must be a text with nothing but {tool} and {what} in braces, got '{foo}'",
        lambda: CollapseRepeats(marker="{foo}"),
    ),
    (
        "TruncateToolOutputs.marker must be a text with nothing but {omitted} in braces, got '{left} more'",
        lambda: TruncateToolOutputs(5, marker="{left} more"),
    ),
    ("model must be a name, got 3", lambda: Pipeline().session(model=3)),
    ("Session.id must be a text, or None, got 7", lambda: Pipeline().session(id=7)),
    ("Session.plan must be a Pipeline, got 7", lambda: Session.load(7, Pipeline().session().dump())),
    (
        "session.on_compact must be a listener, or a list of listeners, got 7",
        lambda: Session.load(Pipeline(), Pipeline().session().dump(), 7),
    ),
    ("Budget.window must be a whole number from 1 to 1,000,000,000,000, got 1000", lambda: general(10**400)),
    ("model", lambda: count(HELLO, model=5, format="openai-chat")),
]


@pytest.mark.parametrize(("said", "make"), WRONG)
def test_a_wrong_option_is_refused_at_once(said, make):
    """Nothing is built from it, and the option is named."""
    with pytest.raises(ConfigError) as caught:
        make()
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
        with pytest.raises(ConfigError, match=r"must be a strategy, or a function of \(context, call\), got <function"):
            build(lambda context: context)
    Pipeline(lambda *given: given[0], partial(max, 1))
