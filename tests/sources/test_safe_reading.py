"""Sources read regular files of their own folder, and no more of them than they say."""

import os
from pathlib import Path

import anyio
import pytest

from agentctx import SourceError
from agentctx.sources import BuildErrors, Dependencies, ReadOnlyFiles, RecentFiles, files as folder, suggest_files
from agentctx.sources.files import opened, read_below

PRIVATE = "a-private-line"


@pytest.fixture
def project(tmp_path):
    """A folder with a private file outside."""
    (tmp_path / "outside.txt").write_text(f"{PRIVATE}\n", encoding="utf-8")
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def as_a_link(place):
    place.symlink_to(place.parent.parent / "outside.txt")


def as_a_relative_link(place):
    place.symlink_to("../outside.txt")


def as_a_chain_of_links(place):
    (place.parent / "first").symlink_to("..")
    place.symlink_to("first/outside.txt")


def as_a_pipe(place):
    os.mkfifo(place)


def as_a_device(place):
    place.symlink_to("/dev/zero")


def as_a_folder(place):
    place.mkdir()


ODD = (as_a_link, as_a_relative_link, as_a_chain_of_links, as_a_pipe, as_a_device, as_a_folder)


@pytest.mark.parametrize("odd", ODD)
def test_no_manifest_leads_elsewhere(odd, project):
    """What is no regular file of the project is no manifest; the others are told."""
    odd(project / "requirements.txt")
    (project / "go.mod").write_text("module m\n", encoding="utf-8")
    assert [item.title for item in Dependencies(project)("")] == ["go.mod"]
    assert "requirements.txt" not in suggest_files(project)


@pytest.mark.parametrize("odd", ODD)
def test_no_log_leads_elsewhere(odd, project):
    """Nor is it a log."""
    odd(project / "build.log")
    assert BuildErrors(project)("") == []


@pytest.mark.parametrize("odd", ODD)
def test_no_ignore_file_leads_elsewhere(odd, project):
    """Nor a file of patterns: what it is made to say decides nothing."""
    (project.parent / "outside.txt").write_text("*.py\n", encoding="utf-8")
    odd(project / ".gitignore")
    (project / "a.py").write_text("", encoding="utf-8")
    assert len(RecentFiles(project)("")) == 1


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("absolute", [False, True])
def test_no_name_below_the_root_leads_elsewhere(odd, absolute, project):
    """A name below the root that leads out of it is refused, however it is written."""
    odd(project / "notes.md")
    files = ReadOnlyFiles(1_000, root=project)
    with pytest.raises(SourceError, match=r"notes\.md|zero"):
        anyio.run(files.add, project / "notes.md" if absolute else "notes.md")
    assert PRIVATE not in files.render()


def test_a_link_within_the_folder_is_read(project):
    """A link that stays in the folder is a file of it."""
    (project / "requirements").mkdir()
    (project / "requirements/all.txt").write_text("attrs\n", encoding="utf-8")
    (project / "requirements.txt").symlink_to("requirements/all.txt")
    assert [item.content for item in Dependencies(project)("")] == ["attrs\n"]


def test_a_root_may_be_a_link(project):
    """Which folder it is, is the caller's to say."""
    (project / "go.mod").write_text("module m\n", encoding="utf-8")
    (project.parent / "link").symlink_to(project)
    assert len(Dependencies(project.parent / "link")("")) == 1


@pytest.mark.parametrize("swapped", ["sub", "sub/a.txt"])
def test_what_becomes_a_link_while_it_is_opened_is_refused(swapped, project, monkeypatch):
    """Between a look at a path and its opening nobody can put a link in its place."""
    (project / "sub").mkdir()
    (project / "sub/a.txt").write_text("mine\n", encoding="utf-8")
    (project.parent / "a.txt").write_text(PRIVATE, encoding="utf-8")
    looked = os.path.realpath

    def swap(path):
        found = looked(path)
        place = project / swapped
        if str(path).endswith("a.txt") and not place.is_symlink():
            place.rename(project / "old")
            place.symlink_to(project.parent if swapped == "sub" else project.parent / "a.txt")
        return found

    monkeypatch.setattr(folder.os.path, "realpath", swap)
    assert read_below(project, "sub/a.txt", 100) is None


@pytest.mark.parametrize("size", [10, 11])
def test_no_more_is_read_than_is_asked_for(size, project):
    """A file that is larger than the limit is none, also one that grows while it is read."""
    (project / "a").write_bytes(b"x" * size)
    assert read_below(project, "a", 10) == (b"x" * 10 if size == 10 else None)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="a system without /proc")
def test_a_file_without_a_size_has_a_limit():
    """A file that says it is empty and goes on is read up to the limit."""
    assert read_below(Path("/proc/self"), "status", 10) is None


@pytest.mark.parametrize("name", ["../outside.txt", "/dev/null", "a/../../outside.txt"])
def test_a_name_does_not_lead_out_of_the_folder(name, project):
    """Nor does the name itself."""
    with pytest.raises(SourceError), opened(project, name):
        pass
