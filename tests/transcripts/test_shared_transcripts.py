"""Recorded sessions, prepared before each model call: valid, within the budget, untouched, the user's words there.

Every recording is walked through in the nightly profile, call by call; otherwise a sample of each file, and of a long
recording some calls, evenly spread. Without the shared recordings the sessions in ``examples/sessions`` are walked
through.
"""

import gzip
import json
import os
import re
from functools import cache, lru_cache, partial
from pathlib import Path

import pytest
from attrs import frozen

from agentctx import (
    Budget,
    ClearToolResults,
    ContextOverflow,
    FitContextWindow,
    InvalidInput,
    Pipeline,
    TruncateToolOutputs,
    count,
    validate,
)

ROOT = Path(__file__).parents[2]
SHARED = ROOT / "../shared/transcripts"
RUNS = [(4_000, "trio"), (16_000, "asyncio"), (64_000, "asyncio")]
"""Windows in tokens, and the event loop for each."""
FORMATS = ("openai-chat", "anthropic", "openai-responses")
NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
SAMPLE, SMALL_FILE = 4, 2_000_000
"""Recordings of each file that are walked through on an ordinary day; of a file of more compressed bytes, one."""
MOST_CALLS = 24
"""Model calls of one recording that are prepared on an ordinary day; most recordings have fewer."""
HEAD = re.compile(r'"id":\s*"(?P<id>[^"]*)".*?"format":\s*"(?P<format>[^"]*)"')


@frozen
class Recording:
    """One recorded session, by its place."""

    path: Path
    line: int
    id: str

    def load(self):
        """The recording as a dict; in chat, its system prompt as the first message."""
        record = json.loads(line_of(self.path, self.line))
        if record["format"] == "openai-chat" and record["system"]:
            record["messages"].insert(0, {"role": "system", "content": record["system"]})
            record["system"] = None
        return record


@lru_cache(maxsize=1)
def line_of(path, line):
    """A line of a file; the tests of one recording come one after another."""
    with opened(path) as lines:
        return next(text for number, text in enumerate(lines) if number == line)


def opened(path):
    """A file of recordings, compressed or not, as lines."""
    return gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8")


@cache
def recordings():
    """What is walked through: all recordings, or a sample of each file."""
    folder = SHARED if SHARED.is_dir() else ROOT / "examples/sessions"
    found = []
    for path in sorted((*folder.glob("*.jsonl.gz"), *folder.glob("*.jsonl"))):
        with opened(path) as lines:
            heads = [(number, HEAD.search(line[:2_000])) for number, line in enumerate(lines)]
        own = [Recording(path, number, head["id"]) for number, head in heads if head and head["format"] in FORMATS]
        wanted = len(own) if NIGHTLY else SAMPLE if path.stat().st_size < SMALL_FILE else 1
        found.extend(own[:: max(1, -(-len(own) // wanted))] if own else ())
    return [pytest.param(recording, id=f"{recording.path.name}:{recording.id}") for recording in found]


def role(message):
    """Who speaks; an item of the Responses API that does not say so is the model's, or what a tool answered."""
    answers = message.get("type", "").endswith(("_output", "_response"))
    return message.get("role") or ("tool" if answers else "assistant")


def model_calls(messages):
    """How many messages each model call of the recording saw: all before each assistant turn, and at last all."""
    roles = [role(message) for message in messages]
    calls = [stop for stop in range(1, len(roles)) if roles[stop] == "assistant" != roles[stop - 1]]
    return [*(calls if NIGHTLY else calls[:: max(1, -(-len(calls) // MOST_CALLS))]), len(roles)]


def blocks(message):
    """What a user message says, without tool results, as it is sent."""
    content = message["content"]
    spoken = [content] if isinstance(content, str) else [block for block in content if block["type"] != "tool_result"]
    return [json.dumps(block) for block in spoken if said(block)]


def said(block):
    """Whether there is something to see in a block."""
    text = block if isinstance(block, str) else block.get("text") if block["type"] == "text" else "something"
    return bool(text.strip())


def speaking(messages):
    """The user messages in which the user says something."""
    return [message for message in messages if role(message) == "user" and blocks(message)]


def walk_of(window):
    """What the recordings are prepared with."""
    stages = TruncateToolOutputs(max_tokens=2_000), ClearToolResults(keep_last=8), FitContextWindow()
    return Pipeline(*stages, budget=Budget(window, window // 16, trigger=0.8, target=0.5))


def check_valid(step, record, given, view):
    """No rule of the provider is broken, also with regard to the request that this one was made from."""
    request = {key: record[key] for key in ("system", "tools") if record[key]}
    found = validate(
        request | {"messages": view.messages}, format=record["format"], before=request | {"messages": given}
    )
    errors = [str(violation) for violation in found if violation.severity == "error"]
    assert not errors, f"step {step}"


def check_fits(step, record, view, limit):
    """Counted anew, the request is within the limit, and the report has its size."""
    size = count(view.messages, tools=record["tools"], system=record["system"], format=record["format"])
    assert size <= limit, f"step {step}"
    assert size == view.report.tokens_after, f"step {step}"


def check_kept(step, record, given, view):
    """System prompt, first task and latest user message are those of the caller."""
    assert view.system is record["system"]
    assert view.tools is record["tools"]
    sent = set(map(id, view.messages))
    spoken = {block for message in speaking(view.messages) for block in blocks(message)}
    assert all(id(message) in sent for message in given if role(message) in {"system", "developer"}), f"step {step}"
    for message in speaking(given)[:1] + speaking(given)[-1:]:
        assert id(message) in sent or set(blocks(message)) <= spoken, f"step {step}"
        assert id(message) in sent or "tool_result" in json.dumps(message) or record["meta"].get("messy"), (
            f"step {step}"
        )


def last_turn(messages):
    """The model's own last turn: it waits for results, or for a server's tool, and cannot go."""
    end = next((stop for stop in range(len(messages), 0, -1) if role(messages[stop - 1]) == "assistant"), 0)
    begin = next((start for start in range(end, 0, -1) if role(messages[start - 1]) != "assistant"), 0)
    return messages[begin:end]


def check_overflow(step, record, given, overflow, limit):
    """There is an overflow only where what must stay takes half of the room or more."""
    assert overflow.limit == limit
    assert overflow.tokens > limit
    system = [message for message in given if role(message) in {"system", "developer"}]
    must = [*system, *speaking(given)[:1], *speaking(given)[-1:], *last_turn(given)]
    floor = count(must, tools=record["tools"], system=record["system"], format=record["format"]) if must else 0
    assert floor > limit / 2, f"step {step}: {overflow}"


def test_there_are_recordings():
    """The walk is not over nothing."""
    assert recordings()


@pytest.mark.no_cover  # the same lines over and over
@pytest.mark.anyio
@pytest.mark.parametrize(("window", "anyio_backend"), RUNS)
@pytest.mark.parametrize("recording", recordings())
async def test_every_model_call_of_a_recording(recording, window):
    """Each request that a session prepares is valid, fits, leaves the recording alone and keeps what is protected."""
    record = recording.load()
    messages, before = record["messages"], json.dumps(record)
    objects = list(map(id, messages))
    pipeline = walk_of(window)
    prepare = partial(pipeline.session(format=record["format"]).prepare, system=record["system"], tools=record["tools"])
    for step, stop in enumerate(model_calls(messages)):
        given = messages[:stop]
        try:
            view = await prepare(given)
        except ContextOverflow as overflow:
            check_overflow(step, record, given, overflow, pipeline.budget.limit)
            continue
        except InvalidInput:
            assert not any(role(message) == "assistant" or message in speaking(given) for message in given)
            continue
        check_valid(step, record, given, view)
        check_fits(step, record, view, pipeline.budget.limit)
        check_kept(step, record, given, view)
    assert json.dumps(record) == before
    assert list(map(id, messages)) == objects
