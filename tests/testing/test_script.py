"""A model whose answers are scripted."""

import re

import pytest

from agentctx import ConfigError
from agentctx.testing import ScriptedModel, ServerFault, assistant, call, result, transcript, user
from agentctx.testing.servers import Desk


@pytest.mark.both_loops
@pytest.mark.anyio
@pytest.mark.parametrize("format_name", ["openai-chat", "openai-responses", "anthropic", "gemini", "bedrock"])
async def test_answers_come_in_order_and_in_the_shape_of_the_format(format_name):
    """Each call gives the messages to go on with, and what was asked is kept as it was then."""
    model = ScriptedModel([assistant("Let me look.", call("c1", "read", {"path": "a"})), "Empty."], format_name)
    messages = transcript(format_name, user("What is in a?"))
    first = list(messages)
    messages += await model(messages, tools=[])
    assert messages == transcript(format_name, user("What is in a?"), model.answers[0])
    messages += transcript(format_name, model.answers[0], result("c1", ""))[len(messages) - 1 :]
    messages += await model(messages)
    assert messages[-1:] == transcript(format_name, assistant("Empty."))
    assert [len(request) for request in model.requests] == [2, 1]
    assert next(iter(model.requests[0].values())) == first
    model.assert_complete()


@pytest.mark.anyio
async def test_what_goes_wrong_is_raised_once():
    """An exception in the list is raised at its turn; a fault of a server is refused."""
    model = ScriptedModel([TimeoutError("late"), "Done.", ServerFault.hang()])
    with pytest.raises(TimeoutError, match="late"):
        await model([])
    assert await model([]) == [{"role": "assistant", "content": "Done."}]
    with pytest.raises(ConfigError, match="hang is what a server does"):
        await model([])


@pytest.mark.anyio
async def test_a_script_is_held_to():
    """What is left over and what is asked beyond the end are told, with the numbers."""
    model = ScriptedModel(["One.", "Two."])
    await model([])
    with pytest.raises(AssertionError, match=r"1 of 2 answers were not asked for, from this one on: 'Two.'"):
        model.assert_complete()
    await model([])
    with pytest.raises(AssertionError, match="has 2 answers, and the model was asked once more"):
        await model([])
    with pytest.raises(AssertionError, match="has 2 answers, and the model was asked 3 times"):
        model.assert_complete()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (
            lambda: ScriptedModel(None),
            "ScriptedModel.answers[0] must be a text, assistant(...), an exception or a fault, got None",
        ),
        (
            lambda: ScriptedModel(3),
            "ScriptedModel.answers[0] must be a text, assistant(...), an exception or a fault, got 3",
        ),
        (lambda: ServerFault.server_error(200), "ServerFault.status must be a whole number of at least 400, got 200"),
        (
            lambda: ServerFault.rate_limit(-1),
            "ServerFault.retry_after must be a number of at least 0, or None, got -1",
        ),
        (lambda: ServerFault.cut_stream(after=-1), "ServerFault.after must be a whole number of at least 0, got -1"),
        (lambda: ServerFault.silent_truncation(0), "ServerFault.tokens must be a whole number of at least 1, got 0"),
        (lambda: ServerFault("sulk"), "ServerFault.kind must be 'status', "),
        (lambda: Desk(window=-1), "Desk.window must be a whole number of at least 1, got -1"),
        (lambda: Desk(window="16k"), "Desk.window must be a whole number of at least 1, got '16k'"),
        (
            lambda: Desk(answer="Yes."),
            "Desk.answer must be a function of a request's body that gives a Said, got 'Yes.'",
        ),
        (lambda: Desk(refuses="never"), "Desk.refuses must be 'status', "),
        (lambda: Desk(overflows=-1), "Desk.overflows must be a whole number of at least 0, got -1"),
        (lambda: Desk(pause=-0.1), "Desk.pause must be a number of at least 0, got -0.1"),
    ],
)
def test_what_no_server_does_is_refused(make, why):
    """Where it is written down, and not when the server is asked."""
    with pytest.raises(ConfigError, match=re.escape(why)):
        make()
