"""How much room there is, what a tier may claim of it, and what is taken into it.

From the budget of a model call to its tiers, and from a number of tokens to the items that fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from fractions import Fraction
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import takewhile
from math import floor, fsum
from typing import TypeVar

from attrs import evolve, field, frozen

from agentctx.errors import ConfigError, UnknownModel
from agentctx.models.table import profile
from agentctx.printable import shown

Amount = int | float
"""A token count (``int``), or a share (``float`` above 0 and up to 1): of the limit, a reserve of the window."""


PERCENTAGES = 100
"""A trigger or target of so many tokens or less is a percentage when it is no more than that share of the limit,"""
SMALLEST_LIMIT = 4_000
"""and the limit is not smaller than any model's."""


@frozen
class MediaLimits:
    """What a provider takes of media in one request; None means that there is no limit to keep.

    Args:
        images: The most images in one request.
        image_side: The longest side of an image, in pixels.

    Example:
        >>> from agentctx import Budget, MediaLimits
        >>> Budget(window=200_000, media=MediaLimits(images=100)).media.images
        100
    """

    images: int | None = None
    image_side: int | None = None


@frozen
class Budget:
    """The room of one model call.

    Amounts are token counts (``int``) or shares (``float`` in ``(0, 1]``): ``output_reserve`` of the window,
    ``trigger`` of the limit, which is the window without the reserve, and ``target`` of the room: of what the trigger
    leaves above what no cut can take away.

    Args:
        window: The model's context window, in tokens.
        output_reserve: What must stay free for the answer.
        trigger: A session acts when the context is larger than this. Without it: when the context is larger
            than ``limit``, that is, as late as possible.
        target: A session that acts goes down to this; see ``target_above``. Without it: half of the room, so that the
            next cut, and with it the next cache break, is far away.
        request_bytes: The largest request body the provider takes, in bytes.
        media: The provider's limits for media.

    Raises:
        ConfigError: If an amount is not positive or the amounts contradict each other.

    Example:
        >>> from agentctx import Budget
        >>> budget = Budget(window=128_000, output_reserve=8_000, trigger=0.8, target=0.5)
        >>> budget.limit, budget.trigger_tokens, budget.target_tokens
        (120000, 96000, 48000)
    """

    window: int
    output_reserve: Amount = 0
    trigger: Amount | None = field(default=None, kw_only=True)
    target: Amount | None = field(default=None, kw_only=True)
    request_bytes: int | None = field(default=None, kw_only=True)
    media: MediaLimits = field(default=MediaLimits(), kw_only=True)

    def __attrs_post_init__(self) -> None:
        """Check the amounts against each other."""
        if isinstance(self.window, bool) or not isinstance(self.window, int) or self.window < 1:
            msg = f"Budget: window: expected a positive number of tokens, got {shown(self.window)}"
            raise ConfigError(msg)
        if self.reserved < 0 or self.limit < 1:
            msg = (
                f"Budget: output_reserve: {self.reserved:,} tokens of a window of {self.window:,} leave nothing to send"
            )
            raise ConfigError(msg)
        _refuse_percentage("trigger", self.trigger, self.limit)
        if type(self.trigger) is not int:  # beside a trigger in tokens, a target is in tokens, too
            _refuse_percentage("target", self.target, self.limit)
        for name, share, tokens in (
            ("trigger", self.trigger, self.trigger_tokens),
            ("target", self.target, self.target_tokens),
        ):
            if isinstance(share, float) and share > 0 and tokens == 0:
                msg = f"Budget: window: {self.window:,} is too small: a {name} of {share:g} is less than one token"
                raise ConfigError(msg)
        if self.trigger_tokens < 1 or self.trigger_tokens > self.limit:
            msg = f"Budget: trigger: {self.trigger_tokens:,} tokens must lie between 1 and the limit, {self.limit:,}"
            raise ConfigError(msg)
        trigger = self.trigger_tokens
        if self.target_tokens < 1 or self.target_tokens > trigger:
            msg = f"Budget: target: {self.target_tokens:,} tokens must lie between 1 and the trigger, {trigger:,}"
            raise ConfigError(msg)
        most = self.request_bytes
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
            msg = f"Budget: request_bytes: expected a positive number of bytes, got {shown(most)}"
            raise ConfigError(msg)

    @classmethod
    def for_model(
        cls,
        model: str,
        *,
        output_reserve: Amount | None = None,
        trigger: Amount | None = None,
        target: Amount | None = None,
    ) -> Budget:
        """The budget of a model, from the model table.

        Args:
            model: The model's name, as its provider writes it.
            output_reserve: What must stay free for the answer. Without it: the model's longest answer, but at most
                a quarter of the window. Where the longest answer has room of its own beside the input (``gpt-5``), only
                what is asked for beyond that is taken from the input.
            trigger: See the class.
            target: See the class.

        Raises:
            UnknownModel: If the table has no window for this name; the message says what to pass instead.
        """
        window, longest = (known := profile(model)).window, known.max_output
        if window is None:
            msg = f"no context window known for model {model!r}: pass Budget(window=..., output_reserve=...)"
            raise UnknownModel(msg)
        reserve = min(longest or window, window // 4) if output_reserve is None else output_reserve
        if (most := known.max_input) is not None:
            beside = (longest or 0) if window <= most else 0
            reserve = max(cls(window).tokens(reserve, "output_reserve") - beside, window - most, 0)
        return cls(window, reserve, trigger=trigger, target=target)

    @cached_property
    def reserved(self) -> int:
        """Tokens kept free for the answer."""
        return _tokens(self.output_reserve, self.window, "output_reserve", "the window")

    @cached_property
    def limit(self) -> int:
        """The most tokens that a request may have: the window without the reserve."""
        return self.window - self.reserved

    @cached_property
    def trigger_tokens(self) -> int:
        """The size above which a session acts, in tokens."""
        return self.limit if self.trigger is None else self.tokens(self.trigger, "trigger")

    @cached_property
    def target_tokens(self) -> int:
        """The size that a session goes down to when it acts, in tokens, where a cut could take everything away."""
        if self.target is None:
            return max(1, self.trigger_tokens // 2)
        return _tokens(self.target, self.trigger_tokens, "target", "the room")

    def target_above(self, floor: int) -> int:
        """The size that a session goes down to when it acts, in tokens.

        A share is one of the room above ``floor``. A number of tokens holds as it is, where it can be reached; else a
        cut goes down to the share of the room that it is of the trigger.

        Args:
            floor: The tokens that no cut can take away: system prompt, tools, and what is protected.

        Example:
            >>> from agentctx import Budget
            >>> budget = Budget(window=100_000, target=0.25)
            >>> budget.target_above(0), budget.target_above(60_000)
            (25000, 70000)
        """
        if floor >= self.trigger_tokens or (type(self.target) is int and self.target > floor):
            return self.target_tokens
        return floor + int((self.trigger_tokens - floor) * self.target_tokens / self.trigger_tokens)

    def tokens(self, amount: Amount, name: str = "amount") -> int:
        """An amount in tokens: a count as it is, a share of the limit rounded down.

        Args:
            amount: A number of tokens, or a share of the limit above 0 and up to 1.
            name: What the error calls the amount.

        Raises:
            ConfigError: If it is neither, or a share is not above 0 and up to 1.
        """
        return _tokens(amount, self.limit, name, "the limit")

    def scaled(self, share: float) -> Budget:
        """The same budget with every token amount multiplied by ``share``, rounded down, at least 1.

        Raises:
            ConfigError: If ``share`` is not above 0 and up to 1.
        """
        if not 0 < share <= 1:
            msg = f"Budget: share: expected a number above 0 and up to 1, got {shown(share)}"
            raise ConfigError(msg)
        limit, trigger, target = (
            max(1, int(amount * share)) for amount in (self.limit, self.trigger_tokens, self.target_tokens)
        )
        reserved = int(self.reserved * share)
        least = min(PERCENTAGES, limit // 100) + 1 if limit >= SMALLEST_LIMIT else 1  # as _refuse_percentage
        return Budget(
            limit + reserved,
            reserved,
            trigger=max(trigger, least),
            target=max(target, least),
            request_bytes=self.request_bytes,
            media=self.media,
        )

    def larger_by(self, tokens: int) -> Budget:
        """The same budget with so many tokens more in each amount but the reserve."""
        limit = self.limit + tokens
        least = min(PERCENTAGES, limit // 100) + 1 if limit >= SMALLEST_LIMIT else 1  # as _refuse_percentage
        return evolve(
            self,
            window=limit + self.reserved,
            output_reserve=self.reserved,
            trigger=max(self.trigger_tokens + tokens, least),
            target=max(self.target_tokens + tokens, least),
        )


def _tokens(amount: Amount, whole: int, name: str, called: str) -> int:
    """An amount in tokens: a count as it is, a share of the whole rounded down."""
    if isinstance(amount, bool) or not isinstance(amount, (int, float)):
        msg = f"Budget: {name}: expected a number of tokens or a share of {called}, got {shown(amount)}"
        raise ConfigError(msg)
    if not isinstance(amount, float):
        return amount
    if not 0 < amount <= 1:
        msg = f"Budget: {name}: a share of {called} must be above 0 and up to 1, got {shown(amount)}"
        raise ConfigError(msg)
    return int(whole * amount)


def _refuse_percentage(name: str, amount: Amount | None, limit: int) -> None:
    """Refuse a number of tokens that can only be meant as a percentage: 80 of 128,000."""
    if type(amount) is int and 0 < amount <= PERCENTAGES and limit >= max(SMALLEST_LIMIT, amount * 100):
        msg = (
            f"Budget: {name}: {amount} tokens of {limit:,} look like a percentage: "
            f"write {amount / 100:g} for {amount} % of the limit, or a larger number of tokens"
        )
        raise ConfigError(msg)


class Tier(IntEnum):
    """The place of a block in the request, and its claim on the room: the lower, the earlier and the stronger.

    Any other integer is a tier too: ``Tier(7)`` comes after ``Tier.SCRATCHPAD``. Tiers from ``HISTORY`` on hold the
    conversation; those before it hold background, whatever the roles of their messages.

    Example:
        >>> from agentctx.builder import Tier
        >>> Tier.SYSTEM < Tier.HISTORY < Tier(7), str(Tier(7))
        (True, 'Tier(7)')
    """

    SYSTEM = 0
    """Instructions."""
    CORE = 1
    """Facts and rules that every call needs."""
    RAG = 2
    """What was looked up for this call."""
    HISTORY = 3
    """The conversation so far."""
    SCRATCHPAD = 4
    """Intermediate work: what is said in it is not the user's newest word where a conversation stands before it."""

    @classmethod
    def _missing_(cls, value: object) -> Tier | None:
        """A member for any other integer, made once."""
        if isinstance(value, bool) or not isinstance(value, int):
            return None
        member = int.__new__(cls, value)
        member._name_ = f"Tier({value})"
        member._value_ = value
        cls._value2member_map_[value] = member
        return member

    def __str__(self) -> str:
        """``"system"``, ``"core"``, ``"rag"``, ``"history"``, ``"scratchpad"``, else ``"Tier(N)"``."""
        return self._name_.lower() if self._name_.isupper() else self._name_


def as_tier(value: object) -> Tier:
    """The tier of this number.

    Raises:
        ConfigError: If it is no integer.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        msg = f"Tier: expected an integer, for example Tier.HISTORY, got {value!r}"
        raise ConfigError(msg)
    return Tier(value)


@frozen
class TierRule:
    """What a tier may claim beside its place in the order.

    Args:
        tier: The tier.
        floor: Tokens that it gets before any tier gets more than its floor, as far as it has use for them.
        share: Its part, 0 to 1, of the room beyond the floors while others want more than there is; what it has no
            use for goes to the others. Tiers without a share have together what the shares leave, in tier order.
        cap: The most tokens that it may have; None means no cap.

    Raises:
        ConfigError: If an amount is negative, the share is not within 0 and 1, or the floor is above the cap.

    Example:
        >>> from agentctx.builder import ContextBuilder, Tier, TierRule
        >>> builder = ContextBuilder(16_000, tiers=[TierRule(Tier.RAG, floor=1_000, cap=4_000)])
    """

    tier: Tier = field(converter=as_tier)
    floor: int = 0
    share: float = 0.0
    cap: int | None = None

    def __attrs_post_init__(self) -> None:
        """Check the amounts."""
        _check_tokens(self.tier, "floor", self.floor)
        if self.cap is not None:
            _check_tokens(self.tier, "cap", self.cap)
        if isinstance(self.share, bool) or not isinstance(self.share, (int, float)):
            msg = f"TierRule({self.tier!s}): share: expected a number between 0 and 1, got {self.share!r}"
            raise ConfigError(msg)
        if self.floor < 0:
            msg = f"TierRule({self.tier!s}): floor must not be negative, got {self.floor}"
            raise ConfigError(msg)
        if not 0 <= self.share <= 1:
            msg = f"TierRule({self.tier!s}): share must lie between 0 and 1, got {self.share!r}"
            raise ConfigError(msg)
        if self.cap is not None and self.cap < self.floor:
            msg = f"TierRule({self.tier!s}): cap {self.cap:,} must be at least the floor, {self.floor:,}"
            raise ConfigError(msg)


def _check_tokens(tier: Tier, name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        msg = f"TierRule({tier!s}): {name}: expected a whole number of tokens, got {value!r}"
        raise ConfigError(msg)


def apportion(wants: Sequence[int], weights: Sequence[Fraction], room: int) -> list[int]:
    """Grants that are proportional to ``weights`` and not above ``wants``; what one does not want, the others get.

    Tokens are handed out one by one in an order that does not depend on ``room`` (the k-th token of a claim is due at
    ``k / weight``; Jefferson's method of apportionment), so more room never shrinks a grant. Worked out at once: the
    work grows with the number of claims, not of tokens.
    """
    if room >= sum(wants):
        return list(wants)
    level = _level(wants, weights, room)
    grants = [min(want, floor(level * weight)) for want, weight in zip(wants, weights, strict=True)]
    due = [((grants[claim] + 1) / weights[claim], claim) for claim, want in enumerate(wants) if grants[claim] < want]
    heapify(due)
    for _ in range(room - sum(grants)):
        _, claim = heappop(due)
        grants[claim] += 1
        if grants[claim] < wants[claim]:
            heappush(due, ((grants[claim] + 1) / weights[claim], claim))
    return grants


def _level(wants: Sequence[int], weights: Sequence[Fraction], room: int) -> Fraction:
    """The tokens a unit of weight at which ``room`` is used up, were tokens divisible."""
    left, weight = Fraction(room), sum(weights, Fraction())
    for claim in sorted(range(len(wants)), key=lambda claim: wants[claim] / weights[claim]):
        if wants[claim] / weights[claim] > left / weight:
            break
        left -= wants[claim]
        weight -= weights[claim]
    return left / weight


WHOLE = 1_000_000_000
"""Shares are taken to so many parts of the whole: whole numbers, so that the work does not grow with fractions."""


def allocate(sizes: Sequence[int], tiers: Sequence[TierRule | int], limit: int) -> tuple[int, ...]:
    """Grant each claim tokens: never more than ``limit`` together, and nobody more than its size and its cap.

    First the floors, in tier order. Then the rest: by share where shares are given, else in tier order, each claim
    all that it wants before the next gets anything. Claims of one tier come in the order in which they are given.
    Nothing is left over while a claim wants more.

    No claim is under its floor unless the floors do not fit; a larger limit never shrinks a grant.

    Args:
        sizes: What each claim would fill, in tokens.
        tiers: The tier of each claim, or the rule with floor, share and cap that holds for it.
        limit: What there is, in tokens; a negative one is nothing.

    Returns:
        The grant of each claim, in tokens.

    Raises:
        ConfigError: If an amount is no whole number, a size is negative, a claim has no tier, or the shares add up to
            more than 1.

    Example:
        >>> from agentctx.builder import Tier, allocate
        >>> allocate([3_000, 9_000], [Tier.SYSTEM, Tier.HISTORY], limit=8_000)
        (3000, 5000)
    """
    rules = [tier if isinstance(tier, TierRule) else TierRule(tier) for tier in tiers]
    _check(sizes, rules, limit)
    shares = [round(rule.share * WHOLE) for rule in rules]
    wants = [size if rule.cap is None else min(size, rule.cap) for size, rule in zip(sizes, rules, strict=True)]
    order = sorted(range(len(rules)), key=lambda claim: rules[claim].tier)
    floors = [min(rule.floor, want) for rule, want in zip(rules, wants, strict=True)]
    grants = _in_order(order, floors, max(0, limit))
    needs = [want - grant for want, grant in zip(wants, grants, strict=True)]
    more = _beyond_floors(order, needs, shares, max(0, limit) - sum(grants))
    return tuple(grant + extra for grant, extra in zip(grants, more, strict=True))


def _check(sizes: Sequence[int], rules: Sequence[TierRule], limit: int) -> None:
    if len(sizes) != len(rules):
        msg = f"allocate: {len(sizes)} sizes and {len(rules)} tiers; expected one tier for each size"
        raise ConfigError(msg)
    given: Sequence[object] = (*sizes, limit)
    if not all(isinstance(number, int) for number in given):
        wrong = next(number for number in given if not isinstance(number, int))
        msg = f"allocate: expected whole numbers of tokens, got {wrong!r}"
        raise ConfigError(msg)
    if any(size < 0 for size in sizes):
        msg = f"allocate: sizes must not be negative, got {min(sizes)}"
        raise ConfigError(msg)
    together = fsum(rule.share for rule in rules)
    if together > 1 + 1 / WHOLE:
        msg = f"allocate: the shares add up to {together:.3g}, which is more than 1"
        raise ConfigError(msg)


def _in_order(order: Sequence[int], wants: Sequence[int], room: int) -> list[int]:
    """Each claim all that it wants, in order, until nothing is left."""
    grants = [0] * len(wants)
    for claim in order:
        grants[claim] = min(wants[claim], room)
        room -= grants[claim]
    return grants


def _beyond_floors(order: Sequence[int], needs: Sequence[int], shares: Sequence[int], room: int) -> list[int]:
    """Divide ``room`` by share; claims without a share stand together as one more, which serves itself in order."""
    sharing = [claim for claim in order if shares[claim]]
    if not sharing or room <= 0:
        return _in_order(order, needs, room)
    others = [claim for claim in order if not shares[claim]]
    wants = [needs[claim] for claim in sharing]
    weights = [Fraction(shares[claim]) for claim in sharing]
    rest = WHOLE - sum(shares)
    if rest > len(sharing):  # less is what rounding has left
        wants.append(sum(needs[claim] for claim in others))
        weights.append(Fraction(rest))
    granted = apportion(wants, weights, room)
    grants = [0] * len(needs)
    for claim, grant in zip(sharing, granted, strict=False):
        grants[claim] = grant
    left = _in_order(others, needs, room - sum(grants))
    return [grants[claim] or left[claim] for claim in range(len(needs))]


T = TypeVar("T")


def each_that_fits(items: Iterable[T], size: Callable[[T], int], room: int) -> list[T]:
    """Each item in order for which there is still room; one that does not fit is passed over.

    Args:
        items: The items, in the order in which they are taken.
        size: The tokens of one.
        room: The most tokens of all that are taken.
    """
    return list(filter(_taking(size, room), items))


def until_full(items: Iterable[T], size: Callable[[T], int], room: int) -> list[T]:
    """The items in order, up to the first that does not fit; the items behind it are not looked at."""
    return list(takewhile(_taking(size, room), items))


def _taking(size: Callable[[T], int], room: int) -> Callable[[T], bool]:
    """Whether an item fits into what those before it have left; when it does, it is taken."""
    left = room

    def takes(item: T) -> bool:
        nonlocal left
        tokens = size(item)
        if tokens > left:
            return False
        left -= tokens
        return True

    return takes
