"""Any value as JSON text: what an unknown block is counted by. Never raises."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any


def serialise(value: object) -> str:
    """``value`` as compact JSON; what JSON cannot hold as Python writes it."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)
    except (TypeError, ValueError, RecursionError):
        return repr(value)


def _plain(value: Any) -> object:  # noqa: ANN401 - whatever JSON cannot hold
    """Mappings and SDK objects (pydantic models) as dicts, the rest as text."""
    if isinstance(value, Mapping):
        return dict(value)
    dump = getattr(value, "model_dump", None)
    return dump(exclude_unset=True) if callable(dump) else str(value)


def characters(value: object) -> int:
    """About how many characters ``serialise`` would make of ``value``, without making them."""
    total, open_values = 0, [value]
    while open_values:
        each = open_values.pop()
        if isinstance(each, str):
            total += len(each) + 2
        elif isinstance(each, Mapping):
            open_values.extend(_both(each))
        elif isinstance(each, (list, tuple)):
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
