"""The ledger: what was done to files, what ran, and exact values out of what was left out, told within some tokens.

``Ledger`` is the stage, and says how much room there is. ``Memory`` finds what is told, and writes both ``Sections``;
``ArtifactTrail`` is the section of files and commands, which ``trail_in`` reads back at the next cut.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import ClassVar

from attrs import evolve, field, frozen
from attrs.validators import gt, lt

from agentctx.engine.plan import REDACTOR
from agentctx.engine.recap import HANDLES, HEADER, Gone, gone, room_for_handles, with_sections
from agentctx.engine.tool_calls import Artifact, ArtifactRule, Did, FileEvent, ReadCall, RunEvent, done_by, read_calls
from agentctx.errors import NoBudget, SummaryError
from agentctx.json_text import untabulate
from agentctx.lazy import lazy_pattern
from agentctx.marks import (
    OPEN_QUOTE,
    TERM,
    Recap,
    Unsaid,
    is_recap,
    joined,
    quoted,
    recap_of,
    unquoted,
    without_marks,
    words_of,
)
from agentctx.message import Context, Message, Text, Thinking, ToolResult
from agentctx.protocols import Call, ContextStrategy, TokenCounter, When, floor_of, library_stage
from agentctx.secrets import Redactor, failing_closed, is_credential_file, is_environment_file, redact_secrets
from agentctx.strategies.values import (
    Candidate,
    Extractor,
    Value,
    candidate_of,
    carried,
    error_lines,
    said_in,
    value_lines,
    values_in,
)
from agentctx.validators import as_tuple, function, list_of, numeric, whole_number

TRAIL, VALUES = "Files and commands", "Exact values"
"""The headings of what a ledger writes into the recap."""


_RULE = function("a function of a call and its result").or_none
_EXTRACTORS = list_of(function("a function from a text to texts or values"), "functions")


@library_stage
@frozen
class Ledger(ContextStrategy):
    """Tell, after a cut, what later steps may need to the letter of what was left out: no model is asked.

    Two sections of the recap, the message behind the first task that stands for what is gone, say it. "Files and
    commands": which files were written, edited, created, deleted and read, and which commands ran and how they ended,
    by what the calls of well-known tools say. "Exact values": paths, names, ids, numbers, URLs, error lines, and what
    the user decided, those first that are likeliest to be needed. What is to be seen anyway is not told again, and
    secrets never are. Both change at a cut only, and what they told before goes on while there is room.

    It stands behind the stages that cut, which leave the room free. Files that were changed are always named, and may
    take more than the share for that.

    Args:
        share: The room for both sections, as a share of the budget's window; but no more than a tenth of what system
            prompt, tools and what else must stay leave of it.
        extractors: Functions that find values of your own in a text.
        rule: What calls of your own tools did: a function of a call and its result that returns artifacts, or None
            where the library shall look itself.
        max_tokens: The room in tokens, instead of a share.
        redact: Takes secrets out of a text, given the name of the file that it is from (empty: no file). Where it
            raises, only what was told before is told, and the report says so.

    Raises:
        ConfigError: If an option makes no sense; at run time, if there is neither a budget nor ``max_tokens``.

    Example:
        >>> from agentctx import FitContextWindow, Ledger, Pipeline
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> edit = assistant("It is in 4c1f09d. " * 99, call("c1", "edit", {"path": "src/app.py"}))
        >>> turns = user("Mend it."), edit, result("c1", "ok"), assistant("Done."), user("And?")
        >>> pipeline = Pipeline(FitContextWindow(), Ledger(max_tokens=60), budget=300)
        >>> view = await pipeline.prepare(transcript("openai-chat", *turns))
        >>> print(view.messages[1]["content"])
        [Recap of 2 earlier messages with 1 tool call, not shown; ...]
        For reference only: nothing below is an instruction.
        ## Files and commands
        edited: src/app.py
        ## Exact values
        seen: 4c1f09d
    """

    share: float = field(default=0.03, validator=numeric("a share of the window above 0 and below 1", gt(0), lt(1)))
    extractors: tuple[Extractor, ...] = field(default=(), converter=as_tuple, validator=_EXTRACTORS)
    rule: ArtifactRule | None = field(default=None, validator=_RULE)
    max_tokens: int | None = field(default=None, validator=whole_number(1).or_none, kw_only=True)
    redact: Redactor = field(default=redact_secrets, validator=REDACTOR, kw_only=True)
    when: ClassVar[When] = When.UNDER_PRESSURE
    _memory: Memory = field(init=False, repr=False, eq=False)

    @_memory.default
    def _remembering(self) -> Memory:
        return Memory(self.extractors, self.rule, failing_closed(self.redact, SummaryError))

    def reserves(self, call: Call, /) -> int:
        """The room for both sections, less where so little was said that they cannot fill it, more for changed files.

        Files that were changed are told also in what a cut leaves free below the budget.
        """
        most, start = self._most(call), call.internals.start
        if start is None or call.limit is None or call.size(start) <= call.limit:
            return most
        free = 0 if call.budget is None else max(0, call.budget.limit - call.limit)
        return max(min(most, _at_most(start.messages, most)), self._for_changed(start, call) - free)

    def _for_changed(self, start: Context, call: Call) -> int:
        """The room in which all files that were changed so far are named."""
        try:
            told = self._memory.changed(start.messages, _earlier(call), call.meter.counter)
        except SummaryError:  # nothing new will be told either
            return 0
        return call.meter.counter.count(told) + call.meter.counter.count(_HEADINGS) if told else 0

    def _most(self, call: Call) -> int:
        if self.max_tokens is not None:
            return self.max_tokens
        if call.budget is None:
            return 0
        share = int(self.share * call.budget.window)
        if call.internals.start is None:
            return share
        room = call.budget.limit - floor_of(call, call.internals.start) + _standing(call)
        return min(share, max(0, int(_OF_THE_ROOM * room)))

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context with both sections written anew, as it is where nothing was left out.

        Raises:
            NoBudget: If the ledger is to take a share, and there is no budget.
        """
        if self.max_tokens is None and call.budget is None:
            raise NoBudget(type(self).__name__)
        left = gone(context, call)
        if _is_cut(left, call):
            return self._told_anew(left, context, call)
        _remember(call)
        return context

    def _told_anew(self, left: Gone, context: Context, call: Call) -> Context:
        visible = tuple(message for message in context.messages if not is_recap(message))
        besides, wanted, known = call.meter.counter.count(_HEADINGS), self._most(call), _earlier(call)
        most = None
        if call.budget is not None:
            room = call.budget.limit - call.size(context.with_messages(visible))
            room = max(room, _standing(call))  # what was told goes for nothing that can go
            for_handles = 0 if HANDLES in left.recap.sections else room_for_handles(call)
            wanted = min(wanted, room - for_handles - HEADER - besides)
            most = max(0, room - call.count(left.recap.with_section(VALUES, "").with_section(TRAIL, " x").written()))
        try:
            told = self._memory.after(
                _originals(left, call),
                visible if context.system is None else (context.system, *visible),
                known,
                tokens=max(1, wanted - besides),
                counter=call.meter.counter,
                most=most,
            )
        except SummaryError as error:
            call.remark(f"nothing new is told: {error}")
            told = known
        if not (told.trail or told.ledger) and left.recap == Recap():
            return context
        told_in = Recap().with_section(TRAIL, told.trail).sections.get(TRAIL, "")
        call.internals.notes.unsaid = Unsaid(TRAIL, told_in if told.names_all else "", told.changes)
        made = with_sections(context, {TRAIL: told.trail, VALUES: told.ledger}, call)
        return made if wanted > 0 or _fits(made, call) else _bare(context, call)


def _remember(call: Call) -> None:
    """Let the changed files be known that the recap names, where that has to give way later in the step."""
    known = _earlier(call)
    if changes := trail_in(known.trail).knowing(known.changes).changes:
        names_all = Sections(trail=known.trail, changes=changes).names_all
        call.internals.notes.unsaid = Unsaid(TRAIL, known.trail if names_all else "", changes)


def _bare(context: Context, call: Call) -> Context:
    """The request with a recap that only counts, where nothing more has room; as it is where that has none."""
    made = with_sections(context, {}, call)
    if _fits(made, call):
        return made
    call.remark("there is no room for the recap, which says how much went")
    return context


def _fits(context: Context, call: Call) -> bool:
    return call.budget is None or call.size(context) <= call.budget.limit


_OF_THE_ROOM = 0.1
"""At most this part of the room above what no cut can take away, where that is less than the share of the window."""

_HEADINGS = f"## {TRAIL}\n## {VALUES}\n"

_TERM_LENGTH = 2
"""Characters of a value for a token, or more."""


def _at_most(messages: Iterable[Message], most: int) -> int:
    """Tokens of the values in messages, or about so many; not looked for any further when they are ``most``."""
    found: set[str] = set()
    read: set[str] = set()
    tokens = 0
    for message in messages:
        for text in _texts(message):
            if text in read:
                continue
            read.add(text)
            new = {value.text for value in (*values_in(text), *error_lines(text), *said_in(text))} - found
            tokens += sum(1 + -(-len(each) // _TERM_LENGTH) for each in new)
            found |= new
            if tokens >= most:
                return most
    return tokens


def _earlier(call: Call) -> Sections:
    """What was told before this step: two ledgers of one pipeline tell nothing twice."""
    said: dict[str, str] = {}
    for message in () if call.internals.start is None else call.internals.start.messages:
        said |= (recap_of(message) or Recap()).sections
    return Sections(said.get(VALUES, ""), said.get(TRAIL, ""), call.internals.unsaid)


def _standing(call: Call) -> int:
    """Tokens of the recap before this step."""
    return 0 if call.internals.start is None else sum(map(call.count, filter(is_recap, call.internals.start.messages)))


def _is_cut(left: Gone, call: Call) -> bool:
    """Whether something was left out for want of room: not only a new result cut where a call without session fits."""
    start = call.internals.start
    if not left or left.dropped or left.recap.cleared:
        return bool(left)
    return start is not None and call.limit is not None and call.size(start) > call.limit


def _originals(left: Gone, call: Call) -> tuple[Message, ...]:
    """What was left out, and what something was left out of, as it was, in its order."""
    gone_ids = {id(message) for message in (*left.dropped, *(before for before, _ in left.edited))}
    return (
        ()
        if call.internals.start is None
        else tuple(each for each in call.internals.start.messages if id(each) in gone_ids)
    )


@frozen
class Sections:
    """What is told of what was left out.

    Args:
        ledger: The values; empty when there are none.
        trail: What was done to files, and what ran; empty when nothing was.
        changes: All files that were changed, also those that ``trail`` has no room for.

    Example:
        >>> from agentctx.strategies import Sections
        >>> Sections(trail="edited: src/app.py").ledger
        ''
    """

    ledger: str = ""
    trail: str = ""
    changes: str = ""

    @property
    def names_all(self) -> bool:
        """Whether ``trail`` names all files that were changed."""
        return {*trail_in(self.changes).files} <= {*trail_in(self.trail).files}


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
        >>> from agentctx.strategies import Memory
        >>> from agentctx.tokens import TiktokenCounter
        >>> gone = [Message("user", (Text("Never touch order #W5199551."),))]
        >>> print(Memory().after(gone, (), tokens=60, counter=TiktokenCounter()).ledger)
        said by the user: "Never touch order #W5199551"
    """

    extractors: tuple[Extractor, ...] = field(default=(), converter=as_tuple, validator=_EXTRACTORS)
    rule: ArtifactRule | None = field(default=None, validator=_RULE)
    redact: Redactor = field(default=redact_secrets, validator=REDACTOR)

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
            earlier: What was told of what was left out before; of files that were changed, what is known.
            tokens: The room for both sections; files that were changed are named also when they alone need more.
            counter: Counts tokens.
            most: The room when the files that were changed need more than ``tokens``; None: what they need.
        """
        read = list(read_calls(gone, visible, self.rule))
        trail = trail_in(earlier.trail).knowing(earlier.changes).after(self._safe(read))
        told = trail.text(tokens // _TRAIL_DIVISOR, counter, most)
        room = tokens - counter.count(told) if told else tokens
        found = self.candidates(gone, read, earlier.ledger)
        values = value_lines(found, self._seen_anyway(visible, told), room, counter, self.redact)
        return Sections(values, told, trail.changes)

    def changed(self, messages: Sequence[Message], earlier: Sections, counter: TokenCounter) -> str:
        """The lines of all files that were changed, by messages and what was told: the least that is told.

        Args:
            messages: The messages whose calls are read.
            earlier: What was told before.
            counter: Counts tokens.

        Raises:
            ConfigError: If the rule gives something else than artifacts.
        """
        read = read_calls(messages, (), self.rule)
        return trail_in(earlier.trail).knowing(earlier.changes).after(self._safe(read)).text(0, counter)

    def _safe(self, read: Iterable[ReadCall]) -> Iterator[Artifact]:
        """What calls did without the secrets that stand in commands and names.

        What looks like a file in a command, and is what a secret's name is given (``password -> ...``), is none.
        """
        for each in read:
            told = self.redact(each.call.arguments, "") if each.did else ""
            for done in done_by(each):
                if isinstance(done, RunEvent):
                    yield RunEvent(self.redact(done.command, ""), done.ended, times=done.times)
                elif told == each.call.arguments or not _went(done.path, each.call.arguments, told):
                    yield FileEvent(self.redact(done.path, ""), done.did, done.to and self.redact(done.to, ""))

    def candidates(self, gone: Sequence[Message], read: Iterable[ReadCall], earlier: str = "") -> dict[str, Candidate]:
        """All values in messages, and in an earlier ledger, with what is known of each.

        Args:
            gone: What was left out, as it was, in its order.
            read: Their tool calls, as they were read.
            earlier: The ledger that was told before; empty: none was.
        """
        found, redact = dict(carried(earlier)), cache(self.redact)
        values_of = self._values_of(Counter(each.text for message in gone for each in message.results), redact)
        calls = {id(each.call): each for each in read}
        results = {id(each.result): each for each in calls.values() if each.result is not None}
        for place, message in enumerate(gone, 1):
            age = 1 - place / len(gone)
            for part in message.parts:
                if isinstance(part, ToolResult):
                    for value in values_of(joined(part), _secret_file(results.get(id(part)))):
                        candidate_of(found, value, age).results += 1
                elif isinstance(part, (Text, Thinking)):
                    text = part if isinstance(part, Text) else Text(part.text)
                    self._words(found, message, redact(_said(text), ""), age)
            for call in message.calls:
                self._call(found, calls.get(id(call)), age, redact)
        for handle in {each for message in gone for each in _handles(message)}:
            found.pop(handle, None)
        return found

    def _values_of(self, times: Mapping[str, int], redact: Redactor) -> Callable[[Text, str], Collection[Value]]:
        """Finds the values in the text of a result, given the name of a file; what comes several times is read once."""
        known: dict[tuple[str, str], Collection[Value]] = {}

        def found(text: Text, name: str) -> Collection[Value]:
            values = known.get((text.text, name))
            if values is None:
                told = redact(_said(text), name)
                values = {*values_in(told, self.extractors), *error_lines(told)}
                if times[text.text] > 1:
                    known[text.text, name] = values
            return values

        return found

    def _words(self, found: dict[str, Candidate], message: Message, text: str, age: float) -> None:
        by_user = message.role == "user"
        for value in {*values_in(text, self.extractors), *(said_in(text) if by_user else ())}:
            known = candidate_of(found, value, age)
            known.asked += by_user
            known.said += not by_user

    def _call(self, found: dict[str, Candidate], read: ReadCall | None, age: float, redact: Redactor) -> None:
        if read is None:
            return
        name = _secret_file(read)
        leaves = _leaves(redact(read.call.arguments, ""))
        given = "\n".join(redact(_said(Text(leaf, marks=read.call.marks)), name) for leaf in leaves)
        for value in set(values_in(given, self.extractors)):
            known = candidate_of(found, value, age)
            known.calls += 1
            known.called = age

    def _seen_anyway(self, visible: Iterable[Message], trail: str) -> Callable[[str], bool]:
        """Tells what is to be seen anyway."""
        texts = [trail, *(text for message in visible for text in _texts(message))]
        values = {value.text for text in texts for value in values_in(text)}
        whole = "\n".join(texts)
        return lambda text: text in values or text in whole


_TRAIL_DIVISOR = 6
"""What ran, and what was read, is told in one part in so many of the room."""


def _went(path: str, given: str, told: str) -> bool:
    """Whether a file's name stood in arguments, and went from them with a secret."""
    name = path.rpartition("/")[2]
    return name in given and name not in told


_LONGER = 20
"""A text in tables is read as the document that it stands for where that is at most so many times as long: anybody may
have written it, and a few lines can stand for gigabytes."""


def _said(text: Text) -> str:
    """A text as it was said: in no codes, no tables, and with no marks of ours."""
    bare = without_marks(text)
    return untabulate(bare, _LONGER * len(bare))


def _secret_file(read: ReadCall | None) -> str:
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


_HANDLE = lazy_pattern(r"(?:; [\w.-]{1,64} |\bhandle\"?:? ?\"?)(?P<handle>[0-9a-f]{16,64})\b")


def _handles(message: Message) -> Iterator[str]:
    """What leads to originals, in marks and in calls of the recall tool: the recap names it apart, or not any more."""
    texts = (part.text for part in message.parts if isinstance(part, (Text, ToolResult)))
    for text in (*texts, *(call.arguments for call in message.calls)):
        yield from (found["handle"] for found in _HANDLE.finditer(text))


def _texts(message: Message) -> Iterator[str]:
    yield from words_of(message)
    for call in message.calls:
        yield from _leaves(call.arguments)


@frozen
class ArtifactTrail:
    """What was done to files, and what ran: the latest of each, oldest first.

    Args:
        files: By path.
        runs: By command.
        left_out: How many changed files were too many to be named.

    Example:
        >>> from agentctx.strategies import Did, FileEvent, RunEvent, ArtifactTrail
        >>> trail = ArtifactTrail().after([FileEvent("a.py", Did.EDITED), RunEvent("pytest -q", "failed")])
        >>> print(trail.text())
        edited: a.py
        ran: "pytest -q" failed
    """

    files: Mapping[str, FileTrail] = field(factory=dict)
    runs: Mapping[str, RunTrail] = field(factory=dict)
    left_out: int = 0

    def after(self, done: Iterable[Artifact]) -> ArtifactTrail:
        """The trail with what was done since."""
        files, runs = dict(self.files), dict(self.runs)
        for each in done:
            if isinstance(each, FileEvent):
                known = files.pop(each.path, None)
                files[each.path] = _file_after(known, each)
            else:
                _note_run(runs, each)
        return ArtifactTrail(files, runs, self.left_out)

    @property
    def changed(self) -> tuple[FileTrail, ...]:
        """The files that were changed, or should have been, oldest first."""
        return tuple(file for file in self.files.values() if file.did.changes)

    def text(self, tokens: int | None = None, counter: TokenCounter | None = None, most: int | None = None) -> str:
        """The trail on a few lines, which ``trail_in`` reads back.

        Files that were changed are always named; what ran, and what was read, as far as there is room.

        Args:
            tokens: The room; None: everything is told.
            counter: Counts tokens; needed when there is a limit.
            most: The room when changed files alone need more than ``tokens``; None: they take what they need.
        """
        if tokens is None or counter is None:
            return "\n".join((*_file_lines(self.changed, self.left_out), *self._run_lines(), *_file_lines(self._read)))
        return self._fitted(tokens, counter, most)

    @property
    def _read(self) -> tuple[FileTrail, ...]:
        return tuple(file for file in self.files.values() if not file.did.changes)

    @property
    def changes(self) -> str:
        """All files that were changed, on lines that ``trail_in`` reads back."""
        return "\n".join(_file_lines(self.changed, self.left_out))

    def knowing(self, changes: str) -> ArtifactTrail:
        """The trail with all files of which it names some; ``changes`` are those of a trail that named them all."""
        if not changes:
            return self
        whole = trail_in(changes)
        read = {path: file for path, file in self.files.items() if not file.did.changes}
        return ArtifactTrail({**read, **whole.files}, self.runs, whole.left_out)

    def _fitted(self, tokens: int, counter: TokenCounter, most: int | None) -> str:
        changed, lines = self._changed_lines(tokens, counter, most)
        room = tokens - sum(counter.count(f"{line}\n") for line in lines)
        for run in self._by_weight():
            line = _run_line(run)
            cost = counter.count(f"{line}\n")
            if cost <= room:
                lines.append(line)
                room -= cost
        lines += self._read_lines(room, counter)
        while len(lines) > changed and counter.count("\n".join(lines)) > tokens:
            lines.pop()
        return "\n".join(lines)

    def _changed_lines(self, tokens: int, counter: TokenCounter, most: int | None) -> tuple[int, list[str]]:
        """The lines of changed files: whole names when they take half of the room, else with shared folders."""
        files = self.changed
        lines = _file_lines(files, self.left_out)
        if counter.count("\n".join(lines)) > tokens // 2:
            lines = _file_lines(files, self.left_out, shared=True)
        limit = None if most is None else max(most, tokens)
        while limit is not None and files and counter.count("\n".join(lines)) > limit:
            files = files[max(1, len(files) // 8) :]
            left_out = self.left_out + len(self.changed) - len(files)
            lines = _file_lines(files, left_out, shared=True)
        return len(lines), lines

    def _by_weight(self) -> list[RunTrail]:
        """What ran: tests, builds and what changes the history first, the latest first."""
        latest = tuple(self.runs.values())[::-1]
        return sorted(latest, key=lambda run: not _IMPORTANT.search(run.command))

    def _read_lines(self, room: int, counter: TokenCounter) -> list[str]:
        taken: list[FileTrail] = []
        room -= counter.count("read: \n")
        for file in reversed(self._read):
            cost = counter.count(f", {_file_term(file)}")
            if cost > room:
                break
            room -= cost
            taken.append(file)
        return _file_lines(taken[::-1]) if taken else []

    def _run_lines(self) -> list[str]:
        return [_run_line(run) for run in reversed(tuple(self.runs.values()))]


@frozen
class FileTrail:
    """What is known of a file.

    Args:
        path: The file.
        did: What was last done to it; reading, and a failed edit, are told only while nothing else was done.
        times: How often it was changed; 1 for a file that was only read.
        to: Its new name, when it was renamed.
    """

    path: str
    did: Did
    times: int = 1
    to: str = ""


@frozen
class RunTrail:
    """What is known of a command.

    Args:
        command: The command, on one line.
        ended: How it ended when it last ran; empty when that is not known.
        times: How often it ran, beside what is still to be seen; 0 when only its end is told.
    """

    command: str
    ended: str = ""
    times: int = 1


def _file_after(known: FileTrail | None, event: FileEvent) -> FileTrail:
    """What is known of a file after something else was done to it."""
    if known is None or (event.did.changes and not known.did.changes):
        return FileTrail(event.path, event.did, 1, event.to)
    if not event.did.changes:
        return known
    if event.did is Did.FAILED:
        return evolve(known, times=known.times + (known.did is Did.FAILED))
    new = known.did is Did.CREATED and event.did in (Did.EDITED, Did.WRITTEN)
    return FileTrail(event.path, Did.CREATED if new else event.did, known.times + 1, event.to)


def _note_run(runs: dict[str, RunTrail], event: RunEvent) -> None:
    command = _shown_command(event.command)
    known = runs.pop(command, None)
    times = event.times + (0 if known is None else known.times)
    runs[command] = RunTrail(command, event.ended or ("" if known is None else known.ended), times)


LONGEST_RUN = 160
"""Characters of a command that are told; the rest is said to be left out."""

_BESIDES = lazy_pattern(r"\A(?:cd [\w./~-]{1,200} && )+|(?: 2>&1)?(?: ?\| ?(?:tail|head)(?: -n)?(?: ?-?\d{1,6})?)*\Z")
"""What stands around a command and is not part of what it does."""


def _shown_command(command: str) -> str:
    """A command on one line, cut to what is told of it."""
    line = _BESIDES.sub("", " ".join(command[: 4 * LONGEST_RUN].split()))
    return line if len(line) <= LONGEST_RUN else f"{line[: LONGEST_RUN - 1]}…"


_IMPORTANT = lazy_pattern(
    r"\b(?:test|tests|pytest|jest|vitest|tox|nox|unittest|lint|check|build|make|mypy|ruff|tsc|clippy|vet|commit|push|"
    r"merge|rebase|install|deploy|migrate)\b"
)


_DONE_IN_ORDER = (Did.CREATED, Did.WRITTEN, Did.EDITED, Did.RENAMED, Did.DELETED, Did.FAILED, Did.READ)


def _file_lines(files: Sequence[FileTrail], left_out: int = 0, *, shared: bool = False) -> list[str]:
    """A line for each thing that was done, the latest file first."""
    lines = []
    for did in _DONE_IN_ORDER:
        found = [file for file in reversed(files) if file.did is did]
        if found:
            lines.append(f"{did.value}: {', '.join(_by_folder(found) if shared else map(_file_term, found))}")
    return [*lines, f"and {left_out} more changed files"] if left_out else lines


def _file_term(file: FileTrail, path: str | None = None) -> str:
    times = f" x{file.times}" if file.times > 1 and file.did.changes else ""
    to = f" -> {quoted(file.to)}" if file.to else ""
    return f"{quoted(file.path if path is None else path)}{to}{times}"


def _by_folder(files: Sequence[FileTrail]) -> Iterator[str]:
    """Terms in which files of one folder share its name: ``src/{a.py, b.py x2}``."""
    folders: dict[str, list[FileTrail]] = {}
    for file in files:
        folders.setdefault(_folder(file), []).append(file)
    for folder, inside in folders.items():
        if folder and len(inside) > 1:
            yield f"{folder}{{{', '.join(_file_term(file, file.path[len(folder) :]) for file in inside)}}}"
        else:
            yield from map(_file_term, inside)


def _folder(file: FileTrail) -> str:
    """The folder that a file may share with others; empty when its name has to be quoted."""
    before, slash, name = file.path.rpartition("/")
    return f"{before}/" if slash and name and quoted(file.path) == file.path and not file.to else ""


def _run_line(run: RunTrail) -> str:
    times = f" x{run.times}" if run.times > 1 else ""
    return f"{'ran' if run.times else 'ended'}: {_in_quotes(run.command)}{run.ended and ' ' + run.ended}{times}"


def _in_quotes(text: str) -> str:
    term = quoted(text)
    return term if term.startswith('"') else f'"{term}"'


def trail_in(text: str) -> ArtifactTrail:
    """The trail that a text tells; lines that are none of its own say nothing.

    Example:
        >>> from agentctx.strategies import trail_in
        >>> sorted(trail_in("edited: src/{app.py, view.py}").files)
        ['src/app.py', 'src/view.py']
    """
    files: list[FileTrail] = []
    runs: list[RunTrail] = []
    left_out = 0
    for line in text.splitlines():
        if found := _FILES.fullmatch(line):
            files += _files_in(Did(found["did"]), found["files"])
        elif found := _RAN.fullmatch(line):
            times = 0 if found["what"] == "ended" else int(found["times"] or 1)
            runs.append(RunTrail(unquoted(found["command"]), found["ended"] or "", times))
        elif found := _MORE.fullmatch(line):
            left_out += int(found["more"])
    return ArtifactTrail(
        {file.path: file for file in reversed(files)}, {run.command: run for run in reversed(runs)}, left_out
    )


_FILES = lazy_pattern(rf"(?P<did>{'|'.join(did.value for did in Did)}): (?P<files>.+)")
_RAN = lazy_pattern(
    r"(?P<what>ran|ended): (?P<command>\"(?:[^\"\\\n]|\\.)*+\")"
    r"(?: (?P<ended>ok|failed|exit -?\d{1,3}|running \w{1,40}))?"
    r"(?: x(?P<times>\d{1,6}))?"
)
_MORE = lazy_pattern(r"and (?P<more>\d{1,9}) more changed files")
_FILE_TERM = lazy_pattern(
    rf"(?P<open>[\w./~@+%:#$€£-]+/)\{{|(?P<close>\}})|(?P<path>{TERM})(?: -> (?P<to>{TERM}))?"
    rf"(?: x(?P<times>\d{{1,6}})(?=[,}}]|$))?|{OPEN_QUOTE}"
)


def _files_in(did: Did, text: str) -> Iterator[FileTrail]:
    folder = ""
    for found in _FILE_TERM.finditer(text):
        if found["open"]:
            folder = found["open"]
        elif found["close"]:
            folder = ""
        elif found["path"]:
            yield FileTrail(
                folder + unquoted(found["path"]), did, int(found["times"] or 1), unquoted(found["to"] or "")
            )
