"""Views that were recorded once, of many sessions in every mode: a change of the house changes no byte of them.

Recorded are sums (SHA-256) of the views; ``python tests/package/test_same_views.py`` compares all of them, and records
them with ``--record``: for when views are meant to change, which the commit explains.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from functools import partial
from pathlib import Path

import anyio
import pytest

from agentctx import (
    AgentctxError,
    Budget,
    ClearToolResults,
    CollapseRepeats,
    ContextOverflow,
    FitContextWindow,
    InvalidInput,
    Pack,
    Pipeline,
    PlaceCacheMarkers,
    Session,
    Tiered,
    TrimRounds,
    TruncateToolOutputs,
    convert,
    over,
    when,
)
from agentctx.presets import coding_agent, late_and_large

HERE = Path(__file__).parent
RECORDED = HERE / "same_views.json"
SESSIONS = HERE.parents[1] / "examples" / "sessions"
SHARED = HERE.parents[1] / "../shared/transcripts"
MODELS = {
    "openai-chat": "gpt-5.4",
    "openai-responses": "gpt-5.4",
    "anthropic": "claude-sonnet-4-5",
} | {
    "gemini": "gemini-2.5-pro",
    "bedrock": "anthropic.claude-sonnet-4-5-20250929-v1:0",
}
SMALL = Budget(12_000, trigger=0.9, target=0.5)
PIPELINES = {
    "coding_agent": lambda: coding_agent(Budget(16_000)),
    "late_and_large": lambda: late_and_large(Budget(32_000)),
    "stages": lambda: Pipeline(
        TruncateToolOutputs(max_tokens=800),
        CollapseRepeats(),
        ClearToolResults(3),
        FitContextWindow(),
        budget=SMALL,
    ),
    "nested": lambda: Pipeline(
        when(over(0.5), ClearToolResults(4)),
        Pipeline(TrimRounds(12), PlaceCacheMarkers()),
        FitContextWindow(),
        budget=SMALL,
    ),
    "pack": lambda: Pipeline(Pack(), budget=SMALL),
    "tiered": lambda: Pipeline(Tiered(), budget=SMALL),
}
CONVERTED = ("gemini", "bedrock")
"""Formats of which no session was recorded: some of the others are read as theirs."""
MODES = ("stateless", "full", "rolling", "load", "back")
MOST_MESSAGES, STEPS = 160, 12
"""So much of a session is looked at, in so many steps."""


def recordings(folder):
    """Sessions by name, each with its format, system prompt, tools and messages."""
    for path in sorted((*folder.glob("*.jsonl"), *folder.glob("*.jsonl.gz"))):
        opened = gzip.open if path.suffix == ".gz" else Path.open
        with opened(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines):
                name, recording = (
                    f"{path.name.partition('.')[0]}/{number}",
                    json.loads(line),
                )
                yield name, recording
                if number % 8 == 0:
                    yield from converted(name, recording)


def converted(name, recording):
    """A session in the formats of which none was recorded."""
    for to in CONVERTED:
        try:
            made = convert(
                recording["messages"][:MOST_MESSAGES],
                to,
                format=recording["format"],
                system=recording.get("system"),
                tools=recording.get("tools"),
            )
        except AgentctxError:
            continue
        yield (
            f"{name} as {to}",
            {
                "format": to,
                "messages": made.messages,
                "system": made.system,
                "tools": made.tools,
            },
        )


async def outcome(prepare):
    """What a step sends, as bytes, and its messages; what it raises, by name."""
    try:
        view = await prepare()
    except (ContextOverflow, InvalidInput) as error:
        return type(error).__name__.encode(), None
    sent = [view.messages, view.system, view.tools, view.options]
    return json.dumps(sent, ensure_ascii=False, sort_keys=True, default=str).encode("utf-8", "surrogatepass"), view


async def sum_of(make, recording, mode):
    """The sum of all views of one session in one mode."""
    pipeline, found = make(), hashlib.sha256()
    fixed = {"system": recording.get("system"), "tools": recording.get("tools")}
    of_session = {
        "model": MODELS.get(recording["format"]),
        "format": recording["format"],
    }
    messages = recording["messages"][:MOST_MESSAGES]
    ends = sorted({-(-len(messages) * step // STEPS) for step in range(1, STEPS + 1)})
    if mode == "back":
        ends = [*ends, *ends[len(ends) // 2 :]]
    session, given, before = pipeline.session(**of_session), [], 0
    for end in ends if mode != "stateless" else ends[-1:]:
        given = messages[:end] if mode != "rolling" else [*given, *messages[before:end]]
        step = session.prepare if mode != "stateless" else partial(pipeline.prepare, **of_session)
        sent, view = await outcome(partial(step, given, **fixed))
        found.update(sent)
        if mode == "rolling" and view is not None:
            given = list(view.messages)
        if mode == "load":
            session = Session.load(pipeline, json.loads(json.dumps(session.dump())))
        before = end
    return found.hexdigest()[:10]


async def sums(folder, stride=1):
    """Sums by session, pipeline and mode; with a ``stride``, of each n-th combination."""
    found, number = {}, 0
    for name, recording in recordings(folder):
        for kind, make in PIPELINES.items():
            for mode in MODES:
                number += 1
                if number % stride == 0:
                    found[f"{name} {kind} {mode}"] = await sum_of(make, recording, mode)
    return found


def recorded():
    """The sums that were recorded, as ``sums`` gives them."""
    return {
        f"{name} {kind} {mode}": found
        for name, kinds in json.loads(RECORDED.read_text()).items()
        for kind, known in kinds.items()
        for mode, found in zip(MODES, known, strict=True)
    }


def record(made):
    """Write sums down, one line a session."""
    kinds = {key.rsplit(" ", 2)[0]: {} for key in made}
    for key, found in made.items():
        name, kind, _ = key.rsplit(" ", 2)
        kinds[name].setdefault(kind, []).append(found)
    lines = (f"{json.dumps(name)}: {json.dumps(found)}" for name, found in sorted(kinds.items()))
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def test_the_views_of_our_own_session_are_what_they_were():
    """A fourth of all combinations of pipelines, modes and formats."""
    expected = recorded()
    found = anyio.run(sums, SESSIONS, 4)
    assert found == {name: expected[name] for name in found}


def test_the_views_of_shared_sessions_are_what_they_were():
    """A part of all combinations; the others are compared by running this file."""
    if not SHARED.is_dir():
        pytest.skip("no shared recordings here")
    expected = recorded()
    found = anyio.run(sums, SHARED, 97)
    assert found == {name: expected[name] for name in found}


if __name__ == "__main__":
    import sys
    import time

    begun = time.perf_counter()
    made = {**anyio.run(sums, SESSIONS), **anyio.run(sums, SHARED)}
    if RECORDED.exists() and "--record" not in sys.argv:
        known = recorded()
        other = [name for name in made if known.get(name) != made[name]]
        print(len(made), "compared,", len(other), "other:", *other[:20], sep="\n")  # noqa: T201 - a command
    else:
        record(made)
        print(len(made), "recorded", time.perf_counter() - begun)  # noqa: T201 - a command
