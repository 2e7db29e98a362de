"""What a user's stage made, as the provider takes it: mended as a history is at the entry, or refused by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentctx.core.compare import Matched
from agentctx.core.message import Context, Message, Thinking, ToolCall, ToolResult
from agentctx.core.units import broken_pair
from agentctx.engine.repair import Earlier, astray, names_of, paired
from agentctx.errors import StageError
from agentctx.protocols import Call
from agentctx.wire_format import Repaired, WireFormat

_NAMED = 3
"""So many places are named where something was mended."""


def sendable(name: str, before: Context, after: Context, found: Matched, call: Call) -> Context:
    """What a stage returned, with what it made or changed as the provider takes it; the same object when it does.

    Args:
        name: The stage's name.
        before: What it was given.
        after: What it returned, with whole pairs.
        found: The two, laid beside each other.
        call: What it was told; why something had to be mended is said there.

    Raises:
        StageError: If what it made cannot be mended; names the message.
    """
    places = sorted({*found.added, *(position for _, position in found.edited)})
    if call.wire is None or not places:
        return after
    for place in places:
        _refuse(name, place, after.messages[place])
    messages = _own_objects(after.messages, found)
    faults = _faults(messages, places, call, call.wire)
    if not faults and not _repeats_an_id(messages, places, call, call.wire):
        return after
    _say(messages, faults, before, found, call)
    return after.with_messages(_whole(name, messages, faults, call, call.wire))


def _refuse(name: str, place: int, message: Message) -> None:
    if what := astray(message):
        raise StageError(name, f"messages[{place}] of what it returned is of the {message.role} and holds a {what}")
    for part in message.parts:
        if isinstance(part, (ToolCall, ToolResult)) and part.source is None and not _is_named(part):
            kind = type(part).__name__
            raise StageError(name, f"messages[{place}] of what it returned holds a {kind} without an id or a name")


def _is_named(part: ToolCall | ToolResult) -> bool:
    return bool(part.id and part.name) if isinstance(part, ToolCall) else bool(part.call_id)


def _own_objects(messages: Sequence[Message], found: Matched) -> list[Message]:
    """The messages; one that a stage put there once more is another object, which may become something else."""
    own = list(messages)
    for place in found.added:
        own[place] = own[place].with_parts(own[place].parts)
    return own


def _faults(messages: Sequence[Message], places: Sequence[int], call: Call, wire: WireFormat) -> list[Repaired]:
    """What repair finds wrong with the messages at these places."""
    new, looked_at = set(places), _with_what_follows(messages, places)
    others: Iterable[Message] = ()
    if wire.names_items and any(wire.item_name(messages[place]) is not None for place in places):
        others = (*_before(call), *(message for place, message in enumerate(messages) if place not in new))
    found = wire.repair([messages[place] for place in looked_at], names_of(list(others), wire))
    return [(looked_at[index], instead, why) for index, instead, why in found if looked_at[index] in new]


def _with_what_follows(messages: Sequence[Message], places: Sequence[int]) -> list[int]:
    """The places, that of what follows reasoning at them, and the last: repair asks what these are."""
    wanted = {*places, len(messages) - 1}
    for place in places:
        follower = place
        while follower + 1 < len(messages) and _only_thinks(messages[follower]):
            follower += 1
            wanted.add(follower)
    return sorted(wanted)


def _only_thinks(message: Message) -> bool:
    return all(isinstance(part, Thinking) for part in message.parts)


def _repeats_an_id(messages: Sequence[Message], places: Sequence[int], call: Call, wire: WireFormat) -> bool:
    """Whether the id of a call in these messages is that of another call, where the provider refuses that."""
    if not wire.unique_ids or not any(messages[place].calls for place in places):
        return False
    ids = [each.id for message in (*_before(call), *messages) for each in message.calls]
    return len(set(ids)) < len(ids)


def _before(call: Call) -> tuple[Message, ...]:
    return () if call.before is None else call.before()


def _say(messages: Sequence[Message], faults: Sequence[Repaired], before: Context, found: Matched, call: Call) -> None:
    """Say in the report what had to be mended."""
    origins = {position: before.messages[origin] for origin, position in found.edited}
    for place, instead, why in faults:
        for message in (messages[place], origins.get(place), instead):
            if message is not None:
                call.note(message, why)
    if faults:
        named = "; ".join(f"messages[{place}]: {why}" for place, _, why in faults[:_NAMED])
        more = f"; and {len(faults) - _NAMED} more" if len(faults) > _NAMED else ""
        call.remark(f"what it returned was mended: {named}{more}")


def _whole(
    name: str, messages: Sequence[Message], faults: Sequence[Repaired], call: Call, wire: WireFormat
) -> tuple[Message, ...]:
    """The messages with what was mended, with whole pairs and ids of their own."""
    new = {place: instead for place, instead, _ in faults}
    mended = [kept for place, message in enumerate(messages) if (kept := new.get(place, message)) is not None]
    earlier = _before(call)
    known = Earlier(
        ids=frozenset(each.id for message in earlier for each in message.calls),
        last=earlier[-1] if earlier else None,
        messages=lambda: earlier,
    )
    whole = tuple(paired(mended, call, wire, earlier=known))
    problem = broken_pair(whole, merges_turns=wire.merges_turns, results_anywhere=wire.results_anywhere)
    if problem is not None:
        raise StageError(name, f"returned what cannot be mended: {problem}")
    return whole
