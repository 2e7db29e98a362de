"""What becomes of a conversation at another provider, and what is said of it."""

import json

import pytest

from agentctx import InvalidInput, Outcome, convert, count, validate
from agentctx.formats.dialects import DIALECTS
from agentctx.testing.assertions import outcomes

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
ASKED = {"type": "tool_use", "id": "toolu_01", "name": "read", "input": {"path": "a.py"}}
THOUGHT = {"type": "thinking", "thinking": "I had better look.", "signature": "c2lnbmVk"}
CLAUDE = [
    {"role": "user", "content": "Why does it fail?"},
    {"role": "assistant", "content": [THOUGHT, {"type": "text", "text": "I look."}, ASKED]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_01", "content": "a = 1"}]},
]


def from_claude(to, messages=CLAUDE, **more):
    """A conversation with Claude, taken elsewhere."""
    return convert(messages, to, format="anthropic", **more)


def test_a_round_with_claude_becomes_chat_messages():
    """Words and calls stand in one message, the result in another, the system prompt first."""
    done = from_claude("openai-chat", system="Mend.")
    call = {"id": "toolu_01", "type": "function", "function": {"name": "read", "arguments": '{"path": "a.py"}'}}
    assert done.messages == [
        {"role": "system", "content": "Mend."},
        {"role": "user", "content": "Why does it fail?"},
        {"role": "assistant", "content": "I look.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "toolu_01", "content": "a = 1", "name": "read"},
    ]
    assert (done.system, done.tools) == (None, None)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_gets_the_tools_of_chat(dialect):
    """Tools go to each dialect of Chat as they go to Chat itself."""
    tools = [{"name": "read", "description": "Reads.", "input_schema": {"type": "object", "properties": {}}}]
    done = from_claude(f"openai-chat/{dialect}", tools=tools)
    assert done.tools == from_claude("openai-chat", tools=tools).tools
    assert done.tools[0]["function"]["name"] == "read"


def test_a_round_with_claude_becomes_items():
    """Each word, call and answer is an item of its own, and the system prompt the instructions."""
    done = from_claude("openai-responses", system="Mend.")
    assert [item.get("type", item.get("role")) for item in done.messages] == [
        "user",
        "assistant",
        "function_call",
        "function_call_output",
    ]
    assert done.system == "Mend."


def test_a_round_with_claude_becomes_contents():
    """Gemini gets names in its responses, and a stand-in for the signature that only its own model could make."""
    done = from_claude("gemini", model="gemini-3.1-pro-preview", system="Mend.")
    asked, answered = done.messages[1]["parts"][-1], done.messages[2]["parts"][0]
    assert asked["thoughtSignature"] == "skip_thought_signature_validator"
    assert answered["functionResponse"]["name"] == "read"
    assert done.system == {"parts": [{"text": "Mend."}]}


def test_converse_gets_the_tools_that_were_called():
    """Bedrock refuses calls without tools; where none are on offer, those that were called are named."""
    done = from_claude("bedrock")
    assert [tool["toolSpec"]["name"] for tool in done.tools] == ["read"]
    assert "placeholders for read" in done.report.stages[0].notes[0]


def test_reasoning_stays_with_its_model_and_is_reported():
    """Signed thinking goes, and the report says of which message, and why."""
    done = from_claude("openai-chat")
    assert "I had better look." not in json.dumps(done.messages)
    (change,) = done.report.changes
    assert (change.index, change.outcome) == (1, Outcome.EDITED)
    assert "reasoning stays" in change.reason


def test_nothing_but_reasoning_is_nothing():
    """A message that only thinks has no counterpart: it is dropped, and the report says so."""
    alone = [*CLAUDE[:1], {"role": "assistant", "content": [THOUGHT]}, {"role": "user", "content": "And?"}]
    done = from_claude("openai-chat", alone)
    assert [message["role"] for message in done.messages] == ["user", "user"]
    assert outcomes(done.report)[1] is Outcome.DROPPED


@pytest.mark.parametrize("foreign", ["functions.bash:0", "call|fc_68e5", "x" * 90, "ünïcode", "", "bash 1"])
@pytest.mark.parametrize("to", ["anthropic", "openai-responses", "bedrock", "gemini"])
def test_foreign_ids_are_respelled_alike(foreign, to):
    """An id that the provider refuses is another one, and the same in call and result."""
    call = {"id": foreign, "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": foreign, "content": "ok"},
        {"role": "user", "content": "on"},
    ]
    done = convert(messages, to, format="openai-chat")
    assert not [found for found in validate({"messages": done.messages}, format=to) if found.severity == "error"]
    again = convert(messages[:3], to, format="openai-chat")
    assert done.messages[: len(again.messages) - 1] == again.messages[:-1]


def test_repeated_ids_are_told_apart_where_they_have_to_be():
    """Chat may use an id again in another round; Anthropic may not."""
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    a_round = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
    ]
    done = convert([{"role": "user", "content": "go"}, *a_round, *a_round], "anthropic", format="openai-chat")
    first, second = (done.messages[place]["content"][0]["id"] for place in (1, 3))
    assert first == "c1" != second
    assert [done.messages[place]["content"][0]["tool_use_id"] for place in (2, 4)] == [first, second]


def test_pictures_of_tools_are_shown_by_the_user_where_tools_cannot():
    """Chat takes no picture in a result: it comes in a user message behind the results."""
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    shown = {"type": "tool_result", "tool_use_id": "toolu_01", "content": [{"type": "text", "text": "see"}, picture]}
    done = from_claude("openai-chat", [*CLAUDE[:2], {"role": "user", "content": [shown]}])
    assert [message["role"] for message in done.messages] == ["user", "assistant", "tool", "user"]
    assert done.messages[3]["content"][1]["image_url"]["url"] == f"data:image/png;base64,{PIXEL}"
    assert "the user shows the image that a tool returned" in done.report.changes[-1].reason


def test_media_that_a_provider_does_not_take_are_named():
    """A sound becomes a text that says that it is missing, and the report says so."""
    sound = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "Hear."}, sound]}]
    done = convert(messages, "anthropic", format="openai-chat")
    assert done.messages[0]["content"][1]["text"] == "[audio/wav left out]"
    assert done.report.changes[0].reason == "this audio cannot be sent here"


def test_a_document_of_plain_text_becomes_text():
    """What is text anyway is sent as text where documents have to be PDFs."""
    data = "aGVsbG8="
    messages = [{"role": "user", "parts": [{"inlineData": {"mimeType": "text/plain", "data": data}}]}]
    assert convert(messages, "openai-chat", format="gemini").messages == [{"role": "user", "content": "hello"}]


def test_files_that_only_one_provider_has_are_named():
    """An uploaded file's id means nothing elsewhere."""
    file = {"type": "image", "source": {"type": "file", "file_id": "file_011C"}}
    done = from_claude("openai-chat", [{"role": "user", "content": [file]}])
    assert done.messages[0]["content"] == "[image left out: file_011C]"


def test_what_can_be_read_of_a_server_tool_becomes_text():
    """A search that the provider ran is told in words."""
    found = [{"type": "web_search_result", "url": "https://example.com", "title": "Weather", "encrypted_content": "RW"}]
    searched = [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "rain"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": found},
        {"type": "text", "text": "It rains."},
    ]
    done = from_claude("openai-chat", [*CLAUDE[:1], {"role": "assistant", "content": searched}])
    said = done.messages[1]["content"]
    assert all(word in said for word in ("rain", "Weather", "https://example.com", "It rains."))
    assert "RW" not in said.split()


def test_a_summary_of_the_provider_stays_readable():
    """What Anthropic compacted on its side is text everywhere else."""
    block = {"type": "compaction", "content": "They mended the parser."}
    messages = [{"role": "assistant", "content": [block]}, {"role": "user", "content": "Go on."}]
    done = from_claude("openai-responses", messages)
    assert "They mended the parser." in json.dumps(done.messages)


def test_the_free_text_of_a_custom_tool_is_wrapped():
    """A custom tool becomes a function of one text, and so do its calls."""
    items = [
        {"role": "user", "content": "Patch it."},
        {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": '{"not": "arguments"}'},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"},
    ]
    tools = [{"type": "custom", "name": "apply_patch", "description": "Patches."}]
    done = convert(items, "anthropic", format="openai-responses", tools=tools)
    assert done.messages[1]["content"][0]["input"] == {"input": '{"not": "arguments"}'}
    assert done.tools[0]["input_schema"]["required"] == ["input"]


def test_late_answers_stand_behind_their_calls():
    """Where an answer may not stand anywhere, it is moved to its call."""
    items = [
        {"role": "user", "content": "go"},
        {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": "{}"},
        {"role": "user", "content": "hurry"},
        {"role": "assistant", "content": "Soon."},
        {"type": "function_call_output", "call_id": "c1", "output": "ok"},
    ]
    done = convert(items, "openai-chat", format="openai-responses")
    assert [message["role"] for message in done.messages] == ["user", "assistant", "tool", "user", "assistant"]


def test_results_and_words_are_parted_for_models_that_want_it():
    """On Bedrock, Mistral refuses results and words in one turn: the model says a word between them."""
    messages = [*CLAUDE[:2], {"role": "user", "content": [CLAUDE[2]["content"][0], {"type": "text", "text": "Hurry."}]}]
    done = from_claude("bedrock", messages, model="mistral.mistral-large-2402-v1:0")
    assert [message["role"] for message in done.messages] == ["user", "assistant", "user", "assistant", "user"]
    request = {"messages": done.messages, "modelId": "mistral.mistral-large-2402-v1:0", "tools": done.tools}
    assert not validate(request, format="bedrock")


def test_the_report_counts_in_both_formats():
    """Sizes are those of the request before and after, each as its provider counts."""
    done = from_claude("openai-chat")
    assert done.report.tokens_before == count(CLAUDE, format="anthropic")
    assert done.report.tokens_after == count(done.messages, format="openai-chat")


def test_within_one_format_messages_stay_the_objects_that_they_are():
    """Nothing has to be done for the same provider and model."""
    done = from_claude("anthropic")
    assert all(one is other for one, other in zip(done.messages, CLAUDE, strict=True))
    assert not done.report.acted


@pytest.mark.parametrize(
    ("to", "made_by", "called", "kept"),
    [
        ("anthropic", "claude-opus-4-5", "claude-opus-4-6", True),
        ("anthropic", "claude-opus-4-6", "claude-sonnet-5-5", False),
        ("anthropic", None, "claude-opus-4-6", False),
    ],
)
def test_another_model_of_the_same_provider_may_not_take_the_reasoning(to, made_by, called, kept):
    """Claude models read each other's reasoning, unless it is bound to one of them or its maker is not known."""
    done = from_claude(to, model=called, from_model=made_by)
    assert ("thinking" in json.dumps(done.messages)) is kept


def test_items_lose_the_ids_that_tie_them_to_reasoning():
    """For a GPT of another version the reasoning goes, and with it the ids that refer to it."""
    items = [
        {"role": "user", "content": "go"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "bash", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "ok"},
    ]
    done = convert(items, "openai-responses", format="openai-responses", from_model="gpt-5.5", model="gpt-5.6-sol")
    assert [item.get("type") for item in done.messages] == [None, "function_call", "function_call_output"]
    assert "id" not in done.messages[1]
    kept = convert(items, "openai-responses", format="openai-responses", from_model="gpt-5.6-sol", model="gpt-5.6-luna")
    assert kept.messages == items


def test_an_unknown_format_is_refused():
    """The error lists the formats that there are."""
    with pytest.raises(InvalidInput, match="gemini"):
        from_claude("claude")
