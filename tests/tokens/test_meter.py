import anyio
import pytest
from attrs import frozen
from hypothesis import given, strategies as st

from agentctx import Context, Media, Message, Opaque, Text, Thinking, Tool, ToolCall, ToolResult
from agentctx.formats.anthropic import Anthropic
from agentctx.models import ModelProfile
from agentctx.models.table import profile
from agentctx.tokens import FixedCounter, HeuristicCounter, TiktokenCounter
from agentctx.tokens.counting import MessageMeter, default_counter

METER = MessageMeter(TiktokenCounter())
COUNT = TiktokenCounter().count
TEXTS = st.text(max_size=40)
PARTS = st.one_of(
    TEXTS.map(Text),
    TEXTS.map(Thinking),
    st.builds(ToolCall, TEXTS, TEXTS, TEXTS),
    st.builds(lambda text: ToolResult("c1", (Text(text),)), TEXTS),
    st.just(Media("image", url="https://example.org/a.png")),
    TEXTS.map(lambda text: Opaque("unknown", {"type": "unknown", "text": text})),
)
MESSAGES = st.builds(
    Message, st.sampled_from(["user", "assistant", "tool", "system"]), st.lists(PARTS, max_size=4).map(tuple)
)


def words(text, role="user"):
    """A message that says only this."""
    return Message(role, (Text(text),))


def test_request_costs_what_the_cookbook_says():
    """Three tokens a message, its role, its text and its name, and three for the answer's opening."""
    named = Message("user", (Text("Hello there"),), source={"role": "user", "content": "Hello there", "name": "alice"})
    request = Context((words("You are helpful.", "system"), named))
    expected = 3 + 1 + COUNT("You are helpful.") + 3 + 1 + COUNT("Hello there") + 1 + COUNT("alice") + 3
    assert METER.size(request) == expected


@given(messages=st.lists(MESSAGES, max_size=6))
def test_size_is_the_sum_of_its_parts(messages):
    """A request costs its fixed part and each of its messages, and none of them is free."""
    request = Context(tuple(messages))
    assert METER.size(request) == METER.fixed(request) + sum(map(METER.message, messages))
    assert all(METER.message(each) >= 3 for each in messages)


@given(message=MESSAGES, text=st.text(min_size=1, max_size=40))
def test_saying_more_never_costs_less(message, text):
    """A message with a part more costs more tokens and more bytes."""
    more = message.with_parts((*message.parts, Text(text)))
    assert METER.message(more) > METER.message(message)
    assert METER.weight(more) == METER.weight(message) + len(text.encode("utf-8", "surrogatepass"))


def test_parts_of_every_kind_cost():
    """Calls cost name and arguments, results what they hold, media their formula, unknown blocks their JSON."""
    parts = (
        ToolCall("c1", "read_file", '{"path": "/etc/hosts"}'),
        ToolResult("c1", (Text("127.0.0.1 localhost"),)),
        Media("image", url="https://example.org/a.png"),
        Opaque("citation", {"type": "citation", "text": "some words"}),
        Thinking("let me think"),
        Thinking("", encrypted="A" * 4_000),
    )
    least = [COUNT("read_file") + 9, COUNT("127.0.0.1 localhost"), 765, COUNT("some words") + 5, 3, 660]
    assert all(METER.parts((part,)) >= tokens for part, tokens in zip(parts, least, strict=True))


def test_text_in_many_parts_costs_each():
    """The parts of a message add up."""
    assert METER.parts((Text("one two"), Text("three"))) == COUNT("one two") + COUNT("three")


class Unknown:
    """A value that JSON does not know."""


@pytest.mark.parametrize("data", [None, {}, [], Unknown(), {1: {2}}, {("a",): 1}, float("nan"), "\ud800", b"bytes"])
def test_blocks_that_are_not_json_cost_something(data):
    """An unknown block of any shape costs at least a token and does not raise."""
    assert METER.parts((Opaque("odd", data),)) > 0


def test_circular_blocks_cost_something():
    """A block that holds itself is counted without an end."""
    block = {"type": "odd"}
    block["self"] = block
    assert METER.message(Message("user", (Opaque("odd", block),))) > 4


def test_count_is_remembered_on_the_message():
    """A message is counted once; meters that count alike share what it remembers, others do not."""

    @frozen
    class Once:
        """Counts how often it is asked."""

        asked: list[str] = []  # noqa: RUF008 - what the test looks at

        def count(self, text, /):
            self.asked.append(text)
            return 1

        def __hash__(self):
            return 1

    message, counter = words("hello"), Once()
    first = MessageMeter(counter)
    for meter in (first, first, MessageMeter(counter)):
        assert meter.message(message) == 5
    assert counter.asked == ["user", "hello"]
    assert MessageMeter(FixedCounter(7)).message(message) == 7
    assert first.message(message) == 5


def test_counters_without_a_hash_can_be_used():
    """A counter that cannot be hashed counts as well, without sharing."""

    class Unhashable:
        """Counts characters."""

        __hash__ = None

        def count(self, text, /):
            return len(text)

    assert MessageMeter(Unhashable()).message(words("hello")) == 3 + len("user") + 5


def test_equal_meters_share():
    """Equal counters, profiles and formats count under one key; another format under another."""
    assert MessageMeter(TiktokenCounter())._key is METER._key
    assert MessageMeter(TiktokenCounter(), overheads=Anthropic().overheads)._key is not METER._key
    assert MessageMeter(TiktokenCounter(), profile("gpt-4o"))._key is not METER._key


def test_model_chooses_the_counter():
    """The default counter of a model has its encoding; where the tokenizer is not public, with a known correction."""
    exact = {name: default_counter(name) for name in (None, "gpt-4", "gpt-5.4", "nobody-knows")}
    assert {name: counter.encoding for name, counter in exact.items()} == {
        None: "o200k_base",
        "gpt-4": "cl100k_base",
        "gpt-5.4": "o200k_base",
        "nobody-knows": "o200k_base",
    }
    corrected = {
        "claude-3-5-sonnet-20241022": 120,
        "claude-3-7-sonnet": 120,
        "claude-sonnet-4-5": 120,
        "claude-opus-4-7": 150,
        "claude-opus-5": 150,
        "gemini-2.5-pro": 110,
    }
    assert {name: default_counter(name).percent for name in corrected} == corrected


def test_claude_charges_for_tools():
    """With tools Anthropic adds a published number of tokens; without it adds none."""
    meter = MessageMeter(TiktokenCounter(), profile("claude-opus-4-7"), Anthropic().overheads)
    bare, tool = Context((words("hi"),)), Tool("t", "", {"type": "object"})
    assert 675 < meter.fixed(Context(bare.messages, None, (tool,))) - meter.fixed(bare) < 700


def test_system_apart_is_counted():
    """A system prompt that is kept apart costs like a message."""
    system = words("You are helpful.", "system")
    meter = MessageMeter(TiktokenCounter(), overheads=Anthropic().overheads)
    with_it, without = Context((words("hi"),), system), Context((words("hi"),))
    assert meter.fixed(with_it) - meter.fixed(without) == meter.message(system)
    assert meter.bytes(with_it) - meter.bytes(without) == len("You are helpful.")


def test_changed_tools_are_counted_again():
    """Tools that were changed in place, or replaced, are counted anew."""
    parameters = {"type": "object", "properties": {"a": {"type": "string"}}}
    before = METER.fixed(Context((), None, (Tool("t", "does", parameters),)))
    assert before == METER.fixed(Context((), None, (Tool("t", "does", dict(parameters)),)))
    parameters["properties"]["b"] = {"type": "string", "description": "another one"}
    assert METER.fixed(Context((), None, (Tool("t", "does", parameters),))) > before


def test_old_models_pay_more_for_tools():
    """Models on cl100k_base pay three tokens more for each tool, by the cookbook."""
    tools = Context((), None, (Tool("t"), Tool("u")))
    sizes = [
        MessageMeter(HeuristicCounter(), ModelProfile("m", name)).fixed(tools) for name in ("cl100k_base", "o200k_base")
    ]
    assert sizes[0] - sizes[1] == 6


def test_inline_media_count_as_bytes():
    """The bytes of a request hold its inline media, its text as UTF-8 and its tools."""
    message = Message("user", (Text("é"), Media("image", data="A" * 1_000)))
    assert METER.bytes(Context((message,))) == 1_002
    assert METER.bytes(Context((message,), None, (Tool("t"),))) > 1_002


@pytest.mark.anyio
@pytest.mark.both_loops
async def test_little_is_counted_at_once():
    """A few small messages are counted without leaving the event loop's thread, nor letting others run."""
    others = []
    async with anyio.create_task_group() as group:
        group.start_soon(note, others)
        messages = [words(f"small message {number}") for number in range(5)]
        await METER.settle(messages)
        assert others == []
    assert all(message.counted[0] is METER._mark for message in messages)


async def note(others):
    """Say that another task has run."""
    others.append("ran")


@pytest.mark.anyio
@pytest.mark.both_loops
async def test_much_is_counted_beside_the_loop(anyio_backend):
    """While megabytes are counted, other tasks go on running."""
    messages = [words(f"{anyio_backend} {number} " + "many words that go on and on, " * 40_000) for number in range(2)]
    steps, done = [], anyio.Event()

    async def tick():
        while not done.is_set():
            steps.append(len(steps))
            await anyio.sleep(0.001)

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        await METER.settle(messages)
        done.set()
    assert len(steps) > 2
    assert all(message.counted[1] > 200_000 for message in messages)


@pytest.mark.anyio
async def test_thread_counts_the_same():
    """What is counted in a thread is what is counted on the loop."""
    messages = [words("a story, and another. " * 5_000) for _ in range(3)]
    await METER.settle(messages)
    assert [METER.message(each) for each in messages] == [4 + COUNT("a story, and another. " * 5_000)] * 3


def test_settled_messages_are_only_looked_at(work):
    """To settle what is settled takes no call for each message, and waits for nothing."""
    messages = [words(f"message {number}") for number in range(5_000)]
    anyio.run(METER.settle, messages)

    def settle():
        with pytest.raises(StopIteration):
            METER.settle(messages).send(None)

    assert work(settle) < 500


@pytest.mark.anyio
@pytest.mark.both_loops
async def test_many_small_messages_do_not_hold_the_loop():
    """Thousands of tiny messages are much work too, and are counted beside the loop."""
    ran = []
    async with anyio.create_task_group() as group:
        group.start_soon(note, ran)
        await METER.settle([Message("user", (Opaque("x", {"n": [number]}),)) for number in range(2_000)])
        assert ran == ["ran"]
