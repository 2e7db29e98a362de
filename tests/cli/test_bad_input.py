"""Whatever goes in, what comes out is one clear line and an exit code."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

USER = {"role": "user", "content": "hello"}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ASKS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
ANSWER = {"role": "tool", "tool_call_id": "c", "content": "ok"}

COMMANDS = (("replay", "--window", "8k"), ("compact", "--window", "8k"), ("count",), ("validate",))


def settled(shown):
    """Whether a command ended in an orderly way: an exit code of ours and no traceback."""
    orderly = shown.exception is None or isinstance(shown.exception, SystemExit)
    return orderly and shown.exit_code in {0, 1, 2} and "Traceback" not in shown.stderr + shown.stdout


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        ('{"role": "user"', "line 1: not JSON"),
        ('"hello"', "line 1: this is a string"),
        ('{"messages": "hello"}', "'messages' is a string"),
        ("\x00\x01\x02\xff", "line 1: not"),
    ],
    ids=["empty", "cut", "string", "no list", "binary"],
)
def test_every_command_refuses_what_is_no_request_in_one_line(run, tmp_path, command, content, said):
    """What cannot be a request ends with exit code 2 and one line that names file and place."""
    path = tmp_path / "bad.json"
    path.write_bytes(content.encode("latin-1"))
    shown = run(command[0], path, *command[1:])
    assert shown.exit_code == 2, shown.output
    assert shown.stderr.startswith(f"error: {path}")
    assert said in shown.stderr
    assert shown.stderr.count("\n") == 1


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != ("validate",)], ids=" ".join)
def test_a_list_of_no_messages_is_refused_in_one_line(run, tmp_path, command):
    """An empty list is nothing to work on."""
    path = tmp_path / "none.json"
    path.write_text("[]", "utf-8")
    shown = run(command[0], path, *command[1:])
    assert (shown.exit_code, shown.stderr.count("\n")) == (2, 1)
    assert shown.stderr.startswith(f"error: {path}")
    assert "empty" in shown.stderr


def test_a_list_of_no_messages_breaks_a_rule(run, tmp_path):
    """An empty list is a request that the provider refuses."""
    path = tmp_path / "none.json"
    path.write_text("[]", "utf-8")
    shown = run("validate", path)
    assert shown.exit_code == 1
    assert "chat.messages_empty" in shown.stdout


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_missing_file_and_a_folder_are_one_line(run, tmp_path, command):
    """No file, or a folder: exit code 2, and the path is named."""
    for path in (tmp_path / "none.json", tmp_path):
        shown = run(command[0], path, *command[1:])
        assert (shown.exit_code, shown.stderr.count("\n")) == (2, 1)
        assert str(path) in shown.stderr


@pytest.mark.parametrize("command", COMMANDS[:3], ids=lambda command: command[0])
def test_an_unknown_role_is_named_with_its_place(run, jsonl, command):
    """A role that no provider knows ends with the place in the request."""
    shown = run(command[0], jsonl([USER, {"role": "wizard", "content": "hm"}]), *command[1:], "--format", "openai-chat")
    assert shown.exit_code == 2
    assert "messages[1]" in shown.stderr
    assert "wizard" in shown.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize(
    "messages",
    [
        [USER, {**ASKS, "tool_calls": [{**CALL, "function": {"name": "f", "arguments": "{not json"}}]}, ANSWER],
        [USER, ANSWER],
        [USER, ASKS],
        [{"role": "user", "content": "half a pair: \ud83d"}],
        [USER, {**ASKS, "tool_calls": [{**CALL, "function": {"name": "f", "arguments": '{"x": NaN}'}}]}, ANSWER],
    ],
    ids=["arguments that are not JSON", "result without call", "call without result", "lone surrogate", "NaN"],
)
def test_broken_histories_are_handled(run, jsonl, command, messages):
    """What can be mended is mended or reported; nothing ends in a traceback."""
    shown = run(command[0], jsonl({"model": "gpt-4o", "messages": messages}), *command[1:])
    assert settled(shown), shown.output
    if command[0] in {"replay", "compact"}:
        assert shown.exit_code == 0, shown.output


def test_compact_mends_a_broken_history(run, jsonl):
    """A result without a call is left out, and the report says so."""
    done = run("compact", jsonl({"model": "gpt-4o", "messages": [USER, ANSWER]}), "--window", "8k")
    assert json.loads(done.stdout)["messages"] == [USER]
    assert "RepairHistory" in done.stderr


def test_nan_in_arguments_of_anthropic_is_handled(run, tmp_path):
    """NaN is not JSON for a provider: it is not sent."""
    path = tmp_path / "nan.json"
    call = '{"type": "tool_use", "id": "t", "name": "f", "input": {"x": NaN}}'
    result = '{"type": "tool_result", "tool_use_id": "t", "content": "ok"}'
    path.write_text(
        f'[{{"role": "user", "content": "hi"}}, {{"role": "assistant", "content": [{call}]}},'
        f' {{"role": "user", "content": [{result}]}}]'
    )
    done = run("compact", path, "--window", "8k")
    assert done.exit_code == 0, done.output
    assert "NaN" not in done.stdout


def test_a_window_smaller_than_the_system_prompt_is_an_overflow(run, jsonl):
    """Nothing can fit: exit code 1, the numbers and the biggest item are said."""
    request = [{"role": "system", "content": "rules " * 3000}, USER]
    shown = run("compact", jsonl(request), "--window", "1k")
    assert (shown.exit_code, shown.stdout) == (1, "")
    assert "available" in shown.stderr
    assert "system" in shown.stderr


@pytest.mark.parametrize(
    "options",
    [
        ("--window", "lots"),
        ("--window", "0"),
        ("--window", "-5"),
        ("--window", "8k", "--reserve", "9k"),
        ("--window", "8k", "--trigger", "9k"),
        ("--window", "8k", "--trigger", "4k", "--target", "5k"),
        *((option, amount, "--window", "16k") for option in ("--trigger", "--target") for amount in ("2", "80")),
        ("--window", "16k", "--trigger", "0.8", "--target", "2"),
        ("--window", "16k", "--trigger", "8k", "--target", "2"),
        ("--window", "8k", "--max-tool-tokens", "0"),
        ("--window", "8k", "--keep-results", "some"),
        ("--window", "8k", "--format", "morse"),
        ("--window", "8k", "--id", "nobody"),
    ],
    ids=" ".join,
)
def test_bad_options_are_one_line(run, jsonl, chat, options):
    """An option that makes no sense ends with exit code 2 and a line that says which."""
    shown = run("replay", jsonl(chat(1)), *options)
    assert shown.exit_code == 2, shown.output
    assert shown.stderr.startswith("error: ")
    assert shown.stderr.count("\n") == 1


@pytest.mark.parametrize("options", [("1",), ("2", "--preset", "coding_agent")], ids=" ".join)
def test_a_window_without_room_is_named_and_not_what_was_never_given(run, jsonl, chat, options):
    """No trigger or target was typed: the error is of the window."""
    shown = run("replay", jsonl(chat(1)), "--window", *options)
    assert (shown.exit_code, shown.stderr.count("\n")) == (2, 1)
    wrong = (
        r"error: (--window: 1 token is too few|Budget\.window must be so large that a target of .* is one token, got 2)"
    )
    assert re.match(wrong, shown.stderr)


@pytest.mark.parametrize("options", [("--wndow", "8k"), (), ("--messages", "0")], ids=["unknown", "no file", "call 0"])
def test_wrong_usage_is_exit_code_two(run, options):
    """What the command line itself refuses has exit code 2 too."""
    assert run("replay", *options).exit_code == 2


def test_thirty_megabytes_are_read(run, tmp_path):
    """A large file is counted and compacted."""
    results = [
        {"role": "tool", "tool_call_id": "c", "content": f"line {n} of a long log\n" * 15_000} for n in range(100)
    ]
    messages = [USER, *(message for result in results for message in (ASKS, result))]
    path = tmp_path / "large.json"
    path.write_text(json.dumps(messages))
    assert path.stat().st_size > 30_000_000
    done = run("compact", path, "--window", "32k")
    assert done.exit_code == 0, done.output
    assert len(done.stdout) < 200_000


def test_control_characters_never_reach_the_terminal(run, jsonl):
    """An escape sequence in a transcript is shown as a picture, not obeyed."""
    messages = [{"role": "user", "content": "\x1b[2J\x1b]0;title\x07 hello"}]
    shown = run("replay", jsonl(messages), "--window", "8k", "--messages", "1", "--format", "anthropic")
    assert "\x1b" not in shown.stdout
    assert "␛[2J" in shown.stdout


UNSAFE = "\x1b[2J\x07\x7f\x85\x9b31m\u2028\u202e\u2066\U000e0041"


@pytest.mark.parametrize(
    "arguments",
    [
        ("replay", "--window", "2k"),
        ("replay", "--window", "2k", "--json"),
        ("replay", "--window", "2k", "--messages", "2", "--full"),
        ("replay", "--window", "2k", "--messages", "2", "--json"),
        ("compact", "--window", "2k"),
        ("compact", "--window", "2k", "--json"),
        ("count", "--by-message"),
        ("count", "--json"),
        ("validate",),
        ("validate", "--json"),
        ("convert", "--to", "anthropic"),
        ("convert", "--to", "anthropic", "--json"),
    ],
    ids=" ".join,
)
def test_no_output_holds_what_a_terminal_obeys(run, jsonl, record, arguments):
    """Whatever stands in a transcript, no command writes it as it is, for people or for machines, to file or stream."""
    call = {"id": f"c{UNSAFE}", "type": "function", "function": {"name": f"f{UNSAFE}", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": f"hello {UNSAFE}", "name": f"n{UNSAFE}"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{UNSAFE}", "content": f"{UNSAFE} words " * 900},
        {"role": "assistant", "content": f"done {UNSAFE}"},
    ]
    path = jsonl(record(messages, f"id{UNSAFE}"), name=f"s{UNSAFE[3]}.jsonl")
    shown = run(arguments[0], path, *arguments[1:])
    assert shown.exit_code in (0, 1), shown.output
    assert not set(UNSAFE) - set("[2J31m") & set(shown.stdout + shown.stderr)


@pytest.mark.parametrize("command", ["replay", "compact", "count", "validate", "convert"])
def test_every_command_reads_with_a_limit(run, jsonl, chat, command):
    """A file larger than ``--max-bytes`` is one line that says so and what to pass."""
    more = {"replay": ("--window", "8k"), "compact": ("--window", "8k"), "convert": ("--to", "anthropic")}
    path = jsonl(chat(2))
    shown = run(command, path, *more.get(command, ()), "--max-bytes", "1k")
    assert shown.exit_code == 2, shown.output
    assert "has more than 1,000 bytes, unpacked: pass --max-bytes" in shown.stderr
    assert run(command, path, *more.get(command, ()), "--max-bytes", "1 MB").exit_code == 0
    assert "--max-bytes: 'lots' is not" in run(command, path, *more.get(command, ()), "--max-bytes", "lots").stderr


def python(*arguments, **options):
    """Run ``python -m agentctx`` in a process of its own."""
    command = [sys.executable, "-m", "agentctx", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, encoding="utf-8", **options)


def test_the_module_is_the_command(jsonl, chat):
    """``python -m agentctx`` reads a file and stdin alike."""
    from_file = python("count", jsonl(chat(2)), "--json", "--format", "openai-chat")
    from_stdin = python("count", "-", "--json", "--format", "openai-chat", input=json.dumps(chat(2)))
    assert from_file.returncode == from_stdin.returncode == 0, from_file.stderr
    assert json.loads(from_file.stdout)["tokens"] == json.loads(from_stdin.stdout)["tokens"]


def test_errors_quote_what_was_typed_so_that_it_can_be_seen(tmp_path):
    """A file of a glob, or an option, whose name turns the text around it is shown with marks in its place."""
    name = "b\u202egnp\u2066\u2028\u200f.json"
    for arguments in (("count", "a.json", name), ("count", f"--{name}"), ("convert", "a.json", "--to", name), (name,)):
        shown = python(*arguments, cwd=tmp_path)
        assert shown.returncode == 2
        assert not set("\u202e\u2066\u2028\u200f") & set(shown.stdout + shown.stderr)


def test_version_and_help(run):
    """--version names the program; --help of each command has examples and the exit codes."""
    assert python("--version").stdout.startswith("agentctx ")
    for command in COMMANDS:
        shown = run(command[0], "--help").stdout
        assert f"agentctx {command[0]}" in shown
        assert "Exit codes" in shown


def test_a_reader_that_stops_reading_is_no_error(jsonl, chat):
    """``| head`` closes the pipe: the command ends quietly."""
    path = jsonl(*[{"id": str(number), "messages": chat(3)} for number in range(300)])
    command = [
        sys.executable,
        "-m",
        "agentctx",
        "count",
        str(path),
        "--json",
        "--by-message",
        "--format",
        "openai-chat",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
    assert errors == b""


def test_where_typer_cannot_be_imported_one_line_says_so(tmp_path):
    """Without what the command line is made with, the command ends with one line about it."""
    (tmp_path / "typer.py").write_text("raise ModuleNotFoundError('No module named typer', name='typer')")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from agentctx.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: the command line ")
    assert "typer" in line


def test_a_terminal_without_arrows_gets_other_signs(jsonl, chat, record):
    """An encoding that lacks a character is no reason to fail."""
    done = python(
        "replay", jsonl(record(chat(1), "one")), "--window", "8k", env={**os.environ, "PYTHONIOENCODING": "ascii"}
    )
    assert done.returncode == 0, done.stderr
    assert "valid 2/2" in done.stdout
    assert "2 > 2" in done.stdout


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="the device is Linux's")
@pytest.mark.parametrize("command", [("count", "--json"), ("compact", "--window", "8k"), ("count",)], ids=" ".join)
def test_a_full_disk_is_one_line(jsonl, chat, record, command):
    """When stdout cannot be written, the command says so in one line."""
    path = jsonl(record(chat(1), "one"))
    with FULL.open("wb") as stdout:
        command = [sys.executable, "-m", "agentctx", command[0], str(path), *command[1:]]
        done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: cannot write")


@pytest.mark.skipif(not FULL.exists(), reason="the device is Linux's")
def test_help_and_version_on_a_full_disk_are_one_line():
    """What no command prints is told alike when it cannot be written."""
    for option in ("--version", "--help"):
        with FULL.open("wb") as stdout:
            command = [sys.executable, "-m", "agentctx", option]
            done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)
        assert (done.returncode, done.stderr) == (2, "error: cannot write: No space left on device\n")


@pytest.mark.skipif(os.name != "posix", reason="a shell's way to close a stream")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_closed_stdout_is_one_line(jsonl, chat, record, options):
    """``>&-`` is an error of writing as any other, and no file that is opened gets the place of stdout."""
    command = [sys.executable, "-m", "agentctx", "count", jsonl(record(chat(1), "one")), *options]
    done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "error: cannot write: Bad file descriptor\n")


@pytest.mark.parametrize("levels", [300, 900, 5_000, 100_000])
def test_what_is_nested_too_deep_ends_in_one_line(run, tmp_path, levels):
    """Nested so deep that it is read but not worked on, or not even read: worked on, or refused in one line."""
    path = tmp_path / "deep.json"
    deep = '{"a": ' * levels + "1" + "}" * levels
    path.write_text(json.dumps([USER, ASKS | {"odd": "@"}, ANSWER, USER]).replace('"@"', deep))
    cut, elsewhere = ("compact", "--window", "60"), (("convert", "--to", form) for form in ("anthropic", "openai-chat"))
    for command in (*COMMANDS, cut, *elsewhere):
        shown = run(command[0], path, *command[1:])
        assert settled(shown), (command, shown.exception)
        assert shown.exit_code != 2 or str(path) in shown.stderr
