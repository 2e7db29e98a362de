"""Offload puts what is large or old into the store, and leaves a preview with a handle."""

import json

import pytest

from agentctx import Budget, ConfigError, FitContextWindow, Pipeline
from agentctx.formats.registry import format_named
from agentctx.recall import Recall
from agentctx.stores import MemoryStore
from agentctx.strategies import Offload
from agentctx.testing import FlakyStore, assistant, call, result, transcript, user

pytestmark = pytest.mark.anyio

FORMATS = ["openai-chat", "openai-responses", "anthropic", "gemini", "bedrock"]
LOG = "2026-01-02 10:11:12 INFO a line of the log\n" * 300


def rounds(format_name, number=6, text=LOG):
    """A task and rounds with outputs."""
    turns = [user("task")]
    for place in range(number):
        turns += [assistant(call(f"c{place}", "read", {"n": place})), result(f"c{place}", f"{place} {text}")]
    return transcript(format_name, *turns)


def results(view, format_name):
    """What the tools say in a view."""
    wire = format_named(format_name)
    return [part.text for native in view.messages for part in wire.read_message(native, 0).results]


def handle_in(text):
    """The handle that the first line of a preview names."""
    return text.splitlines()[0].split("; recall ")[1].removesuffix("]")


@pytest.mark.parametrize("format_name", FORMATS)
async def test_what_is_large_goes_to_the_store_when_it_arrives(format_name):
    """The preview has head, tail, size, kind and handle; the tool gives all of it back, and the prefix stays."""
    store = MemoryStore()
    recall = Recall(store, max_tokens=100_000)
    session = Pipeline(Offload(over=500, preview=60), store=store).session(format=format_name)
    messages, tools, before = rounds(format_name), [recall.definition(format_name)], []
    for stop in range(3, len(messages) + 1, 2):
        view = await session.prepare(messages[:stop], tools=tools)
        assert view.messages[: len(before)] == before
        before = view.messages
    for place, text in enumerate(results(view, format_name)):
        assert text.startswith("[offloaded: log of 301 lines, ")
        assert f"\n{place} 2026" in text
        assert "INFO a line of the log" in text[-40:]
        assert await recall({"handle": handle_in(text)}) == f"{place} {LOG}"


@pytest.mark.parametrize("format_name", FORMATS)
async def test_where_nobody_could_get_it_back_nothing_changes(format_name):
    """Without a store, without the tool, and where the store fails."""
    messages, store = rounds(format_name), MemoryStore()
    tools = [Recall(store).definition(format_name)]
    broken = type("Down", (), {"put": FlakyStore.put, "get": FlakyStore.get})()
    for kept, given in ((None, tools), (store, None), (broken, tools)):
        view = await Pipeline(Offload(over=500), store=kept).prepare(messages, tools=given, format=format_name)
        assert all(one is other for one, other in zip(view.messages, messages, strict=True))


async def test_what_is_old_goes_under_pressure():
    """Oldest first, and no more than the target asks; the newest stay."""
    store = MemoryStore()
    stage = Offload(over=None, older_than=2, preview=40)
    budget = Budget(40_000, trigger=20_000, target=12_000)
    session = Pipeline(stage, FitContextWindow(), budget=budget, store=store).session(format="openai-chat")
    messages, tools = rounds("openai-chat", 8), [Recall(store).definition("openai-chat")]
    for stop in range(3, len(messages) + 1, 2):
        view = await session.prepare(messages[:stop], tools=tools)
    gone = [text.startswith("[offloaded: ") for text in results(view, "openai-chat")]
    assert any(gone)
    assert gone == sorted(gone, reverse=True)
    assert not any(gone[-2:])


KINDS = {
    "json": json.dumps({"numbers": list(range(900))}),
    "log": LOG,
    "code": "import os\n\n\ndef first(values):\n    return values[0]\n" * 90,
    "text": "It was a dark and stormy night, and the build was red.\n" * 90,
}


@pytest.mark.parametrize(("kind", "text"), KINDS.items(), ids=KINDS)
async def test_the_preview_says_what_it_is(kind, text):
    """JSON, log, code or text."""
    store = MemoryStore()
    messages = transcript("openai-chat", user("task"), assistant(call("a", "read")), result("a", text))
    tools = [Recall(store).definition("openai-chat")]
    view = await Pipeline(Offload(over=300, preview=50), store=store).prepare(messages, tools=tools)
    assert view.messages[2]["content"].startswith(f"[offloaded: {kind} of ")


async def test_what_was_offloaded_once_is_not_offloaded_again():
    """The same view again, and the view written back."""
    store = MemoryStore()
    pipeline, tools = Pipeline(Offload(over=300), store=store), [Recall(store).definition("openai-chat")]
    one = await pipeline.prepare(rounds("openai-chat"), tools=tools)
    assert (await pipeline.prepare(rounds("openai-chat"), tools=tools)).messages == one.messages
    assert (await pipeline.prepare(one.messages, tools=tools)).messages == one.messages


@pytest.mark.parametrize(
    "options",
    [{"over": 0}, {"over": True}, {"over": None}, {"over": 100, "preview": 100}, {"older_than": -1}, {"preview": "x"}],
)
def test_wrong_options_are_refused(options):
    """When the stage is built."""
    with pytest.raises(ConfigError, match="Offload"):
        Offload(**options)
