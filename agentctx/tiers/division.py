"""A window that is divided, and what is known of its use."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from agentctx.tiers.category import Category

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
            *(self._line(category) for category in Category),
            "-" * WIDTH,
            f"{'Remaining':<20} {self.remaining:>10,}",
        ]
        if used:
            needed = " [COMPACT NEEDED]" if self.should_compact else ""
            lines.append(f"Conversation: {used:,} / {self.compact_above:,} tokens{needed}")
        lines += [f"{category.capitalize()}: {tokens:,} tokens too many" for category, tokens in self.overfull.items()]
        return "\n".join(lines)

    def _line(self, category: Category) -> str:
        tokens = self.tokens[category]
        return f"{category.capitalize():<20} {tokens:>10,} ({100 * tokens / self.window:5.1f}%)"
