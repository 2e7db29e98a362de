"""``agentctx replay``."""

import json

import pytest


def test_every_model_call_is_a_line_and_the_verdict_is_the_last(run, jsonl, chat, record):
    """A replay has a line for each model call, and ends with whether all could have been sent."""
    path = jsonl(record(chat(12), "one"))
    shown = run("replay", path, "--window", "8k")
    assert shown.exit_code == 0, shown.stderr
    assert shown.stdout.rstrip().endswith("valid 13/13, within budget 13/13")
    numbers = [line.split()[0] for line in shown.stdout.splitlines() if "→" in line]
    assert numbers == [str(number) for number in range(1, 14)]
    assert "▼" in shown.stdout


@pytest.mark.parametrize("builder", ["chat", "anthropic"])
def test_json_has_every_step_and_the_sum(run, jsonl, record, builder, request):
    """The JSON of a replay holds each step within the limit, and a summary that adds up."""
    messages = request.getfixturevalue(builder)(12)
    format_name = {"chat": "openai-chat", "anthropic": "anthropic"}[builder]
    told = json.loads(
        run("replay", jsonl(record(messages, "one", format=format_name)), "--window", "8k", "--json").stdout
    )
    steps, summary = told["steps"], told["summary"]
    assert [step["call"] for step in steps] == list(range(1, 14))
    assert all(step["valid"] and step["tokens_sent"] <= told["budget"]["limit"] for step in steps)
    assert summary["tokens_sent"] == sum(step["tokens_sent"] for step in steps)
    assert summary["compactions"] >= 1
    assert summary["prefix_tokens"] > 0
    assert {item["stage"] for item in summary["left_out"]} == {
        "TruncateToolOutputs",
        "ClearToolResults",
        "FitContextWindow",
    }


def test_the_first_recording_is_replayed_and_the_others_are_mentioned(run, jsonl, chat, record):
    """Without --all only the first recording of a file is replayed, and stderr says that there are more."""
    path = jsonl(record(chat(1), "one"), record(chat(1), "two"))
    shown = run("replay", path, "--window", "8k")
    assert "one" in shown.stdout
    assert "two" not in shown.stdout
    assert "--all" in shown.stderr


def test_all_and_id_choose_recordings(run, jsonl, chat, record):
    """--all replays every recording, --id one of them."""
    path = jsonl(record(chat(1), "one"), record(chat(2), "two"))
    every = [json.loads(line) for line in run("replay", path, "--window", "8k", "--all", "--json").stdout.splitlines()]
    assert [told["id"] for told in every] == ["one", "two"]
    only = json.loads(run("replay", path, "--window", "8k", "--id", "two", "--json").stdout)
    assert only["id"] == "two"


def test_an_overflow_is_a_step_and_exit_code_one(run, jsonl, chat, record):
    """A system prompt that is larger than the window is told at each call, and the exit code is 1."""
    messages = chat(2)
    messages[0]["content"] = "never forget " * 2000
    shown = run("replay", jsonl(record(messages, "one")), "--window", "2k")
    assert shown.exit_code == 1
    assert "nothing sent" in shown.stdout
    assert "within budget 0/3" in shown.stdout


def test_a_request_that_waits_for_its_answer_is_one_more_call(run, jsonl, chat):
    """A plain list that ends with a tool result was about to be sent: that is a model call too."""
    told = json.loads(run("replay", jsonl(chat(2)[:-1]), "--window", "8k", "--json").stdout)
    assert [step["index"] for step in told["steps"]] == [2, 4, 6]


def test_messages_shows_what_a_call_would_be_sent(run, jsonl, chat, record):
    """--messages N shows the request of one call, what was edited in it and what was left out."""
    path = jsonl(record(chat(12), "one"))
    shown = run("replay", path, "--window", "8k", "--messages", "13")
    assert shown.exit_code == 0, shown.stderr
    assert "Find out why the build fails." in shown.stdout
    assert any(line.startswith(("~", "-")) for line in shown.stdout.splitlines())
    told = json.loads(run("replay", path, "--window", "8k", "--messages", "13", "--json").stdout)
    assert len(told["request"]["messages"]) == told["messages_sent"]
    assert told["request"]["messages"][1] == {"role": "user", "content": "Find out why the build fails."}


def test_a_system_prompt_kept_apart_is_shown(run, jsonl, anthropic, record):
    """The system prompt of a format that keeps it apart is part of what the model sees."""
    system = [{"type": "text", "text": "You mend software."}]
    path = jsonl(record(anthropic(1), "one", format="anthropic", system=system))
    shown = run("replay", path, "--window", "8k", "--messages", "1")
    assert "You mend software." in shown.stdout


def test_full_shows_whole_messages(run, jsonl, chat, record):
    """With --full a message is not cut to its beginning."""
    path = jsonl(record(chat(1), "one"))
    brief = run("replay", path, "--window", "32k", "--messages", "2").stdout
    whole = run("replay", path, "--window", "32k", "--messages", "2", "--full", "--max-tool-tokens", "off").stdout
    assert brief.count("of the log.") < 10
    assert whole.replace("\n", " ").count("log.") == 300


def test_a_call_that_is_not_there_is_an_error(run, jsonl, chat, record):
    """--messages beyond the last call says how many calls there are."""
    shown = run("replay", jsonl(record(chat(1), "one")), "--window", "8k", "--messages", "99")
    assert (shown.exit_code, shown.stderr) == (2, "error: --messages 99: the recording has 2 model calls\n")


def test_the_window_must_be_known(run, jsonl, chat, record):
    """Without --window and --model there is no guess: an error says what to pass."""
    shown = run("replay", jsonl(record(chat(1), "one")))
    assert shown.exit_code == 2
    assert "pass --window" in shown.stderr


def test_the_recorded_model_gives_the_window(run, jsonl, chat, record):
    """A recording that names a known model needs no --window."""
    path = jsonl(record(chat(1), "one", meta={"model": "gpt-4o"}))
    assert json.loads(run("replay", path, "--json").stdout)["budget"]["window"] == 128_000


def test_an_unknown_model_says_what_to_pass(run, jsonl, chat, record):
    """A model that the table does not know is an error, not a guess."""
    shown = run("replay", jsonl(record(chat(1), "one")), "--model", "no-such-model-1")
    assert shown.exit_code == 2
    assert "no-such-model-1" in shown.stderr


@pytest.mark.parametrize("width", ["80", "100", "160"])
def test_no_line_is_wider_than_the_terminal(run, jsonl, chat, record, monkeypatch, width):
    """The table keeps to the width that it is given."""
    monkeypatch.setenv("COLUMNS", width)
    shown = run("replay", jsonl(record(chat(12), "one")), "--window", "8k")
    assert max(map(len, shown.stdout.splitlines())) <= int(width)


def test_options_change_what_is_done(run, jsonl, chat, record):
    """The word off leaves a stage out; a smaller trigger acts earlier."""
    path = jsonl(record(chat(12), "one"))

    def summary(*options):
        return json.loads(run("replay", path, "--window", "16k", "--json", *options).stdout)["summary"]

    assert "ClearToolResults" not in str(summary("--keep-results", "off", "--trigger", "0.4")["left_out"])
    assert "TruncateToolOutputs" in str(summary("--max-tool-tokens", "100")["left_out"])
    early, late = summary("--trigger", "0.3"), summary("--trigger", "0.7")
    assert early["peak_sent"] < late["peak_sent"]


def read_and_go_back(rounds):
    """A session that reads a file in each round, and in the end what the first one named."""
    native = [{"role": "user", "content": "Look around."}]
    for number in range(rounds + 1):
        path = f"src/part_{number}.py" if number < rounds else "lib/deep_secret.py"
        call = {
            "id": f"c{number}",
            "type": "function",
            "function": {"name": "read", "arguments": f'{{"path": "{path}"}}'},
        }
        native.append({"role": "assistant", "content": None, "tool_calls": [call]})
        found = "see lib/deep_secret.py" if number == 0 else "nothing of note " * 200
        native.append({"role": "tool", "tool_call_id": f"c{number}", "content": found})
        if number % 5 == 4:
            native += [{"role": "assistant", "content": "Done."}, {"role": "user", "content": f"Now part {number}."}]
    return [*native, {"role": "assistant", "content": "Done."}]


def test_retention_tells_what_later_calls_need(run, jsonl, record):
    """With --retention a replay says what calls took from what stood before, where it was, and what the user said."""
    path = jsonl(record(read_and_go_back(20), "one"))
    told = json.loads(run("replay", path, "--window", "8k", "--retention", "--json").stdout)["retention"]
    assert (told["values"], told["said"], told["lost"]) == (1, 3, 0)
    assert told["visible"] + told["recallable"] + told["searchable"] == 1
    shown = run("replay", path, "--window", "8k", "--retention").stdout
    assert "values needed later" in shown
    assert "3 between the first and the last" in shown
    assert "values needed later" not in run("replay", path, "--window", "8k").stdout


def test_a_preset_stands_for_the_stages(run, jsonl, record):
    """With --preset a replay has the stages and the target of the preset, in the window that was given."""
    path = jsonl(record(read_and_go_back(20), "one"))
    told = json.loads(run("replay", path, "--window", "8k", "--preset", "coding_agent", "--retention", "--json").stdout)
    assert "Ledger" in {item["stage"] for item in told["summary"]["left_out"]}
    assert (told["budget"]["window"], told["retention"]["visible"]) == (8_000, 1)


def test_a_share_is_of_what_the_reserve_leaves(run, jsonl, chat, record):
    """A trigger and a target that are shares fit, whatever is reserved."""
    options = ("--window", "16k", "--trigger", "80%", "--target", "50%", "--json")
    budget = json.loads(run("replay", jsonl(record(chat(1), "one")), *options).stdout)["budget"]
    assert (9_600, 4_800) == (budget["trigger"], budget["target"])


def test_a_recording_that_cannot_be_read_does_not_hide_the_others(run, jsonl, chat, record):
    """With --all a bad recording is one line on stderr, the others are replayed, and the exit code is 2."""
    path = jsonl(record(chat(1), "a"), record(chat(1), "b", format="morse"), record(chat(1), "c"))
    shown = run("replay", path, "--window", "8k", "--all", "--json")
    assert [json.loads(line)["id"] for line in shown.stdout.splitlines()] == ["a", "c"]
    assert shown.stderr.startswith(f"error: {path}, line 2: ")
    assert shown.exit_code == 2


@pytest.mark.parametrize("columns", [30, 40, 60, 80, 100, 200])
def test_no_number_and_no_name_is_lost_in_a_narrow_terminal(run, jsonl, chat, record, columns, monkeypatch):
    """However narrow the terminal, every number of every step and every stage's name is there, in whole."""
    monkeypatch.setenv("COLUMNS", str(columns))
    path = jsonl(record(chat(12), "one"))
    told = json.loads(run("replay", path, "--window", "8k", "--json").stdout)
    shown = run("replay", path, "--window", "8k").stdout
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= columns
    words = shown.replace(",", "").split()
    for step in told["steps"]:
        assert str(step["tokens_given"]) in words
        assert str(step["tokens_sent"]) in words
        assert f"{step['prefix_share']:.0%}" in shown
        assert all(item["stage"] in words for item in step["left_out"])


@pytest.mark.parametrize("columns", [30, 40, 100])
def test_a_view_and_a_count_keep_their_numbers(run, jsonl, chat, record, columns, monkeypatch):
    """The sizes of all messages are there in a narrow terminal, too."""
    monkeypatch.setenv("COLUMNS", str(columns))
    path = jsonl(record(chat(6), "one"))
    counted = json.loads(run("count", path, "--json", "--by-message").stdout)["by_message"]
    shown = run("count", path, "--by-message").stdout
    assert all(f"{line['tokens']:,}" in shown.split() for line in counted)
    assert all(line["role"] in shown.split() for line in counted)
    view = run("replay", path, "--window", "8k", "--messages", "3").stdout
    assert "tool" in view.split()
    assert all(f"{line['tokens']:,}" in view.split() for line in counted[:3])


@pytest.mark.parametrize("preset", ["coding_agent", "assistant", "general"])
def test_a_preset_in_a_window_that_was_given_needs_no_known_model(run, jsonl, chat, record, preset):
    """A recording of a model that is in no table is replayed like one without a model, and so are those behind it."""
    path = jsonl(record(chat(12), "one", meta={"model": "house-llama"}), record(chat(12), "two"))
    done = run("replay", path, "--window", "8k", "--preset", preset, "--all", "--json")
    assert done.exit_code == 0, done.stderr
    one, two = (json.loads(line)["summary"] for line in done.stdout.splitlines())
    assert one | {"seconds": 0} == two | {"seconds": 0}
