"""Codes: short texts that stand for longer ones, defined where the text begins that uses them.

Such as ``[Codes fb60: §512=/home/dev/project/src]``. Whoever has the text has its codes: it can be moved, stored and
read alone. The definition is known again by its checksum, so nothing that merely looks like one is decoded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from zlib import crc32

from attrs import field, frozen

from agentctx.lazy import lazy_pattern

LEAST = 800
"""Characters; what is shorter is not put in codes."""

LONGEST = 400
"""Characters; what defines the codes of a text is not longer."""

_FIRST, _NUMBERS = 100, 900  # codes have three digits: most vocabularies have one token for those
_OPENING, _BETWEEN = "[Codes ", " | "
_HEAD = lazy_pattern(r"\[Codes ([0-9a-f]{4}): ([^\n\[\]]+)\] ")
_CODE = lazy_pattern(r"§([1-9][0-9]{2})(?![0-9])")
_LEFT = r"[\w/.~@+\\:§-]"
"""What must not stand before a phrase; looked for behind it, since a search for words is faster than one for places."""
_UNFIT = frozenset('[]|§"')


def fit(phrase: str) -> bool:
    """Whether a code may stand for a phrase: it reads the same in a line of its own, and, if escaped, within JSON."""
    return (
        phrase.isprintable() and _UNFIT.isdisjoint(phrase) and "\\\\" not in phrase and phrase.strip() == phrase != ""
    )


def codes_in(text: str) -> set[int]:
    """The numbers of what looks like codes in a text."""
    return set(map(int, _CODE.findall(text))) if "§" in text else set()


@frozen
class Codebook:
    """Codes, and what they stand for.

    Args:
        phrases: What each number stands for.

    Example:
        >>> from agentctx.core.codes import Codebook
        >>> book = Codebook({512: "/home/dev/project"})
        >>> print(book.encoded("/home/dev/project/app.py, /home/dev/projects"))
        [Codes 6661: §512=/home/dev/project] §512/app.py, /home/dev/projects
    """

    phrases: Mapping[int, str] = field(factory=dict, hash=False)

    @classmethod
    def numbered(cls, phrases: Collection[str], taken: Mapping[int, str], literals: Collection[int]) -> Codebook:
        """Codes for phrases: each has the same one wherever it is free.

        Args:
            phrases: What they shall stand for.
            taken: What codes stand for elsewhere.
            literals: Numbers that must not be used.
        """
        found: dict[int, str] = {}
        for phrase in phrases:
            start = crc32(phrase.encode("utf-8", "surrogatepass"))
            numbers = (_FIRST + (start + step) % _NUMBERS for step in range(_NUMBERS))
            free = (each for each in numbers if each not in literals and each not in found)
            number = next((each for each in free if taken.get(each, phrase) == phrase), None)
            if number is not None:
                found[number] = phrase
        return cls(found)

    @property
    def head(self) -> str:
        """What defines the codes; empty where there are none. It has no line of its own: lines keep their numbers."""
        if not self.phrases:
            return ""
        said = _BETWEEN.join(f"§{number}={phrase}" for number, phrase in self.phrases.items())
        return f"{_OPENING}{_checksum(said)}: {said}] "

    def encoded(self, text: str) -> str:
        """The text in codes, behind what defines them."""
        return self.head + self.counted(text)[0]

    def counted(self, text: str) -> tuple[str, dict[int, int]]:
        """The text in codes without what defines them, and how often each was used; never within a word or a path."""
        numbers = {phrase: number for number, phrase in self.phrases.items()}
        if not numbers:
            return text, {}
        longest_first = sorted(numbers, key=lambda phrase: (-len(phrase), phrase))
        each = "|".join(f"{words}(?<!{_LEFT}{words}){_right(phrase)}" for phrase, words in map(_literal, longest_first))
        pieces = re.split(f"({each})", text)  # every other one is a phrase
        found = Counter(pieces[1::2])
        pieces[1::2] = map({phrase: f"§{number}" for phrase, number in numbers.items()}.__getitem__, pieces[1::2])
        uses = {number: found[phrase] * (numbers[phrase] == number) for number, phrase in self.phrases.items()}
        return "".join(pieces), uses

    def decoded(self, text: str) -> str:
        """The text with every code of these written out, and no other."""
        if not self.phrases or "§" not in text:
            return text
        pieces = _CODE.split(text)  # every other one is a number
        said = {code: self.phrases.get(int(code), f"§{code}") for code in set(pieces[1::2])}
        pieces[1::2] = map(said.__getitem__, pieces[1::2])
        return "".join(pieces)


def _literal(phrase: str) -> tuple[str, str]:
    return phrase, re.escape(phrase)


def _right(phrase: str) -> str:
    """What must not follow a phrase: it would go on with a word, or the name of a directory; a digit with the code."""
    return r"(?![\w.@+~-])" if "/" in phrase or "\\" in phrase else r"(?![\w-])"


def _checksum(said: str) -> str:
    return f"{crc32(said.encode('utf-8', 'surrogatepass')) & 0xFFFF:04x}"


def is_coded(text: str) -> bool:
    """Whether a text begins as one that defines codes; a glance."""
    return text.startswith(_OPENING)


def codebook_in(text: str) -> tuple[Codebook, str] | None:
    """The codes that a text defines where it begins, and the rest of it; None where it defines none."""
    if (
        not text.startswith(_OPENING)
        or (head := _HEAD.match(text)) is None
        or head.group(1) != _checksum(head.group(2))
    ):
        return None
    phrases: dict[int, str] = {}
    for definition in head.group(2).split(_BETWEEN):
        code, _, phrase = definition.partition("=")
        if _CODE.fullmatch(code) is None or not fit(phrase):
            return None
        phrases[int(code[1:])] = phrase
    return Codebook(phrases), text[head.end() :]


def written_out(text: str) -> str:
    """A text without codes: what it says where it defines some, else itself."""
    found = codebook_in(text)
    return text if found is None else found[0].decoded(found[1])
