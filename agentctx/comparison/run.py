"""Pairs of a session and a pipeline, each replayed once, here or by an executor.

The pipelines are plain values: sent to other processes, written down, made there for each session.
"""

from __future__ import annotations

import json
import os
import signal
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from hashlib import sha256
from heapq import heappop, heappush
from inspect import signature
from multiprocessing import get_all_start_methods, get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Annotated, Any, cast

from attrs import asdict, define, evolve, field, fields, frozen
from attrs.validators import ge, lt, optional

import agentctx
from agentctx import blocking, presets, strategies, warmup
from agentctx.budget import Amount, Budget, reserve_for_answer
from agentctx.economics import input_cost, priced
from agentctx.engine.reading import as_list
from agentctx.errors import AgentctxError, ConfigError, InvalidInput
from agentctx.message import Context, Native
from agentctx.models.table import find
from agentctx.pipeline import Pipeline
from agentctx.plain import from_plain
from agentctx.protocols import ContextStrategy
from agentctx.replay import Recording, calls_of, reader_of, replay, summarise
from agentctx.retention import Watch, needs, watched
from agentctx.strategies import TruncateOldest
from agentctx.users_code import called, described, pipeline_or_maker

EVERYTHING = "everything"
"""Sends the whole history, whether it fits or not."""
OLDEST = "oldest_out"
"""Leaves out the oldest messages at each call, as few as must be: what loops do that have no library."""
PRESETS = ("coding_agent", "thrifty", "assistant", "general")
READY = (EVERYTHING, OLDEST, *PRESETS)
"""What has a name of its own."""

_KEYS = frozenset({"preset", "pipeline", "stages", "window", "reserve", "trigger", "target", "recall"})
_BUDGET = ("window", "reserve", "trigger", "target")


@frozen
class Size:
    """What a recorded session comes to.

    Args:
        head: System prompt and tools, in tokens.
        messages: All messages, in tokens.

    Example:
        >>> from agentctx.comparison import Contender, Size
        >>> Contender.of("third", preset="thrifty", window=1 / 3).budget(None, Size(1_000, 90_000)).window
        31000
    """

    head: int
    messages: int


def _frozen(made_of: Mapping[str, Any]) -> str:
    return json.dumps(dict(made_of), sort_keys=True)


@frozen
class Contender:
    """A pipeline to compare, by what it is made of: a plain value, from which each process makes its own.

    Args:
        name: What it is called in the results.
        made_of: JSON of what it is made of. One of ``"preset"``, the name of a preset, or ``everything`` or
            ``oldest_out``; ``"pipeline"``, ``module:name`` of a ``Pipeline`` or of a function of a ``Budget`` and a
            model's name; ``"stages"``, a list of stages, each its class's name, or an object of that name with its
            options. And the budget: ``"window"`` in tokens, or as a share (above 0, up to 1.0) of what a session's
            messages come to, beside system prompt and tools; without it, the model's; ``"reserve"``, ``"trigger"`` and
            ``"target"`` as of ``Budget``. Without a reserve, a window in tokens leaves room for the answer, and a share
            leaves none. ``"recall"`` says whether the model is offered the tool that brings back what
            was left out; without it, the presets are compared with it, and all others without.

    Raises:
        ConfigError: If it says no way to make a pipeline, or several.

    Example:
        >>> from agentctx.comparison import Contender, Size
        >>> contender = Contender.of("small", preset="coding_agent", window=0.25)
        >>> contender.pipeline(None, Size(head=2_000, messages=100_000)).budget.window
        27000
    """

    name: str
    made_of: str = field(repr=False)

    def __attrs_post_init__(self) -> None:
        """Check what can be checked before any session is there."""
        said = self._said
        if not self.name.strip():
            msg = "a pipeline has no name: give it one, under which it stands in the results"
            raise ConfigError(msg)
        if unknown := sorted(said.keys() - _KEYS):
            msg = f"{self.name}: unknown {', '.join(map(repr, unknown))}; there are {', '.join(sorted(_KEYS))}"
            raise ConfigError(msg)
        ways = [key for key in ("preset", "pipeline", "stages") if key in said]
        if len(ways) != 1:
            found = f"has {' and '.join(ways)}" if ways else "has none"
            msg = f"{self.name}: a pipeline is made of one of preset, pipeline and stages; this one {found}"
            raise ConfigError(msg)
        if "preset" in said and said["preset"] not in READY:
            msg = f"{self.name}: no preset is called {said['preset']!r}; there are {', '.join(READY)}"
            raise ConfigError(msg)
        if said.get("preset") == EVERYTHING and (idle := [key for key in ("trigger", "target") if key in said]):
            msg = f"{self.name}: {EVERYTHING} leaves nothing out: leave {' and '.join(idle)} out"
            raise ConfigError(msg)
        if "stages" in said and not tuple(self._stages()):
            msg = f'{self.name}: stages is empty: a pipeline without stages sends everything: preset = "{EVERYTHING}"'
            raise ConfigError(msg)
        if self.brings_its_budget and any(key in said for key in _BUDGET):
            msg = f"{self.name}: it has its own budget: leave {', '.join(_BUDGET)} out"
            raise ConfigError(msg)
        if (window := said.get("window")) is not None:
            self._check_window(window)
            if "pipeline" not in said:
                self._try_the_budget(window)

    def _check_window(self, window: object) -> None:
        if isinstance(window, bool) or not isinstance(window, int | float) or window <= 0:
            msg = f"{self.name}: window is {window!r}; it is a number of tokens, or a share of the session, 0 to 1"
            raise ConfigError(msg)
        if isinstance(window, int) and window == 1:
            msg = f"{self.name}: window is 1, which is one token; write 1.0 for all that a session's messages come to"
            raise ConfigError(msg)

    def _try_the_budget(self, window: float) -> None:
        """Say at once what is wrong with a budget whose window is known, or a share."""
        try:
            self.budget(None, Size(4_000, 400_000) if window <= 1 else Size(0, 0))
        except AgentctxError as error:
            msg = f"{self.name}: {error}"
            raise ConfigError(msg) from None

    @classmethod
    def of(cls, name: str, **made_of: Native) -> Contender:
        """A contender of plain values.

        Args:
            name: What it is called in the results.
            made_of: As in the class.

        Raises:
            ConfigError: If it says no way to make a pipeline, or several.
        """
        return cls(name, _frozen({key: value for key, value in made_of.items() if value is not None}))

    @property
    def _said(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self.made_of)
        return said

    @property
    def brings_its_budget(self) -> bool:
        """Whether it is a pipeline of the user's that has its own budget."""
        named = self._said.get("pipeline")
        return named is not None and _has_its_own_budget(named, self.name)

    @property
    def fingerprint(self) -> str:
        """Tells it, with what it is made of and the version that runs it, from all others."""
        return sha256(f"{agentctx.__version__} {self.made_of}".encode()).hexdigest()[:16]

    @property
    def recalls(self) -> bool:
        """Whether the model is offered the tool that brings back what was left out."""
        return bool(self._said.get("recall", self._said.get("preset") in PRESETS))

    def budget(self, model: str | None, size: Size) -> Budget:
        """The room of one call.

        Args:
            model: The model.
            size: What the session comes to.

        Raises:
            ConfigError: If neither a window was given nor the model's is known.
            UnknownModel: If the model table does not know the model.
        """
        said = self._said
        trigger, target = said.get("trigger"), said.get("target")
        if (window := said.get("window")) is None:
            if model is None:
                msg = f"{self.name}: the recording names no model, and no window was given"
                raise ConfigError(msg)
            return Budget.for_model(model, output_reserve=said.get("reserve"), trigger=trigger, target=target)
        share = isinstance(window, float) and window <= 1
        tokens = size.head + max(1, round(window * size.messages)) if share else int(window)
        reserve = cast("Amount", said.get("reserve", 0 if share else reserve_for_answer(tokens)))
        return Budget(tokens, reserve, trigger=trigger, target=target)

    def pipeline(self, model: str | None, size: Size) -> Pipeline:
        """The pipeline for a session.

        Args:
            model: The model.
            size: What the session comes to.

        Raises:
            ConfigError: If it cannot be made.
            UnknownModel: If the model table does not know the model.
        """
        said = self._said
        if "pipeline" in said:
            return self._named(said["pipeline"], model, size)
        if said.get("preset") == EVERYTHING:
            return Pipeline()
        budget = self.budget(model, size)
        if said.get("preset") == OLDEST:
            return Pipeline(TruncateOldest(), budget=budget)
        if "preset" in said:
            made: Pipeline = getattr(presets, said["preset"])(budget, model)
            return made
        return Pipeline(*self._stages(), budget=budget)

    def _named(self, named: str, model: str | None, size: Size) -> Pipeline:
        maker = pipeline_or_maker(named, self.name)
        is_made = isinstance(maker, Pipeline)
        made = maker if is_made else called(maker, named, self.name, self.budget(model, size), model)
        if not isinstance(made, Pipeline):
            msg = f"{self.name}: {named} makes a {type(made).__name__}, and no Pipeline"
            raise ConfigError(msg)
        return made if made.governing is not None else made.with_budget(self.budget(model, size))

    def _stages(self) -> Iterator[ContextStrategy]:
        stages = self._said["stages"]
        if not isinstance(stages, list):
            msg = f"{self.name}: stages is {stages!r}; it is a list"
            raise ConfigError(msg)
        for place, said in enumerate(stages):
            name, options = (said, {}) if isinstance(said, str) else _named_options(said, f"{self.name}: stage {place}")
            yield self._stage(name, options, place)

    def _stage(self, name: str, options: Mapping[str, Any], place: int) -> ContextStrategy:
        home = next((part for part in _HOMES if name in part.__all__), None)
        if home is None or not _is_a_stage(getattr(home, name)):
            msg = f"{self.name}: stage {place}: no stage is called {name!r}{_near(name, _stages())}"
            raise ConfigError(msg)
        made = getattr(home, name)
        taken = signature(made).parameters
        if unknown := [option for option in options if option not in taken]:
            near = f"{_near(unknown[0], taken)}; it takes {', '.join(taken) or 'none'}"
            msg = f"{self.name}: stage {place}: {name} has no option {unknown[0]!r}{near}"
            raise ConfigError(msg)
        try:
            stage: ContextStrategy = made(**options)
        except (TypeError, AgentctxError) as error:
            msg = f"{self.name}: stage {place}: {name}: {error}"
            raise ConfigError(msg) from error
        return stage


_HOMES = (agentctx, strategies)


def _is_a_stage(named: object) -> bool:
    """Whether this is a class whose instances are called as stages are."""
    return isinstance(named, type) and "__call__" in dir(named)


def _stages() -> list[str]:
    return [name for part in _HOMES for name in part.__all__ if _is_a_stage(getattr(part, name))]


def _near(name: str, among: Iterable[str]) -> str:
    """What a wrong name may have been meant for."""
    found = get_close_matches(name, list(among), 1)
    return f" (did you mean {found[0]!r}?)" if found else ""


def _named_options(said: object, where: str) -> tuple[str, Mapping[str, Any]]:
    if isinstance(said, dict) and len(said) == 1:
        ((name, options),) = said.items()
        if isinstance(options, dict):
            return name, options
    msg = f"{where} is {said!r:.80}; it is a name, or one name with its options: {{TrimRounds = {{max_rounds = 5}}}}"
    raise ConfigError(msg)


def _has_its_own_budget(named: str, where: str) -> bool:
    """Whether ``module:name``, for which an error says ``where``, is a pipeline that brings its budget."""
    found = pipeline_or_maker(named, where)
    return isinstance(found, Pipeline) and found.governing is not None


def contender(said: str, **budget: Native) -> Contender:
    """A contender by one word: the name of a preset, ``everything``, ``oldest_out``, or ``module:name``.

    Args:
        said: The word.
        budget: Its budget, where it does not bring one of its own: see ``Contender``.

    Raises:
        ConfigError: If there is none.
    """
    if ":" in said:
        return Contender.of(said, pipeline=said, **({} if _has_its_own_budget(said, "--pipeline") else budget))
    return Contender.of(said, preset=said, **budget)


def read_contenders(path: str, **budget: Native) -> list[Contender]:
    """The contenders of a TOML file: a table each, with what it is made of.

    Args:
        path: The file.
        budget: The budget of those that have no word of it.

    Raises:
        ConfigError: If it cannot be read, or a table makes no pipeline; names the table.

    Example:
        >>> from tempfile import NamedTemporaryFile
        >>> from agentctx.comparison import read_contenders
        >>> text = b'''
        ... [gentle]
        ... preset = "coding_agent"
        ... trigger = 0.9
        ... [plain]
        ... stages = [{TruncateToolOutputs = {max_tokens = 500}}, "FitContextWindow"]
        ... '''
        >>> with NamedTemporaryFile(suffix=".toml") as file:
        ...     _ = file.write(text)
        ...     file.flush()
        ...     [each.name for each in read_contenders(file.name, window=32_000)]
        ['gentle', 'plain']
    """
    try:
        tables = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror or error}"
        raise ConfigError(msg) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        msg = f"{path}: is no TOML: {error}"
        raise ConfigError(msg) from None
    found = []
    for name, table in tables.items():
        if not isinstance(table, dict):
            msg = f"{path}: {name} is {table!r:.40}; each pipeline is a table: [{name}]"
            raise ConfigError(msg)
        own = {key: value for key, value in budget.items() if value is not None}
        named = table.get("pipeline")
        defaults = {} if named is not None and _has_its_own_budget(named, f"{path}: {name}") else own
        try:
            made_of = _frozen(defaults | table)
        except TypeError:
            msg = f"{path}: {name}: holds a date or a time; settings are numbers, texts, lists and tables"
            raise ConfigError(msg) from None
        try:
            found.append(Contender(name, made_of))
        except ConfigError as error:
            msg = f"{path}: {error}"
            raise ConfigError(msg) from error
    if not found:
        msg = f"{path}: has no tables, each of which would be a pipeline"
        raise ConfigError(msg)
    return found


AHEAD = 16_000_000
"""So many bytes of sessions are read ahead, as JSON: the largest go first, and a corpus that is larger than memory
streams."""


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
        ahead: With an executor, so many bytes of sessions are read ahead, as JSON: of them the largest go first, so
            that no worker is left alone with one at the end.

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
    steps = []
    async for step in replay(evolve(offered, format=read.wire.name), pipeline, model=name):
        if step.view is not None:
            await watch.see(step.index, step.view.context)
        steps.append(step.without_view())
    profile, summary, usd = None if name is None else find(name), summarise(steps), None
    if profile is not None and priced(profile):
        usd = round(sum(input_cost(profile, step.tokens_sent, step.prefix_tokens) for step in steps), 6)
    return Measured(
        session,
        recording.id,
        contender.name,
        name,
        window,
        calls=summary.steps,
        tokens_given=summary.tokens_given,
        tokens_sent=summary.tokens_sent,
        prefix_tokens=summary.prefix_tokens,
        usd=usd,
        compactions=summary.compactions,
        invalid=sum(step.overflow is None and not step.valid for step in steps),
        overflowed=sum(not step.fits or (room is not None and step.tokens_sent > room) for step in steps),
        seconds=round(summary.seconds, 6),
        **asdict(watch.found),
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

    ``size`` is the pair's share of its session, in bytes of JSON.
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
        said, size = sha256(content).hexdigest()[:32], len(content) // len(contenders)
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
    waiting: list[tuple[int, int, _Pair]] = field(factory=list)
    waiting_bytes: int = 0
    running: dict[Future[Measured | Failed], _Pair] = field(factory=dict)
    own: ExitStack = field(factory=ExitStack)

    @property
    def most(self) -> int:
        """So many pairs are with the executor at once."""
        return IN_FLIGHT * self.workers

    def rows(self, pairs: Iterator[_Pair]) -> Iterator[Measured | Failed]:
        """The rows of pairs, which are read as they are needed."""
        try:
            for place, pair in enumerate(pairs):
                if self.results is not None and (known := self.results.get(pair.key)) is not None:
                    yield known
                    continue
                heappush(self.waiting, (-pair.size, place, pair))  # of equal ones the first goes first
                self.waiting_bytes += pair.size
                self._begin()
                while len(self.running) >= self.most and self.waiting_bytes > self.ahead:
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
            pair = heappop(self.waiting)[2]
            self.waiting_bytes -= pair.size
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
            rows.append(_taken(pair, self._row(future, pair), self.results))
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
    _rows: dict[str, Measured] = field(init=False, factory=dict, repr=False)

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
            at, other = f"{self.path}: line {number}", "name another file for the results"
            row, key = _row(line, at, other)
            if key is None:
                raise InvalidInput(at, f"is no row of a comparison: {other}")
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
        return self._rows.get(key)

    def put(self, key: str, row: Measured) -> None:
        """Write a row down.

        Args:
            key: What tells the session and the pipeline, with all that decides their row, from all others.
            row: What was measured.

        Raises:
            InvalidInput: If it cannot be written.
        """
        try:
            with Path(self.path).open("ab") as file:
                file.write(json.dumps({"key": key, **row.to_dict()}).encode() + b"\n")
        except OSError as error:
            raise InvalidInput(self.path, f"cannot be written: {error.strerror or error}") from None
        self._rows[key] = row


_BEGINS = b'{"key": '


def _row(line: bytes | str, where: str, what: str) -> tuple[Measured, str | None]:
    """Read a row, with its key where it has one; ``what`` says what to do where the line is no row."""
    try:
        plain = json.loads(line)
        key = plain.get("key")
        hash(key)
        return Measured.from_dict(plain), key
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise InvalidInput(where, f"is no row of a comparison: {what}") from None


_EXPECTED = "expected what agentctx compare writes with --json or --out"


def read_rows(text: str, where: str) -> list[Measured]:
    """The rows that ``agentctx compare`` wrote, with ``--json`` or into the file of ``--out``.

    Args:
        text: JSON lines.
        where: What to call them in an error.

    Raises:
        InvalidInput: If a line is no such row, or there is none.
    """
    lines = ((number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip())
    rows = [_row(line, f"{where}, line {number}", _EXPECTED)[0] for number, line in lines]
    if not rows:
        raise InvalidInput(where, f"has no rows: {_EXPECTED}")
    return rows


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

        context.set_forkserver_preload(["agentctx.comparison.loaded"])
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
