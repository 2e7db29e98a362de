"""The window divided by what it is used for: how much is there for each, and when to compact."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType

from attrs import field, frozen

from agentctx.budget import Budget
from agentctx.message import SYSTEM_ROLES, Context
from agentctx.protocols import Call
from agentctx.tiers import Tier, TierRule, allocate, apportion
from agentctx.validators import SHARE, a, must_be, whole_number

PRECISION = 1_000_000
"""Shares are taken to this many parts of one."""


class Category(StrEnum):
    """What a part of the window is used for.

    Example:
        >>> from agentctx.builder import Category, CategoryBudget
        >>> CategoryBudget(200_000).divide({Category.CONVERSATION: 50_000})[Category.SYSTEM_PROMPT]
        5000
    """

    SYSTEM_PROMPT = "system prompt"
    TOOL_DEFINITIONS = "tool definitions"
    REPOSITORY_MAP = "repository map"
    MEMORY = "memory"
    WORKSPACE = "workspace"
    FILES = "files"
    """Files that are loaded before the model asks for them; they give way to the conversation."""
    CONVERSATION = "conversation"
    """What all the others leave."""
    OUTPUT_RESERVE = "output reserve"
    """Kept free for the answer."""
    SAFETY_MARGIN = "safety margin"
    """Kept free for what is counted wrongly."""


@frozen
class CategorySlot:
    """A share of the window that grows with it, between a floor and a ceiling.

    Args:
        share: The share, 0 to 1.
        floor: The fewest tokens, in a window of full size.
        ceiling: The most tokens; None means no ceiling.

    Raises:
        ConfigError: If the share is not within 0 and 1, or floor and ceiling contradict each other.
    """

    share: float = field(validator=SHARE)
    floor: int = field(default=0, validator=whole_number(0))
    ceiling: int | None = field(default=None, validator=whole_number(0).or_none)

    def __attrs_post_init__(self) -> None:
        """Check that the ceiling is above the floor."""
        if self.ceiling is not None and self.ceiling < self.floor:
            raise must_be("CategorySlot.ceiling", f"at least the floor, which is {self.floor}", self.ceiling)

    def tokens(self, window: int) -> int:
        """The slot's tokens in a window of so many tokens; its share is rounded down."""
        tokens = max(int(Fraction(self.share).limit_denominator(PRECISION) * window), self.floor)
        return tokens if self.ceiling is None else min(tokens, self.ceiling)


SLOTS: Mapping[Category, CategorySlot] = MappingProxyType(
    {
        Category.SYSTEM_PROMPT: CategorySlot(0.03, 3_000, 5_000),
        Category.TOOL_DEFINITIONS: CategorySlot(0.02, 2_000, 3_000),
        Category.REPOSITORY_MAP: CategorySlot(0.02, 2_000, 4_000),
        Category.MEMORY: CategorySlot(0.01, 1_000, 2_000),
        Category.WORKSPACE: CategorySlot(0.005, 300, 500),
        Category.FILES: CategorySlot(0.15, 5_000, 30_000),
        Category.OUTPUT_RESERVE: CategorySlot(0.10, 4_000, 20_000),
        Category.SAFETY_MARGIN: CategorySlot(0.07, 2_000, 15_000),
    }
)
"""The slots of hawk's ctxmgr 0.3.0; the conversation has what they leave. ``FILES`` is for an empty conversation."""

LEAST_FILES = CategorySlot(0.05, 2_000, 10_000)
"""What is left of the files' slot when the conversation needs the room."""

FULL_SIZE = 32_000
"""The smallest window, in tokens, in which floors hold; smaller ones are divided in the same proportions."""


Used = Mapping[Category, int] | Mapping[str, int]
"""What categories have, in tokens, by category or by its name."""

WIDTH = 44
"""Characters of a line in the usage report."""


@frozen
class Division:
    """The parts of a window; they add up to it, and none is negative.

    Args:
        window: The window, in tokens.
        tokens: The part of each category, in tokens.
        laid_out: What each is laid out for, in tokens; the conversation for nothing.
        used: What categories are known to have, in tokens.
        compact_above: The largest conversation that there is room for, in tokens; files are at their least then.
        missing: Tokens that system prompt, tools and the like have beyond what the window can give them.

    Example:
        >>> from agentctx.builder import CategoryBudget
        >>> division = CategoryBudget(200_000).divide()
        >>> sum(division.tokens.values())
        200000
    """

    window: int
    tokens: Mapping[Category, int] = field(hash=False)
    laid_out: Mapping[Category, int] = field(hash=False)
    used: Mapping[Category, int] = field(hash=False)
    compact_above: int
    missing: int = 0

    def __getitem__(self, category: Category) -> int:
        """The part of a category, in tokens."""
        return self.tokens[category]

    @property
    def files(self) -> int:
        """The part of the files, in tokens."""
        return self.tokens[Category.FILES]

    @property
    def conversation(self) -> int:
        """The part of the conversation, in tokens."""
        return self.tokens[Category.CONVERSATION]

    @property
    def compact_to(self) -> int:
        """What to bring the conversation down to when it is compacted: half of what there is room for, in tokens."""
        return self.compact_above // 2

    @property
    def should_compact(self) -> bool:
        """Whether the conversation has outgrown the room that there is for it."""
        return self.used.get(Category.CONVERSATION, 0) > self.compact_above

    @property
    def remaining(self) -> int:
        """Tokens that the conversation may still grow by; negative when it is too large."""
        return self.compact_above - self.used.get(Category.CONVERSATION, 0)

    @property
    def overfull(self) -> Mapping[Category, int]:
        """By how many tokens categories are known to have more than they are laid out for."""
        over = {category: tokens - self.laid_out.get(category, tokens) for category, tokens in self.used.items()}
        return {category: tokens for category, tokens in over.items() if tokens > 0}

    def usage_report(self) -> str:
        """The division as a table for people, with what is known of its use."""
        used = self.used.get(Category.CONVERSATION, 0)
        lines = [
            f"Context Budget ({self.window:,} tokens total)",
            "-" * WIDTH,
            *(
                f"{category.capitalize():<20} {tokens:>10,} ({100 * tokens / self.window:5.1f}%)"
                for category, tokens in self.tokens.items()
            ),
            "-" * WIDTH,
            f"{'Remaining':<20} {self.remaining:>10,}",
        ]
        if used:
            needed = " [COMPACT NEEDED]" if self.should_compact else ""
            lines.append(f"Conversation: {used:,} / {self.compact_above:,} tokens{needed}")
        lines += [f"{category.capitalize()}: {tokens:,} tokens too many" for category, tokens in self.overfull.items()]
        return "\n".join(lines)


def measure(context: Context, call: Call) -> dict[Category, int]:
    """Tokens of system prompt, tool definitions and conversation; together the size of the request.

    System and developer messages count as system prompt, wherever they stand.
    """
    size = call.size(context)
    bare = call.meter.fixed(Context((), context.system))
    tools = call.meter.fixed(context) - bare
    words = sum(call.count(message) for message in context.messages if message.role in SYSTEM_ROLES)
    return {
        Category.SYSTEM_PROMPT: bare + words,
        Category.TOOL_DEFINITIONS: tools,
        Category.CONVERSATION: size - bare - tools - words,
    }


RESERVED = (Category.OUTPUT_RESERVE, Category.SAFETY_MARGIN)
"""What nothing is put into."""

FIXED = (
    Category.SYSTEM_PROMPT,
    Category.TOOL_DEFINITIONS,
    Category.REPOSITORY_MAP,
    Category.MEMORY,
    Category.WORKSPACE,
)
"""What neither grows nor shrinks with the conversation."""

RULES = (*(TierRule(Tier.SYSTEM) for _ in RESERVED), *(TierRule(Tier.CORE) for _ in FIXED))
"""Who comes first when not even these fit."""

NOTHING: Used = {}
_SLOT = a(CategorySlot, "a CategorySlot")


def _slots(slots: Mapping[Category, CategorySlot]) -> Mapping[Category, CategorySlot]:
    a(Mapping, "slots by category").check("CategoryBudget.slots", slots)
    if Category.CONVERSATION in slots:
        raise must_be("CategoryBudget.slots", "without the conversation, which gets what the others leave", slots)
    own = {_category(name, "CategoryBudget.slots"): slot for name, slot in slots.items()}
    for category, slot in own.items():
        _SLOT.check(f"CategoryBudget.slots[{category.value!r}]", slot)
    return {**SLOTS, **own}


def _category(name: str, where: str) -> Category:
    try:
        return Category(name)
    except ValueError:
        raise must_be(where, f"named by {', '.join(Category)}", name) from None


@frozen
class CategoryBudget:
    """Divide a window among system prompt, tools, repository map, memory, workspace, files and conversation.

    Each has a slot that grows with the window between a floor and a ceiling. The conversation has the rest. Files
    give way as the conversation grows, evenly, down to their least. Windows below ``FULL_SIZE`` are divided in the
    proportions of that size, so that there is always room for a conversation, and more of it in a larger window.

    What a category is known to have counts instead of its slot: what it does not use is lent to files and
    conversation, and what it has beyond its slot is taken from them. The parts always add up to the window.

    Example::

        budget = CategoryBudget(200_000)
        part = budget.divide({"system prompt": 1_900, "conversation": 60_000})
        Block("map", messages, Tier.RAG, DropTail(), max_tokens=part[Category.REPOSITORY_MAP])
        Pipeline(when(budget.full, Pack()), budget=budget.whole())

    Args:
        window: The model's context window, in tokens.
        slots: Slots of your own; the others are as in ``SLOTS``.
        output_reserve: Tokens kept free for the answer, instead of that slot.
        least_files: What the files keep when the conversation needs room.

    Raises:
        ConfigError: If an amount makes no sense, or the slots leave nothing for the conversation.

    Example:
        >>> from agentctx.builder import Category, CategoryBudget
        >>> CategoryBudget(200_000).divide({Category.CONVERSATION: 190_000}).should_compact
        True
    """

    window: int
    slots: Mapping[Category, CategorySlot] = field(default=SLOTS, converter=_slots, kw_only=True, hash=False)
    output_reserve: int | None = field(default=None, validator=whole_number(0).or_none, kw_only=True)
    least_files: CategorySlot = field(default=LEAST_FILES, validator=_SLOT, kw_only=True)

    def __attrs_post_init__(self) -> None:
        """Check the amounts."""
        Budget(self.window, self.output_reserve or 0)
        if _rest(self.slots, FULL_SIZE) < 1 or self.divide().conversation < 1:
            raise must_be("CategoryBudget.window", "so large that the slots leave a conversation room", self.window)

    @classmethod
    def for_model(cls, model: str) -> CategoryBudget:
        """The division of a model's window, with the reserve that its budget has: see ``Budget.for_model``.

        Raises:
            UnknownModel: If the model table has no window for this name.
        """
        whole = Budget.for_model(model)
        return cls(whole.window, output_reserve=whole.reserved)

    @cached_property
    def laid_out(self) -> Mapping[Category, int]:
        """Tokens of each slot, before anything is known of its use; the conversation has none.

        From ``FULL_SIZE`` on each slot has its own rule; smaller windows are divided in the proportions of that size.
        """
        tokens = {category: slot.tokens(max(self.window, FULL_SIZE)) for category, slot in self.slots.items()}
        if self.window < FULL_SIZE:
            filled = [category for category in tokens if tokens[category]]
            parts = [*(tokens[category] for category in filled), _rest(self.slots, FULL_SIZE)]
            scaled = apportion(parts, [Fraction(part) for part in parts], self.window)
            tokens |= dict(zip(filled, scaled, strict=False))
        if self.output_reserve is not None:
            tokens[Category.OUTPUT_RESERVE] = self.output_reserve
        return tokens

    def divide(self, used: Used = NOTHING) -> Division:
        """The part of each category.

        Args:
            used: What categories are known to have, in tokens, by category or its name: ``measure`` finds it out.
                A conversation that is not named is empty; any other has its slot.

        Raises:
            ConfigError: If a category is unknown or cannot be used, or an amount is negative.
        """
        used_by = _checked(used)
        wants = [used_by.get(category, self.laid_out[category]) for category in (*RESERVED, *FIXED)]
        tokens = dict(zip((*RESERVED, *FIXED), allocate(wants, RULES, self.window), strict=True))
        room = self.window - sum(tokens.values())
        most = min(self.laid_out[Category.FILES], room // 2)  # never more than half of the room that they share
        least = self.least_files.tokens(max(self.window, FULL_SIZE)) * min(self.window, FULL_SIZE) // FULL_SIZE
        least = min(least, most)
        owned = used_by.get(Category.FILES, most)
        above = room - min(least, owned)
        # files have the most beside an empty conversation, the least beside one that needs all the rest
        conversation, needed = used_by.get(Category.CONVERSATION, 0), room - least
        ramp = least if conversation >= needed else most - (most - least) * conversation // needed
        files = min(owned, ramp)
        tokens |= {Category.FILES: files, Category.CONVERSATION: room - files}
        return Division(
            window=self.window,
            tokens={category: tokens[category] for category in Category},
            laid_out=self.laid_out,
            used=used_by,
            compact_above=above,
            missing=sum(wants) + room - self.window,
        )

    def full(self, context: Context, call: Call) -> bool:
        """Whether the conversation of a request has outgrown its part: a condition for ``when``."""
        return self.divide(measure(context, call)).should_compact

    def whole(self, used: Used = NOTHING) -> Budget:
        """The budget of whole requests: reserve and margin stay free, and a cut takes half of the conversation.

        So there is room between one compaction and the next.

        Args:
            used: What categories are known to have, in tokens; as for ``divide``.

        Raises:
            ConfigError: If a category is unknown or cannot be used, or an amount is negative.
        """
        part = self.divide(used)
        free = sum(part[category] for category in RESERVED)
        target = self.window - free - (part.compact_above - part.compact_to)
        return Budget(self.window, free, target=max(1, target))


def _rest(slots: Mapping[Category, CategorySlot], window: int) -> int:
    """What the slots leave in a window of full size."""
    return window - sum(slot.tokens(window) for slot in slots.values())


def _checked(used: Used) -> dict[Category, int]:
    by_category: dict[Category, int] = {}
    for name, tokens in used.items():
        category = _category(name, "CategoryBudget.used")
        if category in RESERVED:
            raise must_be("CategoryBudget.used", f"without the {category}, which is kept free", tokens)
        whole_number(0).check(f"CategoryBudget.used[{category.value!r}]", tokens)
        by_category[category] = tokens
    return by_category
