"""``agentctx compare``: many recorded sessions, each through several pipelines."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from multiprocessing import active_children
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer
from attrs import Factory, define, evolve, fields
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentctx.characters import on_one_line
from agentctx.cli import options
from agentctx.cli.console import (
    Tally,
    apart,
    ended_by,
    ending_in_order,
    err,
    in_one_line,
    print_json,
    printing,
    prints_on_stderr,
    progress,
    say,
    written,
)
from agentctx.cli.options import noted, parse_amount, parse_bytes
from agentctx.comparison import (
    Contender,
    Failed,
    Measured,
    Results,
    compare as compare_pairs,
    processes,
    read_contenders,
)
from agentctx.comparison.run import READY, contender
from agentctx.errors import ConfigError
from agentctx.events.window import short
from agentctx.lazy import unmet
from agentctx.replay import Recording
from agentctx.transcripts.reading import chosen as chosen_of
from agentctx.users_code import called, pipeline_or_maker

_LONGEST_ERROR = 300
NEEDS_A_MODEL = "thrifty"
"""The preset that decides by prices."""
_NO_MODEL = "pass model=... to prepare or session"

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...",
        show_default=False,
        help="Recorded sessions, of any kind that replay reads; of a folder all files in it.",
    ),
]
Pipelines = Annotated[
    list[str] | None,
    typer.Option(
        "--pipeline",
        "-p",
        metavar="PIPELINE",
        show_default="everything, oldest_out and the presets",
        help="A preset, everything, oldest_out, or MODULE:NAME of your own; may be given several times.",
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", show_default=False, help="Pipelines in TOML: a table each, made of a preset or stages."
    ),
]
Window = Annotated[
    str | None,
    typer.Option(
        metavar="AMOUNT",
        show_default="the model's",
        help="The context window: 32k; or a share of what each session's messages come to: 33%.",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", metavar="N", min=1, show_default="all processors", help="So many at once."),
]
Executes = Annotated[
    str | None,
    typer.Option(
        "--executor",
        metavar="MODULE:NAME",
        show_default=False,
        help="A function that gives an executor of concurrent.futures to run them: Dask's, Ray's.",
    ),
]
Out = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        show_default=False,
        help="Put each row down here as JSON lines, as soon as it is there; what is there is not run again.",
    ),
]
Parquet = Annotated[
    str | None,
    typer.Option(metavar="FILE", show_default=False, help="Write all rows as Parquet (needs the extra parquet)."),
]
Each = Annotated[bool, typer.Option("--each", help="A line for each session, not only sums.")]


@in_one_line
def compare(
    files: Files,
    *,
    pipeline: Pipelines = None,
    config: Config = None,
    window: Window = None,
    model: options.Model = None,
    jobs: Jobs = None,
    executor: Executes = None,
    out: Out = None,
    parquet: Parquet = None,
    max_bytes: options.MaxBytes = options.MAX_BYTES,
    each: Each = False,
    json: options.Json = False,
) -> None:
    """Compare pipelines on many recorded sessions: what each sends, costs and keeps.

    [bold]Examples[/bold]

      agentctx compare ~/.claude/projects --window 64k

      agentctx compare sessions/*.jsonl.gz --window 33% -p coding_agent -p my_agent.context:pipeline

      agentctx compare sessions/ --config pipelines.toml --out rows.jsonl --parquet rows.parquet
    """
    workers = jobs or os.cpu_count() or 1
    results = None if out is None else Results(out)
    if parquet is not None:
        _parquet_writer()  # so that a missing package is said before the work, not behind it
        apart("--parquet", parquet, [*_listed(files), *map(str, filter(None, (out, config)))])
    sessions = _Sessions(_listed(files, out), parse_bytes("--max-bytes", max_bytes), chosen=bool(pipeline or config))
    rows: list[Measured] = []
    with (
        ending_in_order(),
        _said_when_interrupted(results),
        prints_on_stderr() as stdout,
        _workers_end_when_interrupted(),
        _executor(executor, workers) as running,
        _workers_end_when_interrupted(),  # before the executor waits for them
        progress("compare", None) as done,
    ):
        contenders = _contenders(pipeline or (), config, window)
        work = compare_pairs(sessions, contenders, executor=running, workers=workers, model=model, results=results)
        for row in work:
            done()
            if isinstance(row, Failed):
                sessions.failed(row)
                continue
            if json:
                print_json(_told(row), stdout)
            rows.append(row)
    if not sessions.found:
        sessions.tally.end()
        msg = f"{', '.join(files)}: no recorded session was found"
        raise ConfigError(msg)
    if parquet is not None:
        _write_parquet(parquet, rows)
    if not json:
        with printing() as console:
            for table in _tables(console, rows, contenders, sessions, each=each):
                console.print(table)
            console.print(_legend(rows), style="dim")
    sessions.tally.end()


@contextmanager
def _said_when_interrupted(results: Results | None) -> Iterator[None]:
    """Where it is interrupted, say what is kept and how to go on."""
    try:
        yield
    except KeyboardInterrupt as signal:
        if results is None:
            say("interrupted; no row is kept: with --out FILE the same command goes on where it was")
        else:
            count = len(Results(results.path))  # of the file, which may be a row ahead of what was noted
            kept = f"{count:,} {'row is' if count == 1 else 'rows are'} kept in {results.path}"
            say(f"interrupted; {kept}: the same command goes on from there")
        raise typer.Exit(ended_by(signal)) from None


@contextmanager
def _workers_end_when_interrupted() -> Iterator[None]:
    """Where it is interrupted, end the processes that were begun, also those that are just beginning."""
    try:
        yield
    except KeyboardInterrupt:
        for worker in active_children():
            worker.terminate()
        raise


def _contenders(named: Sequence[str], config: Path | None, window: str | None) -> list[Contender]:
    budget: dict[str, Any] = {} if window is None else {"window": parse_amount("--window", window)}
    found = [] if config is None else read_contenders(str(config), **budget)
    words = named or ((*READY,) if config is None else ())
    found += [contender(word, **budget) for word in words]
    twice = {each.name for place, each in enumerate(found) if each.name in [other.name for other in found[:place]]}
    if twice:
        msg = f"two pipelines are called {min(twice)!r}"
        raise ConfigError(msg)
    if whole := [each.name for each in found if budget and each.brings_its_budget]:
        said = f"{', '.join(whole)}: {'it has its' if len(whole) == 1 else 'they have their'} own budget"
        if len(whole) == len(found):
            msg = f"{said}: leave --window out"
            raise ConfigError(msg)
        err().print(on_one_line(f"note: {said}: --window is for the others", _LONGEST_ERROR), style="dim")
    return found


def _listed(files: Sequence[str], out: str | None = None) -> Iterator[str]:
    """The files, and those in folders but for that of the results, in order of their names."""
    results = Path(out).resolve() if out is not None else None
    for name in files:
        path = Path(name)
        if not path.is_dir():
            yield name
            continue
        found = (each for each in sorted(path.rglob("*")) if each.is_file() and ".json" in each.name)
        yield from (str(each) for each in found if each.resolve() != results)


@define
class _Sessions:
    """The sessions of files, read as they are needed; says what is wrong with one, and goes on with the next."""

    files: Iterable[str]
    max_bytes: int
    chosen: bool = True
    tally: Tally = Factory(Tally)
    noted: bool = False
    places: list[str] = Factory(list)

    @property
    def found(self) -> int:
        """How many there are, so far."""
        return len(self.places)

    def __iter__(self) -> Iterator[tuple[str, Recording]]:
        for name in self.files:
            with self.tally.named():
                for entry in noted(chosen_of(name, None, self.max_bytes, wrong=self.tally.wrong)):
                    self.places.append(entry.place)
                    yield entry.place, entry.recording

    def failed(self, row: Failed) -> None:
        """Say why there is no row; of a preset that nobody named and that needs a model, once and as a note."""
        if not self.chosen and row.pipeline == NEEDS_A_MODEL and _NO_MODEL in row.error:
            if not self.noted:
                err().print(f"note: {NEEDS_A_MODEL} is compared only where the model is known: --model", style="dim")
            self.noted = True
            return
        said = row.error.removeprefix(f"{row.pipeline}: ").replace(_NO_MODEL, "pass --model")
        said = said.replace("no window was given", "no window was given: pass --model or --window")
        err().print(on_one_line(f"error: {row.session}: {row.pipeline}: {said}", _LONGEST_ERROR), style="red")
        self.tally.found()


def _executor(named: str | None, jobs: int) -> AbstractContextManager[Executor | None]:
    if named is not None:
        found = called(pipeline_or_maker(named, "--executor"), named, "--executor")
        if not isinstance(found, Executor):
            msg = f"--executor: {named} gives {type(found).__name__}, and no executor of concurrent.futures"
            raise ConfigError(msg)
        return found
    if jobs == 1:
        return nullcontext()
    return processes(jobs)


def _told(row: Measured) -> dict[str, Any]:
    """A row as plain values, with the share that a cache can serve."""
    return row.to_dict() | {"cached_share": round(row.cached_share, 4)}


def _parquet_writer() -> ModuleType:
    try:
        pa = import_module("pyarrow")
        import_module("pyarrow.parquet")
    except ImportError as error:
        raise ConfigError(unmet("--parquet", "parquet", error)) from None
    return pa


def _write_parquet(path: str, rows: Sequence[Measured]) -> None:
    """Write all rows, whole or not at all; a column for each number, also where there is no row."""
    arrow = _parquet_writer()
    kinds = {"str": arrow.string(), "int": arrow.int64(), "Sum": arrow.int64(), "float": arrow.float64()}
    columns = [(each.name, kinds[str(each.type).partition(" ")[0]]) for each in fields(Measured)]
    schema = arrow.schema([*columns, ("cached_share", arrow.float64())])
    table = arrow.Table.from_pylist(list(map(_told, rows)), schema)
    with written(path) as stream:
        arrow.parquet.write_table(table, stream)


def _tables(
    console: Console, rows: Sequence[Measured], contenders: Sequence[Contender], sessions: _Sessions, *, each: bool
) -> Iterator[Table]:
    """Tables of sums, a line for each pipeline; before them, where asked for, those of each session as it was read."""
    if each:
        by_session: dict[str, list[Measured]] = {place: [] for place in sessions.places}
        for row in rows:
            by_session.setdefault(row.session, []).append(row)
        for session, own in by_session.items():
            yield from _side_by_side(console, on_one_line(session, _LONGEST_ERROR), _lines(own, contenders, 1))
    title = f"{sessions.found:,} {'session' if sessions.found == 1 else 'sessions'}"
    yield from _side_by_side(console, title, _lines(rows, contenders, sessions.found))


_COLUMNS: tuple[tuple[str, Callable[[Measured], str]], ...] = (
    ("calls", lambda sums: f"{sums.calls:,}"),
    ("tokens\nsent", lambda sums: short(sums.tokens_sent)),
    ("cached", lambda sums: _share(sums.prefix_tokens, sums.tokens_sent)),
    ("input\ncost", lambda sums: "-" if sums.usd is None else f"${sums.usd:,.2f}"),
    ("cuts", lambda sums: f"{sums.compactions:,}"),
    ("refu-\nsed", lambda sums: f"{sums.invalid:,}"),
    ("too\nlarge", lambda sums: f"{sums.overflowed:,}"),
    ("visible", lambda sums: _share(sums.visible, sums.values)),
    ("or re-\ncalled", lambda sums: _share(sums.visible + sums.recallable, sums.values)),
    ("user's\nwords", lambda sums: _share(sums.kept, sums.said)),
    ("ms a\ncall", lambda sums: _milliseconds(1_000 * sums.seconds / max(1, sums.calls))),
)


def _sum(rows: Sequence[Measured]) -> Measured:
    """Add up the rows of one pipeline; there is no cost where any of it is not known."""
    costs = [row.usd for row in rows if row.usd is not None]
    names = [each.name for each in fields(Measured) if str(each.type) in ("int", "Sum", "float")]
    sums = {name: sum(getattr(row, name) for row in rows) for name in names}
    return evolve(rows[0], **sums, usd=sum(costs) if len(costs) == len(rows) else None)


def _milliseconds(time: float) -> str:
    """A time in at most four characters, so that the table is as wide on a slow machine."""
    return f"{time:.1f}" if time < 99.95 else f"{time:.0f}"  # what rounds to 100.0


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def _lines(rows: Sequence[Measured], contenders: Sequence[Contender], sessions: int) -> list[tuple[str, list[str]]]:
    """Each pipeline's name, with how many sessions it has rows of where that is not all, and its numbers."""
    lines = []
    for each in contenders:
        own = [row for row in rows if row.pipeline == each.name]
        part = f" ({len(own)} of {sessions})" if len(own) < sessions else ""
        cells = [tell(_sum(own)) for _, tell in _COLUMNS] if own else ["-"] * len(_COLUMNS)
        lines.append((on_one_line(each.name, _LONGEST_NAME) + part, cells))
    return lines


_LONGEST_NAME = 40
_NARROWEST_NAME = 12


def _side_by_side(console: Console, title: str, lines: Sequence[tuple[str, Sequence[str]]]) -> Iterator[Table]:
    """All columns in as few tables as the console is wide enough for; a number is never cut."""
    tables, every = 1, range(len(_COLUMNS))
    while True:
        parts = [every[len(every) * part // tables : len(every) * (part + 1) // tables] for part in range(tables)]
        options = console.options.update(max_width=10_000)
        widths = (console.measure(_table(console, "", part, lines), options=options).maximum for part in parts)
        if tables == len(every) or all(width <= console.width for width in widths):
            break
        tables += 1
    for part in parts:
        yield _table(console, "" if part.start else title, part, lines)


def _table(console: Console, title: str, columns: Sequence[int], lines: Sequence[tuple[str, Sequence[str]]]) -> Table:
    named = Text(title, style="bold") if title else None
    table = Table(title=named, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("pipeline", overflow="fold", max_width=max(_NARROWEST_NAME, console.width // 3))
    for column in columns:
        table.add_column(_COLUMNS[column][0], justify="right", no_wrap=True)
    for name, cells in lines:
        table.add_row(Text(name), *(cells[column] for column in columns))
    return table


def _legend(rows: Sequence[Measured]) -> str:
    unpriced = any(row.usd is None for row in rows)
    cost = " Without --model, or a recorded one whose prices are known, there is no cost." if unpriced else ""
    return (
        "cached: what stands at the start of a request as in the one before. refused: by the provider. visible: "
        "values that later calls used and their request shows; or recalled: or a handle in it leads to. user's words: "
        f"messages between the first and the last that the last request still has.{cost}"
    )
