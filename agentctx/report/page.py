"""The report of a session as one page: its figures, and the page that draws them."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from itertools import accumulate, pairwise, takewhile
from string import Template
from typing import TYPE_CHECKING, Any

from attrs import asdict, define, field, frozen

from agentctx.budget import Budget
from agentctx.changes import Change, Outcome
from agentctx.characters import printable
from agentctx.engine.reading import as_list
from agentctx.engine.shrink import OFFLOADED
from agentctx.events.window import KINDS, KindSizes, kind_of, main_kind, tokens_of_head
from agentctx.message import Context, Message, Opaque, Part, Text, Thinking, Tool, ToolCall, ToolResult, is_marker
from agentctx.pipeline import Pipeline
from agentctx.protocols import Meter
from agentctx.replay import Recording, Step, left_out, part_texts, reader_of, replay, summarise
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
        stages=tuple(stage.name for stage in pipeline.stages),
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
    prepared = [(step.tokens_sent, step.prefix_tokens) for step in steps]
    ways = (prepared, growing([step.tokens_given for step in steps]), list(trimmed))
    usd = spent(recording, steps, ways, model)
    if usd is not None:
        prepared_usd, everything, without_oldest = usd
        return Costs("USD", prepared_usd, everything, without_oldest, tuple(_billed(recording, steps)))
    weighed = ((tokens - (1 - READ_SHARE) * shared for tokens, shared in way) for way in ways)
    return Costs("tokens", *(tuple(accumulate(way)) for way in weighed))


def _billed(recording: Recording, steps: Sequence[Step]) -> Iterator[float]:
    """What was billed up to each call."""
    bills, usd = sorted(recording.billed, key=lambda bill: bill.index), 0.0
    for end in [*(step.index for step in steps[1:]), len(recording.messages)] if bills else ():
        its = list(takewhile(lambda bill: bill.index < end, bills))  # noqa: B023 - it is used at once
        bills, usd = bills[len(its) :], usd + billed_cost(its).usd
        yield usd


Request = tuple[int, int]
"""The tokens of a request, and those of the start that it shares with the request before."""

READ_SHARE = 0.1
"""What reading a token from the cache costs where prices are not known, in prices of a new one: as most providers."""


def growing(sizes: Sequence[int]) -> list[Request]:
    """Requests each of which begins with the whole one before."""
    return [(size, min(before, size)) for before, size in pairwise([0, *sizes])]


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
        yield size, min(before, size if place == first else fixed)
        before = size


if TYPE_CHECKING:
    from agentctx.comparison import Measured

CAPS = (20_000, 8_000, 3_000, 1_000, 400, 120)
"""The most characters of a text in the page: the first with which the page is small enough holds."""

LARGEST = 4_800_000
"""What a page may be large, in bytes, before texts are cut shorter."""

_SCRIPTS = ("session.js", "difference.js", "charts.js", "rows.js", "message.js", "page.js")


def html_page(data: SessionData, *, content: bool = True, full: bool = False, remarks: Sequence[str] = ()) -> str:
    """The page of a session.

    Args:
        data: What it shows.
        content: Whether the messages' texts are in it. Without them it has roles, sizes, outcomes and the names of
            stages, and neither texts nor reasons, names of tools or handles.
        full: Whether texts are whole, however long. Else long ones are cut in the middle, the more the larger the page
            would be, and say so.
        remarks: What there is to say of the recording, a line each.

    Example:
        >>> from agentctx.presets import coding_agent
        >>> from agentctx.replay import Recording
        >>> from agentctx.report import html_page, session_data
        >>> said = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello!"}]
        >>> data = await session_data(Recording(said, format="openai-chat"), coding_agent(8_000))
        >>> html_page(data).startswith("<!doctype html>")
        True
    """
    data_of_page = ""
    for cap in (None,) if full else CAPS:
        data_of_page = _packed(_session_values(data, content=content, cap=cap))
        if len(data_of_page) <= LARGEST:
            break
    return _document(
        "page.html",
        _SCRIPTS,
        title=escape(_title(data)),
        about=_about(data),
        facts=_fact_list(_session_facts(data)),
        remarks="".join(f"<li>{escape(printable(remark))}</li>" for remark in remarks),
        data=data_of_page,
    )


def comparison_page(rows: Sequence[Measured]) -> str:
    """The page of a comparison: sums by pipeline, cost against what stays visible, and each session.

    Args:
        rows: What was measured; of a session, a model and a pipeline that are there twice, the last.

    Example:
        >>> from agentctx.comparison import Contender, measure
        >>> from agentctx.replay import Recording
        >>> from agentctx.report import comparison_page
        >>> said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
        >>> row = measure(Recording(said), Contender.of("small", preset="coding_agent", window=4_000), session="one")
        >>> comparison_page([row]).startswith("<!doctype html>")
        True
    """
    models_of = ((row, printable(row.model or "no model named")) for row in rows)
    found = {((printable(row.session), model), printable(row.pipeline)): row for row, model in models_of}
    sessions = list(dict.fromkeys(session for session, _ in found))
    pipelines = list(dict.fromkeys(pipeline for _, pipeline in found))
    return _document(
        "comparison.html",
        ("session.js", "charts.js", "comparison.js"),
        facts=_fact_list(_comparison_facts(found, sessions, pipelines)),
        data=_packed(_comparison_values(found, sessions, pipelines)),
    )


def _title(data: SessionData) -> str:
    return printable(data.recording.id or "recorded session")


def _about(data: SessionData) -> str:
    said = [printable(data.model or "no model named"), data.format, f"{len(data.given):,} messages"]
    if data.budget is not None:
        budget = data.budget
        said.append(f"window {budget.window:,}, limit {budget.limit:,}")
        said.append(f"acts above {budget.trigger_tokens:,}, down to {budget.target_tokens:,} tokens")
    return "".join(f"<li>{escape(each)}</li>" for each in said)


def _session_facts(data: SessionData) -> Iterator[tuple[str, str, str]]:
    """The few numbers that say most of a session: name, value, and what there is to say beside it."""
    found = summarise(data.steps)
    could_not = f", {found.overflowed:,} not sent" if found.overflowed else ""
    yield "Model calls", f"{found.steps:,}", f"{found.compactions:,} with a compaction{could_not}"
    less = abs(1 - found.tokens_sent / found.tokens_given) if found.tokens_given else 1.0
    than = f"{'less' if found.tokens_sent < found.tokens_given else 'more'} than the {found.tokens_given:,}"
    whole = "the full history at each call"
    beside = whole if found.tokens_sent == found.tokens_given else f"{less:.0%} {than} of the full history"
    yield "Tokens sent", f"{found.tokens_sent:,}", beside
    share = found.prefix_tokens / found.tokens_sent if found.tokens_sent else 0.0
    yield "Unchanged prefix", f"{share:.0%}", "of what was sent: the provider's cache can serve it"
    yield _cost_fact(data)
    fine = "every request" if found.clean else "see the red marks in the chart"
    yield "Valid, within budget", f"{min(found.valid, found.fitting):,} of {found.steps:,}", fine


def _cost_fact(data: SessionData) -> tuple[str, str, str]:
    ways = [way[-1] if way else 0.0 for way in (data.costs.prepared, data.costs.everything, data.costs.trimmed)]
    in_usd = data.costs.unit == "USD"
    ours, everything, trimmed = (f"${cost:,.2f}" if in_usd else f"{cost:,.0f}" for cost in ways)
    unit = "" if in_usd else "full-price tokens; "
    return "Cost", ours, f"{unit}full history {everything}, trimming at each call {trimmed}"


def _session_values(data: SessionData, *, content: bool = True, cap: int | None = None) -> dict[str, Any]:
    """What the scripts of the page are given, as JSON values.

    Args:
        data: What the page shows.
        content: Whether the messages' texts are in it.
        cap: The most characters of a text; None for whole texts.
    """
    writing = _Writing(data, content, cap)
    steps, budget = data.steps, data.budget
    return {
        "id": _title(data),
        "content": content,
        "cap": cap,
        "window": None if budget is None else budget.window,
        "kinds": KINDS,
        "items": [writing.item(message) for message in data.items],
        "given": data.given,
        "head": list(writing.head()),
        "changes": [writing.change(change) for change in data.changes],
        "layouts": [
            [each.call, [[added.after, *writing.state(added.state)] for added in each.added], each.order]
            for each in data.layouts
        ],
        "calls": {
            "index": [step.index for step in steps],
            "given": [step.tokens_given for step in steps],
            "sent": [step.tokens_sent for step in steps],
            "messages": [step.messages_sent for step in steps],
            "prefix": [step.prefix_tokens for step in steps],
            "limit": [step.limit for step in steps],
            "compacted": [int(step.compacted) for step in steps],
            "fine": [int(step.valid and step.fits) for step in steps],
            "unchanged": [call.unchanged for call in data.calls],
            "kinds": [call.kinds for call in data.calls],
        },
        "notes": {step.number: notes for step in steps if (notes := list(_notes(step, content=content)))},
        "costs": {
            name: way if isinstance(way, str) else [round(cost, 6) for cost in way]
            for name, way in asdict(data.costs).items()
        },
        "reasons": writing.reasons,
    }


def _notes(step: Step, *, content: bool) -> Iterator[str]:
    """What there is to say about a call, line by line."""
    if step.overflow is not None:
        yield f"Nothing could be sent: {step.overflow}" if content else "Nothing could be sent: it did not fit"
    for violation in step.violations:
        yield f"Breaks a rule: {violation}" if content else f"Breaks a rule: {violation.rule}"
    for each in left_out(step.changes):
        yield str(each)


@define
class _Writing:
    """Writes messages and states as short JSON values."""

    data: SessionData
    content: bool
    cap: int | None
    reasons: list[tuple[str, str]] = field(factory=lambda: [("", "")], init=False)
    _places: dict[tuple[str, str], int] = field(factory=lambda: {("", ""): 0}, init=False)
    _tools: dict[str, str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Know which tool each result comes from."""
        self._tools = {call.id: call.name for message in self.data.items for call in message.calls}

    def change(self, change: RowChange) -> list[object]:
        return [change.index, change.call, *self.state(change.state)]

    def state(self, state: State) -> list[object]:
        reason = (state.stage, state.reason if self.content else "")
        place = self._places.setdefault(reason, len(self.reasons))
        if place == len(self.reasons):
            self.reasons.append(reason)
        item = -1 if state.item is None else state.item
        found: list[object] = [state.outcome, item, place]
        return [*found, state.handle] if state.handle and self.content else found

    def item(self, message: Message) -> list[object]:
        meter = self.data.meter
        kind = KINDS.index(main_kind(message, meter))
        return [message.role, kind, meter.message(message), list(self._parts(message))]

    def head(self) -> Iterator[list[object]]:
        """What stands before the messages: name, kind, tokens, parts."""
        sizes = self.data.head
        if self.data.system is not None:
            yield ["system prompt", KINDS.index("system"), sizes["system"], list(self._parts(self.data.system))]
        if self.data.tools:
            kind = KINDS.index("tools")
            said = [
                [kind, printable(tool.name), *self._cut(_definition(tool.description, tool.parameters))]
                for tool in self.data.tools
            ]
            yield ["tool definitions", kind, sizes["tools"], said if self.content else []]

    def _parts(self, message: Message) -> Iterator[list[object]]:
        for part in message.parts if self.content else ():
            if is_marker(part):
                continue
            label, text = _said(part, self._tools)
            yield [KINDS.index(kind_of(part, message)), printable(label), *self._cut(text)]

    def _cut(self, text: str) -> list[object]:
        """A text; or its start, how many characters are not shown, and its end."""
        if self.cap is None or len(text) <= self.cap:
            return [text]
        start, end = self.cap * 3 // 4, self.cap // 4
        return [text[:start], len(text) - start - end, text[len(text) - end :]]


def _definition(description: str, parameters: object) -> str:
    return "\n".join(filter(None, (description, json.dumps(parameters, default=str) if parameters else "")))


def _said(part: Part, tools: Mapping[str, str]) -> tuple[str, str]:
    """A label for a part, and its text."""
    match part:
        case Text(text=text):
            return "", text
        case Thinking(text=text, encrypted=encrypted):
            return "", text or f"{len(encrypted or ''):,} encrypted characters"
        case ToolCall(name=name, arguments=arguments):
            return name, arguments
        case ToolResult(call_id=call, name=name, content=content, is_error=wrong):
            known = name or tools.get(call, "")
            said = "\n".join(part_texts(Message("tool", content)))
            return f"{known} (error)".strip() if wrong else known, said
        case Opaque(kind=kind, data=native):
            return kind, json.dumps(native, default=str, ensure_ascii=False)
    return "", "\n".join(part_texts(Message("user", (part,))))  # a picture, a sound, a document


_NUMBERS = (
    *("calls", "tokens_given", "tokens_sent", "prefix_tokens", "usd", "compactions", "invalid", "overflowed"),
    *("values", "visible", "recallable", "said", "kept", "seconds"),
)


_Session = tuple[str, str]
"""The place and the model of a session: it is shown once for each model that it was counted and paid for."""


def _comparison_facts(
    found: Mapping[tuple[_Session, str], Measured], sessions: Sequence[_Session], pipelines: Sequence[str]
) -> Iterator[tuple[str, str, str]]:
    models = sorted({model for _, model in sessions})
    calls = {session: row.calls for (session, _), row in found.items()}
    yield "Sessions", f"{len(sessions):,}", f"{sum(calls.values()):,} model calls"
    yield "Pipelines", f"{len(pipelines):,}", ", ".join(pipelines)
    yield "Models", f"{len(models):,}", ", ".join(models[:4]) + (", …" if len(models) > 4 else "")
    missing = len(sessions) * len(pipelines) - len(found)
    yield "Replays", f"{len(found):,}", f"{missing:,} missing" if missing else "every session with every pipeline"


def _comparison_values(
    found: Mapping[tuple[_Session, str], Measured], sessions: Sequence[_Session], pipelines: Sequence[str]
) -> dict[str, Any]:
    times = Counter(place for place, _ in sessions)
    names = {
        (place, model): printable(row.id or row.session) + (f" · {model}" if times[place] > 1 else "")
        for ((place, model), _), row in found.items()
    }
    models = sorted({model for _, model in sessions})
    numbers = {key: [getattr(row, name) for name in _NUMBERS] for key, row in found.items()}
    return {
        "pipelines": pipelines,
        "models": models,
        "sessions": [[names[place, model], place, models.index(model)] for place, model in sessions],
        "numbers": _NUMBERS,
        "rows": [[numbers.get((session, pipeline)) for pipeline in pipelines] for session in sessions],
    }


_CHARTS = "uplot/uPlot.iife.min.js"
_STYLES = ("uplot/uPlot.min.css", "page.css")


def _document(template: str, scripts: Sequence[str], **values: str) -> str:
    """A page.

    Args:
        template: The asset that has its elements.
        scripts: The assets that make it work, in order; the library of charts stands before them.
        values: HTML for the places of the template.
    """
    code, styles = [_asset(name) for name in (_CHARTS, *scripts)], [_asset(name) for name in _STYLES]
    scripts_allowed, styles_allowed = (  # the page's own, and no address
        " ".join(f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in texts)
        for texts in (code, styles)
    )
    policy = f"default-src 'none'; script-src {scripts_allowed}; style-src {styles_allowed}"
    return Template(_asset(template)).substitute(
        values,
        policy=f"{policy}; base-uri 'none'; form-action 'none'",
        licence=escape(_asset("uplot/LICENSE").replace("--", "")),
        styles="\n".join(f"<style>{style}</style>" for style in styles),
        scripts="\n".join(f"<script>{script}</script>" for script in code),
    )


def _packed(values: Mapping[str, object]) -> str:
    """Values as a page unpacks them."""
    packer = zlib.compressobj(9, wbits=-15)
    text = json.dumps(values, separators=(",", ":"))
    return b64encode(packer.compress(text.encode()) + packer.flush()).decode()


def _fact_list(facts: Iterable[tuple[str, str, str]]) -> str:
    """Name, value, and what there is to say beside it: entries of a description list."""
    return "".join(
        f'<div class="fact"><dt>{escape(name)}</dt><dd>{escape(value)}</dd><dd class="more">{escape(more)}</dd></div>'
        for name, value, more in facts
    )


def _asset(name: str) -> str:
    return files("agentctx.report").joinpath("assets", *name.split("/")).read_text(encoding="utf-8")
