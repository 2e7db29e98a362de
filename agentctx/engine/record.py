"""The record that a summary is: what it says, under six headings, brought up to date in place.

A model writes it, or ``Extractive`` does, out of the messages themselves. What a model leaves out of it is kept from
the record before; so nothing is ever a summary of a summary.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import evolve, frozen

from agentctx.core.message import Message, ToolCall
from agentctx.core.protection import has_user_words
from agentctx.core.recap import quoted, recap_of
from agentctx.lazy import lazy_pattern

SUMMARY = "Summary"
"""Under this heading the recap has the words of a summarizer."""

LONGEST = 240
"""Characters; so much of a sentence goes into a record."""

_FIELDS = ("goal", "constraints", "decisions", "files", "open_items", "next_step")
HEADINGS = ("Goal", "Constraints", "Decisions", "Files", "Open items", "Next step")
"""What a record says, in this order."""

_HEADING = lazy_pattern(rf"[#*\s]*({'|'.join(HEADINGS)})[*\s]*(?::[*\s]*(.*))?", re.IGNORECASE)
_MOST: Mapping[str, int] = {"constraints": 12, "decisions": 12, "files": 40, "open_items": 8}
_FEW, _LEAST_OF_RULE = 12, 4
"""The constraints that are named in any room, and tokens of the shortest: in more room as many are as may fit."""


@frozen
class SummaryRecord:
    """What a summary says of a conversation, under six headings.

    Args:
        goal: What the user wants.
        constraints: What must hold, and what must not be done.
        decisions: What was decided.
        files: Which files it is about.
        open_items: What is left to do.
        next_step: What comes next.
        said: What else was said, before the first heading.

    Example:
        >>> from agentctx.engine.record import SummaryRecord
        >>> record = SummaryRecord(goal="A build that runs", files=("build.log",))
        >>> print(record.text)
        Goal: A build that runs
        Files:
        - build.log
        >>> SummaryRecord.read(record.text) == record
        True
    """

    goal: str = ""
    constraints: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    open_items: tuple[str, ...] = ()
    next_step: str = ""
    said: str = ""

    @classmethod
    def read(cls, text: str) -> SummaryRecord:
        """The record that a text is; one that is none is ``said``."""
        found: dict[str, list[str]] = {}
        said: list[str] = []
        lines = said
        for line in text.splitlines():
            heading = _HEADING.fullmatch(line)
            if heading is not None:
                lines = found.setdefault(_FIELDS[HEADINGS.index(heading[1].capitalize())], [])
            lines.append(line if heading is None else heading[2] or "")
        single = {name: _joined(found.pop(name, ())) for name in ("goal", "next_step")}
        return cls(**single, **{name: _items(each) for name, each in found.items()}, said="\n".join(said).strip())  # type: ignore[arg-type]

    @property
    def text(self) -> str:
        """What it says."""
        return "\n".join((*filter(None, (self.said,)), *self._lines()))

    def _lines(self) -> Iterator[str]:
        for name, heading in zip(_FIELDS, HEADINGS, strict=True):
            told = getattr(self, name)
            if isinstance(told, str):
                yield from (f"{heading}: {told}",) if told else ()
            elif told:
                yield from (f"{heading}:", *(f"- {item}" for item in told))

    @property
    def is_plain(self) -> bool:
        """Whether it has no headings."""
        return not any(getattr(self, name) for name in _FIELDS)

    def updated(self, later: SummaryRecord) -> SummaryRecord:
        """It as a later one says it, with what that one does not speak of; a plain one takes the place of all."""
        if later.is_plain:
            return later
        return evolve(later, **{name: getattr(self, name) for name in (*_FIELDS, "said") if not getattr(later, name)})

    def joined(self, later: SummaryRecord, rules: int) -> SummaryRecord:
        """Both: the goal is the first, the next step the last, and of each list the newest are kept."""
        kept = {**_MOST, "constraints": rules}
        lists = {name: _newest((*getattr(self, name), *getattr(later, name)), most) for name, most in kept.items()}
        return SummaryRecord(self.goal or later.goal, **lists, next_step=later.next_step, said=self.said)

    def shortened(self) -> Iterator[SummaryRecord]:
        """It, and then with ever less of it: of the longest list the oldest goes; goal and next step stay."""
        made = self
        while True:
            yield made
            longest = max(_MOST, key=lambda name: len("".join(getattr(made, name))))
            if not getattr(made, longest):
                return
            made = evolve(made, **{longest: getattr(made, longest)[1:]})


def _joined(lines: Iterable[str]) -> str:
    return " ".join(line.strip() for line in lines if line.strip())


def _items(lines: Iterable[str]) -> tuple[str, ...]:
    plain = (line.strip().removeprefix("-").removeprefix("*").strip() for line in lines)
    return tuple(line for line in plain if line and line.lower() not in ("none", "none."))


def _newest(items: Iterable[str], most: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(reversed(list(items))))[:most][::-1]


def record_in(messages: Iterable[Message]) -> SummaryRecord:
    """The record that the recaps among messages have; an empty one where there is none."""
    found = SummaryRecord()
    for message in messages:
        recap = recap_of(message)
        if recap is not None and recap.sections.get(SUMMARY):
            found = found.updated(SummaryRecord.read(recap.sections[SUMMARY]))
    return found


_SENTENCE = lazy_pattern(r"[^\n.!?]+(?:[.!?](?!\s)[^\n.!?]*)*[.!?]?")
_RULE = lazy_pattern(
    r"\b(?:must|never|always|do not|don't|only|without|at most|at least|make sure|avoid)\b", re.IGNORECASE
)
_DECIDED = lazy_pattern(
    r"\b(?:decided|going with|chose|instead of|we(?:'ll| will) use|I(?:'ll| will) use)\b", re.IGNORECASE
)
_OPEN = lazy_pattern(r"\b(?:TODO|FIXME|still (?:to do|fails?|needs?|open)|remaining|not yet|left to do)\b|- \[ \]")
_NEXT = lazy_pattern(r"\b(?:next|now I(?:'ll| will)|let me|I(?:'ll| will))\b", re.IGNORECASE)
_PATH_NAMES = frozenset(("path", "file", "file_path", "filename", "target_file", "notebook_path", "relative_path"))


@frozen
class Extractive:
    """A summarizer that needs no model: its record says goal, constraints and the rest as they were said.

    It takes whole sentences out of the user's words and the model's, and paths out of the arguments of calls; never
    anything out of a tool's result.

    Example:
        >>> from agentctx import Message, Text
        >>> from agentctx.strategies import Extractive
        >>> said = Message("user", (Text("Mend the build. Never touch the tests."),))
        >>> print(await Extractive()([said], 100))
        Goal: Mend the build. Never touch the tests.
        Constraints:
        - Never touch the tests.
    """

    async def __call__(self, messages: Sequence[Message], max_tokens: int, /) -> str:
        """The record of the messages, with what an earlier recap among them says."""
        rules = max(_FEW, max_tokens // _LEAST_OF_RULE)
        return record_in(messages).joined(_extracted(messages, rules), rules).text


def _extracted(messages: Sequence[Message], rules: int) -> SummaryRecord:
    asked = [message.text for message in messages if has_user_words(message)]
    told = [message.text for message in messages if message.role == "assistant"]
    calls = (call for message in messages for call in message.calls)
    return SummaryRecord(
        goal=_one_line(next((text for text in asked if text.strip()), "")),
        constraints=_newest(_sentences(asked, _RULE), rules),
        decisions=_newest(_sentences(told, _DECIDED), _MOST["decisions"]),
        files=_newest((path for call in calls for path in _paths(call)), _MOST["files"]),
        open_items=_newest(_sentences(told, _OPEN), _MOST["open_items"]),
        next_step=next(iter(_newest(_sentences(told[-1:], _NEXT), 1)), ""),
    )


def _sentences(texts: Iterable[str], about: re.Pattern[str]) -> Iterator[str]:
    """The sentences in which a word of the pattern stands, each on a line of its own."""
    for text in texts:
        for found in _SENTENCE.finditer(text):
            sentence = found[0]
            if len(sentence) <= LONGEST and about.search(sentence) is not None:
                yield _one_line(sentence.strip(" -*#>"))


def _one_line(text: str) -> str:
    line = " ".join(text[: 4 * LONGEST].split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def _paths(call: ToolCall) -> Iterator[str]:
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return
    for name, value in arguments.items() if isinstance(arguments, dict) else ():
        if name in _PATH_NAMES and isinstance(value, str) and value.strip():
            yield quoted(_one_line(value))
