"""Fakes that come with the library."""

import subprocess
import sys

import pytest

from agentctx import Budget, FitContextWindow, Pipeline, StoreError, TrimRounds
from agentctx.engine.run_stages import runs_in
from agentctx.protocols import Phase
from agentctx.stores import MemoryStore
from agentctx.strategies import Summarize
from agentctx.testing import (
    CountingCounter,
    FlakyError,
    FlakyStage,
    FlakyStore,
    Recorder,
    assistant,
    check_laws,
    failing_listener,
    fixed_summarizer,
    transcript,
    user,
)


@pytest.mark.anyio
async def test_a_fixed_summarizer_always_says_the_same():
    """Whatever it is given, and however little room it has."""
    summarize = fixed_summarizer("they talked")
    assert await summarize((), 5) == "they talked"


@pytest.mark.anyio
async def test_a_recorder_keeps_what_it_is_told():
    """Each compaction is one event."""
    told = Recorder()
    turns = [turn for n in range(4) for turn in (user(f"{n}?"), assistant(f"{n}!"))]
    messages = transcript("openai-chat", *turns, user("bye"))
    await Pipeline(TrimRounds(1), on_compact=told).prepare(messages, format="openai-chat")
    assert [event.messages_before for event in told.events] == [9]


def test_a_counting_counter_keeps_what_it_counted():
    """The count is the other counter's, the texts are kept in order."""
    counter = CountingCounter()
    assert counter.count("hello there") == counter.counter.count("hello there")
    counter.count("x")
    assert (counter.texts, counter.characters) == (["hello there", "x"], 12)
    assert counter != CountingCounter()


def test_a_flaky_stage_stands_for_the_stage_inside():
    """Under its name, and in its phases."""
    inside = Summarize(fixed_summarizer("so"))
    flaky = FlakyStage(inside)
    assert (flaky.name, flaky.stages) == (inside.name, (inside,))
    for phase in Phase:
        assert runs_in(flaky, phase, None) == runs_in(inside, phase, None)


@pytest.mark.anyio
async def test_the_laws_hold_for_stages_that_summarize():
    """A stage that may put another summary in the place of one may do so within a flaky one."""
    turns = [turn for n in range(13) for turn in (assistant(f"a{n} " + "word " * 40), user(f"u{n} " + "w " * 10))]
    messages, summarizer = transcript("openai-chat", user("task"), *turns), fixed_summarizer("the summary")
    for stage in (Summarize(summarizer), Pipeline(FitContextWindow(), summarizer=summarizer)):
        await check_laws(stage, messages, budget=Budget(500), format="openai-chat", may=("user_text",))


@pytest.mark.anyio
async def test_a_flaky_stage_fails_once_for_each_length():
    """The first time it raises after its work, the second time it does its work."""
    flaky = FlakyStage(TrimRounds(1))
    messages = transcript("openai-chat", user("a"), assistant("b"), user("c"))
    with pytest.raises(FlakyError):
        await Pipeline(flaky).prepare(messages, format="openai-chat")
    await Pipeline(flaky).prepare(messages, format="openai-chat")
    assert flaky.failures == 1
    assert flaky.when is TrimRounds.when


@pytest.mark.anyio
async def test_a_flaky_store_refuses_everything_once():
    """The second time it keeps what it is given."""
    flaky = FlakyStore(MemoryStore())
    with pytest.raises(StoreError):
        await flaky.put(b"x")
    assert await flaky.get(await flaky.put(b"x")) == b"x"


def test_a_failing_listener_fails():
    """It raises an error that is none of agentctx."""
    with pytest.raises(FlakyError):
        failing_listener(None)


def test_the_testing_package_needs_no_hypothesis():
    """Builders, fakes and laws work without the extra; only the generators need it."""
    code = "import sys; sys.modules['hypothesis'] = None; import agentctx.testing; agentctx.testing.check_laws"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_library_does_not_need_the_testing_package():
    """Importing agentctx loads neither hypothesis nor agentctx.testing."""
    code = "import sys, agentctx; assert not {'hypothesis', 'agentctx.testing'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
