"""One block on its way through a build."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

from agentctx.core.compare import Change, Outcome, match
from agentctx.core.message import Message
from agentctx.core.protection import speaks
from agentctx.protocols import Meter
from agentctx.tiers.block import Block
from agentctx.tiers.build_report import BlockReport
from agentctx.tiers.eviction import Allowance, least_of, name_of
from agentctx.tiers.tier import Tier


@define(eq=False)
class Slot:
    """One block on its way through a build.

    Args:
        block: The block; its messages are values.
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
    """

    block: Block
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

    @property
    def want(self) -> int:
        """The most tokens that it takes: its size, or its cap."""
        cap = self.block.max_tokens
        return self.size if cap is None else min(self.size, cap)

    def allowance(self, tokens: int) -> Allowance:
        """What its eviction is told about the room."""
        return Allowance(tokens, self.meter, self.keep, self.remarks)

    def keep_all(self) -> None:
        """Let all of it go out."""
        self.messages, self.tokens, self.label = self.given, self.size, None
        self.remarks.clear()

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
        stage, why = name_of(self.block.evict), f"block {self.block.id!r} over {self.granted:,} tokens"
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
    for block in sorted(blocks, key=lambda block: block.tier):
        if block.messages:
            given: tuple[Message, ...] = block.messages
            slots.append(Slot(block, meter, given, sum(map(meter.message, given))))
    _keep_newest_words(slots)
    for slot in slots:
        slot.least = least_of(slot.block.evict, slot.given, slot.allowance(slot.size))
    return slots


def _keep_newest_words(slots: Sequence[Slot]) -> None:
    """Mark the user's newest words: the last message of the conversation in which the user says something."""
    for slot in reversed(slots):
        if slot.block.tier < Tier.HISTORY:
            return
        for index in range(len(slot.given) - 1, -1, -1):
            if speaks(slot.given[index]):
                slot.keep = frozenset({index})
                return
