"""Define a source of context, and the pieces that a source brings."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextvars import ContextVar, copy_context
from enum import StrEnum
from functools import partial
from threading import Event, Thread
from typing import Literal, Protocol

import anyio
from anyio import CapacityLimiter, from_thread, to_thread
from attrs import evolve, field, frozen

from agentctx.budget import each_that_fits
from agentctx.characters import said_by
from agentctx.engine.plan import REDACTOR
from agentctx.engine.relevance import coverage, raw_words
from agentctx.engine.shrink import fits
from agentctx.errors import SourceError
from agentctx.protocols import TokenCounter, cutter_of
from agentctx.secrets import Redactor, redact_secrets
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
        >>> ContextItem("build.log", "a comma is missing", relevance=0.9).relevance
        0.9
    """

    title: str = field(validator=TEXT)
    content: str = field(validator=TEXT)
    relevance: float = field(default=0.5, validator=SHARE)
    source: str = field(default="", validator=TEXT)
    keep: Literal["head", "tail"] = field(default="head", validator=one_of(("head", "tail")))


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


@frozen
class Redacting:
    """A source that takes secrets out of all that it brings."""

    redact: Redactor | None = field(default=redact_secrets, validator=REDACTOR.or_none, kw_only=True)

    def redacted(self, text: str, name: str = "") -> str:
        """Return a text without the secrets in it, read as text of a file of this name."""
        return text if self.redact is None else self.redact(text, name)


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
    TEXT.check("gather.query", query)
    SECONDS.or_none.check("gather.deadline", deadline)
    whole_number(0).or_none.check("gather.max_tokens", max_tokens)
    asked = list(providers)
    answers: dict[int, _Answer] = {}
    threads = CapacityLimiter(max(1, len(asked)))

    async def ask(place: int) -> None:
        answers[place] = await _ask(asked[place], query, deadline, on, threads)

    await side_by_side(partial(ask, place) for place in range(len(asked)))
    in_order = [answers[place] for place in range(len(asked))]
    return await to_thread.run_sync(_choose, in_order, query, max_tokens, counter_of_texts(counter))


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
    description: str = ""
    outcome: SourceOutcome = SourceOutcome.FINE
    problem: str = ""
    found: int = 0
    chosen: int = 0
    cut: int = 0
    tokens: int = 0
    seconds: float = 0.0


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


@frozen
class _Answer:
    """The items of one provider, the room that it asks for, and the report of its call."""

    items: tuple[ContextItem, ...]
    max_tokens: int | None
    report: SourceReport


async def _ask(
    provider: ContextProvider,
    query: str,
    deadline: float | None,
    on: tuple[type[Exception], ...],
    threads: CapacityLimiter,
) -> _Answer:
    """Call a provider; also an error in its attributes is a problem of this provider alone."""
    name, description, room = type(provider).__name__, "", None
    items: tuple[ContextItem, ...] = ()

    async def ask() -> None:
        nonlocal name, description, room, items
        named = getattr(provider, "name", None) or getattr(provider, "__name__", None)
        name = named if isinstance(named, str) else name
        description = str(getattr(provider, "description", ""))
        wanted = getattr(provider, "max_tokens", None)
        if wanted is not None and (isinstance(wanted, bool) or not isinstance(wanted, int)):
            raise SourceError(name, f"max_tokens: expected a whole number of tokens, got {wanted!r:.80}")
        room = wanted
        items = as_items(name, await result_of(provider, query, threads=threads))

    started = anyio.current_time()
    outcome, problem = await outcome_of(ask, deadline, on)
    seconds = anyio.current_time() - started
    report = SourceReport(name, description, outcome, problem, found=len(items), seconds=seconds)
    return _Answer(items, room, report)


async def outcome_of(
    job: Callable[[], Awaitable[None]], deadline: float | None, on: tuple[type[Exception], ...]
) -> tuple[SourceOutcome, str]:
    """Run a user's function for as long as the deadline lets it: whether it ended well, and the problem if not."""
    try:
        with anyio.move_on_after(deadline):
            await job()
            return SourceOutcome.FINE, ""
    except on as error:
        return SourceOutcome.FAILED, redact_secrets(said_by(error), "error.log")
    except anyio.get_cancelled_exc_class():
        if is_cancelled():
            raise
        return SourceOutcome.FAILED, WAS_CANCELLED
    return SourceOutcome.LATE, f"did not answer within {deadline:g} seconds"


async def result_of(function: Callable[..., object], *arguments: str, threads: CapacityLimiter) -> object:
    """Call a function; one that is not async runs in a thread, which is abandoned when it is late."""
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        result = function(*arguments)
    else:
        result = await to_thread.run_sync(_waited_for, function, arguments, abandon_on_cancel=True, limiter=threads)
    return await result if inspect.isawaitable(result) else result


def as_items(name: str, result: object) -> tuple[ContextItem, ...]:
    """Return the items that a provider returned, named after it unless they say where they come from."""
    if result is None:
        return ()
    if not isinstance(result, Sequence) or not all(isinstance(item, ContextItem) for item in result):
        raise SourceError(name, f"returned {type(result).__name__} {result!r:.80} instead of a list of ContextItem")
    return tuple(evolve(item, source=item.source or name) for item in result)


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
    """Call a function in a daemon thread, while this worker thread looks for a cancellation.

    A worker thread of asyncio's that never ends would keep the program from ending.
    """
    result: Future[object] = Future()
    given_up = Event()

    def work() -> None:
        _given_up.set(given_up)
        try:
            result.set_result(function(*arguments))
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            result.set_exception(error)

    Thread(target=copy_context().run, args=(work,), name=f"agentctx {function!r:.60}", daemon=True).start()
    try:
        while not wait((result,), _LOOK).done:
            from_thread.check_cancelled()
    finally:
        given_up.set()
    return result.result()


def _choose(answers: Sequence[_Answer], query: str, max_tokens: int | None, counter: TokenCounter) -> Gathered:
    """Weigh the items by the query, keep each provider within its room, and choose from the rest."""
    items = [item for answer in answers for item in answer.items]
    owners = [place for place, answer in enumerate(answers) for _ in answer.items]
    if raw_words(query):
        shares = coverage(query, [f"{item.title}\n{item.content}" for item in items])
        weighed = zip(items, shares, strict=True)
        items = [evolve(item, relevance=blended(item.relevance, share)) for item, share in weighed]
    order = _by_relevance(items)
    fitting: dict[int, ContextItem] = {}
    for place, answer in enumerate(answers):
        own = [index for index in order if owners[index] == place]
        if answer.max_tokens is None:
            fitting |= {index: items[index] for index in own}
        else:
            fitting |= _fill({index: items[index] for index in own}, answer.max_tokens, counter)
    fitting = {index: fitting[index] for index in order if index in fitting}
    chosen = fitting if max_tokens is None else _select(fitting, max_tokens, counter)
    reports = []
    for place, answer in enumerate(answers):
        own = [index for index in chosen if owners[index] == place]
        cut = sum(chosen[index].content != items[index].content for index in own)
        tokens = sum(counter.count(written(chosen[index])) for index in own)
        reports.append(evolve(answer.report, chosen=len(own), cut=cut, tokens=tokens))
    text = render(tuple(chosen.values()))
    left_out = tuple(item for index, item in enumerate(items) if index not in chosen)
    return Gathered(tuple(chosen.values()), left_out, text, counter.count(text), tuple(reports))


def blended(prior: float, share: float) -> float:
    """Return the worth of an item: half its worth to any task, half the share of this task's words that it has."""
    return (prior + share) / 2


def _by_relevance(items: Sequence[ContextItem]) -> list[int]:
    return sorted(range(len(items)), key=lambda index: (-items[index].relevance, index))


HEADING = "## Relevant context\n\n"
"""What stands above the items."""

_LEAST = 24
"""An item is not cut to fewer tokens than this: so little of it would say nothing."""


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
    in_order = {index: items[index] for index in _by_relevance(items)}
    return tuple(_select(in_order, max_tokens, counter_of_texts(counter)).values())


def _select(items: Mapping[int, ContextItem], max_tokens: int, counter: TokenCounter) -> dict[int, ContextItem]:
    """Choose from items that are in the order of their relevance; they stay in this order."""
    room = max_tokens - counter.count(HEADING)
    if room <= 0:
        return {}

    def cost(index: int) -> int:
        return _cost(items[index], room, counter)

    of_source: dict[str, list[int]] = defaultdict(list)
    for index, item in items.items():
        of_source[item.source].append(index)
    shared = [index for own in of_source.values() for index in each_that_fits(own, cost, room // len(of_source))]
    taken = {index: items[index] for index in shared}
    rest = {index: item for index, item in items.items() if index not in taken}
    sources = {item.source for item in taken.values()}
    taken |= _fill(rest, room - sum(map(cost, taken)), counter, whole=sources)
    chosen = {index: taken[index] for index in items if index in taken}
    while chosen and counter.count(render(tuple(chosen.values()))) > max_tokens:
        chosen.popitem()
    return chosen


def _fill(
    items: Mapping[int, ContextItem], room: int, counter: TokenCounter, *, whole: set[str] | None = None
) -> dict[int, ContextItem]:
    """Take items in order while there is room; one that is too large is cut.

    An item is not cut if its source is in ``whole``; the source of each item that is taken is put there.
    """
    taken: dict[int, ContextItem] = {}
    for index, item in items.items():
        tokens = _cost(item, room, counter)
        fitting: ContextItem | None = item
        if tokens > room:
            fitting = None if whole is not None and item.source in whole else shortened(item, room, counter)
            tokens = 0 if fitting is None else counter.count(written(fitting))
        if fitting is not None:
            taken[index] = fitting
            room -= tokens
            if whole is not None:
                whole.add(item.source)
    return taken


def _cost(item: ContextItem, most: int, counter: TokenCounter) -> int:
    """Count the tokens of an item as it is written; of one that is larger than ``most``, only that it is."""
    text = written(item)
    return counter.count(text) if most > 0 and fits(text, most, counter) else most + 1


def render(items: Sequence[ContextItem]) -> str:
    """The items as text: a heading, and each under its source and title in a fence; empty when there are none."""
    return HEADING + "".join(map(written, items)) if items else ""


def written(item: ContextItem) -> str:
    """One item as text."""
    return section(f"[{item.source}] {item.title}" if item.source else item.title, item.content)


def shortened(item: ContextItem, max_tokens: int, counter: TokenCounter) -> ContextItem | None:
    """Cut an item so that it is written in ``max_tokens``; None when too little of it would be left."""

    def write(content: str) -> str:
        return written(evolve(item, content=content))

    if max_tokens - counter.count(write("")) < _LEAST:
        return None
    content = cut_lines(item.content, max_tokens, counter, item.keep, write)
    return evolve(item, content=content) if content else None


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


def cut_lines(
    text: str,
    max_tokens: int,
    counter: TokenCounter,
    keep: Literal["head", "tail"] = "head",
    write: Callable[[str], str] = str,
) -> str:
    """Return a text that fits, else its first or last lines and how many are left out; empty if not one line fits.

    What counts is the text as ``write`` writes it.
    """
    if max_tokens < 1:
        return ""
    if fits(write(text), max_tokens, counter):
        return text
    cutter, lines = cutter_of(counter), _lines(text)
    room = max_tokens - counter.count(write(_missing(lines)))
    for _ in range(_SLACK):
        if room <= 0:
            break
        # whole lines; a text of one line is cut inside it
        if keep == "head":
            piece = cutter.head(text, room)
            piece = piece[: piece.rfind("\n") + 1] or piece
            result = piece.removesuffix("\n") + "\n" + _missing(max(1, lines - _lines(piece)))
        else:
            piece = cutter.tail(text, room)
            if not text[: len(text) - len(piece)].endswith("\n"):
                piece = piece[piece.find("\n") + 1 :]
            result = _missing(max(1, lines - _lines(piece))) + "\n" + piece
        excess = counter.count(write(result)) - max_tokens
        if excess <= 0 or not piece.strip():
            return result if piece.strip() else ""
        room -= excess
    return ""


def _lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n"))


def _missing(lines: int) -> str:
    return f"[… {lines:,} more lines …]"
