"""What a builder is made with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import field, frozen

from agentctx.core.budget import Budget
from agentctx.errors import ConfigError
from agentctx.protocols import TokenCounter
from agentctx.tiers.allocate import allocate
from agentctx.tiers.formatter import Formatter
from agentctx.tiers.tier import Tier, TierRule


@frozen
class Options:
    """What a builder is made with; see ``ContextBuilder``.

    Raises:
        ConfigError: If a tier has two rules, the shares add up to more than 1, or the formatter cannot be called.
    """

    budget: Budget
    counter: TokenCounter | None
    model: str | None
    format: str | None
    tools: Sequence[Any] | None
    tiers: tuple[TierRule, ...] = field()
    formatter: Formatter = field()

    @tiers.validator
    def _check_tiers(self, _attribute: object, tiers: tuple[TierRule, ...]) -> None:
        given: Sequence[object] = tiers
        for place, rule in enumerate(given):
            if not isinstance(rule, TierRule):
                msg = f"ContextBuilder: tiers[{place}]: expected a TierRule, got {rule!r}"
                raise ConfigError(msg)
        if len(self.rules) < len(tiers):
            msg = "ContextBuilder: tiers: one rule for each tier"
            raise ConfigError(msg)
        allocate([0] * len(tiers), tiers, 0)

    @formatter.validator
    def _check_formatter(self, _attribute: object, formatter: Any) -> None:  # noqa: ANN401 - checked here
        if not callable(formatter) or isinstance(formatter, type):
            msg = f"ContextBuilder: formatter: expected an async function of sections, got {formatter!r}"
            raise ConfigError(msg)

    @property
    def rules(self) -> Mapping[Tier, TierRule]:
        """The rules by tier."""
        return {rule.tier: rule for rule in self.tiers}
