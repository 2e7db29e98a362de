import json
import os
import re
import subprocess
import sys
from pathlib import Path
from time import sleep

import pytest

REPOSITORY = Path(__file__).parents[2]
EXAMPLES = REPOSITORY / "examples"
SHIPPED = EXAMPLES / "sessions" / "coding_agent.jsonl"
OF_A_MACHINE = re.compile(r"/root/|/opt/|/home/(?!dev\b)|/Users/(?!dev\b)|agentctx-session-|site-packages/agentctx")
NO_NETWORK = """\
import socket


class Closed(socket.socket):
    def connect(self, address):
        if self.family != socket.AF_UNIX:
            raise OSError(f"the network is closed: {address}")
        return super().connect(address)

    connect_ex = connect


def refuse(*args, **kwargs):
    raise OSError(f"the network is closed: {args}")


socket.socket = Closed
socket.getaddrinfo = refuse
"""


@pytest.fixture(scope="session")
def offline(tmp_path_factory):
    """An environment in which Python finds this repository, and no network."""
    folder = tmp_path_factory.mktemp("offline")
    (folder / "sitecustomize.py").write_text(NO_NETWORK, encoding="utf-8")
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), str(REPOSITORY))), "PYTHONWARNINGS": "error"}


@pytest.fixture(scope="session")
def run(offline):
    """Runs an example as a user would, from anywhere."""

    def start(name, *options, folder=None):
        command = [sys.executable, str(EXAMPLES / name), *map(str, options)]
        return subprocess.run(
            command, cwd=folder, env=offline, capture_output=True, text=True, timeout=6000, check=False
        )

    return start


@pytest.fixture(scope="session")
def recorded(run, tmp_path_factory):
    """Two fresh recordings of one commit of this repository; made once, also when tests run in several processes."""
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "recorded"
    ready = folder / "ready.json"
    try:
        folder.mkdir()
    except FileExistsError:
        for _ in range(6_000):
            if ready.exists():
                break
            sleep(0.1)
    else:
        made = []
        try:
            made += [record(run, folder), record(run, folder)]
        finally:
            (folder / "made.json").write_text(json.dumps(made), encoding="utf-8")
            (folder / "made.json").rename(ready)
    return json.loads(ready.read_text(encoding="utf-8"))


def record(run, folder):
    """A recording of what was committed when the first of them was made."""
    checkout, out = folder / "checkout", folder / "deeper" / "session.jsonl"
    if not checkout.exists() and (REPOSITORY / ".git").exists():
        subprocess.run(["git", "clone", "--quiet", str(REPOSITORY), str(checkout)], check=True, timeout=600)
    options = ("--checkout", checkout) if checkout.exists() else ()
    done = run("record_session.py", "--out", out, *options, folder=folder)
    assert done.returncode == 0, done.stderr
    return out.read_text(encoding="utf-8")


@pytest.fixture(params=["shipped", "fresh"])
def line(request):
    """A recording: the one that is shipped, and one that was made just now."""
    return SHIPPED.read_text(encoding="utf-8") if request.param == "shipped" else request.getfixturevalue("recorded")[0]


@pytest.fixture
def session(line):
    """A recording, read."""
    return json.loads(line)


def test_the_network_is_closed_to_examples(offline):
    """What runs the examples below really refuses the network, or their success would prove nothing."""
    script = "import socket; socket.create_connection(('127.0.0.1', 9))"
    done = subprocess.run([sys.executable, "-c", script], env=offline, capture_output=True, text=True, check=False)
    assert "the network is closed" in done.stderr


def test_the_quick_start_makes_a_large_request_fit(run, tmp_path):
    """The quick start prints more tokens before than fit its window, and no more after than do."""
    done = run("quick_start.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    before, after = (int(number.replace(",", "")) for number in re.findall(r"([\d,]+) tokens in", done.stdout))
    assert before > 8_000 - 1_000 >= after > 0
    assert "message 3 was edited" in done.stdout
    assert "same objects: True" in done.stdout


def test_the_agent_loop_fails_without_a_session(run, tmp_path):
    """Without agentctx the model refuses the third file, in a provider's words, and the loop ends."""
    done = run("agent_loop.py", "--without", folder=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "maximum context length is 8000 tokens" in done.stdout
    assert len(re.findall(r"^call", done.stdout, re.MULTILINE)) < 11


@pytest.fixture
def answer(offline, tmp_path):
    """What the agent loop ought to find out, read from the files of its project with other means."""
    script = f"import pathlib, agent_loop; agent_loop.Project(pathlib.Path({str(tmp_path)!r})).make()"
    subprocess.run([sys.executable, "-c", script], cwd=EXAMPLES, env=offline, check=True, timeout=600)
    waits = {
        int(re.search(r"timeout_ms = (\d+)", file.read_text(encoding="utf-8"))[1]): file.stem
        for file in tmp_path.glob("*.conf")
    }
    return f"{waits[max(waits)]} waits longest for its database: {max(waits)} ms."


def test_the_agent_loop_answers_with_a_session(run, answer, tmp_path):
    """With a session every request fits, though the history outgrows the window, and the answer is right."""
    done = run("agent_loop.py", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    steps = re.findall(r"^call +\d+: +([\d,]+) tokens so far, +([\d,]+) sent$", done.stdout, re.MULTILINE)
    history, sent = ([int(number.replace(",", "")) for number in column] for column in zip(*steps, strict=True))
    assert len(steps) == 11
    assert max(history) > 3 * 8_000
    assert max(sent) <= 8_000
    assert done.stdout.splitlines()[-1] == answer


def test_two_recordings_of_a_commit_are_the_same_bytes(recorded):
    """Nothing in a recording depends on when or where it was made."""
    assert recorded[0] == recorded[1]


def test_recording_leaves_the_checkout_as_it_was(recorded):
    """The agent edits and commits in a clone: no file that it writes is in the checkout."""
    written = {
        json.loads(call["function"]["arguments"])["path"]
        for message in json.loads(recorded[0])["messages"]
        for call in message.get("tool_calls", ())
        if call["function"]["name"] == "write_file"
    }
    assert written
    assert not [path for path in written if (REPOSITORY / path).exists()]


def test_a_recording_has_the_shape_of_a_transcript(line, session):
    """One JSON object on one line, with the keys that recorded transcripts have."""
    assert line.endswith("\n")
    assert line.count("\n") == 1
    assert list(session) == ["id", "source", "license", "format", "system", "tools", "messages", "meta"]
    assert session["license"] == "MIT"
    assert session["format"] == "openai-chat"


def test_a_recording_is_long_and_small(line, session):
    """It has clearly more than 32k tokens, at least 40 messages, and at most 400 KB."""
    assert session["meta"]["tokens"] > 36_000
    assert len(session["messages"]) >= 40
    assert len(line.encode()) <= 400_000


def test_a_recording_answers_every_call_at_once_and_in_order(session):
    """Each assistant turn is followed by exactly the results of its calls, whose ids are never used twice."""
    waiting, seen = [], set()
    for message in session["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
            continue
        assert waiting == []
        waiting = [call["id"] for call in message.get("tool_calls", ())]
        assert seen.isdisjoint(waiting)
        seen.update(waiting)
    assert waiting == []


def test_a_recording_shows_what_agents_do(session):
    """Parallel calls, a user who comes back, a command that fails and then passes, and large results are all in it."""
    messages = session["messages"]
    results = [message["content"] for message in messages if message["role"] == "tool"]
    assert [message["role"] for message in messages].count("user") == 2
    assert any(len(message.get("tool_calls", ())) > 2 for message in messages)
    assert any("3 failed" in result for result in results)
    assert any("4 passed" in result for result in results)
    assert sum(len(result) > 8_000 for result in results) >= 3


def test_a_recording_does_not_tell_where_it_was_made(line):
    """No path of the machine, of a home directory or of an installation is in it."""
    assert OF_A_MACHINE.findall(line) == []
    if str(REPOSITORY) != "/repo":
        assert str(REPOSITORY) not in line


def test_recording_says_what_it_needs(tmp_path):
    """Without pytest there is nothing to record: the example says what to install, and writes nothing."""
    script = REPOSITORY / "examples" / "record_session.py"
    code = f"import sys, runpy; sys.modules['pytest'] = None; sys.path.insert(0, {str(script.parent)!r}); "
    code += f"sys.argv[1:] = ['--out', 'made.jsonl']; runpy.run_path({str(script)!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "the agent needs pytest: pip install '.[dev]'" in done.stderr
    assert not list(tmp_path.iterdir())
