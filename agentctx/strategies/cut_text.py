"""Cut one text to a number of tokens or characters, exactly."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from attrs import frozen

from agentctx.protocols import TextCutter, TokenCounter, as_cutter
from agentctx.tokens.graphemes import ceiling, floor

Keep = Literal["head", "tail", "both"]
PLACE = "{omitted}"


@frozen
class Cut:
    """How a text that is too long is cut.

    Args:
        keep: Which end stays: ``"head"``, ``"tail"`` or ``"both"`` (half of the room each).
        marker: What stands where text was left out; ``{omitted}`` becomes the number of characters.
    """

    keep: Keep = "both"
    marker: str = "\n[… {omitted} characters omitted …]\n"

    def mark(self, omitted: int) -> str:
        """The marker for this many characters."""
        return self.marker.replace(PLACE, f"{omitted:,}")

    def longest_mark(self, text: str) -> str:
        """The marker for all of ``text``, and for all that earlier cuts left out of it."""
        return self.mark(len(text) + sum(_omitted(mark) for mark in self._marks(text)))

    def split(self, room: int) -> tuple[int, int]:
        """How much of the room the head gets, and how much the tail."""
        if self.keep == "head":
            return room, 0
        return (0, room) if self.keep == "tail" else (room - room // 2, room // 2)

    def join(self, text: str, head: str, tail: str) -> str:
        """Head, marker and tail of ``text``; the marker of an earlier cut stays whole, or is one with it."""
        start, stop = len(head), max(len(head), len(text) - len(tail))
        omitted = 0
        for mark in self._marks(text):
            if mark.start() <= stop and mark.end() >= start:
                start, stop = min(start, mark.start()), max(stop, mark.end())
                omitted += _omitted(mark) - len(mark.group())
        return text[:start] + self.mark(stop - start + omitted) + text[stop:]

    def bare(self, text: str, head: str) -> str:
        """``head`` of ``text`` without a marker, when there is room for none, nor for part of an earlier one."""
        return head[: next((mark.start() for mark in self._marks(text) if mark.start() < len(head) < mark.end()), None)]

    def _marks(self, text: str) -> list[re.Match[str]]:
        """The markers of earlier cuts that stand in ``text``."""
        pattern = _pattern(self.marker)
        return [] if pattern is None else list(pattern.finditer(text))


@lru_cache(maxsize=64)
def _pattern(marker: str) -> re.Pattern[str] | None:
    """What the marker looks like with a number in it; None where nothing but the number would be looked for."""
    before, place, after = marker.partition(PLACE)
    if not place or not (before + after).strip():
        return None
    return re.compile(rf"{re.escape(before)}(\d{{1,3}}(?:,\d{{3}}){{0,5}}){re.escape(after)}")


def _omitted(mark: re.Match[str]) -> int:
    return int(mark.group(1).replace(",", ""))


def head_of(text: str, chars: int) -> str:
    """The start of ``text``: at most ``chars`` characters, in whole grapheme clusters."""
    return text[: floor(text, chars)]


def tail_of(text: str, chars: int) -> str:
    """The end of ``text``: at most ``chars`` characters, in whole grapheme clusters."""
    return text[ceiling(text, len(text) - chars) :]


def cut_to_chars(text: str, max_chars: int, cut: Cut) -> str:
    """``text`` when it has at most ``max_chars`` characters, else its ends around the marker, at most as long."""
    if len(text) <= max_chars:
        return text
    room = max_chars - len(cut.longest_mark(text))
    if room <= 0:
        return cut.bare(text, head_of(text, max_chars))
    head, tail = cut.split(room)
    return cut.join(text, head_of(text, head), tail_of(text, tail))


def cut_to_tokens(text: str, max_tokens: int, counter: TokenCounter, cut: Cut) -> str:
    """``text`` when it has at most ``max_tokens`` tokens, else its ends around the marker, at most as large.

    Costs time that grows with what is kept, if the counter is a ``TextCutter``; other counters are asked for
    ever shorter ends.
    """
    if fits(text, max_tokens, counter):
        return text
    cutter = cutter_of(counter)
    room = max_tokens - counter.count(cut.longest_mark(text))
    while room > 0:
        head, tail = cut.split(room)
        shorter = cut.join(text, cutter.head(text, head), cutter.tail(text, tail))
        over = counter.count(shorter) - max_tokens
        if over <= 0:
            return shorter if len(shorter) < len(text) else cut.bare(text, cutter.head(text, max_tokens))
        room -= over
    return cut.bare(text, cutter.head(text, max_tokens))


def fits(text: str, max_tokens: int, counter: TokenCounter) -> bool:
    """Whether ``text`` has at most ``max_tokens`` tokens, without counting more of it than needed."""
    return not cutter_of(counter).exceeds(text, max_tokens)


def cutter_of(counter: TokenCounter) -> TextCutter:
    """The counter itself when it can cut, else one that cuts by counting ever shorter ends."""
    return as_cutter(counter) or _Halving(counter)


@frozen
class _Halving:
    """Ends of a text by bisection, for a counter that can only count."""

    counter: TokenCounter

    def exceeds(self, text: str, tokens: int) -> bool:
        return self.counter.count(text) > tokens

    def head(self, text: str, tokens: int) -> str:
        return head_of(text, self._longest(text, tokens, from_end=False))

    def tail(self, text: str, tokens: int) -> str:
        return tail_of(text, self._longest(text, tokens, from_end=True))

    def _longest(self, text: str, tokens: int, *, from_end: bool) -> int:
        low, high = 0, len(text)
        while low < high:
            middle = (low + high + 1) // 2
            piece = tail_of(text, middle) if from_end else head_of(text, middle)
            if self.counter.count(piece) <= tokens:
                low = middle
            else:
                high = middle - 1
        return low
