"""A picture of what is kept, and at what cost: one point for each way of trimming.

Needs the ``bench`` extra: ``pip install agentctx-middleware[bench]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import matplotlib as mpl

from agentctx.retention import Retention

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "the same picture from the same numbers"

from matplotlib import pyplot as plt  # noqa: E402 - the backend is chosen first

OURS, OTHERS, QUIET = "#0b6e4f", "#8a5a00", "#666666"

RIGHT = 150
"""Percent; names of points that cost more stand on their left."""


class Measured(Protocol):
    """What was measured of one way."""

    found: Retention
    dollars: float
    over: int


def draw(totals: Mapping[str, Measured], ours: frozenset[str], path: Path) -> None:
    """Draw values that the requests show, in percent, over the cost in percent of sending everything.

    Args:
        totals: By way of trimming; ``everything`` among them.
        ours: The names of our own.
        path: Where to write it; its ending says in which format.
    """
    everything = totals["everything"].dollars
    figure, axes = plt.subplots(figsize=(8, 4.6))
    for name, total in totals.items():
        if name == "everything":
            continue
        cost, colour = 100 * total.dollars / everything, OURS if name in ours else OTHERS
        shown, had = 100 * total.found.visible_share, 100 * total.found.reachable_share
        axes.plot([cost, cost], [shown, had], color=colour, linewidth=1, zorder=1)
        if total.found.recallable:
            axes.scatter([cost], [had], s=30, facecolor="white", edgecolor=colour, zorder=2)
        axes.scatter([cost], [shown], s=45, color=colour, marker="x" if total.over else "o", zorder=3)
        left = cost > RIGHT
        at, side = ((-7, -4), "right") if left else ((7, -4), "left")
        axes.annotate(
            name, (cost, shown), xytext=at, textcoords="offset points", fontsize=8, color=colour, ha=side, zorder=4
        )
    axes.set_xlabel("cost, in percent of sending everything (less is better)")
    axes.set_ylabel("values that later calls need, in percent")
    axes.set_title("What is kept, and what it costs", loc="left", fontsize=11)
    axes.text(0.99, 0.02, "\n".join(_legend()), transform=axes.transAxes, ha="right", fontsize=7.5, color=QUIET)
    axes.margins(x=0.12)
    axes.grid(color="#e5e5e5", zorder=0)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _legend() -> Iterator[str]:
    yield "● visible in the request   ○ visible, or a visible handle leads to it"
    yield "x some requests are larger than the window"
