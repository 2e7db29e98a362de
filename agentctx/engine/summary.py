"""A summary that is asked for with care: without secrets, in parts that the summarizer can take, and taken only whole.

What is no summary (no text, nothing, too much, a tool call, a refusal, an error, half of one) is never put into a
request: it raises ``SummaryError``, and whoever has asked goes another way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial

import anyio
from attrs import evolve, field, frozen

from agentctx.core.message import Media, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.core.recap import Recap, is_recap, recap_of
from agentctx.core.secrets import Redactor, failing_closed, redact_secrets
from agentctx.core.units import units
from agentctx.engine.drop import tokens_of
from agentctx.engine.no_summary import alone, flaw, strangeness, without_thoughts
from agentctx.engine.record import SUMMARY, SummaryRecord, record_in
from agentctx.engine.run_stages import answered
from agentctx.engine.shrink import Cut, cut_to_tokens
from agentctx.errors import ContextOverflow, SummaryError
from agentctx.offload import offload
from agentctx.protocols import Call, Summarizer, name_of
from agentctx.providers.native import clean_text
from agentctx.providers.overflow import classify_error

PATIENCE = 120.0
"""Seconds that a step waits for one answer of a summarizer which says nothing else."""

SMALLEST_PART = 256
"""Tokens; a part of the messages that does not fit into the summarizer's window is not halved below it."""


@frozen
class Asking:
    """A summarizer and how it is asked.

    Args:
        summarizer: Finds the words.
        redact: Takes secrets out of what goes to it, and out of what it says.
        window: Tokens that it can take in at once, with its answer; None: as it says itself, else any number.
        timeout: Seconds for one answer; None: as it says itself, else ``PATIENCE``.
    """

    summarizer: Summarizer
    redact: Redactor = redact_secrets
    window: int | None = field(default=None)
    timeout: float | None = field(default=None)

    async def words(self, messages: Sequence[Message], most: int, call: Call, stage: str) -> str:
        """What the messages say in about ``most`` tokens, the earlier record among them brought up to date.

        Where they are more than the summarizer can take in, it is given one part after another, each with the record
        of those before; a part that is too large all the same is halved.

        Raises:
            SummaryError: If there is no summary.
            Exception: What the summarizer raises.
        """
        characters = sum(map(call.meter.weight, messages))
        told = await offload(partial(self._without_secrets, tuple(messages)), len(messages), characters)
        window = self.window or getattr(self.summarizer, "window", None)
        room = None if window is None else max(SMALLEST_PART, window - most)
        waiting, record = list(_split(told, room, call)), record_in(told)
        while waiting:
            part = (*_standing(record, told), *waiting[0])
            try:
                record = record.updated(await self._asked(part, most, call, stage))
            except Exception as error:
                tokens = tokens_of(waiting[0], call)
                if not _is_overflow(error) or tokens <= SMALLEST_PART:
                    raise
                waiting[:1] = _split(waiting[0], max(SMALLEST_PART, tokens // 2), call)
                continue
            waiting.pop(0)
        return record.text

    def _without_secrets(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        redact = failing_closed(self.redact, SummaryError)
        return tuple(_redacted(message, redact) for message in messages)

    async def _asked(self, messages: Sequence[Message], most: int, call: Call, stage: str) -> SummaryRecord:
        """The record that the summarizer makes of the messages."""
        name = f"{name_of(self.summarizer)} of {stage}"
        text: object = await self._in_time(answered(name, self.summarizer(messages, most)))
        if not isinstance(text, str):
            msg = f"the summarizer returned {type(text).__name__} instead of text"
            raise SummaryError(msg)
        text = without_thoughts(text)
        if problem := flaw(text) or await self._problem(text, messages, call):
            raise SummaryError(problem)
        told = await offload(partial(failing_closed(self.redact, SummaryError), clean_text(text)), 1, len(text))
        return SummaryRecord.read(_without_unknown_handles(told, messages, call))

    async def _problem(self, text: str, messages: Sequence[Message], call: Call) -> str:
        """Why a text is no summary of the messages; empty when it is one."""
        tokens = tokens_of(messages, call)
        if call.counter.count(text) > tokens:
            return "the summary is longer than what it stands for"
        if not alone(text):
            return ""
        record = getattr(self.summarizer, "writes_record", False) is True
        return await offload(partial(strangeness, text, messages, record=record), len(messages), 4 * tokens)

    async def _in_time(self, answer: Awaitable[object]) -> object:
        """The answer, which is not waited for longer than is said."""
        seconds = self.timeout or getattr(self.summarizer, "timeout", None) or PATIENCE
        with anyio.move_on_after(seconds):
            return await answer
        msg = f"no answer within {seconds:g} seconds"
        raise TimeoutError(msg)


UNKNOWN = "an unknown handle"
"""What stands in a summary for a handle that its summarizer has made up."""


def _without_unknown_handles(text: str, given: Sequence[Message], call: Call) -> str:
    """A summary without handles for the recall tool that stood nowhere in what its summarizer was given."""
    tool = None if call.shelf is None else call.shelf.tool
    if tool is None or tool not in text:
        return text
    texts = [part.text for message in given for part in _texts(message.parts) if isinstance(part, Text)]
    known = "\n".join([*texts, *(each.arguments for message in given for each in message.calls)])

    def checked(found: re.Match[str]) -> str:
        return found[0] if found["handle"] in known else UNKNOWN

    pattern = rf"\b{re.escape(tool)} (?P<handle>(?=[\w:./-]*\d|[a-f]{{16}})[\w:./-]{{8,}})(?:#\d+)?"
    return re.sub(pattern, checked, text)


def _is_overflow(error: Exception) -> bool:
    return isinstance(error, ContextOverflow) or classify_error(error) is not None


def _standing(record: SummaryRecord, told: Sequence[Message]) -> Iterator[Message]:
    """The recap with what is known so far; the counts are those of the recap that was there."""
    if record.text:
        known = next(filter(None, map(recap_of, told)), Recap())
        yield known.with_section(SUMMARY, record.text).written()


def _split(messages: Sequence[Message], room: int | None, call: Call) -> Iterator[tuple[Message, ...]]:
    """The messages without their recaps in parts of at most ``room`` tokens, whole units each; a large unit is cut."""
    plain = tuple(message for message in messages if not is_recap(message))
    if room is None:
        yield plain or tuple(messages)
        return
    part: list[Message] = []
    for unit in units(plain):
        group = _of_size(unit.of(plain), room, call)
        if part and tokens_of((*part, *group), call) > room:
            yield tuple(part)
            part = []
        part += group
    yield tuple(part)


def _of_size(group: Sequence[Message], room: int, call: Call) -> Sequence[Message]:
    """The messages of a unit, each text of them cut to its share of the room when they are too large together."""
    if tokens_of(group, call) <= room:
        return group
    texts = sum(1 for message in group for _ in _texts(message.parts))
    share = max(8, room // (2 * max(1, texts)))
    return [_redacted(message, lambda text: cut_to_tokens(text, share, call.counter, Cut())) for message in group]


def _texts(parts: Sequence[Part]) -> Iterator[Part]:
    for part in parts:
        yield from _texts(part.content) if isinstance(part, ToolResult) else (part,)


def _redacted(message: Message, redact: Callable[[str], str]) -> Message:
    """The message with all its texts written anew; the same object when none changes, else without its payload."""
    recap = recap_of(message)
    if recap is not None:
        sections = {redact(heading): redact(text) for heading, text in recap.sections.items()}
        return evolve(recap, sections=sections).written()
    parts = _parts(message.parts, redact)
    return message if parts == message.parts else Message(message.role, parts)


def _parts(parts: Sequence[Part], redact: Callable[[str], str]) -> tuple[Part, ...]:
    return tuple(told for part in parts if (told := _part(part, redact)) is not None)


def _part(part: Part, redact: Callable[[str], str]) -> Part | None:
    """A part with its texts written anew; None for reasoning, or what is not understood, of which something changes."""
    match part:
        case Text():
            told = redact(part.text)
            return part if told == part.text else Text(told)
        case ToolCall():
            told = redact(part.arguments)
            return part if told == part.arguments else ToolCall(part.id, part.name, told)
        case ToolResult():
            content = _parts(part.content, redact)
            return part if content == part.content else ToolResult(part.call_id, content, part.name, part.is_error)
        case Thinking():
            return part if redact(part.text) == part.text else None
        case Opaque():
            told = json.dumps(part.data, default=str)
            return part if redact(told) == told else None
        case Media():
            return part if redact(part.words) == part.words else None
