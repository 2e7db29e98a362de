"""What git knows of a working tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import anyio
from anyio import to_thread
from attrs import field, frozen

from agentctx.core.item import ContextItem
from agentctx.errors import SourceError
from agentctx.sources.amount import amount, seconds
from agentctx.sources.diff_secrets import redact_diff
from agentctx.sources.run_git import disarmed, run_git
from agentctx.sources.secrets import Redactor, redact_secrets

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
