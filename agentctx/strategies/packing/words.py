"""The words by which texts are compared: of prose and of code, in any script."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_WORD = re.compile(r"\w+")
_PART = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z]?[a-z]+")
_UNSPACED = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U000323af]+"
)


def raw_words(text: str) -> list[str]:
    """The words of ``text`` as they are written; an identifier is one."""
    return _WORD.findall(text)


def forms(word: str) -> Sequence[str]:
    """What a written word is found by, without case.

    An identifier is found by itself and by its parts (``read_file``: ``read``, ``file``); a word of a script that
    puts no spaces between words, by every pair of neighbouring characters.
    """
    if not word.isascii():
        parts = [part.casefold() for part in word.split("_") if part]
        return [word.casefold(), *(parts if len(parts) > 1 else ()), *_pairs(word)]
    whole = word.lower()
    if whole.isalpha() and (whole == word or word.isupper()):
        return [whole]
    parts = [part.lower() for part in _PART.findall(word) if len(part) > 1]
    return parts if parts == [whole] else [whole, *parts]


def _pairs(word: str) -> Iterator[str]:
    """The pairs of characters in the stretches of a word that no spaces divide."""
    for stretch in _UNSPACED.findall(word):
        if stretch != word or len(stretch) > 2:
            yield from (stretch[place : place + 2] for place in range(max(1, len(stretch) - 1)))
