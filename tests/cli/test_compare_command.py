"""``agentctx compare``: a table, JSON, Parquet; what is wrong with one session is said, and the others go on."""

import json
import os
import shutil
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


def test_json_parquet_and_results(run):
    """The same rows everywhere; what is in the results is not run again."""
    options = ("sessions/one.jsonl", "--window", "16k", "-p", "oldest_out", "--out", "rows.jsonl")
    done = run(*options, "--json", "--parquet", "rows.parquet")
    assert done.exit_code == 0, done.output
    (row,) = map(json.loads, done.stdout.splitlines())
    assert (row["pipeline"], row["window"], row["overflowed"]) == ("oldest_out", 16_000, 0)
    (kept,) = pyarrow.parquet.read_table("rows.parquet").to_pylist()
    assert kept == {name: value for name, value in row.items() if name != "cached_share"}
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
    deadline = monotonic() + 30
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
