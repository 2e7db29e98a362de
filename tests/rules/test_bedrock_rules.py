"""The rules of Converse, on requests of our own."""

import base64
import json
import struct
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from agentctx.formats.bedrock import Bedrock
from agentctx.rules import find_violations

wire = Bedrock()
SHARED = Path(__file__).parents[2] / "../shared"
CLAUDE, NOVA, LLAMA = "us.anthropic.claude-sonnet-4-6", "amazon.nova-pro-v1:0", "meta.llama4-maverick-17b-instruct-v1:0"
CONFIG = {"tools": [{"toolSpec": {"name": "look", "inputSchema": {"json": {"type": "object"}}}}]}

NOT_HERE = [pytest.param(None, marks=pytest.mark.skip(reason="what is shared does not lie beside the repository"))]


def user(*blocks):
    """A message of the user."""
    return {"role": "user", "content": list(blocks)}


def model(*blocks):
    """A message of the assistant."""
    return {"role": "assistant", "content": list(blocks)}


def text(words="hi"):
    """A text block."""
    return {"text": words}


def call(call_id="t1", **more):
    """A call."""
    return {"toolUse": {"toolUseId": call_id, "name": "look", "input": {}, **more}}


def result(call_id="t1", **more):
    """A result."""
    return {"toolResult": {"toolUseId": call_id, "content": [text("sun")], **more}}


def thought(words="hm", signature="S1"):
    """Signed reasoning."""
    return {"reasoningContent": {"reasoningText": {"text": words, "signature": signature}}}


def image(data="AA==", **more):
    """An image."""
    return {"image": {"format": "png", "source": {"bytes": data}, **more}}


def document():
    """A document."""
    return {"document": {"format": "pdf", "name": "d", "source": {"bytes": b"\xff"}}}


POINT = {"cachePoint": {"type": "default"}}


def judged(*messages, model_id=CLAUDE, before=None, **more):
    """The errors and warnings of a request."""
    request = {"modelId": model_id, "messages": list(messages), "toolConfig": CONFIG, **more}
    original = None if before is None else {**request, "messages": list(before)}
    found = find_violations(wire, request, None, original)
    return [(violation.rule, violation.severity) for violation in found]


GOOD = {
    "words": (user(text()), model(text()), user(text())),
    "a round": (user(text()), model(call()), user(result())),
    "results in another order": (user(text()), model(call("a"), call("b")), user(result("b"), result("a"))),
    "words after results": (user(text()), model(call()), user(result(), text())),
    "Claude first": (model(text()), user(text())),
    "ids with dots and colons": (user(text()), model(call("a.b:c")), user(result("a.b:c"))),
    "an error as JSON": (user(text()), model(call()), user(result(status="error", content=[{"json": {"e": 1}}]))),
    "hidden reasoning": (user(text()), model({"reasoningContent": {"redactedContent": b"\xff"}}, text()), user(text())),
    "cache points": (user(text(), POINT), model(text()), user(text(), POINT)),
    "a document and a word": (user(text(), document()),),
    "a server's tool": (
        user(text()),
        model(call("s", type="server_tool_use"), result("s", type="look_tool_result"), text()),
    ),
}

BAD = {
    "no message": ((), "br.messages_empty"),
    "an unknown role": ((user(text()), {"role": "tool", "content": [text()]}), "br.role"),
    "a system message with words": ((user(text()), {"role": "system", "content": [text()]}), "br.system_content"),
    "no content": ((user(text()), model(), user(text())), "br.content_empty"),
    "content that is no list": ((user(text()), {"role": "assistant", "content": "hi"}), "br.content_type"),
    "blank text": ((user(text(" \n")),), "br.text_blank"),
    "text that is none": ((user({"text": 1}),), "br.text_type"),
    "a block without a member": ((user(text(), {}),), "br.block_member"),
    "a block with two members": ((user({"text": "x", **POINT}),), "br.block_member"),
    "no answer": ((user(text()), model(call()), user(text())), "br.tool_use_unanswered"),
    "an open call at the end": ((user(text()), model(call())), "br.tool_use_unanswered"),
    "another's answer": ((user(text()), model(call("a")), user(result("b"))), "br.tool_use_unanswered"),
    "a result first": ((user(result()),), "br.tool_result_excess"),
    "a result too many": ((user(text()), model(call()), user(result(), result())), "br.tool_result_excess"),
    "one id twice": (
        (user(text()), model(call()), user(result()), model(call()), user(result())),
        "br.tool_use_dup",
    ),
    "an id with a slash": ((user(text()), model(call("t/1")), user(result("t/1"))), "br.id_pattern"),
    "an id that is too long": ((user(text()), model(call("t" * 65)), user(result("t" * 65))), "br.id_pattern"),
    "a name with a dot": ((user(text()), model(call(name="a.b")), user(result())), "br.name_pattern"),
    "no name": ((user(text()), model(call(name=None)), user(result())), "br.name_missing"),
    "input that is no object": ((user(text()), model(call(input=[1])), user(result())), "br.input_object"),
    "content of a result that is no list": (
        (user(text()), model(call()), user(result(content="sun"))),
        "br.result_content",
    ),
    "a picture of the assistant's": ((user(text()), model(image()), user(text())), "br.media_role"),
    "a document without a word": ((user(document()),), "br.document_needs_text"),
    "too many pictures": ((user(text(), *[image()] * 21),), "br.images_max"),
    "too many documents": ((user(text(), *[document()] * 6),), "br.documents_max"),
    "a picture that is too large": ((user(text(), image("A" * 6_000_000)),), "br.image_size"),
    "too many cache points": ((user(text(), *[POINT] * 5),), "br.cache_max4"),
    "a cache point for a day": ((user(text(), {"cachePoint": {"type": "default", "ttl": "1d"}}),), "br.cache_ttl"),
}


@pytest.mark.parametrize("messages", GOOD.values(), ids=GOOD.keys())
def test_good_requests(messages):
    """What the provider takes breaks no rule."""
    assert judged(*messages) == []


@pytest.mark.parametrize(("messages", "rule"), BAD.values(), ids=BAD.keys())
def test_bad_requests(messages, rule):
    """What the provider refuses breaks this rule and no other."""
    assert judged(*messages) == [(rule, "error")]


@pytest.mark.parametrize(
    ("messages", "rule"),
    [
        ((user(text()), user(text())), "br.alternate"),
        ((user(text()), model(call()), user(result(content=[]))), "br.result_empty"),
        ((user(text()), model(call()), user(result(content=[text("")]))), "br.text_blank"),
        ((user(text()), model(call()), user(text(), result())), "br.tool_result_late"),
        ((user(text()), model({"reasoningContent": {"reasoningText": {"text": "hm"}}})), "br.reasoning_unsigned"),
    ],
)
def test_doubtful_requests(messages, rule):
    """What some models refuse is a warning."""
    assert judged(*messages) == [(rule, "warn")]


@pytest.mark.parametrize(
    ("model_id", "severity"),
    [(NOVA, "error"), (LLAMA, "error"), (CLAUDE, None), ("qwen.qwen3-32b-v1:0", None), (None, "warn")],
)
def test_who_begins(model_id, severity):
    """The user begins; Claude and Qwen take an assistant that does, and of an unknown model nobody knows."""
    found = judged(model(text()), user(text()), model_id=model_id)
    assert found == ([] if severity is None else [("br.first_user", severity)])


@pytest.mark.parametrize(
    ("model_id", "severity"),
    [(LLAMA, "error"), ("mistral.mistral-large-2402-v1:0", "error"), (CLAUDE, None), (NOVA, None), (None, "warn")],
)
def test_who_takes_words_beside_results(model_id, severity):
    """Some models refuse words in a turn of results; a cache point is none (and is refused by itself by some)."""
    found = judged(user(text()), model(call()), user(result(), text()), model_id=model_id)
    assert found == ([] if severity is None else [("br.mixed_result_turn", severity)])
    pointed = judged(user(text()), model(call()), user(result(), POINT), model_id=model_id)
    assert pointed == ([("br.cache_unsupported", "error")] if severity == "error" else [])


def test_the_tool_configuration_stays():
    """While a tool block remains there is a toolConfig; a bare list of messages is a part of a request."""
    messages = [user(text()), model(call()), user(result()), model(text()), user(text())]
    (found,) = find_violations(wire, {"modelId": CLAUDE, "messages": messages})
    assert (found.rule, found.path) == ("br.toolconfig_missing", "toolConfig")
    assert found.message == "The toolConfig field must be defined when using toolUse and toolResult content blocks."
    assert find_violations(wire, {"messages": messages}) == ()
    assert find_violations(wire, {"modelId": CLAUDE, "messages": messages, "tools": CONFIG["tools"]}) == ()


@pytest.mark.parametrize(
    ("config", "rule"),
    [
        ({"tools": []}, "br.tools_empty"),
        ({"tools": [{"toolSpec": {"name": "ex tra!", "inputSchema": {"json": {}}}}]}, "br.name_pattern"),
        ({"tools": [*CONFIG["tools"], POINT]}, None),
        ({**CONFIG, "toolChoice": {"none": {}}}, "br.tool_choice"),
        ({**CONFIG, "toolChoice": {"tool": {"name": "listen"}}}, "br.tool_choice"),
        ({**CONFIG, "toolChoice": {"tool": {"name": "look"}}}, None),
        ({**CONFIG, "toolChoice": {"auto": {}}}, None),
    ],
)
def test_the_tool_configuration(config, rule):
    """There is a tool, and the choice is one of them."""
    assert judged(user(text()), toolConfig=config) == ([] if rule is None else [(rule, "error")])


def test_cache_points_count_everywhere():
    """Cache points in the system prompt and among the tools count with those in messages."""
    tools = {"tools": [*CONFIG["tools"], POINT]}
    assert judged(user(text(), POINT, POINT), toolConfig=tools, system=[text("s"), POINT]) == []
    found = judged(user(text(), POINT, POINT, POINT), toolConfig=tools, system=[text("s"), POINT])
    assert found == [("br.cache_max4", "error")]


def test_a_picture_with_a_long_side():
    """No side of a picture has more than 8000 pixels."""
    header = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBBBBB", 13, b"IHDR", 8001, 10, 8, 2, 0, 0, 0) + b"\0" * 8
    for data in (header, base64.b64encode(header).decode()):
        assert judged(user(text(), image(data))) == [("br.image_pixels", "error")]


def test_the_words_of_the_provider():
    """Errors name the place as the provider does."""
    request = {"modelId": CLAUDE, "toolConfig": CONFIG}
    open_call = {**request, "messages": [user(text()), model(call()), user(text())]}
    assert find_violations(wire, open_call)[0].message == (
        "Expected toolResult blocks at messages.2.content for the following Ids: t1"
    )
    surplus = {**request, "messages": [user(result())]}
    assert find_violations(wire, surplus)[0].message == (
        "The number of toolResult blocks at messages.0.content exceeds the number of toolUse blocks of previous turn."
    )


ROUND = (user(text()), model(thought(), call()), user(result()))


@pytest.mark.parametrize(
    ("after", "rules"),
    [
        (ROUND, []),
        ((user(text()), model(thought("h"), call()), user(result())), ["br.reasoning_modified"]),
        ((user(text()), model(thought("hm", "S2"), call()), user(result())), ["br.reasoning_modified"]),
        ((user(text()), model(call()), user(result())), []),
    ],
)
def test_reasoning_against_the_original(after, rules):
    """Signed reasoning of the latest turn is sent as it was, or left out."""
    assert [rule for rule, _ in judged(*after, before=ROUND)] == rules


def test_reasoning_leads_an_open_round():
    """With manual thinking the open round begins with its reasoning."""
    fields = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    assert judged(*ROUND, additionalModelRequestFields=fields) == []
    bare = (user(text()), model(call()), user(result()))
    found = judged(*bare, additionalModelRequestFields=fields)
    assert found == [("br.reasoning_missing", "error")]


def test_bound_reasoning_needs_its_prefix():
    """On models that bind reasoning, an edit before it is refused; a cache point that moves is no edit."""
    bound = "anthropic.claude-opus-5-5-v1:0"
    longer = (*ROUND, model(thought("so", "S2"), text()), user(text()))
    cut = (user(text()), model(thought(), call()), user(result(content=[text("cut")])), *longer[3:])
    assert judged(*cut, model_id=bound, before=longer) == [("br.reasoning_bound", "error")]
    marked = (user(text(), POINT), *longer[1:])
    assert judged(*marked, model_id=bound, before=longer) == []
    request = {"modelId": bound, "toolConfig": CONFIG}
    gone = (user(text(), POINT), *cut[1:3], model(POINT, *longer[3]["content"]), longer[4])
    (found,) = find_violations(wire, {**request, "messages": gone}, None, {**request, "messages": longer})
    assert found.path == "messages.3.content.1"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 1) | st.text(max_size=2) | st.binary(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                (
                    *(
                        "role",
                        "content",
                        "text",
                        "toolUse",
                        "toolResult",
                        "toolUseId",
                        "name",
                        "input",
                        "json",
                        "image",
                    ),
                    *(
                        "source",
                        "bytes",
                        "reasoningContent",
                        "reasoningText",
                        "signature",
                        "cachePoint",
                        "ttl",
                        "document",
                    ),
                    *("toolConfig", "toolChoice", "tools", "toolSpec", "type"),
                )
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
MESSAGE = st.fixed_dictionaries({"role": st.sampled_from(("user", "assistant", "system", 1)), "content": JSON})


@given(st.lists(MESSAGE | JSON, max_size=4), st.none() | st.lists(MESSAGE | JSON, max_size=3), JSON, JSON)
def test_nothing_makes_the_validator_fail(messages, before, config, system):
    """Whatever stands in a request, it is judged."""
    request = {"modelId": CLAUDE, "messages": messages, "toolConfig": config, "system": system}
    assert isinstance(find_violations(wire, request, None, None if before is None else {"messages": before}), tuple)
    assert isinstance(wire.recognises(request), int)


@given(JSON)
def test_no_request_makes_the_validator_fail(value):
    """Whatever the messages are, they are judged."""
    assert isinstance(find_violations(wire, {"messages": value, "modelId": value}, None, {"messages": value}), tuple)


def vectors():
    """The shared vectors of this format, where there are any."""
    for path in SHARED.glob("vectors/wire_vectors.jsonl"):
        for line in path.read_text().splitlines():
            if (vector := json.loads(line))["id"].startswith("B-"):
                yield pytest.param(vector, id=vector["id"])


@pytest.mark.parametrize("vector", [*vectors()] or NOT_HERE)
def test_a_vector_is_judged_as_labelled(vector):
    """A request is judged as it is labelled: in order, refused for this rule alone, or taken with a warning."""
    assert wire.recognises(vector["req"]) > 0
    found = find_violations(wire, vector["req"], None, vector.get("before"))
    errors = [violation.rule for violation in found if violation.severity == "error"]
    assert errors == ([vector["rule"]] if vector["expect"] == "error" else [])
    assert bool(found) == (vector["expect"] != "ok")
