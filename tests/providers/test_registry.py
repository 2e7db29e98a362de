"""Finding a request's wire format."""

import re

import pytest
from histories import histories
from hypothesis import given, strategies as st

from agentctx import AmbiguousFormat, InvalidInput, validate
from agentctx.engine.reading import reader
from agentctx.providers.other_tools import TOOLS, tool_of
from agentctx.providers.registry import FORMATS, detect, detected, format_named

PLAIN = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_found_by_its_name(name):
    """Every format is listed under its own name."""
    assert format_named(name).name == name


def test_an_unknown_name_is_refused_with_the_known_ones():
    """An unknown name is an error that lists the known ones."""
    with pytest.raises(InvalidInput, match="'openai-chat'") as caught:
        format_named("smoke-signals")
    assert caught.value.where == "format"
    assert all(repr(name) in str(caught.value) for name in FORMATS)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"messages": [{"role": "system", "content": "s"}, *PLAIN]}, "openai-chat"),
        ({"messages": [{"role": "developer", "content": "s"}, *PLAIN]}, "openai-chat"),
        ({"messages": [*PLAIN, {"role": "tool", "tool_call_id": "c", "content": "x"}]}, "openai-chat"),
        ({"messages": [*PLAIN, {"role": "assistant", "content": None, "tool_calls": [CALL]}]}, "openai-chat"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]}]},
            "openai-chat",
        ),
        ({"messages": PLAIN, "tools": [{"type": "function", "function": {"name": "f"}}]}, "openai-chat"),
        ({"messages": PLAIN, "response_format": {"type": "json_object"}}, "openai-chat"),
        ({"messages": PLAIN, "system": "s"}, "anthropic"),
        ({"messages": PLAIN, "tools": [{"name": "f", "input_schema": {}}]}, "anthropic"),
        ({"messages": [{"role": "assistant", "content": [{"type": "tool_use"}]}]}, "anthropic"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, "anthropic"),
    ],
)
def test_a_request_is_recognised_by_what_it_holds(request_, expected):
    """Roles, keys, blocks and tools that only one format has decide."""
    assert expected == detect(request_).name


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("claude-opus-5", "anthropic"),
        ("openrouter/anthropic/claude-sonnet-4-6", "anthropic"),
        ("gpt-5.4", "openai-chat"),
        ("o3", "openai-chat"),
        ("DeepSeek-V4", "openai-chat/deepseek"),
        ("gemini-2.5-flash", "openai-chat"),
    ],
)
def test_the_model_decides_what_the_messages_leave_open(model, expected):
    """Plain text fits several formats; the model's name decides, given apart or in the request."""
    assert expected == detect({"messages": PLAIN}, model).name
    assert expected == detect({"messages": PLAIN, "model": model}).name


def test_the_model_never_overrules_the_messages():
    """A model of another provider does not change what the messages show."""
    request = {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [CALL]}]}
    assert detect(request, "claude-opus-5").name == "openai-chat"


@pytest.mark.parametrize("model", [None, "my-finetune"])
@pytest.mark.parametrize(
    "messages",
    [
        PLAIN,
        [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        [{"role": "user", "content": "hi"}, {"role": "assistant", "content": [{"type": "text", "text": "x"}]}],
    ],
)
def test_what_means_the_same_everywhere_is_no_ambiguity(messages, model):
    """Messages that all fitting formats read alike need no format; that it is open is said, for those to come."""
    found = detected({"messages": messages}, model)
    assert (found.wire.name, found.certain) == ("openai-chat", False)
    assert detected({"messages": [*messages, {"role": "tool", "tool_call_id": "c", "content": "x"}]}, model).certain


@pytest.mark.parametrize("model", [None, "my-finetune"])
def test_what_stays_open_is_an_error(model):
    """Where it makes a difference, a request without a known model is ambiguous, and the error says what to pass."""
    tools = [{"name": "look", "parameters": {"type": "object"}}]
    with pytest.raises(AmbiguousFormat, match=r"pass format=") as caught:
        detect({"messages": PLAIN, "tools": tools}, model)
    assert caught.value.where == "messages"


LANGCHAIN = {"type": "human", "data": {"content": "find it", "type": "human"}}
OTHERS = {
    "LangChain": LANGCHAIN,
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


@pytest.mark.parametrize("format_name", [None, *FORMATS])
@pytest.mark.parametrize(("tool", "message"), OTHERS.items(), ids=OTHERS)
def test_other_tools_shapes_are_refused_by_name(tool, message, format_name):
    """A transcript of another tool is never taken for a provider's, whatever format is named."""
    with pytest.raises(InvalidInput, match=tool.strip()) as caught:
        reader([message, message], format=format_name)
    assert caught.value.where == "messages[0]"


@pytest.mark.parametrize(("tool", "document"), DOCUMENTED.items(), ids=DOCUMENTED)
def test_other_tools_files_are_told_by_name(tool, document):
    """A file of another tool is known as that tool's, also where it holds messages or input as a request does."""
    assert re.search(tool.strip(), tool_of(document).name)


@pytest.mark.parametrize("format_name", [None, "openai-responses"])
@pytest.mark.parametrize(("tool", "document"), [*OTHERS.items(), *DOCUMENTED.items()], ids=[*OTHERS, *DOCUMENTED])
def test_other_tools_files_are_no_requests(tool, document, format_name):
    """What another tool or a data set keeps is never called legal."""
    with pytest.raises(InvalidInput, match=tool.strip()) as caught:
        validate(document, format_name)
    assert caught.value.where == "request"


def test_a_tool_s_shape_is_seen_where_it_first_differs():
    """Messages that begin as a provider's do are refused by the first call of a tool in another's shape."""
    call = {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "1", "toolName": "x", "input": {}}]}
    with pytest.raises(InvalidInput, match="AI SDK") as caught:
        reader([*PLAIN, *PLAIN, PLAIN[0], call], format="openai-chat")
    assert caught.value.where == "messages[5]"


@pytest.mark.parametrize("more", [{"created": 1}, {"message_type": "text"}, {"timestamp": 1}, {"id": "m"}, {"ts": 1}])
def test_a_remark_of_one_s_own_beside_a_message_makes_it_no_other_tool_s(more):
    """A message with a date or an id of its own beside role and content stays one of its provider's."""
    assert tool_of({"role": "user", "content": "hi", **more}) is None


@pytest.mark.parametrize("name", FORMATS)
@given(data=st.data())
def test_no_request_is_taken_for_another_tool_s(name, data):
    """No message of a provider has the shape of another tool."""
    history = data.draw(histories(name))
    assert [native for native in history.messages if tool_of(native, TOOLS) is not None] == []
    for key in ("messages", "input", "contents"):
        assert tool_of({"model": "m", key: history.messages, "tools": history.tools, "metadata": {}}) is None


@pytest.mark.parametrize("messages", [[{"role": "robot", "content": "x"}], [5], 5, None, "x"])
def test_what_no_format_fits_is_an_error(messages):
    """What is in no known format is refused and not taken for ambiguous."""
    with pytest.raises(InvalidInput) as caught:
        detect({"messages": messages})
    assert not isinstance(caught.value, AmbiguousFormat)


@pytest.mark.parametrize(
    "item",
    [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "x"}]},
        {"role": "developer", "content": [{"type": "input_text", "text": "x"}]},
        {"role": "user", "content": [{"text": "x"}]},
        {"role": "user", "parts": [{"text": "x"}], "content": [{"toolUse": {}}]},
    ],
)
def test_items_of_other_formats_are_not_taken_for_chat(item):
    """Items of Responses, Bedrock and Gemini are impossible in Chat Completions."""
    assert format_named("openai-chat").recognises({"messages": [item]}) == 0
