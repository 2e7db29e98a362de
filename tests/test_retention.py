"""What later steps need is found, and where: in the request, by a handle in it, by search, or nowhere."""

import json

import pytest

from agentctx import Budget, Context, FitContextWindow, Message, Pipeline, Text, ToolCall, ToolResult
from agentctx.engine.originals import recall_tool
from agentctx.marks import Recap
from agentctx.replay import Recording
from agentctx.retention import Library, Reach, Retention, Watch, needs, user_words, values_of, watched
from agentctx.stores import MemoryStore


def user(text):
    return Message("user", (Text(text),))


def called(call_id, **arguments):
    return Message("assistant", (ToolCall(call_id, "read", json.dumps(arguments)),))


TURNS = (
    user("Look at src/app.py and at build 20481."),
    called("1", path="src/app.py"),
    Message("tool", (ToolResult("1", (Text("class AppServer in src/server_main.go, commit 3f2a9bc"),)),)),
    called("2", pattern="AppServer", file="src/unheard_of.py", revision="3f2a9bc", build=20481),
)


def test_values_are_what_must_be_exact():
    """Paths, files, URLs, ids, long numbers and identifiers are values, each once; plain words are none."""
    text = (
        "Open src/a_b.py (see https://x.dev/p?q=1), commit 3f2a9bc, 20481 lines, AppServer, snake_case, then open it."
    )
    assert values_of(f"{text} {text}") == [
        "src/a_b.py",
        "https://x.dev/p?q=1",
        "3f2a9bc",
        "20481",
        "AppServer",
        "snake_case",
    ]


def test_a_call_needs_what_stood_before_it():
    """A value in a call's arguments is needed when it stood in the history, and not when the model made it up."""
    assert needs(TURNS, [1, 3]) == {1: ("src/app.py",), 3: ("AppServer", "3f2a9bc", "20481")}


def test_a_session_without_a_call_needs_nothing():
    """Where there is no answer that something was sent for, there is nothing to look up."""
    assert {} == needs(TURNS[1:2], [])


def test_each_value_is_found_once_at_the_nearest_place():
    """Visible comes before a handle, a handle before a search; what is nowhere is lost."""
    reach = Reach("one_value", ("one_value two_value",), ("two_value three_value",))
    found = reach.of(("one_value", "two_value", "three_value", "four_value"))
    assert found == Retention(values=4, visible=1, recallable=1, searchable=1)
    assert (found.lost, found.visible_share, found.reachable_share) == (1, 0.25, 0.5)


async def _library(*contents):
    store = MemoryStore()
    return Library(store), [await store.put(content) for content in contents]


@pytest.mark.anyio
async def test_a_handle_leads_to_its_content_where_the_tool_is_there():
    """A handle in the request leads to its content and to the handles in that; without the tool it leads nowhere."""
    library, (first, *_) = await _library(b"deep_value", b"", b"other_value")
    fourth = await library.store.put(f"see {first}".encode())
    context = Context((user(f"recall {fourth}"),))
    reach = await library.reach(Context(context.messages, tools=(recall_tool("recall"),)))
    assert reach.of(("deep_value", "other_value")) == Retention(2, recallable=1, searchable=1)
    assert (await library.reach(context)).of(("deep_value",)) == Retention(1)


@pytest.mark.anyio
async def test_what_a_message_in_the_store_says_is_found():
    """Of a message that is kept as JSON, its text and the arguments of its calls count, escapes read."""
    native = {"role": "user", "content": 'path "C:\\new_dir"'}
    library, (handle,) = await _library(json.dumps(native).encode())
    reach = await library.reach(Context((user(handle),), tools=(recall_tool("recall"),)))
    assert reach.of(("C:\\new_dir",)).recallable == 1


def test_the_users_messages_between_first_and_last_are_followed():
    """Each counts as often as it was said; one that is cut is not kept, and a mark in it says so."""
    history = (
        user("task"),
        user("yes"),
        user("Never touch the production database, and " * 9),
        user("yes"),
        user("go"),
    )
    view = (user("task"), user("yes"), user("Never touch the production [... cut]"), user("go"))
    assert user_words(history, view) == Retention(said=3, kept=1, silent=1)
    assert user_words(history, history) == Retention(said=3, kept=3)
    assert user_words(history[:1], history[:1]) == Retention()


def test_a_recap_says_that_something_is_missing():
    """With a recap in the request nothing is lost silently; the recap itself is nothing that the user said."""
    history = (user("task"), user("no meat"), user("go"))
    told = (user("task"), Recap(1, 0, 0).written(), user("go"))
    assert user_words(history, told) == Retention(said=1, kept=0, silent=0)
    assert user_words(history, (user("task"), user("go"))) == Retention(said=1, kept=0, silent=1)


def test_a_watch_adds_up_values_and_keeps_the_last_messages():
    """Values of all requests are added; of the user's messages, those count that the last request shows."""
    watch = Watch(TURNS, needs(TURNS, [1, 3]))
    for index in watch.needed:
        watch.look(index, Reach("src/app.py AppServer"), TURNS[:index])
    assert watch.found == Retention(values=4, visible=2)


def test_the_recall_tool_joins_the_tools():
    """A recording is replayed as if the loop had offered the tool, beside its own; the pipeline has the store."""
    messages, store = [{"role": "user", "content": "Go."}], MemoryStore()
    recording = Recording(messages, tools=[{"type": "function", "function": {"name": "read"}}])
    offered, kept = watched(recording, Pipeline(FitContextWindow(), budget=Budget(8_000)), store)
    assert [tool["function"]["name"] for tool in offered.tools] == ["read", "recall"]
    assert (kept.store, kept.budget, len(kept.stages)) == (store, Budget(8_000), 1)
    assert len(watched(Recording(messages), kept, store)[0].tools) == 1
