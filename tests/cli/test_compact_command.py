"""``agentctx compact``."""

import json
import os
import socket
import stat
import threading

import pytest

from agentctx import count


def test_a_list_goes_in_and_a_list_comes_out(run, jsonl, chat):
    """A list of messages becomes a list that fits; the report goes to stderr."""
    done = run("compact", jsonl(chat(30), name="messages.json"), "--window", "8k")
    messages = json.loads(done.stdout)
    assert count(messages, format="openai-chat") <= 6000
    assert messages[:2] == chat(0)[:2]
    assert "tokens" in done.stderr


def test_a_request_keeps_everything_else(run, jsonl, anthropic):
    """Other keys of a request are written back as they were."""
    request = {"model": "claude-sonnet-4-5", "system": "Mend.", "max_tokens": 9, "messages": anthropic(30)}
    made = json.loads(run("compact", jsonl(request), "--window", "8k").stdout)
    assert {**made, "messages": 0} == {**request, "messages": 0}
    assert len(json.dumps(made)) < len(json.dumps(request))


def test_json_lines_stay_json_lines(run, jsonl, chat, record):
    """Every recording of a file is compacted, one line each."""
    done = run("compact", jsonl(record(chat(20), "one"), record(chat(2), "two")), "--window", "8k")
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == ["one", "two"]


def test_message_lines_stay_message_lines(run, jsonl, chat):
    """A file with one message a line comes out with one message a line."""
    done = run("compact", jsonl(*chat(2)), "--window", "8k")
    assert [json.loads(line)["role"] for line in done.stdout.splitlines()][:2] == ["system", "user"]


def test_what_fits_comes_out_as_it_went_in(run, tmp_path, chat):
    """An indented document that fits is written byte for byte as it was."""
    path = tmp_path / "small.json"
    path.write_text(json.dumps(chat(20), indent=2) + "\n")
    done = run("compact", path, "--window", "200k")
    assert done.stdout == path.read_text()
    assert "nothing was changed" in done.stderr


def test_only_what_is_needed_is_done(run, jsonl, chat):
    """When cutting long outputs is enough, no result is cleared."""
    told = json.loads(run("compact", jsonl(chat(9)), "--window", "16k", "--max-tool-tokens", "1k", "--json").stderr)
    assert {change["stage"] for change in told["in_force"]} == {"TruncateToolOutputs"}


def test_stdin_goes_to_stdout(run, chat):
    """A dash reads from stdin."""
    done = run("compact", "-", "--window", "32k", stdin=json.dumps(chat(1, words=10)))
    assert json.loads(done.stdout) == chat(1, words=10)


def test_the_target_is_kept(run, jsonl, chat):
    """--target says what to go down to."""
    made = json.loads(run("compact", jsonl(chat(30)), "--window", "32k", "--target", "4k").stdout)
    assert count(made, format="openai-chat") <= 4000


def test_out_replaces_the_file_and_keeps_its_mode(run, jsonl, chat, tmp_path):
    """--out puts the whole new file in the place of the old one."""
    target = tmp_path / "out.json"
    target.write_text("old")
    target.chmod(0o640)
    done = run("compact", jsonl(chat(3)), "--window", "8k", "--out", target)
    assert (done.exit_code, done.stdout) == (0, "")
    assert isinstance(json.loads(target.read_text()), list)
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_failure_leaves_the_old_file_and_nothing_else(run, tmp_path, chat, record):
    """When the third line is broken, the old output file stays and no temporary file is left."""
    target, source = tmp_path / "out.jsonl", tmp_path / "in.jsonl"
    target.write_text("old")
    source.write_text("\n".join([json.dumps(record(chat(1), "a")), json.dumps(record(chat(1), "b")), '{"mess']))
    done = run("compact", source, "--window", "8k", "--out", target)
    assert done.exit_code == 2
    assert "line 3" in done.stderr
    assert target.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]


def test_a_failure_writes_nothing_to_stdout(run, jsonl, chat, record):
    """When the second recording cannot fit, not even the first is written, and the error says which one it is."""
    large = chat(1)
    large[0]["content"] = "never forget " * 5000
    done = run("compact", jsonl(record(chat(1), "a"), record(large, "b")), "--window", "4k")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "line 2: the request needs" in done.stderr


@pytest.mark.parametrize("where", ["missing/out.json", "."])
def test_a_place_that_cannot_be_written_is_an_error(run, jsonl, chat, tmp_path, where):
    """A folder that is not there, or a folder as file, is one line on stderr."""
    done = run("compact", jsonl(chat(1)), "--window", "8k", "--out", tmp_path / where)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_the_report_can_be_json(run, jsonl, chat, tmp_path):
    """--json writes the report to stderr as JSON, --report to a file."""
    path, report = jsonl(chat(30)), tmp_path / "report.jsonl"
    told = json.loads(run("compact", path, "--window", "8k", "--json").stderr)
    assert told["tokens_after"] <= told["limit"] < told["tokens_before"]
    assert told["stages"][0]["changes"][0]["outcome"] in {"edited", "dropped"}
    done = run("compact", path, "--window", "8k", "--report", report)
    assert done.stderr == ""
    assert json.loads(report.read_text())["tokens_after"] == told["tokens_after"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("through", ["itself", "a link"])
def test_a_pipe_is_written_into(run, jsonl, chat, tmp_path, through):
    """What is no regular file stays what it is; what is written comes out of it."""
    pipe = target = tmp_path / "pipe"
    os.mkfifo(pipe)
    if through == "a link":
        target = tmp_path / "link"
        target.symlink_to(pipe)
    heard = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text()), daemon=True)
    reader.start()
    done = run("compact", jsonl(chat(1, words=10), name="messages.json"), "--window", "32k", "--out", target)
    reader.join(10)
    assert done.exit_code == 0
    assert json.loads(heard[0]) == chat(1, words=10)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="needs sockets in the file system")
def test_what_nothing_can_be_written_into_is_refused(run, jsonl, chat, tmp_path, monkeypatch):
    """A socket is named and left alone."""
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        done = run("compact", jsonl(chat(1)), "--window", "32k", "--out", "socket")
        assert done.exit_code != 0
        assert "socket: cannot be written" in done.stderr
        assert stat.S_ISSOCK((tmp_path / "socket").stat().st_mode)
