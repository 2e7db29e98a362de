"""What preparing a request saved, against sending everything."""

from __future__ import annotations

from attrs import frozen

from agentctx.core.events import StepPrepared
from agentctx.economics.conditions import Request, compared
from agentctx.errors import ConfigError
from agentctx.models.table import find


@frozen
class Saved:
    """What one request takes less than the whole history would.

    Args:
        tokens: Input tokens that are not sent.
        usd: What the input costs less, in USD, while the prompt cache holds what the request before had sent; negative
            where a cut makes this call dearer, to make the later ones cheaper. None where no model was named, or its
            prices are not known.

    Example:
        >>> from agentctx.sinks import Saved
        >>> Saved(tokens=1_200, usd=0.0036).tokens
        1200
    """

    tokens: int
    usd: float | None


def saved(event: StepPrepared) -> Saved:
    """What the request of a step saved.

    Args:
        event: What a sink was told of the step.

    Example:
        >>> from agentctx import Pipeline
        >>> from agentctx.sinks import saved
        >>> def tell(event):
        ...     print(saved(event))
        >>> view = await Pipeline(sinks=[tell]).prepare([{"role": "user", "content": "Hello"}], model="gpt-5.4")
        Saved(tokens=0, usd=0.0)
    """
    report = event.report
    before, after = report.tokens_before, report.tokens_after - report.cleared_tokens
    known = event.known_tokens or report.prefix_tokens  # of a session that was loaded, what was sent is known alone
    whole, sent = Request(before, min(before, known)), Request(after, min(after, report.prefix_tokens))
    return Saved(before - after, _usd(event.model, whole, sent))


def _usd(name: str | None, whole: Request, sent: Request) -> float | None:
    model = None if name is None else find(name)
    if model is None:
        return None
    try:
        reckoned = compared(model, whole, sent)
    except ConfigError:  # it has no prices
        return None
    return reckoned.without - reckoned.with_cut
