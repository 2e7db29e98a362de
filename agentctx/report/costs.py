"""What a session's calls cost up to each one: as prepared, sending everything, and trimming the oldest at each call.

Of each request the start that it shares with the one before is read from the provider's cache, as far as the
provider's rules allow; the rest is billed as new input. The answers are those of the recording, whoever sends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, takewhile

from attrs import frozen

from agentctx.core.message import Context, Message
from agentctx.core.protection import first_task
from agentctx.core.units import units
from agentctx.protocols import Meter
from agentctx.replay import Recording, Step
from agentctx.transcripts.costs import billed_cost, spent

READ_SHARE = 0.1
"""What reading a token from the cache costs where prices are not known, in prices of a new one: as most providers."""


@frozen
class Request:
    """The size of one request, in tokens.

    Args:
        tokens: All of it.
        shared: The start that it shares with the request before.
    """

    tokens: int
    shared: int

    @property
    def weighed(self) -> float:
        """Its tokens, those that are read from the cache counted as a tenth."""
        return self.tokens - (1 - READ_SHARE) * self.shared


@frozen
class Costs:
    """What all calls up to each one cost, added up.

    Args:
        unit: ``"USD"``, answers included; or ``"tokens"`` of new input where the model's prices are not known, with
            what is read from the cache counted as a tenth.
        prepared: As the pipeline prepares the requests.
        everything: With the whole history in each request, whether it fits or not.
        trimmed: With the oldest rounds left out before each call, as few as must be.
        billed: As the recording says that it was billed; empty where it says nothing, or in tokens.
    """

    unit: str
    prepared: tuple[float, ...]
    everything: tuple[float, ...]
    trimmed: tuple[float, ...]
    billed: tuple[float, ...] = ()


def costs(
    recording: Recording, steps: Sequence[Step], trimmed: Iterable[Request], *, model: str | None = None
) -> Costs:
    """What the calls of a replay cost, and what they would cost otherwise.

    Args:
        recording: What was replayed.
        steps: Its calls.
        trimmed: The requests without the oldest rounds.
        model: The model, when it is not the recorded one.
    """
    prepared = [Request(step.tokens_sent, step.prefix_tokens) for step in steps]
    ways = (prepared, list(growing(step.tokens_given for step in steps)), list(trimmed))
    found = spent(recording, steps, [[(each.tokens, each.shared) for each in way] for way in ways], model)
    if found is None:
        sent, everything, without_oldest = (tuple(accumulate(each.weighed for each in way)) for way in ways)
        return Costs("tokens", sent, everything, without_oldest)
    sent, everything, without_oldest = found
    return Costs("USD", sent, everything, without_oldest, tuple(_billed(recording, steps)))


def _billed(recording: Recording, steps: Sequence[Step]) -> Iterator[float]:
    """What was billed up to each call."""
    bills, usd = sorted(recording.billed, key=lambda bill: bill.index), 0.0
    for end in [*(step.index for step in steps[1:]), len(recording.messages)] if bills else ():
        its = list(takewhile(lambda bill: bill.index < end, bills))  # noqa: B023 - it is used at once
        bills, usd = bills[len(its) :], usd + billed_cost(its).usd
        yield usd


def growing(sizes: Iterable[int]) -> Iterator[Request]:
    """Requests each of which begins with the whole one before."""
    before = 0
    for size in sizes:
        yield Request(size, min(before, size))
        before = size


def trimming(
    messages: Sequence[Message], calls: Sequence[int], meter: Meter, head: Context, limit: int | None
) -> Iterator[Request]:
    """Requests without the oldest rounds, as few as must be for each to fit; system messages and first task stay.

    Args:
        messages: The whole session.
        calls: How many messages each call saw.
        meter: Counts messages.
        head: What stands before the messages.
        limit: The most tokens of a request; None for no limit.
    """
    sizes = [meter.message(message) for message in messages]
    ends = [0, *accumulate(sizes)]
    begin = next((task + 1 for task in first_task(messages)), 0)
    fixed = meter.fixed(head) + ends[begin]
    cuts = [unit.start for unit in units(messages) if unit.start > begin]
    start, place, before = begin, 0, 0
    for end in calls:
        first = place
        while limit is not None and fixed + ends[end] - ends[start] > limit and place < len(cuts) and cuts[place] < end:
            start, place = cuts[place], place + 1
        size = fixed + ends[max(end, start)] - ends[start]
        yield Request(size, min(before, size) if place == first else min(before, fixed))
        before = size
