"""What a token of each unit is worth, as whole numbers, so that sums are exact."""

from __future__ import annotations

from collections.abc import Sequence

import anyio.to_thread

from agentctx.core.message import Context
from agentctx.strategies.packing.load import Load
from agentctx.strategies.packing.relevance import Relevance, shares
from agentctx.strategies.packing.scoring import Said, Weights, recency_score, said

STEPS = 1_000_000
"""Scores are taken to this many parts of one."""

MANY = 200
"""Units from which on they are looked at in a worker thread."""


async def ranked(
    context: Context, load: Load, weights: Weights, task: str, relevance: Relevance | None
) -> Sequence[int]:
    """What a token of each unit is worth: see ``scores``.

    Args:
        context: The request.
        load: Its units.
        weights: What counts.
        task: What the model is at, in words.
        relevance: How much texts have to do with the task; None means BM25.
    """
    if not load.units:
        return []
    told = (
        await anyio.to_thread.run_sync(_sayings, context, load) if len(load.units) > MANY else _sayings(context, load)
    )
    if not weights.relevance or not task.strip():
        return scores(load, weights, told, [0.0] * len(told))
    if relevance is None:
        from agentctx.strategies.packing.bm25 import Bm25  # noqa: PLC0415 - the library is an extra

        relevance = Bm25()
    texts = [one.text for one in told]
    return scores(load, weights, told, shares(await relevance(task, texts), len(texts)))


def _sayings(context: Context, load: Load) -> list[Said]:
    return [said(unit.of(context.messages)) for unit in load.units]


def scores(load: Load, weights: Weights, told: Sequence[Said], relevances: Sequence[float]) -> list[int]:
    """What a token of each unit is worth; above 0, and of equal units the later is worth more.

    A question is worth as much as the answer that follows it, and a trifle more.

    Args:
        load: The units.
        weights: What counts.
        told: What each unit says.
        relevances: How much each has to do with the task, 0 to 1.
    """
    parts = 2 * (load.total + 1)
    found = [
        round(STEPS * weights.score(one, recency_score(place, load.total), relevance)) * parts + 2 * place + 1
        for place, one, relevance in zip(load.places, told, relevances, strict=True)
    ]
    for question, answer in load.questions:
        found[question] = max(found[question], found[answer] + 1)
    return found
