"""Whatever goes wrong with whatever a user passes in, and whenever: the request fits, and what comes is as before."""

import json

import anyio
import pytest
from attrs import define

import agentctx
from agentctx import Budget, Pipeline, Session, validate
from agentctx.engine import originals, plan as listeners
from agentctx.engine.summary import SummaryRecord
from agentctx.marks import recap_of
from agentctx.presets import assistant as for_talk, coding_agent, general, thrifty
from agentctx.recall import Recall
from agentctx.strategies import Extractive, Offload, Summarize
from agentctx.testing import Faults, FlakyError, assistant, call, result, transcript, user
from agentctx.testing.fakes import FAULTS

pytestmark = [pytest.mark.anyio, pytest.mark.no_cover]
MODEL = "gpt-4o"
BUDGET = Budget(4_000, trigger=0.9, target=0.6)
SOON, LONG = 0.25, 10.0
PRESETS = {"general": general, "coding_agent": coding_agent, "thrifty": thrifty, "assistant": for_talk}
MODES = ["stateless", "session"]
FALLBACKS = {"without a model": Extractive(), "none": None}


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Give back after a test how long a store and a listener are waited for."""
    monkeypatch.setattr(originals, "STORE_TIMEOUT", LONG)
    monkeypatch.setattr(listeners, "SECONDS", LONG)


@define
class Asked:
    """The summarizer, with how long it is waited for."""

    faults: Faults
    timeout: float = LONG

    async def __call__(self, messages, most):
        return await self.faults.summarize(messages, most)


def rounds(number):
    """A task, rounds with a short and now and then a long result, and words of the user.

    What is long has no blanks: so many words would each be looked at for values, at every await again.
    """
    turns = [user("Mend the build. Never touch tests/golden.txt.")]
    for place in range(number):
        times = 630 if place in (2, number - 2) else 60
        turns += [assistant("-so" * 900, call(f"c{place}", "read", {"path": f"src/part_{place}.py"}))]
        turns += [result(f"c{place}", f"-part{place}" * times)]
        turns += [user(f"Note {place}: ticket OPS-{place}417.")] if place % 3 == 2 else []
    return transcript("openai-chat", *turns)


def pipeline(asked, preset, fallback):
    """A preset with summaries, offloading and a ledger, which reaches a summarizer, a store and a listener."""
    summarize, faults = Summarize(asked, fallback=FALLBACKS[fallback]), asked.faults
    stages = Offload(over=300, preview=40), summarize, PRESETS[preset](BUDGET, MODEL)
    return Pipeline(*stages, budget=BUDGET, store=faults, on_compact=faults.listen)


WHOLE = rounds(9)
TOOLS = [Recall(Faults()).definition("openai-chat")]


@define
class Calm:
    """A conversation without a fault: where it stands before the steps that are looked at, and what they send.

    Args:
        state: The dump of the session before the first of them.
        stops: How many messages are passed in at each: the last makes a cut, as the one before.
        sent: What each sends.
        reached: What is reached before the last.
    """

    state: dict
    stops: tuple[int, ...]
    sent: list
    reached: list


async def asked_next(plan, faults, state, stop):
    """The next stop at which the summarizer is asked, from a state on, and the state behind it."""
    known = len(faults.reached)
    while "summarizer" not in faults.reached[known:]:
        stop, session = stop + 1, Session.load(plan, state)
        assert stop < len(WHOLE)
        await session.prepare(WHOLE[:stop], tools=TOOLS)
    return stop, session.dump()


async def calm(preset, mode, fallback):
    """The conversation up to where a cut is near, and what is sent from there on."""
    plan = pipeline(Asked(faults := Faults()), preset, fallback)
    session = plan.session(model=MODEL, format="openai-chat")
    await session.prepare(WHOLE[:2], tools=TOOLS)
    state = session.dump()
    cut, after = await asked_next(plan, faults, state, 2)
    end, _ = await asked_next(plan, faults, after, cut)
    stops = {"stateless": (end, end), "session": (cut, end)}[mode]
    conversation = Conversation(faults := Faults(), preset, mode, fallback, state)
    sent = [await conversation.step(stop) for stop in stops[:-1]]
    reached = list(faults.reached)
    sent.append(await conversation.step(stops[-1]))
    assert {"summarizer", "put", "listener"} <= set(reached)
    assert "summarizer" in faults.reached[len(reached) :]
    return Calm(state, stops, [view.messages for view in sent], reached)


class Conversation:
    """A conversation that goes on from a state, with a fault in one of its parts."""

    def __init__(self, faults, preset, mode, fallback, state, part=""):
        self.faults, self.part = faults, part
        self.asked = Asked(faults)
        self.plan = pipeline(self.asked, preset, fallback)
        self.session = None if mode == "stateless" else Session.load(self.plan, state)

    async def step(self, stop):
        """A step; None where it was cancelled."""
        hangs = self.faults.fault == "hangs" and len(self.faults.reached) < self.faults.at
        self.asked.timeout = SOON if hangs and self.part == "summarizer" else LONG
        originals.STORE_TIMEOUT = SOON if hangs and self.part == "put" else LONG
        listeners.SECONDS = SOON if hangs and self.part == "listener" else LONG
        given = WHOLE[:stop]
        before = json.dumps(given)
        with anyio.CancelScope() as self.faults.scope:
            prepare = self.plan.prepare if self.session is None else self.session.prepare
            view = await prepare(given, tools=TOOLS, model=MODEL)
        assert json.dumps(given) == before
        return None if self.faults.scope.cancelled_caught else view

    def known(self):
        """What the session holds, but for how often it has stepped."""
        return self.session and json.dumps({**self.session.dump(), "steps": 0})


def holds(view):
    """It fits, and is legal."""
    assert agentctx.count(view.messages, MODEL, tools=TOOLS) <= BUDGET.limit
    assert view.report.tokens_after <= BUDGET.limit
    assert not [found for found in validate({"messages": view.messages, "tools": TOOLS}) if found.severity == "error"]


async def insist(conversation, stop):
    """The step, taken again where it was cancelled or where the summarizer's error came through; and whether it was.

    One that was cancelled before it was told has not been; one that was cancelled while a listener was told is taken.
    """
    before, clear = conversation.known(), False
    try:
        view = await conversation.step(stop)
    except (FlakyError, OSError, TimeoutError):
        view, clear = None, True
        assert conversation.faults.reached[-1] == "summarizer"
    if view is not None:
        return view, False
    if conversation.session is not None and conversation.faults.reached[-1] == "listener":
        taken, told = conversation.session.view, conversation.faults.reached.count("listener")
        again = await conversation.step(stop)
        assert again.messages == taken.messages
        assert conversation.faults.reached.count("listener") == told
        return taken, clear
    assert conversation.known() == before
    return await conversation.step(stop), clear


WHERE = [(preset, "session", "without a model") for preset in PRESETS]
WHERE += [("coding_agent", mode, "without a model") for mode in MODES if mode != "session"]
WHERE += [("coding_agent", mode, "none") for mode in MODES]
ON_TRIO = [("coding_agent", mode, "without a model") for mode in MODES]
"""Each mode, and each fallback; another preset waits for the same three in the same places."""


EVERY_FAULT = ("coding_agent", "session", "without a model")
"""Here each await fails in every way; elsewhere in one way, another at each: all of them take many minutes."""


def tried(reached, every):
    """What fails how, at every await."""
    for at, part in enumerate(reached, 1):
        ways = [*FAULTS] if part == "summarizer" else ["raises", "hangs", "is cancelled", "is full"]
        for fault in ways if every else [ways[at % len(ways)]]:
            yield at, part, fault


@pytest.mark.parametrize(
    ("anyio_backend", "preset", "mode", "fallback"),
    [*(("asyncio", *where) for where in WHERE), *(("trio", *where) for where in ON_TRIO)],
)
async def test_a_fault_of_any_kind_at_every_await(anyio_backend, preset, mode, fallback):
    """History and state are as they were, the request fits, and the next cut is whole; or the one error comes through.

    Where a listener failed, or the step was cancelled, what is sent is what is sent without any fault.
    """
    right = await calm(preset, mode, fallback)
    for at, part, fault in tried(right.reached, (preset, mode, fallback) == EVERY_FAULT):
        faults, views = Faults(fault, at), []
        conversation = Conversation(faults, preset, mode, fallback, right.state, part)
        for stop in right.stops:
            view, clear = await insist(conversation, stop)
            assert not clear or fallback == "none"
            holds(view)
            views.append(view)
        sent = [view.messages for view in views]
        if part == "listener" or fault == "is cancelled" or clear:
            assert sent[:-1] == right.sent[:-1]
        recap = next(filter(None, map(recap_of, views[-1].context.messages)))
        assert SummaryRecord.read(recap.sections["Summary"]).goal == "as before"
        changes = [change for stage in views[-1].report.stages for change in stage.changes]
        assert all(change.handle for change in changes if change.tokens_after < change.tokens_before)
