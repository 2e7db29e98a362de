"""Where what happens is told: the log, JSON lines, OpenTelemetry, a terminal."""

from typing import TYPE_CHECKING

from agentctx.lazy import lazily

if TYPE_CHECKING:
    from agentctx.core.report import (
        OverflowMet as OverflowMet,
        SessionClosed as SessionClosed,
        SessionOpened as SessionOpened,
        SessionSaved as SessionSaved,
        StepPrepared as StepPrepared,
        StepRefused as StepRefused,
        UsageRecorded as UsageRecorded,
    )
    from agentctx.protocols import Sink as Sink
    from agentctx.sinks.log import JsonLines as JsonLines, LogEvents as LogEvents, Saved as Saved, saved as saved
    from agentctx.sinks.opentelemetry import OpenTelemetry as OpenTelemetry
    from agentctx.sinks.terminal import LiveView as LiveView
    from agentctx.sinks.window import Advice as Advice, ContentSize as ContentSize, Window as Window
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.core.report": (
                "OverflowMet SessionClosed SessionOpened SessionSaved StepPrepared StepRefused UsageRecorded"
            ),
            "agentctx.protocols": "Sink",
            "agentctx.sinks.log": "JsonLines LogEvents Saved saved",
            "agentctx.sinks.opentelemetry": "OpenTelemetry",
            "agentctx.sinks.terminal": "LiveView",
            "agentctx.sinks.window": "Advice ContentSize Window",
        },
    )
