"""What happens, as OpenTelemetry's spans and metrics, by its semantic conventions for generative AI."""

from __future__ import annotations

from collections import Counter, OrderedDict
from functools import cache
from threading import Lock
from time import time_ns
from typing import Any

from attrs import define, field

from agentctx.engine.usage import output_tokens
from agentctx.errors import ConfigError
from agentctx.events.log import is_cut, saved, store_failures
from agentctx.events.window import Window, Windows
from agentctx.formats.registry import format_named
from agentctx.lazy import unmet
from agentctx.message import Native
from agentctx.reports import (
    Event,
    OverflowMet,
    SessionClosed,
    SessionOpened,
    SessionSaved,
    SilentTruncationSuspected,
    StepPrepared,
    StepRefused,
    UsageRecorded,
)
from agentctx.validators import TRUTH, methods

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_BYTES = tuple(4**power for power in range(5, 14))
SESSIONS = 64
"""For so many conversations only new messages are counted; the one that was silent for longest is forgotten first."""
_TOKENS = (1_000, 4_000, 16_000, 32_000, 64_000, 128_000, 200_000, 400_000, 1_000_000)


@define(eq=False)
class OpenTelemetry:
    """Makes a span of each step and counts what an operator asks for. Needs the package ``opentelemetry-api``.

    Spans are named ``agentctx.prepare`` and stand in the trace of whoever prepares; that of a request that could not be
    prepared has failed, with ``error.type``. A span has the tokens of each kind of content in the window, as
    ``agentctx.window.results``, and the outcome of a compaction: the stages that acted, how many messages each
    ``Outcome`` befell, as ``agentctx.outcome.dropped``, and the tokens that are billed again. The metrics, each by
    model:

    - ``agentctx.prepare.duration`` (seconds), ``agentctx.cuts``, ``agentctx.refusals``, ``agentctx.overflows``,
      ``agentctx.truncations`` (suspected), ``agentctx.store.failures``
    - ``agentctx.request.tokens`` (size of each request), ``agentctx.tokens.saved``, ``agentctx.cost.saved`` (USD;
      may go down: a cut costs first)
    - ``agentctx.limit`` (tokens that a request may have, with what overflows taught)
    - ``agentctx.sessions`` (held in memory), ``agentctx.sessions.closed`` by why
    - ``agentctx.session.bytes`` (what a store has of a session, at each save), ``agentctx.session.written`` (bytes)
    - ``gen_ai.client.token.usage`` of input and output, where ``usage`` asks for it

    Nothing of what was said is in them; ``gen_ai.conversation.id`` has the session's id, in spans only.

    Args:
        meter_provider: Makes the metrics; None: the one that is set for the program.
        tracer_provider: Makes the spans; None: the one that is set for the program.
        usage: Whether to count billed tokens too: not where another instrumentation counts the same calls.

    Raises:
        ConfigError: If the package is missing.

    Example:
        >>> from opentelemetry.sdk.metrics import MeterProvider
        >>> from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        >>> from agentctx import Pipeline
        >>> from agentctx.events import OpenTelemetry
        >>> reader = InMemoryMetricReader()
        >>> telemetry = OpenTelemetry(MeterProvider(metric_readers=[reader]))
        >>> view = await Pipeline(subscribers=[telemetry]).prepare([{"role": "user", "content": "Hello"}])
        >>> metrics = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
        >>> "agentctx.prepare.duration" in {metric.name for metric in metrics}
        True
    """

    meter_provider: Native = field(default=None, validator=methods("a provider of meters", "get_meter").or_none)
    tracer_provider: Native = field(default=None, validator=methods("a provider of tracers", "get_tracer").or_none)
    usage: bool = field(default=False, validator=TRUTH, kw_only=True)
    _made: _Instruments = field(init=False, repr=False)
    _tracer: Native = field(init=False, repr=False)
    _failed: Native = field(init=False, repr=False)
    _windows: OrderedDict[tuple[str | None, ...], Windows] = field(init=False, factory=OrderedDict, repr=False)
    _guard: Lock = field(init=False, factory=Lock, repr=False)

    def __attrs_post_init__(self) -> None:
        """Make the instruments."""
        try:
            from opentelemetry import metrics, trace  # noqa: PLC0415 - an optional package
        except ImportError as error:
            raise ConfigError(unmet("OpenTelemetry", "otel", error)) from error
        self._made = _Instruments(metrics.get_meter("agentctx", meter_provider=self.meter_provider))
        self._tracer = trace.get_tracer("agentctx", tracer_provider=self.tracer_provider)
        self._failed = trace.Status(trace.StatusCode.ERROR)

    def __call__(self, event: Event, /) -> None:
        """Count the event."""
        made, told = self._made, _attributes(event)
        if isinstance(event, StepPrepared):
            self._step(event, told)
        elif isinstance(event, StepRefused):
            self._refused(event, told | {"error.type": type(event.error).__name__})
        elif isinstance(event, OverflowMet):
            made.overflows.add(1, told | {"agentctx.recovered": event.recovered})
        elif isinstance(event, SilentTruncationSuspected):
            made.truncations.add(1, told)
        elif isinstance(event, SessionOpened):
            made.sessions.add(1)
        elif isinstance(event, SessionSaved):
            made.kept.record(event.bytes)
            made.written.add(event.written)
        elif isinstance(event, SessionClosed):
            made.sessions.add(-1)
            made.closed.add(1, {"agentctx.why": event.why})
        elif isinstance(event, UsageRecorded) and self.usage:
            chat = told | {"gen_ai.operation.name": "chat"}
            self._made.usage.record(event.billed, chat | {"gen_ai.token.type": "input"})
            if (answer := output_tokens(event.usage)) is not None:
                self._made.usage.record(answer, chat | {"gen_ai.token.type": "output"})

    def _step(self, event: StepPrepared, told: dict[str, Any]) -> None:
        report, less, made = event.report, saved(event), self._made
        made.duration.record(report.seconds, told)
        made.request.record(report.tokens_after, told)
        if report.limit is not None:
            made.limit.set(report.limit, told)
        if is_cut(event):
            made.cuts.add(1, told)
        if failures := store_failures(event):
            made.failures.add(failures, told)
        made.saved.add(less.tokens, told)
        if less.usd is not None:
            made.usd.add(less.usd, told)
        self._span(event, told)

    def _span(self, event: StepPrepared, told: dict[str, Any]) -> None:
        report, end = event.report, time_ns()
        span = self._tracer.start_span("agentctx.prepare", start_time=end - int(report.seconds * 1e9))
        if span.is_recording():
            named = {"gen_ai.conversation.id": event.session, "agentctx.step": event.step}
            outcomes = Counter(change.outcome for change in report.changes)
            span.set_attributes(
                told
                | {name: value for name, value in named.items() if value is not None}
                | {f"agentctx.window.{kind.kind}": kind.tokens for kind in self._window(event).sections}
                | {f"agentctx.outcome.{outcome}": number for outcome, number in outcomes.items()}
                | {
                    "agentctx.messages.before": report.messages_before,
                    "agentctx.messages.after": report.messages_after,
                    "agentctx.tokens.before": report.tokens_before,
                    "agentctx.tokens.after": report.tokens_after,
                    "agentctx.tokens.prefix": report.prefix_tokens,
                    "agentctx.tokens.rebilled": report.rebilled_tokens,
                    "agentctx.cut": is_cut(event),
                    "agentctx.stages": [stage.stage for stage in report.stages if stage.acted],
                }
            )
        span.end(end)

    def _window(self, event: StepPrepared) -> Window:
        """Return what the request consists of; of a conversation that spoke lately, only what is new is counted."""
        key = event.session, event.model, event.format
        with self._guard:
            windows = self._windows.setdefault(key, Windows(event.model, event.format))
            self._windows.move_to_end(key)
            if len(self._windows) > SESSIONS:
                self._windows.popitem(last=False)
            return windows.of(event.view)

    def _refused(self, event: StepRefused, told: dict[str, Any]) -> None:
        """Count it, and make a span that has failed; without the error's message, which may quote what was said."""
        self._made.refusals.add(1, told)
        span = self._tracer.start_span("agentctx.prepare")
        if span.is_recording():
            span.set_attributes(told | ({} if event.session is None else {"gen_ai.conversation.id": event.session}))
            span.set_status(self._failed)
        span.end()


class _Instruments:
    """What is counted."""

    def __init__(self, meter: Native) -> None:
        counter, histogram = meter.create_counter, meter.create_histogram
        self.duration = histogram(
            "agentctx.prepare.duration",
            unit="s",
            description="How long preparing a request took.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self.request = histogram(
            "agentctx.request.tokens",
            unit="{token}",
            description="The size of each request that was prepared.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self.usage = histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=[4**power for power in range(14)],
        )
        self.limit = meter.create_gauge("agentctx.limit", unit="{token}", description="The most that a request may be.")
        self.cuts = counter("agentctx.cuts", description="Requests that do not begin with the one before.")
        self.refusals = counter("agentctx.refusals", description="Requests that could not be prepared.")
        self.overflows = counter("agentctx.overflows", description="Requests that a provider refused as too large.")
        self.truncations = counter("agentctx.truncations", description="Prompts that a server probably cut silently.")
        self.failures = counter("agentctx.store.failures", description="What could not be kept in a store.")
        up_down = meter.create_up_down_counter
        self.saved = up_down("agentctx.tokens.saved", unit="{token}", description="Input tokens that were not sent.")
        self.usd = up_down("agentctx.cost.saved", unit="{USD}", description="What the input cost less, reckoned.")
        self.sessions = up_down("agentctx.sessions", description="Sessions that are held in memory.")
        self.closed = counter("agentctx.sessions.closed", description="Sessions that are no longer held in memory.")
        self.kept = histogram(
            "agentctx.session.bytes",
            unit="By",
            description="What a store has of a session, at each save.",
            explicit_bucket_boundaries_advisory=_BYTES,
        )
        self.written = counter("agentctx.session.written", unit="By", description="What was written to keep sessions.")


def _attributes(event: Event) -> dict[str, Any]:
    model, spoken = getattr(event, "model", None), getattr(event, "format", None)
    told = {} if model is None else {"gen_ai.request.model": model}
    provider = _provider(spoken) if isinstance(spoken, str) else ""
    return told | ({"gen_ai.provider.name": provider} if provider else {})


@cache
def _provider(spoken: str) -> str:
    return format_named(spoken).provider
