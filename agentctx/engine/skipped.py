"""What a cut leaves out for certain is not read: only what stands around it is, and then what little the cut keeps.

Where the only stage drops what is oldest, the newest messages alone may be over its limit. Then it drops everything
between them and the first task, whatever stands in it. So the newest messages are read and counted, latest first, until
they are over the limit; what is before them is looked at as a whole: is it so ordinary that nothing would have to be
repaired in it? The step goes on with the messages around it, and comes to the same view. The sizes of what was left out
are counted when somebody asks the report for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property, partial

from attrs import evolve, frozen

from agentctx.core.change_log import ChangesInForce, Span
from agentctx.core.compare import Change, Outcome
from agentctx.core.later import with_later
from agentctx.core.message import ROLES, Message, Native, Thinking
from agentctx.core.pace import paced
from agentctx.core.report import Forecast, Report, StageReport
from agentctx.engine.drop import oldest_first
from agentctx.engine.reading import Reader
from agentctx.engine.repair import has_server_calls
from agentctx.errors import InvalidInput
from agentctx.wire_format import Outline, calls_and_results

WORTH_IT = 200
"""Messages. To read fewer costs less than to find out that they need not be read."""

_ASSISTANT, _RESULTS = "a123456789", "ABCDEFGHI"

_ROUNDS = (f"{number}(?:A{{{number}}}|{_RESULTS[number - 1]})" for number in range(2, 10))
_WHOLE = re.compile(f"(?:[ua]|1A|{'|'.join(_ROUNDS)})*+")
"""The shape of messages in which all results of a call follow it at once."""


@frozen(eq=False, repr=False)
class Skipped:
    """Neighbouring messages of a history that are left out and were not read.

    Args:
        start: Index of the first.
        stop: Index after the last.
        around: The messages before and after them, as values.
        stage: The stage that would drop them.
        reason: Why.
        reader: Reads the history.
        outline: What its messages are, at a glance.
    """

    start: int
    stop: int
    around: Sequence[Message]
    stage: str
    reason: str
    reader: Reader
    outline: Outline

    def __len__(self) -> int:
        """How many there are."""
        return self.stop - self.start

    @property
    def origins(self) -> list[int]:
        """The index in the history of each message around them."""
        return [*range(self.start), *range(self.stop, len(self.outline.shape))]

    @cached_property
    def _messages(self) -> list[Message]:
        read, natives = self.reader.wire.read_message, self.outline.again(self.start, self.stop)
        return [read(native, index) for index, native in enumerate(natives, self.start)]

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """What is said of each."""
        known = zip(range(self.start, self.stop), self._messages, strict=True)
        count, stage, why = self.reader.meter.message, self.stage, self.reason
        return tuple([Change(at, each.role, Outcome.DROPPED, stage, why, count(each), 0) for at, each in known])

    @cached_property
    def tokens(self) -> int:
        """Their tokens."""
        return sum(change.tokens_before for change in self.changes)

    @cached_property
    def bytes(self) -> int:
        """Their bytes."""
        return sum(map(self.reader.meter.weight, self._messages))

    def span(self) -> Span:
        """The line of them in the log of changes."""
        return Span(self.start, self.stop, Outcome.DROPPED, self.stage, self.reason)

    def in_force(self, known: ChangesInForce) -> ChangesInForce:
        """The changes in force with theirs, of which ``known`` has the sizes and the roles of those around them."""
        start, sizes, roles = self.start, known.sizes, known.roles

        def all_sizes() -> Sequence[int]:
            return [*sizes[:start], *(change.tokens_before for change in self.changes), *sizes[start:]]

        def all_roles() -> Sequence[int]:
            return [*roles[:start], *(ROLES.index(change.role) for change in self.changes), *roles[start:]]

        return with_later(evolve(known), {"sizes": all_sizes, "roles": all_roles})

    def told(self, report: Report, billed: Callable[[int], Callable[[], Forecast] | None]) -> Report:
        """The report on a step that has read what is around them only, with them in it.

        Args:
            report: The report.
            billed: Works out what the call costs where so many tokens more were passed in.
        """
        first, *others = report.stages

        def forecast() -> Forecast | None:
            known = billed(self.tokens)
            return None if known is None else known()

        whole = with_later(
            evolve(first), {"changes": partial(self._among, first), "tokens_before": lambda: self._with(first)}
        )
        return with_later(
            evolve(
                report,
                stages=(whole, *others),
                messages_before=report.messages_before + len(self),
                first_changed=self.start if report.first_changed is None else min(self.start, report.first_changed),
                forecast=None if billed(0) is None else forecast,
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
        place = sum(change.index < self.start for change in report.changes)
        return (*report.changes[:place], *self.changes, *report.changes[place:])


def skipped(natives: Sequence[Native], reader: Reader, stage: str, aim: int, head_tokens: int) -> Skipped | None:
    """What a stage that drops the oldest rounds leaves out for certain; None where all has to be read.

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
    try:
        newest = _newest(natives, reader, outline.shape, aim - head_tokens)
        start = _start(outline, len(natives) - len(newest))
        if start is None:
            return None
        read = reader.wire.read_message
        around = [*(read(native, index) for index, native in enumerate(natives[:start])), *newest]
    except InvalidInput:  # of several messages that cannot be read the first is named
        return None
    found = Skipped(start, len(natives) - len(newest), around, stage, oldest_first(aim), reader, outline)
    known = {id(native) for native in (*natives[:start], *natives[found.stop :])}
    if not known.isdisjoint(map(id, natives[start : found.stop])):  # which of the places it is, all around it tells
        return None
    thinks = any(type(part) is Thinking for message in around[:start] for part in message.parts)  # which may bind on
    return None if thinks or has_server_calls(around) or _repeats(found) else found


def _newest(natives: Sequence[Native], reader: Reader, shape: str, room: int) -> list[Message]:
    """The last messages, all of a bundle of rounds, that have more than ``room`` tokens; all when none have.

    The user's last words are among them, unless they are the first, and something that the model says.
    """
    read, count = reader.wire.read_message, reader.meter.message
    found: list[Message] = []
    tokens, spoke = 0, False
    last = shape.rfind("u")
    last = len(shape) if last == shape.find("u") else last
    for index in paced(range(len(shape) - 1, -1, -1)):
        found.append(read(natives[index], index))
        tokens += count(found[-1])
        spoke = spoke or shape[index] in _ASSISTANT
        if tokens > room and index <= last and spoke and _begins_bundle(shape, index):
            break
    return found[::-1]


def _begins_bundle(shape: str, index: int) -> bool:
    """Whether a round ends before a message, and the questions of another, or that one itself, begin with it."""
    if not index or shape[index] not in "u" + _ASSISTANT:
        return False
    return shape[index - 1] in _RESULTS or (shape[index - 1] == "a" and shape[index] == "u")


def _start(outline: Outline, stop: int) -> int | None:
    """Where the messages begin that need not be read, which end before ``stop``; None when there are too few.

    Before them stand the first task and all that is not ordinary; they begin as what follows them does, so that what
    stands before them has such a neighbour as it had.
    """
    shape = outline.shape
    task = shape.find("u")
    if task < 0 or stop == len(shape) or not stop:
        return None
    asks = shape[stop] == "u"
    for start in range(max(task + 1, shape.rfind("?", 0, stop) + 2), stop - WORTH_IT):
        before, letter = shape[start - 1], shape[start]
        if letter not in _RESULTS and asks == (letter == "u") and (asks or before not in _ASSISTANT):
            return start if _pairs_are_whole(outline, start, stop) else None
    return None


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
