"""Relevance by words: Okapi BM25 in the form that Lucene uses, by the library bm25s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec

import anyio.to_thread
from attrs import define, field, frozen

from agentctx.errors import ConfigError
from agentctx.strategies.packing.words import forms, raw_words


@frozen
class Bm25:
    """Texts that share rare words with the task come first; long ones need more of them.

    Lucene's form never counts a shared word against a text, however common it is (Kamphuis et al. 2020, "Which BM25
    do you mean?"). Works in a thread; the time grows with the length of the texts.

    Args:
        k1: How much it matters that a word occurs more than once; 0 means not at all.
        b: How much long texts are held to their length, 0 to 1.

    Raises:
        ConfigError: If bm25s is not installed.
    """

    k1: float = 1.5
    b: float = 0.75

    def __attrs_post_init__(self) -> None:
        """Look for the library."""
        if find_spec("bm25s") is None:
            msg = "Bm25: it needs bm25s: pip install 'agentctx[relevance]'"
            raise ConfigError(msg)

    async def __call__(self, task: str, texts: Sequence[str], /) -> Sequence[float]:
        """The BM25 score of each text; 0 where it shares no word with the task."""
        return await anyio.to_thread.run_sync(self._scores, task, texts, abandon_on_cancel=True)

    def _scores(self, task: str, texts: Sequence[str]) -> list[float]:
        import bm25s  # type: ignore[import-untyped]  # noqa: PLC0415 - no types; an extra: all else works without it

        asked = _Asked.of(task)
        counted = [asked.numbers(text) for text in texts]
        if not any(min(numbers, default=asked.other) < asked.other for numbers in counted):
            return [0.0] * len(texts)
        index = bm25s.BM25(k1=self.k1, b=self.b, method="lucene", dtype="float64", auto_compile=False)
        index.index((counted, {**asked.number_of, "": asked.other}), show_progress=False)
        return [float(score) for score in index.get_scores(list(asked.number_of))]


@define
class _Asked:
    """The words of the task, numbered, and how words of texts are read by them.

    All words that nobody asked for are one, since they only make a text longer.
    """

    number_of: Mapping[str, int]
    other: int
    _seen: dict[str, tuple[int, ...]] = field(factory=dict)

    @classmethod
    def of(cls, task: str) -> _Asked:
        """The words of a task."""
        distinct = dict.fromkeys(form for word in raw_words(task) for form in forms(word))
        return cls({form: number for number, form in enumerate(distinct)}, len(distinct))

    def numbers(self, text: str) -> list[int]:
        """The words of a text, each by the numbers of its forms; each written word is taken apart once."""
        found: list[int] = []
        for word in raw_words(text):
            numbers = self._seen.get(word)
            if numbers is None:
                numbers = self._seen[word] = self._of(word)
            found += numbers
        return found

    def _of(self, word: str) -> tuple[int, ...]:
        """The numbers of a word's forms that were asked for, else the one of all others."""
        return tuple([self.number_of[form] for form in forms(word) if form in self.number_of]) or (self.other,)
