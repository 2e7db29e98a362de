"""When to compact, by what it costs: conditions for ``when``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentctx.condition import Condition
from agentctx.core.forecast import Forecast
from agentctx.core.message import Context, Message
from agentctx.core.profile import ModelProfile
from agentctx.core.protection import says_something, system_messages
from agentctx.economics.payback import Cut, Request, compared, forecast
from agentctx.errors import ConfigError
from agentctx.protocols import Call

LUKEWARM = 0.5
"""Below this believed share of the last request the cache counts as cold."""


def cache_cold() -> Condition:
    """True when the provider's cache is believed to have lapsed: what is sent is written anew anyway.

    Asked at every step of a session. Reads ``call.warmth``: the session knows when the last request was sent, a
    stateless call knows of no cache.
    """
    return Condition(lambda _context, call: call.warmth < LUKEWARM, "cache_cold()", every_step=True)


def pays_back(within: int) -> Condition:
    """True when cutting the context down to the budget's target has paid for itself after ``within`` calls.

    What the stages then really made of it is judged once more: a cut that turns out too small, or too dear for what
    it frees, is not made, so that what is freed little by little is cut in few large steps. Always true while the
    request does not fit, for then something has to go; never while there is nothing to cut. A session asks
    at every step, whenever the stages would run alone. Needs a budget, and a model whose prices are known.

    Args:
        within: How many calls the conversation is expected to go on with the cut history, at least.

    Raises:
        ConfigError: If ``within`` is no whole number of at least 1; at run time, if no model was named or its prices
            are not known.
    """
    if isinstance(within, bool) or not isinstance(within, int) or within < 1:
        msg = f"pays_back: within must be a whole number of calls, at least 1, got {within!r}"
        raise ConfigError(msg)

    def test(context: Context, call: Call) -> bool:
        expected = expected_forecast(context, call.aiming_lower(call.size(context)))
        return expected is not None and (expected.pays_back(within) or _too_large(context, call))

    def approval(before: Context, after: Context, call: Call) -> bool:
        made = made_forecast(before, after, call)
        return made is not None and (made.pays_back(within) or _too_large(before, call))

    return Condition(test, f"pays_back(within={within})", approval, every_step=True)


def expected_forecast(context: Context, call: Call) -> Forecast | None:
    """What cutting the context down to the call's limit would do to the bill; None when there is nothing to cut.

    Taken for certain: what stands before the first cut is what is never cut, the system prompt, the tools and the
    first task, and the rest that stays has to be written again. A cut that begins later costs less than this.

    Raises:
        ConfigError: If no model was named, or the model table has no prices for it.
    """
    size = call.size(context)
    if call.limit is None or size <= call.limit:
        return None
    head = min(_head(context, call), call.limit)
    cut = Cut(head=head, kept=call.limit - head, dropped=size - call.limit)
    return forecast(_model(call), cut, call.warmth)


def made_forecast(before: Context, after: Context, call: Call) -> Forecast | None:
    """What sending ``after`` in the place of ``before`` does to the bill; None when it is no smaller.

    Raises:
        ConfigError: If no model was named, or the model table has no prices for it.
    """
    size, smaller = call.size(before), call.size(after)
    if smaller >= size:
        return None
    intact = before.tools == after.tools and before.system == after.system
    same = _shared(before.messages, after.messages) if intact else ()
    known = call.meter.fixed(after) + sum(map(call.count, same)) if intact else 0
    return compared(_model(call), Request(size, size), Request(smaller, known), call.warmth)


def _shared(before: Sequence[Message], after: Sequence[Message]) -> Iterator[Message]:
    """The messages at the start that are the same in both."""
    for old, new in zip(before, after, strict=False):
        if old is not new and old != new:
            return
        yield new


def _too_large(context: Context, call: Call) -> bool:
    return call.budget is not None and call.size(context) > call.budget.limit


def _model(call: Call) -> ModelProfile:
    if call.profile is None:
        msg = "pays_back: what a cut costs depends on the model: pass model=... to prepare or session"
        raise ConfigError(msg)
    return call.profile


def _head(context: Context, call: Call) -> int:
    """Tokens of what no stage may cut and every request begins with."""
    return call.meter.fixed(context) + sum(map(call.count, _leading(context.messages)))


def _leading(messages: Sequence[Message]) -> Iterator[Message]:
    """The messages before the first that is neither a system message nor the first task."""
    begun = False
    for message in messages:
        if not system_messages((message,)):
            if begun or not says_something(message):
                return
            begun = True
        yield message
