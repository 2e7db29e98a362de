"""What each eviction leaves of a block, alone and without a builder."""

import anyio
import pytest
from blocks import left_by, reduced, tool_round

from agentctx import Budget, ConfigError, ContextOverflow, Message, Text, ToolCall, ToolResult
from agentctx.formats.openai_chat import OpenAIChat
from agentctx.strategies import Drop, DropTail, Strict, Summarize, TruncateOldest
from agentctx.testing import assistant, call, check_laws, fixed_summarizer, result, transcript, user
from agentctx.tokens.counting import MessageMeter

pytestmark = pytest.mark.anyio

ROLES = {"s": "system", "d": "developer", "u": "user", "a": "assistant", "t": "tool"}


def values(*words):
    """Messages of ten tokens, their role told by their first letter."""
    return tuple(Message(ROLES[word[0]], (Text(word),)) for word in words)


def rounds(name, *ids):
    """An assistant's turn with calls, and their results, as values."""
    return tuple(OpenAIChat().read_message(native, 0) for native in tool_round(name, *ids))


def said(messages):
    """What messages say, or which call they answer."""
    return [message.text or "".join(each.call_id for each in message.results) for message in messages]


def are(left, messages):
    """Whether these are the very messages."""
    return list(map(id, left)) == list(map(id, messages))


class Counting:
    """Ten tokens a message; counts how often it is asked."""

    def __init__(self):
        self.asked = 0

    def count(self, text):
        """Never asked: whole messages are."""
        raise AssertionError(text)

    def count_message(self, message):
        """Ten tokens."""
        del message
        self.asked += 1
        return 10


@pytest.mark.parametrize(("tokens", "fits"), [(20, True), (100, True), (19, False)])
async def test_strict_keeps_all_or_fails(tokens, fits):
    """Twenty tokens fit in twenty and more, and fail in nineteen."""
    messages = values("u1", "u2")
    if fits:
        assert are(await left_by(Strict(), messages, tokens), messages)
    else:
        with pytest.raises(ContextOverflow):
            await left_by(Strict(), messages, tokens)


async def test_drop_keeps_all_or_nothing():
    """Twenty tokens fit in twenty, and nothing of them is left in nine."""
    messages = values("u1", "u2")
    assert are(await left_by(Drop(), messages, 20), messages)
    assert await left_by(Drop(), messages, 9) == ()


@pytest.mark.parametrize("eviction", [Strict(), Drop(), TruncateOldest(), DropTail(), TruncateOldest(keep_pairs=True)])
async def test_evictions_count_each_message_once(eviction):
    """However an eviction looks at its messages, the counter is asked once for each."""
    counter, messages = Counting(), values(*(f"u{number}" for number in range(50)))
    remembering = MessageMeter(counter)
    assert are(await left_by(eviction, messages, 500, counter=remembering.counter), messages)
    await left_by(Drop(), messages, 1, counter=counter)
    assert counter.asked == 50


@pytest.mark.parametrize(
    ("eviction", "words", "tokens", "left"),
    [
        (TruncateOldest(), "u1 u2 u3", 15, "u3"),
        (TruncateOldest(keep_pairs=True), "u1 a2 u3", 15, "u3"),
        (TruncateOldest(keep_pairs=True), "s0 u1 a2", 25, "u1 a2"),
        (TruncateOldest(keep_pairs=True), "s0 u1 a2", 15, ""),
        (TruncateOldest(min_messages=2), "u1 u2 u3", 15, ""),
        (TruncateOldest(min_messages=2), "u1 u2 u3", 25, "u2 u3"),
        (TruncateOldest(), "", 15, ""),
        (TruncateOldest(), "u1", 5, ""),
        (
            TruncateOldest(keep_pairs=True, protect_roles=["developer", "system", "system", ""]),
            "d1 s2 u1 a2 u3 a4",
            41,
            "d1 s2 u3 a4",
        ),
        (TruncateOldest(protect_roles=["developer"]), "d1 u1 a1 u2", 10, "d1"),
        (TruncateOldest(protect_roles=["developer"]), "d1 u1", 20, "d1 u1"),
        (DropTail(), "u1 u2 u3", 30, "u1 u2 u3"),
        (DropTail(), "u1 u2 u3", 20, "u1 u2"),
        (DropTail(), "u1 u2", 10, "u1"),
        (DropTail(), "", 10, ""),
    ],
)
async def test_what_is_left_of_messages_of_ten_tokens(eviction, words, tokens, left):
    """What is left of messages of ten tokens each, oldest or last first."""
    assert said(await left_by(eviction, values(*words.split()), tokens)) == left.split()


@pytest.mark.parametrize(
    ("eviction", "words", "tokens"),
    [
        (TruncateOldest(protect_roles=["user"]), "u1", 5),
        (TruncateOldest(protect_roles=["user", "assistant"]), "u1 a1 u2", 20),
        (TruncateOldest(protect_roles=["developer"]), "d1 u1", 5),
        (DropTail(), "u1", 5),
        (DropTail(), "u1 u2 u3", 5),
    ],
)
async def test_protected_messages_that_are_too_large(eviction, words, tokens):
    """Protected messages that are too large fail: protecting must not lose more than leaving it."""
    with pytest.raises(ContextOverflow):
        await left_by(eviction, values(*words.split()), tokens)


async def test_protected_messages_stay_where_too_few_would():
    """Where fewer messages than asked for would be left, the protected ones stay."""
    eviction = TruncateOldest(min_messages=3, protect_roles=["developer"])
    assert said(await left_by(eviction, values("d1", "u1", "u2"), 20)) == ["d1"]


async def test_a_hundred_messages_in_room_for_fifty():
    """A hundred messages in room for fifty: the last fifty."""
    left = await left_by(TruncateOldest(), values(*(f"u{number}" for number in range(100))), 500)
    assert said(left) == [f"u{number}" for number in range(50, 100)]


async def test_no_more_goes_than_must():
    """The smallest beginning that must go, goes."""
    assert said(await left_by(TruncateOldest(), values("u1", "a1", "u2", "a2"), 30)) == ["a1", "u2", "a2"]


async def test_a_call_goes_with_its_results():
    """A call goes with its results."""
    messages = (*values("u1"), *rounds("look", "c1", "c2"), *values("u2"))
    assert said(await left_by(TruncateOldest(), messages, 30)) == ["u2"]
    assert said(await left_by(TruncateOldest(), messages, 40)) == ["look", "c1", "c2", "u2"]


async def test_results_belong_to_the_calls_of_their_turn():
    """Results belong to the calls of their own turn: the next turn's stay."""
    messages = (*rounds("one", "a", "b"), *rounds("two", "c"))
    assert said(await left_by(TruncateOldest(), messages, 20)) == ["two", "c"]


async def test_calls_without_ids_belong_together_by_order():
    """Calls and results without ids belong together by their order."""
    call, result = ToolCall("", "look", "{}"), ToolResult("", (Text("saw"),))
    messages = (
        Message("assistant", (Text("look"), call, call)),
        *(Message("tool", (result,)) for _ in range(2)),
        *values("u1"),
    )
    assert said(await left_by(TruncateOldest(), messages, 20)) == ["u1"]


async def test_a_leading_system_message_goes_alone():
    """A leading system message that is not protected goes alone."""
    messages = (*values("s0"), *rounds("look", "c1"), *values("u2"))
    assert said(await left_by(TruncateOldest(), messages, 30)) == ["look", "c1", "u2"]


async def test_room_for_less_than_the_last_round():
    """In room for less than the last round, the last single message is left."""
    messages = (*values("u1"), *rounds("look", "c1"), *values("a2"))
    assert said(await left_by(TruncateOldest(), messages, 15)) == ["a2"]


@pytest.mark.parametrize(
    ("roles", "pairs", "left"),
    [
        (["tool"], False, {35: "look c1 c2", 45: "look c1 c2 u2"}),
        (["assistant"], False, {35: "look c1 c2", 45: "look c1 c2 u2"}),
        (["user"], False, {25: "u1 u2", 35: "u1 u2", 45: "u1 u2"}),
        ([], False, {5: "", 15: "u2", 25: "u2", 35: "u2", 45: "look c1 c2 u2"}),
        (["tool"], True, {45: "u1 look c1 c2"}),
        (["assistant"], True, {45: "u1 look c1 c2"}),
        (["user"], True, {}),
        ([], True, {5: "", 15: "u2", 25: "u2", 35: "u2", 45: "u2"}),
    ],
)
@pytest.mark.parametrize("tokens", [5, 15, 25, 35, 45])
async def test_protecting_half_a_round_protects_it_whole(tokens, roles, pairs, left):
    """Protecting calls or results protects the whole round, with its question where pairs are kept, or fails."""
    eviction = TruncateOldest(keep_pairs=pairs, protect_roles=roles)
    messages = (*values("u1"), *rounds("look", "c1", "c2"), *values("u2"))
    if tokens in left:
        assert said(await left_by(eviction, messages, tokens)) == left[tokens].split()
    else:
        with pytest.raises(ContextOverflow):
            await left_by(eviction, messages, tokens)


def test_options_that_make_no_sense_are_refused():
    """Options that make no sense are refused."""
    with pytest.raises(ConfigError, match=r"^TruncateOldest\.protect_roles must be a list of roles, got \'user\'$"):
        TruncateOldest(protect_roles="user")
    with pytest.raises(ConfigError, match="min_messages"):
        TruncateOldest(min_messages=-1)
    assert TruncateOldest(protect_roles=["", "user", "user"]).protect_roles == {"user"}


class Recording:
    """A summarizer that remembers what it was asked."""

    def __init__(self, text="in short"):
        self.text, self.asked = text, []

    async def __call__(self, messages, max_tokens):
        """Always the same."""
        self.asked.append((said(messages), max_tokens))
        return self.text


@pytest.mark.parametrize("summarizer", [None, "no", str])
def test_summarize_needs_a_summarizer(summarizer):
    """Without a summarizer there is no such eviction."""
    with pytest.raises(ConfigError, match="async function"):
        Summarize(summarizer)


async def test_what_fits_is_not_summarized():
    """What fits is not summarized, and nobody is asked."""
    summarizer, messages = Recording(), values("u1", "u2")
    assert are(await left_by(Summarize(summarizer), messages, 20), messages)
    assert summarizer.asked == []


async def test_what_does_not_fit_becomes_a_summary():
    """What does not fit becomes one message that says it is a summary; the newest stays, where it fits beside it."""
    summarizer = Recording()
    left = await left_by(Summarize(summarizer), values("u1", "a1", "u2"), 25)
    assert said(left) == ["[Summary of 2 earlier messages]\nin short", "u2"]
    assert summarizer.asked == [(["u1", "a1"], 5)]


async def test_without_room_for_a_summary_nobody_is_asked():
    """Without room for a summary nothing is left, and nobody is asked."""
    summarizer = Recording()
    assert said(await left_by(Summarize(summarizer), values("u1", "u2"), 0)) == []
    assert summarizer.asked == []


class FailingError(Exception):
    """What a summarizer may raise."""


async def failing(messages, max_tokens):
    """A summarizer that fails."""
    del messages, max_tokens
    what = "no connection"
    raise FailingError(what)


async def test_a_summarizers_error_without_a_fallback():
    """A summarizer's error comes through when there is nothing else to do, in its own words."""
    with pytest.raises(FailingError, match="no connection"):
        await left_by(Summarize(failing, fallback=None), values("u1", "u2"), 15)


async def test_a_summarizers_error_with_a_fallback():
    """A summarizer that fails does not fail the build: the block is truncated, and the report says why."""
    slot = await reduced(Summarize(failing, fallback=TruncateOldest()), values("u1", "u2"), 15)
    assert said(slot.out.messages) == ["u2"]
    assert slot.report().notes == ("the summarizer raised FailingError: no connection",)


async def test_a_summary_that_is_too_long_is_cut():
    """A summary that is too long is cut to what fits."""
    messages = tuple(Message("user", (Text("word " * 120),)) for _ in range(5))
    summarize = Summarize(fixed_summarizer("word " * 500), heading="")
    slot = await reduced(summarize, messages, 60, counter=Words())
    (left,) = slot.out.messages
    assert left.text.startswith("word word")
    assert 50 <= slot.out.tokens <= 60


class Words:
    """Counts words."""

    def count(self, text):
        """One token a word."""
        return len(text.split())


async def test_a_summary_that_says_nothing():
    """A summary that says nothing is not sent."""
    slot = await reduced(Summarize(Recording("  "), fallback=TruncateOldest()), values("u1", "u2"), 15)
    assert said(slot.out.messages) == ["u2"]
    assert slot.report().notes == ("the summary was empty",)


@pytest.mark.parametrize(
    ("eviction", "least"),
    [(Strict(), 50), (Drop(), 10), (TruncateOldest(), 10), (DropTail(), 20), (Summarize(Recording()), 10)],
)
@pytest.mark.parametrize("tokens", [50, 40, 30, 20, 10, 5])
async def test_what_must_stay_stays(eviction, least, tokens):
    """What must stay, stays, or the eviction fails."""
    messages = values("u1", "a1", "u2", "a2", "a3")
    if tokens >= least:
        assert messages[2] in await left_by(eviction, messages, tokens, keep=2)
    else:
        with pytest.raises(ContextOverflow):
            await left_by(eviction, messages, tokens, keep=2)


def test_an_eviction_runs_on_either_loop():
    """An eviction needs no event loop of its own."""
    for backend in ("asyncio", "trio"):
        assert anyio.run(left_by, Drop(), values("u1"), 5, backend=backend) == ()


@pytest.mark.parametrize("stage", [Drop(), TruncateOldest(min_messages=40)])
async def test_a_stage_that_takes_all_that_may_go_holds_the_laws(stage):
    """Law 12 is about cuts that come down to an aim: the reason of such a stage names none."""
    messages = [user("the task")]
    for number in range(6):
        messages += [
            assistant("so " * 10, call(f"c{number}", "run", {"n": number})),
            result(f"c{number}", "line " * 150),
        ]
    messages += [assistant("done"), user("and now?")]
    await check_laws(stage, transcript("openai-chat", *messages), Budget(900), "openai-chat")
