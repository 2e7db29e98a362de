"""A session in a store: loaded, saved after each step, and gone on with where another worker was first.

What the store has wins. Who finds at a save that another worker has gone on takes over that worker's state and prepares
the step again, from what its own caller has passed: every step that was acknowledged is in what goes on, and the view
is the one that a session would have made that had never moved. What only this worker knew is what was billed since its
last save, and steps that a failing store has not taken, of which was said that they are not kept.

A store that fails, hangs or answers nonsense costs no step: what is unsaved is saved with the next one that can.

A state is kept in named pieces (``Pieces``), of which a save writes those that have changed. What a caller passes at
each step anyway is not in them: of a message that goes out as it came in there is a digest, and the numbers that belong
to it. There are

- ``head``: what may change at every step, the end of each list that grows, and a checksum over all other pieces
- ``rows/N``: of messages of the history, so many at a time, digest, sizes, role, and when a stage last decided about it
- ``said/N``: changes in force, so many at a time
- ``gone``: what has left the view, and the handles of it
- ``edited/N``: a message of the view that is made of message N of the history; ``made/P``: one that a stage made, at P

Each begins with a checksum of its own.
"""

from __future__ import annotations

import json
import sys
from array import array
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress, count, groupby
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
from agentctx.engine.listeners import logger, tell
from agentctx.engine.originals import AGAIN_LATER, give_up, is_given_up, limit_of, took_too_long
from agentctx.engine.plan import Plan
from agentctx.errors import InvalidInput, StoreConflict, StoreError
from agentctx.formats.native import from_json, to_json
from agentctx.message import ROLES, Message, Native
from agentctx.offload import offload
from agentctx.protocols import Listeners, StateStore
from agentctx.reports import SessionSaved
from agentctx.session.dump import (
    LETTERS,
    SPAN,
    VERSION,
    dump_around,
    dump_head_seen,
    dump_opening,
    dump_runs,
    has_payload_of_its_own,
)
from agentctx.session.record import DIGEST_BYTES, Digest, Record, digest, exact_digest, goes_out_as_another
from agentctx.session.session import Session
from agentctx.session.step_context import Beginning, State
from agentctx.stores.store import ConversationStore

SAVED = 2
"""The version of these pieces."""

ROWS = 32
"""Messages of the history in a piece."""

CHANGES = 16
"""Changes in a piece."""

_SUM_BYTES = 8
_encode = json.JSONEncoder(separators=(",", ":")).encode


class NewerState(InvalidInput):
    """A state that a newer release has saved; this one cannot read it, and leaves it alone."""


@frozen
class Column:
    """A number of some bytes for each message of the history.

    Args:
        name: The record's attribute.
        width: Bytes of each number.
    """

    name: str
    width: int

    def of(self, record: Record) -> bytes:
        """The numbers of all messages, the smallest byte first."""
        if self.name == "digests":
            return record.digested()
        known = getattr(record, self.name)
        if isinstance(known, array):
            if sys.byteorder == "big":
                known = known[:]
                known.byteswap()
            return known.tobytes()
        return bytes(known)


_COLUMNS = (
    Column("digests", DIGEST_BYTES),
    Column("sizes", 4),
    Column("byte_sizes", 4),
    Column("decided", 4),
    Column("roles", 1),
    Column("calls", 1),
)
_WIDTH = sum(column.width for column in _COLUMNS)


@define(eq=False, repr=False)
class Pieces:
    """What a store has of a session, and how to tell what has changed since.

    Args:
        sums: The checksum of each piece but the head, by name.
        total: Their sum.
        lengths: The bytes of each piece, the head among them.
        size: Their sum.
        head: What the head said, without what tells one write from another; empty where there is none.
        columns: The columns of the history.
        record: The record that was saved.
        shown: What each message of the view looked like.
        origins: Where each came from.
        runs: The same as runs: place, index in the history (or None), how many.
        system: Places and indexes of system messages that go out under another role.
        changes: The changes of the log.
        spans: What has left the view; None where that is not known.
        handles: Where that is kept.
        made: The messages that stages made, with what is said of each.
    """

    sums: dict[str, int] = field(factory=dict)
    total: int = 0
    lengths: dict[str, int] = field(factory=dict)
    size: int = 0
    head: str = ""
    columns: Sequence[bytes] = (b"",) * len(_COLUMNS)
    record: Record | None = None
    shown: Sequence[Native] = field(factory=list)
    origins: Sequence[int | None] = field(factory=list)
    runs: list[list[int | None]] = field(factory=list)
    system: list[tuple[int, int]] = field(factory=list)
    changes: Sequence[Change] = field(factory=list)
    spans: Sequence[Span] | None = None
    handles: Mapping[int, str] = field(factory=dict)
    made: Mapping[int, tuple[Message, Change]] = field(factory=dict)
    _digests: dict[str, tuple[tuple[object, ...], str | None]] = field(factory=dict)

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
        made = _Changed(self._copy())
        head = {
            "saved": SAVED,
            "id": session.id,
            "children": inner.children,
            "billed_tokens": session.billed_tokens,
            "retried": inner.retried,
            "around": dump_around(state),
            "fixed": self._once("fixed", (state.head_seen,), lambda: dump_head_seen(state)),
            "opening": self._once("opening", _head_of(state), lambda: dump_opening(state)),
            "begun": _dump_begun(inner.begun),
            "rows": made.rows(record),
            "view": made.view(record),
            "said": made.said(record.log.changes),
            "marks": list(map(_dump_change, record.log.marks.values())),
            "settled": record.final,
            "tail": len(record.tail),
            "quiet_until": record.quiet_until,
            "waiting": record.waiting,
            "foreign": record.foreign_count,
            "instructions": b64encode(b"".join(sorted(record.instructions))).decode("ascii"),
            "unsaid": list(record.unsaid),
            "uncounted": [list(each) for each in record.uncounted],
            "stands": [[index, *stands] for index, stands in record.stands.items()],
            "lost": lost,
        }
        made.gone(record)
        known = made.after
        text = _encode(head)
        if text == known.head and not made.pieces:
            return {}, self
        known.head = text
        made.write("head", _closed("head", f'{{"write":"{write}","sum":{known.total},"head":{text}}}'.encode("ascii")))
        return made.pieces, known

    def _copy(self) -> Pieces:
        """The same, with checksums of its own: what is saved only counts when the store has it."""
        return Pieces(
            dict(self.sums), self.total, dict(self.lengths), self.size, self.head, self.columns, self.record,
            self.shown, self.origins, self.runs, self.system, self.changes, self.spans, self.handles, self.made,
            self._digests,
        )  # fmt: skip

    def _once(self, name: str, of: tuple[object, ...], make: Callable[[], str | None]) -> str | None:
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

    def put(self, name: str, content: bytes) -> None:
        """Write a piece, unless the store has it."""
        closed, known = _closed(name, content), self.after
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

    def rows(self, record: Record) -> dict[str, Any]:
        """The columns of the history; gives what is not a whole piece yet."""
        known, length = self.after, len(record)
        columns = [column.of(record) for column in _COLUMNS]
        before = len(known.columns[-1])
        same = all(now.startswith(old) for now, old in zip(columns, known.columns, strict=True))
        for number in range(before // ROWS if same else 0, length // ROWS):
            self.put(f"rows/{number}", _rows(columns, number * ROWS, (number + 1) * ROWS))
        if not same or not before:
            self._drop_chunks("rows", length // ROWS)
        known.columns = columns
        rest = _rows(columns, length - length % ROWS, length)
        return {"length": length, "rest": b64encode(rest).decode("ascii")}

    def _drop_chunks(self, name: str, full: int) -> None:
        number = full
        while f"{name}/{number}" in self.after.sums:
            self.drop([f"{name}/{number}"])
            number += 1

    def view(self, record: Record) -> dict[str, Any]:
        """The view: where its messages come from, and those that are not the caller's."""
        known, shown, origins = self.after, record.shown, record.origins
        same = known.record is record  # then what is equal was the same object before
        start = min(_same_start(known.shown, shown, equal=same), _same_start(known.origins, origins))
        before = {_name(place, known.origins[place]) for place in range(start, len(known.origins))}
        if not known.shown:  # after a load
            before = {name for name in known.sums if name.startswith(("edited/", "made/"))}
        runs = [list(run) for run in known.runs if (run[0] or 0) < start]
        if runs:
            runs[-1][2] = min(runs[-1][2] or 0, start - (runs[-1][0] or 0))
        system = [each for each in known.system if each[0] < start]
        now: set[str] = set()
        for place in range(start, len(origins)):
            origin = origins[place]
            last = runs[-1] if runs else None
            if last is not None and origin is not None and last[1] is not None and last[1] + (last[2] or 0) == origin:
                last[2] = (last[2] or 0) + 1
            else:
                runs.append([place, origin, 1])
            if origin is not None and goes_out_as_another(record.view[place]):
                system.append((place, origin))
            if not record.as_given(place):
                now.add(name := _name(place, origin))
                self.put(name, _dump_message(record, place))
        self.drop(before - now)
        self._made(record, start)
        known.record, known.shown, known.origins = record, list(shown), list(origins)
        known.runs, known.system = runs, system
        tail = zip(record.tail, record.tail_origin, strict=True)
        told = {index for _, index in system}.union(index for each, index in tail if goes_out_as_another(each))
        if record.missing is not None:
            told = {*record.missing.system}
        return {"runs": [run[1:] for run in runs], "system": sorted(told)}

    def _made(self, record: Record, stop: int) -> None:
        """The messages that stages made, of which something else is said, as where their tokens are counted anew."""
        known = self.after
        if known.made != record.made:
            for place in range(stop):
                if id(record.view[place]) in record.made:
                    self.put(_name(place, record.origins[place]), _dump_message(record, place))
            known.made = dict(record.made)

    def said(self, changes: Sequence[Change]) -> dict[str, Any]:
        """The changes of the log; gives those that are not a whole piece yet."""
        known, length = self.after, len(changes)
        start = _same_start(known.changes, changes)
        for number in range(start // CHANGES, length // CHANGES):
            some = changes[number * CHANGES : (number + 1) * CHANGES]
            self.put(f"said/{number}", _encode(list(map(_dump_change, some))).encode("ascii"))
        if start < len(known.changes) or not known.changes:
            self._drop_chunks("said", length // CHANGES)
        known.changes = list(changes)
        rest = changes[length - length % CHANGES :]
        return {"length": length, "rest": list(map(_dump_change, rest))}

    def gone(self, record: Record) -> None:
        """What has left the view."""
        known, log = self.after, record.log
        if known.spans == log.spans and known.handles == log.handles:
            return
        spans = [[span.start, span.stop, span.outcome, span.stage, span.reason, span.by] for span in log.spans]
        handles = list(log.handles.items())
        if spans or handles:
            self.put("gone", _encode([spans, handles]).encode("ascii"))
        else:
            self.drop(["gone"])
        known.spans, known.handles = list(log.spans), dict(log.handles)


def _same_start(before: Sequence[Any], now: Sequence[Any], *, equal: bool = True) -> int:
    """How many at the start are the very same objects; all, too, where they are equal and that suffices."""
    shared = min(len(before), len(now))
    if equal and before == now[: len(before)]:  # much faster, and so it is after nearly every step
        return len(before)
    return next(compress(count(), map(is_not, before, now)), shared)


def _rows(columns: Sequence[bytes], start: int, stop: int) -> bytes:
    pairs = zip(_COLUMNS, columns, strict=True)
    return b"".join(known[start * column.width : stop * column.width] for column, known in pairs)


def _name(place: int, origin: int | None) -> str:
    return f"made/{place}" if origin is None else f"edited/{origin}"


def _dump_message(record: Record, place: int) -> bytes:
    """A message of the view as it went out, whether its payload is its own, and what is said of it if it was made."""
    shown = record.shown[place]
    native = to_json(record.out[place] if isinstance(shown, Digest) else shown, f"messages[{place}]")
    added = record.made.get(id(record.view[place]))
    said = None if added is None else _dump_change(evolve(added[1], index=place))
    return _encode([native, has_payload_of_its_own(record, place), said]).encode("ascii")


def _dump_change(change: Change) -> list[Any]:
    said = change.index, change.role, change.outcome, change.stage, change.reason, change.by
    return [*said, change.tokens_before, change.tokens_after, change.handle]


def _dump_begun(begun: Beginning | None) -> list[str] | None:
    return None if begun is None else [begun.system.hex(), begun.task.hex()]


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
    try:
        state = _state(head, contents)
        begun = None if head["begun"] is None else Beginning(*map(bytes.fromhex, head["begun"]))
        lost = bool(head["lost"])
    except (KeyError, IndexError, TypeError, ValueError, RecursionError) as error:
        raise _damaged("head", said_by(error)) from error
    session = Session.load(plan, state, on_compact)
    session.internals.begun = begun
    return SavedState(session, write, known, lost)


def _head(pieces: Mapping[str, bytes]) -> tuple[str, int, dict[str, Any]]:
    """What tells the write, the checksum over all other pieces, and what the head says."""
    if "head" not in pieces:
        raise _damaged("head", "it is missing")
    try:
        known = json.loads(_opened("head", pieces["head"]))
        write, total, head = known["write"], known["sum"], known["head"]
        version = head["saved"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise _damaged("head", said_by(error)) from error
    if isinstance(version, int) and version > SAVED:
        where = "state.saved"
        raise NewerState(where, f"a newer release has saved it, with version {version} of the pieces")
    if version != SAVED:
        raise _damaged("head", f"version {version!r:.80} of the pieces is not known")
    return write, total, head


def _opened(name: str, body: object) -> bytes:
    content = body[_SUM_BYTES:] if isinstance(body, bytes) else b""
    if not isinstance(body, bytes) or body[:_SUM_BYTES] != _sum(name, content):
        raise _damaged(name, "its checksum is another")
    return content


def _damaged(piece: str, what: str) -> InvalidInput:
    return InvalidInput(f"state.{piece}", what)


def _state(head: Mapping[str, Any], contents: Mapping[str, bytes]) -> dict[str, Any]:
    """The state as a dump has it, with None for messages of the view that the caller holds."""
    columns = _read_columns(head["rows"], contents)
    length = head["rows"]["length"]
    origins = [origin for run in head["view"]["runs"] for origin in _places_of(*run)]
    ours = {place: _json(contents[name]) for place, name in _ours(origins, contents)}
    out = [ours[place][0] if place in ours else None for place in range(len(origins))]
    tail = [None] * head["tail"]
    sums = *(digest(from_json(out[place])) for place in ours), exact_digest(out), exact_digest(tail)
    spans, handles = _json(contents["gone"]) if "gone" in contents else ([], [])
    changes = [*_read_changes(head["said"], contents), *head["marks"]]
    changes += [said for _, _, said in ours.values() if said is not None]
    stands = {index: (messages, calls) for index, messages, calls in head["stands"]}
    told = [stands.get(index, (1, calls)) for index, calls in enumerate(columns["calls"])]
    return {
        "version": VERSION,
        **{name: head[name] for name in ("id", "children", "billed_tokens", "retried", "fixed", "opening")},
        **head["around"],
        "head": None,
        "record": {
            "seen": b64encode(columns["digests"]).decode("ascii"),
            "sizes": _numbers(columns["sizes"]),
            "weights": _numbers(columns["byte_sizes"]),
            "roles": "".join(LETTERS[role] for role in columns["roles"]),
            "decided": dump_runs(_numbers(columns["decided"])),
            "out": out,
            "origins": origins,
            "edited": [place for place in ours if origins[place] is not None],
            "sums": b64encode(b"".join(sums)).decode("ascii"),
            "settled": head["settled"],
            "tail": tail,
            "tail_origin": list(range(length - len(tail), length)),
            "changes": [_as_run(list(run)) for _, run in groupby(changes, lambda change: change[1:6])],
            "spans": [dict(zip(SPAN, span, strict=True)) for span in spans],
            "handles": {str(index): handle for index, handle in handles},
            "quiet_until": head["quiet_until"],
            "waiting": head["waiting"],
            "foreign": head["foreign"],
            "payloads": [place for place, (_, own, _) in ours.items() if own],
            "system_sent_as_user": head["view"]["system"],
            "instruction_digests": head["instructions"],
            "stands": dump_runs([messages for messages, _ in told]),
            "calls": [calls for _, calls in told],
            "unsaid": head["unsaid"],
            "uncounted": head["uncounted"],
        },
    }


def _places_of(origin: int | None, times: int) -> Iterable[int | None]:
    return [None] * times if origin is None else range(origin, origin + times)


def _ours(origins: Sequence[int | None], contents: Mapping[str, bytes]) -> Iterator[tuple[int, str]]:
    """The places of messages that are not the caller's, and the names of their pieces."""
    names = ((place, _name(place, origin)) for place, origin in enumerate(origins))
    return ((place, name) for place, name in names if name in contents or name.startswith("made/"))


def _read_columns(rows: Mapping[str, Any], contents: Mapping[str, bytes]) -> dict[str, bytes]:
    chunks = [contents[f"rows/{number}"] for number in range(rows["length"] // ROWS)]
    chunks.append(b64decode(rows["rest"], validate=True))
    expected = [ROWS] * (len(chunks) - 1) + [rows["length"] % ROWS]
    if [len(chunk) for chunk in chunks] != [_WIDTH * times for times in expected]:
        raise _damaged("rows", "they are not so long as the head says")
    made, start = {}, 0
    for column in _COLUMNS:
        stop = start + column.width
        pairs = zip(chunks, expected, strict=True)
        made[column.name] = b"".join(chunk[start * times : stop * times] for chunk, times in pairs)
        start = stop
    return made


def _read_changes(said: Mapping[str, Any], contents: Mapping[str, bytes]) -> list[list[Any]]:
    chunks = [_json(contents[f"said/{number}"]) for number in range(said["length"] // CHANGES)]
    return [change for chunk in [*chunks, said["rest"]] for change in chunk]


def _as_run(changes: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Changes that say the same, as a dump has them."""
    index, _, _, _, _, _, before, after, handles = map(list, zip(*changes, strict=True))
    said = dict(zip(("role", "outcome", "stage", "reason", "by"), changes[0][1:6], strict=True))
    told = handles if any(handles) else None
    return {"index": index, **said, "tokens_before": before, "tokens_after": after, "handle": told}


def _numbers(column: bytes) -> list[int]:
    known = array("I", column)
    if sys.byteorder == "big":
        known.byteswap()
    return list(known)


def _json(content: bytes) -> Native:
    return json.loads(content)


T = TypeVar("T")

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
