"""Every item type of the OpenAI SDK, made from the SDK's own definitions, read and written."""

from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from openai.types.responses import ResponseInputItem, ResponseOutputItem
from openai.types.responses.response_function_tool_call import ResponseFunctionToolCall
from pydantic import BaseModel, TypeAdapter

from agentctx import InvalidInput, Opaque, Text, ToolCall, ToolResult, count
from agentctx.formats.native import as_mapping
from agentctx.formats.registry import format_named
from agentctx.rules import find_violations

WIRE = format_named("openai-responses")
ACCEPTED = TypeAdapter(ResponseInputItem)
REFUSED = {"ItemReference"}


PLAIN = {str: "text", int: 1, float: 0.5, bool: True, Any: {}, object: {}, dict: {}}


def members(annotation):
    """The classes of a union, however deep."""
    if get_origin(annotation) is Annotated:
        return members(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return [found for each in get_args(annotation) for found in members(each)]
    return [annotation]


def sample(annotation, *, full):
    """A value of a type: the first choice of each union, one entry in each list, text that names its type."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return sample(arguments[0], full=full)
    if origin is Literal:
        return arguments[0]
    if origin in (Union, UnionType):
        return sample(next(each for each in arguments if each is not type(None)), full=full)
    if origin in (list, tuple):
        return [sample(arguments[0], full=full)]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return model(annotation, full=full)
    return PLAIN.get(origin or annotation)


def model(kind, *, full):
    """An object of a class of the SDK, with all its fields or with those that it needs."""
    fields = {name: field for name, field in kind.model_fields.items() if full or field.is_required()}
    return kind(**{field.alias or name: sample(field.annotation, full=full) for name, field in fields.items()})


KINDS = {kind.__name__: kind for union in (ResponseInputItem, ResponseOutputItem) for kind in members(union)}
OBJECTS = [
    pytest.param(model(kind, full=full), id=f"{name}-{'full' if full else 'needed'}")
    for name, kind in KINDS.items()
    if name not in REFUSED
    for full in (False, True)
]


def test_there_are_many_kinds():
    """The SDK's unions are found: more than thirty kinds of items, references among them."""
    assert len(KINDS) > 30
    assert set(KINDS) >= REFUSED


@pytest.mark.parametrize("item", OBJECTS)
def test_every_item_of_the_sdk_goes_through(item):
    """An object of the SDK is read, counted, and written as itself, and a dict of it likewise."""
    dumped = as_mapping(item)
    for native in (item, dumped):
        message = WIRE.read_message(native, 0)
        assert WIRE.write_message(message) is native
        assert WIRE.read_message(dumped, 0) == message
        assert find_violations(WIRE, {"input": [native]}) is not None
        assert count([native], format="openai-responses") > 7


@pytest.mark.parametrize("item", OBJECTS)
def test_every_edited_item_is_taken_by_the_sdk(item):
    """What is written after an edit is an item that the SDK takes, or the object itself where nothing can be said."""
    message = WIRE.read_message(item, 0)
    written = WIRE.write_message(message.with_parts(tuple(map(edited, message.parts))))
    if written is item:
        assert all(isinstance(part, Opaque) or edited(part) is part for part in message.parts)
    else:
        taken = ACCEPTED.validate_python(written)
        assert WIRE.read_message(taken, 0).role == message.role


def edited(part):
    """The part saying something else, where that can be."""
    if isinstance(part, Text):
        return Text("said otherwise", source=part.source)
    if isinstance(part, ToolCall):
        return ToolCall(part.id, part.name, part.arguments.replace('"text"', '"cut"'), source=part.source)
    return ToolResult(part.call_id, (Text("cut"),), source=part.source) if isinstance(part, ToolResult) else part


def test_a_reference_of_the_sdk_is_refused():
    """An item reference is refused as an object too."""
    with pytest.raises(InvalidInput, match="item_reference"):
        WIRE.read_message(model(KINDS["ItemReference"], full=True), 0)


def test_an_edited_object_has_the_names_of_the_wire():
    """The SDK's Python names of fields do not get out."""
    call = ResponseFunctionToolCall(type="function_call", call_id="c", name="f", arguments="{}", **{"async": True})
    message = WIRE.read_message(call, 0)
    written = WIRE.write_message(message.with_parts((ToolCall("c", "f", '{"a": 1}', source=call),)))
    assert written == {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a": 1}', "async": True}
