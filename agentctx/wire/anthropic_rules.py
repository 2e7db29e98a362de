"""The rules that make an Anthropic Messages request valid, each a small function, in one ordered list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agentctx.core.profile import ModelProfile
from agentctx.core.violation import Violation

Rule = Callable[[Mapping[str, Any], ModelProfile | None, Mapping[str, Any] | None], Iterable[Violation]]

RULES: tuple[Rule, ...] = ()


def violations(
    request: Mapping[str, Any], profile: ModelProfile | None, before: Mapping[str, Any] | None
) -> tuple[Violation, ...]:
    """Every rule that the request breaks."""
    return tuple(violation for rule in RULES for violation in rule(request, profile, before))
