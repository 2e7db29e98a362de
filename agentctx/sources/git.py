"""What git knows of a working tree."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from subprocess import DEVNULL
from typing import ClassVar

import anyio
from anyio import to_thread
from attrs import field, frozen

from agentctx.core.item import ContextItem
from agentctx.errors import SourceError
from agentctx.sources.secrets import Redactor, redact_secrets

_SAFE = ("-c", "core.fsmonitor=false", "-c", "log.showSignature=false", "--no-pager")
"""A repository's own settings must not run programs here."""


_LONGEST = 256 * 1024
"""How much of an answer is looked at, in characters."""


@frozen
class GitSource:
    """Branch, working tree, and last commits of a git repository; asked of git itself, without locks.

    Args:
        root: A folder in the repository.
        commits: How many commits are told.
        diff: Whether what was changed since the last commit is told line by line.
        max_tokens: The most tokens of it all.
        redact: Takes secrets out; None leaves them in.
    """

    name: ClassVar[str] = "git"
    description: ClassVar[str] = "branch, changed files and last commits"

    root: Path = field(default=Path(), converter=Path)
    commits: int = field(default=10, kw_only=True)
    diff: bool = field(default=False, kw_only=True)
    max_tokens: int | None = field(default=500, kw_only=True)
    redact: Redactor | None = field(default=redact_secrets, kw_only=True)

    async def __call__(self, query: str, /) -> Sequence[ContextItem]:
        """Working tree, branch and commits; those that are empty are left out.

        Raises:
            SourceError: If git is not installed, or this is no repository.
        """
        del query
        questions = [
            ("working tree", 0.9, ("status", "--short")),
            ("branch", 0.8, ("symbolic-ref", "--short", "--quiet", "HEAD")),
            ("last commits", 0.7, ("log", "--oneline", "--no-decorate", f"-{self.commits}")),
        ]
        if self.diff:
            questions.append(("changes", 0.85, ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "HEAD")))
        await run_git(self.root, "rev-parse", "--git-dir")
        answers = [""] * len(questions)
        async with anyio.create_task_group() as tasks:
            for place, (_, _, arguments) in enumerate(questions):
                tasks.start_soon(self._answer, answers, place, arguments)
        found = zip(questions, answers, strict=True)
        return [ContextItem(title, answer, worth) for (title, worth, _), answer in found if answer]

    async def _answer(self, answers: list[str], place: int, arguments: tuple[str, ...]) -> None:
        """What git says; nothing where there is nothing yet: no commit, no branch."""
        said = beginning((await run_git(self.root, *arguments, check=False)).rstrip())
        answers[place] = said if self.redact is None else await to_thread.run_sync(self.redact, said, "")


def beginning(text: str) -> str:
    """The first lines of what may be very long; whole, so that no secret is cut in two and missed."""
    return text if len(text) <= _LONGEST else text[: text.rfind("\n", 0, _LONGEST) + 1]


async def run_git(root: Path, *arguments: str, check: bool = True) -> str:
    """What git prints.

    Args:
        root: The folder that it runs in.
        arguments: The command and its options.
        check: Whether failure is an error; else it is the empty text.

    Raises:
        SourceError: If git is not installed, or failed.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # not a hook's tree
    settings = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C.UTF-8"}
    try:
        done = await anyio.run_process(
            ["git", *_SAFE, *arguments], cwd=root, env={**inherited, **settings}, check=False, stdin=DEVNULL
        )
    except OSError as error:
        raise SourceError("git", str(error)) from error
    if done.returncode == 0:
        return done.stdout.decode("utf-8", "replace")
    if not check:
        return ""
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    raise SourceError("git", said[0] if said else f"ended with exit code {done.returncode}")
