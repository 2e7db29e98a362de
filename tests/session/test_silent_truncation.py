"""A server that cuts prompts without a word is suspected from its usage, and that is said once."""

from __future__ import annotations

import itertools
import json

import pytest

from agentctx import Budget, FitContextWindow, Pipeline, Session, StageReport
from agentctx.economics import SilentTruncationSuspected
from agentctx.engine.usage import Calibration
from agentctx.testing import Recorder, assistant, call, result, system, thinking, transcript, user

pytestmark = pytest.mark.anyio


def pipeline(window=100_000, **options):
    """A pipeline with much room."""
    return Pipeline(FitContextWindow(), budget=Budget(window), **options)


def growing(rounds, words=400):
    """Transcripts of a conversation, one longer than the other."""
    turns = [system("rules"), user("task")]
    for number in range(rounds):
        turns += [assistant(call(f"c{number}", "read")), result(f"c{number}", f"word{number} " * words)]
    messages = transcript("openai-chat", *turns)
    return [messages[: 2 + 2 * number] for number in range(1, rounds + 1)]


def usage(tokens, **more):
    """Usage of one prompt, as most servers report it."""
    return {"prompt_tokens": tokens, "completion_tokens": 20, **more}


async def served(session, transcripts, server):
    """Send each transcript, with the usage that the server bills for so many tokens; the views' sizes."""
    sizes = []
    for messages in transcripts:
        report = (await session.prepare(messages)).report
        sizes.append(report.tokens_after)
        session.record(usage(server(report)))
    return sizes


async def test_a_server_that_stops_counting_is_suspected_once():
    """A prompt billed at the server's small window while it grows is told once, with the numbers."""
    heard = Recorder()
    session = pipeline(on_compact=heard).session(format="openai-chat", id="s")
    sizes = await served(session, growing(20), lambda report: min(report.tokens_after, 4_096))

    (event,) = heard.events
    assert isinstance(event, SilentTruncationSuspected)
    assert event.billed == 4_096 < 0.6 * event.sent
    assert event.step == next(step for step, size in enumerate(sizes) if 4_096 < 0.6 * size)
    assert "4,096" in str(event)
    assert (event.session, event.why, event.window) == ("s", session.internals.limits.truncation.why, None)
    assert event.stages == (StageReport("server", (), event.sent, event.billed, 0.0, (event.why,)),)
    assert event.messages_before == event.messages_after == len(growing(20)[event.step])


async def test_a_prompt_cut_from_the_start_is_suspected():
    """Also before anything is known of the provider's count, when it bills a fifth of the very first prompt."""
    session = pipeline().session(format="openai-chat")
    await served(session, growing(12)[-1:], lambda _report: 2_048)

    assert session.internals.limits.truncation.billed == 2_048


async def test_what_is_suspected_is_not_learned():
    """What a truncating server bills does not pass for its way to count: the session keeps to its own count."""
    session = pipeline().session(format="openai-chat")
    sizes = await served(session, growing(20), lambda report: min(report.tokens_after, 4_096))

    assert session.internals.limits.calibration.estimate(sizes[-1]) == pytest.approx(sizes[-1], rel=0.02)


@pytest.mark.both_loops
async def test_a_listener_that_waits_is_told_at_the_next_step():
    """``record`` does not wait, so an async listener hears of it with the next ``prepare``."""
    heard = []

    async def listener(event):
        heard.append(event)

    session = pipeline().session(format="openai-chat", on_compact=listener)
    transcripts = growing(12)
    await served(session, transcripts[-2:-1], lambda _report: 2_048)
    assert heard == []
    await session.prepare(transcripts[-1])
    await session.prepare(transcripts[-1])
    assert [type(event) for event in heard] == [SilentTruncationSuspected]


@pytest.mark.both_loops
async def test_a_listener_that_gives_something_to_wait_for_is_told_once():
    """A plain callable that returns a coroutine is called at once, and its answer is awaited at the next step."""
    heard = []

    async def later(event):
        heard.append(event)

    session = pipeline().session(format="openai-chat", on_compact=lambda event: later(event))  # noqa: PLW0108 - the case
    transcripts = growing(12)
    await served(session, transcripts[-2:-1], lambda _report: 2_048)
    await session.prepare(transcripts[-1])
    assert len(heard) == 1


@pytest.mark.both_loops
async def test_a_listener_that_raises_costs_nothing():
    """The suspicion stands although nobody could hear of it."""

    def listener(_event):
        raise LookupError

    session = pipeline(on_compact=listener).session(format="openai-chat")
    await served(session, growing(12)[-1:], lambda _report: 2_048)
    assert session.internals.limits.truncation is not None


async def test_it_is_said_once_also_after_a_load():
    """The suspicion is part of the state: a session that is loaded does not say it again."""
    transcripts = growing(16)
    first = pipeline().session(format="openai-chat")
    await served(first, transcripts[:13], lambda report: min(report.tokens_after, 4_096))
    heard = Recorder()
    loaded = Session.load(pipeline(), json.loads(json.dumps(first.dump())), on_compact=heard)
    await served(loaded, transcripts[13:], lambda report: min(report.tokens_after, 4_096))

    assert loaded.internals.limits.truncation == first.internals.limits.truncation is not None
    assert heard.events == []


@pytest.mark.parametrize("block", [1, 64, 128, 1_024])
async def test_usage_without_the_cached_part_is_no_truncation(block):
    """Servers that leave out what their cache held, in whole blocks, are not suspected, however long the prefix."""
    session = pipeline().session(format="openai-chat")
    cached = [0]

    def server(report):
        fresh = report.tokens_after - report.prefix_tokens // block * block if cached[0] else report.tokens_after
        cached[0] += 1
        return fresh

    await served(session, growing(60), server)
    assert session.internals.limits.truncation is None


@pytest.mark.parametrize("words", [400, 100])
async def test_usage_without_the_cached_part_is_not_learned(words):
    """What leaves out the cached part says nothing of how the provider counts: the estimate stays as it was.

    Neither where steps are so small that one such report seems to confirm the other.
    """
    session = pipeline().session(format="openai-chat")
    sizes = await served(session, growing(30, words), lambda report: report.tokens_after - report.prefix_tokens)
    assert session.internals.limits.calibration.estimate(sizes[-1]) == pytest.approx(sizes[-1], rel=0.02)


async def test_a_first_report_that_was_far_too_high_is_unlearned():
    """Where only the first report was too high, those after it are no truncation, and are learned."""
    session = pipeline().session(format="openai-chat")
    count = [0]

    def server(report):
        count[0] += 1
        return report.tokens_after * (3 if count[0] == 1 else 1)

    sizes = await served(session, growing(8, words=2_000), server)
    assert session.internals.limits.truncation is None
    assert session.internals.limits.calibration.estimate(sizes[-1]) == pytest.approx(sizes[-1], rel=0.02)


async def test_a_compaction_is_no_truncation():
    """A view that shrank is billed for what it is, with and without the part that was cached."""
    for leaves_out in (False, True):
        session = pipeline(window=8_000).session(format="openai-chat")

        def server(report, leaves_out=leaves_out):
            return report.tokens_after - (report.prefix_tokens if leaves_out else 0)

        sizes = await served(session, growing(80), server)
        assert any(after < before for before, after in itertools.pairwise(sizes))
        assert session.internals.limits.truncation is None


async def test_sizes_that_nobody_knows_are_not_judged():
    """Reasoning, which providers leave out of the prompt when they like, raises no suspicion."""
    turns = [user("look"), assistant(thinking("hm " * 20_000, signature="s"), "done"), user("on")]
    session = pipeline().session(format="anthropic", model="claude-sonnet-4-5")
    await session.prepare(transcript("anthropic", *turns))
    session.record({"input_tokens": 300, "output_tokens": 5})
    assert session.internals.limits.truncation is None


async def test_pictures_that_a_tool_returned_are_not_judged():
    """What a picture costs is the provider's business, in a result as elsewhere."""
    picture = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    messages = transcript("anthropic", user("look"), assistant(call("c", "show")), result("c", "here"), user("on"))
    messages[2] = {"role": "user", "content": [{**messages[2]["content"][0], "content": [picture] * 12}]}
    session = pipeline().session(format="anthropic", model="claude-sonnet-4-5")
    assert (await session.prepare(messages)).report.tokens_after > 5_000
    session.record({"input_tokens": 100, "output_tokens": 5})
    assert session.internals.limits.truncation is None


async def test_deferred_tools_are_not_judged_before_the_first_report():
    """Tools that the provider loads only when needed cost nothing before: a small first bill is no truncation."""
    tools = [
        {"type": "function", "function": {"name": f"tool{n}", "description": "does things " * 200, "parameters": {}}}
        for n in range(50)
    ]
    session = pipeline().session(format="openai-chat")
    await session.prepare(transcript("openai-chat", user("task " * 1_000)), tools=tools)
    session.record(usage(1_100))
    assert session.internals.limits.truncation is None


@pytest.mark.parametrize(("share", "suspect"), [(0.5, False), (0.39, True)])
async def test_the_first_report_is_doubted_less(share, suspect):
    """Before anything is known of the provider's count, half of ours may be its way to count."""
    session = pipeline().session(format="openai-chat")
    await served(session, growing(12)[-1:], lambda report: int(report.tokens_after * share))
    assert suspect == (session.internals.limits.truncation is not None)


async def test_tools_that_were_billed_once_are_judged():
    """A report that had the tools in it says that they are not deferred: what is billed without them later was cut."""
    tools = [
        {"type": "function", "function": {"name": f"tool{n}", "description": "does things " * 200, "parameters": {}}}
        for n in range(20)
    ]
    session = pipeline().session(format="openai-chat")
    for share, messages in zip((1, 1, 0.3), growing(3, words=20), strict=True):
        size = (await session.prepare(messages, tools=tools)).report.tokens_after
        assert session.internals.limits.truncation is None
        session.record(usage(int(size * share)))
    assert session.internals.limits.truncation is not None


@pytest.mark.parametrize(
    "several",
    [{"iterations": [{"type": "message"}, {"type": "message"}]}, {"server_tool_use": {"web_search_requests": 2}}],
    ids=["iterations", "server tools"],
)
async def test_usage_of_several_prompts_is_not_judged(several):
    """Where server tools ran, usage is a sum of several prompts and says nothing about one; nothing is learned."""
    session = pipeline().session(format="anthropic", model="claude-sonnet-4-5")
    await session.prepare(transcript("anthropic", user("word " * 5_000)))
    session.record({"input_tokens": 900, "output_tokens": 5, **several})
    assert session.internals.limits.truncation is None
    assert session.internals.limits.calibration == Calibration()


async def test_a_view_is_judged_once():
    """A second record for one view, as of a call of another kind, raises no suspicion."""
    session = pipeline().session(format="openai-chat")
    sizes = await served(session, growing(12)[-1:], lambda report: report.tokens_after)
    session.record(usage(sizes[0] // 9))
    assert session.internals.limits.truncation is None


async def test_more_than_the_window_is_suspected():
    """A prompt billed above the model's window was taken whole, and cut later."""
    heard = Recorder()
    messages = transcript("openai-chat", user("word " * 9_000))
    session = Pipeline(on_compact=heard).session(format="openai-chat", model="gpt-4")
    size = (await session.prepare(messages)).report.tokens_after
    session.record(usage(size))
    (event,) = heard.events
    assert event.window == 8_192 < event.billed


async def test_a_window_filled_to_the_brim_without_an_answer_is_suspected():
    """A prompt that was cut to the window exactly leaves no room for an answer."""
    session = Pipeline().session(format="openai-chat", model="gpt-4")
    await session.prepare(transcript("openai-chat", user("word " * 9_000)))
    session.record({"prompt_tokens": 8_190, "completion_tokens": 0})
    assert "8,192 exactly" in session.internals.limits.truncation.why
