"""The README says only what happens."""

import ast
import json
import re
import shlex
from inspect import CO_COROUTINE
from pathlib import Path
from types import FunctionType, SimpleNamespace

import anyio
import pytest
from typer.testing import CliRunner

from agentctx.cli.app import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
CONSOLE = re.findall(r"^\$ agentctx (.*)\n((?:(?!\$ |```).*\n)+)", README, re.MULTILINE)
LINKS = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)

PICTURE = {"type": "image_url", "image_url": {"url": "https://example.com/log.png"}}
TASK = [
    {"role": "system", "content": "You mend software."},
    {"role": "user", "content": "Why does the build fail?"},
    {"role": "user", "content": [{"type": "text", "text": "It says this:"}, PICTURE]},
    {"role": "user", "content": "Look into the log."},
]
TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {}}}}]


class Completions:
    """A provider that asks for a tool three times and then answers."""

    def __init__(self):
        self.asked = 0

    async def create(self, *, messages, **_options):
        """Answer as the OpenAI SDK does."""
        assert messages
        self.asked += 1
        call = {"id": f"c{self.asked}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        said = {"role": "assistant", "content": None, "tool_calls": [call]}
        if self.asked % 4 == 0:
            said = {"role": "assistant", "content": "A comma is missing."}
        usage = SimpleNamespace(prompt_tokens=100, completion_tokens=5, total_tokens=105)
        return SimpleNamespace(choices=[SimpleNamespace(message=said)], usage=usage)


async def run_tools(message):
    """Answer the calls of a message."""
    return [
        {"role": "tool", "tool_call_id": call["id"], "content": "a long line of a log\n" * 500}
        for call in message["tool_calls"]
    ]


def run_block(source, names):
    """Run a block that may await, as an interactive session would."""
    code = compile(source, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if not code.co_flags & CO_COROUTINE:
        exec(code, names)  # noqa: S102 - the README's own code
        return

    async def main():
        await FunctionType(code, names)()

    anyio.run(main)


def test_every_python_block_runs(capsys):
    """The Python of the README runs from the first block to the last, each with what stands before it."""
    completions = Completions()
    client = SimpleNamespace(chat=SimpleNamespace(completions=completions))
    names = {"client": client, "messages": json.loads(json.dumps(TASK)), "tools": TOOLS, "run_tools": run_tools}
    assert len(BLOCKS) >= 3
    assert len(CONSOLE) >= 3
    for block in BLOCKS:
        run_block(block, names)
    assert completions.asked >= 4
    assert [change.reason for change in names["view"].report.changes] == ["an old picture"]
    assert capsys.readouterr().out


@pytest.mark.parametrize(("command", "shown"), CONSOLE, ids=[command for command, _ in CONSOLE])
def test_every_output_is_what_the_command_prints(command, shown, monkeypatch):
    """Each line shown under a command is printed by it, in this order; times differ, ``...`` stands for more."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "100")
    printed = iter(CliRunner().invoke(app, shlex.split(command)).stdout.splitlines())
    for line in shown.splitlines():
        if line.strip() not in {"", "..."} and not line.startswith("time "):
            assert line in printed, line


@pytest.mark.parametrize("link", sorted(set(LINKS)))
def test_every_link_leads_somewhere(link):
    """What the README links to inside the project is there."""
    assert (ROOT / link).exists()
