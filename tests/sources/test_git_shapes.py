"""Git repositories of every shape, and what a diff must not tell."""

import os
import subprocess

import anyio
import pytest

from agentctx import SourceError
from agentctx.sources import GitSource, gather, redact_secrets
from agentctx.sources.git import LONGEST, redact_diff, run_git, whole_lines

pytestmark = pytest.mark.anyio

AS_SOMEBODY = (
    *("-c", "user.name=Dev", "-c", "user.email=dev@example.org"),
    *("-c", "commit.gpgsign=false", "-c", "protocol.file.allow=always"),
)


@pytest.fixture
def git(tmp_path):
    """Runs git in a new repository, and in others below it."""

    def run(*arguments, into="."):
        subprocess.run(["git", *AS_SOMEBODY, *arguments], cwd=tmp_path / into, check=True, capture_output=True)

    run("init", "--initial-branch=trunk")
    return run


async def contents(source):
    """What a source finds: contents by title."""
    return {item.title: item.content for item in await source("")}


async def test_an_empty_repository(git, tmp_path):
    """Before the first commit there are a branch and new files, no commits and no changes."""
    (tmp_path / "a.txt").write_text("x\n", encoding="utf-8")
    git("add", ".")
    assert await contents(GitSource(tmp_path, diff=True)) == {"branch": "trunk", "working tree": "A  a.txt"}


async def test_a_bare_repository(git, tmp_path):
    """Where there is no working tree there is a branch."""
    git("init", "--bare", "--initial-branch=trunk", "bare.git")
    assert await contents(GitSource(tmp_path / "bare.git", diff=True)) == {"branch": "trunk"}


async def test_a_submodule(git, tmp_path):
    """A submodule is a repository of its own, and a changed file of the one around it."""
    (tmp_path / "inner").mkdir()
    git("init", "--initial-branch=inner", into="inner")
    git("commit", "--allow-empty", "-m", "Inside", into="inner")
    git("init", "outer")
    git("submodule", "add", str(tmp_path / "inner"), "part", into="outer")
    assert "A  part" in (await contents(GitSource(tmp_path / "outer")))["working tree"]
    inside = await contents(GitSource(tmp_path / "outer" / "part"))
    assert inside["branch"] == "inner"
    assert inside["last commits"].endswith("Inside")


async def test_a_renamed_file(git, tmp_path):
    """A file that was renamed is told by both names."""
    (tmp_path / "old.py").write_text("x\n", encoding="utf-8")
    git("add", ".")
    git("commit", "-m", "First")
    git("mv", "old.py", "new.py")
    found = await contents(GitSource(tmp_path, diff=True))
    assert found["working tree"] == "R  old.py -> new.py"
    assert "rename to new.py" in found["changes"]


async def test_names_are_told_as_they_are(git, tmp_path):
    """Names in any script can be read; of a name that is no text what can be read is told, each on its own line."""
    git("status")
    for name in ("größe.py".encode(), "日本.py".encode(), b"caf\xe9.py", b"a\nb.py"):
        (tmp_path / os.fsdecode(name)).write_text("x", encoding="utf-8")
    lines = (await contents(GitSource(tmp_path)))["working tree"].splitlines()
    assert sorted(lines) == ['?? "a\\nb.py"', "?? caf\N{REPLACEMENT CHARACTER}.py", "?? größe.py", "?? 日本.py"]


async def test_no_colours(git, tmp_path):
    """A user who wants colours at all times has them in the terminal, and the model has none."""
    for setting in ("ui", "status", "diff"):
        git("config", f"color.{setting}", "always")
    (tmp_path / "a.txt").write_text("x\n", encoding="utf-8")
    git("add", ".")
    git("commit", "-m", "First")
    (tmp_path / "a.txt").write_text("y\n", encoding="utf-8")
    found = await contents(GitSource(tmp_path, diff=True))
    assert len(found) == 4
    assert "\x1b" not in str(found.values())


async def test_without_git(tmp_path, monkeypatch):
    """Without git the source says so, and the others are asked."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (await gather([GitSource(tmp_path)])).problems == ("git: SourceError: git: is not installed",)


async def test_an_error_names_no_path(tmp_path):
    """A folder that is not there is told by its name alone: a path tells who the user is."""
    with pytest.raises(SourceError) as raised:
        await run_git(tmp_path / "missing", "status")
    assert str(raised.value) == "git: cannot run in 'missing': No such file or directory"


@pytest.mark.both_loops
async def test_a_huge_change_is_not_read_to_its_end(git, tmp_path, monkeypatch):
    """When git has said more than is looked at, it is ended, and not waited for."""
    (tmp_path / "git").write_text("#!/bin/sh\nwhile :; do echo 'line of a change'; done\n", encoding="utf-8")
    (tmp_path / "git").chmod(0o755)
    git("status")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with anyio.fail_after(60):
        said = await run_git(tmp_path, "diff")
    assert LONGEST - 100 < len(said) <= LONGEST
    assert said.endswith("change\n")


@pytest.mark.both_loops
async def test_git_is_ended_with_whoever_waits(git, tmp_path, monkeypatch):
    """A git that hangs is ended at the deadline."""
    (tmp_path / "git").write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n", encoding="utf-8")
    (tmp_path / "git").chmod(0o755)
    git("status")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    answered = await gather([GitSource(tmp_path)], deadline=3)
    assert answered.problems == ("git: did not answer within 3 seconds",)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text(encoding="utf-8")), 0)


def test_half_a_line_is_none():
    """What does not end within the first part is left out: half a secret is not recognised."""
    assert whole_lines(b"a\n" + b"b" * LONGEST) == "a\n"
    assert whole_lines(b"b" * (LONGEST + 1)) == ""
    assert whole_lines(b"a\nb") == "a\nb"


DIFF = """\
diff --git a/{old} b/{new}
index 1..2 100644
--- a/{old}
+++ b/{new}
@@ -1,2 +1,3 @@ {context}
 {kept}
-{removed}
+{added}
"""


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (".env", "ANYTHING=hunter2"),
        (".env.local", "export ANYTHING='hunter2'"),
        ("id_rsa", "hunter2"),
        ("deploy.key", "hunter2"),
        ("a.yaml", "db_password: hunter2"),
        ("a.ini", "password = hunter2"),
        ("a.py", "PASSWORD = 'hunter2'"),
        ("notes.md", "https://joe:hunter2@example.org"),
        ('tab\\t.env"', "ANYTHING=hunter2"),
    ],
)
def test_a_diff_tells_no_more_than_its_files(name, line):
    """Lines of a diff are read by the rules for their file: added, removed, kept, and the one beside the numbers."""
    told = redact_diff(
        DIFF.format(old=name, new=name, context=line, kept=line, removed=line, added=line), redact_secrets
    )
    assert "hunter2" not in told
    assert "index 1..2" in told
    assert [row[0] for row in told.splitlines()[-3:]] == [" ", "-", "+"]


def test_a_diff_of_a_renamed_file_is_read_by_both_names():
    """What was an environment file is none the less one under its new name."""
    told = redact_diff(
        DIFF.format(old=".env", new="settings.txt", context="", kept="A=hunter2", removed="B=x", added="C=hunter2"),
        redact_secrets,
    )
    assert "hunter2" not in told


def test_a_diff_of_many_files_is_told_one_by_one():
    """The rules for one file say nothing of the next."""
    one = DIFF.format(old=".env", new=".env", context="", kept="A=x", removed="B=x", added="C=x")
    other = DIFF.format(old="a.py", new="a.py", context="def f():", kept="A=x", removed="B=x", added="C=x")
    assert redact_diff(one + other, redact_secrets).endswith(other)


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_a_key_that_changed_in_the_middle(cut):
    """A private key of which one line changed goes as a whole, also when the change shows only its end."""
    lines = [" -----BEGIN PRIVATE KEY-----", " aaaa", "-hunter2", "+hunter2b", " -----END PRIVATE KEY-----", " rest"]
    head = "diff --git a/k b/k\n--- a/k\n+++ b/k\n@@ -1,4 +1,4 @@\n"
    told = redact_diff(head + "\n".join(lines[cut:]) + "\n", redact_secrets)
    assert "hunter2" not in told
    assert "rest" in told


def test_a_diff_without_secrets_stays():
    """Nothing else is changed, whatever a diff has in it."""
    binary = "diff --git a/x b/x\nBinary files a/x and b/x differ\n"
    plain = DIFF.format(old="a.py", new="b.py", context="class A:", kept="", removed="+++ b/.env", added="@@ -1 +1 @@")
    for each in (binary, plain, plain + "\\ No newline at end of file\n", "", "no diff at all\n"):
        assert redact_diff(each, redact_secrets) == each


def test_redacting_a_diff_grows_with_it(work):
    """Ten times the lines are about ten times the work, whatever their signs."""
    few, many = (
        DIFF.format(old="a.py", new="a.py", context="", kept="a = 1", removed="b", added="c\n-d\n+e" * number)
        for number in (100, 1_000)
    )
    assert work(lambda: redact_diff(many, redact_secrets)) < 14 * work(lambda: redact_diff(few, redact_secrets))
