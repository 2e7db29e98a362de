"""``agentctx validate``."""

import json

import pytest


def test_a_valid_request_is_said_to_be_valid(run, jsonl, chat, record):
    """Nothing wrong: exit code 0."""
    shown = run("validate", jsonl(record(chat(2), "one")))
    assert (shown.exit_code, shown.stdout.split()[0]) == (0, "valid")


def test_a_violation_has_place_rule_and_words(run, jsonl, chat):
    """A result without a call: exit code 1, and the place, the rule and the provider's words are shown."""
    messages = chat(2)
    del messages[2]
    path = jsonl({"model": "gpt-4o", "messages": messages})
    shown = run("validate", path)
    told = json.loads(run("validate", path, "--json").stdout)
    first = told["violations"][0]
    assert shown.exit_code == 1
    assert first["index"] == 2
    for word in (first["path"], first["rule"], *first["message"].split()[:3]):
        assert word in shown.stdout


def test_a_recording_may_note_its_system_prompt_apart(run, jsonl, chat, record):
    """A chat recording that notes the system prompt beside the messages is no violation."""
    assert run("validate", jsonl(record(chat(1)[1:], "one", system="You mend."))).exit_code == 0


def test_one_bad_recording_among_good_ones_is_found(run, jsonl, chat, record):
    """Every recording is checked, and one that is refused decides the exit code."""
    broken = [message for message in chat(2) if message["role"] != "tool"]
    shown = run("validate", jsonl(record(chat(1), "a"), record(broken, "b"), record(chat(1), "c")), "--json")
    told = {line["id"]: bool(line["violations"]) for line in map(json.loads, shown.stdout.splitlines())}
    assert (shown.exit_code, told) == (1, {"a": False, "b": True, "c": False})


@pytest.mark.parametrize("content", [[], ["text"], [{"role": "user"}], [{"role": 7, "content": {}}], [None], [[]]])
def test_malformed_messages_never_end_in_a_traceback(run, jsonl, content):
    """Whatever the messages are, the answer is violations (1) or one line about the input (2)."""
    shown = run("validate", jsonl({"messages": content}), "--format", "openai-chat")
    assert shown.exit_code in {1, 2}
    assert shown.exception is None or isinstance(shown.exception, SystemExit)
