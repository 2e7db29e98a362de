"""What sources share: how their options are checked, and how what they found is written and cut."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Literal

from agentctx.core.message import Native
from agentctx.engine.shrink import cutter_of, fits
from agentctx.errors import ConfigError
from agentctx.protocols import TokenCounter

_LONGEST = 1e9
"""The most seconds that can be waited for: any event loop can count so far."""


def amount(least: int, *, optional: bool = False) -> Callable[[object, Any, Any], None]:
    """A validator of attrs for a whole number."""

    def check(instance: object, attribute: Native, value: Native) -> None:
        if value is None and optional:
            return
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            wanted = f"a whole number of at least {least}{' or None' if optional else ''}"
            msg = f"{type(instance).__name__}: {attribute.name}: expected {wanted}, got {value!r:.80}"
            raise ConfigError(msg)

    return check


def seconds(instance: object, attribute: Native, value: Native) -> None:
    """A validator of attrs for a time in seconds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= _LONGEST:
        msg = f"{type(instance).__name__}: {attribute.name}: expected a positive number of seconds, got {value!r:.80}"
        raise ConfigError(msg)


def several(option: str, given: object) -> tuple[str, ...]:
    """The texts of an option."""
    texts = None if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)
    if texts is None or not all(isinstance(each, str) for each in texts):
        msg = f"{option}: expected a list of texts, got {given!r:.80}"
        raise ConfigError(msg)
    return texts


_TICKS = re.compile(r"`{3,}")


def one_line(text: str) -> str:
    """A title or a path on one line, without characters that would start something new."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def section(title: str, content: str) -> str:
    """A heading and the content in a fence that is longer than any in it, so that nothing in it can close it.

    It begins with a hash and ends with line breaks: sections that follow one another cost what they cost apart.
    """
    fence = "`" * max([3, *(len(run) + 1 for run in _TICKS.findall(content))])
    return f"### {one_line(title)}\n{fence}\n{content.rstrip()}\n{fence}\n\n"


_SLACK = 8
"""How often a piece is made smaller because marker and piece together cost more than apart."""


def cut_lines(text: str, max_tokens: int, counter: TokenCounter, keep: Literal["head", "tail"] = "head") -> str:
    """The text when it fits, else its first or last lines and how many are left out; empty when not one line fits."""
    if max_tokens < 1:
        return ""
    if fits(text, max_tokens, counter):
        return text
    end = cutter_of(counter).head if keep == "head" else cutter_of(counter).tail
    room = max_tokens - counter.count(_marked("", _lines(text), keep))
    for _ in range(_SLACK):
        piece = _whole_lines(end(text, room), text, keep) if room > 0 else ""
        if not piece.strip():
            return ""
        result = _marked(piece, max(1, _lines(text) - _lines(piece)), keep)
        excess = counter.count(result) - max_tokens
        if excess <= 0:
            return result
        room -= excess
    return ""


def _lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n"))


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
