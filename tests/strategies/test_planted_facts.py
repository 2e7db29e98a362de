"""Exact values that stood in tool outputs long ago: the model sees them, or gets them back by what it sees."""

import re

import pytest

from agentctx import Budget
from agentctx.presets import assistant, coding_agent, general, thrifty
from agentctx.recall import Recall
from agentctx.replay import Recording
from agentctx.retention import Library, watched
from agentctx.stores import MemoryStore
from agentctx.tokens import TiktokenCounter

pytestmark = pytest.mark.anyio

PRESETS = {"coding_agent": coding_agent, "thrifty": thrifty, "assistant": assistant, "general": general}
WINDOW = 8_000


def outputs(count, lines, every):
    """Tool outputs, and by the number of those that hold one an exact value that stands nowhere else."""
    texts, values = [], {}
    for number in range(count):
        text = [f"entry {line} of batch {number}: nothing to report from the usual places" for line in range(lines)]
        if number % every == 0:
            values[number] = f"reg-{(number * 7_919 + 104_729) % 1_000_003:06d}-{number:04d}"
            text.insert(lines // 2, f"service number{number}x is registered as {values[number]}")
        texts.append("\n".join(text))
    return texts, values


async def loop(preset, texts):
    """A session that is given these outputs one by one, with the recall tool; the last view, the compactions."""
    store = MemoryStore()
    messages = [{"role": "user", "content": "Find out under which name each service is registered."}]
    given, pipeline = watched(Recording(messages), PRESETS[preset](Budget(WINDOW)), store)
    session = pipeline.session(format="openai-chat", model="gpt-5.4")
    compactions, view = 0, None
    for number, text in enumerate(texts):
        call = {
            "id": f"c{number}",
            "type": "function",
            "function": {"name": "read", "arguments": f'{{"at": {number}}}'},
        }
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": text})
        view = await session.prepare(messages, tools=given.tools)
        assert view.report.tokens_after <= WINDOW
        compactions += any(change.index < len(messages) - 2 for change in view.report.changes)
    return view, compactions, store


@pytest.mark.parametrize("preset", PRESETS)
async def test_planted_values_can_be_had_after_ten_compactions(preset):
    """Of 20 values in early outputs each is visible or found by its words with the recall tool, within the budget."""
    texts, planted = outputs(count=160, lines=25, every=5)
    wanted = dict(list(planted.items())[:20])
    view, compactions, store = await loop(preset, texts)
    assert compactions >= 10
    recall, shown, counter = Recall(store), Library().shown(view.context), TiktokenCounter()
    assert (await Library(store).reach(view.context)).of(wanted.values()).reachable_share == 1
    for number, value in wanted.items():
        answer = "" if value in shown else await recall({"search": f"service number{number}x is registered"})
        assert value in shown or value in answer
        assert counter.count(answer) <= recall.max_tokens


async def test_fifteen_hundred_outputs_can_be_had_back():
    """Of 1,500 outputs each is in the view, or a search for words of it names a handle, which gives it back whole."""
    texts, planted = outputs(count=1_500, lines=3, every=1)
    view, _, store = await loop("coding_agent", texts)
    recall, shown = Recall(store), Library().shown(view.context)
    gone = [number for number, text in enumerate(texts) if text not in shown]
    assert len(gone) > 1_300
    whole = {await recall({"handle": handle}) for handle in await store.handles()}
    assert {texts[number] for number in gone} <= whole
    for number in gone[:: len(gone) // 25]:
        answer = await recall({"search": f"service number{number}x"})
        assert planted[number] in answer
        handle = re.search(r"[0-9a-f]{16,64}", answer)[0]
        assert await recall({"handle": handle}) == texts[number]
