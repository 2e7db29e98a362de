"""Any value as JSON text: what an unknown block is counted by. Never raises."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any


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


def _plain(value: Any) -> object:  # noqa: ANN401 - whatever JSON cannot hold
    """Mappings and SDK objects (pydantic models) as dicts, bytes as base64, the rest as text."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (bytes, bytearray)):
        return b64encode(value).decode("ascii")
    dump = getattr(value, "model_dump", None)
    return dump(exclude_unset=True) if callable(dump) else str(value)


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
        if total > ENOUGH:
            return total
    return total


def _both(mapping: Mapping[Any, Any]) -> Iterable[object]:
    yield from mapping.keys()
    yield from mapping.values()


ENOUGH = 1_000_000
"""Where ``characters`` stops counting: it is far more than anyone would count without a thread."""
