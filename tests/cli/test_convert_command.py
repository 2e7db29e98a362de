"""``agentctx convert``."""

import json

import pytest

from agentctx import validate

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def test_a_recorded_session_stays_one(run, jsonl, chat, record):
    """A session of one format comes out as a session of another, with its id and what else was noted."""
    done = run("convert", jsonl(record(chat(2), "one", meta={"who": "me"})), "--to", "anthropic")
    made = json.loads(done.stdout)
    assert (made["id"], made["format"], made["meta"]) == ("one", "anthropic", {"who": "me"})
    assert made["system"] == "You mend software."
    assert [message["role"] for message in made["messages"]] == ["user", "assistant"] * 3
    assert "one: 7 -> 6 messages" in done.stderr


@pytest.mark.parametrize("to", ["openai-chat", "openai-responses", "gemini", "bedrock"])
def test_a_request_stays_one(run, jsonl, anthropic, to):
    """A request comes out under the names that its new provider gives its parts, and the provider takes it."""
    tools = [{"name": "read", "input_schema": {"type": "object", "properties": {}}}]
    request = {"model": "claude-sonnet-4-5", "system": "Mend.", "messages": anthropic(1)[:-1], "tools": tools}
    done = run("convert", jsonl(request), "--to", to, "--model", "m")
    made = json.loads(done.stdout)
    assert done.exit_code == 0
    assert not [found for found in validate(made, format=to) if found.severity == "error"]
    assert made.get("model", made.get("modelId")) == "m"
    assert "Mend." in done.stdout


def test_a_converse_request_brings_its_tools(run, jsonl):
    """The tools of a Converse request stand in its toolConfig."""
    spec = {"toolSpec": {"name": "read", "inputSchema": {"json": {"type": "object"}}}}
    request = {"messages": [{"role": "user", "content": [{"text": "go"}]}], "toolConfig": {"tools": [spec]}}
    made = json.loads(run("convert", jsonl(request), "--to", "openai-chat", "--format", "bedrock").stdout)
    assert made["tools"][0]["function"]["name"] == "read"


def test_a_list_stays_a_list(run, jsonl, anthropic):
    """Messages without a system prompt and tools come out as a list."""
    done = run("convert", jsonl(anthropic(1), name="messages.json"), "--to", "openai-chat")
    assert [message["role"] for message in json.loads(done.stdout)] == ["user", "assistant", "tool", "assistant"]


def test_a_list_becomes_a_request_where_the_system_prompt_stands_apart(run, jsonl, chat):
    """Nothing gets lost: a system prompt that cannot stand among the messages stands beside them."""
    made = json.loads(run("convert", jsonl(chat(1)), "--to", "gemini").stdout)
    assert made["system_instruction"] == {"parts": [{"text": "You mend software."}]}


def test_message_lines_stay_lines(run, jsonl, anthropic):
    """One message a line in, one message a line out."""
    done = run("convert", jsonl(*anthropic(1)), "--to", "openai-chat")
    assert [json.loads(line)["role"] for line in done.stdout.splitlines()][:2] == ["user", "assistant"]


def test_bytes_are_written_as_base64(run, jsonl):
    """AWS's client takes bytes; a file of JSON holds them in base64."""
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    done = run("convert", jsonl([{"role": "user", "content": [picture]}]), "--to", "bedrock", "--format", "anthropic")
    assert json.loads(done.stdout)[0]["content"][0]["image"]["source"]["bytes"] == PIXEL


def test_settings_that_are_left_out_are_named(run, jsonl, anthropic):
    """What only the old provider knows is not taken along, and stderr says so."""
    done = run("convert", jsonl({"max_tokens": 9, "top_k": 5, "messages": anthropic(1)}), "--to", "openai-chat")
    assert "max_tokens" not in done.stdout
    assert "set these anew for the provider: max_tokens, top_k" in done.stderr


def test_the_report_can_be_json(run, jsonl, anthropic):
    """--json writes the report to stderr, one document for each recording."""
    told = json.loads(run("convert", jsonl({"messages": anthropic(1)}), "--to", "openai-chat", "--json").stderr)
    assert told["messages_before"] == told["messages_after"] == 4


def test_out_is_written_as_a_whole_or_not_at_all(run, tmp_path, chat, record):
    """When a later line is broken, the file that was there stays."""
    target, source = tmp_path / "out.jsonl", tmp_path / "in.jsonl"
    target.write_text("old")
    source.write_text(json.dumps(record(chat(1), "a")) + "\n" + json.dumps(record(chat(1), "b")) + '\n{"mess')
    done = run("convert", source, "--to", "anthropic", "--out", target)
    assert (done.exit_code, target.read_text()) == (2, "old")
    assert "line 3" in done.stderr


@pytest.mark.parametrize(("options", "said"), [(["--to", "claude"], "no wire format is called 'claude'"), ([], "--to")])
def test_a_wrong_target_is_an_error(run, jsonl, chat, options, said):
    """A format that nobody knows, or none at all, ends the command with exit code 2."""
    done = run("convert", jsonl(chat(1)), *options)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr
