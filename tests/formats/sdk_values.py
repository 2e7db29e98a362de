"""Any values of the types that provider SDKs define, as Hypothesis draws them from the definitions themselves."""

import io
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Literal, Union, get_args, get_origin

from hypothesis import strategies as st
from pydantic import BaseModel
from sdk_samples import WRAPPERS, required
from typing_extensions import get_type_hints, is_typeddict

DEEPEST = 7
"""How deep a value may be nested; below it only what has to be there is."""


class Words:
    """Words of which none comes twice, so that each can be found again."""

    def __init__(self):
        self.count = 0

    def next(self):
        """A new word."""
        self.count += 1
        return f"word{self.count:03d}x"


@st.composite
def values(draw, kind, words):
    """A value of a type of an SDK: any choice of each union, any of the keys that may be there.

    Args:
        draw: Given by Hypothesis.
        kind: A ``TypedDict``, a pydantic class, a union of them, or a shape of botocore.
        words: What its strings are.
    """
    return _shape(draw, kind, words, 0) if hasattr(kind, "type_name") else _value(draw, kind, words, 0)


def _value(draw, annotation, words, depth):
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in WRAPPERS:
        return _value(draw, arguments[0], words, depth)
    if origin is Literal:
        return draw(st.sampled_from(arguments))
    if origin in (Union, UnionType):
        return _value(draw, draw(st.sampled_from([each for each in arguments if each is not NoneType])), words, depth)
    if origin in (list, tuple, Iterable, Sequence):
        length = draw(st.integers(1, 2)) if depth < DEEPEST else 0
        return [_value(draw, arguments[0], words, depth + 1) for _ in range(length)]
    if origin in (dict, Mapping) or annotation is dict:
        return {words.next(): words.next()}
    if is_typeddict(annotation):
        return _typed_dict(draw, annotation, words, depth)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _model(draw, annotation, words, depth)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return draw(st.sampled_from(list(annotation)))
    return _leaf(annotation, words)


def _leaf(annotation, words):
    if annotation is bytes:
        return words.next().encode()
    plain = {int: 3, float: 0.5, bool: True}
    if annotation in plain:
        return plain[annotation]
    if getattr(annotation, "__name__", "") in {"IO", "PathLike"} or get_origin(annotation) is not None:
        return io.BytesIO(words.next().encode())
    return words.next()


@cache
def _hints(kind):
    return get_type_hints(kind, include_extras=True)


def _typed_dict(draw, kind, words, depth):
    hints = _hints(kind)
    names = [name for name, hint in hints.items() if required(kind, hint) or _wanted(draw, depth)]
    return {name: _value(draw, hints[name], words, depth + 1) for name in names}


def _model(draw, kind, words, depth):
    fields = {name: field for name, field in kind.model_fields.items() if field.is_required() or _wanted(draw, depth)}
    made = {field.alias or name: _value(draw, field.annotation, words, depth + 1) for name, field in fields.items()}
    return kind.model_construct(**made) if not fields else kind(**made)


def _wanted(draw, depth):
    return depth < DEEPEST and draw(st.integers(0, 2)) == 0


def _shape(draw, shape, words, depth):
    """A value of a shape of botocore's."""
    match shape.type_name:
        case "structure":
            return _structure(draw, shape, words, depth)
        case "list":
            return [_shape(draw, shape.member, words, depth + 1) for _ in range(draw(st.integers(1, 2)))]
        case "map":
            return {words.next(): _shape(draw, shape.value, words, depth + 1)}
        case "string" if shape.enum:
            return draw(st.sampled_from(shape.enum))
        case plain:
            leaves = {"string": words.next(), "blob": words.next().encode(), "boolean": True, "integer": 3, "long": 3}
            return leaves.get(plain, 0.5)


def _structure(draw, shape, words, depth):
    if getattr(shape, "is_document_type", False):
        return {words.next(): words.next()}
    names = list(shape.members)
    if getattr(shape, "is_tagged_union", False):
        flat = [name for name in names if depth < DEEPEST or shape.members[name].type_name != "structure"]
        names = [draw(st.sampled_from(flat or names))]
    else:
        names = [name for name in names if name in shape.required_members or _wanted(draw, depth)]
    return {name: _shape(draw, shape.members[name], words, depth + 1) for name in names}
