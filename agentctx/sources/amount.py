"""Options of sources that are whole numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentctx.errors import ConfigError


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
