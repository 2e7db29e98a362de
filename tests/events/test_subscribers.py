"""Subscribers are told of every step, answer and session, and of nothing that was said."""

import io
import json
import logging
import re
import stat
from asyncio import CancelledError
from pathlib import Path

import anyio
import pytest
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import REGISTRY, generate_latest

from agentctx import Budget, ConfigError, ContextOverflow, FitContextWindow, InvalidInput, Pipeline, Session, Sessions
from agentctx.economics import SilentTruncationSuspected
from agentctx.engine.plan import OnCompact, finish_plain
from agentctx.events import (
    JsonLines,
    LogEvents,
    OpenTelemetry,
    OverflowMet,
    SessionClosed,
    SessionOpened,
    SessionSaved,
    StepPrepared,
    StepRefused,
    UsageRecorded,
    Window,
    saved,
)
from agentctx.stores import MemoryStore
from agentctx.testing import assistant, call, result, transcript, user

DASHBOARD = Path(__file__).parents[2] / "examples" / "grafana" / "agentctx.json"

pytestmark = pytest.mark.anyio

SAID = "the canary sings at midnight"
MODEL = "claude-sonnet-4-5"


def history(rounds):
    """A conversation of so many tool calls, in which a sentence stands that no subscriber may tell."""
    turns = [user(f"Read them all. {SAID}")]
    for place in range(rounds):
        turns += [assistant(call(f"c{place}", "read", {"path": f"{place}.txt"})), result(f"c{place}", SAID * 40)]
    return transcript("anthropic", *turns)


def pipeline(*subscribers, window=4_000):
    """Cuts at a few rounds."""
    return Pipeline(FitContextWindow(), budget=Budget(window=window, trigger=0.8, target=0.5), subscribers=subscribers)


async def walk(session, rounds=12):
    """Take a step for each round."""
    for place in range(1, rounds + 1):
        await session.prepare(history(place), model=MODEL)


async def test_every_step_is_told_once_and_in_order():
    """Of each step of a session its number, its report, and how much history the step before had."""
    events = []
    session = pipeline(events.append).session(model=MODEL, id="thread-42")
    await walk(session)
    assert [event.step for event in events] == list(range(12))
    assert {(event.session, event.model, event.format) for event in events} == {("thread-42", MODEL, "anthropic")}
    before = [0, *(event.report.tokens_before for event in events)]
    assert [event.known_tokens for event in events] == before[:-1]
    assert any(event.report.tokens_after < event.report.tokens_before for event in events)


async def test_answers_refusals_and_overflows_are_told():
    """What was billed, what could not be prepared, what a provider refused, and whether something smaller was found."""
    events = []
    session = pipeline(events.append).session(model=MODEL)
    await session.prepare(history(4), model=MODEL)
    session.record({"input_tokens": 900, "output_tokens": 5})
    assert (events[-1].billed, events[-1].usage["output_tokens"]) == (900, 5)
    smaller = await session.recover(ValueError("prompt is too long: 3000 tokens > 900 maximum"))
    assert smaller is not None
    step, overflow = events[-2:]
    assert isinstance(step, StepPrepared)
    assert overflow == OverflowMet(overflow.sent, session.budget.limit, recovered=True, model=MODEL)
    assert await session.recover(ValueError("prompt is too long: 900 tokens > 10 maximum")) is None
    assert (type(events[-1]), events[-1].recovered) == (OverflowMet, False)
    with pytest.raises(ContextOverflow):
        await pipeline(events.append, window=30).session(model=MODEL).prepare(history(1))
    assert isinstance(events[-1].error, ContextOverflow)


@pytest.mark.both_loops
@pytest.mark.parametrize("remembered", [True, False], ids=["session", "stateless"])
async def test_every_failure_of_a_step_is_told_once(remembered):
    """What a stage raises, and messages that are none, as well as what is too large; a cancelled step is no failure."""
    events, trouble = [], RuntimeError("boom")

    async def fails(context, call):
        raise trouble

    async def hangs(context, call):
        await anyio.sleep_forever()

    for stage, messages in ((fails, history(1)), (fails, "no messages"), (fails, [])):
        told = Pipeline(stage, subscribers=[events.append])
        with pytest.raises((RuntimeError, InvalidInput)) as raised:
            await (told.session(model=MODEL) if remembered else told).prepare(messages, model=MODEL)
        assert [event.error for event in events] == [raised.value]
        assert (type(events.pop()), raised.value is trouble) == (StepRefused, messages == history(1))
    told = Pipeline(hangs, subscribers=[events.append])
    with anyio.move_on_after(0.01) as scope:
        await (told.session(model=MODEL) if remembered else told).prepare(history(1), model=MODEL)
    assert scope.cancelled_caught
    assert events == []


async def test_sessions_are_told_when_they_open_and_close():
    """One that is opened once and evicted is told of once each."""
    events = []
    sessions = Sessions(pipeline(events.append), capacity=1)
    for name in ("a", "a", "b"):
        async with sessions.open(name):
            pass
    await sessions.close("b")
    assert events == [
        SessionOpened("a", loaded=False),
        SessionOpened("b", loaded=False),
        SessionClosed("a", "capacity"),
        SessionClosed("b", "closed"),
    ]


async def test_what_a_store_has_of_a_session_is_told_at_each_save():
    """To the byte, also by a worker that loaded it, through cuts and going back; a save says what it wrote."""
    events, store, said = [], MemoryStore(), history(12)
    plan = pipeline(events.append)
    for length in (3, 9, len(said), 5, len(said)):
        for sessions in (Sessions(plan, store), Sessions(plan, store)):
            async with sessions.open("a") as session:
                await session.prepare(said[:length], model=MODEL)
            saved = [event for event in events if isinstance(event, SessionSaved)][-1]
            pieces = (await store.load_state("a")).pieces
            assert saved.bytes == sum(map(len, pieces.values()))
            assert len(pieces["head"]) <= saved.written <= saved.bytes


@pytest.mark.parametrize("error", [OSError("no space left"), CancelledError("no space left")], ids=repr)
@pytest.mark.both_loops
async def test_a_subscriber_or_listener_that_raises_costs_nothing(caplog, error):
    """It is logged; the step and all others go on; the views are those without any. Nobody has cancelled anything."""
    events, compactions = [], []

    def broken(event):
        raise error

    async def broken_later(event):
        raise error

    listeners = map(OnCompact, (broken, broken_later, compactions.append))
    seen, plain = pipeline(broken, events.append, *listeners).session(), pipeline().session()
    await walk(seen)
    await walk(plain)
    assert (seen.view.messages, len(events)) == (plain.view.messages, 12)
    assert caplog.text.count("raised; the request goes on without it") == 12 + 2 * len(compactions) > 12
    assert "no space left" in caplog.text
    assert finish_plain([OnCompact(broken)(compactions[0])]) == []


@pytest.mark.parametrize("given", ["print", [3], [JsonLines]], ids=["text", "number", "class"])
def test_what_is_no_subscriber_is_refused_where_it_is_given(given):
    """A text, a number, a class."""
    with pytest.raises(ConfigError, match=r"Pipeline.subscribers(\[0\])? must be a (list of )?subscriber"):
        Pipeline(subscribers=given)


def test_a_class_of_subscribers_is_told_from_a_subscriber():
    """A class can be called, too, and would make a subscriber of each event."""
    with pytest.raises(
        ConfigError, match=r"subscribers\[0\] must be a subscriber: a plain function .* got <class .*LogEvents"
    ):
        Pipeline(subscribers=[LogEvents])


def test_an_async_subscriber_is_refused():
    """Nobody would await it."""

    async def subscriber(event):
        pass

    with pytest.raises(ConfigError, match="does not wait"):
        Pipeline(subscribers=[subscriber])


async def test_a_loaded_session_is_told_of_further_steps():
    """Its first step after the load knows what was sent before."""
    events = []
    plan = pipeline(events.append)
    session = plan.session(model=MODEL)
    await walk(session, 3)
    loaded = Session.load(plan, session.dump())
    await loaded.prepare(history(4), model=MODEL)
    assert events[-1].step == 3
    assert saved(events[-1]).usd == pytest.approx(0, abs=1e-6)


async def test_savings_are_those_of_the_bill():
    """Nothing is saved before a cut; the calls behind it cost less than sending everything."""
    events = []
    await walk(pipeline(events.append, window=6_000).session(model=MODEL), 40)
    quiet = next(place for place, event in enumerate(events) if event.report.acted)
    assert all(saved(event).tokens == 0 and saved(event).usd == pytest.approx(0) for event in events[:quiet])
    assert saved(events[-1]).tokens == events[-1].report.tokens_before - events[-1].report.tokens_after
    assert saved(events[-1]).usd > 0


async def test_lines_are_json_for_machines_and_have_no_content(tmp_path):
    """One object for each event, in a file that its owner alone may read; reasons only where asked for."""
    path = tmp_path / "events.jsonl"
    session = pipeline(JsonLines(path, clock=lambda: 1.0)).session(model=MODEL, id="thread-42")
    await walk(session)
    session.record({"input_tokens": 900, "output_tokens": 5})
    await session.recover(ValueError("prompt is too long: 3000 tokens > 900 maximum"))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["step_prepared"] * 12 + [
        "usage_recorded",
        "step_prepared",
        "overflow_met",
    ]
    assert {"saved_tokens", "saved_usd", "seconds", "stages"} <= set(lines[0])
    assert any(line["cut"] and line["stages"] for line in lines[:12])
    assert SAID not in path.read_text()
    assert "changes" not in lines[11]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    told = io.StringIO()
    await pipeline(JsonLines(told, content=True)).prepare(history(20), model=MODEL)
    assert json.loads(told.getvalue())["changes"]


def test_lines_are_written_where_that_is_possible():
    """What is neither a path nor open is refused."""
    wrong = (
        r"^JsonLines\.to must be the path of a file in a folder that is there, or a file that is open for text, got "
    )
    with pytest.raises(ConfigError, match=wrong + "3"):
        JsonLines(3)
    with pytest.raises(ConfigError, match=wrong + "'/nonexist/x.jsonl'"):
        JsonLines("/nonexist/x.jsonl")
    with pytest.raises(ConfigError, match=wrong + "'/'"):
        JsonLines("/")


async def test_the_log_has_a_line_for_each_event(caplog):
    """Quiet steps are DEBUG, cuts INFO, overflows WARNING; the numbers are with the record."""
    caplog.set_level(logging.DEBUG, "agentctx.events")
    session = pipeline(LogEvents()).session(model=MODEL)
    await walk(session)
    await session.recover(ValueError("prompt is too long: 3000 tokens > 900 maximum"))
    records = [record for record in caplog.records if record.name == "agentctx.events"]
    assert {record.levelname for record in records} == {"DEBUG", "INFO", "WARNING"}
    assert all(record.agentctx["event"] for record in records)
    assert SAID not in caplog.text


async def test_a_name_of_a_conversation_writes_no_line_of_its_own(caplog):
    """Who names a session or a model can neither forge a line of the log nor make a terminal obey."""
    caplog.set_level(logging.DEBUG, "agentctx.events")
    session = pipeline(LogEvents()).session(model="gpt-5.4\nforged", id="a\r\nERROR forged\x1b[31m\u2028")
    await walk(session)
    told = [record.getMessage() for record in caplog.records if record.name == "agentctx.events"]
    assert told
    assert all(len(line.splitlines()) == 1 and line.isprintable() for line in told)


@pytest.fixture
def telemetry():
    """A real SDK in memory: a subscriber, its metrics by name, and its spans."""
    reader, exporter = InMemoryMetricReader(), InMemorySpanExporter()
    meters, tracers = MeterProvider(metric_readers=[reader]), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))

    def metrics():
        found = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
        return {metric.name: metric.data.data_points for metric in found}

    yield OpenTelemetry(meters, tracers, usage=True), metrics, exporter, tracers
    meters.shutdown()
    tracers.shutdown()


async def test_spans_stand_in_the_callers_trace(telemetry):
    """A span of each step, in the span around it, as long as the step, without a word of what was said."""
    subscriber, _, exporter, tracers = telemetry
    with tracers.get_tracer("app").start_as_current_span("agent") as around:
        await walk(pipeline(subscriber).session(model=MODEL, id="thread-42"))
    spans = [span for span in exporter.get_finished_spans() if span.name == "agentctx.prepare"]
    assert len(spans) == 12
    assert {span.parent.span_id for span in spans} == {around.get_span_context().span_id}
    assert all(span.end_time >= span.start_time for span in spans)
    told = spans[-1].attributes
    assert told["gen_ai.conversation.id"] == "thread-42"
    assert (told["gen_ai.request.model"], told["gen_ai.provider.name"]) == (MODEL, "anthropic")
    assert all(span.status.is_unset for span in spans)
    with pytest.raises(ContextOverflow):
        await pipeline(subscriber, window=30).session(model=MODEL, id="thread-43").prepare(history(1))
    refused = exporter.get_finished_spans()[-1]
    assert (refused.name, refused.status.status_code.name) == ("agentctx.prepare", "ERROR")
    assert refused.attributes["error.type"] == "ContextOverflow"
    assert refused.attributes["gen_ai.conversation.id"] == "thread-43"
    assert SAID not in "".join(span.to_json() for span in (*spans, refused))


async def test_spans_have_the_window_by_kind_and_the_outcome_of_a_compaction(telemetry):
    """Tokens of each kind of content add up to the request; what became of messages adds up to the report."""
    subscriber, _, exporter, _ = telemetry
    events = []
    await walk(pipeline(subscriber, events.append).session(model=MODEL))
    for event, span in zip(events, exporter.get_finished_spans(), strict=True):
        kinds = {section.kind: section.tokens for section in Window.of(event.view, model=MODEL).sections}
        told = {
            name.removeprefix("agentctx.window."): size for name, size in span.attributes.items() if "window" in name
        }
        assert told == kinds
        assert sum(told.values()) == event.report.tokens_after
        outcomes = {name: number for name, number in span.attributes.items() if name.startswith("agentctx.outcome.")}
        assert sum(outcomes.values()) == len(event.report.changes)
        assert span.attributes["agentctx.tokens.rebilled"] == event.report.rebilled_tokens
    assert any(event.report.changes for event in events)


async def test_metrics_are_the_reports(telemetry):
    """Counts, sizes and savings add up to what the events say; billed tokens by the conventions."""
    subscriber, metrics, _, _ = telemetry
    events = []
    plan = pipeline(subscriber, events.append)
    async with Sessions(plan).open("a") as session:
        await walk(session)
        session.record({"input_tokens": 900, "output_tokens": 5})
        await session.recover(ValueError("prompt is too long: 3000 tokens > 900 maximum"))
    with pytest.raises(ContextOverflow):
        await pipeline(subscriber, window=30).prepare(history(1), model=MODEL)
    steps = [event for event in events if isinstance(event, StepPrepared)]
    told = metrics()
    assert told["agentctx.prepare.duration"][0].count == len(steps)
    assert told["agentctx.request.tokens"][0].sum == sum(event.report.tokens_after for event in steps)
    assert told["agentctx.tokens.saved"][0].value == sum(saved(event).tokens for event in steps)
    assert told["agentctx.cost.saved"][0].value == pytest.approx(sum(saved(event).usd for event in steps))
    assert told["agentctx.cuts"][0].value > 0
    assert told["agentctx.overflows"][0].value == 1
    assert told["agentctx.refusals"][0].attributes["error.type"] == "ContextOverflow"
    assert told["agentctx.sessions"][0].value == 1
    billed = {point.attributes["gen_ai.token.type"]: point.sum for point in told["gen_ai.client.token.usage"]}
    assert billed == {"input": 900, "output": 5}


async def test_prometheus_scrapes_what_the_dashboard_shows():
    """Through the exporter of OpenTelemetry, with nothing of ours between; every name in the dashboard is scraped."""
    reader = PrometheusMetricReader()
    meters = MeterProvider(metric_readers=[reader])
    subscriber = OpenTelemetry(meters)
    await pipeline(subscriber).prepare(history(20), model=MODEL)
    named = {"session": None, "model": MODEL}
    trouble = SilentTruncationSuspected((), 1, 1, 9, 5, why="the server has a small window")
    for event in (StepRefused(ValueError(), **named), OverflowMet(9, 5, recovered=True, **named), trouble):
        subscriber(event)
    subscriber(SessionOpened("a", loaded=False))
    subscriber(SessionSaved("a", 2_000, 9_000))
    subscriber(SessionClosed("a", "idle"))
    subscriber._made.failures.add(1)
    scraped = generate_latest(REGISTRY).decode()
    meters.shutdown()
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    asked = " ".join(target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
    shown = set(re.findall(r"agentctx_\w+(?=[{\[)])", asked)) - {"agentctx_why"}
    assert len(shown) >= 15
    assert sorted(name for name in shown if f"\n{name}{{" not in scraped) == []


def test_an_event_that_is_not_known_is_passed_over(telemetry):
    """Later versions may tell of more."""
    subscriber, _, _, _ = telemetry
    subscriber(UsageRecorded({"input_tokens": 3}, 3, 3))
    subscriber(StepRefused(ValueError(SAID)))
    lines = io.StringIO()
    JsonLines(lines)(StepRefused(ValueError(SAID)))
    JsonLines(lines)("something new")
    assert [json.loads(line)["event"] for line in lines.getvalue().splitlines()] == ["step_refused", "str"]
    assert SAID not in lines.getvalue()
