"""Small recorded sessions to run the commands on, and the commands to run on them."""

import json

import pytest
from typer.testing import CliRunner

from agentctx.cli.app import app


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch):
    """What is printed into a pipe is as wide as it says, whatever the terminal of whoever runs the tests."""
    monkeypatch.delenv("COLUMNS", raising=False)


def chat_session(rounds, words=300):
    """A chat session: a task, then rounds of one call and one long result, then an answer."""
    messages = [
        {"role": "system", "content": "You mend software."},
        {"role": "user", "content": "Find out why the build fails."},
    ]
    for number in range(rounds):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": '{"path": "a.py"}'}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": f"line {number} of the log. " * words},
        ]
    return [*messages, {"role": "assistant", "content": "A comma is missing."}]


def anthropic_session(rounds, words=300):
    """The same in Anthropic's format."""
    messages = [{"role": "user", "content": "Find out why the build fails."}]
    for number in range(rounds):
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "read", "input": {"path": "a.py"}}
        result = {
            "type": "tool_result",
            "tool_use_id": f"toolu_{number}",
            "content": f"line {number} of the log. " * words,
        }
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return [*messages, {"role": "assistant", "content": "A comma is missing."}]


def recorded(messages, name, **more):
    """A recorded session as a line of a file holds it."""
    plain = {"id": name, "format": "openai-chat", "system": None, "tools": None, "meta": {}}
    return {**plain, "messages": messages, **more}


@pytest.fixture
def run():
    """Run the command line in this process: ``run("count", path)``; its result has exit_code, stdout and stderr."""

    def invoke(*arguments, stdin=None, env=None):
        return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin, env=env)

    return invoke


@pytest.fixture
def chat():
    """The builder of chat sessions."""
    return chat_session


@pytest.fixture
def anthropic():
    """The builder of Anthropic sessions."""
    return anthropic_session


@pytest.fixture
def record():
    """The builder of recordings."""
    return recorded


@pytest.fixture
def jsonl(tmp_path):
    """Write values as JSON lines, and return the path."""

    def write(*values, name="session.jsonl"):
        path = tmp_path / name
        path.write_text("".join(json.dumps(value) + "\n" for value in values))
        return path

    return write
