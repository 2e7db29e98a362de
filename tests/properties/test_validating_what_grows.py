"""A validator that remembers a conversation finds what validating each request anew finds."""

import sys
from copy import deepcopy

import pytest
from hypothesis import given, settings, strategies as st

from agentctx.engine.reading import known_profile
from agentctx.providers.registry import format_named
from agentctx.testing.histories import FORMATS, broken_histories, histories

MODELS = (None, "claude-sonnet-4-5", "claude-opus-5-5")
LEAVES = ("", " ", None, 7, [], {"type": "ephemeral"}, "c1", "another", "assistant", "tool_use", "user")
KEYS = ("cache_control", "citations", "encrypted_content", "signature", "content", "id", "role")

EDITS = st.lists(
    st.tuples(
        st.sampled_from(["drop", "repeat", "other", "change", "change", "change"]),
        st.integers(0, 40),
        st.integers(0, 99),
        st.sampled_from(LEAVES),
    ),
    max_size=4,
)


def holders(value):
    """Every object and list in a JSON value, itself first."""
    if isinstance(value, dict | list):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from holders(inner)


def changed(native, pick, leaf):
    """A copy of a message in which one value is another."""
    copy = deepcopy(native)
    inside = list(holders(copy)) or [{}]
    held = inside[pick % len(inside)]
    if isinstance(held, dict):
        names = (*held, KEYS[pick % len(KEYS)])
        held[names[pick % len(names)]] = leaf
    elif held:
        held[pick % len(held)] = leaf
    return copy


def edited(messages, edits):
    """What stands in the place of each message: nothing, itself, or others; the same objects at every step."""
    places = [[native] for native in messages]
    for kind, place, pick, leaf in edits:
        index = place % len(places)
        if kind == "drop":
            places[index] = []
        elif kind == "repeat":
            places[index] = [*places[index], messages[pick % len(messages)]]
        elif kind == "other":
            places[index] = [messages[pick % len(messages)]]
        else:
            places[index] = [changed(messages[index], pick, leaf)]
    return places


@pytest.mark.parametrize("format_name", FORMATS)
@settings(max_examples=40)
@given(data=st.data())
def test_remembering_finds_what_validating_anew_finds(format_name, data):
    """Request by request, with and without what it was made from, whatever a pipeline made of a history."""
    history = data.draw(histories(format_name) | broken_histories(format_name))
    broken = edited(history.messages, data.draw(EDITS))  # what was recorded
    made = edited([native for place in broken for native in place] or history.messages, data.draw(EDITS))
    given_all = [native for place in broken for native in place] or history.messages
    wire, profile = format_named(format_name), known_profile(data.draw(st.sampled_from(MODELS)))
    validator = wire.validator(profile)
    for length in range(1, len(given_all) + 1):
        before = wire.request(given_all[:length], history.system, history.tools)
        sent = [native for place in made[:length] for native in place]
        request = wire.request(sent, history.system, history.tools)
        assert wire.validate(request, profile, before) == validator(request, before)
        assert wire.validate(request, profile, None) == validator(request, None)


def session(rounds):
    """Tool rounds with reasoning, in Anthropic's format."""
    messages = [{"role": "user", "content": "Find out why the build fails."}]
    for number in range(rounds):
        thought = {"type": "thinking", "thinking": f"Thought {number}.", "signature": f"s{number}"}
        call = {"type": "tool_use", "id": f"t{number}", "name": "read", "input": {}}
        said = [{"type": "text", "text": f"line {number}"}]
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": said}
        words = {"type": "text", "text": "I read it."}
        messages += [{"role": "assistant", "content": [thought, words, call]}, {"role": "user", "content": [result]}]
    return messages


def test_every_change_in_the_middle_is_found():
    """Whatever single value of a round is another one, the findings are those of validating anew."""
    messages, wire = session(5), format_named("anthropic")
    validator, found = wire.validator(None), set()
    for place in (5, 6):
        for held, inside in enumerate(holders(messages[place])):
            for name in [*inside, *KEYS] if isinstance(inside, dict) else range(len(inside)):
                for leaf in (*LEAVES, "t1", "s1", [{"encrypted_index": "e"}]):
                    copy = deepcopy(messages[place])
                    list(holders(copy))[held][name] = leaf
                    request = wire.request([*messages[:place], copy, *messages[place + 1 :]])
                    for before in (None, wire.request(messages)):
                        anew = wire.validate(request, None, before)
                        assert anew == validator(request, before)
                        found.update(violation.rule for violation in anew)
    assert {"anth.signature_invalid", "anth.cache_on_thinking", "anth.tool_use_dup", "anth.encrypted_modified"} <= found


def test_remembering_costs_little():
    """In a long session of tool rounds, a request that grew costs less than a tenth of validating it anew."""
    messages, wire = session(200), format_named("anthropic")
    validator = wire.validator(None)
    validator(wire.request(messages[:-2]), wire.request(messages[:-2]))
    request = wire.request(messages)
    anew = calls_made(lambda: wire.validate(request, None, request))
    assert 10 * calls_made(lambda: validator(request, request)) < anew


def calls_made(work):
    """How many functions are called in doing it."""
    count = 0

    def called(_frame, event, _function):
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
