"""What Prometheus may ask. The one file for prometheus_client. No label has a value that a client chooses.

Several workers count in files, in the folder that ``PROMETHEUS_MULTIPROC_DIR`` names when this is imported; each tells
what all of them have counted.
"""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.multiprocess import MultiProcessCollector

from agentctx.message import Native
from agentctx.reports import Report

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    """The counters of one proxy."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        at: dict[str, Native] = {"namespace": "agentctx_proxy", "registry": self.registry}
        about = "Requests, by what became of them: unchanged, changed, passed, refused or failed"
        self.requests = Counter("requests", about, ["outcome"], **at)
        self.answers = Counter("answers", "Answers to clients, by the class of their status", ["status"], **at)
        self.active = Gauge("active_requests", "Requests under way", multiprocess_mode="livesum", **at)
        self.tokens = Counter("tokens", "Tokens of model calls, as given by clients and as sent", ["of"], **at)
        self.recovered = Counter("recovered", "Model calls that were sent once more, smaller", **at)
        self.compacted = Counter("changed_views", "Model calls in which a stage changed something", **at)
        self.preparing = Histogram("prepare_seconds", "Reading and preparing a model call", buckets=_SECONDS, **at)
        self.first_byte = Histogram("first_byte_seconds", "Until the answer's first byte", buckets=_SECONDS, **at)
        self.broken = Counter("broken_streams", "Answers that ended early, by who ended them", ["by"], **at)
        many = "Conversations that are known"
        self.conversations = Gauge("conversations", many, multiprocess_mode="livesum", **at)

    def prepared(self, report: Report, seconds: float) -> None:
        """A model call was prepared."""
        self.preparing.observe(seconds)
        self.tokens.labels("given").inc(report.tokens_before)
        self.tokens.labels("sent").inc(report.tokens_after)
        if report.stages:
            self.compacted.inc()

    def text(self) -> bytes:
        """All of them, as Prometheus reads them."""
        if (folder := os.environ.get("PROMETHEUS_MULTIPROC_DIR")) is None:
            return generate_latest(self.registry)
        together = CollectorRegistry()
        MultiProcessCollector(together, folder)  # type: ignore[no-untyped-call]  # it carries no types
        return generate_latest(together)
