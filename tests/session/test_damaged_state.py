"""A state that is not what was dumped is one clear error that names the place, or a session that works."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from copy import copy
from functools import cache

import anyio
import pytest
from histories import FORMATS
from hypothesis import given, strategies as st

from agentctx import (
    AgentctxError,
    Budget,
    ClearToolResults,
    FitContextWindow,
    InvalidInput,
    Pipeline,
    Session,
    TruncateToolOutputs,
    validate,
)
from agentctx.session.record import exact_digest
from agentctx.stores import MemoryStore
from agentctx.testing import assistant, call, result, transcript, user

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
SHARE = 3
"""On an ordinary day each place gets one in so many of the wrong values, another place others."""

WRONG = [None, True, -1, 0, 1, 7, 2**40, 10**400, 1.5, float("nan"), "", "x", "AAAA", [], [None], ["x"], {}, {"x": 1}]
"""What may stand in a field's place; for most fields all of it is wrong, for each some of it."""


@cache
def history(format_name):
    """A task, rounds with long results, a lost result, and a round that is not finished."""
    turns = [user("the task")]
    for number in range(12):
        turns += [assistant(call(f"c{number}", "read", {"n": number})), result(f"c{number}", f"line {number}\n" * 60)]
    turns += [assistant(call("lost", "read")), user("go on"), assistant(call("open", "read"), call("late", "read"))]
    return transcript(format_name, *turns, result("open", "half"))


def pipeline():
    return Pipeline(
        TruncateToolOutputs(100),
        ClearToolResults(2),
        FitContextWindow(),
        budget=Budget(1_500, trigger=1_200, target=700),
        store=MemoryStore(),
    )


@cache
def dumped(format_name):
    """A state in which every field holds something; nothing changes it."""

    async def walk():
        messages = history(format_name)
        session = (
            pipeline().session(format=format_name, model="m", id="it").child(Budget(1_100, trigger=1_000, target=600))
        )
        for length in range(1, len(messages) + 1):
            view = await session.prepare(messages[:length])
            session.record({"prompt_tokens": view.report.tokens_after + 300})
        return json.loads(json.dumps(session.dump()))

    return anyio.run(walk)


def places(value, path=()):
    """Every place in a JSON value, outermost first; of long lists the first and the last members."""
    yield path
    if isinstance(value, dict):
        for key, each in value.items():
            yield from places(each, (*path, key))
    elif isinstance(value, list):
        for index in sorted({0, 1, len(value) - 1} & set(range(len(value)))):
            yield from places(value[index], (*path, index))


def put(state, path, value):
    """The state with another value at a place; beside the way to it nothing is copied."""
    if not path:
        return value
    made, (key, *inner) = copy(state), path
    made[key] = put(state[key], inner, value) if inner else value
    return made


def inside(state, path):
    for key in path:
        state = state[key]
    return state


def own(path):
    """Whether a place belongs to the state itself, and not to a message in it."""
    return "out" not in path and "tail" not in path


def try_to_load(state, format_name, told=None):
    """Load a damaged state: one clear error, or a session whose next view is legal and fits."""
    try:
        session = Session.load(pipeline(), state)
    except InvalidInput as error:
        return error

    async def go_on():
        try:
            view = await session.prepare(history(format_name))
        except AgentctxError:
            return
        assert view.report.tokens_after <= session.budget.limit, told
        found = validate({"messages": view.messages}, format=format_name)
        assert not [violation for violation in found if violation.severity == "error"], told
        json.dumps(session.dump())

    anyio.run(go_on)
    return None


TRACED_ONCE = [FORMATS[0], *(pytest.param(name, marks=pytest.mark.no_cover) for name in FORMATS[1:])]
"""All formats; a state is checked by the same lines in each, so that coverage is measured with one of them."""


@pytest.mark.parametrize("format_name", FORMATS)
def test_nothing_is_empty(format_name):
    """The state that the tests damage has something in every field."""
    state = dumped(format_name)
    record = state["record"]
    assert all(record[name] for name in ("rows", "out", "origins", "edited", "tail", "changes", "spans", "handles"))
    assert all(record["rows"].values())
    assert state["budget"]
    assert state["learned"][-1]["calibration"]["anchor"]


@pytest.mark.parametrize("format_name", FORMATS)
def test_each_missing_field_is_named(format_name):
    """Without any one of its fields a state is refused, and the error names the field."""
    state = dumped(format_name)
    for path in places(state):
        if own(path) and path and isinstance(path[-1], str) and "handles" not in path:
            error = try_to_load(without(state, path), format_name)
            assert error is not None, path
            assert path[-1] in error.where


@pytest.mark.parametrize("format_name", FORMATS)
def test_each_unknown_field_is_named(format_name):
    """A field that nobody knows is refused, wherever it stands, and the error names it."""
    state = dumped(format_name)
    for path in places(state):
        if own(path) and isinstance(inside(state, path), dict):
            error = try_to_load(put(state, (*path, "surprise"), 1), format_name)
            assert error is not None, path
            assert error.where.endswith(".surprise")


@pytest.mark.parametrize("format_name", TRACED_ONCE)
def test_each_wrong_value_is_an_error_or_harmless(format_name):
    """Whatever stands in the place of any field, the error names the state, or the next view is legal and fits."""
    state = dumped(format_name)
    errors = [
        try_to_load(put(state, path, wrong), format_name, (path, wrong))
        for number, path in enumerate(filter(own, places(state)))
        for wrong in (WRONG if NIGHTLY else WRONG[number % SHARE :: SHARE])
    ]
    refused = [error for error in errors if error is not None]
    assert len(refused) > 500 // SHARE
    assert all(error.where.startswith("state") for error in refused)


@pytest.mark.parametrize("format_name", FORMATS)
def test_messages_that_were_cut_out_or_doubled_are_noticed(format_name):
    """A state whose view has lost, doubled or exchanged messages is refused."""
    state = dumped(format_name)
    out = state["record"]["out"]
    for damaged in (out[1:], out[:-1], [*out, out[-1]], [out[0], *out]):
        assert try_to_load(put(state, ("record", "out"), damaged), format_name) is not None


@given(
    format_name=st.sampled_from(FORMATS),
    chosen=st.lists(st.tuples(st.integers(0, 10_000), st.sampled_from(WRONG)), min_size=1, max_size=4),
)
def test_damage_in_several_places(format_name, chosen):
    """Several wrong values at once, in messages too, are one clear error or do no harm."""
    state = dumped(format_name)
    for number, wrong in chosen:
        found = list(places(state))
        state = put(state, found[number % len(found)], wrong)
    try_to_load(state, format_name)


def leaves(value, path=()):
    """Every place in a JSON value that holds no object and no list, and every key."""
    if isinstance(value, (dict, list)) and value:
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(each, (*path, key))
    else:
        yield path


def without(state, path):
    """The state without what stands at a place."""
    made, (key, *inner) = copy(state), path
    if inner:
        made[key] = without(state[key], inner)
    else:
        del made[key]
    return made


GONE = object()
ODD = [*WRONG, "\ud800", "a\udfffb", {"\ud800": 1}, GONE]
"""What may come in a leaf's place: nonsense, half a character, nothing at all."""


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("name", ["out", "tail"])
def test_a_message_that_was_changed_is_refused_when_it_is_loaded(name, format_name):
    """Nothing in a message of the view or of the open round can be changed or taken away: it would be sent."""
    state = dumped(format_name)
    found = [("record", name, *path) for path in leaves(state["record"][name])]
    for number, path in enumerate(found[:: max(1, len(found) // 40)]):
        odd = ODD[number % len(ODD)]
        if odd is not GONE and inside(state, path) == odd:
            continue
        error = try_to_load(without(state, path) if odd is GONE else put(state, path, odd), format_name)
        assert error is not None, (path, odd)
        place = f"state.record.{name}[{path[2]}]"
        nulls = odd is None or odd is GONE  # of which a message has none that count, but in the arguments of a call
        assert error.where.startswith(place) or (nulls and error.where == f"state.record.{name}"), (path, odd, error)


@pytest.mark.anyio
@pytest.mark.parametrize("open_round", [False, True])
async def test_a_null_that_was_taken_away_is_refused(open_round):
    """Nothing is no null in the arguments of a call: it would be sent, so it is refused."""
    asked = assistant(call("c", "read", {"path": "a", "limit": None}), call("d", "read"))
    answers = [] if open_round else [result("c", "x"), result("d", "y"), user("go on")]
    session = Pipeline().session(format="anthropic")
    tools = [{"name": "read", "input_schema": {"type": "object", "default": None}}]
    await session.prepare(transcript("anthropic", user("task"), asked, *answers), tools=tools)
    state = json.loads(json.dumps(session.dump()))
    Session.load(Pipeline(), state)
    nulls = [path for path in leaves(state) if path[0] != "learned" and path[-1] in {"limit", "default"}]
    assert {path[1] for path in nulls} == {"tools", "out", *(["tail"] if open_round else ())}
    for path in nulls:
        with pytest.raises(InvalidInput) as refused:
            Session.load(Pipeline(), without(state, path))
        assert refused.value.where == ("state.head" if path[0] == "head" else f"state.record.{path[1]}")


@given(format_name=st.sampled_from(FORMATS), number=st.integers(0, 100_000), odd=st.sampled_from(ODD))
def test_any_leaf_may_be_changed(format_name, number, odd):
    """Whatever comes in the place of any leaf of a state, it is refused, or the next requests are legal and fit."""
    state = dumped(format_name)
    found = list(leaves(state))
    path = found[number % len(found)]
    try_to_load(without(state, path) if odd is GONE else put(state, path, odd), format_name, (path, odd))


@pytest.mark.parametrize("name", ["id", "model", "home", "format"])
def test_half_a_character_is_no_name(name):
    """A name that nothing can be printed or sent with is refused."""
    error = try_to_load({**dumped("anthropic"), name: "a\ud800"}, "anthropic")
    assert error is not None
    assert error.where == f"state.{name}"


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_state_that_is_nested_too_deep_is_refused(format_name):
    """Values without end in a message are one clear error."""
    deep = []
    for _ in range(100_000):
        deep = [deep]
    state = {**dumped(format_name), "record": {**dumped(format_name)["record"], "out": [deep]}}
    with pytest.raises(InvalidInput):
        Session.load(pipeline(), state)


@pytest.mark.parametrize("version", [None, 0, 1, 3, 5, 6, 99, "7", True, [2]])
def test_another_version_is_refused_by_name(version):
    """A state of another version is refused before anything else is looked at; the error names both versions."""
    with pytest.raises(InvalidInput, match="must be a session's state of version 7, got") as caught:
        Session.load(pipeline(), {**dumped("anthropic"), "version": version})
    assert caught.value.where == "state.version"
    assert repr(version) in caught.value.what


@pytest.mark.parametrize("text", ["", "{", "nonsense", "[" * 100_000, b"\xff\xfe", "5", "null", "[]"])
def test_text_that_is_no_state_is_refused(text):
    """JSON text that is damaged, or of something else, is one clear error."""
    with pytest.raises(InvalidInput) as caught:
        Session.load(pipeline(), text)
    assert caught.value.where.startswith("state")


def test_any_field_may_be_nested_too_deep():
    """A value without end in any field is one clear error that names the state, short enough to be read."""
    deep = []
    for _ in range(3_000):
        deep = [deep]
    for path in filter(own, places(dumped(FORMATS[0]))):
        if path:
            with pytest.raises(InvalidInput) as caught:
                Session.load(pipeline(), put(dumped(FORMATS[0]), path, deep))
            assert caught.value.where.startswith("state"), path
            assert len(str(caught.value)) < 500, path


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        (("changes", 0, "index"), 29, "changes[0].index"),
        (("changes", 0, "outcome"), "x", "changes[0].outcome"),
        (("changes", 0, "by"), "x", "changes[0].by"),
        (("changes", 0, "tokens_after"), [], "changes[0].tokens_after"),
        (("changes", 0, "handle"), [None] * 99, "changes[0].handle"),
        (("changes", 0, "handle"), [5], "changes[0].handle[0]"),
        (("spans", 0, "start"), 29, "spans[0].st"),
        (("spans", 0, "stop"), 1, "spans[0].stop"),
        (
            ("spans",),
            [{**dumped("anthropic")["record"]["spans"][0], "stop": stop} for stop in (5, 6)],
            "spans[1].start",
        ),
        (("handles",), {"29": "x"}, "handles.29"),
        (("settled",), 15, "settled"),
        (("settled",), 17, "settled"),
    ],
)
def test_what_is_said_of_messages_that_are_not_there_is_refused(path, value, where):
    """Indexes behind the end, spans that overlap, and a final part that ends elsewhere are named."""
    with pytest.raises(InvalidInput) as refused:
        Session.load(pipeline(), put(dumped("anthropic"), ("record", *path), value))
    assert refused.value.where.startswith(f"state.record.{where}")


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        (("rows", "sizes"), [1], "rows.seen"),
        (("rows", "weights"), [], "rows.weights"),
        (("rows", "calls"), "", "rows.calls"),
        (("rows", "roles"), "", "rows.roles"),
        (("rows", "roles"), b64encode(b"\x05" * 29).decode(), "rows.roles[0]"),
        (("rows", "decided"), [], "rows.decided"),
        (("rows", "decided", 0), [29], "rows.decided[0]"),
        (("rows", "decided", 0), [30, 1], "rows.decided[0]"),
        (("rows", "decided"), [[0, 1], [0, 29]], "rows.decided"),
        (("rows", "decided"), [[0, 2**62]], "rows.decided[0][1]"),
        (("rows", "sizes", 3), 2**32, "rows.sizes[3]"),
        (("origins", 0), 29, "origins[0]"),
        (("sums",), [], "sums"),
        (("sums", 0), "?", "sums[0]"),
        (("rows", "seen"), "!" + dumped("anthropic")["record"]["rows"]["seen"], "rows.seen"),
        (("stands",), {"0": [1, 10**9]}, "stands.0[1]"),
        (("stands",), {"29": [2, 1]}, "stands.29"),
        (("stands",), {"1": [2, 1]}, "stands"),
        (("changes", 0, "index", 0), 29, "changes[0].index[0]"),
    ],
)
def test_columns_that_do_not_belong_together_are_named(path, value, where):
    """A column of another length than the history, and what stands for no role, no message or no digest, is named."""
    with pytest.raises(InvalidInput) as refused:
        Session.load(pipeline(), put(dumped("anthropic"), ("record", *path), value))
    assert refused.value.where == f"state.record.{where}"


@pytest.mark.parametrize(("name", "expected"), [("waiting", "true or false"), ("rows", "an object"), ("out", "a list")])
def test_what_was_expected_is_said(name, expected):
    """The error says what should stand there, and what does."""
    with pytest.raises(InvalidInput) as refused:
        Session.load(pipeline(), put(dumped("anthropic"), ("record", name), 5))
    assert refused.value.what == f"must be {expected}, got 5"


def summed(record):
    """A record with the digests that belong to its view and its tail."""
    whole = [b64encode(exact_digest(record[name])).decode() for name in ("out", "tail")]
    return {**record, "sums": [*record["sums"][:-2], *whole]}


@pytest.mark.anyio
@pytest.mark.parametrize("open_round", [False, True])
async def test_a_view_with_a_broken_pair_is_refused(open_round):
    """A call without its result is refused though all digests are right, also where only the final part ends on it."""
    messages = transcript("openai-chat", user("task"), assistant(call("c", "f"), call("d", "f")), result("c", "x"))
    messages += [] if open_round else transcript("openai-chat", result("d", "y"), user("more"))
    session = Pipeline().session(format="openai-chat")
    await session.prepare(messages)
    state = json.loads(json.dumps(session.dump()))
    record, why = state["record"], {"outcome": "dropped", "stage": "X", "reason": "x", "by": "fit"}
    gone = {"start": 2, "stop": 3, **why}
    if open_round:
        without = {**record, "settled": 2, "tail": record["tail"][1:]}
    else:
        without = {name: [*record[name][:2], *record[name][3:]] for name in ("out", "origins")}
        without = {**record, **without, "spans": [gone], "settled": record["settled"] - 1}
    assert Session.load(Pipeline(), state).dump() == state
    with pytest.raises(InvalidInput, match="has no tool result") as refused:
        Session.load(Pipeline(), {**state, "record": summed(without)})
    assert refused.value.where == "state.record.out"


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("line", ["whole", "first", "last", "one more before", "one more after"])
def test_each_message_of_the_history_is_in_the_view_or_said_to_be_gone(line, format_name):
    """Without a span of what was dropped, or with a shorter or longer one, a state is refused: it would miscount."""
    state = dumped(format_name)
    spans = state["record"]["spans"]
    assert spans
    for place, span in enumerate(spans):
        instead = {
            "whole": [],
            "first": [{**span, "start": span["start"] + 1}],
            "last": [{**span, "stop": span["stop"] - 1}],
            "one more before": [{**span, "start": span["start"] - 1}],
            "one more after": [{**span, "stop": span["stop"] + 1}],
        }[line]
        told = [*spans[:place], *instead, *spans[place + 1 :]]
        with pytest.raises(InvalidInput) as refused:
            Session.load(pipeline(), put(state, ("record", "spans"), told))
        assert refused.value.where.startswith("state.record.spans")
