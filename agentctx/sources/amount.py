"""Options of sources that are numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentctx.errors import ConfigError

_LONGEST = 1e9
"""The most seconds that can be waited for: any event loop can count so far."""


def amount(least: int, *, optional: bool = False) -> Callable[[object, Any, Any], None]:
    """A validator of attrs for a whole number.

    Args:
        least: The smallest that makes sense.
        optional: Whether None makes sense too.

    Raises:
        ConfigError: By the validator, for anything else; names the class and the option.
    """

    def check(instance: object, attribute: Any, value: Any) -> None:  # noqa: ANN401 - checked here
        if value is None and optional:
            return
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            wanted = f"a whole number of at least {least}{' or None' if optional else ''}"
            msg = f"{type(instance).__name__}: {attribute.name}: expected {wanted}, got {value!r:.80}"
            raise ConfigError(msg)

    return check


def seconds(instance: object, attribute: Any, value: Any) -> None:  # noqa: ANN401 - checked here
    """A validator of attrs for a time in seconds.

    Raises:
        ConfigError: If it is no positive number; names the class and the option.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= _LONGEST:
        msg = f"{type(instance).__name__}: {attribute.name}: expected a positive number of seconds, got {value!r:.80}"
        raise ConfigError(msg)
