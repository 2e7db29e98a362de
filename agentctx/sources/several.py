"""Options of sources that are several texts."""

from __future__ import annotations

from collections.abc import Iterable

from agentctx.errors import ConfigError


def several(option: str, given: object) -> tuple[str, ...]:
    """The texts of an option.

    Args:
        option: What the option is called, for the error.
        given: A list, tuple or set of texts.

    Raises:
        ConfigError: If it is anything else; one text alone would be taken apart into its letters.
    """
    texts = None if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)
    if texts is None or not all(isinstance(each, str) for each in texts):
        msg = f"{option}: expected a list of texts, got {given!r:.80}"
        raise ConfigError(msg)
    return texts
