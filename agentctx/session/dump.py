"""A session as versioned JSON, and back: what is missing, unknown or wrong is named by its place."""

from __future__ import annotations

import json
from array import array
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Iterator, Mapping, Sequence, Set as AbstractSet
from itertools import groupby, repeat
from string import hexdigits
from typing import Any

from attrs import asdict, evolve, fields, frozen

from agentctx.budget import Budget, MediaLimits
from agentctx.changes import CAUSES, By, Change, ChangeLog, Outcome, Span, numbers
from agentctx.characters import shown
from agentctx.economics import Suspicion
from agentctx.engine.guarantee import head_of
from agentctx.engine.plan import Plan
from agentctx.engine.reading import with_calls_named
from agentctx.engine.usage import (
    BELIEVABLE,
    MOST_MODELS,
    REMEMBERED,
    SAMPLES,
    Calibration,
    LearnedLimits,
    LimitsByModel,
    OverflowLimit,
)
from agentctx.errors import ConfigError, InvalidInput
from agentctx.formats.native import clean_text, from_json, to_json
from agentctx.formats.registry import format_named
from agentctx.message import ROLES, Message, Native
from agentctx.session.matching import as_recap, as_system, known_again, not_given
from agentctx.session.record import (
    DIGEST_BYTES,
    Digest,
    LastRequest,
    Missing,
    Record,
    Uncounted,
    UnsaidSince,
    call_ids,
    digest,
    exact_digest,
    goes_out_as_another,
)
from agentctx.session.step_context import Given, State
from agentctx.unit import broken_pair
from agentctx.wire_format import WireFormat

MOST = 2**32 - 1
"""The largest whole number that is taken: what four bytes hold."""

MOST_COUNTED = 10**9 - 1
"""The largest number that a recap counts."""

LARGEST = 1e15
"""The largest other number that is taken; none is larger than seconds since 1970."""


@frozen
class Fields:
    """A JSON object, and where it stands.

    Args:
        values: Its fields.
        where: The path to it, for errors.
    """

    values: Mapping[str, Any]
    where: str

    @classmethod
    def of(cls, value: object, where: str, names: Sequence[str]) -> Fields:
        """A JSON object that has exactly these fields.

        Raises:
            InvalidInput: If it is no object, or a field is missing or unknown; names the place.
        """
        if not isinstance(value, Mapping):
            raise InvalidInput(where, f"expected an object, got {shown(value)}")
        known = cls(value, where)
        for name in names:
            if name not in value:
                raise known.fail(name, "it is missing")
        for name in value:
            if name not in names:
                raise known.fail(name, "no such field is known")
        return known

    def at(self, name: str) -> str:
        """The path to a field."""
        return f"{self.where}.{name}"

    def fail(self, name: str, what: str) -> InvalidInput:
        """The error that names a field."""
        return InvalidInput(self.at(name), what)

    def whole(self, name: str, least: int = 0, most: int = MOST) -> int:
        """A whole number."""
        return _whole(self.values[name], self.at(name), least, most)

    def whole_or_none(self, name: str, least: int = 0, most: int = MOST) -> int | None:
        """A whole number, or nothing."""
        return None if self.values[name] is None else self.whole(name, least, most)

    def wholes(self, name: str, least: int = 0, most: int = MOST) -> list[int]:
        """A list of whole numbers."""
        values = self._typed(name, list, "a list")
        if all(type(each) is int for each in values) and (not values or least <= min(values) <= max(values) <= most):
            return list(values)
        return [_whole(each, where, least, most) for each, where in self.listed(name)]

    def wholes_or_none(self, name: str, least: int = 0, most: int = MOST) -> list[int | None]:
        """A list of whole numbers and nothings."""
        return [None if each is None else _whole(each, where, least, most) for each, where in self.listed(name)]

    def real_or_none(self, name: str) -> float | None:
        """A finite number, or nothing."""
        return None if self.values[name] is None else _real(self.values[name], self.at(name))

    def reals(self, name: str) -> list[float]:
        """A list of finite numbers."""
        return [_real(each, where) for each, where in self.listed(name)]

    def truth(self, name: str) -> bool:
        """True or false."""
        return bool(self._typed(name, bool, "true or false"))

    def text(self, name: str) -> str:
        """Text."""
        return str(self._typed(name, str, "text"))

    def name_or_none(self, name: str) -> str | None:
        """Text that can be sent and printed, or nothing: no half of a character in it."""
        if (text := self.text_or_none(name)) is not None and not text.isascii() and clean_text(text) is not text:
            raise self.fail(name, f"lone surrogates are no text: {shown(text)}")
        return text

    def text_or_none(self, name: str) -> str | None:
        """Text, or nothing."""
        return None if self.values[name] is None else self.text(name)

    def texts_or_none(self, name: str) -> list[str | None]:
        """A list of texts and nothings."""
        for each, where in self.listed(name):
            if each is not None and not isinstance(each, str):
                raise InvalidInput(where, f"expected text, got {shown(each)}")
        return list(self.values[name])

    def digest_or_none(self, name: str) -> Digest | None:
        """A digest in hexadecimal, or nothing."""
        if (text := self.text_or_none(name)) is None:
            return None
        if len(text) != 2 * DIGEST_BYTES or not set(text) <= set(hexdigits):
            raise self.fail(name, f"expected {2 * DIGEST_BYTES} hexadecimal digits, got {shown(text)}")
        return Digest(bytes.fromhex(text))

    def listed(self, name: str) -> list[tuple[Any, str]]:
        """Each member of a list, with the path to it."""
        value = self._typed(name, list, "a list")
        return [(each, f"{self.at(name)}[{place}]") for place, each in enumerate(value)]

    def _typed(self, name: str, kind: type, called: str) -> Native:
        value = self.values[name]
        if not isinstance(value, kind):
            raise self.fail(name, f"expected {called}, got {shown(value)}")
        return value


def _whole(value: object, where: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidInput(where, f"expected a whole number from {least:,} to {most:,}, got {shown(value)}")
    return value


def _real(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= LARGEST:
        raise InvalidInput(where, f"expected a finite number, got {shown(value)}")
    return float(value)


VERSION = 6

STATE = (
    "version", "id", "model", "home", "format", "assumed", "steps", "children", "billed_tokens", "budget", "sent",
    "learned", "fixed", "head", "opening", "retried", "record",
)  # fmt: skip
"""The fields of a session's state."""

SENT = LastRequest._fields
"""The fields of the last request; its moment is written in seconds since 1970."""

_LEARNED = (
    "model", "limit", "stated", "accepted", "given_up", "obeyed", "anchor", "reports", "ratios", "doubtful", "sound",
    "base", "truncation",
)  # fmt: skip
_TRUNCATION = ("billed", "sent", "why")
_BUDGET = tuple(attribute.name for attribute in fields(Budget))
_MEDIA = tuple(attribute.name for attribute in fields(MediaLimits))


def opened(state: object) -> Fields:
    """The state, when it is one that can be read.

    Args:
        state: What ``Session.dump`` gave, or its JSON text.

    Raises:
        InvalidInput: If it is none, or of another version.
    """
    if isinstance(state, (str, bytes, bytearray)):
        try:
            state = json.loads(state)
        except (ValueError, RecursionError) as error:
            where = "state"
            raise InvalidInput(where, f"not JSON: {error}") from error
    if not isinstance(state, Mapping):
        where = "state"
        raise InvalidInput(where, f"expected an object, got {type(state).__name__}")
    version = state.get("version")
    if isinstance(version, bool) or version != VERSION:
        where = "state.version"
        raise InvalidInput(where, f"expected a session's state of version {VERSION}, got {shown(version)}")
    return Fields.of(state, "state", STATE)


def dump_learned(limits: LearnedLimits) -> dict[str, Any]:
    """What was learned about one model, as plain JSON values."""
    calibration = limits.calibration
    return {
        "limit": limits.learned.tokens,
        "stated": limits.learned.stated,
        "accepted": list(limits.learned.accepted),
        "given_up": limits.learned.given_up,
        "obeyed": limits.learned.obeyed,
        "anchor": _pair(calibration.anchor),
        "reports": calibration.reports,
        "ratios": list(calibration.samples),
        "doubtful": _pair(calibration.doubtful),
        "sound": _pair(calibration.sound),
        "base": _pair(calibration.base),
        "truncation": None if limits.truncation is None else asdict(limits.truncation),
    }


def _pair(sizes: tuple[int, int] | None) -> list[int] | None:
    return None if sizes is None else list(sizes)


def load_learned(state: object, where: str) -> LearnedLimits:
    """What was learned about one model; the budget is to be set.

    Raises:
        InvalidInput: If the state is damaged; names the place.
    """
    known = Fields.of(state, where, _LEARNED)
    ratios = known.reals("ratios")
    low, high = BELIEVABLE
    if len(ratios) > SAMPLES or not all(low <= ratio <= high for ratio in ratios):
        raise known.fail("ratios", f"expected at most {SAMPLES} numbers from {low} to {high}")
    calibration = Calibration(
        _sizes(known, "anchor"),
        known.whole("reports"),
        deque(ratios, maxlen=SAMPLES),
        _sizes(known, "doubtful"),
        _sizes(known, "sound"),
        _sizes(known, "base"),
    )
    return LearnedLimits(None, calibration, _learned_limit(known), _suspicion(known))


def _learned_limit(known: Fields) -> OverflowLimit:
    accepted = known.wholes("accepted", least=1)
    if len(accepted) > REMEMBERED:
        raise known.fail("accepted", f"expected at most {REMEMBERED} sizes, got {len(accepted)}")
    tokens, stated = known.whole_or_none("limit", least=1), known.whole_or_none("stated", least=1)
    if (tokens is None) != (stated is None):
        raise known.fail("stated", "it and limit are known together, or neither is")
    sizes = deque(accepted, maxlen=REMEMBERED)
    given_up, obeyed = known.whole_or_none("given_up", least=1), known.whole_or_none("obeyed")
    return OverflowLimit(tokens, stated, sizes, given_up, obeyed)


def _suspicion(known: Fields) -> Suspicion | None:
    if known.values["truncation"] is None:
        return None
    said = Fields.of(known.values["truncation"], known.at("truncation"), _TRUNCATION)
    return Suspicion(said.whole("billed", least=1), said.whole("sent"), said.text("why"))


def _sizes(known: Fields, name: str) -> tuple[int, int] | None:
    """Two numbers of tokens: ours, and the provider's."""
    if known.values[name] is None:
        return None
    sizes = known.wholes(name, least=1)
    if len(sizes) != 2:
        raise known.fail(name, f"expected two numbers of tokens, got {len(sizes)}")
    return sizes[0], sizes[1]


def dump_budget(budget: Budget | None) -> dict[str, Any] | None:
    """A budget as plain JSON values."""
    return None if budget is None else asdict(budget)


def load_budget(state: object, where: str) -> Budget | None:
    """The budget that was dumped.

    Raises:
        InvalidInput: If it is damaged or makes no sense; names the place.
    """
    if state is None:
        return None
    known = Fields.of(state, where, _BUDGET)
    media = Fields.of(known.values["media"], known.at("media"), _MEDIA)
    limits = MediaLimits(*(media.whole_or_none(name, least=1) for name in _MEDIA))
    amounts = {name: value for name, value in known.values.items() if name != "media"}
    known.whole("window", least=1)
    try:
        return Budget(**amounts, media=limits)
    except ConfigError as error:
        raise InvalidInput(where, str(error)) from error


LETTERS = "sduat"
"""One for each role of ``message.ROLES``, in that order."""

_RECORD = (
    "seen", "sizes", "weights", "roles", "decided", "out", "origins", "edited", "sums", "settled", "tail",
    "tail_origin", "changes", "spans", "handles", "quiet_until", "waiting", "foreign", "payloads",
    "system_sent_as_user", "instruction_digests", "stands", "calls", "unsaid",
    "uncounted",
)  # fmt: skip
_CHANGE = tuple(attribute.name for attribute in fields(Change))
SPAN = tuple(attribute.name for attribute in fields(Span))


def dump_record(record: Record) -> dict[str, Any]:
    """A record as plain JSON values: the view, and about 30 characters for each message of the history.

    What is shown shortened takes about 50 characters more, and its handle.

    Raises:
        InvalidInput: If JSON cannot hold a message of the view; names it.
    """
    edited = [place for place, origin in enumerate(record.origins) if origin is not None and not record.as_given(place)]
    out = _natives(_as_sent(record))
    changed = {*edited, *(place for place, origin in enumerate(record.origins) if origin is None)}
    ours = (native for place, native in enumerate(out) if place in changed)
    tail = _natives([message.source for message in record.tail])
    stands, calls = record.all_stand_for()
    sums = *(digest(from_json(native)) for native in ours), exact_digest(out), exact_digest(tail)
    return {
        "seen": b64encode(record.digested()).decode("ascii"),
        "sizes": list(record.sizes),
        "weights": list(record.byte_sizes),
        "roles": "".join([LETTERS[role] for role in record.roles]),
        "decided": dump_runs(record.decided),
        "out": out,
        "origins": list(record.origins),
        "edited": edited,
        "sums": b64encode(b"".join(sums)).decode("ascii"),
        "settled": record.final,
        "tail": tail,
        "tail_origin": list(record.tail_origin),
        "changes": [_dump_run(list(run)) for _, run in groupby(record.changes(), _said)],
        "spans": [asdict(span) for span in record.log.spans],
        "handles": {str(index): handle for index, handle in record.log.handles.items()},
        "quiet_until": record.quiet_until,
        "waiting": record.waiting,
        "foreign": record.foreign_count,
        "payloads": [place for place in sorted(changed) if has_payload_of_its_own(record, place)],
        "system_sent_as_user": sorted(_system_messages_as_others(record)),
        "instruction_digests": b64encode(b"".join(sorted(record.instructions))).decode("ascii"),
        "stands": dump_runs(stands),
        "calls": calls,
        "unsaid": list(record.unsaid),
        "uncounted": [list(each) for each in record.uncounted],
    }


def dump_runs(column: Sequence[int]) -> list[list[int]]:
    """A column in which neighbours are mostly the same number: each with how often it comes."""
    return [[number, len(list(run))] for number, run in groupby(column)]


def _system_messages_as_others(record: Record) -> AbstractSet[int]:
    """The indexes in the history of system messages that go out under another role."""
    if record.missing is not None:
        return record.missing.system
    known = zip((*record.view, *record.tail), (*record.origins, *record.tail_origin), strict=True)
    return {origin for message, origin in known if origin is not None and goes_out_as_another(message)}


def has_payload_of_its_own(record: Record, place: int) -> bool:
    """Whether what stands there was made of another payload than the caller's, or has one though a stage made it."""
    if record.missing is not None:
        return place in record.missing.payloads
    message = record.view[place]
    return (message.source if record.origins[place] is None else message.given) is not None


def _said(change: Change) -> tuple[str, Outcome, str, str, By]:
    """What neighbouring changes mostly have in common."""
    return change.role, change.outcome, change.stage, change.reason, change.by


def _dump_run(run: Sequence[Change]) -> dict[str, Any]:
    """Changes that say the same, as one: what they have in common once, of the rest a list each."""
    handles = [change.handle for change in run]
    return {
        "index": [change.index for change in run],
        "role": run[0].role,
        "outcome": run[0].outcome.value,
        "stage": run[0].stage,
        "reason": run[0].reason,
        "tokens_before": [change.tokens_before for change in run],
        "tokens_after": [change.tokens_after for change in run],
        "handle": handles if any(handles) else None,
        "by": run[0].by,
    }


def _as_sent(record: Record) -> list[Any]:
    """The messages of the view as they went out: the caller may have edited its objects since."""
    pairs = zip(record.out, record.shown, strict=True)
    return [native if isinstance(shown, Digest) else shown for native, shown in pairs]


def _natives(messages: Sequence[Any]) -> list[Any]:
    made: list[Any] = []
    try:
        for native in messages:
            made.append(to_json(native, f"messages[{len(made)}]"))
    except RecursionError:
        where = f"messages[{len(made)}]"
        raise InvalidInput(where, "it is nested too deep to be written down") from None
    return made


def load_record(state: object, wire: WireFormat) -> Record:
    """The record that was dumped. Its messages are recognised by digest until the caller passes its history.

    Args:
        state: What ``dump_record`` gave.
        wire: The format of its messages.

    Raises:
        InvalidInput: If the state is damaged; names the place.
    """
    known = Fields.of(state, "state.record", _RECORD)
    digests = _digests(known, "seen")
    seen: list[Any] = [Digest(content) for content in digests]
    sizes, weights, calls, roles = _columns(known, len(seen))
    stood = list(zip(_runs(known, "stands", len(seen), most=MOST_COUNTED), calls, strict=True))
    given = [native for name in ("out", "tail") for native, _ in known.listed(name)]
    left_out = any(native is None for native in given)  # what the caller holds
    out, view = (
        ([from_json(native) for native, _ in known.listed("out")], []) if left_out else _read(known, "out", wire)
    )
    origins, edited = _origins(known, len(out), len(seen))
    _check_messages(known, out, origins, edited, digests)
    payloads = _payloads(known, origins, edited)
    system = frozenset(known.wholes("system_sent_as_user", most=len(seen) - 1))
    tail, tail_origin = _tail(known, wire, digests, left_out=left_out)
    _check_nulls(known)
    settled = _settled(known, origins, tail_origin[0] if tail else len(seen))
    if left_out:
        view = [Message("user" if origin is None else ROLES[roles[origin]], ()) for origin in origins]
    else:
        for place, origin in enumerate(origins):
            if origin is None or place in edited:  # nothing that the caller passes says so
                view[place] = not_given(view[place], made=origin is None, own=place in payloads)
        _check_pairs(known, view[:settled], wire)
        _check_pairs(known, view, wire)
        view = known_again(as_system(view, origins, system), origins, stood.__getitem__)
    changes, added = _changes(known, len(seen), len(out))
    spans = _spans(known, origins, len(seen))
    ours = {origin for message, origin in zip(view, origins, strict=True) if message.as_recap}
    record = Record(
        seen=seen,
        sizes=numbers(sizes),
        byte_sizes=numbers(weights),
        view=view,
        out=out,
        shown=[
            Digest(digest(native)) if origin is None or place in edited else seen[origin]
            for place, (native, origin) in enumerate(zip(out, origins, strict=True))
        ],
        origins=origins,
        final=settled,
        tail=as_recap(as_system(tail, tail_origin, system), tail_origin, ours),
        tail_origin=tail_origin,
        log=ChangeLog.of(changes, spans, _handles(known, len(seen))),
        made={id(view[change.index]): (view[change.index], change) for change in added},
        roles=bytearray(roles),
        decided=_runs(known, "decided", len(seen), most=len(seen)),
        ids=call_ids(view[:settled]),
        history_tokens=sum(sizes),
        history_bytes=sum(weights),
        quiet_until=known.whole("quiet_until"),
        waiting=known.truth("waiting"),
        unsaid=_unsaid(known, len(seen)),
        uncounted=tuple(_uncounted(known, len(seen))),
        foreign_count=known.whole("foreign", most=len(seen)),
        instructions=frozenset(_digests(known, "instruction_digests")),
        digests=bytearray(b"".join(digests)),
        linked=not seen,
        missing=Missing(payloads, system) if left_out else None,
    )
    for stands in stood:
        record.note_stands(*stands)
    return record


def _unsaid(known: Fields, length: int) -> UnsaidSince:
    """What the recap has no room for."""
    given = known.listed("unsaid")
    if len(given) != 3:
        raise known.fail("unsaid", f"expected two texts and a number, got {len(given)} values")
    (now, where), (before, where_before), (until, where_until) = given
    for text, place in ((now, where), (before, where_before)):
        if not isinstance(text, str):
            raise InvalidInput(place, f"expected text, got {shown(text)}")
    return UnsaidSince(now, before, _whole(until, where_until, 0, length))


def _uncounted(known: Fields, length: int) -> Iterator[Uncounted]:
    """What was left out before the history began, and is not counted."""
    for given, where in known.listed("uncounted"):
        if not isinstance(given, list) or len(given) != 3:
            raise InvalidInput(where, f"expected three numbers, got {shown(given)}")
        at, messages, calls = (
            _whole(each, f"{where}[{place}]", 0, most)
            for place, (each, most) in enumerate(zip(given, (length, MOST_COUNTED, MOST_COUNTED), strict=True))
        )
        yield Uncounted(at, messages, calls)


def _digests(known: Fields, name: str) -> list[bytes]:
    """The digests that stand under ``name``, each of ``DIGEST_BYTES`` bytes."""
    try:
        content = b64decode(known.text(name), validate=True)
    except ValueError as error:
        raise known.fail(name, f"no base64: {error}") from error
    if len(content) % DIGEST_BYTES:
        raise known.fail(name, f"{len(content):,} bytes are no whole number of digests of {DIGEST_BYTES}")
    return [content[place : place + DIGEST_BYTES] for place in range(0, len(content), DIGEST_BYTES)]


def _columns(known: Fields, length: int) -> tuple[list[int], list[int], list[int], list[int]]:
    """Tokens, bytes, tool calls and role of each message of the history."""
    sizes, weights, letters = known.wholes("sizes"), known.wholes("weights"), known.text("roles")
    calls = known.wholes("calls", most=MOST_COUNTED)
    for name, column in (("sizes", sizes), ("weights", weights), ("calls", calls), ("roles", letters)):
        if len(column) != length:
            raise known.fail(name, f"it has {len(column):,} entries for a history of {length:,} messages")
    roles = [LETTERS.find(letter) for letter in letters]
    if -1 in roles:
        raise known.fail("roles", f"{letters[roles.index(-1)]!r} stands for no role")
    return sizes, weights, calls, roles


def _runs(known: Fields, name: str, length: int, most: int) -> array[int]:
    """A number for each message of the history, at most ``most``: runs of equal numbers."""
    column = numbers()
    for run, where in known.listed(name):
        if not isinstance(run, list) or len(run) != 2:
            raise InvalidInput(where, f"expected two whole numbers, got {shown(run)}")
        one = Fields({"number": run[0], "times": run[1]}, where)
        column.extend(repeat(one.whole("number", most=most), one.whole("times", 1, length - len(column))))
    if len(column) != length:
        raise known.fail(name, f"it tells of {len(column):,} of {length:,} messages")
    return column


def _read(known: Fields, name: str, wire: WireFormat) -> tuple[list[Any], list[Message]]:
    """Native messages, and as values."""
    natives: list[Any] = []
    messages: list[Message] = []
    for place, (each, where) in enumerate(known.listed(name)):
        try:
            natives.append(native := from_json(each))
            messages.append(wire.read_message(native, place))
        except InvalidInput as error:
            raise InvalidInput(error.where.replace(f"messages[{place}]", where, 1), error.what) from error
        except ValueError as error:
            raise InvalidInput(where, f"no base64: {error}") from error
        except RecursionError:
            raise InvalidInput(where, "it is nested too deep to be read") from None
    return natives, with_calls_named(wire, messages)


def _check_pairs(known: Fields, view: Sequence[Message], wire: WireFormat) -> None:
    broken = broken_pair(view, wire.rounds)
    if broken is not None:
        raise known.fail("out", broken)


def _origins(known: Fields, places: int, length: int) -> tuple[list[int | None], set[int]]:
    """For each message of the view, its index in the history; and the places of those that were edited."""
    origins = known.wholes_or_none("origins", most=length - 1)
    there = [origin for origin in origins if origin is not None]
    if len(set(there)) < len(there):
        raise known.fail("origins", "two messages of the view were read from the same one")
    if len(origins) != places:
        raise known.fail("origins", f"it has {len(origins):,} entries for a view of {places:,} messages")
    edited = known.wholes("edited", most=places - 1)
    if any(origins[place] is None for place in edited):
        raise known.fail("edited", "a message that a stage made is none that was edited")
    return origins, set(edited)


def _check_messages(
    known: Fields, out: Sequence[Any], origins: Sequence[int | None], edited: set[int], digests: Sequence[bytes]
) -> None:
    """Refuse a message of the view that is not the one that was dumped: it would be sent."""
    sums = _digests(known, "sums")
    ours = [place for place, origin in enumerate(origins) if origin is None or place in edited]
    if len(sums) != len(ours) + 2:
        raise known.fail(
            "sums", f"{len(sums):,} digests, not two and {len(ours):,} for what is no one else's in the view"
        )
    expected = dict(zip(ours, sums[:-2], strict=True))
    for place, origin in enumerate(origins):
        if out[place] is None and place not in expected:
            continue
        if place in expected and digest(out[place]) != expected[place]:
            raise InvalidInput(f"{known.at('out')}[{place}]", "it is not the message that was dumped")  # noqa: EM102
        if place not in expected and origin is not None and digest(out[place]) != digests[origin]:
            raise InvalidInput(f"{known.at('out')}[{place}]", f"it is not the message {origin:,} of the history")  # noqa: EM102


def _check_nulls(known: Fields) -> None:
    """Refuse messages that lack a null of those that were dumped, or have one more: it may be an argument of a call."""
    for name, expected in zip(("out", "tail"), _digests(known, "sums")[-2:], strict=True):
        try:
            same = exact_digest(known.values[name]) == expected
        except (TypeError, ValueError, RecursionError) as error:
            raise known.fail(name, f"no JSON: {error}") from error
        if not same:
            raise known.fail(name, "a null of a message was taken away or put in")


def _payloads(known: Fields, origins: Sequence[int | None], edited: set[int]) -> set[int]:
    """The places of messages that were not made of the caller's payload alone."""
    payloads = known.wholes("payloads", most=len(origins) - 1)
    if any(origins[place] is not None and place not in edited for place in payloads):
        raise known.fail("payloads", "a message that goes out as it came in has no other payload")
    return set(payloads)


def _tail(
    known: Fields, wire: WireFormat, digests: Sequence[bytes], *, left_out: bool
) -> tuple[list[Message], list[int]]:
    """The messages of the tail, and their indexes in the history; empty ones where they are left out."""
    natives, tail = ([], []) if left_out else _read(known, "tail", wire)
    length = len(digests)
    tail = [Message("user", ()) for _ in known.listed("tail")] if left_out else tail
    origins = known.wholes("tail_origin", most=length - 1)
    if origins != list(range(length - len(tail), length)):
        raise known.fail("tail_origin", f"expected the indexes of the last {len(tail):,} messages")
    for place, (native, origin) in enumerate(zip(natives, origins, strict=not left_out)):
        if digest(native) != digests[origin]:
            raise InvalidInput(f"{known.at('tail')}[{place}]", f"it is not the message {origin:,} of the history")  # noqa: EM102
    return tail, origins


def _settled(known: Fields, origins: Sequence[int | None], open_from: int) -> int:
    """How many messages of the view are final: all that were read from before the tail."""
    settled = known.whole("settled", most=len(origins))
    final = [origin is None or origin < open_from for origin in origins[:settled]]
    of_tail = [origin is None or origin >= open_from for origin in origins[settled:]]
    most = 1 if open_from == len(known.text("roles")) else len(of_tail)  # ``[go on]``, added for one step
    if not all(final) or not all(of_tail) or len(of_tail) > most:
        raise known.fail("settled", f"{settled:,} messages of the view are not those before the tail")
    return settled


def _changes(known: Fields, length: int, places: int) -> tuple[list[Change], list[Change]]:
    """The changes of messages that are still there, and of those that stages made."""
    changes: list[Change] = []
    added: list[Change] = []
    for each, where in known.listed("changes"):
        one = Fields.of(each, where, _CHANGE)
        outcome = _outcome(one)
        made = outcome is Outcome.ADDED
        (added if made else changes).extend(_run(one, outcome, most=(places if made else length) - 1))
    return changes, added


def _run(known: Fields, outcome: Outcome, most: int) -> list[Change]:
    """Changes that say the same; as many of them as there are indexes."""
    role, stage, reason, by = known.text("role"), known.text("stage"), known.text("reason"), _by(known)
    indexes = known.wholes("index", most=most)
    before, after = known.wholes("tokens_before"), known.wholes("tokens_after")
    handles = [None] * len(indexes) if known.values["handle"] is None else known.texts_or_none("handle")
    for name, column in (("tokens_before", before), ("tokens_after", after), ("handle", handles)):
        if len(column) != len(indexes):
            raise known.fail(name, f"it has {len(column):,} entries for {len(indexes):,} changes")
    return [
        Change(index, role, outcome, stage, reason, one, other, handle, by)
        for index, one, other, handle in zip(indexes, before, after, handles, strict=True)
    ]


def _outcome(known: Fields) -> Outcome:
    said = known.text("outcome")
    if said not in list(Outcome):
        raise known.fail("outcome", f"{said[:80]!r} is none of {', '.join(Outcome)}")
    return Outcome(said)


def _by(known: Fields) -> By:
    text = known.text("by")
    for cause in CAUSES:
        if cause == text:
            return cause
    raise known.fail("by", f"{text[:80]!r} is none of {', '.join(CAUSES)}")


def _spans(known: Fields, origins: Sequence[int | None], length: int) -> list[Span]:
    """What is said of messages that are gone: of each message of the history that is not in the view."""
    spans: list[Span] = []
    there = bytearray(length)
    for origin in origins:
        if origin is not None:
            there[origin] = 1
    for each, where in known.listed("spans"):
        one = Fields.of(each, where, SPAN)
        start = one.whole("start", spans[-1].stop if spans else 0, length)
        stop = one.whole("stop", start + 1, length)
        if (kept := there.find(1, start, stop)) >= 0:
            raise known.fail("spans", f"message {kept:,} of the history is said to be gone, and is in the view")
        there[start:stop] = b"\1" * (stop - start)
        spans.append(Span(start, stop, _outcome(one), one.text("stage"), one.text("reason"), _by(one)))
    if (lost := there.find(0)) >= 0:
        raise known.fail("spans", f"message {lost:,} of the history is neither in the view nor said to be gone")
    return spans


def _handles(known: Fields, length: int) -> dict[int, str]:
    """Where the originals of messages that are gone are kept."""
    handles: dict[int, str] = {}
    given = known.values["handles"]
    names = tuple(given) if isinstance(given, Mapping) else ()
    one = Fields.of(given, known.at("handles"), names)
    for name in names:
        if not (
            isinstance(name, str) and name.isascii() and name.isdecimal() and len(name) < 11 and int(name) < length
        ):
            raise one.fail(name, f"expected an index below {length:,}")
        handles[int(name)] = one.text(name)
    return handles


def dump_state(known: State) -> dict[str, Any]:
    """What is known of a conversation, as plain JSON values.

    Raises:
        InvalidInput: If JSON cannot hold a message of the view; names it.
    """
    return {
        **dump_around(known),
        "fixed": dump_head_seen(known),
        "head": None if known.last is None else _plain_head(known.last),
        "opening": dump_opening(known),
        "record": dump_record(known.record),
    }


def dump_around(known: State) -> dict[str, Any]:
    """What is known of a conversation beside its messages, system prompt and tools, as plain JSON values."""
    sent = known.last_request
    return {
        "model": known.model,
        "home": known.limits_by_model.home,
        "format": known.format or (known.wire_name or "").partition("/")[0] or None,
        "assumed": known.assumed,
        "steps": known.steps,
        "budget": dump_budget(known.limits_by_model.own),
        "sent": {**sent._asdict(), "at": _moment(sent.at)},
        "learned": [{"model": model, **dump_learned(each)} for model, each in known.limits_by_model.known.items()],
    }


def dump_head_seen(known: State) -> str | None:
    """The digest of what system prompt and tools looked like when they were passed in last."""
    return None if known.head_seen is None else digest(known.head_seen).hex()


def dump_opening(known: State) -> str | None:
    """The digest of the system prompt and tools that reasoning is bound to."""
    if known.ctx is not None:
        return digest(head_of(known.ctx.context(()))).hex()
    return None if known.head_digest is None else known.head_digest.content.hex()


def _moment(at: float | None) -> float | None:
    """When a request was sent; None when the clock said what is no time: its cache counts as cold then."""
    return at if at is not None and abs(at) <= LARGEST else None


def _plain_head(last: Given) -> list[Any] | None:
    """System prompt and tools of the last request, and their exact digest; None when JSON cannot hold them."""
    try:
        head = [to_json(last.system, "system"), to_json(last.tools, "tools")]
        return [*head, exact_digest(head).hex()]
    except (InvalidInput, RecursionError):
        return None


def load_state(plan: Plan, state: Fields) -> State:
    """What was known of the conversation that was dumped.

    Args:
        plan: The pipeline.
        state: The session's state.

    Raises:
        InvalidInput: If the state is damaged; names the place.
        UnknownModel: If the budget is the model's and the model table does not know it.
    """
    own = load_budget(state.values["budget"], state.at("budget"))
    limits_by_model = LimitsByModel(plan, state.name_or_none("home"), own)
    for each, where in state.listed("learned")[-MOST_MODELS:]:
        limits_by_model.known[_model(each, where)] = load_learned(each, where)
    known = State.empty(plan, state.name_or_none("model"), state.name_or_none("format"), limits_by_model)
    known = evolve(
        known,
        steps=state.whole("steps"),
        head_seen=state.digest_or_none("fixed"),
        head_digest=state.digest_or_none("opening"),
    )
    sent = Fields.of(state.values["sent"], state.at("sent"), SENT)
    if known.format is not None:
        known = _with_messages(known, state, known.format, sent)
        return evolve(known, format=None) if state.truth("assumed") else known
    if state.values["record"] != dump_record(Record()):
        raise state.fail("format", "it is missing, though there are messages")
    return known


def _model(learned: object, where: str) -> str | None:
    """The model that something was learned of.

    Raises:
        InvalidInput: If it is no name.
    """
    model = learned.get("model") if isinstance(learned, Mapping) else None
    if model is not None and not isinstance(model, str):
        place = f"{where}.model"
        raise InvalidInput(place, f"expected text, got {shown(model)}")
    return model


def _with_messages(known: State, state: Fields, format_name: str, sent: Fields) -> State:
    try:
        wire = format_named(format_name, known.model)
    except InvalidInput as error:
        raise state.fail("format", error.what) from error
    record = load_record(state.values["record"], wire)
    length = sent.whole("length")  # what cannot be sent may have become shorter since
    intact = sent.whole("intact", most=min(length, len(record.out)))
    last_request = LastRequest(sent.whole("tokens"), length, intact, sent.real_or_none("at"), sent.truth("asked"))
    known = evolve(known, wire_name=wire.name, record=record, in_force=record.in_force(), last_request=last_request)
    return known if state.values["head"] is None else evolve(known, last=_last(known, state, wire))


def _last(known: State, state: Fields, wire: WireFormat) -> Given:
    """The last request as far as the state holds it: the messages of the view, and of the others what tells them."""
    try:
        system, tools, told = (from_json(native) for native, _ in state.listed("head"))
        same = exact_digest(state.values["head"][:2]).hex() == told and known.head_seen == [system, tools]
    except (TypeError, ValueError, RecursionError) as error:
        raise state.fail("head", f"expected a system prompt, tools and a digest: {error}") from error
    if not same or not isinstance(tools, (list, type(None))):
        raise state.fail("head", "it is not the system prompt and the tools that the state tells of")
    wire.read_system(system)
    wire.read_tools(tools)
    record = known.record
    natives = list(record.seen)
    for place, origin in enumerate(record.origins):
        if origin is not None and record.as_given(place):
            natives[origin] = record.out[place]
    for message, origin in zip(record.tail, record.tail_origin, strict=True):
        natives[origin] = message.source
    return Given(natives, system, tools, loaded=True)
