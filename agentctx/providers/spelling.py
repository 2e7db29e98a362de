"""Ids and names as a provider takes them, made from those of another: always the same for the same."""

from __future__ import annotations

import re
from collections import deque
from hashlib import sha256

from attrs import define, field

from agentctx.wire_format import Spelling

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_MARK = 8
"""Characters of the hash in a word that keeps some of what it was made from."""


def respelled(word: str, spelling: Spelling, salt: str = "") -> str:
    """A word as the spelling wants it, made from the word (and the salt) alone; the word itself when it may stay."""
    if not salt and spelling.takes(word):
        return word
    digest = sha256(f"{word}\0{salt}".encode("utf-8", "surrogatepass")).digest()
    number = int.from_bytes(digest)
    if not spelling.takes("a_0"):  # no room for a part of the word
        return _in_digits(number, spelling.longest)
    kept = re.sub(r"[^a-zA-Z0-9_-]", "_", word)[: spelling.longest - _MARK - 1]
    return f"{kept if kept[:1].isalpha() else f'c{kept[:-1]}'}_{_in_digits(number, _MARK)}"


def numbered(word: str, number: int, spelling: Spelling) -> str:
    """The word with a number behind it, as the spelling wants it."""
    plain = f"{word}_{number}"
    return plain if spelling.takes(plain) else respelled(word, spelling, str(number))


def _in_digits(number: int, length: int) -> str:
    digits = ""
    for _ in range(length):
        number, rest = divmod(number, len(_DIGITS))
        digits += _DIGITS[rest]
    return digits


@define
class Respelling:
    """New words for old ones.

    Args:
        spelling: What is wanted.
        unique: Whether each use of a word has to get a word of its own.
    """

    spelling: Spelling
    unique: bool = False
    _made: dict[tuple[str, int], str] = field(factory=dict, init=False)
    _owner: dict[str, tuple[str, int]] = field(factory=dict, init=False)
    _uses: dict[str, int] = field(factory=dict, init=False)
    _open: dict[str, deque[str]] = field(factory=dict, init=False)

    def of(self, word: str) -> str:
        """The new word for an old one: always the same."""
        return self._word(word, 0)

    def of_call(self, call_id: str) -> str:
        """The new id of a call."""
        use = self._uses.get(call_id, 0) if self.unique else 0
        self._uses[call_id] = use + 1
        made = self._word(call_id, use)
        self._open.setdefault(call_id, deque()).append(made)
        return made

    def of_result(self, call_id: str) -> str:
        """The new id of the call that a result answers: of the earliest one that is not answered."""
        waiting = self._open.get(call_id)
        return waiting.popleft() if waiting else self._word(call_id, max(0, self._uses.get(call_id, 1) - 1))

    def _word(self, word: str, use: int) -> str:
        if (made := self._made.get((word, use))) is not None:
            return made
        attempt = 0
        while True:
            salt = f"{use}.{attempt}" if use or attempt else ""
            made = respelled(word, self.spelling, salt)
            if self._owner.setdefault(made, (word, use)) == (word, use):
                self._made[word, use] = made
                return made
            attempt += 1
