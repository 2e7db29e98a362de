"""Ordinary messages at a glance: columns of what they say, taken without a step of Python's own for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, compress, islice, repeat
from operator import is_not, itemgetter
from typing import Any

from attrs import frozen

from agentctx.core.message import Native
from agentctx.core.pace import breathe
from agentctx.core.protection import says_something
from agentctx.providers.native import finite_json
from agentctx.providers.openai_chat.messages import LEGACY
from agentctx.providers.openai_chat.repair import ID_MAX, NAME
from agentctx.wire_format import Outline, calls_and_results

_KINDS = {("user", 2): "u", ("assistant", 2): "a", ("assistant", 3): "c", ("tool", 3): "A", ("tool", 4): "A"}
"""By role and number of keys; ``c`` may have calls."""


def outline(natives: Sequence[Native]) -> Outline | None:
    """What messages are; None where one is unlike what most programs write."""
    try:
        return _Columns.of(natives)
    except (LookupError, TypeError, ValueError):  # it is not: reading it says what is wrong, if anything is
        return None


def _only(kind: object, values: Sequence[object]) -> None:
    """Refuse other kinds of values."""
    if values and set(map(type, values)) != {kind}:
        raise TypeError


@frozen(eq=False)
class _Columns:
    """What messages say, column by column.

    Args:
        shape: As of ``Outline``.
        contents: The content of each.
        calls: Of each call its id, its name and its arguments.
        results: Of each result its id, and the name of its tool.
    """

    shape: str
    contents: Sequence[str | None]
    calls: tuple[Sequence[str], Sequence[str], Sequence[str]]
    results: tuple[Sequence[str], Sequence[str | None]]

    @classmethod
    def of(cls, natives: Sequence[Any]) -> Outline:
        """The columns of messages; an error where one is not ordinary."""
        _only(dict, natives)
        contents: list[Any] = list(map(dict.get, natives, repeat("content")))
        kinds = list(
            map(_KINDS.get, zip(map(itemgetter("role"), natives), map(len, natives), strict=True), repeat("?"))
        )
        if set(map(type, contents)) != {str}:
            kinds = [each if _is_said(text, each) else "?" for each, text in zip(kinds, contents, strict=True)]
        breathe()
        lists: list[Any] = list(map(dict.get, compress(natives, map("c".__eq__, kinds)), repeat("tool_calls")))
        _only(list, lists)
        if not all(map(says_something, compress(contents, map("u".__eq__, kinds)))):
            kinds = ["?" if each == "u" and not says_something(contents[at]) else each for at, each in enumerate(kinds)]
        shape = _with_calls("".join(kinds), list(map(len, lists)))
        breathe()
        calls = _calls(list(chain.from_iterable(lists)))
        breathe()
        results = _results(list(compress(natives, map("A".__eq__, kinds))))
        breathe()
        _check_texts([*compress(contents, map("?".__ne__, shape)), *calls[2]])
        found = cls(shape, contents, calls, results)
        return Outline(shape, calls[0], results[0], found.again)

    def again(self, start: int, stop: int) -> list[Native]:
        """Messages that say the same as those from ``start`` to ``stop``."""
        asked, answered = calls_and_results(self.shape, start)
        calls = islice(zip(*self.calls, strict=True), asked, None)
        results = islice(zip(*self.results, strict=True), answered, None)
        return [self._message(index, calls, results) for index in range(start, stop)]

    def _message(
        self, index: int, calls: Iterator[tuple[str, str, str]], results: Iterator[tuple[str, str | None]]
    ) -> Native:
        kind, content = self.shape[index], self.contents[index]
        if kind == "A":
            identity, name = next(results)
            return {"role": "tool", "tool_call_id": identity, "name": name, "content": content}
        if kind in "ua":
            return {"role": "user" if kind == "u" else "assistant", "content": content}
        made = [
            {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}
            for identity, name, arguments in islice(calls, int(kind))
        ]
        return {"role": "assistant", "content": content, "tool_calls": made}


def _is_said(content: object, kind: str) -> bool:
    """Whether the content of a message of this kind is text, or none where there are calls beside it."""
    return type(content) is str or (content is None and kind == "c")


def _with_calls(kinds: str, numbers: Sequence[int]) -> str:
    """The letters of messages, those that may have calls by how many they have."""
    if set(numbers) <= {1}:
        return kinds.replace("c", "1")
    digits = map("?123456789".__getitem__, numbers)  # an error for more
    return "".join([next(digits) if kind == "c" else kind for kind in kinds])


def _calls(calls: list[Any]) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
    """Ids, names and arguments of calls; an error where repair would have something to do with one."""
    _only(dict, calls)
    if calls and (set(map(len, calls)) != {3} or set(map(itemgetter("type"), calls)) != {"function"}):
        raise ValueError
    bodies = list(map(itemgetter("function"), calls))
    _only(dict, bodies)
    if bodies and set(map(len, bodies)) != {2}:
        raise ValueError
    ids, names, arguments = (
        list(map(itemgetter(key), found)) for key, found in (("id", calls), ("name", bodies), ("arguments", bodies))
    )
    for column in (ids, names, arguments):
        _only(str, column)
    _check_ids(ids)
    joined = "\n".join(arguments)
    odd = "NaN" in joined or "Infinity" in joined
    if not all(map(NAME.fullmatch, set(names))) or (odd and any(map(is_not, map(finite_json, arguments), arguments))):
        raise ValueError
    return ids, names, arguments


def _results(results: list[Any]) -> tuple[Sequence[str], Sequence[str | None]]:
    """Ids of results, and the names of their tools; an error where repair would have something to do with one."""
    ids, names = list(map(itemgetter("tool_call_id"), results)), list(map(dict.get, results, repeat("name")))
    _only(str, ids)
    _check_ids(ids)
    named = list(filter(None, names))
    _only(str, named)
    if len(named) != sum(map((4).__eq__, map(len, results))):  # the fourth key is another one
        raise ValueError
    return ids, names


def _check_ids(ids: list[str]) -> None:
    if ids and (max(map(len, ids)) > ID_MAX or LEGACY in "\n".join(ids)):
        raise ValueError


def _check_texts(texts: Sequence[str | None]) -> None:
    """Refuse lone surrogates, which cannot be sent."""
    said = list(filter(None, texts))
    if not all(map(str.isascii, said)):
        "".join([text for text in said if not text.isascii()]).encode()
