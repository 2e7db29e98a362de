"""An audit of reports: each accounts for every difference between what was passed in and what is sent."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from attrs import frozen

from agentctx.core.compare import Change, HeadChange, Outcome
from agentctx.core.message import Context
from agentctx.core.report import Report, View
from agentctx.engine.changes import UNSAID
from agentctx.engine.repair import REPAIR
from agentctx.protocols import Meter

_AS_IT_CAME = frozenset({Outcome.MOVED, Outcome.KEPT})
"""What became of messages that are the caller's own objects still."""

_ONLY_EDIT = frozenset({"ClearToolResults", "CompactJson", "FoldOutput", "TabulateJson", "TruncateToolOutputs"})
"""Stages that add no message."""

_SAY_WHY = _ONLY_EDIT | {
    "ArrangeMessages",
    "CollapseRepeats",
    "CompressLayers",
    "FitContextWindow",
    "KeepCacheMarkers",
    "LiftCacheMarkers",
    "LimitCacheMarkers",
    "Pack",
    "PlaceCacheMarkers",
    REPAIR,
    "Tiered",
    "TrimRounds",
}
"""Stages that have a reason for whatever they do."""


@frozen
class PassedIn:
    """What was passed in."""

    messages: Sequence[Any]
    system: Any = None
    tools: Any = None


def outcomes(report: Report) -> tuple[Outcome, ...]:
    """What became of each message passed in, by its index; of one that was marked and something else, the latter."""
    found = [Outcome.KEPT] * report.messages_before
    for change in report.in_force:
        marked = change.outcome is Outcome.MARKED and found[change.index] is not Outcome.KEPT
        if change.outcome is not Outcome.ADDED and not marked:
            found[change.index] = change.outcome
    return tuple(found)


def report_errors(given: PassedIn, before: Context, view: View, meter: Meter) -> Iterator[str]:
    """What a report does not say, or says wrongly, of a request: nothing, when it accounts for all of it.

    What was passed in is told apart as the caller tells it: by identity.
    """
    report, lines = view.report, tuple(view.report.in_force)
    said: tuple[Change | HeadChange, ...] = (*lines, *report.changes, *report.head)
    for each in said:
        if not each.stage or not each.reason:
            yield f"nobody, or no reason, is given for: {each}"
        if each.stage in _SAY_WHY and UNSAID in each.reason:
            yield f"{each.stage} gives no reason for: {each}"
        if each.stage in _ONLY_EDIT and each.outcome is Outcome.ADDED:
            yield f"{each.stage} is said to have added what another stage did: {each}"
    yield from _head(given, view)
    named: dict[int, list[Change]] = defaultdict(list)
    for change in lines:
        if change.outcome is not Outcome.ADDED:
            named[change.index].append(change)
    added = {change.index: change for change in lines if change.outcome is Outcome.ADDED}
    yield from _objects(given.messages, view, named, added, sum(change.outcome is Outcome.ADDED for change in lines))
    yield from _copies(given.messages, view, named)
    yield from _origins(given.messages, view, named, added)
    yield from _added(given.messages, view, added, meter)
    yield from _named(before, named, meter)
    yield from _counts(len(given.messages), view, named, len(added))
    yield from _tokens(before, view, lines, meter)


def _head(given: PassedIn, view: View) -> Iterator[str]:
    """System prompt and tools are the caller's own objects, or named."""
    named = {change.place.partition("[")[0] for change in view.report.head}
    for place, one, other in (("system", given.system, view.system), ("tools", given.tools, view.tools)):
        if (one is other) == (place in named):
            yield f"{place} {'is' if one is other else 'is not'} as it came, and the report says something else"


def _objects(
    given: Sequence[Any],
    view: View,
    named: Mapping[int, Sequence[Change]],
    added: Mapping[int, Change],
    added_lines: int,
) -> Iterator[str]:
    """Each object of the caller's that is there is not named as touched, and the other way round."""
    own = Counter(map(id, given))
    there = Counter(id(native) for native in view.messages if id(native) in own)
    said = Counter(id(given[index]) for index in range(len(given)) if _as_it_came(named.get(index, ())))
    for index, native in enumerate(given):
        if there[id(native)] != said[id(native)]:
            yield (
                f"messages[{index}] is there {there[id(native)]} times as it came, "
                f"and {said[id(native)]} times by the report: {[*map(str, named.get(index, ()))]}"
            )
    if added_lines != len(added):
        yield f"{added_lines} messages are named as added, at {len(added)} places"
    strangers = len(view.messages) - sum(there.values())
    touched = sum(not _as_it_came(found) and not _gone(found) for found in named.values())
    if strangers != touched + len(added):
        yield f"{strangers} messages are new objects; {touched} are named as touched, {len(added)} as added"
    if max(own.values(), default=0) == 1:
        yield from _order(given, view, named)


def _copies(given: Sequence[Any], view: View, named: Mapping[int, Sequence[Change]]) -> Iterator[str]:
    """What only cache markers touched, and is sent as it came, is the caller's own object, and no copy of it."""
    places = {id(native): index for index, native in enumerate(given)}
    for native, message in zip(view.messages, view.context.messages, strict=True):
        index = None if id(native) in places else places.get(message.identity)
        marked = index is not None and all(change.outcome is Outcome.MARKED for change in named.get(index, ()))
        if index is not None and marked and native == given[index]:
            yield f"messages[{index}] is sent as it came, and as a copy"


def _origins(
    given: Sequence[Any], view: View, named: Mapping[int, Sequence[Change]], added: Mapping[int, Change]
) -> Iterator[str]:
    """Each message of the view tells where it came from; what is not named as touched is that very object."""
    if len(view.origins) != len(view.messages):
        yield f"{len(view.messages)} messages have {len(view.origins)} origins"
    known = [(place, origin) for place, origin in enumerate(view.origins) if origin is not None]
    if (made := {*range(len(view.origins))} - {place for place, _ in known}) != added.keys():
        yield f"the places {sorted(made)} have no origin, and {sorted(added)} are named as added"
    gone = {index for index, found in named.items() if _gone(found)}
    if sorted(origin for _, origin in known) != sorted({*range(len(given))} - gone):
        yield f"{sorted(gone)} of {len(given)} messages are gone, and the origins are {view.origins}"
        return
    for place, origin in known:
        if (view.messages[place] is given[origin]) != _as_it_came(named.get(origin, ())):
            yield f"messages[{place}] of the view is made of messages[{origin}]: {[*map(str, named.get(origin, ()))]}"
    stayed = [origin for _, origin in known if origin not in named]
    if stayed != sorted(stayed):
        yield f"nothing is named as moved, and the origins are {view.origins}"


def _order(given: Sequence[Any], view: View, named: Mapping[int, Sequence[Change]]) -> Iterator[str]:
    places = {id(native): index for index, native in enumerate(given) if index not in named}
    order = [places[id(native)] for native in view.messages if id(native) in places]
    for one, other in pairwise(order):
        if one > other:
            yield f"messages[{one}] stands before messages[{other}], and neither is named as moved"


def _as_it_came(found: Sequence[Change]) -> bool:
    return all(change.outcome in _AS_IT_CAME for change in found)


def _gone(found: Sequence[Change]) -> bool:
    return found[-1].outcome is not Outcome.MARKED and not found[-1].tokens_after


def _added(given: Sequence[Any], view: View, added: Mapping[int, Change], meter: Meter) -> Iterator[str]:
    own = set(map(id, given))
    for place, change in added.items():
        if place >= len(view.messages) or id(view.messages[place]) in own:
            yield f"what is named as added is not there: {change}"
            continue
        message = view.context.messages[place]
        if (change.role, change.tokens_after) != (message.role, meter.message(message)):
            yield f"what was added is a message of the {message.role} of {meter.message(message)} tokens: {change}"


def _named(before: Context, named: Mapping[int, Sequence[Change]], meter: Meter) -> Iterator[str]:
    """What is said first of a message tells its role and its size as they came."""
    for index, changes in named.items():
        message, first = before.messages[index], changes[0]
        if (first.role, first.tokens_before) != (message.role, meter.message(message)):
            yield f"messages[{index}] is the {message.role}'s, of {meter.message(message)} tokens: {first}"


def _counts(given: int, view: View, named: Mapping[int, Sequence[Change]], added: int) -> Iterator[str]:
    report, gone = view.report, sum(map(_gone, named.values()))
    if (report.messages_before, report.messages_after) != (given, len(view.messages)):
        yield f"{given} -> {len(view.messages)} messages; {report.messages_before} -> {report.messages_after} are said"
    if given - gone + added != len(view.messages):
        yield f"{given} messages, less {gone} that are gone, with {added} added, are not {len(view.messages)}"


def _tokens(before: Context, view: View, lines: Sequence[Change], meter: Meter) -> Iterator[str]:
    report = view.report
    if report.tokens_before != meter.size(before):
        yield f"{meter.size(before)} tokens came in, {report.tokens_before} are said"
    if report.tokens_after != meter.size(view.context):
        yield f"{meter.size(view.context)} tokens are sent, {report.tokens_after} are said"
    fixed = meter.fixed(view.context) - meter.fixed(before)
    saved = sum(change.tokens_before - change.tokens_after for change in lines)
    if meter.size(before) + fixed - saved != meter.size(view.context):
        yield f"{meter.size(before)} tokens less {saved}, and {fixed} for tools, are not {meter.size(view.context)}"
    for last, stage in pairwise(report.stages):
        if last.tokens_after != stage.tokens_before:
            said = f"begins with {stage.tokens_before} tokens, and the stage before it ended with {last.tokens_after}"
            yield f"{stage.stage} {said}"
    if report.stages and report.stages[-1].tokens_after != report.tokens_after:
        end = report.stages[-1].tokens_after
        yield f"the last stage ended with {end} tokens, and {report.tokens_after} are sent"
