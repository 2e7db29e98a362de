"""Recorded Chat Completions transcripts, read and written."""

import copy
import gzip
import json

import pytest

from agentctx.formats.registry import detect, format_named
from agentctx.rules import find_violations

CHAT = format_named("openai-chat")

SMALL = {
    "id": "small",
    "system": "be brief",
    "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}],
    "messages": [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "ok"},
        {"role": "assistant", "content": "done"},
    ],
}


@pytest.fixture(scope="module")
def recordings(shared):
    """A small transcript, and every shared one of this format with the name of its file."""
    found = [("small", SMALL)]
    for file in sorted((shared / "transcripts").glob("*.jsonl.gz")) if shared else ():
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            read = map(json.loads, lines)
            found += [(file.name, one) for one in read if one["format"] == "openai-chat"]
    return found


def test_recordings_go_through_unchanged(recordings):
    """Every message, prompt and tool of every recording is read, and written as the same unchanged object."""
    for _, recording in recordings:
        before = copy.deepcopy(recording)
        messages = [CHAT.read_message(native, index) for index, native in enumerate(recording["messages"])]
        assert all(CHAT.write_message(message) is message.source for message in messages)
        assert len(CHAT.read_tools(recording["tools"])) == len(recording["tools"] or ())
        CHAT.read_system(recording["system"])
        assert before == recording


def test_recordings_rebuilt_from_parts_say_the_same(recordings):
    """Every message written anew from equal parts is an equal payload."""
    for _, recording in recordings:
        for index, native in enumerate(recording["messages"]):
            message = CHAT.read_message(native, index)
            assert native == CHAT.write_message(message.with_parts((*message.parts,)))


def test_valid_recordings_break_no_rule(recordings):
    """A recording that its provider took breaks no rule and needs no mending."""
    for name, recording in recordings:
        if name.startswith("messy"):
            continue
        request = {"messages": recording["messages"], "tools": recording["tools"]}
        assert [one for one in find_violations(CHAT, request) if one.severity == "error"] == [], recording["id"]
        messages = [CHAT.read_message(native, index) for index, native in enumerate(recording["messages"])]
        assert CHAT.repair(messages, {}) == ()


def test_recordings_are_recognised(recordings):
    """Every recording is found to be in this format."""
    for _, recording in recordings:
        assert detect({key: recording[key] for key in ("messages", "tools", "system")}) is CHAT
