"""``agentctx report``."""

import json

import pytest


def test_one_command_makes_the_page(run, jsonl, chat, record, tmp_path):
    """A session and a window are enough: the page is written, and the command says what is in it."""
    out = tmp_path / "page.html"
    told = run("report", jsonl(record(chat(6), "one")), "--window", "8k", "-o", out)
    assert told.exit_code == 0, told.stderr
    assert out.read_text("utf-8").startswith("<!doctype html>")
    assert f"{out}  {out.stat().st_size:,} bytes, 7 model calls, valid 7/7" in told.stdout.replace("\n", "")
    assert "secrets included" in told.stderr


def test_without_content_it_does_not_warn(run, jsonl, chat, record, tmp_path):
    """A page without texts holds no secrets, so none are spoken of."""
    out = tmp_path / "page.html"
    told = run("report", jsonl(record(chat(1), "one")), "--window", "8k", "-o", out, "--no-content")
    assert told.exit_code == 0
    assert "secrets" not in told.stderr


def test_json_says_what_replay_says(run, jsonl, chat, record, tmp_path):
    """The numbers are those of a replay with the same options."""
    path, options = jsonl(record(chat(12), "one")), ("--window", "8k", "--preset", "coding_agent", "--json")
    told = json.loads(run("report", path, "-o", tmp_path / "page.html", *options).stdout)
    replayed = json.loads(run("replay", path, *options).stdout)
    assert told["summary"] | {"seconds": 0} == replayed["summary"] | {"seconds": 0}
    assert told["bytes"] == (tmp_path / "page.html").stat().st_size


def test_the_page_goes_to_stdout_when_asked(run, jsonl, chat, record):
    """With -o - the page is all that stdout has."""
    told = run("report", jsonl(record(chat(1), "one")), "--window", "8k", "-o", "-")
    assert told.stdout.startswith("<!doctype html>")
    assert told.stdout.endswith("</html>\n")
    assert "model calls" in told.stderr


def test_a_call_that_does_not_fit_is_exit_code_one(run, jsonl, chat, record, tmp_path):
    """The page is written, and the exit code says that something was found."""
    messages = chat(2)
    messages[0]["content"] = "never forget " * 2000
    told = run("report", jsonl(record(messages, "one")), "--window", "2k", "-o", tmp_path / "page.html")
    assert told.exit_code == 1
    assert (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "pass --window"),
        (("--window", "8k", "--no-content", "--full"), "pass one of them"),
        (("--window", "8k", "-o", "-", "--json"), "no room for --json"),
        (("--window", "8k", "--pipeline", "nowhere"), "MODULE:NAME"),
        (("--window", "8k", "--pipeline", "json:nothing"), "cannot be imported"),
        (("--window", "8k", "--pipeline", "json:loads"), "calling json:loads failed"),
        (("--window", "8k", "--pipeline", "string:digits"), "must be a Pipeline"),
        (("--window", "8k", "--preset", "thrifty", "--pipeline", "json:loads"), "pass one of them"),
        (("--window", "8k", "-o", "/nowhere/page.html"), "cannot be written"),
    ],
)
def test_what_cannot_be_is_one_line(run, jsonl, chat, options, said, tmp_path, monkeypatch):
    """Each is one line on stderr and exit code 2, and no page is written."""
    monkeypatch.chdir(tmp_path)
    told = run("report", jsonl(chat(1)), *options)
    assert (told.exit_code, told.stderr.count("\n")) == (2, 1)
    assert said in told.stderr
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("options", [("--window", "8k"), ("--compare",)])
def test_a_page_does_not_take_the_place_of_what_it_is_made_of(run, jsonl, chat, record, tmp_path, options):
    """A session, or rows, that are named as the page too, by whatever name, are there as before."""
    path = jsonl(record(chat(1), "one"))
    before, link = path.read_bytes(), tmp_path / "link.html"
    link.symlink_to(path)
    told = run("report", *options, path, "-o", link)
    assert (told.exit_code, told.stderr.count("\n")) == (2, 1)
    assert "is read by this command" in told.stderr
    assert path.read_bytes() == before


def test_a_pipeline_of_ones_own(run, jsonl, chat, record, tmp_path, monkeypatch):
    """A module of the working directory gives the pipeline, ready or made for a budget; replay takes it, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "my_context.py").write_text(
        "from agentctx import Budget, Pipeline, TrimRounds\n"
        "ready = Pipeline(TrimRounds(2), budget=Budget(9_000))\n"
        "bare = Pipeline(TrimRounds(2))\n"
        "def made(budget, model):\n    return Pipeline(TrimRounds(2), budget=budget)\n"
    )
    path = jsonl(record(chat(6), "one"))
    for options in (("my_context:ready",), ("my_context:made", "--window", "9k")):
        told = run("replay", path, "--json", "--pipeline", *options)
        assert {each["stage"] for each in json.loads(told.stdout)["summary"]["left_out"]} == {"TrimRounds"}
    assert run("report", path, "--pipeline", "my_context:ready").exit_code == 0
    assert "has its own budget" in run("replay", path, "--pipeline", "my_context:ready", "--window", "9k").stderr
    assert (
        "it is called with a Budget and a model's name"
        in run("replay", path, "--window", "8k", "--pipeline", "json:dumps").stderr
    )
    assert run("replay", path, "--pipeline", "my_context:bare", "--window", "9k").exit_code == 0


def test_a_page_of_a_comparison(run, jsonl, chat, record, tmp_path):
    """The rows that compare wrote become a page; a session beside them is refused."""
    rows, out = tmp_path / "rows.jsonl", tmp_path / "compared.html"
    path = jsonl(record(chat(3), "one"))
    assert run("compare", path, "--window", "8k", "-p", "everything", "--jobs", "1", "--out", rows).exit_code == 0
    told = run("report", "--compare", rows, "-o", out)
    assert (told.exit_code, out.read_text("utf-8")[:15]) == (0, "<!doctype html>")
    assert "1 rows" in told.stdout
    refused = run("report", path, "--compare", rows)
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert "no row of a comparison" in run("report", "--compare", path, "-o", out).stderr
