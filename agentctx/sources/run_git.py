"""Ask git, as it is installed, without its running anything of the repository's."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import DEVNULL

import anyio
from anyio import CancelScope, to_thread
from anyio.abc import ByteReceiveStream, Process

from agentctx.errors import SourceError
from agentctx.sources.git_folder import (
    copy_config,
    copy_repository,
    git_folder,
    refuse_foreign_objects,
    refuse_pipes,
    settings_in,
)

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
    """The variables that let git look at the repository that a folder is in, and run nothing of it.

    Raises:
        SourceError: If git is not installed, the folder is in no repository, or the repository cannot be read.
    """
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

    Args:
        root: The folder that it runs in.
        arguments: The command and its options.
        variables: Environment variables, beside those that are no git's; those of ``disarmed`` for a command that
            looks at a repository.
        check: Whether failure is an error; else it is what was printed before.

    Raises:
        SourceError: If git is not installed, or failed.
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
