"""What a conversation loses on its way to another provider stands in the report, of every message."""

import json

import pytest
from hypothesis import given
from hypothesis.strategies import lists, sampled_from

from agentctx import convert, validate
from agentctx.formats.dialects import DIALECTS
from agentctx.formats.registry import format_named
from agentctx.reports import report_text

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WAV = {"type": "input_audio", "input_audio": {"data": "UklGRiQAAABXQVZF", "format": "wav"}}
PICTURE = {"type": "base64", "media_type": "image/png", "data": PNG}
FORMATS = ["openai-chat", "openai-responses", "anthropic", "gemini", "bedrock"]
SAFETY = [{"id": "cu_sc_1", "code": "malicious_instructions", "message": "Careful."}]
SCREEN = {"type": "computer_screenshot", "image_url": f"data:image/png;base64,{PNG}"}
COMPUTER = {"type": "computer_call", "id": "cu_1", "call_id": "c1", "action": {"type": "click"}, "status": "completed"}


def said(*blocks, role="user", key="content"):
    """A message of blocks, with a text before them."""
    return {"role": role, key: [{"text": "see"} | ({"type": "text"} if "type" in blocks[0] else {}), *blocks]}


PDF = {**PICTURE, "media_type": "application/pdf"}
NAMED = {"inlineData": {"mimeType": "image/png", "data": PNG, "displayName": "a"}}
FILM = {"fileData": {"fileUri": "https://x.example/a.mp4", "mimeType": "video/mp4"}, "videoMetadata": {"fps": 2}}
TEXT = {"format": "txt", "name": "a", "source": {"bytes": b"hi"}}
CITED = {"type": "text", "text": "so", "citations": [{"cited_text": "x"}]}
CASES = {
    "openai-chat": [
        ({"role": "user", "content": "hi", "name": "ada"}, "name"),
        ({"role": "assistant", "content": "see", "images": [{"image_url": {"url": PNG}}]}, "images"),
        ({"role": "assistant", "content": "see", "annotations": [{"type": "url_citation"}]}, "annotations"),
        (said({"type": "file", "file": {"file_id": "f", "filename": "a.pdf"}}), "filename"),
    ],
    "openai-responses": [
        (
            {
                "type": "message",
                "role": "assistant",
                "id": "msg_1",
                "phase": "commentary",
                "content": [{"type": "output_text", "text": "I look first.", "annotations": []}],
            },
            "phase",
        )
    ],
    "anthropic": [
        (said({"type": "image", "source": PICTURE, "title": "A view"}), "title"),
        (said({"type": "document", "source": PDF, "context": "old"}), "context"),
        (said(CITED, role="assistant"), "citations"),
        (said({"type": "hologram", "bytes": [1]}), "hologram"),
    ],
    "gemini": [
        (said(NAMED, key="parts"), "displayName"),
        (said({"text": "see", "partMetadata": {"a": 1}}, key="parts"), "partMetadata"),
        (said({"text": "see", "part_metadata": {"a": 1}}, key="parts"), "part_metadata"),
        (said(FILM, key="parts"), "videoMetadata"),
    ],
    "bedrock": [
        (said({"document": {**TEXT, "context": "old"}}), "context"),
        (said({"document": {**TEXT, "citations": {"enabled": True}}}), "citations"),
    ],
}


def a_round(call, result):
    """A question, a call of Claude's, and its result."""
    asked = [{"role": "user", "content": "q"}, {"role": "assistant", "content": [call]}]
    return [*asked, {"role": "user", "content": [result]}]


def reasons(done):
    """All that the report says of messages."""
    return [change.reason for change in done.report.changes]


@pytest.mark.parametrize(
    ("format_name", "message", "word", "to"),
    [
        pytest.param(name, *case, to, id=f"{name}-{case[1]}-{to}")
        for name, cases in CASES.items()
        for case in cases
        for to in FORMATS
        if to != name
    ],
)
def test_what_has_no_place_is_named(format_name, message, word, to):
    """A key that no other format has a place for is named in the report."""
    done = convert([message, message], to, format=format_name)
    assert any(word in reason for reason in reasons(done)), reasons(done)


@pytest.mark.parametrize("to", FORMATS)
def test_plain_words_lose_nothing(to):
    """Where all of a conversation has a counterpart, no message is said to have changed."""
    call = {"type": "tool_use", "id": "t1", "name": "run", "input": {"a": "b"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "ok", "is_error": False}
    said = [call, {"role": "user", "content": [result]}, {"type": "text", "text": "Done.", "citations": None}]
    messages = [{"role": "user", "content": "Go."}, {"role": "assistant", "content": [said[0]]}, said[1]]
    done = convert([*messages, {"role": "assistant", "content": [said[2]]}], to, format="anthropic")
    assert not done.report.changes


@pytest.mark.parametrize("to", sorted({*FORMATS[1:]} - {"openai-responses"}))
def test_safety_checks_are_named(to):
    """What a computer call has to have checked, and what was acknowledged, is named where it is lost."""
    call = {**COMPUTER, "pending_safety_checks": SAFETY}
    output = {"type": "computer_call_output", "call_id": "c1", "output": SCREEN, "acknowledged_safety_checks": SAFETY}
    done = convert([{"role": "user", "content": "go"}, call, output], to, format="openai-responses")
    assert [change.index for change in done.report.changes] == [1, 2]
    assert ["pending_safety_checks" in reasons(done)[0], "acknowledged" in reasons(done)[1]] == [True, True]


def test_sounds_do_not_go_to_responses():
    """The Responses API takes no sound: a word stands for it."""
    done = convert([{"role": "user", "content": [WAV]}], "openai-responses", format="openai-chat")
    assert "input_audio" not in json.dumps(done.messages)
    assert "audio/wav left out" in json.dumps(done.messages)
    assert reasons(done) == ["this audio cannot be sent here"]


@pytest.mark.parametrize("to", ["openai-chat", "openai-responses"])
def test_a_failure_is_named_where_it_cannot_be_said(to):
    """Chat and Responses have no flag for a tool that failed."""
    call = {"type": "tool_use", "id": "t1", "name": "run", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "no such file"}
    talk = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    done = convert(talk, to, format="anthropic")
    assert [(change.index, change.reason) for change in done.report.changes] == [
        (2, "that the tool failed is not said here")
    ]


@pytest.mark.parametrize("to", ["openai-chat", "openai-responses", "gemini", "bedrock"])
def test_the_name_of_a_tool_that_was_found_is_readable(to):
    """A result that refers to a tool says its name, and its texts stand apart."""
    call = {"type": "tool_use", "id": "t1", "name": "search", "input": {}}
    content = [
        {"type": "text", "text": "one"},
        {"type": "text", "text": "two"},
        {"type": "tool_reference", "tool_name": "mail"},
    ]
    result = {"type": "tool_result", "tool_use_id": "t1", "content": content}
    talk = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    done = convert(talk, to, format="anthropic")
    assert "mail" in json.dumps(done.messages[-1])
    assert "onetwo" not in json.dumps(done.messages[-1])


@pytest.mark.parametrize("to", ["openai-chat", "gemini", "bedrock", "openai-responses"])
def test_pictures_within_blocks_are_shown(to):
    """A document that is made of blocks takes its picture along, and its base64 never becomes words."""
    blocks = [{"type": "text", "text": "Look:"}, {"type": "image", "source": PICTURE}]
    document = {"type": "document", "source": {"type": "content", "content": blocks}}
    done = convert([{"role": "user", "content": [document]}], to, format="anthropic")
    kinds = [part.kind if hasattr(part, "kind") else part.text for message in _read(done, to) for part in message.parts]
    assert kinds == ["[document] Look:", "image"]


def _read(done, to):
    return [format_named(to).read_message(each, index) for index, each in enumerate(done.messages)]


def test_the_prompt_and_the_tools_are_reported_too():
    """What is lost of the system prompt and of tools has no index: it is remarked."""
    system = [{"type": "text", "text": "Mend.", "citations": [{"cited_text": "x"}]}]
    tool = {"name": "run", "input_schema": {"type": "object"}, "defer_loading": True}
    done = convert([{"role": "user", "content": "q"}], "gemini", format="anthropic", system=system, tools=[tool])
    notes = " ".join(done.report.stages[0].notes)
    assert "the system prompt: only its own format has a place for: citations" in notes
    assert "in tools: defer_loading" in notes


def test_pictures_beyond_what_a_message_takes_are_named():
    """Converse takes twenty images in a message: that the others went is said."""
    messages = [{"role": "user", "content": [{"type": "image", "source": PICTURE}] * 25}]
    done = convert(messages, "bedrock", format="anthropic")
    assert reasons(done) == ["a message takes no more media of this kind: the latest stay"]


def test_joined_messages_are_no_silence():
    """Where messages were joined the report says so, and not that nothing was changed."""
    messages = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    done = convert(messages, "bedrock", format="openai-chat")
    assert not done.report.changes
    assert "2 messages became 1, joined" in report_text(done.report)
    assert "nothing was changed" not in report_text(done.report)


def test_a_message_that_was_split_was_not_joined():
    """Where more messages come out than went in, the report says that they were split."""
    calls = [{"functionCall": {"id": each, "name": "f", "args": {}}} for each in "ab"]
    results = [{"functionResponse": {"id": each, "name": "f", "response": {"output": each}}} for each in "ab"]
    contents = [*HELLO["gemini"], {"role": "model", "parts": calls}, {"role": "user", "parts": results}]
    said = report_text(convert(contents, "openai-chat", format="gemini").report)
    assert "3 messages became 4, split" in said
    assert "joined" not in said


HELLO = {
    **{key: [{"role": "user", "content": "Hello."}] for key in ("anthropic", "openai-responses")},
    "bedrock": [{"role": "user", "content": [{"text": "Hello."}]}],
    "gemini": [{"role": "user", "parts": [{"text": "Hello."}]}],
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("format_name", ["anthropic", "gemini", "bedrock", "openai-responses"])
def test_every_dialect_says_what_is_lost(dialect, format_name):
    """A dialect of Chat reports as Chat does."""
    (message, word), *_ = CASES.get(format_name, [({"role": "user", "content": [{"type": "hologram"}]}, "hologram")])
    done = convert([message, *HELLO[format_name]], f"openai-chat/{dialect}", format=format_name)
    assert any(word in reason for reason in reasons(done))


THERE = [
    ("anthropic", "claude-opus-5-5"),
    ("anthropic", "claude-sonnet-4-5"),
    ("anthropic", None),
    ("gemini", "gemini-2.5-pro"),
    ("bedrock", "us.anthropic.claude-opus-4-8"),
    ("openai-responses", "gpt-5.4"),
]


@given(there=sampled_from(THERE), roles=lists(sampled_from(["user", "assistant", "system", "developer"]), max_size=6))
def test_no_instruction_silently_becomes_the_user_s(there, roles):
    """A system message in the middle stays one where the model takes it there, else the report names it; both legal."""
    to, model = there
    talk = [{"role": role, "content": f"word {at}."} for at, role in enumerate(["system", "user", *roles, "user"])]
    done = convert(talk, to, format="openai-chat", model=model)
    named = {change.index for change in done.report.changes}
    as_user = [json.dumps(message) for message in done.messages if message["role"] == "user"]
    for at, message in enumerate(talk):
        if message["role"] in ("system", "developer") and any(f"word {at}." in each for each in as_user):
            assert at in named
    key = {"gemini": "contents", "openai-responses": "input"}.get(to, "messages")
    rest = {"max_tokens": 9} if to == "anthropic" else {}
    violations = validate({"model": model or "claude-opus-5-5", key: done.messages, **rest}, format=to)
    assert [each for each in violations if each.severity == "error"] == []


@pytest.mark.parametrize("kind", ["system", "developer"])
def test_an_instruction_in_the_middle_stays_one(kind):
    """Where the model takes system messages in the middle, one stays what it is, and nothing is said of it."""
    talk = [{"role": "user", "content": "q"}, {"role": kind, "content": "rule"}, {"role": "assistant", "content": "a"}]
    done = convert(
        [*talk, {"role": "user", "content": "go"}], "anthropic", format="openai-chat", model="claude-opus-5-5"
    )
    assert [message["role"] for message in done.messages] == ["user", "system", "assistant", "user"]
    assert not done.report.changes


@pytest.mark.parametrize("to", ["anthropic", "gemini", "bedrock"])
@pytest.mark.parametrize("given_as", ["", " ", "null", "{}", '""'])
def test_no_arguments_are_an_empty_object(given_as, to):
    """A call without arguments has none elsewhere either, however that was written."""
    call = {"id": "c1", "type": "function", "function": {"name": "now", "arguments": given_as}}
    talk = [{"role": "user", "content": "q"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    done = convert([*talk, {"role": "tool", "tool_call_id": "c1", "content": "12:00"}], to, format="openai-chat")
    assert [each.arguments for each in format_named(to).read_message(done.messages[1], 1).calls] == ["{}"]


URL = "data:application/pdf;base64,JVBERi0xLjQ="
FILES = {
    "anthropic": [{"type": "document", "title": "report.pdf", "source": {**PDF, "data": "JVBERi0xLjQ="}}],
    "gemini": [{"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0xLjQ=", "displayName": "report.pdf"}}],
    "bedrock": [{"document": {"format": "pdf", "name": "report", "source": {"bytes": b"%PDF-1.4"}}}],
    "openai-chat": [{"type": "file", "file": {"file_data": URL, "filename": "report.pdf"}}],
    "openai-responses": [{"type": "input_file", "file_data": URL, "filename": "report.pdf"}],
}


@pytest.mark.parametrize(
    ("format_name", "to"), [(name, to) for name in FILES for to in ("openai-chat", "openai-responses") if to != name]
)
def test_a_document_keeps_its_name(format_name, to):
    """OpenAI wants a name for a file that is carried inline: the document's own, and nothing is said to be lost."""
    message = said(*FILES[format_name], key="parts" if format_name == "gemini" else "content")
    if format_name == "openai-responses":
        message["content"][0]["type"] = "input_text"
    done = convert([message], to, format=format_name)
    made = done.messages[0]["content"][1]
    assert made.get("file", made)["filename"] == "report.pdf"
    assert made.get("file", made)["file_data"] == URL
    assert not reasons(done)


@pytest.mark.parametrize("to", ["openai-chat", "openai-responses"])
def test_a_document_without_a_name_gets_a_neutral_one(to):
    """A PDF that has no name is called document.pdf."""
    made = convert([said({"type": "document", "source": PDF})], to, format="anthropic").messages[0]["content"][1]
    assert made.get("file", made)["filename"] == "document.pdf"


def test_a_result_that_is_there_is_not_called_gone():
    """What a function of Gemini's answered is taken along, whatever it is called there, and so not said to be lost."""
    call = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}
    answer = {"functionResponse": {"name": "f", "response": {"result": "VALUE"}, "willContinue": True}}
    talk = [{"role": "user", "parts": [{"text": "q"}]}, call, {"role": "user", "parts": [answer]}]
    done = convert(talk, "anthropic", format="gemini")
    assert "VALUE" in json.dumps(done.messages)
    assert not any("place for" in each and "result" in each for each in reasons(done))


def test_a_reason_does_not_deny_what_the_other_format_has():
    """Context and citations of documents are not taken along; that Bedrock had no place for them is not said."""
    done = convert([said({"type": "document", "source": PDF, "context": "old"})], "bedrock", format="anthropic")
    assert reasons(done) == ["not taken along: context"]
