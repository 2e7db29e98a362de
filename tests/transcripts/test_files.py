"""Reading recorded sessions from files."""

import gzip
import io
import json
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from agentctx import InvalidInput
from agentctx.cli import options
from agentctx.cli.options import parse_bytes
from agentctx.transcripts.files import MAX_BYTES
from agentctx.transcripts.reading import Layout, chosen, read_transcripts as entries

HELLO = [{"role": "user", "content": "hello"}]


def write(path, content):
    """Write text or bytes to a path and return its name."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


@pytest.mark.parametrize(
    ("content", "layout"),
    [
        (json.dumps(HELLO), Layout.DOCUMENT),
        (json.dumps(HELLO, indent=2), Layout.PRETTY),
        (json.dumps({"model": "m", "messages": HELLO}), Layout.DOCUMENT),
        ("\n\n" + json.dumps({"messages": HELLO}, indent=1) + "\n", Layout.PRETTY),
        (json.dumps(HELLO[0]) + "\n", Layout.MESSAGE_LINES),
        ("\ufeff" + json.dumps(HELLO), Layout.DOCUMENT),
        (gzip.compress(json.dumps(HELLO).encode(), mtime=0), Layout.DOCUMENT),
    ],
    ids=["list", "indented list", "request", "indented request", "message lines", "byte order mark", "gzip"],
)
def test_every_shape_gives_its_messages(tmp_path, content, layout):
    """A list, a request, message lines, plain or compressed: all give the same messages."""
    (entry,) = entries(write(tmp_path / "file", content))
    assert (entry.recording.messages, entry.layout) == (HELLO, layout)


def test_json_lines_give_one_recording_a_line(tmp_path):
    """Each line is a recording of its own, with its id, model and place; blank lines do not count."""
    lines = [{"id": name, "messages": HELLO, "format": "openai-chat", "meta": {"model": "gpt-4o"}} for name in "ab"]
    path = write(tmp_path / "s.jsonl", json.dumps(lines[0]) + "\n\n" + json.dumps(lines[1]) + "\n")
    found = list(entries(path))
    assert [(one.recording.id, one.recording.model, one.place) for one in found] == [
        ("a", "gpt-4o", f"{path}, line 1"),
        ("b", "gpt-4o", f"{path}, line 3"),
    ]


def test_message_lines_are_one_recording(tmp_path):
    """Lines that are each one message make one recording."""
    messages = [*HELLO, {"role": "assistant", "content": "hi"}]
    (entry,) = entries(write(tmp_path / "m.jsonl", "\n".join(map(json.dumps, messages))))
    assert entry.recording.messages == messages


def test_the_messages_are_put_back_where_they_were(tmp_path):
    """A request with other messages keeps everything else; a list stays a list."""
    request = {"model": "m", "temperature": 0, "messages": HELLO}
    (entry,) = entries(write(tmp_path / "r.json", json.dumps(request)))
    (plain,) = entries(write(tmp_path / "l.json", json.dumps(HELLO)))
    assert entry.with_messages([]) == {**request, "messages": []}
    assert plain.with_messages([]) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("null", "line 1: this is null"),
        ("42", "line 1: this is a number"),
        ('"text"', "line 1: this is a string"),
        ("{}", "line 1: the object has no messages"),
        ('{"messages": {}}', "line 1: 'messages' is an object, not a list"),
        ('{"messages": [], "tools": 3}', "line 1: 'tools' is a number, not a list"),
        ('{"messages": [], "id": 3}', "line 1: 'id' is a number, not a string"),
        ('[{"role": "user", "content": "he', "line 1: not JSON: Unterminated string.* (cut short?)"),
        ('{"messages": []}\n{"messages": [\n', "line 2: not JSON: .*(cut short?)"),
        ('{"messages": []}\n{"messages": []}\n{"mess', "line 3: not JSON"),
        ('{\n "messages": [\n  {"role" "user"}\n ]\n}', "line 3: not JSON"),
        (b"\x89PNG\r\n\x1a\n\x00\xff\xfe", "this is a PNG image"),
        ("[" * 100_000, "line 1: nested too deep"),
        ("[" + "9" * 5000 + "]", "line 1: holds a whole number of more digits than are read"),
        (gzip.compress(b"[]", mtime=0)[:-6], "damaged gzip"),
        (b"\x1f\x8bnot gzip at all", "damaged gzip"),
    ],
)
def test_a_file_that_cannot_be_read_names_itself_and_the_line(tmp_path, content, said):
    """Whatever is wrong with a file, the error names the file and, where there is one, the line."""
    path = write(tmp_path / "bad.jsonl", content)
    with pytest.raises(InvalidInput) as caught:
        list(entries(path))
    assert str(caught.value).startswith(path)
    assert all(words in str(caught.value) for words in said.split(".*"))


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    """What is no file is an error that says so."""
    with pytest.raises(InvalidInput, match="there is no such file"):
        list(entries(str(tmp_path / "none.json")))
    with pytest.raises(InvalidInput, match="is a directory"):
        list(entries(str(tmp_path)))


def test_good_lines_before_a_bad_one_are_given(tmp_path):
    """A file that is cut in its last line gives the lines before it first."""
    path = write(tmp_path / "cut.jsonl", '{"id": "a", "messages": []}\n{"id": "b", "messages": []}\n{"id": "c", "mess')
    found = entries(path)
    assert [next(found).recording.id, next(found).recording.id] == ["a", "b"]
    with pytest.raises(InvalidInput, match="line 3"):
        next(found)


@pytest.mark.parametrize("first", [0, 1, 2], ids=["begins", "second", "third"])
def test_bad_lines_are_told_and_those_after_them_read(tmp_path, first):
    """Two bad lines are two errors that name their lines; all good sessions are there, wherever the bad ones stand."""
    lines = [json.dumps({"id": f"s{number}", "format": "openai-chat", "messages": HELLO}) for number in range(4)]
    lines[first:first] = ["{broken", '{"id": "bad", "messages": 5}']
    path, wrong = tmp_path / "some.jsonl", []
    path.write_text("\n".join(lines))
    found = [transcript.recording.id for transcript in entries(str(path), wrong=wrong.append)]
    assert found == ["s0", "s1", "s2", "s3"]
    assert [error.where for error in wrong] == [f"{path}, line {first + 1}", f"{path}, line {first + 2}"]


def test_one_recording_is_chosen_by_its_id(tmp_path):
    """An id picks one recording; an unknown one is an error that names it."""
    path = write(tmp_path / "s.jsonl", '{"id": "a", "messages": []}\n{"id": "b", "messages": []}\n')
    assert [entry.recording.id for entry in chosen(path, "b")] == ["b"]
    with pytest.raises(InvalidInput, match="no recording in it has the id 'z'"):
        list(chosen(path, "z"))


def test_stdin_is_read_and_left_open(monkeypatch):
    """A dash is stdin, compressed or not, and stdin is not closed."""
    for content in (json.dumps(HELLO).encode(), gzip.compress(json.dumps(HELLO).encode(), mtime=0)):
        stdin = io.TextIOWrapper(io.BytesIO(content))
        monkeypatch.setattr("sys.stdin", stdin)
        (entry,) = entries("-")
        assert (entry.recording.messages, entry.place) == (HELLO, "stdin, line 1")
        assert not stdin.closed


def test_json_lines_are_never_held_as_a_whole(tmp_path):
    """Thirty megabytes of JSON lines need the room of a few lines."""
    line = json.dumps({"id": "x", "messages": [{"role": "user", "content": "word " * 20_000}]}) + "\n"
    path = tmp_path / "large.jsonl"
    with path.open("w") as stream:
        stream.writelines([line] * (30_000_000 // len(line)))
    tracemalloc.start()
    try:
        count = sum(len(entry.recording.messages) for entry in entries(str(path)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 30_000_000 // len(line)
    assert peak < 20 * len(line)


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(tmp_path_factory, content):
    """Any bytes at all are recordings or an InvalidInput, never anything else."""
    path = tmp_path_factory.mktemp("any") / "file"
    path.write_bytes(content)
    with suppress(InvalidInput):
        list(entries(str(path)))


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_no_more_is_read_than_was_allowed(tmp_path, pack):
    """A file with more bytes than the limit, unpacked, is refused with what to pass; one with as many is read."""
    content = json.dumps(HELLO).encode()
    path = write(tmp_path / "file", pack(content))
    assert [entry.recording.messages for entry in entries(path, len(content))] == [HELLO]
    with pytest.raises(InvalidInput, match=f"has more than {len(content) - 1} bytes, unpacked: pass --max-bytes"):
        list(entries(path, len(content) - 1))


def test_the_usual_limit_is_the_one_that_help_shows():
    """What the option shows as its default is what is read without it."""
    assert parse_bytes("--max-bytes", options.MAX_BYTES) == MAX_BYTES
