"""The window in numbers and drawn: it adds up to the request, fits its columns, and says what would help."""

import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from rich.console import Console
from typer.testing import CliRunner

from agentctx import Budget, ClearToolResults, FitContextWindow, Pipeline
from agentctx.cli.app import app
from agentctx.events import Advice, ContentSize, LiveView, Window
from agentctx.events.terminal import Snapshot, bar, history, picture
from agentctx.events.window import KINDS
from agentctx.reports import View
from agentctx.testing import assistant, call, result, transcript, user

pytestmark = pytest.mark.anyio

FORMATS = ("openai-chat", "openai-responses", "anthropic", "gemini", "bedrock")
SAID = "the canary sings at midnight"
SHIPPED = Path(__file__).parents[2] / "examples" / "sessions" / "coding_agent.jsonl"


def rounds(count, format="openai-chat"):  # noqa: A002 - the contract's name
    """A task, and so many tool calls with long results."""
    turns = [user(f"Read them. {SAID}")]
    for place in range(count):
        turns += [
            assistant("Next.", call(f"c{place}", "read", {"path": f"{place}.txt"})),
            result(f"c{place}", SAID * 30),
        ]
    return transcript(format, *turns)


def plain(drawn, width=100):
    """What a terminal without colours shows."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(drawn)
    return console.file.getvalue()


@pytest.mark.parametrize("format_name", FORMATS)
async def test_the_sections_add_up_to_the_request(format_name):
    """In every format, with system prompt and tools, before a cut and behind it."""
    pipeline = Pipeline(FitContextWindow(), budget=Budget(window=3_000, target=0.5))
    system = None if format_name == "openai-chat" else "Be brief."
    for count in (3, 40):
        view = await pipeline.prepare(rounds(count, format_name), system=system, format=format_name)
        window = Window.of(view, format=format_name)
        assert window.tokens == view.report.tokens_after
        assert window.limit == view.report.limit
        assert window.of_kind("results") > window.of_kind("user") > 0
        assert window.of_kind("calls") > 0
    assert window.share <= 1


@st.composite
def windows(draw):
    """Windows of any content, also with more in them than is allowed."""
    kinds = draw(st.sets(st.sampled_from(KINDS)))
    sections = [ContentSize(kind, draw(st.integers(1, 300_000))) for kind in KINDS if kind in kinds]
    return Window(tuple(sections), draw(st.none() | st.integers(1, 200_000)))


@given(windows(), st.integers(0, 200))
@settings(max_examples=150, deadline=None)
def test_a_bar_fills_its_columns(window, width):
    """Exactly as many as asked for, at least ten; each kind that is there is seen, in order; full is full."""
    drawn = bar(window, width)
    assert drawn.cell_len == max(10, width)
    kinds = [span.style for span in drawn.spans if span.end > span.start and span.style != "dim"]
    assert len(kinds) == len(window.sections)
    if window.limit and window.tokens >= window.limit:
        assert "░" not in drawn.plain or window.tokens == 0
    assert str(window)
    assert plain(picture(window, width), 120)


@pytest.mark.parametrize(
    ("tokens", "warning"), [(500, ""), (850, ""), (870, "will be cut soon"), (960, "critical"), (1_500, "critical")]
)
def test_a_full_window_is_warned_of(tokens, warning):
    """Above 85 and above 95 percent."""
    found = Window((ContentSize("user", tokens),), 1_000).warning
    assert (warning in found) if warning else not found


async def test_what_would_help_takes_off_no_less_than_it_says_at_most():
    """The advice names a stage; that one takes off most of what was said, and never more."""
    view = await Pipeline(budget=20_000).prepare(rounds(30))
    advice = next(each for each in Window.of(view).advice if "ClearToolResults" in each.stage)
    cleared = await Pipeline(ClearToolResults(keep_last=5)).prepare(rounds(30))
    taken_off = view.report.tokens_after - cleared.report.tokens_after
    assert 0.5 * advice.saves < taken_off <= advice.saves


async def test_one_huge_result_is_named():
    """By its message."""
    messages = transcript("openai-chat", user("Read."), assistant(call("a", "read")), result("a", "word " * 3_000))
    window = Window.of(await Pipeline(budget=20_000).prepare(messages))
    assert any("one tool result, message 2," in each.what for each in window.advice)
    assert str(Advice("a", "b")) == "a: b"


def test_the_history_marks_cuts():
    """One line a step; the last twenty."""
    steps = [Snapshot(step, Window((ContentSize("user", 10 * step),), 1_000), cut=step == 25) for step in range(1, 31)]
    lines = plain(history(steps)).splitlines()
    assert len(lines) == 20
    assert [line for line in lines if "cut" in line] == [line for line in lines if line.split()[0] == "25"]


async def test_the_live_view_shows_conversations_and_nothing_that_was_said():
    """A line each, the last one step by step; trouble in words; no text of the conversation."""
    shown = io.StringIO()
    with LiveView(Console(file=shown, width=120, force_terminal=False)) as live:
        pipeline = Pipeline(FitContextWindow(), budget=Budget(window=3_000, target=0.5), subscribers=[live])
        for name in ("first", "second"):
            session = pipeline.session(id=name, model="gpt-5.4")
            for count in range(1, 25, 4):
                await session.prepare(rounds(count))
            session.record({"prompt_tokens": 900})
        assert await session.recover(ValueError("maximum context length is 5 tokens")) is None
        with pytest.raises(Exception, match="it draws already"):
            live.__enter__()
    text = shown.getvalue()
    assert "first" in text
    assert "6 calls" in text
    assert "← cut" in text
    assert "refused as too large" in text
    assert SAID not in text


async def test_the_live_view_on_a_terminal_that_takes_ascii_only():
    """Every line is ASCII and as wide as on any other terminal."""
    drawn = []
    for encoding in ("utf-8", "ascii"):
        shown = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        with LiveView(Console(file=shown, width=120)) as live:
            session = Pipeline(FitContextWindow(), budget=Budget(2_000), subscribers=[live]).session(
                id="a" * 30, model="gpt-5.4"
            )
            for count in (1, 9, 13):
                await session.prepare(rounds(count))
        shown.flush()
        drawn.append(shown.buffer.getvalue().decode(encoding).splitlines())
    assert list(map(len, drawn[0])) == list(map(len, drawn[1]))
    assert any("< cut" in line for line in drawn[1])


async def test_a_view_is_seen_by_a_subscriber():
    """A step is told with what is to be sent."""
    events = []
    await Pipeline(budget=Budget(9_000), subscribers=[events.append]).prepare(rounds(2))
    assert isinstance(events[0].view, View)
    assert Window.of(events[0].view).tokens == events[0].report.tokens_after


def test_the_window_of_a_file():
    """For people and as JSON; exit code 1 above the limit, or one line of bad input; without a window the sums."""
    run = CliRunner().invoke
    told = json.loads(run(app, ["window", str(SHIPPED), "--window", "76k", "--json"]).stdout)
    assert sum(section["tokens"] for section in told["sections"]) == told["tokens"] > 50_000
    assert told["limit"] == 76_000 - 16_384
    assert told["advice"]
    drawn = run(app, ["window", str(SHIPPED), "--window", "76k"]).stdout
    assert "it will be cut soon" in drawn
    for options in ((), ("--json",)):
        assert run(app, ["window", str(SHIPPED), "--window", "8k", *options]).exit_code == 1
    alone = run(app, ["window", str(SHIPPED)])
    assert (alone.exit_code, "free" in alone.stdout) == (0, False)
    wrong = run(app, ["window", "nowhere.json"])
    assert (wrong.exit_code, "Traceback" in wrong.output) == (2, False)
