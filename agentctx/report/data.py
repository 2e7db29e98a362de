"""What the page of a recorded session is told: every message once, what became of it call by call, and what calls cost.

Of each request the start that it shares with the one before is read from the provider's cache, as far as the
provider's rules allow; the rest is billed as new input. The answers are those of the recording, whoever sends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise, takewhile

from attrs import define, field, frozen

from agentctx.budget import Budget
from agentctx.changes import Change, Outcome
from agentctx.engine.reading import as_list
from agentctx.engine.shrink import OFFLOADED
from agentctx.events.window import KINDS, KindSizes, tokens_of_head
from agentctx.message import Context, Message, Tool
from agentctx.pipeline import Pipeline
from agentctx.protocols import Meter, declared
from agentctx.replay import Recording, Step, reader_of, replay
from agentctx.reports import View
from agentctx.transcripts.costs import billed_cost, spent
from agentctx.unit import first_task, units


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
    source = reader_of(recording, model)
    given = source.messages(natives)
    head = Context((), *source.head(recording.system, recording.tools))
    items, sizes = Items(), KindSizes(source.meter)
    log, calls = RowLog(given, items), []
    async for step in replay(recording, pipeline, model=model):
        if step.view is None:
            log.miss(step.number, step.index)
            calls.append(ShownCall(step, (0,) * len(KINDS), 0))
        else:
            unchanged = log.see(step.number, step.index, step.view)
            calls.append(ShownCall(step.without_view(), sizes.of(step.view.context), unchanged))
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


@frozen
class State:
    """What became of one message.

    Args:
        outcome: An ``Outcome``, as a word; ``"offloaded"`` also where a preview is left.
        item: What is sent in its place, by its place among the items; None when nothing is.
        stage: The last stage that changed it; empty when none did.
        reason: Why.
        handle: Where the original is kept in the store, when there is one.
    """

    outcome: str
    item: int | None
    stage: str = ""
    reason: str = ""
    handle: str | None = None


@frozen
class RowChange:
    """From this call on, a message of the history is in another state.

    Args:
        index: The message, by its index in the history.
        call: The number of the call, from 1.
        state: What became of it.
    """

    index: int
    call: int
    state: State


@frozen
class Added:
    """A message that stands in the request and not in the history.

    Args:
        after: So many messages of the history stand before it.
        state: What it is, and who put it in.
    """

    after: int
    state: State


@frozen
class Layout:
    """From this call on, the rows stand so.

    Args:
        call: The number of the call, from 1.
        added: The messages that are not in the history, in their order.
        order: The rows where messages have moved: the index of a message of the history, or ``-1 - place`` in
            ``added``. Messages of the history that are not in it follow. None where they stand in their old order.
    """

    call: int
    added: tuple[Added, ...]
    order: tuple[int, ...] | None = None


@define
class Items:
    """Every message that is ever shown, once; equal ones are one."""

    messages: list[Message] = field(factory=list)
    _places: dict[Message, int] = field(factory=dict, init=False, repr=False)
    _known: dict[int, int] = field(factory=dict, init=False, repr=False)

    def place(self, message: Message) -> int:
        """The place of a message among the items."""
        known = self._known.get(id(message))
        if known is not None and self.messages[known] is message:
            return known
        place = self._places.setdefault(message, len(self.messages))
        if place == len(self.messages):
            self.messages.append(message)
            self._known[id(message)] = place
        return place


@define
class RowLog:
    """Follows the rows from call to call.

    Args:
        given: The history, as it was read.
        items: Where all messages are kept.
    """

    given: Sequence[Message]
    items: Items
    changes: list[RowChange] = field(factory=list, init=False)
    layouts: list[Layout] = field(factory=list, init=False)
    places: list[int] = field(factory=list, init=False)
    _now: dict[int, State] = field(factory=dict, init=False)
    _before: tuple[Message, ...] = field(default=(), init=False)
    _length: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        """Every message of the history is shown."""
        self.places = [self.items.place(message) for message in self.given]

    def see(self, call: int, length: int, view: View) -> int:
        """Write down what became of the first ``length`` messages; how many rows are in the unchanged prefix."""
        messages, report = view.context.messages, view.report
        held = len(self._before) if report.first_changed is None else report.first_changed
        held = held if self._before and report.prefix_tokens else 0
        new = view.origins[held:]
        acted = any(change.outcome not in _SAME for change in report.changes)
        if acted or not held or held < len(self._before) or None in new or len(new) != length - self._length:
            self._look(call, length, view)
        self._before, self._length = messages, length
        return _rows_before(self.layouts[-1] if self.layouts else None, view.origins[:held])

    def miss(self, call: int, length: int) -> None:
        """A call for which nothing could be sent: its messages are shown as they were given."""
        self._note(call, {index: State(Outcome.KEPT.value, self.places[index]) for index in range(length)})
        self._lay(Layout(call, ()))
        self._before, self._length = (), length

    def _look(self, call: int, length: int, view: View) -> None:
        done = {change.index: change for change in view.report.in_force if change.outcome is not Outcome.ADDED}
        made = {change.index: change for change in view.report.in_force if change.outcome is Outcome.ADDED}
        found = dict.fromkeys(range(length), State(Outcome.DROPPED.value, None))
        for index, change in done.items():
            outcome = change.outcome if change.is_gone else Outcome.DROPPED
            found[index] = State(outcome.value, None, change.stage, change.reason, change.handle)
        messages = view.context.messages
        for place, origin in enumerate(view.origins):
            if origin is not None:
                found[origin] = self._sent(origin, messages[place], done.get(origin))
        self._note(call, found)
        self._lay(self._layout(call, view, made))

    def _sent(self, index: int, message: Message, change: Change | None) -> State:
        item = self.items.place(message)
        if change is None or change.outcome in _SAME:
            same = item == self.places[index] or change is not None
            return State(Outcome.KEPT.value if same else Outcome.EDITED.value, item)
        starts, started = (  # whether a message has the start of a content that lies in the store
            any(result.text.startswith(OFFLOADED) for result in one.results) for one in (message, self.given[index])
        )
        outcome = Outcome.OFFLOADED.value if starts and not started else change.outcome.value
        return State(outcome, item, change.stage, change.reason, change.handle)

    def _note(self, call: int, found: Mapping[int, State]) -> None:
        for index, state in found.items():
            known = self._now.get(index)
            if known is None:
                known = State(Outcome.KEPT.value, self.places[index])
            if state != known:
                self.changes.append(RowChange(index, call, state))
            self._now[index] = state

    def _layout(self, call: int, view: View, made: Mapping[int, Change]) -> Layout:
        origins = view.origins
        added, before = [], 0
        for place, origin in enumerate(origins):
            if origin is not None:
                before = max(before, origin + 1)
                continue
            change = made.get(place)
            why = ("", "") if change is None else (change.stage, change.reason)
            state = State(Outcome.ADDED.value, self.items.place(view.context.messages[place]), *why)
            added.append(Added(before, state))
        known = [origin for origin in origins if origin is not None]
        rising = all(one < other for one, other in pairwise(known))
        return Layout(call, tuple(added), None if rising else _order(origins))

    def _lay(self, layout: Layout) -> None:
        last = self.layouts[-1] if self.layouts else Layout(0, ())
        if (layout.added, layout.order) != (last.added, last.order):
            self.layouts.append(layout)


_SAME = frozenset({Outcome.MARKED, Outcome.KEPT})


def _order(origins: Sequence[int | None]) -> tuple[int, ...]:
    """The rows as they are sent, with what was left out where it had stood."""
    sent = {origin for origin in origins if origin is not None}
    gone = iter([index for index in range(max(sent, default=-1) + 1) if index not in sent])
    lost, added, order = next(gone, None), 0, []
    for origin in origins:
        if origin is None:
            order.append(-1 - added)
            added += 1
            continue
        while lost is not None and lost < origin:
            order.append(lost)
            lost = next(gone, None)
        order.append(origin)
    return (*order, *([] if lost is None else [lost, *gone]))


def _rows_before(layout: Layout | None, origins: Sequence[int | None]) -> int:
    """How many rows stand up to the end of these messages of a request, those between that are left out included."""
    if not origins:
        return 0
    added = sum(origin is None for origin in origins)
    if layout is not None and layout.order is not None:
        last = -added if origins[-1] is None else origins[-1]
        return layout.order.index(last) + 1 if last in layout.order else len(layout.order)
    known = [origin for origin in origins if origin is not None]
    ends = known[-1] + 1 if known else 0
    if origins[-1] is None and layout is not None:
        ends = max(ends, layout.added[added - 1].after)
    return ends + added


@frozen
class Costs:
    """What all calls up to each one cost, added up.

    Args:
        unit: ``"USD"``, answers included; or ``"tokens"`` of new input where the model's prices are not known, with
            what is read from the cache counted as a tenth.
        prepared: As the pipeline prepares the requests.
        everything: With the whole history in each request, whether it fits or not.
        trimmed: With the oldest rounds left out before each call, as few as must be.
        billed: As the recording says that it was billed; empty where it says nothing, or in tokens.
    """

    unit: str
    prepared: tuple[float, ...]
    everything: tuple[float, ...]
    trimmed: tuple[float, ...]
    billed: tuple[float, ...] = ()


def costs(
    recording: Recording, steps: Sequence[Step], trimmed: Iterable[Request], *, model: str | None = None
) -> Costs:
    """What the calls of a replay cost, and what they would cost otherwise.

    Args:
        recording: What was replayed.
        steps: Its calls.
        trimmed: The requests without the oldest rounds.
        model: The model, when it is not the recorded one.
    """
    prepared = [Request(step.tokens_sent, step.prefix_tokens) for step in steps]
    ways = (prepared, list(growing(step.tokens_given for step in steps)), list(trimmed))
    found = spent(recording, steps, [[(each.tokens, each.shared) for each in way] for way in ways], model)
    if found is None:
        sent, everything, without_oldest = (tuple(accumulate(each.weighed for each in way)) for way in ways)
        return Costs("tokens", sent, everything, without_oldest)
    sent, everything, without_oldest = found
    return Costs("USD", sent, everything, without_oldest, tuple(_billed(recording, steps)))


def _billed(recording: Recording, steps: Sequence[Step]) -> Iterator[float]:
    """What was billed up to each call."""
    bills, usd = sorted(recording.billed, key=lambda bill: bill.index), 0.0
    for end in [*(step.index for step in steps[1:]), len(recording.messages)] if bills else ():
        its = list(takewhile(lambda bill: bill.index < end, bills))  # noqa: B023 - it is used at once
        bills, usd = bills[len(its) :], usd + billed_cost(its).usd
        yield usd


@frozen
class Request:
    """The size of one request, in tokens.

    Args:
        tokens: All of it.
        shared: The start that it shares with the request before.
    """

    tokens: int
    shared: int

    @property
    def weighed(self) -> float:
        """Its tokens, those that are read from the cache counted as a tenth."""
        return self.tokens - (1 - READ_SHARE) * self.shared


READ_SHARE = 0.1
"""What reading a token from the cache costs where prices are not known, in prices of a new one: as most providers."""


def growing(sizes: Iterable[int]) -> Iterator[Request]:
    """Requests each of which begins with the whole one before."""
    before = 0
    for size in sizes:
        yield Request(size, min(before, size))
        before = size


def trimming(
    messages: Sequence[Message], calls: Sequence[int], meter: Meter, head: Context, limit: int | None
) -> Iterator[Request]:
    """Requests without the oldest rounds, as few as must be for each to fit; system messages and first task stay.

    Args:
        messages: The whole session.
        calls: How many messages each call saw.
        meter: Counts messages.
        head: What stands before the messages.
        limit: The most tokens of a request; None for no limit.
    """
    sizes = [meter.message(message) for message in messages]
    ends = [0, *accumulate(sizes)]
    begin = next((task + 1 for task in first_task(messages)), 0)
    fixed = meter.fixed(head) + ends[begin]
    cuts = [unit.start for unit in units(messages) if unit.start > begin]
    start, place, before = begin, 0, 0
    for end in calls:
        first = place
        while limit is not None and fixed + ends[end] - ends[start] > limit and place < len(cuts) and cuts[place] < end:
            start, place = cuts[place], place + 1
        size = fixed + ends[max(end, start)] - ends[start]
        yield Request(size, min(before, size) if place == first else min(before, fixed))
        before = size
