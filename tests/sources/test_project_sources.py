"""Git, files, environment, manifests and logs, as sources."""

import json
import os
import subprocess
import sys
import tempfile
import zlib
from functools import partial
from pathlib import Path

import anyio
import pytest

from agentctx import ConfigError, SourceError
from agentctx.sources import BuildErrors, Dependencies, Environment, GitSource, ReadOnlyFiles, RecentFiles, gather
from agentctx.sources.files import walk
from agentctx.sources.gathering import SourceOutcome
from agentctx.sources.git import head_branch

pytestmark = pytest.mark.anyio

AS_SOMEBODY = ("-c", "user.name=Dev", "-c", "user.email=dev@example.org", "-c", "commit.gpgsign=false")


@pytest.fixture
def git(tmp_path):
    """Runs git in a new repository."""

    def run(*arguments):
        subprocess.run(["git", *AS_SOMEBODY, *arguments], cwd=tmp_path, check=True, capture_output=True)

    run("init", "--initial-branch=trunk")
    return run


async def contents(source):
    """What a source finds: contents by title."""
    return {item.title: item.content for item in await source("")}


async def test_git_tells_branch_changes_and_commits(git, tmp_path):
    """Branch, changed files and last commits, newest first, are three items."""
    for name in ("one", "two"):
        (tmp_path / name).write_text(name, encoding="utf-8")
        git("add", name)
        git("commit", "-m", f"Add {name}")
    (tmp_path / "three").write_text("three", encoding="utf-8")
    found = await contents(GitSource(tmp_path))
    assert found["branch"] == "trunk"
    assert found["working tree"] == "?? three"
    assert [line.split(" ", 1)[1] for line in found["last commits"].splitlines()] == ["Add two", "Add one"]


async def test_git_without_a_commit(git, tmp_path):
    """In a repository without a commit there is a branch, and nothing fails."""
    git("status")
    assert await contents(GitSource(tmp_path)) == {"branch": "trunk"}


@pytest.mark.parametrize("damage", ["index", "objects"])
async def test_git_that_cannot_read_a_repository_says_so(git, tmp_path, damage):
    """A damaged repository is not told as one without changes; no path of a temporary folder is told."""
    (tmp_path / "a.txt").write_text("one", encoding="utf-8")
    git("add", "a.txt")
    git("commit", "-m", "First")
    place = tmp_path / ".git/index"
    if damage == "objects":
        (place,) = (
            path for path in (tmp_path / ".git/objects").glob("??/*") if b"First" in zlib.decompress(path.read_bytes())
        )
        place.chmod(0o644)
    place.write_bytes(b"junk")
    found = await contents(GitSource(tmp_path, diff=True))
    assert found["working tree"].startswith("(git: ")
    assert found["branch"] == "trunk"
    assert "agentctx-git" not in str(found)


async def test_git_between_branches(git, tmp_path):
    """At a commit that is no branch's, no branch is told."""
    git("commit", "--allow-empty", "-m", "First")
    git("checkout", "--detach")
    assert "branch" not in await contents(GitSource(tmp_path))


async def test_git_changes_without_secrets(git, tmp_path):
    """What was changed is told when it is asked for, without the secrets in it."""
    path = tmp_path / "settings"
    path.write_text("a = 1\n", encoding="utf-8")
    git("add", ".")
    git("commit", "-m", "First")
    path.write_text("api_key = 'q7Xk29LmPz04RtVb'\n", encoding="utf-8")
    assert "+api_key = '[redacted]'" in (await contents(GitSource(tmp_path, diff=True)))["changes"]


async def test_git_runs_no_program_of_the_repository(git, tmp_path):
    """A repository's settings do not run programs when it is looked at."""
    mark = tmp_path.parent / f"{tmp_path.name}-ran"
    (tmp_path / "hook").write_text(f"#!/bin/sh\ntouch {mark}\n", encoding="utf-8")
    (tmp_path / "hook").chmod(0o755)
    git("config", "core.fsmonitor", str(tmp_path / "hook"))
    await GitSource(tmp_path, diff=True)("")
    assert not mark.exists()


async def test_git_outside_of_a_repository(tmp_path):
    """Outside of a repository the source fails, and says why."""
    with pytest.raises(SourceError, match="not a git repository"):
        await GitSource(tmp_path)("")


async def test_git_in_no_folder(tmp_path):
    """In a folder that is not there the source fails, and says why."""
    with pytest.raises(SourceError, match="git: "):
        await GitSource(tmp_path / "missing")("")


async def test_git_is_not_led_astray(git, tmp_path, monkeypatch):
    """Variables that a git hook sets do not lead to another repository."""
    git("status")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert (await contents(GitSource(tmp_path)))["branch"] == "trunk"


def test_files_that_git_ignores_are_no_recent_files(tmp_path):
    """Folders of packages, hidden folders and what .gitignore takes out are not told; what it takes back in is."""
    (tmp_path / ".gitignore").write_text("*.gen.py\n/out/\n", encoding="utf-8")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/.gitignore").write_text("!keep.gen.py\nlocal.py\n", encoding="utf-8")
    for name in ("a.py", "b.gen.py", "out/c.py", "node_modules/d.js", ".venv/e.py", "sub/keep.gen.py", "sub/local.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x", encoding="utf-8")
    assert [path for path, _ in walk(tmp_path)] == [".gitignore", "a.py", "sub/.gitignore", "sub/keep.gen.py"]
    assert "out/c.py" in [path for path, _ in walk(tmp_path, gitignore=False)]


def test_recent_files_newest_first_and_no_more_than_asked_for(tmp_path):
    """Of many files the newest are told, those of one time by name."""
    for number in range(30):
        path = tmp_path / f"f{number:02}.py"
        path.write_text("x", encoding="utf-8")
        os.utime(path, (number // 2, number // 2))
    (found,) = RecentFiles(tmp_path, limit=3)("")
    assert [line.split()[0] for line in found.content.splitlines()] == ["f28.py", "f29.py", "f26.py"]


def test_links_are_not_followed(tmp_path):
    """Neither a link to a file elsewhere nor a circle of folders is walked through."""
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "secret.py").write_text("x", encoding="utf-8")
    (project / "link.py").symlink_to(tmp_path / "secret.py")
    (project / "circle").symlink_to(project)
    assert list(walk(project)) == []
    assert RecentFiles(project)("") == []


def test_a_folder_that_cannot_be_read_is_passed_over(tmp_path, monkeypatch):
    """One unreadable folder does not end the walk."""
    for name in ("a/x.py", "b/y.py"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("x", encoding="utf-8")
    listing = os.scandir

    def refused(path):
        if str(path).endswith("a"):
            raise PermissionError(path)
        return listing(path)

    monkeypatch.setattr(os, "scandir", refused)
    assert [path for path, _ in walk(tmp_path)] == ["b/y.py"]


def test_folders_may_be_deep(tmp_path):
    """Folders within folders, however deep, are walked through without a deep stack."""
    inner = tmp_path
    for _ in range(1_200):
        inner = inner / "d"
        inner.mkdir()
    assert list(walk(tmp_path)) == []
    while inner != tmp_path:  # what clears up after tests cannot go so deep
        inner.rmdir()
        inner = inner.parent


@pytest.mark.both_loops
async def test_a_walk_ends_when_nobody_waits(tmp_path):
    """A thread that walks through files stops when the one who waited was cancelled."""
    for number in range(50):
        (tmp_path / f"d{number}").mkdir()
    walked = []

    def slow():
        for path, _ in walk(tmp_path):
            walked.append(path)

    with anyio.CancelScope() as scope:
        scope.cancel()
        await anyio.to_thread.run_sync(slow, abandon_on_cancel=True)
    assert walked == []


async def test_environment_variables_are_told_only_by_name(tmp_path):
    """Without names no variable is told; with them, secrets are taken out by name and by value."""
    environ = {"CI": "yes", "API_KEY": "hunter2", "DB_URL": "pg://joe:hunter2@db", "HOME": "/home/dev", "NOTE": "a\nb"}
    ask = partial(Environment, tmp_path, tools=(), environ=environ)
    (silent,) = await ask()("")
    assert not [name for name in environ if name in silent.content]
    (told,) = await ask(variables=("CI", "API_*", "DB_*", "NOTE"))("")
    assert told.content.splitlines()[-4:] == [
        "API_KEY=[redacted]",
        "CI=yes",
        "DB_URL=pg://joe:[redacted]@db",
        "NOTE=a b",
    ]


async def test_environment_asks_a_tool_once(tmp_path, monkeypatch):
    """A tool that was not replaced is asked for its version once; one that fails or is not there is not told."""
    calls = tmp_path / "calls"
    for name, ending in (("atool", "0"), ("broken", "1")):
        (tmp_path / name).write_text(
            f"#!/bin/sh\necho x >> {calls}\necho {name} 1.2\nexit {ending}\n", encoding="utf-8"
        )
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path) + os.pathsep + os.environ["PATH"])
    for _ in range(3):
        (found,) = await Environment(tmp_path, tools=("atool", "broken", "nowhere"))("")
    assert "atool: atool 1.2" in found.content
    assert "broken" not in found.content
    assert calls.read_text(encoding="utf-8").count("x") == 2


async def test_environment_tells_the_whole_path_when_asked(tmp_path):
    """The whole path of the working folder is told when the caller wants it."""
    (found,) = await Environment(tmp_path, tools=(), full_path=True)("")
    assert f"Working directory: {tmp_path.resolve()}" in found.content


def test_the_branch_is_read_from_files(git, tmp_path):
    """The branch is found from any folder below, in a worktree too, and nowhere outside."""
    git("commit", "--allow-empty", "-m", "First")
    git("worktree", "add", "-b", "feature/x", "tree")
    (tmp_path / "sub").mkdir()
    assert head_branch(tmp_path / "sub") == "trunk"
    assert head_branch(tmp_path / "tree") == "feature/x"
    git("checkout", "--detach")
    assert head_branch(tmp_path) == ""
    assert head_branch(tmp_path.parent) == ""


def test_manifests_are_told_in_part(tmp_path):
    """Of long manifests only dependencies and what they are for is told, each an item."""
    package = {
        "name": "m",
        "description": "long",
        "devDependencies": {"x": "1"},
        "scripts": {"test": "run"},
        "jest": {},
    }
    (tmp_path / "package.json").write_text(json.dumps(package), encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "p"\ndependencies = ["attrs"]\n[tool.ruff]\nline-length = 120\n', encoding="utf-8"
    )
    (tmp_path / "Cargo.toml").write_text(
        '[package]\nname = "c"\n[dependencies]\na = "1"\n[profile.dev]\n', encoding="utf-8"
    )
    (tmp_path / "requirements.txt").write_text("--index-url https://joe:pw@index/\nattrs\n", encoding="utf-8")
    found = {item.title: item.content for item in Dependencies(tmp_path)("")}
    assert json.loads(found["package.json"]).keys() == {"name", "devDependencies", "scripts"}
    assert json.loads(found["pyproject.toml"]) == {"name": "p", "dependencies": ["attrs"]}
    assert json.loads(found["Cargo.toml"]).keys() == {"package", "dependencies"}
    assert found["requirements.txt"] == "--index-url https://joe:[redacted]@index/\nattrs\n"


@pytest.mark.parametrize("name", ["package.json", "pyproject.toml", "Cargo.toml"])
@pytest.mark.parametrize("content", ["{", "[]", "= broken"])
def test_broken_manifests_are_told_as_they_are(tmp_path, name, content):
    """A manifest that cannot be read is shown as it stands."""
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert [item.content for item in Dependencies(tmp_path)("")] == [content]


async def test_a_long_manifest_is_cut(tmp_path):
    """A manifest that is larger than the source's room is there in part."""
    (tmp_path / "go.mod").write_text("\n".join(f"require m{n} v1" for n in range(2_000)), encoding="utf-8")
    answered = await gather([Dependencies(tmp_path, max_tokens=100)])
    assert "require m0 v1\n" in answered.text
    assert answered.sources[0].tokens <= 100


def test_the_end_of_a_long_log_is_whole(tmp_path):
    """Only whole lines of a long log's end are told, and no half of a character or a secret."""
    lines = [f"line {n}: ünïcödé password=hunter{n}" for n in range(20_000)]
    (tmp_path / "a.log").write_text("\n".join(lines), encoding="utf-8")
    (found,) = BuildErrors(tmp_path)("")
    told = found.content.splitlines()
    assert told[-1] == "line 19999: ünïcödé password=[redacted]"
    assert all(line.startswith("line ") for line in told)
    assert "hunter" not in found.content
    assert "�" not in found.content


def test_logs_newest_first_and_no_links(tmp_path):
    """The newest logs are told first, empty ones and links not at all."""
    (tmp_path / "outside").write_text("secret", encoding="utf-8")
    logs = tmp_path / "logs"
    logs.mkdir()
    for age, name in enumerate(("one.log", "two.err", "my-errors.txt", "four.log")):
        (logs / name).write_text(name, encoding="utf-8")
        os.utime(logs / name, (age, age))
    (logs / "empty.log").write_text("\n", encoding="utf-8")
    os.utime(logs / "empty.log", (1, 1))
    (logs / "link.log").symlink_to(tmp_path / "outside")
    assert [item.title for item in BuildErrors(logs)("")] == ["four.log", "my-errors.txt", "two.err"]
    assert [item.title for item in BuildErrors(logs, limit=9)("")] == [
        "four.log",
        "my-errors.txt",
        "two.err",
        "one.log",
    ]


@pytest.mark.both_loops
async def test_all_of_them_together(git, tmp_path):
    """The sources of a project are gathered within a room, and what is not there costs nothing."""
    (tmp_path / "main.py").write_text("x = 1\n", encoding="utf-8")
    git("add", ".")
    git("commit", "-m", "First")
    sources = [
        GitSource(tmp_path),
        RecentFiles(tmp_path),
        Environment(tmp_path),
        Dependencies(tmp_path),
        BuildErrors(""),
    ]
    answered = await gather(sources, "main", max_tokens=2_000, deadline=30)
    assert {each.outcome for each in answered.sources} == {SourceOutcome.FINE}
    assert {item.source for item in answered.items} == {"git", "files", "environment"}


def test_names_that_are_no_text(tmp_path):
    """A file whose name is no Unicode, or has a line break, is told on one line that can be counted and sent."""
    for name in (b"caf\xe9.py", b"a\nb.py"):
        (tmp_path / os.fsdecode(name)).write_text("x", encoding="utf-8")
    (found,) = RecentFiles(tmp_path)("")
    assert len(found.content.splitlines()) == 2
    found.content.encode("utf-8")


async def test_a_very_long_change_is_looked_at_in_part(git, tmp_path):
    """Of a change of megabytes the beginning is told, in whole lines."""
    path = tmp_path / "data"
    path.write_text("x\n", encoding="utf-8")
    git("add", ".")
    git("commit", "-m", "First")
    path.write_text("\n".join(f"line {n}" for n in range(200_000)), encoding="utf-8")
    told = (await contents(GitSource(tmp_path, diff=True)))["changes"]
    whole = (await anyio.run_process(["git", "diff", "HEAD"], cwd=tmp_path)).stdout.decode()
    assert 200_000 < len(told) <= 256 * 1024
    assert whole.startswith(f"{told}\n")


ODD_MANIFESTS = {
    "pyproject.toml": [
        "tool = 1",
        "project = 1",
        "project = ['name']",
        "[tool]\npoetry = 'dependencies'",
        "a = " + "1" * 5_000,
    ],
    "Cargo.toml": ["package = 1\ndependencies = 5", "a = " + "1" * 5_000],
    "package.json": ["[1]", '{"n": ' + "1" * 5_000 + "}", '{"dependencies": ' + "[" * 900 + "]" * 900 + "}"],
}


@pytest.mark.parametrize("name", ODD_MANIFESTS)
def test_a_manifest_of_an_odd_shape_costs_no_other_its_place(tmp_path, name):
    """Whatever stands in one manifest, it is told somehow, and so are the others."""
    (tmp_path / "requirements.txt").write_text("attrs", encoding="utf-8")
    for content in ODD_MANIFESTS[name]:
        (tmp_path / name).write_text(content, encoding="utf-8")
        assert {item.title for item in Dependencies(tmp_path)("")} == {name, "requirements.txt"}


def test_a_manifest_tells_nothing_that_cannot_be_sent(tmp_path):
    """Half a character, which JSON can say and UTF-8 cannot hold, is told as a question mark."""
    (tmp_path / "package.json").write_text('{"name": "\\ud800"}', encoding="utf-8")
    (found,) = Dependencies(tmp_path)("")
    assert json.loads(found.content) == {"name": "?"}


MEMORY = Path("/dev/shm")  # noqa: S108 - a file system that keeps any time


@pytest.mark.skipif(not MEMORY.is_dir(), reason="it is Linux's")
def test_a_file_of_a_time_that_no_calendar_has_is_told_with_the_others():
    """Who makes the files of a project says their times; one of the year 71654 costs no other its place."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        for name, time in (("odd.py", 2**41), ("plain.py", 10**9)):
            Path(folder, name).write_text("x", encoding="utf-8")
            os.utime(Path(folder, name), (time, time))
        (found,) = RecentFiles(folder)("")
    assert found.content == "odd.py (modified 9999-12-30 00:00)\nplain.py (modified 2001-09-09 01:46)"


def test_without_pathspec_patterns_are_refused(tmp_path, monkeypatch):
    """Without pathspec, what needs patterns says so, and the rest works."""
    monkeypatch.setitem(sys.modules, "pathspec", None)
    (tmp_path / "a.py").write_text("x", encoding="utf-8")
    assert len(RecentFiles(tmp_path)("")) == 1
    (tmp_path / ".gitignore").write_text("*.log\n", encoding="utf-8")
    with pytest.raises(SourceError, match=r"patterns: reading them .*pathspec"):
        RecentFiles(tmp_path)("")
    assert len(RecentFiles(tmp_path, gitignore=False)("")) == 1


@pytest.mark.parametrize(
    ("source", "options"),
    [
        (GitSource, {"commits": 0}),
        (GitSource, {"commits": "10"}),
        (GitSource, {"max_tokens": -1}),
        (RecentFiles, {"limit": 0}),
        (RecentFiles, {"max_tokens": 0.5}),
        (Dependencies, {"max_tokens": "5"}),
        (Environment, {"max_tokens": True}),
        (partial(BuildErrors, "logs"), {"limit": -1}),
        (ReadOnlyFiles, {"budget": "5"}),
    ],
)
def test_numbers_that_make_no_sense(source, options):
    """Options are checked when a source is made, and the error names it, the option and what was passed."""
    (option,) = options
    with pytest.raises(ConfigError, match=rf"^\w+\.{option} must be a whole number of at least \d.*, got "):
        source(**options)


@pytest.mark.parametrize(
    ("make", "option"),
    [
        (lambda given: Environment(tools=given), "Environment.tools"),
        (lambda given: Environment(variables=given), "Environment.variables"),
        (lambda given: RecentFiles(extensions=given), "RecentFiles.extensions"),
        (lambda given: RecentFiles(skipped=given), "RecentFiles.skipped"),
    ],
)
@pytest.mark.parametrize("given", ["CI", None, [1]])
def test_one_text_is_not_taken_apart(make, option, given):
    """An option of several texts refuses one text alone, and what is no text; the error names it."""
    with pytest.raises(ConfigError, match=rf"^{option}(\[0\])? must be a (list of (texts|names)|text), got "):
        make(given)
