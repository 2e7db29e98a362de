"""One block on its way through a build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import asdict, define, field, frozen

from agentctx.builder.block import Block, names_of
from agentctx.builder.eviction import Allowance, Noting, least_of, name_of
from agentctx.core.compare import Change, Outcome, match
from agentctx.core.message import Message
from agentctx.core.protection import last_words
from agentctx.core.tier import Tier
from agentctx.printable import printable
from agentctx.protocols import Meter


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
        eviction: What was done to it: ``"dropped"``, ``"truncated"``, ``"summarized"``, ``"evicted"`` (by an eviction
            of one's own), ``"rejected"`` (it could not be made to fit, and the build failed); None when nothing was.
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


@define(eq=False)
class Slot:
    """One block on its way through a build.

    Args:
        block: The block; its messages are values.
        name: What it is called in errors and reasons.
        meter: Counts them.
        given: Its messages as they came.
        size: Their size, in tokens.
        keep: Indexes of the messages that must not go.
        least: The fewest tokens that it can come down to.
        messages: What goes out of it.
        tokens: The size of that, in tokens.
        granted: The tokens that it may have.
        label: What was done to it.
        asked: The answer of an eviction that is asked once only.
        remarks: What its eviction said.
        labels: What its eviction says that it did, when that is not the usual.
    """

    block: Block
    name: str
    meter: Meter
    given: tuple[Message, ...]
    size: int
    keep: frozenset[int] = frozenset()
    least: int = 0
    messages: tuple[Message, ...] = ()
    tokens: int = 0
    granted: int = 0
    label: str | None = None
    asked: tuple[Message, ...] | None = None
    remarks: list[str] = field(factory=list)
    labels: list[str] = field(factory=list)

    @property
    def want(self) -> int:
        """The most tokens that it takes: its size, or its cap."""
        cap = self.block.max_tokens
        return self.size if cap is None else min(self.size, cap)

    @property
    def goes_whole(self) -> bool:
        """Whether its eviction can only keep everything or nothing beside what must stay."""
        return bool(getattr(self.block.evict, "whole", False))

    def allowance(self, tokens: int) -> Allowance:
        """What its eviction is told about the room."""
        return Allowance(tokens, self.meter, self.keep, self.remarks, self.labels)

    def keep_all(self) -> None:
        """Let all of it go out."""
        self.messages, self.tokens, self.label = self.given, self.size, None
        self.quiet()

    def reject(self) -> None:
        """Let nothing of it go out, and say so: unless it is made to fit after all, the build fails."""
        self.messages, self.tokens, self.label = (), 0, "rejected"

    def quiet(self) -> None:
        """Forget what its eviction said."""
        self.remarks.clear()
        self.labels.clear()

    def report(self) -> BlockReport:
        """What became of it."""
        return BlockReport(
            self.block.id,
            self.block.tier,
            self.size,
            self.tokens,
            len(self.given),
            len(self.messages),
            self.granted,
            self.label,
            self._changes(),
            tuple(dict.fromkeys(self.remarks)),
        )

    def _changes(self) -> tuple[Change, ...]:
        if self.messages is self.given or self.label in (None, "rejected"):
            return ()
        meter = self.meter
        stage, why = name_of(self.block.evict), f"{self.name} over {self.granted:,} tokens"
        gone = Outcome.SUMMARISED if self.label == "summarized" else Outcome.DROPPED
        found = match(self.given, self.messages)
        changes = []
        for index in found.dropped:
            old = self.given[index]
            changes.append(Change(index, old.role, gone, stage, why, meter.message(old)))
        for index, place in found.edited:
            old, new = self.given[index], self.messages[place]
            sizes = meter.message(old), meter.message(new)
            changes.append(Change(index, old.role, Outcome.EDITED, stage, why, *sizes))
        for place in found.added:
            new = self.messages[place]
            changes.append(Change(place, new.role, Outcome.ADDED, stage, why, 0, meter.message(new)))
        return tuple(changes)


def slots_of(blocks: Sequence[Block], meter: Meter) -> list[Slot]:
    """The blocks that say something, in the order of the request: by tier, and as they were added."""
    slots = []
    ordered = sorted(blocks, key=lambda block: block.tier)
    for block, name in zip(ordered, names_of(ordered), strict=True):
        if block.messages:
            given: tuple[Message, ...] = block.messages
            slots.append(Slot(block, name, meter, given, sum(map(meter.message, given))))
    _keep_newest_words(slots)
    for slot in slots:
        with Noting(f"while the least that {slot.name} can come down to was worked out"):
            slot.least = least_of(slot.block.evict, slot.given, slot.allowance(slot.size))
    return slots


def _keep_newest_words(slots: Sequence[Slot]) -> None:
    """Mark the user's newest words: the last message of the conversation in which the user says something.

    Work in progress stands behind the conversation without being newer. So what is said in ``SCRATCHPAD`` does not
    take the place of what the user says before it; it is kept as well, unless its block is one to go as a whole.
    """
    work: list[tuple[Slot, int]] = []
    for slot in reversed(slots):
        said = () if slot.block.tier < Tier.HISTORY else last_words(slot.given)
        if not said:
            continue
        (index,) = said
        if slot.block.tier != Tier.SCRATCHPAD:
            slot.keep = frozenset({index})
            work = [(each, place) for each, place in work if not each.goes_whole]
            break
        work.append((slot, index))
    for slot, index in work[:1]:
        slot.keep = frozenset({index})
