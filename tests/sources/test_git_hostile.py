"""Repositories that try to have a program run, or another repository told of; and that git's own answers stay right."""

import os
import shutil
import subprocess
from pathlib import Path

import anyio
import pytest

from agentctx import ConfigError, SourceError
from agentctx.sources import Environment, GitSource
from agentctx.sources.git import head_branch

AS_SOMEBODY = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    **{f"GIT_{who}_{what}": "dev@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


def git(folder, *arguments):
    """Run git as somebody without settings; what it says."""
    options = ("-c", "protocol.file.allow=always", "-c", "core.quotePath=false")
    done = subprocess.run(["git", *options, *arguments], cwd=folder, check=True, capture_output=True, env=AS_SOMEBODY)
    return done.stdout.decode()


def repository(folder, *options):
    """A repository with two files and a commit."""
    (folder / "sub").mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "--initial-branch=trunk", *options)
    (folder / "a.txt").write_text("hello\n", encoding="utf-8")
    (folder / "sub/b.txt").write_text("hello\n", encoding="utf-8")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "First")
    return folder


@pytest.fixture
def canary(tmp_path):
    """A program that leaves a trace when it is run."""
    program = tmp_path / "canary"
    program.write_text(f'#!/bin/sh\necho "$0 $@" >> {tmp_path}/ran\nexit 0\n', encoding="utf-8")
    program.chmod(0o755)
    yield program
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text(encoding="utf-8")


def told(folder, **options):
    """What the source says: contents by title."""
    found = anyio.run(GitSource(folder, diff=True, **options), "")
    return {item.title: item.content for item in found}


def change(folder):
    """Let everything look changed, so that git has to read it."""
    (folder / "a.txt").write_text("hullo\n", encoding="utf-8")
    os.utime(folder / "sub/b.txt", (1, 1))


PROGRAMS = (
    *("core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "core.askPass", "core.gitProxy"),
    *("core.alternateRefsCommand", "core.hookspath", "core.attributesFile", "core.excludesFile"),
    *("pager.status", "pager.log", "pager.diff", "sequence.editor", "credential.helper", "gpg.program"),
    *("gpg.ssh.program", "gpg.x509.program", "gpg.ssh.defaultKeyCommand", "interactive.diffFilter"),
    *("filter.x.clean", "filter.x.smudge", "filter.x.process", "filter.lfs.process", "filter.lfs.clean"),
    *("diff.external", "diff.x.command", "diff.x.textconv", "merge.x.driver", "difftool.x.cmd", "mergetool.x.cmd"),
    *("alias.status", "alias.log", "alias.diff", "alias.config", "alias.rev-parse", "trace2.eventTarget"),
    *("uploadpack.packObjectsHook", "remote.origin.uploadpack", "remote.origin.vcs", "remote.origin.proxy"),
    *("submodule.part.update", "receive.procReceiveRefs", "web.browser", "browser.x.cmd", "man.x.cmd"),
)
"""Settings that name a program, or a file with more settings."""

FORCED = (
    *("log.showSignature=true", "diff.ignoreSubmodules=none", "status.submoduleSummary=true", "diff.submodule=diff"),
    *("submodule.recurse=true", "filter.x.required=true", "core.untrackedCache=true", "extensions.partialClone=origin"),
    *("remote.origin.promisor=true", "core.repositoryFormatVersion=1", "maintenance.auto=true", "gc.auto=1"),
    *("core.preloadIndex=false", "extensions.worktreeConfig=true"),
)
"""Settings that make git run them."""


def arm(config, canary):
    """Write every setting that names a program into a configuration file."""
    settings = [*((name, canary) for name in PROGRAMS), *(each.split("=") for each in FORCED)]
    with config.open("a", encoding="utf-8") as file:
        for name, value in [*settings, ("remote.origin.url", f"ext::{canary} %S")]:
            (section, _, key), (first, _, rest) = name.rpartition("."), name.rpartition(".")[0].partition(".")
            file.write(f'[{first} "{rest}"]\n\t{key} = {value}\n' if rest else f"[{section}]\n\t{key} = {value}\n")


ATTRIBUTES = "* filter=x diff=x merge=x\n*.txt text=auto\n"


def give_attributes(folder):
    """Point every file at the programs, from the tree and from the repository."""
    (folder / ".gitattributes").write_text(ATTRIBUTES, encoding="utf-8")
    (folder / ".git/info").mkdir(exist_ok=True)
    (folder / ".git/info/attributes").write_text(ATTRIBUTES, encoding="utf-8")


def in_its_settings(folder, canary):
    """Every program at once, in the repository's own configuration."""
    arm(folder / ".git/config", canary)
    give_attributes(folder)


def in_included_settings(folder, canary):
    """The same in files that the configuration includes, always and on conditions."""
    arm(folder / "more.config", canary)
    place = str(folder / "more.config")
    git(folder, "config", "include.path", place)
    for condition in ("gitdir:**", "onbranch:**", f"gitdir:{folder}/"):
        git(folder, "config", f"includeIf.{condition}.path", place)
    give_attributes(folder)


def in_settings_of_its_worktree(folder, canary):
    """The same in the configuration of one working tree."""
    git(folder, "config", "core.repositoryFormatVersion", "1")
    git(folder, "config", "extensions.worktreeConfig", "true")
    arm(folder / ".git/config.worktree", canary)
    give_attributes(folder)


def in_its_hooks(folder, canary):
    """Every hook that git knows."""
    (folder / ".git/hooks").mkdir(exist_ok=True)
    for name in ("post-index-change", "fsmonitor-watchman", "reference-transaction", "pre-auto-gc", "post-checkout"):
        shutil.copy(canary, folder / ".git/hooks" / name)


def in_a_submodule(folder, canary):
    """In the configuration, the hooks and the attributes of a submodule."""
    repository(folder.parent / "inner")
    git(folder, "submodule", "add", "-q", str(folder.parent / "inner"), "part")
    git(folder, "commit", "-qm", "Add a submodule")
    arm(folder / ".git/modules/part/config", canary)
    in_hooks = folder / ".git/modules/part/hooks/post-index-change"
    in_hooks.parent.mkdir(exist_ok=True)
    shutil.copy(canary, in_hooks)
    (folder / "part/.gitattributes").write_text(ATTRIBUTES, encoding="utf-8")
    change(folder / "part")


def in_a_missing_object(folder, canary):
    """A partial clone whose missing files would be fetched by a program."""
    arm(folder / ".git/config", canary)
    blob = git(folder, "rev-parse", "HEAD:a.txt").strip()
    (folder / ".git/objects" / blob[:2] / blob[2:]).unlink()


def in_an_index_with_a_monitor(folder, canary):
    """An index that was written with a monitor of files."""
    git(folder, "-c", "core.fsmonitor=true", "update-index", "--fsmonitor")
    in_its_settings(folder, canary)


@pytest.mark.parametrize(
    "plant",
    [
        *(in_its_settings, in_included_settings, in_settings_of_its_worktree, in_its_hooks, in_a_submodule),
        *(in_a_missing_object, in_an_index_with_a_monitor),
    ],
)
def test_nothing_of_a_repository_is_run(plant, tmp_path, canary):
    """Wherever a repository names a program, it is not run, and what git knows is told all the same."""
    folder = repository(tmp_path / "repository")
    plant(folder, canary)
    change(folder)
    found = told(folder)
    assert found["branch"] == "trunk"
    assert " M a.txt" in found["working tree"]
    assert "First" in found["last commits"]
    assert "+hullo" in found.get("changes", "") or plant is in_a_missing_object


@pytest.mark.parametrize("plant", [in_its_settings, in_included_settings, in_settings_of_its_worktree, in_its_hooks])
def test_the_traps_would_spring(plant, tmp_path):
    """Plain git runs what these repositories name: they prove something."""
    program = tmp_path / "canary"
    program.write_text(f"#!/bin/sh\necho ran >> {tmp_path}/ran\n", encoding="utf-8")
    program.chmod(0o755)
    folder = repository(tmp_path / "repository")
    plant(folder, program)
    change(folder)
    subprocess.run(["git", "diff", "HEAD"], cwd=folder, check=False, capture_output=True, env=AS_SOMEBODY)
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("worktree", [".", "..", "/"])
def test_nothing_of_a_repository_inside_a_clone_is_run(tmp_path, canary, worktree):
    """A folder of a clone that is itself a git directory is looked at as one without files."""
    inner, carrier = repository(tmp_path / "inner"), repository(tmp_path / "carrier")
    shutil.copytree(inner / ".git", carrier / "docs")
    arm(carrier / "docs/config", canary)
    git(carrier, "config", "--file", "docs/config", "core.bare", "false")
    git(carrier, "config", "--file", "docs/config", "core.worktree", worktree)
    (carrier / "docs/.gitattributes").write_text(ATTRIBUTES, encoding="utf-8")
    (carrier / "docs/a.txt").write_text("hullo\n", encoding="utf-8")
    found = told(carrier / "docs")
    assert found.keys() == {"branch", "last commits"}
    assert "docs/" in told(carrier)["working tree"]


def test_nothing_of_the_users_is_run_on_a_repository(tmp_path, canary, monkeypatch):
    """Filters and monitors of the user's own settings are not run either; the files that the user ignores are."""
    folder = repository(tmp_path / "repository")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home/.config"))
    (tmp_path / "home").mkdir()
    arm(tmp_path / "home/.gitconfig", canary)
    (tmp_path / "home/ignored").write_text("*.tmp\n", encoding="utf-8")
    git(folder, "config", "--file", str(tmp_path / "home/.gitconfig"), "core.excludesFile", "~/ignored")
    (folder / ".gitattributes").write_text(ATTRIBUTES, encoding="utf-8")
    (folder / "x.tmp").write_text("", encoding="utf-8")
    change(folder)
    assert told(folder)["working tree"].splitlines() == [" M a.txt", "?? .gitattributes"]


@pytest.mark.anyio
async def test_a_project_chooses_no_program(tmp_path, canary, monkeypatch):
    """A search path that begins with the working folder leads to no program of the project's."""
    folder = repository(tmp_path / "repository")
    for name in ("git", "node", "go"):
        shutil.copy(canary, folder / name)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.pathsep}{os.environ['PATH']}")
    await GitSource(folder)("")
    await Environment(folder)("")


@pytest.mark.anyio
async def test_tools_are_asked_outside_of_the_project(tmp_path, monkeypatch):
    """A tool that runs what the working folder pins, as rustup and go do, is asked elsewhere."""
    (tmp_path / "mytool").write_text("#!/bin/sh\npwd\n", encoding="utf-8")
    (tmp_path / "mytool").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    (found,) = await Environment(tmp_path, tools=("mytool",))("")
    assert f"mytool: {tmp_path.anchor}\n" in found.content


def by_a_file(folder, private):
    """A .git file that names another repository."""
    (folder / ".git").write_text(f"gitdir: {private}/.git\n", encoding="utf-8")


def by_a_link(folder, private):
    """A .git that is a link to another repository."""
    (folder / ".git").symlink_to(private / ".git")


def by_links_within(folder, private):
    """A git directory of links to another one."""
    (folder / ".git").mkdir()
    for name in ("HEAD", "index", "objects", "refs", "config"):
        (folder / ".git" / name).symlink_to(private / ".git" / name)


def by_a_common_folder(folder, private):
    """A git directory that says it belongs to another one."""
    (folder / ".git").mkdir()
    (folder / ".git/HEAD").write_text("ref: refs/heads/trunk\n", encoding="utf-8")
    (folder / ".git/commondir").write_text(f"{private}/.git\n", encoding="utf-8")


def by_alternates(folder, private):
    """Objects that are read where a file says."""
    repository(folder)
    (folder / ".git/objects/info/alternates").write_text(f"{private}/.git/objects\n", encoding="utf-8")
    (folder / ".git/refs/heads/trunk").write_text(git(private, "rev-parse", "HEAD"), encoding="utf-8")


def by_alternates_within(folder, private):
    """Objects that are read in a folder of the tree, which leads further."""
    repository(folder)
    (folder / "stuff/info").mkdir(parents=True)
    (folder / "stuff/info/alternates").symlink_to(private / ".git/objects")
    (folder / ".git/objects/info/alternates").write_text("../../stuff\n", encoding="utf-8")


def by_linked_packs(folder, private):
    """A folder of packed objects that is a link."""
    repository(folder)
    (folder / ".git/objects/pack").rmdir()
    (folder / ".git/objects/pack").symlink_to(private / ".git/objects/pack")


def by_a_linked_folder(folder, private):
    """A folder of objects that is a link."""
    repository(folder)
    commit = git(private, "rev-parse", "HEAD")
    shutil.rmtree(folder / ".git/objects" / commit[:2], ignore_errors=True)
    (folder / ".git/objects" / commit[:2]).symlink_to(private / ".git/objects" / commit[:2])


def by_a_linked_object(folder, private):
    """An object that is a link."""
    repository(folder)
    commit = git(private, "rev-parse", "HEAD").strip()
    place = folder / ".git/objects" / commit[:2] / commit[2:]
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    place.symlink_to(private / ".git/objects" / commit[:2] / commit[2:])


@pytest.mark.parametrize(
    "lead",
    [
        *(by_a_file, by_a_link, by_links_within, by_a_common_folder, by_alternates, by_alternates_within),
        *(by_linked_packs, by_a_linked_folder, by_a_linked_object),
    ],
)
def test_no_other_repository_is_told_of(lead, tmp_path):
    """Files that came from elsewhere do not choose a repository of this machine to be told of."""
    private = repository(tmp_path / "private")
    folder = tmp_path / "unpacked"
    folder.mkdir()
    lead(folder, private)
    with pytest.raises(SourceError, match=r"^git: "):
        told(folder)


def test_a_branch_leads_nowhere_else(tmp_path):
    """A HEAD that names a path outside of the branches is not followed."""
    folder = repository(tmp_path / "repository")
    commit = git(folder, "rev-parse", "HEAD")
    (tmp_path / "elsewhere").write_text(commit, encoding="utf-8")
    (folder / ".git/HEAD").write_text("ref: refs/heads/../../../elsewhere\n", encoding="utf-8")
    assert "last commits" not in told(folder)


def test_a_branch_may_stand_for_another(tmp_path):
    """Commits of a branch that is another name of a branch are told, over several names; and a circle ends."""
    folder = repository(tmp_path / "repository")
    for name, other in (("old", "trunk"), ("older", "old"), ("oldest", "older")):
        git(folder, "symbolic-ref", f"refs/heads/{name}", f"refs/heads/{other}")
    git(folder, "symbolic-ref", "HEAD", "refs/heads/oldest")
    found = told(folder)
    assert "First" in found["last commits"]
    assert "working tree" not in found
    (folder / ".git/refs/heads/trunk").write_text("ref: refs/heads/oldest\n", encoding="utf-8")
    assert "last commits" not in told(folder)


@pytest.mark.parametrize("place", ["HEAD", "commondir", "config", "refs/heads/trunk"])
def test_what_is_not_text_is_an_error(tmp_path, place):
    """A NUL where git has names is an error of this library."""
    folder = repository(tmp_path / "repository")
    (folder / ".git" / place).write_bytes(b"ref: refs/heads/a\0b\n")
    with pytest.raises(SourceError):
        told(folder)
    assert head_branch(folder) in ("", "trunk")


@pytest.mark.parametrize("name", ["HEAD", "index", "config"])
def test_a_pipe_is_not_waited_for(tmp_path, name):
    """A pipe in a git directory is no file of it."""
    folder = repository(tmp_path / "repository")
    (folder / ".git" / name).unlink()
    os.mkfifo(folder / ".git" / name)
    assert head_branch(folder) == ("" if name == "HEAD" else "trunk")
    with pytest.raises(SourceError):
        told(folder)


def plain(folder):
    return folder


def sha256(folder):
    shutil.rmtree(folder)
    return repository(folder, "--object-format=sha256")


def split_index(folder):
    git(folder, "update-index", "--split-index")
    return folder


def small_index(folder):
    git(folder, "update-index", "--index-version", "4")
    return folder


def untracked_cache(folder):
    git(folder, "update-index", "--force-untracked-cache")
    return folder


def sparse(folder):
    git(folder, "sparse-checkout", "set", "--cone", "--sparse-index", "sub")
    return folder


def worktree(folder):
    git(folder, "worktree", "add", "-q", "-b", "feature/x", "../tree")
    return folder.parent / "tree"


def submodule(folder):
    git(folder.parent, "init", "-q", "outer")
    git(folder.parent / "outer", "submodule", "add", "-q", str(folder), "part")
    return folder.parent / "outer/part"


def packed(folder):
    git(folder, "pack-refs", "--all")
    git(folder, "gc", "-q")
    return folder


def shallow(folder):
    git(folder, "commit", "--allow-empty", "-qm", "Second")
    git(folder.parent, "clone", "-q", "--depth=1", folder.as_uri(), "shallow")
    return folder.parent / "shallow"


def elsewhere(folder):
    git(folder, "init", "-q", "--separate-git-dir", str(folder.parent / "kept"))
    git(folder, "config", "core.worktree", str(folder))
    return folder


def unmodified_long_ago(folder):
    """Written in the same moment as the index: only its content tells that it changed."""
    when = (folder / ".git/index").stat().st_mtime_ns
    (folder / "a.txt").write_text("hullo\n", encoding="utf-8")
    os.utime(folder / "a.txt", ns=(when, when))
    return folder


def other_line_ends(folder):
    git(folder, "config", "core.autocrlf", "true")
    (folder / "sub/b.txt").write_bytes(b"hello\r\n")
    return folder


def ignoring(folder):
    (folder / ".git/info/exclude").write_text("*.log\n", encoding="utf-8")
    (folder / "x.log").write_text("", encoding="utf-8")
    return folder


def in_conflict(folder):
    git(folder, "checkout", "-qb", "other")
    (folder / "a.txt").write_text("theirs\n", encoding="utf-8")
    git(folder, "commit", "-qam", "Theirs")
    git(folder, "checkout", "-q", "trunk")
    (folder / "a.txt").write_text("ours\n", encoding="utf-8")
    git(folder, "commit", "-qam", "Ours")
    subprocess.run(["git", "merge", "other"], cwd=folder, check=False, capture_output=True, env=AS_SOMEBODY)
    return folder


def partial(folder):
    git(folder, "config", "uploadpack.allowFilter", "true")
    git(folder.parent, "clone", "-q", "--filter=blob:none", folder.as_uri(), "partial")
    return folder.parent / "partial"


@pytest.mark.parametrize(
    "shape",
    [
        *(plain, sha256, split_index, small_index, untracked_cache, sparse, worktree, submodule, packed, shallow),
        *(elsewhere, unmodified_long_ago, other_line_ends, ignoring, in_conflict, partial),
    ],
)
def test_what_git_itself_says(shape, tmp_path):
    """Whatever the shape of a repository, its status, changes, branch and commits are those that git tells there."""
    folder = shape(repository(tmp_path / "repository"))
    if (folder / "sub").is_dir():
        (folder / "sub/b.txt").write_text("hello\nmore\n", encoding="utf-8")
        (folder / "sub/new ö.txt").write_text("new\n", encoding="utf-8")
    expected = {
        "working tree": git(folder, "status", "--short"),
        "branch": git(folder, "symbolic-ref", "--short", "HEAD"),
        "last commits": git(folder, "log", "--oneline", "--no-decorate"),
        "changes": git(folder, "diff", "HEAD"),
    }
    found = told(folder)
    assert {title: said.rstrip("\n") for title, said in expected.items()} == found
    inside = {item.title: item.content for item in anyio.run(GitSource(folder / "sub"), "")}
    assert git(folder / "sub", "status", "--short").rstrip("\n") == inside["working tree"]


def test_an_empty_git_directory_is_passed_over(tmp_path):
    """A folder called .git that is none belongs to the repository around it, as git has it."""
    folder = repository(tmp_path / "repository")
    (folder / "sub/.git").mkdir()
    assert told(folder / "sub")["branch"] == "trunk"


def test_what_git_cannot_read_is_an_error(tmp_path):
    """A repository of a kind that this git does not know is told with git's own words."""
    folder = repository(tmp_path / "repository")
    git(folder, "config", "core.repositoryFormatVersion", "1")
    git(folder, "config", "extensions.objectFormat", "of-tomorrow")
    with pytest.raises(SourceError, match="of-tomorrow"):
        told(folder)


def test_nothing_is_written(tmp_path):
    """Looking at a repository leaves every file of it as it was."""

    def state(folder):
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in Path(folder).rglob("*")}

    folder = repository(tmp_path / "repository")
    os.utime(folder / "a.txt", (1, 1))
    before = state(folder)
    assert "changes" not in told(folder)
    assert state(folder) == before


@pytest.mark.parametrize(
    "name", ["HEAD", "index", "config", "refs/heads/trunk", "info/exclude", "objects/info/alternates"]
)
def test_a_pipe_in_the_folder_of_git_is_named(tmp_path, name):
    """What this library copies for git, or refuses, is named at once."""
    folder = repository(tmp_path / "repository")
    (folder / ".git" / name).parent.mkdir(exist_ok=True)
    (folder / ".git" / name).unlink(missing_ok=True)
    os.mkfifo(folder / ".git" / name)
    with pytest.raises(SourceError, match=name):
        told(folder)


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes", ".git/objects/pack/multi-pack-index"])
def test_a_pipe_that_git_waits_for_holds_nobody_past_the_deadline(tmp_path, name):
    """Git is ended at the deadline where it reads a pipe, and the branch, which needs none of it, is there."""
    folder = repository(tmp_path / "repository")
    change(folder)
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(folder / name)
    found = told(folder, deadline=2.0)
    assert found["branch"] == "trunk"
    assert "(git did not tell it within 2 seconds)" in found.values()


def test_pipes_that_git_does_not_read_are_nothing(tmp_path):
    """A pipe of somebody's program, one in place of a file, and links to what is always empty, hold nobody."""
    folder = repository(tmp_path / "repository")
    change(folder)
    (folder / "sub/b.txt").unlink()
    for name in ("a.pipe", "sub/b.txt"):
        os.mkfifo(folder / name)
    (folder / ".gitignore").symlink_to(os.devnull)
    assert "-hello\n+hullo" in told(folder)["changes"]


def test_git_ends_at_the_deadline(tmp_path):
    """A pattern that git needs for ever for costs what it decides, and the rest is told; git is ended."""
    folder = repository(tmp_path / "repository")
    (folder / ".gitignore").write_text("**/a/" * 12 + "b\n", encoding="utf-8")
    deepest = folder.joinpath(*["a"] * 40)
    deepest.mkdir(parents=True)
    (deepest / "c").write_text("", encoding="utf-8")
    found = {item.title: item.content for item in anyio.run(GitSource(folder, deadline=4.0), "")}
    assert found["working tree"] == "(git did not tell it within 4 seconds)"
    assert found["branch"] == "trunk"
    assert "First" in found["last commits"]
    with pytest.raises(SourceError, match=r"within 1e-06 seconds.*deadline"):
        anyio.run(GitSource(folder, deadline=1e-6), "")


@pytest.mark.parametrize("deadline", [0, -1.0, float("nan"), float("inf"), 10**400, True, "5", None])
def test_a_deadline_is_seconds(deadline):
    """What is no time to wait for is refused by name."""
    with pytest.raises(
        ConfigError, match=r"^GitSource\.deadline must be a number of seconds above 0, and at most 1e9, got "
    ):
        GitSource(deadline=deadline)
