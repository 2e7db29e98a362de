"""Which fields a provider knows: a field that it does not know is refused, by those that do so.

The table is made from the SDKs' types by ``scripts/request_fields.py``. Bedrock has none: like all of AWS's services
it reads past what it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

Path = tuple[str | int, ...]
"""The keys and places that lead to a value in a request."""

_MESSAGES = {"openai-chat": "messages", "openai-responses": "input", "anthropic": "messages", "gemini": "contents"}
_PARTS = {"openai-chat": "content", "anthropic": "content", "gemini": "parts"}


def unknown_field(body: Mapping[str, Any], format_name: str, *, beta: bool = False) -> Path | None:
    """Where the first field stands that the provider does not know; None when it knows all of them.

    Args:
        body: The request.
        format_name: The wire format.
        beta: Whether the request asks for beta features.
    """
    known = _table().get(format_name)
    return None if known is None else next(_unknown(body, format_name, known, beta=beta), None)


def _unknown(body: Mapping[str, Any], format_name: str, known: Mapping[str, Any], *, beta: bool) -> Iterator[Path]:
    top = {*known["request"], *(known.get("beta", ()) if beta else ())}
    yield from ((name,) for name in body if name not in top)
    key, parts = _MESSAGES[format_name], _PARTS.get(format_name, "")
    for path, message in _objects(body, (key,)):
        yield from _in_object(path, message, known["message"], message.get("type", "message"), message.get("role"))
        for place, part in _objects(message, (parts,)):
            yield from _in_object((*path, *place), part, known["part"], part.get("type"))


def _objects(holder: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    items = holder.get(str(path[0]))
    for place, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, Mapping):
            yield (*path, place), item


def _in_object(path: Path, item: Mapping[str, Any], known: Mapping[str, Any], *kinds: object) -> Iterator[Path]:
    """The unknown fields of an object of a known kind; what is known of all kinds stands under the empty name."""
    names = next((known[kind] for kind in (*kinds, "") if isinstance(kind, str) and kind in known), None)
    if names is not None:
        yield from ((*path, name) for name in item if name not in names)


@cache
def _table() -> Mapping[str, Any]:
    table: Mapping[str, Any] = json.loads(files(__package__).joinpath("fields.json").read_text("utf-8"))
    return table
