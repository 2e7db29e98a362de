"""When to compact, by what it costs: conditions for ``when``."""

from __future__ import annotations

from agentctx.condition import Condition
from agentctx.core.forecast import Forecast
from agentctx.core.message import Context
from agentctx.core.protection import first_task, system_messages
from agentctx.economics.payback import Cut, forecast
from agentctx.errors import ConfigError
from agentctx.protocols import Call

LUKEWARM = 0.5
"""Below this believed share of the last request the cache counts as cold."""


def cache_cold() -> Condition:
    """True when the provider's cache is believed to have lapsed: what is sent is written anew anyway.

    Reads ``call.warmth``: the session knows when the last request was sent, a stateless call knows of no cache.
    """
    return Condition(lambda _context, call: call.warmth < LUKEWARM, "cache_cold()")


def pays_back(within: int) -> Condition:
    """True when cutting the context down to the call's limit has paid for itself after ``within`` more calls.

    Never true while there is nothing to cut. Needs a model whose prices are known.

    Args:
        within: How many calls the conversation is expected to go on with the cut history, at least.

    Raises:
        ConfigError: If ``within`` is below 1; at run time, if no model was named or its prices are not known.
    """
    if isinstance(within, bool) or within < 1:
        msg = f"pays_back: within must be at least 1 call, got {within!r}"
        raise ConfigError(msg)

    def test(context: Context, call: Call) -> bool:
        expected = expected_forecast(context, call)
        return expected is not None and expected.pays_back(within)

    return Condition(test, f"pays_back(within={within})")


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
    if call.profile is None:
        msg = "pays_back: what a cut costs depends on the model: pass model=... to prepare or session"
        raise ConfigError(msg)
    head = min(_head(context, call), call.limit)
    cut = Cut(head=head, kept=call.limit - head, dropped=size - call.limit)
    return forecast(call.profile, cut, call.warmth)


def _head(context: Context, call: Call) -> int:
    """Tokens of what no stage may cut and every request begins with."""
    fixed = {*system_messages(context.messages), *first_task(context.messages)}
    leading = next((place for place in range(len(context.messages)) if place not in fixed), len(context.messages))
    return call.meter.fixed(context) + sum(call.count(message) for message in context.messages[:leading])
