"""``agentctx compare``: a table, JSON, Parquet; what is wrong with one session is said, and the others go on."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from agentctx.cli.app import app

ROOT = str(Path(__file__).parents[2])
SHIPPED = Path(__file__).parents[2] / "examples" / "sessions" / "coding_agent.jsonl"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the command in a folder with two sessions, one of which cannot be read."""
    monkeypatch.chdir(tmp_path)
    Path("sessions").mkdir()
    shutil.copy(SHIPPED, "sessions/one.jsonl")
    Path("empty").mkdir()
    Path("sessions/two.json").write_text('{"nothing": "known"}')

    def command(*arguments):
        return CliRunner().invoke(app, ["compare", *arguments, "--jobs", "1", "--model", "gpt-5.4"])

    return command


def test_a_table_of_pipelines(run):
    """A line for each pipeline; the file that is no session is named, and the exit code says so."""
    done = run("sessions", "--window", "33%", "-p", "coding_agent", "-p", "oldest_out", "--each")
    assert done.exit_code == 2
    assert "two.json" in done.stderr
    assert "1 session" in done.stdout
    assert "coding_agent" in done.stdout
    assert "Traceback" not in done.output


def test_requests_that_are_too_large_are_a_result_and_no_error(run):
    """They are counted in the row, and the exit code is 0; the help says so."""
    done = run("sessions/one.jsonl", "--window", "300", "-p", "oldest_out", "--json")
    assert (done.exit_code, json.loads(done.stdout)["overflowed"] > 0) == (0, True)
    assert "0 fine, also where requests were too large" in " ".join(run("--help").stdout.split())


def test_sessions_stand_in_the_order_in_which_they_are_read(run, tmp_path, chat, record):
    """However long each takes: of two processes the table is that of one."""
    path = tmp_path / "many.jsonl"
    records = [record(chat(count), f"s{place}") for place, count in enumerate((2, 30, 1, 9))]
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    done = of_ones_own(str(path), "--window", "16k", "-p", "coding_agent", "-p", "oldest_out", "--each", "--jobs", "2")
    told, _ = done.communicate()
    assert [line.split(", line ")[1].strip() for line in told.splitlines() if ", line " in line] == ["1", "2", "3", "4"]


def test_json_parquet_and_results(run):
    """The same rows everywhere; what is in the results is not run again."""
    options = ("sessions/one.jsonl", "--window", "16k", "-p", "oldest_out", "--out", "rows.jsonl")
    done = run(*options, "--json", "--parquet", "rows.parquet")
    assert done.exit_code == 0, done.output
    (row,) = map(json.loads, done.stdout.splitlines())
    assert (row["pipeline"], row["window"], row["overflowed"]) == ("oldest_out", 16_000, 0)
    (kept,) = pyarrow.parquet.read_table("rows.parquet").to_pylist()
    assert kept == row
    again = run(*options, "--json")
    assert json.loads(again.stdout)["seconds"] == row["seconds"]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("nowhere.jsonl",), "nowhere.jsonl"),
        (("sessions", "-p", "thirfty"), "no preset is called 'thirfty'"),
        (("sessions", "-p", "thrifty", "-p", "thrifty"), "two pipelines are called 'thrifty'"),
        (("sessions", "--window", "much"), "--window: 'much'"),
        (("sessions", "--config", "nowhere.toml"), "nowhere.toml: cannot be read"),
        (("sessions", "--executor", "json:dumps"), "--executor"),
        (("empty",), "no recorded session was found"),
        (("sessions", "--out", "sessions"), "cannot be read"),
        (("sessions/one.jsonl", "--out", "sessions/one.jsonl"), "is no row of a comparison"),
        (("sessions", "--parquet", "./sessions/one.jsonl"), "--parquet: ./sessions/one.jsonl is read by this command"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(run, arguments, what):
    """No traceback, exit code 2, and nothing that was there is changed."""
    before = Path("sessions/one.jsonl").read_bytes()
    done = run(*arguments)
    assert done.exit_code == 2
    assert what in done.stderr
    assert "Traceback" not in done.output
    assert Path("sessions/one.jsonl").read_bytes() == before


OWN = """
import os, sys, time
from agentctx import FitContextWindow, Pipeline

def stage(act):
    def run(context, call):
        act()
        return context
    return Pipeline(run, FitContextWindow(), budget=16_000)

def fails():
    raise RuntimeError("boom \\x1b[31m")

def closes():
    raise GeneratorExit

raises, exits, dies = stage(fails), stage(lambda: sys.exit(7)), stage(lambda: os._exit(9))
closed = stage(closes)
prints = stage(lambda: (print("NOISE"), os.system("echo NOISE")))
slow = stage(lambda: time.sleep(float(os.environ.get("SLOW", "0"))))
bare = Pipeline(FitContextWindow())
"""


def of_ones_own(*arguments, **settings):
    """Begins the command as a process in the working directory, with pipelines of a module there."""
    Path("my_pipelines.py").write_text(OWN)
    command = [sys.executable, "-m", "agentctx", "compare", *arguments]
    env = {**os.environ, "PYTHONPATH": ROOT}
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background of a shell ignore it
    try:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, **settings)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_stage_that_fails_costs_its_own_rows_only(run):
    """What it raises, sys.exit, a process that dies: each is an error of that pipeline and session; others go on."""
    named = [f"my_pipelines:{name}" for name in ("raises", "exits", "closed", "dies")]
    asked = [word for name in ("oldest_out", *named) for word in ("-p", name)]
    done = of_ones_own("sessions/one.jsonl", *asked, "--window", "33%", "--jobs", "2")
    told, said = done.communicate(timeout=300)
    assert done.returncode == 1, said
    errors = {line.split(": ")[2]: line for line in said.splitlines() if line.startswith("error: ")}
    assert sorted(errors) == sorted(named)
    assert all("sessions/one.jsonl, line 1" in line for line in errors.values())
    for name, why in zip(
        named, ("RuntimeError: boom ␛[31m", "sys.exit(7)", "GeneratorExit", "its process died"), strict=True
    ):
        assert why in errors[name]
        assert f"{name} (0 of 1)" in told
    assert "Traceback" not in said


def test_what_a_pipeline_prints_is_not_in_the_rows(run):
    """Neither what Python prints nor what a process of its own does; both go to stderr."""
    (line,) = Path("sessions/one.jsonl").read_text().splitlines()[:1]
    Path("short.json").write_text(json.dumps({"model": "gpt-5.4", "messages": json.loads(line)["messages"][:5]}))
    done = of_ones_own("short.json", "-p", "my_pipelines:prints", "--json", "--jobs", "1")
    told, said = done.communicate(timeout=300)
    assert json.loads(told)["pipeline"] == "my_pipelines:prints"
    assert said.count("NOISE") == 2 * json.loads(told)["calls"]


def test_a_pipeline_without_a_budget_takes_the_window(run, monkeypatch):
    """The same by compare and by replay; one that has its own is refused a window by both, unless others take it."""
    monkeypatch.syspath_prepend(str(Path.cwd()))
    monkeypatch.delitem(sys.modules, "my_pipelines", raising=False)
    Path("my_pipelines.py").write_text(OWN)
    path, bare, own = "sessions/one.jsonl", "my_pipelines:bare", "my_pipelines:raises"
    (row,) = map(json.loads, run(path, "-p", bare, "--window", "16k", "--json").stdout.splitlines())
    assert (row["window"], row["overflowed"]) == (16_000, 0)
    replayed = CliRunner().invoke(app, ["replay", path, "--pipeline", bare, "--window", "16k", "--json"])
    assert json.loads(replayed.stdout)["budget"]["window"] == 16_000
    for command in (["replay", path, "--pipeline", own], ["compare", path, "-p", own]):
        done = CliRunner().invoke(app, [*command, "--window", "16k"])
        assert (done.exit_code, "it has its own budget: leave --window" in done.stderr) == (2, True)
    both = run(path, "-p", own, "-p", "oldest_out", "--window", "16k")
    assert f"note: {own}: it has its own budget: --window is for the others" in both.stderr
    failed = CliRunner().invoke(app, ["replay", path, "--pipeline", own])
    assert (failed.exit_code, f"--pipeline {own}: RuntimeError: boom ␛[31m" in failed.stderr) == (2, True)


@pytest.mark.parametrize("columns", [200, 100, 80, 40])
def test_no_number_is_cut(run, monkeypatch, columns):
    """Where the columns have no room beside each other, they stand in tables below each other."""
    told = json.loads(run("sessions/one.jsonl", "-p", "oldest_out", "--window", "33%", "--json").stdout)
    monkeypatch.setenv("COLUMNS", str(columns))
    done = run("sessions/one.jsonl", "-p", "oldest_out", "--window", "33%")
    lines = done.stdout.splitlines()
    words = [word for line in lines if line.startswith(" oldest_out") for word in line.split()[1:]]
    assert max(map(len, lines)) <= columns
    assert len(words) == 11
    assert (words[0], words[2], words[4]) == (
        f"{told['calls']}",
        f"{told['cached_share']:.1%}",
        f"{told['compactions']}",
    )


def test_an_interrupt_loses_no_row(run, monkeypatch):
    """It says what is kept and how to go on; the same command then comes to the rows of an uninterrupted one."""
    (line,) = Path("sessions/one.jsonl").read_text().splitlines()[:1]
    shipped = json.loads(line)
    shipped["messages"] = shipped["messages"][:17]
    task = next(place for place, message in enumerate(shipped["messages"]) if message["role"] == "user")
    with Path("many.jsonl").open("w") as file:
        for number in range(10):
            shipped["messages"][task] = {"role": "user", "content": f"Task {number}"}
            file.write(json.dumps({**shipped, "id": f"s{number}"}) + "\n")
    asked = ["many.jsonl", "-p", "my_pipelines:slow", "-p", "oldest_out", "--window", "33%", "--model", "gpt-5.4"]
    monkeypatch.setenv("SLOW", "1")  # so that it is interrupted long before its end
    for least, how, code in ((2, signal.SIGINT, 130), (6, signal.SIGTERM, 143)):
        began = of_ones_own(*asked, "--jobs", "2", "--out", "rows.jsonl")
        while count_lines("rows.jsonl") < least and began.poll() is None:
            sleep(0.01)
        began.send_signal(how)
        told = began.communicate(timeout=300)[1]
        kept = count_lines("rows.jsonl")
        assert (began.returncode, kept < 20) == (code, True), told
        assert f"interrupted; {kept} rows are kept in rows.jsonl: the same command goes on from there" in told
    monkeypatch.delenv("SLOW")
    monkeypatch.syspath_prepend(str(Path.cwd()))
    monkeypatch.delitem(sys.modules, "my_pipelines", raising=False)
    assert run(*asked, "--out", "rows.jsonl").exit_code == 0
    assert run(*asked, "--out", "whole.jsonl").exit_code == 0
    assert rows_of("rows.jsonl") == rows_of("whole.jsonl")
    assert len(rows_of("whole.jsonl")) == count_lines("rows.jsonl") == 20


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="it looks up its processes in /proc")
@pytest.mark.parametrize(
    ("how", "send", "begun", "code"), [(signal.SIGINT, os.killpg, 2, 130), (signal.SIGTERM, os.kill, 1, 143)]
)
def test_an_interrupt_while_its_processes_begin_is_said_in_one_line(run, how, send, begun, code):
    """Sent by a terminal to all of them, or to the first alone: it ends with the signal's code, and no more is said."""
    began = of_ones_own(
        "sessions/one.jsonl", "-p", "oldest_out", "--window", "33%", "--jobs", "2", start_new_session=True
    )
    children = Path(f"/proc/{began.pid}/task/{began.pid}/children")
    while began.poll() is None and len(children.read_text().split()) < begun:
        sleep(0.005)
    send(began.pid, how)
    told = began.communicate(timeout=300)[1]
    assert (code, ["error: interrupted"]) == (began.returncode, [line[:18] for line in told.splitlines()]), told


def count_lines(path):
    """How many whole lines a file has."""
    return Path(path).read_bytes().count(b"\n") if Path(path).exists() else 0


def rows_of(path):
    """The rows of a file in one order, without how long they took."""
    rows = [{**json.loads(line), "seconds": 0} for line in Path(path).read_text().splitlines()]
    return sorted(rows, key=lambda row: (row["id"], row["pipeline"]))


def test_what_is_not_named_needs_no_model(run):
    """The preset that decides by prices is left out, with a note, where nobody named it and there are none."""
    command = ["compare", "sessions/one.jsonl", "--window", "16k", "--jobs", "1"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0
    assert "note: thrifty is compared only where the model is known: --model" in done.stderr
    assert "thrifty (0 of 1)" in done.stdout
    named = CliRunner().invoke(
        app, ["compare", "sessions/one.jsonl", "--window", "16k", "--jobs", "1", "-p", "thrifty"]
    )
    assert named.exit_code == 1
    assert "pass --model" in named.stderr


def test_workers_end_with_whoever_began_them(run):
    """Also where that is killed: none is left behind."""
    shutil.copy(SHIPPED, "sessions/two.json")
    command = [
        sys.executable,
        "-m",
        "agentctx",
        "compare",
        *["sessions/one.jsonl"] * 40,
        "--window",
        "33%",
        "--jobs",
        "2",
    ]
    began = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": ROOT}
    )
    deadline = monotonic() + 120
    while len(workers := descendants(began.pid)) < 4 and monotonic() < deadline:
        sleep(0.1)
    began.kill()
    began.communicate()
    while any(Path(f"/proc/{worker}").exists() for worker in workers) and monotonic() < deadline:
        sleep(0.1)
    assert len(workers) == 4  # two, what they are forked from, and what keeps track of what they share
    assert not [worker for worker in workers if Path(f"/proc/{worker}").exists()]


def descendants(process):
    """All processes that a process began, and those that these began."""
    try:
        own = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except FileNotFoundError:
        return []
    return [*own, *(found for each in own for found in descendants(each))]
