"""What the google-genai SDK takes as ``contents`` is what we take: its objects, and parts that stand by themselves."""

import pytest
from google.genai import _transformers, types

from agentctx import (
    Budget,
    FitContextWindow,
    InvalidInput,
    Pipeline,
    Session,
    TruncateToolOutputs,
    count,
    validate,
)
from agentctx.formats.native import fields, mapping_or_none
from agentctx.formats.registry import format_named

WIRE = format_named("gemini")
CALL = types.Part.from_function_call(name="f", args={"x": 1})
ANSWER = types.Part.from_function_response(name="f", response={"output": "42"})
FILE = types.File(uri="https://example.org/a.pdf", mime_type="application/pdf", name="files/a")
SPOKEN = [
    types.UserContent("What is it?"),
    types.ModelContent([CALL]),
    types.UserContent([ANSWER]),
    types.ModelContent("It is 42."),
    types.UserContent("And now?"),
]
QUESTIONS = {
    "text": "What is it?",
    "part": types.Part.from_text(text="What is it?"),
    "dict": {"text": "What is it?"},
    "file": FILE,
    "file dict": {"file_uri": "https://example.org/a.pdf", "mime_type": "application/pdf"},
    "list": ["What", types.Part.from_text(text="is it?"), FILE],
    "content": types.UserContent("What is it?"),
}
CALLS = {
    "part": CALL,
    "dict": {"function_call": {"name": "f", "args": {"x": 1}}},
    "content": types.ModelContent([CALL]),
}
ANSWERS = {
    "part": ANSWER,
    "list": [ANSWER],
    "content": types.UserContent([ANSWER]),
    "content of a tool": types.Content(role="tool", parts=[ANSWER]),
    "content of a function": types.Content(role="function", parts=[ANSWER]),
    "dict of a tool": {"role": "tool", "parts": [{"function_response": {"name": "f", "response": {"output": "42"}}}]},
}
ROUNDS = [
    *(pytest.param([ask, CALL, ANSWER, "Thanks."], id=f"asked in a {name}") for name, ask in QUESTIONS.items()),
    *(pytest.param(["Go.", call, ANSWER, "Thanks."], id=f"called in a {name}") for name, call in CALLS.items()),
    *(pytest.param(["Go.", CALL, answer, "Thanks."], id=f"answered in a {name}") for name, answer in ANSWERS.items()),
]


def sent(contents):
    """What the SDK makes of its contents: each content's role and the kinds of its parts."""
    made = _transformers.t_contents(list(contents))
    return [(each.role, [next(iter(part.model_dump(exclude_none=True))) for part in each.parts]) for each in made]


def errors(contents):
    """What the provider would refuse."""
    found = validate({"contents": contents, "model": "gemini-2.5-pro"}, format="gemini")
    return [str(violation) for violation in found if violation.severity == "error"]


def pipeline(window=100_000):
    """A pipeline that drops what does not fit."""
    return Pipeline(FitContextWindow(), budget=Budget(window))


@pytest.mark.parametrize("kind", [types.ModelContent, types.UserContent])
def test_a_role_that_a_class_fixes_counts(kind):
    """A content of the model's is the model's, though nobody has set its role; written down, too."""
    content = kind("Hello.")
    role = {"model": "assistant", "user": "user"}[content.role]
    assert WIRE.read_message(content, 0).role == role
    assert fields(content)["role"] == mapping_or_none(content)["role"] == content.role
    assert WIRE.read_message(mapping_or_none(content), 0) == WIRE.read_message(content, 0)


@pytest.mark.anyio
@pytest.mark.parametrize("named", ["gemini", None])
async def test_contents_of_the_sdk_are_a_conversation(preparing, named):
    """A history of the SDK's own objects is legal, and nothing in it changes."""
    assert not errors(SPOKEN)
    view = await preparing(pipeline(), named, "gemini-2.5-pro")(SPOKEN)
    assert [new is old for new, old in zip(view.messages, SPOKEN, strict=True)] == [True] * 5
    assert not view.report.changes


@pytest.mark.anyio
async def test_a_state_knows_who_spoke():
    """After a load the model's words are still the model's."""
    session = pipeline().session(model="gemini-2.5-pro", format="gemini")
    await session.prepare(SPOKEN)
    again = Session.load(pipeline(), session.dump())
    view = await again.prepare([*SPOKEN, types.ModelContent("Later."), types.UserContent("When?")])
    assert not errors(view.messages)
    assert [WIRE.read_message(each, 0).role for each in view.messages][3:] == ["assistant", "user", "assistant", "user"]


@pytest.mark.anyio
@pytest.mark.parametrize("contents", ROUNDS)
async def test_what_the_sdk_takes_is_taken(preparing, contents):
    """Texts, parts, files and lists of them in the place of contents go back as they came."""
    assert not errors(contents)
    view = await preparing(pipeline(), "gemini", "gemini-2.5-pro")(contents)
    assert [new is old for new, old in zip(view.messages, contents, strict=True)] == [True] * 4
    assert sent(view.messages) == sent(contents)
    assert count(contents, format="gemini") >= count(SPOKEN[1:3], format="gemini")


@pytest.mark.anyio
async def test_answers_side_by_side_are_one_content(preparing):
    """Responses that stand there by themselves stay: the SDK makes one content of them."""
    contents = ["Go.", types.ModelContent([CALL, CALL]), ANSWER, ANSWER]
    assert not errors(contents)
    view = await preparing(pipeline(), "gemini")(contents)
    assert [new is old for new, old in zip(view.messages, contents, strict=True)] == [True] * 4


@pytest.mark.anyio
async def test_answers_by_themselves_and_in_a_content_are_joined(preparing):
    """Responses that the SDK would tear apart come into one content."""
    contents = ["Go.", types.ModelContent([CALL] * 3), ANSWER, ANSWER, types.UserContent([ANSWER]), "So?"]
    assert errors(contents)
    view = await preparing(pipeline(), "gemini")(contents)
    assert not errors(view.messages)
    assert sent(view.messages)[2] == ("user", ["function_response"] * 3)


@pytest.mark.anyio
async def test_calls_side_by_side_keep_their_answers(preparing):
    """Calls that stand there by themselves are paired with what answers them."""
    contents = ["Go.", CALL, CALL, ANSWER, ANSWER, "So?"]
    view = await preparing(pipeline(), "gemini")(contents)
    assert not errors(view.messages)
    assert sum(kinds.count("function_response") for _, kinds in sent(view.messages)) == 2


@pytest.mark.anyio
async def test_a_part_that_was_cut_becomes_a_content(preparing):
    """A part that was edited is written as a content, which the SDK takes."""
    long = types.Part.from_function_response(name="f", response={"output": "word " * 3_000})
    cut = Pipeline(TruncateToolOutputs(max_tokens=100), budget=Budget(100_000))
    view = await preparing(cut, "gemini")(["Go.", CALL, long, "So?"])
    assert len(str(view.messages[2])) < 6_000
    assert not errors(view.messages)
    assert sent(view.messages)[1:3] == [("model", ["function_call"]), ("user", ["function_response"])]


def test_the_whole_of_contents_may_be_one():
    """A request may hold one text, part or content alone."""
    for contents in ("Go.", types.UserContent("Go."), types.Part.from_text(text="Go.")):
        assert not errors(contents)


@pytest.mark.anyio
@pytest.mark.parametrize("messages", ["Go.", types.UserContent("Go."), None, [object()], [types.Schema(type="STRING")]])
async def test_what_cannot_be_read_is_refused(messages):
    """What is no list, or holds what is no content, is refused by name."""
    with pytest.raises(InvalidInput, match="messages"):
        await pipeline().prepare(messages, format="gemini")


def test_a_picture_of_pil_is_refused_by_name():
    """The error says what to pass instead."""
    image = type("Image", (), {"__module__": "PIL.Image"})()
    for contents in ([image], [["See:", image]]):
        with pytest.raises(InvalidInput, match=r"messages\[0\].*types.Part.from_bytes"):
            count(contents, format="gemini")
