"""Whether a view quotes its history rightly: each word by who said it, each result under its call, in order.

The laws compare a view with the history that the repair makes of the input, so what the repair had to do is nobody's
fault. What a stage may do beyond leaving out and cutting is named in ``ALLOWED_EDITS``.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Literal, get_args

from attrs import evolve

from agentctx.core.json_text import compact, tabulate
from agentctx.core.message import SYSTEM_ROLES, Message, Part, Text, ToolCall, ToolResult
from agentctx.core.recap import is_recap
from agentctx.core.references import written_out
from agentctx.strategies.compress.output_kinds import FOLDS

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


def _voice(message: Message) -> str:
    return "system" if message.role in SYSTEM_ROLES else message.role


def _said(messages: Iterable[Message], voice: str) -> list[str]:
    """The texts of a voice; a recap is nobody's."""
    said = (message for message in messages if _voice(message) == voice and not is_recap(message))
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
    """What a result says with its codes written out; itself where a tool said it so."""
    return text if text in own else written_out(text)


def _says(text: str, whole: str) -> bool:
    """Whether a text is a cut of another one, or of one that says the same shorter."""
    return any(_is_cut_of(text, form) for form in (whole, *_shorter_forms(whole)))


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


def _order(history: Sequence[Message], view: Sequence[Message]) -> Iterator[str]:
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
    "reorder": _order,
}
"""What is looked at, unless the edit is allowed."""
