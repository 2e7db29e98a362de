"""The window divided by what it is used for: how much is there for each, and when to compact."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any

from attrs import field, frozen

from agentctx.core.budget import Budget
from agentctx.core.message import Context
from agentctx.errors import ConfigError
from agentctx.protocols import Call
from agentctx.tiers.allocate import allocate
from agentctx.tiers.apportion import apportion
from agentctx.tiers.category import FULL_SIZE, LEAST_FILES, SLOTS, Category, Slot
from agentctx.tiers.division import Division, Used
from agentctx.tiers.measure import measure
from agentctx.tiers.tier import Tier, TierRule

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


def _slots(slots: Mapping[Category, Slot]) -> Mapping[Category, Slot]:
    if Category.CONVERSATION in slots:
        msg = "CategoryBudget: the conversation has no slot: it gets what the others leave"
        raise ConfigError(msg)
    try:
        given: dict[Category, Any] = {Category(name): slot for name, slot in slots.items()}
    except ValueError as error:
        msg = f"CategoryBudget: slots: {error}; there are {', '.join(Category)}"
        raise ConfigError(msg) from None
    for category, slot in given.items():
        if not isinstance(slot, Slot):
            msg = f"CategoryBudget: slots: expected a Slot for {category}, got {slot!r}"
            raise ConfigError(msg)
    return {**SLOTS, **given}


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
    """

    window: int
    slots: Mapping[Category, Slot] = field(default=SLOTS, converter=_slots, kw_only=True, hash=False)
    output_reserve: int | None = field(default=None, kw_only=True)
    least_files: Slot = field(default=LEAST_FILES, kw_only=True)

    def __attrs_post_init__(self) -> None:
        """Check the amounts."""
        Budget(self.window, self.output_reserve or 0)
        if _rest(self.slots, FULL_SIZE) < 1 or self.divide().conversation < 1:
            msg = f"CategoryBudget: the slots leave nothing for the conversation in {self.window:,} tokens"
            raise ConfigError(msg)

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
        """Tokens of each slot, before anything is known of its use; the conversation has none."""
        found = _laid_out(self.slots, self.window)
        if self.output_reserve is not None:
            found[Category.OUTPUT_RESERVE] = self.output_reserve
        return found

    def divide(self, used: Used = NOTHING) -> Division:
        """The part of each category.

        Args:
            used: What categories are known to have, in tokens, by category or its name: ``measure`` finds it out.
                A conversation that is not named is empty; any other has its slot.

        Raises:
            ConfigError: If a category is unknown or cannot be used, or an amount is negative.
        """
        known = _known(used)
        wants = [known.get(category, self.laid_out[category]) for category in (*RESERVED, *FIXED)]
        tokens = dict(zip((*RESERVED, *FIXED), allocate(wants, RULES, self.window), strict=True))
        room = self.window - sum(tokens.values())
        most, least = self._files(room)
        owned = known.get(Category.FILES, most)
        above = room - min(least, owned)
        files = min(owned, _ramp(known.get(Category.CONVERSATION, 0), most, least, room))
        tokens |= {Category.FILES: files, Category.CONVERSATION: room - files}
        return Division(
            window=self.window,
            tokens={category: tokens[category] for category in Category},
            laid_out=self.laid_out,
            used=known,
            compact_above=above,
            missing=sum(wants) + room - self.window,
        )

    def full(self, context: Context, call: Call) -> bool:
        """Whether the conversation of a request has outgrown its part: a condition for ``when``."""
        return self.divide(measure(context, call)).should_compact

    def whole(self, used: Used = NOTHING) -> Budget:
        """The budget of whole requests: reserve and margin stay free, and a cut takes half of the conversation.

        So there is room between one compaction and the next.
        """
        part = self.divide(used)
        free = sum(part[category] for category in RESERVED)
        target = self.window - free - (part.compact_above - part.compact_to)
        return Budget(self.window, free, target=max(1, target))

    def _files(self, room: int) -> tuple[int, int]:
        """The most and the least of the files; never more than half of the room that they share."""
        most = min(self.laid_out[Category.FILES], room // 2)
        least = self.least_files.tokens(max(self.window, FULL_SIZE)) * min(self.window, FULL_SIZE) // FULL_SIZE
        return most, min(least, most)


def _laid_out(slots: Mapping[Category, Slot], window: int) -> dict[Category, int]:
    """The slots in a window: by their own rule from ``FULL_SIZE`` on, below it in the proportions of that size."""
    found = {category: slot.tokens(max(window, FULL_SIZE)) for category, slot in slots.items()}
    if window >= FULL_SIZE:
        return found
    named = [category for category, tokens in found.items() if tokens]
    parts = [*(found[category] for category in named), _rest(slots, FULL_SIZE)]
    scaled = apportion(parts, [Fraction(part) for part in parts], window)
    return {**found, **dict(zip(named, scaled, strict=False))}


def _rest(slots: Mapping[Category, Slot], window: int) -> int:
    """What the slots leave in a window of full size."""
    return window - sum(slot.tokens(window) for slot in slots.values())


def _ramp(conversation: int, most: int, least: int, room: int) -> int:
    """The files' tokens: the most beside an empty conversation, the least beside one that needs all the rest."""
    needed = room - least
    if needed <= 0 or conversation >= needed:
        return least
    return most - (most - least) * conversation // needed


def _known(used: Used) -> dict[Category, int]:
    known: dict[Category, int] = {}
    for name, tokens in used.items():
        try:
            category = Category(name)
        except ValueError:
            msg = f"CategoryBudget: no category {name!r}; there are {', '.join(Category)}"
            raise ConfigError(msg) from None
        wrong = isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 0
        if category in RESERVED or wrong:
            what = "is kept free" if category in RESERVED else "must be a whole number of at least 0"
            msg = f"CategoryBudget: used: {category} {what}, got {tokens!r}"
            raise ConfigError(msg)
        known[category] = tokens
    return known
