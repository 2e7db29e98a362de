"""Say once what tools said several times."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import ClassVar, NamedTuple

from attrs import field, frozen
from attrs.validators import ge, le

from agentctx.engine.shrink import edit_results, edited, results_of
from agentctx.errors import ConfigError
from agentctx.lazy import unmet
from agentctx.marks import SHORTEST, Meant, digest_of, refers, standing_alone, with_pointer
from agentctx.message import Context, Mark, Message, Part, Text, ToolResult
from agentctx.protocols import Call, ContextStrategy, When, library_stage, room_to_grow
from agentctx.strategies.drop_superseded import checksum_of
from agentctx.validators import NOT_BLANK, numeric, template

_MARKER = [NOT_BLANK, template("tool", "what")]
_SIMILAR = numeric("a number from 0.5 to 1", ge(0.5), le(1)).or_none

NEWEST = 8
"""With so many later results of the same tool a result is compared, at most."""

OF_VALUES = 0.2
"""Where more values than are named are others, they may be this part of the text."""

NAMED = 8
"""So many values that are others in the last of several results are named."""

FEW_CHARACTERS = 2_000
"""Longer texts are compared line by line."""

MANY_LINES = 5_000
"""Texts of more lines are not compared."""

_VALUE = re.compile(
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
    r"|\b(?=[a-fA-F]{0,63}\d)[0-9a-fA-F]{7,64}\b"
    r"|\b(?=[A-Za-z_]{0,63}\d)\w{16,64}\b"
    r"|\d+(?:[.,:/-]\d+)*)"
)
"""A time, a UUID, an id, a number."""

_DIFFERS = re.compile(r", [^\[\]\n#]+ #\d{6}(?P<pointer>[^\[\]\n]*)\]")
"""The end of the line that stands for a similar result."""


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
    last one goes, the line says that they are left out. A result is compared with few others, however many there are.
    Similar results stay while the request fits, and until the model has read them.

    Args:
        marker: What stands instead; ``{tool}`` becomes the tool's name, ``{what}`` "output" or "error". A checksum of
            the result that is meant stands at its end. For a result that is only similar another line stands.
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
    similar: float | None = field(default=None, validator=_SIMILAR, kw_only=True)
    when: ClassVar[When] = When.UNDER_PRESSURE

    def __attrs_post_init__(self) -> None:
        """Check that texts can be compared, where that is asked for."""
        if self.similar is not None and self.similar < 1:
            try:
                import rapidfuzz.distance  # noqa: F401, PLC0415 - an extra: all else works without it
            except ImportError as error:
                raise ConfigError(unmet("CollapseRepeats: similar below 1", "fuzzy", error)) from error

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context with repeated results replaced by the marker."""
        staying, similar = call.frozen(context), self.similar
        if similar is not None:
            staying = staying.union(call.unread(context))
            fits = call.limit is not None and call.size(context) <= call.limit
            similar = None if fits else similar
        shorter: dict[int, dict[int, ToolResult]] = defaultdict(dict)
        for (index, number, tool, result), difference, digest in _repeats(context.messages, similar):
            if index in staying:
                continue
            text = self._mark(tool, result, checksum_of(digest))
            if difference:
                pointer = call.pointer(context.messages[index], result)
                text = f"{_came_again(tool, result)}{difference} #{checksum_of(digest)}{pointer}]"
            line = result.with_content((standing_alone(Mark(text, len(result.text), digest)),))
            if call.meter.parts((line,)) < call.meter.parts((result,)):
                shorter[index][number] = line
        why = "the same result stands further down"
        return edited(context, sorted(shorter), lambda index, message: _with(message, shorter[index]), call, why)

    def after_cut(self, before: Context, after: Context, call: Call, /) -> Context:
        """Return the context in which no line says that a result stands further down that does not."""
        stood = {
            mark.meant: mark.content for mark in self._marks(call.internals.whole(before).messages) if mark.content
        }
        if not stood:
            return after
        messages, room, back = list(after.messages), room_to_grow(call, after), set[_Meant]()
        start = len(call.internals.whole(after).messages) - len(messages)
        for mark in self._marks(call.internals.whole(after).messages):
            content = stood.get(mark.meant)
            if mark.content or content is None or mark.meant in back or mark.place < start:
                continue
            message = messages[mark.place - start]
            result = message.results[mark.number]
            bare = tuple(Text(part.text, marks=part.marks) if isinstance(part, Text) else part for part in content)
            whole = _with(message, {mark.number: result.with_content(bare)})
            grown = call.count(whole) - call.count(message)
            if mark.pointer is None and (room is None or grown <= room):
                room = None if room is None else room - grown
                back.add(mark.meant)
            else:
                meant = Message(whole.role, whole.parts)
                pointer = call.pointer(meant, meant.results[mark.number]) if mark.pointer is None else mark.pointer
                size = call.meter.parts(result.content)  # in no more tokens than the line has now
                texts = (standing_alone(Mark(text)) for text in Meant(0, "").gone(pointer))
                text = next((text for text in texts if call.meter.parts((text,)) <= size), Text(SHORTEST))
                whole = _with(message, {mark.number: result.with_content((text,))})
            call.note(message, "the same result does not stand further down any more")
            messages[mark.place - start] = whole
        return after.with_messages(tuple(messages))

    def _mark(self, tool: str, result: ToolResult, checksum: str) -> str:
        """Write the line that stands for a result which is there again, exactly."""
        text = self.marker.replace("{tool}", tool).replace("{what}", "error" if result.is_error else "output")
        return with_pointer(text, f" #{checksum}")

    def _marks(self, messages: Sequence[Message]) -> list[_Mark]:
        """Read the lines that stand for results, the last first, each with the content that stands further down."""
        marks, contents = [], dict[_Meant, tuple[Part, ...]]()
        for index, number, tool, result in _latest_first(messages):
            begin = _came_again(tool, result)
            line = next((mark for mark in result.marks if mark.digest and mark.text == result.text), Mark(""))
            similar = _DIFFERS.fullmatch(line.text, len(begin)) if line.text.startswith(begin) else None
            equal = line.digest and line.text == self._mark(tool, result, checksum_of(line.digest))
            if (similar or equal) and len(result.content) == 1:
                pointer = None if similar is None else similar["pointer"]
                meant = (tool, result.is_error, line.digest)
                marks.append(_Mark(index, number, meant, contents.get(meant), pointer))
            else:
                contents.setdefault((tool, result.is_error, _digest(result.content)), result.content)
        return marks


_Meant = tuple[str, bool, str]
"""The tool, whether the tool failed, and the digest of the content of its result."""


class _Mark(NamedTuple):
    """A line that stands for a result.

    Args:
        place: The index of the message.
        number: Which of the results in the message.
        meant: The result further down.
        content: The content of that result; None where it does not stand further down.
        pointer: How to get back a result that is only similar to the one further down; None for an equal one.
    """

    place: int
    number: int
    meant: _Meant
    content: tuple[Part, ...] | None
    pointer: str | None


def _came_again(tool: str, result: ToolResult) -> str:
    """Write the beginning of the line that stands for a result to which a later one is similar."""
    return f"[the same {'error' if result.is_error else 'output'} of {tool} came again later"


def _digest(content: Sequence[Part]) -> str:
    """Work out the digest of the content of a result."""
    return digest_of("\0".join([part.text if isinstance(part, Text) else repr(part) for part in content]))


def _with(message: Message, results: Mapping[int, ToolResult]) -> Message:
    """Replace the results of these numbers in a message."""
    numbers = count()
    return edit_results(message, lambda result: results.get(next(numbers), result))


_Placed = tuple[int, int, str, ToolResult]
"""The index of a message, the number of a result in it, the tool, and the result."""


def _latest_first(messages: Sequence[Message]) -> list[_Placed]:
    """List the results in messages, the last first."""
    numbers = defaultdict[int, Iterator[int]](count)
    results = [
        (index, next(numbers[index]), tool or result.name or "the tool", result)
        for index, result, tool in results_of(messages)
    ]
    return results[::-1]


def _repeats(messages: Sequence[Message], similar: float | None) -> Iterator[tuple[_Placed, str, str]]:
    """Yield the results that a later one repeats, with how they differ, if they do, and the digest of the later one."""
    equal = set[tuple[str, bool, tuple[Part, ...]]]()
    but_for_values: dict[tuple[object, ...], tuple[list[str], ToolResult]] = {}
    newest = defaultdict[tuple[str, bool], deque[tuple[str, ToolResult]]](lambda: deque(maxlen=NEWEST))
    for placed in _latest_first(messages):
        _, _, tool, result = placed
        if (tool, result.is_error, result.content) in equal:
            yield placed, "", _digest(result.content)
            continue
        difference, nearest = "", result
        if similar is not None and not refers(result.text):  # other numbers in a reference are another reference
            pieces, values = without_values(result.text)
            rest = tuple(part for part in result.content if not isinstance(part, Text))
            beside = (tool, result.is_error, pieces, rest)
            if beside in but_for_values:
                later_values, nearest = but_for_values[beside]
                difference = _but_for(values, later_values, len(result.text))
            if not difference and similar < 1 and not rest:
                is_prose = sum(map(len, values)) <= OF_VALUES * len(result.text)
                text = "#".join(pieces) if is_prose else result.text
                compared = newest[tool, result.is_error]
                alike = [(_likeness(text, other, similar), later) for other, later in compared]
                share, nearest = max(alike, key=lambda pair: pair[0], default=(0.0, result))
                if share:
                    difference = f", {100 * share:.0f} % alike"
                else:
                    compared.append((text, result))
            if not difference:
                but_for_values[beside] = values, result
        if difference:
            yield placed, difference, _digest(nearest.content)
        else:
            equal.add((tool, result.is_error, result.content))


def _but_for(values: Sequence[str], later_values: Sequence[str], length: int) -> str:
    """Write which values of a result are others in a later one; empty for so many that they are what it says."""
    pairs = zip(values, later_values, strict=True)
    differing = list(dict.fromkeys(value for value, other in pairs if value != other))
    if len(differing) > NAMED and sum(map(len, differing)) > OF_VALUES * length:
        return ""
    more = f" and {len(differing) - NAMED:,} more" if len(differing) > NAMED else ""
    return f", but for {', '.join(differing[:NAMED])}{more}"


def without_values(text: str) -> tuple[tuple[str, ...], list[str]]:
    """Split a text into the pieces beside times, counters and ids, and these values in their order.

    Example:
        >>> from agentctx.strategies.collapse_repeats import without_values
        >>> without_values("12:01:07 job 41 failed")
        (('', ' job ', ' failed'), ['12:01:07', '41'])
    """
    split = _VALUE.split(text)
    return tuple(split[::2]), split[1::2]


def _likeness(text: str, other: str, least: float) -> float:
    """Work out how much of two texts is the same, 0 to 1; 0 where that is less than ``least``, or they are too long."""
    from rapidfuzz.distance import Indel  # noqa: PLC0415 - an extra: what is not fuzzy works without it

    pair: tuple[Sequence[str], Sequence[str]] = text, other
    if max(len(text), len(other)) > FEW_CHARACTERS:
        pair = text.split("\n"), other.split("\n")
        if max(map(len, pair)) > MANY_LINES:
            return 0.0
    return float(Indel.normalized_similarity(*pair, score_cutoff=least))
