"""Values of the types that provider SDKs define, made from the definitions themselves."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

from pydantic import BaseModel
from typing_extensions import ReadOnly, get_type_hints, is_typeddict

DEEPEST = 6
PLAIN = {str: "text", int: 1, float: 0.5, bool: True, bytes: b"x", datetime: datetime(2026, 1, 1, tzinfo=UTC)}
WRAPPERS = (Annotated, Required, NotRequired, ReadOnly)


def members(annotation):
    """The classes of a union, however deep."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in WRAPPERS:
        return members(arguments[0])
    if origin in (Union, UnionType):
        return [found for each in arguments for found in members(each)]
    return [annotation]


def sample(annotation, *, full, depth=0):
    """A value of a type: the first choice of each union, one entry in each list, text that names its type."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in WRAPPERS:
        return sample(arguments[0], full=full, depth=depth)
    if origin is Literal:
        return arguments[0]
    if origin in (Union, UnionType):
        return sample(next(each for each in arguments if each is not NoneType), full=full, depth=depth)
    if origin in (list, tuple, Iterable, Sequence):
        return [sample(arguments[0], full=full, depth=depth + 1)] if depth < DEEPEST else []
    if origin in (dict, Mapping) or annotation in (dict, Any, object):
        return {}
    return made(annotation, full=full, depth=depth + 1)


def made(kind, *, full, depth=0):
    """A value of a class of the SDK, with all its fields or with those that it needs."""
    full = full and depth < DEEPEST
    if is_typeddict(kind):
        hints = get_type_hints(kind, include_extras=True)
        names = [name for name, hint in hints.items() if full or required(kind, hint)]
        return {name: sample(hints[name], full=full, depth=depth) for name in names}
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        fields = {name: field for name, field in kind.model_fields.items() if full or field.is_required()}
        values = {name: sample(field.annotation, full=full, depth=depth) for name, field in fields.items()}
        return kind(**{fields[name].alias or name: value for name, value in values.items()})
    return PLAIN.get(kind, "text")


def required(kind, hint):
    """Whether a key must be there; what the class knows of it is lost where annotations are strings."""
    return get_origin(hint) is Required or (kind.__total__ and get_origin(hint) is not NotRequired)
