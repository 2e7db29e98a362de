"""A session as versioned JSON, and back.

What is kept is kept whole; of what was dropped or edited only a digest is written, enough to recognise it when the
caller passes its history again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from attrs import asdict, fields, frozen

from agentctx.core.compare import Change, Outcome
from agentctx.core.ledger import ROLES, Book, numbers
from agentctx.errors import InvalidInput
from agentctx.protocols import WireFormat
from agentctx.session.record import Record
from agentctx.session.snapshot import snapshot
from agentctx.wire.native import mapping_or_none

VERSION = 1


@frozen(eq=False)
class Digest:
    """Equals every native message that has this digest: stands for one whose content is not kept.

    Args:
        sha256: Of the message's canonical JSON.
    """

    sha256: str

    def __eq__(self, other: object) -> bool:
        return self.sha256 == (other.sha256 if isinstance(other, Digest) else digest(other))

    def __hash__(self) -> int:
        return hash(self.sha256)


def digest(native: object) -> str:
    """SHA-256 of a native message's canonical JSON."""
    return sha256(_text(plain(native)).encode("utf-8", "surrogatepass")).hexdigest()


def plain(native: object) -> Any:  # noqa: ANN401 - any JSON value
    """A native message as plain JSON values, SDK objects within it included."""
    found = mapping_or_none(native)
    if found is not None:
        return {key: plain(value) for key, value in found.items()}
    return [plain(value) for value in native] if isinstance(native, (list, tuple)) else native


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=plain)


def dump_record(record: Record) -> dict[str, Any]:
    """A record as plain JSON values."""
    places = {origin: place for place, origin in enumerate(record.origins) if origin is not None}
    return {
        "seen": [
            {"kept": places[index]} if _is_whole(record, places.get(index)) else {"sha256": _digest_of(seen)}
            for index, seen in enumerate(record.seen)
        ],
        "sizes": list(record.sizes),
        "weights": list(record.weights),
        "roles": [ROLES[role] for role in record.roles],
        "out": [plain(native) for native in record.out],
        "origins": record.origins,
        "settled": record.settled,
        "view_tokens": record.view_tokens,
        "view_bytes": record.view_bytes,
        "tail": [plain(message.source) for message in record.tail],
        "tail_origin": record.tail_origin,
        "changes": [asdict(change) for change in record.ledger()],
        "ids": sorted(record.ids),
        "quiet_until": record.quiet_until,
        "unbound_from": record.unbound_from,
    }


def _is_whole(record: Record, place: int | None) -> bool:
    return place is not None and record.view[place].untouched


def _digest_of(seen: object) -> str:
    return seen.sha256 if isinstance(seen, Digest) else digest(seen)


def load_record(state: Mapping[str, Any], wire: WireFormat) -> Record:
    """The record that was dumped.

    Raises:
        InvalidInput: If the state is damaged; names the place.
    """
    try:
        return _load(state, wire)
    except (KeyError, TypeError, IndexError, ValueError, AttributeError, OverflowError) as error:
        where = "state.record"
        raise InvalidInput(where, f"damaged: {type(error).__name__} {error}") from error


def _load(state: Mapping[str, Any], wire: WireFormat) -> Record:
    out = list(state["out"])
    view = [wire.read_message(native, index) for index, native in enumerate(out)]
    seen = [snapshot(out[each["kept"]]) if "kept" in each else Digest(each["sha256"]) for each in state["seen"]]
    origins = [None if origin is None else int(origin) for origin in state["origins"]]
    shown = [snapshot(native) for native in out]
    for index, each in enumerate(state["seen"]):
        if "kept" in each:
            shown[each["kept"]] = seen[index]
    tail = [wire.read_message(native, index) for index, native in enumerate(state["tail"])]
    changes = [_change(change) for change in state["changes"]]
    added = [change for change in changes if change.outcome is Outcome.ADDED]
    book = Book()
    book.write(changes)
    return Record(
        made={id(view[change.index]): (view[change.index], change) for change in added},
        seen=seen,
        sizes=numbers(state["sizes"]),
        weights=numbers(state["weights"]),
        roles=bytearray(ROLES.index(role) for role in state["roles"]),
        view=view,
        out=out,
        shown=shown,
        origins=origins,
        settled=int(state["settled"]),
        tail=tail,
        tail_origin=list(map(int, state["tail_origin"])),
        book=book,
        ids=set(state["ids"]),
        given_tokens=sum(state["sizes"]),
        given_bytes=sum(state["weights"]),
        view_tokens=int(state["view_tokens"]),
        view_bytes=int(state["view_bytes"]),
        quiet_until=int(state["quiet_until"]),
        unbound_from=None if (unbound := state.get("unbound_from")) is None else int(unbound),
    )


def _change(state: Mapping[str, Any]) -> Change:
    known = {attribute.name for attribute in fields(Change)}
    values = {name: value for name, value in state.items() if name in known}
    return Change(**{**values, "outcome": Outcome(values["outcome"])})


def check_version(state: Any) -> Mapping[str, Any]:  # noqa: ANN401 - checked here
    """The state, when it is one that can be read.

    Raises:
        InvalidInput: If it is none, or of another version.
    """
    if isinstance(state, (str, bytes)):
        try:
            state = json.loads(state)
        except ValueError as error:
            where = "state"
            raise InvalidInput(where, f"not JSON: {error}") from error
    if not isinstance(state, Mapping) or state.get("version") != VERSION:
        version = state.get("version") if isinstance(state, Mapping) else None
        where = "state.version"
        raise InvalidInput(where, f"expected a session's state of version {VERSION}, got {version!r}")
    return state
