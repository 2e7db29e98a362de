"""The README says only what happens."""

import ast
import json
import re
import shlex
from doctest import ELLIPSIS, OutputChecker
from inspect import CO_COROUTINE
from pathlib import Path
from types import FunctionType

import anyio
import pytest
import pytest_socket
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessage
from typer.testing import CliRunner

from agentctx.cli.app import app
from agentctx.testing.servers import Desk, Said, chat_completions, serving

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
SHOWN = re.findall(r"^```python\n((?:(?!```)[^\n]*\n)+)```\n\n```text\n(.*?)```", README, re.DOTALL | re.MULTILINE)
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


def answered(desk):
    """A model that asks for a tool three times and then answers."""

    def say(body):
        said = json.dumps(body["messages"])
        handle = re.search(r"; recall (\w{16})", said)
        if handle and '"recall"' not in said:
            return Said("", calls=(("recall", {"handle": handle[1]}),))
        return Said("A comma is missing.") if len(desk.requests) % 4 == 0 else Said("", calls=(("read", {}),))

    return say


LOG = "a long line of a log\n" * 500


async def run_tool(_call):
    """Answer a call, as the SDK hands it out."""
    return LOG


async def run_tools(message):
    """Answer the calls of a message."""
    return [{"role": "tool", "tool_call_id": call.id, "content": LOG} for call in message.tool_calls]


@pytest.fixture
def served():
    """A desk, and the address of a strict server of Chat Completions on this machine."""
    pytest_socket.enable_socket()
    pytest_socket.socket_allow_hosts(["127.0.0.1"], allow_unix_socket=True)
    desk = Desk()
    desk.answer = answered(desk)
    with serving(chat_completions(desk)) as url:
        yield desk, f"{url}/v1"
    pytest_socket._remove_restrictions()


def run_block(source, names, url):
    """Run a block that may await, as an interactive session would, with a client of the real SDK."""
    code = compile(source, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if not code.co_flags & CO_COROUTINE:
        exec(code, names)  # noqa: S102 - the README's own code
        return

    async def main():
        async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as names["client"]:
            await FunctionType(code, names)()

    anyio.run(main)


def test_every_python_block_runs(capsys, served):
    """The Python of the README runs from the first block to the last, with OpenAI's own client and its objects."""
    desk, url = served
    names = {"messages": json.loads(json.dumps(TASK)), "tools": TOOLS, "run_tool": run_tool, "run_tools": run_tools}
    assert len(BLOCKS) >= 3
    assert len(CONSOLE) >= 3
    for block in BLOCKS:
        desk.overflows = int("session.recover(" in block)
        run_block(block, names, url)
        assert desk.overflows == 0
    assert len(desk.accepted) + 1 == len(desk.requests) >= 4  # one was refused as too large
    assert any("; read on with handle " in str(message) for message in names["messages"])
    assert any(isinstance(message, ChatCompletionMessage) for message in names["messages"])
    assert [change.reason for change in names["view"].report.changes] == ["an old picture"]
    assert capsys.readouterr().out


@pytest.mark.parametrize(("block", "shown"), SHOWN)
def test_every_text_under_a_block_is_what_it_prints(block, shown, capsys):
    """A block with its output below stands by itself, and prints that; ``...`` stands for more."""
    run_block(block, {}, "http://127.0.0.1:9")
    printed = capsys.readouterr().out
    assert OutputChecker().check_output(shown, printed, ELLIPSIS), printed


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
