"""How large a prompt was, by the provider's own count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from attrs import frozen

from agentctx.core.message import Media, Message, Native, Opaque, Part, Thinking, ToolResult
from agentctx.core.report import SilentTruncationSuspected, StageReport
from agentctx.economics.truncation import SHARE, Suspicion, leaves_out_cached, suspect_truncation
from agentctx.engine.listeners import logger
from agentctx.errors import InvalidInput
from agentctx.protocols import Meter
from agentctx.providers.registry import usage_keys
from agentctx.session.learned_limits import LearnedLimits
from agentctx.session.step_context import StepContext
from agentctx.tokens.overheads import serialise
from agentctx.wire_format import UsageKeys


@frozen
class Judgement:
    """What a report of usage is worth.

    Args:
        doubt: Why the prompt was probably cut; None when it was not.
        whole: Whether the whole prompt is billed, so that something can be learned from its size.
    """

    doubt: Suspicion | None = None
    whole: bool = True


def judge(
    usage: Native,
    billed: int,
    limits: LearnedLimits,
    ctx: StepContext,
    view: Iterable[Message],
    *,
    sent: int,
    new_tokens: int,
    cleared: int = 0,
) -> Judgement:
    """Whether the provider seems to have cut the prompt that ``usage`` bills, or left a part out of the bill.

    Args:
        usage: The response's usage.
        billed: The size of the prompt in it, in tokens.
        limits: How the provider counts, compared to us.
        ctx: What is known beside the messages.
        view: The messages that were sent.
        sent: The prompt by our own count, in tokens.
        new_tokens: Tokens of it that the prompt before did not have.
        cleared: Tokens that the provider has cleared of it, as it was asked to: they are billed to nobody.
    """
    billed += cleared
    calibration, profile = limits.calibration, ctx.reader.profile
    expected = calibration.expected(sent)
    output = output_tokens(usage)
    window = None if profile is None or cleared else profile.window
    calibrated = calibration.anchor is not None
    uncertain = 0
    if billed < SHARE * expected:  # rare: only then it is worth the look at all messages
        uncertain = sum(_uncertain(message.parts, ctx.reader.meter) for message in view)
        uncertain += 0 if calibrated else ctx.head_tokens  # tools may be deferred, and schemas are written in many ways
    new = round(new_tokens * expected / max(1, sent))
    doubt = suspect_truncation(
        billed,
        expected,
        fresh=new,
        uncertain=round(uncertain * expected / max(1, sent)),
        calibrated=calibrated,
        window=window,
        output=output,
        stopped_by_length=output == 0,
    )
    return Judgement(doubt, doubt is None and not leaves_out_cached(billed, expected, new))


def suspected(
    doubt: Suspicion, ctx: StepContext | None, messages: int, session: str | None, step: int
) -> SilentTruncationSuspected:
    """The event that tells of a suspicion.

    Args:
        doubt: The suspicion.
        ctx: What is known beside the messages.
        messages: How many messages were sent.
        session: The session's id.
        step: The number of the step whose prompt was cut.
    """
    profile = None if ctx is None else ctx.reader.profile
    said = StageReport("server", (), doubt.sent, doubt.billed, 0.0, (doubt.why,))
    window = None if profile is None else profile.window
    return SilentTruncationSuspected(
        (said,), messages, messages, doubt.sent, doubt.billed, session, step, why=doubt.why, window=window
    )


def _uncertain(parts: Iterable[Part], meter: Meter) -> int:
    """Tokens of parts that providers count in ways of their own, or drop: media, reasoning, what we cannot read."""
    unclear = [part for part in parts if isinstance(part, (Media, Opaque, Thinking))]
    within = sum(_uncertain(part.content, meter) for part in parts if isinstance(part, ToolResult))
    return within + (meter.parts(unclear) if unclear else 0)


MOST = 2**32 - 1
"""The largest number of tokens that is believed."""


@frozen
class _Keys:
    """The keys of all providers.

    Args:
        prompt: Those of prompts, each with the parts to add; with none it is the whole prompt.
        answer: Those of answers.
        summing: Those of the providers that may sum several prompts.
    """

    prompt: Mapping[str, tuple[str, ...]]
    answer: tuple[str, ...]
    summing: tuple[UsageKeys, ...]


def _keys() -> _Keys:
    return _merged(usage_keys())


@cache
def _merged(every: tuple[UsageKeys, ...]) -> _Keys:
    """The keys of several formats, those that tell of a whole prompt first."""
    parts: dict[str, tuple[str, ...]] = {name: () for keys in every for name in keys.prompt}
    parts |= {name: keys.parts for keys in every if keys.parts for name in keys.prompt}
    whole_first = dict(sorted(parts.items(), key=lambda one: bool(one[1])))
    answer = tuple(dict.fromkeys(name for keys in every for name in keys.answer))
    return _Keys(whole_first, answer, tuple(keys for keys in every if keys.rounds))


def prompt_tokens(usage: Native) -> int | None:
    """The tokens of the whole prompt, cached parts included, from any provider's ``usage``; None when it is not told.

    Some report the whole prompt, others its parts, which are added up. It is not told where there is no usage at all or
    an empty one, where the field is empty or 0, and where only the answer was counted, as Ollama does when the prompt
    was cached. One that raises when it is read tells nothing, either; that is said in the log, once for each kind.

    Raises:
        InvalidInput: If it is no usage, or has a number that no prompt can have.
    """
    if usage is None or not _is_readable(usage) or (isinstance(usage, Mapping) and not usage):
        return None
    total = _total(usage)
    if total is None and not _leaves_it_out(usage):
        shown = serialise(usage)[:200]
        raise InvalidInput("usage", f"no prompt token count in it; pass the response's usage, not {shown}")
    return total or None


def _is_readable(usage: Native) -> bool:
    """Whether everything that is looked at can be: the properties of an object are somebody's own code."""
    try:
        known = _keys()
        for name in (*known.prompt, *(part for parts in known.prompt.values() for part in parts), *known.answer):
            _value(usage, name)
        for keys in known.summing:
            _value(usage, keys.rounds)
            tools = _value(usage, keys.server_tools[0])
            for name in keys.server_tools[1]:
                _value(tools, name)
    except Exception as error:  # noqa: BLE001 - the answer is paid for: it must not be lost over its bill
        _say_unreadable(f"{type(usage).__module__}.{type(usage).__qualname__}", type(error).__name__)
        return False
    return True


@cache
def _say_unreadable(kind: str, error: str) -> None:
    logger.warning("a usage teaches nothing: reading %s raised %s; pass the usage of the response itself", kind, error)


def _total(usage: Native) -> int | None:
    for name, parts in _keys().prompt.items():
        if (amount := _field(usage, name)) is not None:
            return amount + sum(_field(usage, part) or 0 for part in parts)
    return None


def _leaves_it_out(usage: Native) -> bool:
    """Whether it is a usage that does not say how large the prompt was, and says nothing impossible of it either."""
    known = _keys().prompt
    empty = all(_value(usage, name) is None for name in known)
    named = isinstance(usage, Mapping) and any(name in usage for name in known)
    return empty and (named or output_tokens(usage) is not None or any(hasattr(usage, name) for name in known))


def cleared_tokens(applied_edits: Native) -> int:
    """The tokens that a provider says it cleared of a prompt, in all of its edits.

    Raises:
        InvalidInput: If these are no edits, or one has a number that no prompt can have.
    """
    edits = applied_edits if isinstance(applied_edits, Sequence) and not isinstance(applied_edits, str) else None
    amounts = [None] if edits is None else [_field(edit, "cleared_input_tokens") for edit in edits]
    if None in amounts:
        what = "expected context_management.applied_edits of the response, each with its cleared_input_tokens"
        raise InvalidInput("applied_edits", what)
    return sum(amount or 0 for amount in amounts)


def is_one_prompt(usage: Native) -> bool:
    """Whether ``usage`` is that of one prompt: with server tools or compaction, some sum several rounds."""
    return all(_is_one(usage, keys) for keys in _keys().summing)


def _is_one(usage: Native, keys: UsageKeys) -> bool:
    rounds, tools = _value(usage, keys.rounds), _value(usage, keys.server_tools[0])
    if tools is not None and any(_field(tools, name) for name in keys.server_tools[1]):
        return False
    return not isinstance(rounds, Sequence) or len(rounds) < 2


def _field(usage: Native, name: str) -> int | None:
    value = _value(usage, name)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON knows one kind of number
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST else None


def output_tokens(usage: Native) -> int | None:
    """The tokens of the answer, as the provider calls them; None when it does not say."""
    return next((amount for name in _keys().answer if (amount := _field(usage, name)) is not None), None)


def _value(usage: Native, name: str) -> Native:
    return usage.get(name) if isinstance(usage, Mapping) else getattr(usage, name, None)
