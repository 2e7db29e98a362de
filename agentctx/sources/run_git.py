"""Ask git, as it is installed, without its running anything of the repository's."""

from __future__ import annotations

import os
from pathlib import Path
from subprocess import DEVNULL

import anyio
from anyio.abc import ByteReceiveStream, Process

from agentctx.errors import SourceError

LONGEST = 256 * 1024
"""How much of an answer is looked at, in bytes."""

_SAFE = (
    *("-c", "core.fsmonitor=false", "-c", "log.showSignature=false"),  # they would run programs
    *("-c", "color.ui=false", "-c", "color.status=false", "-c", "color.diff=false"),  # a model reads no colours
    *("-c", "core.quotePath=false"),  # names in any script, as they are
    "--no-pager",
)

_SETTINGS = {
    "GIT_OPTIONAL_LOCKS": "0",  # nobody else's git has to wait
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",  # what a partial clone has left out is not fetched over the network
    "LC_ALL": "C.UTF-8",
}


async def run_git(root: Path, *arguments: str, check: bool = True) -> str:
    """What git prints, at most the whole lines in its first ``LONGEST`` bytes; no more of it is waited for.

    Args:
        root: The folder that it runs in.
        arguments: The command and its options.
        check: Whether failure is an error; else it is the empty text.

    Raises:
        SourceError: If git is not installed, or failed.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # not a hook's tree
    try:
        process = await anyio.open_process(
            ["git", *_SAFE, *arguments], cwd=root, env={**inherited, **_SETTINGS}, stdin=DEVNULL
        )
    except OSError as error:
        raise SourceError("git", _why(error)) from error
    async with process:
        said, complaint = await _heard(process)
        failed = len(said) <= LONGEST and await process.wait() != 0
    if failed and check:
        lines = complaint.decode("utf-8", "replace").strip().splitlines()
        raise SourceError("git", lines[0] if lines else f"ended with exit code {process.returncode}")
    return "" if failed else whole_lines(said)


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


def _why(error: OSError) -> str:
    """Why git does not run: it is not there, or its folder is not."""
    if isinstance(error, FileNotFoundError) and error.filename == "git":
        return "is not installed"
    return f"cannot run in {Path(error.filename or '.').name!r}: {error.strerror}"
