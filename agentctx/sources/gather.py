"""Ask several sources at once, and keep what is worth its room."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import anyio
from anyio import CapacityLimiter, to_thread
from attrs import define

from agentctx.core.item import ContextItem
from agentctx.errors import ConfigError
from agentctx.protocols import ContextProvider, TokenCounter
from agentctx.sources.ask import Answer
from agentctx.sources.cut_lines import fits
from agentctx.sources.gathered import Gathered, SourceReport
from agentctx.sources.prioritise import choose, render, shortened, written
from agentctx.sources.relevance import blended, overlap, words_of
from agentctx.tokens.remembering import counter_of_texts


async def gather(
    providers: Sequence[ContextProvider],
    query: str = "",
    *,
    max_tokens: int | None = None,
    deadline: float | None = 5.0,
    counter: TokenCounter | Callable[[str], int] | None = None,
    on: tuple[type[Exception], ...] = (Exception,),
) -> Gathered:
    """Ask all providers at the same time, and choose from what they found.

    One that fails, hangs or returns nonsense costs only itself, and the result says so. Each item is worth what its
    provider says and, when there is a query, how many of the query's words it has.

    Args:
        providers: The sources. What one finds is cut to its ``max_tokens``, when it says any.
        query: The task, in words.
        max_tokens: The most tokens of the text that comes out; None takes everything.
        deadline: How long each may take, in seconds; None waits for ever. An async provider must not block the
            event loop; one that is not async runs in a thread, which cannot be stopped but is not waited for.
        counter: Counts tokens; without it, tiktoken's ``o200k_base``.
        on: The errors of a provider that cost only itself.

    Raises:
        ConfigError: If a number or the counter makes no sense.
    """
    if (deadline is not None and not deadline > 0) or (max_tokens is not None and max_tokens < 0):
        msg = f"gather: expected a positive deadline and no negative number of tokens, got {deadline}, {max_tokens}"
        raise ConfigError(msg)
    answers = [Answer(provider) for provider in providers]
    threads = CapacityLimiter(max(1, len(answers)))
    async with anyio.create_task_group() as tasks:
        for answer in answers:
            tasks.start_soon(answer.ask, query, deadline, on, threads)
    weigh = partial(_weigh, answers, query, max_tokens, counter_of_texts(counter))
    return await to_thread.run_sync(weigh)


@define
class _Piece:
    """An item on its way.

    Args:
        answer: Whose it is.
        whole: As it was found.
        item: As it fits its provider's room; None when it does not.
    """

    answer: Answer
    whole: ContextItem
    item: ContextItem | None


def _weigh(answers: Sequence[Answer], query: str, max_tokens: int | None, counter: TokenCounter) -> Gathered:
    """Cut, rank and choose what was found."""
    found = _weighed([item for answer in answers for item in answer.items], query)
    owners = [answer for answer in answers for _ in answer.items]
    pieces = [_Piece(answer, item, item) for answer, item in zip(owners, found, strict=True)]
    for answer in answers:
        _hold(answer, [piece for piece in pieces if piece.answer is answer], counter)
    fitting = [(index, piece.item) for index, piece in enumerate(pieces) if piece.item is not None]
    items = [item for _, item in fitting]
    if max_tokens is None:
        order = sorted(range(len(items)), key=lambda index: (-items[index].relevance, index))
        chosen: Mapping[int, ContextItem] = {index: items[index] for index in order}
    else:
        chosen = choose(items, max_tokens, counter)
    return _gathered(answers, pieces, {fitting[index][0]: item for index, item in chosen.items()}, counter)


def _hold(answer: Answer, pieces: Sequence[_Piece], counter: TokenCounter) -> None:
    """Keep what a provider found within the room that it asks for, the most relevant of it."""
    room = answer.max_tokens
    if room is None:
        return
    for piece in sorted(pieces, key=lambda piece: -piece.whole.relevance):
        piece.item = _fitted(piece.whole, room, counter)
        room -= 0 if piece.item is None else counter.count(written(piece.item))


def _fitted(item: ContextItem, room: int, counter: TokenCounter) -> ContextItem | None:
    return item if room > 0 and fits(written(item), room, counter) else shortened(item, room, counter)


def _weighed(items: Sequence[ContextItem], query: str) -> Sequence[ContextItem]:
    if not words_of(query):
        return items
    shares = overlap(query, [f"{item.title}\n{item.content}" for item in items])
    return [item.worth(blended(item.relevance, share)) for item, share in zip(items, shares, strict=True)]


def _gathered(
    answers: Sequence[Answer], pieces: Sequence[_Piece], chosen: Mapping[int, ContextItem], counter: TokenCounter
) -> Gathered:
    items = tuple(chosen.values())
    text = render(items)
    left_out = tuple(piece.whole for index, piece in enumerate(pieces) if index not in chosen)
    reports = tuple(
        _report(answer, [(pieces[index], item) for index, item in chosen.items()], counter) for answer in answers
    )
    return Gathered(items, left_out, text, counter.count(text), reports)


def _report(answer: Answer, chosen: Sequence[tuple[_Piece, ContextItem]], counter: TokenCounter) -> SourceReport:
    mine = [(piece, item) for piece, item in chosen if piece.answer is answer]
    return SourceReport(
        name=answer.name,
        description=answer.description,
        outcome=answer.outcome,
        problem=answer.problem,
        found=len(answer.items),
        chosen=len(mine),
        cut=sum(item.content != piece.whole.content for piece, item in mine),
        tokens=sum(counter.count(written(item)) for _, item in mine),
        seconds=answer.seconds,
    )
