"""The agent's tools. They are real: they run commands, read and change files in the workspace."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from recording.workspace import Workspace

MOST_CHARACTERS = 24_000
"""Longer outputs are cut in the middle by the tool itself, as many agents' shells do."""


@frozen
class Outcome:
    """What a tool answered.

    Args:
        output: What the model reads.
        ok: Whether it did what it was asked for.
    """

    output: str
    ok: bool = True


@frozen
class Toolbox:
    """The tools of one workspace."""

    workspace: Workspace

    def use(self, name: str, arguments: Mapping[str, Any]) -> Outcome:
        """Run a tool and return what the model reads of it."""
        outcome = self._tools[name](**arguments)
        return Outcome(_shorten(self.workspace.scrub(outcome.output)), outcome.ok)

    @property
    def _tools(self) -> dict[str, Callable[..., Outcome]]:
        return {
            "shell": self.shell,
            "search": self.search,
            "read_file": self.read_file,
            "edit_file": self.edit_file,
            "write_file": self.write_file,
        }

    def shell(self, command: str) -> Outcome:
        """Run a command in the clone; output and errors together, and the exit code when it is not 0."""
        done = subprocess.run(  # noqa: S603 - running commands is what a coding agent's shell is for
            ["/bin/sh", "-c", command],
            cwd=self.workspace.clone,
            env=dict(self.workspace.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=600,
            check=False,
        )
        output = done.stdout.decode("utf-8", "replace")
        if done.returncode:
            output = f"{output.rstrip()}\n[exit code {done.returncode}]".lstrip()
        return Outcome(output or "[no output]", done.returncode == 0)

    def search(self, pattern: str, paths: str = ".") -> Outcome:
        """Lines that match an extended regular expression, as ``path:line:text``."""
        where = " ".join(path if path.endswith(".py") else f"'{path}/*.py'" for path in paths.split())
        return self.shell(f"git grep -n -I -E '{pattern}' -- {where}")

    def read_file(self, path: str, first: int = 1, last: int | None = None) -> Outcome:
        """Numbered lines of a file."""
        if not (file := self._place(path)).is_file():
            return Outcome(f"{path}: no such file", ok=False)
        lines = file.read_text(encoding="utf-8").splitlines()[first - 1 : last]
        return Outcome("\n".join(f"{number:5}  {line}" for number, line in enumerate(lines, first)))

    def edit_file(self, path: str, old: str, new: str) -> Outcome:
        """Replace a text that stands in the file exactly once."""
        text = (file := self._place(path)).read_text(encoding="utf-8")
        if (times := text.count(old)) != 1:
            return Outcome(f"{path}: the text to replace stands there {times} times, expected once", ok=False)
        file.write_text(text.replace(old, new), encoding="utf-8")
        start = text[: text.index(old)].count("\n") + 1
        return self.read_file(path, max(1, start - 3), start + new.count("\n") + 3)

    def write_file(self, path: str, content: str) -> Outcome:
        """Create a file."""
        file = self._place(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
        return Outcome(f"{path}: {len(content.splitlines())} lines written")

    def _place(self, path: str) -> Path:
        return self.workspace.clone / path


def _shorten(text: str) -> str:
    """Start and end of a text that is too long, with a word on what is missing."""
    if (more := len(text) - MOST_CHARACTERS) <= 0:
        return text
    half = MOST_CHARACTERS // 2
    return f"{text[:half]}\n[... {more:,} characters left out ...]\n{text[-half:]}"


def _definition(name: str, description: str, required: int, **parameters: str) -> dict[str, Any]:
    """A tool as chat completions want it; a parameter's description may begin with its JSON type."""
    properties = {}
    for parameter, words in parameters.items():
        kind, _, meaning = words.partition(": ")
        properties[parameter] = {"type": kind, "description": meaning}
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(parameters)[:required],
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


DEFINITIONS = [
    _definition(
        "shell",
        "Run a shell command in /repo. Returns output and errors together, and the exit code when it is not 0.",
        1,
        command="string: The command line.",
    ),
    _definition(
        "search",
        "Search Python files for an extended regular expression. Returns path:line:text.",
        1,
        pattern="string: The expression, without single quotes.",
        paths="string: Files or folders, separated by spaces; the whole repository when left out.",
    ),
    _definition(
        "read_file",
        "Read a file, or some lines of it, with line numbers.",
        1,
        path="string: Path from the repository's root.",
        first="integer: First line, 1 when left out.",
        last="integer: Last line, the end when left out.",
    ),
    _definition(
        "edit_file",
        "Replace a text that stands in a file exactly once. Returns the changed lines with their surroundings.",
        3,
        path="string: Path from the repository's root.",
        old="string: The text to replace, with its indentation.",
        new="string: The text to put there.",
    ),
    _definition(
        "write_file",
        "Create a file, or write it anew.",
        2,
        path="string: Path from the repository's root.",
        content="string: All of its content.",
    ),
]
