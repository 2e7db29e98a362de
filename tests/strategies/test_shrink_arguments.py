"""Long arguments of old edits and writes."""

import json
from functools import partial

import pytest
from histories import NAMES, broken_histories, budgets, histories
from hypothesis import given, strategies as st

from agentctx import Budget, ConfigError, Message, Pipeline, Protect, Text, ToolCall, count
from agentctx.engine.shrink import cut_arguments
from agentctx.recall import Recall
from agentctx.stores import MemoryStore
from agentctx.strategies import DropSuperseded, ShrinkArguments
from agentctx.testing import assistant, call, check_laws, result, transcript, user

pytestmark = pytest.mark.anyio

PROGRAM = "\n".join(f"    total += price_{number} * amount  # position {number}" for number in range(60))


def agent(*calls, answers=(), after=()):
    """A task, and a round for each call of a tool with these arguments."""
    turns = [user("the task")]
    for number, (tool, arguments) in enumerate(calls):
        answer = answers[number] if number < len(answers) else "ok"
        turns += [assistant(call(f"c{number}", tool, arguments)), result(f"c{number}", answer)]
    return transcript("openai-chat", *turns, *(after or (assistant("done"), user("go on"))))


def writes(count):
    """So many calls that write a file."""
    return [("write", {"path": f"{number}.py", "content": PROGRAM}) for number in range(count)]


def contents(messages):
    """The contents that the calls write."""
    calls = [each["function"] for message in messages for each in message.get("tool_calls") or ()]
    return [json.loads(each["arguments"])["content"] for each in calls]


async def shrunk(messages, stage=None, **options):
    """The messages that are sent."""
    return (await Pipeline(stage or ShrinkArguments(0), **options).prepare(messages)).messages


FAILED = [
    "Error: permission denied",
    "Permission denied",
    '{"output":"patch does not apply","metadata":{"exit_code":1,"duration_seconds":0.1}}',
    "Exit code: 1\nWall time: 0.1 seconds\nOutput:\npatch does not apply",
    'Traceback (most recent call last):\n  File "w.py", line 3, in <module>\nPermissionError: a.py',
]


@pytest.mark.parametrize("answer", FAILED)
async def test_what_failed_stays_also_where_only_the_words_say_so(answer):
    """What was not written cannot be read again, and what was read of the file is as it was."""
    read = ("read", {"path": "0.py"})
    messages = agent(read, *writes(1), answers=[PROGRAM, answer])
    assert await shrunk(messages) == messages
    assert await shrunk(messages, DropSuperseded(stale=True)) == messages


@given(
    st.recursive(
        st.sampled_from(("1.10", "1E5", "0.1000000000000000055511151231257827", '"\\u00e9\\/"', "null", '"x"')),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map(lambda items: "[ " + ",".join(items) + "]"),
            st.lists(st.tuples(st.sampled_from(('"a"', '"b" ')), inner), max_size=3).map(
                lambda items: "{" + ",  ".join(f"{key}:{value}" for key, value in items) + "}"
            ),
        ),
    )
)
def test_only_long_strings_are_written_anew(value):
    """Numbers, repeated keys, blanks and escapes stay as they are written beside a string that is cut."""
    arguments = f'{{"v": {value}, "content": "{"x " * 90}"}}'
    message = Message("assistant", (ToolCall("a", "write", arguments),))
    (made,) = cut_arguments(message, lambda text: Text(text.text[:5])).calls
    assert made.arguments == arguments.replace("x " * 90, "x x x")


@given(histories(), budgets())
def test_the_laws(both_loops, history, budget):
    """The stage keeps the laws on any transcript."""
    stage = ShrinkArguments(0, max_tokens=2, tools=NAMES)
    both_loops(partial(check_laws, stage, history.messages, budget, history.format, history.system, history.tools))


@given(broken_histories(), budgets())
def test_the_laws_on_broken_histories(both_loops, history, budget):
    """The stage keeps the laws on transcripts that had to be repaired."""
    stage = ShrinkArguments(0, max_tokens=2, tools=NAMES)
    both_loops(partial(check_laws, stage, history.messages, budget, history.format, history.system, history.tools))


async def test_old_writes_keep_head_and_tail():
    """Of long strings in old writes head and tail stay; short ones, and the newest calls, stay as they are."""
    sent = contents(await shrunk(agent(*writes(4)), ShrinkArguments(2)))
    assert [each == PROGRAM for each in sent] == [False, False, True, True]
    assert sent[0].startswith(PROGRAM[:40])
    assert sent[0].endswith(PROGRAM[-40:])
    assert "characters omitted" in sent[0]


async def test_other_calls_stay():
    """A call that reads, or asks, stays however long; those of one's own tools go when they are named."""
    messages = agent(("read", {"content": PROGRAM}), ("think", {"content": PROGRAM}))
    assert contents(await shrunk(messages)) == [PROGRAM, PROGRAM]
    named = contents(await shrunk(messages, ShrinkArguments(0, tools={"think"})))
    assert [each == PROGRAM for each in named] == [True, False]


async def test_what_was_written_by_a_shell_is_cut():
    """A command that writes a file is such a call, too."""
    messages = agent(("bash", {"command": f"cat > app.py <<'EOF'\n{PROGRAM}\nEOF"}))
    [sent] = [each["tool_calls"][0]["function"]["arguments"] for each in await shrunk(messages) if "tool_calls" in each]
    assert len(sent) < len(PROGRAM) / 2
    assert json.loads(sent)["command"].startswith("cat > app.py <<'EOF'")


async def test_calls_that_failed_or_were_not_read_stay():
    """What was not written cannot be read again: such calls stay, and so do those whose answer nobody has read."""
    assert contents(await shrunk(agent(*writes(1), answers=["Error: no such folder"]))) == [PROGRAM]
    unread = agent(*writes(2))[:-2]
    assert [each == PROGRAM for each in contents(await shrunk(unread))] == [False, True]
    assert contents(await shrunk(agent(*writes(1)), protect=[Protect.pins(1)])) == [PROGRAM]


async def test_no_more_is_cut_than_must():
    """With a budget the oldest are cut until the request fits; what fits stays as it is."""
    messages = agent(*writes(4))
    size = count(messages)
    assert contents(await shrunk(messages, budget=Budget(size + 10))) == [PROGRAM] * 4
    sent = contents(await shrunk(messages, budget=Budget(size - 700)))
    assert [each == PROGRAM for each in sent] == [False, True, True, True]


async def test_what_saves_no_tokens_stays():
    """Where the mark takes as many tokens as what it stands for, the call stays the caller's own."""
    messages = agent(("write", {"path": "a", "content": "one two three four five six"}))
    sent = await shrunk(messages, ShrinkArguments(0, max_tokens=5))
    for before, after in zip(messages, sent, strict=True):
        assert after is before or count([after]) < count([before])


async def test_what_was_written_can_be_had_back():
    """The mark names the handle of the whole call where the model has the recall tool."""
    store, messages = MemoryStore(), agent(*writes(1))
    recall = Recall(store)
    view = await Pipeline(ShrinkArguments(0), store=store).prepare(messages, tools=[recall.definition("openai-chat")])
    [content] = contents(view.messages)
    handle = content.partition("; recall ")[2].partition(" …]")[0].partition("]")[0].strip()
    assert "position 30" in await recall({"handle": handle})
    [change] = view.report.changes
    assert json.loads(await store.get(change.handle)) == messages[1]


def test_calls_are_cut_by_choice():
    """Of several calls in a message only those that are asked for are cut."""
    first, second = ToolCall("a", "write", '{"t": "long text"}'), ToolCall("b", "write", '{"t": "long text"}')
    made = cut_arguments(
        Message("assistant", (first, second)), lambda text: Text(text.text[:4]), lambda part: part.id == "b"
    )
    assert made.calls == (first, ToolCall("b", "write", '{"t": "long"}'))


@pytest.mark.parametrize("options", [{"keep_last": -1}, {"keep_last": True}, {"max_tokens": 0}, {"tools": "write"}])
def test_options_that_make_no_sense_are_refused(options):
    """Options are checked when the stage is built."""
    with pytest.raises(ConfigError, match=r"^ShrinkArguments\.\w+ must be .*, got "):
        ShrinkArguments(**options)
