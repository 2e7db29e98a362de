"""What stands for what is gone: one message says it, behind the first task, until the next cut puts another there.

A stage that leaves something out by ``leave_out`` gets back what is left, without the earlier recap, and what went,
that recap among it. It has words found for what went (``LeftOut.in_words``), and puts them there
(``LeftOut.with_summary``); where there are none it takes its cut back, or goes another way.
A stage that only tells of what others left out (``Ledger``) is given what went by ``gone``, writes its sections by
``with_sections``, and has had room left for them by ``reserves``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from attrs import field, frozen

from agentctx.changes import Outcome, match
from agentctx.characters import cluster_end_before, on_one_line, said_by
from agentctx.engine.run_stages import writes_recap
from agentctx.engine.shrink import CLEARED
from agentctx.engine.summary import SUMMARY, Asking, SummaryRecord, record_in, says_nothing
from agentctx.errors import StageError, SummaryError
from agentctx.lazy import lazy_pattern
from agentctx.marks import Recap, is_recap, quoted, recap_of, recaps, stands_for
from agentctx.message import Context, Message, ToolResult
from agentctx.protocols import Call, ContextStrategy, run_plain
from agentctx.unit import first_task
from agentctx.users_code import offload

Cut = Callable[[Context, Call], Context]
"""Leaves something out of a context; a plain function."""

Write = Callable[[str], Message]
"""The message that says a text in the place of what went."""

NO_ROOM = "there is no room for a summary"


@frozen(eq=False, repr=False)
class LeftOut:
    """What a cut has left out of a request, or of a block.

    Args:
        context: What is left, without the recaps that stood there.
        gone: What went, with these recaps.
        recap: What is said of it beside a summary.
        call: What the stage is told.
    """

    context: Context
    gone: tuple[Message, ...]
    recap: Recap
    call: Call

    @property
    def is_known(self) -> bool:
        """Whether nothing went but recaps, which say it already."""
        return all(map(is_recap, self.gone))

    async def in_words(
        self,
        asking: Asking,
        room: int,
        stage: str,
        write: Write | None = None,
        forgives: Callable[[Exception], bool] = lambda _error: True,
    ) -> tuple[Message | None, str]:
        """The message that says what went, of at most ``room`` tokens, and an empty text; or None and why.

        Args:
            asking: The summarizer that finds the words.
            room: Tokens that the message may have.
            stage: Who asks, for errors.
            write: Makes the message of the words; without it, the recap.
            forgives: Whether an error of the summarizer's costs no more than its words.

        Raises:
            Exception: What is not forgiven.
        """
        write = self.written if write is None else write
        left = room - self.call.count(write(""))
        if left <= 0 or not self.gone:
            return None, NO_ROOM
        try:
            known = self.is_known
            text = record_in(self.gone).text if known else await asking.words(self.gone, left, self.call, stage)
        except SummaryError as error:
            return None, str(error)
        except Exception as error:
            if not forgives(error):
                raise
            what = error.what if isinstance(error, StageError) else f"the summarizer raised {said_by(error)}"
            return None, what
        return self.within(room, text, write), ""

    def within(self, room: int, text: str, write: Write) -> Message | None:
        """The message, its words cut to what fits; None when nothing fits, or nothing is said."""
        shorter = list(SummaryRecord.read(text).shortened())
        found = bisect_left(shorter, 1, key=lambda record: int(self.call.count(write(record.text)) <= room))
        text = shorter[min(found, len(shorter) - 1)].text
        while not says_nothing(text):
            made = write(text)
            tokens = self.call.count(made)
            if tokens <= room:
                return made
            text = text[: cluster_end_before(text, min(len(text) - 1, len(text) * room // tokens))]
        return None

    def written(self, text: str) -> Message:
        """The recap with a summary."""
        return self.recap.with_section(SUMMARY, text).written()

    def with_summary(self, made: Message) -> Context:
        """What is left, with the message that says what went.

        In a request it stands behind the first task, else behind the system messages that lead; a block begins with it.
        """
        for message in self.gone:
            why = self.call.internals.notes.why(message).why
            self.call.note(message, f"{why}, in the summary" if why else "in the summary", Outcome.SUMMARISED)
        self.call.note(made, _stands_for(self.recap))
        return _with_recap(self.context, made, self.call)


def _stands_for(recap: Recap) -> str:
    """What is said of the recap in the report."""
    said = f"{recap.messages} messages that were left out" if recap.messages else "what was cleared or cut short"
    return f"stands for {said}"


async def leave_out(cut: Cut, context: Context, call: Call) -> LeftOut:
    """What a cut takes from a context without its recaps; it runs in a worker thread when the request is large."""
    return await run_plain(partial(_left_out, cut), context, call)


def _left_out(cut: Cut, context: Context, call: Call) -> LeftOut:
    after = cut(_without_recaps(context, call), call)
    went = tuple(context.messages[index] for index in match(context.messages, after.messages).dropped)
    since = context if call.internals.start is None or call.internals.stays is not None else call.internals.start
    if since is not context:  # an earlier stage of this step may have left out some, too
        dropped = tuple(since.messages[index] for index in match(since.messages, after.messages).dropped)
    else:
        dropped = went
    return LeftOut(after, went, _counted(dropped, after, _sections_of(went), call), call)


def _without_recaps(context: Context, call: Call) -> Context:
    """The request without the recaps in it, but for those that the caller protects; a block as it is."""
    taken = frozenset(() if call.internals.stays is not None else recaps(context.messages)) - call.frozen(context)
    kept = (message for index, message in enumerate(context.messages) if index not in taken)
    return context.with_messages(tuple(kept)) if taken else context


def _counted(went: Iterable[Message], after: Context, sections: Mapping[str, str], call: Call) -> Recap:
    """The recap with these sections; it stands for what went now, and what the history lacks since earlier steps.

    A message that the caller passed counts as what it stands for. What repair has made is not counted, nor what an
    earlier recap of a stage's counts: that is known (``Call.left_out``).
    """
    messages, calls = (0, 0) if call.internals.left_out is None else call.internals.left_out()
    given = None if call.internals.given is None else call.internals.given()
    for message in went:
        passed = given is None or message.identity in given
        if passed or (call.internals.left_out is None and is_recap(message)):
            more = stands_for(message)
            messages, calls = messages + more[0], calls + more[1]
    return Recap(messages, calls, _cleared(after, call), sections)


def _sections_of(messages: Iterable[Message]) -> Mapping[str, str]:
    """What the recaps among messages say; of a section the last."""
    said: dict[str, str] = {}
    for message in messages:
        said |= (recap_of(message) or Recap()).sections
    return said


def _cleared(after: Context, call: Call) -> int:
    """How many results are cleared: where no recap of ours stood, what read so before is a tool's own words."""
    found = list(_read_as_cleared(after.messages))
    if call.internals.start is None or recaps(call.internals.start.messages):
        return len(found)
    said_so = set(map(id, _read_as_cleared(call.internals.start.messages)))
    return sum(id(result) not in said_so for result in found)


def _read_as_cleared(messages: Iterable[Message]) -> Iterator[ToolResult]:
    return (result for message in messages for result in message.results if result.text.startswith(CLEARED[:-1]))


def _with_recap(context: Context, made: Message, call: Call) -> Context:
    """The request with a recap, behind the first task, else the system messages that lead; a block begins with it."""
    messages = context.messages
    leading = next((place for place, message in enumerate(messages) if not message.is_system), len(messages))
    place = next((task + 1 for task in first_task(messages)), leading) if call.internals.stays is None else 0
    return context.with_messages((*messages[:place], made, *messages[place:]))


@frozen(eq=False, repr=False)
class Gone:
    """What was left out since the stages of a step began.

    Args:
        dropped: The messages that are not there any more, in order.
        edited: The messages of which something is left, as they were and as they are.
        recap: What the recap says of all that went, before and now; its sections are those of the last cut.
    """

    dropped: tuple[Message, ...] = ()
    edited: tuple[tuple[Message, Message], ...] = ()
    recap: Recap = field(default=Recap())

    def __bool__(self) -> bool:
        """Whether anything was."""
        return bool(self.dropped or self.edited)


def gone(context: Context, call: Call) -> Gone:
    """What was left out of a request since the stages of this step began; nothing where that is not known."""
    if call.internals.start is None or call.internals.stays is not None:
        return Gone()
    before = call.internals.start.messages
    found = match(before, context.messages)
    dropped = tuple(before[index] for index in found.dropped)
    edited = tuple((before[old], context.messages[new]) for old, new in found.edited)
    standing, frozen = recaps(context.messages), call.frozen(context)
    replaced = [context.messages[place] for place in standing if place not in frozen]
    sections = _sections_of(replaced if standing else dropped)
    recap = _counted((*dropped, *replaced), context, sections, call)
    plain = tuple(message for message in dropped if not is_recap(message))
    return Gone(plain, tuple(pair for pair in edited if not is_recap(pair[0])), recap)


def counted(context: Context, call: Call) -> Context:
    """The request with a recap that counts all that went in this step, too; the same object where there is none."""
    standing = [
        recap_of(context.messages[place]) for place in recaps(context.messages) if place not in call.frozen(context)
    ]
    if not standing or (call.internals.start is not None and standing == [gone(context, call).recap]):
        return context
    return with_sections(context, {}, call)


def line_for(context: Context, call: Call) -> int:
    """Tokens of the shortest recap, where a stage is to write one and none stands yet; else 0."""
    if not call.internals.reserved or any(map(is_recap, context.messages)):
        return 0
    left = gone(context, call)
    return call.count(left.recap.written()) if left.dropped else 0


def giving_way(context: Context, limit: int, call: Call) -> Context:
    """The request with a recap that is as much shorter as must be for ``limit`` tokens, the same object if none is.

    Of the sections the last written goes first, a line at a time from its end, a summary a word at a time; then there
    is the header alone, and then no recap. One that the caller protects stays.
    """
    standing = [place for place in recaps(context.messages) if place not in call.frozen(context)]
    for place in reversed(standing):
        old = context.messages[place]
        room = limit - call.size(context) + call.count(old)
        if room >= call.count(old):
            break
        made = _shorter(recap_of(old) or Recap(), room, call)
        for message in (old, *(() if made is None else (made,))):
            call.note(message, f"over {limit:,} tokens: the recap last")
        between = () if made is None else (made,)
        context = context.with_messages((*context.messages[:place], *between, *context.messages[place + 1 :]))
    return context


def _shorter(recap: Recap, room: int, call: Call) -> Message | None:
    """The recap in ``room`` tokens; None where not even its header has room."""
    for heading, text in reversed(list(recap.sections.items())):
        without = recap.with_section(heading, "")
        if call.count(without.written()) <= room:
            pieces = text.splitlines(keepends=True) if heading != SUMMARY else _WORDS.findall(text)
            fits = partial(_fits, recap, heading, pieces, room, call)
            less = bisect_left(range(len(pieces)), 1, key=lambda less: fits(len(pieces) - less))
            return recap.with_section(heading, "".join(pieces[: len(pieces) - less])).written()
        recap = without
    made = recap.written()
    return made if call.count(made) <= room else None


_WORDS = lazy_pattern(r"\s*\S+")


def _fits(recap: Recap, heading: str, pieces: Sequence[str], room: int, call: Call, kept: int) -> int:
    """1 where the recap has room with so many pieces of a section, else 0."""
    return int(call.count(recap.with_section(heading, "".join(pieces[:kept])).written()) <= room)


HEADER = 60
"""At most so many tokens the recap has beside its sections."""


async def reserved(stages: Iterable[ContextStrategy], call: Call) -> int:
    """Tokens that stages may add for the recap to the request they begin with, beyond those of the one in it."""
    start = call.internals.start
    if start is None:
        return 0
    found: list[ContextStrategy] = []
    for stage in _writing(stages):
        if stage not in found:  # the same stage twice writes its sections once
            found.append(stage)

    def worked_out(start: Context, call: Call) -> int:
        wanted = sum(stage.reserves(call) for stage in found)
        there = sum(map(call.count, filter(is_recap, start.messages))) if wanted else 0
        return max(0, wanted + HEADER - there) if wanted else 0

    return await run_plain(worked_out, start, call)


def _writing(stages: Iterable[ContextStrategy]) -> Iterator[ContextStrategy]:
    """The stages that write the recap, also those within stages."""
    for stage in stages:
        if stage.stages:
            yield from _writing(stage.stages)
        elif writes_recap(stage):
            yield stage


def with_section(context: Context, heading: str, text: str, call: Call) -> Context:
    """The request with a section of the recap written, and how much is missing now; an empty text takes it away.

    For a stage that has reserved the room for it (``ContextStrategy.reserves``). Nothing is written
    where nothing was left out in this step: the recap changes at a cut only.
    """
    return with_sections(context, {heading: text}, call)


def with_sections(context: Context, sections: Mapping[str, str], call: Call) -> Context:
    """The same with several sections, by heading."""
    left = gone(context, call)
    if not left:
        return context
    recap = left.recap
    for heading, text in sections.items():
        recap = recap.with_section(heading, text)
    old = frozenset(recaps(context.messages)) - call.frozen(context)
    if recap == Recap() and not old:
        return context
    made = recap.written()
    call.note(made, _stands_for(left.recap))
    kept = tuple(message for index, message in enumerate(context.messages) if index not in old)
    for index in old:
        call.note(context.messages[index], "another says it now")
    return _with_recap(context.with_messages(kept), made, call)


HANDLES = "Handles"
"""The heading of what says how to get back what was left out as a whole."""

_HANDLES_TOKENS = 50
"""At most so many tokens that takes."""

_GLANCE = 80
"""So many characters a list shows of each message."""


def room_for_handles(call: Call) -> int:
    """Tokens that ``with_handles`` may take."""
    return 0 if call.internals.shelf is None or call.internals.shelf.tool is None else _HANDLES_TOKENS


async def with_handles(context: Context, call: Call) -> Context:
    """The request with the handle of a list in the recap, which has the handle of each message that was dropped.

    The list begins with the handle of the one before. As it is without the recall tool, or where the store fails.
    """
    shelf, start = call.internals.shelf, call.internals.start
    if shelf is None or shelf.tool is None or start is None:
        return context
    left = await offload(partial(gone, context, call), len(start.messages))
    handles = await shelf.keep_messages(left.dropped)
    known = [recap.sections.get(HANDLES, "") for message in start.messages if (recap := recap_of(message)) is not None]
    earlier = [f"before these: {text}" for text in known if text]
    pairs = zip(handles, left.dropped, strict=True)
    lines = [f"{handle} {message.role}: {_glance(message)}" for handle, message in pairs if handle is not None]
    listed = await shelf.keep("\n".join([*earlier, *lines]).encode("utf-8", "surrogatepass")) if lines else None
    if listed is None:
        return context
    text = f"{shelf.tool} {listed}: a list of the {len(lines)} messages that went last, with a handle each"
    write = partial(with_section, context, HANDLES, text, call)
    return await offload(write, len(start.messages))


def _glance(message: Message) -> str:
    """The first words of a message, quoted."""
    said = [message.text, *(f"{call.name} {call.arguments}" for call in message.calls)]
    said += [result.text for result in message.results]
    return quoted(on_one_line(next((text for text in said if text.strip()), ""), _GLANCE))
