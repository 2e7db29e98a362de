"""``agentctx count``."""

import json

import pytest

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


@pytest.mark.parametrize(
    "command",
    [
        ("count",),
        ("replay", "--window", "8k", "--all"),
        ("compact", "--window", "8k"),
        ("convert", "--to", "anthropic"),
    ],
)
def test_a_model_that_is_not_known_is_told_once(run, jsonl, chat, record, command):
    """One line on stderr says that a model is not known and how it is counted, however many recordings there are."""
    path = jsonl(record(chat(1), "one"), record(chat(1), "two"))
    shown = run(*command, path, "--model", "my-finetune")
    notes = [line for line in shown.stderr.splitlines() if "note:" in line]
    assert notes == [line for line in notes if "'my-finetune' is not known: counted as o200k_base" in line]
    assert (shown.exit_code, len(notes)) == (0, 1)
    assert "note:" not in shown.stdout
    for model in ("gpt-4o", "claude-sonnet-4-5"):
        assert "note:" not in run(*command, path, "--model", model).stderr
    assert "note:" not in run("count", path).stderr
    before = run("convert", path, "--to", "anthropic", "--from-model", "my-finetune").stderr
    assert "'my-finetune' is not known: counted as o200k_base; --from-model" in before


def test_what_an_unknown_model_of_a_family_is_counted_as_is_told(run, jsonl, chat):
    """The note says by how much more tokens a family's models are taken to have; an odd name stays on the line."""
    told = run(
        "count", jsonl(chat(1)), "--format", "openai-chat", "--model", "deepseek-v99\n\x1b[2J" + "x" * 999
    ).stderr
    assert "counted as o200k_base times 1.05" in run("count", jsonl(chat(1)), "--model", "deepseek-v99").stderr
    assert told.count("\n") == 1
    assert "\x1b" not in told


@pytest.mark.parametrize("command", [("count",), ("replay", "--window", "8k")])
def test_the_note_is_not_in_the_json(run, jsonl, chat, record, command):
    """What --json writes is JSON alone; of the compact command's report on stderr, too."""
    path = jsonl(record(chat(1), "one"))
    shown = run(*command, path, "--model", "my-finetune", "--json")
    assert json.loads(shown.stdout)["id"] == "one"
    assert "note:" in shown.stderr
    report = run("compact", path, "--window", "8k", "--model", "my-finetune", "--json").stderr
    assert json.loads(report)["id"] == "one"
