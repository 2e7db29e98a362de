"""What is asked of evictions, formatters, summarizers and extractors, and how an error names who broke it and where."""

import pytest
from attrs import evolve, frozen
from blocks import block, builder, built, chat, said

from agentctx import (
    Budget,
    Context,
    ContextOverflow,
    InvalidInput,
    Message,
    Outcome,
    StageError,
    Text,
    Thinking,
    ToolCall,
)
from agentctx.builder import Block, ContextBuilder, Eviction, Tier
from agentctx.builder.blocks import concatenate
from agentctx.strategies import Drop, Strict, Summarize, TruncateOldest
from agentctx.tokens import FixedCounter

pytestmark = pytest.mark.anyio


def the_last(context, _call):
    """Messages where a context is expected."""
    return context.messages[-1:]


def last_of(messages, _max_tokens):
    """The same as a summarizer."""
    return messages[-1:]


async def one_by_one(context, _call):
    """An async generator where an async function is needed."""
    for message in context.messages:
        yield message


@pytest.mark.parametrize(("evict", "gave"), [(the_last, "tuple"), (one_by_one, "async_generator")])
async def test_a_stage_that_returns_no_context(evict, gave):
    """The error names it, its block and what it returned."""
    made = builder(15, block("a", chat("u1", "u2"), evict))
    with pytest.raises(StageError, match=f"{evict.__name__} of block 'a': returned {gave} instead of a Context"):
        await made.build()
    assert made.report.evictions == {"a": "rejected"}
    assert made.report.original_tokens == 20


async def test_a_formatter_that_is_not_async():
    """A plain function is no formatter."""
    with pytest.raises(StageError, match="plainly: is not async: calling it gave list"):
        await built(100, block("a", chat("u1")), formatter=plainly)


def plainly(sections):
    """The messages."""
    return [message for section in sections for message in section.messages]


async def test_a_formatter_that_raises():
    """An error of a formatter comes through as it is and says who raised it; the report is filled."""

    async def dividing(sections):
        return len(sections) // 0

    made = builder(15, block("a", chat("u1", "u2"), Drop()), block("b", chat("s1")), formatter=dividing)
    with pytest.raises(ZeroDivisionError) as caught:
        await made.build()
    assert caught.value.__notes__ == ["while the formatter dividing was running"]
    assert (made.report.evictions, made.report.used_tokens) == ({"a": "dropped"}, 10)
    assert made.report.error.startswith("ZeroDivisionError")


async def test_a_summarizer_that_is_not_async():
    """A plain function is no summarizer: that is a mistake to be mended, not a failure to fall back from."""
    with pytest.raises(StageError, match="last_of of Summarize: is not async: calling it gave tuple"):
        await built(25, block("a", chat("u1", "a1", "u2"), Summarize(last_of), tier=Tier.HISTORY))


async def test_an_extractor_that_is_not_async():
    """A plain function is no fact extractor."""
    talk = block("h", chat("u1", "a1", "u2"), TruncateOldest(), tier=Tier.HISTORY)
    with pytest.raises(StageError, match="FactExtractor: is not async: calling it gave list"):
        await builder(25, talk, facts=listing).build()


def listing(messages):
    """The texts."""
    return [message.text for message in messages]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda _: [Message("nobody", (Text("x"),))], r"messages\[0\].role of what it returned is 'nobody'"),
        (
            lambda m: [m[0], m[1].with_parts(("x",))],
            r"messages\[1\].parts\[0\] of what it returned is no part, but str",
        ),
        (lambda m: [m[0], 7], r"messages\[1\] of what it returned is no Message, but int"),
        (lambda m: m[0], "returned Message instead of a Context"),
        (tuple, "returned tuple instead of a Context"),
        (lambda m: Context(m[:1], Message("system", (Text("x"),))), "returned a system prompt or tools"),
        (lambda m: [Message("assistant", (ToolCall("c9", "look", "{}"),)), m[0]], "broke a pair"),
    ],
)
async def test_what_an_eviction_may_not_return(answer, says):
    """The stage of a block returns a context of messages that a provider knows, and nothing beside."""

    async def mine(context, _call):
        made = answer(context.messages)
        return context.with_messages(made) if isinstance(made, list) else made

    with pytest.raises(StageError, match=f"stage mine of block 'a': {says}"):
        await built(25, block("a", chat("u1", "u2", "u3"), mine))


THOUGHT = {"type": "thinking", "thinking": "let me see", "signature": "c2lnbmVk"}
THINKING = [
    *chat("u1"),
    {"role": "assistant", "content": [THOUGHT, {"type": "text", "text": "a1"}]},
    *chat("u2"),
]


def reworded(message):
    """The message with other reasoning under the old signature."""
    parts = (evolve(part, text="hm") if isinstance(part, Thinking) else part for part in message.parts)
    return message.with_parts(tuple(parts))


def anew(message):
    """The same as a message of one's own."""
    return Message(message.role, reworded(message).parts)


@pytest.mark.parametrize("change", [reworded, anew])
async def test_signed_reasoning_is_not_edited(change):
    """An eviction drops signed reasoning or keeps it whole; so does a formatter."""

    async def editing(context, _call):
        return context.with_messages((change(context.messages[1]), context.messages[2]))

    async def writing(sections):
        return [change(message) if message.role == "assistant" else message for message in await concatenate(sections)]

    def anthropic(tokens, evict, formatter):
        made = ContextBuilder(Budget(tokens), counter=FixedCounter(10), format="anthropic", formatter=formatter)
        return made.add(Block("h", THINKING, evict=evict))

    with pytest.raises(StageError, match=r"editing of block 'h': edited or made signed reasoning in messages\[0\]"):
        await anthropic(25, editing, concatenate).build()
    with pytest.raises(StageError, match=r"writing: edited or made signed reasoning in messages\[1\]"):
        await anthropic(100, Strict(), writing).build()
    assert (await anthropic(25, TruncateOldest(), concatenate).build()).messages == THINKING[2:]


async def test_an_eviction_that_gives_up():
    """An eviction's own overflow names the block and its figures."""

    async def hopeless(context, call):
        raise ContextOverflow(call.size(context), call.limit)

    with pytest.raises(ContextOverflow, match=r"needs 20 tokens and 15 are available.*block 'a' \(core\) 20") as caught:
        await built(15, block("a", chat("u1", "u2"), hopeless))
    assert caught.value.biggest[0].place == "block 'a'"


@frozen
class Least(Eviction):
    """An eviction with a least of its own."""

    tokens: object

    def least(self, _context, _call):
        """What it was made with."""
        if isinstance(self.tokens, Exception):
            raise self.tokens
        return self.tokens

    async def __call__(self, context, _call):
        """The last message."""
        return context.with_messages(context.messages[-1:])


async def test_a_least_that_fails():
    """An error in working out the least says whose it was."""
    with pytest.raises(OSError, match="no disk") as caught:
        await built(25, block("a", chat("u1"), Least(OSError("no disk"))))
    assert "block 'a'" in caught.value.__notes__[0]


async def test_a_least_above_the_size():
    """A block never needs more than all of it: one that fits is not refused for what its eviction says."""
    assert said((await built(25, block("a", chat("u1", "u2"), Least(1_000)))).messages) == ["u1", "u2"]


async def test_blocks_of_one_name_are_told_apart():
    """Where several blocks have one name, errors and reasons say which it was."""
    docs = [block("doc", chat("u1"), Drop()), block("doc", chat("u2", "u3"), Drop())]
    out = await built(15, *docs)
    assert [change.reason for change in out.report.blocks[1].changes] == [
        "block 'doc' (number 2 of 2 of this name) over 5 tokens"
    ] * 2
    with pytest.raises(ContextOverflow, match=r"block 'doc' \(number 2 of 3 of this name\) \(core\) 50"):
        await built(45, docs[0], block("doc", chat(*(f"u{n}" for n in range(5)))), docs[1])
    with pytest.raises(InvalidInput, match=r"block 'doc' \(number 3 of 3 of this name\), messages\[0\]"):
        await built(45, *docs, block("doc", ["text"]))


async def test_a_summary_that_was_not_written_is_not_reported():
    """When a summarizer fails, the report says what was done instead, and calls nothing summarised."""

    async def failing(_messages, _max_tokens):
        raise ConnectionError

    async def no_words(_messages, _max_tokens):
        return " "

    for summarizer, fallback in (
        (failing, TruncateOldest()),
        (no_words, Drop()),
        (no_words, None),
        (failing, Summarize(no_words, fallback=TruncateOldest())),
    ):
        talk = block("h", chat("u1", "a1", "u2"), Summarize(summarizer, fallback=fallback), tier=Tier.HISTORY)
        report = (await built(25, talk)).report
        assert report.evictions == {"h": "truncated"}
        assert {change.outcome for change in report.blocks[0].changes} == {Outcome.DROPPED}
        assert report.blocks[0].notes


async def test_a_summary_is_reported_again_when_it_is_written():
    """A fallback of an earlier build leaves nothing behind in the next one's report."""
    answers = [ConnectionError("down"), "in short"]

    async def second_time(_messages, _max_tokens):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    made = builder(
        25, block("h", chat("u1", "a1", "u2"), Summarize(second_time, fallback=TruncateOldest()), tier=Tier.HISTORY)
    )
    assert (await made.build()).report.evictions == {"h": "truncated"}
    out = await made.build()
    assert (out.report.evictions, out.report.blocks[0].notes) == ({"h": "summarized"}, ())
