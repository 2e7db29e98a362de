"""The first request of a coding agent, assembled from a real repository: at most 16,000 tokens, whatever is in it.

A system prompt whose beginning never moves; files that the agent may read and must not change; what git, the newest
files, the manifests and the last build say; the source files that have most of the task's words; and the task. All
sources are asked at the same time, one that fails or hangs costs only itself, and secrets are taken out.

Run it: ``python examples/assemble_coding_context.py``, for another project with ``--repository FOLDER``, for another
task with ``--task "…"``; ``--show`` prints what the model would be sent. It needs the extra ``sources``
(``pip install 'agentctx-middleware[sources]'``) and neither a key nor a network.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import anyio
from attrs import frozen

from agentctx import Budget
from agentctx.builder import Assembled, Block, ContextBuilder, Tier
from agentctx.sources import (
    BuildErrors,
    ContextItem,
    Dependencies,
    Environment,
    Gathered,
    GitSource,
    PromptSection,
    ReadOnlyFiles,
    RecentFiles,
    StablePrompt,
    gather,
    redact_secrets,
    section_from,
    suggest_files,
)
from agentctx.sources.gathering import ContextProvider
from agentctx.strategies import DropTail

WINDOW = 16_000
ANSWER = 2_000
FOR_FILES = 9_000
FOR_SOURCES = 6_000
TASK = "Explain how the room of a request is divided among tiers, and where allocate is called."
ROLE = "You are a careful programmer. You read before you write, and you say what you do not know."


@frozen
class FilesOfTheTask:
    """A source of one's own: the Python files that have most of the task's words in their names.

    Args:
        root: The project.
        limit: How many files.
        max_tokens: The most tokens of them all; what is longer is cut.
    """

    name: ClassVar[str] = "code"
    description: ClassVar[str] = "source files named like the task"

    root: Path
    limit: int = 3
    max_tokens: int = 3_000

    def __call__(self, query: str) -> list[ContextItem]:
        """An item for each file. It runs in a thread, since it is not async: reading files may take its time."""
        words = {word.strip(".,").lower() for word in query.split() if len(word) > 3}
        wanted = {path: sum(word in str(path).lower() for word in words) for path in python_files(self.root)}
        best = sorted((path for path in wanted if wanted[path]), key=lambda path: (-wanted[path], str(path)))
        return [ContextItem(str(path), self._shown(path), 0.7) for path in best[: self.limit]]

    def _shown(self, path: Path) -> str:
        text = (self.root / path).read_text(encoding="utf-8", errors="replace")
        return redact_secrets(text, path.name)


def python_files(root: Path) -> Iterator[Path]:
    """Yield the Python files below a folder, but for folders that nobody wrote by hand."""
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name[0] != "." and name not in ("node_modules", "venv", "build")]
        yield from (Path(folder, name).relative_to(root) for name in names if name.endswith(".py"))


async def read_only_files(repository: Path) -> ReadOnlyFiles:
    """What tells most about the project, within its room; the names of the rest."""
    files = ReadOnlyFiles(FOR_FILES, root=repository)
    for name in suggest_files(repository):
        await files.add_pattern(f"/{name}")
    return files


async def assemble(repository: Path, task: str) -> tuple[Assembled, Gathered, ReadOnlyFiles]:
    """The request, and what there is to say about it."""
    prompt = StablePrompt(
        [
            PromptSection("role", lambda: ROLE),
            section_from(Environment(repository), "environment", "# Where you are"),
        ]
    )
    await prompt.start()
    files = await read_only_files(repository)
    sources: list[ContextProvider] = [
        GitSource(repository),
        RecentFiles(repository),
        Dependencies(repository),
        BuildErrors(repository / "logs"),
        FilesOfTheTask(repository),
    ]
    gathered = await gather(sources, task, max_tokens=FOR_SOURCES, deadline=10)
    builder = ContextBuilder(Budget(WINDOW, ANSWER), format="openai-chat")
    builder.add(*prompt.build().blocks)
    builder.add(Block("read-only files", said(files.render()), Tier.CORE, DropTail(), cache=True))
    builder.add(Block("sources", said(gathered.text), Tier.RAG, DropTail()))
    builder.add(Block("task", said(task), Tier.HISTORY))
    return await builder.build(), gathered, files


def said(text: str) -> list[dict[str, Any]]:
    """A text as a user's message; no text is no message."""
    return [{"role": "user", "content": text}] if text else []


def describe(built: Assembled, gathered: Gathered, files: ReadOnlyFiles) -> Sequence[str]:
    """What was assembled, line by line."""
    lines = [f"{name:<16} {tokens:>7,} tokens" for name, tokens in built.report.tokens_per_block.items()]
    lines += [f"  {each.name:<14} {each.tokens:>7,} tokens, {each.description}" for each in gathered.sources]
    lines += [f"not shown: {name}" for name in files.left_out]
    lines += [f"problem: {problem}" for problem in gathered.problems]
    lines.append(f"{'request':<16} {built.report.tokens:>7,} tokens of {built.report.limit:,}")
    return lines


async def main(repository: Path, task: str, *, show: bool) -> int:
    """Assemble and tell."""
    built, gathered, files = await assemble(repository, task)
    if show:
        for message in built.messages:
            print(f"--- {message['role']}\n{message['content']}")
    print("\n".join(describe(built, gathered, files)))
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The first request of a coding agent, from a real repository.")
    parser.add_argument("--repository", type=Path, default=Path(__file__).parents[1], help="the project's folder")
    parser.add_argument("--task", default=TASK, help="what the agent is asked to do")
    parser.add_argument("--show", action="store_true", help="print the messages")
    options = parser.parse_args()
    sys.exit(anyio.run(lambda: main(options.repository.resolve(), options.task, show=options.show)))
