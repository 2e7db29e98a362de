"""Results that are objects and not texts: what is counted is what is sent, whatever a stage makes of them."""

import json
from functools import partial

import anyio
import pytest
from histories import single_stages
from hypothesis import given, settings, strategies as st

from agentctx import Budget, ContextOverflow, Pipeline, count
from agentctx.strategies import CompactJson, CompressLayers

pytestmark = pytest.mark.anyio

MODELS = {"bedrock": "anthropic.claude-sonnet-4-5-20250929-v1:0", "gemini": "gemini-2.5-pro"}
SEATS = [{"seat": f"{row}A", "free": row < 3, "price": 99.5, "at": "/home/dev/project/src"} for row in range(40)]
DOCUMENTS = {
    "small": {"a": 1},
    "rows": {"seats": SEATS},
    "within": {"output": {"seats": SEATS}},
    "text in it": {"result": json.dumps(SEATS, indent=1)},
    "two texts": {"stdout": "line\n" * 200, "stderr": ""},
}


def conversation(format_name, answer):
    """A call, answered by an object, and a question behind it; three times, so that something is old."""
    messages = []
    for place in range(3):
        name = f"c{place}"
        if format_name == "bedrock":
            asked = {"toolUse": {"toolUseId": name, "name": "get", "input": {}}}
            said = {"toolResult": {"toolUseId": name, "content": [{"json": answer}]}}
            messages += [{"role": "user", "content": [{"text": f"Go on {place}."}]}]
            messages += [{"role": "assistant", "content": [asked]}, {"role": "user", "content": [said]}]
            messages += [{"role": "assistant", "content": [{"text": "Seen."}]}]
        else:
            messages += [{"role": "user", "parts": [{"text": f"Go on {place}."}]}]
            messages += [{"role": "model", "parts": [{"functionCall": {"name": "get", "args": {}}}]}]
            messages += [{"role": "user", "parts": [{"functionResponse": {"name": "get", "response": answer}}]}]
            messages += [{"role": "model", "parts": [{"text": "Seen."}]}]
    return messages[:-1]


@given(
    st.sampled_from(tuple(MODELS)), st.sampled_from(tuple(DOCUMENTS)), single_stages(), st.sampled_from((0, 1, 3, 9))
)
@settings(max_examples=120, deadline=None)
def test_what_is_counted_is_what_is_sent(format_name, document, stage, less):
    """Of any stage, with room and without: the report's size, the limit, and nothing grows."""
    messages = conversation(format_name, DOCUMENTS[document])
    tools = [{"toolSpec": {"name": "get", "inputSchema": {"json": {"type": "object"}}}}]
    asked = {"tools": tools if format_name == "bedrock" else None, "format": format_name, "model": MODELS[format_name]}
    before = count(messages, **asked)
    room = before * 2 if not less else before - before * (less - 1) // 10 - 1
    try:
        view = anyio.run(partial(Pipeline(stage, budget=Budget(room)).prepare, messages, **asked))
    except ContextOverflow:
        return
    assert count(view.messages, **asked) == view.report.tokens_after <= room
    assert view.report.tokens_after <= before


@pytest.mark.parametrize("stage", [CompactJson(), CompressLayers(paths=False, codebook=False, dictionary=())])
@pytest.mark.parametrize("format_name", MODELS)
async def test_blanks_that_are_not_sent_are_not_left_out(format_name, stage):
    """An object stays the caller's own, and nothing is said to have been edited."""
    messages = conversation(format_name, DOCUMENTS["rows"])
    view = await Pipeline(stage).prepare(messages, format=format_name, model=MODELS[format_name])
    assert all(one is other for one, other in zip(view.messages, messages, strict=True))
    assert not view.report.changes
