"""How much room there is, and what is taken into it: the budget of a model call, and the items that fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import takewhile
from typing import TypeVar

from attrs import field, frozen
from attrs.validators import and_, instance_of, or_

from agentctx.errors import UnknownModel
from agentctx.models.table import profile
from agentctx.validators import PART, MustBe, a, must_be, whole_number

Amount = int | float
"""A token count (``int``), or a share (``float`` above 0 and up to 1): of the limit, a reserve of the window."""

AMOUNT = MustBe(
    "a number of tokens, or a share above 0.0 and up to 1.0", or_(whole_number(0), and_(instance_of(float), PART))
)


LONGEST_ANSWER = 16_384
"""Tokens of the longest answer that a model is expected to write when the library does not know the model."""

PERCENTAGES = 100
"""A trigger or target of so many tokens or less is a percentage when it is no more than that share of the limit,"""
SMALLEST_LIMIT = 4_000
"""and the limit is not smaller than any model's."""


def reserve_for_answer(window: int, longest: int | None = None) -> int:
    """Return the tokens of a window that stay free for the answer: the longest answer, at most a quarter, at least one.

    Args:
        window: The context window, in tokens.
        longest: The longest answer of the model, in tokens; without it, 16,384.
    """
    return max(1, min(longest or LONGEST_ANSWER, window // 4))


_COUNT = whole_number(0).or_none


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

    images: int | None = field(default=None, validator=_COUNT)
    image_side: int | None = field(default=None, validator=_COUNT)


@frozen
class Budget:
    """The room of one model call.

    Where a function takes a budget, it also takes an integer. An integer is a window, of which a quarter, at most
    16,384 tokens, stays free for the answer: 8,000 is ``Budget(8_000, output_reserve=2_000)``. ``Budget(8_000)``
    itself reserves nothing.

    Amounts are token counts (``int``) or shares (``float`` in ``(0, 1]``): ``output_reserve`` of the window,
    ``trigger`` of the limit, which is the window without the reserve, and ``target`` of the room: of what the trigger
    leaves above what no cut can take away.

    Args:
        window: The model's context window, in tokens.
        output_reserve: What must stay free for the answer; without it, nothing.
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

    window: int = field(validator=whole_number(1, 10**12))  # more than any model comes near
    output_reserve: Amount = field(default=0, validator=AMOUNT)
    trigger: Amount | None = field(default=None, kw_only=True, validator=AMOUNT.or_none)
    target: Amount | None = field(default=None, kw_only=True, validator=AMOUNT.or_none)
    request_bytes: int | None = field(default=None, kw_only=True, validator=whole_number(1).or_none)
    media: MediaLimits = field(default=MediaLimits(), kw_only=True, validator=a(MediaLimits, "MediaLimits"))

    def __attrs_post_init__(self) -> None:
        """Check the amounts against each other."""
        if self.limit < 1:
            wanted = f"less than the window of {self.window:,} tokens, or nothing can be sent"
            raise must_be("Budget.output_reserve", wanted, self.output_reserve)
        _refuse_percentage("trigger", self.trigger, self.limit)
        if type(self.trigger) is not int:  # beside a trigger in tokens, a target is in tokens, too
            _refuse_percentage("target", self.target, self.limit)
        for name, share, tokens in (
            ("trigger", self.trigger, self.trigger_tokens),
            ("target", self.target, self.target_tokens),
        ):
            if isinstance(share, float) and tokens == 0:
                raise must_be("Budget.window", f"so large that a {name} of {share:g} is one token", self.window)
        if not 1 <= self.trigger_tokens <= self.limit:
            raise must_be("Budget.trigger", f"1 token to the limit of {self.limit:,}", self.trigger)
        if not 1 <= self.target_tokens <= self.trigger_tokens:
            raise must_be("Budget.target", f"1 token to the trigger of {self.trigger_tokens:,}", self.target)

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
            output_reserve: What must stay free for the answer. Without it: the model's longest answer (16,384 tokens
                where the table does not have it), but at most a quarter of the window. Where the longest answer has
                room of its own beside the input (``gpt-5``), only what is asked for beyond that is taken from the
                input.
            trigger: See the class.
            target: See the class.

        Raises:
            UnknownModel: If the table has no window for this name; the message says what to pass instead.
        """
        window, longest = (known := profile(model)).window, known.max_output
        if window is None:
            msg = f"no context window known for model {model!r}: pass Budget(window=..., output_reserve=...)"
            raise UnknownModel(msg)
        reserve = reserve_for_answer(window, longest) if output_reserve is None else output_reserve
        if (most := known.max_input) is not None:
            beside = (longest or 0) if window <= most else 0
            reserve = max(cls(window).tokens(reserve, "output_reserve") - beside, window - most, 0)
        return cls(window, reserve, trigger=trigger, target=target)

    @cached_property
    def reserved(self) -> int:
        """Tokens kept free for the answer."""
        return _tokens(self.output_reserve, self.window, "output_reserve")

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
        return _tokens(self.target, self.trigger_tokens, "target")

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
        return _tokens(amount, self.limit, name)

    def scaled(self, share: float) -> Budget:
        """The same budget with every token amount multiplied by ``share``, rounded down, at least 1.

        Raises:
            ConfigError: If ``share`` is not above 0 and up to 1.
        """
        PART.check("Budget.scaled.share", share)
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


def _tokens(amount: Amount, room: int, name: str) -> int:
    """An amount in tokens: a count as it is, a share of the whole rounded down."""
    AMOUNT.check(f"Budget.{name}", amount)
    return int(room * amount) if isinstance(amount, float) else amount


def _refuse_percentage(name: str, amount: Amount | None, limit: int) -> None:
    """Refuse a number of tokens that can only be meant as a percentage: 80 of 128,000."""
    if type(amount) is int and 0 < amount <= PERCENTAGES and limit >= max(SMALLEST_LIMIT, amount * 100):
        where, percent = f"Budget.{name}", f"{amount / 100:g} for {amount} % of the limit of {limit:,} tokens"
        raise must_be(where, f"{percent}, or more tokens", amount)


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
