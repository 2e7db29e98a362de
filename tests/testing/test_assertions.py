"""What a test asserts of requests: it holds where it should, and the error says where it does not."""

import re

import pytest

from agentctx import Budget, ConfigError, FitContextWindow, Pipeline
from agentctx.marks import Recap
from agentctx.testing import (
    Recorder,
    assert_fits,
    assert_prefix_stable,
    assert_task_survives,
    assistant,
    call,
    history,
    result,
    system,
    transcript,
    user,
)


def test_no_requests_are_a_failure():
    """A test that looks at no request passes nothing."""
    for check in (lambda: assert_fits([], 10), lambda: assert_prefix_stable([]), lambda: assert_task_survives([], "x")):
        with pytest.raises(AssertionError, match="there are no requests to look at"):
            check()


FORMATS = ["openai-chat", "openai-responses", "anthropic", "gemini", "bedrock"]
BUDGET = 3_000


def turns(rounds):
    """A task, and rounds of a call with a long result."""
    yield user("Find out why the build fails.")
    for number in range(rounds):
        yield assistant(call(f"c{number}", "read", {"path": f"{number}.log"}))
        yield result(f"c{number}", f"line {number} of the log. " * 60)


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_what_a_session_sends_holds(format_name):
    """Views of a session that compacts fit, keep the task, and begin as the one before but where an event says so."""
    recorder = Recorder()
    pipeline = Pipeline(FitContextWindow(), budget=Budget(BUDGET), on_compact=recorder)
    session = pipeline.session(format=format_name)
    views = [await session.prepare(transcript(format_name, *turns(rounds))) for rounds in range(1, 12)]
    assert recorder.events
    assert_fits(views, BUDGET, format=format_name)
    assert_task_survives(views, format=format_name)
    assert_prefix_stable(views, moves=len(recorder.events))
    with pytest.raises(AssertionError, match=r"does not begin as request \d+: messages\[\d+\] "):
        assert_prefix_stable(views)


@pytest.mark.parametrize("format_name", FORMATS)
def test_bodies_of_requests_are_read_as_they_are_sent(format_name):
    """The keys are each provider's own; the system prompt and the tools count, and markers for the cache do not."""
    made = history(format_name, system("Be brief. " * 50), *turns(2))
    keys = {"openai-responses": ("input", "instructions"), "gemini": ("contents", "systemInstruction")}
    at, head = keys.get(format_name, ("messages", "system"))
    body = {at: made.messages, **({} if made.system is None else {head: made.system})}
    assert_fits(body, BUDGET, format=format_name)
    with pytest.raises(AssertionError, match=r"request 2 has [\d,]+ tokens, \d+ more than the limit of 300"):
        assert_fits([{at: made.messages[:2]}, body], 300)
    assert_prefix_stable([body, body])
    assert_task_survives([body], format=format_name)
    if made.system is not None:
        with pytest.raises(AssertionError, match="the system prompt was"):
            assert_prefix_stable([body, {**body, head: "Be long."}])


def test_the_share_of_the_prefix_is_told():
    """So much of what was sent must be an unchanged beginning; how much it is stands in the error."""
    long, other = "a" * 900, "b" * 900
    requests = [{"messages": transcript("openai-chat", user(text), assistant("Yes."))} for text in (long, long, other)]
    assert_prefix_stable(requests, share=0.4)
    with pytest.raises(
        AssertionError, match=r"^50\.\d% of what was sent is an unchanged beginning, not 90.0%; request 3"
    ):
        assert_prefix_stable(requests, share=0.9)
    with pytest.raises(AssertionError, match=r"messages\[1\] is not there any more"):
        assert_prefix_stable([requests[0], {"messages": requests[0]["messages"][:1]}])


def test_markers_for_the_cache_are_no_part_of_the_prefix():
    """A message is the same with a marker and without."""
    plain, marked = (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi.", **more}]}]}
        for more in ({}, {"cache_control": {"type": "ephemeral"}})
    )
    assert_prefix_stable([plain, marked])


def test_a_task_that_is_not_there_is_told():
    """Without words of the user there is no task; one that is named is looked for, in what the user says alone."""
    with pytest.raises(AssertionError, match="request 1 has no task"):
        assert_task_survives({"messages": [{"role": "user", "content": " "}]}, format="openai-chat")
    said = {"messages": transcript("openai-chat", user("Go."), assistant("Mend the build."))}
    with pytest.raises(AssertionError, match=r"request 1 is without the task, 'Mend the build.'"):
        assert_task_survives(said, "Mend the build.")


@pytest.mark.parametrize("given", [[[{"role": "user", "content": "Hi"}]], {"messages": "Hi"}, [None]], ids=str)
def test_what_is_no_request_is_refused(given):
    """A list of messages is no request by itself."""
    with pytest.raises(
        ConfigError, match=r"^requests must be views, or the bodies of requests with a list of messages, got "
    ):
        assert_task_survives(given)


def test_a_recap_that_tells_of_the_task_is_not_the_task():
    """What the library says of what was left out is not what the user says, though it goes out as the user's."""
    said = transcript("openai-chat", user("Mend the build."), assistant("How?"))
    recap = Recap(3, 1, sections={"The task": "Mend the build."}).written()
    later = [{"role": "user", "content": recap.text}, *said[1:]]
    assert_task_survives({"messages": [*said[:1], *later]}, "Mend the build.")
    with pytest.raises(AssertionError, match="request 1 is without the task"):
        assert_task_survives({"messages": later}, "Mend the build.")


def test_the_input_of_responses_may_be_a_text():
    """As OpenAI's SDK sends it."""
    bodies = [{"model": "gpt-5.4", "instructions": "Be brief.", "input": text} for text in ("Mend it.", "word " * 900)]
    assert_fits(bodies[0], 100)
    assert_task_survives(bodies[0], "Mend it.")
    with pytest.raises(AssertionError, match="more than the limit"):
        assert_fits(bodies, 100)
    with pytest.raises(AssertionError, match=r"messages\[0\] was"):
        assert_prefix_stable(bodies)


MESSAGES = [{"messages": [{"role": "user", "content": "Go."}]}]


@pytest.mark.parametrize(
    ("check", "why"),
    [
        (
            lambda: assert_prefix_stable(MESSAGES, moves=-1),
            "assert_prefix_stable.moves must be a whole number of at least 0, or None, got -1",
        ),
        (
            lambda: assert_prefix_stable(MESSAGES, share=1.5),
            "assert_prefix_stable.share must be a number from 0 to 1, or None, got 1.5",
        ),
        (
            lambda: assert_prefix_stable(MESSAGES, share="all"),
            "assert_prefix_stable.share must be a number from 0 to 1, or None, got 'all'",
        ),
        (
            lambda: assert_task_survives(MESSAGES, " "),
            "assert_task_survives.task must be a text that is not blank, or None, got ' '",
        ),
        (
            lambda: assert_task_survives(MESSAGES, 3),
            "assert_task_survives.task must be a text that is not blank, or None, got 3",
        ),
        (lambda: assert_fits(None, 10), "requests must be views, or the bodies of requests, got None"),
    ],
)
def test_what_would_be_asserted_of_anything_is_refused(check, why):
    """An option that no request can fail, or that means nothing."""
    with pytest.raises(ConfigError, match=re.escape(why)):
        check()
