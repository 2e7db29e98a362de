"""What a user's code raised is told, also where its own text raises."""

import pytest

from agentctx import Budget, FitContextWindow, Pipeline
from agentctx.builder import Block, ContextBuilder
from agentctx.characters import said_by
from agentctx.sources import PromptSection, StablePrompt, gather
from agentctx.strategies import Summarize, TruncateOldest

pytestmark = pytest.mark.anyio

MESSAGES = [{"role": "user", "content": "word " * 50} for _ in range(10)]


class MuteError(Exception):
    """An error whose text cannot be had."""

    def __str__(self):
        raise ValueError(self.args)


def fails(*_given):
    """Code of a user's."""
    raise MuteError


async def fails_late(*_given):
    """The same, awaited."""
    raise MuteError


def test_an_error_is_told_by_its_type_and_what_it_says():
    """Without words of its own it is its type alone."""
    told = said_by(ValueError("no disk")), said_by(ValueError()), said_by(MuteError())
    assert told == ("ValueError: no disk", "ValueError", "MuteError")


async def test_a_source_that_raises_it_costs_only_itself():
    """One source, and one section of a prompt, are told as failed; the others are there."""
    prompt = StablePrompt([PromptSection("rules", lambda: "Be brief.")])
    await prompt.start()
    prompt.use([*prompt.sections, PromptSection("mute", fails)])
    await prompt.reconcile()
    assert (await gather([fails])).problems == ("fails: MuteError",)
    assert prompt.problems == {"mute": "MuteError"}


async def test_a_summarizer_and_an_extractor_that_raise_it_cost_only_their_words():
    """The step and the build go on, and their reports say what was raised."""
    view = await Pipeline(Summarize(fails_late), FitContextWindow(), budget=Budget(300)).prepare(MESSAGES)
    notes = [note for stage in view.report.stages for note in stage.notes]
    builder = ContextBuilder(Budget(300), facts=fails_late, format="openai-chat")
    built = await builder.add(Block("history", MESSAGES, evict=TruncateOldest())).build()
    assert "the summarizer raised MuteError" in notes
    assert built.report.notes == ("the fact extractor raised MuteError",)


async def test_a_stage_that_raises_it_reaches_the_caller_with_its_name():
    """What a block's stage raises is raised as it is, and the report of the build names it."""
    builder = ContextBuilder(Budget(300), format="openai-chat").add(Block("history", MESSAGES, evict=fails))
    with pytest.raises(MuteError) as raised:
        await builder.build()
    assert "while stage fails of block 'history' was running" in raised.value.__notes__[0]
    assert builder.report.error == "MuteError"
