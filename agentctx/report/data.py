"""What the page of a recorded session is told: the numbers of its reports, and every message once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import field, frozen

from agentctx.core.budget import Budget
from agentctx.core.message import Context, Message, Tool
from agentctx.engine.reading import as_list, reader
from agentctx.pipeline import Pipeline
from agentctx.protocols import Meter, declared
from agentctx.replay import Recording, Step, replay
from agentctx.report.costs import Costs, costs, trimming
from agentctx.report.rows import Items, Layout, RowChange, RowLog
from agentctx.tokens.kinds import KINDS, KindSizes, tokens_of_head


@frozen
class ShownCall:
    """One model call, as the page shows it.

    Args:
        step: Its numbers, without the messages.
        kinds: Tokens of the request by kind of content, in the order of ``KINDS``.
        unchanged: How many rows, from the first message on, are in the prefix that the call before had.
    """

    step: Step
    kinds: tuple[int, ...]
    unchanged: int


@frozen
class SessionData:
    """All that the page of a session shows.

    Args:
        recording: The session.
        model: The model that was prepared for; None when none is known.
        format: The wire format.
        budget: The budget, if the pipeline has one.
        stages: The pipeline's stages by name.
        calls: The model calls.
        given: For each message of the history, its place among the items.
        items: Every message that is ever shown.
        system: The system prompt where it is kept apart from the messages.
        tools: The tools.
        head: Tokens of what stands before the messages, by kind.
        changes: What became of the messages of the history.
        layouts: The messages that the pipeline put in.
        costs: What the input costs.
        meter: Counts messages.

    Example:
        >>> from agentctx.presets import coding_agent
        >>> from agentctx.replay import Recording
        >>> from agentctx.report import session_data
        >>> said = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello!"}]
        >>> data = await session_data(Recording(said, format="openai-chat"), coding_agent(8_000))
        >>> len(data.calls), data.steps[0].messages_sent
        (1, 1)
    """

    recording: Recording
    model: str | None
    format: str
    budget: Budget | None
    stages: tuple[str, ...]
    calls: tuple[ShownCall, ...]
    given: tuple[int, ...]
    items: tuple[Message, ...] = field(repr=False)
    system: Message | None = field(repr=False)
    tools: tuple[Tool, ...] = field(repr=False)
    head: Mapping[str, int]
    changes: tuple[RowChange, ...] = field(repr=False)
    layouts: tuple[Layout, ...] = field(repr=False)
    costs: Costs = field(repr=False)
    meter: Meter = field(repr=False, eq=False)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The numbers of the calls."""
        return tuple(call.step for call in self.calls)


async def session_data(
    recording: Recording,
    pipeline: Pipeline,
    *,
    model: str | None = None,
    done: Callable[[], None] = lambda: None,
) -> SessionData:
    """Replay a recording and write down what its page shows.

    Args:
        recording: What was recorded.
        pipeline: What to put between the loop and the model.
        model: The model to prepare for; without it, the recorded one.
        done: Called after each model call.

    Raises:
        InvalidInput: If a message cannot be read.
        AmbiguousFormat: If several formats fit and none is named.

    Example:
        >>> from agentctx.presets import coding_agent
        >>> from agentctx.replay import Recording
        >>> from agentctx.report import session_data
        >>> said = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello!"}]
        >>> data = await session_data(Recording(said, format="openai-chat"), coding_agent(8_000))
        >>> len(data.calls), data.given
        (1, (0, 1))
    """
    model = model or recording.model
    natives = as_list(recording.messages)
    source = reader(natives, system=recording.system, tools=recording.tools, format=recording.format, model=model)
    given = source.messages(natives)
    head = Context((), *source.head(recording.system, recording.tools))
    items, sizes = Items(), KindSizes(source.meter)
    log, calls = RowLog(given, items), []
    async for step in replay(recording, pipeline, model=model):
        calls.append(_call(step, log, sizes))
        done()
    steps = [call.step for call in calls]
    limit = max((step.limit for step in steps if step.limit is not None), default=None)
    return SessionData(
        recording=recording,
        model=model,
        format=source.wire.name,
        budget=pipeline.budget,
        stages=tuple(declared(stage).name for stage in pipeline.stages),
        calls=tuple(calls),
        given=tuple(log.places),
        items=tuple(items.messages),
        system=head.system,
        tools=head.tools,
        head=tokens_of_head(head, source.meter),
        changes=tuple(sorted(log.changes, key=lambda change: (change.index, change.call))),
        layouts=tuple(log.layouts),
        costs=costs(
            recording,
            steps,
            trimming(given, [step.index for step in steps], source.meter, head, limit),
            model=model,
        ),
        meter=source.meter,
    )


def _call(step: Step, log: RowLog, sizes: KindSizes) -> ShownCall:
    if step.view is None:
        log.miss(step.number, step.index)
        return ShownCall(step, (0,) * len(KINDS), 0)
    unchanged = log.see(step.number, step.index, step.view)
    return ShownCall(step.without_view(), sizes.of(step.view.context), unchanged)
