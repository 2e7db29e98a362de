"""A session in a store: loaded, saved after each step, and gone on with where another worker was first.

What the store has wins. Who finds at a save that another worker has gone on takes over that worker's state and prepares
the step again, from what its own caller has passed: every step that was acknowledged is in what goes on, and the view
is the one that a session would have made that had never moved. What only this worker knew is what was billed since its
last save, and steps that a failing store has not taken, of which was said that they are not kept.

A store that fails, hangs or answers nonsense costs no step: what is unsaved is saved with the next one that can.

A state is kept in named pieces (``Pieces``), of which a save writes those that have changed. They are parts of its
written form (``agentctx.session.dump``), as JSON, each behind a checksum of its own. What a caller passes at each step
anyway is not in them: of a message that goes out as it came in there is a digest, and the numbers that belong to it.

- ``head``: the state without what the others have, and a checksum over all others
- ``rows/N``: rows of messages of the history, so many at a time
- ``said/N``: changes in force, so many at a time
- ``gone``: what has left the view, and the handles of it
- ``edited/N``: a message of the view that is made of message N of the history; ``made/P``: one that a stage made, at P
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress, count, takewhile
from math import inf
from operator import is_not
from os import urandom
from random import random
from time import monotonic
from typing import Any, TypeVar

import anyio
from attrs import define, evolve, field, frozen

from agentctx.changes import Change, Span
from agentctx.characters import said_by
from agentctx.engine.originals import AGAIN_LATER, give_up, is_given_up, limit_of, took_too_long
from agentctx.engine.plan import Plan, logger, tell
from agentctx.errors import InvalidInput, StoreConflict, StoreError
from agentctx.formats.native import to_json
from agentctx.message import ROLES, Message, Native, Noted
from agentctx.plain import from_plain, must_be, to_plain
from agentctx.protocols import Listeners, StateStore
from agentctx.reports import SessionSaved
from agentctx.session.dump import (
    VERSION,
    Changes,
    Rows,
    StateForm,
    digest_of_opening,
    digest_of_seen,
    has_payload_of_its_own,
    marks_of,
    record_form,
    state_form,
    sums_of,
)
from agentctx.session.record import DIGEST_BYTES, Record, goes_out_as_another
from agentctx.session.session import Session
from agentctx.session.step_context import Beginning, State
from agentctx.stores.store import ConversationStore
from agentctx.users_code import offload

ROWS = 32
"""Messages of the history in a piece."""

CHANGES = 16
"""Changes in a piece."""

_SUM_BYTES = 8
_encode = json.JSONEncoder(separators=(",", ":")).encode

T = TypeVar("T")


class NewerState(InvalidInput):
    """A state that a newer release has saved; this one cannot read it, and leaves it alone."""


@frozen
class Head:
    """The written form of the piece that is written at every step.

    Args:
        state: The state, without what other pieces have.
        runs: Where the messages of the view come from, as many of them as have neighbours in the history: the index of
            the first, None for one that a stage made, and how many there are.
        tail: How many messages the tail has.
        begun: How the conversation began.
        lost: Whether what was left out has to be put in again, by whoever goes on.
    """

    state: StateForm
    runs: list[tuple[int | None, int]]
    tail: int
    begun: Beginning | None
    lost: bool


@frozen
class OwnMessage:
    """The written form of a message of the view that is not the caller's.

    Args:
        native: As it went out.
        has_payload: Whether its payload is its own.
        marks: The marks in it, as in ``RecordForm``; None where they are not there.
        changes: What is said of it, if a stage made it.
    """

    native: Any
    has_payload: bool
    marks: Noted | None
    changes: list[Changes]


@frozen
class Gone:
    """The written form of what has left the view."""

    spans: list[Span] = field(factory=list)
    handles: dict[int, str] = field(factory=dict)


def _columns(record: Record) -> list[bytes]:
    columns = record.digested(), record.sizes, record.byte_sizes, record.decided, record.roles, record.calls
    return [bytes(column) for column in columns]


def _rows_of(columns: Sequence[bytes], number: int) -> list[bytes]:
    """The bytes of a piece of these columns; as many of each as one of its numbers has."""
    widths = DIGEST_BYTES, 4, 4, 4, 1, 1
    pairs = zip(columns, widths, strict=True)
    return [column[number * ROWS * width : (number + 1) * ROWS * width] for column, width in pairs]


@define(eq=False, repr=False)
class Pieces:
    """What a store has of a session, and how to tell what has changed since.

    Args:
        sums: The checksum of each piece but the head, by name.
        total: Their sum.
        lengths: The bytes of each piece, the head among them.
        size: Their sum.
        head: What the head said, without what tells one write from another; empty where there is none.
        columns: The columns of the history, in bytes.
        record: The record that was saved.
        shown: What each message of the view looked like.
        origins: Where each came from.
        runs: The same as runs: place, index in the history (or None), how many.
        system: Places and indexes of system messages that go out under another role.
        changes: The changes of the log.
        gone: What has left the view.
        made: The messages that stages made, with what is said of each.
    """

    sums: dict[str, int] = field(factory=dict)
    total: int = 0
    lengths: dict[str, int] = field(factory=dict)
    size: int = 0
    head: str = ""
    columns: Sequence[bytes] = (b"",) * 6
    record: Record | None = None
    shown: Sequence[Native] = field(factory=list)
    origins: Sequence[int | None] = field(factory=list)
    runs: list[tuple[int, int | None, int]] = field(factory=list)
    system: list[tuple[int, int]] = field(factory=list)
    changes: Sequence[Change] = field(factory=list)
    gone: Gone | None = None
    made: Mapping[int, tuple[Message, Change]] = field(factory=dict)
    _digests: dict[str, tuple[tuple[object, ...], bytes | None]] = field(factory=dict)

    @classmethod
    def of(cls, pieces: Mapping[str, bytes]) -> Pieces:
        """What a store has, of which nothing else is known; a piece that is damaged has the checksum of no other."""
        sums = {
            name: _number(body) if body[:_SUM_BYTES] == _sum(name, body[_SUM_BYTES:]) else -1
            for name, body in pieces.items()
            if name != "head"
        }
        lengths = {name: len(body) for name, body in pieces.items()}
        return cls(sums, sum(sums.values()), lengths, sum(lengths.values()))

    def new(self, session: Session) -> int:
        """About how many messages have to be looked at to tell what has changed."""
        record, view = session.internals.state.record, session.view
        edited = len(record.shown) if view is None else sum(len(stage.changes) for stage in view.report.stages)
        return len(record) - len(self.columns[-1]) + abs(len(record.shown) - len(self.shown)) + edited

    def changed(self, session: Session, write: str, *, lost: bool) -> tuple[dict[str, bytes | None], Pieces]:
        """The pieces that have changed (None: is gone), none where nothing has; and what the store has with them.

        Args:
            session: The session; no step of it is under way.
            write: What tells this write from others.
            lost: Whether what was left out has to be put in again, by whoever goes on.

        Raises:
            InvalidInput: If JSON cannot hold a message of the view that is not the caller's; names it.
        """
        inner = session.internals
        state = inner.state
        record = state.record
        made = _Changed(evolve(self, sums=dict(self.sums), lengths=dict(self.lengths)))  # counts when the store has it
        rows, (runs, system), changes = made.rows(record), made.view(record), made.said(record.log.changes)
        made.gone(record)
        places = enumerate(record.origins if record.marks else ())
        given = [(at, record.marks[each]) for at, each in places if each in record.marks and record.as_given(at)]
        form = state_form(
            state,
            record_form(record, rows, [*changes, *record.log.marks.values()], system, marks=given),
            id=session.id,
            children=inner.children,
            billed_tokens=session.billed_tokens,
            retried=inner.retried,
            fixed=self._once("fixed", (state.head_seen,), lambda: digest_of_seen(state)),
            opening=self._once("opening", _head_of(state), lambda: digest_of_opening(state)),
        )
        known, text = (
            made.after,
            _encode(to_plain(Head, Head(form, runs, len(record.tail), inner.begun, lost))),
        )
        if text == known.head and not made.pieces:
            return {}, self
        known.head = text
        made.write("head", _closed("head", f'{{"write":"{write}","sum":{known.total},"head":{text}}}'.encode("ascii")))
        return made.pieces, known

    def _once(self, name: str, of: tuple[object, ...], make: Callable[[], bytes | None]) -> bytes | None:
        """What is made of objects, made again only when they are others."""
        known = self._digests.get(name)
        if known is None or len(known[0]) != len(of) or any(map(is_not, known[0], of)):
            known = self._digests[name] = of, make()
        return known[1]


def _head_of(state: State) -> tuple[object, ...]:
    """What the digest of system prompt and tools is of."""
    return (state.head_digest,) if state.ctx is None else (state.ctx.system, state.ctx.tools)


@define(eq=False, repr=False)
class _Changed:
    """The pieces that have changed so far.

    Args:
        after: What the store has with them.
        pieces: They.
    """

    after: Pieces
    pieces: dict[str, bytes | None] = field(factory=dict)

    def put(self, name: str, kind: object, value: object) -> None:
        """Write the written form of a value, unless the store has it."""
        closed, known = _closed(name, _encode(to_plain(kind, value)).encode("ascii")), self.after
        before, now = known.sums.get(name), _number(closed)
        if before != now:
            self.write(name, closed)
            known.sums[name] = now
            known.total += now - (before or 0)

    def write(self, name: str, closed: bytes) -> None:
        """Write a piece."""
        known = self.after
        known.size += len(closed) - known.lengths.get(name, 0)
        self.pieces[name], known.lengths[name] = closed, len(closed)

    def drop(self, names: Iterable[str]) -> None:
        """Take pieces away, as far as the store has them."""
        for name in names:
            if (before := self.after.sums.pop(name, None)) is not None:
                self.pieces[name] = None
                self.after.total -= before
                self.after.size -= self.after.lengths.pop(name, 0)

    def _drop_chunks(self, name: str, full: int) -> None:
        number = full
        while f"{name}/{number}" in self.after.sums:
            self.drop([f"{name}/{number}"])
            number += 1

    def rows(self, record: Record) -> Rows:
        """The rows of the history; gives those that are not a whole piece yet."""
        known, length, columns = self.after, len(record), _columns(record)
        before = len(known.columns[-1])
        same = all(now.startswith(old) for now, old in zip(columns, known.columns, strict=True))
        for number in range(before // ROWS if same else 0, length // ROWS):
            if _rows_of(known.columns, number) != _rows_of(columns, number):
                self.put(f"rows/{number}", Rows, Rows.of(record, number * ROWS, (number + 1) * ROWS))
        if not same or not before:
            self._drop_chunks("rows", length // ROWS)
        known.columns = columns
        return Rows.of(record, length - length % ROWS)

    def view(self, record: Record) -> tuple[list[tuple[int | None, int]], Iterable[int]]:
        """The view: runs of where its messages come from, and system messages that go out under another role."""
        known, shown, origins = self.after, record.shown, record.origins
        same = known.record is record  # then what is equal was the same object before
        start = min(_same_start(known.shown, shown, equal=same), _same_start(known.origins, origins))
        before = {_name(place, known.origins[place]) for place in range(start, len(known.origins))}
        if not known.shown:  # after a load
            before = {name for name in known.sums if name.startswith(("edited/", "made/"))}
        runs = [(at, origin, min(times, start - at)) for at, origin, times in known.runs if at < start]
        system = [each for each in known.system if each[0] < start]
        now: set[str] = set()
        for place in range(start, len(origins)):
            origin = origins[place]
            at, first, times = runs[-1] if runs else (0, None, 0)
            if origin is not None and first is not None and first + times == origin:
                runs[-1] = at, first, times + 1
            else:
                runs.append((place, origin, 1))
            if origin is not None and goes_out_as_another(record.view[place]):
                system.append((place, origin))
            if not record.as_given(place):
                now.add(name := _name(place, origin))
                self.put(name, OwnMessage, _own_message(record, place))
        self.drop(before - now)
        if known.made != record.made:  # something else is said of one, as where its tokens are counted anew
            for place in range(start):
                if id(record.view[place]) in record.made:
                    self.put(_name(place, record.origins[place]), OwnMessage, _own_message(record, place))
            known.made = dict(record.made)
        known.record, known.shown, known.origins = record, list(shown), list(origins)
        known.runs, known.system = runs, system
        tail = zip(record.tail, record.tail_origin, strict=True)
        told = {index for _, index in system}.union(index for each, index in tail if goes_out_as_another(each))
        if record.missing is not None:
            told = {*record.missing.system}
        return [run[1:] for run in runs], told

    def said(self, changes: Sequence[Change]) -> Sequence[Change]:
        """The changes of the log; gives those that are not a whole piece yet."""
        known, length = self.after, len(changes)
        start = _same_start(known.changes, changes)
        for number in range(start // CHANGES, length // CHANGES):
            some = changes[number * CHANGES : (number + 1) * CHANGES]
            self.put(f"said/{number}", list[Changes], Changes.of(some))
        if start < len(known.changes) or not known.changes:
            self._drop_chunks("said", length // CHANGES)
        known.changes = list(changes)
        return changes[length - length % CHANGES :]

    def gone(self, record: Record) -> None:
        """What has left the view."""
        gone = Gone(record.log.spans, record.log.handles)
        if gone != self.after.gone:
            if gone == Gone():
                self.drop(["gone"])
            else:
                self.put("gone", Gone, gone)
            self.after.gone = Gone(list(gone.spans), dict(gone.handles))


def _same_start(before: Sequence[Any], now: Sequence[Any], *, equal: bool = True) -> int:
    """How many at the start are the very same objects; all, too, where they are equal and that suffices."""
    shared = min(len(before), len(now))
    if equal and before == now[: len(before)]:  # much faster, and so it is after nearly every step
        return len(before)
    return next(compress(count(), map(is_not, before, now)), shared)


def _name(place: int, origin: int | None) -> str:
    return f"made/{place}" if origin is None else f"edited/{origin}"


def _own_message(record: Record, place: int) -> OwnMessage:
    added = record.made.get(id(record.view[place]))
    changes = Changes.of([] if added is None else [evolve(added[1], index=place)])
    native = to_json(record.as_sent(place), f"messages[{place}]")
    return OwnMessage(native, has_payload_of_its_own(record, place), marks_of(record, place), changes)


def _closed(name: str, content: bytes) -> bytes:
    return _sum(name, content) + content


def _number(closed: bytes) -> int:
    return int.from_bytes(closed[:_SUM_BYTES], "big")


def _sum(name: str, content: bytes) -> bytes:
    from hashlib import blake2b  # noqa: PLC0415 - loads OpenSSL, for what is written down only

    return blake2b(name.encode("ascii", "replace") + b"\0" + content, digest_size=_SUM_BYTES).digest()


@frozen(eq=False)
class SavedState:
    """What was read of a session's pieces.

    Args:
        session: The session; the messages that are the caller's are put into it by its next step.
        write: What told the write from others that saved it.
        pieces: What the store has.
        lost: Whether what was left out has to be put in again.
    """

    session: Session
    write: str
    pieces: Pieces
    lost: bool


def written_by(pieces: Mapping[str, bytes]) -> str | None:
    """What told the last write from others; None where that cannot be read."""
    try:
        return _head(pieces)[0]
    except InvalidInput:
        return None


def read(plan: Plan, pieces: Mapping[str, bytes], on_compact: Listeners | None = None) -> SavedState:
    """The session that was saved.

    Args:
        plan: The pipeline.
        pieces: What the store has.
        on_compact: Told of the session's compactions.

    Raises:
        NewerState: If a newer release has saved it.
        InvalidInput: If it is damaged; names the piece.
        UnknownModel: If the budget is the model's and the model table does not know it.
    """
    write, total, head = _head(pieces)
    contents = {name: _opened(name, body) for name, body in pieces.items() if name != "head"}
    known = Pieces.of(pieces)
    if known.total != total:
        raise _damaged("head", "the pieces are not those that were saved with it")
    session = Session.load(plan, _state(head, contents), on_compact)
    session.internals.begun = head.begun
    known.columns = _columns(session.internals.state.record)
    return SavedState(session, write, known, head.lost)


def _head(pieces: Mapping[str, bytes]) -> tuple[str, int, Head]:
    """What tells the write, the checksum over all other pieces, and the head."""
    if "head" not in pieces:
        raise _damaged("head", "it is missing")
    content = _opened("head", pieces["head"])
    try:
        known = json.loads(content)
        write, total, head = known["write"], known["sum"], known["head"]
        version = head["state"]["version"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise _damaged("head", said_by(error)) from error
    if isinstance(version, int) and version > VERSION:
        where = "state.head.version"
        raise NewerState(where, f"a newer release has saved it, with version {version} of a session's state")
    if version != VERSION:
        raise _damaged("head.version", f"must be {VERSION}, got {version!r:.80}")
    return write, total, from_plain(Head, head, "state.head")


def _opened(name: str, body: object) -> bytes:
    content = body[_SUM_BYTES:] if isinstance(body, bytes) else b""
    if not isinstance(body, bytes) or body[:_SUM_BYTES] != _sum(name, content):
        raise _damaged(name, "its checksum is another")
    return content


def _damaged(piece: str, what: str) -> InvalidInput:
    return InvalidInput(f"state.{piece}", what)


def _state(head: Head, contents: Mapping[str, bytes]) -> StateForm:
    """The whole state, with None for messages of the view that the caller holds."""

    def piece(kind: Callable[..., T], name: str) -> T:
        try:
            plain = json.loads(contents[name])
        except (KeyError, ValueError, RecursionError) as error:
            raise _damaged(name, said_by(error)) from error
        return from_plain(kind, plain, f"state.{name}")

    def pieces(kind: Callable[..., T], kind_name: str) -> Iterator[T]:
        names = (f"{kind_name}/{number}" for number in count())
        return (piece(kind, name) for name in takewhile(contents.__contains__, names))

    record = head.state.record
    rows = Rows.joined([*pieces(Rows, "rows"), record.rows])
    most = len(rows.sizes) + len(contents)
    if (told := sum(times for _, times in head.runs)) > most:
        raise must_be(told, f"at most {most:,} messages", "state.head.runs")
    origins: list[int | None] = []
    for first, times in head.runs:
        origins += [None] * times if first is None else range(first, first + times)
    names = ((place, _name(place, origin)) for place, origin in enumerate(origins))
    ours = {place: piece(OwnMessage, name) for place, name in names if name in contents or name.startswith("made/")}
    out = [ours[place].native if place in ours else None for place in range(len(origins))]
    tail = [None] * min(head.tail, most + 1)  # one that is too long is behind the end of the history
    changes = [run for part in pieces(list[Changes], "said") for run in part] + record.changes
    gone = piece(Gone, "gone") if "gone" in contents else Gone()
    whole = evolve(
        record,
        rows=rows,
        changes=[*changes, *(run for each in ours.values() for run in each.changes)],
        out=out,
        origins=origins,
        edited=[place for place in ours if origins[place] is not None],
        payloads=[place for place, each in ours.items() if each.has_payload],
        sums=sums_of(out, tail, ours),
        tail=tail,
        marks=record.marks + [(place, each.marks) for place, each in ours.items() if each.marks is not None],
        spans=gone.spans,
        handles=gone.handles,
    )
    return evolve(head.state, record=whole)


ATTEMPTS = 64
"""So often a step is taken again where others are first."""

PAUSE = 4.0
"""Of the time limit: for how long a store that has not answered is not asked: one that hangs costs one step in several
its time limit, and no step more."""

BEGUN_ANEW = "nothing was kept of this conversation: it begins again from the history that was passed"
LOST = "the store did not have the state any more: it was saved anew"
OTHERS = f"not kept: others were first {ATTEMPTS} times"


@define(eq=False, repr=False)
class StateKeeper:
    """Keeps one session in a store.

    Args:
        store: The store.
        name: The conversation.
        timeout: Seconds that one call of the store may take.
        unsaved: Why something is not kept; None when all is.
        lost: Whether the store was found to have lost the state, and what was left out has to be put in again.
    """

    store: StateStore
    name: str
    timeout: float
    unsaved: str | None = None
    lost: bool = False
    # The version that was loaded, or saved last; None before it was loaded.
    _version: int | None = None
    # What the store has with that version.
    _known: Pieces = field(factory=Pieces)
    # The keys of writes of which it is not known whether they were done.
    _pending: set[str] = field(factory=set)
    # Whether others are known to write, too.
    _shared: bool = False
    # Whether the store had nothing, and the session had no step yet.
    _empty: bool = False
    # How often others were first in this step.
    _attempts: int = 0
    # Until when, by `monotonic`, a store that hangs is not asked.
    _silent_until: float = -inf
    # Whether this step began before then.
    _skips: bool = False
    # What is to be said with the step.
    _notes: list[str] = field(factory=list)

    @property
    def current(self) -> bool:
        """Whether the state was loaded, and nobody else is known to write."""
        return self._version is not None and not self._shared

    def notes(self) -> tuple[str, ...]:
        """What has to be said with the step, once."""
        notes = (*self._notes, *(() if self.unsaved is None else (self.unsaved,)))
        self._notes.clear()
        return notes

    async def refresh(self, session: Session, /, *, surely: bool = False) -> None:
        """Load the state, where it was not loaded yet, or others write too.

        Raises:
            UnknownModel: If the budget is the model's and the model table does not know it.
        """
        self._attempts = 0
        self._skips = monotonic() < self._silent_until
        if self._skips:
            give_up(self.store)
        if self.current and not surely:
            return
        try:
            version_of = getattr(self.store, "state_version", None)
            if self._version is not None and callable(version_of):  # the state is not loaded where it is known
                version = _checked_version(await self._asked(lambda: version_of(self.name)))
                if version == self._version:
                    self._shared = False
                    return
            version, pieces = _checked(await self._asked(lambda: self.store.load_state(self.name)))
        except StoreError as error:
            self._fail("the state cannot be loaded", error)
            return
        if version == self._version:
            self._shared = False
            return
        self._shared = self._version is not None
        await self._take_over(session, version, pieces)

    async def keep(self, session: Session, /) -> bool:
        """Save the session after a step; False: another was first, whose state the session has now.

        Raises:
            UnknownModel: If the budget is the model's and the model table does not know it.
        """
        roles = session.internals.state.record.roles
        begun_anew, self._empty = self._empty and ROLES.index("assistant") in roles, False
        if not await self._kept(session):
            return False
        if begun_anew:
            self._notes.append(BEGUN_ANEW)
        return True

    async def _kept(self, session: Session) -> bool:
        while self._version is not None and self._attempts < ATTEMPTS:
            if await self._saved(session):
                return True
            self._attempts += 1
            if self._attempts > 1:
                await anyio.sleep(random() * 0.002 * min(self._attempts, 10))  # noqa: S311 - not all come back at once
            try:
                version, pieces = _checked(await self._asked(lambda: self.store.load_state(self.name)))
            except StoreError as error:
                self._fail("the step is not kept", error)
                return True
            self._shared = True
            if await self._take_over(session, version, pieces):
                return False
        if self._attempts >= ATTEMPTS:
            self._fail(OTHERS)
        return True

    async def save(self, session: Session, /) -> bool:
        """Save the session between steps, and say whether all of it is kept."""
        if self._version is None:
            return not session.steps
        if not await self._saved(session):
            self._shared = True  # what was billed for a step that another worker has gone on from: the next one tells
            return True
        return self.unsaved is None

    async def _saved(self, session: Session) -> bool:
        """Save what has changed; False: it is not the store's version that this goes on from."""
        write = urandom(8).hex()
        try:
            known, lost = self._known, self.lost
            changed, after = await offload(lambda: known.changed(session, write, lost=lost), known.new(session))
        except InvalidInput as error:
            self._fail("the step is not kept", error)
            return True
        except (RecursionError, TypeError, ValueError) as error:  # of values that JSON does not know
            said = "a message is nested too deep" if isinstance(error, RecursionError) else f"a message is odd: {error}"
            self._fail("the step is not kept", InvalidInput("messages", said))
            return True
        if not changed:
            return True
        self._pending.add(write)
        try:
            before = self._version
            saving = self._asked(lambda: self.store.save_state(self.name, changed, before, key=write))
            version = _checked_version(await saving)
        except StoreConflict:
            return False
        except StoreError as error:
            self._fail("the step is not kept", error)
            return True
        self._version, self._known, self.unsaved = version, after, None
        self._pending.clear()
        written = sum(len(body) for body in changed.values() if body is not None)
        tell(session.plan.all_subscribers, SessionSaved(self.name, written, after.size))
        return True

    async def _take_over(self, session: Session, version: int, pieces: Mapping[str, bytes]) -> bool:
        """Let the session go on from what the store has; False: it has nothing to go on from but what is ours."""
        if not pieces:
            if self._version is not None:
                self._notes.append(LOST)
                self.lost = True
            self._version, self._known, self._empty = version, Pieces(), not session.steps
            return False
        if self._pending and written_by(pieces) in self._pending:  # ours, though no answer came
            self._version, self._known = version, Pieces.of(pieces)
            self._pending.clear()
            return False
        try:  # where this is cancelled, or the state cannot be had, what is ours goes on from the version before
            saved = await offload(lambda: read(session.plan, pieces), len(pieces) * 32)
        except NewerState as error:
            self._version = None  # not to be written over
            self._fail("the state cannot be loaded", error)
            return False
        except InvalidInput as error:
            self._version, self._known = version, Pieces.of(pieces)
            self._notes.append(f"the state that was kept is damaged, and was given up: {error}")
            return False
        self._version, self._known, self.unsaved = version, saved.pieces, None
        self.lost = self.lost or saved.lost  # who found that may have been stopped before it put anything in
        self._pending.clear()
        ours, theirs = session.internals, saved.session.internals
        ours.state, ours.children, ours.retried, ours.unjudged = theirs.state, theirs.children, theirs.retried, None
        ours.begun = theirs.begun or ours.begun
        session.billed_tokens, session.view = saved.session.billed_tokens, None
        return True

    async def _asked(self, ask: Callable[[], Awaitable[T]]) -> T:
        """What the store answers in time; one that has not answered in time is not asked again for a while.

        Raises:
            StoreError: Whatever is wrong with it.
        """
        begun, limit = monotonic(), limit_of(self.store, self.timeout)
        if is_given_up(self.store) and not self._skips:  # where it was to keep what the step leaves out
            self._silent_until = max(self._silent_until, begun + PAUSE * limit)
        if begun < self._silent_until or is_given_up(self.store):
            msg = f"the {type(self.store).__name__} {AGAIN_LATER}"
            raise StoreError(msg)
        try:
            if isinstance(self.store, ConversationStore) and self.store.timeout <= self.timeout:
                return await ask()  # it keeps the time itself
            with anyio.fail_after(self.timeout):
                return await ask()
        except StoreError:
            if took_too_long(begun, limit):
                self._give_up(limit)
            raise
        except TimeoutError:
            self._give_up(limit)
            msg = f"the {type(self.store).__name__} did not answer within {self.timeout:g} seconds"
            raise StoreError(msg) from None
        except Exception as error:  # a store is the user's
            msg = f"the {type(self.store).__name__} raised {said_by(error)}"
            raise StoreError(msg) from error

    def _give_up(self, limit: float) -> None:
        self._silent_until = monotonic() + PAUSE * limit
        give_up(self.store)

    def _fail(self, what: str, error: Exception | None = None) -> None:
        said = what if error is None else f"{what}: {error}"
        if self.unsaved is None:
            logger.warning("session %r: %s", self.name, said)
        self.unsaved = said


def _checked_version(version: object) -> int:
    """The version that a store has answered.

    Raises:
        StoreError: If it has answered something else.
    """
    if isinstance(version, bool) or not isinstance(version, int):
        msg = f"it answered {version!r:.80}, and no version"
        raise StoreError(msg)
    return version


def _checked(snapshot: object) -> tuple[int, Mapping[str, bytes]]:
    """The version and the pieces that a store has answered.

    Raises:
        StoreError: If it has answered something else.
    """
    pieces: Native = getattr(snapshot, "pieces", None)
    version = _checked_version(getattr(snapshot, "version", None))
    if not isinstance(pieces, Mapping) or not all(
        isinstance(name, str) and isinstance(body, bytes) for name, body in pieces.items()
    ):
        msg = f"it answered {snapshot!r:.80}, and no state"
        raise StoreError(msg)
    return version, pieces
