"""``agentctx sessions``: what lies on this machine, and one of it replayed."""

import gzip
import json
import os
import re
import shutil
from pathlib import Path

import pytest
from rich.cells import cell_len

from agentctx.economics import Usage
from agentctx.replay import Billed, Recording, Step
from agentctx.transcripts.costs import billed_cost, reckoned

FIXTURES = Path(__file__).parents[1] / "transcripts" / "fixtures"
SAID = ("Find out why", "comma", "Summary", "You are Codex", "print(")
"""Words that people and models say in the fixtures."""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with a session of Claude Code, which has a sub-agent's file, and an older one of Codex."""
    claude = tmp_path / "claude/projects/-work-app"
    agents = claude / "5e55-10/subagents"
    agents.mkdir(parents=True)
    shutil.copy(FIXTURES / "claude_code.jsonl", claude / "5e55-10.jsonl")
    lines = (FIXTURES / "claude_code.jsonl").read_text("utf-8").splitlines(keepends=True)
    side = "".join(line for line in lines if '"isSidechain": true' in line).replace("msg_s", "msg_other")
    (agents / "agent-a1b2.jsonl").write_text(side, "utf-8")
    (claude / "agent-old.jsonl").write_text(side, "utf-8")
    codex = tmp_path / "codex/sessions/2026/01/05"
    codex.mkdir(parents=True)
    rollout = codex / "rollout-2026-01-05T10-00-00-019a-codex.jsonl"
    shutil.copy(FIXTURES / "codex.jsonl", rollout)
    os.utime(rollout, (1_700_000_000, 1_700_000_000))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    return tmp_path


@pytest.mark.usefixtures("machine")
def test_sessions_are_listed_newest_first_with_what_they_cost(run):
    """Each has number, tool, project, size, model, calls and cost; what was said in it is not shown."""
    shown = run("sessions", "--json")
    assert shown.exit_code == 0, shown.stderr
    claude, codex = map(json.loads, shown.stdout.splitlines())
    assert (claude["number"], claude["tool"], claude["id"], claude["project"]) == (1, "Claude Code", "5e55-10", "/shop")
    assert (claude["model"], claude["model_calls"], claude["sub_agents"]) == ("claude-opus-4-5-20251101", 7, 1)
    assert claude["usage"]["cached"] == 7 * 12_000
    assert (codex["number"], codex["tool"], codex["id"], codex["model_calls"]) == (2, "Codex", "019a-codex", 3)
    assert codex["usd"] == pytest.approx((7_800 * 2.5 + 20_400 * 0.25 + 112 * 15) / 1e6)
    table = run("sessions").stdout
    assert "2 sessions, 10 model calls, $0.1" in table
    assert not [words for words in SAID if words in table + shown.stdout]
    assert run("sessions", "--last", "1").stdout.count("Codex") == 0


@pytest.mark.usefixtures("machine")
def test_a_session_is_replayed_by_its_number(run):
    """A number, or how an id begins, replays that session: tokens, cuts, and the cost with and without."""
    for arguments in (("sessions", "1"), ("replay", "--session", "1"), ("replay", "--session", "5e55")):
        shown = run(*arguments, "--json")
        assert shown.exit_code == 0, shown.stderr
        told = json.loads(shown.stdout)
        assert (told["id"], told["source"], told["summary"]["steps"]) == ("5e55-10", "Claude Code", 4)
        assert told["costs"]["billed"]["calls"] == 4
        assert told["costs"]["without"] == told["costs"]["sent"]
    for words in ("as it was billed  50,4", "reckoned without", "reckoned with ", "from Claude Code", "valid 4/4"):
        assert words in run("sessions", "1").stdout


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("sessions", "3"), "session 3: there are 2 sessions, and none has this number, or an id that begins so"),
        (("sessions", "zz"), "session zz: there are 2 sessions, and none has this number, or an id that begins so"),
        (("sessions", "--window", "8k"), "give its number, too"),
        (("replay", "--session", "1", "file.json"), "give a FILE or --session, not both"),
        (("replay", "--json"), "give a FILE, or --session"),
    ],
)
def test_what_is_no_session_is_one_line(run, arguments, said):
    """A number that nothing has, and options that make no sense, are one line each."""
    shown = run(*arguments)
    assert (shown.exit_code, shown.stderr.count("\n")) == (2, 1)
    assert said in shown.stderr


@pytest.mark.parametrize("columns", ["40", "76", "80", "100"])
def test_number_time_calls_and_cost_are_shown_whatever_the_width(run, machine, columns):
    """Where a path and a model's name are long, they are cut, and nothing else is."""
    own = machine / "claude/projects/-work-app/5e55-10.jsonl"
    long = own.read_text("utf-8").replace('"/shop"', f'"{"/a/long/path/名前" * 20}"')
    own.write_text(long.replace("claude-opus-4-5", "a-model-of-the-family-claude-opus-4-5"), "utf-8")
    shown = run("sessions", env={"COLUMNS": columns}).stdout
    words = shown.split()
    assert {"1", "2", "2023-11-14", "3", "$0.03", "7", "$0.01+"} <= set(words)
    if columns in ("80", "100"):
        row = next(line for line in shown.splitlines() if line.lstrip().startswith("2 "))
        assert row.split()[-2:] == ["3", "$0.03"]
        assert all(cell_len(line) <= int(columns) for line in shown.splitlines() if "│" not in line)


def test_what_is_no_file_is_passed_by_and_what_is_no_log_is_marked(run, machine):
    """A pipe is not waited for; random bytes, zeros and other JSON are listed as what cannot be read."""
    place = machine / "claude/projects/-work-app"
    os.mkfifo(place / "pipe.jsonl")
    os.mkfifo(place / "5e55-10/subagents/agent-pipe.jsonl")
    bad = {
        "random": bytes(range(128, 256)) * 9,
        "zeros": b"\0" * 999,
        "array": b"[1, 2]\n",
        "empty": b"",
        "other": b'{"a": 1}\n',
    }
    for name, content in bad.items():
        (place / f"{name}.jsonl").write_bytes(content)
    packed = gzip.compress((FIXTURES / "claude_code.jsonl").read_bytes())
    (place / "packed.jsonl.gz").write_bytes(packed)
    (place / "damaged.jsonl.gz").write_bytes(packed[: len(packed) // 9])
    told = list(map(json.loads, run("sessions", "--json").stdout.splitlines()))
    assert {one["id"] for one in told if not one["readable"]} == {*bad, "damaged"}
    assert {one["id"] for one in told if one["readable"]} == {"5e55-10", "019a-codex", "packed"}
    assert next(one["model_calls"] for one in told if one["id"] == "packed") == 6
    shown = run("sessions").stdout
    assert re.search(r"cannot be read: (\d, ){5}\d\n", shown)


def test_a_machine_without_sessions_says_where_was_looked(run, tmp_path, monkeypatch):
    """Nothing there is no error: the folders that were looked into are named."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "none"))
    shown = run("sessions")
    assert (shown.exit_code, shown.stdout) == (0, "")
    assert "no session of Claude Code or Codex lies on this machine" in shown.stderr
    assert str(tmp_path) in shown.stderr.replace("\n", "")


def test_every_command_reads_and_names_another_tool_s_file(run):
    """Count, validate, compact and convert say whose file it is; what they write is a recorded session of ours."""
    path = FIXTURES / "codex.jsonl"
    assert "openai-responses, from Codex  019a-codex" in run("count", path).stdout
    assert "from Codex" in run("validate", path).stdout
    for command in (("compact", path, "--window", "32k"), ("convert", path, "--to", "anthropic")):
        shown = run(*command)
        assert shown.exit_code == 0, shown.stderr
        told = json.loads(shown.stdout)
        assert (told["id"], told["source"], told["meta"]) == ("019a-codex", "Codex", {"model": "gpt-5.4"})


def test_a_recording_without_a_call_says_so(run, jsonl, record):
    """A replay of words that no model was asked for says that there was none."""
    shown = run("replay", jsonl(record([{"role": "assistant", "content": "Hello"}], "one")), "--window", "8k")
    assert (shown.exit_code, "no model calls: " in shown.stdout) == (0, True)


def test_costs_are_reckoned_by_the_provider_s_cache_rules():
    """What both ways share with their call before is read from the cache in whole steps, while it lives."""
    messages = [{"role": role, "content": "Hello"} for role in ("user", "assistant") * 2]
    steps = [
        Step(1, 1, 0, 1, tokens_given=2_000, tokens_sent=2_000),
        Step(2, 3, 1, 3, tokens_given=4_000, tokens_sent=3_000, prefix_tokens=1_500),
    ]
    costs = reckoned(Recording(messages, model="gpt-5.4"), steps)
    assert (costs.without.usage.fresh, costs.without.usage.cached) == (2_000 + 4_000 - 1_920, 1_920)
    assert (costs.sent.usage.fresh, costs.sent.usage.cached) == (2_000 + 3_000 - 1_408, 1_408)
    out = costs.sent.usage.output
    assert costs.sent.usd == pytest.approx((3_592 * 2.5 + 1_408 * 0.25 + out * 15) / 1e6)
    late = tuple(Billed(index, Usage(fresh=10), at=at) for index, at in ((1, 1e9), (3, 1e9 + 86_400)))
    costs = reckoned(Recording(messages, model="gpt-5.4", billed=late), steps)
    assert (costs.without.usage.cached, costs.sent.usage.cached) == (0, 0)


def test_recorded_prices_go_before_reckoned_ones():
    """A price that the log says is taken as it is; a model without a price is counted apart."""
    usage = Usage(fresh=1_000_000)
    calls = [Billed(1, usage, "gpt-5.4", cost=7.0), Billed(3, usage, "gpt-5.4"), Billed(5, usage, "nobody-s-model")]
    total = billed_cost(calls)
    assert (total.calls, total.unpriced) == (3, 1)
    assert total.usd == pytest.approx(7.0 + 5.0)
    nobody = reckoned(Recording([], model="nobody-s-model", billed=tuple(calls)), [])
    assert (nobody.billed, nobody.without, nobody.sent) == (total, None, None)
