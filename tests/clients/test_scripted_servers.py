"""Servers that answer from a script: what goes wrong by it reaches the real SDKs as it does from the provider."""

import doctest

import anthropic
import boto3
import httpx
import openai
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from google import genai
from google.genai import errors

import agentctx
from agentctx import ConfigError, FitContextWindow, Pipeline, presets
from agentctx.economics import SilentTruncationSuspected
from agentctx.testing import ServerFault, assert_fits, assert_task_survives, assistant, call, thinking, user
from agentctx.testing.servers import provider_server

SAID = [{"role": "user", "content": "Hi."}]
FORMATS = ["openai-chat", "openai-responses", "anthropic", "gemini", "bedrock"]


@pytest.fixture
def serve():
    """Start scripted servers, which stop when the test ends."""
    running = []

    def start(*script, **behaviour):
        running.append(provider_server(*script, **behaviour))
        return running[-1].__enter__()

    yield start
    for server in running:
        server.__exit__(None, None, None)


def asks(server):
    """Ask a server by the provider's own SDK, which does not try again; the text of the answer."""
    url, format_name = server.base_url, server.format
    if format_name.startswith("openai"):
        client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
        if format_name == "openai-chat":
            ask = lambda: client.chat.completions.create(model="gpt-4o", messages=SAID).choices[0].message.content  # noqa: E731
        else:
            ask = lambda: client.responses.create(model="gpt-5.4", input=SAID).output_text  # noqa: E731
    elif format_name == "anthropic":
        client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
        given = {"model": "claude-sonnet-5-5", "max_tokens": 10, "messages": SAID}
        ask = lambda: client.messages.create(**given).content[0].text  # noqa: E731
    elif format_name == "gemini":
        client = genai.Client(api_key="none", http_options={"base_url": url})
        ask = lambda: client.models.generate_content(model="gemini-2.5-pro", contents="Hi.").text  # noqa: E731
    else:
        once = Config(retries={"total_max_attempts": 1})
        keys = {"aws_access_key_id": "none", "aws_secret_access_key": "none"}
        client = boto3.client("bedrock-runtime", "us-east-1", endpoint_url=url, config=once, **keys)
        said = {
            "modelId": "us.anthropic.claude-sonnet-5-5",
            "messages": [{"role": "user", "content": [{"text": "Hi."}]}],
        }
        ask = lambda: client.converse(**said)["output"]["message"]["content"][0]["text"]  # noqa: E731
    return client, ask


def code_of(error):
    """The status of an SDK's error."""
    if isinstance(error, ClientError):
        return error.response["ResponseMetadata"]["HTTPStatusCode"]
    return error.code if isinstance(error, errors.APIError) else error.status_code


@pytest.mark.parametrize("format_name", FORMATS)
def test_each_provider_fails_by_the_script_and_answers_then(serve, format_name):
    """The SDK raises its own errors for a rate limit, a broken server and an overflow; then comes the answer."""
    faults = [ServerFault.rate_limit(), ServerFault.server_error(503), ServerFault.overflow()]
    server = serve(format_name, [*faults, "Yes."])
    client, ask = asks(server)
    for status in (429, 503, 400):
        with pytest.raises((openai.APIStatusError, anthropic.APIStatusError, errors.APIError, ClientError)) as caught:
            ask()
        assert code_of(caught.value) == status
        assert (agentctx.classify_error(caught.value) is not None) == (status == 400)
    assert ask() == "Yes."
    server.assert_complete()
    client.close()


@pytest.mark.both_loops
@pytest.mark.anyio
async def test_a_client_tries_again_by_itself(serve):
    """What an SDK tries again by itself, on either event loop, takes the next entry of the script."""
    server = serve("openai-chat", [ServerFault.rate_limit(retry_after=0.01), "Yes."])
    async with openai.AsyncOpenAI(base_url=server.base_url, api_key="none") as client:
        answer = await client.chat.completions.create(model="gpt-4o", messages=SAID)
    assert answer.choices[0].message.content == "Yes."
    server.assert_complete()


def test_a_server_that_hangs_or_breaks_off(serve, capfd):
    """A client that waits gives up, a stream ends in the middle, and so does another answer; nothing is logged."""
    cut = ServerFault.cut_stream("One two three four.", after=3)
    server = serve("openai-chat", [ServerFault.hang(), cut, cut, "Yes."])
    with openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0, timeout=0.2) as client:
        given = {"model": "gpt-4o", "messages": SAID}
        with pytest.raises(openai.APITimeoutError):
            client.chat.completions.create(**given)
        words = []
        with pytest.raises((httpx.RemoteProtocolError, openai.APIConnectionError)):
            words.extend(
                chunk.choices[0].delta.content or "" for chunk in client.chat.completions.create(**given, stream=True)
            )
        with pytest.raises(openai.APIConnectionError):
            client.chat.completions.create(**given)
        assert client.chat.completions.create(**given).choices[0].message.content == "Yes."
    server.assert_complete()
    assert capfd.readouterr() == ("", "")


def test_a_script_is_held_to(serve):
    """What is asked beyond the script is an error that says so, and so is what was refused, or not asked for."""
    server = serve("openai-chat", ["Yes."])
    with pytest.raises(AssertionError, match=r"1 of 1 answers were not asked for, from this one on: 'Yes.'"):
        server.assert_complete()
    client, ask = asks(server)
    ask()
    with client, pytest.raises(openai.InternalServerError, match="the script has 1 answers"):
        ask()
    with pytest.raises(AssertionError, match="has 1 answers, and the model was asked 2 times"):
        server.assert_complete()
    server = serve("openai-chat", ["Yes."])
    orphan = [*SAID, {"role": "tool", "tool_call_id": "lost", "content": "found"}]
    client, _ = asks(server)
    with client, pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="gpt-4o", messages=orphan)
    with pytest.raises(AssertionError, match=r"a request was refused: .*tool_calls"):
        server.assert_complete()


def test_turns_with_calls_and_reasoning_are_answers(serve):
    """A turn that is built for transcripts is what the model says, its reasoning signed by the server."""
    server = serve("anthropic", [assistant(thinking("Look first."), "Let me look.", call("c", "read", {"path": "a"}))])
    with anthropic.Anthropic(base_url=server.base_url, api_key="none") as client:
        said = client.messages.create(model="claude-sonnet-5-5", max_tokens=10, messages=SAID).content
    assert [block.type for block in said] == ["thinking", "text", "tool_use"]
    assert (said[2].name, said[2].input) == ("read", {"path": "a"})
    server.assert_complete()


async def loop(server, pipeline, steps):
    """A loop with a wrapped client, whose messages grow."""
    messages = [{"role": "user", "content": "Mend the build."}]
    async with openai.AsyncOpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client:
        wrapped = agentctx.wrap(client, pipeline)
        with pipeline.session(model="gpt-4o"):
            for number in range(steps):
                answer = await wrapped.chat.completions.create(model="gpt-4o", messages=messages)
                said = f"{number}: " + "so much that was said. " * 200
                messages += [answer.choices[0].message, {"role": "user", "content": said}]


@pytest.mark.anyio
async def test_a_loop_recovers_from_an_overflow_of_the_script(serve):
    """The session makes a smaller request of what was refused, and all that is sent fits and has the task."""
    server = serve("openai-chat", [*["Go on."] * 5, ServerFault.overflow(), *["Go on."] * 2])
    await loop(server, Pipeline(FitContextWindow(), budget=40_000), 7)
    server.assert_complete()
    assert_task_survives(server.requests)
    assert_fits(server.requests, 40_000)


@pytest.mark.anyio
async def test_a_loop_tells_of_a_silent_truncation_of_the_script(serve):
    """A server that reads less than it was sent is suspected from its usage."""
    heard = []
    server = serve("openai-chat", [ServerFault.silent_truncation(4_000, "Go on.") for _ in range(10)])
    await loop(server, Pipeline(FitContextWindow(), budget=40_000, on_compact=heard.append), 10)
    assert [type(event) for event in heard] == [SilentTruncationSuspected]
    server.assert_complete()


@pytest.mark.anyio
@pytest.mark.parametrize("preset", [presets.assistant, presets.coding_agent, presets.general, presets.thrifty])
async def test_an_integer_budget_leaves_room_for_the_longest_answer(serve, preset):
    """A provider that refuses prompt and longest answer above its window refuses nothing of a loop that outgrows it."""
    window, model, largest = 8_000, "claude-sonnet-5-5", 0
    server, messages = serve("anthropic", ["Go on."] * 16, window=window), [{"role": "user", "content": "Mend it."}]
    session = preset(window).session(model=model, format="anthropic")
    async with anthropic.AsyncAnthropic(base_url=server.base_url, api_key="none", max_retries=0) as client:
        for number in range(16):
            view = await session.prepare(messages)
            largest = max(largest, view.report.tokens_after)
            answer = await client.messages.create(model=model, max_tokens=window // 4, messages=view.messages)
            said = f"{number}: " + "so much that was said. " * 150
            messages += [{"role": "assistant", "content": answer.content[0].text}, {"role": "user", "content": said}]
    server.assert_complete()
    assert largest > window // 2


def test_what_no_server_can_do_is_refused():
    """A format that is not there, an exception, and something that is no answer."""
    for script, said in (
        (("openai",), "^provider_server.format must be 'openai-chat', .*, got 'openai'$"),
        (
            ("anthropic", [TimeoutError()]),
            "^provider_server.answers must be without exceptions, which no server raises: use ServerFault, got ",
        ),
        (("anthropic", [user("Hi"), 3]), "^ScriptedModel.answers.1. must be a text, .*, got 3$"),
    ):
        with pytest.raises(ConfigError, match=said), provider_server(*script):
            pass


def test_the_example_runs():
    """What the docstring shows is what the server does."""
    runner = doctest.DocTestRunner()
    for test in doctest.DocTestFinder(recurse=False).find(provider_server, "provider_server"):
        runner.run(test)
    assert runner.summarize() == (0, 4)
