"""Files of other tools and records of data sets, told apart by their shape."""

import json
import re

import pytest
from histories import histories
from hypothesis import given, strategies as st

from agentctx import InvalidInput
from agentctx.formats.registry import FORMATS
from agentctx.transcripts import exchanges
from agentctx.transcripts.files import tool_of
from agentctx.transcripts.reading import READERS, read_transcripts

PLAIN = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]
OTHERS = {
    "LangChain": {"type": "human", "data": {"content": "find it", "type": "human"}},
    "LangChain ": {"type": "ai", "content": "", "tool_calls": [], "additional_kwargs": {}},
    "LangChain  ": {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "HumanMessage"], "kwargs": {}},
    "pydantic-ai": {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "find it"}]},
    "ShareGPT": {"from": "human", "value": "find it"},
    "AI SDK": {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "find it"}]},
    "LlamaIndex": {"role": "user", "blocks": [{"block_type": "text", "text": "find it"}]},
    "Haystack": {"role": "user", "meta": {}, "name": None, "content": [{"text": "find it"}]},
    "AutoGen": {"source": "user", "content": "find it", "type": "TextMessage"},
    "Claude Code": {"type": "user", "sessionId": "s", "uuid": "1", "message": {"role": "user", "content": "find it"}},
    "Codex": {"timestamp": "t", "type": "response_item", "payload": {"type": "message", "role": "user"}},
    "OpenHands": {"id": 0, "source": "user", "action": "message", "args": {"content": "find it"}},
    "Google ADK": {"author": "user", "invocation_id": "i", "content": {"parts": [{"text": "x"}], "role": "user"}},
    "Semantic Kernel": {"role": "user", "items": [{"content_type": "text", "text": "find it"}]},
    "Microsoft": {"type": "chat_message", "role": "user", "contents": [{"type": "text", "text": "find it"}]},
    "batch": {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {}},
    "Anthropic batch": {"custom_id": "1", "params": {"model": "claude", "messages": []}},
    "RunItem": {"type": "message_output_item", "agent": "x", "raw_item": {"type": "message", "role": "assistant"}},
    "Cline or Roo": {"ts": 1, "type": "say", "say": "text", "text": "find it"},
    "Cline or Roo ": {"ts": 1, "type": "ask", "ask": "tool", "text": "{}", "partial": False},
    "ShareGPT ": {"id": "1", "conversations": [{"from": "human", "value": "find it"}]},
    "AI SDK ": {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "1", "toolName": "x", "output": {}}]},
    "AI SDK  ": {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "1", "input": {}}]},
    "AI SDK   ": {"role": "user", "content": [{"type": "file", "data": "AA==", "mediaType": "application/pdf"}]},
    "AI SDK    ": {"role": "assistant", "content": "", "toolInvocations": [{"toolCallId": "1", "state": "result"}]},
    "A2A": {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "find it"}]},
    "A2A ": {"message_id": "m", "role": "ROLE_USER", "parts": [{"text": "find it"}]},
    "A2A  ": {"role": "agent", "parts": [{"kind": "data", "data": {"found": 1}}]},
    "A2A   ": {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "working"}},
    "OpenTelemetry": {"role": "user", "parts": [{"type": "text", "content": "find it"}]},
    "Inspect": {"id": "a", "role": "user", "content": "find it", "source": "input"},
    "Inspect ": {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "function": "sh", "arguments": {}}]},
    "Inspect  ": {"role": "tool", "content": "x", "tool_call_id": "1", "function": "sh"},
    "Goose": {"role": "user", "created": 1, "content": [{"type": "text", "text": "find it"}]},
    "Goose ": {"role": "assistant", "content": [{"type": "toolRequest", "id": "1", "toolCall": {"status": "success"}}]},
    "Gemini CLI": {"id": "1", "timestamp": "t", "type": "user", "content": "find it"},
    "Gemini CLI ": {"sessionId": "s", "messageId": 0, "type": "user", "message": "find it", "timestamp": "t"},
    "Continue": {"message": {"role": "user", "content": "find it"}, "contextItems": []},
    "opencode": {"info": {"id": "m", "role": "user"}, "parts": [{"type": "text", "text": "find it"}]},
    "Strands": {"message": {"role": "user", "content": [{"text": "find it"}]}, "message_id": 0},
    "Letta": {"message_type": "user_message", "content": "find it", "id": "message-1"},
    "smolagents": {"role": "tool-call", "content": [{"type": "text", "text": "x"}]},
    "Claude .export": {"uuid": "u", "sender": "human", "text": "find it", "content": []},
    "AG-UI": {"id": "m", "role": "assistant", "toolCalls": [{"id": "1", "type": "function", "function": {}}]},
    "AG-UI ": {"id": "m", "role": "tool", "toolCallId": "1", "content": "x"},
    "Langfuse": {"id": "o", "traceId": "t", "type": "GENERATION", "input": [], "output": {}},
    "Alpaca": {"instruction": "find it", "input": "", "output": "x"},
    "Alpaca ": {"instruction": "find it", "output": "x", "text": "find it x"},
    "Dolly": {"instruction": "find it", "context": "", "response": "x", "category": "qa"},
    "OpenAssistant": {"message_id": "m", "parent_id": None, "role": "prompter", "text": "find it", "lang": "en"},
    "OpenAssistant ": {"message_tree_id": "t", "prompt": {"role": "prompter", "text": "find it", "replies": []}},
    "preferences": {"chosen": "Human: find it", "rejected": "Human: x"},
    "preferences ": {"prompt": "x", "chosen": [{"role": "user", "content": "hi"}], "rejected": []},
    "preferences  ": {"input": {"messages": []}, "preferred_output": [], "non_preferred_output": []},
    "prompt, completion": {"prompt": "find it", "completion": " x"},
    "UltraChat": {"id": "0", "data": ["find it", "x"]},
    "data set": {"input": "find it", "output": "x"},
    "data set ": {"input": [{"role": "user", "content": "find it"}], "ideal": "x"},
    "data set  ": {"input": "find it", "expected_output": "x", "metadata": {}},
    "data set   ": {"id": "t", "name": "run", "input": [], "output": None, "timestamp": "t"},
    "Assistants": {"id": "m", "object": "thread.message", "role": "user", "content": []},
    "Chat Completions": {"id": "c", "object": "chat.completion", "choices": [{"message": {"role": "assistant"}}]},
    "Responses": {"id": "r", "object": "response", "output": []},
    "answer of Gemini": {"candidates": [{"content": {"role": "model", "parts": [{"text": "x"}]}}]},
    "Cohere": {"role": "USER", "message": "find it"},
    "MCP": {"role": "user", "content": {"type": "text", "text": "find it"}},
    "ChatGPT": {"title": "t", "mapping": {"a": {"id": "a", "message": None}}},
    "Claude .export. ": {"uuid": "u", "name": "n", "chat_messages": []},
    "Slack": {"type": "message", "user": "U1", "text": "find it", "ts": "1"},
}
DOCUMENTED = {
    "ShareGPT": {"id": "1", "conversations": [{"from": "human", "value": "find it"}]},
    "LiteLLM": {"call_type": "acompletion", "model": "gpt-4o", "messages": PLAIN, "response": {"choices": []}},
    "Langfuse": {"id": "t", "input": PLAIN, "output": "x", "observations": []},
    "LangSmith": {"run_type": "llm", "inputs": {"messages": PLAIN}},
    "LangSmith ": {"inputs": {"messages": PLAIN}, "outputs": {}},
    "Gemini CLI": {"sessionId": "s", "projectHash": "h", "startTime": "t", "messages": []},
    "Continue": {"sessionId": "s", "title": "t", "history": [{"message": PLAIN[0], "contextItems": []}]},
    "Claude .export": {"uuid": "u", "name": "n", "chat_messages": []},
    "Goose": {"working_dir": "/", "description": "d", "message_count": 1},
    "opencode": {"info": {"id": "s"}, "messages": [{"info": {}, "parts": []}]},
}


@pytest.mark.parametrize(("tool", "message"), OTHERS.items(), ids=OTHERS)
def test_a_tool_is_told_by_the_shape_of_its_messages(tool, message):
    """A message of another tool is known as that tool's."""
    assert re.search(tool.strip(), tool_of(message, document=False).name)


@pytest.mark.parametrize(("tool", "document"), DOCUMENTED.items(), ids=DOCUMENTED)
def test_a_tool_is_told_by_the_shape_of_its_files(tool, document):
    """A file of another tool is known as that tool's, also where it holds messages or input as a request does."""
    assert re.search(tool.strip(), tool_of(document).name)


UNREAD = {
    tool: message
    for tool, message in OTHERS.items()
    if tool_of(message).name not in READERS and exchanges.name_of(message) is None
}


@pytest.mark.parametrize("holds", ["one", "list", "messages"])
@pytest.mark.parametrize(("tool", "message"), UNREAD.items(), ids=UNREAD)
def test_a_recording_that_is_not_read_is_refused_by_name(tmp_path, tool, message, holds):
    """A transcript of another tool is never taken for a provider's."""
    value = {"one": message, "list": [message, message], "messages": {"messages": [message, message]}}[holds]
    (tmp_path / "file.json").write_text(json.dumps(value))
    with pytest.raises(InvalidInput, match=tool.strip()):
        list(read_transcripts(str(tmp_path / "file.json")))


def test_a_tool_s_shape_is_seen_where_it_first_differs(tmp_path):
    """Messages that begin as a provider's do are refused by the first call of a tool in another's shape."""
    call = {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "1", "toolName": "x", "input": {}}]}
    (tmp_path / "file.json").write_text(json.dumps([*PLAIN, *PLAIN, PLAIN[0], call]))
    with pytest.raises(InvalidInput, match="AI SDK"):
        list(read_transcripts(str(tmp_path / "file.json")))


@pytest.mark.parametrize("more", [{"created": 1}, {"message_type": "text"}, {"timestamp": 1}, {"id": "m"}, {"ts": 1}])
def test_a_remark_of_one_s_own_beside_a_message_makes_it_no_other_tool_s(more):
    """A message with a date or an id of its own beside role and content stays one of its provider's."""
    assert tool_of({"role": "user", "content": "hi", **more}) is None


@pytest.mark.parametrize("name", FORMATS)
@given(data=st.data())
def test_no_request_is_taken_for_another_tool_s(name, data):
    """No message of a provider has the shape of another tool."""
    history = data.draw(histories(name))
    assert [native for native in history.messages if tool_of(native, document=False) is not None] == []
    for key in ("messages", "input", "contents"):
        assert tool_of({"model": "m", key: history.messages, "tools": history.tools, "metadata": {}}) is None
