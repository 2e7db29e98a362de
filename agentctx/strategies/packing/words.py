"""The words by which texts are compared: of prose and of code, in any script."""

from __future__ import annotations

import re
from collections.abc import Iterator

_WORD = re.compile(r"\w+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_UNSPACED = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U000323af]+"
)


def words(text: str) -> Iterator[str]:
    """The words of ``text``, without case.

    An identifier is a word, and so are its parts (``read_file``: ``read``, ``file``); of scripts that put no spaces
    between words every pair of neighbouring characters is a word.
    """
    for found in _WORD.finditer(text):
        word = found.group()
        yield word.casefold()
        parts = _PART.findall(word) if word.isascii() else word.split("_")
        if len(parts) > 1:
            yield from (part.casefold() for part in parts if part)
        if not word.isascii():
            yield from _pairs(word)


def _pairs(word: str) -> Iterator[str]:
    """The pairs of characters in the stretches of a word that no spaces divide."""
    for stretch in _UNSPACED.findall(word):
        if stretch != word or len(stretch) > 2:
            yield from (stretch[place : place + 2] for place in range(max(1, len(stretch) - 1)))
