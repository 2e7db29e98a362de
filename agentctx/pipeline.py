"""The pipeline: runs the stages in order, and hands the result back in the caller's own format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from time import perf_counter
from typing import Any

from attrs import evolve

from agentctx.core.budget import Budget
from agentctx.core.change_log import ChangeLog, ChangesInForce, numbers
from agentctx.core.compare import match
from agentctx.core.message import ROLES, Context, Native
from agentctx.core.protection import POLICIES, ProtectRule, ThinkingPolicy
from agentctx.core.report import Report, View
from agentctx.economics.conditions import bill
from agentctx.engine.cache_markers import LiftCacheMarkers, check_head, relieved_head
from agentctx.engine.options import (
    as_budget,
    check_listeners,
    check_rules,
    check_stages,
    check_store,
    check_summarizer,
)
from agentctx.engine.plan import Plan, guarantee, let_answers_follow, refuse_empty, relief, since, view_of
from agentctx.engine.protect import bind
from agentctx.engine.reading import as_list, naming_what_is_too_deep, reader
from agentctx.engine.reasoning import options_of
from agentctx.engine.repair import RepairHistory
from agentctx.engine.run_stages import Trail, keep_originals, run_stage
from agentctx.errors import ConfigError
from agentctx.offload import begin_step, offload
from agentctx.protocols import Call, ContextStrategy, Listeners, Meter, Phase, RunInner, Store, Summarizer, TokenCounter
from agentctx.session.current import preparing
from agentctx.session.session import Session
from agentctx.tokens.counting import as_counter


class Pipeline(Plan):
    """Stages in order; itself a stage.

    Every pipeline repairs a broken history first, and guarantees after its last stage that the request fits the
    budget. It remembers no conversation and may serve many tasks at once.

    Args:
        stages: What to do, in order: anything with ``async (context, call) -> context``.
        budget: The room of one model call; a number is a window in tokens. Without it stages need limits of their
            own, or a model must be named. The budget of a pipeline within is what its stages come down to: where this
            one has none, and the model takes what cannot be brought down to it, it is sent, and the report says so.
        counter: Counts tokens: a counter, or a plain function of a text; without it, tiktoken's encoding for the model.
        store: Keeps the originals of what is left out or edited.
        protect: What must survive byte for byte, beside system prompt, first task and latest user message; see
            ``Protect``.
        on_compact: Told of each compaction: one listener or several, plain (in a worker thread) or async.
        summarizer: Puts messages into fewer words, for stages that ask for it.
        thinking: What to do on models that bind their reasoning to all that stands before it, where an edit would
            part the two in an open tool round: ``"postpone"`` the edit to the end of the round while the request
            fits, in a session; ``"drop"`` the reasoning; or have the provider do so, with ``"drop_block"``: then the
            view has ``options`` to be sent along.

    Raises:
        ConfigError: If something that is no stage is passed as one, or ``thinking`` is none of the three.

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
        *stages: ContextStrategy,
        budget: Budget | int | None = None,
        counter: TokenCounter | Callable[[str], int] | None = None,
        store: Store | None = None,
        protect: Iterable[ProtectRule] = (),
        on_compact: Listeners | None = None,
        summarizer: Summarizer | None = None,
        thinking: ThinkingPolicy = "postpone",
    ) -> None:
        """Check the stages and remember the options."""
        check_stages("Pipeline", stages)
        if thinking not in POLICIES:
            msg = f"Pipeline: thinking is {thinking!r}; it is one of {', '.join(POLICIES)}"
            raise ConfigError(msg)
        rules = check_rules(protect)
        counted = as_counter(counter)
        check_store(store)
        check_listeners("Pipeline", on_compact)
        check_summarizer(summarizer, stages)
        super().__init__(stages, as_budget(budget), counted, store, rules, on_compact, summarizer, thinking)

    async def run_inner(self, run: RunInner, context: Context, call: Call, /) -> Context:
        """Run the stages by ``run``; its own rules, budget, store and summarizer hold where it has them."""
        if self.pinned:
            rules = bind(self.pinned, len(context.messages), context.messages.__getitem__)
            call = call.protecting((*call.protect, *rules))
        nested = self.in_phase(Phase.ONCE, None)
        return context if nested is None else await nested.run_inner(run, context, call)

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
        begin_step()
        with preparing(self), naming_what_is_too_deep(messages, system, tools):
            return await self._prepare(messages, system, tools, format, model)

    async def _prepare(
        self,
        messages: Sequence[Any],
        system: Native,
        tools: Native,
        format: str | None,  # noqa: A002 - the contract's name
        model: str | None,
    ) -> View:
        started = perf_counter()
        as_list(messages)
        read = partial(reader, messages, system=system, tools=tools, format=format, model=model, counter=self.counting)
        source = await offload(read, len(messages))
        budget = self.budget_for(model)
        said = await offload(lambda: source.messages(messages), len(messages))
        given = Context(tuple(said), *source.fixed_part(system, tools))
        head = relieved_head(given, source.wire, source.profile)
        check_head(head, source.wire)
        await source.meter.settle(given.messages)
        limit = None if budget is None else budget.limit
        call = self.call(source, budget, limit, len(given.messages), given.messages.__getitem__)
        size, sent = source.meter.size(given), source.meter.size(head)
        trail = Trail(head, list(range(len(given.messages))), sent, list(relief(given, head, call, sent)))
        await run_stage(LiftCacheMarkers(), trail, call, trusted=True)
        await run_stage(RepairHistory(), trail, call, trusted=True)
        await let_answers_follow(trail, call, lambda index: said[index].role)
        refuse_empty(trail)
        turns = (place for place in range(len(said) - 1, -1, -1) if said[place].role == "assistant")
        last = next(turns, -1)
        call = evolve(call, late=lambda: trail.after(last), given=lambda: trail.after(-1))
        for stage in self.at_once:
            await run_stage(stage, trail, call)
        above = self.refuses_above(model)
        most = None if above is None else above.limit
        await guarantee(trail, call, budget, given, given.messages[-1].role, most)
        await keep_originals(trail)
        report = await offload(lambda: _report(given, trail, call, size, started), len(messages))
        await self.tell(report)
        return view_of(trail.context, source, given, system, tools, report, options_of(trail, call))

    def within(self, budget: Budget) -> Pipeline:
        """The same stages and options with another budget."""
        return Pipeline(
            *self.stages,
            budget=budget,
            counter=self.counter,
            store=self.store,
            protect=self.protect,
            on_compact=self.on_compact,
            summarizer=self.summarizer,
            thinking=self.thinking,
        )

    def session(
        self,
        model: str | None = None,
        format: str | None = None,  # noqa: A002 - the contract's name
        id: str | None = None,  # noqa: A002 - the contract's name
        on_compact: Listeners | None = None,
    ) -> Session:
        """Begin a conversation: the object that remembers what was decided.

        Args:
            model: The model's name: chooses the encoding, and the budget when the pipeline has none.
            format: The wire format; found out at the first step when not given.
            id: A name for events and dumps.
            on_compact: Told of this session's compactions, as the pipeline's own listeners are.

        Raises:
            UnknownModel: If a budget is needed and the model table does not know the model.
        """
        check_listeners("session", on_compact)
        return Session(self, model=model, format=format, id=id, on_compact=on_compact)


def _in_force(given: Context, trail: Trail, meter: Meter) -> ChangesInForce:
    """The changes in force: of what was done and undone again, nothing."""
    book = ChangeLog()
    book.write(change for stage in trail.reports for change in stage.changes)
    known = enumerate(trail.context.messages)
    added = [evolve(trail.made[id(made)][1], index=place) for place, made in known if id(made) in trail.made]
    roles = bytearray(ROLES.index(message.role) for message in given.messages)
    return book.snapshot(numbers(map(meter.message, given.messages)), roles, added)


def _report(given: Context, trail: Trail, call: Call, size: int, started: float) -> Report:
    meter, after = call.meter, trail.context
    return Report(
        stages=tuple(trail.reports),
        in_force=_in_force(given, trail, meter),
        messages_before=len(given.messages),
        messages_after=len(after.messages),
        tokens_before=size,
        tokens_after=trail.tokens,
        bytes_before=meter.bytes(given),
        bytes_after=meter.bytes(after),
        limit=None if call.budget is None else call.budget.limit,
        first_changed=match(given.messages, after.messages).first_changed,
        seconds=since(started),
        forecast=bill(call.profile, sent=size, given=size, prefix=0, size=trail.tokens, warmth=0.0),
    )
