"""A text cut to a number of tokens, in whole lines, that says what is missing."""

from __future__ import annotations

from typing import Literal

from agentctx.protocols import TokenCounter, as_cutter

_SLACK = 8
"""How often a piece is made smaller because marker and piece together cost more than apart."""


def cut_lines(text: str, max_tokens: int, counter: TokenCounter, keep: Literal["head", "tail"] = "head") -> str:
    """The text when it fits, else its first or last lines and how many are left out; empty when not one line fits.

    Args:
        text: The text.
        max_tokens: The most tokens of the result.
        counter: Counts tokens.
        keep: Which end stays.
    """
    if max_tokens < 1:
        return ""
    if fits(text, max_tokens, counter):
        return text
    room = max_tokens - counter.count(_marked("", _lines(text), keep))
    for _ in range(_SLACK):
        piece = _whole_lines(_end_of(text, room, counter, keep), text, keep) if room > 0 else ""
        if not piece.strip():
            return ""
        result = _marked(piece, max(1, _lines(text) - _lines(piece)), keep)
        excess = counter.count(result) - max_tokens
        if excess <= 0:
            return result
        room -= excess
    return ""


def fits(text: str, tokens: int, counter: TokenCounter) -> bool:
    """Whether the text has at most so many tokens; no more of it is counted than must be."""
    cutter = as_cutter(counter)
    return counter.count(text) <= tokens if cutter is None else not cutter.exceeds(text, tokens)


def _lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n"))


def _end_of(text: str, tokens: int, counter: TokenCounter, keep: Literal["head", "tail"]) -> str:
    """A longest start or end of the text within so many tokens; bisected when the counter cannot cut."""
    cutter = as_cutter(counter)
    if cutter is not None:
        return cutter.head(text, tokens) if keep == "head" else cutter.tail(text, tokens)
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        piece = text[:middle] if keep == "head" else text[len(text) - middle :]
        low, high = (middle, high) if counter.count(piece) <= tokens else (low, middle - 1)
    return text[:low] if keep == "head" else text[len(text) - low :]


def _whole_lines(piece: str, text: str, keep: Literal["head", "tail"]) -> str:
    """The piece up to its last line break, or from its first; a text of one line is cut inside it."""
    if keep == "head":
        return piece if "\n" not in piece else piece[: piece.rindex("\n") + 1]
    if "\n" not in piece or text[: len(text) - len(piece)].endswith("\n"):
        return piece
    return piece[piece.index("\n") + 1 :]


def _marked(piece: str, lines: int, keep: Literal["head", "tail"]) -> str:
    missing = f"[… {lines:,} more lines …]"
    if keep == "tail":
        return f"{missing}\n{piece}"
    return piece + ("" if piece.endswith("\n") or not piece else "\n") + missing
