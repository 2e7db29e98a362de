"""A validator that remembers a conversation finds what validating each request anew finds."""

import sys
from copy import deepcopy

import pytest
from histories import FORMATS, broken_histories, histories
from hypothesis import given, settings, strategies as st

from agentctx.engine.reading import known_profile
from agentctx.formats.registry import format_named
from agentctx.rules import find_violations, validator as rules_validator
from agentctx.testing import assistant, call, result, transcript, user

MODELS = (None, "claude-sonnet-4-5", "claude-opus-5-5", "gpt-5.4", "gemini-3-pro-preview", "deepseek-chat")
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
    model = data.draw(st.sampled_from(MODELS))
    wire, profile = format_named(format_name, model), known_profile(model)
    validator = rules_validator(wire, profile)
    for length in range(1, len(given_all) + 1):
        before = wire.keys.request(given_all[:length], history.system, history.tools)
        sent = [native for place in made[:length] for native in place]
        request = wire.keys.request(sent, history.system, history.tools)
        assert find_violations(wire, request, profile, before) == validator(request, before)
        assert find_violations(wire, request, profile, None) == validator(request)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["grow", "grow", "grow", "back", "cut", "insert", "edit", "edit both", "rebuild"]),
        st.integers(0, 60),
        st.integers(0, 60),
        st.integers(0, 99),
        st.sampled_from(LEAVES),
    ),
    min_size=4,
    max_size=12,
)


class Loop:
    """A conversation and the request made from it, and what may happen to both from one call to the next."""

    def __init__(self, messages):
        self.messages, self.length = messages, 1
        self.given, self.sent = list(messages[:1]), list(messages[:1])

    def take(self, kind, place, other, pick, leaf):
        """One step; messages are edited in place, as no loop should."""
        if kind == "grow":
            new = self.messages[self.length : self.length + 1 + place % 6]
            self.length += len(new)
            self.given, self.sent = [*self.given, *new], [*self.sent, *new]
        elif kind == "back":
            self.length = 1 + place % self.length
            self.given, self.sent = self.messages[: self.length], self.messages[: self.length]
        elif kind == "cut":
            first, last = sorted((place % (len(self.sent) + 1), other % (len(self.sent) + 1)))
            self.sent = [*self.sent[:first], *self.sent[last:]]
        elif kind == "insert":
            at = place % (len(self.sent) + 1)
            self.sent = [
                *self.sent[:at],
                changed(self.messages[other % len(self.messages)], pick, leaf),
                *self.sent[at:],
            ]
        elif kind == "rebuild":
            self.sent = deepcopy(self.sent)
        elif self.sent:
            at = place % len(self.sent)
            if kind == "edit":
                self.sent[at] = deepcopy(self.sent[at])
            inside = list(holders(self.sent[at])) or [{}]
            if isinstance(held := inside[pick % len(inside)], dict):
                names = (*held, KEYS[pick % len(KEYS)])
                held[names[pick % len(names)]] = deepcopy(leaf)
            elif held:
                held[pick % len(held)] = deepcopy(leaf)


@pytest.mark.parametrize("format_name", FORMATS)
@settings(max_examples=30)
@given(data=st.data())
def test_what_is_remembered_is_never_out_of_date(format_name, data):
    """The same whatever happens from one request to the next: cuts, insertions, going back, edits in place."""
    history = data.draw(histories(format_name) | broken_histories(format_name))
    loop = Loop(deepcopy(list(history.messages)))
    model = data.draw(st.sampled_from(MODELS))
    wire, profile = format_named(format_name, model), known_profile(model)
    validator = rules_validator(wire, profile)
    for step in [("grow", 5, 0, 0, None), *data.draw(STEPS)]:
        loop.take(*step)
        request = wire.keys.request(loop.sent, history.system, history.tools)
        before = wire.keys.request(loop.given, history.system, history.tools)
        assert find_violations(wire, request, profile, before) == validator(request, before)
        assert find_violations(wire, request, profile, None) == validator(request)


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
    validator, found = rules_validator(wire, None), set()
    for place in (5, 6):
        for held, inside in enumerate(holders(messages[place])):
            for name in [*inside, *KEYS] if isinstance(inside, dict) else range(len(inside)):
                for leaf in (*LEAVES, "t1", "s1", [{"encrypted_index": "e"}]):
                    copy = deepcopy(messages[place])
                    list(holders(copy))[held][name] = leaf
                    request = wire.keys.request([*messages[:place], copy, *messages[place + 1 :]])
                    for before in (None, wire.keys.request(messages)):
                        anew = find_violations(wire, request, None, before)
                        assert anew == validator(request, before)
                        found.update(violation.rule for violation in anew)
    assert {"anth.signature_invalid", "anth.cache_on_thinking", "anth.tool_use_dup", "anth.encrypted_modified"} <= found


def rounds(format_name):
    """Tool rounds in a format; Anthropic's with reasoning."""
    if format_name == "anthropic":
        return session(200)
    turns = [user("Find out why the build fails.")]
    for number in range(200):
        turns += [assistant("I read.", call(f"c{number}", "read", {"n": number})), result(f"c{number}", "a line")]
    return transcript(format_name, *turns)


@pytest.mark.parametrize("format_name", FORMATS)
def test_remembering_costs_little(format_name):
    """In a long session of tool rounds, a request that grew costs less than a tenth of validating it anew."""
    messages, wire = rounds(format_name), format_named(format_name)
    validator = rules_validator(wire, None)
    validator(wire.keys.request(messages[:-3]), wire.keys.request(messages[:-3]))
    request = wire.keys.request(messages)
    anew = calls_made(lambda: find_violations(wire, request, None, request))
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


def thinking(words, name):
    """A message of Converse with reasoning under a signature, a call, and its result."""
    thought = {"reasoningContent": {"reasoningText": {"text": words, "signature": "s"}}}
    called = {"toolUse": {"toolUseId": name, "name": "read", "input": {}}}
    given = {"toolResult": {"toolUseId": name, "content": [{"text": "a line"}]}}
    return [{"role": "assistant", "content": [thought, called]}, {"role": "user", "content": [given]}]


def led(reasoning, item, name):
    """Items of Responses: reasoning, the call that it led to, and its output."""
    called = {"type": "function_call", "id": item, "call_id": name, "name": "read", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": name, "output": "a line"}
    return [{"type": "reasoning", "id": reasoning, "summary": []}, called, output]


SPOKEN = {"type": "message", "role": "assistant", "id": "m", "content": [{"type": "output_text", "text": "I see."}]}


@pytest.mark.parametrize(
    ("format_name", "model", "kept", "last"),
    [
        pytest.param("bedrock", "anthropic.claude-sonnet-4-5", thinking("one", "c1"), thinking("two", "c2"), id="seal"),
        pytest.param("openai-responses", None, led("r1", "i", "c1"), led("r2", "i", "c2"), id="item"),
        pytest.param("openai-responses", None, led("r", "i", "c1"), [led("r", "", "")[0], SPOKEN], id="reasoning"),
    ],
)
def test_what_bears_the_name_of_something_else_is_found(format_name, model, kept, last):
    """Of two that bear one name in the request that was given, the provider knows the last: the other may not stay."""
    (task, then), profile = transcript(format_name, user("Go."), user("Go on.")), known_profile(model)
    after = transcript(format_name, assistant("I go on."))
    wire = format_named(format_name, model)
    validator = rules_validator(wire, profile)
    for sent in ([task, *kept, *after, then], [task, *kept, *after, *last, *after, then]):
        request = wire.keys.request(sent)
        for given_all in ([task, *kept, *after], [task, *kept, *after, *last, *after, then]):
            before = wire.keys.request(given_all)
            assert find_violations(wire, request, profile, before) == validator(request, before)
        assert [found.rule for found in validator(request, before) if found.severity == "error"]
