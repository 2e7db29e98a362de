"""Broken Converse histories are made legal, and what is legal stays as it is."""

import json

import pytest

from agentctx import Pipeline, TruncateToolOutputs, validate
from agentctx.stores import MemoryStore

MODEL = "anthropic.claude-sonnet-4-6"
CONFIG = {"tools": [{"toolSpec": {"name": "look", "inputSchema": {"json": {"type": "object"}}}}]}
POINT = {"cachePoint": {"type": "default"}}
ASK = {"role": "user", "content": [{"text": "how is the weather?"}]}
SAY = {"role": "assistant", "content": [{"text": "fine"}]}


def call(call_id="t1", **more):
    """A message with a call."""
    return {"role": "assistant", "content": [{"toolUse": {"toolUseId": call_id, "name": "look", "input": {}, **more}}]}


def answer(*blocks, call_id="t1"):
    """A message with a result of these blocks."""
    return {"role": "user", "content": [{"toolResult": {"toolUseId": call_id, "content": list(blocks)}}]}


async def repaired(*messages):
    """The messages that are sent instead of these."""
    view = await Pipeline().prepare(list(messages), tools=CONFIG["tools"], format="bedrock")
    request = {"modelId": MODEL, "messages": view.messages, "toolConfig": CONFIG}
    assert [each for each in validate(request, format="bedrock") if each.severity == "error"] == []
    return view.messages


@pytest.mark.anyio
@pytest.mark.parametrize(
    "messages",
    [
        (ASK, call(), answer({"text": "sun"}), SAY, ASK),
        (ASK, call("a.b:c"), answer({"json": {"sun": True}}, call_id="a.b:c")),
        ({"role": "user", "content": [*ASK["content"], POINT]}, SAY),
        (ASK, SAY, ASK, ASK),
    ],
)
async def test_legal_messages_go_back_as_they_came(messages):
    """What the provider takes is sent as the caller's own objects."""
    sent = await repaired(*messages)
    assert all(new is old for new, old in zip(sent, messages, strict=True))


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("blocks", "kept"),
    [
        ([{"text": "x"}, {"text": " \n"}], [{"text": "x"}]),
        ([{"text": "cut \ud83d"}], [{"text": "cut \ufffd"}]),
        ([{"text": "x"}, {}], [{"text": "x"}]),
        (
            [{"document": {"name": "d", "source": {"text": "x"}}}, {"text": ""}],
            [{"document": {"name": "d", "source": {"text": "x"}}}, {"text": "[a document]"}],
        ),
    ],
)
async def test_blocks_that_cannot_be_sent(blocks, kept):
    """Blank texts, blocks without a member and halves of characters are mended; a document keeps a word beside it."""
    assert (await repaired(ASK, SAY, {"role": "user", "content": blocks}))[2]["content"] == kept


@pytest.mark.anyio
@pytest.mark.parametrize("blocks", [[], [{"text": " "}]])
async def test_a_message_that_says_nothing_is_dropped(blocks):
    """A message without content is left out."""
    assert await repaired(ASK, {"role": "assistant", "content": blocks}, SAY) == [ASK, SAY]


@pytest.mark.anyio
@pytest.mark.parametrize("blocks", [[POINT], [{"text": ""}, POINT]])
async def test_a_message_of_cache_points_alone_is_dropped(blocks):
    """A message with cache points alone is left out; its point stands behind the message before it."""
    asked = {**ASK, "content": [*ASK["content"], POINT]}
    assert await repaired(ASK, {"role": "assistant", "content": blocks}, SAY) == [asked, SAY]


@pytest.mark.anyio
@pytest.mark.parametrize("blocks", [[], [{"text": ""}]])
async def test_a_result_that_says_nothing_says_so(blocks):
    """A result without content gets a word, since some models refuse it."""
    sent = await repaired(ASK, call(), answer(*blocks))
    assert sent[2]["content"][0]["toolResult"]["content"] == [{"text": "[no output]"}]


@pytest.mark.anyio
async def test_results_come_first():
    """Results are put before words; a cache point that follows them stays behind them."""
    mixed = {"role": "user", "content": [{"text": "and"}, *answer({"text": "sun"})["content"], POINT]}
    sent = await repaired(ASK, call(), mixed)
    assert sent[2]["content"] == [*answer({"text": "sun"})["content"], {"text": "and"}, POINT]


@pytest.mark.anyio
async def test_ids_and_names_of_other_providers():
    """An id or a name in other characters gets a spelling that is taken, the same for a call and its result."""
    odd = "call|x/y" * 12
    sent = await repaired(ASK, call(odd, name="files.read"), answer({"text": "sun"}, call_id=odd))
    used = sent[1]["content"][0]["toolUse"]
    assert used["toolUseId"] == sent[2]["content"][0]["toolResult"]["toolUseId"]
    assert used["name"].startswith("files_read_")


@pytest.mark.anyio
async def test_input_becomes_an_object_of_valid_json():
    """Input that is no object is wrapped, and NaN becomes null, also in the JSON of a result."""
    sent = await repaired(ASK, call(input=[float("nan")]), answer({"json": {"x": float("inf")}}))
    assert sent[1]["content"][0]["toolUse"]["input"] == {"input": [None]}
    assert sent[2]["content"][0]["toolResult"]["content"] == [{"json": {"x": None}}]


@pytest.mark.anyio
async def test_a_lost_result_is_made_up():
    """A call without a result is answered with an error before the user goes on."""
    sent = await repaired(ASK, call(), ASK)
    assert sent[2]["content"][0]["toolResult"]["status"] == "error"
    assert sent[3] is ASK


@pytest.mark.anyio
async def test_bytes_are_kept_in_the_store():
    """A message that holds bytes, as boto3 takes them, can be had back from the store as the API's JSON."""
    picture = {"image": {"format": "png", "source": {"bytes": b"\xff\x00"}}}
    store = MemoryStore()
    pipeline = Pipeline(TruncateToolOutputs(max_tokens=5), store=store)
    view = await pipeline.prepare([ASK, call(), answer({"text": "word " * 50}, picture)], format="bedrock")
    assert view.messages[2]["content"][0]["toolResult"]["content"][1] is picture
    (change,) = view.report.changes
    kept = json.loads(await store.get(change.handle))
    assert kept["content"][0]["toolResult"]["content"][1]["image"]["source"]["bytes"] == "/wA="


@pytest.mark.anyio
async def test_a_cache_point_whose_results_went_to_their_call_is_not_sent_alone():
    """A message that held a late result and a cache point is gone when its result stands with the call."""
    late = {"role": "user", "content": [*answer({"text": "sun"})["content"], POINT]}
    sent = await repaired(ASK, call(), ASK, late, SAY, ASK)
    assert all(message["content"] != [POINT] for message in sent)
    assert {"toolResult", "text"} <= {key for message in sent for block in message["content"] for key in block}
