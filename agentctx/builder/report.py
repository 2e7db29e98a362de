"""What a build did, in all and block by block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import asdict, frozen

from agentctx.core.budget import Tier
from agentctx.core.changes import Change
from agentctx.printable import printable


@frozen
class BlockReport:
    """What became of one block.

    Args:
        id: Its name.
        tier: Its tier.
        tokens_before: Its size as it was given, in tokens.
        tokens_after: Its size as it goes out, in tokens.
        messages_before: Number of messages given.
        messages_after: Number of messages that go out.
        granted: The tokens that it was granted; what a block that goes as a whole had no use for went to others.
        eviction: What was done to it: ``"dropped"``, ``"truncated"``, ``"summarized"``, ``"evicted"`` (by any other
            stage), ``"rejected"`` (it could not be made to fit, and the build failed); None when nothing was.
        changes: The messages that were not left as they were; ``index`` counts within the block.
        notes: What else there is to say.

    Example:
        >>> from agentctx.builder import Block, ContextBuilder
        >>> task = Block("task", [{"role": "user", "content": "Why does the build fail?"}])
        >>> built = await ContextBuilder(16_000, format="openai-chat").add(task).build()
        >>> [(block.id, str(block.tier)) for block in built.report.blocks]
        [('task', 'history')]
    """

    id: str
    tier: Tier
    tokens_before: int
    tokens_after: int
    messages_before: int
    messages_after: int
    granted: int = 0
    eviction: str | None = None
    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def dropped(self) -> bool:
        """Whether nothing of it is left; a block that made the build fail was not dropped but rejected."""
        return self.messages_before > 0 and self.messages_after == 0 and self.eviction != "rejected"

    def __str__(self) -> str:
        """One line: ``handbook (rag): 2,300 -> 0 tokens, dropped``."""
        size = f"{self.tokens_before:,}"
        if self.tokens_after != self.tokens_before:
            size += f" -> {self.tokens_after:,}"
        done = "" if self.eviction is None else f", {self.eviction}"
        return "; ".join((f"{self.id} ({self.tier}): {size} tokens{done}", *self.notes))


@frozen
class BuildReport:
    """What a build did; filled as far as the build came when it failed: what it had not cut yet stands there whole.

    Args:
        limit: The most tokens that the request could have.
        fixed_tokens: What tool definitions and the opening of the answer take of them.
        tokens: Size of the request that goes out, in tokens, counted as a whole.
        blocks: What became of each block, in the order of the request.
        seconds: How long it took.
        facts: Facts that were taken from what was left out, and are kept.
        cache_points: Indexes of the messages that end a prefix which the provider is asked to keep; -1 stands for
            the system prompt that is kept apart.
        error: Why the build failed; None when it did not.
        notes: What else there is to say.

    Example:
        >>> from agentctx.builder import Block, ContextBuilder
        >>> task = Block("task", [{"role": "user", "content": "Why does the build fail?"}])
        >>> (await ContextBuilder(16_000, format="openai-chat").add(task).build()).report.tokens_per_block
        {'task': ...}
    """

    limit: int
    fixed_tokens: int = 0
    tokens: int = 0
    blocks: tuple[BlockReport, ...] = ()
    seconds: float = 0.0
    facts: tuple[str, ...] = ()
    cache_points: tuple[int, ...] = ()
    error: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def original_tokens(self) -> int:
        """Size of all blocks as they were given, in tokens."""
        return sum(block.tokens_before for block in self.blocks)

    @property
    def used_tokens(self) -> int:
        """Size of all blocks as they go out, in tokens."""
        return sum(block.tokens_after for block in self.blocks)

    @property
    def remaining_tokens(self) -> int:
        """What of the limit is left, in tokens."""
        return self.limit - self.tokens

    @property
    def tokens_per_block(self) -> Mapping[str, int]:
        """Size of each block that goes out, by name; blocks of one name together."""
        return self._by_name({place: block.tokens_after for place, block in self._enumerated() if block.messages_after})

    @property
    def original_tokens_per_block(self) -> Mapping[str, int]:
        """Size of each block as it was given, by name; blocks of one name together."""
        sizes = {place: block.tokens_before for place, block in self._enumerated() if block.messages_before}
        return self._by_name(sizes)

    @property
    def evictions(self) -> Mapping[str, str]:
        """What was done to each block that was not left as it was, by name."""
        return {block.id: block.eviction for block in self.blocks if block.eviction is not None}

    @property
    def dropped(self) -> tuple[str, ...]:
        """The names of the blocks of which nothing is left, but for those that made the build fail."""
        return tuple(block.id for block in self.blocks if block.dropped)

    def __str__(self) -> str:
        """What the build did, for people: a line for the request, then one for each block."""
        head = f"{self.tokens:,} tokens, {self.limit:,} allowed, {1000 * self.seconds:.1f} ms"
        lines = [head if self.error is None else f"failed: {self.error}; {self.limit:,} tokens allowed"]
        lines += [f"  {block}" for block in self.blocks]
        if self.facts:
            lines.append(f"  facts kept of what was left out: {len(self.facts)}")
        return printable("\n".join((*lines, *(f"  {note}" for note in self.notes))))

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON values."""
        return asdict(
            self, value_serializer=lambda _one, _name, value: int(value) if isinstance(value, Tier) else value
        )

    def _enumerated(self) -> enumerate[BlockReport]:
        return enumerate(self.blocks)

    def _by_name(self, sizes: Mapping[int, int]) -> dict[str, int]:
        found: dict[str, int] = {}
        for place, size in sizes.items():
            name = self.blocks[place].id
            found[name] = found.get(name, 0) + size
        return found
