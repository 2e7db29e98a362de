"""One line of the table, and how much effort it is given."""

from __future__ import annotations

from attrs import frozen


@frozen
class Row:
    """One line of the table.

    Args:
        what: What is compared with what.
        measured: The ratio, or milliseconds of processor time.
        bar: What it must not miss; None where it is only for comparison.
        at_least: Whether the bar is a lower bound.
        how: How it was measured.
        unit: ``"x"`` or ``"ms"``.
    """

    what: str
    measured: float
    bar: float | None
    at_least: bool = False
    how: str = ""
    unit: str = "x"

    @property
    def result(self) -> str:
        """What was measured, for people."""
        return _said(self.measured, self.unit)

    @property
    def wanted(self) -> str:
        """The bar, for people."""
        if self.bar is None:
            return ""
        return f"at {'least' if self.at_least else 'most'} {_said(self.bar, self.unit)}"

    @property
    def verdict(self) -> str:
        """``ok`` or ``MISSED``; nothing without a bar."""
        if self.bar is None:
            return ""
        return "ok" if self.ok else "MISSED"

    @property
    def ok(self) -> bool:
        """Whether the bar is kept."""
        if self.bar is None:
            return True
        return self.measured >= self.bar if self.at_least else self.measured <= self.bar


@frozen
class Effort:
    """How often things are measured.

    Args:
        steps: Steps of a session.
        repeats: Repeats of everything else of ours.
        samples: The most steps of a peer's loop.
        seconds: The most seconds for one peer.
        peers: Whether other libraries are measured at all.
        all_peers: Whether those without a bar are, too.
    """

    steps: int = 300
    repeats: int = 5
    samples: int = 25
    seconds: float = 90.0
    peers: bool = True
    all_peers: bool = True


QUICK = Effort(steps=100, repeats=3, samples=8, seconds=15.0, all_peers=False)


def _said(value: float, unit: str) -> str:
    """Three figures that matter; small ratios as a fraction."""
    if unit == "x" and value < 0.5:
        return f"1/{1 / value:,.0f}"
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
