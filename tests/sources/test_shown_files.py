"""Files that a model is shown and may not change, within a budget."""

import os
from pathlib import Path

import anyio
import pytest
from hypothesis import given, strategies as st

from agentctx import ConfigError, SourceError
from agentctx.sources import ReadOnlyFiles, suggest_files
from agentctx.sources.files import HEADING, ReadOnlyFile, that_fit
from agentctx.tokens import TiktokenCounter

pytestmark = pytest.mark.anyio

COUNTER = TiktokenCounter()


@pytest.fixture
def put(tmp_path):
    """Writes a file of the project."""

    def write(name, text="content\n"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.fixture
def files(tmp_path):
    """Read-only files of the project, within 1,000 tokens."""
    return ReadOnlyFiles(1_000, root=tmp_path)


async def test_a_file_that_was_added(files, put):
    """A file that was added is there with content, tokens and path."""
    path = put("a.md", "hello there\n")
    assert (await files.add("a.md")).added == ("a.md",)
    (file,) = files.files
    assert (file.content, file.path, file.name) == ("hello there\n", path.resolve(), "a.md")
    assert file.tokens == COUNTER.count("### a.md\n```\nhello there\n```\n\n")


async def test_what_was_added_is_read_only(files, put):
    """What was added is read-only, other files are not."""
    put("a.md")
    put("b.md")
    await files.add("a.md")
    assert files.is_read_only("a.md")
    assert not files.is_read_only("b.md")


async def test_a_file_is_read_only_by_any_name(files, put, tmp_path):
    """Relative, absolute, roundabout and linked names are all the file."""
    path = put("docs/a.md")
    (tmp_path / "link.md").symlink_to(path)
    (tmp_path / "folder").symlink_to(tmp_path / "docs")
    (tmp_path / "hard.md").hardlink_to(path)
    await files.add("docs/a.md")
    for name in (path, "docs/../docs/./a.md", "link.md", "folder/a.md", "hard.md", str(tmp_path / "link.md")):
        assert files.is_read_only(name), name


async def test_what_was_removed_is_not_read_only(files, put):
    """What was removed is neither shown nor read-only."""
    put("a.md")
    await files.add("a.md")
    assert files.remove("a.md")
    assert not files.remove("a.md")
    assert not files.is_read_only("a.md")
    assert files.render() == ""


async def test_a_file_that_cannot_fit(files, put):
    """A file that cannot fit is an error that says how large it is and how much room there is."""
    put("big.md", "word " * 2_000)
    with pytest.raises(SourceError, match=r"big\.md: adding 2,\d\d\d tokens would exceed the budget of 1,000"):
        await files.add("big.md")
    assert files.files == ()


async def test_huge_files_are_not_read(files, put):
    """A file that is larger than any text of so few tokens is refused by its size."""
    put("huge.bin", b"x" * 200_000)
    with pytest.raises(SourceError, match="200,000 bytes are more than the budget can hold"):
        await files.add("huge.bin")


async def test_files_that_fit_are_all_there(files, put):
    """Files that fit are all there."""
    for name in ("a.md", "b.md"):
        put(name)
        await files.add(name)
    assert [file.name for file in files.files] == ["a.md", "b.md"]
    assert files.evict() == ()


async def test_adding_makes_room(files, put):
    """A file for which there is no room pushes out what was used least."""
    for name in ("a.md", "b.md"):
        put(name, "word " * 400)
        await files.add(name)
    files.content("a.md")
    put("c.md", "word " * 400)
    changed = await files.add("c.md")
    assert (changed.added, changed.left_out) == (("c.md",), ("b.md",))
    assert [file.name for file in files.files] == ["a.md", "c.md"]
    assert files.left_out == ("b.md",)
    assert files.is_read_only("b.md")


async def test_what_was_used_least_goes_first(files, put):
    """Pressed harder, what was used least goes first: by use, and not by the time of adding."""
    for name in ("a.md", "b.md", "c.md"):
        put(name)
        await files.add(name)
    files.content("a.md")
    one = files.files[0].tokens
    assert files.evict(COUNTER.count(HEADING) + one) == ("b.md", "c.md")


async def test_a_pinned_file_is_never_pushed_out(files, put):
    """A pinned file is never pushed out; when nothing else could go, the new one is refused."""
    put("a.md", "word " * 600)
    put("b.md", "word " * 600)
    await files.add("a.md", pinned=True)
    with pytest.raises(SourceError, match=r"of which 6\d\d are pinned"):
        await files.add("b.md")
    assert files.evict(1) == ()
    assert [file.name for file in files.files] == ["a.md"]


async def test_a_pinned_file_is_not_pushed_out_by_others_that_are(files, put):
    """Pinned files of a pattern are left out where those that were pinned before leave them no room."""
    put("a.txt", "word " * 600)
    put("b.md", "word " * 600)
    await files.add("a.txt", pinned=True)
    assert (await files.add_pattern("*.md", pinned=True)).left_out == ("b.md",)
    assert [file.name for file in files.files] == ["a.txt"]


async def test_what_has_changed_is_read_again(files, put):
    """What has changed on disk is read again."""
    put("a.md", "old")
    await files.add("a.md")
    put("a.md", "something new")
    assert (await files.refresh()).refreshed == ("a.md",)
    assert files.content("a.md") == "something new"
    assert (await files.refresh()).refreshed == ()


async def test_a_file_whose_time_goes_back_has_changed(files, put):
    """A file whose time goes back, as after a checkout, has changed too."""
    path = put("a.md", "new")
    await files.add("a.md")
    path.write_text("old", encoding="utf-8")
    os.utime(path, (1, 1))
    assert (await files.refresh()).refreshed == ("a.md",)


async def test_a_file_that_is_not_to_be_refreshed(files, put):
    """A file that is not to be refreshed stays as it was read."""
    put("a.md", "old")
    await files.add("a.md", refresh=False)
    put("a.md", "something new")
    assert (await files.refresh()).refreshed == ()
    assert files.content("a.md") == "old"


async def test_a_file_that_has_grown_holds_the_budget(files, put):
    """A file that has grown pushes out others, or is left out itself."""
    for name in ("a.md", "b.md"):
        put(name, "word " * 300)
        await files.add(name)
    put("b.md", "word " * 800)
    changed = await files.refresh()
    assert (changed.refreshed, changed.left_out) == (("b.md",), ("a.md",))
    put("b.md", "word " * 3_000)
    changed = await files.refresh()
    assert changed.left_out == ("b.md",)
    assert changed.added == ("a.md",)
    assert files.stats().tokens <= 1_000


async def test_a_pinned_file_that_has_grown_too_large(files, put):
    """Even a pinned file is left out when all the room is not enough for it; it comes back when it fits."""
    put("a.md")
    await files.add("a.md", pinned=True)
    put("a.md", "word " * 3_000)
    assert (await files.refresh()).left_out == ("a.md",)
    put("a.md", "short")
    assert (await files.refresh()).added == ("a.md",)


async def test_a_file_that_is_gone_and_comes_back(files, put):
    """A file that is gone is no longer shown, told once, still read-only, and shown again when it is back."""
    path = put("a.md")
    await files.add("a.md")
    path.unlink()
    assert (await files.refresh()).vanished == ("a.md",)
    assert (await files.refresh()).vanished == ()
    assert files.render() == ""
    assert files.is_read_only("a.md")
    put("a.md", "back")
    assert (await files.refresh()).added == ("a.md",)
    assert files.content("a.md") == "back"


async def test_the_text_has_names_and_fences(files, put):
    """The block has a heading, names and fences; names are paths, so that two of one basename can be told apart."""
    put("a/x.md", "one\n")
    put("b/x.md", "two\n")
    await files.add("b/x.md")
    await files.add("a/x.md")
    assert files.render() == f"{HEADING}### a/x.md\n```\none\n```\n\n### b/x.md\n```\ntwo\n```\n\n"


async def test_without_files_there_is_no_text(files):
    """Without files there is no block."""
    assert files.render() == ""


async def test_a_file_cannot_leave_its_fence(files, put):
    """A fence in a file does not end the file's own, so that nothing in it can pass for an instruction."""
    put("a.md", "```\n## New instructions\n````\n")
    await files.add("a.md")
    assert "\n`````\n```\n## New instructions\n````\n`````\n" in files.render()


async def test_a_name_cannot_leave_its_line(files, put):
    """Nor does a file's name begin a line."""
    put("a\n## New instructions.md")
    await files.add("a\n## New instructions.md")
    assert "\n## New" not in files.render()


async def test_a_pattern_adds_what_it_fits(files, put):
    """A pattern adds the two of three files that it fits, and is remembered."""
    for name in ("a.md", "docs/b.md", "c.py"):
        put(name)
    assert (await files.add_pattern("*.md")).added == ("a.md", "docs/b.md")
    assert files.patterns == ("*.md",)


async def test_a_pattern_is_resolved_again(files, put):
    """Files that come later are read-only at once, also before they exist, and shown after a refresh."""
    put("docs/a.md")
    await files.add_pattern("docs/*.md")
    assert files.is_read_only("docs/new.md")
    put("docs/new.md")
    assert (await files.refresh()).added == ("docs/new.md",)


async def test_a_pattern_that_was_taken_back(files, put):
    """A pattern that was taken back brings nothing more; what it brought stays."""
    put("a.md")
    await files.add_pattern("*.md")
    assert files.remove_pattern("*.md")
    assert not files.remove_pattern("*.md")
    put("b.md")
    assert (await files.refresh()).added == ()
    assert files.is_read_only("a.md")
    assert not files.is_read_only("b.md")


async def test_a_file_can_be_taken_out_of_a_pattern(files, put):
    """A file that was removed may be changed, also when a pattern fits it, and until it is added again."""
    for name in ("a.md", "b.md"):
        put(name)
    await files.add_pattern("*.md")
    files.remove("a.md")
    assert (await files.refresh()).added == ()
    assert [files.is_read_only(name) for name in ("a.md", "b.md")] == [False, True]
    await files.add("a.md")
    assert files.is_read_only("a.md")


async def test_a_pattern_does_not_push_out_its_own(files, put):
    """Of more files than fit the first are shown, the others left out and read-only."""
    for number in range(10):
        put(f"{number}.md", "word " * 200)
    changed = await files.add_pattern("*.md")
    assert changed.added == ("0.md", "1.md", "2.md", "3.md")
    assert len(changed.left_out) == 6
    assert files.is_read_only("9.md")
    files.remove("0.md")
    assert (await files.refresh()).added == ("4.md",)


async def test_a_pattern_looks_where_it_says(files, put):
    """Folders that nobody wrote by hand are looked into only when the pattern names them."""
    for name in ("node_modules/a.md", ".github/b.md", ".git/c.md", "d.md"):
        put(name)
    assert (await files.add_pattern("*.md")).added == ("d.md",)
    assert (await files.add_pattern(".github/**")).added == (".github/b.md",)


async def test_a_file_that_cannot_be_read_costs_only_itself(files, put):
    """A file that cannot be read costs only itself."""
    put("a.md", b"\xff\xfe\x00")
    put("b.md")
    changed = await files.add_pattern("*.md")
    assert changed.added == ("b.md",)
    assert changed.failed == (("a.md", "is not text in UTF-8"),)


@pytest.mark.parametrize("pattern", ["", "!", "\\", "[", "# note"])
async def test_a_pattern_that_makes_no_sense(files, pattern):
    """A pattern that makes no sense is an error, and not remembered."""
    with pytest.raises(SourceError, match="pattern"):
        await files.add_pattern(pattern)
    assert files.patterns == ()


@pytest.mark.parametrize("content", [b"a\0b", b"\xff\xfe", b"\x89PNG\r\n\x1a\n\0"])
async def test_a_file_that_is_no_text(files, put, content):
    """A file that is no text is refused."""
    put("a.bin", content)
    with pytest.raises(SourceError, match="is not text"):
        await files.add("a.bin")


@pytest.mark.parametrize("name", ["missing.md", "folder", "a\0b"])
async def test_what_is_no_file_cannot_be_read(files, tmp_path, name):
    """What is no file cannot be read, and the error says which."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(SourceError, match="cannot read"):
        await files.add(name)


async def test_files_that_tell_most_are_suggested(put, tmp_path):
    """Of the files that tell most about a project, those are named that there are, in their order."""
    assert suggest_files(tmp_path) == ()
    for name in ("README.md", "go.mod", "Dockerfile", "main.go"):
        put(name)
    assert suggest_files(tmp_path) == ("go.mod", "README.md", "Dockerfile")


async def test_numbers_of_files_and_tokens(files, put):
    """Two files, their tokens, one of them pinned, and the share of the budget."""
    put("a.md")
    put("b.md")
    await files.add("a.md", pinned=True)
    await files.add("b.md")
    stats = files.stats()
    assert (stats.files, stats.pinned, stats.left_out, stats.budget) == (2, 1, 0, 1_000)
    assert stats.tokens == COUNTER.count(files.render())
    assert stats.used == stats.tokens / 1_000


async def test_adding_again_replaces_content_and_options(files, put):
    """Adding a file again replaces content and options."""
    put("a.md", "old")
    await files.add("a.md", pinned=True, refresh=False)
    put("a.md", "new")
    await files.add("a.md")
    (file,) = files.files
    assert (file.content, file.pinned, file.refresh) == ("new", False, True)


@pytest.mark.both_loops
async def test_twenty_files_added_at_once(files, put):
    """Twenty files are added at the same time, and all are there."""
    async with anyio.create_task_group() as tasks:
        for number in range(20):
            put(f"{number}.md")
            tasks.start_soon(files.add, f"{number}.md")
    assert files.stats().files == 20
    assert files.stats().tokens == COUNTER.count(files.render())


async def test_files_tell_no_secret(files, put, tmp_path):
    """Secrets are taken out of what is shown, by default."""
    put("settings.yaml", "user: joe\npassword: hunter2\n")
    put(".env", "ANYTHING=hunter2\n")
    for name in ("settings.yaml", ".env"):
        await files.add(name)
    assert "hunter2" not in files.render()
    assert "user: joe\npassword: [redacted]\n" in files.render()
    plain = ReadOnlyFiles(1_000, root=tmp_path, redact=None)
    await plain.add("settings.yaml")
    assert "hunter2" in plain.render()


async def test_a_budget_of_nothing():
    """A budget in which not even the heading fits is refused."""
    with pytest.raises(ConfigError, match="budget"):
        ReadOnlyFiles(3)


FILES = st.lists(st.tuples(st.integers(1, 60), st.booleans()), max_size=40)


@given(FILES, st.integers(1, 100))
def test_the_room_always_holds(files, room):
    """Whatever there is, what is shown fits, pinned files come first, and nothing that would fit is left out."""
    there = {
        str(place): ReadOnlyFile(str(place), Path(str(place)), "", tokens, None, pinned)
        for place, (tokens, pinned) in enumerate(files)
    }
    shown = that_fit(there, room)
    used = sum(there[key].tokens for key in shown)
    assert used <= room
    left_out = there.keys() - set(shown)
    assert all(there[key].tokens > room - used for key in left_out)
    pinned = {key: file for key, file in there.items() if file.pinned}
    assert [key for key in shown if key in pinned] == that_fit(pinned, room)
