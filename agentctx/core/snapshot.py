"""A copy of a native value, by which it is noticed that someone has edited the value in place."""

from __future__ import annotations

from operator import is_

from agentctx.core.message import Native

PLAIN = frozenset({str, int, float, bool, type(None)})
"""Types of which a value cannot be edited."""


def snapshot(native: Native) -> Native:
    """A copy that equals ``native`` until someone edits it: containers are copied, strings are shared.

    Containers are dicts, lists, tuples, and objects of pydantic. Anything else is kept as it is: that it was edited in
    place is not noticed.
    """
    if isinstance(native, dict):
        copied = dict(native.items())
        for key, value in native.items():
            if type(value) not in PLAIN:
                copied[key] = snapshot(value)
        return copied
    if isinstance(native, list):
        return [value if type(value) in PLAIN else snapshot(value) for value in native]
    if type(native) is tuple:
        copies = tuple(map(snapshot, native))
        return native if all(map(is_, copies, native)) else copies
    if isinstance(native, type):
        return native
    copy = getattr(native, "model_copy", None)
    return native if copy is None else copy(deep=True)
