"""Cut what is too long: one text exactly, the results of tools and the arguments of calls to a common level."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from operator import is_not
from typing import Literal

from attrs import evolve, frozen

from agentctx.characters import head_of, tail_of
from agentctx.lazy import lazy_pattern
from agentctx.marks import MARKER, PLACE, in_no_codes, joined, marked, spans_of, standing_alone, with_pointer
from agentctx.message import Context, Mark, Message, Native, Part, Text, ToolCall, ToolResult
from agentctx.protocols import Call, TokenCounter, cutter_of

Keep = Literal["head", "tail", "both"]


@frozen(eq=False, repr=False)
class Cut:
    """How a text that is too long is cut.

    Args:
        keep: Which end stays: ``"head"``, ``"tail"`` or ``"both"`` (half of the room each).
        marker: What stands where text was left out; ``{omitted}`` becomes the number of characters.
        told: What stands behind it.
        shorter: The same with a shorter marker, for where there is no room for this one.
    """

    keep: Keep = "both"
    marker: str = MARKER
    told: str = ""
    shorter: Cut | None = None

    def pointing(self, pointer: str) -> Cut:
        """The same with a marker that says how to get the whole text back."""
        return self if not pointer else evolve(self, marker=with_pointer(self.marker, pointer), shorter=self)

    def each(self) -> Iterator[Cut]:
        """Itself, and then with a shorter marker, for where there is no room for its own."""
        yield self
        if self.shorter is not None:
            yield self.shorter

    def mark(self, omitted: int) -> str:
        """The marker for this many characters."""
        return self.marker.replace(PLACE, f"{omitted:,}") + self.told

    def longest_mark(self, text: Text) -> str:
        """The marker for all of ``text``, and for all that marks in it stand for."""
        return self.mark(len(text.text) + sum(mark.length for mark in text.marks))

    def split(self, room: int) -> tuple[int, int]:
        """How much of the room the head gets, and how much the tail."""
        if self.keep == "head":
            return room, 0
        return (0, room) if self.keep == "tail" else (room - room // 2, room // 2)

    def join(self, text: Text, head: str, tail: str) -> Text:
        """Head, marker and tail of ``text``; a mark that the cut meets is one with the marker."""
        said, spans = text.text, spans_of(text)
        start, stop = len(head), max(len(head), len(said) - len(tail))
        for first, end, _ in spans:
            if first <= stop and end >= start:
                start, stop = min(start, first), max(stop, end)
        within = (mark.length - (end - first) for first, end, mark in spans if start <= first and end <= stop)
        omitted = stop - start + sum(within)
        written = self.mark(omitted)
        new = [Mark(mark, omitted)] if (mark := written.removesuffix(self.told)).strip() else []
        return marked(text, said[:start] + written + said[stop:], new)

    def bare(self, text: Text, head: str) -> Text:
        """``head`` of ``text`` without a marker, when there is room for none, nor for part of a mark."""
        ends = (start for start, end, _ in spans_of(text) if start < len(head) < end)
        return marked(text, head[: min(ends, default=None)], ())


def cut_to_chars(text: Text, max_chars: int, cut: Cut) -> Text:
    """``text`` when it has at most ``max_chars`` characters, else its ends around the marker, at most as long.

    A text in codes is cut as it reads when they are written out.
    """
    if len(text.text) <= max_chars:
        return text
    text = in_no_codes(text)
    for how in cut.each():
        room = max_chars - len(how.longest_mark(text))
        if room > 0:
            head, tail = how.split(room)
            return how.join(text, head_of(text.text, head), tail_of(text.text, tail))
    return cut.bare(text, head_of(text.text, max_chars))


def cut_to_tokens(text: Text, max_tokens: int, counter: TokenCounter, cut: Cut) -> Text:
    """``text`` when it has at most ``max_tokens`` tokens, else its ends around the marker, at most as large.

    Costs time that grows with what is kept, if the counter is a ``TextCutter``; other counters are asked for
    ever shorter ends. A text in codes is cut as it reads when they are written out.
    """
    if fits(text.text, max_tokens, counter):
        return text
    text, cutter = in_no_codes(text), cutter_of(counter)
    for how in cut.each():
        room = max_tokens - counter.count(how.longest_mark(text))
        while room > 0:
            head, tail = how.split(room)
            shorter = how.join(text, cutter.head(text.text, head), cutter.tail(text.text, tail))
            over = counter.count(shorter.text) - max_tokens
            if over <= 0:
                return shorter
            room -= over
    return cut.bare(text, cutter.head(text.text, max_tokens))


def fits(text: str, max_tokens: int, counter: TokenCounter) -> bool:
    """Whether ``text`` has at most ``max_tokens`` tokens, without counting more of it than needed."""
    return not cutter_of(counter).exceeds(text, max_tokens)


Edit = Callable[[ToolResult], ToolResult]
"""Given a result, what it shall be instead; the same object when it stays."""


def edit_results(message: Message, edit: Edit) -> Message:
    """The message with its tool results edited; the same object when none was."""
    return _with(message, [edit(part) if isinstance(part, ToolResult) else part for part in message.parts])


def _with(message: Message, parts: list[Part]) -> Message:
    """The message with other parts; the same object when they are its own."""
    return message.with_parts(tuple(parts)) if any(map(is_not, parts, message.parts)) else message


def results_of(messages: Iterable[Message]) -> Iterator[tuple[int, ToolResult, str | None]]:
    """All results in order: the index of the message, the result, and the tool that its call names, if it is there."""
    for index, result, asked in answered_calls(messages):
        yield index, result, None if asked is None else asked.name


def answered_calls(messages: Iterable[Message]) -> Iterator[tuple[int, ToolResult, ToolCall | None]]:
    """All results in order: the index of the message, the result, and its call, if it is there."""
    calls: dict[str, ToolCall] = {}
    for index, message in enumerate(messages):
        for part in message.parts:
            if isinstance(part, ToolCall):
                calls[part.id] = part
            elif isinstance(part, ToolResult):
                yield index, part, calls.get(part.call_id)


def edited(
    context: Context, places: Iterable[int], edit: Callable[[int, Message], Message], call: Call, why: str
) -> Context:
    """The context with the messages in ``places`` edited, and why; the same object when none was.

    Args:
        context: The request.
        places: Indexes of messages.
        edit: What a message shall be instead, given its index too; the same object when it stays.
        call: Where the reason is said.
        why: The reason.
    """
    messages = list(context.messages)
    for index in places:
        messages[index] = edit(index, context.messages[index])
        if messages[index] is not context.messages[index]:
            call.note(context.messages[index], why)
    return context.with_messages(tuple(messages))


CLEARED = "[old tool result cleared]"
"""What stands for an old result."""

OFFLOADED = "[offloaded: "
"""What a preview begins with."""


def cleared(result: ToolResult, placeholder: str = CLEARED) -> ToolResult:
    """The result with a few words in the place of what it says; itself where they would be no fewer."""
    if len(result.text) <= len(placeholder) and all(isinstance(part, Text) for part in result.content):
        return result
    return result.with_content((standing_alone(Mark(placeholder)),))


def cleared_with_pointer(result: ToolResult, placeholder: str, pointer: str, call: Call) -> ToolResult:
    """The result cleared, and how to get it back; itself where that would be no fewer tokens, as of a short line."""
    made = cleared(result, with_pointer(placeholder, pointer))
    return made if call.meter.parts((made,)) < call.meter.parts((result,)) else result


def with_text(result: ToolResult, text: Text) -> ToolResult:
    """The same result with its texts replaced by one; what is not text stays.

    A text in which there is nothing to see is left out: as a block, providers refuse it.
    """
    others = tuple(part for part in result.content if not isinstance(part, Text))
    if not text.text.strip():
        return result.with_content(others)
    first = next((part for part in result.content if isinstance(part, Text)), None)
    return result.with_content((evolve(text, source=None if first is None else first.source), *others))


SMALLEST = 24
"""Tokens; below this a cut result says nothing but that it was cut."""


def water_level(sizes: Sequence[int], spare: int) -> int:
    """The largest cap for which ``sum(max(0, size - cap))`` is at least ``spare``; 0 when no cap frees so much."""
    freed, previous = 0, 0
    ordered = sorted(sizes, reverse=True)
    for taller, size in enumerate([*ordered[1:], 0], start=1):
        previous = ordered[taller - 1]
        step = (previous - size) * taller
        if freed + step >= spare:
            return previous - -(-(spare - freed) // taller)
        freed += step
    return 0


def level_of_words(sizes: Sequence[int], costs: Sequence[int], spare: int) -> int:
    """The largest cap by which at least ``spare`` is won where no text is cut that wins no more than its marker costs.

    At least ``SMALLEST``, which may win less.
    """

    def wins_less(cap: int) -> bool:
        return sum(size - cap for size, cost in zip(sizes, costs, strict=True) if size - cap > cost) < spare

    caps = range(SMALLEST, max(SMALLEST, *sizes))
    return SMALLEST + max(0, bisect_left(caps, 1, key=wins_less) - 1)


def shrink_results(context: Context, places: Iterable[int], spare: int, call: Call, why: str) -> Context:
    """Cut the texts of the results in ``places`` to one cap, so that the request loses at least ``spare`` tokens.

    Loses fewer when the results do not hold so much: nothing is cut below ``SMALLEST`` tokens.
    """
    places = sorted(places)
    sizes = [
        call.meter.parts((Text(part.text),))
        for index in places
        for part in context.messages[index].results
        if part.text
    ]
    if not sizes or spare <= 0:
        return context
    return _cap(context, places, max(SMALLEST, water_level(sizes, spare)), call, why)


def capped(message: Message, result: ToolResult, cap: int, call: Call) -> ToolResult:
    """The result with at most ``cap`` tokens of text, or a few more, so that it says how to get the rest."""
    text = result.text
    if len(text) <= cap or fits(text, cap, call.meter.counter):
        return result
    pointer = call.pointer(message, result)
    cap = max(cap, smallest(pointer, call))
    if fits(text, cap, call.meter.counter):
        return result
    return with_text(result, cut_to_tokens(joined(result), cap, call.meter.counter, Cut().pointing(pointer)))


def smallest(pointer: str, call: Call) -> int:
    """Tokens to which a text is cut at least: so many words stay beside a marker that points to the whole of it."""
    return SMALLEST + (call.meter.counter.count(pointer) if pointer else 0)


def _cap(context: Context, places: Sequence[int], cap: int, call: Call, why: str) -> Context:
    def cut(message: Message, result: ToolResult) -> ToolResult:
        return capped(message, result, cap, call)

    why = f"{why}: results cut to {cap:,} tokens"
    return edited(context, places, lambda _, message: edit_results(message, partial(cut, message)), call, why)


DEEPEST = 100
"""Arguments that are nested deeper than so many levels are left alone."""

_CUSTOM = frozenset({"custom", "custom_tool_call"})


def shrink_arguments(context: Context, places: Iterable[int], spare: int, call: Call, why: str) -> Context:
    """Cut the strings in call arguments to one cap, so that the request loses at least ``spare`` tokens if it can.

    Arguments stay valid JSON of the same shape; the free text of a custom tool is cut as one string. Signed calls,
    other arguments that are no JSON, and those that are nested very deep stay.
    """
    places = sorted(places)
    strings = [text for index in places for part in context.messages[index].calls for text in _strings(_parsed(part))]
    sizes = [call.meter.parts((Text(text),)) for text in strings if text]
    if not sizes or spare <= 0:
        return context
    cap = max(SMALLEST, water_level(sizes, spare))
    why = f"{why}: strings in call arguments cut to {cap:,} tokens"

    def cut(_: int, message: Message) -> Message:
        return cut_arguments(message, argument_cut(message, cap, call))

    return edited(context, places, cut, call, why)


def argument_cut(message: Message, most: int, call: Call) -> Callable[[Text], Text]:
    """Cuts a string in call arguments to ``most`` tokens; the marker names the handle of the message, given room."""
    how = cache(lambda: Cut().pointing(call.pointer(message)))

    def cut(text: Text) -> Text:
        whole = len(text.text) <= most or fits(text.text, most, call.meter.counter)
        return text if whole else cut_to_tokens(text, most, call.meter.counter, how())

    return cut


def _parsed(part: ToolCall) -> Native:
    """The arguments as a value whose strings may be cut; None where none may."""
    if part.signature is not None:
        return None
    if _is_free_text(part):
        return part.arguments
    try:
        value = json.loads(part.arguments)
    except (ValueError, RecursionError):
        return None
    return None if isinstance(value, str) or _is_deep(value) else value


def _is_free_text(part: ToolCall) -> bool:
    """Whether the call is one of a custom tool, whose input is no JSON."""
    native = part.source
    kind = native.get("type") if isinstance(native, Mapping) else getattr(native, "type", None)
    return isinstance(kind, str) and kind in _CUSTOM


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        level = [item for each in level for item in _inner(each)]
        if not level:
            return False
    return True


def _inner(value: object) -> Iterable[Native]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [text for item in _inner(value) for text in _strings(item)]


def cut_arguments(
    message: Message, cut: Callable[[Text], Text], which: Callable[[ToolCall], bool] = lambda _call: True
) -> Message:
    """The message with the strings in the arguments of its calls cut; itself when none was.

    Args:
        message: The message.
        cut: What a string shall be instead.
        which: Of which calls; else of all.
    """
    return _with(
        message,
        [_with_shorter(part, cut) if isinstance(part, ToolCall) and which(part) else part for part in message.parts],
    )


def _with_shorter(part: ToolCall, cut: Callable[[Text], Text]) -> ToolCall:
    """The call with the strings in its arguments cut; itself when none was."""
    value, marks = _parsed(part), list[Mark]()
    if value is None:
        return part

    def shorter(text: str) -> str:
        made = cut(Text(text, marks=part.marks))
        marks.extend(mark for _, _, mark in spans_of(made))
        return made.text

    arguments = shorter(value) if isinstance(value, str) else _STRING.sub(partial(_cut_string, shorter), part.arguments)
    return part if arguments == part.arguments else evolve(part, arguments=arguments, marks=tuple(marks))


_STRING = lazy_pattern(r'"(?:[^"\\]++|\\.)*+"(?P<key>\s*+:)?')


def _cut_string(cut: Callable[[str], str], found: re.Match[str]) -> str:
    """A string in JSON, cut; a key stays, and so does all that is written otherwise."""
    if found["key"]:
        return found[0]
    text = json.loads(found[0])
    shorter = cut(text)
    return found[0] if shorter == text else json.dumps(shorter, ensure_ascii=False)
