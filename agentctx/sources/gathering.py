"""Define a source of context, and the pieces that a source brings."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar, copy_context
from enum import StrEnum
from functools import cache, partial
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Literal, Protocol

import anyio
from anyio import CapacityLimiter, from_thread, to_thread
from attrs import define, evolve, field, frozen

from agentctx.budget import each_that_fits
from agentctx.characters import said_by
from agentctx.engine.relevance import coverage, raw_words
from agentctx.engine.shrink import fits
from agentctx.errors import SourceError
from agentctx.protocols import TokenCounter, cutter_of
from agentctx.secrets import redact_secrets
from agentctx.tokens.counting import counter_of_texts
from agentctx.users_code import WAS_CANCELLED, is_cancelled, side_by_side
from agentctx.validators import SECONDS, SHARE, TEXT, one_of, whole_number


@frozen
class ContextItem:
    """One piece of context that a source found.

    Args:
        title: What it is, in a few words; a path, for example.
        content: What the model reads.
        relevance: How much it is worth before anybody asked for something, from 0 to 1.
        source: Where it comes from; without it, the name of the provider that found it.
        keep: Which end of the content stays when it is cut: the newest lines of a log are its last ones.

    Raises:
        ConfigError: If a text is none, or ``relevance`` is not a number from 0 to 1.

    Example:
        >>> from agentctx.sources import ContextItem
        >>> ContextItem("build.log", "a comma is missing", relevance=0.9).worth(0.5).relevance
        0.5
    """

    title: str = field(validator=TEXT)
    content: str = field(validator=TEXT)
    relevance: float = field(default=0.5, validator=SHARE)
    source: str = field(default="", validator=TEXT)
    keep: Literal["head", "tail"] = field(default="head", validator=one_of(("head", "tail")))

    def saying(self, content: str) -> ContextItem:
        """The same item with other content."""
        return evolve(self, content=content)

    def worth(self, relevance: float) -> ContextItem:
        """The same item with another relevance."""
        return evolve(self, relevance=relevance)

    def found_by(self, source: str) -> ContextItem:
        """The same item, from ``source`` unless it says itself where it comes from."""
        return self if self.source else evolve(self, source=source)


class ContextProvider(Protocol):
    """A source of context. A plain function qualifies, async or not; one that is not runs in a worker thread.

    It may say in attributes what it is called (``name``), what it brings (``description``, a few words), and how
    much it may bring (``max_tokens``).

    Example:
        >>> from agentctx.sources import ContextItem, gather
        >>> async def handbook(query):
        ...     return [ContextItem("Builds", "Builds are logged in build.log.")]
        >>> (await gather([handbook], "Why does the build fail?")).items[0].source
        'handbook'
    """

    def __call__(self, query: str, /) -> Awaitable[Sequence[ContextItem]] | Sequence[ContextItem]:
        """What there is, for a task described by ``query`` (empty: no task is known); nothing is an empty list."""
        ...


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

    Example:
        >>> from agentctx.sources import ContextItem, gather
        >>> def logs(query):
        ...     return [ContextItem("build.log", "a comma is missing")]
        >>> gathered = await gather([logs], "Why does the build fail?", max_tokens=500)
        >>> [item.title for item in gathered.items]
        ['build.log']
    """
    SECONDS.or_none.check("gather.deadline", deadline)
    whole_number(0).or_none.check("gather.max_tokens", max_tokens)
    calls = [_SourceCall(provider) for provider in providers]
    threads = CapacityLimiter(max(1, len(calls)))
    await side_by_side(partial(call.run, query, deadline, on, threads) for call in calls)
    weigh = partial(_weigh, calls, query, max_tokens, counter_of_texts(counter))
    return await to_thread.run_sync(weigh)


class SourceOutcome(StrEnum):
    """What came of the call of a source."""

    FINE = "fine"
    FAILED = "failed"
    LATE = "late"


@frozen
class SourceReport:
    """How one source fared.

    Args:
        name: The provider's name.
        description: What it brings, in its own words.
        outcome: Whether it answered.
        problem: What went wrong, when something did; secrets are taken out.
        found: How many items it found.
        chosen: How many of them are among what was gathered.
        cut: How many of those are there in part only.
        tokens: Tokens of what it has there.
        seconds: How long it took.

    Example:
        >>> from agentctx.sources import ContextItem, gather
        >>> def logs(query):
        ...     return [ContextItem("build.log", "a comma is missing")]
        >>> [(source.name, source.found, source.chosen) for source in (await gather([logs])).sources]
        [('logs', 1, 1)]
    """

    name: str
    description: str
    outcome: SourceOutcome
    problem: str
    found: int
    chosen: int
    cut: int
    tokens: int
    seconds: float


@frozen
class Gathered:
    """What was gathered.

    Args:
        items: The items that were chosen, the most relevant first.
        left_out: The items that were not.
        text: The chosen items as text, for a message; empty when there are none.
        tokens: Tokens of the text.
        sources: How each provider fared, in the order in which they were passed.

    Example:
        >>> from agentctx.sources import ContextItem, gather
        >>> def breaks(query):
        ...     raise OSError("no disk")
        >>> gathered = await gather([breaks])
        >>> gathered.text, len(gathered.problems)
        ('', 1)
    """

    items: tuple[ContextItem, ...]
    left_out: tuple[ContextItem, ...]
    text: str = field(repr=False)
    tokens: int
    sources: tuple[SourceReport, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """What went wrong, a line for each provider that failed or was late."""
        return tuple(f"{each.name}: {each.problem}" for each in self.sources if each.problem)


@define
class _SourceCall:
    """The call of one provider, and what came of it."""

    provider: ContextProvider
    name: str = field(init=False)
    description: str = ""
    max_tokens: int | None = None
    items: tuple[ContextItem, ...] = ()
    outcome: SourceOutcome = SourceOutcome.LATE
    problem: str = ""
    seconds: float = 0.0

    def __attrs_post_init__(self) -> None:
        """Name it after its kind until it is asked."""
        self.name = type(self.provider).__name__

    async def run(
        self, query: str, deadline: float | None, on: tuple[type[Exception], ...], threads: CapacityLimiter
    ) -> None:
        """Call the provider, for as long as the deadline lets it; its errors are told, not raised."""
        started = anyio.current_time()
        try:
            self._introduce()
            with anyio.move_on_after(deadline):
                self.items = as_items(self.name, await result_of(self.provider, query, threads=threads))
                self.outcome = SourceOutcome.FINE
            if self.outcome is SourceOutcome.LATE:
                self.problem = f"did not answer within {deadline:g} seconds"
        except on as error:
            self.outcome = SourceOutcome.FAILED
            self.problem = redact_secrets(said_by(error), "error.log")
        except anyio.get_cancelled_exc_class():
            if is_cancelled():
                raise
            self.outcome, self.problem = SourceOutcome.FAILED, WAS_CANCELLED
        self.seconds = anyio.current_time() - started

    def _introduce(self) -> None:
        """Find out what the provider is called, what it brings, and how much."""
        name = getattr(self.provider, "name", None) or getattr(self.provider, "__name__", None)
        self.name = name if isinstance(name, str) else self.name
        self.description = str(getattr(self.provider, "description", ""))
        room = getattr(self.provider, "max_tokens", None)
        if room is not None and (isinstance(room, bool) or not isinstance(room, int)):
            raise SourceError(self.name, f"max_tokens: expected a whole number of tokens, got {room!r:.80}")
        self.max_tokens = room


async def result_of(function: Callable[..., object], *arguments: str, threads: CapacityLimiter) -> object:
    """What a function returns; one that is not async runs in a thread, which is abandoned when it is late."""
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        found = function(*arguments)
    else:
        found = await to_thread.run_sync(_waited_for, function, arguments, abandon_on_cancel=True, limiter=threads)
    return await found if inspect.isawaitable(found) else found


def as_items(name: str, found: object) -> tuple[ContextItem, ...]:
    """What a provider returned, its items named after it."""
    if found is None:
        return ()
    if not isinstance(found, Sequence) or not all(isinstance(item, ContextItem) for item in found):
        raise SourceError(name, f"returned {type(found).__name__} {found!r:.80} instead of a list of ContextItem")
    return tuple(item.found_by(name) for item in found)


_LOOK = 0.05
"""How often a thread that waits looks whether anybody still wants the answer, in seconds."""

_given_up: ContextVar[Event | None] = ContextVar("given_up", default=None)


class _AbandonedError(Exception):
    """Raised in a thread whose answer nobody waits for any more."""


def stop_when_abandoned() -> None:
    """End the work of a thread that nobody waits for any more; call it now and then in work that takes long.

    Raises:
        _AbandonedError: In a thread of ``gather``. In any other worker thread, that thread's cancellation.
    """
    given_up = _given_up.get()
    if given_up is not None:
        if given_up.is_set():
            raise _AbandonedError
        return
    try:
        from_thread.check_cancelled()
    except RuntimeError:
        return  # not in a worker thread: nobody waits elsewhere


def _waited_for(function: Callable[..., object], arguments: tuple[object, ...]) -> object:
    """What the function returns, called in a daemon thread, while this worker thread looks for a cancellation.

    A worker thread of asyncio's that never ends would keep the program from ending.
    """
    answers: SimpleQueue[tuple[object, BaseException | None]] = SimpleQueue()
    given_up = Event()

    def work() -> None:
        _given_up.set(given_up)
        try:
            answers.put((function(*arguments), None))
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            answers.put((None, error))

    Thread(target=copy_context().run, args=(work,), name=f"agentctx {function!r:.60}", daemon=True).start()
    try:
        while True:
            try:
                found, error = answers.get(timeout=_LOOK)
            except Empty:
                from_thread.check_cancelled()
            else:
                break
    finally:
        given_up.set()
    if error is not None:
        raise error
    return found


@define
class _Found:
    """An item on its way: as it was found, and as it fits its provider's room; None when it does not."""

    call: _SourceCall
    whole: ContextItem
    item: ContextItem | None


def _weigh(calls: Sequence[_SourceCall], query: str, max_tokens: int | None, counter: TokenCounter) -> Gathered:
    """Cut, rank and choose what was found."""
    found = [item for call in calls for item in call.items]
    if raw_words(query):
        shares = coverage(query, [f"{item.title}\n{item.content}" for item in found])
        found = [item.worth(blended(item.relevance, share)) for item, share in zip(found, shares, strict=True)]
    owners = [call for call in calls for _ in call.items]
    pieces = [_Found(call, item, item) for call, item in zip(owners, found, strict=True)]
    for call in calls:
        _hold(call, [piece for piece in pieces if piece.call is call], counter)
    fitting = [(index, piece.item) for index, piece in enumerate(pieces) if piece.item is not None]
    items = [item for _, item in fitting]
    if max_tokens is None:
        order = sorted(range(len(items)), key=lambda index: (-items[index].relevance, index))
        selected: Mapping[int, ContextItem] = {index: items[index] for index in order}
    else:
        selected = select_items(items, max_tokens, counter)
    chosen = {fitting[index][0]: item for index, item in selected.items()}
    text = render(tuple(chosen.values()))
    left_out = tuple(piece.whole for index, piece in enumerate(pieces) if index not in chosen)
    reports = tuple(_report(call, [(pieces[index], item) for index, item in chosen.items()], counter) for call in calls)
    return Gathered(tuple(chosen.values()), left_out, text, counter.count(text), reports)


def _hold(call: _SourceCall, pieces: Sequence[_Found], counter: TokenCounter) -> None:
    """Keep what a provider found within the room that it asks for, the most relevant of it."""
    room = call.max_tokens
    if room is None:
        return
    for piece in sorted(pieces, key=lambda piece: -piece.whole.relevance):
        fitting = room > 0 and fits(written(piece.whole), room, counter)
        piece.item = piece.whole if fitting else shortened(piece.whole, room, counter)
        room -= 0 if piece.item is None else counter.count(written(piece.item))


def blended(prior: float, share: float) -> float:
    """What something is worth: half what it is worth to any task, half how much it has of this task's words."""
    return (prior + share) / 2


def _report(call: _SourceCall, chosen: Sequence[tuple[_Found, ContextItem]], counter: TokenCounter) -> SourceReport:
    mine = [(piece, item) for piece, item in chosen if piece.call is call]
    return SourceReport(
        name=call.name,
        description=call.description,
        outcome=call.outcome,
        problem=call.problem,
        found=len(call.items),
        chosen=len(mine),
        cut=sum(item.content != piece.whole.content for piece, item in mine),
        tokens=sum(counter.count(written(item)) for _, item in mine),
        seconds=call.seconds,
    )


HEADING = "## Relevant context\n\n"
"""What stands above the items."""

_LEAST = 24
"""An item is not cut to fewer tokens than this: so little of it would say nothing."""

_ATTEMPTS = 4


def prioritise(
    items: Sequence[ContextItem], max_tokens: int, *, counter: TokenCounter | Callable[[str], int] | None = None
) -> tuple[ContextItem, ...]:
    """Choose items, the most relevant first; never more than ``max_tokens`` as they are written by ``render``.

    First each source takes its most relevant items within an equal share, so that no source, however much it has,
    keeps another out. What is left over goes to whatever is most relevant. Of a source that would have nothing at
    all, the first item is cut to what is left.

    Args:
        items: The items; of equally relevant ones the earlier goes first.
        max_tokens: The room, in tokens; headings and fences are counted.
        counter: Counts tokens; without it, tiktoken's ``o200k_base``.

    Example:
        >>> from agentctx.sources import ContextItem, prioritise
        >>> items = ContextItem("old.log", "x " * 500, 0.1), ContextItem("build.log", "a comma is missing", 0.9)
        >>> [item.title for item in prioritise(items, max_tokens=100)][0]
        'build.log'
    """
    return tuple(select_items(items, max_tokens, counter_of_texts(counter)).values())


def select_items(items: Sequence[ContextItem], max_tokens: int, counter: TokenCounter) -> dict[int, ContextItem]:
    """What ``prioritise`` chooses, by its index in ``items``, the most relevant first."""
    if not items or max_tokens <= 0:
        return {}
    cost = cache(lambda index: _cost(items[index], max_tokens, counter))
    order = sorted(range(len(items)), key=lambda index: (-items[index].relevance, index))
    room = max_tokens - counter.count(HEADING)
    taken = {index: items[index] for index in _shared(items, order, cost, room)}
    rest = [index for index in order if index not in taken]
    taken |= _filled(items, rest, {item.source for item in taken.values()}, cost, room - sum(map(cost, taken)), counter)
    chosen = {index: taken[index] for index in order if index in taken}
    while chosen and counter.count(render(tuple(chosen.values()))) > max_tokens:
        chosen.popitem()
    return chosen


def _cost(item: ContextItem, most: int, counter: TokenCounter) -> int:
    """Tokens of an item as it is written; of one that is larger than ``most``, only that it is."""
    text = written(item)
    return counter.count(text) if fits(text, most, counter) else most + 1


def _shared(items: Sequence[ContextItem], order: Sequence[int], cost: Callable[[int], int], room: int) -> Iterator[int]:
    """What fits the equal share of each source, its most relevant first."""
    of_source: dict[str, list[int]] = defaultdict(list)
    for index in order:
        of_source[items[index].source].append(index)
    for indexes in of_source.values():
        yield from each_that_fits(indexes, cost, room // len(of_source))


def _filled(
    items: Sequence[ContextItem],
    order: Sequence[int],
    sources: set[str],
    cost: Callable[[int], int],
    room: int,
    counter: TokenCounter,
) -> dict[int, ContextItem]:
    """What takes the rest of the room, the most relevant first; of a source not among ``sources`` the first is cut."""
    taken: dict[int, ContextItem] = {}
    for index in order:
        item: ContextItem | None = items[index]
        tokens = cost(index)
        if tokens > room:
            item = None if items[index].source in sources else shortened(items[index], room, counter)
            tokens = 0 if item is None else counter.count(written(item))
        if item is not None:
            taken[index] = item
            sources.add(item.source)
            room -= tokens
    return taken


def render(items: Sequence[ContextItem]) -> str:
    """The items as text: a heading, and each under its source and title in a fence; empty when there are none."""
    return HEADING + "".join(map(written, items)) if items else ""


def written(item: ContextItem) -> str:
    """One item as text."""
    return section(f"[{item.source}] {item.title}" if item.source else item.title, item.content)


def shortened(item: ContextItem, max_tokens: int, counter: TokenCounter) -> ContextItem | None:
    """The item cut so that it is written in ``max_tokens``; None when too little of it would be left."""
    room = max_tokens - counter.count(written(item.saying("")))
    for _ in range(_ATTEMPTS):
        if room < _LEAST:
            return None
        content = cut_lines(item.content, room, counter, item.keep)
        if not content:
            return None
        shorter = item.saying(content)
        excess = counter.count(written(shorter)) - max_tokens
        if excess <= 0:
            return shorter
        room -= excess
    return None


_TICKS = re.compile(r"`{3,}")


def one_line(text: str) -> str:
    """A title or a path on one line, without characters that would start something new: in any source's text."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def section(title: str, content: str) -> str:
    """A heading and the content in a fence that is longer than any in it, so that nothing in it can close it.

    So items are written, and by other sources what they keep in the prompt. It begins with a hash and ends with line
    breaks: sections that follow one another cost what they cost apart.
    """
    fence = "`" * max([3, *(len(run) + 1 for run in _TICKS.findall(content))])
    return f"### {one_line(title)}\n{fence}\n{content.rstrip()}\n{fence}\n\n"


_SLACK = 8
"""How often a piece is made smaller because marker and piece together cost more than apart."""


def cut_lines(text: str, max_tokens: int, counter: TokenCounter, keep: Literal["head", "tail"] = "head") -> str:
    """The text when it fits, else its first or last lines and how many are left out; empty when not one line fits."""
    if max_tokens < 1:
        return ""
    if fits(text, max_tokens, counter):
        return text
    end = cutter_of(counter).head if keep == "head" else cutter_of(counter).tail
    room = max_tokens - counter.count(_marked("", _lines(text), keep))
    for _ in range(_SLACK):
        piece = _whole_lines(end(text, room), text, keep) if room > 0 else ""
        if not piece.strip():
            return ""
        result = _marked(piece, max(1, _lines(text) - _lines(piece)), keep)
        excess = counter.count(result) - max_tokens
        if excess <= 0:
            return result
        room -= excess
    return ""


def _lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n"))


def _whole_lines(piece: str, text: str, keep: Literal["head", "tail"]) -> str:
    """The piece up to its last line break, or from its first; a text of one line is cut inside it."""
    if keep == "head":
        return piece if "\n" not in piece else piece[: piece.rindex("\n") + 1]
    if "\n" not in piece or text[: len(text) - len(piece)].endswith("\n"):
        return piece
    return piece[piece.index("\n") + 1 :]


def _marked(piece: str, lines: int, keep: Literal["head", "tail"]) -> str:
    missing = f"[… {lines:,} more lines …]"
    if keep == "tail":
        return f"{missing}\n{piece}"
    return piece + ("" if piece.endswith("\n") or not piece else "\n") + missing
