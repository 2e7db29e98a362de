"""JSON as text: the same document in fewer characters. Numbers, order, repeated keys and escapes stay as written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

BLANKS = " \t\r\n"
"""All that JSON takes for a blank."""

_STRING = re.compile(r'("[^"\\]*+(?:\\.[^"\\]*+)*+")')


def may_be_json(text: str) -> bool:
    """Whether a text begins as an object or an array does."""
    return text.lstrip(BLANKS)[:1] in ("{", "[")


def is_json(text: str) -> bool:
    """Whether a text is one JSON document."""
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def compact(text: str) -> str:
    """An object, an array, or one of these a line, without the blanks between its tokens; any other text as it is.

    Example:
        >>> from agentctx.strategies.compress.json_text import compact
        >>> compact('{"price": 1.10, "price": 1e2, "name": "a  b"}')
        '{"price":1.10,"price":1e2,"name":"a  b"}'
    """
    if not may_be_json(text):
        return text
    if is_json(text):
        return _without_blanks(text)
    lines = text.split("\n")
    if len(lines) > 1 and all(not line.strip(BLANKS) or (may_be_json(line) and is_json(line)) for line in lines):
        return "\n".join(map(_without_blanks, lines))
    return text


def _without_blanks(text: str) -> str:
    pieces = _STRING.split(text)  # every other one is a string
    pieces[::2] = ["".join(each.split()) for each in pieces[::2]]
    return "".join(pieces)


def _refuse(constant: str) -> object:
    """NaN and the like, which Python reads, are no JSON."""
    raise ValueError(constant)


TABLES = "[JSON tables: {keys} once, then a row of values each]\n"
"""What a document with tables begins with."""

_DEEPEST = 100
"""Documents that are nested deeper than so many levels have no tables."""

_WORD = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},:\n]|[^\s"\[\]{},:]+')


class _Object(list[tuple[str, "_Value"]]):
    """The members of an object in their order, keys and scalars as written; and its shape."""

    __slots__ = ("shape",)
    shape: tuple[tuple[str, _Shape], ...]

    def close(self, shapes: dict[_Shape, _Shape]) -> None:
        """Work out the shape: its keys, and those of the objects in it; equal shapes are one and the same."""
        shape = tuple([(key, value.shape if isinstance(value, _Object) else ()) for key, value in self])
        self.shape = shapes.setdefault(shape, shape)

    def leaves(self, shape: _Shape) -> Iterator[_Value]:
        """The values under the keys of a shape, in order."""
        for (_, value), (_, inner) in zip(self, shape, strict=True):
            if inner and isinstance(value, _Object):
                yield from value.leaves(inner)
            else:
                yield value


_Shape: TypeAlias = "tuple[tuple[str, _Shape], ...]"
_Value: TypeAlias = "str | list[_Value] | _Object"


def tabulate(text: str) -> str:
    """A JSON document that says the keys of objects of one shape once, and then a row of values each.

    Arrays of such objects, and objects of such objects, become tables. A text without any, or one that is no JSON
    document, is given as it is. ``untabulate`` gives the document back, without its blanks.

    Example:
        >>> from agentctx.strategies.compress.json_text import tabulate, untabulate
        >>> print(tabulate('{"seats": [{"row": 1, "free": true}, {"row": 2, "free": false}]}'))
        [JSON tables: {keys} once, then a row of values each]
        {"seats":[{"row","free"}
        1,true
        2,false]}
        >>> untabulate(tabulate('[{"row": 1}, {"row": 1.0}]'))
        '[{"row":1},{"row":1.0}]'
    """
    if not may_be_json(text) or not is_json(text):
        return text
    document = _parsed(text)
    made = "" if document is None else _written(document)
    return f"{TABLES}{made}" if "\n" in made else text


def untabulate(text: str) -> str:
    """The JSON document, without blanks, that a text with tables stands for; any other text as it is."""
    if not text.startswith(TABLES):
        return text
    try:
        return _Reader(_WORD.findall(text, len(TABLES))).document()
    except (IndexError, RecursionError, ValueError):
        return text


def _parsed(text: str) -> _Value | None:
    """A valid document with its scalars as written; None where it is nested too deep."""
    root: list[_Value] = []
    stack: list[list[_Value] | _Object] = [root]
    shapes: dict[_Shape, _Shape] = {}
    key = ""
    for word in _WORD.findall(text):
        holder = stack[-1]
        if word in ("]", "}"):
            stack.pop()
            if isinstance(holder, _Object):
                holder.close(shapes)
        elif word in (",", ":", "\n"):
            continue
        elif isinstance(holder, _Object) and not key:
            key = word
        else:
            value: _Value = _Object() if word == "{" else [] if word == "[" else word
            if isinstance(holder, _Object):
                holder.append((key, value))
                key = ""
            else:
                holder.append(value)
            if not isinstance(value, str):
                stack.append(value)
                if len(stack) > _DEEPEST:
                    return None
    return root[0]


def _written(value: _Value) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, _Object):
        shape = _common([each for _, each in value])
        if shape:
            rows = [f"{key}:{_row(each, shape)}" for key, each in value]
            return f"{{{_template(shape)}\n" + "\n".join(rows) + "}"
        return "{" + ",".join([f"{key}:{_written(each)}" for key, each in value]) + "}"
    shape = _common(value)
    if shape:
        return f"[{_template(shape)}\n" + "\n".join([_row(each, shape) for each in value]) + "]"
    return "[" + ",".join(map(_written, value)) + "]"


def _common(values: Sequence[_Value]) -> _Shape:
    """The shape of several objects: with the objects in them where these are alike, too; empty where there is none."""
    if len(values) < 2 or not isinstance(values[0], _Object):
        return ()
    first = values[0].shape
    if all(isinstance(each, _Object) and each.shape is first for each in values):
        return first
    keys = [key for key, _ in first]
    alike = all(isinstance(each, _Object) and [key for key, _ in each] == keys for each in values)
    return tuple((key, ()) for key in keys) if alike else ()


def _row(value: _Value, shape: _Shape) -> str:
    return ",".join(map(_written, value.leaves(shape))) if isinstance(value, _Object) else ""


def _template(shape: _Shape) -> str:
    return "{" + ",".join([key + (_template(inner) if inner else "") for key, inner in shape]) + "}"


class _Reader:
    """Reads a document with tables, and writes it without."""

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.at = 0

    def document(self) -> str:
        value = self.value()
        if self.at != len(self.words):
            raise ValueError(self.at)
        return value

    def take(self, *expected: str) -> str:
        word = self.words[self.at]
        self.at += 1
        if expected and word not in expected:
            raise ValueError(word)
        return word

    def value(self) -> str:
        word = self.take()
        if word == "[":
            return f"[{self.members(']')}]"
        if word == "{":
            return f"{{{self.members('}')}}}"
        if word in ("]", "}", ",", ":", "\n"):
            raise ValueError(word)
        return word

    def members(self, end: str) -> str:
        """What stands in an array or an object, up to its end."""
        if self.words[self.at] == end:
            self.at += 1
            return ""
        shape = self.template() if self.is_table(end) else None
        made = [] if shape else [self.member(end)]
        while self.take("\n" if shape else ",", end) != end:
            made.append(self.member(end, shape))
        return ",".join(made)

    def is_table(self, end: str) -> bool:
        """Whether what follows are the keys of a table: no object looks so, nor stands where a key is due."""
        if self.words[self.at] != "{" or self.words[self.at + 1] == "}":  # an empty object
            return False
        return end == "}" or self.words[self.at + 2] in (",", "}", "{")

    def member(self, end: str, shape: _Shape | None = None) -> str:
        key = f"{self.take()}{self.take(':')}" if end == "}" else ""
        return key + (self.value() if shape is None else self.row(shape, last=True))

    def template(self) -> _Shape:
        self.take("{")
        shape: list[tuple[str, _Shape]] = []
        while True:
            key = self.take()
            shape.append((key, self.template() if self.words[self.at] == "{" else ()))
            if self.take(",", "}") == "}":
                return tuple(shape)

    def row(self, shape: _Shape, *, last: bool) -> str:
        made: list[str] = []
        for number, (key, inner) in enumerate(shape, 1):
            ends = last and number == len(shape)
            made.append(f"{key}:{self.row(inner, last=ends) if inner else self.value()}")
            if not inner and not ends:
                self.take(",")
        return "{" + ",".join(made) + "}"
