"""Read-only files on odd disks: links, encodings, permissions, pipes."""

import os

import anyio
import anyio.lowlevel
import pytest

from agentctx import SourceError
from agentctx.sources import ReadOnlyFiles

pytestmark = pytest.mark.anyio


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


async def test_links_that_lead_out_of_the_root(tmp_path):
    """A link that a pattern fits is read-only wherever it leads, and not shown; a file elsewhere is none's business."""
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    for folder in (root / "docs", elsewhere):
        folder.mkdir(parents=True)
    (elsewhere / "secret.md").write_text("not for the model", encoding="utf-8")
    (root / "docs/link.md").symlink_to(elsewhere / "secret.md")
    (root / "docs/folder").symlink_to(elsewhere)
    files = ReadOnlyFiles(1_000, root=root)
    await files.add_pattern("docs/**/*.md")
    assert files.render() == ""
    assert files.is_read_only("docs/link.md")
    assert files.is_read_only(root / "docs/folder/secret.md")
    assert not files.is_read_only(elsewhere / "secret.md")
    assert not files.is_read_only("../elsewhere/secret.md")


async def test_patterns_end_at_the_root(tmp_path):
    """A file outside of the root is not read-only because its name would fit."""
    (tmp_path / "root").mkdir()
    files = ReadOnlyFiles(1_000, root=tmp_path / "root")
    await files.add_pattern("*.md")
    assert files.is_read_only("a.md")
    assert not files.is_read_only(tmp_path / "a.md")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("text".encode("utf-16"), "is not text in UTF-8"),
        ("größe".encode("latin-1"), "is not text in UTF-8"),
        (b"\xed\xa0\x80", "is not text in UTF-8"),
        (b"a\0b", "is not text"),
    ],
)
async def test_other_encodings_cost_only_themselves(files, put, tmp_path, content, problem):
    """A file that cannot be read is told once, and again when it has changed; the others are there."""
    put("good.md", "good")
    (tmp_path / "odd.md").write_bytes(content)
    assert (await files.add_pattern("*.md")).failed == (("odd.md", problem),)
    assert [file.name for file in files.files] == ["good.md"]
    assert (await files.refresh()).failed == ()
    (tmp_path / "odd.md").write_bytes(content * 2)
    assert (await files.refresh()).failed == (("odd.md", problem),)
    (tmp_path / "odd.md").write_text("now text", encoding="utf-8-sig")
    assert (await files.refresh()).added == ("odd.md",)
    assert files.content("odd.md") == "now text"


async def test_permission_denied(files, put, monkeypatch):
    """A file that may not be read is an error that says so, and read-only all the same when a pattern fits it."""
    put("locked.md", "text")

    def refuse(*_arguments, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(SourceError, match=r"^locked\.md: cannot read it: Permission denied$"):
        await files.add("locked.md")
    assert (await files.add_pattern("*.md")).failed == (("locked.md", "cannot read it: Permission denied"),)
    assert files.is_read_only("locked.md")


async def test_what_is_no_regular_file(files, tmp_path):
    """Neither a folder nor a pipe is read: a pipe would never end."""
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "folder.md").mkdir()
    for name in ("pipe.md", "folder.md"):
        with pytest.raises(SourceError, match="it is no file"):
            await files.add(name)
    assert (await files.add_pattern("*.md")).failed == ()


@pytest.mark.parametrize("gone", [True, False], ids=["vanished", "changed"])
async def test_a_file_that_is_removed_while_files_are_read_again_stays_removed(files, put, gone):
    """Whoever lets a file be changed while a refresh runs is not overruled by it, and costs it nothing."""
    names = [f"{number}.md" for number in range(5)]
    paths = [put(name) for name in names]
    await files.add_pattern("*.md")
    for path in paths:
        path.unlink() if gone else path.write_text("other words\n", "utf-8")

    async def remove():
        for name in names:
            files.remove(name)
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(files.refresh)
        tasks.start_soon(remove)
    assert not any(map(files.is_read_only, names))
    assert files.render() == ""
