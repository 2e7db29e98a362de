"""What later steps of recorded sessions still need, and how much of it the model can see.

**Natural facts:** the values in the arguments of each tool call (paths, file names, URLs, hex ids, numbers of four
digits and more, identifiers with ``_`` or a capital inside) that occurred earlier in the history. The same step is
prepared in a window of a third of the session by ``coding_agent``, and each value is visible in the view or it is not:
without its ledger, and with ledgers of some shares of the window.

    python benchmarks/retention.py                   # sessions of the half that nothing was tuned on
    python benchmarks/retention.py --half 0 --most 5
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import chain

import anyio
from attrs import define, field
from recorded import Recorded, recorded_sessions

from agentctx import Budget, ContextOverflow, Ledger, Message, Pipeline, Text, Thinking, ToolResult
from agentctx.errors import InvalidInput
from agentctx.presets import coding_agent

SHARES = (0.03, 0.05)
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


@define
class Tally:
    """How many facts were looked for, and how many were found, by the share of the window that the ledger has."""

    facts: dict[float, int] = field(factory=lambda: dict.fromkeys((0.0, *SHARES), 0))
    visible: dict[float, int] = field(factory=lambda: dict.fromkeys((0.0, *SHARES), 0))

    def share(self, ledger: float) -> float:
        """The part of the facts that is visible, in percent."""
        return 100 * self.visible[ledger] / max(1, self.facts[ledger])


def window_of(recorded: Recorded) -> int:
    """The window that a session is prepared in: a third of it."""
    return max(SMALLEST, recorded.largest // 3)


def with_share(recorded: Recorded, share: float) -> Pipeline:
    """The preset with a ledger of this share of the window; without one for none."""
    made = coding_agent(Budget(window=window_of(recorded)))
    told = (Ledger(share),) if share else ()
    stages = (told if isinstance(stage, Ledger) else (stage,) for stage in made.stages)
    return Pipeline(*chain.from_iterable(stages), budget=made.budget)


async def measure(recorded: Recorded, share: float, tally: Tally) -> None:
    """Prepare all calls of a session, and look for the facts of each; calls that cannot be made to fit are left out."""
    recording = recorded.recording
    session = with_share(recorded, share).session(model=recording.model, format=recorded.source.wire.name)
    system = "" if recorded.system is None else text_of(recorded.system)
    texts = [text_of(message) for message in recorded.messages]
    ends = (*recorded.calls[1:], len(recorded.messages))
    for at, end in zip(recorded.calls, ends, strict=True):
        given = list(recording.messages[:at])
        try:
            view = await session.prepare(given, system=recording.system, tools=recording.tools)
        except (ContextOverflow, InvalidInput):
            continue
        seen = "\n".join((system, *map(text_of, recorded.source.messages(list(view.messages)))))
        _look(recorded.messages[at:end], "\n".join(texts[:at]), seen, share, tally)


def _look(answer: Iterable[Message], history: str, seen: str, share: float, tally: Tally) -> None:
    """Look for what the answer's calls took from the history."""
    given = "\n".join(text for message in answer if message.role == "assistant" for text in arguments(message))
    for value in facts(given):
        if value in history:
            tally.facts[share] += 1
            tally.visible[share] += value in seen


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
            for share in (0.0, *SHARES):
                anyio.run(measure, recorded, share, tallies[kind])
    print("class              sessions  facts  without  " + "  ".join(f"+ {share:.0%}" for share in SHARES))
    for kind, tally in tallies.items():
        shares = "  ".join(f"{tally.share(share):5.1f}" for share in (0.0, *SHARES))
        print(f"{kind:18} {sessions[kind]:8} {tally.facts[0.0]:6}   {shares}")


if __name__ == "__main__":
    main()
