"""Where one character that a reader sees ends and the next begins (UAX 29, extended grapheme clusters)."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from agentctx.message import Native

REACH = 1024
"""Code points that are looked at on either side; a longer cluster (or run of flags) may be cut."""

# Between these two a cluster ends for sure, whatever stands before them; looked for backwards.
_SURE_END = (
    r"(?r)[\p{GCB=Other}\p{GCB=Control}\p{GCB=LF}\p{GCB=LVT}\p{GCB=T}]"
    r"[^\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}\p{GCB=T}]"
)


@cache
def _pattern(source: str) -> Native:
    """A compiled pattern of ``regex`` (which comes with tiktoken), imported when text is first cut."""
    return import_module("regex").compile(source)


def floor(text: str, position: int) -> int:
    """The last end of a cluster at or before ``position`` (in code points); ``text[:floor]`` holds whole clusters."""
    return _around(text, position)[0]


def ceiling(text: str, position: int) -> int:
    """The first end of a cluster at or after ``position`` (in code points); ``text[ceiling:]`` holds whole clusters."""
    return _around(text, position)[1]


def _around(text: str, position: int) -> tuple[int, int]:
    """The last end of a cluster at or before ``position``, and the first at or after it; looks only near it."""
    if position <= 0 or position >= len(text):
        edge = max(0, min(position, len(text)))
        return edge, edge
    first = max(0, position - REACH)
    near, here = text[first : position + REACH], position - first
    sure = _pattern(_SURE_END).search(near, 0, here + 1)
    start = 0 if sure is None else sure.start() + 1
    while start < here:
        cluster = _pattern(r"\X").match(near, start)
        stop = start + 1 if cluster is None else cluster.end()
        if stop > here:
            return first + start, first + stop
        start = stop
    return position, position
