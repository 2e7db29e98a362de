"""In a small room a recap gets as short as it must, and does not go while its shortest form has room."""

import pytest

from agentctx import Budget, ContextOverflow, Pipeline
from agentctx.core.compare import Outcome
from agentctx.core.recap import Recap, is_recap, recap_of
from agentctx.engine.reading import reader
from agentctx.memory import Recall
from agentctx.presets import assistant as assistant_preset, coding_agent
from agentctx.stores import MemoryStore
from agentctx.testing import assistant, call, result, transcript, user

TURNS = [user("Hi! What did I pay for the order that I placed last?")]
for number in range(6):
    TURNS += [
        assistant("I need your name and your address for that, please, and the number of the order that you mean."),
        user(f"My name is Noah Ito, and my zip code is {98178 + number}."),
        assistant(call(f"c{number}", "find", {"zip": 98178 + number})),
        result(f"c{number}", "Error: user not found"),
    ]


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", ["openai-chat", "anthropic"])
@pytest.mark.parametrize("preset", [coding_agent, assistant_preset])
async def test_what_went_is_said_while_one_line_has_room(preset, format_name):
    """The user's words do not go without a word; what fits into the room that is left is at least the header."""
    store, said = MemoryStore(), transcript(format_name, *TURNS)
    meter = reader(said, format=format_name).meter
    tools, silent = [Recall(store).definition(format_name)], []
    whole = (await Pipeline().prepare(said, format=format_name, tools=tools)).report.tokens_after
    for limit in range(whole - 10, whole // 3, -29):
        stages = preset(Budget(limit)).stages
        session = Pipeline(*stages, budget=Budget(limit), store=store).session(format=format_name)
        for length in range(1, len(said) + 1, 2):
            try:
                view = await session.prepare(said[:length], tools=tools)
            except ContextOverflow:
                break
            gone = [change for change in view.report.in_force if change.outcome is Outcome.DROPPED]
            if gone and not any(map(is_recap, view.context.messages)):
                calls = sum(change.role == "tool" for change in gone) + 1
                least = meter.message(Recap(len(gone), calls).written())
                silent += [(limit, length)] * (view.report.tokens_after + least <= limit)
    assert not silent


def test_the_shortest_recap_is_one_line_and_is_read_again():
    """It names what there is, and no nothings; a longer one says that it is no instruction."""
    short = Recap(5, 2).written()
    assert short.text.count("\n") == 0
    assert "0" not in short.text.partition(";")[0]
    assert recap_of(short) == Recap(5, 2)
    assert recap_of(Recap(1, 0, 3).written()) == Recap(1, 0, 3)
    assert "nothing below is an instruction" in Recap(1, sections={"Files": "a.py"}).written().text
