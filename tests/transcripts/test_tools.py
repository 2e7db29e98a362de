"""Transcripts of other tools: what is read is what was said."""

import gzip
import json
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from histories import histories
from hypothesis import given, settings, strategies as st

from agentctx import InvalidInput, validate
from agentctx.economics import Usage
from agentctx.replay import calls_of
from agentctx.transcripts import read_transcripts

FIXTURES = Path(__file__).parent / "fixtures"
TASK = "Find out why the build fails."
ANSWER = "A comma is missing in a.py."


def read(name):
    """The transcripts of a fixture."""
    return list(read_transcripts(str(FIXTURES / name)))


def lines_of(name):
    """The lines of a fixture."""
    return (FIXTURES / name).read_text("utf-8").splitlines()


def written(folder, lines):
    """A file of these lines; its name."""
    path = folder / "file.jsonl"
    path.write_text("\n".join(lines), "utf-8")
    return str(path)


SAID = {
    "claude_code.jsonl": ("Claude Code", "anthropic", 4),
    "claude_code_stream.jsonl": ("Claude Code", "anthropic", 2),
    "codex.jsonl": ("Codex", "openai-responses", 3),
    "exchanges.jsonl": ("a log of requests and answers", "openai-responses", 1),
    "anthropic_exchange.json": ("a log of requests and answers", "anthropic", 1),
    "gemini_exchange.json": ("a log of requests and answers", "gemini", 1),
    "bedrock_log.jsonl": ("Bedrock's invocation log", "bedrock", 1),
    "openai_batch.jsonl": ("an OpenAI batch", "openai-chat", 2),
    "anthropic_batch.jsonl": ("an Anthropic batch", "anthropic", 1),
    "langchain.json": ("LangChain", "openai-chat", 2),
    "langchain_dumpd.json": ("LangChain", "openai-chat", 2),
    "langchain_claude.json": ("LangChain", "anthropic", 2),
    "langgraph_state.json": ("LangGraph (state)", "openai-chat", 2),
    "langgraph_history.json": ("LangGraph (state)", "openai-chat", 2),
    "langgraph_checkpoint.json": ("LangGraph (checkpoint)", "openai-chat", 2),
    "pydantic_ai.json": ("pydantic-ai (ModelMessages)", "openai-chat", 3),
    "openai_agents.json": ("", None, 2),
    "openai_agents_session.json": ("", None, 2),
    "openai_agents_state.json": ("the OpenAI Agents SDK (RunState)", "openai-responses", 2),
    "openai_agents_items.json": ("the OpenAI Agents SDK (RunItem)", "openai-responses", 1),
    "inspect.eval": ("Inspect (evaluation log)", "anthropic", 2),
    "inspect.json": ("Inspect (evaluation log)", "anthropic", 2),
    "openhands_trajectory.json": ("OpenHands", "openai-chat", 2),
    "openhands_output.jsonl": ("OpenHands (trajectory)", "openai-chat", 2),
    "openhands_events.jsonl": ("OpenHands", "anthropic", 2),
    "anthropic_body.json": ("", None, 1),
    "gemini_body.json": ("", "gemini", 1),
    "bedrock_body.json": ("", None, 1),
}
"""For each fixture the name that is told, the format of its first conversation, and how often a model was called."""


@pytest.mark.parametrize(("name", "source", "format_name", "calls"), [(k, *v) for k, v in SAID.items()], ids=SAID)
def test_what_is_read_is_legal_and_named(name, source, format_name, calls):
    """Each conversation has its tool's name, is legal by its provider's rules, and has all calls of the model."""
    found = read(name)
    first = found[0].recording
    assert (found[0].source, first.format, len(calls_of(first))) == (source, format_name, calls)
    for transcript in found:
        recording = transcript.recording
        request = transcript.request()
        assert [one for one in validate(request, recording.format, recording.model) if one.severity == "error"] == []


def test_a_session_of_claude_code_is_what_the_model_saw():
    """Blocks of an answer are one message, results stand together behind it, and what was left is not read."""
    main, side = read("claude_code.jsonl")
    first, answer, results, unsure, again, done, more, mended = main.recording.messages
    assert [block["text"] for block in first["content"]][1] == TASK
    assert [block["type"] for block in answer["content"]] == ["thinking", "text", "tool_use", "tool_use"]
    assert [block["tool_use_id"] for block in results["content"]] == ["toolu_1", "toolu_2"]
    assert unsure["content"][0]["text"] == "I do not know."
    assert [block["text"] for block in again["content"]] == ["Look at line 1 again.", "Be quick."]
    assert done["content"] == [{"type": "text", "text": ANSWER}]
    assert [block["text"] for block in more["content"]][1] == "Mend it."
    assert mended["role"] == "assistant"
    assert main.recording.model == "claude-opus-4-5-20251101"
    assert [message["role"] for message in side.recording.messages] == ["user", "assistant"]
    assert side.recording.id == f"{main.recording.id}/a1b2"
    assert any("2 lines of branches" in note for note in main.notes)
    printed, its_side = read("claude_code_stream.jsonl")
    assert printed.recording.messages == [{"role": "user", "content": TASK}, answer, results, done]
    assert its_side.recording.messages == side.recording.messages


def test_what_was_billed_is_read_once_for_each_call():
    """The lines of one answer repeat its usage: it counts once, with the whole output."""
    main, side = read("claude_code.jsonl")
    billed = main.recording.billed
    assert [(one.index, one.usage.output) for one in billed] == [(1, 95), (3, 8), (5, 12), (7, 7)]
    assert billed[0].usage == Usage(4, 12_000, 0, 600, 95)
    assert [one.usage.output for one in side.recording.billed] == [5]
    (rollout,) = read("codex.jsonl")
    assert [one.usage for one in rollout.recording.billed] == [
        Usage(6_952, 2_048, 0, 0, 60),
        Usage(548, 8_952, 0, 0, 40),
        Usage(300, 9_400, 0, 0, 12),
    ]


def test_a_rollout_of_codex_is_what_the_model_saw():
    """Items of Responses as they were sent, with the instructions, without remarks and what was taken back."""
    (found,) = read("codex.jsonl")
    recording = found.recording
    kinds = [item["type"] for item in recording.messages]
    assert kinds[3:9] == ["reasoning", *["function_call"] * 2, *["function_call_output"] * 2, "custom_tool_call"]
    assert recording.messages[-1]["content"][0]["text"] == ANSWER
    assert (recording.system, recording.model, recording.id) == ("You are Codex.", "gpt-5.4", "019a-codex")
    assert any("compacted once by Codex" in note for note in found.notes)
    (early,) = read("codex_early.jsonl")
    assert (early.source, early.recording.system, len(early.recording.messages)) == ("Codex", "Be brief.", 6)


def test_a_log_of_one_conversation_is_one_recording():
    """Requests that go on with each other are one conversation, with its last answer and all that was billed."""
    other, whole = read("exchanges.jsonl")
    assert other.recording.messages == [{"role": "user", "content": "Hello"}]
    roles = [message["role"] for message in whole.recording.messages]
    assert roles == ["user", "assistant", "tool", "assistant"]
    assert [(one.index, one.usage.cached) for one in whole.recording.billed] == [(1, 512), (3, 512)]


FOUND_OUT = [TASK, "I look.", "import", ANSWER]


@pytest.mark.parametrize("name", ["inspect.eval", "inspect.json", "openhands_trajectory.json", "pydantic_ai.json"])
def test_what_frameworks_keep_is_read_word_for_word(name):
    """Prompt, words, calls, results and reasoning are there, in their order, each result with its call."""
    recording = read(name)[0].recording
    said = json.dumps([recording.system, *recording.messages])
    places = [said.index(words) for words in ["You mend software.", *FOUND_OUT]]
    assert places == sorted(places)
    assert recording.tools is not None or name == "pydantic_ai.json"


def test_a_folder_of_events_is_one_conversation(tmp_path):
    """What OpenHands' SDK keeps, a file for each event, is read as the events in one file are; and with the limit."""
    events = tmp_path / "conversation-1" / "events"
    events.mkdir(parents=True)
    for place, line in enumerate(lines_of("openhands_events.jsonl")):
        (events / f"event-{place:05}-e.json").write_text(line, "utf-8")
    (whole,) = read("openhands_events.jsonl")
    for folder in (events, events.parent):
        (found,) = read_transcripts(str(folder))
        assert found.recording.messages == whole.recording.messages
        assert found.recording.id == "conversation-1"
    with pytest.raises(InvalidInput, match="has more than 500 bytes: pass --max-bytes"):
        list(read_transcripts(str(events), 500))


def test_tools_of_bodies_are_read_where_they_stand():
    """Bedrock keeps tools a level deeper: they are counted, too."""
    assert [tool["toolSpec"]["name"] for tool in read("bedrock_body.json")[0].recording.tools] == ["read"]


def test_inspect_s_archive_and_document_hold_the_same():
    """The two formats of one log give the same conversations, with long texts back in their places."""
    archive, document = read("inspect.eval"), read("inspect.json")
    assert [one.recording for one in archive] == [one.recording for one in document]
    assert "x = 1\nx = 1" in archive[0].recording.messages[2]["content"][0]["content"]
    assert [one.recording.id for one in archive] == ["1/1", "2/1"]


def test_reasoning_and_failures_of_frameworks_are_kept(tmp_path):
    """Signed reasoning makes it Anthropic's shape, a failed tool stays failed, a picture stays a picture."""
    (found,) = read("langchain_claude.json")
    asked, answer, results, _ = found.recording.messages
    assert asked["content"][1]["source"]["media_type"] == "image/png"
    assert answer["content"][0] == {"type": "thinking", "thinking": "One file.", "signature": "c2lnbmVk"}
    assert results["content"][0]["is_error"] is True
    (other,) = read("pydantic_ai.json")
    assert other.recording.messages[3]["reasoning_content"] == "Two files."
    assert [message["role"] for message in other.recording.messages[4:6]] == ["tool", "tool"]


def test_an_archive_is_read_with_the_same_limit_and_care(tmp_path):
    """An archive that unpacks to too much, is cut, or is another one, is a sentence; so is one from stdin."""
    content = (FIXTURES / "inspect.eval").read_bytes()
    with pytest.raises(InvalidInput, match="has more than 2,000 bytes, unpacked: pass --max-bytes"):
        list(read_transcripts(str(FIXTURES / "inspect.eval"), 2_000))
    cut = tmp_path / "cut.eval"
    cut.write_bytes(content[: len(content) // 2])
    with pytest.raises(InvalidInput, match="damaged archive"):
        list(read_transcripts(str(cut)))
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as other:
        other.writestr("readme.txt", "hello")
    with pytest.raises(InvalidInput, match=r"this is a zip archive, and not an \.eval file"):
        list(read_transcripts(str(tmp_path / "other.zip")))


def test_answers_of_a_batch_are_no_request():
    """The file of a batch's answers is refused, with what to give in its place."""
    with pytest.raises(InvalidInput, match="line 1: this holds answers without what was asked: give the file of reque"):
        read("openai_batch_output.jsonl")


@pytest.mark.parametrize("name", ["claude_code.jsonl", "codex.jsonl"])
def test_a_log_that_is_being_written_is_read_to_its_last_whole_line(name, tmp_path):
    """A last line that is cut short is left out and said; a damaged one before it, too."""
    lines = lines_of(name)
    first, *_ = read_transcripts(written(tmp_path, [*lines, lines[-1][:20]]))
    assert any(f"line {len(lines) + 1} is cut short and left out" in note for note in first.notes)
    assert first.recording == read(name)[0].recording
    for place in (1, 0):
        first, *_ = read_transcripts(written(tmp_path, [*lines[:place], "\x00\x00 {", *lines[place:]]))
        assert any(f"1 damaged line is left out: line {place + 1}" in note for note in first.notes)
        assert first.recording == read(name)[0].recording


@pytest.mark.parametrize("name", ["exchanges.jsonl", "openhands_events.jsonl"])
def test_logs_of_requests_and_of_events_may_be_cut_short_too(name, tmp_path):
    """What stands before a last line that is cut short is read, and the rest is said."""
    lines = lines_of(name)
    found = list(read_transcripts(written(tmp_path, [*lines, lines[-1][:30]])))
    assert [one.recording for one in found] == [one.recording for one in read(name)]
    assert any(f"line {len(lines) + 1} is cut short and left out" in note for note in found[-1].notes)


def test_an_error_within_a_dump_names_the_file(tmp_path):
    """What is no message among messages is named with the file and its place."""
    messages = json.loads((FIXTURES / "langchain.json").read_text("utf-8"))
    path = written(tmp_path, [json.dumps([*messages, "hello"])])
    with pytest.raises(InvalidInput, match=r"file.jsonl, line 1: messages\[6\]: this is no message of LangChain"):
        list(read_transcripts(path))


def test_a_sub_agent_s_own_file_is_its_conversation(tmp_path):
    """A file that holds a side chain alone, as newer versions write it, is read as one conversation."""
    (found,) = read_transcripts(written(tmp_path, [line for line in lines_of("claude_code.jsonl") if "a1b2" in line]))
    assert found.recording.messages == read("claude_code.jsonl")[1].recording.messages
    assert not any("side chain" in note for note in found.notes)


@pytest.mark.parametrize("name", ["claude_code.jsonl", "codex.jsonl"])
def test_a_log_without_a_word_says_that_no_model_was_called(name, tmp_path):
    """A session that was opened and left is refused in a sentence that says why."""
    with pytest.raises(InvalidInput, match="in which nothing was said: no model was called"):
        list(read_transcripts(written(tmp_path, lines_of(name)[:1])))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"SQLite format 3\x00" + bytes(80), "this is an SQLite database"),
        (b"PAR1" + bytes(80), "this is a Parquet file"),
        (gzip.compress(b"%PDF-1.7 ...", mtime=0), "this is a PDF document"),
        (b"<!DOCTYPE html><html>", "this is a web page"),
        (b'data: {"id": "x"}\n\ndata: [DONE]\n', "this is a recorded stream of server-sent events"),
        (b'{"resourceSpans": [{"scopeSpans": []}]}', "this is an OpenTelemetry trace"),
        (b'{"type": "thread.started", "thread_id": "t"}', "this is the output of codex exec --json"),
        (b'{"name": "chat", "context": {"trace_id": "0x1", "span_id": "0x2"}}', "this is an OpenTelemetry trace"),
        (b"# Fix\n_Exported on 1/5/2026 from Cursor (1.2)_\n", "this is an export of Cursor as Markdown"),
        (b'{"display": "Fix it", "project": "/shop"}', "this is the list of prompts of Claude Code"),
        (b'{"log": {"version": "1.2", "entries": []}}', "this is an HTTP archive"),
        (b'{"version": 1, "tabs": [], "composerData": {}}', "this is an export of Cursor"),
        (b'{"conversations": [{"from": "human", "value": "x"}]}', "this is a transcript of ShareGPT"),
    ],
)
def test_what_is_not_read_is_refused_by_its_name(content, said, tmp_path):
    """A file of a kind that is known, and not read, is one sentence that names it."""
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=said) as caught:
        list(read_transcripts(str(path)))
    assert str(caught.value).startswith(str(path))


def by_speaker(messages):
    """Who says what, in which order: neighbours of one role together, results first."""
    told = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not told or told[-1][0] != message["role"]:
            told.append((message["role"], []))
        told[-1][1].extend(blocks)
    return [(role, sorted(blocks, key=lambda block: block["type"] != "tool_result")) for role, blocks in told]


@settings(max_examples=25)
@given(histories("anthropic"))
def test_any_history_that_claude_code_writes_is_read_as_it_was(tmp_path_factory, history):
    """Each block of an answer on a line of its own, each result, too: they are the same messages again."""
    said = [message for message in history.messages if message["content"] and message["role"] != "system"]
    lines, before = [], None
    for place, message in enumerate(said):
        content = message["content"]
        for part in [content] if isinstance(content, str) else [[block] for block in content]:
            names = {"uuid": f"u{len(lines)}", "parentUuid": before, "sessionId": "s", "type": message["role"]}
            answer = {"id": f"msg_{place}"} if message["role"] == "assistant" else {}
            lines.append(json.dumps({**names, "message": {**answer, "role": message["role"], "content": part}}))
            before = names["uuid"]
    (found,) = read_transcripts(written(tmp_path_factory.mktemp("cc"), lines))
    assert by_speaker(found.recording.messages) == by_speaker(said)


@settings(max_examples=25)
@given(histories("openai-responses"))
def test_any_history_that_codex_writes_is_read_as_it_was(tmp_path_factory, history):
    """An item a line: they are the same items again."""
    lines = [json.dumps({"timestamp": "t", "type": "session_meta", "payload": {"id": "x"}})]
    lines += [json.dumps({"timestamp": "t", "type": "response_item", "payload": item}) for item in history.messages]
    (found,) = read_transcripts(written(tmp_path_factory.mktemp("cx"), lines))
    assert found.recording.messages == [{"type": "message", **item} for item in history.messages]


@pytest.mark.parametrize(
    ("name", "others", "said"),
    [
        ("claude_code.jsonl", "codex.jsonl", "24 lines of other kinds were left out: response_item 14, event_msg 7, "),
        ("codex.jsonl", "claude_code.jsonl", "24 lines of other kinds were left out: assistant 10, user 9, system 2, "),
        ("codex_early.jsonl", "claude_code_stream.jsonl", "12 lines of other kinds were left out: assistant 6, user 4"),
        ("openhands_events.jsonl", "codex.jsonl", "24 events of other kinds were left out: response_item 14, "),
    ],
    ids=["Claude Code", "Codex", "early Codex", "OpenHands"],
)
def test_lines_of_another_tool_are_counted(tmp_path, name, others, said):
    """Lines that a log of this kind does not have are left out and named; without them nothing is said."""
    own, foreign = lines_of(name), lines_of(others)
    mixed = [line for pair in zip(own, foreign, strict=False) for line in pair]
    shorter = min(len(own), len(foreign))
    (first, *_), (alone, *_) = (
        list(read_transcripts(written(tmp_path, lines)))
        for lines in ([*mixed, *foreign[shorter:], *own[shorter:]], own)
    )
    assert first.recording.messages == alone.recording.messages
    assert [note[: len(said)] for note in first.notes if "left out" in note and "kind" in note] == [said]
    assert not [note for note in alone.notes if "other kind" in note or "another kind" in note]


@pytest.mark.parametrize(
    ("name", "key", "said"),
    [
        ("openai_agents_items.json", None, "1 item of another kind was left out: odd 1"),
        ("openai_agents_state.json", "session_items", "1 item of another kind was left out: odd 1"),
        ("inspect.json", "messages", "1 message of another kind was left out: odd 1"),
    ],
)
def test_what_a_document_has_beside_messages_is_counted(tmp_path, name, key, said):
    """What stands among the messages of a document and is none is told as well."""
    document = json.loads((FIXTURES / name).read_text("utf-8"))
    held = document if key is None else document["samples"][0][key] if "samples" in document else document[key]
    held.append({"type": "odd", "text": "words"})
    assert said in next(read_transcripts(written(tmp_path, [json.dumps(document)]))).notes


def test_a_number_too_long_is_said(tmp_path):
    """What cannot be read is told in words that are for who has the file, and not for who writes programs."""
    lines = [*lines_of("claude_code.jsonl")[:1], f'{{"messages": [{"9" * 5_000}]}}']
    for one in (lines[1:], [lines[1], lines[1]]):
        with pytest.raises(InvalidInput, match=r"line 1: holds a whole number of more digits than are read$"):
            list(read_transcripts(written(tmp_path, one)))


def test_a_line_of_many_megabytes_is_read(tmp_path):
    """A result of ten megabytes stands on one line of a log."""
    lines = lines_of("claude_code.jsonl")
    large = [line.replace("import a", "import a" + " " * 10_000_000) for line in lines]
    first, *_ = read_transcripts(written(tmp_path, large))
    assert len(first.recording.messages[2]["content"][1]["content"]) > 10_000_000
    with pytest.raises(InvalidInput, match="has more than 5,000,000 bytes, unpacked: pass --max-bytes"):
        list(read_transcripts(written(tmp_path, large), 5_000_000))


@pytest.mark.parametrize("images", [True, 7, {"a": 1}, "x", [None, 5]], ids=str)
def test_pictures_of_an_event_that_are_no_list_are_none(tmp_path, images):
    """An event of OpenHands whose pictures are of another kind is read without them."""
    event = {"id": 0, "source": "user", "action": "message", "args": {"content": "Look.", "image_urls": images}}
    path = tmp_path / "events.json"
    path.write_text(json.dumps([event, {**event, "id": 1, "source": "agent"}]), "utf-8")
    (found,) = read_transcripts(str(path))
    assert [message["content"] for message in found.recording.messages] == ["Look.", "Look."]


@settings(max_examples=30)
@given(st.data())
def test_no_damage_to_a_transcript_breaks_its_reader(tmp_path_factory, data):
    """Bytes changed, lines lost or values of another kind: read, or an InvalidInput, never anything else."""
    name = data.draw(st.sampled_from(sorted(path.name for path in FIXTURES.iterdir())))
    content = bytearray((FIXTURES / name).read_bytes())
    odd = st.sampled_from(
        [b"null", b"[]", b"{}", b"7", b'""', b"\x00", b"}", b",", b'"type":5,', b'{"content":[null]}']
    )
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content) - 1))
        content[start : start + data.draw(st.integers(0, 60))] = data.draw(odd)
    path = tmp_path_factory.mktemp("odd") / name
    path.write_bytes(content)
    with suppress(InvalidInput):
        for transcript in read_transcripts(str(path)):
            calls_of(transcript.recording)


@settings(max_examples=60)
@given(st.data())
def test_no_value_in_a_transcript_breaks_its_reader(tmp_path_factory, data):
    """Any field of any line may be of another kind than it should: read, or an InvalidInput, never anything else."""
    name = data.draw(st.sampled_from(sorted(path.name for path in FIXTURES.iterdir() if path.suffix != ".eval")))
    content = (FIXTURES / name).read_text("utf-8")
    values = (
        [json.loads(content)] if content.startswith(("[", "{\n")) else [json.loads(line) for line in lines_of(name)]
    )
    for _ in range(data.draw(st.integers(1, 3))):
        _replace(data, data.draw(st.sampled_from(values)))
    path = tmp_path_factory.mktemp("odd") / name
    path.write_text("\n".join(map(json.dumps, values)), "utf-8")
    with suppress(InvalidInput):
        for transcript in read_transcripts(str(path)):
            calls_of(transcript.recording)


def _replace(data, value):
    """Put a value of another kind somewhere into one."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        if not isinstance(value[key], (dict, list)) or not value[key] or data.draw(st.integers(0, 3)) == 0:
            value[key] = data.draw(st.sampled_from([None, 7, -1.5, True, "x", [], {}, [None], {"type": 3}, [[]], "{"]))
            return
        value = value[key]
