"""The pipelines to compare, as plain values: sent to other processes, written down, made there for each session."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from hashlib import sha256
from inspect import signature
from pathlib import Path
from typing import Any, cast

from attrs import field, frozen

import agentctx
from agentctx import presets, strategies
from agentctx.budget import Amount, Budget, reserve_for_answer
from agentctx.errors import AgentctxError, ConfigError
from agentctx.message import Native
from agentctx.pipeline import Pipeline
from agentctx.protocols import ContextStrategy
from agentctx.strategies import TruncateOldest
from agentctx.users_code import called, pipeline_or_maker

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
        found = pipeline_or_maker(named, self.name)
        if isinstance(found, Pipeline):
            return found if found.governing is not None else found.with_budget(self.budget(model, size))
        made = called(found, named, self.name, self.budget(model, size), model)
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
