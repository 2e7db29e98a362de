"""One block on its way through a build."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

from agentctx.core.compare import Change, Outcome, match
from agentctx.core.message import Message
from agentctx.core.protection import last_words
from agentctx.protocols import Meter
from agentctx.tiers.answering import Noting
from agentctx.tiers.block import Block, names_of
from agentctx.tiers.build_report import BlockReport
from agentctx.tiers.eviction import Allowance, least_of, name_of
from agentctx.tiers.tier import Tier


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
