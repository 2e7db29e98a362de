"""The ledger: exact values out of what was left out, the likeliest to be needed first, within a number of tokens."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest

from attrs import define, field, frozen

from agentctx.core.message import Message, Text, Thinking, ToolResult
from agentctx.core.pace import paced
from agentctx.core.secrets import Redactor, is_credential_file, is_environment_file, redact_secrets
from agentctx.memory.artifacts import Artifact, FileEvent
from agentctx.memory.quoting import TERM, quoted, unquoted
from agentctx.memory.tool_calls import ArtifactRule, ReadCall, done_by, read_calls
from agentctx.memory.trail import trail_in
from agentctx.memory.values import Extractor, Kind, Value, error_lines, said_in, values_in
from agentctx.protocols import TokenCounter

USED, SEEN, SAID, ERRORS = "used", "seen", "said by the user", "errors"
"""The lines of a ledger: what calls used, what else was there, what the user said, what went wrong."""


@define
class Candidate:
    """What is known of a value that may be told.

    Args:
        kind: What it is.
        calls: In how many calls it was an argument.
        results: In how many results it stood.
        said: In how many messages of the model.
        asked: In how many messages of the user.
        age: How long ago it last stood somewhere: 0 for the last message that is gone, 1 for the first, more for what
            an earlier ledger told.
        called: The same of the last call that used it; None when none did.
        order: Its place among those that an earlier ledger told; 0 when none did.
    """

    kind: Kind
    calls: int = 0
    results: int = 0
    said: int = 0
    asked: int = 0
    age: float = 0.0
    called: float | None = None
    order: float = 0.0

    def features(self, text: str) -> tuple[float, ...]:
        """What its score is made of."""
        return (
            1.0,
            math.log1p(self.calls),
            0.0 if self.called is None else math.exp(-2 * self.called),
            math.exp(-2 * self.age),
            math.exp(-8 * self.age),
            math.log1p(self.said),
            min(self.asked, 2),
            math.log1p(self.results),
            float(self.calls > 0),
            math.log(len(text)),
            self.order,
        )


_WEIGHTS = (-4.53, 0.46, 1.53, 1.05, 0.32, 0.3, -0.45, -0.22, 0.94, -0.06, -0.26)
_KINDS: Mapping[Kind, float] = {
    Kind.FILE: 1.19,
    Kind.SYMBOL: 0.08,
    Kind.PATH: -0.08,
    Kind.URL: -0.02,
    Kind.DATE: -0.51,
    Kind.NAME: -0.63,
    Kind.NUMBER: -0.94,
    Kind.EMAIL: -1.02,
    Kind.ID: -2.6,
    Kind.RULE: 2.0,
    Kind.ERROR: -1.0,
}
"""Fitted to half of many recorded sessions: what makes a value be used again (``benchmarks/retention.py``)."""

_CARRIED = 1.3
"""The age of what an earlier ledger told."""

_DEARER = 0.5
"""How much less a value counts that takes more characters: this power of their number."""


def score(text: str, known: Candidate) -> float:
    """How much is won, for what it costs, when a value is told."""
    sum_ = sum(weight * each for weight, each in zip(_WEIGHTS, known.features(text), strict=True))
    return math.pow(len(text), -_DEARER) / (1 + math.exp(-sum_ - _KINDS.get(known.kind, 0.0)))


@frozen
class Sections:
    """What is told of what was left out.

    Args:
        ledger: The values; empty when there are none.
        trail: What was done to files, and what ran; empty when nothing was.
    """

    ledger: str = ""
    trail: str = ""


@frozen
class Memory:
    """How values and artifacts are found in messages, and told.

    Args:
        extractors: Callables that find values of one's own in a text.
        rule: What calls of tools of one's own did.
        redact: Takes secrets out of a text, given the name of the file that it is from. Nothing is looked for in a
            text before that.

    Example:
        >>> from agentctx import Message, Text
        >>> from agentctx.memory import Memory
        >>> from agentctx.tokens import TiktokenCounter
        >>> gone = [Message("user", (Text("Never touch order #W5199551."),))]
        >>> print(Memory().after(gone, (), tokens=60, counter=TiktokenCounter()).ledger)
        seen: #W5199551
        said by the user: "Never touch order #W5199551"
    """

    extractors: tuple[Extractor, ...] = field(default=(), converter=tuple)
    rule: ArtifactRule | None = None
    redact: Redactor = redact_secrets

    def after(
        self,
        gone: Sequence[Message],
        visible: Sequence[Message],
        earlier: Sections = Sections(),
        *,
        tokens: int,
        counter: TokenCounter,
        most: int | None = None,
    ) -> Sections:
        """What is told after messages were left out.

        Args:
            gone: What was left out, as it was, in its order.
            visible: The messages that stay, as they are now.
            earlier: What was told of what was left out before.
            tokens: The room for both sections; files that were changed are named also when they alone need more.
            counter: Counts tokens.
            most: The room when the files that were changed need more than ``tokens``; None: what they need.
        """
        read = list(read_calls(gone, visible, self.rule))
        trail = trail_in(earlier.trail).after(self._safe(done for each in read for done in done_by(each)))
        told = trail.text(tokens // _TRAIL, counter, most)
        room = tokens - counter.count(told) if told else tokens
        found = self.candidates(gone, read, earlier.ledger)
        return Sections(_ledger(found, self._shown(visible, told), room, counter, self.redact), told)

    def _safe(self, done: Iterable[Artifact]) -> Iterator[Artifact]:
        """What was done without the secrets that stand in commands and names."""
        for each in done:
            if isinstance(each, FileEvent):
                yield FileEvent(self.redact(each.path, ""), each.did, each.to and self.redact(each.to, ""))
            else:
                yield type(each)(self.redact(each.command, ""), each.ended, times=each.times)

    def candidates(self, gone: Sequence[Message], read: Iterable[ReadCall], earlier: str = "") -> dict[str, Candidate]:
        """All values in messages, and in an earlier ledger, with what is known of each."""
        found = dict(_carried(earlier))
        calls = {id(each.call): each for each in read}
        results = {id(each.result): each for each in calls.values() if each.result is not None}
        for place, message in paced(enumerate(gone, 1)):
            age = 1 - place / len(gone)
            for part in message.parts:
                if isinstance(part, ToolResult):
                    self._result(found, part, _name(results.get(id(part))), age)
                elif isinstance(part, (Text, Thinking)):
                    self._words(found, message, part.text, age)
            for call in message.calls:
                self._call(found, calls.get(id(call)), age)
        return found

    def _result(self, found: dict[str, Candidate], result: ToolResult, name: str, age: float) -> None:
        text = self.redact(result.text, name)
        for value in {*values_in(text, self.extractors), *error_lines(text)}:
            _at(found, value, age).results += 1

    def _words(self, found: dict[str, Candidate], message: Message, text: str, age: float) -> None:
        text = self.redact(text, "")
        by_user = message.role == "user"
        for value in {*values_in(text, self.extractors), *(said_in(text) if by_user else ())}:
            known = _at(found, value, age)
            known.asked += by_user
            known.said += not by_user

    def _call(self, found: dict[str, Candidate], read: ReadCall | None, age: float) -> None:
        if read is None:
            return
        name = _name(read)
        given = "\n".join(self.redact(text, name) for text in _leaves(self.redact(read.call.arguments, "")))
        for value in set(values_in(given, self.extractors)):
            known = _at(found, value, age)
            known.calls += 1
            known.called = age

    def _shown(self, visible: Iterable[Message], trail: str) -> Callable[[str], bool]:
        """Tells what is to be seen anyway."""
        texts = [trail, *(text for message in visible for text in _texts(message))]
        values = {value.text for text in texts for value in values_in(text)}
        whole = "\n".join(texts)
        return lambda text: text in values or text in whole


_TRAIL = 6
"""What ran, and what was read, is told in one part in so many of the room."""


def _at(found: dict[str, Candidate], value: Value, age: float) -> Candidate:
    known = found.get(value.text)
    if known is None:
        known = found[value.text] = Candidate(value.kind)
    known.age = age
    return known


def _name(read: ReadCall | None) -> str:
    """The file that a call is about, when all that is in it may be secret."""
    paths = () if read is None else (each.path for each in read.did if isinstance(each, FileEvent))
    return next((path for path in paths if is_credential_file(path) or is_environment_file(path)), "")


def _leaves(arguments: str) -> Iterator[str]:
    """The texts and numbers in a call's arguments."""
    try:
        waiting: list[object] = [json.loads(arguments)]
    except (ValueError, RecursionError):
        waiting = [arguments]
    while waiting:
        given = waiting.pop()
        if isinstance(given, Mapping):
            waiting += tuple(given.values())[::-1]
        elif isinstance(given, list):
            waiting += reversed(given)
        elif given is not None and not isinstance(given, bool):
            yield str(given)


def _texts(message: Message) -> Iterator[str]:
    for part in message.parts:
        if isinstance(part, (Text, Thinking, ToolResult)):
            yield part.text
    for call in message.calls:
        yield from _leaves(call.arguments)


_LINE = re.compile(rf"(?P<name>{USED}|{SEEN}|{SAID}|{ERRORS}): (?P<terms>.+)")
_TERM = re.compile(TERM)


def _carried(text: str) -> Iterator[tuple[str, Candidate]]:
    """The values that a ledger tells, the likeliest first."""
    for line in text.splitlines():
        if (found := _LINE.fullmatch(line)) is not None:
            terms = [unquoted(term) for term in _TERM.findall(found["terms"])]
            for place, term in enumerate(terms):
                yield term, _of_line(found["name"], term, (place + 1) / len(terms))


def _of_line(name: str, term: str, order: float) -> Candidate:
    if name in (SAID, ERRORS):
        return Candidate(Kind.RULE if name == SAID else Kind.ERROR, age=_CARRIED, order=order)
    kind = next((value.kind for value in values_in(term) if value.text == term), Kind.OTHER)
    used = name == USED
    return Candidate(kind, calls=int(used), age=_CARRIED, called=_CARRIED if used else None, order=order)


def _line_of(known: Candidate) -> str:
    if known.kind in (Kind.RULE, Kind.ERROR):
        return SAID if known.kind is Kind.RULE else ERRORS
    return USED if known.calls else SEEN


_LOOKED_AT = 8
"""So many values are looked at for each token of the room, so that many that are shown anyway cost little."""


def _likeliest(found: Mapping[str, Candidate], most: int) -> list[tuple[str, Candidate]]:
    return nsmallest(most, found.items(), key=lambda each: (-score(*each), each[0]))


_PARTS = {SAID: 0.25, ERRORS: 0.1}
"""The most of the room that sentences take: of the user, and of what went wrong."""


def _ledger(
    found: Mapping[str, Candidate], shown: Callable[[str], bool], tokens: int, counter: TokenCounter, redact: Redactor
) -> str:
    """The values that fit, in their order."""
    lines: dict[str, list[str]] = {USED: [], SEEN: [], SAID: [], ERRORS: []}
    left = {name: int(_PARTS.get(name, 1) * tokens) for name in lines}
    room = tokens - counter.count(": \n".join(lines))
    taken = ""
    for text, known in _likeliest(found, _LOOKED_AT * tokens):
        if room <= 1:
            break
        if text in taken or shown(text) or redact(text, "") != text:
            continue
        name, term = _line_of(known), quoted(text)
        cost = counter.count(f", {term}")
        if cost <= min(room, left[name]):
            lines[name].append(term)
            room, left[name], taken = room - cost, left[name] - cost, f"{taken}\n{text}"
    return _written(lines, tokens, counter)


def _written(lines: dict[str, list[str]], tokens: int, counter: TokenCounter) -> str:
    while True:
        text = "\n".join(f"{name}: {', '.join(terms)}" for name, terms in lines.items() if terms)
        if not text or counter.count(text) <= tokens:
            return text
        max(lines.values(), key=len).pop()
