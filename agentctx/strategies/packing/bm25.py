"""Relevance by words: Okapi BM25 in the form that Lucene uses, by the library bm25s."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import anyio.to_thread
import bm25s  # type: ignore[import-untyped]  # it ships no types
from attrs import frozen

from agentctx.strategies.packing.words import words


@frozen
class Bm25:
    """Texts that share rare words with the task come first; long ones need more of them.

    Lucene's form never counts a shared word against a text, however common it is (Kamphuis et al. 2020, "Which BM25
    do you mean?"). Works in a thread; the time grows with the length of the texts.

    Args:
        k1: How much it matters that a word occurs more than once; 0 means not at all.
        b: How much long texts are held to their length, 0 to 1.
    """

    k1: float = 1.5
    b: float = 0.75

    async def __call__(self, task: str, texts: Sequence[str], /) -> Sequence[float]:
        """The BM25 score of each text; 0 where it shares no word with the task."""
        return await anyio.to_thread.run_sync(self._scores, task, texts, abandon_on_cancel=True)

    def _scores(self, task: str, texts: Sequence[str]) -> list[float]:
        asked = {word: number for number, word in enumerate(dict.fromkeys(words(task)))}
        counted = [_numbers(words(text), asked) for text in texts]
        if not asked or not any(min(numbers, default=len(asked)) < len(asked) for numbers in counted):
            return [0.0] * len(texts)
        index = bm25s.BM25(k1=self.k1, b=self.b, method="lucene", dtype="float64", auto_compile=False)
        index.index((counted, {**asked, "": len(asked)}), show_progress=False)
        return [float(score) for score in index.get_scores(list(asked))]


def _numbers(found: Iterable[str], asked: Mapping[str, int]) -> list[int]:
    """The words of a text as numbers; all that nobody asked for are one, since they only make the text longer."""
    other = len(asked)
    return [asked.get(word, other) for word in found]
