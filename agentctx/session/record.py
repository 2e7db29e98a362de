"""What a session knows of its conversation."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

from attrs import define, field

from agentctx.core.ledger import ROLES, Book, Ledger, numbers
from agentctx.core.message import Message, Price
from agentctx.core.pairing import broken_pair
from agentctx.core.units import units
from agentctx.session.snapshot import snapshot


@define
class Record:
    """The history as the caller passes it, and the view that was made of it.

    The view's messages from ``settled`` on are provisional: their round is not finished (a call waits for its
    result), so they are read again together with what comes next.

    Args:
        seen: What each message of the history looked like; a dropped message is its native object itself.
        sizes: Tokens of each message of the history, as it was passed in.
        weights: Bytes of each message of the history, as it was passed in.
        view: What was sent, as values.
        out: What was sent, in the caller's format.
        shown: What each message of ``out`` looked like, to recognise it when the caller writes it back; the very
            object of ``seen`` for one that went out as it came in.
        origins: For each message of the view, its index in the history; None when a stage made it.
        settled: How many messages of the view are final.
        tail: The messages of the unfinished round as they were read, before any repair.
        tail_origin: The index in the history of each message of ``tail``.
        book: Every change in force.
        roles: The role of each message of the history, as its place in ``ledger.ROLES``.
        ids: The call ids of the settled messages.
        given_tokens: Sum of ``sizes``.
        given_bytes: Sum of ``weights``.
        view_tokens: Tokens of the settled view.
        view_bytes: Bytes of the settled view.
        quiet_until: After a compaction that did not reach the trigger: act again above this size only, in tokens.
        unbound_from: The first place of the view whose reasoning is left to the provider to drop; None when there is
            none.
        waiting: Whether a compaction waits for the end of the open tool round.
    """

    seen: list[Any] = field(factory=list)
    sizes: array[int] = field(factory=numbers)
    weights: array[int] = field(factory=numbers)
    view: list[Message] = field(factory=list)
    out: list[Any] = field(factory=list)
    shown: list[Any] = field(factory=list)
    origins: list[int | None] = field(factory=list)
    settled: int = 0
    tail: list[Message] = field(factory=list)
    tail_origin: list[int] = field(factory=list)
    book: Book = field(factory=Book)
    roles: bytearray = field(factory=bytearray)
    ids: set[str] = field(factory=set)
    given_tokens: int = 0
    given_bytes: int = 0
    view_tokens: int = 0
    view_bytes: int = 0
    quiet_until: int = 0
    unbound_from: int | None = None
    waiting: bool = False

    def __len__(self) -> int:
        """How many messages of the history are known."""
        return len(self.seen)

    def ledger(self) -> Ledger:
        """The changes in force now."""
        return self.book.snapshot(self.sizes, self.roles)

    def as_given(self, place: int) -> bool:
        """Whether the message at this place of the view goes out as it came in."""
        origin = self.origins[place]
        return origin is not None and self.shown[place] is self.seen[origin]

    def remember(self, seen: Iterable[Any], arrived: Iterable[Message], prices: Iterable[Price]) -> None:
        """Add what arrived to the history: what it looked like, what it says, and what it weighs."""
        self.roles.extend(ROLES.index(message.role) for message in arrived)
        self.seen.extend(seen)
        for price in prices:
            self.sizes.append(price.tokens)
            self.weights.append(price.bytes)
            self.given_tokens += price.tokens
            self.given_bytes += price.bytes

    def forget_dropped(self, natives: Sequence[Any], gone: Iterable[int]) -> None:
        """From now on recognise dropped messages by identity: their content no longer matters."""
        for index in gone:
            self.seen[index] = natives[index]


def call_ids(messages: Iterable[Message]) -> set[str]:
    """The ids of all tool calls in ``messages``."""
    return {call.id for message in messages for call in message.calls}


def rewound(record: Record, length: int, prices: Sequence[Price]) -> Record:
    """The record as it was when only the first ``length`` messages of the history were known.

    What was decided about them stays decided.

    Args:
        record: The record; it is not changed.
        length: How many messages of the history still stand.
        prices: The price of each message of the record's view.
    """
    cut = first_place(record, length)
    new = Record(
        seen=record.seen[:length],
        sizes=record.sizes[:length],
        weights=record.weights[:length],
        view=record.view[:cut],
        out=record.out[:cut],
        shown=record.shown[:cut],
        origins=record.origins[:cut],
        roles=record.roles[:length],
        book=record.book.before(length),
        given_tokens=sum(record.sizes[:length]),
        given_bytes=sum(record.weights[:length]),
    )
    _settle(new, prices[:cut])
    return new


def first_place(record: Record, index: int) -> int:
    """The first place of the view that was read from the history at ``index`` or later; its length when none was."""
    places = (place for place, origin in enumerate(record.origins) if origin is not None and origin >= index)
    return next(places, len(record.view))


def rebased(record: Record, natives: Sequence[Any], prices: Sequence[Price]) -> Record:
    """The record after the caller has replaced its own history by the view (its first ``len(prices)`` messages)."""
    length = len(prices)
    new = Record(view=record.view[:length], out=record.out[:length], origins=list(range(length)))
    new.remember([snapshot(native) for native in natives[:length]], new.view, prices)
    new.shown = list(new.seen)
    _settle(new, prices)
    return new


def _settle(record: Record, prices: Sequence[Price]) -> None:
    """Find out which messages of the view are final: all but an unfinished last round."""
    groups = units(record.view)
    record.settled = len(record.view)
    if groups and groups[-1].is_round and broken_pair(record.view[groups[-1].start :]) is not None:
        record.settled = groups[-1].start
    open_round = zip(record.view[record.settled :], record.origins[record.settled :], strict=True)
    for message, origin in open_round:
        if origin is not None:
            record.tail.append(message)
            record.tail_origin.append(origin)
    record.ids = call_ids(record.view[: record.settled])
    record.view_tokens = sum(price.tokens for price in prices[: record.settled])
    record.view_bytes = sum(price.bytes for price in prices[: record.settled])
