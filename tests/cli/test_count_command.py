"""``agentctx count``."""

import json

from agentctx import count


def test_the_count_is_the_library_s(run, jsonl, chat):
    """The command says what ``agentctx.count`` says."""
    told = json.loads(run("count", jsonl(chat(3)), "--json", "--format", "openai-chat").stdout)
    assert told["tokens"] == count(chat(3), format="openai-chat")
    assert told["messages"] == len(chat(3))


def test_system_and_tools_count(run, jsonl, anthropic):
    """What stands beside the messages is counted too."""
    tools = [
        {"name": "read", "description": "Read a file. " * 20, "input_schema": {"type": "object", "properties": {}}}
    ]
    request = {"model": "claude-sonnet-4-5", "system": "Mend. " * 50, "tools": tools, "messages": anthropic(1)}
    told = json.loads(run("count", jsonl(request), "--json").stdout)
    assert told["fixed"] > 100
    assert told["tokens"] == count(anthropic(1), "claude-sonnet-4-5", tools, request["system"], "anthropic")


def test_by_message_adds_up(run, jsonl, chat):
    """One line for each message; with what stands beside them they add up to the whole."""
    path = jsonl(chat(3))
    told = json.loads(run("count", path, "--by-message", "--json").stdout)
    assert told["fixed"] + sum(line["tokens"] for line in told["by_message"]) == told["tokens"]
    shown = run("count", path, "--by-message").stdout
    assert f"{told['tokens']:,}" in shown
    assert "Find out why the build fails." in shown


def test_every_recording_is_a_line(run, jsonl, chat, record):
    """A file of several recordings gives one line each, with its name."""
    shown = run("count", jsonl(record(chat(1), "one"), record(chat(2), "two"))).stdout.splitlines()
    assert [line.split()[-1] for line in shown] == ["one", "two"]
    assert all(" tokens " in line for line in shown)
