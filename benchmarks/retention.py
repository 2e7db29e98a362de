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
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from itertools import takewhile

import anyio
from attrs import asdict, define, field, fields
from contenders import everything, langchain, sliding
from recorded import Recorded, lines_of_sessions, read
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from sending import Sent, Way, in_session

from agentctx import Budget, Context
from agentctx.economics import CacheSimulator
from agentctx.economics.cache import Prompt, PromptReader
from agentctx.economics.prices import cost
from agentctx.models.cache_rules import cache_rules
from agentctx.models.table import profile
from agentctx.presets import assistant, coding_agent, late_and_large, thrifty
from agentctx.retention import Reach, Retention, Watch

MODEL = "gpt-5.4"
"""Its cache keeps the longest prefix; its prices are those of the bills."""
PAUSE = 20.0
"""Seconds from one model call to the next."""
SMALLEST = 8_000
"""Tokens of the smallest window; a session that does not outgrow it is left out."""
CHARACTERS = 3
"""Of a recorded session at least, for each of its tokens."""
ALL = "everything"

WAYS: Mapping[str, Way] = {
    ALL: everything(),
    "coding_agent": in_session(lambda window: coding_agent(Budget(window)), recall=True),
    "thrifty": in_session(lambda window: thrifty(Budget(window)), MODEL, recall=True),
    "assistant": in_session(lambda window: assistant(Budget(window)), recall=True),
    "late_and_large": in_session(lambda window: late_and_large(Budget(window)), recall=True),
    "oldest rounds, each step": sliding(),
    "LangChain": langchain,
}
LIBRARIES = {"LangChain": "langchain_core"}
"""What a way needs; it is left out where that is not installed."""


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


def window_of(recorded: Recorded) -> int:
    """The window that a session is sent in: a third of it."""
    return max(SMALLEST, recorded.largest // 3)


async def measure(recorded: Recorded, way: Way, window: int) -> Total:
    """Send a session, and look at each request."""
    meter, model = recorded.source.meter, profile(MODEL)
    reader, cache = PromptReader(meter), CacheSimulator(cache_rules(model))
    total, before = Total(1, len(recorded.calls)), Prompt.of(())
    watch = Watch(recorded.messages, recorded.calls)
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


def half_of(name: object) -> int:
    """The half of the sessions that one belongs to: the first is for choosing settings."""
    return int(sha256(str(name).encode()).hexdigest(), 16) % 2


def of_session(kind: str, line: str, names: Sequence[str]) -> dict[str, Total]:
    """One session, by the ways of these names; nothing where it does not outgrow its window."""
    recorded = read(kind, json.loads(line))
    window = window_of(recorded)
    if not recorded.calls or recorded.largest <= window:
        return {}
    return {name: anyio.run(measure, recorded, WAYS[name], window) for name in names}


def chosen(args: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """The sessions that were asked for; where only a few are, those of middling length."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for kind, line in lines_of_sessions():
        wanted = (not args.kind or kind in args.kind) and len(line) > CHARACTERS * SMALLEST
        if wanted and args.half in (None, half_of(json.loads(line)["id"])):
            kinds[kind].append(line)
    for kind, lines in kinds.items():
        first = 0 if args.limit is None else max(0, len(lines) - args.limit) // 2
        yield from ((kind, line) for line in sorted(lines, key=len)[first:][: args.limit])


def measured(sessions: Sequence[tuple[str, str]], names: Sequence[str], jobs: int) -> dict[str, dict[str, Total]]:
    """By class of sessions and by way what it did, on so many cores."""
    kinds: dict[str, dict[str, Total]] = {kind: {name: Total() for name in names} for kind, _ in sessions}
    longest = sorted(sessions, key=lambda session: -len(session[1]))
    with ProcessPoolExecutor(jobs) as pool, Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("sessions", total=sum(len(line) for _, line in sessions))
        running = {pool.submit(of_session, kind, line, names): (kind, len(line)) for kind, line in longest}
        for done in as_completed(running):
            kind, size = running[done]
            for name, total in done.result().items():
                kinds[kind][name].add(total)
            progress.advance(bar, size)
    return {kind: ways for kind, ways in kinds.items() if next(iter(ways.values())).sessions}


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
)
"""Cost and tokens are those of sending everything, in percent."""


def row(total: Total, all_sent: Total | None) -> dict[str, str]:
    """One way at one class of sessions, in words."""
    found = total.found
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
    )
    return dict(zip(HEADINGS, cells, strict=True))


def shared(part: float, among: float) -> str:
    """A part of something in percent; nothing of nothing."""
    return f"{100 * part / among:.1f} %" if among else ""


def rows(kinds: Mapping[str, Mapping[str, Total]]) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Class, way and cells of each row."""
    for kind, ways in kinds.items():
        for name, total in ways.items():
            if name != ALL:
                yield kind, name, row(total, ways.get(ALL))


def drawn(kinds: Mapping[str, Mapping[str, Total]]) -> Table:
    """The rows for people."""
    table = Table("class", "way", *HEADINGS)
    for kind, name, cells in rows(kinds):
        table.add_row(kind, name, *cells.values())
    return table


def markdown(kinds: Mapping[str, Mapping[str, Total]]) -> str:
    """The rows for README.md."""
    lines = [f"| class | way | {' | '.join(HEADINGS)} |", "|---" * (len(HEADINGS) + 2) + "|"]
    lines += (f"| {kind} | {name} | {' | '.join(cells.values())} |" for kind, name, cells in rows(kinds))
    return "\n".join(lines)


def asked() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description="Measure what the model can still see of what it needs, and the cost.")
    parser.add_argument("--half", type=int, choices=(0, 1), default=1, help="0: the half for choosing settings")
    parser.add_argument("--both", dest="half", action="store_const", const=None, help="both halves")
    parser.add_argument("--limit", type=int, help="at most so many sessions of each class, of different lengths")
    parser.add_argument("--kind", action="append", help="a class of sessions; all when not given")
    parser.add_argument("--way", action="append", choices=list(WAYS), help="a way of trimming; all when not given")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes; as many as there are cores")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print JSON instead of tables")
    shape.add_argument("--markdown", action="store_true", help="print tables for README.md")
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    args = asked()
    there = (name for name in WAYS if name not in LIBRARIES or find_spec(LIBRARIES[name]))
    names = [name for name in there if not args.way or name in args.way or name == ALL]
    kinds = measured(list(chosen(args)), names, args.jobs)
    if args.json:
        print(json.dumps({kind: {name: asdict(total) for name, total in ways.items()} for kind, ways in kinds.items()}))
    elif args.markdown:
        print(markdown(kinds))
    else:
        Console(width=230).print(drawn(kinds))


if __name__ == "__main__":
    main()
