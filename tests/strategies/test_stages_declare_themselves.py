"""A stage says of itself when it runs, for whom, and with which budget; a plain function need not."""

from threading import get_ident
from typing import ClassVar

import pytest
from attrs import frozen
from hypothesis import given, strategies as st

from agentctx import (
    Budget,
    Call,
    Context,
    FitContextWindow,
    Message,
    Pipeline,
    Scope,
    Stage,
    Text,
    TrimRounds,
    TruncateToolOutputs,
    UnknownModel,
    first_of,
    over,
    when,
)
from agentctx.engine.reading import reader
from agentctx.protocols import Phase, declared
from agentctx.testing import assistant, result, transcript, user
from agentctx.tokens import FixedCounter, TiktokenCounter
from agentctx.tokens.counting import HeuristicCounter, MessageMeter

pytestmark = pytest.mark.anyio

MESSAGES = transcript("openai-chat", user("task"), assistant("one"), user("two"), assistant("three"), user("four"))
OF_GROUPS = {"apply", "run_inner", "stages"}
"""What only a stage that derives from ``Stage`` may say."""

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


async def test_a_stage_that_leaves_alone_what_is_new_is_not_run():
    """It looks at a glance, in a session only; an error in it names the stage."""
    seen = []

    @frozen
    class NoSecrets(Stage):
        scope = Scope.ARRIVALS

        def leaves_alone(self, messages, _call):
            return all("secret" not in message.text for message in messages)

        def apply(self, context, _call):
            seen.append([message.text for message in context.messages])
            return context

    session = Pipeline(NoSecrets()).session(format="openai-chat")
    told = transcript("openai-chat", user("task"), assistant("one"), user("a secret"), assistant("two"), user("three"))
    for length in (1, 3, 5):
        await session.prepare(told[:length])
    assert seen == [["one", "a secret"]]
    broken = Pipeline(type("Broken", (NoSecrets,), {"leaves_alone": lambda *_: 1 // 0})()).session(format="openai-chat")
    with pytest.raises(ZeroDivisionError) as raised:
        await broken.prepare(told)
    assert "while stage Broken was running" in raised.value.__notes__[0]


@given(st.lists(st.text("ab 🎉é", max_size=30), max_size=4), st.integers(1, 30), st.sampled_from(["tokens", "chars"]))
def test_what_is_left_alone_at_a_glance_would_not_be_changed(outputs, most, what):
    """``TruncateToolOutputs`` looks at a glance, and at a closer look finds nothing in what it left alone."""
    told = transcript("openai-chat", *[result(f"c{at}", output) for at, output in enumerate(outputs)])
    for counter in (TiktokenCounter(), HeuristicCounter(2), FixedCounter(7)):
        source = reader(told, format="openai-chat", counter=counter)
        context, call = Context(tuple(source.messages(told))), Call(source.meter)
        stage = TruncateToolOutputs(**{f"max_{what}": most})
        assert not stage.leaves_alone(context.messages, call) or stage.apply(context, call) is context


async def test_a_plain_function_may_give_back_what_has_to_be_awaited():
    """It is awaited then."""

    async def without_answer(place, context, _call):
        return context.with_messages((*context.messages[:place], *context.messages[place + 1 :]))

    view = await Pipeline(lambda context, call: without_answer(3, context, call)).prepare(MESSAGES)
    assert [message["content"] for message in view.messages] == ["task", "one", "two", "four"]


@frozen
class Louder(Stage):
    """A stage that declares all that it needs."""

    scope: ClassVar[Scope] = Scope.ARRIVALS
    needs_budget: ClassVar[bool] = True
    formats: tuple[str, ...] = ("openai-chat",)

    def concerns(self, call):
        """Only some formats."""
        return call.format in self.formats

    def __call__(self, context, _call):
        """The last message but one in capitals."""
        *earlier, answer, last = context.messages
        return context.with_messages((*earlier, answer.with_parts((Text(answer.text.upper()),)), last))


class Duck:
    """It derives from nothing."""

    scope = Scope.PRESSURE
    name = "duck"

    async def __call__(self, context, _call):
        return context


def test_what_is_not_said_has_a_default():
    """In one class; what derives from nothing may say some of it."""
    assert (declared(Louder()).name, declared(Louder()).scope) == ("Louder", Scope.ARRIVALS)
    assert (declared(Duck()).name, declared(Duck()).scope) == ("duck", Scope.PRESSURE)
    said = declared(without_answers)
    assert (said.name, said.scope, said.own_budget, said.needs_budget, said.summarizes, said.stages) == (
        "without_answers",
        Scope.ALWAYS,
        None,
        False,
        False,
        None,
    )


@pytest.mark.parametrize("place", PLACES)
def test_a_stage_that_holds_stages_answers_from_those(place):
    """When they run, whom they concern, whether they ask for a summary."""
    found, meter = declared(PLACES[place](Louder())), MessageMeter(HeuristicCounter())
    assert [found.in_phase(phase, None) is not None for phase in Phase] == [True, True, False, False]
    assert [found.concerns(Call(meter, format=name)) for name in ("openai-chat", "gemini")] == [True, False]
    assert [declared(PLACES[place](stage)).summarizes for stage in (Louder(), FitContextWindow())] == [False, True]


@frozen
class Running(Stage):
    """A stage for one format alone; notes that it was run."""

    scope: Scope
    format: str
    ran: list[bool]

    def concerns(self, call):
        """One format alone."""
        return call.format == self.format

    def apply(self, context, _call):
        """Change nothing."""
        self.ran.append(True)
        return context


@pytest.mark.parametrize("scope", Scope)
@pytest.mark.parametrize("place", PLACES)
async def test_what_does_not_concern_the_format_is_not_run(preparing, place, scope):
    """By itself, and within a stage beside one that is run."""
    for name, runs in (("openai-chat", True), ("gemini", False)):
        ran = []
        stages = PLACES[place](Running(scope, name, ran)), lambda context, _call: context
        await preparing(Pipeline(Pipeline(*stages)), "openai-chat")(MESSAGES)
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


async def test_all_that_a_stage_may_say_counts_without_deriving_too():
    """Each thing that ``Stage`` knows, but for those of groups, an object that is a stage without deriving may say."""

    class Own:
        def __call__(self, context, _call):
            return context

    said = {name for name in vars(Stage) if not name.startswith("_")}
    kind = type(declared(Own()))
    assert issubclass(kind, Stage)
    assert said - {name for name in vars(kind) if not name.startswith("_")} == OF_GROUPS
