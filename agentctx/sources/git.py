"""What git knows of a working tree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import ClassVar

import anyio
from anyio import to_thread
from attrs import field, frozen

from agentctx.core.secrets import Redactor, redact_secrets
from agentctx.errors import SourceError
from agentctx.protocols import ContextItem
from agentctx.sources.safe_git import disarmed, run_git
from agentctx.sources.writing import amount, seconds

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
    return "".join(_of_file(part, redact) for part in _FILE.split(text))


def _of_file(text: str, redact: Redactor) -> str:
    """What is said of one file; a key that goes over lines of several signs goes first, as a whole."""
    head = _HUNK.split(text, maxsplit=1)[0]
    names = dict.fromkeys(found["name"] for pattern in (_NAME, _RENAMED) for found in pattern.finditer(head))
    head, *hunks = _HUNK.split(redact(text, ""))
    return "@@".join((head, *(_of_hunk(hunk, tuple(names), redact) for hunk in hunks)))


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
        stop = _end_of_key(lines, place)
        told += _as_key(lines[place:stop], redact) if stop > place else lines[place : place + 1]
        place = max(stop, place + 1)
    return told


def _end_of_key(lines: list[str], start: int) -> int:
    """Where whole lines of what may be a key end, with the shorter line at its end; ``start`` when there is none."""
    stop = start
    while stop < len(lines) and _may_be_of_a_key(lines[stop]):
        stop += 1
    return stop + 1 if stop > start and stop < len(lines) and _LAST_LINE.fullmatch(lines[stop]) else stop


def _may_be_of_a_key(line: str) -> bool:
    found = _KEY_LINE.fullmatch(line)
    return found is not None and all(re.search(kind, found["key"]) for kind in ("[A-Z]", "[a-z]", "[0-9+/]"))


def _as_key(lines: list[str], redact: Redactor) -> list[str]:
    # written as a key, so that the redactor of the caller decides whether, and by what, keys are replaced
    key = "\n".join(("-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----"))
    told = redact(key, "")
    return lines if lines[0] in told else [lines[0][:1] + told]


def _by_names(content: str, names: tuple[str, ...], redact: Redactor) -> str:
    """The content as it may be told of a file with these names: before and after a renaming."""
    told = content
    for name in names:
        told = redact(told, name)
    return told if content.endswith("\n") else told.removesuffix("\n")  # not a line more than there was


_OUTSIDE = "--ignore-submodules=dirty"
"""Of submodules the commit is compared; to look into one, git would start another git in it."""

_STATUS = ("status", "--short", _OUTSIDE)
_DIFF = (
    *("diff", "--no-ext-diff", "--no-textconv", _OUTSIDE, "--submodule=short"),
    *("--src-prefix=a/", "--dst-prefix=b/", "HEAD"),
)
"""Names that can be told apart."""


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
    commits: int = field(default=10, validator=amount(1), kw_only=True)
    diff: bool = field(default=False, kw_only=True)
    max_tokens: int | None = field(default=500, validator=amount(0, optional=True), kw_only=True)
    redact: Redactor | None = field(default=redact_secrets, kw_only=True)
    deadline: float = field(default=20.0, validator=seconds, kw_only=True)

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
            async with disarmed(self.root) as variables:
                await run_git(self.root, "rev-parse", "--git-dir", variables=variables)
                async with anyio.create_task_group() as tasks:
                    for place, (_, _, arguments) in enumerate(questions):
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
        """What git says; nothing where there is nothing yet: no commit, no branch."""
        said = (await run_git(self.root, *arguments, variables=variables, check=False)).rstrip("\n")
        answers[place] = await to_thread.run_sync(self._told, said, arguments is _DIFF)

    def _told(self, said: str, is_diff: bool) -> str:  # noqa: FBT001 - called by a thread
        """What git says, without secrets."""
        if self.redact is None:
            return said
        return redact_diff(said, self.redact) if is_diff else self.redact(said, "")
