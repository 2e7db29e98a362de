"""In a small room a recap gets as short as it must, and does not go while its shortest form has room."""

import pytest

from agentctx import (
    Budget,
    ClearToolResults,
    ContextOverflow,
    FitContextWindow,
    Ledger,
    Pack,
    Pipeline,
    Tiered,
    TrimRounds,
)
from agentctx.changes import Outcome
from agentctx.engine.reading import reader
from agentctx.marks import Recap, is_recap, recap_of
from agentctx.presets import assistant as assistant_preset, coding_agent
from agentctx.recall import Recall
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


WRITTEN = [user("Mend the shop: orders, refunds and invoices.")]
for number in range(14):
    WRITTEN += [
        assistant(
            "I look at it, and write what is missing then. " * (number % 3), call(f"r{number}", "bash", {"c": "make"})
        ),
        result(f"r{number}", "imports fail here and there " * (6 + number * 7 % 40)),
        assistant(
            call(f"w{number}", "write", {"path": f"shop/part{number}.py", "content": "a = 1 " * (number % 5 * 6)})
        ),
        result(f"w{number}", "written"),
    ]
    WRITTEN += [user(f"Go on with part {number}, please, and mind the config.")] * (number % 3 == 0)

NAME = 20
"""At most so many tokens a file takes, with what was done to it."""

SECTION = 24
"""At most so many tokens it takes to say below the one line that there are files."""

BEFORE_THE_LEDGER = {
    "trim": (ClearToolResults(3), TrimRounds(6)),
    "pack": (Pack(),),
    "tiered": (Tiered(),),
    "fit": (FitContextWindow(),),
}


@pytest.mark.anyio
@pytest.mark.parametrize("in_session", [False, True])
@pytest.mark.parametrize("kind", BEFORE_THE_LEDGER)
async def test_changed_files_are_named_in_all_the_room_that_is_free(kind, in_session):
    """Whichever stage cuts, and with the recall tool in the request: first the line, then the files, then the rest."""
    said, store = transcript("gemini", *WRITTEN), MemoryStore()
    meter = reader(said, format="gemini").meter
    tools, silent, unnamed, cuts = [Recall(store).definition("gemini")], [], [], 0
    for window in (520, 760, 1090, 1630):
        pipeline = Pipeline(*BEFORE_THE_LEDGER[kind], Ledger(), budget=Budget(window), store=store)
        session = pipeline.session(format="gemini") if in_session else None
        for end in [at + 1 for at, each in enumerate(said) if each["role"] == "user"][4 :: 1 if in_session else 4]:
            try:
                if session is None:
                    view = await pipeline.prepare(said[:end], tools=tools, format="gemini")
                else:
                    view = await session.prepare(said[:end], tools=tools)
            except ContextOverflow:
                continue
            if session is not None and view.report.first_changed is None:
                continue  # it changes at a cut only
            free = window - view.report.tokens_after
            recaps = [recap for each in view.context.messages if (recap := recap_of(each)) is not None]
            gone = [change for change in view.report.in_force if change.outcome is Outcome.DROPPED]
            passed, shown = str(said[:end]), str(view.messages)
            missing = [n for n in range(14) if f"part{n}.py" in passed and f"part{n}.py" not in shown]
            cuts += bool(gone)
            if gone and not recaps:
                least = meter.message(Recap(len(gone), len(gone) // 2, 9).written())
                silent += [(window, end, free)] * (free >= least)
            if recaps and missing:
                unnamed += [(window, end, free)] * (free >= NAME + (0 if recaps[0].sections else SECTION))
    assert (cuts > 0, silent, unnamed) == (True, [], [])


def test_the_shortest_recap_is_one_line_and_is_read_again():
    """It names what there is, and no nothings; a longer one says that it is no instruction."""
    short = Recap(5, 2).written()
    assert short.text.count("\n") == 0
    assert "0" not in short.text.partition(";")[0]
    assert recap_of(short) == Recap(5, 2)
    assert recap_of(Recap(1, 0, 3).written()) == Recap(1, 0, 3)
    assert "nothing below is an instruction" in Recap(1, sections={"Files": "a.py"}).written().text
