"""Ordinary messages at a glance: what most programs write is recognised in one pass, and nothing is made of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from attrs import define, field

from agentctx.core.message import Native
from agentctx.core.pace import breathe
from agentctx.core.protection import says_something
from agentctx.providers.native import clean_text, finite_json
from agentctx.providers.openai_chat.messages import LEGACY
from agentctx.providers.openai_chat.repair import ID_MAX, NAME
from agentctx.wire_format import Outline, calls_and_results

_AT_A_TIME = 500
"""Messages that are looked at in one go: that takes less than a millisecond."""

_SAYS, _ASKS, _ANSWERS, _CALL, _FUNCTION = 2, 3, 3, 3, 2
"""Keys of a message that says something, of one that calls tools, of a result without its tool's name; of a call."""


def outline(natives: Sequence[Native]) -> Outline | None:
    """What messages are; None where one is unlike what most programs write."""
    if set(map(type, natives)) != {dict}:
        return None
    try:
        return _Glance().at(natives)
    except (AttributeError, LookupError, TypeError, ValueError):  # reading it says what is wrong, if anything is
        return None


@define(eq=False)
class _Glance:
    """What messages say, in the order in which it stands there.

    Args:
        shape: As of ``Outline``.
        contents: The content of each message.
        calls: Of each call its id.
        names: Of each call the name.
        arguments: Of each call the arguments.
        results: Of each result the id.
        tools: Of each result the name of its tool, if it has one.
    """

    shape: str = ""
    contents: list[str | None] = field(factory=list)
    calls: list[str] = field(factory=list)
    names: list[str] = field(factory=list)
    arguments: list[str] = field(factory=list)
    results: list[str] = field(factory=list)
    tools: list[str | None] = field(factory=list)

    def at(self, natives: Sequence[Any]) -> Outline:
        """The outline of messages; an error where one is not ordinary."""
        for start in range(0, len(natives), _AT_A_TIME):
            self._look_at(natives[start : start + _AT_A_TIME])
            breathe()
        _check_ids(self.calls)
        _check_ids(self.results)
        _check_arguments(self.arguments)
        if not all(map(NAME.fullmatch, set(self.names))):
            raise ValueError
        return Outline(self.shape, self.calls, self.results, self.again)

    def _look_at(self, natives: Sequence[dict[str, Any]]) -> None:
        """Take down what some messages say. A message costs half a microsecond here, so nothing is called for most."""
        letters, contents, results, tools = [], self.contents, self.results, self.tools
        for native in natives:
            role, size, content = native["role"], len(native), native.get("content")
            contents.append(content)
            if type(content) is not str or not (content.isascii() or clean_text(content) is content):
                letter = self._asks(native) if content is None and role == "assistant" and size == _ASKS else "?"
            elif role == "tool" and (size == _ANSWERS or (size == _ANSWERS + 1 and type(native.get("name")) is str)):
                letter = "A"
                results.append(native["tool_call_id"])
                tools.append(native.get("name"))
            elif role == "assistant":
                letter = "a" if size == _SAYS else self._asks(native) if size == _ASKS else "?"
            else:
                letter = "u" if role == "user" and size == _SAYS and says_something(content) else "?"
            letters.append(letter)
        self.shape += "".join(letters)

    def _asks(self, native: dict[str, Any]) -> str:
        """The letter of a message that may have calls; an error where one of them is not ordinary."""
        calls = native.get("tool_calls")
        if type(calls) is not list:
            return "?"
        for call in calls:
            body = call["function"]
            if len(call) != _CALL or call["type"] != "function" or len(body) != _FUNCTION:
                raise ValueError
            self.calls.append(call["id"])
            self.names.append(body["name"])
            self.arguments.append(body["arguments"])
        return "?123456789"[len(calls)]

    def again(self, start: int, stop: int) -> list[Native]:
        """Messages that say the same as those from ``start`` to ``stop``."""
        asked, answered = calls_and_results(self.shape, start)
        calls = islice(zip(self.calls, self.names, self.arguments, strict=True), asked, None)
        results = islice(zip(self.results, self.tools, strict=True), answered, None)
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


def _check_ids(ids: Sequence[str]) -> None:
    """Refuse ids that are none, or that repair would shorten."""
    if set(map(type, ids)) - {str} or max(map(len, ids), default=0) > ID_MAX or LEGACY in "\n".join(ids):
        raise ValueError


def _check_arguments(arguments: Sequence[str]) -> None:
    """Refuse arguments in which there is something to repair."""
    joined = "\n".join(arguments)
    if joined.isascii() and "NaN" not in joined and "Infinity" not in joined:
        return
    if not all(finite_json(each) is each and clean_text(each) is each for each in arguments):
        raise ValueError
