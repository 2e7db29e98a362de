"""What a compaction does to the bill."""

from __future__ import annotations

from math import inf

from attrs import frozen


@frozen
class Forecast:
    """What a compaction does to the bill.

    Args:
        without: The input of the next call without it, in USD.
        with_cut: The input of the next call with it, in USD.
        later_without: The input of each call after that without it, nothing new added, in USD.
        later_with: The input of each call after that with it, in USD.
        calls: After how many calls, the next one included, it has paid for itself; ``inf`` when never.
    """

    without: float
    with_cut: float
    later_without: float
    later_with: float
    calls: float

    @property
    def once(self) -> float:
        """What it costs more at the next call, in USD; negative when the next call is cheaper at once."""
        return self.with_cut - self.without

    def pays_back(self, within: int) -> bool:
        """Whether it has paid for itself after ``within`` calls."""
        return self.calls <= within

    def __str__(self) -> str:
        """One sentence for a report."""
        when = "never" if self.calls == inf else f"after {self.calls:,.0f} calls" if self.calls > 1 else "at that call"
        return (
            f"next call ${self.with_cut:.4f} with the cut, ${self.without:.4f} without; "
            f"later ${self.later_with:.4f} instead of ${self.later_without:.4f}: pays back {when}"
        )
