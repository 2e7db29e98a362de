"""Ask git about a working tree, without letting the repository run a program.

A repository's own configuration can name programs in more places than anyone can list: filters, hooks, monitors,
signature checkers, remotes that are fetched from. So the git that looks at the repository reads none of it. That git
gets a folder of its own, with the index, the current commit and a handful of settings that are plain values; it reads
commits and files where they are. A library in place of the program would be no way around this: dulwich runs the
filters that a repository configures, and libgit2 can neither be ended at a deadline nor let other threads run.

This is the one file that asks git, and it asks by ``run_git`` only.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from subprocess import DEVNULL
from typing import ClassVar

import anyio
from anyio import CancelScope, to_thread
from anyio.abc import ByteReceiveStream
from attrs import field, frozen
from attrs.validators import gt, le

from agentctx.errors import SourceError
from agentctx.secrets import Redactor
from agentctx.sources.files import as_root, opened, read_below
from agentctx.sources.gathering import ContextItem, Redacting, stop_when_abandoned
from agentctx.validators import TRUTH, numeric, whole_number

_OUTSIDE = "--ignore-submodules=dirty"
"""Of submodules git compares the commit; to look into one, it would start another git in it."""

_STATUS = ("status", "--short", _OUTSIDE)
_DIFF = (
    *("diff", "--no-ext-diff", "--no-textconv", _OUTSIDE, "--submodule=short"),
    *("--src-prefix=a/", "--dst-prefix=b/", "HEAD"),
)
_BRANCH = ("symbolic-ref", "--short", "--quiet", "HEAD")

_DEADLINE = numeric("a number of seconds above 0, and at most 1e9", gt(0), le(1e9))


@frozen
class GitSource(Redacting):
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

    root: Path = field(default=Path(), converter=as_root)
    commits: int = field(default=10, validator=whole_number(1), kw_only=True)
    diff: bool = field(default=False, validator=TRUTH, kw_only=True)
    max_tokens: int | None = field(default=500, validator=whole_number(0).or_none, kw_only=True)
    deadline: float = field(default=20.0, validator=_DEADLINE, kw_only=True)

    async def __call__(self, query: str, /) -> Sequence[ContextItem]:
        """Return working tree, branch and commits; those that are empty are left out.

        Raises:
            SourceError: If git is not installed, answers nothing within the deadline, this is no repository, or one
                that leads to another's files.
        """
        del query
        log = ("log", "--oneline", "--no-decorate", f"-{self.commits}")
        questions = [("working tree", 0.9, _STATUS), ("branch", 0.8, _BRANCH), ("last commits", 0.7, log)]
        if self.diff:
            questions.append(("changes", 0.85, _DIFF))
        answers: dict[str, str] = {}

        async def ask(title: str, arguments: Sequence[str], variables: Mapping[str, str]) -> None:
            text = (await run_git(self.root, *arguments, variables=variables, check=False)).rstrip("\n")
            text = text.replace(variables["GIT_DIR"], ".git")
            redact = partial(redact_diff, redact=self.redacted) if arguments is _DIFF else self.redacted
            answers[title] = await to_thread.run_sync(redact, text)

        with anyio.move_on_after(self.deadline) as waiting:
            async with _disarmed(self.root) as variables:
                await run_git(self.root, "rev-parse", "--git-dir", variables=variables)
                head = ("rev-parse", "--verify", "--quiet", "HEAD")
                has_commits = bool(await run_git(self.root, *head, variables=variables, check=False))
                async with anyio.create_task_group() as tasks:
                    for title, _, arguments in questions:
                        needs_tree, needs_commits = arguments in (_STATUS, _DIFF), arguments in (log, _DIFF)
                        if ("GIT_WORK_TREE" in variables or not needs_tree) and (has_commits or not needs_commits):
                            tasks.start_soon(ask, title, arguments, variables)
                        else:
                            answers[title] = ""
        late = f"did not tell it within {self.deadline:g} seconds"
        if waiting.cancelled_caught and not any(answers.values()):
            raise SourceError("git", f"{late}; give GitSource a longer deadline, or less to look at")
        contents = [(title, answers.get(title, f"(git {late})"), worth) for title, worth, _ in questions]
        return [ContextItem(title, content, worth) for title, content, worth in contents if content]


LONGEST = 256 * 1024
"""How much of an answer is read, in bytes."""

_FORM = (
    *("-c", "color.ui=false"),  # a model reads no colours
    *("-c", "core.quotePath=false"),  # names in any script, as they are
    *("-c", "core.bigFileThreshold=16m"),  # a larger file is reported as changed, not line by line
    "--no-pager",
)

_VARIABLES = {
    "GIT_OPTIONAL_LOCKS": "0",  # nobody else's git has to wait
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",  # git fetches nothing over the network that a partial clone has left out
    "LC_ALL": "C.UTF-8",
}

_NO_CONFIG = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_NO_REPLACE_OBJECTS": "1"}
"""The user's own programs are not run on files of a repository that the user may not trust, either."""


async def run_git(root: Path, *arguments: str, variables: Mapping[str, str] | None = None, check: bool = True) -> str:
    """Return the output of git, at most the whole lines in its first ``LONGEST`` bytes, without waiting for more.

    A command that looks at a repository gets the variables of ``_disarmed``; no other variable of git's is passed on.
    Without ``check`` a failure is no error: the text is git's output before it, else its complaint.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # not a hook's tree
    env = {**inherited, **_VARIABLES, **(variables or {})}
    try:
        process = await anyio.open_process([_program(), *_FORM, *arguments], cwd=root, env=env, stdin=DEVNULL)
    except OSError as error:
        raise SourceError("git", f"cannot run in {Path(error.filename or '.').name!r}: {error.strerror}") from error
    output, complaint = bytearray(), bytearray()
    async with process:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read_stream, process.stderr, complaint)
            await _read_stream(process.stdout, output)
            if len(output) > LONGEST:
                process.kill()
        failed = await process.wait() != 0 and len(output) <= LONGEST
    lines = complaint.decode("utf-8", "replace").strip().splitlines() if failed else []
    if failed and check:
        raise SourceError("git", lines[0] if lines else f"ended with exit code {process.returncode}")
    if lines and not output:
        return f"(git: {lines[0]})"
    return whole_lines(bytes(output))


async def _read_stream(stream: ByteReceiveStream | None, into: bytearray) -> None:
    """Read until the stream ends, or more has come than is wanted."""
    if stream is not None:
        async for piece in stream:
            into += piece
            if len(into) > LONGEST:
                return


def whole_lines(output: bytes) -> str:
    """Return the text, or of a longer one its first lines: a secret that is cut in two would be missed."""
    kept = output if len(output) <= LONGEST else output[: output.rfind(b"\n", 0, LONGEST) + 1]
    return kept.decode("utf-8", "replace")


def installed(tool: str) -> str | None:
    """Find the program of this name; a search path that depends on the working folder is not followed."""
    searched = os.environ.get("PATH", os.defpath).split(os.pathsep)
    path = shutil.which(tool, path=os.pathsep.join(place for place in searched if Path(place).is_absolute()))
    return path if path is not None and Path(path).is_absolute() else None


def _program() -> str:
    if (program := installed("git")) is None:
        raise SourceError("git", "is not installed")
    return program


@asynccontextmanager
async def _disarmed(root: Path) -> AsyncIterator[Mapping[str, str]]:
    """Make the variables that let git look at the repository of a folder, and run nothing of it."""
    _program()
    repository = await to_thread.run_sync(_repository_of, root)
    if repository is None:
        raise SourceError("git", "not a git repository (or any of the parent directories)")
    await to_thread.run_sync(_refuse_foreign_objects, repository, abandon_on_cancel=True)
    place = Path(await to_thread.run_sync(tempfile.mkdtemp, None, "agentctx-git-"))
    try:
        listed = ("config", "--list", "-z")
        own = place / "config"
        settings = _settings_in(await run_git(place, *listed, variables={"GIT_DIR": str(place / "none")}), _OF_USER)
        await to_thread.run_sync(_copy, repository.common, "config", own)
        if own.exists():
            of_file = (*listed, "--no-includes", "--file", str(own))
            settings |= _settings_in(await run_git(place, *of_file, variables=_NO_CONFIG), _PLAIN)
        yield await to_thread.run_sync(_copy_repository, repository, settings, place) | _NO_CONFIG
    finally:
        with CancelScope(shield=True):
            await to_thread.run_sync(shutil.rmtree, place, True)  # noqa: FBT003 - ignore_errors


_LEADS_BACK = re.compile(r'(?m)^[ \t]*worktree[ \t]*=[ \t]*"?(?P<tree>[^"\n]+)')


@frozen
class _Repository:
    """The folders of a repository.

    ``tree`` is the folder of its files, None when it has none; ``own`` has what belongs to this working tree alone, as
    HEAD and index, ``common`` what all its working trees share, as commits, branches and settings.
    """

    tree: Path | None
    own: Path
    common: Path


def _repository_of(folder: Path) -> _Repository | None:
    """Find the repository that a folder is in, as git finds it; None outside of one.

    A worktree's or a submodule's ``.git`` is a file that says where its folder is. A ``.git`` that leads elsewhere is
    believed only if the folder there names this working tree.
    """
    if not folder.is_dir():
        raise SourceError("git", f"cannot look into {folder.name!r}: it is no folder")
    folder = Path(os.path.realpath(folder))
    for tree in (folder, *folder.parents):
        own = tree / ".git"
        # git passes over a folder of that name without a HEAD as well
        if os.path.lexists(own) and (own.is_symlink() or not own.is_dir() or os.path.lexists(own / "HEAD")):
            place = Path(os.path.realpath(own))
            if place.is_file():
                place = Path(os.path.realpath(place.parent / _text(tree, ".git").removeprefix("gitdir:").strip()))
            if not place.is_dir():
                raise SourceError("git", "not a git repository: .git leads nowhere")
            worktree = _LEADS_BACK.search(_text(place, "config"))
            backs = [_text(place, "gitdir").strip(), f"{worktree['tree'].strip()}/.git" if worktree else ""]
            if place != own and all(Path(os.path.realpath((place / each).parent)) != tree for each in backs if each):
                how = "set core.worktree there, if it is"
                raise SourceError("git", f".git leads to a folder that does not say it is of {tree.name!r}: {how}")
            return _checked(tree, place)
        if (tree / "HEAD").is_file() and (tree / "objects").is_dir() and (tree / "refs").is_dir():
            return _checked(None, tree)
    return None


def _checked(tree: Path | None, own: Path) -> _Repository:
    """Return the repository if all that is read of it is in its own folders."""
    shared = _text(own, "commondir").strip()
    common = Path(os.path.realpath(own / shared)) if shared else own
    if common != own and not own.is_relative_to(common):
        raise SourceError("git", "its folder of commits is that of another repository")
    for place in (own / "HEAD", own / "index", common / "objects", common / "refs", common / "packed-refs"):
        if place.is_symlink():
            raise SourceError("git", f"{place.name} is a link")
    return _Repository(tree, own, common)


def head_branch(folder: Path) -> str:
    """Read the branch of the repository that a folder is in; empty outside of one and between branches."""
    try:
        repository = _repository_of(folder)
        head = "" if repository is None else _text(repository.own, "HEAD").strip()
    except SourceError:
        return ""
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref: refs/heads/") else ""


def _refuse_foreign_objects(repository: _Repository) -> None:
    """Refuse links, by which git would read commits and files of another repository as if they were this one's."""
    objects = repository.common / "objects"
    for folder, folders, files in os.walk(objects):
        stop_when_abandoned()
        for name in (*folders, *files):
            if (place := Path(folder, name)).is_symlink():
                how = "put the objects there instead, if git may read them"
                raise SourceError("git", f"{place.relative_to(repository.common)} is a link: {how}")
    alternates = objects / "info/alternates"
    if alternates.exists() and (alternates.stat().st_size or not alternates.is_file()):
        how = "run 'git repack -ad' and delete that file, if git may read them"
        raise SourceError("git", f"objects/info/alternates leads to other objects, as a link would: {how}")


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


def _settings_in(listed: str, kept: frozenset[str]) -> dict[str, str]:
    """Read the settings that are kept from ``git config --list -z``; the last of one name holds."""
    pairs = (setting.partition("\n") for setting in listed.split("\0"))
    return {name: value if is_set else "true" for name, is_set, value in pairs if name in kept}


_MOST_SYMBOLIC = 5
"""How many branches that stand for another are followed, as git does."""


def _copy_repository(repository: _Repository, settings: Mapping[str, str], into: Path) -> dict[str, str]:
    """Make the two folders that git gets instead of the repository's, and the variables that make git use them."""
    own, common = into / "own", into / "common"
    for folder in (own, common):
        for below in ("info", "reftable", "refs"):
            (folder / below).mkdir(parents=True)
    (own / "commondir").write_text(str(common), encoding="utf-8")
    version = int(any(name.startswith("extensions.") for name in settings))
    bare = str(repository.tree is None).lower()
    with (common / "config").open("w", encoding="utf-8", errors="surrogateescape") as config:
        for name, value in {**settings, "core.repositoryformatversion": str(version), "core.bare": bare}.items():
            section, _, key = name.partition(".")
            quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")  # nothing but a value
            config.write(f'[{section}]\n\t{key} = "{quoted}"\n')
    _copy_some(repository.own, own, "HEAD", "index", "info/sparse-checkout", "sharedindex.*", "reftable/*")
    _copy_some(repository.common, common, "shallow", "info/exclude", "info/attributes", "packed-refs", "reftable/*")
    head = _text(repository.own, "HEAD")
    if not head:
        raise SourceError("git", "not a git repository: HEAD is no file, or empty")
    for _ in range(_MOST_SYMBOLIC):
        name = head.removeprefix("ref:").strip()
        if not head.startswith("ref:") or not name.startswith("refs/") or ".." in name:
            break
        head = _text(repository.common, name)
        _copy(repository.common, name, common / name)
    variables = {"GIT_DIR": str(own), "GIT_OBJECT_DIRECTORY": str(repository.common / "objects")}
    return variables if repository.tree is None else variables | {"GIT_WORK_TREE": str(repository.tree)}


def _copy_some(folder: Path, to: Path, *patterns: str) -> None:
    for pattern in patterns:
        for place in folder.glob(pattern):
            name = str(place.relative_to(folder))
            _copy(folder, name, to / name)


_LARGE = 2**30
"""The most bytes of a file that is copied: an index of some million files."""


def _copy(folder: Path, name: str, to: Path) -> None:
    """Copy a file, if there is one.

    Its time is copied as well: by that of its index git tells which files may have changed unseen.
    """
    try:
        with opened(folder, name) as file:
            status = os.fstat(file.fileno())
            if status.st_size > _LARGE:
                raise SourceError("git", f"{name}: {status.st_size:,} bytes are too many")
            to.parent.mkdir(parents=True, exist_ok=True)
            with to.open("wb") as copy:
                shutil.copyfileobj(file, copy, 2**20)
            os.utime(to, ns=(status.st_mtime_ns, status.st_mtime_ns))
    except FileNotFoundError:
        return
    except OSError as error:
        raise SourceError("git", f"cannot copy {name!r:.80}: {error.strerror}") from error


def _text(folder: Path, name: str) -> str:
    """Read a small file; empty when it is not there."""
    text = (read_below(folder, name, 64 * 1024) or b"").decode("utf-8", "surrogateescape")
    if "\0" in text:
        raise SourceError("git", f"{name} is not text: there is a NUL in it")
    return text


_FILE = re.compile(r"(?m)^(?=diff --(?:git|cc|combined) )")
_HUNK = re.compile(r"(?m)^@@")
_NAME = re.compile(r'(?m)^(?:---|\+\+\+) "?[ab]/(?P<name>[^\t\n"]+)')
_RENAMED = re.compile(r'(?m)^rename (?:from|to) "?(?P<name>[^\n"]+)')
_KEY_LINES = re.compile(
    r"(?m)(?:^[ +-]{0,2}[ \t]{0,40}(?=\S*[A-Z])(?=\S*[a-z])(?=\S*[0-9+/])"
    r"(?:[A-Za-z0-9+/]{64}|[A-Za-z0-9+/]{70}|[A-Za-z0-9+/]{76})\r?(?:\n|\Z))+"
    r"(?:[ +-]{0,2}[ \t]{0,40}(?=[A-Za-z0-9+/]{0,76}[0-9+/=])[A-Za-z0-9+/]{2,76}={0,2}\r?$)?"
)
"""Whole lines of a private key, as wide as programs write them, and the shorter one at its end."""


def redact_diff(text: str, redact: Redactor) -> str:
    """A diff, as ``git diff`` prints it with ``a/`` and ``b/``, without the secrets in it.

    The lines that were added, removed or kept are read as text of the file that they are of, without their signs: a
    diff of ``.env`` is no place to find what ``.env`` itself does not tell.
    """
    parts = []
    for part in _FILE.split(text):
        head = _HUNK.split(part, maxsplit=1)[0]
        names = dict.fromkeys(match["name"] for pattern in (_NAME, _RENAMED) for match in pattern.finditer(head))
        head, *hunks = _HUNK.split(redact(part, ""))  # a key over lines of several signs goes first, as a whole
        parts.append("@@".join((head, *(_of_hunk(hunk, tuple(names), redact) for hunk in hunks))))
    return "".join(parts)


def _of_hunk(text: str, names: tuple[str, ...], redact: Redactor) -> str:
    """A hunk: its line of numbers, which may end with a line of the file, and the lines that follow."""
    numbers, end, body = text.partition("\n")
    places, at, line = numbers.partition("@@")
    if at and line.strip():
        numbers = f"{places}@@ {_without_keys(_by_names(line.strip(), names, redact), redact)}"
    return numbers + end + _without_keys("\n".join(_runs(body, names, redact)), redact)


def _runs(body: str, names: tuple[str, ...], redact: Redactor) -> Iterator[str]:
    """The lines, those of one sign that follow each other read together."""
    for sign, lines in groupby(body.split("\n"), key=lambda line: line[:1]):
        if sign not in ("+", "-", " "):
            yield from lines
            continue
        content = "\n".join(line[1:] for line in lines)
        yield from (sign + line for line in _by_names(content, names, redact).split("\n"))


def _without_keys(text: str, redact: Redactor) -> str:
    """Take out lines that may stand in the middle of a private key: the diff shows neither end of it.

    They are shown to the redactor as a key, so that the caller decides whether, and by what, keys are replaced.
    """

    def replaced(lines: re.Match[str]) -> str:
        key = redact(f"-----BEGIN PRIVATE KEY-----\n{lines[0]}\n-----END PRIVATE KEY-----", "")
        end = "\n" if lines[0].endswith("\n") else ""
        return lines[0] if lines[0].strip() in key else lines[0][:1] + key + end

    return _KEY_LINES.sub(replaced, text)


def _by_names(content: str, names: tuple[str, ...], redact: Redactor) -> str:
    """Take secrets out of the content of a file with these names: before and after a renaming."""
    redacted = content
    for name in names:
        redacted = redact(redacted, name)
    return redacted if content.endswith("\n") else redacted.removesuffix("\n")  # not a line more than there was
