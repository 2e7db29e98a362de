"""One conversation taken from provider to provider and back: each of them would take it."""

import gzip
import json
from copy import deepcopy
from functools import cache, lru_cache
from pathlib import Path

import pytest
from histories import BLANK, broken_histories, histories
from hypothesis import given

from agentctx import InvalidInput, convert, validate
from agentctx.formats.registry import format_named

ROOT = Path(__file__).parents[2]
SHARED = ROOT / "../shared/transcripts"
AROUND = ["openai-chat", "openai-responses", "gemini", "bedrock", "anthropic"]
MODELS = {
    "openai-chat": "gpt-5.4",
    "openai-responses": "gpt-5.6-sol",
    "gemini": "gemini/gemini-3.1-pro-preview",
    "bedrock": "us.anthropic.claude-sonnet-5-5",
    "anthropic": "claude-sonnet-4-5",
}
SAMPLE = 3
"""Recordings of each file and format that go around on an ordinary day."""


def hops(format_name, messages, system, tools, models):
    """Each hop of a journey that begins in a format, goes through all others, and passes the first one again."""
    start = AROUND.index(format_name)
    for step in range(1, len(AROUND) + 2):
        to = AROUND[(start + step) % len(AROUND)]
        done = convert(messages, to, format=format_name, model=models.get(to), system=system, tools=tools)
        yield to, done
        format_name, messages, system, tools = to, done.messages, done.system, done.tools


def refused(format_name, done, model):
    """What the provider would refuse of what came out."""
    request = format_named(format_name).keys.request(done.messages, done.system, done.tools)
    found = validate(request, format=format_name, model=model)
    return [str(violation) for violation in found if violation.severity == "error"]


def goes_around(history, models):
    """Every provider takes the conversation, and it comes out the same when it is converted again."""
    before = deepcopy(history)
    for to, done in hops(history.format, history.messages, history.system, history.tools, models):
        assert not refused(to, done, models.get(to)), to
    assert before == history


def says_something(history):
    """Whether there is a message that another provider would take at all."""
    return any(text not in BLANK for text in _strings(history.messages))


def _strings(value):
    if isinstance(value, dict):
        for key, each in value.items():
            if key in {"text", "content", "name", "arguments", "parts", "output", "data"} or not isinstance(each, str):
                yield from _strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)
    elif isinstance(value, str):
        yield value


@given(histories())
def test_legal_histories_go_around(history):
    """A generated history goes from its provider through all others, and each of them takes it."""
    if says_something(history):
        goes_around(history, {})
        goes_around(history, MODELS)


@given(broken_histories())
def test_broken_histories_go_around(history):
    """A broken history is repaired on its way."""
    goes_around(history, MODELS)


def opened(path):
    """A file of recordings, compressed or not, as lines."""
    return gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8")


@cache
def recordings():
    """Some recordings of each file and format: the shared ones, or the examples where there are none."""
    folder = SHARED if SHARED.is_dir() else ROOT / "examples/sessions"
    taken, found = {}, []
    for path in sorted((*folder.glob("*.jsonl.gz"), *folder.glob("*.jsonl"))):
        with opened(path) as lines:
            for number, line in enumerate(lines):
                name = next((each for each in AROUND if f'"format": "{each}"' in line[:2_000]), None)
                if name is not None and taken.setdefault((path, name), 0) < SAMPLE:
                    taken[path, name] += 1
                    found.append(pytest.param(path, number, id=f"{path.name}:{number}"))
    return found


@lru_cache(maxsize=1)
def recorded(path, number):
    """One recording; the tests of one come one after another, and change nothing in it."""
    with opened(path) as lines:
        return json.loads(next(line for place, line in enumerate(lines) if place == number))


def test_there_are_recordings():
    """The journey is not over nothing."""
    assert recordings()


@pytest.mark.parametrize(("path", "number"), recordings())
def test_recorded_sessions_go_around(path, number):
    """A recorded session goes through all providers, and each of them takes it."""
    record = recorded(path, number)
    for to, done in hops(record["format"], record["messages"], record["system"], record["tools"], {}):
        assert not refused(to, done, None), to


@pytest.mark.parametrize("to", AROUND)
def test_what_says_nothing_cannot_be_converted(to):
    """A conversation without a word in it is refused, as a pipeline refuses it."""
    messages = [{"role": "user", "parts": [{"text": ""}]}]
    with pytest.raises(InvalidInput, match="nothing is left to send"):
        convert(messages, to, format="gemini")


THERE = (
    *(("openai-chat", model) for model in ("deepseek-v4-pro", "mistral-large-latest", "kimi-k2.6", "glm-5")),
    *(("openai-chat", model) for model in ("azure/gpt-4.1", "ollama/gpt-oss:20b", "vllm/x", "gpt-5.4")),
    *MODELS.items(),
)


@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize(("path", "number"), recordings())
def test_what_is_not_there_after_the_way_back_is_reported(path, number, at):
    """To another format for any dialect's model, and back: a text that is gone belongs to a change of a report."""
    record = recorded(path, number)
    to, model = THERE[(number + at * 5) % len(THERE)]
    if to == record["format"]:
        return
    away = convert(record["messages"], to, format=record["format"], model=model, system=record["system"])
    home = convert(away.messages, record["format"], format=to, system=away.system, from_model=model)
    came = {text for text in _strings(home.messages) if text.strip()}
    said = (text for text in _strings(record["messages"]) if text.strip() and not text.startswith(("{", "[")))
    lost = [text for text in said if text not in came]
    gone = [text for text in lost if not any(text in each for each in came)]  # JSON may be spelled anew
    assert not gone or away.report.changes or home.report.changes
