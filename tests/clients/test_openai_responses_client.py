"""OpenAI's SDK, responses: the real client, over HTTP, to a local server."""

import openai
import pytest
from both_kinds import inside, listed, now
from client_histories import items
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

import agentctx
from agentctx import wrap
from agentctx.testing.servers import Said, responses

pytestmark = pytest.mark.both_loops

MODEL = "gpt-5.4"
WINDOW = 1_000
LONG = items(20)
KINDS = pytest.mark.parametrize("kind", [AsyncOpenAI, OpenAI])


class Verdict(BaseModel):
    verdict: str


def pipeline(**options):
    return agentctx.Pipeline(agentctx.FitContextWindow(), **{"budget": agentctx.Budget(100_000), **options})


@pytest.fixture
def made(closing):
    def make(kind, url):
        return closing(kind(base_url=f"{url}/v1", api_key="none", max_retries=0))

    return make


def text(events):
    return "".join(event.delta for event in events if event.type == "response.output_text.delta")


@KINDS
@pytest.mark.anyio
async def test_items_that_fit_are_sent_as_they_are(serve, made, kind):
    """Items, instructions and a plain string of input reach the provider as they were when they fit."""
    desk, url = serve(responses)
    client = wrap(made(kind, url), pipeline())
    for given in (items(1), "Hello."):
        answer = await now(client.responses.create(model=MODEL, input=given, instructions="Be brief."))
        assert answer.output_text == "Done."
        assert desk.requests[-1] == {"model": MODEL, "input": given, "instructions": "Be brief."}


@KINDS
@pytest.mark.parametrize("refuses", ["status", "stream"])
@pytest.mark.anyio
async def test_an_overflow_of_items_is_sent_again_smaller(serve, made, kind, refuses):
    """An overflow by status, and one that a stream tells in ``response.failed``, is answered by a smaller request."""
    desk, url = serve(responses, window=WINDOW, refuses=refuses, answer=lambda _: Said("one two three"))
    client = wrap(made(kind, url), pipeline())
    whole = await now(client.responses.create(model=MODEL, input=LONG))
    assert whole.output_text == "one two three"
    client = wrap(made(kind, url), pipeline())  # which has learned nothing yet
    events = await listed(await now(client.responses.create(model=MODEL, input=LONG, stream=True)))
    assert text(events) == "one two three"
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [len(body["input"]) < len(LONG) for body in desk.requests] == [False, True, False, True]


@KINDS
@pytest.mark.anyio
async def test_a_responses_stream_never_restarts_after_content(serve, made, kind):
    """A failure after the first content is handed over as it came."""
    desk, url = serve(responses, window=WINDOW, refuses="late", answer=lambda _: Said("one two three"))
    client = wrap(made(kind, url), pipeline())
    events = await listed(await now(client.responses.create(model=MODEL, input=LONG, stream=True)))
    assert text(events) == "one"
    assert events[-1].type == "response.failed"
    assert len(desk.requests) == 1


@KINDS
@pytest.mark.anyio
async def test_a_failure_that_stays_is_handed_over(serve, made, kind):
    """Two overflows in a row within streams: the caller reads the first one's events."""
    desk, url = serve(responses, overflows=2, refuses="stream")
    events = await listed(
        await now(wrap(made(kind, url), pipeline()).responses.create(model=MODEL, input=LONG, stream=True))
    )
    assert [event.type for event in events] == ["response.created", "response.in_progress", "response.failed"]
    assert len(desk.requests) == 2


@KINDS
@pytest.mark.anyio
async def test_the_stream_helper_and_usage(serve, made, kind):
    """The ``stream`` helper is prepared, and what was billed is recorded at its end."""
    desk, url = serve(responses, window=WINDOW, refuses="stream")
    session = pipeline().session(model=MODEL)
    client = wrap(made(kind, url), session.plan)
    with session:
        helper = client.responses.stream(model=MODEL, input=LONG)
        final = await inside(helper, lambda stream: stream.get_final_response())
    assert final.output_text == "Done."
    assert session.billed_tokens == final.usage.input_tokens < WINDOW
    assert len(desk.requests) == 2


@KINDS
@pytest.mark.anyio
async def test_what_the_provider_keeps_cannot_be_prepared(serve, made, kind):
    """A request that goes on from a stored response is refused with what to do instead, before anything is sent."""
    desk, url = serve(responses)
    client = wrap(made(kind, url), pipeline())
    with pytest.raises(agentctx.InvalidInput, match="store=False"):
        await now(client.responses.create(model=MODEL, input="Go on.", previous_response_id="resp_1"))
    assert not desk.requests
    with pytest.raises(agentctx.InvalidInput, match=r"Agent\(client, default_options=\{'store': False\}\)"):
        await now(client.responses.create(model=MODEL, input="Go on.", conversation="conv_1"))
    assert not desk.requests


@KINDS
@pytest.mark.anyio
async def test_a_stored_prompt_without_input_is_left_alone(serve, made, kind):
    """A prompt that the provider keeps, without any input, has nothing to prepare and is sent as it is."""
    desk, url = serve(responses)
    client = wrap(made(kind, url), pipeline())
    with pytest.raises(openai.NotFoundError, match="pmpt_1"):
        await now(client.responses.create(model=MODEL, prompt={"id": "pmpt_1"}))
    assert desk.requests == [{"model": MODEL, "prompt": {"id": "pmpt_1"}}]


@pytest.mark.filterwarnings("ignore:a model call of a wrapped client goes on")
@KINDS
@pytest.mark.anyio
async def test_parse_beta_and_the_models_own_items_are_prepared(serve, made, kind):
    """``parse``, the beta resource, and output items sent back as the SDK's objects go through the pipeline."""
    desk, url = serve(responses, window=WINDOW, answer=lambda _: Said('{"verdict": "good"}'))
    client = wrap(made(kind, url), pipeline())
    parsed = await now(client.responses.parse(model=MODEL, input=LONG, text_format=Verdict))
    assert parsed.output_parsed == Verdict(verdict="good")
    whole = await now(client.responses.create(model=MODEL, input=LONG[:1]))
    again = [*LONG[:1], *whole.output, {"role": "user", "content": "And now?"}]
    assert (await now(client.responses.create(model=MODEL, input=again))).output_text == '{"verdict": "good"}'
    beta = await now(client.beta.responses.create(model=MODEL, input=LONG))
    assert beta.output[0].content[0].text == '{"verdict": "good"}'
    assert len(desk.accepted) == 4
    assert len(desk.requests) == 6


@KINDS
@pytest.mark.anyio
async def test_the_stream_helper_reads_what_was_said(serve, made, kind):
    """The helper's own accumulation works on a restarted stream: text, parsed output and events in order."""
    _, url = serve(responses, window=WINDOW, refuses="stream", answer=lambda _: Said('{"verdict": "good"}'))
    client = wrap(made(kind, url), pipeline())
    helper = client.responses.stream(model=MODEL, input=LONG, text_format=Verdict)
    events = await inside(helper, listed)
    assert [event.type for event in events].count("response.created") == 1
    assert text(events) == '{"verdict": "good"}'
    done = next(event for event in events if event.type == "response.completed")
    assert done.response.output_parsed == Verdict(verdict="good")


@pytest.mark.anyio
async def test_other_calls_are_left_alone(serve, made):
    """What is no model call goes through as it is, and fails in the SDK's own way."""
    _, url = serve(responses)
    with pytest.raises(openai.NotFoundError):
        await wrap(made(AsyncOpenAI, url), pipeline()).responses.retrieve("resp_1")
