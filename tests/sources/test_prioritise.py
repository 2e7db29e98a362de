"""What is chosen of what providers found, and how it is written."""

import os
import threading

import anyio
import pytest

from agentctx.sources import (
    BuildErrors,
    ContextItem,
    Dependencies,
    Environment,
    GitSource,
    RecentFiles,
    gather,
    prioritise,
)
from agentctx.sources.gathering import SourceOutcome, render
from agentctx.tokens import TiktokenCounter

pytestmark = pytest.mark.anyio

COUNTER = TiktokenCounter()


def source(name, *items):
    """A provider that finds these items, and remembers that it was asked."""

    async def found(query):
        found.asked.append(query)
        return items

    found.__name__, found.asked = name, []
    return found


def item(title, relevance=0.5, words=0, origin=""):
    """An item of about so many words."""
    return ContextItem(title, "word " * words or "content", relevance, origin)


def size(items):
    """What items cost as they are written, in tokens."""
    return COUNTER.count(render(items))


async def test_providers_are_reported_in_their_order():
    """Providers are reported in the order in which they are passed; the caller's list is the register."""
    answered = await gather([source("b"), source("a"), source("c")])
    assert [each.name for each in answered.sources] == ["b", "a", "c"]


async def test_each_provider_is_asked_once_and_items_are_sorted():
    """Every provider is asked once, and what they found stands in the order of its relevance."""
    providers = [source(name, item(name, worth)) for name, worth in (("low", 0.1), ("high", 0.9), ("mid", 0.5))]
    answered = await gather(providers, "task", counter=COUNTER)
    assert [len(each.asked) for each in providers] == [1, 1, 1]
    assert [each.title for each in answered.items] == ["high", "mid", "low"]


def test_ten_items_in_room_for_two():
    """Of ten equal items only those are chosen that fit, with their headings."""
    items = [item(f"item {n}", words=25) for n in range(10)]
    room = size(items[:2])
    assert len(prioritise(items, room, counter=COUNTER)) == 2
    assert size(prioritise(items, room, counter=COUNTER)) <= room


def test_the_text_has_headings():
    """The text has a heading, each item's source and title, and its content."""
    text = render([ContextItem("branch", "main", source="git")])
    assert text.startswith("## Relevant context\n\n### [git] branch\n")
    assert "\nmain\n" in text


def test_the_text_of_nothing():
    """Of no items the text is empty."""
    assert render([]) == ""


def test_the_more_relevant_comes_first():
    """The more relevant of two items is chosen and stands first."""
    items = [item("Low", 0.1, 5), item("High", 0.9, 5)]
    assert [each.title for each in prioritise(items, size(items), counter=COUNTER)] == ["High", "Low"]
    assert [each.title for each in prioritise(items, size(items[:1]), counter=COUNTER)] == ["High"]


def test_a_dominant_source_leaves_others_their_share():
    """A source with ten better items leaves its share to another, so that neither has many more than the other."""
    items = [item(f"d{n}", 0.9, 10, "dominant") for n in range(10)] + [
        item(f"o{n}", 0.1, 10, "other") for n in range(10)
    ]
    chosen = prioritise(items, size(items) // 2, counter=COUNTER)
    counts = {name: sum(each.source == name for each in chosen) for name in ("dominant", "other")}
    assert counts["other"] > 0
    assert counts["dominant"] <= counts["other"] + 3


def test_a_share_that_nobody_wants_is_used():
    """What the other source has no use for goes to the dominant one."""
    items = [item(f"d{n}", 0.9, 10, "dominant") for n in range(10)] + [item("o", 0.1, 10, "other")]
    assert len(prioritise(items, size(items), counter=COUNTER)) == 11


@pytest.mark.parametrize(("items", "room"), [([], 100), ([item("a")], 0), ([item("a")], -1)])
def test_nothing_of_nothing(items, room):
    """Without items or without room nothing is chosen."""
    assert prioritise(items, room, counter=COUNTER) == ()


async def test_a_failing_provider_costs_only_itself():
    """A provider that fails costs only itself, and the result says what happened."""

    def broken(query):
        raise LookupError(query or "nothing there")

    answered = await gather([broken, source("fine", item("here"))], counter=COUNTER)
    assert [each.title for each in answered.items] == ["here"]
    assert [each.outcome for each in answered.sources] == [SourceOutcome.FAILED, SourceOutcome.FINE]
    assert answered.problems == ("broken: LookupError: nothing there",)


async def test_the_environment_has_system_and_folder(tmp_path):
    """The environment tells the system and the working folder; its name alone, since a path tells who the user is."""
    (found,) = await Environment(tmp_path, tools=())("")
    assert "OS: " in found.content
    assert f"Working directory: {tmp_path.name}\n" in found.content + "\n"
    assert str(tmp_path) not in found.content


@pytest.mark.both_loops
async def test_five_slow_providers_run_together():
    """Five providers that take a while take that while together."""
    running, most = 0, 0

    async def slow(query):
        nonlocal running, most
        del query
        running += 1
        most = max(most, running)
        await anyio.sleep(0.05)
        running -= 1
        return []

    with anyio.fail_after(60):
        await gather([slow] * 5)
    assert most == 5


async def test_a_list_that_threads_have_filled():
    """The caller's own list may be filled by many threads: gathering works on what was in it when it began."""
    providers = []
    threads = [threading.Thread(target=providers.append, args=(source(f"p{n}", item(f"i{n}")),)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len((await gather(providers, counter=COUNTER)).items) == 20


def test_logs_are_told_and_other_files_are_not(tmp_path):
    """Of three files the two that are logs are told."""
    for name in ("build.log", "test.err", "notes.txt"):
        (tmp_path / name).write_text(f"in {name}", encoding="utf-8")
    assert {found.title for found in BuildErrors(tmp_path)("")} == {"build.log", "test.err"}


@pytest.mark.parametrize("folder", ["", "missing"])
def test_without_a_folder_there_are_no_logs(folder, tmp_path):
    """Without a folder, or with one that is not there, there are no logs."""
    assert BuildErrors(folder and tmp_path / folder)("") == []


def test_a_project_with_only_a_go_mod(tmp_path):
    """Of a project that has only a go.mod there is one item."""
    (tmp_path / "go.mod").write_text("module example.org/m\n", encoding="utf-8")
    assert [(found.title, found.content) for found in Dependencies(tmp_path)("")] == [
        ("go.mod", "module example.org/m\n")
    ]


def test_the_newest_source_files_first(tmp_path):
    """The newest source files are told, newest first, and no others."""
    for age, name in enumerate(("old.go", "note.txt", "new.go")):
        (tmp_path / name).write_text("x", encoding="utf-8")
        os.utime(tmp_path / name, (1_000_000 + age, 1_000_000 + age))
    (found,) = RecentFiles(tmp_path)("")
    assert found.content == "new.go (modified 1970-01-12 13:46)\nold.go (modified 1970-01-12 13:46)"


def test_the_git_source_says_what_it_is():
    """The git source has a name, a room of 500 tokens, and a description."""
    assert (GitSource().name, GitSource().max_tokens) == ("git", 500)
    assert "branch" in GitSource().description
