"""What is cut again, step after step, says once what is missing and how to get it back; all else stays the caller's."""

import json
import re

import pytest

from agentctx import Budget, ClearToolResults, FitContextWindow, Ledger, Pipeline, Session
from agentctx.marks import without_marks
from agentctx.presets import coding_agent
from agentctx.recall import Recall
from agentctx.stores import MemoryStore
from agentctx.testing import assistant, call, result, transcript, user
from agentctx.tokens import TiktokenCounter
from agentctx.tokens.counting import MessageMeter

WORDS = [
    "build",
    "fails",
    "when",
    "module",
    "alpha",
    "imports",
    "beta",
    "because",
    "config",
    "retries",
    "is",
    "missing",
]


def said(number, words):
    """What the user says in one turn: so many words, of which no two turns say the same."""
    return " ".join([f"turn{number}", *(WORDS[(number * 7 + place * place) % len(WORDS)] for place in range(words))])


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["full", "written back", "loaded"])
@pytest.mark.parametrize(
    ("preset", "format_name", "window", "words"), [(True, "openai-chat", 4000, 153), (False, "anthropic", 1800, 120)]
)
async def test_no_marker_is_cut_with_the_text_around_it(preset, format_name, window, words, mode):
    """One whole marker stands in a message of the user that is cut again, and by its handle there is all of it."""
    budget, store = Budget(window=window, trigger=0.8, target=0.5), MemoryStore()
    recall = Recall(store)
    stages = coding_agent(budget).stages if preset else (FitContextWindow(), Ledger())
    pipeline = Pipeline(*stages, budget=budget, store=store)
    session = pipeline.session(format=format_name)
    turns, view, known, cut = [user("Mend the shop.")], None, 0, {}
    for number in range(36):
        turns += [
            assistant(call(f"c{number}", "read", {"path": f"a{number}.py"})),
            result(f"c{number}", "line of output " * 30),
            assistant("done"),
            user(said(number, words)),
        ]
        history = transcript(format_name, *turns)
        shown = history if view is None or mode != "written back" else [*view.messages, *history[known:]]
        known = len(history)
        view = await session.prepare(shown, tools=[recall.definition(format_name)])
        if mode == "loaded":
            session = Session.load(pipeline, session.dump())
        pairs = [(each, shown[at]) for each, at in zip(view.messages, view.origins, strict=True) if at is not None]
        assert all(each is given for each, given in pairs if each == given)
        for message in view.context.messages:
            if message.role == "user" and "[…" in message.text and not message.as_recap:
                assert message.text.count("[…") == 1
                assert "…" not in "".join(without_marks(part) for part in message.parts)
                if (found := re.search(r"recall ([0-9a-f]{16}) …\]", message.text)) is not None:
                    cut[message.text] = found[1]
    assert cut
    for text, handle in cut.items():
        turn = re.match(r"turn(\d+)", text)
        assert turn is None or said(int(turn[1]), words) in await recall({"handle": handle})


def contents(messages):
    """What the calls of chat messages write, by the identity of the call."""
    calls = [each for message in messages for each in message.get("tool_calls") or ()]
    return {each["id"]: json.loads(each["function"]["arguments"])["content"] for each in calls}


@pytest.mark.anyio
@pytest.mark.parametrize(("window", "lines"), [(3000, [85, 85, 85]), (1500, [60, 500])])
async def test_cut_arguments_name_the_handle_of_what_they_were(window, lines):
    """The arguments of old calls, and those that stay but are larger than the window, say how to get back all."""
    store = MemoryStore()
    recall, budget = Recall(store), Budget(window=window)
    turns = [user("Mend the shop.")]
    for number, many in enumerate(lines):
        written = "\n".join(f"line {line} of file {number}: value_{line * 37}" for line in range(many))
        turns += [
            assistant(call(f"c{number}", "Write", {"file_path": f"src/m{number}.py", "content": written})),
            result(f"c{number}", "File written"),
        ]
    history = transcript("openai-chat", *turns)
    pipeline = Pipeline(*coding_agent(budget).stages, budget=budget, store=store)
    view = await pipeline.prepare(history, tools=[recall.definition("openai-chat")], model="gpt-5.4")
    whole, sent = contents(history), contents(view.messages)
    cut = [each for each, content in sent.items() if content != whole[each]]
    assert cut
    for each in cut:
        handle = re.search(r"characters omitted; recall ([0-9a-f]{16}) …\]", sent[each])[1]
        message = json.loads(await store.get(handle))
        assert contents([message]) == {each: whole[each]}


SHORT = "Everything that the file shall say has been written to it, line by line."


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", ["openai-chat", "anthropic"])
@pytest.mark.parametrize("stages", [(FitContextWindow(),), (ClearToolResults(0), FitContextWindow())])
async def test_no_message_is_larger_for_what_was_cut_from_it(stages, format_name):
    """A result that says less than its marker with a handle would stays as it is."""
    store, meter = MemoryStore(), MessageMeter(TiktokenCounter())
    turns = [user("Mend the shop.")]
    for number in range(40):
        name = f"c{number}"
        turns += [assistant(call(name, "read")), result(name, SHORT[: 30 + number])]
        turns += [assistant(call(f"d{number}", "read")), result(f"d{number}", f"line {number} of output " * 30)]
    history, tools = transcript(format_name, *turns), [Recall(store).definition(format_name)]
    for window in range(6_000, 1_500, -700):
        pipeline = Pipeline(*stages, budget=Budget(window), store=store)
        view = await pipeline.prepare(history, tools=tools, format=format_name)
        whole = (await Pipeline().prepare(history, format=format_name)).context.messages
        pairs = [
            (meter.message(message), meter.message(whole[index]))
            for message, index in zip(view.context.messages, view.origins, strict=True)
            if index is not None
        ]
        assert all(now <= before for now, before in pairs)
        assert any(now < before for now, before in pairs)


@pytest.mark.anyio
async def test_a_cache_marker_that_is_one_too_many_goes_from_what_is_cut_again():
    """A view written back has no fifth marker, where the oldest stands behind a result cut before and one cut now."""
    store = MemoryStore()
    tools = [Recall(store).definition("anthropic")]
    lines = "\n".join(f"line {number}" for number in range(4000))
    read = [assistant(call("c", "read"), call("d", "read")), result("c", lines), result("d", "word " * 280)]
    turns = [turn for number in range(3) for turn in (assistant("so"), user(f"word {number} " * 5))]
    messages = transcript("anthropic", user("task"), *read, *turns, assistant("so"), user("word 3 " * 330))
    session = Pipeline(budget=Budget(1500), store=store).session(format="anthropic")
    shown = [messages[0]]
    for place in range(1, len(messages), 2):
        block = messages[place + 1]["content"]
        block = {"type": "text", "text": block} if isinstance(block, str) else block[-1]
        marked = [*messages[place + 1]["content"][:-1]] if block["type"] != "text" else []
        marked.append({**block, "cache_control": {"type": "ephemeral"}})
        view = await session.prepare([*shown, messages[place], {"role": "user", "content": marked}], tools=tools)
        shown = view.messages
    assert "omitted; recall" in str(shown[2])
    assert str(shown).count("cache_control") == 4
