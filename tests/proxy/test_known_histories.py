"""Conversations are told apart by their histories alone."""

from itertools import chain, cycle

import anyio
import pytest
from hypothesis import given, settings, strategies as st

from agentctx.clients.model_call import Incoming
from agentctx.errors import StoreUnavailable
from agentctx.formats.registry import RequestParts, format_named
from agentctx.proxy import Histories, SharedHistories
from agentctx.session.blocking import drive
from agentctx.session.conversations import history_of
from agentctx.stores import MemoryStore
from agentctx.testing import assistant, call, result, transcript, user

TASK = {"role": "user", "content": "Why does the build fail?"}


def said(*texts):
    """Messages that take turns after the task."""
    roles = ("assistant", "user")
    return [TASK, *({"role": roles[place % 2], "content": text} for place, text in enumerate(texts))]


def shown(request, caller, size=0, format_name="anthropic"):
    return history_of(request, caller, format_named(format_name), size)


def found(histories, messages, system="Be brief.", caller="one", format_name="anthropic"):
    return drive(histories.find(shown(RequestParts(messages, system), caller, format_name=format_name)))


def test_a_history_that_goes_on_is_the_same_conversation():
    """Each request that begins with what was shown last belongs to the conversation that showed it."""
    histories = Histories()
    names = {found(histories, said(*"abcdef"[:length])).name for length in (0, 2, 4, 4, 6)}
    assert len(names) == len(histories) == 1


def test_the_same_task_twice_is_two_conversations_from_where_they_differ():
    """Two that begin alike are told apart by their first answers, and stay so, in whatever order they come."""
    histories = Histories()
    found(histories, said())
    found(histories, said())
    one, two = found(histories, said("a", "b")).name, found(histories, said("x", "y")).name
    assert one != two
    assert found(histories, said("x", "y", "z", "z")).name == two
    assert found(histories, said("a", "b", "c", "d")).name == one


def test_a_branch_begins_with_what_its_conversation_decided():
    """A history that leaves a known one after its task is a new conversation, branched off from it."""
    histories = Histories()
    trunk = [found(histories, said(*"abcdef"[:length])) for length in (0, 2, 4, 6)][-1]
    branch = found(histories, said("a", "b", "c", "D"))
    assert (branch.name != trunk.name, branch.branches_off) == (True, trunk.name)
    assert found(histories, said(*"abcdefgh")).name == trunk.name
    assert found(histories, said("a", "b", "c", "D", "e", "f")).name == branch.name
    assert found(histories, said("q", "r")).branches_off is None


def test_other_keys_and_other_prompts_are_other_conversations():
    """The same words under another key never meet; under another prompt only where more than the task is the same."""
    histories = Histories()
    one = found(histories, said("a", "b"))
    assert found(histories, said("a", "b"), caller="two").name != one.name
    assert found(histories, said("a", "b", "c", "d"), system="It is 12:01.").name == one.name
    begun = found(histories, said())
    assert found(histories, said(), system="You name topics.").name != begun.name


def test_what_moves_in_requests_does_not_matter():
    """Cache markers, which clients move from step to step, and text in a block of its own, change no conversation."""
    histories = Histories()
    marked = {"type": "text", "text": TASK["content"], "cache_control": {"type": "ephemeral"}}
    one = found(histories, [{"role": "user", "content": [marked]}])
    assert found(histories, said("a", "b")).name == one.name


def reminded(rounds, kind, who="one"):
    """A history of so many rounds, as a client shows it that says something for this call alone."""
    messages, now = [TASK], f"This is step {rounds} of {who}."
    for number in range(rounds):
        answer, output = f"{who} looks for {number}", {"type": "tool_result", "tool_use_id": "t", "content": "ok"}
        messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": [output]}]
    said = {"role": "user", "content": now}
    if kind == "block" and rounds:
        return [*messages[:-1], {"role": "user", "content": [output, {"type": "text", "text": now}]}]
    if kind == "found" and rounds:  # for a question, which stays
        question = {"role": "user", "content": f"{who} asks {rounds}"}
        asked = [each for each in messages if each["role"] == "assistant"]
        return [TASK, *chain(*zip(asked, questions(who, rounds - 1), strict=False)), asked[-1], said, question]
    return [*messages, *([said] if kind == "reminder" else [])]


def questions(who, number):
    return [{"role": "user", "content": f"{who} asks {each + 1}"} for each in range(number)]


@pytest.mark.parametrize("kind", ["reminder", "block", "found"])
@pytest.mark.parametrize("shared", [False, True], ids=["here", "store"])
def test_what_is_said_for_one_call_alone_makes_no_other_conversation(kind, shared):
    """Words that stand at the end of a request and not in the next, of two that take turns: each stays what it is."""
    histories = SharedHistories(MemoryStore()) if shared else Histories()
    names = {"one": set(), "two": set()}
    for rounds in range(1, 6):
        for who, seen in names.items():
            seen.add(found(histories, reminded(rounds, kind, who)).name)
    assert [1, 1] == [len(each) for each in names.values()]
    assert names["one"] != names["two"]


WORDS_BEHIND = {
    "anthropic": ("content", {"type": "text", "text": "step {}"}),
    "bedrock": ("content", {"text": "step {}"}),
    "gemini": ("parts", {"text": "step {}"}),
}
"""Where results and words may stand in one message: where its parts are, and what a text looks like there."""


@pytest.mark.parametrize("beside", [False, True], ids=["apart", "beside"])
@pytest.mark.parametrize("format_name", ["openai-chat", "openai-responses", *WORDS_BEHIND])
def test_words_for_one_call_alone_are_known_in_every_format(format_name, beside):
    """Behind results, in a message of their own or in that of the results: the next request shows them no more."""
    histories, names = Histories(), {"one": set(), "two": set()}
    for rounds in range(1, 5):
        for who, seen in names.items():
            turns = [user("task")]
            for number in range(rounds):
                turns += [assistant(f"{who} looks", call(f"{who}{number}", "read")), result(f"{who}{number}", "ok")]
            messages = transcript(format_name, *turns)
            if beside and format_name in WORDS_BEHIND:
                key, words = WORDS_BEHIND[format_name]
                said = {name: value.format(rounds) if name == "text" else value for name, value in words.items()}
                messages[-1] = {**messages[-1], key: [*messages[-1][key], said]}
            else:
                messages += transcript(format_name, user(f"step {rounds}"))
            seen.add(found(histories, messages, format_name=format_name).name)
    assert [1, 1] == [len(each) for each in names.values()]
    assert names["one"] != names["two"]


@pytest.mark.parametrize("shared", [False, True], ids=["here", "store"])
def test_other_words_behind_the_same_answer_are_a_branch(shared):
    """Two that ask something else after an equal answer are two conversations; the later begins as both do."""
    histories = SharedHistories(MemoryStore()) if shared else Histories()
    one, two = found(histories, said("hello", "mine")), found(histories, said("hello", "its"))
    assert (one.name != two.name, two.branches_off) == (True, one.name)
    for who, word in ((one, "mine"), (two, "its")):
        assert found(histories, said("hello", word, f"of {word}", "on")).name == who.name


def test_what_is_forgotten_is_said():
    """Above a number of conversations or of bytes those unused for longest go, and nothing of them is kept."""
    histories = Histories(most=10, most_bytes=1_000)
    gone = []
    for number in range(50):
        asked = RequestParts([{"role": "user", "content": str(number)}, *said("a", "b")])
        gone += drive(histories.find(shown(asked, "one", 300))).forgotten
    assert (len(histories), len(gone)) == (3, 47)
    assert 3 == len({known.name for here in histories._at.values() for known in here})


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=60))
def test_no_two_conversations_are_mixed_up(steps):
    """However five conversations with one task take turns, retry, and go on, each keeps a name of its own."""
    histories, texts, names = Histories(), {each: [] for each in range(5)}, {}
    for talker, retries in steps:
        if not retries:
            texts[talker] += [f"answer to {talker}", f"result {len(texts[talker])}"]
        name = found(histories, said(*texts[talker])).name
        if texts[talker]:
            assert names.setdefault(talker, name) == name
    assert len(set(names.values())) == len(names)


def test_a_caller_is_known_by_its_key_and_not_by_its_signature():
    """A key in a header or in the query tells callers apart; what AWS signs anew each time does not."""

    def caller(value, name=b"authorization", query=b""):
        return Incoming("POST", "/v1/messages", query, [(name, value)]).caller()

    signed = b"AWS4-HMAC-SHA256 Credential=%s/20261123/eu-west-1/bedrock/aws4_request, SignedHeaders=host, Signature=%s"
    assert caller(signed % (b"AKIAONE", b"0a")) == caller(signed % (b"AKIAONE", b"0b"))
    others = [caller(signed % (b"AKIATWO", b"0a")), caller(b"Bearer sk-one"), caller(b"Bearer sk-two")]
    others += [caller(b"sk-one", b"x-api-key"), caller(b"", b"accept", b"key=one"), caller(b"", b"accept", b"key=two")]
    assert len({*others, caller(signed % (b"AKIAONE", b"0a"))}) == 7
    assert not any("sk-one" in each or "AKIA" in each for each in others)


@pytest.mark.anyio
async def test_workers_find_each_others_conversations():
    """Workers that share a store give one conversation one name, whoever is asked, and two never the same."""
    store = MemoryStore()
    workers = cycle([SharedHistories(store), SharedHistories(store)])

    async def asked(*texts, caller="one"):
        history = shown(RequestParts(said(*texts), "Be brief."), caller)
        return (await next(workers).find(history)).name

    assert await asked() == await asked()
    one, two = await asked("a", "b"), await asked("x", "y")
    assert one != two
    assert (await asked("a", "b", "c", "d"), await asked("x", "y", "z", "z")) == (one, two)
    assert await asked("a", "b", "c", "d", "e", "f") == one
    assert await asked("x", "y", "z", "z", caller="two") not in (one, two)
    names = []
    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(_noted, names, asked("x", "y", "z", "z", str(number), "q"))
    assert len(set(names)) == 20
    assert names.count(two) == 1


async def _noted(names, asked):
    names.append(await asked)


@pytest.mark.anyio
async def test_a_store_that_fails_costs_no_request():
    """Where the store does not answer, a worker goes on with what it has seen itself."""

    class Broken:
        async def load_state(self, _name):
            what = "down"
            raise StoreUnavailable(what)

    worker = SharedHistories(Broken())
    names = {(await worker.find(shown(RequestParts(said(*"abcd"[:n])), "one"))).name for n in (0, 2, 4)}
    assert len(names) == 1
