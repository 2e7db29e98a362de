"""A system prompt whose beginning never moves."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any

from anyio import CapacityLimiter, Lock
from attrs import define, evolve, field, frozen
from attrs.validators import matches_re

from agentctx.builder.blocks import Block
from agentctx.errors import ConfigError, InvalidInput, SourceError
from agentctx.message import Message, Text
from agentctx.plain import from_plain, to_plain
from agentctx.protocols import TokenCounter
from agentctx.sources.gathering import ContextProvider, as_items, outcome_of, result_of, section
from agentctx.tiers import Tier
from agentctx.tokens.counting import counter_of_texts
from agentctx.users_code import side_by_side
from agentctx.validators import MustBe, function, must_be


@frozen
class PromptPiece:
    """A piece of a system prompt, unchanged for as long as the prompt is not rebased.

    Args:
        text: What it says.
        tokens: Its size in tokens.
        cache: Whether it pays to let the provider keep the prefix that ends with it.
    """

    text: str = field(repr=False)
    tokens: int
    cache: bool = False


@frozen
class BuiltPrompt:
    """A system prompt as it is sent: the baseline, and after it what has changed, in the order in which it did.

    Args:
        pieces: Baseline and updates.
        superseded: Tokens that would be saved by ``StablePrompt.rebase``, at the price of a new prefix.
    """

    pieces: tuple[PromptPiece, ...]
    superseded: int

    @property
    def text(self) -> str:
        """All of it as one text; what was built before any further change is the beginning of it."""
        return "\n\n".join(piece.text for piece in self.pieces if piece.text)

    @property
    def tokens(self) -> int:
        """The size of all pieces in tokens."""
        return sum(piece.tokens for piece in self.pieces)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """A block for each piece, for a ``ContextBuilder``; it writes the cache points as the provider wants them."""
        return tuple(
            Block(
                id="system" if place == 0 else f"system-update-{place}",
                messages=[Message("system", (Text(piece.text),))],
                tier=Tier.SYSTEM,
                cache=piece.cache or None,
            )
            for place, piece in enumerate(self.pieces)
            if piece.text
        )


Load = Callable[[], Awaitable[str] | str]
"""Loads the current text of a section; empty when there is none. May be async; one that is not runs in a thread."""

_KEY = re.compile(r"[\w][\w./-]{0,127}")


_NAMED = MustBe("a name of letters, digits and ./_-", matches_re(_KEY))


@frozen
class PromptSection:
    """One section of a system prompt.

    Args:
        key: Its name, the same for the life of a conversation.
        load: Says what it says now.
        header: What stands above it, when it says anything.

    Raises:
        ConfigError: If the key is no name, or there is nothing to load.

    Example:
        >>> from agentctx.sources import PromptSection
        >>> PromptSection("role", lambda: "You mend software.").key
        'role'
    """

    key: str = field(validator=_NAMED)
    load: Load = field(validator=function("a function that returns the section's text"))
    header: str = ""

    def written(self, value: str) -> str:
        """The section with what it says; empty when it says nothing.

        Args:
            value: What ``load`` returned; blanks around it are taken away.
        """
        value = value.strip()
        return f"{self.header}\n{value}" if value and self.header else value

    @property
    def title(self) -> str:
        """What it is called when it is spoken of."""
        return self.header.strip().lstrip("# ").rstrip(":") or self.key


def section_from(provider: ContextProvider, key: str, header: str = "") -> PromptSection:
    """A section that says what a source finds: its items under their titles, in fences, in its own order.

    Args:
        provider: The source; it is asked when the prompt is made, or rebased.
        key: What the section is called in reports and updates.
        header: What stands above it; nothing where it is empty.

    Example:
        >>> from agentctx.sources import Environment, section_from
        >>> section_from(Environment("."), "environment", "# Where you are").key
        'environment'
    """

    async def load() -> str:
        items = as_items(key, await result_of(provider, "", threads=CapacityLimiter(1)))
        return "".join(section(item.title, item.content) for item in items)

    return PromptSection(key, load, header)


VERSION = 1
"""Of the dump."""


@frozen
class _Dump:
    """The texts that were sent, and the latest value and title of each section."""

    version: int
    texts: tuple[str, ...]
    values: dict[str, str]
    titles: dict[str, str]


_OPENS_JSON = ("{", "[")

CHANGED = "The following has changed and replaces what was said before."


@frozen
class PromptUpdate:
    """What has changed since the last time."""

    keys: tuple[str, ...]
    text: str

    @property
    def message(self) -> Message:
        """The same as a user's message, for a conversation in which the system prompt is to stay as it is."""
        return Message("user", (Text(self.text),))


def _sections(listed: Iterable[PromptSection]) -> tuple[PromptSection, ...]:
    sections = tuple(listed)
    if not sections:
        raise must_be("StablePrompt.sections", "at least one section", sections)
    if len({section.key for section in sections}) < len(sections):
        raise must_be("StablePrompt.sections", "sections with each key once", [section.key for section in sections])
    return sections


@define(eq=False)
class StablePrompt:
    """A system prompt in sections, whose beginning never moves.

    It is written once, as the baseline. When a section changes later, only that section is said again, behind
    everything else: what was sent before stays what it was, to the byte, and so does the provider's cache. A section
    that cannot be loaded keeps what it said last.

    Args:
        sections: The sections, in their order.
        deadline: How long a section may take to load, in seconds; None waits for ever.
        min_cache: The shortest prefix that the provider keeps, in tokens (``ModelProfile.min_cache``).
        counter: Counts tokens; a plain function of a text counts, too. Without it, tiktoken's ``o200k_base``.
        on: The errors of loading that cost only that section's news.

    Raises:
        ConfigError: If there is no section, or two have one key.

    Example:
        >>> from agentctx.sources import PromptSection, StablePrompt
        >>> prompt = StablePrompt([PromptSection("role", lambda: "You mend software.")])
        >>> await prompt.start()
        >>> prompt.build().text
        'You mend software.'
    """

    sections: tuple[PromptSection, ...] = field(converter=_sections)
    deadline: float | None = field(default=5.0, kw_only=True)
    min_cache: int = field(default=1_024, kw_only=True)
    counter: TokenCounter = field(default=None, converter=counter_of_texts, kw_only=True)
    on: tuple[type[Exception], ...] = field(default=(Exception,), kw_only=True)
    problems: dict[str, str] = field(factory=dict, init=False)
    _texts: list[str] = field(factory=list, init=False, repr=False)
    _values: dict[str, str] = field(factory=dict, init=False, repr=False)
    _titles: dict[str, str] = field(factory=dict, init=False, repr=False)
    _lock: Lock = field(factory=Lock, init=False, repr=False)

    @property
    def baseline(self) -> str:
        """What was said at the beginning; empty before ``start``."""
        return self._texts[0] if self._texts else ""

    @property
    def values(self) -> Mapping[str, str]:
        """What each section said last."""
        return dict(self._values)

    async def start(self) -> None:
        """Load all sections and write the baseline; once, later calls do nothing.

        Raises:
            SourceError: If a section cannot be loaded: a conversation must begin with all of its prompt.
        """
        async with self._lock:
            if not self._texts:
                await self._start()

    async def reconcile(self) -> PromptUpdate | None:
        """Load all sections, and add what has changed to the end; None when nothing has.

        What could not be loaded is in ``problems``, by key.

        Raises:
            SourceError: If this is the first call, and a section cannot be loaded.
        """
        async with self._lock:
            if not self._texts:
                await self._start()
                return None
            loaded = await self._load()
            there = {section.key for section in self.sections}
            changed = [
                section
                for section in self.sections
                if section.key in loaded and not _same(loaded[section.key], self._values.get(section.key, ""))
            ]
            gone = [key for key in self._values if key not in there]
            texts = [section.written(loaded[section.key]) or _no_longer(section.title) for section in changed]
            texts += [_no_longer(self._titles.get(key, key)) for key in gone if self._values[key].strip()]
            kept = {key: value for key, value in self._values.items() if key in there}
            self._values = kept | {section.key: loaded[section.key] for section in changed}
            self._titles = {section.key: section.title for section in self.sections}
            if not texts:
                return None
            self._texts.append("\n\n".join((CHANGED, *texts)))
            return PromptUpdate((*(section.key for section in changed), *gone), self._texts[-1])

    def build(self) -> BuiltPrompt:
        """Return the prompt as it is sent now, with cache points where they pay.

        That is behind the baseline, which is the same for everybody who has the same sections, and behind the last
        update, with which the next call of this conversation begins. Neither pays where fewer tokens than
        ``min_cache`` are between it and the point before: the provider keeps no shorter prefix.

        Raises:
            ConfigError: If it was not started.
        """
        self._check_started()
        sizes = [self.counter.count(text) for text in self._texts]
        pieces = [PromptPiece(text, size) for text, size in zip(self._texts, sizes, strict=True)]
        since = 0
        for place in sorted({0, len(pieces) - 1}):
            since += sizes[0] if place == 0 else sum(sizes[1:])
            if since >= self.min_cache:
                pieces[place] = evolve(pieces[place], cache=True)
                since = 0
        superseded = sum(sizes) - self.counter.count(self._written()) if len(pieces) > 1 else 0
        return BuiltPrompt(tuple(pieces), max(0, superseded))

    def rebase(self) -> None:
        """Write a new baseline of what the sections said last, and forget the updates: the prefix changes, once.

        Raises:
            ConfigError: If it was not started.
        """
        self._check_started()
        self._texts = [self._written()]

    def use(self, sections: Iterable[PromptSection]) -> None:
        """Have other sections from now on; the next ``reconcile`` tells what came, and what no longer applies.

        Raises:
            ConfigError: If there is no section, or two have one key.
        """
        self.sections = _sections(sections)

    def dump(self) -> dict[str, Any]:
        """Return all that a conversation needs to go on with the same prefix, as JSON values."""
        dumped: dict[str, Any] = to_plain(_Dump, _Dump(VERSION, tuple(self._texts), self._values, self._titles))
        return dumped

    def restore(self, dumped: Mapping[str, Any]) -> None:
        """Go on where a dump was made: with its baseline and its updates, as they were sent.

        Args:
            dumped: The value that ``dump`` returned, also after JSON.

        Raises:
            InvalidInput: If it is no dump of this version.
        """
        state = from_plain(_Dump, dumped, "dump")
        if state.version != VERSION:
            raise InvalidInput("dump.version", f"expected {VERSION}, got {state.version}")
        self._texts, self._values, self._titles = list(state.texts), dict(state.values), dict(state.titles)

    async def _start(self) -> None:
        loaded = await self._load()
        for key, problem in self.problems.items():
            where = f"section {key}"
            raise SourceError(where, f"unavailable at the start: {problem}")
        self._values, self._titles = loaded, {section.key: section.title for section in self.sections}
        self._texts = [self._written()]

    def _written(self) -> str:
        """Write the latest values of all sections, as a baseline."""
        parts = [section.written(self._values.get(section.key, "")) for section in self.sections]
        return "\n\n".join(part for part in parts if part)

    async def _load(self) -> dict[str, str]:
        """Load the sections, without those that cannot be loaded; these are in ``problems``."""
        loaded: dict[str, str] = {}
        problems: dict[str, str] = {}
        threads = CapacityLimiter(len(self.sections))

        async def load(section: PromptSection) -> None:
            value = await result_of(section.load, threads=threads)
            if isinstance(value, str):
                loaded[section.key] = value
            else:
                problems[section.key] = f"returned {type(value).__name__} instead of text"

        async def load_in_time(section: PromptSection) -> None:
            _, problem = await outcome_of(partial(load, section), self.deadline, self.on)
            if problem:
                problems[section.key] = problem

        await side_by_side(partial(load_in_time, section) for section in self.sections)
        self.problems = {section.key: problems[section.key] for section in self.sections if section.key in problems}
        return loaded

    def _check_started(self) -> None:
        if not self._texts:
            msg = "StablePrompt: await start() or reconcile() before the first build()"
            raise ConfigError(msg)


def _no_longer(title: str) -> str:
    return f"{title}: no longer applies."


def _same(one: str, other: str) -> bool:
    """Whether two values say the same: JSON does, however it is spaced, and so does text with other ends."""
    one, other = one.strip(), other.strip()
    if one == other:
        return True
    if one[:1] not in _OPENS_JSON or other[:1] not in _OPENS_JSON:
        return False
    try:
        return json.dumps(json.loads(one)) == json.dumps(json.loads(other))
    except (ValueError, RecursionError):
        return False
