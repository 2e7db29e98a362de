"""The options that several commands share, and what they name: sizes, transcripts, a pipeline."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

import typer
from attrs import frozen

from agentctx import ClearToolResults, FitContextWindow, TruncateToolOutputs, over, presets, when
from agentctx.budget import Amount, Budget
from agentctx.characters import on_one_line, printable
from agentctx.cli.console import err, prints_on_stderr
from agentctx.engine.plan import as_budget
from agentctx.errors import ConfigError, UnknownModel
from agentctx.formats.registry import FORMATS
from agentctx.pipeline import Pipeline
from agentctx.protocols import ContextStrategy
from agentctx.transcripts import Transcript
from agentctx.transcripts.reading import Wrong, chosen as chosen_of, local_sessions, session_named
from agentctx.users_code import called, pipeline_or_maker, running

_WHOLE = r"[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+(?:_[0-9]+)*"
_NUMBER = re.compile(rf"((?:{_WHOLE})(?:\.[0-9]+)?|\.[0-9]+)\s*([kmg%]?)", re.IGNORECASE)
_SCALE = {"": 1, "k": 1_000, "m": 1_000_000}
_BYTES = _SCALE | {"g": 10**9}
_LARGEST = 10**12


def parse_tokens(option: str, text: str) -> int:
    """A token count: ``8000``, ``8_000``, ``32k`` (thousands) or ``1.5m`` (millions)."""
    return _whole(option, text, "a positive whole number of tokens such as 8000, 32k or 1.5m")


def parse_amount(option: str, text: str) -> Amount:
    """A token count as in ``parse_tokens``, or a share: ``0.8`` or ``80%``."""
    expected = "a share such as 0.8 or 80%, or a number of tokens such as 24k"
    number, unit = _split(option, text, expected)
    share = number / 100 if unit == "%" else number
    if unit != "%" and (unit != "" or share > 1):
        return parse_tokens(option, text)
    if not 0 < share <= 1:
        raise _bad(option, text, expected)
    return float(share)


def parse_limit(option: str, text: str) -> int | None:
    """A whole number such as ``0``, ``8`` or ``2k``, or ``off`` for None."""
    if text.strip().lower() == "off":
        return None
    return _whole(option, text, "a whole number such as 8 or 2k, or off", least=0)


def parse_bytes(option: str, text: str) -> int:
    """A number of bytes: ``5000000``, ``64m`` (millions), ``2g`` (thousand millions), ``64 MB``."""
    expected = "a positive whole number of bytes such as 500k, 64m or 2g"
    number = re.sub(r"(?<=[kmg])b$", "", text.strip(), flags=re.IGNORECASE)
    try:
        return _whole(option, number, expected, _BYTES, most=None)
    except ConfigError:
        raise _bad(option, text, expected) from None


def _whole(
    option: str,
    text: str,
    expected: str,
    units: Mapping[str, int] = _SCALE,
    *,
    least: int = 1,
    most: int | None = _LARGEST,
) -> int:
    number, unit = _split(option, text, expected)
    value = number * units.get(unit, 0)
    if unit not in units or value != int(value) or value < least or (most is not None and value > most):
        raise _bad(option, text, expected)
    return int(value)


def _split(option: str, text: str, expected: str) -> tuple[Decimal, str]:
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        raise _bad(option, text, expected)
    return Decimal(found[1].replace("_", "").replace(",", "")), found[2].lower()


def _bad(option: str, text: str, expected: str) -> ConfigError:
    return ConfigError(f"{option}: {text!r} is not {expected}")


_FILE = typer.Argument(
    metavar="FILE",
    show_default=False,
    help="A recorded session, a request or a list of messages, as JSON or JSON lines; - is stdin.",
)
Source = Annotated[str, _FILE]
SessionFile = Annotated[str | None, _FILE]
SessionNumber = Annotated[
    str | None,
    typer.Option(
        "--session",
        metavar="N",
        show_default=False,
        help="In place of a file: a session on this machine, by its number in agentctx sessions, or how its id begins.",
    ),
]
Window = Annotated[
    str | None,
    typer.Option(metavar="TOKENS", show_default="the model's", help="The context window: 32k, 200000, 1.5m."),
]
Model = Annotated[
    str | None,
    typer.Option(metavar="NAME", show_default="the recorded one", help="The model: its window, encoding and rules."),
]
Reserve = Annotated[
    str | None,
    typer.Option(
        metavar="AMOUNT",
        show_default="the model's longest answer or 16k, at most a quarter of the window",
        help="What stays free for the answer: 4k, 0.1.",
    ),
]
Format = Annotated[
    str | None,
    typer.Option(metavar="FORMAT", show_default="found out", help=f"The wire format: {', '.join(FORMATS)}."),
]
ToolTokens = Annotated[
    str,
    typer.Option("--max-tool-tokens", metavar="TOKENS", help="Cut tool outputs that are longer than this; or off."),
]
KeepResults = Annotated[
    str,
    typer.Option("--keep-results", metavar="N", help="Clear all tool results but the last N; or off."),
]
Id = Annotated[
    str | None,
    typer.Option("--id", metavar="ID", show_default=False, help="Only the recording with this id."),
]
Json = Annotated[bool, typer.Option("--json", help="JSON for machines, one document a line.")]

MaxBytes = Annotated[
    str,
    typer.Option("--max-bytes", metavar="BYTES", help="Read no more than this, unpacked: 64m, 2g."),
]

MAX_BYTES = "256m"
TOOL_TOKENS = "2000"
KEEP_RESULTS = "8"

_LONGEST_NOTE = 300
_LONGEST_PATH = 400


def session_file(session: str | None, number: str | None) -> str:
    """The file to read: the one that is named, or that of a session on this machine; says which that is."""
    if number is None:
        if session is None:
            msg = "give a FILE, or --session with a number of agentctx sessions"
            raise ConfigError(msg)
        return session
    if session is not None:
        msg = "give a FILE or --session, not both"
        raise ConfigError(msg)
    found = session_named(local_sessions(), number)
    err().print(on_one_line(f"session {found.number}: {found.tool}, {found.path}", _LONGEST_PATH), style="dim")
    return str(found.path)


def chosen(source: str, wanted: str | None, max_bytes: str, *, wrong: Wrong | None = None) -> Iterator[Transcript]:
    """The recordings of a file, or only the one with the id ``wanted``; what there is to say of each goes to stderr.

    ``max_bytes`` is what was typed after ``--max-bytes``. ``wrong`` is told what is wrong with a line; without it, that
    ends the reading.
    """
    yield from noted(chosen_of(source, wanted, parse_bytes("--max-bytes", max_bytes), wrong=wrong))


def noted(found: Iterable[Transcript]) -> Iterator[Transcript]:
    """The transcripts; says on stderr what there is to say of each when it is taken."""
    for transcript in found:
        for note in transcript.notes:
            err().print(on_one_line(f"note: {transcript.source}: {note}", _LONGEST_NOTE), style="dim")
        yield transcript


def from_tool(transcript: Transcript) -> str:
    """What to add where a transcript is named: the tool that it is from, when it is from one."""
    return f", from {printable(transcript.source)}" if transcript.source else ""


_TRIGGER = 0.8
_TARGET = 0.5


@frozen
class Typed:
    """What was typed after the options that describe a pipeline; None where nothing was.

    Args:
        window: The context window. Without it: the model's.
        reserve: What stays free for the answer. Without it: as ``Budget`` does for an integer, or the model's window.
        trigger: The size above which a session acts. Without it: 0.8 of the window, at most what the reserve leaves.
        target: The size to go down to. Without it: 0.5 of the window, or half of a trigger that was typed.
        max_tool_tokens: The most tokens of a tool output, or ``off``.
        keep_results: How many tool results are not cleared, or ``off``.
        unlogged: Tokens that each request has beside what the recording holds: room is kept for them.
    """

    window: str | None
    reserve: str | None
    trigger: str | None
    target: str | None
    max_tool_tokens: str
    keep_results: str
    unlogged: int = 0

    def pipeline(self, model: str | None) -> Pipeline:
        """The pipeline for a model."""
        return Pipeline(*self.stages(), budget=self.budget(model))

    def once(self, model: str | None) -> Pipeline:
        """The pipeline for one call without a session: down to the target when one was typed, else to the limit.

        Each stage runs only when the request is still larger than that.
        """
        budget = self.budget(model)
        room = budget.limit if self.target is None else budget.target_tokens
        *stages, fit = self.stages()
        needed = [when(over(room), stage) for stage in stages]
        return Pipeline(*needed, fit, budget=Budget(budget.window, budget.window - room))

    def budget(self, model: str | None) -> Budget:
        """The budget for a model; see the class for the defaults."""
        whole = self._whole(model)
        window, reserve = whole.window, whole.output_reserve
        target = None if self.target is None else parse_amount("--target", self.target)
        Budget(window, reserve, target=target)  # by itself: no trigger beside it says that it is in tokens
        unlogged = min(self.unlogged, whole.limit // 2)
        reserve = whole.reserved + unlogged if unlogged else reserve
        if self.trigger is not None:
            return Budget(window, reserve, trigger=parse_amount("--trigger", self.trigger), target=target)
        acts = min(whole.limit, int(window * _TRIGGER)) - unlogged
        down_to = min(acts, max(acts // 2, int(window * _TARGET) - unlogged)) if target is None else target
        return Budget(window, reserve, trigger=acts, target=down_to)

    def _whole(self, model: str | None) -> Budget:
        """Return the budget without trigger and target."""
        reserve = None if self.reserve is None else parse_amount("--reserve", self.reserve)
        if self.window is not None:
            window = parse_tokens("--window", self.window)
            if window == 1:
                msg = "--window: 1 token is too few for a request and its answer"
                raise ConfigError(msg)
            return as_budget(window, "--window") if reserve is None else Budget(window, reserve)
        if model is None:
            msg = "the context window is not known: pass --window (for example 32k) or --model"
            raise ConfigError(msg)
        try:
            return Budget.for_model(model, output_reserve=reserve)
        except UnknownModel:
            msg = f"the context window of model {model!r} is not known: pass --window (for example 32k)"
            raise ConfigError(msg) from None

    def stages(self) -> list[ContextStrategy]:
        """The stages, in order."""
        stages: list[ContextStrategy] = []
        if (tokens := parse_limit("--max-tool-tokens", self.max_tool_tokens)) is not None:
            stages.append(TruncateToolOutputs(max_tokens=tokens))
        if (last := parse_limit("--keep-results", self.keep_results)) is not None:
            stages.append(ClearToolResults(keep_last=last))
        return [*stages, FitContextWindow()]


class PresetName(StrEnum):
    """The presets by name."""

    CODING_AGENT = "coding_agent"
    THRIFTY = "thrifty"
    ASSISTANT = "assistant"
    GENERAL = "general"


Trigger = Annotated[
    str | None,
    typer.Option(
        metavar="AMOUNT",
        show_default="0.8, at most what the reserve leaves",
        help="Act when the request is larger than this: 0.8 of what the reserve leaves, 24k tokens.",
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        metavar="AMOUNT",
        show_default="0.5, or half of the trigger that is given",
        help="When acting, go down to this: 0.5 of what the reserve leaves, 16k tokens.",
    ),
]
Preset = Annotated[
    PresetName | None,
    typer.Option(
        show_default=False,
        help="A preset with its own stages and target; only --window, --reserve and --trigger change it.",
    ),
]
Named = Annotated[
    str | None,
    typer.Option(
        "--pipeline",
        metavar="MODULE:NAME",
        show_default=False,
        help="A pipeline of your own: a Pipeline, or a function of a Budget and a model's name that makes one.",
    ),
]


def chosen_pipeline(
    typed: Typed, preset: PresetName | None, named: str | None, model: str | None
) -> tuple[Budget, Pipeline]:
    """The pipeline for a model, with its budget.

    Args:
        typed: What was typed after the options that describe a budget and stages.
        preset: The preset, if one was asked for.
        named: Module and name of a pipeline of the user's, if one was asked for.
        model: The model.

    Raises:
        ConfigError: If options contradict each other, or what was named is no pipeline.
    """
    if preset is not None and named is not None:
        msg = "--preset and --pipeline: pass one of them"
        raise ConfigError(msg)
    if named is None and preset is None:
        return typed.budget(model), typed.pipeline(model)
    maker = getattr(presets, preset.value) if preset is not None else pipeline_or_maker(named or "", "--pipeline")
    if isinstance(maker, Pipeline):
        own = maker.governing
        amounts = (typed.window, typed.reserve, typed.trigger, typed.target)
        if own is not None and any(amount is not None for amount in amounts):
            msg = f"--pipeline {named}: it has its own budget: leave --window, --reserve, --trigger and --target out"
            raise ConfigError(msg)
        budget, made = typed.budget(model) if own is None else own, maker
    else:
        whole = typed.budget(model)  # a pipeline that is made for it sets its own target
        budget = Budget(whole.window, whole.output_reserve, trigger=None if typed.trigger is None else whole.trigger)
        expects = "it is called with a Budget and a model's name, and gives a Pipeline"
        made = called(maker, named or "", "--pipeline", budget, model, expects=expects)
        if not isinstance(made, Pipeline):
            msg = f"--pipeline: {named} makes a {type(made).__name__}, and no Pipeline: {expects}"
            raise ConfigError(msg)
    own = made.governing
    return (budget, made.with_budget(budget)) if own is None else (own, made)


@contextmanager
def users_code(named: str | None) -> Iterator[None]:
    """Where a pipeline of the user's runs: what it prints goes to stderr, and what it raises is one error.

    Args:
        named: Module and name of the pipeline; None where it is one of ours.

    Raises:
        AgentctxError: If it raised anything; names it.
    """
    if named is None:
        yield
        return
    with prints_on_stderr(), running(f"--pipeline {named}"):
        yield
