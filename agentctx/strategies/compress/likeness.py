"""Texts that are the same but for times, counters and ids, and texts that are nearly the same.

This is the one file that knows the library rapidfuzz (extra ``fuzzy``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from heapq import nsmallest
from zlib import crc32

from agentctx.errors import ConfigError

_VALUE = re.compile(
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
    r"|\b(?=[a-fA-F]{0,63}\d)[0-9a-fA-F]{7,64}\b"
    r"|\b(?=[A-Za-z_]{0,63}\d)\w{16,64}\b"
    r"|\d+(?:[.,:/-]\d+)*)"
)
"""A time, a UUID, an id, a number."""

FEW_CHARACTERS = 2_000
"""Longer texts are compared line by line."""

MANY_LINES = 5_000
"""Texts of more lines are not compared."""

MARKS = 4
"""A text is looked for by so many of its lines."""


def without_values(text: str) -> tuple[tuple[str, ...], list[str]]:
    """What a text says beside times, counters and ids, in pieces, and these in their order.

    Example:
        >>> from agentctx.strategies.compress.likeness import without_values
        >>> without_values("12:01:07 job 41 failed")
        (('', ' job ', ' failed'), ['12:01:07', '41'])
    """
    found = _VALUE.split(text)
    return tuple(found[::2]), found[1::2]


def marks_of(text: str) -> list[int]:
    """A few numbers of which texts that are nearly the same have one in common, very likely: of lines, or of words."""
    pieces = set(text.split("\n"))
    pieces = pieces if len(pieces) > MARKS else set(text.split())
    return nsmallest(MARKS, (crc32(piece.encode("utf-8", "surrogatepass")) for piece in pieces))


def likeness(text: str, other: str, least: float) -> float:
    """How much of two texts is the same, from 0 to 1; 0 where it is less than ``least``, or too long to compare."""
    from rapidfuzz.distance import Indel  # noqa: PLC0415 - an extra: what is not fuzzy works without it

    pair: tuple[Sequence[str], Sequence[str]] = text, other
    if max(len(text), len(other)) > FEW_CHARACTERS:
        pair = text.split("\n"), other.split("\n")
        if max(map(len, pair)) > MANY_LINES:
            return 0.0
    return float(Indel.normalized_similarity(*pair, score_cutoff=least))


def check_installed() -> None:
    """See that texts can be compared.

    Raises:
        ConfigError: If rapidfuzz is not installed.
    """
    try:
        import rapidfuzz.distance  # noqa: F401, PLC0415 - as above
    except ModuleNotFoundError as error:
        msg = "what is nearly the same needs rapidfuzz: pip install 'agentctx-middleware[fuzzy]'"
        raise ConfigError(msg) from error
