"""Values of attrs classes as plain JSON values, and back.

The fields of a class and their types say all: numbers, texts, bytes (as base64), lists, tuples, sets, dicts,
enumerations, literals, values that may be None, and other classes. An error names the path of a value.
"""

from __future__ import annotations

import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import cache, partial
from itertools import repeat
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from attrs import fields, frozen, has

from agentctx.characters import shown
from agentctx.errors import InvalidInput

T = TypeVar("T")


def to_plain(kind: Any, value: object) -> Any:  # noqa: ANN401 - types are objects of many classes
    """Return a value of this type as plain JSON values. Fields of the type ``Any`` have plain values already."""
    return _form(kind).write(value)


def from_plain(kind: Callable[..., T], plain: object, where: str) -> T:
    """Return the value that ``to_plain`` wrote.

    Args:
        kind: Its type.
        plain: JSON values of anybody.
        where: Their path, for errors.

    Raises:
        InvalidInput: If a field is missing, unknown or of another type, or the class refuses it; names the path. A
            class of whose fields one does not fit the others raises it, too, with the path within itself.
    """
    try:
        made: T = _form(kind).read(plain)
    except InvalidInput as error:
        raise _within(error, where) from error
    return made


def _same(value: Any) -> Any:  # noqa: ANN401
    return value


@frozen
class _Form:
    """How values of one type are read and written."""

    read: Callable[[Any], Any]
    write: Callable[[Any], Any] = _same


def must_be(value: object, expected: str, where: str = "") -> InvalidInput:
    """Return the error that says which value a place must have, and which one it has."""
    return InvalidInput(where, f"must be {expected}, got {shown(value)}")


def _within(error: InvalidInput, where: str) -> InvalidInput:
    return InvalidInput(where + error.where, error.what)


@cache
def _form(kind: Any) -> _Form:  # noqa: ANN401 - types are objects of many classes
    origin, args = get_origin(kind) or kind, get_args(kind)
    if origin is Annotated:  # a whole number, and the range that it lies in where that is another
        return _Form(partial(_whole, allowed=args[1]))
    if origin in (Union, UnionType):
        return _one_of_types(args)
    if origin is Literal:
        return _Form(partial(_one_of, {each: each for each in args}))
    if issubclass(origin, Enum):
        return _Form(partial(_one_of, {each.value: each for each in origin}), lambda member: member.value)
    if issubclass(origin, dict):
        return _dict(*args)
    if issubclass(origin, (list, tuple, frozenset)):
        if args[1:] in ((), (...,)):
            return _list(repeat(_form(args[0])), origin)
        return _list([_form(each) for each in args], tuple, len(args))
    return _object(kind) if has(kind) else _SIMPLE[kind]


def _whole(value: object, allowed: range = range(2**32)) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value not in allowed:
        raise must_be(value, f"a whole number from {allowed[0]:,} to {allowed[-1]:,}")
    return value


def _real(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= sys.float_info.max:
        raise must_be(value, "a finite number")
    return float(value)


def _instance(value: object, kind: type, expected: str) -> Any:  # noqa: ANN401 - of this type
    if not isinstance(value, kind):
        raise must_be(value, expected)
    return value


def _bytes(value: object) -> bytes:
    try:
        return b64decode(_instance(value, str, "base64"), validate=True)
    except ValueError:
        raise must_be(value, "base64") from None


_SIMPLE = {
    Any: _Form(_same),
    int: _Form(_whole),
    float: _Form(_real),
    bool: _Form(partial(_instance, kind=bool, expected="true or false")),
    str: _Form(partial(_instance, kind=str, expected="text")),
    bytes: _Form(_bytes, lambda content: b64encode(content).decode("ascii")),
    NoneType: _Form(partial(_instance, kind=NoneType, expected="null")),
}


def _one_of(members: Mapping[object, object], value: object) -> object:
    if not isinstance(value, str) or value not in members:
        raise must_be(value, f"one of {', '.join(map(str, members))}")
    return members[value]


def _one_of_types(kinds: Sequence[Any]) -> _Form:
    """None, or a value of the first type that takes it."""
    forms = [_form(kind) for kind in kinds if kind is not NoneType]

    def read(value: object) -> object:
        if value is None and NoneType in kinds:
            return None
        for form in forms[:-1]:
            try:
                return form.read(value)
            except InvalidInput:
                continue
        return forms[-1].read(value)

    (write, *_) = [form.write for form in forms]
    return _Form(read, _same if write is _same else lambda value: None if value is None else write(value))


def _list(forms: Iterable[_Form], make: Callable[[Sequence[Any]], Any], length: int | None = None) -> _Form:
    """A list of members that are all alike, or of ``length`` members of types of their own."""
    expected = "a list" if length is None else f"a list of {length}"

    def read(value: object) -> object:
        plain, members = _instance(value, list, expected), list[Any]()
        if length not in (None, len(plain)):
            raise must_be(value, expected)
        try:
            for form, each in zip(forms, plain, strict=False):
                members.append(form.read(each))
        except InvalidInput as error:
            raise _within(error, f"[{len(members)}]") from None
        return make(members)

    def write(members: Sequence[Any]) -> list[Any]:
        pairs = zip(forms, members, strict=False)
        return [each if form.write is _same else form.write(each) for form, each in pairs]

    return _Form(read, write)


def _dict(key_kind: type, kind: Any) -> _Form:  # noqa: ANN401 - as of ``_form``
    form, is_index = _form(kind), key_kind is int

    def read(value: object) -> object:
        made: dict[Any, Any] = {}
        for key, each in _instance(value, Mapping, "an object").items():
            if is_index and not (isinstance(key, str) and key.isascii() and key.isdecimal() and len(key) < 11):
                raise must_be(key, "an index", f".{key}")
            try:
                made[int(key) if is_index else key] = form.read(each)
            except InvalidInput as error:
                raise _within(error, f".{key}") from None
        return made

    return _Form(read, lambda values: {str(key): form.write(each) for key, each in values.items()})


def _object(kind: type) -> _Form:
    types = get_type_hints(kind, include_extras=True)
    forms = {each.name: _form(types[each.name]) for each in fields(kind) if each.init}

    def read(value: object) -> object:
        plain, made = _instance(value, Mapping, "an object"), dict[str, Any]()
        for name in (*forms, *plain):
            if name not in plain or name not in forms:
                where = f".{name}"
                raise InvalidInput(where, "it is missing" if name in forms else "no such field is known")
        for name, form in forms.items():
            try:
                made[name] = form.read(plain[name])
            except InvalidInput as error:
                raise _within(error, f".{name}") from None
        try:
            return kind(**made)
        except InvalidInput:
            raise
        except ValueError as error:  # of a check of the class
            where = ""
            raise InvalidInput(where, str(error)) from error

    return _Form(read, lambda value: {name: form.write(getattr(value, name)) for name, form in forms.items()})
