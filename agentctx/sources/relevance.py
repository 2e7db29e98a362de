"""How much of a task's words a text has: the rarer the word, the more it says."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from math import log

_WORD = re.compile(r"[^\W_]+")


def words_of(text: str) -> frozenset[str]:
    """The words of a text, whole and without case: ``art`` is not in ``start``."""
    return frozenset(_WORD.findall(text.casefold()))


def overlap(query: str, texts: Sequence[str]) -> list[float]:
    """For each text, the share of the query's words that it has, from 0 to 1; all 0 when the query has no words.

    A word counts by how rare it is among the texts: what is in all of them tells none of them apart.
    """
    wanted = words_of(query)
    found = [wanted & words_of(text) for text in texts] if wanted else [wanted] * len(texts)
    seen = Counter(word for words in found for word in words)
    weight = {word: log(1 + (len(texts) + 1) / (seen[word] + 1)) for word in sorted(wanted)}
    whole = sum(weight.values())
    return [sum(weight[word] for word in sorted(words)) / whole if words else 0.0 for words in found]


def blended(prior: float, share: float) -> float:
    """What something is worth: half what it is worth to any task, half how much it has of this task's words."""
    return (prior + share) / 2
