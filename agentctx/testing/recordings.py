"""The laws, on transcripts of one's own: recorded sessions in files."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from os import PathLike, fspath
from pathlib import Path

from agentctx.core.budget import Budget
from agentctx.engine.options import as_budget
from agentctx.errors import ConfigError, InvalidInput
from agentctx.protocols import ContextStrategy
from agentctx.testing.faithfulness import AllowedEdit
from agentctx.testing.laws import check_laws
from agentctx.transcripts import read_transcripts

_EXTENSIONS = (".json", ".jsonl", ".json.gz", ".jsonl.gz")


async def check_laws_on(
    strategy: ContextStrategy,
    *sources: str | PathLike[str],
    budget: Budget | int | None = None,
    may: Collection[AllowedEdit] = (),
) -> int:
    """Hold a strategy to the laws on each recorded session of files, as ``check_laws`` does on one transcript.

    Args:
        strategy: A stage, or a pipeline.
        sources: Files, folders, and patterns such as ``"recordings/*.jsonl"``, of any tool that ``agentctx replay``
            reads.
        budget: The budget in force, a number is a window in tokens; without it the pipeline's own.
        may: What the strategy is allowed to do besides; see ``check_laws``.

    Returns:
        How many sessions there were.

    Raises:
        AssertionError: If a law is broken; the message says on which session, which law, and at which call.
        ConfigError: If there is no session, or a stage needs a budget and there is none.
        InvalidInput: If a file cannot be read.

    Example:
        >>> import json, tempfile, pathlib
        >>> from agentctx import TrimRounds
        >>> from agentctx.testing import assistant, check_laws_on, transcript, user
        >>> messages = transcript("openai-chat", user("Go."), assistant("Gone."), user("And now?"))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "own.json").write_text(json.dumps({"messages": messages}))
        ...     await check_laws_on(TrimRounds(1), f"{folder}/*.json")
        1
    """
    checked = 0
    for transcript in (
        found for source in sources for path in _files(fspath(source)) for found in read_transcripts(path)
    ):
        recording = transcript.recording
        given = (recording.messages, as_budget(budget), recording.format, recording.system, recording.tools)
        try:
            await check_laws(strategy, *given, may)
        except AssertionError as error:
            msg = f"{transcript.place}: {error}"
            raise AssertionError(msg) from error
        except InvalidInput as error:
            raise InvalidInput(transcript.place, str(error)) from error
        checked += 1
    if not checked:
        msg = f"check_laws_on: there is no recorded session in {', '.join(map(str, sources)) or 'nothing'}"
        raise ConfigError(msg)
    return checked


def _files(source: str) -> Iterator[str]:
    """The files that are meant."""
    path = Path(source).expanduser()
    if path.is_dir():
        yield from sorted(str(found) for found in path.rglob("*") if found.name.endswith(_EXTENSIONS))
    elif path.exists():
        yield str(path)
    else:
        yield from sorted(map(str, Path(path.anchor or ".").glob(str(path.relative_to(path.anchor)))))
