"""What later steps of recorded sessions still need, how much of it the model can see or have back, and at what cost.

**Natural facts:** the values in the arguments of each tool call that occurred earlier in the history. Each session is
sent model call by model call in a window of a third of it, by our presets and by other ways of trimming; each value is
visible in the request, or a handle that is visible there leads to it, or it is lost (``agentctx.retention``). **User
messages:** those in the middle of the conversation that the last request shows. **Budget filled:** the size of a
request as a share of the window, where the history did not fit. **Cost:** what a provider's cache bills for the
requests, as a share of what sending everything costs, which needs a larger window. Asking for what was left out is not
billed.

Sessions fall into two halves by a hash of their name: settings may be chosen on one and are reported on the other. Run
it with the ``bench`` extra installed::

    python benchmarks/retention.py --limit 3                    # three sessions of each class, a minute
    python benchmarks/retention.py --kind messy --way coding_agent
    python benchmarks/retention.py                              # the half that nothing is chosen on, all ways
    python benchmarks/retention.py --json > retention.json      # for machines; --markdown for README.md
    python benchmarks/retention.py --draw retention.svg         # cost against what is kept
"""

from __future__ import annotations

import argparse
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path

import anyio
from attrs import asdict, define, evolve, field, fields, frozen
from contenders import (
    TRIGGER,
    agentix,
    compressing,
    distil,
    everything,
    headroom,
    langchain,
    provider_clearing,
    sliding,
)
from planted import PART, ROUNDS, planted
from recorded import Recorded, half_of, in_processes, lines_of_sessions, of_middling_length, read
from rich.console import Console
from rich.table import Table
from sending import Sent, Way, in_session

from agentctx import Budget, Context
from agentctx.economics import CacheSimulator, Prompt, PromptReader, cost
from agentctx.models.profile import cache_rules
from agentctx.models.table import profile
from agentctx.presets import assistant, coding_agent, general, thrifty
from agentctx.retention import Reach, Retention, Watch, needs
from agentctx.unit import has_user_words

MODEL = "gpt-5.4"
"""Its cache keeps the longest prefix; its prices are those of the bills."""
PAUSE = 20.0
"""Seconds from one model call to the next."""
SMALLEST = 8_000
"""Tokens of the smallest window; a session that does not outgrow it is left out."""
CHARACTERS = 3
"""Of a recorded session at least, for each of its tokens."""
ALL, ALL_KINDS = "everything", "all"
FACTS, TALK, PLANTED = "facts", "talk", "planted"
TALKS = ("customer-service", "coding-chat", "coding-anthropic", "messy")
"""Classes of conversations whose user messages are followed."""
SEEDS = 3
"""Made sessions with planted values."""

WAYS: Mapping[str, Way] = {
    ALL: everything(),
    "coding_agent": in_session(lambda window: coding_agent(Budget(window)), recall=True),
    "thrifty": in_session(lambda window: thrifty(Budget(window)), MODEL, recall=True),
    "assistant": in_session(lambda window: assistant(Budget(window)), recall=True),
    "general": in_session(lambda window: general(Budget(window)), recall=True),
    "oldest rounds, each step": sliding(),
    "Anthropic's clearing": provider_clearing(lambda _window: TRIGGER),
    "Anthropic's clearing, from half on": provider_clearing(lambda window: window // 2),
    "LangChain": langchain,
    "agentix": agentix,
    "headroom": compressing(headroom),
    "distil": compressing(distil),
}
OURS = frozenset({"coding_agent", "thrifty", "assistant", "general"})
LIBRARIES = {"LangChain": "langchain_core", "agentix": "agentix", "headroom": "headroom", "distil": "distil"}
"""What a way needs; it is left out where that is not installed."""
SLOW = ("headroom", "distil")
"""Ways that work on the whole history at each call: measured when named, and of planted values on the last call."""


@define
class Total:
    """What one way of trimming did to some sessions.

    Args:
        sessions: How many.
        calls: How many model calls they made.
        refused: Requests that could not be made.
        over: Requests larger than the window.
        found: What was looked for in the requests, and found.
        tokens: Tokens sent.
        unchanged: Of these, those of a prefix that is the one of the request before.
        squeezed: Requests whose history did not fit.
        filled: The parts of the window that these fill, summed up.
        compactions: Requests that changed what an earlier one had; counted in sessions of ours.
        dollars: The bill.
    """

    sessions: int = 0
    calls: int = 0
    refused: int = 0
    over: int = 0
    found: Retention = field(factory=Retention)
    tokens: int = 0
    unchanged: int = 0
    squeezed: int = 0
    filled: float = 0.0
    compactions: int = 0
    dollars: float = 0.0

    def send(self, prompt: Prompt, before: Prompt, window: int, *, squeezed: bool) -> None:
        """Count a request, and how far it is the one before it."""
        self.tokens += prompt.tokens
        self.over += prompt.tokens > window
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(prompt.keys, before.keys, strict=False)))
        self.unchanged += prompt.ends[same - 1] if same else 0
        if squeezed:
            self.squeezed += 1
            self.filled += prompt.tokens / window

    def add(self, other: Total) -> None:
        """Add what it did to other sessions."""
        for each in fields(Total):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


async def measure(
    recorded: Recorded, way: Way, window: int, needed: Mapping[int, Sequence[str]] | None = None
) -> Total:
    """Send a session, and look at each request for what its call needs."""
    meter, model = recorded.source.meter, profile(MODEL)
    reader, cache = PromptReader(meter), CacheSimulator(cache_rules(model))
    total, before = Total(1, len(recorded.calls)), Prompt.of(())
    watch = Watch(recorded.messages, needs(recorded.messages, recorded.calls) if needed is None else needed)
    number = 0
    async for sent in way(recorded, window):
        at, now, output = recorded.calls[number], number * PAUSE, recorded.outputs[number]
        number += 1
        if sent.context is None:
            total.refused += 1
            continue
        await look(watch, at, sent.context, sent)
        prompt = reader.read(sent.context)
        total.send(prompt, before, window, squeezed=meter.size(recorded.context(at)) > window)
        total.compactions += sent.compacted
        total.dollars += cost(cache.send(prompt, now, output), model)
        before = prompt
    total.found = watch.found
    return total


async def look(watch: Watch, at: int, context: Context, sent: Sent) -> None:
    """Look for what a call needs in its request."""
    if sent.store is not None:
        watch.library.store = sent.store
    if sent.recallable:
        watch.look(at, Reach(watch.library.shown(context), sent.recallable), context.messages)
    else:
        await watch.see(at, context)


@frozen
class Task:
    """One session to be measured.

    Args:
        table: What is asked: ``FACTS``, ``TALK`` or ``PLANTED``.
        kind: The class of the session.
        line: The session as it stands in its file; the seed of a made one.
    """

    table: str
    kind: str
    line: str = field(repr=False)


Totals = dict[str, Total]
"""By way of trimming."""
Tables = dict[str, dict[str, Totals]]
"""By what is asked and by class."""


def measure_one(task: Task, names: Sequence[str]) -> tuple[str, Totals]:
    """One session, by the ways of these names, and the row it belongs to; nothing where it shows nothing."""
    if task.table == PLANTED:
        recorded, values = planted(int(task.line))
        return task.kind, _sent(recorded, names, recorded.largest // PART, {recorded.calls[-1]: values})
    recorded = read(task.kind, json.loads(task.line))
    if not recorded.calls:
        return task.kind, {}
    if task.table == FACTS:
        window = max(SMALLEST, recorded.largest // 3)
        return task.kind, _sent(recorded, names, window) if recorded.largest > window else {}
    room = (recorded.largest - recorded.floor) // 4
    words = [message for message in recorded.messages[: recorded.calls[-1]] if has_user_words(message)][1:-1]
    if not words:
        return task.kind, {}
    fits = sum(map(recorded.source.meter.message, words)) <= room / 5
    return f"{task.kind}, {'within' if fits else 'over'} a fifth", _sent(recorded, names, recorded.floor + room, {})


def _sent(
    recorded: Recorded, names: Sequence[str], window: int, needed: Mapping[int, Sequence[str]] | None = None
) -> Totals:
    last = evolve(recorded, calls=recorded.calls[-1:], outputs=recorded.outputs[-1:])
    return {
        name: anyio.run(measure, last if needed and name in SLOW else recorded, WAYS[name], window, needed)
        for name in names
    }


def tasks(args: argparse.Namespace) -> Iterator[Task]:
    """The sessions that were asked for; where only a few are, those of middling length."""
    kinds: dict[tuple[str, str], list[str]] = defaultdict(list)
    for kind, line in lines_of_sessions():
        if (not args.kind or kind in args.kind) and args.half in (None, half_of(json.loads(line)["id"])):
            if len(line) > CHARACTERS * SMALLEST:
                kinds[FACTS, kind].append(line)
            if kind in TALKS:
                kinds[TALK, kind].append(line)
    kinds[PLANTED, "made sessions"] = [str(seed) for seed in range(SEEDS)]
    for (table, kind), lines in kinds.items():
        if not args.table or table in args.table:
            yield from (Task(table, kind, line) for line in of_middling_length(lines, args.limit))


def measured(found: Sequence[Task], names: Sequence[str], jobs: int) -> Tables:
    """All tasks, on so many cores."""
    tables: Tables = {}
    for task, (kind, totals) in in_processes(partial(measure_one, names=names), found, _length, jobs):
        for name, total in totals.items():
            for row in (kind, ALL_KINDS):
                tables.setdefault(task.table, {}).setdefault(row, {}).setdefault(name, Total()).add(total)
    return {table: tables[table] for table in (FACTS, TALK, PLANTED) if table in tables}


def _length(task: Task) -> int:
    return len(task.line) if task.table != PLANTED else ROUNDS * 1_000


HEADINGS = (
    "sessions",
    "values",
    "visible",
    "or by handle",
    "or by search",
    "user messages kept",
    "lost silently",
    "filled",
    "unchanged prefix",
    "cost",
    "tokens",
    "refused",
    "too large",
    "compactions",
)
"""Cost and tokens are those of sending everything, in percent."""
LEFT_OUT = {
    FACTS: ("compactions",),
    TALK: ("values", "visible", "or by handle", "or by search", "compactions"),
    PLANTED: ("user messages kept", "lost silently", "refused"),
}
"""What a table does not tell."""


def row(total: Total, all_sent: Total | None) -> dict[str, str]:
    """One way at one class of sessions, in words."""
    found = total.found
    all_sent = all_sent if all_sent is not None and all_sent.calls == total.calls else None
    part = partial(shared, among=found.values)
    cells = (
        str(total.sessions),
        f"{found.values:,}",
        part(found.visible),
        part(found.visible + found.recallable),
        part(found.values - found.lost),
        f"{found.kept} of {found.said}",
        str(found.silent),
        shared(total.filled, total.squeezed),
        shared(total.unchanged, total.tokens),
        "" if all_sent is None else shared(total.dollars, all_sent.dollars),
        "" if all_sent is None else shared(total.tokens, all_sent.tokens),
        str(total.refused or ""),
        str(total.over or ""),
        str(total.compactions or ""),
    )
    return dict(zip(HEADINGS, cells, strict=True))


def shared(part: float, among: float) -> str:
    """A part of something in percent; nothing of nothing."""
    return f"{100 * part / among:.1f} %" if among else ""


def rows(kinds: Mapping[str, Totals]) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Class, way and cells of each row; all classes together come last."""
    for kind in sorted(kinds, key=lambda kind: (kind == ALL_KINDS, kind)):
        for name, total in kinds[kind].items():
            if name != ALL:
                yield kind, name, row(total, kinds[kind].get(ALL))


def headings(table: str) -> list[str]:
    """What is told of a table."""
    return [name for name in HEADINGS if name not in LEFT_OUT[table]]


def drawn(table: str, kinds: Mapping[str, Totals]) -> Table:
    """The rows for people."""
    made = Table("class", "way", *headings(table), title=table)
    for kind, name, cells in rows(kinds):
        made.add_row(kind, name, *(cells[each] for each in headings(table)))
    return made


def markdown(table: str, kinds: Mapping[str, Totals]) -> str:
    """The rows for README.md."""
    names = headings(table)
    lines = [f"| class | way | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    lines += (f"| {kind} | {name} | {' | '.join(cells[each] for each in names)} |" for kind, name, cells in rows(kinds))
    return "\n".join(lines)


def asked() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description="Measure what the model can still see of what it needs, and the cost.")
    parser.add_argument("--half", type=int, choices=(0, 1), default=1, help="0: the half for choosing settings")
    parser.add_argument("--both", dest="half", action="store_const", const=None, help="both halves")
    parser.add_argument("--limit", type=int, help="at most so many sessions of each class, of middling length")
    parser.add_argument("--table", action="append", choices=(FACTS, TALK, PLANTED), help="all when not given")
    parser.add_argument("--kind", action="append", help="a class of sessions; all when not given")
    parser.add_argument(
        "--way", action="append", choices=list(WAYS), help="a way of trimming; see below when not given"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes; as many as there are cores")
    parser.add_argument("--read", type=Path, nargs="+", help="show what --json wrote once or more; measure nothing")
    parser.add_argument("--draw", type=Path, help="a picture, as SVG or PNG: cost against what is kept")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print JSON instead of tables")
    shape.add_argument("--markdown", action="store_true", help="print tables for README.md")
    return parser.parse_args()


def ways(args: argparse.Namespace) -> list[str]:
    """The names of the ways that were asked for and are installed; without asking, those that are not slow."""
    there = (name for name in WAYS if name not in LIBRARIES or find_spec(LIBRARIES[name]))
    return [name for name in there if name == ALL or (name in args.way if args.way else name not in SLOW)]


def load(paths: Iterable[Path]) -> Tables:
    """What was written as JSON; of a way that is in several files, the last."""
    tables: Tables = {}
    for path in paths:
        for table, kinds in json.loads(path.read_text(encoding="utf-8")).items():
            for kind, totals in kinds.items():
                read = {
                    name: Total(**{**total, "found": Retention(**total["found"])}) for name, total in totals.items()
                }
                tables.setdefault(table, {}).setdefault(kind, {}).update(read)
    return tables


def main() -> None:
    """Measure and print."""
    args = asked()
    tables = load(args.read) if args.read else measured(list(tasks(args)), ways(args), args.jobs)
    if args.json:
        plain = {
            table: {kind: {name: asdict(total) for name, total in totals.items()} for kind, totals in kinds.items()}
            for table, kinds in tables.items()
        }
        print(json.dumps(plain, indent=1))
    for table, kinds in tables.items():
        if args.markdown:
            print(f"**{table}**\n\n{markdown(table, kinds)}\n")
        elif not args.json:
            Console(width=200).print(drawn(table, kinds))
    if args.draw:
        from retention_picture import draw  # noqa: PLC0415 - tables need no charts

        draw(tables[FACTS][ALL_KINDS], OURS, args.draw)


if __name__ == "__main__":
    main()
