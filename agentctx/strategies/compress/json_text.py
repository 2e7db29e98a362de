"""JSON as text: the same document in fewer characters. Numbers, order, repeated keys and escapes stay as written."""

from __future__ import annotations

import json
import re

BLANKS = " \t\r\n"
"""All that JSON takes for a blank."""

_STRING_OR_BLANKS = re.compile(r'("[^"\\]*(?:\\.[^"\\]*)*")|[ \t\r\n]+')


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
        >>> from agentctx.strategies.compress.json_text import compact
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
    return _STRING_OR_BLANKS.sub(r"\1", text)


def _refuse(constant: str) -> object:
    """NaN and the like, which Python reads, are no JSON."""
    raise ValueError(constant)
