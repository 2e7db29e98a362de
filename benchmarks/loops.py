"""A whole agent loop, by agentctx and by other libraries."""

from __future__ import annotations

from inspect import isawaitable
from statistics import median
from time import perf_counter
from typing import Any

import ours
from peers import Peer, peers
from rows import Effort, Row
from transcript import transcript

STEPS, ROOM = 500, 64_000
LONG, WINDOW = 10_000, 128_000
BARS = {"langchain-exact": 150.0, "langchain-approximate": 5.0}
"""The peers that agentctx must be so many times faster than; the others stand beside them."""


async def loop_rows(effort: Effort) -> list[Row]:
    """A whole agent loop, beside other libraries; ours is timed again before and after each of them."""
    rows = []
    for place, (key, peer) in enumerate(peers(ours.tokens).items()):
        if key in BARS or effort.all_peers:
            own = await own_loops(effort, 100 * place)
            seconds, how = await sampled(peer, effort)
            own += await own_loops(effort, 100 * place + 50)
            what = f"{STEPS}-step loop in {ROOM // 1000}k: {peer.name} / agentctx"
            rows.append(Row(what, seconds / median(own), BARS.get(key), at_least=True, how=how))
    return rows


async def stateless_rows(effort: Effort) -> list[Row]:
    """One call that remembers nothing, on a history of which most has to go; new texts each time, then the same."""
    peer = peers(ours.tokens)["agentix-exact"]
    theirs, first, again = [], [], []
    for number in range(effort.repeats):
        messages = transcript(LONG, 2_000 + number)
        theirs.append(await timed(peer, [peer.convert(message) for message in messages], WINDOW))
        first.append(await ours.prepare(WINDOW, messages))
        again.append(await ours.prepare(WINDOW, messages))
    how, what = f"best of {effort.repeats}, each with its own texts", f"{LONG:,} messages in {WINDOW // 1000}k"
    return [
        Row(f"stateless prepare of {what} / {peer.name}", min(first) / min(theirs), 5, how=how),
        Row("the same again", min(again) / min(theirs), None, how=how),
    ]


async def own_loops(effort: Effort, seed: int) -> list[float]:
    """The time of our loop, in seconds, each time with texts that were never counted before."""
    return [await ours.loop(STEPS, ROOM, seed + number) for number in range(effort.repeats)]


async def sampled(peer: Peer, effort: Effort) -> tuple[float, str]:
    """The time of a peer's whole loop, from some of its steps, in seconds; and how it was found.

    Peers remember nothing between steps, so a step takes what it takes, whichever went before. The steps are spread
    evenly over the loop, also when time runs out before all of them were taken.
    """
    messages = [peer.convert(message) for message in transcript(2 + 2 * STEPS, seed=1_000)]
    await timed(peer, messages[:20])
    taken: list[float] = []
    began = perf_counter()
    while len(taken) < effort.samples and perf_counter() - began < effort.seconds:
        step = int(spread(len(taken)) * STEPS)
        taken.append(await timed(peer, messages[: 4 + 2 * step]))
    return sum(taken) / len(taken) * STEPS, f"estimated from {len(taken)} of {STEPS} steps"


def spread(number: int) -> float:
    """A place between 0 and 1; the first few numbers, however many, lie evenly (van der Corput's sequence)."""
    place, width = 0.0, 1.0
    number += 1
    while number:
        width /= 2
        place += width * (number % 2)
        number //= 2
    return place


async def timed(peer: Peer, messages: list[Any], room: int = ROOM) -> float:
    """One call of a peer, in seconds."""
    start = perf_counter()
    trimmed = peer.trim(messages, room)
    if isawaitable(trimmed):
        await trimmed
    return perf_counter() - start
