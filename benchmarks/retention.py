"""What later steps of recorded sessions still need, and how much of it the model can see.

**Natural facts:** the values in the arguments of each tool call (paths, file names, URLs, hex ids, numbers of four
digits and more, identifiers with ``_`` or a capital inside) that occurred earlier in the history. The same step is
prepared in a window of a third of the session, and each value is visible in the view or it is not. Beside it: the same
views with a ledger and a trail of some shares of the window, made anew at each cut of what was cut.

    python benchmarks/retention.py                   # sessions of the half that nothing was tuned on
    python benchmarks/retention.py --half 0 --most 5
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256

import anyio
from attrs import define, field, frozen
from recorded import Recorded, recorded_sessions

from agentctx import Budget, ContextOverflow, Message, Text, Thinking, ToolResult
from agentctx.errors import InvalidInput
from agentctx.memory import Memory, Sections
from agentctx.presets import coding_agent
from agentctx.session.session import Session
from agentctx.tokens import TiktokenCounter

SHARES = (0.02, 0.03, 0.04, 0.05)
SMALLEST = 8_000
"""Tokens of the smallest window; a session that does not outgrow it is left out."""

FACT = re.compile(
    r"(?P<url>https?://[^\s\"'<>`)\]}]+)|"
    r"(?P<path>(?:~|\.{1,2}|[\w.@+-]*+)(?:/[\w.@+-]+)+)|"
    r"(?P<file>[\w+-][\w.+-]*\.(?:c|cc|cfg|cpp|css|csv|diff|env|go|h|hpp|html?|ini|ipynb|java|jsx?|jsonl?|lock|log|md|"
    r"mod|patch|php|pony|proto|pyi?|rb|rs|rst|sh|sql|sum|toml|tsx?|txt|xml|ya?ml)\b)|"
    r"(?P<hex>\b(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{7,64}\b)|(?P<number>\b\d{4,}\b)|"
    r"(?P<name>\b(?=\w*\w_\w|\w*[a-z0-9][A-Z])[A-Za-z_]\w{4,}\b)"
)


def facts(text: str) -> dict[str, str]:
    """The values in the arguments of calls, each with its class."""
    found = ((each[0].rstrip(".,:"), str(each.lastgroup)) for each in FACT.finditer(text))
    return {value: kind for value, kind in found if 5 <= len(value) <= 200 or kind == "number"}


def leaves(value: object) -> Iterator[str]:
    """The texts and numbers in a value of JSON."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from leaves(each)
    elif value is not None:
        yield str(value)


def arguments(message: Message) -> Iterator[str]:
    """What the calls of a message are given."""
    for call in message.calls:
        try:
            yield from leaves(json.loads(call.arguments))
        except ValueError:
            yield call.arguments


def text_of(message: Message) -> str:
    """All that a message says."""
    parts = (part.text for part in message.parts if isinstance(part, (Text, Thinking, ToolResult)))
    return "\n".join((*parts, *arguments(message)))


@frozen
class Prepared:
    """A model call as it was prepared.

    Args:
        length: How many messages of the session it saw.
        until: Where the next call stands: the messages between are its answer and what came of it.
        kept: The places of the messages that the view has as they were.
        view: The messages of the view.
    """

    length: int
    until: int
    kept: frozenset[int]
    view: tuple[Message, ...] = field(repr=False)


@define
class Tally:
    """How many facts were looked for, and how many were found, by the share of the window that the ledger has."""

    facts: int = 0
    visible: dict[float, int] = field(factory=lambda: dict.fromkeys((0.0, *SHARES), 0))
    by_kind: dict[tuple[str, float], int] = field(factory=lambda: defaultdict(int))

    def share(self, ledger: float) -> float:
        """The part of the facts that is visible, in percent."""
        return 100 * self.visible[ledger] / max(1, self.facts)


def window_of(recorded: Recorded) -> int:
    """The window that a session is prepared in: a third of it."""
    return max(SMALLEST, recorded.largest // 3)


async def prepared(recorded: Recorded) -> list[Prepared]:
    """All calls of a session; those that cannot be made to fit are left out."""
    pipeline = coding_agent(Budget(window=window_of(recorded)))
    session = pipeline.session(model=recorded.recording.model, format=recorded.source.wire.name)
    ends = (*recorded.calls[1:], len(recorded.messages))
    found = [await _call(recorded, session, at, end) for at, end in zip(recorded.calls, ends, strict=True)]
    return [each for each in found if each is not None]


async def _call(recorded: Recorded, session: Session, length: int, until: int) -> Prepared | None:
    given, recording = list(recorded.recording.messages[:length]), recorded.recording
    try:
        view = await session.prepare(given, system=recording.system, tools=recording.tools)
    except (ContextOverflow, InvalidInput):
        return None
    places = {id(native): place for place, native in enumerate(given)}
    kept = frozenset(places[id(native)] for native in view.messages if id(native) in places)
    return Prepared(length, until, kept, tuple(recorded.source.messages(list(view.messages))))


def gone_at(calls: Sequence[Prepared]) -> Iterator[tuple[Prepared, list[int]]]:
    """Each call with what it is the first not to show since a cut; empty where nothing was cut."""
    told: set[int] = set()
    before: frozenset[int] = frozenset()
    for call in calls:
        gone = [place for place in range(call.length) if place not in call.kept and place not in told]
        if before <= call.kept:
            gone = []
        told.update(gone)
        before = call.kept
        yield call, gone


def measure(recorded: Recorded, calls: Sequence[Prepared], tally: Tally) -> None:
    """Look for the facts of a session."""
    counter, memory, window = TiktokenCounter(), Memory(), window_of(recorded)
    sections = dict.fromkeys(SHARES, Sections())
    system = "" if recorded.system is None else text_of(recorded.system)
    texts = [text_of(message) for message in recorded.messages]
    for call, gone in gone_at(calls):
        if gone:
            messages = [recorded.messages[place] for place in gone]
            for share, told in sections.items():
                room = int(share * window)
                sections[share] = memory.after(messages, call.view, told, tokens=room, counter=counter)
        seen = {0.0: "\n".join((system, *map(text_of, call.view)))}
        seen |= {share: f"{told.ledger}\n{told.trail}" for share, told in sections.items()}
        _look(recorded.messages[call.length : call.until], "\n".join(texts[: call.length]), seen, tally)


def _look(answer: Iterable[Message], history: str, seen: Mapping[float, str], tally: Tally) -> None:
    """Look for what the answer's calls took from the history."""
    given = "\n".join(text for message in answer if message.role == "assistant" for text in arguments(message))
    for value, kind in facts(given).items():
        if value not in history:
            continue
        tally.facts += 1
        for share, text in seen.items():
            found = value in text or value in seen[0.0]
            tally.visible[share] += found
            tally.by_kind[kind, share] += found


def half_of(recorded: Recorded) -> int:
    """The half of the sessions that one belongs to: the first is for tuning."""
    return int(sha256(str(recorded.recording.id).encode()).hexdigest(), 16) % 2


def main() -> None:
    """Measure and print, a line for each class of sessions."""
    parser = argparse.ArgumentParser(description="Measure what the model can still see of what it needs.")
    parser.add_argument("--half", type=int, choices=(0, 1), default=1, help="the half that was tuned on, or the other")
    parser.add_argument("--most", type=int, help="at most so many sessions of each class")
    parser.add_argument("--kind", action="append", help="a class of sessions; all when not given")
    args = parser.parse_args()
    tallies: dict[str, Tally] = defaultdict(Tally)
    sessions: dict[str, int] = defaultdict(int)
    for recorded in recorded_sessions():
        kind = recorded.kind
        if half_of(recorded) != args.half or (args.kind and kind not in args.kind) or sessions[kind] == args.most:
            continue
        if recorded.calls and recorded.largest > window_of(recorded):
            sessions[kind] += 1
            measure(recorded, anyio.run(prepared, recorded), tallies[kind])
    print("class              sessions  facts  without  " + "  ".join(f"+ {share:.0%}" for share in SHARES))
    for kind, tally in tallies.items():
        shares = "  ".join(f"{tally.share(share):5.1f}" for share in (0.0, *SHARES))
        print(f"{kind:18} {sessions[kind]:8} {tally.facts:6}   {shares}")


if __name__ == "__main__":
    main()
