"""Pairs of a session and a pipeline, each replayed once, here or by an executor."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from heapq import heappop, heappush
from importlib import import_module
from itertools import count
from multiprocessing import get_all_start_methods, get_context, parent_process
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Annotated, Any

from attrs import asdict, define, evolve, field, fields, frozen
from attrs.validators import ge, lt, optional

from agentctx import blocking, warmup
from agentctx.comparison.contenders import Contender, Size
from agentctx.economics import input_cost, priced
from agentctx.engine.reading import as_list
from agentctx.errors import AgentctxError, ConfigError, InvalidInput
from agentctx.message import Context, Native
from agentctx.models.profile import ModelProfile
from agentctx.models.table import find
from agentctx.plain import from_plain
from agentctx.replay import Recording, Step, calls_of, reader_of, replay
from agentctx.retention import Watch, needs, watched
from agentctx.users_code import described


def _told(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    """Tell of what a worker that begins fails with, but where nobody waits for it any more: what it shares is gone."""
    if not isinstance(error, EOFError) and not (isinstance(error, FileNotFoundError) and error.filename is None):
        sys.__excepthook__(kind, error, where)


sys.excepthook = _told

import_module("agentctx.presets")
import_module("agentctx.comparison.run")
import_module("anyio._backends._asyncio")  # anyio imports it when an event loop begins
warmup()


AHEAD = 16_000_000
"""So many bytes of sessions are read ahead, as JSON: what takes longest goes first, and a corpus that is larger than
memory streams."""


def compare(
    sessions: Iterable[tuple[str, Recording]],
    contenders: Sequence[Contender],
    *,
    executor: Executor | None = None,
    workers: int | None = None,
    model: str | None = None,
    results: Results | None = None,
    ahead: int = AHEAD,
) -> Iterator[Measured | Failed]:
    """Replay each session through each pipeline, and give one row for each pair, as they are done.

    Args:
        sessions: What each session is called, and the session; they are read as they are needed.
        contenders: The pipelines.
        executor: Runs them: of ``concurrent.futures``, or Dask's or Ray's. Without one, they run here, one by one.
        workers: How many it runs at once; without it, as many as there are processors here.
        model: The model, when it is not the recorded one.
        results: Rows that are there already are given as they are, and new ones are put down.
        ahead: With an executor, so many bytes of sessions are read ahead, as JSON: of them what takes longest goes
            first, so that no worker is left alone with it at the end.

    Yields:
        A row for each pair, or why there is none.

    Example:
        >>> from agentctx.comparison import Contender, compare
        >>> from agentctx.replay import Recording
        >>> said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
        >>> pipelines = [Contender.of("all", preset="everything", window=4_000)]
        >>> [row.calls for row in compare([("greeting", Recording(said))], pipelines)]
        [1]
    """
    pairs = _pairs(sessions, contenders, model)
    if executor is None:
        for pair in pairs:
            known = None if results is None else results.get(pair.key)
            yield known or _taken(pair, _measured(pair.recording, pair.contender, pair.session, model), results)
        return
    yield from _Run(executor, workers or os.cpu_count() or 1, ahead, model, results).rows(pairs)


Sum = Annotated[int, range(2**63)]
"""Tokens of all calls of a session."""


@frozen
class Measured:
    """What a session comes to with a pipeline; one row of a comparison.

    Args:
        session: Which session: file and line.
        id: The recording's name, when it has one.
        pipeline: The contender's name.
        model: The model that was counted and paid for; None when none is known.
        window: The window, in tokens; None without a budget.
        calls: Model calls.
        tokens_given: Tokens of all requests as the loop had them.
        tokens_sent: Tokens of all requests as they would have been sent.
        prefix_tokens: Tokens of them that stand at the start as in the request before: what a cache can serve.
        usd: What the input of all calls costs, in USD, with the provider's cache; None where prices are not known.
        compactions: Calls at which messages that the model had seen were changed or left out.
        invalid: Calls whose request the provider would refuse.
        overflowed: Calls whose request does not fit the window, or could not be made to.
        values: Values that later calls took from what stood before them.
        visible: Of these, those that the request shows.
        recallable: Of the others, those that a handle leads to.
        searchable: Of the others, those that a search in what was left out finds.
        said: Messages of the user between the first and the last.
        kept: Of these, those whose words the last request shows.
        silent: Of the others, those of which it does not say that anything is missing.
        seconds: How long preparing all requests took.

    Example:
        >>> from agentctx.comparison import Contender, measure
        >>> from agentctx.replay import Recording
        >>> said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
        >>> found = measure(Recording(said), Contender.of("small", preset="coding_agent", window=4_000))
        >>> found.calls, found.invalid, found.overflowed
        (1, 0, 0)
    """

    session: str
    id: str | None
    pipeline: str
    model: str | None
    window: int | None
    calls: int = 0
    tokens_given: Sum = 0
    tokens_sent: Sum = 0
    prefix_tokens: Sum = 0
    usd: float | None = field(default=None, validator=optional([ge(0), lt(2**63)]))
    compactions: int = 0
    invalid: int = 0
    overflowed: int = 0
    values: int = 0
    visible: int = 0
    recallable: int = 0
    searchable: int = 0
    said: int = 0
    kept: int = 0
    silent: int = 0
    seconds: float = field(default=0.0, validator=[ge(0), lt(2**63)])

    @property
    def cached_share(self) -> float:
        """The share of what is sent, 0 to 1, that a cache can serve."""
        return self.prefix_tokens / self.tokens_sent if self.tokens_sent else 0.0

    def to_dict(self) -> dict[str, Any]:
        """The row as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Measured:
        """The row that ``to_dict`` wrote; fields that a row does not have are passed over.

        Args:
            plain: A mapping of names of fields to plain values, such as a line of JSON gives.

        Raises:
            InvalidInput: If something is missing, or of another kind than ``to_dict`` writes.
        """
        return from_plain(cls, {each.name: plain.get(each.name, each.default) for each in fields(cls)}, "row")


def measure(recording: Recording, contender: Contender, *, session: str = "", model: str | None = None) -> Measured:
    """Replay a session through a pipeline, as a plain function: it can be called in any process.

    Args:
        recording: The session.
        contender: The pipeline.
        session: What the session is called in the row.
        model: The model, when it is not the recorded one.

    Raises:
        InvalidInput: If a message cannot be read.
        ConfigError: If the pipeline cannot be made for this session.

    Example:
        >>> from agentctx.comparison import Contender, measure
        >>> from agentctx.replay import Recording
        >>> said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
        >>> row = measure(Recording(said, model="gpt-5.4"), Contender.of("all", preset="everything"))
        >>> row.tokens_sent == row.tokens_given, row.overflowed
        (True, 0)
    """
    return blocking(_replayed, recording, contender, session, model)


async def _replayed(recording: Recording, contender: Contender, session: str, model: str | None) -> Measured:
    name = model or recording.model
    warmup(name)  # so that the time of the first call does not hold the loading of the vocabulary
    messages = as_list(recording.messages)
    read = reader_of(recording, model)
    given = read.messages(messages)
    system, tools = read.head(recording.system, recording.tools)
    size = Size(read.meter.fixed(Context((), system, tools)), sum(map(read.meter.message, given)))
    pipeline = contender.pipeline(name, size)
    watch = Watch(given, needs(given, calls_of(recording, model=name)))
    offered = recording
    if contender.recalls:
        offered, pipeline = watched(recording, pipeline, watch.library.store, model=name)
    window = None if pipeline.governing is None else pipeline.governing.window
    room = contender.budget(name, size).limit if window is None else None
    sums = _Sums(find(name) if name is not None else None, room)
    async for step in replay(evolve(offered, format=read.wire.name), pipeline, model=name):
        if step.view is not None:
            await watch.see(step.index, step.view.context)
        sums.add(step)
    found = watch.found
    return Measured(session, recording.id, contender.name, name, window, **sums.as_dict(), **asdict(found))


@define
class _Sums:
    """The numbers of steps, added up."""

    profile: ModelProfile | None
    room: int | None
    calls: int = 0
    tokens_given: int = 0
    tokens_sent: int = 0
    prefix_tokens: int = 0
    dollars: float = 0.0
    compactions: int = 0
    invalid: int = 0
    overflowed: int = 0
    seconds: float = 0.0
    _priced: bool = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._priced = self.profile is not None and priced(self.profile)

    def add(self, step: Step) -> None:
        """Add a step."""
        fits = step.fits and (self.room is None or step.tokens_sent <= self.room)
        self.calls += 1
        self.tokens_given += step.tokens_given
        self.tokens_sent += step.tokens_sent
        self.prefix_tokens += step.prefix_tokens
        self.compactions += step.compacted
        self.invalid += step.overflow is None and not step.valid
        self.overflowed += not fits
        self.seconds += step.seconds
        if self.profile is not None and self._priced:
            self.dollars += input_cost(self.profile, step.tokens_sent, step.prefix_tokens)

    def as_dict(self) -> dict[str, Native]:
        """The sums, by the names of a row."""
        summed = {each.name: getattr(self, each.name) for each in fields(_Sums) if each.name in _SUMMED}
        return summed | {"usd": round(self.dollars, 6) if self._priced else None, "seconds": round(self.seconds, 6)}


_SUMMED = (
    *("calls", "tokens_given", "tokens_sent", "prefix_tokens"),
    *("compactions", "invalid", "overflowed"),
)


@frozen
class Failed:
    """A session that could not be replayed through a pipeline.

    Args:
        session: Which session.
        pipeline: The contender's name.
        error: Why.

    Example:
        >>> from agentctx.comparison import Contender, compare
        >>> from agentctx.replay import Recording
        >>> broken = Recording([{"role": "user", "content": 3}], format="openai-chat")
        >>> pipelines = [Contender.of("all", preset="everything", window=4_000)]
        >>> [type(row).__name__ for row in compare([("a", broken)], pipelines)]
        ['Failed']
    """

    session: str
    pipeline: str
    error: str


@frozen
class _Pair:
    """A session and a pipeline; ``key`` tells the two, with all that decides their row, from all others.

    ``size`` is that of the session, in bytes of JSON.
    """

    session: str
    recording: Recording = field(repr=False)
    contender: Contender
    key: str
    size: int


def _pairs(
    sessions: Iterable[tuple[str, Recording]], contenders: Sequence[Contender], model: str | None
) -> Iterator[_Pair]:
    for session, recording in sessions:
        told = (list(recording.messages), recording.system, recording.tools, recording.format, recording.pending)
        words = json.dumps((*told, model or recording.model), sort_keys=True, default=repr)
        content = words.encode("utf-8", "surrogatepass")
        said, size = sha256(content).hexdigest()[:32], len(content)
        for contender in contenders:
            yield _Pair(session, recording, contender, f"{said}-{contender.fingerprint}", size)


def _measured(recording: Recording, contender: Contender, session: str, model: str | None) -> Measured | Failed:
    """The row of a pair; what is wrong with its session, or its stages, is a row of its own, and the others go on."""
    try:
        return measure(recording, contender, session=session, model=model)
    except AgentctxError as error:
        return Failed(session, contender.name, str(error))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a stage of the user's may raise what it will
        return Failed(session, contender.name, described(error))


def _taken(pair: _Pair, row: Measured | Failed, results: Results | None) -> Measured | Failed:
    if results is not None and isinstance(row, Measured):
        results.put(pair.key, row)
    return row


@define
class _Waiting:
    """Pairs that were read and not begun; the one that will take longest goes first.

    How long a session takes a pipeline is reckoned by its size, and by how long others took that pipeline. ``size``
    is that of all sessions of which a pair waits.
    """

    size: int = 0
    _heaps: dict[Contender, list[tuple[int, int, _Pair]]] = field(factory=dict)
    _pairs_of: Counter[int] = field(factory=Counter)
    _places: Iterator[int] = field(factory=count)
    _took: dict[Contender, tuple[float, int]] = field(factory=dict)

    def __bool__(self) -> bool:
        """Whether there is any."""
        return any(self._heaps.values())

    def add(self, pair: _Pair) -> None:
        """Let a pair wait; of equal ones the first goes first."""
        self.size += 0 if self._pairs_of[id(pair.recording)] else pair.size
        self._pairs_of[id(pair.recording)] += 1
        heappush(self._heaps.setdefault(pair.contender, []), (-pair.size, next(self._places), pair))

    def next(self) -> _Pair:
        """The pair that will take longest."""
        longest = max(filter(None, self._heaps.values()), key=lambda heap: self._seconds(heap[0][2]))
        pair = heappop(longest)[2]
        self._pairs_of[id(pair.recording)] -= 1
        if not self._pairs_of[id(pair.recording)]:
            del self._pairs_of[id(pair.recording)]
            self.size -= pair.size
        return pair

    def learn(self, pair: _Pair, row: Measured) -> None:
        """Take down how long a pair took."""
        seconds, size = self._took.get(pair.contender, (0.0, 0))
        self._took[pair.contender] = seconds + row.seconds, size + pair.size

    def _seconds(self, pair: _Pair) -> tuple[float, int]:
        """How long a pair will take; of a pipeline that nothing is known of, longer than the others."""
        seconds, size = self._took.get(pair.contender, (float("inf"), 1))
        return pair.size * seconds / max(1, size), pair.size


IN_FLIGHT = 2
"""So many pairs are with each worker: it never waits for one."""


@define
class _Run:
    """One comparison on an executor."""

    executor: Executor
    workers: int
    ahead: int
    model: str | None
    results: Results | None
    waiting: _Waiting = field(factory=_Waiting)
    running: dict[Future[Measured | Failed], _Pair] = field(factory=dict)
    own: ExitStack = field(factory=ExitStack)

    @property
    def most(self) -> int:
        """So many pairs are with the executor at once."""
        return IN_FLIGHT * self.workers

    def rows(self, pairs: Iterator[_Pair]) -> Iterator[Measured | Failed]:
        """The rows of pairs, which are read as they are needed."""
        try:
            for pair in pairs:
                if self.results is not None and (known := self.results.get(pair.key)) is not None:
                    yield known
                    continue
                self.waiting.add(pair)
                self._begin()
                while len(self.running) >= self.most and self.waiting.size > self.ahead:
                    yield from self._done()
                yield from self._done(0)
            while self.running:
                yield from self._done()
        finally:
            for future in self.running:
                future.cancel()
            self.own.close()

    def _begin(self) -> None:
        """Give the workers what they have room for; those of a pool that broke are replaced."""
        while self.waiting and len(self.running) < self.most:
            pair = self.waiting.next()
            try:
                future = self._submit(self.executor, pair)
            except BrokenExecutor as error:
                if not isinstance(self.executor, ProcessPoolExecutor):
                    msg = f"the executor broke: {described(error)}"
                    raise ConfigError(msg) from error
                self.executor = self.own.enter_context(processes(self.workers))
                future = self._submit(self.executor, pair)
            self.running[future] = pair

    def _submit(self, executor: Executor, pair: _Pair) -> Future[Measured | Failed]:
        return executor.submit(_measured, pair.recording, pair.contender, pair.session, self.model)

    def _row(self, future: Future[Measured | Failed], pair: _Pair) -> Measured | Failed:
        """What came of a pair."""
        try:
            return future.result()
        except BrokenExecutor as error:
            if isinstance(self.executor, ProcessPoolExecutor):
                return self._alone(pair)
            return Failed(pair.session, pair.contender.name, f"the executor broke: {described(error)}")

    def _alone(self, pair: _Pair) -> Measured | Failed:
        """The row of a pair that was under way when a process died, in a process of its own: was it this one's?"""
        with processes(1) as executor:
            try:
                return self._submit(executor, pair).result()
            except BrokenExecutor:
                what = "its process died: it was killed, ran out of memory, or a stage ended it"
                return Failed(pair.session, pair.contender.name, what)

    def _done(self, seconds: float | None = None) -> Iterator[Measured | Failed]:
        """The rows of those that are done, or that are done next; others begin in their place."""
        done, _ = wait(self.running, seconds, return_when=FIRST_COMPLETED)
        rows = []
        for future in done:
            pair = self.running.pop(future)
            rows.append(row := _taken(pair, self._row(future, pair), self.results))
            if isinstance(row, Measured):
                self.waiting.learn(pair, row)
        self._begin()
        yield from rows


@define(eq=False)
class Results:
    """Rows in a file of JSON lines, one written as soon as it is there: what was interrupted goes on from there.

    A row is known again by the session's content, the model, what the pipeline is made of and the version that ran
    it; not by names.

    Args:
        path: The file; made where there is none.

    Raises:
        InvalidInput: If it cannot be read or written, or is another kind of file.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from agentctx.comparison import Contender, Results, compare
        >>> from agentctx.replay import Recording
        >>> said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
        >>> pipelines = [Contender.of("all", preset="everything", window=4_000)]
        >>> with TemporaryDirectory() as folder:
        ...     for _ in range(2):  # the second time nothing is replayed
        ...         rows = list(compare([("a", Recording(said))], pipelines, results=Results(f"{folder}/rows.jsonl")))
        ...     len(Path(f"{folder}/rows.jsonl").read_text().splitlines())
        1
    """

    path: str
    _rows: dict[str, dict[str, Any]] = field(init=False, factory=dict, repr=False)

    def __attrs_post_init__(self) -> None:
        """Read what is there; a last line that was not finished is taken away."""
        path = Path(self.path)
        if path.exists() and not path.is_file() and not path.is_dir():
            raise InvalidInput(self.path, "is a pipe or a device, from which no comparison can go on: name a file")
        try:
            content = path.read_bytes() if path.exists() else b""
        except OSError as error:
            raise InvalidInput(self.path, f"cannot be read: {error.strerror or error}") from None
        whole, _, rest = content.rpartition(b"\n")
        for number, line in enumerate(whole.splitlines() if content else (), 1):
            key, row = _row(line, f"{self.path}: line {number}")
            self._rows[key] = row
        if rest:
            if not (rest.startswith(_BEGINS) or (len(rest) < len(_BEGINS) and _BEGINS.startswith(rest))):
                raise InvalidInput(self.path, "is no file of results")
            os.truncate(path, len(content) - len(rest))

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self._rows)

    def get(self, key: str) -> Measured | None:
        """The row of a pair, if it is there.

        Args:
            key: What tells the session and the pipeline, with all that decides their row, from all others.
        """
        row = self._rows.get(key)
        return None if row is None else Measured.from_dict(row)

    def put(self, key: str, row: Measured) -> None:
        """Write a row down.

        Args:
            key: What tells the session and the pipeline, with all that decides their row, from all others.
            row: What was measured.

        Raises:
            InvalidInput: If it cannot be written.
        """
        plain = row.to_dict()
        try:
            with Path(self.path).open("ab") as file:
                file.write(json.dumps({"key": key, **plain}).encode() + b"\n")
        except OSError as error:
            raise InvalidInput(self.path, f"cannot be written: {error.strerror or error}") from None
        self._rows[key] = plain


_BEGINS = b'{"key": '


def _row(line: bytes, where: str) -> tuple[str, dict[str, Any]]:
    try:
        row = json.loads(line)
        key = row.pop("key")
        Measured.from_dict(row)
        hash(key)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise InvalidInput(where, "is no row of a comparison: name another file for the results") from None
    return key, row


_EXPECTED = "expected what agentctx compare writes with --json or --out"


def read_rows(text: str, where: str) -> list[Measured]:
    """The rows that ``agentctx compare`` wrote, with ``--json`` or into the file of ``--out``.

    Args:
        text: JSON lines.
        where: What to call them in an error.

    Raises:
        InvalidInput: If a line is no such row, or there is none.
    """
    rows = list(_rows(text, where))
    if not rows:
        raise InvalidInput(where, f"has no rows: {_EXPECTED}")
    return rows


def _rows(text: str, where: str) -> Iterator[Measured]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            yield Measured.from_dict(json.loads(line))
        except (ValueError, TypeError, AttributeError, RecursionError):
            at = f"{where}, line {number}"
            raise InvalidInput(at, f"is no row of a comparison: {_EXPECTED}") from None


def processes(number: int) -> Executor:
    """An executor on so many processes; they begin now, and are ready while sessions are read.

    Where the system can, they are forked from a process that has loaded what they need and does nothing else.

    Args:
        number: How many processes.

    Example:
        >>> from agentctx.comparison import Contender, compare, processes
        >>> from agentctx.replay import Recording
        >>> said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
        >>> pipelines = [Contender.of("all", preset="everything", window=4_000)]
        >>> with processes(1) as executor:
        ...     [row.calls for row in compare([("greeting", Recording(said))], pipelines, executor=executor, workers=1)]
        [1]
    """
    forks = "forkserver" in get_all_start_methods()
    context = get_context("forkserver" if forks else "spawn")
    if forks:
        from multiprocessing import forkserver, resource_tracker  # noqa: PLC0415 - not every system has them

        context.set_forkserver_preload(["agentctx.comparison.run"])
        resource_tracker.ensure_running()
        with _uninterrupted():
            forkserver.ensure_running()
    executor = ProcessPoolExecutor(number, context, initializer=_end_when_asked)
    for _ in range(number):
        executor.submit(os.getpid)
    return executor


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let an interrupt wait, also for processes that are begun meanwhile."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_when_asked() -> None:
    """Let this worker end where whoever began it is killed; and say nothing where it is interrupted: that one does."""
    parent = parent_process()
    signal.signal(signal.SIGINT, lambda *_: os._exit(1))
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    def wait() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    Thread(target=wait, daemon=True).start()
