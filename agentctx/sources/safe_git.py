"""Ask git about a repository without letting the repository run a program.

A repository's own configuration can name programs in more places than anyone can list: filters, hooks, monitors,
signature checkers, remotes that are fetched from. So none of it is read by the git that looks at the repository. That
git gets a folder of its own, with the index, the current commit and a handful of settings that are known to be plain
values; commits and files are read where they are. What git writes, it writes there. (A library that reads
repositories is no way around it: dulwich runs the filters that they configure, and follows their alternates.)
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import DEVNULL

import anyio
from anyio import CancelScope, to_thread
from anyio.abc import ByteReceiveStream, Process
from attrs import frozen

from agentctx.errors import SourceError
from agentctx.sources.call_source import stop_when_abandoned
from agentctx.sources.folder import opened, read_below

MOST_FOLDERS = 20_000
"""So many folders of a repository are looked into for what git would wait for."""

_READ = frozenset({".git", ".gitattributes", ".gitignore", ".gitmodules", ".mailmap"})
"""What git reads in the folders of a working tree, unasked."""

_SMALL = 64 * 1024
_NO_FILE = "is no file but a pipe or a device: git would wait for it"

_MOST_SYMBOLIC = 5
"""So many branches that stand for another are followed, as git does."""

_LARGE = 2**30
"""The most bytes of a file that is copied: an index of some million files."""

_PLAIN = frozenset(
    {"core.abbrev", "core.autocrlf", "core.checkstat", "core.eol", "core.filemode", "core.ignorecase"}
    | {"core.precomposeunicode", "core.sparsecheckout", "core.sparsecheckoutcone", "core.symlinks", "core.trustctime"}
    | {"diff.algorithm", "diff.context", "diff.indentheuristic", "diff.renamelimit", "diff.renames"}
    | {"extensions.objectformat", "extensions.refstorage", "extensions.compatobjectformat"}
    | {"index.sparse", "status.renamelimit", "status.renames", "status.showuntrackedfiles"}
)
"""Settings of a repository that are kept: none names a program or a file."""

_OF_USER = _PLAIN | {"core.attributesfile", "core.excludesfile"}
"""Settings of the user that are kept: the files that these two name are the user's."""

_LEADS_BACK = re.compile(r'(?m)^[ \t]*worktree[ \t]*=[ \t]*"?(?P<tree>[^"\n]+)')


@frozen
class GitFolder:
    """Where a repository keeps what it knows.

    ``tree`` is the folder of its files, None when it has none; ``own`` has what belongs to this working tree alone, as
    HEAD and index, ``common`` what all its working trees share, as commits, branches and settings.
    """

    tree: Path | None
    own: Path
    common: Path


def git_folder(folder: Path) -> GitFolder | None:
    """The repository that a folder is in, found as git finds it; None outside of one."""
    if not folder.is_dir():
        raise SourceError("git", f"cannot look into {folder.name!r}: it is no folder")
    folder = Path(os.path.realpath(folder))
    for each in (folder, *folder.parents):
        if os.path.lexists(each / ".git") and not _is_none(each / ".git"):
            return _found(each)
        if (each / "HEAD").is_file() and (each / "objects").is_dir() and (each / "refs").is_dir():
            return _checked(None, each)
    return None


def _is_none(place: Path) -> bool:
    """Whether what is called ``.git`` is no repository: a folder without a ``HEAD``, which git passes over as well."""
    return place.is_dir() and not place.is_symlink() and not os.path.lexists(place / "HEAD")


def _found(tree: Path) -> GitFolder:
    """The repository of a working tree; a worktree's or a submodule's ``.git`` is a file that says where it is."""
    place = Path(os.path.realpath(tree / ".git"))
    if place.is_file():
        place = Path(os.path.realpath(place.parent / _text(tree, ".git").removeprefix("gitdir:").strip()))
    if not place.is_dir():
        raise SourceError("git", "not a git repository: .git leads nowhere")
    if place != tree / ".git" and not _leads_back(place, tree):
        how = "set core.worktree there, if it is"
        raise SourceError("git", f".git leads to a folder that does not say it is of {tree.name!r}: {how}")
    return _checked(tree, place)


def _leads_back(place: Path, tree: Path) -> bool:
    """Whether a folder says that it is that of this working tree, as those of worktrees and submodules do."""
    backlink = _LEADS_BACK.search(_text(place, "config"))
    backs = (_text(place, "gitdir").strip(), "" if backlink is None else f"{backlink['tree'].strip()}/.git")
    return any(each and os.path.realpath(place / each) == os.path.realpath(tree / ".git") for each in backs) or any(
        each and Path(os.path.abspath(place / each)) == tree / ".git"  # noqa: PTH100 - .git may itself be a link
        for each in backs
    )


def _checked(tree: Path | None, own: Path) -> GitFolder:
    """The repository, when all that is read of it is in its own folders."""
    shared = _text(own, "commondir").strip()
    common = Path(os.path.realpath(own / shared)) if shared else own
    if common != own and not own.is_relative_to(common):
        raise SourceError("git", "its folder of commits is that of another repository")
    for place in (own / "HEAD", own / "index", common / "objects", common / "refs", common / "packed-refs"):
        if place.is_symlink():
            raise SourceError("git", f"{place.name} is a link")
    return GitFolder(tree, own, common)


def refuse_foreign_objects(found: GitFolder) -> None:
    """Look for what would let git read commits and files of another repository as if they were this one's."""
    within = found.common if found.tree is None or not found.common.is_relative_to(found.tree) else found.tree
    folders = deque([found.common / "objects"])
    while folders:
        if (odd := _no_file_in(folders.popleft(), folders)) is None:
            continue
        named = odd.relative_to(within)
        if odd.is_symlink():
            raise SourceError("git", f"{named} is a link: put what it leads to there instead, if that may be told")
        raise SourceError("git", f"{named} {_NO_FILE}")
    alternates = found.common / "objects/info/alternates"
    if alternates.exists() and alternates.stat().st_size:
        how = "run 'git repack -ad' and delete that file, if what is there may be told"
        raise SourceError("git", f"{alternates.relative_to(within)} leads to other objects, as a link would: {how}")


def _no_file_in(folder: Path, folders: deque[Path]) -> Path | None:
    """What is neither file nor folder in a folder; the folders in it are put behind the others."""
    stop_when_abandoned()
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
                elif not entry.is_file(follow_symlinks=False):
                    return Path(entry.path)
    except OSError:  # git cannot look into it, either
        return None
    return None


def refuse_pipes(found: GitFolder) -> None:
    """Look for pipes and devices where git reads files: it would wait for them, for ever.

    Folders are looked into level by level; of a very large tree those deepest down are not.
    """
    places = (each for each in (found.tree, found.own, found.common) if each is not None)
    for place in dict.fromkeys(places):
        folders, looked = deque([(place, place != found.tree)]), 0
        while folders and looked < MOST_FOLDERS:
            folder, is_git = folders.popleft()
            looked += 1
            if (odd := _pipe_in(folder, folders, is_git=is_git)) is not None:
                named = Path(odd).relative_to(place)
                raise SourceError("git", f"{named} {_NO_FILE}")


def _pipe_in(folder: Path, folders: deque[tuple[Path, bool]], *, is_git: bool) -> str | None:
    """A pipe or device that git would read in this folder; the folders in it are put behind the others."""
    stop_when_abandoned()
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append((Path(entry.path), is_git or entry.name == ".git"))
                elif (is_git or entry.name in _READ) and not entry.is_file() and _waits(entry.path):
                    return entry.path
    except OSError:  # git cannot look into it, either
        return None
    return None


def _waits(path: str) -> bool:
    try:
        kind = Path(path).stat().st_mode
        if Path(path).samefile(os.devnull):
            return False
    except OSError:
        return False
    return stat.S_ISFIFO(kind) or stat.S_ISCHR(kind) or stat.S_ISBLK(kind)


def _text(folder: Path, name: str) -> str:
    """A small file; empty when it is not there."""
    text = (read_below(folder, name, _SMALL) or b"").decode("utf-8", "surrogateescape")
    if "\0" in text:
        raise SourceError("git", f"{name} is not text: there is a NUL in it")
    return text


def head_branch(folder: Path) -> str:
    """The branch of the repository that a folder is in, read from its files; empty outside of one and between."""
    try:
        found = git_folder(folder)
        head = "" if found is None else _text(found.own, "HEAD").strip()
    except SourceError:
        return ""
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref: refs/heads/") else ""


def settings_in(listed: str, *, of_user: bool) -> dict[str, str]:
    """The settings that are kept, of those that ``git config --list -z`` tells; the last of one name holds."""
    kept = _OF_USER if of_user else _PLAIN
    pairs = (each.partition("\n") for each in listed.split("\0"))
    return {name: value if is_given else "true" for name, is_given, value in pairs if name in kept}


def copy_config(found: GitFolder, into: Path) -> bool:
    """Copy the repository's configuration, to be taken apart; whether there is one."""
    return _copied(found.common, "config", into / "config.given")


def copy_repository(found: GitFolder, settings: Mapping[str, str], into: Path) -> dict[str, str]:
    """Make the folder that git gets instead of the repository's.

    Returns:
        The variables that make git use it.
    """
    own = into / "own"
    common = own if found.own == found.common else into / "common"
    for folder in (own, common):
        for below in ("info", "objects", "refs"):
            (folder / below).mkdir(parents=True, exist_ok=True)
    if common is not own:
        (own / "commondir").write_text(str(common), encoding="utf-8")
    (common / "config").write_text(_config(found, settings), encoding="utf-8", errors="surrogateescape")
    _copy_refs(found, own, common)
    _copy_some(found.own, own, ("index", "info/sparse-checkout", *_names(found.own, "sharedindex.*")))
    _copy_some(found.common, common, ("shallow", "info/exclude", "info/attributes"))
    where = {"GIT_DIR": str(own), "GIT_OBJECT_DIRECTORY": str(found.common / "objects")}
    return where if found.tree is None else where | {"GIT_WORK_TREE": str(found.tree)}


def _config(found: GitFolder, settings: Mapping[str, str]) -> str:
    """The settings as git writes them; text in quotes can be nothing but text."""
    version = int(any(name.startswith("extensions.") for name in settings))
    fixed: Mapping[str, str] = {
        "core.repositoryformatversion": str(version),
        "core.bare": str(found.tree is None).lower(),
    }
    lines = []
    for name, value in {**settings, **fixed}.items():
        section, _, key = name.partition(".")
        quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        lines.append(f'[{section}]\n\t{key} = "{quoted}"\n')
    return "".join(lines)


def _copy_refs(found: GitFolder, own: Path, common: Path) -> None:
    """The current branch, those that it stands for, and the commit that it is at; no other is asked for."""
    for given, made in {found.own: own, found.common: common}.items():
        _copy_some(given, made, _names(given / "reftable", "*", "reftable/"))
    head = _text(found.own, "HEAD")
    if not head:
        raise SourceError("git", "not a git repository: HEAD is no file, or empty")
    (own / "HEAD").write_text(head, encoding="utf-8", errors="surrogateescape")
    for _ in range(_MOST_SYMBOLIC):
        name = head.removeprefix("ref:").strip()
        if not head.startswith("ref:") or not name.startswith("refs/") or ".." in name:
            return
        head = _text(found.common, name).strip() or _packed(found.common, name)
        if head:
            _write_ref(common / name, head)


def _write_ref(place: Path, told: str) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{told}\n", encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise SourceError("git", f"cannot copy the branch {place.name!r:.80}: {error.strerror}") from error


def _packed(common: Path, name: str) -> str:
    """The commit of a branch that is in the file of many; empty when it is not."""
    wanted = f" {name}\n".encode("utf-8", "surrogateescape")
    try:
        with opened(common, "packed-refs") as file:
            line = next((line for line in iter(lambda: file.readline(_SMALL), b"") if line.endswith(wanted)), b"")
    except (OSError, SourceError):
        return ""
    return line[: -len(wanted)].decode("ascii", "replace")


def _names(folder: Path, pattern: str, inside: str = "") -> Iterable[str]:
    return [inside + each.name for each in folder.glob(pattern)] if folder.is_dir() else []


def _copy_some(given: Path, made: Path, names: Iterable[str]) -> None:
    for name in names:
        _copied(given, name, made / name)


def _copied(folder: Path, name: str, to: Path) -> bool:
    """Copy a file, if there is one, and say whether there is.

    Its time is copied as well: by that of its index git tells which files may have changed unseen.
    """
    try:
        with opened(folder, name) as file:
            found = os.fstat(file.fileno())
            if found.st_size > _LARGE:
                raise SourceError("git", f"{name}: {found.st_size:,} bytes are too many")
            to.parent.mkdir(exist_ok=True)
            with to.open("wb") as copy:
                shutil.copyfileobj(file, copy, 2**20)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise SourceError("git", f"cannot read {name}: {error.strerror}") from error
    os.utime(to, ns=(found.st_mtime_ns, found.st_mtime_ns))
    return True


LONGEST = 256 * 1024
"""How much of an answer is looked at, in bytes."""

_FORM = (
    *("-c", "color.ui=false"),  # a model reads no colours
    *("-c", "core.quotePath=false"),  # names in any script, as they are
    *("-c", "core.bigFileThreshold=16m"),  # what is larger is told as changed, not line by line
    "--no-pager",
)

_SETTINGS = {
    "GIT_OPTIONAL_LOCKS": "0",  # nobody else's git has to wait
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",  # what a partial clone has left out is not fetched over the network
    "LC_ALL": "C.UTF-8",
}

_NO_CONFIG = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_NO_REPLACE_OBJECTS": "1"}
"""The user's own programs are not run on files of a repository that the user may not trust, either."""


def installed(tool: str) -> str | None:
    """Where a program is installed; a search path that depends on the working folder is not followed."""
    searched = os.environ.get("PATH", os.defpath).split(os.pathsep)
    path = shutil.which(tool, path=os.pathsep.join(each for each in searched if Path(each).is_absolute()))
    return path if path is not None and Path(path).is_absolute() else None


def _program() -> str:
    if (git := installed("git")) is None:
        raise SourceError("git", "is not installed")
    return git


@asynccontextmanager
async def disarmed(root: Path) -> AsyncIterator[Mapping[str, str]]:
    """The variables that let git look at the repository that a folder is in, and run nothing of it."""
    _program()
    found = await to_thread.run_sync(git_folder, root)
    if found is None:
        raise SourceError("git", "not a git repository (or any of the parent directories)")
    for refuse in (refuse_foreign_objects, refuse_pipes):
        await to_thread.run_sync(refuse, found, abandon_on_cancel=True)
    place = Path(await to_thread.run_sync(tempfile.mkdtemp, None, "agentctx-git-"))
    try:
        given = place / "config.given"
        nowhere = {"GIT_DIR": str(place / "none")}
        settings = settings_in(await run_git(place, "config", "--list", "-z", variables=nowhere), of_user=True)
        if await to_thread.run_sync(copy_config, found, place):
            own = ("config", "--file", str(given), "--no-includes", "--list", "-z")
            settings |= settings_in(await run_git(place, *own, variables=nowhere | _NO_CONFIG), of_user=False)
        yield await to_thread.run_sync(copy_repository, found, settings, place) | _NO_CONFIG
    finally:
        with CancelScope(shield=True):
            await to_thread.run_sync(shutil.rmtree, place, True)  # noqa: FBT003 - ignore_errors


async def run_git(root: Path, *arguments: str, variables: Mapping[str, str] | None = None, check: bool = True) -> str:
    """What git prints, at most the whole lines in its first ``LONGEST`` bytes; no more of it is waited for.

    A command that looks at a repository gets the variables of ``disarmed``; no other variable of git's is passed on.
    Without ``check`` a failure is no error: it is what was printed before.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # not a hook's tree
    env = {**inherited, **_SETTINGS, **(variables or {})}
    try:
        process = await anyio.open_process([_program(), *_FORM, *arguments], cwd=root, env=env, stdin=DEVNULL)
    except OSError as error:
        raise SourceError("git", f"cannot run in {Path(error.filename or '.').name!r}: {error.strerror}") from error
    async with process:
        said, complaint = await _heard(process)
        failed = len(said) <= LONGEST and await process.wait() != 0
    if failed and check:
        lines = complaint.decode("utf-8", "replace").strip().splitlines()
        raise SourceError("git", lines[0] if lines else f"ended with exit code {process.returncode}")
    return whole_lines(said)


def whole_lines(said: bytes) -> str:
    """The text, or of a longer one its first lines: a secret that is cut in two would be missed."""
    kept = said if len(said) <= LONGEST else said[: said.rfind(b"\n", 0, LONGEST) + 1]
    return kept.decode("utf-8", "replace")


async def _heard(process: Process) -> tuple[bytes, bytes]:
    """What git prints, and what it complains of; git is ended when it prints more than is looked at."""
    said, complaint = bytearray(), bytearray()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_listen, process.stderr, complaint)
        await _listen(process.stdout, said)
        if len(said) > LONGEST:
            process.kill()
    return bytes(said), bytes(complaint)


async def _listen(stream: ByteReceiveStream | None, heard: bytearray) -> None:
    """Take in a stream until it ends, or there is more than is looked at."""
    if stream is None:
        return
    async for piece in stream:
        heard += piece
        if len(heard) > LONGEST:
            return
