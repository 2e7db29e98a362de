"""Where what happens is told: the log, JSON lines, OpenTelemetry, a terminal."""

from typing import TYPE_CHECKING

from agentctx.lazy import lazily

if TYPE_CHECKING:
    from agentctx.events.log import JsonLines as JsonLines, LogEvents as LogEvents, Saved as Saved, saved as saved
    from agentctx.events.opentelemetry import OpenTelemetry as OpenTelemetry
    from agentctx.events.terminal import LiveView as LiveView
    from agentctx.events.window import Advice as Advice, ContentSize as ContentSize, Window as Window
    from agentctx.protocols import Subscriber as Subscriber
    from agentctx.reports import (
        OverflowMet as OverflowMet,
        SessionClosed as SessionClosed,
        SessionOpened as SessionOpened,
        SessionSaved as SessionSaved,
        StepPrepared as StepPrepared,
        StepRefused as StepRefused,
        UsageRecorded as UsageRecorded,
    )
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.reports": (
                "OverflowMet SessionClosed SessionOpened SessionSaved StepPrepared StepRefused UsageRecorded"
            ),
            "agentctx.protocols": "Subscriber",
            "agentctx.events.log": "JsonLines LogEvents Saved saved",
            "agentctx.events.opentelemetry": "OpenTelemetry",
            "agentctx.events.terminal": "LiveView",
            "agentctx.events.window": "Advice ContentSize Window",
        },
    )
