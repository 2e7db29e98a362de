"""What git knows of a working tree, asked without letting the repository run a program.

A repository's own configuration can name programs in more places than anyone can list: filters, hooks, monitors,
signature checkers, remotes that are fetched from. So none of it is read by the git that looks at the repository. That
git gets a folder of its own, with the index, the current commit and a handful of settings that are known to be plain
values; commits and files are read where they are. What git writes, it writes there. (A library that reads
repositories is no way around it: dulwich runs the filters that they configure, and follows their alternates.)

This is the one file that asks git, and it asks by ``run_git`` only.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import groupby
from pathlib import Path
from subprocess import DEVNULL
from typing import ClassVar

import anyio
from anyio import CancelScope, to_thread
from anyio.abc import ByteReceiveStream, Process
from attrs import field, frozen
from attrs.validators import gt, le

from agentctx.errors import SourceError
from agentctx.secrets import Redactor, redact_secrets
from agentctx.sources.folder import opened, read_below
from agentctx.sources.gathering import ContextItem, stop_when_abandoned
from agentctx.validators import numeric, whole_number

_OUTSIDE = "--ignore-submodules=dirty"
"""Of submodules the commit is compared; to look into one, git would start another git in it."""

_STATUS = ("status", "--short", _OUTSIDE)
_DIFF = (
    *("diff", "--no-ext-diff", "--no-textconv", _OUTSIDE, "--submodule=short"),
    *("--src-prefix=a/", "--dst-prefix=b/", "HEAD"),
)
"""Names that can be told apart."""

_LONGEST = 1e9
"""The most seconds that can be waited for: any event loop can count so far."""


_DEADLINE = numeric("a number of seconds above 0, and at most 1e9", gt(0), le(_LONGEST))


@frozen
class GitSource:
    """Branch, working tree, and last commits of a git repository; asked of git itself, without locks.

    Nothing that a repository configures is run: no filter, hook, monitor or program of its own, nor one of the user's
    on its files. Of a submodule it is told whether another commit is checked out, not which of its files changed.

    Args:
        root: A folder in the repository.
        commits: How many commits are told.
        diff: Whether what was changed since the last commit is told line by line.
        max_tokens: The most tokens of it all.
        redact: Takes secrets out; None leaves them in.
        deadline: How long git may take, in seconds. What it has not told by then is said to be missing.

    Raises:
        ConfigError: If a number makes no sense.

    Example:
        >>> from agentctx.sources import GitSource, gather
        >>> gathered = await gather([GitSource(".", commits=3)])
    """

    name: ClassVar[str] = "git"
    description: ClassVar[str] = "branch, changed files and last commits"

    root: Path = field(default=Path(), converter=Path)
    commits: int = field(default=10, validator=whole_number(1), kw_only=True)
    diff: bool = field(default=False, kw_only=True)
    max_tokens: int | None = field(default=500, validator=whole_number(0).or_none, kw_only=True)
    redact: Redactor | None = field(default=redact_secrets, kw_only=True)
    deadline: float = field(default=20.0, validator=_DEADLINE, kw_only=True)

    async def __call__(self, query: str, /) -> Sequence[ContextItem]:
        """Working tree, branch and commits; those that are empty are left out.

        Raises:
            SourceError: If git is not installed, tells nothing within the deadline, this is no repository, or one that
                leads to another's files.
        """
        del query
        questions = [
            ("working tree", 0.9, _STATUS),
            ("branch", 0.8, ("symbolic-ref", "--short", "--quiet", "HEAD")),
            ("last commits", 0.7, ("log", "--oneline", "--no-decorate", f"-{self.commits}")),
        ]
        if self.diff:
            questions.append(("changes", 0.85, _DIFF))
        answers: list[str | None] = [None] * len(questions)
        with anyio.move_on_after(self.deadline) as waiting:
            async with _disarmed(self.root) as variables:
                await run_git(self.root, "rev-parse", "--git-dir", variables=variables)
                bare = "GIT_WORK_TREE" not in variables
                unborn = not await run_git(
                    self.root, "rev-parse", "--verify", "--quiet", "HEAD", variables=variables, check=False
                )
                async with anyio.create_task_group() as tasks:
                    for place, (_, _, arguments) in enumerate(questions):
                        if (bare and arguments in (_STATUS, _DIFF)) or (unborn and arguments[0] in ("log", "diff")):
                            answers[place] = ""
                        else:
                            tasks.start_soon(self._answer, answers, place, arguments, variables)
        late = f"did not tell it within {self.deadline:g} seconds"
        if waiting.cancelled_caught and not any(answers):
            raise SourceError("git", f"{late}; give GitSource a longer deadline, or less to look at")
        told = [f"(git {late})" if each is None else each for each in answers]
        found = zip(questions, told, strict=True)
        return [ContextItem(title, answer, worth) for (title, worth, _), answer in found if answer]

    async def _answer(
        self, answers: list[str | None], place: int, arguments: tuple[str, ...], variables: Mapping[str, str]
    ) -> None:
        """What git says, or complains of; nothing at no branch."""
        said = (await run_git(self.root, *arguments, variables=variables, check=False)).rstrip("\n")
        said = said.replace(variables["GIT_DIR"], ".git")
        answers[place] = await to_thread.run_sync(self._told, said, arguments is _DIFF)

    def _told(self, said: str, is_diff: bool) -> str:  # noqa: FBT001 - called by a thread
        """What git says, without secrets."""
        if self.redact is None:
            return said
        return redact_diff(said, self.redact) if is_diff else self.redact(said, "")


@asynccontextmanager
async def _disarmed(root: Path) -> AsyncIterator[Mapping[str, str]]:
    """The variables that let git look at the repository that a folder is in, and run nothing of it."""
    _program()
    found = await to_thread.run_sync(_git_folder, root)
    if found is None:
        raise SourceError("git", "not a git repository (or any of the parent directories)")
    for refuse in (_refuse_foreign_objects, _refuse_pipes):
        await to_thread.run_sync(refuse, found, abandon_on_cancel=True)
    place = Path(await to_thread.run_sync(tempfile.mkdtemp, None, "agentctx-git-"))
    try:
        given = place / "config.given"
        nowhere = {"GIT_DIR": str(place / "none")}
        settings = _settings_in(await run_git(place, "config", "--list", "-z", variables=nowhere), of_user=True)
        if await to_thread.run_sync(_copied, found.common, "config", given):  # to be taken apart
            own = ("config", "--file", str(given), "--no-includes", "--list", "-z")
            settings |= _settings_in(await run_git(place, *own, variables=nowhere | _NO_CONFIG), of_user=False)
        yield await to_thread.run_sync(_copy_repository, found, settings, place) | _NO_CONFIG
    finally:
        with CancelScope(shield=True):
            await to_thread.run_sync(shutil.rmtree, place, True)  # noqa: FBT003 - ignore_errors


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


async def run_git(root: Path, *arguments: str, variables: Mapping[str, str] | None = None, check: bool = True) -> str:
    """What git prints, at most the whole lines in its first ``LONGEST`` bytes; no more of it is waited for.

    A command that looks at a repository gets the variables of ``_disarmed``; no other variable of git's is passed on.
    Without ``check`` a failure is no error: it is what was printed before, else what git complains of.
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
    lines = complaint.decode("utf-8", "replace").strip().splitlines() if failed else []
    if failed and check:
        raise SourceError("git", lines[0] if lines else f"ended with exit code {process.returncode}")
    if lines and not said:
        return f"(git: {lines[0]})"
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


def installed(tool: str) -> str | None:
    """Where a program is installed; a search path that depends on the working folder is not followed."""
    searched = os.environ.get("PATH", os.defpath).split(os.pathsep)
    path = shutil.which(tool, path=os.pathsep.join(each for each in searched if Path(each).is_absolute()))
    return path if path is not None and Path(path).is_absolute() else None


def _program() -> str:
    if (git := installed("git")) is None:
        raise SourceError("git", "is not installed")
    return git


_LEADS_BACK = re.compile(r'(?m)^[ \t]*worktree[ \t]*=[ \t]*"?(?P<tree>[^"\n]+)')


@frozen
class _GitFolder:
    """Where a repository keeps what it knows.

    ``tree`` is the folder of its files, None when it has none; ``own`` has what belongs to this working tree alone, as
    HEAD and index, ``common`` what all its working trees share, as commits, branches and settings.
    """

    tree: Path | None
    own: Path
    common: Path


def _git_folder(folder: Path) -> _GitFolder | None:
    """The repository that a folder is in, found as git finds it; None outside of one."""
    if not folder.is_dir():
        raise SourceError("git", f"cannot look into {folder.name!r}: it is no folder")
    folder = Path(os.path.realpath(folder))
    for each in (folder, *folder.parents):
        git = each / ".git"
        # git passes over a folder of that name without a HEAD as well
        is_none = git.is_dir() and not git.is_symlink() and not os.path.lexists(git / "HEAD")
        if os.path.lexists(git) and not is_none:
            return _found(each)
        if (each / "HEAD").is_file() and (each / "objects").is_dir() and (each / "refs").is_dir():
            return _checked(None, each)
    return None


def _found(tree: Path) -> _GitFolder:
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


def _checked(tree: Path | None, own: Path) -> _GitFolder:
    """The repository, when all that is read of it is in its own folders."""
    shared = _text(own, "commondir").strip()
    common = Path(os.path.realpath(own / shared)) if shared else own
    if common != own and not own.is_relative_to(common):
        raise SourceError("git", "its folder of commits is that of another repository")
    for place in (own / "HEAD", own / "index", common / "objects", common / "refs", common / "packed-refs"):
        if place.is_symlink():
            raise SourceError("git", f"{place.name} is a link")
    return _GitFolder(tree, own, common)


def head_branch(folder: Path) -> str:
    """The branch of the repository that a folder is in, read from its files; empty outside of one and between."""
    try:
        found = _git_folder(folder)
        head = "" if found is None else _text(found.own, "HEAD").strip()
    except SourceError:
        return ""
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref: refs/heads/") else ""


_MOST_FOLDERS = 20_000
"""So many folders of a repository are looked into for what git would wait for."""

_READ = frozenset({".git", ".gitattributes", ".gitignore", ".gitmodules", ".mailmap"})
"""What git reads in the folders of a working tree, unasked."""

_NO_FILE = "is no file but a pipe or a device: git would wait for it"


def _refuse_foreign_objects(found: _GitFolder) -> None:
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


def _refuse_pipes(found: _GitFolder) -> None:
    """Look for pipes and devices where git reads files: it would wait for them, for ever.

    Folders are looked into level by level; of a very large tree those deepest down are not.
    """
    places = (each for each in (found.tree, found.own, found.common) if each is not None)
    for place in dict.fromkeys(places):
        folders, looked = deque([(place, place != found.tree)]), 0
        while folders and looked < _MOST_FOLDERS:
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


def _settings_in(listed: str, *, of_user: bool) -> dict[str, str]:
    """The settings that are kept, of those that ``git config --list -z`` tells; the last of one name holds."""
    kept = _OF_USER if of_user else _PLAIN
    pairs = (each.partition("\n") for each in listed.split("\0"))
    return {name: value if is_given else "true" for name, is_given, value in pairs if name in kept}


_MOST_SYMBOLIC = 5
"""So many branches that stand for another are followed, as git does."""


def _copy_repository(found: _GitFolder, settings: Mapping[str, str], into: Path) -> dict[str, str]:
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


def _config(found: _GitFolder, settings: Mapping[str, str]) -> str:
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


def _copy_refs(found: _GitFolder, own: Path, common: Path) -> None:
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
            place = common / name
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(f"{head}\n", encoding="utf-8", errors="surrogateescape")
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


_LARGE = 2**30
"""The most bytes of a file that is copied: an index of some million files."""


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


_SMALL = 64 * 1024


def _text(folder: Path, name: str) -> str:
    """A small file; empty when it is not there."""
    text = (read_below(folder, name, _SMALL) or b"").decode("utf-8", "surrogateescape")
    if "\0" in text:
        raise SourceError("git", f"{name} is not text: there is a NUL in it")
    return text


_FILE = re.compile(r"(?m)^(?=diff --(?:git|cc|combined) )")
_HUNK = re.compile(r"(?m)^@@")
_NAME = re.compile(r'(?m)^(?:---|\+\+\+) "?[ab]/(?P<name>[^\t\n"]+)')
_RENAMED = re.compile(r'(?m)^rename (?:from|to) "?(?P<name>[^\n"]+)')
_KEY_LINE = re.compile(r"[ +-]{0,2}[ \t]{0,40}(?P<key>[A-Za-z0-9+/]{64}|[A-Za-z0-9+/]{70}|[A-Za-z0-9+/]{76})\r?")
"""A whole line of a private key, as wide as programs write them."""

_LAST_LINE = re.compile(r"[ +-]{0,2}[ \t]{0,40}(?=[A-Za-z0-9+/]{0,76}[0-9+/=])[A-Za-z0-9+/]{2,76}={0,2}\r?")


def redact_diff(text: str, redact: Redactor) -> str:
    """A diff, as ``git diff`` prints it with ``a/`` and ``b/``, without the secrets in it.

    The lines that were added, removed or kept are read as text of the file that they are of, without their signs: a
    diff of ``.env`` is no place to find what ``.env`` itself does not tell.
    """
    told = []
    for part in _FILE.split(text):
        head = _HUNK.split(part, maxsplit=1)[0]
        names = dict.fromkeys(found["name"] for pattern in (_NAME, _RENAMED) for found in pattern.finditer(head))
        head, *hunks = _HUNK.split(redact(part, ""))  # a key over lines of several signs goes first, as a whole
        told.append("@@".join((head, *(_of_hunk(hunk, tuple(names), redact) for hunk in hunks))))
    return "".join(told)


def _of_hunk(text: str, names: tuple[str, ...], redact: Redactor) -> str:
    """A hunk: its line of numbers, which may end with a line of the file, and the lines that follow."""
    numbers, end, body = text.partition("\n")
    places, at, line = numbers.partition("@@")
    if at and line.strip():
        heading = _by_names(line.strip(), names, redact)
        numbers = f"{places}@@ {''.join(_within_keys([heading], redact))}"
    return numbers + end + "\n".join(_within_keys(list(_runs(body, names, redact)), redact))


def _runs(body: str, names: tuple[str, ...], redact: Redactor) -> Iterator[str]:
    """The lines, those of one sign that follow each other read together."""
    for sign, lines in groupby(body.split("\n"), key=lambda line: line[:1]):
        if sign not in ("+", "-", " "):
            yield from lines
            continue
        content = "\n".join(line[1:] for line in lines)
        yield from (sign + line for line in _by_names(content, names, redact).split("\n"))


def _within_keys(lines: list[str], redact: Redactor) -> list[str]:
    """The lines without those that may stand in the middle of a private key: the diff shows neither end of it.

    The redactor is asked what it takes out of such a key.
    """
    told: list[str] = []
    place = 0
    while place < len(lines):
        stop = place  # where whole lines of what may be a key end, with the shorter line at its end
        while stop < len(lines) and (line := _KEY_LINE.fullmatch(lines[stop])) is not None:
            if not all(re.search(kind, line["key"]) for kind in ("[A-Z]", "[a-z]", "[0-9+/]")):
                break
            stop += 1
        if place < stop < len(lines) and _LAST_LINE.fullmatch(lines[stop]):
            stop += 1
        if stop == place:
            told.append(lines[place])
            place += 1
            continue
        # written as a key, so that the redactor of the caller decides whether, and by what, keys are replaced
        key = redact("\n".join(("-----BEGIN PRIVATE KEY-----", *lines[place:stop], "-----END PRIVATE KEY-----")), "")
        told += lines[place:stop] if lines[place] in key else [lines[place][:1] + key]
        place = stop
    return told


def _by_names(content: str, names: tuple[str, ...], redact: Redactor) -> str:
    """The content as it may be told of a file with these names: before and after a renaming."""
    told = content
    for name in names:
        told = redact(told, name)
    return told if content.endswith("\n") else told.removesuffix("\n")  # not a line more than there was
