"""Divide the window among kinds of rounds, and drop the oldest of each kind that has more than its part."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar

from attrs import evolve, field, frozen

from agentctx.core.budget import Budget, Tier, TierRule, allocate, as_tier
from agentctx.core.message import Context, Message
from agentctx.core.units import Unit
from agentctx.engine.drop import (
    Piece,
    aiming_below,
    newest,
    oldest,
    piece_of,
    preferred_last,
    shrink_open_round,
    tokens_together,
    units_of,
    without,
)
from agentctx.engine.options import check_tokens, limits
from agentctx.errors import ConfigError
from agentctx.protocols import Call, Scope, Stage

TierOf = Callable[[Sequence[Message]], int]
"""Given the messages of a round, or a single message beside the rounds, the tier that it belongs to."""


def in_history(_messages: Sequence[Message], /) -> int:
    """Everything is ``HISTORY``."""
    return Tier.HISTORY


def _by_name(tiers: Mapping[str, int]) -> Mapping[str, Tier]:
    return {name: as_tier(tier) for name, tier in tiers.items()}


@frozen
class ByTools:
    """Rounds by the tools that they call; all else is ``HISTORY``.

    Args:
        tiers: The tier of each tool, by its name. A round with calls of several tools belongs to the strongest tier
            among them; a tool without an entry counts as ``HISTORY``.

    Example:
        >>> from agentctx import Tiered
        >>> from agentctx.builder import Tier
        >>> from agentctx.strategies import ByTools
        >>> stage = Tiered(tier_of=ByTools({"read_plan": Tier.CORE, "search": Tier.RAG}))
    """

    tiers: Mapping[str, Tier] = field(converter=_by_name, hash=False)

    def __call__(self, messages: Sequence[Message], /) -> int:
        """The tier of these messages."""
        called = [self.tiers.get(call.name, Tier.HISTORY) for message in messages for call in message.calls]
        return min(called, default=Tier.HISTORY)


@frozen
class Tiered(Stage):
    """Allocate the window to tiers, and drop whole rounds of those that have more than their grant, oldest first.

    Protected messages and the round that the model is in stay; the tiers share what these leave. So do results that
    the model has not read, though the user speaks behind them; these count in their tier. A question goes with the
    first round of its own tier after it. What is left over because only whole rounds go is given back.
    Without rules the tiers are served in order: ``HISTORY`` gives way to whatever ``tier_of`` puts before it.

    A session looks at the tiers, and at their caps, when the request has passed its trigger, and not at every step:
    a cap that held at each would move the prefix with every new round of its tier. Without a session the prefix moves
    at every call that is too large: measured, 1.5 to 1.8 times the cost of sending everything, where the provider's
    cache is used; the report's forecast says so.

    Args:
        rules: Floors, shares and caps of single tiers.
        tier_of: Which tier a round belongs to, for example ``ByTools({"search_docs": Tier.RAG})``.
        max_tokens: The most tokens of the request; without it the pipeline's budget holds.

    Raises:
        ConfigError: If a tier has two rules, or an option makes no sense.

    Example:
        >>> from agentctx import Pipeline, Tiered
        >>> from agentctx.builder import Tier
        >>> from agentctx.strategies import ByTools
        >>> stage = Tiered(tier_of=ByTools({"read_plan": Tier.CORE}))
        >>> pipeline = Pipeline(stage, budget=8_000)
    """

    rules: tuple[TierRule, ...] = field(default=(), converter=tuple)
    tier_of: TierOf = field(default=in_history, kw_only=True)
    max_tokens: int | None = field(default=None, kw_only=True)
    scope: ClassVar[Scope] = Scope.PRESSURE
    needs_budget: ClassVar[bool] = True
    moves_prefix: ClassVar[bool] = True

    def __attrs_post_init__(self) -> None:
        """Check the options."""
        given: tuple[object, ...] = self.rules
        for place, rule in enumerate(given):
            if not isinstance(rule, TierRule):
                msg = f"Tiered: rules[{place}]: expected a TierRule, got {rule!r}"
                raise ConfigError(msg)
        if len({rule.tier for rule in self.rules}) < len(self.rules):
            msg = "Tiered: one rule for each tier"
            raise ConfigError(msg)
        allocate([0] * len(self.rules), self.rules, 0)  # for its errors: of rules that no sizes could satisfy
        tier_of: object = self.tier_of
        if not callable(tier_of) or isinstance(tier_of, type):
            msg = f"Tiered: tier_of: expected a function of messages, for example ByTools(...), got {tier_of!r}"
            raise ConfigError(msg)
        check_tokens("Tiered: max_tokens", self.max_tokens)

    @property
    def own_budget(self) -> Budget | None:
        """The budget that this stage carries itself, if any."""
        return None if self.max_tokens is None else Budget(self.max_tokens)

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context without the rounds that their tiers have no room for."""
        limit, aim = limits("Tiered", self.max_tokens, call)
        if call.size(context) <= aim and all(rule.cap is None for rule in self.rules):
            return context
        context, layout = shrink_open_round(context, limit, call)
        aim = aiming_below(aim, layout.floor, call)
        tiers = self._pieces(context, layout.loose, call)
        held = self._held(context.messages, layout.unread, call)
        gone = self._over(tiers, held, max(0, aim - layout.floor))
        return without(context, units_of(gone), call, f"over the room of its tier, in {aim:,} tokens: oldest first")

    def _pieces(self, context: Context, loose: Iterable[Unit], call: Call) -> dict[Tier, list[Piece]]:
        """What may be dropped, by tier, oldest first, what the caller prefers last; questions with their next round."""
        messages = context.messages
        tiers: dict[Tier, list[Piece]] = defaultdict(list)
        waiting: dict[Tier, list[Unit]] = defaultdict(list)
        for unit in loose:
            tier = as_tier(self.tier_of(unit.of(messages)))
            waiting[tier].append(unit)
            if unit.is_round:
                tiers[tier].append(piece_of(waiting.pop(tier), messages, call))
        for tier, units in waiting.items():
            tiers[tier].append(piece_of(units, messages, call))
        return {tier: preferred_last(found, context, call) for tier, found in sorted(tiers.items())}

    def _held(self, messages: Sequence[Message], unread: Iterable[Unit], call: Call) -> dict[Tier, int]:
        """Tokens of the rounds of each tier that stay because the model has not read them."""
        held: dict[Tier, int] = defaultdict(int)
        for unit in unread:
            held[as_tier(self.tier_of(unit.of(messages)))] += piece_of((unit,), messages, call).tokens
        return held

    def _over(self, tiers: Mapping[Tier, Sequence[Piece]], held: Mapping[Tier, int], room: int) -> list[Piece]:
        """The pieces that there is no room for, beside those of their tiers that are held."""
        rules = {rule.tier: rule for rule in self.rules}
        claims = [_beside(rules.get(tier) or TierRule(tier), held.get(tier, 0)) for tier in tiers]
        sizes = list(map(tokens_together, tiers.values()))
        granted = zip(tiers.values(), allocate(sizes, claims, room), strict=True)
        cuts = [oldest(pieces, grant) for pieces, grant in granted]
        spare = room - sum(size - tokens_together(cut) for size, cut in zip(sizes, cuts, strict=True))
        for claim, size, cut in zip(claims, sizes, cuts, strict=True):
            used = size - tokens_together(cut)
            back = newest(cut, spare if claim.cap is None else min(spare, claim.cap - used))
            spare -= tokens_together(back)
            del cut[len(cut) - len(back) :]
        return [piece for cut in cuts for piece in cut]


def _beside(rule: TierRule, held: int) -> TierRule:
    """The rule for the rest of a tier of which so many tokens are held."""
    cap = None if rule.cap is None else max(0, rule.cap - held)
    return evolve(rule, floor=max(0, rule.floor - held), cap=cap)
