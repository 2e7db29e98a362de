"""Learn from what the provider bills how far the local count is off.

The size of the last real prompt is the anchor: only what was appended since then has to be estimated, so the error
is the ratio's error times the tokens since the last report. The ratio is learned from differences between reports,
in which everything that never changes (tools, system prompt, wrapping) cancels.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from attrs import define, field

SAMPLES = 16
"""How many differences the ratio is the median of."""

LEAST_DIFFERENCE = 300
"""Tokens; smaller differences say more about rounding than about the ratio, and are added up."""

LEAST_SHARE = 0.08
"""Differences of a smaller share of the prompt are added up as well: what is off by little in all of it hides them."""

UNKNOWN = 4_000
"""Tokens; a first prompt of this size owes as much of its difference to wrapping and tools as to the tokenizer."""

TOO_FAR = 0.5
"""A prompt billed with so much more than ours, as a share of it, owes that rather to what we were not shown, as tools
and instructions that a client adds, than to the tokenizer; the farther, the more."""

ENOUGH = 3
"""So many samples speak for themselves; fewer are joined by what the last prompt as a whole says."""

AGREE = 1.4
"""Two samples, or one and what the last prompt as a whole says, agree when the larger is at most so many times the
smaller: then the samples speak for themselves, too."""

BELIEVABLE = (0.6, 2.5)
"""Ratios outside of this are taken for a mistake in the report."""

FOLLOWS = 0.3
"""Where what is billed grows by less than this share of what we count, it does not follow the prompt at all."""


@define
class Calibration:
    """How a provider's count of a conversation relates to ours.

    One bad report does no harm: a size that no believable ratio explains becomes the anchor only when the next
    report confirms it.

    Args:
        anchor: The last believed report: (our count, the provider's count), in tokens; None before the first.
        reports: How many reports were believed.
        samples: The last ratios that were learned from differences.
        doubtful: A report that was not believed and waits to be confirmed.
        base: The report that the next difference is taken from.
        sound: The last report whose size followed ours from the sound one before it. Reports that are each off by
            little may be off by much together, as those of a server that cuts what is too long for it.
    """

    anchor: tuple[int, int] | None = None
    reports: int = 0
    samples: deque[float] = field(factory=lambda: deque(maxlen=SAMPLES))
    doubtful: tuple[int, int] | None = None
    sound: tuple[int, int] | None = None
    base: tuple[int, int] | None = None

    @property
    def ratio(self) -> float:
        """The provider's tokens for one of ours, for what is appended."""
        known = self.samples
        if len(known) >= ENOUGH or (known and _agree([*known, self._guess()][:2])):
            return _median(known)
        return _median([*known, self._guess()])

    def _guess(self) -> float:
        """What the last prompt as a whole says of the ratio; the smaller it was, the less."""
        if self.anchor is None:
            return 1.0
        local, billed = self.anchor
        off = _clamped(billed / max(1, local)) - 1.0
        return 1.0 + off * local / (local + UNKNOWN) / (1 + (off / TOO_FAR) ** 4)

    def learn(self, local: int, billed: int) -> None:
        """Take in a report: what we counted for a prompt, and what the provider billed, in tokens."""
        if local < 1 or billed < 1:
            return
        if self.doubtful is not None and _explains(self.doubtful, local, billed):
            self.anchor = self.base = self.doubtful
        elif not self._believes(local, billed):
            self.doubtful = (local, billed)
            return
        self.doubtful = None
        self._sample(local, billed)
        if self.sound is None or _follows(self.sound, local, billed):
            self.sound = (local, billed)
        self.anchor, self.reports = (local, billed), self.reports + 1

    def estimate(self, local: int) -> int:
        """What the provider will count for a prompt that we count ``local`` tokens for."""
        if self.anchor is None:
            return local
        return self._from(self.anchor, local)

    def expected(self, local: int) -> int:
        """What a provider that reads all of the prompt counts at least, whatever was billed since the sound report."""
        ratio = _median(self.samples) if self.samples else 1.0
        alone = max(1, round(ratio * local))
        return alone if self.sound is None else min(alone, self._from(self.sound, local))

    def go_back(self) -> None:
        """Forget the reports since the last sound one."""
        self.anchor = self.base = self.sound
        self.doubtful = None

    def _from(self, report: tuple[int, int], local: int) -> int:
        known, billed = report
        return max(1, round(billed + self.ratio * (local - known)))

    def local(self, billed: int) -> int:
        """The largest count of ours that the provider will count as at most ``billed`` tokens; at least 1."""
        if self.anchor is None:
            return billed
        known, last = self.anchor
        return max(1, int(known + (billed - last) / self.ratio))

    def _believes(self, local: int, billed: int) -> bool:
        if self.anchor is None:
            low, high = BELIEVABLE
            return low * local - LEAST_DIFFERENCE <= billed <= high * local + 20 * LEAST_DIFFERENCE
        return _explains(self.anchor, local, billed)

    def _sample(self, local: int, billed: int) -> None:
        if self.base is None:
            self.base = (local, billed)
        difference = local - self.base[0]
        if abs(difference) < max(LEAST_DIFFERENCE, local * LEAST_SHARE):
            return
        ratio = (billed - self.base[1]) / difference
        if ratio >= FOLLOWS:
            self.samples.append(_clamped(ratio))
        self.base = (local, billed)


def _agree(ratios: Sequence[float]) -> bool:
    return max(ratios) <= AGREE * min(ratios)


def _clamped(ratio: float) -> float:
    low, high = BELIEVABLE
    return min(high, max(low, ratio))


def _explains(anchor: tuple[int, int], local: int, billed: int) -> bool:
    """Whether some believable ratio leads from the anchor to this report."""
    difference = local - anchor[0]
    ends = sorted(anchor[1] + ratio * difference for ratio in BELIEVABLE)
    slack = LEAST_DIFFERENCE + anchor[1] // 10
    return ends[0] - slack <= billed <= ends[1] + slack


def _follows(sound: tuple[int, int], local: int, billed: int) -> bool:
    """Whether a report's size has followed ours from a sound one: a prompt that grew was billed for it."""
    low, high = BELIEVABLE
    grown = local - sound[0]
    return billed >= sound[1] + (low if grown >= 0 else high) * grown - LEAST_DIFFERENCE


def _median(values: Sequence[float]) -> float:
    """As that of ``statistics``, which takes longer to import than all of this package's counting."""
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
