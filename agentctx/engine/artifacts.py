"""What a tool call did: to a file, or by running a command."""

from __future__ import annotations

import re
from enum import StrEnum
from posixpath import join, normpath

from attrs import evolve, field, frozen


class Did(StrEnum):
    """What was done to a file.

    Example:
        >>> from agentctx.memory import Did, FileEvent
        >>> FileEvent("src/app.py", Did.EDITED).did.value
        'edited'
    """

    READ = "read"
    EDITED = "edited"
    WRITTEN = "written"
    CREATED = "created"
    DELETED = "deleted"
    RENAMED = "renamed"
    FAILED = "edit failed"

    @property
    def changes(self) -> bool:
        """Whether the file is, or was meant to be, another one than before."""
        return self is not Did.READ


@frozen
class FileEvent:
    """Something that was done to a file.

    Args:
        path: The file, as the call names it; from the root where the folder of the call is known.
        did: What was done.
        to: Its new name, when it was renamed.

    Example:
        >>> from agentctx.memory import Did, FileEvent
        >>> FileEvent("src/app.py", Did.EDITED).path
        'src/app.py'
    """

    path: str
    did: Did
    to: str = ""

    def moved(self, folder: str) -> FileEvent:
        """The same of a path that was given from a folder."""
        return evolve(self, path=in_folder(folder, self.path), to=self.to and in_folder(folder, self.to))


@frozen
class RunEvent:
    """A command, or a test, that ran.

    Args:
        command: The command.
        ended: How it ended: ``"ok"``, ``"failed"``, ``"exit 2"``, ``"running 4711"``; empty when that is not known.
        times: How often it ran; 0 when only its end is new.

    Example:
        >>> from agentctx.memory import RunEvent
        >>> RunEvent("pytest -q", "exit 1").ended
        'exit 1'
    """

    command: str
    ended: str = ""
    times: int = field(default=1, kw_only=True)


Artifact = FileEvent | RunEvent
"""What a call left behind."""


def in_folder(folder: str, path: str) -> str:
    """A path from the root, when the folder is known."""
    if not folder or path.startswith(("/", "~", "$")) or path[1:2] == ":":
        return path
    return normpath(join(folder, path))


_EXIT = re.compile(
    r"(?i)(?:exit(?:ed)?(?: with)?(?: code| status)?|exit_?code\"?|returncode|return code)"
    r"[ :>=]{1,3}(?P<code>-?\d{1,3})\b"
)
_RUNNING = re.compile(
    r"(?i)process (?:is )?running with session id (?P<id>\w{1,20})|"
    r"running in (?:the )?background with id:? (?P<name>\w{1,40})"
)
_FAILED = re.compile(
    r"(?m)^(?:--- )?FAIL(?:ED)?\b|\b[1-9]\d{0,5} (?:tests? )?(?:failed|failures?|errors?)\b|^Traceback \(most recent|"
    r"^\S*(?:command not found|No such file or directory)|BUILD FAILED|^error(?:\[\w+\])?:|^fatal: |npm ERR!"
)
_PASSED = re.compile(
    r"(?m)^ok  ?\t|^PASS\b|\b\d{1,6} passed\b|\b0 (?:issues|errors|failures)\b|^OK\b|All checks passed|Build succeeded"
)
_LOOKED_AT = 3_000
"""Characters at either end of a result in which it says how the command ended."""


def how_it_ended(text: str, *, is_error: bool) -> str:
    """How a command ended, by what its result says; empty when it does not say so."""
    seen = text if len(text) <= 2 * _LOOKED_AT else f"{text[:_LOOKED_AT]}\n{text[-_LOOKED_AT:]}"
    running = _RUNNING.search(seen)
    if running:
        return f"running {running['id'] or running['name']}"
    code = _EXIT.search(seen[:400]) or _EXIT.search(seen[-200:])
    if code and (code["code"] != "0" or not _FAILED.search(seen)):
        return "ok" if code["code"] == "0" else f"exit {code['code']}"
    if is_error or _FAILED.search(seen):
        return "failed"
    return "ok" if _PASSED.search(seen) else ""
