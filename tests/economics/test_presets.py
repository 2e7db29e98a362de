"""The presets on a recorded session, billed by the simulators."""

import json
import random
import re
from functools import partial
from itertools import pairwise, takewhile
from pathlib import Path

import anyio
import pytest

from agentctx import (
    Budget,
    ClearToolResults,
    ConfigError,
    Context,
    FitContextWindow,
    Pipeline,
    PlaceCacheMarkers,
    TrimRounds,
    UnknownModel,
    over,
    presets,
    when,
)
from agentctx.economics import CacheSimulator, PromptReader, Usage, cache_cold, cost, pays_back
from agentctx.engine.guarantee import PlacesMarkers
from agentctx.engine.reading import reader
from agentctx.formats.native import CONTROL_MARKERS, unmarked
from agentctx.models.profile import cache_rules
from agentctx.models.table import profile
from agentctx.presets import RECENT_RESULTS, assistant, coding_agent, general, thrifty
from agentctx.replay import model_calls
from agentctx.testing import assistant as says, call, result, transcript, user
from agentctx.testing.assertions import text_of

SESSION = json.loads(next((Path(__file__).parents[2] / "examples/sessions").glob("*.jsonl")).read_text("utf-8"))
MESSAGES = [{"role": "system", "content": SESSION["system"]}, *SESSION["messages"]]
CALLS = model_calls(MESSAGES, "openai-chat")
WINDOW = 24_000
MODELS = ["gpt-5.4", "gpt-5.6-sol", "claude-sonnet-5-5", "deepseek/deepseek-v4-pro", "gemini/gemini-2.5-pro"]


class Sent:
    """What a pipeline sends over the session, in a session of its own or statelessly; run once a pipeline."""

    def __init__(self, pipeline, stateful, model=None):
        self.contexts, self.breaks, self.compactions, self.model = [], 0, 0, model
        self.source = reader(MESSAGES, tools=SESSION["tools"], format="openai-chat", model=model)
        anyio.run(self.run, pipeline, stateful)

    async def run(self, pipeline, stateful):
        """Prepare each call."""
        session, fresh = pipeline.session(model=self.model, format="openai-chat"), 0
        session.internals.clock = lambda: 20.0 * session.steps
        for length in CALLS:
            if stateful:
                view = await session.prepare(MESSAGES[:length], tools=SESSION["tools"])
                self.breaks += view.report.first_changed is not None
                self.compactions += any(change.index < fresh for change in view.report.changes)
                fresh = length
            else:
                view = await pipeline.prepare(MESSAGES[:length], tools=SESSION["tools"], format="openai-chat")
            self.contexts.append(view.context)

    def bill(self, model, own=None):
        """All tokens and dollars at a model; with the markers that the requests have themselves, when asked for."""
        rules, reads = cache_rules(profile(model)), PromptReader(self.source.meter, own=own)
        cache, usage, dollars = CacheSimulator(rules), Usage(), 0.0
        for number, context in enumerate(self.contexts):
            once = cache.send(reads.read(context), 20.0 * number)
            usage, dollars = usage + once, dollars + cost(once, profile(model))
        return usage, dollars


@pytest.fixture(scope="module", params=[general, coding_agent])
def ours(request):
    """A preset of ours in a session."""
    return Sent(request.param(Budget(WINDOW)), stateful=True)


@pytest.fixture(scope="module")
def others():
    """A little less at every step, statelessly."""
    budget = Budget(WINDOW)
    return [
        Sent(Pipeline(FitContextWindow(), budget=budget), stateful=False),
        Sent(Pipeline(ClearToolResults(RECENT_RESULTS), FitContextWindow(), budget=budget), stateful=False),
    ]


@pytest.mark.parametrize("model", MODELS)
def test_presets_cost_least(model, ours, others):
    """In a window that forces compactions a preset costs less than trimming at every step, by every cache's rules."""
    assert ours.compactions >= 1
    assert ours.bill(model)[1] < min(other.bill(model)[1] for other in others)


@pytest.mark.parametrize("model", MODELS)
def test_presets_read_most_from_the_cache(model, ours, others):
    """A larger share of its input is read from the cache than of theirs."""
    assert ours.bill(model)[0].cached_share > max(other.bill(model)[0].cached_share for other in others)


def test_presets_break_the_prefix_only_to_compact(ours):
    """The cached prefix breaks at most once a compaction."""
    assert ours.breaks <= ours.compactions


@pytest.mark.parametrize("model", MODELS)
def test_unreached_window_costs_nothing(model):
    """Where the window is never reached, the bill is that of sending everything."""
    unreached = Sent(general(Budget(1_000_000)), stateful=True)
    everything = Sent(Pipeline(), stateful=True)

    assert unreached.bill(model) == everything.bill(model)


def test_presets_go_down_to_a_quarter():
    """A cut goes down to a quarter of the trigger, unless the budget has a target of its own."""
    assert general(Budget(100_000, trigger=0.8)).budget.target_tokens == 20_000
    assert coding_agent(Budget(100_000, target=0.5)).budget.target_tokens == 50_000


def arriving(tokens, rounds):
    """A task, and rounds of a call with a result of so many tokens, no line of which comes twice."""
    words = ["report", "server", "number", "window", "minute", "letter", "result", "branch"]
    chosen = random.Random(7)  # noqa: S311 - not a secret
    messages = [{"role": "user", "content": "Read all files."}]
    for number in range(rounds):
        called = {"name": "read", "arguments": f'{{"path": "{number}.py"}}'}
        messages += [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"c{number}", "type": "function", "function": called}],
            },
            {"role": "tool", "tool_call_id": f"c{number}", "content": " ".join(chosen.choices(words, k=tokens))},
        ]
    return messages


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("preset", "share", "reads", "rests"),
    [(coding_agent, 0.04, 0.90, 19), (coding_agent, 0.08, 0.88, 15), (general, 0.15, 0.68, 5)],
    ids=["a twenty-fifth", "what is cut to a twentieth", "a seventh"],
)
async def test_what_arrives_at_a_step_decides_what_can_be_read(preset, share, reads, rests):
    """In 30 steps nine tenths stay where a step adds 4 % of the window; a cut comes each 75 % of it, no more often."""
    window = 16_000
    session = preset(Budget(window)).session(model="gpt-5.4")
    messages = arriving(round(window * share), 30)
    views = [await session.prepare(messages[: 1 + 2 * rounds]) for rounds in range(31)]
    sent = [[text_of(message) for message in view.messages] for view in views]
    same = [len(list(takewhile(lambda pair: pair[0] == pair[1], zip(*pair, strict=False)))) for pair in pairwise(sent)]
    cuts = [place for place, (begins, before) in enumerate(zip(same, sent, strict=False)) if begins < len(before)]
    kept = sum(len(text) for begins, now in zip(same, sent[1:], strict=True) for text in now[:begins])
    assert reads <= kept / sum(len(text) for now in sent[1:] for text in now) < reads + 0.06
    assert [later - cut for cut, later in pairwise(cuts)] == [rests] * (len(cuts) - 1)
    assert cuts


def test_presets_leave_enough_for_the_cache():
    """Where the model's cache keeps 4,096 tokens and more only, a cut in a small window leaves somewhat more."""
    assert coding_agent(Budget(12_000), "claude-opus-4-5").budget.target_tokens == 4_505
    assert coding_agent(Budget(12_000), "gpt-5.4").budget.target_tokens == 3_000
    assert coding_agent(Budget(4_000), "claude-opus-4-5").budget.target_tokens == 3_000
    assert thrifty(Budget(100_000), "claude-opus-4-5").budget.target_tokens == 25_000


@pytest.mark.parametrize("model", ["claude-opus-4-5", "gemini/gemini-3.1-pro-preview"])
def test_more_is_read_when_a_cut_leaves_enough(model):
    """In a small window a model with a large minimum reads more from its cache, and costs no more."""
    (some, dollars), (more, fewer) = (
        Sent(coding_agent(Budget(12_000), named), stateful=True).bill(model) for named in (None, model)
    )

    assert more.cached_share > some.cached_share
    assert fewer <= dollars


@pytest.mark.anyio
async def test_an_assistant_keeps_what_the_user_said():
    """All words of the user's are there after many cuts, and the recap tells of what went."""
    session, history = assistant(Budget(8_000)).session(format="openai-chat"), []
    for turn in range(80):
        history += [
            {"role": "user", "content": f"Wish {turn}: never book seat {turn}C."},
            {"role": "assistant", "content": f"I looked at AB-{turn}00{turn}. " + "So it is. " * 150},
        ]
        view = await session.prepare(history[:-1])
    said = [message["content"] for message in view.messages if message["role"] == "user"]

    assert all(f"Wish {turn}: never book seat {turn}C." in said for turn in range(80))
    assert said[1].startswith("[Recap of ")
    assert "AB-2002" in said[1]


def test_coding_agent_cuts_large_outputs():
    """No tool output takes more than a twentieth of the window when it arrives."""
    sent = Sent(coding_agent(Budget(20_000)), stateful=True)

    results = [part for context in sent.contexts for message in context.messages for part in message.results]
    assert max(sent.source.meter.parts(result.content) for result in results) <= 1_100


LINES = [f"    total = total + rate_{number} * days  # of month {number}" for number in range(60)]


async def said(preset, *outputs):
    """What the tools said as a preset sends it at the last of so many calls, in a window that is never full."""
    session, history = preset(Budget(100_000)).session(format="openai-chat"), [{"role": "user", "content": "Look."}]
    for number, output in enumerate(outputs):
        call = {
            "id": f"c{number}",
            "type": "function",
            "function": {"name": "read", "arguments": f'{{"path": "{number}.py"}}'},
        }
        history += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": output},
        ]
        view = await session.prepare(history)
    return [message["content"] for message in view.messages if message["role"] == "tool"]


@pytest.mark.anyio
async def test_coding_agent_says_lines_once():
    """What was read is read again by reference, which names where it stands; short answers and JSON stay."""
    file, document = "\n".join(LINES), json.dumps({"name": "app", "ports": [1, 2, 3, 4, 5]}, indent=4)
    first, again, short, data = await said(coding_agent, file, "\n".join(LINES[10:50]), "done", document)

    assert (first, short, data) == (file, "done", document)
    assert again.startswith('[the same as lines 11-50 of the output of "read 0.py" above, from "')


@pytest.mark.anyio
@pytest.mark.parametrize("preset", [coding_agent, partial(thrifty, model="gpt-4o")], ids=["coding_agent", "thrifty"])
async def test_line_numbers_stand_without_blanks(preset):
    """All of them by ``coding_agent``, every tenth by ``thrifty``; each line has all that it says."""
    numbered = "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(LINES, 1))
    (sent,) = await said(preset, numbered)

    every = 1 if preset is coding_agent else 10
    told = [f"{number}\t{LINES[number - 1]}" for number in range(every, 60, every)]
    assert told == sent.split("\n")[every - 1 : 59 : every]
    assert (LINES[1] in sent.split("\n")) == (preset is not coding_agent)
    assert [line.rpartition("\t")[2] for line in sent.split("\n")] == LINES


@pytest.mark.anyio
async def test_an_assistant_gets_json_in_fewer_tokens():
    """The keys of objects of one shape stand there once, no quotes that need not be, and all values as they were."""
    flights = [{"number": f"HAT{number}", "price": 99.50 + number, "seats": number} for number in range(9)]
    (table,) = await said(assistant, json.dumps(flights))
    (bare,) = await said(assistant, json.dumps({"name": {"first": "Ada", "last": "Li"}, "age": 36, "miles": [1, 2, 3]}))

    assert table.count("price") == 1
    assert all(f"HAT{number},{99.5 + number},{number}" in table for number in range(9))
    assert bare == "[JSON]\n{name:{first:Ada,last:Li},\nage:36,\nmiles:[1,2,3]}"


@pytest.mark.anyio
@pytest.mark.parametrize("preset", [coding_agent, thrifty, assistant])
async def test_presets_point_to_nothing_that_is_gone(preset):
    """After cuts each reference to lines names an output that is in the request."""
    session, history, cuts, seen = preset(Budget(6_000)).session(model="gpt-5.4", format="openai-chat"), [], 0, 0
    history.append({"role": "user", "content": "Look at all of it."})
    for number in range(60):
        lines = LINES[number % 7 * 6 :][:20] if number % 3 else [f"{number} {line}" for line in LINES[:30]]
        asked = json.dumps({"path": f"{number}.py"})
        call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": asked}}
        result = {"role": "tool", "tool_call_id": f"c{number}", "content": "\n".join(lines)}
        history += [{"role": "assistant", "content": None, "tool_calls": [call]}, result]
        view = await session.prepare(history)
        cuts += view.report.first_changed is not None
        text = "\n".join(message["content"] or "" for message in view.messages if message["role"] == "tool")
        meant = re.findall(r'\[the same as lines \d+-\d+ of the output of "read (\d+\.py)" above', text)
        there = [call["function"]["arguments"] for message in view.messages for call in message.get("tool_calls") or ()]
        seen += len(meant)
        assert all(json.dumps({"path": path}) in there for path in meant)
    assert cuts >= 2
    assert seen > 0


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-sonnet-5-5", "gpt-5.6-sol"])
@pytest.mark.parametrize("preset", [general, coding_agent])
def test_presets_set_the_markers_that_a_careful_client_sets(model, preset):
    """What they send is read from the cache as it is, by models whose cache has to be asked; without markers it is not.

    Nothing is lost to what a client could do that sets its markers behind every request by hand.
    """
    pipeline = preset(Budget(int(1.5 * WINDOW)))
    sent = Sent(pipeline, stateful=True, model=model)
    own = sent.source.wire.cache_markers
    share, careful = sent.bill(model, own)[0].cached_share, sent.bill(model)[0].cached_share
    plain = Pipeline(*pipeline.stages[:-1], budget=pipeline.budget)
    unmarked = Sent(plain, stateful=True, model=model).bill(model, own)[0].cached_share

    assert sent.breaks <= sent.compactions
    assert share >= careful - 0.01
    assert unmarked <= share
    assert unmarked == 0 or not model.startswith("claude")


CLAUDE, TURNS = "claude-sonnet-4-5", 300


class Walk:
    """A session that reads line by line for three hundred turns, and what it costs by Anthropic's prices."""

    def __init__(self, pipeline):
        self.dollars, self.breaks, self.compactions = 0.0, 0, 0
        self.history = [{"role": "user", "content": "Find the fault. " * 100}]
        self.session = pipeline.session(model=CLAUDE, format="anthropic")
        self.session.internals.clock = lambda: 20.0 * self.session.steps
        self.reads = PromptReader(reader(self.history, format="anthropic", model=CLAUDE).meter, own=CONTROL_MARKERS)
        self.cache = CacheSimulator(cache_rules(profile(CLAUDE)))

    async def go(self):
        """Prepare and bill each turn."""
        before, known = [], {}
        for turn in range(TURNS):
            view = await self.session.prepare(self.history)
            self.dollars += cost(self.cache.send(self.reads.read(view.context), 20.0 * turn), profile(CLAUDE))
            known = {id(message): known.get(id(message)) or (message, json.dumps(unmarked(message)))
                     for message in view.messages}  # fmt: skip
            sent = [known[id(message)][1] for message in view.messages]
            self.breaks += sent[: len(before)] != before
            self.compactions += view.report.first_changed is not None
            before = sent
            ask = {"type": "tool_use", "id": f"t{turn}", "name": "read", "input": {"line": turn}}
            text = f"-line-{turn}." * (20 + turn * 37 % 200)  # one word to a ledger
            told = {"type": "tool_result", "tool_use_id": f"t{turn}", "content": text}
            self.history += [{"role": "assistant", "content": [ask]}, {"role": "user", "content": [told]}]
        return self


@pytest.fixture(scope="module")
def untrimmed():
    """All of it sent, in a window that would hold it."""
    return anyio.run(Walk(Pipeline(PlaceCacheMarkers())).go)


@pytest.mark.no_cover  # the same lines over and over
@pytest.mark.anyio
@pytest.mark.parametrize("preset", [general, coding_agent, thrifty])
async def test_three_hundred_turns_keep_their_prefix_and_cost_less_than_untrimmed(preset, untrimmed):
    """The prefix is the same, byte for byte, in 95 % of consecutive requests, and breaks at most once a compaction.

    By Anthropic's prices the bill is smaller than that of sending everything, in a window that would hold it.
    """
    walk = await Walk(preset(Budget(24_000), CLAUDE)).go()

    assert 3 <= walk.breaks <= min(walk.compactions, 0.05 * TURNS)
    assert walk.dollars < untrimmed.dollars


class Noting(PlacesMarkers):
    """Places no cache marker; notes how often it was asked to work."""

    def __init__(self):
        """Not yet."""
        self.ran = 0

    async def __call__(self, context, _call):
        """Change nothing."""
        self.ran += 1
        return context


@pytest.mark.parametrize(("model", "calls"), [("gpt-5.4", 0), ("claude-sonnet-4-5", len(CALLS))])
@pytest.mark.parametrize("around", [lambda stage: stage, Pipeline], ids=["alone", "nested"])
def test_cache_markers_are_not_placed_where_the_model_has_none(around, model, calls):
    """In a session it is not run, and the history not gone through for it: so it is for most models."""
    stage = Noting()
    Sent(Pipeline(around(stage), budget=Budget(1_000_000)), stateful=True, model=model)

    assert stage.ran == calls


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4.1", "xai/grok-4.7"])
def test_thrifty_spends_less_where_reading_is_dear(model):
    """In a window larger than the session it clears old results when that pays, and costs at most four fifths."""
    early = Sent(thrifty(Budget(64_000)), stateful=True, model=model)
    late = Sent(coding_agent(Budget(64_000)), stateful=True, model=model)

    assert early.compactions > late.compactions == 0
    assert early.bill(model)[1] < 0.8 * late.bill(model)[1]
    assert early.breaks <= early.compactions


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("window", [WINDOW, 64_000])
def test_thrifty_is_hardly_dearer_where_reading_is_cheap(model, window):
    """There it has little to gain; a cut that pays within five calls may come shortly before one that is due anyway."""
    early = Sent(thrifty(Budget(window)), stateful=True, model=model)
    late = Sent(coding_agent(Budget(window)), stateful=True, model=model)

    assert early.bill(model)[1] <= 1.1 * late.bill(model)[1]


@pytest.mark.anyio
async def test_conditions_in_a_pipeline():
    """A stage runs when the context is large, the cache is cold, or it pays back; a stateless call knows no cache."""
    stage = when(over(0.8) | cache_cold() | pays_back(within=20), TrimRounds(2))
    view = await Pipeline(stage, budget=Budget(200_000)).prepare(MESSAGES, format="openai-chat", model="gpt-5.4")

    assert view.report.messages_after < view.report.messages_before
    assert view.report.stages[0].stage == "TrimRounds"


@pytest.mark.anyio
async def test_paying_back_asks_for_a_model():
    """Without a model the condition says what to pass."""
    pipeline = Pipeline(when(pays_back(within=20), TrimRounds(2)), budget=Budget(9_000))
    with pytest.raises(ConfigError, match="model="):
        await pipeline.prepare(MESSAGES, format="openai-chat")


def test_blocks_add_up_to_the_request():
    """The blocks of a request have its tokens, and its head and its end are marked."""
    source = reader(MESSAGES, tools=SESSION["tools"], format="openai-chat")
    context = Context(tuple(source.messages(MESSAGES)), *source.head(None, SESSION["tools"]))
    prompt = PromptReader(source.meter).read(context)

    assert prompt.tokens == source.meter.size(context)
    assert [place for place, block in enumerate(prompt.blocks) if block.mark] == [1, len(prompt.blocks) - 1]


def test_there_are_four_presets():
    """``agentctx.presets`` exports the four, and nothing else."""
    assert presets.__all__ == ["assistant", "coding_agent", "general", "thrifty"]


@pytest.mark.parametrize("preset", [assistant, coding_agent, general, thrifty])
def test_a_preset_takes_the_name_of_a_model(preset):
    """It has the model's window, and leaves room for the model's answer; a name that nobody knows is an error."""
    budget, own = preset("claude-sonnet-4-5").budget, Budget.for_model("claude-sonnet-4-5")
    assert (budget.window, budget.limit) == (own.window, own.limit)
    assert budget.reserved > 0
    with pytest.raises(UnknownModel, match=rf"{preset.__name__}: budget: .*'gpt-5.44'.*did you mean 'gpt-5.4"):
        preset("gpt-5.44")


@pytest.mark.anyio
@pytest.mark.parametrize("preset", [coding_agent, assistant, thrifty, general])
@pytest.mark.parametrize(("window", "lines"), [(4_000, 15), (6_000, 40), (10_000, 60)])
async def test_the_same_messages_again_give_the_same_view_and_nobody_is_told(preset, window, lines):
    """A call that is made once more, as after an error of the network, is no new step: nothing is cut for it."""
    told: list[object] = []
    session = preset(Budget(window, output_reserve=500)).session(model="gpt-4o", on_compact=told.append)
    turns = [user("Look.")]
    for number in range(12):
        said = "\n".join(
            f"t{number} line {line} says {line * line % 97} of nothing" for line in range(lines + number % 7)
        )
        turns += [says(f"step {number}", call(f"c{number}", "look", {"n": number})), result(f"c{number}", said)]
        messages = transcript("openai-chat", *turns)
        view, heard = await session.prepare(messages), len(told)
        again = [await session.prepare(messages) for _ in range(3)]
        assert all(each.messages == view.messages and each.tools == view.tools for each in again)
        assert len(told) == heard
