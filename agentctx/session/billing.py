"""What the provider's usage says beside its numbers: whether it read the prompt that was sent at all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import frozen

from agentctx.core.event import SilentTruncationSuspected
from agentctx.core.message import Message
from agentctx.core.parts import Media, Opaque, Part, Thinking, ToolResult
from agentctx.core.report import StageReport
from agentctx.economics.truncation import SHARE, Suspicion, leaves_out_cached, suspect_truncation
from agentctx.protocols import Meter
from agentctx.session.allowance import Allowance
from agentctx.session.surroundings import Surroundings
from agentctx.session.usage import output_tokens


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
    usage: Any,  # noqa: ANN401 - a dict or any SDK's usage object
    billed: int,
    allowance: Allowance,
    around: Surroundings,
    view: Iterable[Message],
    *,
    sent: int,
    fresh: int,
) -> Judgement:
    """Whether the provider seems to have cut the prompt that ``usage`` bills, or left a part out of the bill.

    Args:
        usage: The response's usage.
        billed: The size of the prompt in it, in tokens.
        allowance: How the provider counts, compared to us.
        around: What is known beside the messages.
        view: The messages that were sent.
        sent: The prompt by our own count, in tokens.
        fresh: Tokens of it that the prompt before did not have.
    """
    calibration, profile = allowance.calibration, around.source.profile
    expected = calibration.expected(sent)
    output = output_tokens(usage)
    window = None if profile is None else profile.window
    calibrated = calibration.anchor is not None
    uncertain = 0
    if billed < SHARE * expected:  # rare: only then it is worth the look at all messages
        uncertain = sum(_uncertain(message.parts, around.source.meter) for message in view)
        uncertain += 0 if calibrated else around.fixed  # tools may be deferred, and schemas are written in many ways
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
    doubt: Suspicion, around: Surroundings | None, messages: int, session: str | None, step: int
) -> SilentTruncationSuspected:
    """The event that tells of a suspicion.

    Args:
        doubt: The suspicion.
        around: What is known beside the messages.
        messages: How many messages were sent.
        session: The session's id.
        step: The number of the step whose prompt was cut.
    """
    profile = None if around is None else around.source.profile
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
