"""How far the estimate of a prompt is from what the provider counted, in recorded sessions, as one table.

``usage.jsonl`` holds what providers reported for calls of the shared transcripts, from the public recordings that the
transcripts were made of (each line names its source); the transcripts themselves are read from beside the repository,
and without them there is nothing to measure. The exit code is 1 when a bar is missed::

    python benchmarks/estimates.py            # a few seconds
    python benchmarks/estimates.py --all      # each prompt as well
    python benchmarks/estimates.py --json     # for machines
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import anyio
from attrs import asdict, frozen
from recorded import SHARED
from rich.console import Console
from rich.table import Table
from rows import Row

from agentctx import Budget, FitContextWindow, Pipeline, warmup
from agentctx.engine.usage import prompt_tokens
from agentctx.replay import Recording, calls_of

USAGE = Path(__file__).with_name("usage.jsonl")

LEARNED = 3
"""Reports after which an estimate shall be close."""

CLOSE, NEAR = 0.02, 0.15
"""How far an estimate may be off after so many reports, and before any."""

MUCH = 1_000
"""Tokens; the texts of a session are compared where it has grown by so many."""

UNBOUNDED = Budget(100_000_000)


@frozen
class Prompt:
    """A prompt, as it was estimated and as it was billed.

    Args:
        session: The id of the session.
        index: How many messages it had.
        whole: Whether the recording holds all of the request; else tools and instructions are missing.
        known: Reports of usage before it.
        apart: Model calls since the last report; 1 when none went without.
        counted: Our count of it, in tokens.
        estimated: The estimate, in tokens.
        billed: What the provider counted, in tokens.
    """

    session: str
    index: int
    whole: bool
    known: int
    apart: int
    counted: int
    estimated: int
    billed: int

    @property
    def error(self) -> float:
        """How far the estimate is off, as a share of what was billed."""
        return self.estimated / self.billed - 1


def reported() -> Iterator[dict[str, Any]]:
    """What was reported: session by session."""
    with USAGE.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def transcripts(names: set[str]) -> dict[str, Recording]:
    """The shared transcripts of these files, by id; empty where there are none."""
    found: dict[str, Recording] = {}
    for path in (SHARED / name for name in sorted(names)):
        if path.exists():
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                for record in map(json.loads, lines):
                    parts = (record["messages"], record["system"], record["tools"], record["format"])
                    found[record["id"]] = Recording(*parts, id=record["id"], pending=False)
    return found


async def prompts(session: dict[str, Any], recording: Recording) -> list[Prompt]:
    """Prepare each prompt of a session that usage was reported for, telling the session the usage."""
    calls = [0, *calls_of(recording)]
    known = Pipeline(FitContextWindow(), budget=UNBOUNDED).session(model=session["model"])
    said: list[Prompt] = []
    last = 0
    for number, report in enumerate(session["reports"]):
        length, usage = report["index"], report["usage"]
        view = await known.prepare(
            recording.messages[:length],
            system=recording.system,
            tools=recording.tools,
            format=recording.format,
            model=report["model"],
        )
        counted = view.report.tokens_after
        estimated = known.internals.limits.calibration.estimate(counted)
        apart = sum(last < call <= length for call in calls)
        billed = prompt_tokens(usage) or 0
        said.append(Prompt(session["id"], length, session["whole"], number, apart, counted, estimated, billed))
        known.record(usage)
        last = length
    return said


async def measure() -> list[list[Prompt]]:
    """The prompts of all sessions whose transcript is there."""
    warmup()
    sessions = list(reported())
    found = transcripts({session["file"] for session in sessions})
    return [await prompts(each, found[each["id"]]) for each in sessions if each["id"] in found]


def within(errors: Sequence[float], share: float) -> float:
    """The share of errors that are at most ``share``, in percent."""
    return 100 * sum(abs(error) <= share for error in errors) / len(errors)


def middle(errors: Sequence[float]) -> float:
    """The median of the errors' sizes, in percent."""
    return 100 * median(map(abs, errors))


def grown(said: Sequence[Prompt]) -> float | None:
    """How far our count of what was appended is off, from the first report of a session to its last."""
    first, last = said[0], said[-1]
    billed = last.billed - first.billed
    return (last.counted - first.counted) / billed - 1 if billed >= MUCH else None


def rows(sessions: Sequence[Sequence[Prompt]]) -> list[Row]:
    """The table."""
    following = [each for said in sessions for each in said if each.known >= LEARNED and each.apart == 1]
    by_kind: dict[str, list[float]] = defaultdict(list)
    for each in following:
        by_kind[kind_of(each.session)].append(each.error)
    errors = [each.error for each in following]
    first = [said[0].error for said in sessions if said[0].whole and said[0].known == 0]
    texts = [off for said in sessions if (off := grown(said)) is not None]
    how = f"{len(errors)} prompts, each after {LEARNED} reports or more"
    table = [
        Row("estimate after three reports, within 2 %", within(errors, CLOSE), 95, at_least=True, how=how, unit="%"),
        Row("estimate after three reports, median error", middle(errors), 2, how=how, unit="%"),
        Row("estimate after three reports, largest error", 100 * max(map(abs, errors)), None, how=how, unit="%"),
    ]
    for kind, own in sorted(by_kind.items()):
        how = f"{len(own)} prompts, median error {middle(own):.2g} %"
        table.append(Row(f"the same within 2 %, {kind}", within(own, CLOSE), None, how=how, unit="%"))
    how = f"{len(texts)} sessions, from the first report to the last, nothing learned"
    table += [
        Row("count of what was appended, median error", middle(texts), 100 * NEAR, how=how, unit="%"),
        Row("count of what was appended, within 15 %", within(texts, NEAR), None, how=how, unit="%"),
    ]
    how = f"{len(first)} requests that are recorded whole, all of less than 2,000 tokens"
    table += [
        Row("estimate before any report, median error", middle(first), 100 * NEAR, how=how, unit="%"),
        Row("estimate before any report, within 15 %", within(first, NEAR), None, how=how, unit="%"),
    ]
    return table


def kind_of(session: str) -> str:
    """The agent that was recorded, by the session's id."""
    names = {
        "pyai": "pydantic-ai",
        "entire": "Claude Code",
        "ccviewer": "Claude Code",
        "pi": "pi",
        "moatless": "moatless",
    }
    return names.get(session.partition("-")[0], "Codex")


def main() -> int:
    """Measure, print, and say by the exit code whether every bar was kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="each prompt as well")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    sessions = anyio.run(measure)
    if not sessions:
        print(f"no transcripts in {SHARED.name}: nothing to measure", file=sys.stderr)
        return 1
    found = rows(sessions)
    if options.json:
        print(json.dumps([asdict(row) for row in found], indent=2))
    else:
        show(found, sessions if options.all else ())
    return 0 if all(row.ok for row in found) else 1


def show(found: Sequence[Row], sessions: Sequence[Sequence[Prompt]]) -> None:
    """Print the table, and the prompts behind it."""
    console = Console()
    for said in sessions:
        for each in said:
            line = f"{each.session} {each.index}: {each.estimated:,} for {each.billed:,} ({100 * each.error:+.1f} %)"
            console.print(line, highlight=False)
    table = Table("what", "measured", "bar", "", "how")
    for row in found:
        table.add_row(row.what, row.result, row.wanted, row.verdict, row.how)
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
