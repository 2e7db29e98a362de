"""One recorded session through one pipeline, in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import asdict, define, evolve, field, fields, frozen

from agentctx import blocking, warmup
from agentctx.comparison.contenders import Contender, Size
from agentctx.core.message import Context, Message, Native
from agentctx.economics.conditions import input_cost, priced
from agentctx.engine.reading import Reader, as_list
from agentctx.models.profile import ModelProfile
from agentctx.models.table import find
from agentctx.replay import Recording, Step, calls_of, reader_of, replay
from agentctx.retention import Watch, needs, watched


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
    tokens_given: int = 0
    tokens_sent: int = 0
    prefix_tokens: int = 0
    usd: float | None = None
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
    seconds: float = 0.0

    @property
    def cached_share(self) -> float:
        """The share of what is sent, 0 to 1, that a cache can serve."""
        return self.prefix_tokens / self.tokens_sent if self.tokens_sent else 0.0

    def to_dict(self) -> dict[str, Any]:
        """The row as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Measured:
        """The row that ``to_dict`` wrote; what it does not know is left out.

        Args:
            plain: A mapping of names of fields to plain values, such as a line of JSON gives.

        Raises:
            TypeError: If something is missing, or of another kind than ``to_dict`` writes.
        """
        known = {each.name: plain[each.name] for each in fields(cls) if each.name in plain}
        for each in fields(cls):
            if each.name in known and not _is(known[each.name], str(each.type)):
                msg = f"{each.name}: expected {each.type}"
                raise TypeError(msg)
        return cls(**known)


_MOST = 2**63 - 1
"""The largest number that a column holds."""


def _is(value: object, kind: str) -> bool:
    """Whether a value read from JSON is what a row has in a field of this kind."""
    if value is None:
        return "None" in kind
    if kind.startswith("str"):
        return isinstance(value, str)
    if isinstance(value, bool) or not isinstance(value, int if kind.startswith("int") else (int, float)):
        return False
    return 0 <= value <= _MOST  # no NaN either


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
    return blocking(_measure, recording, contender, session, model)


async def _measure(recording: Recording, contender: Contender, session: str, model: str | None) -> Measured:
    name = model or recording.model
    warmup(name)  # so that the time of the first call does not hold the loading of the vocabulary
    messages = as_list(recording.messages)
    read = reader_of(recording, model)
    given = read.messages(messages)
    size = _size(read, recording, given)
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


def _size(read: Reader, recording: Recording, given: Sequence[Message]) -> Size:
    """What the whole session comes to, and what of it no request can be without."""
    system, tools = read.head(recording.system, recording.tools)
    return Size(read.meter.fixed(Context((), system, tools)), sum(map(read.meter.message, given)))


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
