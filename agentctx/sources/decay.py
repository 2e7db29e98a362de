"""Context that fades when it is not used."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Lock

from attrs import define, evolve, field, frozen

from agentctx.budget import each_that_fits
from agentctx.engine.relevance import coverage
from agentctx.errors import BigItem, ContextOverflow, SourceError
from agentctx.protocols import TokenCounter
from agentctx.sources.gathering import blended
from agentctx.tokens.counting import counter_of_texts
from agentctx.users_code import time_of
from agentctx.validators import CLOCK, POSITIVE, SHARE, whole_number

HALF_LIFE = 30 * 60.0
"""Half an hour, in seconds."""

HEADING = "## Context that may still matter\n\n"
"""What stands above the entries."""

FADING = 0.2
"""Below this weight an entry is fading."""


@frozen
class Entry:
    """One entry, as it was when it was asked for.

    Args:
        id: Its name.
        content: What the model reads.
        category: What kind of context it is.
        tokens: What it costs where it stands, in tokens.
        weight: Its weight now, from the floor to 1.
        accesses: How often it was used.
        pinned: Whether it never fades.
        created: When it was added, by the clock.
        accessed: When it was last used, by the clock.
    """

    id: str
    content: str
    category: str
    tokens: int
    weight: float
    accesses: int
    pinned: bool
    created: float
    accessed: float


@frozen
class DecayStats:
    """What there is.

    Args:
        entries: How many entries.
        pinned: How many of them are pinned.
        tokens: Tokens of them all.
        average_weight: Their average weight now; 0 when there are none.
        oldest: When the oldest was added, by the clock; None when there are none.
        newest: When the newest was added.
    """

    entries: int
    pinned: int
    tokens: int
    average_weight: float
    oldest: float | None
    newest: float | None


@define(eq=False)
class Decay:
    """Entries whose weight halves with every half-life in which they are not used.

    An entry begins with weight 1. Using it gives back a part of what it lost, pinning stops time for it. Nothing
    is ever decayed twice: a weight is worked out from the last use, however often it is asked for.

    Args:
        half_life: In which time a weight halves, in the clock's units.
        min_weight: No weight is told below this; what is pruned is decided by the true weight.
        boost: How much weight a use gives back.
        clock: Tells the time. Without it, seconds that stand still while the machine sleeps, where the system has
            such a clock. A clock that counts the turns of the conversation makes nothing fade over lunch.
        counter: Counts tokens; a plain function of a text counts, too. Without it, tiktoken's ``o200k_base``.

    Raises:
        ConfigError: If a number makes no sense.

    Example:
        >>> from agentctx.sources import Decay
        >>> notes = Decay(half_life=600)
        >>> name = notes.add("Builds are logged in build.log.", pinned=True)
        >>> [entry.content for entry in notes.top(1)]
        ['Builds are logged in build.log.']
    """

    half_life: float = field(default=HALF_LIFE, validator=POSITIVE)
    min_weight: float = field(default=0.1, validator=SHARE, kw_only=True)
    boost: float = field(default=0.2, validator=SHARE, kw_only=True)
    clock: Callable[[], float] = field(default=time.monotonic, validator=CLOCK, kw_only=True)
    counter: TokenCounter = field(default=None, converter=counter_of_texts, kw_only=True)
    _entries: dict[str, Entry] = field(factory=dict, init=False, repr=False)
    _added: int = field(default=0, init=False)
    _lock: Lock = field(factory=Lock, init=False, repr=False)

    def add(self, content: str, category: str = "", *, pinned: bool = False) -> str:
        """Add an entry and return its name. It is counted once, here.

        Args:
            content: The text.
            category: What kind of context it is; neither order nor weight depends on it.
            pinned: Whether it never fades.
        """
        tokens = self.counter.count(_written(content))
        with self._lock:
            self._added += 1
            now, name = self._time(), f"ctx_{self._added}"
            self._entries[name] = Entry(name, content, category, tokens, 1.0, 0, pinned, now, now)
        return name

    def get(self, name: str) -> Entry | None:
        """The entry as it is now, or None; asking is not using.

        Args:
            name: The name that ``add`` returned.
        """
        entry = self._entries.get(name)
        return None if entry is None else self._now(entry, self._time())

    def access(self, name: str) -> Entry | None:
        """Use an entry: it gets weight back, and its time begins anew. The entry, or None when there is none.

        Args:
            name: The name that ``add`` returned.
        """
        with self._lock:
            entry, now = self._entries.get(name), self._time()
            if entry is None:
                return None
            weight = min(1.0, self._true_weight(entry, now) + self.boost)
            used = evolve(entry, weight=weight, accesses=entry.accesses + 1, accessed=now)
            self._entries[name] = used
        return self._now(used, now)

    def pin(self, name: str) -> None:
        """Let an entry never fade.

        Args:
            name: The name that ``add`` returned.

        Raises:
            SourceError: If there is no such entry.
        """
        self._set_pinned(name, pinned=True)

    def unpin(self, name: str) -> None:
        """Let an entry fade again, from its full weight and from now on.

        Args:
            name: The name that ``add`` returned.

        Raises:
            SourceError: If there is no such entry.
        """
        self._set_pinned(name, pinned=False)

    def remove(self, name: str) -> None:
        """Take an entry out.

        Args:
            name: The name that ``add`` returned.

        Raises:
            SourceError: If there is no such entry.
        """
        with self._lock:
            if self._entries.pop(name, None) is None:
                raise SourceError(name, "there is no such entry")

    def prune(self, below: float) -> int:
        """Take out the entries, but for the pinned, whose true weight is below ``below``; how many went."""
        with self._lock:
            now = self._time()
            before = len(self._entries)
            self._entries = {
                name: entry
                for name, entry in self._entries.items()
                if entry.pinned or self._true_weight(entry, now) >= below
            }
            return before - len(self._entries)

    def entries(self, query: str = "") -> tuple[Entry, ...]:
        """All entries: the pinned first, then by weight; equals by how often they were used, then the newest first.

        Args:
            query: The task, in words; when there is one, an entry counts half by its weight, half by how many of
                the task's words it has.
        """
        now = self._time()
        newest_first = [self._now(entry, now) for entry in reversed(tuple(self._entries.values()))]
        worth = {entry.id: entry.weight for entry in newest_first}
        if query.strip():
            shares = coverage(query, [entry.content for entry in newest_first])
            worth = {entry.id: blended(entry.weight, share) for entry, share in zip(newest_first, shares, strict=True)}
        return tuple(sorted(newest_first, key=lambda each: (not each.pinned, -worth[each.id], -each.accesses)))

    def top(self, n: int, query: str = "") -> tuple[Entry, ...]:
        """The first ``n`` of ``entries``.

        Args:
            n: How many, 0 or more.
            query: The task, in words; as for ``entries``.

        Raises:
            ConfigError: If ``n`` is negative.
        """
        whole_number(0).check("Decay.top.n", n)
        return self.entries(query)[:n]

    def within(self, max_tokens: int, query: str = "") -> tuple[Entry, ...]:
        """The entries that fit in ``max_tokens`` as ``render`` writes them, in the order of ``entries``.

        One that does not fit is passed over. The pinned are always there.

        Args:
            max_tokens: Tokens that there are for the heading and the entries.
            query: The task, in words; as for ``entries``.

        Raises:
            ContextOverflow: If the pinned entries alone are too large; names them.
        """
        entries = self.entries(query)
        pinned = [entry for entry in entries if entry.pinned]
        room = max_tokens - self.counter.count(HEADING) - sum(entry.tokens for entry in pinned)
        loose = each_that_fits(entries[len(pinned) :], lambda entry: entry.tokens, room)
        # a counter may count entries together for more than apart
        while (tokens := self.counter.count(_text([*pinned, *loose]))) > max_tokens and loose:
            loose.pop()
        if pinned and tokens > max_tokens:
            biggest = sorted(pinned, key=lambda entry: -entry.tokens)[:5]
            raise ContextOverflow(tokens, max_tokens, [BigItem((each.id, "pinned", each.tokens)) for each in biggest])
        return (*pinned, *loose)

    def render(self, max_tokens: int, query: str = "") -> str:
        """The entries that fit as text for the model; never more than ``max_tokens``; empty when none fits.

        Weights are not told: they would change the text, and with it the provider's cache, at every step.

        Args:
            max_tokens: Tokens that the text may have.
            query: The task, in words; as for ``entries``.

        Raises:
            ContextOverflow: If the pinned entries alone are too large.
        """
        return _text(self.within(max_tokens, query))

    def table(self) -> str:
        """The entries with their weights, for people."""
        lines = [
            f"[{each.weight:.2f}]{' 📌' if each.pinned else ''} {each.content}"
            f"{' (fading)' if each.weight < FADING else ''}"
            for each in self.entries()
        ]
        return "\n".join(lines) or "(empty)"

    def stats(self) -> DecayStats:
        """What there is."""
        entries = self.entries()
        created = [entry.created for entry in entries]
        return DecayStats(
            entries=len(entries),
            pinned=sum(entry.pinned for entry in entries),
            tokens=sum(entry.tokens for entry in entries),
            average_weight=sum(entry.weight for entry in entries) / max(1, len(entries)),
            oldest=min(created, default=None),
            newest=max(created, default=None),
        )

    def _set_pinned(self, name: str, *, pinned: bool) -> None:
        with self._lock:
            if (entry := self._entries.get(name)) is None:
                raise SourceError(name, "there is no such entry")
            self._entries[name] = evolve(entry, pinned=pinned, weight=1.0, accessed=self._time())

    def _time(self) -> float:
        return time_of(self.clock, "Decay")

    def _true_weight(self, entry: Entry, now: float) -> float:
        """The weight since the last use, without the floor. A clock that went back makes nothing heavier."""
        if entry.pinned:
            return 1.0
        return entry.weight * float(0.5 ** (max(0.0, now - entry.accessed) / self.half_life))

    def _now(self, entry: Entry, now: float) -> Entry:
        return evolve(entry, weight=max(self.min_weight, self._true_weight(entry, now)))


def _written(content: str) -> str:
    """An entry begins with a dash and ends with a line break: entries cost together what they cost apart."""
    return "- " + content.strip().replace("\n", "\n  ") + "\n"


def _text(entries: Sequence[Entry]) -> str:
    return HEADING + "".join(_written(entry.content) for entry in entries) if entries else ""
