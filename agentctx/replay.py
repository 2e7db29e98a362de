"""Walk through a recorded agent session: what would each model call have been sent?"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from time import perf_counter
from typing import Any

from attrs import evolve, field, frozen

from agentctx.core.changes import Change, Outcome
from agentctx.core.message import Message
from agentctx.core.report import View
from agentctx.economics.costs import Usage
from agentctx.engine.reading import Reader, as_list, reader
from agentctx.errors import ContextOverflow
from agentctx.pipeline import Pipeline
from agentctx.session.session import Session
from agentctx.wire_format import Validator, Violation


@frozen
class Billed:
    """What a provider billed for one model call of a recording.

    Args:
        index: Index of a message of the answer.
        usage: The tokens, as they were billed.
        model: The model that answered, when the recording names it.
        at: When, in seconds since 1970, when the recording says so.
        cost: What it cost in USD, when the recording itself says so.
    """

    index: int
    usage: Usage
    model: str | None = None
    at: float | None = None
    cost: float | None = None


@frozen
class Recording:
    """A recorded agent session, in its provider's own shape.

    Args:
        messages: The native messages, in order.
        system: The system prompt, where it is kept apart from the messages.
        tools: The native tool definitions.
        format: Name of the wire format; found out when not given.
        model: The model that was called, when the recording names it.
        id: The recording's name, when it has one.
        pending: Whether the messages were about to be sent, so that a last user message or tool result is one more
            model call.
        billed: What was billed for the model calls, in their order, as far as the recording says so.
    """

    messages: Sequence[Any] = field(repr=False)
    system: Any = field(default=None, repr=False)
    tools: Sequence[Any] | None = field(default=None, repr=False)
    format: str | None = None
    model: str | None = None
    id: str | None = None
    pending: bool = True
    billed: tuple[Billed, ...] = field(default=(), repr=False)


@frozen
class Step:
    """One model call of a recording, as it would have been sent.

    Args:
        number: The number of the call, from 1.
        index: How many messages of the recording the call saw: the answer stands at this index.
        fresh: Index of the first message that the call before had not seen.
        messages_given: Number of messages in the request as the loop had it.
        messages_sent: Number of messages that would have been sent; 0 when the request overflowed.
        tokens_given: Size of the request as the loop had it, in tokens.
        tokens_sent: Size of the request that would have been sent, in tokens, without what the provider was asked to
            clear of it by itself; 0 when it overflowed.
        prefix_tokens: Tokens at the start of the request that equal those of the call before.
        limit: The most tokens that the request could have, or None when there is no budget.
        changes: What this step changed that the steps before had not.
        violations: The provider's rules that the request sent would break.
        seconds: How long preparing it took.
        overflow: Why nothing could be sent, when the request could not be made to fit.
        view: The request that would have been sent; None when it overflowed.
    """

    number: int
    index: int
    fresh: int
    messages_given: int
    messages_sent: int = 0
    tokens_given: int = 0
    tokens_sent: int = 0
    prefix_tokens: int = 0
    limit: int | None = None
    changes: tuple[Change, ...] = ()
    violations: tuple[Violation, ...] = ()
    seconds: float = 0.0
    overflow: ContextOverflow | None = None
    view: View | None = field(default=None, eq=False, repr=False)

    @property
    def prefix_share(self) -> float:
        """The share of the request sent, 0 to 1, that is an unchanged start of the one before."""
        return self.prefix_tokens / self.tokens_sent if self.tokens_sent else 0.0

    @property
    def compacted(self) -> bool:
        """Whether messages that an earlier call had seen were changed, or any were left out; cache markers aside."""
        said = (change for change in self.changes if change.outcome not in (Outcome.MARKED, Outcome.KEPT))
        return any(change.outcome is Outcome.DROPPED or change.index < self.fresh for change in said)

    @property
    def valid(self) -> bool:
        """Whether the provider would take the request: it breaks no rule with severity ``"error"``."""
        return self.overflow is None and not any(found.severity == "error" for found in self.violations)

    @property
    def fits(self) -> bool:
        """Whether the request that would have been sent is within the budget."""
        return self.overflow is None and (self.limit is None or self.tokens_sent <= self.limit)

    def without_view(self) -> Step:
        """The same numbers without the messages, so that a long replay can be kept."""
        return evolve(self, view=None)


def model_calls(messages: Sequence[Any], format: str | None = None) -> list[int]:  # noqa: A002 - the contract's name
    """Where the model was called: each index at which an assistant turn begins.

    The call saw the messages before the index. A turn may be several messages (or items) of the assistant in a row.
    A recording that begins with the assistant has no call for that turn, since nothing was sent.

    Args:
        messages: The native messages of a recording.
        format: Name of the wire format; found out when not given.

    Raises:
        InvalidInput: If a message cannot be read.
    """
    if not messages:
        return []
    return turns(reader(messages, format=format).messages(messages))


def turns(messages: Sequence[Message]) -> list[int]:
    """Each index at which a turn of the assistant begins that something was sent for."""
    speaking = [message.role == "assistant" for message in messages]
    return [index for index in range(1, len(speaking)) if speaking[index] and not speaking[index - 1]]


def calls_of(recording: Recording, *, model: str | None = None) -> list[int]:
    """The model calls of a recording, as ``model_calls``, with the one that it was about to make.

    Args:
        recording: The recording.
        model: The model, when it is not the recorded one.

    Raises:
        InvalidInput: If a message cannot be read.
    """
    given = reader_of(recording, model).messages(as_list(recording.messages))
    calls = turns(given)
    waits = given[-1].role != "assistant"
    return [*calls, len(given)] if waits and (recording.pending or not calls) else calls


async def replay(recording: Recording, pipeline: Pipeline, *, model: str | None = None) -> AsyncIterator[Step]:
    """Send a recording through a session of the pipeline, model call by model call.

    A call whose request cannot be made to fit is a step with ``overflow``; the replay goes on.

    Args:
        recording: What was recorded.
        pipeline: What to put between the loop and the model.
        model: The model to prepare for; without it, the recorded one.

    Yields:
        One step for each model call.

    Raises:
        InvalidInput: If a message cannot be read.
        AmbiguousFormat: If several formats fit and none is named.
    """
    source = reader_of(recording, model)
    session = pipeline.session(model=model or recording.model, format=source.wire.name, id=recording.id)
    walk = _Walk(recording, source, session, source.wire.validator(source.profile))
    fresh = 0
    for number, index in enumerate(calls_of(recording, model=model), 1):
        yield await walk.step(number, index, fresh)
        fresh = index


def reader_of(recording: Recording, model: str | None = None) -> Reader:
    """Reads a recording: in its format, which is found out when it is not named, and as the model counts.

    Args:
        recording: The recording.
        model: The model, when it is not the recorded one.

    Raises:
        InvalidInput: If no format fits.
        AmbiguousFormat: If several formats fit and none is named.
    """
    return reader(
        as_list(recording.messages),
        system=recording.system,
        tools=recording.tools,
        format=recording.format,
        model=model or recording.model,
    )


@frozen
class _Walk:
    """What the steps of a replay share."""

    recording: Recording
    source: Reader
    session: Session
    validator: Validator

    async def step(self, number: int, index: int, fresh: int) -> Step:
        """The call that saw the first ``index`` messages, of which the call before had seen ``fresh``."""
        given = list(self.recording.messages[:index])
        started = perf_counter()
        try:
            view = await self.session.prepare(given, system=self.recording.system, tools=self.recording.tools)
        except ContextOverflow as overflow:
            return self.overflowed(Step(number, index, fresh, len(given)), given, overflow, perf_counter() - started)
        report, seconds = view.report, perf_counter() - started
        return Step(
            number=number,
            index=index,
            fresh=fresh,
            messages_given=report.messages_before,
            messages_sent=report.messages_after,
            tokens_given=report.tokens_before,
            tokens_sent=report.tokens_after - report.cleared_tokens,
            prefix_tokens=report.prefix_tokens,
            limit=report.limit,
            changes=report.changes,
            violations=self.violations(given, view),
            seconds=seconds,
            view=view,
        )

    def overflowed(self, step: Step, given: Sequence[Any], overflow: ContextOverflow, seconds: float) -> Step:
        """The step when nothing could be sent."""
        whole = self.source.context(given, self.recording.system, self.recording.tools)
        size = self.source.meter.size(whole)
        return evolve(step, tokens_given=size, limit=overflow.limit, overflow=overflow, seconds=seconds)

    def violations(self, given: Sequence[Any], view: View) -> tuple[Violation, ...]:
        """The provider's rules that the request sent would break."""
        wire, system = self.source.wire, self.recording.system
        request = wire.request(view.messages, system, view.tools)
        return self.validator(request, wire.request(given, system, self.recording.tools))
