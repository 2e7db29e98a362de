"""What the input of a session's calls costs: as prepared, sending everything, and trimming the oldest at each call.

Of each request the start that it shares with the one before is read from the provider's cache, as far as the
provider's rules allow; the rest is billed as new input. Whoever sends, answers are the same, and are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from attrs import frozen

from agentctx.core.message import Context, Message
from agentctx.core.protection import first_task
from agentctx.core.units import units
from agentctx.economics.conditions import input_cost, priced
from agentctx.models.profile import ModelProfile
from agentctx.protocols import Meter

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


@frozen
class Costs:
    """The input of all calls up to each one, added up.

    Args:
        unit: ``"USD"``; or ``"tokens"`` of new input where the model's prices are not known, with what is read from
            the cache counted as a tenth.
        prepared: As the pipeline prepares the requests.
        everything: With the whole history in each request, whether it fits or not.
        trimmed: With the oldest rounds left out before each call, as few as must be.
    """

    unit: str
    prepared: tuple[float, ...]
    everything: tuple[float, ...]
    trimmed: tuple[float, ...]


def costs(
    profile: ModelProfile | None,
    prepared: Sequence[Request],
    everything: Sequence[Request],
    trimmed: Sequence[Request],
) -> Costs:
    """What the calls cost for a model; None where none is known."""
    known = profile is not None and priced(profile)
    ways = (tuple(accumulate(_cost(profile, each) for each in way)) for way in (prepared, everything, trimmed))
    return Costs("USD" if known else "tokens", *ways)


def _cost(profile: ModelProfile | None, request: Request) -> float:
    if profile is None or not priced(profile):
        return request.tokens - (1 - READ_SHARE) * request.shared
    return input_cost(profile, request.tokens, request.shared)


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
