"""One request beside what it was made from."""

import json

import pytest

from agentctx import (
    Budget,
    FitContextWindow,
    Media,
    Message,
    Opaque,
    Outcome,
    Pipeline,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    TrimRounds,
    TruncateToolOutputs,
)
from agentctx.engine.reading import reader
from agentctx.replay import in_runs, part_texts, shown, view_json

TASK = {"role": "user", "content": "Why?"}
DONE = {"role": "assistant", "content": "Because."}


def asked(number):
    """One call and its result."""
    call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": f"line {number}\n" * 400},
    ]


MESSAGES = [TASK, *asked(0), *asked(1), *asked(2), DONE, TASK]


async def lines_of(pipeline, messages=MESSAGES):
    """What a request of the pipeline looks like."""
    view = await pipeline.prepare(messages, format="openai-chat")
    source = reader(messages, format="openai-chat")
    return view, shown(view, source.messages(messages), source.meter.message)


@pytest.mark.anyio
async def test_every_message_given_and_every_message_sent_is_shown_once():
    """Each index of what was given and of what is sent occurs exactly once, in order."""
    view, lines = await lines_of(Pipeline(TruncateToolOutputs(max_tokens=100), TrimRounds(1), budget=Budget(9000)))
    assert [line.given for line in lines if line.given is not None] == list(range(len(MESSAGES)))
    assert [line.sent for line in lines if line.sent is not None] == list(range(len(view.messages)))
    assert {line.outcome for line in lines} >= {Outcome.KEPT, Outcome.DROPPED}


@pytest.mark.anyio
async def test_an_edited_message_says_what_is_sent_and_by_whom():
    """An edited message shows its new text, with the stage that edited it."""
    view, lines = await lines_of(Pipeline(TruncateToolOutputs(max_tokens=100), FitContextWindow(), budget=Budget(9000)))
    edited = [line for line in lines if line.outcome is Outcome.EDITED]
    assert {line.stage for line in edited} == {"TruncateToolOutputs"}
    assert edited[0].text == f"[result] {view.messages[edited[0].sent]['content']}"


@pytest.mark.anyio
async def test_a_message_that_was_put_in_is_shown_as_added():
    """A synthetic result has no index in what was given."""
    _, lines = await lines_of(Pipeline(budget=Budget(9000)), [TASK, asked(0)[0], TASK])
    added = [line for line in lines if line.outcome is Outcome.ADDED]
    assert [line.given for line in added] == [None]
    assert added[0].stage == "RepairHistory"


@pytest.mark.anyio
async def test_neighbours_that_were_left_out_together_are_one_run():
    """Messages left out by the same stage for the same reason are one run; sent messages are each their own."""
    _, lines = await lines_of(Pipeline(TrimRounds(1), budget=Budget(9000)))
    runs = list(in_runs(lines))
    assert [line for run in runs for line in run] == list(lines)
    assert all(len(run) == 1 for run in runs if run[0].sent is not None)
    assert max(map(len, runs)) > 1


@pytest.mark.anyio
async def test_a_view_is_plain_json():
    """The request and its report can be written as JSON."""
    view, _ = await lines_of(Pipeline(TrimRounds(1), budget=Budget(9000)))
    told = json.loads(json.dumps(view_json(view)))
    assert told["request"] == {"messages": view.messages}
    assert told["report"]["messages_after"] == len(view.messages)


def test_every_kind_of_part_can_be_read():
    """Each kind of part has words."""
    parts = (
        Text("hello"),
        Thinking("hm", "sig"),
        Thinking("", encrypted="abc"),
        ToolCall("1", "read", "{}"),
        ToolResult("1", (Text("out"), Media("image", "image/png")), is_error=True),
        Media("document", url="https://example.com/a.pdf"),
        Opaque("odd", {"type": "odd"}),
    )
    assert part_texts(Message("assistant", parts)) == (
        "hello",
        "[thinking] hm",
        "[thinking] 3 encrypted characters",
        "[call] read {}",
        "[error] out\n[image] image/png",
        "[document]  https://example.com/a.pdf",
        '[odd] {"type": "odd"}',
    )
