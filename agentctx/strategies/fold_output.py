"""Fold what tools print, by its kind: what an agent needs stays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import ClassVar

from attrs import evolve, field, frozen

from agentctx.core.message import Message, Text, ToolCall, ToolResult
from agentctx.engine.options import as_names, check_whole
from agentctx.engine.shrink import with_pointer
from agentctx.engine.tool_calls import command_of, is_search, names_file
from agentctx.errors import ConfigError
from agentctx.protocols import Call
from agentctx.strategies.compress.output_kinds import (
    FOLDS,
    Fold,
    Mark,
    has_header,
    headers,
    html,
    matches,
    without_header,
)
from agentctx.strategies.rewrite_results import Pointer, RewriteResults

_SHORTEST = 100
"""Characters; a shorter text without control characters has nothing to fold."""


_MOST_TOKENS = 4
"""So many tokens a character has at most, or nearly so."""

_AT_A_GLANCE = 16 * 1024
"""Characters; more than so many take longer to look through than a glance."""


def _kinds(given: Iterable[str]) -> frozenset[str]:
    kinds = as_names("FoldOutput: kinds must be a list of names", given)
    if kinds - FOLDS.keys():
        msg = f"FoldOutput: kinds are among {', '.join(sorted(FOLDS))}, got {', '.join(sorted(kinds))}"
        raise ConfigError(msg)
    return kinds


@frozen
class FoldOutput(RewriteResults):
    """Fold what tools print, when it arrives: of each kind of output, what an agent needs stays.

    A kind is known by what stands in the text; what is not surely of one stays as it is:

    - ``terminal``: what a terminal shows in the end, without colours; progress bars as they ended.
    - ``headers``: what Codex says of a command before its output: how it ended stays, and how long that took, from a
      second on. The command itself goes where it is the one that the call names. A file may begin so, too: what a call
      shows that names one stays.
    - ``tenths``: line numbers as ``cat -n`` prints them: only those of the first line, the last and each tenth.
    - ``numbers``: such line numbers without the blanks before them.
    - ``hits``: what a search found, or a linter, by file: each path once.
    - ``matches``: what a search found, by file: of many lines of one file the first two and the last; where the call
      is a search, since of what a linter says each line counts.
    - ``paths``: lists of paths by folder; what is in ``node_modules`` and the like is folded among others.
    - ``tests``: tests in a row that passed; failures, summaries and all else stay.
    - ``progress``: what installers and compilers print as they go on.
    - ``traces``: frames that repeat, frames of libraries in a row, a log's line that repeats.
    - ``diffs``: long contexts in unified diffs.
    - ``html``: a page becomes its text, with where its links lead; where the call names an address, since a file may
      be read to be edited.

    Of what is folded the first and the last line stay, with how many there were between, and with a store and the
    recall tool in the request the handle of the original. ``tenths``, ``numbers``, ``hits`` and ``paths`` by folder say
    the same shorter and leave nothing out; ``headers`` leaves out ids and counts that no call asks for. Each does
    something only where the tokenizer says that the text gets smaller.

    Args:
        kinds: Which of these are folded; all, when not given.
        exclude: Names of tools whose results stay.
        over: Tokens; a text that has no more stays as it is.

    Raises:
        ConfigError: If a kind is unknown, ``exclude`` has anything but names, or ``over`` is no number of tokens.

    Example:
        >>> from agentctx import Pipeline
        >>> from agentctx.strategies import FoldOutput
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> passed = [f"tests/test_api.py::test_{number} PASSED" for number in range(90)]
        >>> said = [*passed, "tests/test_api.py::test_last FAILED", "=== 1 failed, 90 passed in 2.1s ==="]
        >>> turns = user("Test it."), assistant(call("a", "bash")), result("a", chr(10).join(said))
        >>> view = await Pipeline(FoldOutput()).prepare(transcript("openai-chat", *turns))
        >>> print(view.messages[2]["content"])
        tests/test_api.py::test_0 PASSED
        [… 88 more lines, passed or without tests …]
        tests/test_api.py::test_89 PASSED
        tests/test_api.py::test_last FAILED
        === 1 failed, 90 passed in 2.1s ===
    """

    kinds: frozenset[str] = field(default=frozenset(FOLDS), converter=_kinds, kw_only=True)
    over: int = field(default=0, kw_only=True)
    why: ClassVar[str] = "output folded by its kind"

    @over.validator
    def _check(self, _attribute: object, value: object) -> None:
        check_whole("FoldOutput: over", value, 0)

    def asks_for_call(self, text: str, /) -> bool:
        """Pages are folded where the call names an address, hits where it is a search; a command goes that it names."""
        kinds = self.kinds
        return (
            (html.__name__ in kinds and "<" in text)
            or (headers.__name__ in kinds and has_header(text))
            or (matches.__name__ in kinds and matches(text, str) != text)
        )

    def for_call(self, asked: ToolCall | None, text: str, /) -> FoldOutput:
        """Without pages where the call names no address, and matches where it is no search; with the command it names.

        Args:
            asked: The call that the output answers; None: it is not to be seen.
            text: The output.
        """
        kinds = self.kinds
        if asked is None or "://" not in asked.arguments:
            kinds -= {html.__name__}
        if matches.__name__ in kinds and (asked is None or not is_search(asked)):
            kinds -= {matches.__name__}
        if asked is not None and names_file(asked):
            kinds -= {headers.__name__}
        if asked is not None and headers.__name__ in kinds and has_header(text):
            return _FoldAnswer(kinds=kinds, exclude=self.exclude, over=self.over, asked=asked)
        return self if kinds == self.kinds else evolve(self, kinds=kinds)

    @property
    def folds(self) -> Sequence[Fold]:
        """What folds each kind, in the order in which they are looked for."""
        return _folds(self.kinds)

    def concerns_text(self, text: str, /) -> bool:
        """Whether it is long enough to be folded, or has control characters."""
        if len(text) * _MOST_TOKENS <= self.over:
            return False
        return len(text) >= _SHORTEST or "\x1b" in text or "\r" in text or "\b" in text

    def leaves_alone(self, messages: Sequence[Message], _call: Call, /) -> bool:
        """Whether no kind stands in the results; they are looked through for that where they are short."""
        left = _AT_A_GLANCE
        for message in messages:
            for part in message.parts:
                if isinstance(part, ToolResult):
                    for said in part.content:
                        if isinstance(said, Text) and self.concerns_text(said.text):
                            left -= len(said.text)
                            if left < 0 or not self._stays(said.text):
                                return False
        return True

    def _stays(self, text: str) -> bool:
        """Whether no kind stands in a text, whatever the call is that it answers."""
        if headers.__name__ in self.kinds and has_header(text):
            return False
        return not any(map(text.__ne__, [fold(text, str) for fold in _folds(self.kinds)]))

    def rewritten(self, text: str, call: Call, pointer: Pointer, /) -> str:
        """The text with each kind folded that gets smaller by it.

        Args:
            text: The output.
            call: The call, whose counter decides what is smaller.
            pointer: Says how to get the whole output back.
        """
        count = call.counter.count
        if self.over and count(text) <= self.over:
            return text
        for fold in self.folds:
            made = fold(text, _Marks(pointer))
            if made is not text and made != text and count(made) < count(text):
                text = made
        return text


@frozen
class _FoldAnswer(FoldOutput):
    """The same for the result of a call.

    Args:
        asked: The call.
    """

    asked: ToolCall = field(kw_only=True)

    @property
    def folds(self) -> Sequence[Fold]:
        """What folds each kind; of a command's header the command goes where the call names it."""
        return [self._header if fold is headers else fold for fold in _folds(self.kinds)]

    def _header(self, text: str, _mark: Mark) -> str:
        return without_header(text, command_of(self.asked)) if has_header(text) else text


@cache
def _folds(kinds: frozenset[str]) -> Sequence[Fold]:
    return [fold for kind, fold in FOLDS.items() if kind in kinds]


class _Marks:
    """What stands for lines that are left out; the first says how to get the whole back."""

    def __init__(self, pointer: Pointer) -> None:
        self.pointer: Pointer | None = pointer

    def __call__(self, what: str) -> str:
        mark = f"[… {what} …]"
        pointer, self.pointer = self.pointer, None
        return mark if pointer is None else with_pointer(mark, pointer())
