"""The rules of generateContent, on requests of our own."""

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from agentctx.formats.gemini import Gemini, snake
from agentctx.rules import find_violations

wire = Gemini()
SHARED = Path(__file__).parents[2] / "../shared"
NEW, OLD = "gemini-3.5-flash", "gemini-2.5-pro"

NOT_HERE = [pytest.param(None, marks=pytest.mark.skip(reason="what is shared does not lie beside the repository"))]
ASK = {"role": "user", "parts": [{"text": "how is the weather?"}]}
SAY = {"role": "model", "parts": [{"text": "fine"}]}
RESULT = {"functionResponse": {"name": "look", "response": {"output": "sun"}}}
ANSWER = {"role": "user", "parts": [RESULT]}


def call(signature=None, **more):
    """A content of the model with a call."""
    signed = {} if signature is None else {"thoughtSignature": signature}
    return {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}, **more}, **signed}]}


def answers(*names, ids=()):
    """A content with responses."""
    parts = [{"functionResponse": {"name": name, "response": {}}} for name in names]
    for part, each in zip(parts, ids, strict=False):
        part["functionResponse"]["id"] = each
    return {"role": "user", "parts": parts}


def calls(*names, ids=()):
    """A content with calls."""
    parts = [{"functionCall": {"name": name, "args": {}}} for name in names]
    for part, each in zip(parts, ids, strict=False):
        part["functionCall"]["id"] = each
    return {"role": "model", "parts": parts}


def judged(*contents, model=OLD, before=None, **more):
    """The errors and warnings of a request."""
    original = None if before is None else {"model": model, "contents": before}
    found = find_violations(wire, {"model": model, "contents": list(contents), **more}, None, original)
    return [(violation.rule, violation.severity) for violation in found]


GOOD = {
    "words": (ASK, SAY, ASK),
    "the model first": (SAY, ASK),
    "a round": (ASK, call(), ANSWER),
    "two rounds": (ASK, call(), ANSWER, call(), ANSWER, SAY),
    "words before a call": (ASK, {"role": "model", "parts": [{"text": "hm"}, *call()["parts"]]}, ANSWER),
    "role function": (ASK, call(), {**ANSWER, "role": "function"}),
    "no role": ({"parts": [{"text": "x"}]},),
    "parallel, in another order": (ASK, calls("f", "g"), answers("g", "f")),
    "snake case": (
        ASK,
        {"role": "model", "parts": [{"function_call": {"name": "f", "args": {}}}]},
        {"role": "user", "parts": [{"function_response": {"name": "f", "response": {}}}]},
    ),
    "ids on calls only": (ASK, calls("f", "f", ids="12"), answers("f", "f")),
    "code": (ASK, {"role": "model", "parts": [{"executableCode": {"code": "1", "language": "PYTHON"}}]}),
    "empty text that is signed": (ASK, {"role": "model", "parts": [{"text": "", "thoughtSignature": "UzE="}]}, ASK),
    "a kind of part that nobody knows": (ASK, {"role": "model", "parts": [{"newest": {}}]}),
}

BAD = {
    "an unknown role": ((ASK, {**SAY, "role": "assistant"}), "gem.role"),
    "no content": ((), "gem.contents_empty"),
    "no parts": ((ASK, {"role": "model", "parts": []}), "gem.parts_empty"),
    "no parts at all": ((ASK, {"role": "model"}), "gem.parts_empty"),
    "a part without data": ((ASK, {"role": "model", "parts": [{"thought": True}]}), "gem.part_empty"),
    "text that is none": (({"role": "user", "parts": [{"text": 1}]},), "gem.text_type"),
    "a call first": ((call(), ANSWER), "gem.call_position"),
    "a call behind the model": ((ASK, SAY, call(), ANSWER), "gem.call_position"),
    "too few responses": ((ASK, calls("f", "g"), answers("f")), "gem.count"),
    "too many responses": ((ASK, calls("f"), answers("f", "f")), "gem.count"),
    "responses in two contents": ((ASK, calls("f", "g"), answers("f"), answers("g")), "gem.count"),
    "a second answer": ((ASK, call(), ANSWER, ANSWER), "gem.count"),
    "a response first": ((ANSWER, SAY), "gem.count"),
    "a response to words": ((ASK, SAY, ANSWER), "gem.count"),
    "an open call at the end": ((ASK, call()), "gem.count"),
    "words between call and response": ((ASK, call(), ASK, ANSWER), "gem.count"),
    "another id": ((ASK, calls("f", ids="1"), answers("f", ids="2")), "gem.id_mismatch"),
    "one id twice": ((ASK, calls("f", "f", ids="12"), answers("f", "f", ids="11")), "gem.id_mismatch"),
    "arguments that are no object": ((ASK, call(args=[1]), ANSWER), "gem.args_object"),
    "a response that is no object": (
        (ASK, call(), {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": "sun"}}]}),
        "gem.response_object",
    ),
}


@pytest.mark.parametrize("contents", GOOD.values(), ids=GOOD.keys())
def test_good_requests(contents):
    """What the provider takes breaks no rule."""
    assert judged(*contents) == []


@pytest.mark.parametrize(("contents", "rule"), BAD.values(), ids=BAD.keys())
def test_bad_requests(contents, rule):
    """What the provider refuses breaks this rule and no other."""
    assert judged(*contents) == [(rule, "error")]


def declared(*names):
    """A tool that declares functions."""
    return [{"functionDeclarations": [{"name": name} for name in names]}]


def look(x):
    """A tool as the SDK takes one."""


@pytest.mark.parametrize("spelled", [lambda key: key, snake], ids=["camel", "snake"])
@pytest.mark.parametrize(
    ("tools", "config", "rule"),
    [
        (declared("look", "mcp:a.b-c"), {"mode": "ANY", "allowedFunctionNames": ["look"]}, None),
        (declared("look"), {"mode": "ANY"}, None),
        (declared("look"), {"mode": "ANY", "allowedFunctionNames": ["edit"]}, "gem.tool_choice"),
        (declared("look"), {"mode": "ANY", "allowedFunctionNames": ["look", "edit"]}, "gem.tool_choice"),
        ([look], {"mode": "ANY", "allowedFunctionNames": ["look"]}, None),
        ([], {"mode": "ANY"}, "gem.tool_choice"),
        (None, {"mode": "AUTO"}, "gem.tool_choice"),
        (None, None, None),
        (5, {"mode": "ANY"}, None),
        (declared("ex tra!"), None, "gem.tool_name"),
        (declared("look", "1st"), None, "gem.tool_name"),
        (declared("n" * 65), None, "gem.tool_name"),
        ([{"googleSearch": {}}], None, None),
    ],
)
def test_tools_and_what_is_chosen_of_them(spelled, tools, config, rule):
    """Functions have legal names; a config of their calls has some, and names those that there are."""
    asked = None if config is None else {spelled(key): said for key, said in config.items()}
    more = {"tools": tools, spelled("toolConfig"): {spelled("functionCallingConfig"): asked}}
    assert judged(ASK, **more) == ([] if rule is None else [(rule, "error")])


@pytest.mark.parametrize(
    ("contents", "rule"),
    [
        ((ASK, call(), {"role": "user", "parts": [RESULT, {"text": "and"}]}), "gem.text_beside_response"),
        (({"role": "user", "parts": [{"text": "x"}, {"text": ""}]},), "gem.text_empty"),
        ((ASK, calls("f"), answers("g")), "gem.name_mismatch"),
        (({"role": "user", "parts": [{"text": "x"}, *call()["parts"]]},), "gem.side"),
    ],
)
def test_doubtful_requests(contents, rule):
    """What the provider takes, and does not take well, is a warning."""
    assert judged(*contents) == [(rule, "warn")]


@pytest.mark.parametrize(
    ("contents", "refused"),
    [
        ((ASK, call("UzE="), ANSWER), []),
        ((ASK, call(), ANSWER), [1]),
        ((ASK, call("UzE="), ANSWER, call(), ANSWER), [3]),
        ((ASK, call(), ANSWER, SAY, ASK), []),
        ((ASK, call(), ANSWER, SAY, ASK, call("UzE="), ANSWER), []),
        ((ASK, call(), ANSWER, call("UzE="), ANSWER), [1]),
        ((ASK, call("skip_thought_signature_validator"), ANSWER), []),
        ((ASK, {"role": "model", "parts": [*call("UzE=")["parts"], *call()["parts"]]}, answers("look", "look")), []),
        ((ASK, {"role": "model", "parts": [*call()["parts"], *call("UzE=")["parts"]]}, answers("look", "look")), [1]),
    ],
)
def test_signatures_of_the_current_turn(contents, refused):
    """From Gemini 3 on, the first call of each step since the user last spoke is signed; before, none needs to be."""
    found = find_violations(wire, {"model": NEW, "contents": contents})
    assert [violation.index for violation in found] == refused
    assert {violation.rule for violation in found} <= {"gem.sig_missing"}
    assert judged(*contents, model=OLD) == []


def test_the_words_of_a_missing_signature():
    """The provider's words name the function and the position."""
    (found,) = find_violations(wire, {"model": NEW, "contents": [ASK, call(), ANSWER]})
    assert "function call `default_api:look` , position 2." in found.message
    assert found.path == "contents[1].parts[0]"


@pytest.mark.parametrize(
    ("after", "rules"),
    [
        ((ASK, call("UzE="), ANSWER), []),
        ((ASK, call(), ANSWER), []),
        ((ASK, call("UzI="), ANSWER), ["gem.sig_modified"]),
        ((ASK, call("UzE=", args={"x": 1}), ANSWER), ["gem.sig_modified"]),
        ((ASK, call("skip_thought_signature_validator"), ANSWER), []),
        ((ASK, {"role": "model", "parts": [{"text": "x", "thoughtSignature": "UzE="}]}), ["gem.sig_modified"]),
        ((ASK,), []),
    ],
)
def test_signatures_against_the_original(after, rules):
    """A signature stays on its part, byte for byte, or goes."""
    found = judged(*after, before=[ASK, call("UzE="), ANSWER])
    assert [rule for rule, _ in found] == rules


def test_an_explicit_cache_wants_the_user_last():
    """With cached contents the request may not end on the model."""
    assert judged(ASK, SAY, cachedContent="cachedContents/1") == [("gem.cached_end", "error")]
    assert judged(ASK, SAY, config={"cached_content": "cachedContents/1"}) == [("gem.cached_end", "error")]
    assert judged(ASK, cachedContent="cachedContents/1") == []


def test_the_first_models_want_turns():
    """Gemini 1.0 refuses two contents of one side."""
    assert judged(ASK, ASK, model="gemini-1.0-pro") == [("gem.alternate", "error")]


def test_the_contents_may_stand_under_messages():
    """The pipeline names the list ``messages``; a string is the user's words."""
    assert find_violations(wire, {"messages": [ASK]}) == ()
    assert find_violations(wire, {"contents": "hi"}) == ()
    assert [each.rule for each in find_violations(wire, {"messages": [call()]})] == [
        "gem.call_position",
        "gem.count",
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 1) | st.text(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                (
                    *("role", "parts", "text", "functionCall", "function_response", "name", "args", "response", "id"),
                    *("thought", "thoughtSignature", "inlineData", "data", "executableCode", "config"),
                )
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
CONTENT = st.fixed_dictionaries({"role": st.sampled_from(("user", "model", "function", 1, None)), "parts": JSON})


@given(st.lists(CONTENT | JSON, max_size=4), st.none() | st.lists(CONTENT | JSON, max_size=3))
def test_nothing_makes_the_validator_fail(contents, before):
    """Whatever stands in a request, it is judged."""
    request = {"model": NEW, "contents": contents}
    assert isinstance(find_violations(wire, request, None, None if before is None else {"contents": before}), tuple)
    assert isinstance(wire.recognises(request), int)


@given(JSON)
def test_no_request_makes_the_validator_fail(value):
    """Whatever the contents are, they are judged."""
    assert isinstance(find_violations(wire, {"contents": value}, None, {"messages": value}), tuple)


def vectors():
    """The shared vectors of this format, where there are any."""
    for path in SHARED.glob("vectors/wire_vectors.jsonl"):
        for line in path.read_text().splitlines():
            if (vector := json.loads(line))["id"].startswith("G-"):
                yield pytest.param(vector, id=vector["id"])


@pytest.mark.parametrize("vector", [*vectors()] or NOT_HERE)
def test_a_vector_is_judged_as_labelled(vector):
    """A request is judged as it is labelled: in order, refused for this rule alone, or taken with a warning."""
    assert wire.recognises(vector["req"]) > 0
    found = find_violations(wire, vector["req"], None, vector.get("before"))
    errors = [violation.rule for violation in found if violation.severity == "error"]
    assert errors == ([vector["rule"]] if vector["expect"] == "error" else [])
    assert bool(found) == (vector["expect"] != "ok")
