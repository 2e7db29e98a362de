"""Say once what tools said several times."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from heapq import nsmallest
from typing import ClassVar, NamedTuple
from zlib import crc32

from attrs import define, field, frozen
from attrs.validators import ge, le

from agentctx.engine.shrink import edit_results, edited, results_of, with_pointer
from agentctx.errors import ConfigError
from agentctx.later_lines import SHORTEST, Meant, checksum_of
from agentctx.lazy import unmet
from agentctx.marks import refers
from agentctx.message import Context, Message, Part, Text, ToolResult
from agentctx.protocols import Call, ContextStrategy, When, library_stage, room_to_grow
from agentctx.validators import NOT_BLANK, numeric, template

_Said = tuple[str, bool, tuple[Part, ...]]
"""The tool, whether it failed, and what it said."""

_Meant = tuple[str, bool, str]
"""The tool, whether it failed, and the checksum of what it said."""


_MARKER = [NOT_BLANK, template("tool", "what")]
_SIMILAR = numeric("a number from 0.5 to 1", ge(0.5), le(1)).or_none


@library_stage
@frozen
class CollapseRepeats(ContextStrategy):
    """Of results of one tool that say exactly the same, keep the last and put a line in place of the others.

    Every call keeps its result, so that all pairs stay whole; only what is longer than the line goes. Results that
    merely begin alike are not the same. A repeated error is told to be one. When a cut, or the provider, leaves out the
    one that stays, the last of the others gets its content back; where there is no room for it, the line says that it
    is left out, and how the model gets it with the recall tool.

    With ``similar`` those go, too, that differ only in times, counters and ids, or in little else: which values were
    others, or how much is the same, is said in the line, with a handle where the request has the recall tool. When the
    last one goes, the line says that they are left out. A result
    is compared with few others, however many there are. Similar results stay while the request fits, and until the
    model has read them.

    Args:
        marker: What stands instead; ``{tool}`` becomes the tool's name, ``{what}`` "output" or "error". What is only
            similar has a line of its own. A
            checksum of the result that is meant stands at its end.
        similar: The least part of two texts that must be the same, besides such values. 1: all of it; less needs the
            extra ``fuzzy``. None: also the values must be the same.

    Raises:
        ConfigError: If the marker is blank, or names something else in braces; if ``similar`` is not from 0.5 to 1, or
            what it needs is not installed.

    Example:
        >>> from agentctx import CollapseRepeats, Pipeline
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> messages = transcript(
        ...     "openai-chat", user("Watch it."), assistant(call("a", "log")), result("a", "the same line " * 30),
        ...     assistant(call("b", "log")), result("b", "the same line " * 30))
        >>> (await Pipeline(CollapseRepeats()).prepare(messages)).messages[2]["content"]
        '[the same output of log stands further down #...]'
        >>> messages = transcript(
        ...     "openai-chat", user("Watch it."),
        ...     assistant(call("a", "log")), result("a", "12:01:07 " + "the same line " * 30),
        ...     assistant(call("b", "log")), result("b", "12:05:09 " + "the same line " * 30))
        >>> (await Pipeline(CollapseRepeats(similar=1)).prepare(messages)).messages[2]["content"]
        '[the same output of log came again later, but for 12:01:07 #...]'
    """

    marker: str = field(default="[the same {what} of {tool} stands further down]", validator=_MARKER, kw_only=True)
    similar: float | None = field(default=None, kw_only=True)
    when: ClassVar[When] = When.UNDER_PRESSURE

    @similar.validator
    def _check_similar(self, _attribute: object, similar: float | None) -> None:
        _SIMILAR.check("CollapseRepeats.similar", similar)
        if similar is not None and similar < 1:
            _check_installed()

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context with repeated results replaced by the marker."""
        staying, similar = call.frozen(context), self.similar
        if similar is not None:
            staying = staying.union(call.unread(context))
            fits = call.limit is not None and call.size(context) <= call.limit
            similar = None if fits else similar
        repeated = _repeated(context.messages, similar)
        places = sorted({index for index, _ in repeated} - staying)

        def collapsed(index: int, message: Message) -> Message:
            return self._collapsed(message, index, repeated, call)

        return edited(context, places, collapsed, call, "the same result stands further down")

    def _collapsed(self, message: Message, index: int, repeated: dict[_Place, _Repeat], call: Call) -> Message:
        numbers = iter(range(len(message.results)))

        def collapse(result: ToolResult) -> ToolResult:
            found = repeated.get((index, next(numbers)))
            if found is None:
                return result
            if found.but:
                text = f"{_came_again(found.tool, result)}{found.but}{call.pointer(message, result)}]"
            else:
                text = self._mark(found.tool, result, _sum(result.content))
            shorter = result.with_content((Text(text),))
            return shorter if call.meter.parts((shorter,)) < call.meter.parts((result,)) else result

        return edit_results(message, collapse)

    def _said(self, tool: str, result: ToolResult) -> str:
        return self.marker.replace("{tool}", tool).replace("{what}", "error" if result.is_error else "output")

    def _mark(self, tool: str, result: ToolResult, checksum: str) -> str:
        return with_pointer(self._said(tool, result), f" #{checksum}")  # few tokens

    def after_cut(self, before: Context, after: Context, call: Call, /) -> Context:
        """Return the context in which nothing is said to stand further down that does not."""
        stood = {each.meant: each.content for each in self._marks(call.internals.whole(before).messages)}
        start = len(call.internals.whole(after).messages) - len(after.messages)
        messages, room, back = list(after.messages), room_to_grow(call, after), set[_Meant]()
        for mark in self._marks(call.internals.whole(after).messages) if any(stood.values()) else ():
            content = stood.get(mark.meant)
            if mark.content is not None or content is None or mark.meant in back or mark.index < start:
                continue
            message = messages[mark.index - start]
            whole = _with_content(message, mark.number, content)
            grown = call.count(whole) - call.count(message)
            if mark.is_similar or (room is not None and grown > room):
                gone = self._left_out(message, whole, mark, call)
                whole = _with_content(message, mark.number, (gone,))
            else:
                room = None if room is None else room - grown
                back.add(mark.meant)
            call.note(message, "the same result does not stand further down any more")
            messages[mark.index - start] = whole
        return after.with_messages(tuple(messages))

    def _marks(self, messages: Sequence[Message]) -> list[_Mark]:
        """What stands for results, the last first, each with the content that stands further down, if it does."""
        marks, contents = [], dict[_Meant, tuple[Part, ...]]()
        for (index, number), tool, result in reversed(list(_read(messages))):
            found = self._read_mark(tool, result)
            if found is not None:
                meant, is_similar, pointer = found
                marks.append(_Mark(index, number, meant, contents.get(meant), is_similar, pointer))
            else:
                contents.setdefault((tool, result.is_error, _sum(result.content)), result.content)
        return marks

    def _read_mark(self, tool: str, result: ToolResult) -> tuple[_Meant, bool, str] | None:
        """Which result this one says to stand further down, whether that is only similar, and how to get this one back.

        None where it says something else.
        """
        if len(result.content) != 1 or not isinstance(result.content[0], Text):
            return None
        text = result.content[0].text
        if text.startswith(similar := _came_again(tool, result)):
            found = _DIFFERS.fullmatch(text, len(similar))
            return None if found is None else ((tool, result.is_error, found["sum"]), True, found["pointer"])
        head, _, tail = self._mark(tool, result, "\0").partition("\0")
        checksum = text[len(head) : len(text) - len(tail)]
        if len(checksum) != len(_sum(())) or text != self._mark(tool, result, checksum):
            return None
        return (tool, result.is_error, checksum), False, ""

    def _left_out(self, message: Message, whole: Message, mark: _Mark, call: Call) -> Text:
        """What says that a result is left out, in no more tokens than what it says now."""
        bare, said = Message(whole.role, whole.parts), message.results[mark.number]
        pointer = mark.pointer if mark.is_similar else call.pointer(bare, bare.results[mark.number])
        texts = Meant(0, "").gone(pointer)
        size = call.meter.parts(said.content)
        return next((Text(text) for text in texts if call.meter.parts((Text(text),)) <= size), Text(SHORTEST))


@frozen(eq=False, repr=False)
class _Mark:
    """What stands for a result.

    Args:
        index: The index of the message.
        number: Which of the results in it.
        meant: What it stands for.
        content: What that says; None where it does not stand further down.
        is_similar: Whether it stands for what is only similar to that.
        pointer: How to get it back then.
    """

    index: int
    number: int
    meant: _Meant
    content: tuple[Part, ...] | None
    is_similar: bool
    pointer: str


_DIFFERS = re.compile(r", [^\[\]\n#]+ #(?P<sum>\d{6})(?P<pointer>[^\[\]\n]*)\]")


def _came_again(tool: str, result: ToolResult) -> str:
    """What stands for a result begins with, to which a later one is similar."""
    return f"[the same {'error' if result.is_error else 'output'} of {tool} came again later"


def _sum(content: Sequence[Part]) -> str:
    """A checksum of what a result says."""
    return checksum_of("\0".join([part.text if isinstance(part, Text) else repr(part) for part in content]))


def _with_content(message: Message, number: int, content: Sequence[Part]) -> Message:
    """The message whose result of this number says something else."""
    numbers = iter(range(len(message.results)))
    bare = tuple([Text(part.text) if isinstance(part, Text) else part for part in content])
    return edit_results(message, lambda result: result.with_content(bare) if next(numbers) == number else result)


_Place = tuple[int, int]
"""The index of a message, and the number of a result in it."""


class _Repeat(NamedTuple):
    """A result that a later one repeats.

    Args:
        tool: The tool.
        but: What is said of how it differs, with the checksum of the later one; empty when it does not.
    """

    tool: str
    but: str = ""


class _Read(NamedTuple):
    """A result, and where it stands.

    Args:
        place: Where.
        tool: The tool that said it.
        result: The result.
    """

    place: _Place
    tool: str
    result: ToolResult


def _read(messages: Sequence[Message]) -> Iterator[_Read]:
    seen: Counter[int] = Counter()
    for index, result, called in results_of(messages):
        yield _Read((index, seen[index]), called or result.name or "the tool", result)
        seen[index] += 1


def _repeated(messages: Sequence[Message], similar: float | None) -> dict[_Place, _Repeat]:
    """The results that a later one, which stays, repeats, by their place."""
    found: dict[_Place, _Repeat] = {}
    staying = _Staying(similar)
    for place, tool, result in reversed(list(_read(messages))):
        but = staying.repeated_by(tool, result)
        if but is not None:
            found[place] = _Repeat(tool, but)
    return found


NEWEST = 2
"""With so many of those that have a line in common a result is compared, at most."""

OF_VALUES = 0.2
"""Where more values than are named are others, they may be this part of the text."""


@define
class _Staying:
    """The results that stay, from the last one back.

    Args:
        similar: How much of two texts must be the same.
        same: What each said.
        values: The times, counters and ids in each, and it, by what it said beside them.
        nearly: The newest that have a mark in common; see ``_marks_of``.
    """

    similar: float | None
    same: set[_Said] = field(factory=set)
    values: dict[tuple[object, ...], tuple[list[str], ToolResult]] = field(factory=dict)
    nearly: dict[tuple[str, bool, int], deque[tuple[str, ToolResult]]] = field(factory=dict)

    def repeated_by(self, tool: str, result: ToolResult) -> str | None:
        """How a result differs from the one that repeats it, empty where it does not; None: it stays."""
        said = (tool, result.is_error, result.content)
        if said in self.same:
            return ""
        is_alone = refers(result.text)  # other numbers in a reference are another reference
        but = None if self.similar is None or is_alone else self._nearly(tool, result, self.similar)
        if but is None:
            self.same.add(said)
        return but

    def _nearly(self, tool: str, result: ToolResult, least: float) -> str | None:
        pieces, values = without_values(result.text)
        others = tuple(part for part in result.content if not isinstance(part, Text))
        said = (tool, result.is_error, pieces, others)
        if said in self.values:
            others_values, other = self.values[said]
            if but := _but_for(values, others_values, len(result.text)):
                return f"{but} #{_sum(other.content)}"
        text = "#".join(pieces) if sum(map(len, values)) <= OF_VALUES * len(result.text) else result.text
        if least < 1 and not others:
            near = [
                self.nearly.setdefault((tool, result.is_error, mark), deque(maxlen=NEWEST)) for mark in _marks_of(text)
            ]
            compared = {other: stays for newest in near for other, stays in newest}
            alike = {other: _likeness(text, other, least) for other in compared}
            nearest = max(alike, key=alike.__getitem__, default="")
            if alike.get(nearest):
                return f", {100 * alike[nearest]:.0f} % alike #{_sum(compared[nearest].content)}"
            for newest in near:
                newest.append((text, result))
        self.values[said] = values, result
        return None


NAMED = 8
"""So many values that are others in the last of several results are named."""


def _but_for(values: Sequence[str], others: Sequence[str], length: int) -> str:
    """Which values are others in what repeats a result; empty for so many that they are what it says."""
    differing = list(dict.fromkeys(mine for mine, other in zip(values, others, strict=True) if mine != other))
    if len(differing) > NAMED and sum(map(len, differing)) > OF_VALUES * length:
        return ""
    more = f" and {len(differing) - NAMED:,} more" if len(differing) > NAMED else ""
    return f", but for {', '.join(differing[:NAMED])}{more}"


_VALUE = re.compile(
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
    r"|\b(?=[a-fA-F]{0,63}\d)[0-9a-fA-F]{7,64}\b"
    r"|\b(?=[A-Za-z_]{0,63}\d)\w{16,64}\b"
    r"|\d+(?:[.,:/-]\d+)*)"
)
"""A time, a UUID, an id, a number."""


def without_values(text: str) -> tuple[tuple[str, ...], list[str]]:
    """What a text says beside times, counters and ids, in pieces, and these in their order.

    Example:
        >>> from agentctx.strategies.collapse_repeats import without_values
        >>> without_values("12:01:07 job 41 failed")
        (('', ' job ', ' failed'), ['12:01:07', '41'])
    """
    found = _VALUE.split(text)
    return tuple(found[::2]), found[1::2]


MARKS = 4
"""A text is looked for by so many of its lines."""


def _marks_of(text: str) -> list[int]:
    """A few numbers of which texts that are nearly the same have one in common, very likely: of lines, or of words."""
    pieces = set(text.split("\n"))
    pieces = pieces if len(pieces) > MARKS else set(text.split())
    return nsmallest(MARKS, (crc32(piece.encode("utf-8", "surrogatepass")) for piece in pieces))


FEW_CHARACTERS = 2_000
"""Longer texts are compared line by line."""

MANY_LINES = 5_000
"""Texts of more lines are not compared."""


def _likeness(text: str, other: str, least: float) -> float:
    """How much of two texts is the same, from 0 to 1; 0 where it is less than ``least``, or too long to compare."""
    from rapidfuzz.distance import Indel  # noqa: PLC0415 - an extra: what is not fuzzy works without it

    pair: tuple[Sequence[str], Sequence[str]] = text, other
    if max(len(text), len(other)) > FEW_CHARACTERS:
        pair = text.split("\n"), other.split("\n")
        if max(map(len, pair)) > MANY_LINES:
            return 0.0
    return float(Indel.normalized_similarity(*pair, score_cutoff=least))


def _check_installed() -> None:
    """See that texts can be compared.

    Raises:
        ConfigError: If rapidfuzz is not installed.
    """
    try:
        import rapidfuzz.distance  # noqa: F401, PLC0415 - as above
    except ImportError as error:
        raise ConfigError(unmet("CollapseRepeats: similar below 1", "fuzzy", error)) from error
