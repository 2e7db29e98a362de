"""The written form of a session's state, and how a session is read from it: an error names the place.

``StateForm`` is all of it. A dump is one JSON value of it; a store has it in pieces (``agentctx.session.keeping``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet
from functools import reduce
from itertools import chain, groupby, repeat
from operator import add
from typing import Any, Self

from attrs import astuple, evolve, field, frozen

from agentctx.budget import Budget
from agentctx.changes import By, Change, ChangeLog, Outcome, Span, numbers
from agentctx.economics import Suspicion
from agentctx.engine.guarantee import head_of
from agentctx.engine.plan import Plan
from agentctx.engine.reading import with_calls_named
from agentctx.engine.usage import MOST_MODELS, Calibration, LearnedLimits, LimitsByModel, OverflowLimit
from agentctx.errors import InvalidInput
from agentctx.formats.native import clean_text, from_json, to_json
from agentctx.formats.registry import format_named
from agentctx.marks import marks_at_first_sight
from agentctx.message import ROLES, Message, Native, Noted, noted_in
from agentctx.plain import from_plain, must_be, to_plain
from agentctx.session.matching import as_recap, as_system, known_again, not_given
from agentctx.session.record import (
    DIGEST_BYTES,
    Counted,
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
    marked,
)
from agentctx.session.step_context import Given, State
from agentctx.unit import broken_pair
from agentctx.wire_format import WireFormat

VERSION = 7


@frozen
class Rows:
    """Messages of the history: of each a member of every column.

    Args:
        seen: Their digests.
        sizes: Their tokens.
        weights: Their bytes.
        roles: The places of their roles in ``message.ROLES``.
        decided: When a stage decided about them last, as in ``Record``; neighbours with the same number are a run, of
            that number and their count.
        calls: Their tool calls.
    """

    seen: bytes = field()
    sizes: list[int] = field()
    weights: list[int] = field()
    roles: bytes = field()
    decided: list[tuple[int, int]] = field()
    calls: bytes = field()

    @seen.validator
    @weights.validator
    @roles.validator
    @calls.validator
    def _is_complete(self, attribute: Native, column: Sequence[int]) -> None:
        width = DIGEST_BYTES if attribute.name == "seen" else 1
        if len(column) != width * len(self.sizes):
            what = f"must have {width * len(self.sizes):,} members for {len(self.sizes):,} sizes, got {len(column):,}"
            where = f".{attribute.name}"
            raise InvalidInput(where, what)

    @decided.validator
    def _tells_of_each(self, _attribute: Native, runs: Sequence[tuple[int, int]]) -> None:
        if (told := sum(times for _, times in runs)) != len(self.sizes):
            where = ".decided"
            raise InvalidInput(where, f"must tell of {len(self.sizes):,} messages, got {told:,}")

    @classmethod
    def of(cls, record: Record, start: int = 0, stop: int | None = None) -> Self:
        """Return the rows of a record's messages from ``start`` to ``stop``."""
        some = slice(start, stop)
        return cls(
            record.digested()[start * DIGEST_BYTES : None if stop is None else stop * DIGEST_BYTES],
            list(record.sizes[some]),
            list(record.byte_sizes[some]),
            bytes(record.roles[some]),
            [(number, len(list(run))) for number, run in groupby(record.decided[some])],
            bytes(record.calls[some]),
        )

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of all parts, one after the other."""
        columns = zip(*(astuple(part, recurse=False) for part in parts), strict=True)
        return cls(*(reduce(add, column) for column in columns))


@frozen
class Changes:
    """Changes that have in common what most neighbours have; of the rest, a member of each list is one's.

    Args:
        index: As in ``Change``, and so are all others.
        handle: None where there is none.
    """

    index: list[int]
    role: str
    outcome: Outcome
    stage: str
    reason: str
    by: By
    tokens_before: list[int] = field()
    tokens_after: list[int] = field()
    handle: list[str | None] | None = field()

    @tokens_before.validator
    @tokens_after.validator
    @handle.validator
    def _is_complete(self, attribute: Native, column: Sequence[Any] | None) -> None:
        if column is not None and len(column) != len(self.index):
            what = f"must have {len(self.index):,} members for {len(self.index):,} changes, got {len(column):,}"
            where = f".{attribute.name}"
            raise InvalidInput(where, what)

    @classmethod
    def of(cls, changes: Iterable[Change]) -> list[Self]:
        """Return the written form of changes, in their order."""
        runs = groupby(changes, lambda change: (change.role, change.outcome, change.stage, change.reason, change.by))
        written = []
        for shared, run in runs:
            index, before, after, handle = map(
                list,
                zip(*((each.index, each.tokens_before, each.tokens_after, each.handle) for each in run), strict=True),
            )
            written.append(cls(index, *shared, before, after, handle if any(handle) else None))
        return written

    def each(self) -> Iterable[Change]:
        """Give the changes."""
        handles = repeat(None) if self.handle is None else self.handle
        for index, before, after, handle in zip(
            self.index, self.tokens_before, self.tokens_after, handles, strict=False
        ):
            yield Change(index, self.role, self.outcome, self.stage, self.reason, before, after, handle, self.by)


@frozen
class RecordForm:
    """The written form of a record: the view, and about 30 characters for each message of the history.

    What is shown shortened takes about 50 characters more, and its handle.

    Args:
        rows: The messages of the history.
        changes: The changes of messages that are in the view, or were edited.
        settled: How many messages of the view are final.
        quiet_until: As in ``Record``, and so are ``waiting``, ``stands``, ``unsaid`` and ``uncounted``.
        foreign: As ``Record.foreign_count``.
        system_sent_as_user: The indexes in the history of system messages that go out under another role.
        instruction_digests: Of system messages that went out as the user's.
        out: The messages of the view; None for one that the caller holds.
        origins: For each of them, its index in the history; None when a stage made it.
        edited: The places of those that a stage edited.
        payloads: The places of those that were not made of the caller's payload alone.
        sums: The digests of those that are not the caller's, and of the whole view and the whole tail.
        tail: The messages of the tail, the last ones of the history.
        marks: The marks in messages of the view, by place; those of edited ones only where they are not the ones that
            are seen at first sight.
        spans: The messages that have left the view.
        handles: The handles of their originals, by index.
    """

    rows: Rows
    changes: list[Changes]
    settled: int
    quiet_until: int
    waiting: bool
    foreign: int
    system_sent_as_user: list[int]
    instruction_digests: list[bytes]
    stands: dict[int, tuple[Counted, Counted]]
    unsaid: UnsaidSince
    uncounted: list[Uncounted]
    out: list[Any] = field(factory=list)
    origins: list[int | None] = field(factory=list)
    edited: list[int] = field(factory=list)
    payloads: list[int] = field(factory=list)
    sums: list[bytes] = field(factory=list)
    tail: list[Any] = field(factory=list)
    marks: list[tuple[int, Noted]] = field(factory=list)
    spans: list[Span] = field(factory=list)
    handles: dict[int, str] = field(factory=dict)


@frozen
class LearnedForm:
    """The written form of what was learned about a model.

    Args:
        model: The model.
        calibration: How its provider counts.
        limit: The most that its provider takes.
        truncation: Why its provider is suspected of cutting prompts.
    """

    model: str | None
    calibration: Calibration
    limit: OverflowLimit
    truncation: Suspicion | None


@frozen
class HeadForm:
    """The written form of system prompt and tools as they were passed in last, with their exact digest."""

    system: Any
    tools: list[Any] | None
    digest: bytes


@frozen
class StateForm:
    """The written form of a session's state.

    Args:
        version: ``VERSION``.
        id: As in ``Session``, and so are ``children``, ``billed_tokens`` and ``retried``.
        model: As in ``State``, and so are ``format``, ``assumed`` and ``steps``.
        home: As in ``LimitsByModel``.
        budget: ``LimitsByModel.own``.
        sent: The last request.
        learned: What was learned about each model, the current one last.
        fixed: The digest of what system prompt and tools looked like when they were passed in last.
        opening: The digest of the system prompt and tools that reasoning is bound to.
        record: The record.
        head: System prompt and tools of the last request; None when JSON cannot hold them.
    """

    version: int
    id: str | None
    children: int
    billed_tokens: int | None
    retried: bool
    model: str | None
    home: str | None
    format: str | None
    assumed: bool
    steps: int
    budget: Budget | None
    sent: LastRequest
    learned: list[LearnedForm]
    fixed: bytes | None
    opening: bytes | None
    record: RecordForm
    head: HeadForm | None = None


def record_form(
    record: Record, rows: Rows, changes: Iterable[Change], system: Iterable[int], **apart: Native
) -> RecordForm:
    """Return the written form of a record.

    Args:
        record: The record.
        rows: Of messages of its history.
        changes: Changes that it has.
        system: The indexes of system messages that go out under another role.
        apart: Those fields that have a default, where they are no pieces of their own.
    """
    return RecordForm(
        rows,
        Changes.of(changes),
        settled=record.final,
        quiet_until=record.quiet_until,
        waiting=record.waiting,
        foreign=record.foreign_count,
        system_sent_as_user=sorted(system),
        instruction_digests=sorted(record.instructions),
        stands=record.stands,
        unsaid=record.unsaid,
        uncounted=list(record.uncounted),
        **apart,
    )


def whole_record_form(record: Record) -> RecordForm:
    """Return the written form of a record, with all of its fields.

    Raises:
        InvalidInput: If JSON cannot hold a message of the view; names it.
    """
    made = {place for place, origin in enumerate(record.origins) if origin is None}
    edited = [place for place in range(len(record.origins)) if place not in made and not record.as_given(place)]
    out, tail = _natives(map(record.as_sent, range(len(record.out)))), _natives(each.source for each in record.tail)
    ours = sorted({*made, *edited})
    if record.missing is None:
        pairs = zip((*record.view, *record.tail), (*record.origins, *record.tail_origin), strict=True)
        system = {origin for message, origin in pairs if origin is not None and goes_out_as_another(message)}
    else:
        system = {*record.missing.system}
    return record_form(
        record,
        Rows.of(record),
        record.changes(),
        system,
        out=out,
        origins=record.origins,
        edited=edited,
        payloads=[place for place in ours if has_payload_of_its_own(record, place)],
        sums=sums_of(out, tail, ours),
        tail=tail,
        marks=[(place, marks) for place in range(len(out)) if (marks := marks_of(record, place)) is not None],
        spans=record.log.spans,
        handles=record.log.handles,
    )


def sums_of(out: Sequence[Any], tail: Sequence[Any], ours: Iterable[int]) -> list[bytes]:
    """Return the digests of the view's messages at these places, and of the whole view and tail."""
    return [*(digest(from_json(out[place])) for place in ours), exact_digest(out), exact_digest(tail)]


def has_payload_of_its_own(record: Record, place: int) -> bool:
    """Whether what stands there was made of another payload than the caller's, or has one though a stage made it."""
    if record.missing is not None:
        return place in record.missing.payloads
    message = record.view[place]
    return (message.source if record.origins[place] is None else message.given) is not None


def marks_of(record: Record, place: int) -> Noted | None:
    """The marks in a message of the view, as in ``RecordForm``."""
    if record.missing is not None:
        return record.missing.marks.get(place)
    message = record.view[place]
    marks = noted_in(message.parts)
    return None if marks == ([] if record.as_given(place) else marks_at_first_sight(message)) else marks


def _natives(messages: Iterable[Any]) -> list[Any]:
    made: list[Any] = []
    try:
        for native in messages:
            made.append(to_json(native, f"messages[{len(made)}]"))
    except RecursionError:
        where = f"messages[{len(made)}]"
        raise InvalidInput(where, "it is nested too deep to be written down") from None
    return made


def state_form(known: State, record: RecordForm, **others: Native) -> StateForm:
    """Return the written form of a session's state.

    Args:
        known: What is known of the conversation.
        record: The written form of its record.
        others: All other fields that ``known`` does not have.
    """
    limits = known.limits_by_model
    return StateForm(
        VERSION,
        model=known.model,
        home=limits.home,
        format=known.format or (known.wire_name or "").partition("/")[0] or None,
        assumed=known.assumed,
        steps=known.steps,
        budget=limits.own,
        sent=known.last_request,
        learned=[
            LearnedForm(model, each.calibration, each.learned, each.truncation) for model, each in limits.known.items()
        ],
        record=record,
        **others,
    )


def dump_state(known: State, **own: Native) -> dict[str, Any]:
    """Return what is known of a conversation, as plain JSON values.

    Args:
        known: It.
        own: The fields of the form that only the session has.

    Raises:
        InvalidInput: If JSON cannot hold a message of the view; names it.
    """
    head = None
    try:
        if known.last is not None:
            system, tools = to_json(known.last.system, "system"), to_json(known.last.tools, "tools")
            head = HeadForm(system, tools, exact_digest([system, tools]))
    except (InvalidInput, RecursionError):
        pass
    record, fixed, opening = whole_record_form(known.record), digest_of_seen(known), digest_of_opening(known)
    plain: dict[str, Any] = to_plain(
        StateForm, state_form(known, record, head=head, fixed=fixed, opening=opening, **own)
    )
    return plain


def digest_of_seen(known: State) -> bytes | None:
    """Return the digest of what system prompt and tools looked like when they were passed in last."""
    return None if known.head_seen is None else digest(known.head_seen)


def digest_of_opening(known: State) -> bytes | None:
    """Return the digest of the system prompt and tools that reasoning is bound to."""
    if known.ctx is not None:
        return digest(head_of(known.ctx.context(())))
    return None if known.head_digest is None else known.head_digest.content


def opened(state: object) -> StateForm:
    """Return the written form of a state.

    Args:
        state: What ``Session.dump`` gave, or its JSON text.

    Raises:
        InvalidInput: If it is none, is damaged or of another version; names the place.
    """
    where = "state"
    if isinstance(state, (str, bytes, bytearray)):
        try:
            state = json.loads(state)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(where, f"not JSON: {error}") from error
    if not isinstance(state, Mapping):
        raise must_be(state, "an object", where)
    version = state.get("version")
    if isinstance(version, bool) or version != VERSION:
        raise must_be(version, f"a session's state of version {VERSION}", "state.version")
    form = from_plain(StateForm, state, where)
    for name in ("id", "model", "home", "format"):
        text = getattr(form, name)
        if text is not None and not text.isascii() and clean_text(text) is not text:
            raise must_be(text, "text without half a character", f"state.{name}")
    return form


def load_state(plan: Plan, form: StateForm) -> State:
    """Return what was known of the conversation that was written.

    Args:
        plan: The pipeline.
        form: The session's state.

    Raises:
        InvalidInput: If one field of the state contradicts another; names the place.
        UnknownModel: If the budget is the model's and the model table does not know it.
    """
    limits_by_model = LimitsByModel(plan, form.home, form.budget)
    for place, each in enumerate(form.learned):
        if (each.limit.tokens is None) != (each.limit.stated is None):
            where = f"state.learned[{place}].limit.stated"
            raise InvalidInput(where, "it and tokens are known together, or neither is")
        if place >= len(form.learned) - MOST_MODELS:
            limits_by_model.known[each.model] = LearnedLimits(None, each.calibration, each.limit, each.truncation)
    known = evolve(
        State.empty(plan, form.model, form.format, limits_by_model),
        steps=form.steps,
        head_seen=None if form.fixed is None else Digest(form.fixed),
        head_digest=None if form.opening is None else Digest(form.opening),
    )
    where = "state.format"
    if form.format is None:
        if form.record != whole_record_form(Record()):
            raise InvalidInput(where, "it is missing, though there are messages")
        return known
    wire = format_named(form.format, form.model, where)
    record, sent = load_record(form.record, wire), form.sent
    if sent.intact > min(sent.length, len(record.out)):  # what cannot be sent may have become shorter since
        raise must_be(sent.intact, f"at most {min(sent.length, len(record.out)):,}", "state.sent.intact")
    known = evolve(known, wire_name=wire.name, record=record, in_force=record.in_force(), last_request=sent)
    if form.head is not None:
        known = evolve(known, last=_last(known, form.head, wire))
    return evolve(known, format=None) if form.assumed else known


def _last(known: State, head: HeadForm, wire: WireFormat) -> Given:
    """The last request as far as the state holds it: the messages of the view, and of the others what tells them."""
    where = "state.head"
    try:
        system, tools = from_json(head.system), from_json(head.tools)
        same = exact_digest([head.system, head.tools]) == head.digest and known.head_seen == [system, tools]
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(where, f"must be a system prompt, tools and a digest: {error}") from error
    if not same:
        raise InvalidInput(where, "it is not the system prompt and the tools that the state tells of")
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


def load_record(form: RecordForm, wire: WireFormat) -> Record:
    """Return the record that was written. Its messages are recognised by digest until the caller passes its history.

    Args:
        form: The record's written form.
        wire: The format of its messages.

    Raises:
        InvalidInput: If one field contradicts another; names the place.
    """
    rows, origins, length = form.rows, form.origins, len(form.rows.sizes)
    digests = [rows.seen[at : at + DIGEST_BYTES] for at in range(0, len(rows.seen), DIGEST_BYTES)]
    _check_indexes(form)
    _check_spans(form)
    left_out = any(native is None for native in (*form.out, *form.tail))  # what the caller holds
    edited, payloads, system = set(form.edited), set(form.payloads), frozenset(form.system_sent_as_user)
    ours, marks = [place for place, origin in enumerate(origins) if origin is None or place in edited], dict(form.marks)
    pairs = ((place, at) for place, at in enumerate(origins) if place in marks and place not in edited)
    given = {at: marks[place] for place, at in pairs if at is not None}
    out, view = _read("out", form.out, wire, left_out=left_out)
    tail_natives, tail = _read("tail", form.tail, wire, left_out=left_out)
    tail_origin = list(range(length - len(tail), length))
    _check_contents(form, out, tail_natives, set(ours), digests)
    _check_final(form, length - len(tail))

    def stood_for(index: int) -> tuple[int, int]:
        return form.stands.get(index, (1, rows.calls[index]))

    if left_out:
        view = [Message("user" if origin is None else ROLES[rows.roles[origin]], ()) for origin in origins]
    else:
        view = marked(view, range(len(view)), {at: marks_at_first_sight(view[at]) for at in ours} | marks)
        for place in ours:  # nothing that the caller passes says so
            view[place] = not_given(view[place], made=origins[place] is None, own=place in payloads)
        for part in (view[: form.settled], view):
            broken = broken_pair(part, wire.rounds)
            if broken is not None:
                raise _wrong("out", broken)
        view = known_again(as_system(view, origins, system), origins, stood_for)
    changes = [change for run in form.changes for change in run.each()]
    lines = [change for change in changes if change.outcome is not Outcome.ADDED]
    seen: list[Any] = [Digest(content) for content in digests]
    recaps = {origin for message, origin in zip(view, origins, strict=True) if message.as_recap}
    return Record(
        seen=seen,
        sizes=numbers(rows.sizes),
        byte_sizes=numbers(rows.weights),
        view=view,
        out=out,
        shown=[
            Digest(digest(native)) if origin is None or place in edited else seen[origin]
            for place, (native, origin) in enumerate(zip(out, origins, strict=True))
        ],
        origins=origins,
        final=form.settled,
        tail=as_recap(as_system(marked(tail, tail_origin, given), tail_origin, system), tail_origin, recaps),
        tail_origin=tail_origin,
        log=ChangeLog.of(lines, form.spans, form.handles),
        made={id(view[each.index]): (view[each.index], each) for each in changes if each.outcome is Outcome.ADDED},
        roles=bytearray(rows.roles),
        decided=numbers(chain.from_iterable(repeat(number, times) for number, times in rows.decided)),
        ids=call_ids(view[: form.settled]),
        history_tokens=sum(rows.sizes),
        history_bytes=sum(rows.weights),
        quiet_until=form.quiet_until,
        waiting=form.waiting,
        unsaid=form.unsaid,
        uncounted=tuple(form.uncounted),
        foreign_count=form.foreign,
        instructions=frozenset(form.instruction_digests),
        marks=given,
        calls=bytearray(rows.calls),
        stands=form.stands,
        digests=bytearray(rows.seen),
        linked=not seen,
        missing=Missing(payloads, system, marks) if left_out else None,
    )


def _wrong(name: str, what: str) -> InvalidInput:
    return InvalidInput(f"state.record.{name}", what)


def _check_indexes(form: RecordForm) -> None:
    """Refuse indexes and places behind the end, and those that contradict each other."""
    length, places, origins = len(form.rows.sizes), len(form.out), form.origins
    columns: list[tuple[str, Sequence[int | None], int]] = [
        ("rows.roles", form.rows.roles, len(ROLES)),
        ("rows.decided", [number for number, _ in form.rows.decided], length + 1),
        ("origins", origins, length),
        ("edited", form.edited, places),
        ("payloads", form.payloads, places),
        ("system_sent_as_user", form.system_sent_as_user, length),
        ("uncounted", [each.at for each in form.uncounted], length + 1),
    ]
    for at, run in enumerate(form.changes):
        columns.append((f"changes[{at}].index", run.index, places if run.outcome is Outcome.ADDED else length))
    for name, column, stop in columns:
        for place, index in enumerate(column):
            if index is not None and index >= stop:
                raise must_be(index, f"below {stop:,}", f"state.record.{name}[{place}]")
    numbers_told = {"tail": len(form.tail), "foreign": form.foreign, "unsaid.until": form.unsaid.until}
    numbers_told |= {f"{name}.{index}": index + 1 for name in ("handles", "stands") for index in getattr(form, name)}
    for name, number in numbers_told.items():
        if number > length:
            raise _wrong(name, f"it is behind the end of a history of {length:,} messages")
    there = [origin for origin in origins if origin is not None]
    if len(set(there)) < len(there):
        raise _wrong("origins", "two messages of the view were read from the same one")
    if len(origins) != places:
        raise _wrong("origins", f"it has {len(origins):,} entries for a view of {places:,} messages")
    if any(origins[place] is None for place in form.edited):
        raise _wrong("edited", "a message that a stage made is none that was edited")
    if any(origins[place] is not None for place in {*form.payloads}.difference(form.edited)):
        raise _wrong("payloads", "a message that goes out as it came in has no other payload")
    if any(form.rows.calls[index] for index in form.stands):
        raise _wrong("stands", "the calls of a message are told twice")


def _check_spans(form: RecordForm) -> None:
    """Refuse spans that tell of messages of the view, or do not tell of each message that is not in the view."""
    length, stop = len(form.rows.sizes), 0
    there = bytearray(length)
    for origin in form.origins:
        if origin is not None:
            there[origin] = 1
    for place, span in enumerate(form.spans):
        for name, value, least in (("start", span.start, stop), ("stop", span.stop, span.start + 1)):
            if not least <= value <= length:
                raise must_be(value, f"from {least:,} to {length:,}", f"state.record.spans[{place}].{name}")
        start, stop = span.start, span.stop
        if (kept := there.find(1, start, stop)) >= 0:
            raise _wrong("spans", f"message {kept:,} of the history is said to be gone, and is in the view")
        there[start:stop] = b"\1" * (stop - start)
    if (lost := there.find(0)) >= 0:
        raise _wrong("spans", f"message {lost:,} of the history is neither in the view nor said to be gone")


def _read(name: str, plain: Sequence[Any], wire: WireFormat, *, left_out: bool) -> tuple[list[Any], list[Message]]:
    """Native messages, and as values: empty ones where some are left out."""
    natives: list[Any] = []
    messages: list[Message] = []
    for place, each in enumerate(plain):
        where = f"state.record.{name}[{place}]"
        try:
            natives.append(native := from_json(each))
            messages.append(Message("user", ()) if native is None else wire.read_message(native, place))
        except InvalidInput as error:
            raise InvalidInput(error.where.replace(f"messages[{place}]", where, 1), error.what) from error
        except ValueError as error:
            raise InvalidInput(where, f"no base64: {error}") from error
        except RecursionError:
            raise InvalidInput(where, "it is nested too deep to be read") from None
    return natives, messages if left_out else with_calls_named(wire, messages)


def _check_contents(
    form: RecordForm, out: Sequence[Any], tail: Sequence[Any], ours: AbstractSet[int], digests: Sequence[bytes]
) -> None:
    """Refuse a message that is not the one that was written: it would be sent.

    A null that was taken away or put in may be an argument of a call.
    """
    sums = form.sums
    if len(sums) != len(ours) + 2:
        what = f"{len(sums):,} digests, not two and {len(ours):,} for what is no one else's in the view"
        raise _wrong("sums", what)
    own, last = iter(sums), len(digests) - len(tail)
    told = [
        (
            f"out[{place}]",
            native,
            next(own) if place in ours else None if origin is None or native is None else digests[origin],
        )
        for place, (native, origin) in enumerate(zip(out, form.origins, strict=True))
    ]
    told += [(f"tail[{at}]", native, None if native is None else digests[last + at]) for at, native in enumerate(tail)]
    for name, native, expected in told:
        if expected is not None and digest(native) != expected:
            raise _wrong(name, "it is not the message that was written")
    for name, plain, exact in (("out", form.out, sums[-2]), ("tail", form.tail, sums[-1])):
        try:
            same = exact_digest(plain) == exact
        except (TypeError, ValueError, RecursionError) as error:
            raise _wrong(name, f"no JSON: {error}") from error
        if not same:
            raise _wrong(name, "a null of a message was taken away or put in")


def _check_final(form: RecordForm, open_from: int) -> None:
    """Refuse a final part of the view that is not all that was read from before the tail."""
    settled, origins = form.settled, form.origins
    final = [origin is None or origin < open_from for origin in origins[:settled]]
    of_tail = [origin is None or origin >= open_from for origin in origins[settled:]]
    most = len(of_tail) if form.tail else 1  # ``[go on]``, added for one step
    if settled > len(origins) or not all(final) or not all(of_tail) or len(of_tail) > most:
        raise _wrong("settled", f"{settled:,} messages of the view are not those before the tail")
