"""What a cut leaves out for certain is not read, and nobody can tell: not from the view, the report, or an error."""

import copy
import random
import re
from typing import Any

import pytest
from attrs import evolve

from agentctx import AgentctxError, FitContextWindow, InvalidInput, Pipeline
from agentctx.engine.reading import Reader, reader
from agentctx.engine.skipped import skipped

pytestmark = pytest.mark.anyio

Native = dict[str, Any]

WORDS = ("alpha", "beta", "gamma", "line 12", '{"a": 1}', "café", "x" * 30)


def chance(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - the same numbers every time are the point


def words(rng: random.Random, most: int) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(1, most)))


def called(identity: str, arguments: str = "{}") -> Native:
    return {"id": identity, "type": "function", "function": {"name": "read", "arguments": arguments}}


def tool_round(rng: random.Random, number: int) -> list[Native]:
    ids = [f"call_{number}_{place}" for place in range(rng.choice((1, 1, 1, 2, 3)))]
    asked = {
        "role": "assistant",
        "content": rng.choice((None, "", words(rng, 6))),
        "tool_calls": [called(each) for each in ids],
    }
    return [asked, *({"role": "tool", "tool_call_id": each, "content": words(rng, 40)} for each in ids)]


def talk(rng: random.Random) -> list[Native]:
    return [{"role": "user", "content": words(rng, 10)}, {"role": "assistant", "content": words(rng, 30)}]


def history(rng: random.Random, share_of_talk: float = 0.1, length: int = 500) -> list[Native]:
    """An ordinary history; the words of a user begin it."""
    messages: list[Native] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Find out why."}]
    while len(messages) < length:
        messages += talk(rng) if rng.random() < share_of_talk else tool_round(rng, len(messages))
    return messages


ODD: tuple[Native, ...] = (
    {"role": "system", "content": "Be kind."},
    {"role": "developer", "content": "Be quick."},
    {"role": "user", "content": " "},
    {"role": "user", "content": "[go on]"},
    {"role": "user", "content": "\ud800 alone"},
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]},
    {"role": "user", "name": "bob", "content": "Hi"},
    {"role": "user"},
    {"role": "user", "content": 7},
    {"role": "tool", "tool_call_id": "nobody's", "content": "orphan"},
    {"role": "tool", "tool_call_id": 7, "content": "orphan"},
    {"role": "tool", "tool_call_id": "a", "content": "x", "cache_control": {"type": "ephemeral"}},
    {"role": "assistant", "content": None},
    {"role": "assistant", "content": "", "tool_calls": []},
    {"role": "assistant", "content": "", "tool_calls": [called("never answered")]},
    {"role": "assistant", "content": "", "tool_calls": [called("not json", '{"a": NaN}')]},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "a", "function": {"name": "b", "arguments": "{}"}}]},
    {"role": "assistant", "content": "So.", "reasoning_content": "Hm."},
    {"role": "narrator", "content": "Meanwhile."},
)


async def outcome(pipeline: Pipeline, messages: list[Native], model: str | None = None) -> list[object]:
    """All that can be seen of a prepare, but for how long it took."""
    try:
        view = await pipeline.prepare(messages, format="openai-chat", model=model)
    except AgentctxError as error:
        return [type(error), str(error)]
    whose = [any(said is given for given in messages) for said in view.messages]
    report = {**view.report.to_dict(), "seconds": 0}
    stages = [{**stage, "seconds": 0} for stage in report.pop("stages")]
    text = re.sub(r"[\d.]+ ms", "", str(view.report))
    return [view.messages, whose, view.origins, report, stages, text, re.sub(r"seconds=[^,)]+", "", repr(view.report))]


async def same_as_read_whole(messages: list[Native], budget: int, model: str | None = None) -> None:
    """The same comes out where a rule that protects nothing has all of the history read."""
    quick = await outcome(Pipeline(FitContextWindow(), budget=budget), messages, model)
    assert quick == await outcome(
        Pipeline(FitContextWindow(), budget=budget, protect=[lambda _all: ()]), messages, model
    )


def left_unread(messages: list[Native], budget: int) -> int:
    found = skipped(messages, source(messages), "FitContextWindow", budget, 3)
    return 0 if found is None else len(found)


def source(messages: list[Native]) -> Reader:
    return reader(messages, format="openai-chat")


@pytest.mark.parametrize("seed", range(8))
async def test_the_view_and_the_report_are_those_of_a_history_that_was_read(seed: int) -> None:
    """Neither the view nor anything in the report tells that most of the history was not read."""
    rng = chance(seed)
    messages = history(rng, rng.choice((0, 0.1, 0.5, 1)))
    await same_as_read_whole(messages, rng.randint(400, 6_000), rng.choice((None, "gpt-5.4")))


@pytest.mark.parametrize("seed", range(4))
async def test_it_is_the_same_where_a_cut_reaches_further_than_was_read(seed: int) -> None:
    """Results and arguments out of all proportion, of which a cut makes little, change nothing in that."""
    rng = chance(seed)
    messages = history(rng, 0.2)
    for message in messages:
        if message["role"] == "tool" and rng.random() < 0.2:
            message["content"] = words(rng, 4_000)
        for call in message.get("tool_calls", ()) if seed % 2 else ():
            call["function"]["arguments"] = f'{{"text": "{"word " * rng.randint(1, 2_000)}"}}'
    await same_as_read_whole(messages, rng.randint(2_000, 6_000))


@pytest.mark.parametrize("seed", range(6))
async def test_it_is_the_same_where_talk_follows_the_newest_round(seed: int) -> None:
    """The newest round with results stays whole however much was said behind it: so it is read."""
    rng = chance(seed)
    messages = [*history(rng, 0.1), *talk(rng)]
    for number in range(rng.choice((1, 1, 2))):
        ids = [f"new_{number}_{place}" for place in range(rng.choice((1, 3)))]
        messages += [{"role": "assistant", "content": None, "tool_calls": [called(each) for each in ids]}]
        messages += [{"role": "tool", "tool_call_id": each, "content": words(rng, 300)} for each in ids]
    for _ in range(rng.choice((10, 40, 80))):
        messages += talk(rng)
    await same_as_read_whole(messages, rng.randint(800, 4_000))


async def test_what_was_not_read_is_counted_when_somebody_asks() -> None:
    """The report of a long history has yet to work out what it tells of what was left out."""
    view = await Pipeline(FitContextWindow(), budget=2_000).prepare(history(chance(13)))
    assert hasattr(view.report, "_later")
    assert view.report.tokens_before > view.report.tokens_after


async def test_old_results_that_are_cleared_are_counted_when_somebody_asks() -> None:
    """Results for which there is no room any more are not counted, and the report says what they were all the same."""
    messages = history(chance(17), length=800)
    found = skipped(messages, source(messages), "FitContextWindow", 6_000, 3)
    assert found is not None
    whole, cleared = zip(*found.cleared.values(), strict=True)
    counter = found.reader.meter
    assert sum(map(counter.message, whole)) > 5 * sum(map(counter.message, cleared))
    assert all(any(each is kept for kept in found.around) for each in cleared)
    await same_as_read_whole(messages, 6_000)


@pytest.mark.parametrize("odd", ODD, ids=str)
async def test_what_is_odd_anywhere_is_treated_as_ever(odd: Native) -> None:
    """One odd message is refused, repaired or kept as where all is read, wherever it stands."""
    rng = chance(3)
    for place in (2, 250, 490):
        messages = history(rng)
        messages.insert(place, odd)
        await same_as_read_whole(messages, 2_000)


async def test_one_object_at_two_places_is_treated_as_ever() -> None:
    """A message that is there twice is told apart as where all is read."""
    messages = history(chance(5), share_of_talk=1)
    messages[100] = messages[300] = messages[498]
    await same_as_read_whole(messages, 2_000)


def test_most_of_a_long_history_is_not_read() -> None:
    """What stands between the first task and the newest messages is left unread."""
    messages = history(chance(7))
    assert left_unread(messages, 2_000) > 400
    assert left_unread(messages, 100_000) == 0
    assert left_unread([*messages, {"role": "user", "content": 7}], 2_000) == 0


def test_a_message_that_cannot_be_read_is_still_refused_at_its_place() -> None:
    """An error deep in what would be left out names the same message."""
    messages = history(chance(7))
    messages.insert(200, {"role": "user", "content": 7})
    with pytest.raises(InvalidInput, match=r"messages\[200\]\.content"):
        source(messages).messages(messages)
    assert left_unread(messages, 2_000) < 300


async def test_a_report_says_what_was_there_when_it_was_made() -> None:
    """Messages that the caller changes afterwards change no number of a report that is asked later."""
    messages = history(chance(9))
    pipeline = Pipeline(FitContextWindow(), budget=2_000)
    known = await pipeline.prepare(copy.deepcopy(messages))
    view = await pipeline.prepare(messages)
    for message in messages:
        message["content"] = "changed"
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = "changed"
    assert view.report.changes == known.report.changes
    assert view.report.tokens_before == known.report.tokens_before
    assert view.report.in_force == known.report.in_force


async def test_reports_are_equal_whether_they_were_asked_or_not() -> None:
    """Equality, copies and pickles of a report do not depend on what of it was worked out already."""
    messages = history(chance(11))
    pipeline = Pipeline(FitContextWindow(), budget=2_000)
    stages = [(await pipeline.prepare(messages)).report.stages[0] for _ in range(3)]
    one, other, third = (evolve(stage, seconds=0) for stage in stages)
    assert one == other == copy.copy(third)
    assert hash(one) == hash(other)
    assert not hasattr(stages[0], "nothing")
