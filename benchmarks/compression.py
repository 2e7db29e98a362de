"""What saying things in fewer tokens saves, stage by stage and together, and what it costs.

**Sent:** recorded sessions are sent model call by model call in a window that they never fill: the tokens of all
requests, as a share of those of sending everything. **Dropped:** the same sessions in a window of a third, by
``coding_agent`` behind the stages: what cuts leave out, as a share of what they leave out without the stages. Beside
them how much of each request is that of the one before, how many of the values that later calls need stand in the
request, how often a message came out larger than it went in, and what the stages take, as a ratio to tokenizing.

**At once:** the last request of each session, made by us and by other libraries, without anything before it: how large
it is, whether it fits a third, whether the provider takes it, and how many of the values it shows.

**Size:** 10,000 messages (5 MB) of which the stages have much to say, against tokenizing them; and one text of 5 MB.

Sessions fall into two halves by a hash of their name: settings are chosen on one and reported on the other. The exit
code is 1 when a bar is missed. Run it with the ``bench`` extra installed; other libraries where they are there::

    python benchmarks/compression.py --limit 2                       # two sessions of each class, some minutes
    python benchmarks/compression.py --kind customer-service --stages ReuseLines CompactJson
    python benchmarks/compression.py --table at-once                 # other libraries beside ours
    python benchmarks/compression.py --json > compression.json       # for machines; --markdown for README.md
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib.util import find_spec
from itertools import repeat
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import anyio
import ours
from attrs import asdict, define, evolve, field, fields, frozen
from contenders import claw_compactor, headroom
from recorded import Recorded, half_of, in_processes, lines_of_sessions, of_middling_length, of_recording, read
from retention import ALL_KINDS, SMALLEST, Retention, Total, measure, shared
from rich.console import Console
from rich.table import Table
from rows import Row, as_json, markdown as markdown_of_rows, show
from sending import Sent, Way, in_session
from transcript import AVERAGE_CHARACTERS, WORDS, code, transcript

from agentctx import (
    Budget,
    Call,
    Change,
    CollapseRepeats,
    Context,
    ContextStrategy,
    Message,
    Outcome,
    Pipeline,
    Text,
    ToolResult,
)
from agentctx.marks import SHOWN_AGAIN
from agentctx.presets import assistant, coding_agent, thrifty
from agentctx.replay import Recording
from agentctx.retention import needs, said_by
from agentctx.rules import find_violations
from agentctx.strategies import (
    CompactJson,
    CompressLayers,
    DropSuperseded,
    FoldOutput,
    ReuseLines,
    ShrinkArguments,
    TabulateJson,
)
from agentctx.strategies.compress_layers import DICTIONARY
from agentctx.strategies.reuse_lines import WHY
from agentctx.tokens import TiktokenCounter
from agentctx.tokens.counting import MessageMeter

Stages = Sequence[ContextStrategy]

ALONE = {"json": False, "dictionary": (), "paths": False, "codebook": False}
"""No layer but the one that is named."""
STAGES: Mapping[str, Stages] = {
    "as it is": (),
    "ReuseLines": (ReuseLines(),),
    "DropSuperseded": (DropSuperseded(),),
    "ShrinkArguments": (ShrinkArguments(),),
    "CollapseRepeats": (CollapseRepeats(),),
    "CollapseRepeats(similar=1)": (CollapseRepeats(similar=1),),
    "CompactJson": (CompactJson(),),
    "TabulateJson": (TabulateJson(),),
    "FoldOutput": (FoldOutput(),),
    "CompressLayers": (CompressLayers(),),
    "layer: deduplication": (CompressLayers(**{**ALONE, "deduplicate": True}),),
    "layer: whitespace": (CompressLayers(**{**ALONE, "whitespace": True}),),
    "layer: JSON": (CompressLayers(**{**ALONE, "json": True}),),
    "layer: observation": (CompressLayers(**{**ALONE, "observation": 40}),),
    "layer: dictionary": (CompressLayers(**{**ALONE, "dictionary": DICTIONARY}),),
    "layer: paths": (CompressLayers(**{**ALONE, "paths": True}),),
    "layer: codebook": (CompressLayers(**{**ALONE, "codebook": True}),),
    "lossless": (TabulateJson(), CompactJson(), ReuseLines()),
    "together": (FoldOutput(), TabulateJson(), CompactJson(), ReuseLines(), DropSuperseded(), CollapseRepeats()),
}
"""What stands in front of what cuts."""


def by_tenths(budget: Budget) -> Pipeline:
    """``coding_agent`` with every tenth line number alone, as ``thrifty`` has it."""
    preset = coding_agent(budget)
    stages = [
        evolve(stage, kinds=stage.kinds | {"tenths"}) if isinstance(stage, FoldOutput) else stage
        for stage in preset.stages
    ]
    return Pipeline(*stages, budget=preset.budget)


NONE = "as it is"
PRESETS = {
    "coding_agent": coding_agent,
    "coding_agent by tenths": by_tenths,
    "thrifty": thrifty,
    "assistant": assistant,
}
MODELS = {"thrifty": "gpt-4o"}
"""What a preset needs to be told: the model that it is for."""
OURS = frozenset(
    {
        *("ReuseLines", "DropSuperseded", "ShrinkArguments", "CollapseRepeats", "CompactJson", "TabulateJson"),
        *("FoldOutput", "CompressLayers"),
    }
)
"""The stages that say the same in fewer tokens; all others cut."""
CODING = ("codex-responses", "coding-anthropic", "coding-chat", "long-anthropic", "long-chat-derived")
SERVICE = "customer-service"
TINY = "api-shapes"
"""Requests of every odd shape, and no sessions."""

ELSEWHERE = frozenset({SHOWN_AGAIN, WHY})
"""Why something is left out that stands elsewhere in the request."""

SAVED, AT_ONCE, SIZE = "sent", "at-once", "size"
LIBRARIES = {"headroom": headroom, "claw-compactor": claw_compactor}


@define
class Effect:
    """What stages did to some sessions, or to their last requests.

    Args:
        loose: The requests in a window that is never full.
        tight: Those in a window of a third, of sessions that outgrow it.
        saved: Tokens that the stages left out there.
        dropped: Tokens that all else left out there.
        folded: Tokens that the stages left out of messages when these were old, and that nothing said at that time.
        gone: Of these, tokens of messages that were dropped after that, in the same cut or in a later one.
        larger: Messages that were larger than what they were made of.
        seconds: What the stages took in the large window.
        tokenizing: What tokenizing the sessions takes.
    """

    loose: Total = field(factory=Total)
    tight: Total = field(factory=Total)
    saved: int = 0
    dropped: int = 0
    folded: int = 0
    gone: int = 0
    larger: int = 0
    seconds: float = 0.0
    tokenizing: float = 0.0

    def add(self, other: Effect) -> None:
        """Add what they did to other sessions."""
        self.loose.add(other.loose)
        self.tight.add(other.tight)
        for each in ("saved", "dropped", "folded", "gone", "larger", "seconds", "tokenizing"):
            setattr(self, each, getattr(self, each) + getattr(other, each))


Effects = dict[str, Effect]
"""By what did it."""


@define
class Looking:
    """Looks at what a session of ours sends.

    Args:
        recorded: The session.
        effect: What is counted.
        tight: Whether it has to be cut.
    """

    recorded: Recorded
    effect: Effect
    tight: bool
    seen: dict[int, Message] = field(factory=dict)
    folds: dict[int, int] = field(factory=dict)
    known: int = 0

    def at(self, way: Way) -> Way:
        """The same way of sending, looked at."""

        async def looked_at(recorded: Recorded, window: int) -> AsyncIterator[Sent]:
            async for sent in way(recorded, window):
                if sent.view is not None:
                    self._look(sent)
                yield sent

        return looked_at

    def _look(self, sent: Sent) -> None:
        effect, view = self.effect, sent.view
        for stage in () if view is None else view.report.stages:
            less = sum(change.tokens_before - change.tokens_after for change in stage.changes)
            if stage.stage in OURS:
                effect.saved += less if self.tight else 0
                effect.seconds += 0 if self.tight else stage.seconds
                self._fold(stage.changes)
            elif self.tight:
                gone = (each for each in stage.changes if each.outcome is not Outcome.ADDED)
                effect.dropped += sum(max(0, each.tokens_before - each.tokens_after) for each in gone)
                effect.gone += sum(self.folds.pop(each.index, 0) for each in stage.changes if each.is_gone)
        if view is not None:
            self._compare(view.context.messages, view.origins)
            self.known = max((index + 1 for index in view.origins if index is not None), default=0)

    def _fold(self, changes: Iterable[Change]) -> None:
        """Remember what was left out of messages that had been sent before, but for what is shown elsewhere."""
        for change in changes if self.tight else ():
            if change.index < self.known and change.reason not in ELSEWHERE:
                less = change.tokens_before - change.tokens_after
                self.folds[change.index] = self.folds.get(change.index, 0) + less
                self.effect.folded += less

    def _compare(self, messages: Sequence[Message], origins: Sequence[int | None]) -> None:
        meter = self.recorded.source.meter
        for message, index in zip(messages, origins, strict=True):
            if index is not None and id(message) not in self.seen:
                self.seen[id(message)] = message
                self.effect.larger += meter.message(message) > meter.message(self.recorded.messages[index])


def cutting(budget: Budget) -> Pipeline:
    """``coding_agent`` without what says the same in fewer tokens."""
    preset = coding_agent(budget)
    stages = [stage for stage in preset.stages if type(stage).__name__ not in OURS]
    return Pipeline(*stages, budget=preset.budget)


def built(name: str, window: int, *, cuts: bool) -> Pipeline:
    """What a session is sent through.

    Args:
        name: A preset, or stages.
        window: Tokens.
        cuts: Whether there is something to cut.
    """
    budget = Budget(window)
    if name in PRESETS:
        return PRESETS[name](budget)
    base = cutting(budget)
    return Pipeline(*STAGES[name], *(base.stages if cuts else ()), budget=base.budget)


async def effect_of(name: str, recorded: Recorded) -> Effect:
    """What stages do to a session, in a window that it never fills and in one of a third."""
    effect, largest = Effect(), recorded.largest
    window, needed = max(SMALLEST, largest // 3), needs(recorded.messages, recorded.calls)
    for tight in (False, True) if largest > window else (False,):
        way = in_session(lambda room, cuts=tight: built(name, room, cuts=cuts), MODELS.get(name), recall=tight)
        total = await measure(
            recorded, Looking(recorded, effect, tight).at(way), window if tight else 4 * largest, needed
        )
        (effect.tight if tight else effect.loose).add(total)
    effect.tokenizing = tokenizing(recorded)
    return effect


def tokenizing(recorded: Recorded) -> float:
    """Seconds that tokenizing all texts of a session takes."""
    texts, started = [said_by(message) for message in recorded.messages[: recorded.calls[-1]]], perf_counter()
    for text in texts:
        ours.tokens(text)
    return perf_counter() - started


@define
class Once:
    """What became of last requests that were made shorter at once.

    Args:
        requests: How many.
        failed: Those of which nothing was made.
        tokens: Their tokens, failures left out.
        given: What these had before.
        fitting: Those that fit a third.
        legal: Those that the provider takes.
        taken: Those that it takes as they are.
        larger: Messages that were larger than before.
        found: Values that the last call needs.
        seconds: What it took.
        tokenizing: What tokenizing them takes.
    """

    requests: int = 0
    failed: int = 0
    tokens: int = 0
    given: int = 0
    fitting: int = 0
    legal: int = 0
    taken: int = 0
    larger: int = 0
    found: Retention = field(factory=Retention)
    seconds: float = 0.0
    tokenizing: float = 0.0

    def add(self, other: Once) -> None:
        """Add what became of other requests."""
        for each in fields(Once):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


async def once(name: str, recorded: Recorded) -> Once:
    """The last request of a session, made by one call without a session."""
    at, source = recorded.calls[-1], recorded.source
    given, window = list(recorded.recording.messages[:at]), max(SMALLEST, recorded.largest // 3)
    made = Once(1, tokenizing=tokenizing(recorded))
    started = perf_counter()
    try:
        natives = await _shortened(name, recorded, given, window)
        messages = tuple(source.messages(natives))
    except Exception:  # noqa: BLE001 - whatever another library raises, nothing was made
        return evolve(made, failed=1)
    made.seconds = perf_counter() - started
    context = recorded.context(at).with_messages(messages)
    made.tokens, made.given = source.meter.size(context), recorded.largest
    made.fitting = int(made.tokens <= window)
    made.legal, made.taken = int(_is_legal(recorded, natives, given)), int(_is_legal(recorded, given, given))
    if len(messages) == at:
        pairs = zip(messages, recorded.messages, strict=False)
        made.larger = sum(source.meter.message(one) > source.meter.message(other) for one, other in pairs)
    shown = "\n".join(map(said_by, messages))
    values = needs(recorded.messages, recorded.calls)[at]
    made.found = Retention(len(values), sum(value in shown for value in values))
    return made


async def _shortened(name: str, recorded: Recorded, given: list[Any], window: int) -> list[Any]:
    if name in LIBRARIES:
        return LIBRARIES[name](given)[0]
    recording, wire = recorded.recording, recorded.source.wire.name
    pipeline = built(name, window, cuts=name in PRESETS)
    if name not in PRESETS:
        pipeline = Pipeline(*pipeline.stages)
    return (await pipeline.prepare(given, system=recording.system, tools=recording.tools, format=wire)).messages


def _is_legal(recorded: Recorded, natives: Sequence[Any], given: Sequence[Any]) -> bool:
    source, recording = recorded.source, recorded.recording
    request, before = (source.wire.keys.request(each, recording.system, recording.tools) for each in (natives, given))
    return not any(found.severity == "error" for found in find_violations(source.wire, request, source.profile, before))


def busy(length: int, seed: int) -> list[dict[str, Any]]:
    """A made transcript whose tools say what the stages have to do with, three times of four.

    Files are read in ranges, again and again; JSON has blanks and a shape; tests pass, at other times.
    """
    rng = random.Random(seed)  # noqa: S311 - the same numbers every time are the point
    files = [[code(rng) for _ in range(300)] for _ in range(50)]
    made = transcript(length, seed)
    for message in made:
        if message["role"] == "tool":
            message["content"] = rng.choice((_range, _objects, _tests, _as_it_is))(rng, files, message["content"])
    return made


def _range(rng: random.Random, files: Sequence[Sequence[str]], _text: str) -> str:
    lines, start = rng.choice(files), rng.randrange(280)
    return "\n".join(f"{start + at + 1:>6}\t{line}" for at, line in enumerate(lines[start:][: rng.randint(10, 24)]))


def _objects(rng: random.Random, _files: object, _text: str) -> str:
    keys = rng.sample(WORDS, 4)
    return json.dumps([{key: rng.randint(0, 99_999) for key in keys} for _ in range(rng.randint(2, 8))], indent=2)


def _tests(rng: random.Random, _files: object, _text: str) -> str:
    names = [f"tests/test_{rng.choice(WORDS)}.py::test_{word} PASSED" for word in rng.sample(WORDS, rng.randint(5, 30))]
    return "\n".join([*names, f"=== {len(names)} passed in {rng.randint(1, 99)}.{rng.randint(0, 99):02}s ==="])


def _as_it_is(_rng: random.Random, _files: object, text: str) -> str:
    return text


FEW, MANY = 1_000, 10_000
SEEDS = iter(range(1_000, 10_000))
"""A seed for each transcript, so that no text was counted before."""


async def timed(stages: Stages, length: int) -> tuple[float, float]:
    """Processor time of a call with the stages without a session, and of tokenizing what it is given."""
    made = busy(length, next(SEEDS))
    started = process_time()
    ours.tokenize(made)
    middle = process_time()
    await Pipeline(*stages, budget=Budget(WINDOW)).prepare(made, format="openai-chat")
    return process_time() - middle, middle - started


WINDOW = 10_000_000
"""Tokens; what cuts is not measured here."""


async def side_by_side(stages: Stages, length: int) -> tuple[float, float]:
    """What a call with the stages takes, and what it takes more than one without, by what tokenizing takes."""
    bare, tokens = await timed((), length)
    work, again = await timed(stages, length)
    return work / again, max(0.01, 2 * (work - bare) / (tokens + again))


MEGABYTES = 5_000_000
"""Characters of one text; all of them ASCII, so bytes as well."""


def search_hits(rng: random.Random) -> str:
    """One text of search hits, whole paths in each line."""
    folders = [f"/home/dev/projects/{'/'.join(rng.choices(WORDS, k=3))}" for _ in range(30)]
    hits = (f"{rng.choice(folders)}/{rng.choice(WORDS)}.py:{rng.randint(1, 900)}:{code(rng)}" for _ in repeat(None))
    return "\n".join(until(hits))


def records(rng: random.Random) -> str:
    """One text of JSON with blanks, paths in every other value."""
    objects = (
        {
            word: rng.randint(0, 99_999) if at % 2 else f"/srv/data/{rng.choice(WORDS)}/{rng.getrandbits(32):08x}"
            for at, word in enumerate(rng.sample(WORDS, 4))
        }
        for _ in repeat(None)
    )
    values = ",\n".join(until(json.dumps(each, indent=2) for each in objects))
    return f"[\n{values}\n]"


def until(texts: Iterator[str]) -> Iterator[str]:
    """So many of the texts that they have 5 MB."""
    room = MEGABYTES
    for text in texts:
        yield text
        room -= len(text) + 2
        if room < 0:
            return


def one_text(make: Callable[[random.Random], str]) -> float:
    """Processor time of putting one text of 5 MB into codes, its size being known, by what tokenizing it takes."""
    text = make(random.Random(next(SEEDS)))  # noqa: S311 - the same numbers every time are the point
    context = Context((Message("tool", (ToolResult("call_1", (Text(text),)),)),))
    call = Call(MessageMeter(TiktokenCounter()))
    call.count(context.messages[0])
    started = process_time()
    ours.tokens(text)
    middle = process_time()
    CompressLayers().apply(context, call)
    return (process_time() - middle) / (middle - started)


async def size_rows(repeats: int) -> list[Row]:
    """Ten thousand messages and a thousand: what stages take beside tokenizing them, and how that grows."""
    ours.tokens("warm")
    rows = []
    preset = [stage for stage in coding_agent(Budget(WINDOW)).stages if type(stage).__name__ in OURS]
    for name, stages in {**STAGES, "the stages of coding_agent": preset}.items():
        found = {
            length: [await side_by_side(stages, length) for _ in range(repeats * (3 if length == FEW else 1))]
            for length in (FEW, MANY)
        }
        how = f"{MANY:,} messages, {MANY * AVERAGE_CHARACTERS / 1e6:.0f} MB, median of {repeats}"
        call, more = (median(each[place] for each in found[MANY]) for place in (0, 1))
        if name == NONE:
            rows.append(Row(f"{name}: a call / tokenizing", call, None, how=how))
        else:
            rows.append(Row(f"{name}: more than a call without / tokenizing", more, 2, how=how))
        grown = call / median(each[0] for each in found[FEW])
        rows.append(Row(f"{name}: growth", grown, 1.6, how=f"{FEW:,} to {MANY:,} messages; beyond tokenizing"))
    for make in (search_hits, records):
        took, what = median(one_text(make) for _ in range(repeats)), make.__name__.replace("_", " ")
        rows.append(Row(f"CompressLayers, one text of {what} / tokenizing", took, 2, how=f"5 MB, median of {repeats}"))
    return rows


@frozen
class Task:
    """One session to be measured.

    Args:
        table: What is asked.
        kind: The class of the session.
        line: The session as it stands in its file.
    """

    table: str
    kind: str
    line: str = field(repr=False)


Result = dict[str, Effect] | dict[str, Once]


def measure_one(task: Task, names: Sequence[str]) -> Result:
    """One session, by stages, presets or libraries of these names; nothing where it has no calls."""
    recorded = read(task.kind, json.loads(task.line))
    if not recorded.calls:
        return {}
    if task.table == AT_ONCE:
        for name in names:
            warm(name)
        return {name: anyio.run(once, name, recorded) for name in names}
    return {name: anyio.run(effect_of, name, recorded) for name in names}


@cache
def warm(name: str) -> None:
    """Let what is loaded at the first use be loaded, once a process: that is not timed."""
    anyio.run(once, name, of_recording("made", Recording(busy(40, 0), format="openai-chat")))


def tasks(args: argparse.Namespace) -> Iterator[Task]:
    """The sessions that were asked for; where only a few are, those of middling length."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for kind, line in lines_of_sessions():
        asked = kind in args.kind if args.kind else kind != TINY
        if asked and args.half in (None, half_of(json.loads(line)["id"])):
            kinds[kind].append(line)
    for kind, lines in kinds.items():
        for table in args.table:
            if table != SIZE:
                yield from (Task(table, kind, line) for line in of_middling_length(lines, args.limit))


def measured(found: Sequence[Task], names: Mapping[str, Sequence[str]], jobs: int) -> dict[str, dict[str, Result]]:
    """All tasks, by table and class."""
    tables: dict[str, dict[str, Any]] = {}
    work = partial(_named, names=names)
    for task, result in in_processes(work, found, lambda task: len(task.line), jobs):
        for name, each in result.items():
            for row in (task.kind, *((CODERS,) if task.kind in CODING else ()), ALL_KINDS):
                kinds = tables.setdefault(task.table, {}).setdefault(row, {})
                kinds.setdefault(name, type(each)()).add(each)
    return tables


def _named(task: Task, names: Mapping[str, Sequence[str]]) -> Result:
    return measure_one(task, names[task.table])


CODERS = "coding sessions"


def effect_cells(effect: Effect, bare: Effect) -> dict[str, str]:
    """What stages did, beside sessions without them."""
    loose, tight, before = effect.loose, effect.tight, bare.tight
    return {
        "sessions": f"{loose.sessions}, {tight.sessions} cut",
        "sent": shared(loose.tokens, bare.loose.tokens),
        "unchanged prefix": shared(loose.unchanged, loose.tokens),
        "visible": shared(loose.found.visible, loose.found.values),
        "dropped by cuts": shared(effect.dropped, bare.dropped),
        "with what was folded before": shared(effect.dropped + effect.gone, bare.dropped),
        "sent, cut": shared(tight.tokens, before.tokens),
        "cost, cut": shared(tight.dollars, before.dollars),
        "unchanged prefix, cut": shared(tight.unchanged, tight.tokens),
        "visible, cut": shared(tight.found.visible, tight.found.values),
        "or by handle": shared(tight.found.visible + tight.found.recallable, tight.found.values),
        "compactions": f"{tight.compactions} of {before.compactions}" if tight.sessions else "",
        "refused": str(tight.refused + loose.refused or ""),
        "larger messages": str(effect.larger),
        "time / tokenizing": f"{effect.seconds / effect.tokenizing:.2f} x" if effect.tokenizing else "",
    }


def once_cells(made: Once, _bare: Once) -> dict[str, str]:
    """What became of last requests."""
    done = made.requests - made.failed
    return {
        "requests": str(made.requests),
        "failed": str(made.failed or ""),
        "tokens": shared(made.tokens, made.given),
        "fits a third": f"{made.fitting} of {done}",
        "legal": f"{made.legal} of {made.taken}",
        "visible": shared(made.found.visible, made.found.values),
        "larger messages": str(made.larger),
        "time / tokenizing": f"{made.seconds / made.tokenizing:.2f} x" if made.tokenizing else "",
    }


def cells(one: Effect | Once, bare: Effect | Once) -> dict[str, str]:
    """A row's cells by the table it is in."""
    if isinstance(one, Effect) and isinstance(bare, Effect):
        return effect_cells(one, bare)
    if isinstance(one, Once) and isinstance(bare, Once):
        return once_cells(one, bare)
    msg = f"two tables in one: {one!r:.40}, {bare!r:.40}"
    raise TypeError(msg)


def bars(table: Mapping[str, Effects]) -> list[Row]:
    """What the presets must reach."""
    rows: list[Row] = []
    for kind, preset, least in ((CODERS, "coding_agent", 8), (SERVICE, "assistant", 10), (ALL_KINDS, "thrifty", None)):
        if preset not in table.get(kind, {}) or NONE not in table[kind]:
            continue
        effect, bare = table[kind][preset], table[kind][NONE]
        how = f"{kind}, {preset}, {effect.loose.sessions} sessions"
        rows.append(_fewer("tokens sent without pressure, fewer", effect.loose.tokens, bare.loose.tokens, least, how))
        if preset == "coding_agent" and bare.dropped:
            rows.append(_fewer("tokens dropped by cuts, fewer", effect.dropped, bare.dropped, 30, how))
            told = "part of the requests that is unchanged, less by"
            less = 100 * (bare.tight.unchanged / bare.tight.tokens - effect.tight.unchanged / effect.tight.tokens)
            rows.append(Row(told, less, 0.05, how=how, unit="points"))
            less = 100 * (bare.tight.found.visible_share - effect.tight.found.visible_share)
            rows.append(Row("values visible, less by", less, 0.05, how=how, unit="points"))
        rows.append(Row("messages made larger", effect.larger, 0, how=how, unit=""))
    return rows


def _fewer(what: str, now: int, before: int, least: float | None, how: str) -> Row:
    return Row(what, 100 * (1 - now / before), least, at_least=True, how=how, unit="%")


def lines_of(kinds: Mapping[str, Result]) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Class, name and cells of each row; sums come last."""
    for kind in sorted(kinds, key=lambda kind: (kind == ALL_KINDS, kind == CODERS, kind)):
        for name, one in kinds[kind].items():
            yield kind, name, cells(one, kinds[kind][NONE])


def drawn(table: str, kinds: Mapping[str, Result]) -> Table:
    """The rows for people."""
    found = list(lines_of(kinds))
    made = Table("class", "what", *found[0][2], title=table)
    for kind, name, each in found:
        made.add_row(kind, name, *each.values())
    return made


def markdown(kinds: Mapping[str, Result]) -> str:
    """The rows for README.md."""
    found = list(lines_of(kinds))
    names = list(found[0][2])
    lines = [f"| class | what | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    return "\n".join([*lines, *(f"| {kind} | {name} | {' | '.join(each.values())} |" for kind, name, each in found)])


def asked() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description="Measure what saying things in fewer tokens saves.")
    parser.add_argument("--half", type=int, choices=(0, 1), default=1, help="0: the half for choosing settings")
    parser.add_argument("--both", dest="half", action="store_const", const=None, help="both halves")
    parser.add_argument("--limit", type=int, help="at most so many sessions of each class, of middling length")
    parser.add_argument("--kind", action="append", help="a class of sessions; all when not given")
    parser.add_argument("--table", action="append", choices=(SAVED, AT_ONCE, SIZE), help="all when not given")
    parser.add_argument("--stages", nargs="+", choices=[*STAGES, *PRESETS], help="all when not given")
    parser.add_argument("--jobs", type=int, default=1, help="processes: what takes time is compared")
    parser.add_argument("--read", type=Path, nargs="+", help="show what --json wrote once or more; measure nothing")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print JSON instead of tables")
    shape.add_argument("--markdown", action="store_true", help="print tables for README.md")
    args = parser.parse_args()
    args.table = args.table or [SAVED, AT_ONCE, SIZE]
    return args


def names_of(args: argparse.Namespace) -> dict[str, list[str]]:
    """By table: what is measured there, what it is compared with first."""
    stages = [NONE, *(name for name in args.stages or (*STAGES, *PRESETS) if name != NONE)]
    there = [name for name, module in MODULES.items() if find_spec(module)]
    return {SAVED: stages, AT_ONCE: [NONE, *(name for name in AT_ONCE_OURS if name in stages), *there]}


AT_ONCE_OURS = ("lossless", "together", "coding_agent")
MODULES = {"headroom": "headroom", "claw-compactor": "claw_compactor"}


def load(paths: Sequence[Path]) -> dict[str, dict[str, Result]]:
    """What was written as JSON; of what is in several files, the last."""
    tables: dict[str, dict[str, Any]] = {}
    for path in paths:
        for table, kinds in json.loads(path.read_text(encoding="utf-8"))["tables"].items():
            for kind, found in kinds.items():
                known = tables.setdefault(table, {}).setdefault(kind, {})
                known.update({name: _loaded(plain) for name, plain in found.items()})
    return tables


def _loaded(plain: dict[str, Any]) -> Effect | Once:
    if "loose" not in plain:
        return Once(**{**plain, "found": Retention(**plain["found"])})
    totals = {key: Total(**{**plain[key], "found": Retention(**plain[key]["found"])}) for key in ("loose", "tight")}
    return Effect(**{**plain, **totals})


def main() -> int:
    """Measure, print, and say by the exit code whether all bars are kept."""
    args = asked()
    tables = load(args.read) if args.read else measured(list(tasks(args)), names_of(args), args.jobs)
    rows = bars(tables.get(SAVED, {}))
    if SIZE in args.table and not args.read:
        rows += anyio.run(size_rows, 3)
    if args.json:
        plain = {
            table: {kind: {name: asdict(each) for name, each in found.items()} for kind, found in kinds.items()}
            for table, kinds in tables.items()
        }
        print(as_json(rows, tables=plain))
    elif args.markdown:
        for table, kinds in tables.items():
            print(f"**{table}**\n\n{markdown(kinds)}\n")
        print(markdown_of_rows(rows))
    else:
        for table, kinds in tables.items():
            Console(width=220).print(drawn(table, kinds))
        show(rows, "Bars")
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
