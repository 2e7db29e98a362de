"""A stage says of itself when it runs, for whom, and with which budget; a plain function need not."""

from threading import get_ident
from typing import ClassVar

import pytest
from attrs import frozen

from agentctx import (
    Budget,
    Call,
    Context,
    ContextStrategy,
    Message,
    Pipeline,
    Text,
    TrimRounds,
    TruncateToolOutputs,
    UnknownModel,
    When,
    first_of,
    over,
    when,
)
from agentctx.engine.guarantee import PlacesMarkers
from agentctx.protocols import Phase
from agentctx.testing import assistant, transcript, user
from agentctx.tokens.counting import HeuristicCounter, MessageMeter

pytestmark = pytest.mark.anyio

MESSAGES = transcript("openai-chat", user("task"), assistant("one"), user("two"), assistant("three"), user("four"))
PLACES = {"alone": lambda stage: stage, "when": lambda stage: when(over(1), stage), "first_of": first_of}
PLACES["nested"] = Pipeline


def without_answers(context, call):
    """A plain function."""
    for message in context.messages:
        if message.role == "assistant":
            call.note(message, "an answer")
    return context.with_messages(tuple(message for message in context.messages if message.role != "assistant"))


@pytest.mark.parametrize("place", PLACES)
async def test_a_plain_function_is_a_stage(preparing, place):
    """Wherever it stands; its name and its reasons are in the report."""
    view = await preparing(Pipeline(PLACES[place](without_answers)), "openai-chat")(MESSAGES)
    assert [message["content"] for message in view.messages] == ["task", "two", "four"]
    assert {(change.stage, change.reason) for change in view.report.in_force} == {("without_answers", "an answer")}


@pytest.mark.parametrize(
    ("rounds", "said", "apart"), [(3, "gone", False), (3, "gone " * 10_000, True), (2_000, "gone", True)]
)
async def test_a_plain_stage_works_off_the_loop_when_the_request_is_large(rounds, said, apart):
    """For a short history the hop to another thread is not worth it."""
    seen = []

    def noting(context, call):
        seen.append(get_ident())
        return context

    messages = transcript("openai-chat", *[turn for _ in range(rounds) for turn in (user("go"), assistant(said))])
    await Pipeline(noting).prepare([*messages, MESSAGES[0]], format="openai-chat")
    assert [ident != get_ident() for ident in seen] == [apart]


async def test_a_plain_function_may_give_back_what_has_to_be_awaited():
    """It is awaited then."""

    async def without_answer(place, context, _call):
        return context.with_messages((*context.messages[:place], *context.messages[place + 1 :]))

    view = await Pipeline(lambda context, call: without_answer(3, context, call)).prepare(MESSAGES)
    assert [message["content"] for message in view.messages] == ["task", "one", "two", "four"]


@frozen
class Louder(ContextStrategy):
    """A stage that says all that it needs."""

    when: ClassVar[When] = When.ON_ARRIVAL
    budget: ClassVar[Budget | None] = None

    def apply(self, context, _call):
        """The last message but one in capitals."""
        *earlier, answer, last = context.messages
        return context.with_messages((*earlier, answer.with_parts((Text(answer.text.upper()),)), last))


def test_a_function_is_wrapped_once():
    """When the pipeline is built; a strategy stays as it is, also in a pipeline of the same stages."""
    louder = Louder()
    pipeline = Pipeline(without_answers, louder, budget=8_000)
    first, second = pipeline.stages
    assert (first.name, first.when, first.stages, repr(first)) == (
        "without_answers",
        When.ALWAYS,
        (),
        "without_answers",
    )
    assert second is louder
    assert pipeline.with_budget(Budget(9_000)).stages == pipeline.stages
    assert Pipeline(without_answers).stages == (first,)


@pytest.mark.parametrize("place", PLACES)
def test_a_stage_that_holds_stages_answers_from_those(place):
    """When they run."""
    runs = [bool(Pipeline(PLACES[place](Louder())).due(phase)) for phase in Phase]
    assert runs == [True, True, False, False]


@frozen
class Running(PlacesMarkers):
    """A stage that places no cache marker; notes that it was run."""

    ran: list[bool]

    def apply(self, context, _call):
        """Change nothing."""
        self.ran.append(True)
        return context


@pytest.mark.parametrize("place", PLACES)
async def test_cache_markers_are_placed_only_where_there_are_some(preparing, place):
    """By itself, and within a stage; beside one that is run it changes nothing."""
    for name, runs in (("anthropic", True), ("openai-chat", False)):
        ran = []
        await preparing(Pipeline(Pipeline(PLACES[place](Running(ran)))), name)(MESSAGES)
        assert any(ran) == runs


@pytest.mark.parametrize("place", PLACES)
async def test_whoever_needs_a_budget_gets_the_model_s(place):
    """Where neither the stage nor a pipeline has one; a model that is not known is an error then."""
    pipeline = Pipeline(PLACES[place](Louder()))
    view = await pipeline.prepare(MESSAGES, model="gpt-5.4")
    assert view.report.limit == Budget.for_model("gpt-5.4").limit
    with pytest.raises(UnknownModel):
        await pipeline.prepare(MESSAGES, model="nobody-1")


async def test_every_stage_can_be_awaited():
    """A stage of one's own may await any other, whether that one waits for something or not."""
    messages = tuple(Message(role, (Text(f"{place}"),)) for place in range(6) for role in ("user", "assistant"))
    for stage in (TrimRounds(1), TruncateToolOutputs(max_tokens=5), Pipeline(TrimRounds(1))):
        after = await stage(Context(messages), Call(MessageMeter(HeuristicCounter())))
        assert isinstance(after, Context)
