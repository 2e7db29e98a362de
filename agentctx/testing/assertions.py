"""Assertions for the tests of users, and the audit of a session that they stand on."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, Literal, get_args

from attrs import evolve, frozen

from agentctx.budget import Budget
from agentctx.changes import Change, HeadChange, Outcome
from agentctx.characters import on_one_line
from agentctx.engine.plan import as_budget
from agentctx.engine.reading import Reader, reader
from agentctx.engine.run_stages import UNSAID
from agentctx.formats.native import as_mapping, mapping_or_none, unmarked
from agentctx.formats.registry import messages_of
from agentctx.json_text import compact, tabulate
from agentctx.marks import Recap, is_recap, written_out
from agentctx.message import SYSTEM_ROLES, Context, Mark, Message, Native, Part, Text, ToolCall, ToolResult
from agentctx.protocols import Meter
from agentctx.reports import Report, View
from agentctx.strategies.fold_output import FOLDS
from agentctx.transcripts.exchanges import system_of, tools_of
from agentctx.unit import first_task
from agentctx.validators import NOT_BLANK, SHARE, must_be, whole_number

Request = View | Mapping[str, Native]
"""A request: a view, or a body as it is sent, such as ``server.requests`` has them."""

_SHOWN = 80


def assert_fits(
    requests: Request | Sequence[Request],
    budget: Budget | int,
    *,
    model: str | None = None,
    format: str | None = None,  # noqa: A002 - the name that the whole library gives it
) -> None:
    """See that each request is within the budget, counted anew.

    Args:
        requests: One request or several: views, or bodies.
        budget: The budget; an integer is the most tokens that a request may have.
        model: The model's name, by whose encoding is counted; without it the body's own.
        format: The format; found out when not given.

    Raises:
        AssertionError: If there is no request, or one has more tokens than the budget's limit.

    Example:
        >>> from agentctx import FitContextWindow, Pipeline
        >>> from agentctx.testing import assert_fits, assistant, transcript, user
        >>> messages = transcript("openai-chat", user("Go."), assistant("so be it. " * 999), user("And now?"))
        >>> view = await Pipeline(FitContextWindow(), budget=1_000).prepare(messages)
        >>> assert_fits(view, 1_000)
        >>> try:
        ...     assert_fits({"messages": messages}, 1_000)
        ... except AssertionError as error:
        ...     print(error)
        request 1 has 4,017 tokens, 3,017 more than the limit of 1,000
    """
    counted = as_budget(Budget(budget) if isinstance(budget, int) else budget, "assert_fits")
    for number, (source, context) in enumerate(_read(requests, model, format), 1):
        tokens = source.meter.size(context)
        over = tokens - counted.limit
        if over > 0:
            msg = f"request {number} has {tokens:,} tokens, {over:,} more than the limit of {counted.limit:,}"
            raise AssertionError(msg)


def assert_prefix_stable(requests: Sequence[Request], *, moves: int | None = None, share: float | None = None) -> None:
    """See that each request begins with the one before, so that the provider's cache can serve that part.

    What is compared is system prompt, tools and messages, without cache markers.

    Args:
        requests: The requests of one conversation, in order: views, or bodies.
        moves: So many of them may begin otherwise, as after a compaction (``len(recorder.events)``); 0 unless
            ``share`` is given.
        share: At least this share of all that was sent, 0 to 1 and by characters, must be such a beginning.

    Raises:
        AssertionError: If not, or if there is no request; the message names the first place at which one is another.
        ConfigError: If ``moves`` is no whole number from 0 on, or ``share`` none from 0 to 1.

    Example:
        >>> from agentctx.testing import assert_prefix_stable, assistant, transcript, user
        >>> messages = transcript("openai-chat", user("It is 9:00. Go."), assistant("Gone."), user("And now?"))
        >>> assert_prefix_stable([{"messages": messages[:1]}, {"messages": messages}])
        >>> later = transcript("openai-chat", user("It is 9:01. Go."))
        >>> try:
        ...     assert_prefix_stable([{"messages": messages}, {"messages": later}])
        ... except AssertionError as error:
        ...     print(error)
        request 2 does not begin as request 1: messages[0] was
        {"role": "user", "content": "It is 9:00. Go."} and is
        {"role": "user", "content": "It is 9:01. Go."}
    """
    whole_number(0).or_none.check("assert_prefix_stable.moves", moves)
    SHARE.or_none.check("assert_prefix_stable.share", share)
    allowed = 0 if moves is None and share is None else moves
    pieces = []  # of each request in the order in which the provider reads it
    for messages, system, tools in map(_parts, _listed(requests)):
        numbered = ((f"messages[{index}]", message) for index, message in enumerate(messages))
        named = (("tools", tools), ("the system prompt", system), *numbered)
        pieces.append([(name, text_of(unmarked(native))) for name, native in named])
    moved, kept = [], 0
    for number, (last, now) in enumerate(pairwise(pieces), 2):
        same = next((at for at, (one, other) in enumerate(zip(last, now, strict=False)) if one != other), None)
        same = min(len(last), len(now)) if same is None else same
        kept += sum(len(text) for _, text in now[:same])
        if same < len(last):
            moved.append(_moved(number, last[same], now[same] if same < len(now) else None))
    if allowed is not None and len(moved) > allowed:
        more = f"; {len(moved)} requests begin otherwise than the one before, {allowed} may" if allowed else ""
        raise AssertionError(moved[allowed] + more)
    whole = sum(len(text) for each in pieces[1:] for _, text in each)
    if share is not None and kept < share * whole:
        msg = f"{kept / whole:.1%} of what was sent is an unchanged beginning, not {share:.1%}; {moved[0]}"
        raise AssertionError(msg)


def assert_task_survives(
    requests: Request | Sequence[Request],
    task: str | None = None,
    *,
    format: str | None = None,  # noqa: A002 - the name that the whole library gives it
) -> None:
    """See that the task is in each request, word for word, in what the user says.

    What a recap says of it is not what the user says.

    Args:
        requests: One request or several: views, or bodies.
        task: The task; without it what the user says first in the first request.
        format: The format; found out when not given.

    Raises:
        AssertionError: If there is no request, it is missing somewhere, or the user says nothing in the first request.
        ConfigError: If ``task`` is no text, or blank: that is in everything.

    Example:
        >>> from agentctx.testing import assert_task_survives, assistant, transcript, user
        >>> said = transcript("openai-chat", user("Mend the build."), assistant("How?"), user("Quickly."))
        >>> try:
        ...     assert_task_survives([{"messages": said}, {"messages": said[1:]}])
        ... except AssertionError as error:
        ...     print(error)
        request 2 is without the task, 'Mend the build.'
    """
    NOT_BLANK.or_none.check("assert_task_survives.task", task)
    for number, (_, context) in enumerate(_read(requests, None, format), 1):
        if task is None:
            task = next((context.messages[at].text for at in first_task(context.messages)), None)
            if task is None:
                msg = "request 1 has no task: the user says nothing in it"
                raise AssertionError(msg)
        of_the_user = (each for each in context.messages if each.role == "user" and Recap.read(each) is None)
        if not any(task in message.text for message in of_the_user):
            msg = f"request {number} is without the task, {on_one_line(task, _SHOWN)!r}"
            raise AssertionError(msg)


def _listed(requests: Request | Sequence[Request]) -> list[Request]:
    """The requests one by one; none is a test that looks at nothing."""
    if not isinstance(requests, (View, Mapping, Iterable)) or isinstance(requests, str):
        raise must_be("requests", "views, or the bodies of requests", requests)
    listed = [requests] if isinstance(requests, (View, Mapping)) else list(requests)
    if not listed:
        msg = "there are no requests to look at"
        raise AssertionError(msg)
    return listed


def _read(
    requests: Request | Sequence[Request],
    model: str | None,
    format: str | None,  # noqa: A002 - as above
) -> Iterator[tuple[Reader, Context]]:
    """Read each request, and give the reader that counts it."""
    for each in _listed(requests):
        messages, system, tools = _parts(each)
        named = None if isinstance(each, View) else each.get("model")
        source = reader(
            messages,
            system=system,
            tools=tools,
            format=format,
            model=model or (named if isinstance(named, str) else None),
        )
        yield source, source.context(messages, system, tools)


def _parts(request: Request) -> tuple[Sequence[Native], Native, Native]:
    """Messages, system prompt and tools."""
    if isinstance(request, View):
        return request.messages, request.system, request.tools
    messages = messages_of(request) if isinstance(request, Mapping) else None
    if isinstance(messages, str) and "input" in request:  # as OpenAI's responses take it
        messages = [{"role": "user", "content": messages}]
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        raise must_be("requests", "views, or the bodies of requests with a list of messages", request)
    return messages, system_of(request), tools_of(request)


def _moved(number: int, last: tuple[str, str], now: tuple[str, str] | None) -> str:
    name, text = last
    begins = f"request {number} does not begin as request {number - 1}: {name}"
    if now is None:
        return f"{begins} is not there any more"
    at = next((at for at, (one, other) in enumerate(zip(text, now[1], strict=False)) if one != other), 0)
    start = max(0, at - _SHOWN // 2)
    return f"{begins} was\n{_part(text, start)} and is\n{_part(now[1], start)}"


def _part(text: str, start: int) -> str:
    return ("…" if start else "") + on_one_line(text[start:], _SHOWN)


def text_of(native: object) -> str:
    """A native message as JSON, to compare it to the byte; an SDK object as its client sends it."""
    found = mapping_or_none(native)
    return json.dumps(native if found is None else found, default=as_mapping)


def texts_of(natives: Sequence[Any]) -> list[str]:
    """Each native message as JSON."""
    return [text_of(native) for native in natives]


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
    "RepairHistory",
    "Tiered",
    "TrimRounds",
}
"""Stages that have a reason for whatever they do."""


@frozen
class PassedIn:
    """What was passed in."""

    messages: Sequence[Any]
    system: Native = None
    tools: Native = None


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
    on_head = {change.place.partition("[")[0] for change in report.head}
    for place, one, other in (("system", given.system, view.system), ("tools", given.tools, view.tools)):
        if (one is other) == (place in on_head):
            yield f"{place} {'is' if one is other else 'is not'} as it came, and the report says something else"
    named: dict[int, list[Change]] = defaultdict(list)
    for change in lines:
        if change.outcome is not Outcome.ADDED:
            named[change.index].append(change)
    added = {change.index: change for change in lines if change.outcome is Outcome.ADDED}
    yield from _origins(given.messages, view, named, added)
    yield from _added(given.messages, view, added, meter)
    for index, changes in named.items():
        message, first = before.messages[index], changes[0]
        if (first.role, first.tokens_before) != (message.role, meter.message(message)):
            yield f"messages[{index}] is the {message.role}'s, of {meter.message(message)} tokens: {first}"
    before_and_after = len(given.messages), len(view.messages)
    gone = sum(map(_gone, named.values()))
    if (report.messages_before, report.messages_after) != before_and_after:
        came, sent = before_and_after
        yield f"{came} -> {sent} messages; {report.messages_before} -> {report.messages_after} are said"
    new = sum(change.outcome is Outcome.ADDED for change in lines)
    if len(given.messages) - gone + new != len(view.messages):
        came, sent = before_and_after
        yield f"{came} messages, less {gone} that are gone, with {new} added, are not {sent}"
    yield from _tokens(before, view, lines, meter)


def _origins(
    given: Sequence[Any], view: View, named: Mapping[int, Sequence[Change]], added: Mapping[int, Change]
) -> Iterator[str]:
    """Each message of the view tells where it came from; it is the caller's own object where no change is named.

    What only cache markers touched, and is sent as it came, is that object as well, and no copy of it.
    """
    if len(view.origins) != len(view.messages):
        yield f"{len(view.messages)} messages have {len(view.origins)} origins"
    known = [(place, origin) for place, origin in enumerate(view.origins) if origin is not None]
    if (made := {*range(len(view.origins))} - {place for place, _ in known}) != added.keys():
        yield f"the places {sorted(made)} have no origin, and {sorted(added)} are named as added"
    gone = {index for index, found in named.items() if _gone(found)}
    if sorted(origin for _, origin in known) != sorted({*range(len(given))} - gone):
        yield f"{sorted(gone)} of {len(given)} messages are gone, and the origins are {view.origins}"
        return
    own = set(map(id, given))
    for place, origin in known:
        native, changes = view.messages[place], named.get(origin, ())
        is_own = native is given[origin]
        if is_own != _as_it_came(changes) or (not is_own and id(native) in own):
            yield f"messages[{place}] of the view is made of messages[{origin}]: {[*map(str, changes)]}"
        only_marked = all(change.outcome is Outcome.MARKED for change in changes)
        if only_marked and not is_own and native == given[origin]:
            yield f"messages[{origin}] is sent as it came, and as a copy"
    stayed = [origin for _, origin in known if origin not in named]
    if stayed != sorted(stayed):
        yield f"nothing is named as moved, and the origins are {view.origins}"


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


AllowedEdit = Literal[
    "assistant_text", "user_text", "system_text", "tool_text", "tool_calls", "arguments", "is_error", "swap_results",
    "reorder",
]  # fmt: skip

ALLOWED_EDITS: tuple[AllowedEdit, ...] = get_args(AllowedEdit)
"""What a strategy may be allowed to do: write text as the assistant, the user, the system or a tool; change names and
ids of tool calls, or their arguments; change whether a result is an error; put one result's text under another call;
change the order."""

NOTICE = re.compile(r"\[[^\[\]]*\]")
"""What a stage puts in the place of what it left out stands in square brackets, and is nobody's words."""


def misquotes(
    history: Sequence[Message], view: Sequence[Message], allowed: Collection[AllowedEdit] = ()
) -> Iterator[str]:
    """What a view gets wrong about its history, a sentence each."""
    for edit, check in CHECKS.items():
        if edit not in allowed:
            yield from check(history, view)


def with_callers_ids(messages: Iterable[Message], own: Collection[str]) -> list[Message]:
    """Messages with the ids that their calls came with, where repair had given a repeated one a number.

    Which number it is depends on what was left out before: the caller's id says more.
    """

    def known_as(identity: str) -> str:
        first, _, number = identity.rpartition("_")
        return first if identity not in own and number.isdecimal() and first in own else identity

    def with_own_id(part: Part) -> Part:
        if isinstance(part, ToolCall):
            return evolve(part, id=known_as(part.id))
        return evolve(part, call_id=known_as(part.call_id)) if isinstance(part, ToolResult) else part

    return [evolve(message, parts=tuple(map(with_own_id, message.parts))) for message in messages]


def _said(messages: Iterable[Message], voice: str) -> list[str]:
    """The texts of a voice; a recap is nobody's."""
    roles = SYSTEM_ROLES if voice == "system" else (voice,)
    said = (message for message in messages if message.role in roles and not is_recap(message))
    parts = (part for message in said for part in message.parts)
    return [part.text for part in parts if isinstance(part, Text) and part.text.strip()]


def _words(voice: str, history: Sequence[Message], view: Sequence[Message]) -> Iterator[str]:
    """Each text is one that was said in this voice, as often as it was said, or a cut of one."""
    said = _said(history, voice)
    left = Counter(said)
    for text in _said(view, voice):
        if left[text] > 0:
            left[text] -= 1
        elif text in left:
            yield f"the {voice} says {_start(text)} more often than it was said"
        elif not any(_is_cut_of(text, whole) for whole in said):
            yield f"the {voice} never said {_start(text)}"


def _is_cut_of(text: str, whole: str) -> bool:
    """Whether ``text`` is pieces of ``whole`` in their order, with notices in square brackets between them."""
    place = 0
    for piece in filter(None, map(str.strip, NOTICE.split(text))):
        found = whole.find(piece, place)
        if found < 0:
            return False
        place = found + len(piece)
    return True


def _calls(history: Sequence[Message], view: Sequence[Message]) -> Iterator[str]:
    made = Counter((call.id, call.name) for message in history for call in message.calls)
    sent = Counter((call.id, call.name) for message in view for call in message.calls)
    for identity, name in sent - made:
        yield f"no call {identity!r} of {name!r} was made, or not as often"


def _results(messages: Iterable[Message]) -> dict[str, list[ToolResult]]:
    found: dict[str, list[ToolResult]] = {}
    for message in messages:
        for result in message.results:
            found.setdefault(result.call_id, []).append(result)
    return found


def _arguments(history: Sequence[Message], view: Sequence[Message]) -> Iterator[str]:
    """The arguments of each call are those of a call of that id, whole, or with strings in them cut."""
    given: dict[str, list[str]] = {}
    for message in history:
        for call in message.calls:
            given.setdefault(call.id, []).append(call.arguments)
    for message in view:
        for call in message.calls:
            own = given.get(call.id, ())
            if call.arguments not in own and not any(_is_cut_json(call.arguments, whole) for whole in own):
                yield f"call {call.id!r} was not made with {_start(call.arguments)}"


def _is_cut_json(text: str, whole: str) -> bool:
    try:
        return _is_cut_value(json.loads(text), json.loads(whole))
    except (ValueError, RecursionError):
        return _is_cut_of(text, whole)


def _is_cut_value(value: object, whole: object) -> bool:
    if isinstance(value, str) and isinstance(whole, str):
        return _is_cut_of(value, whole)
    if isinstance(value, dict) and isinstance(whole, dict):
        return value.keys() == whole.keys() and all(_is_cut_value(value[key], whole[key]) for key in value)
    if isinstance(value, list) and isinstance(whole, list):
        return len(value) == len(whole) and all(map(_is_cut_value, value, whole))
    return value == whole


def _tool_words(history: Sequence[Message], view: Sequence[Message]) -> Iterator[str]:
    """No result says what no tool said; one that another tool said is for ``_swaps``."""
    given = _results(history)
    for identity, results in _results(view).items():
        own = [result.text for result in given.get(identity, ())]
        for text in (_plain(result.text, own) for result in results):
            if text not in own and _place_of(text, own, 0) is None and _who_said(text, given) is None:
                yield f"no tool said {_start(text)} to call {identity!r}"


def _flags(history: Sequence[Message], view: Sequence[Message]) -> Iterator[str]:
    given = _results(history)
    for identity, results in _results(view).items():
        flags = {result.is_error for result in given.get(identity, ())}
        for result in results:
            said = NOTICE.sub("", result.text).strip() or result.text == ""
            if flags and said and result.is_error not in flags:
                yield f"is_error of the result of call {identity!r} is {result.is_error}, it was not so"


def _swaps(history: Sequence[Message], view: Sequence[Message]) -> Iterator[str]:
    """No result says what another call's result said, whole or cut; ids may come again, so the order counts as well."""
    given = _results(history)
    for identity, results in _results(view).items():
        own, last = [result.text for result in given.get(identity, ())], -1
        for text in (_plain(result.text, own) for result in results if NOTICE.sub("", result.text).strip()):
            place = _place_of(text, own, last + 1)
            if place is not None:
                last = place
                continue
            other = identity if _place_of(text, own, 0) is not None else _who_said(text, given)
            if other is not None:
                yield f"the result of call {identity!r} says what the result of call {other!r} said: {_start(text)}"


def _plain(text: str, own: Sequence[str]) -> str:
    """A result's text with its codes written out; the text itself where a tool said that, whole or cut."""
    if _place_of(text, own, 0) is not None:
        return text
    head = text[: text.find("]") + 1]  # whoever has written it: a view that is looked at has no marks
    return written_out(Text(text, marks=(Mark(head),)))


def _says(text: str, whole: str) -> bool:
    """Whether a text is a cut of another one, or of one that says the same shorter."""
    return _is_cut_of(text, whole) or any(_is_cut_of(text, form) for form in _shorter_forms(whole))


@lru_cache(maxsize=512)
def _shorter_forms(whole: str) -> tuple[str, ...]:
    """The same JSON without blanks or as tables; the same output with what is of any kind folded."""
    forms = dict.fromkeys((whole, compact(whole), tabulate(whole)))
    for fold in FOLDS.values():
        forms |= dict.fromkeys([fold(form, "[… {} …]".format) for form in forms])
    return tuple(forms)[1:]


def _place_of(text: str, wholes: Sequence[str], start: int) -> int | None:
    """Where from ``start`` on a text stands of which ``text`` is a cut."""
    return next((place for place in range(start, len(wholes)) if _says(text, wholes[place])), None)


def _who_said(text: str, given: dict[str, list[ToolResult]]) -> str | None:
    """The call of whose result ``text`` is a cut."""
    found = (key for key, results in given.items() if any(_says(text, each.text) for each in results))
    return next(found, None)


def _kept_order(history: Sequence[Message], view: Sequence[Message]) -> Iterator[str]:
    """What stands in both stands in the same order."""
    places: dict[object, list[int]] = {}
    for place, atom in enumerate(_atoms(history)):
        places.setdefault(atom, []).append(place)
    last = -1
    for atom in _atoms(view):
        if atom in places:
            later = next((place for place in places[atom] if place > last), None)
            if later is None:
                yield f"{_start(str(atom[-1]))} stands after what came later"
                return
            last = later


def _atoms(messages: Iterable[Message]) -> Iterator[tuple[str, ...]]:
    """Calls and texts, in order; results follow their calls."""
    for message in messages:
        for part in message.parts:
            if isinstance(part, Text) and part.text.strip() and message.role not in SYSTEM_ROLES:
                yield ("text", message.role, part.text)
        for call in message.calls:
            yield ("call", call.id, call.name)


def _start(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "…")


CHECKS: Mapping[AllowedEdit, Callable[[Sequence[Message], Sequence[Message]], Iterator[str]]] = {
    "assistant_text": partial(_words, "assistant"),
    "user_text": partial(_words, "user"),
    "system_text": partial(_words, "system"),
    "tool_text": _tool_words,
    "tool_calls": _calls,
    "arguments": _arguments,
    "is_error": _flags,
    "swap_results": _swaps,
    "reorder": _kept_order,
}
"""What is looked at, unless the edit is allowed."""
