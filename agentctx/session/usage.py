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
from agentctx.session.learned_limits import LearnedLimits
from agentctx.session.step_context import StepContext
from agentctx.tokens.overheads import serialise


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
    fresh: int,
) -> Judgement:
    """Whether the provider seems to have cut the prompt that ``usage`` bills, or left a part out of the bill.

    Args:
        usage: The response's usage.
        billed: The size of the prompt in it, in tokens.
        limits: How the provider counts, compared to us.
        ctx: What is known beside the messages.
        view: The messages that were sent.
        sent: The prompt by our own count, in tokens.
        fresh: Tokens of it that the prompt before did not have.
    """
    calibration, profile = limits.calibration, ctx.source.profile
    expected = calibration.expected(sent)
    output = output_tokens(usage)
    window = None if profile is None else profile.window
    calibrated = calibration.anchor is not None
    uncertain = 0
    if billed < SHARE * expected:  # rare: only then it is worth the look at all messages
        uncertain = sum(_uncertain(message.parts, ctx.source.meter) for message in view)
        uncertain += 0 if calibrated else ctx.fixed  # tools may be deferred, and schemas are written in many ways
    new = round(fresh * expected / max(1, sent))
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
    profile = None if ctx is None else ctx.source.profile
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

_INCLUSIVE = ("prompt_tokens", "promptTokenCount", "prompt_token_count", "prompt_eval_count")
_BEDROCK = ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens")
_OUTPUT = (
    "completion_tokens",
    "output_tokens",
    "outputTokens",
    "candidatesTokenCount",
    "candidates_token_count",
    "eval_count",
)
_SERVER_TOOLS = ("web_search_requests", "web_fetch_requests", "code_execution_requests", "tool_search_requests")
_ANTHROPIC_EXTRA = ("cache_creation_input_tokens", "cache_read_input_tokens")


def prompt_tokens(usage: Native) -> int | None:
    """The tokens of the whole prompt, cached parts included, from any provider's ``usage``; None when it is not told.

    OpenAI and Gemini report the whole prompt; Anthropic and Bedrock report its parts, which are added up. It is not
    told where there is no usage at all or an empty one, where the field is empty or 0, and where only the answer was
    counted, as Ollama does when the prompt was cached. One that raises when it is read tells nothing, either; that is
    said in the log, once for each kind.

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
        for name in (*_INCLUSIVE, *_BEDROCK, *_OUTPUT, *_ANTHROPIC_EXTRA, "input_tokens", "iterations"):
            _value(usage, name)
        tools = _value(usage, "server_tool_use")
        for name in _SERVER_TOOLS:
            _value(tools, name)
    except Exception as error:  # noqa: BLE001 - the answer is paid for: it must not be lost over its bill
        _say_unreadable(f"{type(usage).__module__}.{type(usage).__qualname__}", type(error).__name__)
        return False
    return True


@cache
def _say_unreadable(kind: str, error: str) -> None:
    logger.warning("a usage teaches nothing: reading %s raised %s; pass the usage of the response itself", kind, error)


def _total(usage: Native) -> int | None:
    known = next((amount for name in _INCLUSIVE if (amount := _field(usage, name)) is not None), None)
    if known is not None:
        return known
    for base, parts in ((_BEDROCK[0], _BEDROCK[1:]), ("input_tokens", _ANTHROPIC_EXTRA)):
        if (amount := _field(usage, base)) is not None:
            return amount + sum(_field(usage, name) or 0 for name in parts)
    return None


def _leaves_it_out(usage: Native) -> bool:
    """Whether it is a usage that does not say how large the prompt was, and says nothing impossible of it either."""
    known = (*_INCLUSIVE, _BEDROCK[0], "input_tokens")
    empty = all(_value(usage, name) is None for name in known)
    named = isinstance(usage, Mapping) and any(name in usage for name in known)
    return empty and (named or output_tokens(usage) is not None or any(hasattr(usage, name) for name in known))


def is_one_prompt(usage: Native) -> bool:
    """Whether ``usage`` is that of one prompt: with server tools or compaction, Anthropic sums several iterations."""
    rounds, tools = _value(usage, "iterations"), _value(usage, "server_tool_use")
    if tools is not None and any(_field(tools, name) for name in _SERVER_TOOLS):
        return False
    return not isinstance(rounds, Sequence) or len(rounds) < 2


def _field(usage: Native, name: str) -> int | None:
    value = _value(usage, name)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON knows one kind of number
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST else None


def output_tokens(usage: Native) -> int | None:
    """The tokens of the answer, as the provider calls them; None when it does not say."""
    return next((amount for name in _OUTPUT if (amount := _field(usage, name)) is not None), None)


def _value(usage: Native, name: str) -> Native:
    return usage.get(name) if isinstance(usage, Mapping) else getattr(usage, name, None)
