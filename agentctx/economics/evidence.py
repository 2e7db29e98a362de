"""What an error says: its texts, codes and status, from exceptions, bodies, nested JSON and stream events.

No SDK is imported: attributes and keys are looked at by name, and only those that an object stores, never a property,
since reading some of them (a response's text) would read from the network.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from inspect import getattr_static
from typing import Any

from attrs import define, field

_STATUS = frozenset({"status", "status_code", "statuscode", "http_status", "httpstatuscode", "code", "error_code"})
_CODES = frozenset(
    {"code", "error_code", "errorcode", "type", "__type", "status", "error_type", "finish_reason", "stop_reason"}
    | {"finishreason", "stopreason", "reason"}
)
_TEXTS = frozenset(
    {"message", "msg", "detail", "error", "param", "title", "server_message", "status_msg", "error_msg", "errmsg"}
    | {"error_message", "errormessage", "originalmessage", "faultstring"}
)
_INSIDE = (
    "error", "errors", "body", "response", "data", "detail", "details", "message", "exception", "metadata", "raw",
    "raw_response", "json_body", "http_body", "error_response", "last_response", "responsemetadata", "choices",
    "candidates", "args", "text", "content", "_content", "events", "base_resp", "fault", "innererror",
)  # fmt: skip
_NOT_IN_PAYLOADS = frozenset({"text", "content", "args"})
_NUMBERS = frozenset({"n_prompt_tokens", "n_ctx"})
_ATTRIBUTES = (*_STATUS, *_CODES, *_TEXTS, *_INSIDE, *_NUMBERS)
_QUOTED_CODE = re.compile(
    r"""\\?['"](?:code|type|error_type|status)\\?['"]\s*:\s*\\?['"]?([A-Za-z_][\w.\-]+|\d{4,5}\b)"""
)
_LEADING_STATUS = re.compile(
    r"^\W*(?:http(?: error)?:?\s+|error code:\s*|status(?: code)?:?\s*)?([45]\d\d)\b", re.IGNORECASE
)
_ECHO = re.compile(r"input_value=|\[type=\w+, |['\"]input['\"]:\s*[\[{'\"]|['\"]failed_generation\\?['\"]:")
_DEEPEST = 8
_LOOKED_AT = 8_000


@define
class Evidence:
    """What one error says.

    Args:
        texts: Its sentences, in the order found, each once.
        codes: Its codes, types and reasons, in lower case; also the names of its class and their bases.
        statuses: HTTP statuses that it names.
        numbers: Token counts that it gives as fields, by field name.
        source: The package that its class comes from (``openai``), empty for builtins and payloads.
    """

    texts: dict[str, None] = field(factory=dict)
    codes: set[str] = field(factory=set)
    statuses: set[int] = field(factory=set)
    numbers: dict[str, int] = field(factory=dict)
    source: str = ""

    def say(self, text: str) -> None:
        """Note a sentence, with the codes quoted in it; what a validator echoes of the request is left out."""
        text = text[:_LOOKED_AT]
        echo = _ECHO.search(text)
        text = text[: echo.start()] if echo else text
        if not text.strip():
            return
        self.texts[text] = None
        self.codes.update(code.lower() for code in _QUOTED_CODE.findall(text))
        status = _LEADING_STATUS.match(text)
        if status:
            self.statuses.add(int(status[1]))


def own(error: BaseException) -> Evidence:
    """What an exception says itself, without those that it came from."""
    found = Evidence()
    for base in type(error).__mro__:
        if base.__module__ != "builtins":
            found.codes.add(base.__name__.lower())
            found.source = found.source or base.__module__.partition(".")[0]
    found.say(_words(error))
    _object(error, found, 0)
    return found


def _words(error: BaseException) -> str:
    """What an exception says of itself; nothing when its own code fails at that, which must not hide the error."""
    try:
        return str(error)
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        return ""


def of_payload(payload: Any) -> Evidence:  # noqa: ANN401 - an error body, a stream event, or an SDK's object
    """What an error body, a stream event or a response says."""
    found = Evidence()
    _any(payload, found, 0)
    return found


def causes(error: BaseException) -> Iterator[BaseException]:
    """The exception, then those that it was raised from or while handling, outermost first, each once.

    The members of a group follow the group.
    """
    waiting, seen = [error], set[int]()
    while waiting:
        current = waiting.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        if isinstance(current, BaseExceptionGroup):
            waiting.extend(current.exceptions)
        waiting.extend(member for member in _arguments(current) if isinstance(member, BaseException))
        before = current.__cause__
        if before is None and not current.__suppress_context__:
            before = current.__context__
        if before is not None:
            waiting.append(before)


def _arguments(error: BaseException) -> Sequence[Any]:
    named = _stored(error, "original_exception")
    return (*error.args, named)


def _any(thing: Any, found: Evidence, depth: int) -> None:  # noqa: ANN401 - whatever a provider nests
    if depth > _DEEPEST or thing is None or isinstance(thing, BaseException):
        return
    if isinstance(thing, (bytes, bytearray, memoryview)):
        _text(bytes(thing[: 4 * _LOOKED_AT]).decode("utf-8", "replace"), found, depth)
    elif isinstance(thing, str):
        _text(thing, found, depth)
    elif isinstance(thing, Mapping):
        _mapping(thing, found, depth)
    elif isinstance(thing, (list, tuple)):
        for each in thing[:20]:
            _any(each, found, depth + 1)
    elif not isinstance(thing, (int, float)):
        _object(thing, found, depth)


def _text(text: str, found: Evidence, depth: int) -> None:
    inside = _parsed(text)
    if inside is None:
        found.say(text)
    else:
        _any(inside, found, depth + 1)


def _parsed(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """The JSON container that the text is, or None."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _mapping(values: Mapping[Any, Any], found: Evidence, depth: int) -> None:
    for key, value in values.items():
        name = str(key).lower()
        _named(name, value, found)
        if name in _NOT_IN_PAYLOADS:
            continue
        if name in _INSIDE or name in _TEXTS or name.endswith("exception"):
            _any(value, found, depth + 1)


def _object(thing: object, found: Evidence, depth: int) -> None:
    for name in _ATTRIBUTES:
        value = _stored(thing, name)
        if value is None:
            continue
        _named(name, value, found)
        if name in _INSIDE or name in _TEXTS:
            _any(value, found, depth + 1)


def _named(name: str, value: Any, found: Evidence) -> None:  # noqa: ANN401 - whatever a provider nests
    """Take note of a code, a status or a number."""
    if isinstance(value, bool):
        return
    if isinstance(value, int):
        if name in _STATUS and 400 <= value <= 599:
            found.statuses.add(int(value))
        elif name in _NUMBERS:
            found.numbers[name] = int(value)
    elif isinstance(value, str) and name in _CODES and len(value) <= 80:
        found.codes.add(value.lower())


def _stored(thing: object, name: str) -> Any:  # noqa: ANN401 - whatever is there
    """An attribute that the object holds; None for properties and methods."""
    static = getattr_static(thing, name, None)
    if static is None or callable(static) or isinstance(static, (property, cached_property)):
        return None
    return getattr(thing, name, None)
