"""The pipeline: runs the stages in order, and hands the result back in the caller's own format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from agentctx.budget import Budget
from agentctx.engine.cut import bind
from agentctx.engine.plan import (
    STORE,
    SUBSCRIBERS,
    Plan,
    as_budget,
    as_strategies,
    check_rules,
    check_summarizer,
    finish,
    on_compact_subscribers,
    tell,
)
from agentctx.engine.reading import as_list
from agentctx.formats.registry import format_named
from agentctx.message import Context, Native
from agentctx.protocols import (
    Call,
    Listeners,
    Store,
    Strategy,
    Subscriber,
    Summarizer,
    TokenCounter,
    inside,
)
from agentctx.reports import StepPrepared, StepRefused, View
from agentctx.session.step import take_step
from agentctx.session.step_context import Given, State, Work, within
from agentctx.tokens.counting import as_counter
from agentctx.unit import POLICIES, ProtectRule, ThinkingPolicy
from agentctx.validators import one_of

if TYPE_CHECKING:
    from agentctx.session.session import Session


class Pipeline(Plan):
    """Stages in order; itself a stage.

    Every pipeline repairs a broken history first, and guarantees after its last stage that the request fits the
    budget. It remembers no conversation and may serve many tasks at once.

    Args:
        stages: What to do, in order: functions or objects with ``(context, call) -> context``, plain or async.
        budget: The room of one model call; an integer is a window, as of ``Budget``. Without it stages need limits of
            their own, or a model must be named. The budget of a pipeline within is what its stages come down to: where
            this one has none, and the model takes what cannot be brought down to it, it is sent, and the report says
            so.
        counter: Counts tokens: a counter, or a plain function of a text; without it, tiktoken's encoding for the model.
        store: Keeps the originals of what is left out or edited.
        protect: What must survive byte for byte, beside system prompt, first task and latest user message; see
            ``Protect``.
        on_compact: Told of each step that changed messages (``prefix_moved`` where it is a compaction, and not new
            messages alone): one listener or several, plain (in a worker thread) or async.
        summarizer: Puts messages into fewer words, for stages that ask for it.
        thinking: What to do on models that bind their reasoning to all that stands before it, where an edit would
            part the two in an open tool round: ``"postpone"`` the edit to the end of the round while the request
            fits, in a session; or ``"drop"`` the reasoning.
        subscribers: Told of every step, answer and session, there and then: see ``agentctx.events``.

    Raises:
        ConfigError: If something that is no stage is passed as one, such as a list of stages, or ``thinking`` is
            neither of the two.

    Example:
        >>> from agentctx import Budget, FitContextWindow, Pipeline, TruncateToolOutputs
        >>> budget = Budget(window=128_000, output_reserve=8_000)
        >>> pipeline = Pipeline(TruncateToolOutputs(max_tokens=2_000), FitContextWindow(), budget=budget)
        >>> view = await pipeline.prepare([{"role": "user", "content": "Why does the build fail?"}])
        >>> view.messages
        [{'role': 'user', 'content': 'Why does the build fail?'}]
    """

    __slots__ = ()

    def __init__(
        self,
        *stages: Strategy,
        budget: Budget | int | None = None,
        counter: TokenCounter | Callable[[str], int] | None = None,
        store: Store | None = None,
        protect: Iterable[ProtectRule] = (),
        on_compact: Listeners | None = None,
        summarizer: Summarizer | None = None,
        thinking: ThinkingPolicy = "postpone",
        subscribers: Sequence[Subscriber] = (),
    ) -> None:
        """Check the stages and remember the options."""
        strategies = as_strategies("Pipeline", stages)
        one_of(POLICIES).check("Pipeline.thinking", thinking)
        rules = check_rules(protect)
        counted = as_counter(counter, "Pipeline")
        STORE.or_none.check("Pipeline.store", store)
        check_summarizer(summarizer, strategies)
        SUBSCRIBERS.check("Pipeline.subscribers", subscribers)
        room = None if budget is None else as_budget(budget, "Pipeline")
        told = (*subscribers, *on_compact_subscribers("Pipeline", on_compact))
        super().__init__(strategies, room, counted, store, rules, summarizer, thinking, told)

    def __repr__(self) -> str:
        """Its stages and its budget."""
        return f"{type(self).__name__}({', '.join([*map(repr, self.stages), f'budget={self.budget}'])})"

    async def __call__(self, context: Context, call: Call, /) -> Context:
        """Run all its stages; its own rules, budget, store and summarizer hold where it has them."""
        if self.pinned:
            rules = bind(self.pinned, len(context.messages), context.messages.__getitem__)
            call = inside(call, protect=(*call.internals.protect, *rules))
        return await super().__call__(context, call)

    async def prepare(
        self,
        messages: Sequence[Any],
        system: Native = None,
        tools: Native = None,
        format: str | None = None,  # noqa: A002 - the contract's name
        model: str | None = None,
    ) -> View:
        """Prepare one model call, remembering nothing.

        Args:
            messages: The transcript in the provider's own shape; neither it nor anything in it is changed.
            system: The system prompt, where the format keeps it apart.
            tools: The tool definitions in the provider's own shape.
            format: ``"openai-chat"``, ``"anthropic"``, …; found out when not given.
            model: The model's name: chooses the encoding, and the budget when the pipeline has none.

        Raises:
            InvalidInput: If something cannot be read; names the message and the field.
            ContextOverflow: If what must stay is larger than the budget.
            StageError: If a stage broke a promise.
            UnknownModel: If a budget is needed and the model table does not know the model.
        """
        try:
            as_list(messages)
            with within(Work(self)):
                state, given = State.empty(self, model, format), Given(messages, system, tools)
                view = (await take_step(state, given, 0.0, remembered=False)).view
        except Exception as error:  # also what a stage raises
            tell(self.all_subscribers, StepRefused(error, model=model))
            raise
        if tellings := tell(self.all_subscribers, StepPrepared(view, model=model, format=format)):
            with within(Work(self)):
                await finish(tellings)
        return view

    def with_budget(self, budget: Budget) -> Pipeline:
        """Return a pipeline with the same stages and options, and another budget.

        Args:
            budget: The room of one model call.
        """
        return Pipeline(
            *self.stages,
            budget=budget,
            counter=self.counter,
            store=self.store,
            protect=self.protect,
            summarizer=self.summarizer,
            thinking=self.thinking,
            subscribers=self.subscribers,
        )

    def session(
        self,
        *,
        model: str | None = None,
        format: str | None = None,  # noqa: A002 - the contract's name
        id: str | None = None,  # noqa: A002 - the contract's name
        on_compact: Listeners | None = None,
    ) -> Session:
        """Begin a conversation: the object that remembers what was decided.

        Args:
            model: The model's name: chooses the encoding, and the budget when the pipeline has none.
            format: The wire format; found out at the first step when not given.
            id: A name for events and dumps, and in a store that tells conversations apart.
            on_compact: Told of this session's compactions, as the pipeline's own listeners are.

        Raises:
            InvalidInput: If no format is called so.
            ConfigError: If the model is no name, or the store keeps nothing under ``id``, as of more than 1,000 bytes.
            UnknownModel: If a budget is needed and the model table does not know the model.
        """
        from agentctx.session.session import Session  # noqa: PLC0415 - a call without a session needs none of it

        if format is not None:
            format_named(format, model)
        return Session(self, model=model, format=format, id=id, on_compact=on_compact)
