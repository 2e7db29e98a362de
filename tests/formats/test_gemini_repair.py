"""Broken Gemini histories are made legal, and what is legal stays as it is."""

import pytest

from agentctx import FitContextWindow, Pipeline, TruncateToolOutputs, validate
from agentctx.formats.gemini import Gemini

wire = Gemini()

ASK = {"role": "user", "parts": [{"text": "how is the weather?"}]}
SAY = {"role": "model", "parts": [{"text": "let me see"}]}


def asked(*names, ids=()):
    """A content with calls; ids are optional."""
    given = [*ids, *[None] * len(names)]
    calls = [
        {"name": name, "args": {}} | ({"id": each} if each else {}) for name, each in zip(names, given, strict=False)
    ]
    return {"role": "model", "parts": [{"functionCall": each} for each in calls]}


def told(*said, ids=()):
    """A content with responses; each says ``<function>: <text>``."""
    given = [*ids, *[None] * len(said)]
    found = [
        {"name": each.partition(":")[0], "response": {"output": each}} | ({"id": call_id} if call_id else {})
        for each, call_id in zip(said, given, strict=False)
    ]
    return {"role": "user", "parts": [{"functionResponse": each} for each in found]}


async def repaired(*contents):
    """What is sent instead of these contents."""
    view = await Pipeline().prepare(list(contents), format="gemini")
    errors = [each for each in validate({"contents": view.messages}, format="gemini") if each.severity == "error"]
    assert errors == []
    return view


def said(view):
    """What the responses of a view say, by name."""
    parts = [
        part["functionResponse"]
        for content in view.messages
        for part in content["parts"]
        if "text" not in part and "functionResponse" in part
    ]
    return [(part["name"], *part["response"].values()) for part in parts]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "contents",
    [
        (ASK, asked("f"), told("f:1")),
        (ASK, asked("f", "f", ids="12"), told("f:1", "f:2", ids="21")),
        (ASK, asked("f", "g", ids="12"), told("g:1", "f:2")),
        (ASK, asked("f"), told("other:1")),
        (ASK, SAY),
        (SAY, ASK),
        (ASK, ASK),
    ],
)
async def test_legal_contents_go_back_as_they_came(contents):
    """What the provider takes is sent as the caller's own objects, and no repair is reported."""
    view = await repaired(*contents)
    assert all(new is old for new, old in zip(view.messages, contents, strict=True))
    assert not view.report.acted


@pytest.mark.anyio
async def test_responses_in_two_contents_are_joined():
    """Responses of one turn are put into one content, in the order of their calls."""
    view = await repaired(ASK, asked("f", "g", "f"), told("g:1"), told("f:2", "f:3"))
    assert len(view.messages) == 3
    assert said(view) == [("f", "f:2"), ("g", "g:1"), ("f", "f:3")]


@pytest.mark.anyio
async def test_a_lost_response_is_made_up_beside_the_others():
    """A call without a response gets one, in the content of the other responses, under its own id."""
    view = await repaired(ASK, asked("f", "g", ids="12"), told("g:1", ids="2"), ASK)
    assert [part["functionResponse"]["id"] for part in view.messages[2]["parts"]] == ["1", "2"]
    assert [list(part["functionResponse"]["response"]) for part in view.messages[2]["parts"]] == [["error"], ["output"]]


@pytest.mark.anyio
async def test_a_response_behind_an_interruption_moves_to_its_call():
    """What the user says between call and response comes after them."""
    view = await repaired(ASK, asked("f"), ASK, told("f:1"))
    assert view.messages[2] == told("f:1")
    assert view.messages[3] is ASK


@pytest.mark.anyio
async def test_the_model_speaks_and_then_calls_in_one_content():
    """A call behind the model's own words joins them: words before a call are legal in one content only."""
    view = await repaired(ASK, SAY, asked("f"), told("f:1"))
    assert view.messages[1] == {"role": "model", "parts": [*SAY["parts"], *asked("f")["parts"]]}


@pytest.mark.anyio
async def test_a_history_that_starts_on_a_call_gets_a_word_before_it():
    """A call is never first: a word of the user is put before it, and reported."""
    view = await repaired(asked("f"), told("f:1"), ASK)
    assert [content["role"] for content in view.messages] == ["user", "model", "user", "user"]
    assert [change.outcome for change in view.report.changes] == ["added"]


@pytest.mark.anyio
async def test_a_call_after_the_models_last_words_in_a_session():
    """In a session what was sent stays; a call behind the model's words gets a word of the user before it."""
    session = Pipeline().session(format="gemini")
    first = await session.prepare([ASK, SAY])
    then = await session.prepare([ASK, SAY, asked("f"), told("f:1")])
    assert then.messages[:2] == first.messages
    assert [content["role"] for content in then.messages] == ["user", "model", "user", "model", "user"]
    again = await session.prepare([ASK, SAY, asked("f"), told("f:1"), SAY])
    assert again.messages[:5] == then.messages


@pytest.mark.anyio
async def test_a_response_that_comes_a_step_later_finds_its_call():
    """A response without an id, passed in the step after its call with one, answers it."""
    session = Pipeline().session(format="gemini")
    call, result = asked("f", ids="7"), told("f:1")
    await session.prepare([ASK, call])
    view = await session.prepare([ASK, call, result])
    assert view.messages[2] is result


@pytest.mark.anyio
@pytest.mark.parametrize("steps", [False, True])
@pytest.mark.parametrize("between", [(), (ASK,)])
@pytest.mark.parametrize("later", [("f",), ("g", "f"), ("f", "g", "f")])
@pytest.mark.parametrize("lost", [("f",), ("f", "f"), ("g", "f")])
async def test_responses_answer_the_calls_of_the_turn_that_they_follow(lost, later, between, steps):
    """Where an earlier call was never answered, a later call of that tool keeps its own response."""
    contents = [ASK, asked(*lost), asked(*later), *between, told(*(f"{name}:mine" for name in later))]
    session = Pipeline().session(format="gemini")
    for count in range(1, len(contents)) if steps else ():
        await session.prepare(contents[:count])
    view = await session.prepare(contents) if steps else await repaired(*contents)
    assert [text.endswith("mine") for _, text in said(view)] == [False] * len(lost) + [True] * len(later)


@pytest.mark.anyio
async def test_a_turn_in_two_contents_is_answered_in_order():
    """Calls of one turn that stand in two contents get their responses in order, when all are there."""
    view = await repaired(ASK, asked("f"), asked("f"), told("f:1"), told("f:2"))
    assert said(view) == [("f", "f:1"), ("f", "f:2")]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("parts", "kept"),
    [
        ([{"text": "x"}, {"text": ""}], [{"text": "x"}]),
        ([{"text": "cut \ud83d"}], [{"text": "cut \ufffd"}]),
        ([{"text": "x"}, {}], [{"text": "x"}]),
        (
            [{"text": ""}, {"inlineData": {"mimeType": "image/png", "data": "AA"}}],
            [{"inlineData": {"mimeType": "image/png", "data": "AA"}}],
        ),
    ],
)
async def test_parts_that_cannot_be_sent(parts, kept):
    """Empty texts, parts without data and halves of characters are mended; the rest of the content stays."""
    view = await repaired(ASK, {"role": "user", "parts": parts})
    assert view.messages[1]["parts"] == kept


@pytest.mark.anyio
async def test_a_content_without_parts_is_dropped():
    """A content that says nothing is left out."""
    view = await repaired(ASK, {"role": "model", "parts": []}, ASK)
    assert view.messages == [ASK, ASK]


@pytest.mark.anyio
async def test_an_empty_text_that_is_signed_stays():
    """A signature may come on a text with nothing in it; it is left where it is."""
    signed = {"role": "model", "parts": [{"text": "done"}, {"text": "", "thoughtSignature": "UzE="}]}
    view = await repaired(ASK, signed, ASK)
    assert view.messages[1] is signed


@pytest.mark.anyio
async def test_numbers_that_json_has_not():
    """NaN becomes null in arguments and in responses, and stays in a text that only speaks of it."""
    call = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"x": float("nan")}}}]}
    answer = {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"a": float("inf"), "b": 1}}}]}
    view = await repaired(ASK, call, answer, asked("g"), told("g: NaN"))
    assert view.messages[1]["parts"][0]["functionCall"]["args"] == {"x": None}
    assert view.messages[2]["parts"][0]["functionResponse"]["response"] == {"a": None, "b": 1}
    assert view.messages[4] == told("g: NaN")


@pytest.mark.anyio
async def test_arguments_become_an_object():
    """Arguments that are no object are wrapped in one."""
    view = await repaired(ASK, {"role": "model", "parts": [{"functionCall": {"name": "f", "args": [1]}}]}, told("f:1"))
    assert view.messages[1]["parts"][0]["functionCall"]["args"] == {"input": [1]}


@pytest.mark.anyio
async def test_signatures_survive_a_full_window():
    """Rounds are dropped whole and outputs cut; every signature that is sent stands on the part that it came on."""
    contents = [ASK]
    for number in range(12):
        (part,) = asked("f")["parts"]
        contents += [
            {"role": "model", "parts": [{**part, "thoughtSignature": f"Uz{number}="}]},
            told("f:" + "x " * 300),
        ]
    pipeline = Pipeline(TruncateToolOutputs(max_tokens=100), FitContextWindow(600))
    view = await pipeline.prepare(contents, format="gemini", model="gemini-3.5-flash")
    request, before = ({"model": "gemini-3.5-flash", "contents": each} for each in (view.messages, contents))
    assert len(view.messages) < len(contents)
    assert [each for each in validate(request, format="gemini", before=before) if each.severity == "error"] == []


@pytest.mark.anyio
async def test_a_content_that_is_parted_is_not_said_to_be_joined():
    """What is taken out of a content leaves one content; what comes together says which rule it follows."""
    response = told("f:1")["parts"]
    mixed = {"role": "model", "parts": [*SAY["parts"], *response, *asked("f")["parts"]]}
    parted = (await repaired(ASK, mixed)).report
    assert [change.index for change in parted.in_force] == [1, 2]
    assert "joined" not in " ".join(change.reason for change in parted.in_force)
    together = (await repaired(ASK, asked("f", "g"), told("f:1"), told("g:1"))).report
    assert {change.reason for change in together.in_force} == {
        "the responses to the calls of one turn stand in one content"
    }
