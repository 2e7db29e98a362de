"""What happens, in the log."""

from __future__ import annotations

import logging

from attrs import define

from agentctx.core.report import Event, OverflowMet, SilentTruncationSuspected, StepPrepared, StepRefused
from agentctx.sinks.facts import facts, is_cut, saved, store_failures


@define(eq=False)
class LogEvents:
    """Writes each event to a logger, one line each: quiet steps as DEBUG, cuts as INFO, what went wrong as WARNING.

    Each record has the event's numbers as ``record.agentctx``, for handlers that write structured logs. Nothing of
    what was said is in it.

    Args:
        logger: The logger, or its name.

    Example:
        >>> import logging
        >>> from agentctx import Pipeline
        >>> from agentctx.sinks import LogEvents
        >>> logging.getLogger("steps").addFilter(lambda record: print(record.getMessage()))
        >>> logging.getLogger("steps").setLevel("DEBUG")
        >>> view = await Pipeline(sinks=[LogEvents("steps")]).prepare([{"role": "user", "content": "Hello"}])
        prepared: 1 -> 1 messages, 8 -> 8 tokens
    """

    logger: logging.Logger | str = "agentctx.events"

    def __call__(self, event: Event, /) -> None:
        """Write the event."""
        logger = logging.getLogger(self.logger) if isinstance(self.logger, str) else self.logger
        level = _level(event)
        if logger.isEnabledFor(level):
            logger.log(level, "%s", self._line(event), extra={"agentctx": facts(event)})

    def _line(self, event: Event) -> str:
        told = facts(event)
        whose = f" [{told['session']}]" if told.get("session") is not None else ""
        if not isinstance(event, StepPrepared):
            rest = ", ".join(f"{name} {value}" for name, value in told.items() if name not in ("event", "session"))
            return f"{told['event'].replace('_', ' ')}{whose}: {rest}"
        report, usd = event.report, saved(event).usd
        acted = [stage.stage for stage in report.stages if stage.acted and not stage.marks_only]
        by = f" by {', '.join(acted)}" if acted else ""
        less = f", ${usd:.4f} saved" if usd else ""
        return (
            f"{'cut' if is_cut(event) else 'prepared'}{whose}{by}: {report.messages_before} -> {report.messages_after} "
            f"messages, {report.tokens_before:,} -> {report.tokens_after:,} tokens{less}"
        )


def _level(event: Event) -> int:
    if isinstance(event, (StepRefused, OverflowMet, SilentTruncationSuspected)):
        return logging.WARNING
    if isinstance(event, StepPrepared):
        if store_failures(event):
            return logging.WARNING
        return logging.INFO if is_cut(event) else logging.DEBUG
    return logging.DEBUG
