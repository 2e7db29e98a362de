"""Every block type of the Anthropic SDK, made from the SDK's own definitions, read and written."""

import anthropic
import pytest
from anthropic.types import ContentBlock, ContentBlockParam, MessageParam
from anthropic.types.beta import BetaContentBlock, BetaContentBlockParam, BetaMessageParam
from pydantic import BaseModel, TypeAdapter
from sdk_samples import made, members

from agentctx import Budget, Opaque, Pipeline, Text, TruncateToolOutputs, count, validate
from agentctx.formats.native import as_mapping
from agentctx.formats.registry import format_named

WIRE = format_named("anthropic")
UNIONS = (ContentBlock, ContentBlockParam, BetaContentBlock, BetaContentBlockParam)
KINDS = {f"{kind.__module__}.{kind.__name__}": kind for union in UNIONS for kind in members(union)}
BLOCKS = [
    pytest.param(made(kind, full=full), id=f"{kind.__name__}-{'full' if full else 'needed'}")
    for kind in KINDS.values()
    for full in (False, True)
]
TAKEN = TypeAdapter(MessageParam | BetaMessageParam)


def kind_of(block):
    """The type that a block names."""
    return as_mapping(block)["type"]


def test_there_are_many_kinds():
    """The SDK's unions are found: more than sixty kinds of blocks, compaction and MCP among them."""
    assert len(KINDS) > 60
    kinds = {kind_of(case.values[0]) for case in BLOCKS}
    assert kinds >= {"compaction", "mcp_tool_use", "mcp_tool_result", "server_tool_use", "web_search_tool_result"}


@pytest.mark.parametrize("block", BLOCKS)
def test_every_block_goes_back_as_it_came(block):
    """A message with a block of the SDK goes back as itself, is counted, and can be judged."""
    role = "user" if kind_of(block) == "tool_result" else "assistant"
    native = {"role": role, "content": [block]}
    message = WIRE.read_message(native, 0)
    assert WIRE.write_message(message) is native
    assert len(message.parts) == 1
    assert count([native], format="anthropic") > count([{"role": role, "content": []}], format="anthropic")
    validate({"messages": [native]}, format="anthropic")


@pytest.mark.parametrize("block", BLOCKS)
def test_every_block_stays_itself_beside_an_edit(block):
    """A block of the SDK is the same object in a message of which another block was edited, and the SDK takes it."""
    message = WIRE.read_message({"role": "assistant", "content": [block, {"type": "text", "text": "long"}]}, 0)
    written = WIRE.write_message(message.with_parts((message.parts[0], Text("cut"))))
    assert written["content"][0] is block
    assert written["content"][1] == {"type": "text", "text": "cut"}


@pytest.mark.parametrize("block", BLOCKS)
def test_an_object_and_its_dict_say_the_same(block):
    """What the SDK's object says, its dict says."""
    native = {"role": "assistant", "content": [block]}
    dumped = {"role": "assistant", "content": [as_mapping(block)]}
    assert WIRE.read_message(dumped, 0) == WIRE.read_message(native, 0)


@pytest.mark.parametrize("block", BLOCKS)
def test_blocks_of_the_server_are_opaque_pairs(block):
    """What a server tool, an MCP server or a compaction made is kept whole, its calls and results known as pairs."""
    (part,) = WIRE.read_message({"role": "assistant", "content": [block]}, 0).parts
    kind = kind_of(block)
    if kind.endswith("_tool_use"):
        assert isinstance(part, Opaque)
        assert part.opens == as_mapping(block)["id"]
    elif kind.endswith("_tool_result"):
        assert isinstance(part, Opaque)
        assert part.closes == as_mapping(block)["tool_use_id"]
    elif kind == "compaction":
        assert isinstance(part, Opaque)


def answer():
    """A message as the SDK returns it: it thinks, searches, cites and calls."""
    return anthropic.types.Message.model_validate(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
                {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
                {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
            ],
        }
    )


@pytest.mark.anyio
async def test_objects_of_the_sdk_are_messages(preparing):
    """The SDK's own answers and blocks go through a pipeline; what is cut beside them is taken by the SDK."""
    said = answer()
    task = {"role": "user", "content": "go"}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "long " * 900}]}
    whole = {"role": "assistant", "content": said.content}
    later = {"role": "assistant", "content": [anthropic.types.TextBlock(type="text", text="done")]}
    pipeline = Pipeline(TruncateToolOutputs(max_tokens=50), budget=Budget(100_000))
    view = await preparing(pipeline, "anthropic")([task, whole, result, later, task])
    assert view.messages[1] is whole
    assert view.messages[3] is later
    assert len(view.messages[2]["content"][0]["content"]) < 1_000
    for message in view.messages:
        TAKEN.validate_python(message)


@pytest.mark.anyio
async def test_an_answer_itself_is_a_message(preparing):
    """An answer of the SDK may be put into the history as it is."""
    said = answer()
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}]}
    view = await preparing(Pipeline(), "anthropic")([{"role": "user", "content": "go"}, said, result])
    assert view.messages[1] is said
    assert isinstance(said, BaseModel)
