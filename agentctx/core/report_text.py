"""A report as plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentctx.core.compare import Change, HeadChange, Outcome
from agentctx.core.printable import printable

if TYPE_CHECKING:
    from agentctx.core.report import Report, StageReport

_MOST_CHANGES = 20


def report_text(report: Report, *, most: int = _MOST_CHANGES) -> str:
    """What happened to a request, for people: one line for the request, then each stage and each change.

    Args:
        report: The report of a view.
        most: The most changes to list for a stage; the rest is counted.
    """
    lines = [_headline(report)]
    if report.first_changed is not None:
        lines.append(_moved(report))
    if report.acted and report.first_changed is not None and report.forecast is not None:
        lines.append(f"cost: {report.forecast}")
    acted = [stage for stage in report.stages if stage.acted]
    for stage in acted:
        lines += _stage_lines(stage, most)
    earlier = len(report.in_force) - len(report.changes)
    if earlier > 0:
        lines.append(f"{earlier} more {_plural(earlier, 'change')} from earlier steps still in force")
    if not acted and earlier <= 0:
        lines.append("nothing was changed")
    return printable("\n".join(lines))


def _headline(report: Report) -> str:
    limit = "" if report.limit is None else f", {report.limit:,} allowed"
    return (
        f"{report.messages_before} -> {report.messages_after} {_plural(report.messages_after, 'message')}, "
        f"{report.tokens_before:,} -> {report.tokens_after:,} tokens{limit}, {1000 * report.seconds:.1f} ms"
    )


def _moved(report: Report) -> str:
    again = f", {report.rebilled_tokens:,} tokens to be billed again" if report.rebilled_tokens else ""
    return f"first message that differs: {report.first_changed}{again}"


def _stage_lines(stage: StageReport, most: int) -> list[str]:
    lines = [f"{stage.stage}: {stage.tokens_before:,} -> {stage.tokens_after:,} tokens"]
    lines += [f"  {note}" for note in stage.notes]
    lines += [f"  {head_text(change)}" for change in stage.head]
    lines += [f"  {change_text(change)}" for change in stage.changes[:most]]
    if len(stage.changes) > most:
        lines.append(f"  and {len(stage.changes) - most} more")
    return lines


def change_text(change: Change) -> str:
    """One change on one line: what became of which message, its size, why, and where the original is kept."""
    size = f"{change.tokens_before:,} -> {change.tokens_after:,} tokens"
    if change.outcome is Outcome.ADDED:
        size = f"{change.tokens_after:,} tokens"
    elif not change.tokens_after:
        size = f"{change.tokens_before:,} tokens"
    kept = f" [original: {change.handle}]" if change.handle else ""
    why = f": {change.reason}" if change.reason else ""
    return f"{change.outcome} message {change.index} ({change.role}, {size}){why}{kept}"


def head_text(change: HeadChange) -> str:
    """One change before the messages on one line: what became of the system prompt, or of which tool, and why."""
    what = "system prompt" if change.place == "system" else change.place
    name = f" ({change.name})" if change.name else ""
    return f"{change.outcome} {what}{name}: {change.reason}"


def _plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"
