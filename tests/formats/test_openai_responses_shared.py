"""The shared vectors and recordings of the Responses API."""

import copy
import gzip
import json

import pytest

from agentctx.formats.registry import detect, format_named
from agentctx.rules import find_violations

WIRE = format_named("openai-responses")

SMALL = {
    "id": "small",
    "system": "be brief",
    "tools": [{"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}}],
    "messages": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
        {"type": "reasoning", "summary": [], "content": None},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "allowed"}]},
        {"type": "function_call_output", "call_id": "c1", "output": "ok"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]},
    ],
}


@pytest.fixture(scope="module")
def recordings(shared):
    """A small transcript, and every shared one of this format with the name of its file."""
    found = [("small", SMALL)]
    for file in sorted((shared / "transcripts").glob("*.jsonl.gz")) if shared else ():
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            read = map(json.loads, lines)
            found += [(file.name, one) for one in read if one["format"] == "openai-responses"]
    return found


def messages_of(recording):
    """A recording's items as values."""
    return [WIRE.read_message(native, index) for index, native in enumerate(recording["messages"])]


def test_shared_vectors_have_their_verdicts(shared):
    """Every shared vector comes out as labelled, and an illegal one breaks the labelled rule alone."""
    if shared is None:
        pytest.skip("the shared vectors are not beside the repository")
    lines = (shared / "vectors/wire_vectors.jsonl").read_text(encoding="utf-8").splitlines()
    vectors = [vector for vector in map(json.loads, lines) if vector["id"].startswith("R-")]
    for vector in vectors:
        found = find_violations(WIRE, vector["req"], None, vector.get("before"))
        expected = set() if vector["expect"] == "ok" else {(vector["expect"], vector["rule"])}
        assert {(violation.severity, violation.rule) for violation in found} == expected, vector["id"]


def test_recordings_go_through_unchanged(recordings):
    """Every item, prompt and tool of every recording is read, and written as the same unchanged object."""
    for _, recording in recordings:
        before = copy.deepcopy(recording)
        assert all(WIRE.write_message(message) is message.source for message in messages_of(recording))
        assert len(WIRE.read_tools(recording["tools"])) == len(recording["tools"] or ())
        WIRE.read_system(recording["system"])
        assert before == recording


def test_recordings_rebuilt_from_parts_say_the_same(recordings):
    """Every item written anew from equal parts is an equal item."""
    for _, recording in recordings:
        for message in messages_of(recording):
            assert message.source == WIRE.write_message(message.with_parts((*message.parts,)))


def test_valid_recordings_break_no_rule(recordings):
    """A recording that its provider took breaks no rule and needs no mending."""
    for name, recording in recordings:
        if name.startswith("messy"):
            continue
        request = {"input": recording["messages"], "tools": recording["tools"]}
        assert [one for one in find_violations(WIRE, request) if one.severity == "error"] == [], recording["id"]
        assert WIRE.repair(messages_of(recording), {}) == ()


def test_recordings_are_recognised(recordings):
    """Every recording is found to be in this format."""
    for _, recording in recordings:
        assert detect({key: recording[key] for key in ("messages", "tools", "system")}) is WIRE
