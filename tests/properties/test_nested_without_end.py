"""Whatever is nested however deep, wherever in a request: it works, or the place is named; the stack never ends."""

import json
from contextlib import suppress
from functools import partial

import anyio
import pytest
from histories import FORMATS
from hypothesis import given, strategies as st

from agentctx import (
    AgentctxError,
    Budget,
    ClearToolResults,
    CollapseRepeats,
    FitContextWindow,
    InvalidInput,
    Media,
    Pipeline,
    PlaceCacheMarkers,
    Session,
    classify_error,
    convert,
    count,
    validate,
)
from agentctx.formats.registry import FORMATS as WIRES
from agentctx.stores import MemoryStore
from agentctx.testing import assistant, call, history, result, system, tool, transcript, user

MODELS = {
    "openai-chat": "gpt-5.6",
    "openai-responses": "gpt-5.6",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-pro",
    "bedrock": "anthropic.claude-sonnet-4-5-20250929-v1:0",
}
KEYS = {"openai-responses": "input", "gemini": "contents"}


def deep(levels, kind=list, end="x"):
    """So many lists or objects, one in the other."""
    value = end
    for level in range(levels):
        value = [value] if kind is list or (kind is None and level % 2) else {"a": value}
    return value


def request(form):
    """A request with a bit of everything, as plain JSON values: messages, system prompt, tools."""
    made = history(
        form,
        system("be kind"),
        user("task", Media("image", "image/png", "iVBORw0KGgo=")),
        assistant("hm", call("c1", "read", {"path": {"of": ["a"]}})),
        result("c1", "what it says " * 20),
        assistant("well"),
        user("go on"),
        tools=[tool("read", "reads", path="where")],
    )
    messages = [*made.messages, {"type": "odd_thing", "data": 1}] if form == "openai-responses" else made.messages
    return {"messages": messages, "system": made.system, "tools": made.tools}


def paths(value, path=()):
    """The place of everything in a value, and one new key in each object."""
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if isinstance(value, dict) and path:
        yield (*path, "something_new")
    for key, each in inner:
        yield from paths(each, (*path, key))


def replaced(value, path, new):
    """The value with something else at one place of it."""
    if not path:
        return new
    if isinstance(value, dict):
        return {**value, path[0]: replaced(value.get(path[0]), path[1:], new)}
    return [replaced(each, path[1:], new) if place == path[0] else each for place, each in enumerate(value)]


PLACES = {form: [path for path in paths(request(form)) if path != ("messages",)] for form in FORMATS}


async def in_a_session(form, made):
    """Two steps, the second on the views of the first, dumps and loads in between; and after a good step."""
    stages = CollapseRepeats(), ClearToolResults(1), FitContextWindow(), PlaceCacheMarkers()
    pipeline = Pipeline(*stages, budget=Budget(400, trigger=60, target=50), store=MemoryStore())
    session = pipeline.session(format=form, model=MODELS[form])
    more = transcript(form, assistant("ok"), user("next"))
    good = request(form)
    await session.prepare(**good)
    state = json.loads(json.dumps(session.dump()))
    with suppress(InvalidInput):
        view = await session.prepare(made["messages"], made["system"], made["tools"])
        session.dump()
        await session.prepare([*view.messages, *more], made["system"], made["tools"])
        await session.recover(RuntimeError("prompt is too long: 90 tokens > 60 maximum"))
    assert (await session.prepare(**good)).messages
    session = Session.load(pipeline, state)
    with suppress(InvalidInput):
        await session.prepare(**made)
    assert (await session.prepare(**good)).messages
    session = pipeline.session(model=MODELS[form])
    view = await session.prepare(**made)
    await session.prepare([*view.messages, *more], made["system"], made["tools"])
    Session.load(pipeline, json.loads(json.dumps(session.dump())))


async def at_once(form, made, tokens=100_000):
    """One call without a session."""
    pipeline = Pipeline(FitContextWindow(), PlaceCacheMarkers(), budget=tokens, store=MemoryStore())
    await pipeline.prepare(**made, format=form, model=MODELS[form])


async def checked(form, made):
    """Checked, with and without what it was made from."""
    native = {KEYS.get(form, "messages"): made["messages"], "system": made["system"], "tools": made["tools"]}
    validate(native, format=form, model=MODELS[form])
    validate(native, format=form, before=native)
    validate(native, before={KEYS.get(form, "messages"): request(form)["messages"]})


async def counted(form, made, name=None):
    """Counted, in the named format, or in the one that it seems to be in."""
    count(**made, format=name, model=MODELS[form])


async def converted(form, made, to=""):
    """Taken elsewhere."""
    convert(made["messages"], to, format=form, system=made["system"], tools=made["tools"])


async def everything(form, made):
    """Every way in; each works or says what is wrong, and where."""
    ways = [in_a_session, at_once, partial(at_once, tokens=60), checked, counted]
    ways += [partial(counted, name=form), *(partial(converted, to=to) for to in WIRES)]
    for way in ways:
        said = await wrong(way, form, made)
        assert not isinstance(said, InvalidInput) or said.where.startswith(("messages", "system", "tools")), said


async def wrong(way, form, made):
    """What a way in says is wrong; None where it works."""
    try:
        await way(form, made)
    except AgentctxError as error:
        return error
    return None


@given(
    st.sampled_from([(form, place) for form in FORMATS for place in PLACES[form]]),
    st.sampled_from([300, 1_000, 5_000]),
    st.sampled_from([list, dict, None]),
)
def test_anything_anywhere_may_be_nested_too_deep(both_loops, place, levels, kind):
    """Any value of a request may be replaced by one that is nested without sense: no way in runs out of stack."""
    form, path = place
    both_loops(everything, form, replaced(request(form), path, deep(levels, kind)))


@pytest.mark.anyio
@pytest.mark.parametrize("form", FORMATS)
async def test_a_hundred_thousand_levels(form):
    """The same with 100,000 levels, in a block, and as the text of a call's arguments."""
    value = deep(100_000, None)
    await everything(form, replaced(request(form), ("messages", 1, "something_new"), value))
    text = "[" * 100_000 + "]" * 100_000
    messages = transcript(form, user("a"), assistant(call("c", "x", text)), result("c", text))
    await everything(form, {"messages": messages, "system": None, "tools": None})


class RefusedError(Exception):
    """An error of an SDK's, with a body."""

    def __init__(self, body):
        super().__init__("bad request")
        self.body = body


@pytest.mark.parametrize("levels", [300, 1_000, 5_000, 100_000])
@pytest.mark.parametrize("kind", [list, dict, None], ids=["lists", "objects", "both"])
def test_errors_and_usages(levels, kind):
    """What a provider answers is read as far as it can be."""
    value, session = deep(levels, kind), Pipeline().session()
    assert classify_error(RefusedError(value)) is None
    assert classify_error(value) is None
    assert classify_error({"error": {"message": "prompt is too long: 9 tokens > 6 maximum", "param": value}}).limit == 6
    for usage in (value, {"usage": value}, {"prompt_tokens": value}, {"input_tokens": 5, "iterations": value}):
        with suppress(InvalidInput):
            session.record(usage)
    session.record({"input_tokens": 5, "server_tool_use": value})


NAMES = {
    "type",
    "role",
    "name",
    "id",
    "call_id",
    "tool_call_id",
    "tool_use_id",
    "toolUseId",
    "media_type",
    "something_new",
}
"""Fields whose value something is looked up by."""


@pytest.mark.parametrize("form", FORMATS)
def test_a_name_may_be_a_list_or_an_object(form):
    """What something is looked up by may be what no table can look up: it works, or the place is named."""
    for path in (path for path in PLACES[form] if path[-1] in NAMES):
        for value in (["x"], {"a": 1}):
            made = replaced(request(form), path, value)
            for way in (at_once, checked, partial(counted, name=form), counted):
                anyio.run(wrong, way, form, made)


@pytest.mark.parametrize("form", FORMATS)
def test_a_message_of_another_tool_may_have_odd_types(form):
    """What only looks like another tool's record is read as what it is, or the place is named."""
    odd = {"timestamp": 1, "payload": {}, "type": ["x"]}
    for name in (form, None):
        with suppress(InvalidInput):
            count([odd], format=name)
