"""Where model profiles are looked up: the table registers itself here, so that values need not import it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from agentctx.core.profile import ModelProfile

Lookup = Callable[[str], ModelProfile]

TABLE = "agentctx.tokens.models"
"""Registers itself; imported when it is first asked, if nothing has imported it before."""

_lookups: list[Lookup] = []


def register_lookup(lookup: Lookup) -> None:
    """Make ``lookup`` the one that ``profile_of`` asks."""
    _lookups[:] = [lookup]


def profile_of(model: str) -> ModelProfile:
    """The profile of a model.

    Raises:
        UnknownModel: If the table has no such model.
    """
    if not _lookups:
        import_module(TABLE)
    return _lookups[0](model)
