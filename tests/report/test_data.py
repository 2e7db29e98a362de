"""What a page is told is what the reports say."""

from itertools import pairwise
from pathlib import Path

import pytest

from agentctx import Budget, Context, FitContextWindow, Message, Outcome, Pipeline, Text, presets
from agentctx.events.window import KINDS
from agentctx.recall import Recall
from agentctx.replay import Recording
from agentctx.report.page import trimming
from agentctx.stores import MemoryStore
from agentctx.strategies import Offload, Summarize
from agentctx.transcripts import read_transcripts
from agentctx.transcripts.costs import reckoned

ROOT = Path(__file__).parents[2]


def offloading():
    """A pipeline that puts what is large into a store."""
    return Pipeline(Offload(over=400), FitContextWindow(), budget=Budget(16_000), store=MemoryStore())


async def in_few_words(messages, _max_tokens):
    """A summarizer that says how much it was given."""
    return f"{len(messages)} messages about the budget in words."


PIPELINES = {
    "summarize": lambda: Pipeline(Summarize(in_few_words), FitContextWindow(), budget=Budget(9_000)),
    "coding_agent": lambda: presets.coding_agent(Budget(12_000)),
    "assistant": lambda: presets.assistant(Budget(9_000)),
    "offload": offloading,
    "nothing": Pipeline,
}


def rows_of(data, number):
    """The rows of a call as the page shows them: index or None, and state."""
    call = data.calls[number - 1]
    states = {}
    for change in data.changes:
        if change.call <= number:
            states[change.index] = change.state
    layout = next((each for each in reversed(data.layouts) if each.call <= number), None)
    added = [] if layout is None else list(layout.added)
    if layout is not None and layout.order is not None:
        order = [*layout.order, *range(len(layout.order) - len(added), call.step.index)]
        return [(at, states.get(at)) if at >= 0 else (None, added[-1 - at].state) for at in order]
    rows = []
    for index in range(call.step.index + 1):
        while added and added[0].after == index:
            rows.append((None, added.pop(0).state))
        rows.append((index, states.get(index)))
    return rows[:-1]


def sent(data, number):
    """The messages of the request at a call, as the page shows them."""
    for index, state in rows_of(data, number):
        item = data.given[index] if state is None else state.item
        if item is not None:
            yield data.items[item]


@pytest.fixture(params=PIPELINES, scope="module")
def followed(request, follow, example):
    """The example through a pipeline."""
    recording = example()
    if request.param == "offload":
        tools = [*recording.tools, Recall(MemoryStore()).definition("openai-chat")]
        recording = Recording(recording.messages, None, tools, recording.format, id="one", pending=False)
    return follow(recording, PIPELINES[request.param]())


def test_the_prompt_at_each_call_is_the_request(followed):
    """What the page shows as sent is what is sent, message by message, and everything of the history has its row."""
    data, steps = followed
    assert len(data.calls) == len(steps)
    for step in steps:
        assert list(sent(data, step.number)) == list(step.view.context.messages)
        indexes = [index for index, _ in rows_of(data, step.number) if index is not None]
        assert sorted(indexes) == list(range(step.index))


def test_every_message_of_the_transcript_is_there(followed, example):
    """The history stands among what the page shows, whole and in its order."""
    data, _ = followed
    texts = [message["content"] or "" for message in example().messages]
    for place, text in zip(data.given, texts, strict=True):
        message = data.items[place]
        assert text == "".join([message.text, *(result.text for result in message.results)])


def test_outcome_stage_and_reason_are_those_in_force(followed):
    """Each change in force is on the page with its words, and what is called changed there is in force."""
    data, steps = followed
    for step in steps:
        in_force = {
            (None if change.outcome is Outcome.ADDED else change.index): (change.stage, change.reason)
            for change in step.view.report.in_force
            if change.outcome not in (Outcome.MARKED, Outcome.KEPT)
        }
        shown = {
            index: (state.stage, state.reason)
            for index, state in rows_of(data, step.number)
            if state is not None and state.outcome != "kept"
        }
        assert shown == in_force


def test_the_numbers_are_the_reports(followed):
    """Sizes by kind add up to the request; the unchanged prefix ends at the row that the report says."""
    data, steps = followed
    before = None
    for call, step in zip(data.calls, steps, strict=True):
        report = step.view.report
        assert sum(call.kinds) == report.tokens_after
        shared = step.prefix_tokens and (len(before or ()) if report.first_changed is None else report.first_changed)
        rows = [(index, state) for index, state in rows_of(data, step.number)[: call.unchanged]]
        assert shared == sum(state is None or state.item is not None for _, state in rows)
        before = step.view.messages


def test_what_is_offloaded_is_called_so(follow, example):
    """A result of which a preview is left is offloaded, and the page knows the handle."""
    recording = example()
    tools = [*recording.tools, Recall(MemoryStore()).definition("openai-chat")]
    data, _ = follow(Recording(recording.messages, None, tools, recording.format, pending=False), offloading())
    states = [change.state for change in data.changes if change.state.stage == "Offload"]
    assert {state.outcome for state in states} == {"offloaded"}
    assert all(state.handle for state in states)


def test_moved_messages_stand_in_their_new_order(follow, example, reverse_the_middle):
    """Where a stage moves messages the rows are in the order of the request."""
    messages = [
        message
        for name in "abcdef"
        for message in ({"role": "user", "content": name}, {"role": "assistant", "content": "Yes."})
    ]
    data, steps = follow(Recording(messages, format="openai-chat"), reverse_the_middle)
    assert any(layout.order for layout in data.layouts)
    for step in steps:
        assert list(sent(data, step.number)) == list(step.view.context.messages)


def test_a_call_that_overflows_shows_what_was_given(follow):
    """Where nothing could be sent, the page has the history as it is, and no tokens sent."""
    messages = [{"role": "user", "content": "word " * 3_000}, {"role": "assistant", "content": "Yes."}]
    data, steps = follow(Recording(messages, format="openai-chat"), presets.coding_agent(Budget(2_000)))
    assert steps[0].overflow is not None
    assert data.calls[0].kinds == (0,) * len(KINDS)
    assert [index for index, state in rows_of(data, 1)] == [0]


def test_costs_begin_alike_and_end_as_replay_says(follow, example):
    """Before anything is left out all ways cost the same; each sum grows; in the end it is what replay says."""
    data, steps = follow(example("claude-sonnet-4-5"), Pipeline(FitContextWindow(), budget=Budget(16_000)))
    costs = data.costs
    assert costs.unit == "USD"
    ways = (costs.prepared, costs.everything, costs.trimmed)
    told = reckoned(data.recording, steps, data.model)
    assert (costs.prepared[-1], costs.everything[-1]) == pytest.approx((told.sent.usd, told.without.usd))
    whole = [step.number for step in steps if step.tokens_given == step.tokens_sent]
    assert len(whole) > 3
    for at in range(len(whole)):
        assert costs.prepared[at] == pytest.approx(costs.everything[at]) == pytest.approx(costs.trimmed[at])
    for way in ways:
        assert all(one < other for one, other in pairwise(way))
    assert costs.prepared[-1] < costs.trimmed[-1]
    assert follow(example(), Pipeline())[0].costs.unit == "tokens"


def test_what_was_billed_is_added_up_call_by_call(follow):
    """Where the recording says what was billed, the last sum is what replay says."""
    recording = next(read_transcripts(str(ROOT / "tests/transcripts/fixtures/claude_code.jsonl"))).recording
    data, steps = follow(recording, presets.coding_agent(Budget(100_000), recording.model))
    billed = data.costs.billed
    assert len(billed) == len(steps)
    assert list(billed) == sorted(billed)
    assert billed[-1] == pytest.approx(reckoned(recording, steps).billed.usd) != 0


def test_trimming_leaves_out_the_oldest_rounds_and_no_more():
    """Each request fits if it can: the task, and as many of the newest rounds as there is room for."""
    sizes = [10, 40, 40, 40, 200, 40, 40]
    messages = [
        Message("user" if place % 2 == 0 else "assistant", (Text(str(size)),)) for place, size in enumerate(sizes)
    ]
    meter = Sizes()
    requests = list(trimming(messages, [1, 3, 5, 7], meter, Context(()), 110))
    assert requests == [(10, 0), (90, 10), (210, 10), (90, 10)]
    assert [tokens for tokens, _ in trimming(messages, [1, 3, 5, 7], meter, Context(()), None)] == [
        10,
        90,
        330,
        410,
    ]


class Sizes:
    """A message is as large as it says; nothing stands before."""

    def message(self, message):
        """Tokens of a message."""
        return int(message.text)

    def fixed(self, _context):
        """Tokens before the messages."""
        return 0
