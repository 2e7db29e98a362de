"""Ask a caller's clock: what tells no time is named."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite

from agentctx.errors import AgentctxError, ConfigError
from agentctx.printable import shown


def time_of(clock: Callable[[], float], whose: str) -> float:
    """What a clock says.

    Args:
        clock: Tells the time, as a finite number.
        whose: Who asks it, for the error.

    Raises:
        ConfigError: If it raises, or tells none.
    """
    try:
        now: object = clock()
    except AgentctxError:
        raise
    except Exception as error:
        msg = f"{whose}: the clock {clock!r} raised {type(error).__name__}: {error}"
        raise ConfigError(msg) from error
    if isinstance(now, bool) or not isinstance(now, (int, float)) or not _is_finite(now):
        msg = f"{whose}: the clock {clock!r} gave {shown(now)}; expected seconds, as a finite number"
        raise ConfigError(msg)
    return now


def _is_finite(number: float) -> bool:
    try:
        return isfinite(number)
    except OverflowError:  # an integer larger than any float
        return False
