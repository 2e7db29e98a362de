"""The README and the pages of the documentation say only what happens."""

import ast
import json
import re
import shlex
from contextlib import contextmanager
from doctest import ELLIPSIS, OutputChecker
from inspect import CO_COROUTINE
from pathlib import Path
from types import FunctionType

import anyio
import pytest
import pytest_socket
import typer
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessage
from typer.testing import CliRunner

from agentctx.cli.app import app
from agentctx.testing.servers import Desk, Said, chat_completions, serving

ROOT = Path(__file__).parents[2]
PATHS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in PATHS}
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE)
BLOCKS = {page: BLOCK.findall(text) for page, text in PAGES.items() if BLOCK.search(text)}
CONSOLE = {
    command: shown
    for text in PAGES.values()
    for command, shown in re.findall(r"^\$ agentctx (.*)\n((?:(?!\$ |```).*\n)+)", text, re.MULTILINE)
}
SHELL = re.compile(r"^```(?:sh|console)\n(.*?)^```|`(agentctx [^`\n]+)`", re.DOTALL | re.MULTILINE)

PICTURE = {"type": "image_url", "image_url": {"url": "https://example.com/log.png"}}
TASK = [
    {"role": "system", "content": "You mend software."},
    {"role": "user", "content": "Why does the build fail?"},
    {"role": "user", "content": [{"type": "text", "text": "It says this:"}, PICTURE]},
    {"role": "user", "content": "Look into the log."},
]
TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {}}}}]
LOG = "a long line of a log\n" * 500


def answered(desk):
    """A model that asks for a tool three times and then answers."""

    def say(body):
        said = json.dumps(body["messages"])
        handle = re.search(r"; recall (\w{16})", said)
        if handle and '"recall"' not in said:
            return Said("", calls=(("recall", {"handle": handle[1]}),))
        return Said("A comma is missing.") if len(desk.requests) % 4 == 0 else Said("", calls=(("read", {}),))

    return say


async def run_tool(_call):
    """Answer a call, as the SDK hands it out."""
    return LOG


async def run_tools(message):
    """Answer the calls of a message."""
    return [{"role": "tool", "tool_call_id": call.id, "content": LOG} for call in message.tool_calls]


@contextmanager
def served():
    """A desk, and the address of a strict server of Chat Completions on this machine."""
    pytest_socket.enable_socket()
    pytest_socket.socket_allow_hosts(["127.0.0.1"], allow_unix_socket=True)
    desk = Desk()
    desk.answer = answered(desk)
    with serving(chat_completions(desk)) as url:
        yield desk, f"{url}/v1"
    pytest_socket._remove_restrictions()


def run_block(source, page, names, url):
    """Run a block that may await, as an interactive session would, with a client of the real SDK."""
    code = compile(source, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if not code.co_flags & CO_COROUTINE:
        exec(code, names)  # noqa: S102 - the page's own code
        return

    async def main():
        async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as names["client"]:
            await FunctionType(code, names)()

    anyio.run(main)


def seen_after(page, names, desk):
    """What a page promises beside what it prints."""
    if page == "docs/memory.md":
        assert any("; read on with handle " in str(message) for message in names["messages"])
    if page == "docs/first-ten-minutes.md":
        assert any(isinstance(message, ChatCompletionMessage) for message in names["messages"])
    if page == "docs/sessions.md":
        assert len(desk.accepted) + 1 == len(desk.requests) >= 2  # one was refused as too large
    if page == "docs/extending.md":
        assert [change.reason for change in names["view"].report.changes] == ["an old picture"]


@pytest.mark.parametrize("page", BLOCKS)
def test_every_python_block_runs_and_prints_what_stands_under_it(page, capsys):
    """The blocks of a page run from the first to the last, with OpenAI's own client; ``...`` stands for more."""
    names = {"messages": json.loads(json.dumps(TASK)), "tools": TOOLS, "run_tool": run_tool, "run_tools": run_tools}
    with served() as (desk, url):
        for block, shown in BLOCKS[page]:
            desk.overflows = int("session.recover(" in block)
            run_block(block, page, names, url)
            assert desk.overflows == 0
            printed = capsys.readouterr().out
            assert not shown or OutputChecker().check_output(shown, printed, ELLIPSIS), printed
        seen_after(page, names, desk)


@pytest.mark.parametrize(("command", "shown"), CONSOLE.items(), ids=list(CONSOLE))
def test_every_output_is_what_the_command_prints(command, shown, monkeypatch):
    """Each line shown under a command is printed by it, in this order; times differ, ``...`` stands for more."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "100")
    printed = iter(CliRunner().invoke(app, shlex.split(command)).stdout.splitlines())
    for line in shown.splitlines():
        if line.strip() not in {"", "..."} and not line.startswith("time "):
            assert line in printed, line


def test_every_command_that_is_named_is_there():
    """Commands and their options, in blocks of the shell and in the text, are those of the command line."""
    told = [line for text in PAGES.values() for block in SHELL.findall(text) for line in "\n".join(block).splitlines()]
    named = {match[1] for line in told if (match := re.match(r"(?:\$ )?(?:.*&& \S*)?agentctx ([a-z].*)", line))}
    assert len(named) > 10
    for line in named:
        command, words = typer.main.get_command(app), line.partition("#")[0].split()
        while words and hasattr(command, "commands"):
            command = command.commands.get(words.pop(0).strip(","))
            assert command is not None, line
        options = {option for each in command.params for option in (*each.opts, *each.secondary_opts)} | {"-h"}
        assert {word for word in words if re.match(r"--?[a-z]", word)} <= options | {"--help"}, line


def test_every_command_has_a_row():
    """The table of the commands leaves none out."""
    rows = re.findall(r"^\| `agentctx ([a-z]+)", PAGES["docs/command-line.md"], re.MULTILINE)
    assert sorted(rows) == sorted(typer.main.get_command(app).commands)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "benchmarks/README.md"])
def test_every_link_leads_somewhere(page):
    """What a page outside of the documentation links to inside the project is there."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for link in set(re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", text)):
        assert (ROOT / page).parent.joinpath(link).exists(), link
