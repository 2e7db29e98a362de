"""JSON as text: a value written (``serialise``), and the same document in fewer characters (``compact``, ``tabulate``).

Of a document, numbers, order, repeated keys and escapes stay as written.
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from operator import not_
from typing import Any, TypeAlias

from agentctx.lazy import lazy_pattern

BLANKS = " \t\r\n"
"""All that JSON takes for a blank."""

_NO_BLANKS = dict.fromkeys(map(ord, BLANKS))
_STRING = lazy_pattern(r'("[^"\\]*+(?:\\.[^"\\]*+)*+")')


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
        >>> from agentctx.json_text import compact
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
    pieces[::2] = "\0".join(pieces[::2]).translate(_NO_BLANKS).split("\0")  # all at once; there is no \0 in JSON
    return "".join(pieces)


def _refuse(constant: str) -> object:
    """NaN and the like, which Python reads, are no JSON."""
    raise ValueError(constant)


SHORTER = "[JSON]\n"
"""What a document begins with that says the same in fewer tokens than JSON does."""

_DEEPEST = 100
"""Documents that are nested deeper than so many levels have no tables."""

_KEY = "key"
"""Stands in a table for the key that its row has: no value in JSON is written so."""

_PLAIN = r"[^\s\"\[\]{},:=\\]+(?: +[^\s\"\[\]{},:=\\]+)*"
_WORD = lazy_pattern(rf'"[^"\\]*+(?:\\(?s:.)[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{{}},:=\n]|{_PLAIN}')  # or open to the end
_NO_STRING = rf"(?:[-+]?[0-9][0-9.]*(?:[eE][-+]?[0-9]+)?|true|false|null|{_KEY})"
_SCALAR, _UNQUOTABLE = lazy_pattern(_NO_STRING), lazy_pattern(rf'"(?!{_NO_STRING}")({_PLAIN})"')
_UNQUOTABLE_KEY = lazy_pattern(rf'"({_PLAIN})"')


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

    Arrays of such objects, and objects of such objects, become tables. A value that all of them have stands behind its
    key (``free=true``), and so does the word ``key`` where each has the key that it stands under. Strings have no
    quotes where nothing else can be meant. A text to which none of this applies, or one that is no JSON document, is
    given as it is. ``untabulate`` gives the document back, without its blanks.

    Example:
        >>> from agentctx.json_text import tabulate, untabulate
        >>> print(tabulate('{"seats": [{"row": 1, "free": true}, {"row": 2, "free": true}]}'))
        [JSON]
        {seats:[{row,free=true}
        1
        2]}
        >>> untabulate(tabulate('[{"row": 1}, {"row": 1.0}]'))
        '[{"row":1},{"row":1.0}]'
    """
    if not may_be_json(text) or not is_json(text):
        return text
    document = _parsed(text)
    if document is None:
        return text
    made = _document(document)
    return f"{SHORTER}{made}" if "\n" in made or made.count('"') < text.count('"') else text


def untabulate(text: str, most: float = math.inf) -> str:
    """The JSON document, without blanks, that a text stands for that ``tabulate`` made; any other text as it is.

    Args:
        text: The text; it may be anybody's who writes as ``tabulate`` does.
        most: Characters that the objects of its tables may have together, those within others counted again: a table
            in what all objects of a table have grows with each level. A text that stands for more is given as it is.
    """
    if not text.startswith(SHORTER):
        return text
    try:
        made = _Reader(_WORD.findall(text, len(SHORTER)), most).document()
    except (IndexError, RecursionError, ValueError):
        return text
    return made if is_json(made) else text


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


def _document(document: _Value) -> str:
    """A document: what an object has at the top a line each, so that it may be referred to by lines."""
    if not isinstance(document, _Object) or _common([each for _, each in document]):
        return _written(document)
    return "{" + ",\n".join([_member(key, value) for key, value in document]) + "}"


def _member(key: str, value: _Value) -> str:
    return f"{_unquoted_key(key)}:{_written(value)}"


def _written(value: _Value) -> str:
    if isinstance(value, str):
        return _unquoted(value)
    if isinstance(value, _Object):
        shape = _common([each for _, each in value])
        if shape:
            return "{" + _table(shape, [each for _, each in value], [key for key, _ in value]) + "}"
        return "{" + ",".join([_member(key, each) for key, each in value]) + "}"
    shape = _common(value)
    return "[" + (_table(shape, value, ()) if shape else ",".join(map(_written, value))) + "]"


def _table(shape: _Shape, values: Sequence[_Value], keys: Sequence[str]) -> str:
    """Objects of a shape: what they have in common, then a row each, behind its key where it has one."""
    leaves = [list(value.leaves(shape)) for value in values if isinstance(value, _Object)]
    rows = [list(map(_written, row)) for row in leaves]
    same_as_keys = [list(column) == list(keys) for column in zip(*leaves, strict=True)]
    columns = zip(same_as_keys, zip(*rows, strict=True), strict=True)
    said = [_KEY if as_key else column[0] if len(set(column)) == 1 else "" for as_key, column in columns]
    lines = [",".join(compress(row, map(not_, said))) for row in rows]
    if keys:
        lines = [f"{_unquoted_key(key)}:{line}" for key, line in zip(keys, lines, strict=True)]
    return "\n".join([_template(shape, iter(said)), *lines])


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


def _template(shape: _Shape, said: Iterator[str]) -> str:
    """The keys of a shape, each with what all objects have there, if anything."""
    keys = [
        _unquoted_key(key) + (_template(inner, said) if inner else f"={value}" if (value := next(said)) else "")
        for key, inner in shape
    ]
    return "{" + ",".join(keys) + "}"


def _unquoted(scalar: str) -> str:
    """A scalar without the quotes that it may have, where it is a string without them, too, and looks like one."""
    found = _UNQUOTABLE.fullmatch(scalar)
    return scalar if found is None else found[1]


def _unquoted_key(key: str) -> str:
    """The same for a key, which is a string whatever it looks like."""
    found = _UNQUOTABLE_KEY.fullmatch(key)
    return key if found is None else found[1]


def _quoted(word: str) -> str:
    """A scalar that may have lost its quotes, as JSON."""
    return word if word[0] == '"' or _SCALAR.fullmatch(word) else f'"{word}"'


_Columns: TypeAlias = "tuple[tuple[str, _Columns | str], ...]"
"""The keys of a table, each with the columns within it, or what all objects have there; empty where they differ."""


_MARKS = frozenset("[]{},:=\n")


class _Reader:
    """Reads a document with tables, and writes it without."""

    def __init__(self, words: list[str], most: float) -> None:
        self.words = words
        self.at = 0
        self.left = most

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
        if word in _MARKS:
            raise ValueError(word)
        return _quoted(word)

    def key(self) -> str:
        """A key as JSON."""
        word = self.take()
        if word in _MARKS:
            raise ValueError(word)
        return word if word[0] == '"' else f'"{word}"'

    def members(self, end: str) -> str:
        """What stands in an array or an object, up to its end."""
        if self.words[self.at] == end:
            self.at += 1
            return ""
        columns = self.template() if self.is_table(end) else None
        if columns is None:
            made = [self.member(end)]
            while self.take(",", end) != end:
                self.at += self.words[self.at] == "\n"
                made.append(self.member(end))
            return ",".join(made)
        made = []
        while self.take("\n", end) != end:
            key = f"{self.key()}{self.take(':')}" if end == "}" else ""
            made.append(key + self.row(columns, key[:-1], iter(list(self.values(_differing(columns))))))
        return ",".join(made)

    def is_table(self, end: str) -> bool:
        """Whether what follows are the keys of a table: no object looks so, nor stands where a key is due."""
        if self.words[self.at] != "{" or self.words[self.at + 1] == "}":  # an empty object
            return False
        return end == "}" or self.words[self.at + 2] in (",", "}", "{", "=")

    def member(self, end: str) -> str:
        return f"{self.key()}{self.take(':')}{self.value()}" if end == "}" else self.value()

    def template(self) -> _Columns:
        self.take("{")
        columns: list[tuple[str, _Columns | str]] = []
        while True:
            key, word = self.key(), self.words[self.at]
            self.at += word == "="
            columns.append((key, self.template() if word == "{" else self.common() if word == "=" else ""))
            if self.take(",", "}") == "}":
                return tuple(columns)

    def common(self) -> str:
        """What all objects of a table have."""
        if self.words[self.at] == _KEY:
            return self.take()
        return self.value()

    def values(self, number: int) -> Iterator[str]:
        """So many values of a row."""
        for place in range(number):
            if place:
                self.take(",")
            yield self.value()

    def row(self, columns: _Columns, key: str, values: Iterator[str]) -> str:
        """An object of a table."""
        made = [
            f"{name}:{self.row(given, key, values) if isinstance(given, tuple) else _given(given, key) or next(values)}"
            for name, given in columns
        ]
        self.left -= sum(map(len, made)) + len(made) + 1
        if self.left < 0:
            raise ValueError(self.at)
        return "{" + ",".join(made) + "}"


def _differing(columns: _Columns) -> int:
    """How many columns have a value in each row."""
    return sum(_differing(given) if isinstance(given, tuple) else not given for _, given in columns)


def _given(given: str, key: str) -> str:
    return key if given == _KEY else given


def serialise(value: object) -> str:
    """``value`` as compact JSON; what JSON cannot hold as Python writes it."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)
    except (TypeError, ValueError, RecursionError):
        return _as_python(value)


def _as_python(value: object) -> str:
    try:
        return repr(value)
    except RecursionError:  # nested deeper than Python can go: its strings, and its other values as one sign each
        return "".join(_leaves(value))


def _leaves(value: object) -> Iterator[str]:
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, (Mapping, list, tuple)):
            yield "[]"
            if id(each) not in seen:
                seen.add(id(each))
                waiting.extend(_both(each) if isinstance(each, Mapping) else each)
        else:
            yield "0"


def _plain(value: object) -> object:
    """Mappings and SDK objects (pydantic models) as dicts, bytes as base64, the rest as text."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (bytes, bytearray)):
        return b64encode(value).decode("ascii")
    dump = getattr(value, "model_dump", None)
    return dump(exclude_unset=True) if callable(dump) else str(value)


MOST_CHARACTERS = 1_000_000
"""Where ``characters`` stops counting: it is far more than anyone would count without a thread."""


def characters(value: object) -> int:
    """About how many characters ``serialise`` would make of ``value``, without making them."""
    total, open_values = 0, [value]
    while open_values:
        each = open_values.pop()
        if isinstance(each, (str, bytes, bytearray)):
            total += len(each) + 2
        elif isinstance(each, Mapping):
            total += 2
            open_values.extend(_both(each))
        elif isinstance(each, (list, tuple)):
            total += 2  # so that this ends with a value that contains itself, too
            open_values.extend(each)
        else:
            total += 8
        if total > MOST_CHARACTERS:
            return total
    return total


def _both(mapping: Mapping[Any, Any]) -> Iterable[object]:
    yield from mapping.keys()
    yield from mapping.values()
