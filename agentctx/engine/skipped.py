"""A short cut: what a cut leaves out for certain is not even read; the user's words are.

Where the only stage is one that cuts (``engine/cut.py``), it works from the newest round back, and knows of what is
before the last round that it keeps the user's words alone. So the newest messages are read, latest first, until there
are more than it can keep, and the words of all time; what is between is looked at as a whole: is it so ordinary that
nothing would have to be repaired in it? The step goes on with what was read. When the cut has left out the oldest
rounds of that, it would have come to the same view; else all is read. The sizes of what was left out are counted when
somebody asks the report for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import compress, groupby
from operator import attrgetter

from attrs import evolve, frozen

from agentctx.core.changes import Change, ChangesInForce, Outcome, Span
from agentctx.core.message import ROLES, Message, Native, Thinking, remember_bare
from agentctx.core.pace import paced
from agentctx.core.recap import is_recap
from agentctx.core.report import Forecast, Report, StageReport
from agentctx.engine.cut import OF_THE_USER, OLD_RESULTS, OUT_OF_PROPORTION, RECENT, oldest_first
from agentctx.engine.reading import Reader
from agentctx.engine.repair import has_server_calls
from agentctx.engine.run_stages import UNSAID
from agentctx.engine.shrink import cleared as without_content, edit_results
from agentctx.errors import InvalidInput
from agentctx.lazy import with_later
from agentctx.wire_format import Outline, calls_and_results

WORTH_IT = 200
"""Messages. To read fewer costs less than to find out that they need not be read."""

_MORE = 1.05
"""So much of what the cut can keep is read; where it reaches further all the same, all is read."""

_MUCH_MORE = 1.2
"""So many of the results for which there is room are counted; where it puts more back all the same, all is read."""

_CLEARED = 10
"""Tokens of a result that is cleared, or fewer."""

_ASSISTANT, _RESULTS = "a123456789", "ABCDEFGHI"

_RESULT = re.compile(f"[{_RESULTS}]")

_ROUNDS = (f"{number}(?:A{{{number}}}|{_RESULTS[number - 1]})" for number in range(2, 10))
_WHOLE = re.compile(f"(?:[ua]|1A|{'|'.join(_ROUNDS)})*+")
"""The shape of messages in which all results of a call follow it at once."""


@frozen(eq=False, repr=False)
class Skipped:
    """Messages of a history that are left out and were not read: all between two places that is not the user's.

    Args:
        start: Index of the first.
        stop: Index after the last.
        oldest: Index after the oldest rounds that were read behind them.
        around: All other messages, as values.
        odd: Those of them that may have to be repaired; the others are as ordinary as what was not read.
        cleared: Those of them whose results go for certain, as they were read and as they are in ``around``, by index.
        stage: The stage that would drop them.
        reason: Why.
        reader: Reads the history.
        outline: What its messages are, at a glance.
    """

    start: int
    stop: int
    oldest: int
    around: Sequence[Message]
    odd: Sequence[Message]
    cleared: Mapping[int, tuple[Message, Message]]
    stage: str
    reason: str
    reader: Reader
    outline: Outline

    def __len__(self) -> int:
        """How many there are."""
        return len(self.places)

    @cached_property
    def places(self) -> list[int]:
        """The index of each."""
        start, stop = self.start, self.stop
        return list(compress(range(start, stop), map("u".__ne__, self.outline.shape[start:stop])))

    @cached_property
    def origins(self) -> list[int]:
        """The index in the history of each message around them."""
        shape, start, stop = self.outline.shape, self.start, self.stop
        return [index for index, letter in enumerate(shape) if letter == "u" or not start <= index < stop]

    def surely(self, origins: Sequence[int | None], reports: Sequence[StageReport]) -> bool:
        """Whether the stage would have left them out, which has kept what has these indexes of what it was shown.

        And whether it would have cleared what was shown to it cleared: it has, where it had to clear anything newer, as
        it puts results back up to the first that has no room.
        """
        shape = self.outline.shape
        if any(each is not None and self.stop <= each < self.oldest and shape[each] != "u" for each in origins):
            return False
        return not self.cleared or (len(reports) == 1 and self._why_cleared(reports[0]) is not None)

    def _why_cleared(self, report: StageReport) -> str | None:
        """What is said of a result that the stage has cleared itself, of one behind all that it was shown cleared."""
        newest = max(self.cleared)
        said = (change.reason for change in report.changes if change.index > newest)
        return next((reason for reason in said if reason.endswith(OLD_RESULTS)), None)

    @cached_property
    def _messages(self) -> list[Message]:
        read, again = self.reader.wire.read_message, self.outline.again(self.start, self.stop)
        return [read(again[index - self.start], index) for index in self.places]

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """What is said of each."""
        known = zip(self.places, self._messages, strict=True)
        count, stage, why = self.reader.meter.message, self.stage, self.reason
        return tuple([Change(at, each.role, Outcome.DROPPED, stage, why, count(each), 0) for at, each in known])

    def _of_cleared(self, report: StageReport) -> Iterator[Change]:
        """What is said of each message that the stage was shown cleared; it has kept it so, or dropped it."""
        said, count = {change.index: change for change in report.changes}, self.reader.meter.message
        why = self._why_cleared(report) or UNSAID if self.cleared else UNSAID
        for at, (whole, now) in self.cleared.items():
            if at in said:
                yield evolve(said[at], tokens_before=count(whole))
            else:
                yield Change(at, whole.role, Outcome.EDITED, self.stage, why, count(whole), count(now))

    @cached_property
    def tokens(self) -> int:
        """Their tokens, and those that others were shown to the stage without."""
        count = self.reader.meter.message
        gone = sum(count(whole) - count(now) for whole, now in self.cleared.values())
        return gone + sum(change.tokens_before for change in self.changes)

    @cached_property
    def bytes(self) -> int:
        """Their bytes, and those that others were shown to the stage without."""
        weigh = self.reader.meter.weight
        gone = sum(weigh(whole) - weigh(now) for whole, now in self.cleared.values())
        return gone + sum(map(weigh, self._messages))

    def spans(self) -> Iterator[Span]:
        """The lines of them in the log of changes."""
        for _, run in groupby(enumerate(self.places), lambda each: each[1] - each[0]):
            places = [place for _, place in run]
            yield Span(places[0], places[-1] + 1, Outcome.DROPPED, self.stage, self.reason)

    def in_force(self, known: ChangesInForce, reports: Sequence[StageReport]) -> ChangesInForce:
        """The changes in force with theirs, of which ``known`` has the sizes and the roles of those around them."""
        sizes, roles, count = known.sizes, known.roles, self.reader.meter.message
        there = known.changes

        def all_changes() -> tuple[Change, ...]:
            more = self._of_cleared(reports[0]) if self.cleared else ()
            edited = [change for change in more if change.outcome is Outcome.EDITED]
            return tuple(sorted((*there, *edited), key=_AT))

        def all_sizes() -> Sequence[int]:
            theirs = {change.index: change.tokens_before for change in self.changes}
            return self._laid_out(sizes, theirs | {at: count(whole) for at, (whole, _) in self.cleared.items()})

        def all_roles() -> Sequence[int]:
            return self._laid_out(roles, {change.index: ROLES.index(change.role) for change in self.changes})

        return with_later(evolve(known), {"changes": all_changes, "sizes": all_sizes, "roles": all_roles})

    def _laid_out(self, around: Sequence[int], theirs: dict[int, int]) -> Sequence[int]:
        """A number for each message of the history: those of the messages around them, and theirs."""
        every = dict(zip(self.origins, around, strict=True)) | theirs
        return [every[index] for index in range(len(every))]

    def told(self, report: Report, billed: Callable[[int], Forecast | None]) -> Report:
        """The report on a step that has read what is around them only, with them in it.

        Args:
            report: The report.
            billed: Works out, when asked, what the call costs where so many tokens more were passed in.
        """
        first, *others = report.stages
        whole = with_later(
            evolve(first), {"changes": partial(self._among, first), "tokens_before": lambda: self._with(first)}
        )
        return with_later(
            evolve(
                report,
                stages=(whole, *others),
                messages_before=report.messages_before + len(self),
                first_changed=self.start if report.first_changed is None else min(self.start, report.first_changed),
                forecast=lambda: billed(self.tokens),
            ),
            {
                "tokens_before": lambda: report.tokens_before + self.tokens,
                "bytes_before": lambda: report.bytes_before + self.bytes,
            },
        )

    def _with(self, report: StageReport) -> int:
        return report.tokens_before + self.tokens

    def _among(self, report: StageReport) -> tuple[Change, ...]:
        """Their changes among those of the stage, by index."""
        others = [change for change in report.changes if change.index not in self.cleared]
        return tuple(sorted((*others, *self._of_cleared(report), *self.changes), key=_AT))


_AT = attrgetter("index")


def skipped(natives: Sequence[Native], reader: Reader, stage: str, aim: int, head_tokens: int) -> Skipped | None:
    """What a stage that cuts leaves out, most likely; None where all has to be read.

    Args:
        natives: The history.
        reader: Reads it.
        stage: The name of the stage.
        aim: The tokens that it comes down to.
        head_tokens: The tokens of what stands before the messages.
    """
    outline = reader.wire.outline(natives)
    if outline is None:
        return None
    shape, read = outline.shape, reader.wire.read_message
    try:
        places = compress(range(len(shape)), map("u".__eq__, shape))
        spoken = {index: read(natives[index], index) for index in paced(places)}
        newest, begins, cleared = _newest(natives, reader, shape, spoken, aim - head_tokens)
        stop = len(natives) - len(newest)
        start = _start(outline, stop)
        if start is None or len(begins) < _OLDEST:
            return None
        if cleared and not _pairs_are_whole(outline, stop, _end_of_round(shape, max(cleared))):
            return None
        first = [spoken[index] if index in spoken else read(natives[index], index) for index in range(start)]
    except InvalidInput:  # of several messages that cannot be read the first is named
        return None
    between = [message for index, message in spoken.items() if start <= index < stop]
    around = [*first, *between, *newest]
    odd = first if _pairs_are_whole(outline, stop, len(shape)) else around
    found = Skipped(start, stop, begins[-_OLDEST], around, odd, cleared, stage, oldest_first(aim), reader, outline)
    known = {id(message.source) for message in around}
    if not known.isdisjoint(map(id, map(natives.__getitem__, found.places))):  # all around it tells which place it is
        return None
    _note_bare(found)
    for message in paced(around):
        reader.meter.message(message)  # what is not counted yet, before the step goes on with it
    thinks = any(type(part) is Thinking for message in first for part in message.parts)  # which may bind on
    counts = any(map(is_recap, around))  # a recap, what is left out
    return None if thinks or counts or has_server_calls(around) or _repeats(found) else found


def _note_bare(found: Skipped) -> None:
    """Note on what is ordinary that it has no cache marker."""
    shape, known = found.outline.shape, zip(found.origins, found.around, strict=True)
    ordinary = [message for index, message in known if shape[index] != "?"]
    remember_bare(ordinary, found.reader.wire.cache_markers)


_OLDEST = 3
"""Bundles of rounds: when all before the third go, the cut has looked at none before the second."""


def _newest(
    natives: Sequence[Native], reader: Reader, shape: str, spoken: Mapping[int, Message], room: int
) -> tuple[list[Message], list[int], dict[int, tuple[Message, Message]]]:
    """The last messages, all of a bundle of rounds, more than a cut keeps in ``room`` tokens; all when it keeps all.

    The user's last words are among them, unless they are the first, something that the model says, and the newest
    round with results, if there is one, which the cut may keep whole. Results are cleared from where the cut will
    have no room to put any back: they need not be counted.

    Args:
        natives: The history.
        reader: Reads it.
        shape: What its messages are.
        spoken: The user's words, by index.
        room: What there is room for, in tokens.

    Returns:
        The messages, the indexes at which the bundles begin, latest first, and what was cleared, as of ``Skipped``.
    """
    read, count = reader.wire.read_message, reader.meter.message
    found: list[Message] = []
    begins: list[int] = []
    cleared: dict[int, tuple[Message, Message]] = {}
    words, bare, more = sum(map(count, spoken.values())), 0, 0
    most = int(OUT_OF_PROPORTION * room)
    spoke = full = False
    told = _RESULT.search(shape) is None
    last = shape.rfind("u")
    last = len(shape) if last == shape.find("u") else last
    for index in paced(range(len(shape) - 1, -1, -1)):
        message = spoken[index] if index in spoken else read(natives[index], index)
        if shape[index] in _RESULTS:
            told = True
            bare += _CLEARED
            if full:
                whole, message = message, edit_results(message, without_content)
                cleared |= {index: (whole, message)} if message is not whole else {}
            else:
                more += min(count(message), most) - _CLEARED
        else:
            bare += count(message)
            words -= count(message) if index in spoken else 0
        found.append(message)
        spoke = spoke or shape[index] in _ASSISTANT
        if not _begins_bundle(shape, index):
            continue
        begins.append(index)
        full = spoke and more > _MUCH_MORE * RECENT * room
        kept = bare + min(more, RECENT * room) + min(words, OF_THE_USER * room)
        if kept > _MORE * room and index <= last and spoke and told:
            break
    return found[::-1], begins, cleared


def _begins_bundle(shape: str, index: int) -> bool:
    """Whether a round ends before a message, and the questions of another, or that one itself, begin with it."""
    if not index or shape[index] not in "u" + _ASSISTANT:
        return False
    return shape[index - 1] in _RESULTS or (shape[index - 1] == "a" and shape[index] == "u")


def _start(outline: Outline, stop: int) -> int | None:
    """Where the messages begin that need not be read, which end before ``stop``; None when there are too few.

    Before them stand the first task and all that is not ordinary; they begin with words or calls of the model that go
    on from nothing.
    """
    shape = outline.shape
    task = shape.find("u")
    if task < 0 or stop == len(shape) or not stop:
        return None
    for start in range(max(task + 1, shape.rfind("?", 0, stop) + 2), stop - WORTH_IT):
        if shape[start] in _ASSISTANT and shape[start - 1] not in _ASSISTANT:
            return start if _pairs_are_whole(outline, start, stop) else None
    return None


def _end_of_round(shape: str, index: int) -> int:
    """The index after the results among which one has this index."""
    return next((place for place in range(index, len(shape)) if shape[place] not in _RESULTS), len(shape))


def _pairs_are_whole(outline: Outline, start: int, stop: int) -> bool:
    """Whether each call has its result directly after it, and no other has one."""
    if _WHOLE.fullmatch(outline.shape, start, stop) is None:
        return False
    (asked, answered), (asked_after, answered_after) = (
        calls_and_results(outline.shape, place) for place in (start, stop)
    )
    return outline.calls[asked:asked_after] == outline.results[answered:answered_after]


def _repeats(found: Skipped) -> bool:
    """Whether a call has the id of another, where the provider would refuse that."""
    if not found.reader.wire.unique_ids:
        return False
    asked, after = (calls_and_results(found.outline.shape, place)[0] for place in (found.start, found.stop))
    left = found.outline.calls[asked:after]
    known = {call.id for message in found.around for call in message.calls}
    return len(set(left)) < len(left) or not known.isdisjoint(left)
