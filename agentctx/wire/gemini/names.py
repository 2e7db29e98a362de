"""The two spellings of Gemini's fields (``functionCall`` of the API, ``function_call`` of the SDK), and call ids.

An id is optional in this format. A call without one is called by its name and its place among the calls of that name
in its turn (``search#0``); so is its result.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agentctx.errors import InvalidInput

_SNAKE = re.compile(r"(?<!^)(?=[A-Z])")
_MADE = re.compile(r".*#\d+\Z", re.DOTALL)


def snake(key: str) -> str:
    """The SDK's spelling of a key of the API."""
    return _SNAKE.sub("_", key).lower()


def both(keys: Iterable[str]) -> Iterator[str]:
    """Each key in both spellings."""
    for key in keys:
        yield from {key: None, snake(key): None}


DATA = frozenset(
    both(
        {"text", "functionCall", "functionResponse", "inlineData", "fileData"}
        | {"executableCode", "codeExecutionResult", "toolCall", "toolResponse"}
    )
)
"""What a part may hold: exactly one of these."""

BESIDE = frozenset(
    both(
        {"thought", "thoughtSignature", "videoMetadata", "partMetadata", "mediaResolution", "mediaProcessing"}
        | {"speechMetadata", "documentMetadata", "spreadsheetMetadata", "audioMetadata"}
    )
)
"""What may stand in a part beside that."""


def spelled(block: Mapping[str, Any], key: str) -> str:
    """How ``block`` spells ``key``; the API's spelling when it has none of both."""
    return other if key not in block and (other := snake(key)) in block else key


def value(block: Mapping[str, Any], key: str) -> Any:  # noqa: ANN401 - any JSON value
    """The value of a key in either spelling, or None."""
    found = block.get(key)
    return block.get(snake(key)) if found is None else found


def data_key(block: Mapping[str, Any]) -> str | None:
    """The key under which a part holds its data, as the part spells it; None when it holds none."""
    unknown: str | None = None
    for key, held in block.items():
        if held is None:
            continue
        if key in DATA:
            return key
        if unknown is None and key not in BESIDE:
            unknown = key
    return unknown


def signature_of(block: Mapping[str, Any]) -> str | None:
    """The thought signature of a part in base64; the SDK holds it as bytes."""
    return text_of_bytes(value(block, "thoughtSignature")) or None


def text_of_bytes(data: object) -> str | None:
    """Bytes as base64, text as it is, None for anything else."""
    if isinstance(data, (bytes, bytearray)):
        return b64encode(data).decode()
    return data if isinstance(data, str) else None


def made_id(name: str, place: int) -> str:
    """What a call without an id is called.

    Args:
        name: The tool's name.
        place: How many calls of that tool come before it in its turn.
    """
    return f"{name}#{place}"


def is_made(call_id: str, name: str | None) -> bool:
    """Whether this is the id of a call that has none of its own."""
    return bool(_MADE.match(call_id)) and call_id.rpartition("#")[0] == (name or "")


def tool_of(call_id: str, name: str | None) -> str:
    """The name of the tool that a result belongs to: its own, else the one in the id."""
    return name or (call_id.rpartition("#")[0] if _MADE.match(call_id) else "") or call_id


def string(block: Mapping[str, Any], key: str, where: str) -> str:
    """The value of a key that must be a string.

    Raises:
        InvalidInput: If it is none.
    """
    found = block.get(key)
    if not isinstance(found, str):
        raise InvalidInput(where=f"{where}.{key}", what="missing" if found is None else f"expected a string: {found!r}")
    return found
