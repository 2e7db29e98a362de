"""Say by reference what stands in the conversation already."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import count
from operator import is_
from typing import ClassVar, NamedTuple

from attrs import define, field, frozen

from agentctx.engine.shrink import edit_results
from agentctx.line_numbers import number_of, numbered, unnumbered
from agentctx.marks import (
    WITHIN,
    WITHOUT_NUMBERS,
    Output,
    Run,
    Standing,
    fold,
    has_marks,
    marked,
    numbered_from,
    references_in,
    replaced,
    standing_alone,
    text_in,
    text_of,
)
from agentctx.message import Context, Mark, Message, Text, ToolResult, marks_in
from agentctx.protocols import Call, ContextStrategy, When, cutter_of, library_stage, room_to_grow
from agentctx.validators import whole_number

LEAST = 8
"""Shorter runs of lines are not looked for where nothing else is said."""

SPARED = 4
"""A reference is written where it has at least so many tokens fewer than the lines."""

WHY = "lines that stand above already"
_AGAIN = "lines that stood above are left out there: they stand here again"
_GONE = "lines that stood above are left out there, and there is no room for them here"


@library_stage
@frozen
class ReuseLines(ContextStrategy):
    r"""Put a reference in the place of lines of a tool's output that stand in the request already, further up.

    Runs of at least so many lines count, also within one output, and only where the counter says that the reference has
    fewer tokens. The reference names the call whose output has the lines, which lines these are, and how they begin::

        [the same as lines 12-48 of the output of "Read /app/models.py" above, from "class Model:" on; 5d3b0f9c]

    Where several outputs of calls that are named alike would do, it says which: "the last", "the 2nd last". Lines that
    the model wrote itself, in an argument of a call, are referred to as well; and lines that have other numbers before
    them than further up, because of an edit, or that have some only here or only there::

        [the same as lines 3-9 of the new_string of "Edit models.py" above, from "def save" on, numbered from 41 on; …]

    It never points to nothing: when a cut, or the provider, leaves the lines out further up, they are put back here, or
    where they do not fit, a line says how many are left out, and how the model gets them with the recall tool.

    Args:
        min_lines: The fewest lines that a reference stands for.

    Raises:
        ConfigError: If it is no whole number of at least 2.

    Example:
        >>> from agentctx import Pipeline
        >>> from agentctx.strategies import ReuseLines
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> lines = [f"def function_{number}(context, call):" for number in range(40)]
        >>> turns = [user("Read it."), assistant(call("a", "read", {"path": "a.py"})), result("a", "\n".join(lines))]
        >>> turns += [assistant(call("b", "read", {"path": "a.py", "offset": 9})), result("b", "\n".join(lines[9:]))]
        >>> view = await Pipeline(ReuseLines()).prepare(transcript("openai-chat", *turns))
        >>> view.messages[-1]["content"]
        '[the same as lines 10-40 of the output of "read a.py" above, from "def function_9(conte" on; ...]'
    """

    min_lines: int = field(default=LEAST, validator=whole_number(2))
    when: ClassVar[When] = When.ON_ARRIVAL

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context with references to lines that stand further up."""
        frozen_ = call.frozen(context)
        key = type(self), self.min_lines
        known = call.internals.memo.pop(key, None)  # nobody else has it meanwhile, whatever becomes of this
        seen = known if isinstance(known, _Seen) else _Seen(self.min_lines)
        seen.go_on_from(() if call.internals.before is None else call.internals.before())
        messages = []
        for place, message in enumerate(context.messages):
            new = seen.add(message) if place in frozen_ else seen.shorten(message, call)
            if new is not message:
                call.note(message, WHY)
            messages.append(new)
        if call.internals.before is not None:
            call.internals.memo[key] = seen
        return context.with_messages(tuple(messages))

    def after_cut(self, before: Context, after: Context, call: Call, /) -> Context:
        """Return the context in which every reference names lines that are there."""
        if not has_marks(after.messages):
            return after
        whole = call.internals.whole(after).messages
        start = len(whole) - len(after.messages)
        meant = _meant(call.internals.whole(before).messages)
        mending = _Mending(self.min_lines, whole, start, meant, call)
        made, room = mending.all(), room_to_grow(call, after)
        if room is not None and sum(mending.growth.values()) > room:
            made = mending.within(room)
        for old, new in zip(whole[start:], made, strict=True):
            if new is not old:
                call.note(old, _AGAIN if call.count(new) > call.count(old) else _GONE)
        return after.with_messages(tuple(made))


def _meant(messages: Sequence[Message]) -> Mapping[Mark, list[str]]:
    """What each reference stands for."""
    standing, meant = Standing(), dict[Mark, list[str]]()
    for message in messages if has_marks(messages) else ():
        standing.hear(message)
        for result in message.results:
            text = text_in(result)
            if text is not None:
                name, lines = standing.name_of(result), text.split("\n") if result.marks else []
                found = {line: standing.meant(line, name, lines[:at]) for at, _, line in references_in(result)}
                meant |= {line: there for line, there in found.items() if there is not None}
                standing.add(message, result, text)
    return meant


@define(eq=False, repr=False)
class _Seen:
    """An index of the lines of a conversation, told message after message, and taken back from the end.

    Args:
        least: How many lines make a run.
        messages: The messages.
        upto: How many outputs, and how many runs, stand in the first one, in the first two, and so on.
        outputs: What the tools said in them.
        ends: Up to which line each of them goes, counted from the first of all on.
        starts: The line, so counted, with which the first run of lines with a hash begins.
        standing: What references in them mean.
    """

    least: int
    messages: list[Message] = field(factory=list)
    upto: tuple[list[int], list[int]] = field(factory=lambda: ([0], [0]))
    outputs: list[Output] = field(factory=list)
    ends: list[int] = field(factory=list)
    starts: dict[int, int] = field(factory=dict)
    standing: Standing = field(factory=Standing)

    def go_on_from(self, messages: Sequence[Message]) -> None:
        """Know these messages and no others."""
        if len(self.messages) > len(messages) or not all(map(is_, self.messages, messages)):
            pairs = enumerate(zip(self.messages, messages, strict=False))
            shared = next((at for at, (known, other) in pairs if known is not other), None)
            self.forget_after(min(len(self.messages), len(messages)) if shared is None else shared)
        for message in messages[len(self.messages) :]:
            self.add(message)

    def forget_after(self, length: int) -> None:
        """Know the first messages only."""
        outputs, runs = self.upto
        while len(self.starts) > runs[length]:
            self.starts.popitem()
        while len(self.outputs) > outputs[length]:
            self.standing.forget(self.outputs.pop())
            self.ends.pop()
        for message in reversed(self.messages[length:]):
            self.standing.forget_calls(message)
        del self.messages[length:], outputs[length + 1 :], runs[length + 1 :]

    def add(self, message: Message) -> Message:
        """Know a message as it is."""
        self._hear(message)
        for part in message.parts:
            if type(part) is ToolResult and (text := text_in(part)) is not None:
                self._know(self.standing.add(message, part, text))
        return self._added(message)

    def _hear(self, message: Message) -> None:
        """Know what the calls of a message were given."""
        for output in self.standing.hear(message):
            self._know(output)

    def _added(self, message: Message) -> Message:
        """A message of which all outputs are known."""
        outputs, runs = self.upto
        self.messages.append(message)
        outputs.append(len(self.outputs))
        runs.append(len(self.starts))
        return message

    def _know(self, output: Output, read: _Read | None = None) -> None:
        """Know what an output says; no run of its lines is referred to that has a reference in it."""
        lines, runs = read or _Read.of(output.text, self.least)
        first, starts = self.ends[-1] if self.ends else 0, self.starts
        self.outputs.append(output)
        self.ends.append(first + len(lines.lines))
        if WITHIN not in output.text:
            deque(map(starts.setdefault, runs, count(first)), maxlen=0)
            return
        spared = {
            place - back for place, line in enumerate(lines.lines) if WITHIN in line for back in range(self.least)
        }
        for place, run in enumerate(runs):
            if place not in spared:
                starts.setdefault(run, first + place)

    def shorten(self, message: Message, call: Call) -> Message:
        """A message with references where they save tokens; it is known from then on."""
        if not message.results:
            return self.add(message)
        self._hear(message)
        new = self._added(edit_results(message, lambda result: self._shorter(message, result, call)))
        if new is not message and call.count(new) >= call.count(message):
            self.forget_after(len(self.messages) - 1)
            return self.add(message)
        return new

    def _shorter(self, message: Message, result: ToolResult, call: Call) -> ToolResult:
        """A result with references where they save tokens; it is known from then on."""
        text = text_in(result)
        if text is None:
            return result
        read = _Read.of(text, self.least)
        if (short := self._shortened(result, text, read, call)) is not None:
            new = saying(result, "\n".join(short.lines), short.references)
            if call.meter.parts((new,)) < call.meter.parts((result,)):
                self._know(self.standing.add(message, new, "\n".join(short.lines)))
                return new
        self._know(self.standing.add(message, result, text), read)
        return result

    def _shortened(self, result: ToolResult, text: str, read: _Read, call: Call) -> _Written | None:
        """A text with references in the place of runs of lines; None where there are none."""
        lines, runs = read
        again = _repeated(runs)
        if WITHIN in text or (not again and self.starts.keys().isdisjoint(runs)):
            return None
        out, place = _Written(self.least, again), 0
        name, cutter = self.standing.name_of(result), cutter_of(call.meter.counter)
        while place < len(lines.lines):
            run = self._run(read, place, out, name)
            if run is None:
                out.write(lines, runs, place)
                place += 1
                continue
            reference = self.standing.reference(run, name, out.lines)
            if cutter.exceeds("\n".join(run.here), call.meter.counter.count(reference.text) + SPARED):
                out.refer(reference)
            else:
                for at in range(place, place + len(run.here)):
                    out.write(lines, runs, at)
            place += len(run.here)
        return out if out.references else None

    def _run(self, read: _Read, place: int, out: _Written, name: str) -> Run | None:
        """The lines from a place on that stand somewhere above; None: too few."""
        lines, runs = read
        if place >= len(runs):
            return None
        start, known = out.starts.get(runs[place]), self.starts.get(runs[place])
        if (start is None and known is None) or not lines.said[place].strip():
            return None
        best = None if start is None else lines.run(place, name, _Lines(out.lines, out.said), start, self.least)
        number = 0 if known is None else bisect_right(self.ends, known)
        if known is not None and self.standing.may_mean(output := self.outputs[number]):
            start = known - (self.ends[number - 1] if number else 0)
            above = _Lines(self.standing.lines(output), self.standing.said(output))
            other = lines.run(place, output.name, above, start, self.least)
            best = other if best is None or len(other.here) > len(best.here) else best
        return None if best is None or len(best.here) < self.least else best


class _Lines(NamedTuple):
    """Lines, and what they say without the numbers before them."""

    lines: list[str]
    said: list[str]

    def run(self, place: int, name: str, above: _Lines, start: int, least: int) -> Run:
        """The lines from a place on that stand above from ``start`` on, by what they say; too few where there are none.

        Where they have other numbers there, these must count on from the first one here, as ``numbered`` does it.
        """
        first, how = number_of(self.lines[place]), ""
        length = _length(self.lines, place, above.lines, start)
        if not length:
            length = self._length_numbered(place, first, above, start, least)
            how = WITHOUT_NUMBERS if first is None else numbered_from(first)
        return Run(name, start, above.lines[start : start + length], self.lines[place : place + length], how)

    def _length_numbered(self, place: int, first: int | None, above: _Lines, start: int, least: int) -> int:
        here, there, like = self.lines[place : place + least], above.lines[start : start + least], self.lines[place]
        if not any(here == each for each in numbered(there, first, like)):
            return 0
        length = _length(self.said, place, above.said, start, _MOST)
        here, there = self.lines[place : place + length], above.lines[start : start + length]
        length = max(_length(here, 0, each, 0) for each in numbered(there, first, like))
        return length if any(here[:length] == each for each in numbered(there[:length], first, like)) else least


class _Read(NamedTuple):
    """The lines of a text, and a hash of each run of them, by what it says."""

    lines: _Lines
    runs: list[int]

    @classmethod
    def of(cls, text: str, least: int) -> _Read:
        """A text, read; so many lines make a run."""
        lines = text.split("\n")
        bare = unnumbered(lines) if len(lines) >= least else lines
        return cls(_Lines(lines, bare), _runs(bare, least))


_MOST = 1_000
"""Lines with other numbers that one reference stands for: they are compared several times."""


def _runs(lines: Sequence[str], least: int) -> list[int]:
    """A hash of each run of so many lines, by the place of the first."""
    return list(map(hash, zip(*[lines[place:] for place in range(least)], strict=False)))


def _repeated(runs: Sequence[int]) -> Collection[int]:
    """The hashes of the runs that an output has more than once."""
    return () if len(set(runs)) == len(runs) else {run for run, times in Counter(runs).items() if times > 1}


def _length(lines: Sequence[str], place: int, above: Sequence[str], start: int, most: int = sys.maxsize) -> int:
    """How many lines from a place on are those that stand above from ``start`` on."""
    length, most = 0, min(len(lines) - place, len(above) - start, most)
    while length < most and lines[place + length] == above[start + length]:
        length += 1
    return length


@define(eq=False, repr=False)
class _Written:
    """The lines of an output as it is sent.

    Args:
        least: How many lines make a run.
        again: Which runs of the output come more than once.
        lines: The lines so far.
        said: What they say without the numbers before them.
        starts: Where the first of these runs begins.
        plain: How many lines stand at the end that are no reference.
        references: Those that were written.
    """

    least: int
    again: Collection[int]
    lines: list[str] = field(factory=list)
    said: list[str] = field(factory=list)
    starts: dict[int, int] = field(factory=dict)
    plain: int = 0
    references: list[Mark] = field(factory=list)

    def write(self, lines: _Lines, runs: Sequence[int], place: int) -> None:
        """Add the line that stood at a place."""
        self.lines.append(lines.lines[place])
        self.said.append(lines.said[place])
        self.plain += 1
        if self.again and self.plain >= self.least and (run := runs[place - self.least + 1]) in self.again:
            self.starts.setdefault(run, len(self.lines) - self.least)

    def refer(self, reference: Mark) -> None:
        """Add a reference."""
        self.lines.append(reference.text)
        self.said.append(reference.text)
        self.references.append(reference)
        self.plain = 0


def saying(result: ToolResult, text: str, new: Iterable[Mark] = ()) -> ToolResult:
    """A result whose one text is another, with new marks in it."""
    return result.with_content(
        tuple([marked(part, text, new) if isinstance(part, Text) else part for part in result.content])
    )


@define(eq=False, repr=False)
class _Mending:
    """Puts lines back in the place of references to what is gone.

    Args:
        least: How many lines make a run.
        messages: The whole request.
        start: The first message that may be changed.
        meant: What each reference stood for.
        call: What the stage is told.
        growth: By how many tokens each message has grown, by its place.
    """

    least: int
    messages: Sequence[Message]
    start: int
    meant: Mapping[Mark, list[str]]
    call: Call
    growth: dict[int, int] = field(factory=dict)

    def all(self) -> list[Message]:
        """The messages that may be changed, with all lines put back."""
        return self._made(None, set())

    def within(self, room: int) -> list[Message]:
        """The same in so many tokens: with the lines of the newest, as far as they fit."""
        total, chosen = 0, set()
        for place in sorted(self.growth, reverse=True):
            if total + self.growth[place] <= room:
                total += max(0, self.growth[place])
                chosen.add(place)
        return self._made(room, chosen)

    def _made(self, room: int | None, chosen: set[int]) -> list[Message]:
        seen = _Seen(self.least)
        self.growth = {}
        made = []
        for place, message in enumerate(self.messages):
            new = message
            if place >= self.start and has_marks((message,)):
                new = self._mended(place, message, seen, room, chosen)
            made.append(new)
            if new is message:
                seen.add(message)
        return made[self.start :]

    def _mended(self, place: int, message: Message, seen: _Seen, room: int | None, chosen: set[int]) -> Message:
        """What a message with references is to say; itself, and not known yet, where all of these are true."""
        gone, call, known = self._gone(message, seen.standing), self.call, len(seen.messages)
        if not any(gone):
            return message
        lines = {line: Text("\n".join(there)) for line, there in self.meant.items()}
        whole = _instead(message, [lines] * len(gone))
        new = seen.shorten(whole, call)
        grown, left = call.count(new) - call.count(message), None if room is None else room - sum(self.growth.values())
        if left is not None and grown > 0 and (place not in chosen or grown > left):
            seen.forget_after(known)
            bare = Message(whole.role, whole.parts)
            pointers = [call.pointer(bare, result) for result in bare.results]
            pairs = zip(gone, pointers, strict=True)
            folds = [{line: self._fold(line, pointer) for line in lines} for lines, pointer in pairs]
            new = seen.add(_instead(message, folds))
            grown = call.count(new) - call.count(message)
        self.growth[place] = grown
        return new

    def _gone(self, message: Message, standing: Standing) -> list[set[Mark]]:
        """Of each result the references whose lines are not there any more, or others may be taken for them."""
        gone, added = list[set[Mark]](), standing.hear(message)
        for result in message.results:
            name, text = standing.name_of(result), text_in(result) or ""
            lines, found = text.split("\n"), references_in(result)
            known = ((at, line) for at, _, line in found if line in self.meant)
            gone.append({line for at, line in known if not standing.is_right(line, name, lines[:at])})
            added.append(standing.add(message, result, text))
        for output in reversed(added):
            standing.forget(output)
        standing.forget_calls(message)
        return gone

    def _fold(self, line: Mark, pointer: str) -> Text:
        lines, count = self.meant[line], self.call.meter.counter.count
        texts = fold(len(lines), pointer), fold(len(lines))
        text = next((text for text in texts if count(text) <= count(line.text)), texts[-1])
        return standing_alone(Mark(text, len("\n".join(lines))))


def _instead(message: Message, instead: Sequence[Mapping[Mark, Text]]) -> Message:
    """The message with other texts in the place of references in each of its results."""
    waiting = iter(instead)

    def edit(result: ToolResult) -> ToolResult:
        own = next(waiting)
        found = {start: own[line] for _, start, line in references_in(result) if line in own}
        said = replaced(text_of(result), {start: each.text for start, each in found.items()})
        return saying(result, said, marks_in(found.values())) if found else result

    return edit_results(message, edit)
