"""Leave out what a later result shows again.

Lines are compared by what they say: the numbers that reading tools put before them are no part of it. It takes time
that grows with the number of lines: a line that stands nowhere else ends every run, and of the others all runs of one
length are kept, each with a few places.

The mark that stands for them has their checksum, by which they are found again in what is sent (``Later``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import accumulate, count, groupby
from posixpath import normpath
from typing import ClassVar, NamedTuple
from zlib import crc32

from attrs import define, evolve, field, frozen

from agentctx.engine.shrink import edit_results, edited, with_text
from agentctx.engine.tool_calls import (
    Did,
    FileEvent,
    ReadCall,
    RunEvent,
    how_it_ended,
    prints_once,
    ran_through,
    read_calls,
    rest_of_run,
    settings_in,
    shell_run_of,
)
from agentctx.line_numbers import unnumbered
from agentctx.marks import (
    SHORTEST,
    SHOWN_AGAIN,
    MarkPlace,
    Meant,
    digest_of,
    has_marks,
    joined,
    marked,
    marks_in,
    replaced,
    standing_alone,
    stands_for_more,
    text_in,
    text_of,
    with_pointer,
    without_references,
)
from agentctx.message import Context, Mark, Message, Part, Text, ToolCall, ToolResult
from agentctx.protocols import Call, ContextStrategy, When, library_stage, room_to_grow
from agentctx.validators import TRUTH, whole_number

SHORT = range(2, 8)
"""Texts of so few lines are looked for as a whole; one line may stand in another text by chance."""


NEWEST = 4
"""Of so many places where lines stand later, the latest ones, the one is looked for where most of them do."""

_Windows = dict[tuple[int, ...], list[tuple[list[int], int]]]
"""Where lines of some number stand: in which texts, and from which line on."""


def later_runs(texts: Sequence[str], min_lines: int) -> list[list[range]]:
    r"""For each text the runs of its lines of which each stands together in a later text.

    Args:
        texts: The texts, oldest first.
        min_lines: The fewest lines of a run; a ``SHORT`` text of fewer lines is one where all of it is there.

    Example:
        >>> from agentctx.strategies.drop_superseded import later_runs
        >>> later_runs(["one\ntwo\nthree", "zero\none\ntwo"], 2)
        [[range(0, 2)], []]
    """
    numbers: dict[str, int] = {}
    apart = count(-1, -1)  # what stands for other lines stands nowhere else: there it might be for others
    read = [
        [
            next(apart) if stands_for_more(line) else numbers.setdefault(line, len(numbers))
            for line in unnumbered(_lines(text))
        ]
        for text in texts
    ]
    times = Counter(number for text in read for number in text)
    lengths = {min_lines, *(len(text) for text in read if len(text) in SHORT and len(text) < min_lines)}
    later: _Windows = {}
    found: list[list[range]] = []
    for text in read[::-1]:
        repeated = [times[number] > 1 for number in text]
        stretches = [list(run) for is_repeated, run in groupby(range(len(text)), repeated.__getitem__) if is_repeated]
        ranges = [range(places[0], places[-1] + 1) for places in stretches]
        found.append(_found(text, ranges, later, min_lines))
        for places in ranges:
            for length in lengths:
                for start in range(places.start, places.stop - length + 1):
                    known = later.setdefault(tuple(text[start : start + length]), [])
                    if len(known) < NEWEST:
                        known.append((text, start))
    return found[::-1]


def _lines(text: str) -> list[str]:
    """The lines of a text, but for blank ones at its end."""
    lines = text.split("\n")
    while len(lines) > 1 and not lines[-1]:
        lines.pop()
    return lines


def _found(text: list[int], stretches: list[range], later: _Windows, min_lines: int) -> list[range]:
    """The runs of a text that are among those of later ones."""
    if len(text) < min_lines:
        return [range(len(text))] if len(text) in SHORT and tuple(text) in later else []
    there = bytearray(len(text))
    whole = b"\1" * min_lines
    for places in stretches:
        for start in range(places.start, places.stop - min_lines + 1):
            if tuple(text[start : start + min_lines]) in later:
                there[start : start + min_lines] = whole
    runs = [list(run) for is_there, run in groupby(range(len(text)), there.__getitem__) if is_there]
    return [each for run in runs for each in _together(text, range(run[0], run[-1] + 1), later, min_lines)]


def _together(text: list[int], run: range, later: _Windows, length: int) -> Iterator[range]:
    """The lines of a run in pieces of which each stands together in a later text."""
    place = run.start
    while place < run.stop:
        start = next(at for at in range(place, run.start - 1, -1) if tuple(text[at : at + length]) in later)
        stop = max(_stop(text, start, run.stop, *where) for where in later[tuple(text[start : start + length])])
        yield range(place, stop)
        place = stop


def _stop(text: list[int], start: int, most: int, other: list[int], there: int) -> int:
    """Up to where a text says what another says from ``there`` on."""
    stop, most = start, min(most, start + len(other) - there)
    while stop < most and text[stop] == other[there + stop - start]:
        stop += 1
    return stop


def checksum_of(digest: str) -> str:
    """What is said of a digest where the model reads it."""
    return f"{int(digest, 16) % 10**6:06}"  # few tokens


def meaning(text: str, *, reminder: bool = False) -> Meant:
    """What stands for a reminder, or for all that a result says."""
    digest = digest_of(text)
    return Meant(0, checksum_of(digest), digest, reminder)


def meaning_of(text: str, result: ToolResult) -> Meant:
    """What stands for what a result says, of which all text is ``text``."""
    return meaning("\0".join([text, *(repr(part) for part in result.content if not isinstance(part, Text))]))


def meaning_of_lines(lines: Sequence[str], read: Sequence[str]) -> Meant:
    """What stands for lines: its checksum is one of the first, and one of all.

    Args:
        lines: The lines as they stand.
        read: What they say.
    """
    digests = (digest_of("\n".join(each)) for each in (read, lines))
    return Meant(len(lines), f"{_first(read[0])}{_Sums(read).of(0, len(read))}", "".join(digests))


def _first(line: str) -> str:
    return f"{crc32(line.encode(errors='surrogatepass')) % 1_000:03}"


_PRIME, _BASE = 2**61 - 1, 1_000_003


class _Sums:
    """Checksums of any lines in a row of a text, each in the same time."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.upto = [0]
        for line in lines:
            self.upto.append((self.upto[-1] * _BASE + crc32(line.encode(errors="surrogatepass")) + 1) % _PRIME)

    def of(self, start: int, length: int) -> str:
        """Of so many lines."""
        return f"{(self.upto[start + length] - self.upto[start] * _power(length)) % _PRIME % 10**6:06}"


@lru_cache(maxsize=4_096)
def _power(length: int) -> int:
    return pow(_BASE, length, _PRIME)


def texts_of(messages: Sequence[Message]) -> list[list[str]]:
    """The text of each result of each message, with codes and references in it written out."""
    if not has_marks(messages):
        return [[result.text for result in message.results] for message in messages]
    wholes = without_references(messages)
    return [
        [text_of(each).text if text_in(each) is None else "\n".join(next(wholes)) for each in message.results]
        for message in messages
    ]


@define(eq=False, repr=False)
class Later:
    """What some texts stand for, as far as it is found in the results that it is told of.

    Args:
        wanted: What is looked for.
        found: What was found: a text, or for all that a result says its parts; None where that cannot be put back.
    """

    wanted: Collection[Meant]
    found: dict[Meant, str | tuple[Part, ...] | None] = field(factory=dict)
    _starts: dict[str, dict[int, dict[str, list[Meant]]]] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        """Look for lines by the first of them, then by how many they are, then by what all say."""
        for meant in self.wanted:
            if meant.lines:
                lengths = self._starts.setdefault(meant.checksum[:3], {})
                lengths.setdefault(meant.lines, {}).setdefault(meant.checksum[3:], []).append(meant)

    def add(self, result: ToolResult, text: str, reminders: Iterable[str]) -> None:
        """Be told of a result, its text, and the reminders in that."""
        for reminder in reminders:
            self._keep(meaning(reminder, reminder=True), reminder)
        is_text = len(result.content) == 1 and isinstance(result.content[0], Text)
        parts = (Text(text, marks=result.marks),) if is_text else result.content
        self._keep(meaning_of(text, result), parts)
        if self._starts:
            self._look_for_lines(text.split("\n"))

    def _keep(self, meant: Meant, content: str | tuple[Part, ...]) -> None:
        if meant in self.wanted:
            self.found.setdefault(meant, content)

    def _look_for_lines(self, lines: list[str]) -> None:
        read, sums = unnumbered(lines), None
        for place, line in enumerate(read):
            for length, by_sum in self._starts.get(_first(line), {}).items():
                if place + length <= len(lines):
                    sums = sums or _Sums(read)
                    for meant in by_sum.get(sums.of(place, length), ()):
                        self._keep_lines(meant, lines[place : place + length], read[place : place + length])

    def _keep_lines(self, meant: Meant, lines: list[str], read: list[str]) -> None:
        """Keep lines; where those that were meant have other numbers before them, without a text."""
        said, half = "\n".join(read), len(meant.digest) // 2
        if digest_of(said) == meant.digest[:half]:
            texts = (each for each in ("\n".join(lines), said) if digest_of(each) == meant.digest[half:])
            self.found[meant] = self.found.get(meant) or next(texts, None)


Place = tuple[int, int]
"""The index of a message, and the number of a result in it."""

STALE = "[contents of a file that was changed later]"
"""What stands for what was read of a file before an edit."""

WRITTEN_OVER = "[done; the file was changed again later]"
"""What stands for what an edit showed of a file before the next one."""

RAN_AGAIN = "[output of a command that ran again later]"
"""What stands for what a command printed before it was run once more; with how it ended, where that is known."""

SPARE = 2
"""Tokens; what saves no more stays: texts have a few tokens more or less in pieces than together."""

_REMINDERS = ("system-reminder", "system_reminder", "reminder")


@library_stage
@frozen
class DropSuperseded(ContextStrategy):
    r"""Leave out what a later tool result shows again, and say so in its place.

    Runs of lines that stand in a later result too, by what they say and never by path: the line numbers that reading
    tools put before them are no part of it, and what an edit has changed since stays. The same call with the same
    answer, also one that failed, or that is not only text. Reminders of the program around the agent that come again.
    Of all of these the last copy stays.

    What stands instead has a checksum. When a cut, or the provider, leaves out the last copy, its content comes back
    in the place of the last of these; where there is no room for it, it says that lines are left out.

    Nothing changes while the request fits its budget. Results that the model has not read stay. Where the pipeline has
    a store and the request the recall tool (``Recall``), the line that stands instead names a handle.

    Args:
        min_lines: The fewest lines of a run, 2 to 100.
        stale: Whether what is true no more goes, too, oldest first and no more than must: what was read of a file, or
            shown of it by an edit, once the file was changed; what a command printed that ran again later, but for how
            it ended. The rest of the file is not seen then until it is read again.
        short: Whether answers with fewer lines than a run go, too, where all of one is shown again.

    Raises:
        ConfigError: If an option is none.

    Example:
        >>> from agentctx import Pipeline
        >>> from agentctx.strategies import DropSuperseded
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> lines = [f"line {number} of the file" for number in range(40)]
        >>> messages = transcript(
        ...     "openai-chat", user("Read it."),
        ...     assistant(call("a", "read", {"from": 10})), result("a", "\n".join(lines[10:])),
        ...     assistant(call("b", "read", {"from": 0})), result("b", "\n".join(lines)))
        >>> (await Pipeline(DropSuperseded()).prepare(messages)).messages[2]["content"]
        '[30 lines shown again later #...]'
    """

    min_lines: int = field(default=4, validator=whole_number(2, 100), kw_only=True)
    stale: bool = field(default=False, validator=TRUTH, kw_only=True)
    short: bool = field(default=True, validator=TRUTH, kw_only=True)
    when: ClassVar[When] = When.UNDER_PRESSURE

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context without what is shown again later."""
        if _fits(context, call):
            return context
        staying = call.frozen(context).union(call.unread(context))
        again = _shown_again(context.messages, self.min_lines, short=self.short)
        places = sorted({index for index, _ in again} - staying)
        context = edited(context, places, partial(_without, again, call), call, SHOWN_AGAIN)
        return self._without_stale(context, staying, call) if self.stale else context

    def after_cut(self, before: Context, after: Context, call: Call, /) -> Context:
        """Return the context in which nothing is said to be shown again later that is not."""
        if not has_marks(after.messages):
            return after
        whole = call.internals.whole(after).messages
        wanted = {mark.meant for message in after.messages for mark in _marks(message)}
        known = Later(_untrue(whole, wanted) if wanted else ())
        if not known.wanted:
            return after
        for message, texts in _with_texts(call.internals.whole(before).messages):
            _tell(known, message, texts)
        return _Mending(wanted, known.found, call).of(after, whole) if known.found else after

    def _without_stale(self, context: Context, staying: Collection[int], call: Call) -> Context:
        """The context without what is true no more, oldest first until it fits."""
        old = {place: mark for place, mark in _outdated(context.messages).items() if mark and place[0] not in staying}
        spare = None if call.limit is None else call.size(context) - call.limit + call.internals.reserved
        messages = list(context.messages)
        for place in sorted(old):
            if spare is not None and spare <= 0:
                break
            message = messages[place[0]]
            instead = Mark(old[place], len(message.results[place[1]].text))
            messages[place[0]] = _edited(message, {place[1]: _Again(instead=instead)}, call)
            if messages[place[0]] is not message:
                call.note(message, old[place][1:-1])
                spare = None if spare is None else spare - call.count(message) + call.count(messages[place[0]])
        return context.with_messages(tuple(messages))


class _Span(NamedTuple):
    """What of a text goes.

    Args:
        start: Its first character.
        stop: The first one after it.
        mark: What stands instead.
    """

    start: int
    stop: int
    mark: Mark


@frozen
class _Again:
    """What goes of a result.

    Args:
        spans: The parts of its text that go.
        instead: What stands for all of it, where all goes.
    """

    spans: tuple[_Span, ...] = ()
    instead: Mark | None = None


def _fits(context: Context, call: Call) -> bool:
    return call.limit is not None and call.size(context) <= call.limit


def _results(messages: Iterable[Message]) -> Iterator[tuple[Place, ToolResult]]:
    for index, message in enumerate(messages):
        for number, result in enumerate(message.results):
            yield (index, number), result


def _shown_again(messages: Sequence[Message], min_lines: int, *, short: bool) -> dict[Place, _Again]:
    """What is shown again in a later result, by the place of the result."""
    results = list(_results(messages))
    runs = later_runs([result.text for _, result in results], min_lines)
    found = _same_answers(messages) if short else {}
    reminders: set[str] = set()
    for (place, result), its_runs in zip(reversed(results), reversed(runs), strict=True):
        text, blocks = result.text, list(_reminders(result.text))
        if place not in found and not result.is_error and all(isinstance(part, Text) for part in result.content):
            spans = list(_of_lines(text, [run for run in its_runs if short or len(run) >= min_lines]))
            if len(spans) == 1 and not text[: spans[0].start] and not text[spans[0].stop :].strip("\n"):
                found[place] = _Again(instead=spans[0].mark)
            elif spans := [*spans, *(each for each in blocks if text[each.start : each.stop] in reminders)]:
                found[place] = _Again(tuple(_apart(spans)))
        reminders.update(text[each.start : each.stop] for each in blocks)
    return found


def _same_answers(messages: Sequence[Message]) -> dict[Place, _Again]:
    """The results that the same call gave once more."""
    asked: dict[str, ToolCall] = {}
    last: dict[tuple[str, str, bool, tuple[Part, ...]], Place] = {}
    found: set[Place] = set()
    for index, message in enumerate(messages):
        numbers = count()
        for part in message.parts:
            if isinstance(part, ToolCall):
                asked[part.id] = part
            elif isinstance(part, ToolResult):
                place, call = (index, next(numbers)), asked.get(part.call_id)
                if call is not None:
                    answered = call.name, call.arguments, part.is_error, part.content
                    if answered in last:
                        found.add(last[answered])
                    last[answered] = place
    texts = texts_of(messages) if found else []
    return {
        (index, number): _Again(instead=meaning_of(texts[index][number], result).mark(len(result.text)))
        for index, number in found
        for result in (messages[index].results[number],)
    }


def _of_lines(text: str, runs: Sequence[range]) -> Iterator[_Span]:
    """Where runs of lines stand in a text, without the line's end behind the last."""
    if not runs:
        return
    lines = text.split("\n")
    starts, read = [0, *accumulate(len(line) + 1 for line in lines)], unnumbered(lines)
    for run in runs:
        start, stop = starts[run.start], starts[run.stop] - 1
        meant = meaning_of_lines(lines[run.start : run.stop], read[run.start : run.stop])
        yield _Span(start, stop, meant.mark(stop - start))


def _reminders(text: str) -> Iterator[_Span]:
    """The reminders in a text."""
    if "reminder>" not in text:
        return
    for tag in _REMINDERS:
        stop = 0
        while (start := text.find(f"<{tag}>", stop)) >= 0 and (end := text.find(f"</{tag}>", start)) >= 0:
            stop = end + len(tag) + 3
            yield _Span(start, stop, meaning(text[start:stop], reminder=True).mark(stop - start))


def _apart(spans: Iterable[_Span]) -> Iterator[_Span]:
    """The spans in their order, without those that begin within another."""
    stop = 0
    for span in sorted(spans, key=lambda span: (span.start, -span.stop)):
        if span.start >= stop:
            stop = span.stop
            yield span


def _outdated(messages: Sequence[Message]) -> dict[Place, str]:
    """The results that tell how a file or a command was, and what stands for those that tell it no more."""
    places: dict[int, list[Place]] = {}
    for place, result in _results(messages):
        places.setdefault(id(result), []).append(place)
    known = _Known()
    for each in read_calls(messages):
        standing = places.get(id(each.result), ())
        known.hear(each, standing[0] if len(standing) == 1 else None)
    return known.outdated


@define(eq=False, repr=False)
class _Known:
    """What is known of files and commands.

    Args:
        outdated: What stands for each result that tells of them; nothing while it is true.
        files: The results that show something of a file as it is now, by its path, with what will stand for them.
        runs: The results of the runs of each command of which none is known to be out of date, with what will stand
            for them.
        settings: What was changed in the shell, in the order of the last times.
        times: How often that was.
    """

    outdated: dict[Place, str] = field(factory=dict)
    files: dict[str, list[tuple[Place, str]]] = field(factory=dict)
    runs: dict[_Ran, list[tuple[Place, str]]] = field(factory=dict)
    settings: dict[str, None] = field(factory=dict)
    times: int = 0

    def hear(self, each: ReadCall, place: Place | None) -> None:
        """Be told of a call, and where its result is, if it is in one place."""
        command, folder = shell_run_of(each.call)
        for setting in () if folder else settings_in(command):
            self._set(setting)
        ran = next((event for event in each.did if isinstance(event, RunEvent) and event.times), None)
        if ran is not None and " " in command.strip():  # one word may ask for what comes next
            run = command, folder, rest_of_run(each.call), () if folder else tuple(self.settings)
            self._run(run, ran.ended, place, is_new=ran_through(each.result))
        self._files(each, command, folder, place)

    def _set(self, setting: str) -> None:
        """Be told of a setting; where a folder is named from another, or too much was set, the shell is a new one."""
        self.times += 1
        is_move, is_full = setting.startswith(_MOVES), len(self.settings) >= _MOST
        self.settings.pop(setting, None)
        if is_full:
            self.settings = {f"{setting} #{self.times}": None}
        elif is_move:
            stay = {each: None for each in self.settings if not each.startswith(_MOVES)}
            is_sure = setting.startswith(("cd /", "cd ~"))
            self.settings = {**stay, setting if is_sure else f"{setting} #{self.times}": None}
        else:
            self.settings[setting] = None

    def _run(self, run: _Ran, ended: str, place: Place | None, *, is_new: bool) -> None:
        if is_new:
            self.outdated.update(self.runs.pop(run, ()))
        if place is not None:
            self.runs.setdefault(run, []).append((place, f"{RAN_AGAIN[:-1]}{ended and ': '}{ended}]"))
            self.outdated[place] = ""

    def _files(self, each: ReadCall, command: str, folder: str, place: Place | None) -> None:
        """Be told what a call did to files; of a command whose folder is not known, to those with whole paths."""
        found = [event for event in each.did if isinstance(event, FileEvent) and event.did is not Did.FAILED]
        if command:
            is_anywhere = not folder and any(setting.startswith(_MOVES) for setting in self.settings)
            found = [event for event in found if not is_anywhere or event.path.startswith(("/", "~"))]
        changed = [event for event in found if event.did.changes]
        if not command or not _failed(each.result):
            for event in changed:
                shown = self.files.pop(normpath(event.path), [])
                if event.did is Did.RENAMED and event.to:
                    self.outdated.update(self.files.pop(normpath(event.to), ()))
                    self.files[normpath(event.to)] = shown
                else:
                    self.outdated.update(shown)
        if place is not None and len(found) == len(each.did) == 1 and (not command or prints_once(command)):
            self.files.setdefault(normpath(found[0].path), []).append((place, WRITTEN_OVER if changed else STALE))
            self.outdated[place] = ""


_Ran = tuple[str, str, str, tuple[str, ...]]
"""A command, its folder, what else its call says, and what was changed in the shell before."""

_MOST = 100
"""Settings that are told apart."""

_MOVES = ("cd ", "cd", "pushd", "popd")


def _failed(result: ToolResult | None) -> bool:
    """Whether a command has not done, or not all, what it was to do."""
    return result is None or how_it_ended(result.text, is_error=result.is_error).startswith(("exit", "failed"))


def _without(again: Mapping[Place, _Again], call: Call, index: int, message: Message) -> Message:
    """The message without what is shown again later."""
    numbers = range(len(message.results))
    return _edited(message, {each: again[index, each] for each in numbers if (index, each) in again}, call)


def _edited(message: Message, gone: Mapping[int, _Again], call: Call) -> Message:
    """The message with marks in the place of what goes of its results, by number; itself where that saves nothing."""
    numbers, meter = count(), call.meter

    def edit(result: ToolResult) -> ToolResult:
        number = next(numbers)
        if number not in gone:
            return result
        made = _marked(result, gone[number], call.pointer(message, result), call)
        return made if meter.parts((made,)) < meter.parts((result,)) else result

    made = edit_results(message, edit)
    return made if made is message or call.count(made) < call.count(message) else message


def _marked(result: ToolResult, gone: _Again, pointer: str, call: Call) -> ToolResult:
    """The result with marks in the place of those spans that take more; the first one says how to get all of it."""
    if gone.instead is not None:
        mark = evolve(gone.instead, text=with_pointer(gone.instead.text, pointer))
        return result.with_content((standing_alone(mark),))
    text, stop = result.text, 0
    pieces: list[str] = []
    marks: list[Mark] = []
    for span in gone.spans:
        said = with_pointer(span.mark.text, "" if pieces else pointer)
        saved = call.meter.counter.count(text[span.start : span.stop]) - call.meter.counter.count(said)
        if saved > SPARE and said not in text:  # the same words in what the tool said would be taken for the mark
            pieces += (text[stop : span.start], said)
            stop = span.stop
            marks.append(evolve(span.mark, text=said))
    return with_text(result, marked(joined(result), "".join((*pieces, text[stop:])), marks)) if pieces else result


def _marks(message: Message) -> Iterator[MarkPlace]:
    """The marks in the results of a message for what is shown again later."""
    return (mark for result in message.results if result.marks for mark in marks_in(text_of(result)))


def _with_texts(messages: Sequence[Message]) -> Iterator[tuple[Message, list[str]]]:
    """The messages with the texts of their results, the last first."""
    return zip(reversed(messages), reversed(texts_of(messages)), strict=True)


def _tell(later: Later, message: Message, texts: Sequence[str]) -> None:
    for result, text in zip(message.results, texts, strict=True):
        later.add(result, text, (text[each.start : each.stop] for each in _reminders(text)))


def _untrue(messages: Sequence[Message], wanted: set[Meant]) -> set[Meant]:
    """What marks stand for that is not shown again later."""
    later, untrue = Later(wanted), set[Meant]()
    for message, texts in _with_texts(messages):
        untrue.update(mark.meant for mark in _marks(message) if mark.meant not in later.found)
        _tell(later, message, texts)
    return untrue


@define(eq=False, repr=False)
class _Mending:
    """Puts back what is not shown again later any more.

    Args:
        wanted: What all marks stand for.
        stood: What those stood for that are not right any more.
        call: What the stage is told.
        room: Tokens by which the request may grow; None: any number.
        later: What stands further down.
    """

    wanted: set[Meant]
    stood: Mapping[Meant, str | tuple[Part, ...] | None]
    call: Call
    room: int | None = None
    later: Later = field(init=False)

    def of(self, context: Context, whole: Sequence[Message]) -> Context:
        """The context, mended from its end."""
        self.room, self.later = room_to_grow(self.call, context), Later(self.wanted)
        messages, start = list(context.messages), len(whole) - len(context.messages)
        for index, (message, texts) in zip(reversed(range(len(whole))), _with_texts(whole), strict=True):
            new = message if index < start else edit_results(message, self._result)
            if new is not message:
                self.call.note(message, "what is said to be shown again later is not any more")
                messages[index - start] = new
            _tell(self.later, new, texts if new is message else [text_of(each).text for each in new.results])
        return context.with_messages(tuple(messages))

    def _result(self, result: ToolResult) -> ToolResult:
        text, instead, new = text_of(result), dict[int, str](), list[Mark]()
        for place in marks_in(text):
            if place.meant in self.later.found or place.meant not in self.stood:
                continue
            content, size = self.stood[place.meant], self.call.meter.counter.count(text.text[place.start : place.stop])
            if content is not None and self._has_room(content, size):
                self.later.found[place.meant] = content
                if isinstance(content, tuple):
                    return result.with_content(content)
                instead[place.start] = content
            else:
                gone = (each for each in place.meant.gone(place.pointer) if self.call.meter.counter.count(each) <= size)
                instead[place.start] = next(gone, SHORTEST)
                new.append(Mark(instead[place.start], place.length))
        return with_text(result, marked(text, replaced(text, instead), new)) if instead else result

    def _has_room(self, content: str | tuple[Part, ...], instead_of: int) -> bool:
        """Whether something may be put back where so many tokens stood; then there is so much less room."""
        parts = content if isinstance(content, tuple) else (Text(content),)
        grown = self.call.meter.parts(parts) - instead_of
        if self.room is not None and grown > self.room:
            return False
        self.room = None if self.room is None else self.room - grown
        return True
