"""Many sessions through many pipelines: the same rows on every executor, each pair once, none lost."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from attrs import evolve

from agentctx import Budget, ConfigError, FitContextWindow, InvalidInput, Pipeline
from agentctx.comparison import Contender, Failed, Measured, Results, compare, measure, processes, read_contenders
from agentctx.comparison.run import READY, contender, read_rows
from agentctx.replay import Recording
from agentctx.testing import assistant, call, result, transcript, user
from agentctx.transcripts import read_transcripts

REPOSITORY = Path(__file__).parents[2]
SHIPPED = REPOSITORY / "examples" / "sessions" / "coding_agent.jsonl"
MODEL = "gpt-5.4"


def session(rounds=9, said="word "):
    """A recording of so many tool calls, with a question of the user's in the middle."""
    turns = [user("Fix src/app.py, please.")]
    for place in range(rounds):
        turns += [
            assistant(call(f"c{place}", "read", {"path": f"src/file_{place}.py"})),
            result(f"c{place}", said * 90),
        ]
        if place == rounds // 2:
            turns += [assistant("What now?"), user("Go on with src/file_0.py.")]
    return Recording(transcript("openai-chat", *turns, assistant("Done.")), model=MODEL)


def ready(*names, window=0.4):
    """Pipelines by name, in a window that forces cuts."""
    return [Contender.of(name, preset=name, window=window) for name in names]


def untimed(rows):
    """The rows in one order, without how long they took."""
    return sorted((evolve(row, seconds=0.0) for row in rows), key=lambda row: (row.session, row.pipeline))


def test_a_recorded_session_in_every_ready_pipeline():
    """Sending everything is too large and sees all; every other one fits, is legal, and says what it keeps."""
    recording = next(iter(read_transcripts(str(SHIPPED)))).recording
    rows = {row.pipeline: row for row in compare([("s", recording)], ready(*READY, window=0.33), model=MODEL)}
    assert sorted(rows) == sorted(READY)
    everything = rows.pop("everything")
    assert everything.tokens_sent == everything.tokens_given > 0
    assert everything.overflowed > 0
    assert (everything.visible, everything.compactions) == (everything.values, 0)
    for row in rows.values():
        assert (row.overflowed, row.invalid, row.silent) == (0, 0, 0)
        assert row.calls == everything.calls
        assert row.compactions > 0
        assert 0 < row.usd < everything.usd
        assert 0.5 < row.cached_share < 1
    assert rows["coding_agent"].visible > rows["oldest_out"].visible


def test_the_rows_are_the_same_on_every_executor():
    """One by one, in threads, in processes; and the pipelines stand in the order of the sessions where one works."""
    given = [(f"s{place}", session(7 + place)) for place in range(3)]
    pipelines = [*ready("coding_agent", "oldest_out"), Contender.of("own", stages=["FitContextWindow"], window=0.5)]
    alone = list(compare(given, pipelines))
    assert [(row.session, row.pipeline) for row in alone] == [
        (name, each.name) for name, _ in given for each in pipelines
    ]
    with ThreadPoolExecutor(2) as threads:
        assert untimed(compare(given, pipelines, executor=threads)) == untimed(alone)
    with processes(2) as workers:
        assert untimed(compare(given, pipelines, executor=workers, workers=2)) == untimed(alone)


def test_sessions_are_read_as_they_are_needed():
    """Of a long corpus only a few are in memory: what the workers have, and so many bytes ahead."""
    taken = []

    def corpus():
        for place in range(50):
            taken.append(place)
            yield f"s{place}", session(2, said=f"{place} ")

    with ThreadPoolExecutor(1) as thread:
        rows = compare(corpus(), ready("oldest_out"), executor=thread, workers=1, ahead=1_000)
        next(rows)
        assert len(taken) <= 4
        rows.close()
    assert len(taken) <= 4


class Waiting(ThreadPoolExecutor):
    """One thread, which waits until it may begin."""

    def __init__(self):
        super().__init__(1)
        self.begun, self.may = [], Event()

    def submit(self, run, recording, pipeline, session, model):
        """Take down what is begun, and run it when everything has been read."""
        self.begun.append((session, pipeline.name))
        return super().submit(self._row, run, recording, pipeline, session, model)

    def _row(self, run, *pair):
        assert self.may.wait(300)
        return run(*pair)


def test_what_is_largest_goes_first():
    """What waits goes by its size, and of what is as large, the first goes first."""
    given = [(f"s{place}", session(2, said=f"{place} ")) for place in range(4)]
    given[2:2] = [("large", session(12, said="2 "))]

    with Waiting() as thread:

        def corpus():
            yield from given
            thread.may.set()

        rows = list(compare(corpus(), ready("everything", "oldest_out"), executor=thread, workers=1))
    assert sorted((row.session, row.pipeline) for row in rows) == sorted(thread.begun)
    assert thread.begun == [
        ("s0", "everything"),  # two are with the executor before anything waits
        ("s0", "oldest_out"),
        ("large", "everything"),
        ("large", "oldest_out"),
        *((f"s{place}", name) for place in (1, 2, 3) for name in ("everything", "oldest_out")),
    ]


def test_what_was_interrupted_goes_on(tmp_path):
    """Rows that are there are not run again; a line that was not finished is; at the end each is there once."""
    path, given = tmp_path / "rows.jsonl", [(f"s{place}", session(4, said=f"{place} ")) for place in range(4)]
    pipelines = ready("coding_agent", "oldest_out")
    begun = compare(given, pipelines, results=Results(str(path)))
    first = [next(begun) for _ in range(3)]
    begun.close()
    for torn in (b'{"', b'{"key": "cut in the mid'):
        with path.open("ab") as file:
            file.write(torn)
        assert len(Results(str(path))) == 3
    results = Results(str(path))
    assert len(results) == 3
    rows = list(compare(given, pipelines, results=results))
    assert rows[:3] == first
    assert len(path.read_text().splitlines()) == len(rows) == 8
    again = list(compare(given, pipelines, results=Results(str(path))))
    assert again == rows
    changed = [("s0", evolve(given[0][1], model="claude-sonnet-4-5"))]
    assert next(compare(changed, pipelines, results=Results(str(path)))) not in rows


@pytest.mark.parametrize("content", [b'{"a": 1}\n', b"nonsense", b'{"key": "a", "session": 3}\n', b"[1]\n"])
def test_another_kind_of_file_is_left_as_it_is(tmp_path, content):
    """It is refused by name, and nothing of it is lost."""
    path = tmp_path / "notes.json"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"notes.json"):
        Results(str(path))
    assert path.read_bytes() == content


def test_a_session_that_cannot_be_replayed_costs_its_own_rows_only():
    """It is said why; the others are there."""
    broken = Recording([{"role": "user", "content": 3}], format="openai-chat", model=MODEL)
    found = list(compare([("bad", broken), ("good", session(3))], ready("oldest_out")))
    assert isinstance(found[0], Failed)
    assert found[0].session == "bad"
    assert isinstance(found[1], Measured)


def test_a_session_without_model_or_window():
    """No window is guessed."""
    recording = evolve(session(2), model=None)
    with pytest.raises(ConfigError, match="names no model, and no window was given"):
        measure(recording, Contender.of("plain", preset="oldest_out"))


OWN = Pipeline(FitContextWindow(), budget=Budget(2_000))


def make(budget, model):
    """A pipeline of the user's."""
    return Pipeline(FitContextWindow(), budget=budget)


def make_nothing(budget, model):
    """No pipeline."""
    return 3


def test_pipelines_of_ones_own(tmp_path, monkeypatch):
    """By module and name, a pipeline or a function; and in TOML, with stages and their options."""
    (tmp_path / "mine_to_compare.py").write_text(Path(__file__).read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    text = """
    [small]
    preset = "coding_agent"
    window = 2_000
    trigger = 0.9
    [stages]
    stages = [{TruncateToolOutputs = {max_tokens = 50}}, {TruncateOldest = {}}]
    [made]
    pipeline = "mine_to_compare:make"
    window = 3_000
    [whole]
    pipeline = "mine_to_compare:OWN"
    """
    Path("pipelines.toml").write_text(text, encoding="utf-8-sig")  # some editors begin a file with a mark
    pipelines = read_contenders("pipelines.toml", window=2_500)
    rows = {row.pipeline: row for row in compare([("s", session())], pipelines)}
    assert {name: row.window for name, row in rows.items()} == {
        "small": 2_000,
        "stages": 2_500,
        "made": 3_000,
        "whole": 2_000,
    }
    assert all(row.overflowed == row.invalid == 0 for row in rows.values())


@pytest.mark.parametrize(
    ("made_of", "what"),
    [
        ({}, "one of preset, pipeline and stages; this one has none"),
        ({"preset": "thrifty", "stages": []}, "this one has preset and stages"),
        ({"preset": "nobody"}, "no preset is called 'nobody'"),
        ({"preset": "thrifty", "colour": 3}, "unknown 'colour'"),
        ({"stages": ["Nobody"]}, "stage 0: no stage is called 'Nobody'"),
        ({"stages": ["AgentctxError"]}, "stage 0: no stage is called 'AgentctxError'"),
        ({"preset": "everything", "trigger": 0.5}, "everything leaves nothing out: leave trigger out"),
        ({"stages": [{"TrimRounds": {"keep": 3}}]}, "stage 0: TrimRounds"),
        ({"stages": [{"a": {}, "b": {}}]}, "stage 0 is"),
        ({"stages": "TrimRounds"}, "it is a list"),
        ({"stages": []}, "stages is empty"),
        ({"stages": ["FitContextWindw"]}, "did you mean 'FitContextWindow'?"),
        ({"stages": [{"TruncateToolOutputs": {"max_tokns": 3}}]}, "no option 'max_tokns' (did you mean 'max_tokens'?)"),
        ({"preset": "thrifty", "window": 9_000, "trigger": 9.5}, "trigger"),
        ({"preset": "thrifty", "window": -3}, "window is -3"),
        ({"preset": "thrifty", "window": 1}, "one token; write 1.0"),
        ({"pipeline": "nowhere"}, "must be MODULE:NAME"),
        ({"pipeline": "json:nowhere"}, "cannot be imported"),
        ({"pipeline": "json:__name__"}, "must be a Pipeline"),
    ],
)
def test_what_makes_no_pipeline_is_said_before_any_session_is_read(made_of, what):
    """The error names the contender, and what is wrong with it."""
    with pytest.raises(ConfigError, match="mine") as error:
        Contender.of("mine", **made_of)
    assert what in str(error.value)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("= 3", "is no TOML"),
        ("a = 3", "a is 3"),
        ("", "has no tables"),
        ("[a]\nb = 3", "a: unknown 'b'"),
        ("['']\npreset = 'thrifty'", "has no name"),
        ("[a]\nstages = ['Nobody']", "a: stage 0: no stage"),
        ("[a]\npreset = 'thrifty'\ntrigger = 2026-01-01", "a: holds a date"),
    ],
)
def test_a_file_that_has_no_pipelines(tmp_path, text, what):
    """It is named, with what is wrong in it."""
    (tmp_path / "p.toml").write_text(text)
    with pytest.raises(ConfigError, match=rf"p\.toml: .*{what}"):
        read_contenders(str(tmp_path / "p.toml"))


def test_a_word_for_a_pipeline():
    """A preset by its name, one's own by module and name."""
    assert contender("thrifty", window=9).name == "thrifty"
    with pytest.raises(ConfigError, match="no preset is called 'thirfty'"):
        contender("thirfty")


def test_the_example_runs_on_a_cluster_of_dask(tmp_path):
    """On two processes of this machine, with the rows of this process."""
    (tmp_path / "one.jsonl").write_bytes(SHIPPED.read_bytes())
    script = str(REPOSITORY / "examples" / "compare_on_dask.py")
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY), "DASK_CONFIG": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, script, str(tmp_path)], capture_output=True, text=True, check=False, env=env, timeout=600
    )
    assert done.returncode == 0, done.stderr
    lines = sorted(line.partition("line 1: ")[2] for line in done.stdout.splitlines())
    recording = next(iter(read_transcripts(str(SHIPPED)))).recording
    rows = compare([("", recording)], ready("coding_agent", "oldest_out", window=0.33), model=MODEL)
    told = [
        f"{row.pipeline}: ${row.usd:.2f}, {row.visible / row.values:.0%} of what later calls needed visible"
        for row in rows
    ]
    assert lines == sorted(told)


def test_rows_are_values_of_json():
    """Written and read again, a row is equal."""
    row = measure(session(3), ready("coding_agent")[0], session="s")
    assert Measured.from_dict(json.loads(json.dumps(row.to_dict()))) == row


WRONG = [True, -1, 2**63, 10**400, float("nan"), float("inf"), "1", [], {}, None]


def test_a_row_of_other_values_is_no_row(tmp_path):
    """Whatever stands in a field in place of what belongs there, the file is refused by its line and left as it is."""
    row, path = measure(session(2), ready("oldest_out")[0], session="s").to_dict(), tmp_path / "rows.jsonl"
    for name, value in row.items():
        optional, word = name in {"id", "model", "window", "usd"}, isinstance(value, str)
        for other in WRONG:
            if (optional and other is None) or (isinstance(other, str) and (word or name in {"id", "model"})):
                continue
            path.write_text(json.dumps({"key": "k", **row, name: other}) + "\n")
            before = path.read_bytes()
            with pytest.raises(InvalidInput, match="line 1: is no row"):
                Results(str(path))
            with pytest.raises(InvalidInput, match="line 1: is no row"):
                read_rows(path.read_text(), "rows.jsonl")
            assert path.read_bytes() == before


def test_results_are_a_file():
    """A device, which cannot be gone on from and may never end, is refused and not read."""
    with pytest.raises(InvalidInput, match="a pipe or a device"):
        Results("/dev/zero")
