"""What was done to a request, for people and for machines: reports, the events that listeners get, the view."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from itertools import chain
from math import inf
from typing import Any

from attrs import asdict, field, frozen

from agentctx.changes import Change, ChangesInForce, HeadChange, Outcome
from agentctx.characters import printable
from agentctx.message import Context, Native

_MARKS = (Outcome.MARKED, Outcome.KEPT)
_MOST_CHANGES = 20


@frozen
class Forecast:
    """What a compaction does to the bill.

    Args:
        without: The input of the next call without it, in USD.
        with_cut: The input of the next call with it, in USD.
        later_without: The input of each call after that without it, nothing new added, in USD.
        later_with: The input of each call after that with it, in USD.
        calls: After how many calls, the next one included, it has paid for itself; ``inf`` when never.

    Example:
        >>> from agentctx.economics import Forecast
        >>> forecast = Forecast(without=0.10, with_cut=0.30, later_without=0.10, later_with=0.05, calls=5)
        >>> forecast.pays_back(within=20), forecast.pays_back(within=3)
        (True, False)
    """

    without: float
    with_cut: float
    later_without: float
    later_with: float
    calls: float

    @property
    def once(self) -> float:
        """What it costs more at the next call, in USD; negative when the next call is cheaper at once."""
        return self.with_cut - self.without

    def pays_back(self, within: int) -> bool:
        """Whether it has paid for itself after ``within`` calls."""
        return self.calls <= within

    def __str__(self) -> str:
        """One sentence for a report."""
        when = "never" if self.calls == inf else f"after {self.calls:,.0f} calls" if self.calls > 1 else "at that call"
        return (
            f"next call ${self.with_cut:.4f} with the cut, ${self.without:.4f} without; "
            f"later ${self.later_with:.4f} instead of ${self.later_without:.4f}: pays back {when}"
        )


@frozen
class StageReport:
    """What one stage did.

    Args:
        stage: Its name.
        changes: The messages that it did not leave as they were.
        tokens_before: Size of the request when the stage began, in tokens.
        tokens_after: Size of the request when it ended, in tokens.
        seconds: How long it took.
        notes: What else the stage had to say.
        head: What it did to the system prompt where that is kept apart, and to the tools.

    Example:
        >>> from agentctx import Pipeline
        >>> messages = [{"role": "user", "content": "Hi"}, {"role": "tool", "tool_call_id": "a", "content": "?"}]
        >>> view = await Pipeline().prepare(messages)
        >>> [(stage.stage, len(stage.changes)) for stage in view.report.stages]
        [('RepairHistory', 1)]
    """

    stage: str
    changes: tuple[Change, ...]
    tokens_before: int
    tokens_after: int
    seconds: float
    notes: tuple[str, ...] = ()
    head: tuple[HeadChange, ...] = ()

    @property
    def acted(self) -> bool:
        """Whether it changed anything."""
        return bool(self.changes) or bool(self.notes) or bool(self.head)

    @property
    def marks_only(self) -> bool:
        """Whether it changed nothing but cache markers, and had nothing to say."""
        outcomes = chain((change.outcome for change in self.changes), (change.outcome for change in self.head))
        return not self.notes and all(outcome in _MARKS for outcome in outcomes)


@frozen
class Report:
    """What happened to a request on its way to the model.

    ``changes`` are the messages that were changed at this step, ``in_force`` all that are not sent as they came, also
    those that earlier steps of a session decided on. ``head`` is the same for what stands before the messages, and
    ``forecast`` says what it does to the bill. ``stages`` has the changes of this step stage by stage, with sizes.

    Args:
        stages: What each stage did at this step, in order.
        in_force: The changes in force.
        messages_before: Number of messages passed in.
        messages_after: Number of messages that go out.
        tokens_before: Size of the request passed in, in tokens.
        tokens_after: Size of the request that goes out, in tokens.
        bytes_before: Size of the texts passed in, in bytes of UTF-8.
        bytes_after: Size of the texts that go out, in bytes of UTF-8.
        limit: The most tokens that the request could have, or None when there is no budget.
        first_changed: Index of the first outgoing message that differs from the previous view of the session (or,
            without a session, from what was passed in); None when that one is a prefix of this one.
        prefix_tokens: Tokens at the start of the request that equal the previous view's, in a session.
        rebilled_tokens: Tokens of the previous view that must be billed again because the prefix moved.
        seconds: How long all of it took.
        forecast: Works out the forecast; None where it cannot be: no model was named, or its prices are not known.

    Example:
        >>> from agentctx import Pipeline, TruncateToolOutputs
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> turns = user("Read it."), assistant(call("a", "read")), result("a", "word " * 999)
        >>> messages = transcript("openai-chat", *turns)
        >>> report = (await Pipeline(TruncateToolOutputs(max_tokens=100)).prepare(messages)).report
        >>> report.tokens_before > report.tokens_after
        True
        >>> [(change.index, change.outcome.value, change.stage) for change in report.changes]
        [(2, 'edited', 'TruncateToolOutputs')]
    """

    stages: tuple[StageReport, ...]
    _in_force: ChangesInForce = field(eq=False, repr=False)
    messages_before: int
    messages_after: int
    tokens_before: int
    tokens_after: int
    bytes_before: int = 0
    bytes_after: int = 0
    limit: int | None = None
    first_changed: int | None = None
    prefix_tokens: int = 0
    rebilled_tokens: int = 0
    seconds: float = 0.0
    _forecast: Callable[[], Forecast | None] | None = field(default=None, eq=False, repr=False)

    @property
    def forecast(self) -> Forecast | None:
        """What this call costs with and without what was done at this step, and when that has paid for itself.

        None when no model was named, or its prices are not known.
        """
        return None if self._forecast is None else self._forecast()

    @property
    def in_force(self) -> tuple[Change, ...]:
        """Every change that holds now, also those decided at earlier steps of a session, by message."""
        return tuple(self._in_force)

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changes of this step, stage by stage."""
        return tuple(change for stage in self.stages for change in stage.changes)

    @property
    def head(self) -> tuple[HeadChange, ...]:
        """What was done to the system prompt and the tools that were passed in, stage by stage."""
        return tuple(change for stage in self.stages for change in stage.head)

    @property
    def acted(self) -> bool:
        """Whether any stage changed anything at this step."""
        return any(stage.acted for stage in self.stages)

    def __str__(self) -> str:
        """What happened to the request, for people: see ``report_text``."""
        return report_text(self)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON values."""
        plain = asdict(self, filter=lambda attribute, _: not attribute.name.startswith("_"))
        forecast = self.forecast
        return plain | {
            "in_force": [asdict(change) for change in self._in_force],
            "head": [asdict(change) for change in self.head],
            "forecast": None if forecast is None else asdict(forecast),
        }


@frozen
class Compaction:
    """A request was changed on its way to the model.

    Args:
        stages: The stages that acted, with what each did and why.
        messages_before: Number of messages before.
        messages_after: Number of messages after.
        tokens_before: Size of the request before, in tokens.
        tokens_after: Size of the request after, in tokens.
        session: The session's id, or None for a stateless call.
        step: The number of the session's step, from 0; None for a stateless call.
        first_changed: Index of the first outgoing message that is not as in the session's view before: there the
            provider's cache breaks. None when only new messages were treated. Without a session: compared to what
            was passed in.
        rebilled_tokens: Tokens of the session's view before that are billed again for that.

    Example:
        >>> from agentctx import Compaction, Pipeline, TrimRounds
        >>> from agentctx.testing import assistant, transcript, user
        >>> events: list[Compaction] = []
        >>> turns = user("One?"), assistant("1."), user("Two?"), assistant("2."), user("Three?")
        >>> messages = transcript("openai-chat", *turns)
        >>> view = await Pipeline(TrimRounds(1), on_compact=events.append).prepare(messages)
        >>> print(events[0])
        compaction by TrimRounds: 5 -> 4 messages, 33 -> 27 tokens
    """

    stages: tuple[StageReport, ...]
    messages_before: int
    messages_after: int
    tokens_before: int
    tokens_after: int
    session: str | None = None
    step: int | None = None
    first_changed: int | None = field(default=None, kw_only=True)
    rebilled_tokens: int = field(default=0, kw_only=True)

    @property
    def prefix_moved(self) -> bool:
        """Whether the request does not begin with the one before: a real cut, and not only new messages shortened."""
        return self.first_changed is not None

    @property
    def changes(self) -> tuple[Change, ...]:
        """What was dropped, edited or added, stage by stage, and why."""
        return tuple(change for stage in self.stages for change in stage.changes)

    def __str__(self) -> str:
        """One line for a log."""
        acted = ", ".join(stage.stage for stage in self.stages)
        what = "compaction" if self.prefix_moved or self.step is None else "arrivals changed"
        prefix = f", prefix moved at message {self.first_changed}" if self.prefix_moved else ", prefix kept"
        return (
            f"{what} by {acted}: {self.messages_before} -> {self.messages_after} messages, "
            f"{self.tokens_before:,} -> {self.tokens_after:,} tokens{prefix if self.step is not None else ''}"
        )


@frozen
class SilentTruncationSuspected(Compaction):
    """A request was probably changed on its way to the model by the server: it cut the prompt without a word.

    It is the model that does not know then what stands in the history, although no error says so. Ollama does it at
    ``num_ctx``, and whoever sets no window of their own there gets its small default. Said once a conversation and
    model. ``tokens_before`` is the prompt as it was sent, by our count as far as it is calibrated; ``tokens_after``
    what was billed, by the provider's count; the one stage in ``stages`` is the server.

    Args:
        stages: The one that acted: the server.
        messages_before: Number of messages that were sent.
        messages_after: The same number: how many the model was shown is not known.
        tokens_before: Size of the prompt as it was sent, in tokens.
        tokens_after: Size of the prompt as it was billed, in tokens.
        session: The session's id, or None where it has none.
        step: The number of the session's step, from 0.
        first_changed: None: where the server has cut is not known.
        rebilled_tokens: 0: what is billed again for it is not known.
        why: What speaks for it, in one sentence with the numbers.
        window: The model's window, in tokens; None when it is not known.

    Example:
        >>> from agentctx import Pipeline
        >>> from agentctx.economics import SilentTruncationSuspected
        >>> def listen(event):
        ...     if isinstance(event, SilentTruncationSuspected):
        ...         print(f"the server cut {event.sent:,} tokens to {event.billed:,}: set num_ctx")
        >>> pipeline = Pipeline(budget=32_000, on_compact=listen)
    """

    why: str = field(kw_only=True)
    window: int | None = field(default=None, kw_only=True)

    @property
    def sent(self) -> int:
        """The prompt by our count, in tokens."""
        return self.tokens_before

    @property
    def billed(self) -> int:
        """The prompt by the provider's count, in tokens."""
        return self.tokens_after

    def __str__(self) -> str:
        """One line for a log."""
        return f"silent truncation suspected: {self.why}"


@frozen
class View:
    """What the next model call shall be sent, in the caller's own format.

    Args:
        messages: The messages; those that no stage touched are the caller's own objects. The list is new.
        system: The system prompt as it was passed in; None when there was none.
        tools: The tool definitions as they were passed in; None when there were none.
        report: What was done, by whom and why.
        context: The same as values.
        options: What else must be put into the request for the provider to take it; mostly nothing. Each is to be
            merged into the option of that name.
        origins: For each of ``messages``, the index in what was passed in of the message that it was or was made of;
            None for one that a stage or a repair put in. A session's last view is a list like any other: when it is
            passed back, with what came since, the indexes are those of that list.

    Example:
        >>> from agentctx import Pipeline, TrimRounds
        >>> from agentctx.testing import assistant, transcript, user
        >>> turns = user("One?"), assistant("1."), user("Two?"), assistant("2."), user("Three?")
        >>> messages = transcript("openai-chat", *turns)
        >>> view = await Pipeline(TrimRounds(1)).prepare(messages)
        >>> view.origins
        (0, 2, 3, 4)
        >>> [view.messages[place] is messages[index] for place, index in enumerate(view.origins)]
        [True, True, True, True]
    """

    messages: list[Any]
    system: Native
    tools: Native
    report: Report
    context: Context
    options: Mapping[str, Any] = field(factory=dict)
    origins: tuple[int | None, ...] = ()

    def __repr__(self) -> str:
        """One line, without what is said in the messages: how much there is of what."""
        tools, report = len(self.context.tools), self.report
        room = "" if report.limit is None else f" of {report.limit:,}"
        return f"<View: {len(self.messages)} messages, {tools} tools, {report.tokens_after:,}{room} tokens>"


def report_text(report: Report, *, most: int = _MOST_CHANGES) -> str:
    """What happened to a request, for people: one line for the request, then each stage and each change.

    Args:
        report: The report of a view.
        most: The most changes to list for a stage; the rest is counted.
    """
    lines = [_headline(report)]
    if report.first_changed is not None:
        lines.append(_moved(report))
    if report.acted and report.first_changed is not None and report.forecast is not None:
        lines.append(f"cost: {report.forecast}")
    acted = [stage for stage in report.stages if stage.acted]
    for stage in acted:
        lines += _stage_lines(stage, most)
    earlier = len(report.in_force) - len(report.changes)
    if earlier > 0:
        lines.append(f"{earlier} more {_plural(earlier, 'change')} from earlier steps still in force")
    if not acted and earlier <= 0:
        lines.append("nothing was changed")
    return printable("\n".join(lines))


def _headline(report: Report) -> str:
    limit = "" if report.limit is None else f", {report.limit:,} allowed"
    return (
        f"{report.messages_before} -> {report.messages_after} {_plural(report.messages_after, 'message')}, "
        f"{report.tokens_before:,} -> {report.tokens_after:,} tokens{limit}, {1000 * report.seconds:.1f} ms"
    )


def _moved(report: Report) -> str:
    again = f", {report.rebilled_tokens:,} tokens to be billed again" if report.rebilled_tokens else ""
    return f"first message that differs: {report.first_changed}{again}"


def _stage_lines(stage: StageReport, most: int) -> list[str]:
    lines = [f"{stage.stage}: {stage.tokens_before:,} -> {stage.tokens_after:,} tokens"]
    lines += [f"  {note}" for note in stage.notes]
    lines += [f"  {head_text(change)}" for change in stage.head]
    lines += [f"  {change_text(change)}" for change in stage.changes[:most]]
    if len(stage.changes) > most:
        lines.append(f"  and {len(stage.changes) - most} more")
    return lines


def change_text(change: Change) -> str:
    """One change on one line: what became of which message, its size, why, and where the original is kept."""
    size = f"{change.tokens_before:,} -> {change.tokens_after:,} tokens"
    if change.outcome is Outcome.ADDED:
        size = f"{change.tokens_after:,} tokens"
    elif not change.tokens_after:
        size = f"{change.tokens_before:,} tokens"
    kept = f" [original: {change.handle}]" if change.handle else ""
    why = f": {change.reason}" if change.reason else ""
    return f"{change.outcome} message {change.index} ({change.role}, {size}){why}{kept}"


def head_text(change: HeadChange) -> str:
    """One change before the messages on one line: what became of the system prompt, or of which tool, and why."""
    what = "system prompt" if change.place == "system" else change.place
    name = f" ({change.name})" if change.name else ""
    return f"{change.outcome} {what}{name}: {change.reason}"


def _plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"


@frozen
class StepPrepared:
    """A request was prepared: every one, also where nothing was changed.

    Args:
        view: What is to be sent, with its report.
        session: The session's id; None for a stateless call, or where it has none.
        step: The number of the session's step, from 0; None for a stateless call.
        model: The model's name; None when it is not known.
        format: The wire format, ``"anthropic"`` for example; None when it was not named and is not known.
        known_tokens: The size of the history that was passed at the session's step before, in tokens; 0 at the first.

    Example:
        >>> from agentctx import Pipeline
        >>> from agentctx.events import StepPrepared
        >>> events = []
        >>> view = await Pipeline(subscribers=[events.append]).prepare([{"role": "user", "content": "Hello"}])
        >>> isinstance(events[0], StepPrepared), events[0].report.tokens_after
        (True, 8)
    """

    view: View = field(repr=False)
    session: str | None = None
    step: int | None = None
    model: str | None = None
    format: str | None = None
    known_tokens: int = 0

    @property
    def report(self) -> Report:
        """What was done, with sizes in tokens and how long it took in seconds."""
        return self.view.report

    @property
    def compaction(self) -> Compaction | None:
        """What ``on_compact`` is told of the step; None where no stage did more than set cache markers."""
        report = self.report
        if all(stage.marks_only for stage in report.stages):
            return None
        return Compaction(
            tuple(stage for stage in report.stages if stage.acted),
            report.messages_before,
            report.messages_after,
            report.tokens_before,
            report.tokens_after,
            self.session,
            self.step,
            first_changed=report.first_changed,
            rebilled_tokens=report.rebilled_tokens,
        )


@frozen
class StepRefused:
    """A request could not be prepared: nothing of it was sent. A step that was cancelled is none.

    Args:
        error: What the caller was told: a ``ContextOverflow`` for example, or what a stage of the caller's raised.
        session: The session's id; None for a stateless call, or where it has none.
        model: The model's name; None when it is not known.

    Example:
        >>> from agentctx import ContextOverflow, Pipeline
        >>> events = []
        >>> pipeline = Pipeline(budget=20, subscribers=[events.append])
        >>> try:
        ...     await pipeline.prepare([{"role": "user", "content": "no " * 99}])
        ... except ContextOverflow:
        ...     print(type(events[0].error).__name__)
        ContextOverflow
    """

    error: BaseException
    session: str | None = None
    model: str | None = None


@frozen
class UsageRecorded:
    """A provider has billed a prompt.

    Args:
        usage: As the provider gave it, a dict or an SDK's object.
        billed: The size of the whole prompt in it, in tokens.
        sent: The size of the request by our own count, in tokens.
        session: The session's id, where it has one.
        model: The model's name; None when it is not known.
        format: The wire format; None when it could not be told.

    Example:
        >>> from agentctx import Pipeline
        >>> events = []
        >>> session = Pipeline(subscribers=[events.append]).session(model="gpt-5.4")
        >>> view = await session.prepare([{"role": "user", "content": "Hello"}])
        >>> session.record({"prompt_tokens": 9, "completion_tokens": 3})
        >>> events[-1].billed, events[-1].sent
        (9, 8)
    """

    usage: Native = field(repr=False)
    billed: int
    sent: int
    session: str | None = None
    model: str | None = None
    format: str | None = None


@frozen
class OverflowMet:
    """A provider has refused a request as too large, and a smaller one was looked for.

    Args:
        sent: The size of the refused request by our own count, in tokens.
        limit: What the session allows from now on, in tokens; None where nothing was learned.
        recovered: Whether there was a smaller request to send instead.
        session: The session's id, where it has one.
        model: The model's name; None when it is not known.

    Example:
        >>> from agentctx import Pipeline
        >>> events = []
        >>> session = Pipeline(subscribers=[events.append]).session(model="gpt-5.4")
        >>> view = await session.prepare([{"role": "user", "content": "Hello"}])
        >>> smaller = await session.recover(ValueError("maximum context length is 5 tokens"))
        >>> events[-1].recovered
        False
    """

    sent: int
    limit: int | None
    recovered: bool
    session: str | None = None
    model: str | None = None


@frozen
class SessionOpened:
    """A ``Sessions`` holds a session in memory from now on. One of ``Pipeline.session`` is the caller's, and not told.

    Args:
        name: The conversation's name.
        loaded: Whether its state was had back; else it begins.

    Example:
        >>> from agentctx import Pipeline, Sessions
        >>> events = []
        >>> sessions = Sessions(Pipeline(subscribers=[events.append]))
        >>> async with sessions.open("thread-42"):
        ...     events
        [SessionOpened(name='thread-42', loaded=False)]
    """

    name: Hashable
    loaded: bool


@frozen
class SessionClosed:
    """A ``Sessions`` no longer holds a session in memory.

    Args:
        name: The conversation's name.
        why: ``"capacity"``: there were too many; ``"idle"``: it was unused for too long; ``"closed"``: it was asked
            for.

    Example:
        >>> from agentctx import Pipeline, Sessions
        >>> events = []
        >>> sessions = Sessions(Pipeline(subscribers=[events.append]))
        >>> async with sessions.open("thread-42"):
        ...     pass
        >>> await sessions.close("thread-42")
        >>> events[-1]
        SessionClosed(name='thread-42', why='closed')
    """

    name: Hashable
    why: str


@frozen
class SessionSaved:
    """A session's state was written to the store that it is kept in.

    Args:
        name: The conversation's name.
        written: What this save wrote, in bytes.
        bytes: What the store has of the session with it, in bytes.

    Example:
        >>> from agentctx import Pipeline, Sessions
        >>> from agentctx.events import SessionSaved
        >>> from agentctx.stores import MemoryStore
        >>> events = []
        >>> sessions = Sessions(Pipeline(subscribers=[events.append]), MemoryStore())
        >>> async with sessions.open("thread-42") as session:
        ...     view = await session.prepare([{"role": "user", "content": "Hello"}])
        >>> (saved,) = [event for event in events if isinstance(event, SessionSaved)]
        >>> saved.name, 0 < saved.written <= saved.bytes
        ('thread-42', True)
    """

    name: str
    written: int
    bytes: int


Event = (
    StepPrepared
    | StepRefused
    | UsageRecorded
    | OverflowMet
    | SilentTruncationSuspected
    | SessionOpened
    | SessionSaved
    | SessionClosed
)
"""What a subscriber may be told. There may be more kinds later: pass over what you do not know."""
