"""Values that the garbage collector need not look at: how long it holds everything up depends on how many there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from gc import is_tracked
from operator import attrgetter
from typing import Any, TypeVar

from agentctx.core.message import Message, Text, Thinking, ToolCall, ToolResult

UNTRACKED_TOGETHER = 16
"""Messages: where they come a few at a time, so many are taken out of the garbage collector's sight together."""

_TEXT_ONLY: set[type] = {Text, Thinking, ToolCall}
"""Types whose values hold nothing beside text, numbers and the like, and the payload of the caller, who knows nothing
of the values that are read from it."""

Kind = TypeVar("Kind", bound=type)


def text_only(kind: Kind) -> Kind:
    """A class decorator: values of this type hold nothing beside text, numbers and the like."""
    _TEXT_ONLY.add(kind)
    return kind


_HELD: dict[type, Callable[[Any], Iterable[object]]] = {
    dict: dict.values,
    list: iter,
    tuple: iter,
    Message: attrgetter("parts"),
    ToolResult: attrgetter("content"),
}
"""What else a value of a type holds."""


@cache
def _untrack() -> Callable[[object], None] | None:
    """CPython's own function; None of an interpreter that has none, or that was built without ``ctypes``."""
    try:
        from ctypes import py_object, pythonapi  # noqa: PLC0415 - it is not everywhere, nor needed at once
    except ImportError:
        return None
    function = getattr(pythonapi, "PyObject_GC_UnTrack", None)
    if function is not None:
        function.argtypes, function.restype = (py_object,), None
    return function


def untrack(value: object) -> bool:
    """Take a value, and all that it holds, out of the garbage collector's sight; whether it need not look at it.

    That is so of text, of messages, parts and changes that are nothing but text, and of containers of them: they are
    in no cycle, and go when nobody refers to them any more. Python does the same with tuples and dicts of plain values.

    Args:
        value: What nobody changes any more.
    """
    if not is_tracked(value):
        return True
    kind, function = type(value), _untrack()
    if function is None or (kind not in _TEXT_ONLY and kind not in _HELD):
        return False
    held: Iterable[object] = _HELD[kind](value) if kind in _HELD else ()
    for each in held:
        if is_tracked(each):
            if type(each) in _TEXT_ONLY:
                function(each)
            elif not untrack(each):
                return False
    if type(held) is tuple and held:
        function(held)
    function(value)
    return True
