"""Leave out what a later result shows again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, count
from posixpath import normpath
from typing import ClassVar, NamedTuple

from attrs import define, field, frozen

from agentctx.engine.shrink import edit_results, edited, with_pointer, with_text
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
from agentctx.later_lines import (
    SHORTEST,
    Later,
    MarkPlace,
    Meant,
    checksum_of,
    content_checksum,
    later_runs,
    lines_checksum,
    marks_in,
    texts_of,
)
from agentctx.marks import SHOWN_AGAIN, has_marks, joined, marked, replaced, said, standing_alone, text_of
from agentctx.message import Context, Mark, Message, Part, Text, ToolCall, ToolResult
from agentctx.protocols import Call, ContextStrategy, When, library_stage, room_to_grow
from agentctx.validators import TRUTH, whole_number

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
            messages[place[0]] = _edited(message, {place[1]: _Again(instead=old[place])}, call)
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
    mark: str


@frozen
class _Again:
    """What goes of a result.

    Args:
        spans: The parts of its text that go.
        instead: What stands for all of it, where all goes.
    """

    spans: tuple[_Span, ...] = ()
    instead: str = ""


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
        (index, number): _Again(
            instead=Meant(0, content_checksum(texts[index][number], messages[index].results[number])).mark
        )
        for index, number in found
    }


def _of_lines(text: str, runs: Sequence[range]) -> Iterator[_Span]:
    """Where runs of lines stand in a text, without the line's end behind the last."""
    if not runs:
        return
    lines = text.split("\n")
    starts, read = [0, *accumulate(len(line) + 1 for line in lines)], said(lines)
    for run in runs:
        checksum = lines_checksum(lines[run.start : run.stop], read[run.start : run.stop])
        yield _Span(starts[run.start], starts[run.stop] - 1, Meant(len(run), checksum).mark)


def _reminders(text: str) -> Iterator[_Span]:
    """The reminders in a text."""
    if "reminder>" not in text:
        return
    for tag in _REMINDERS:
        stop = 0
        while (start := text.find(f"<{tag}>", stop)) >= 0 and (end := text.find(f"</{tag}>", start)) >= 0:
            stop = end + len(tag) + 3
            yield _Span(start, stop, Meant(0, checksum_of(text[start:stop]), reminder=True).mark)


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
    if gone.instead:
        return result.with_content((standing_alone(Mark(with_pointer(gone.instead, pointer), len(result.text))),))
    text, stop = result.text, 0
    pieces: list[str] = []
    marks: list[Mark] = []
    for span in gone.spans:
        mark = with_pointer(span.mark, "" if pieces else pointer)
        if call.meter.counter.count(text[span.start : span.stop]) > call.meter.counter.count(mark) + SPARE:
            pieces += (text[stop : span.start], mark)
            stop = span.stop
            marks.append(Mark(mark, span.stop - span.start))
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
