"""A provider's prompt cache, simulated: what of each request is read, written, and billed in full."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Literal

from attrs import define, field, frozen

from agentctx.economics.cache_rules import CacheRules
from agentctx.economics.prices import Usage

Mark = Literal["short", "long"]


@frozen
class Block:
    """A piece of a prompt that is cached whole or not at all: tools, the system prompt, a content block.

    Args:
        key: Equal for pieces with the same bytes.
        tokens: Its size.
        mark: A cache marker at its end: for the usual or for the long time; None when there is none.
        turn_end: Whether it is the end of a user or a tool message.
    """

    key: Hashable
    tokens: int
    mark: Mark | None = None
    turn_end: bool = False


@frozen
class _Place:
    """The end of a block within a prompt: what stands before it, and how many tokens that is."""

    key: int
    tokens: int


@define
class CacheSimulator:
    """The cache of one conversation, by the provider's rules.

    Best effort is taken for certain: what the rules allow to be read is read.

    Args:
        rules: The provider's rules.
    """

    rules: CacheRules
    _until: dict[int, float] = field(factory=dict, init=False, repr=False)
    _lives: dict[int, float] = field(factory=dict, init=False, repr=False)

    def send(self, prompt: Sequence[Block], at: float, output: int = 0) -> Usage:
        """The bill of one request.

        Args:
            prompt: Its blocks in the provider's order: tools, system, messages.
            at: When it is sent, in seconds; never earlier than the request before.
            output: Tokens of its answer.
        """
        places = _places(prompt)
        total = places[-1].tokens if places else 0
        if self.rules.kind == "prefix":
            return self._prefix(places, total, at, output)
        if self.rules.kind == "marks":
            return self._marks(prompt, places, total, at, output)
        if self.rules.kind == "turns":
            return self._turns(prompt, places, total, at, output)
        return Usage(fresh=total, output=output)

    def hold(self, prompt: Sequence[Block], at: float, seconds: float) -> Usage:
        """Keep a prompt for a fixed time, as Gemini's explicit ``cachedContents`` does; what creating it bills."""
        places = _places(prompt)
        for place in places:
            self._keep(place, at, seconds)
        return Usage(fresh=places[-1].tokens if places else 0)

    def _alive(self, place: _Place, at: float) -> bool:
        return self._until.get(place.key, -1.0) >= at

    def _keep(self, place: _Place, at: float, lives: float) -> None:
        """Write an entry, or use it: either way it lives on, never shorter than before."""
        lives = max(lives, self._lives.get(place.key, 0.0) if self._alive(place, at) else 0.0)
        self._lives[place.key], self._until[place.key] = lives, at + lives

    def _prefix(self, places: Sequence[_Place], total: int, at: float, output: int) -> Usage:
        shared = 0
        for place in places:
            if not self._alive(place, at):
                break
            shared = place.tokens
        for place in places:
            self._keep(place, at, self.rules.ttl)
        read = shared - shared % self.rules.step if shared >= self.rules.smallest else 0
        return Usage(fresh=total - read, cached=read, output=output)

    def _marks(self, prompt: Sequence[Block], places: Sequence[_Place], total: int, at: float, output: int) -> Usage:
        marked = [index for index, block in enumerate(prompt) if block.mark][-self.rules.marks :]
        marked = [index for index in marked if places[index].tokens >= self.rules.smallest]
        hits = [hit for index in marked if (hit := self._found(places, index, at)) is not None]
        read = max((places[hit].tokens for hit in hits), default=0)
        for hit in hits:
            self._keep(places[hit], at, 0.0)
        long = max((places[index].tokens for index in marked if prompt[index].mark == "long"), default=0)
        last = max((places[index].tokens for index in marked), default=0)
        for index in marked:
            self._keep(places[index], at, self._life(prompt[index].mark))
        written_long = max(0, long - read)
        written = max(0, last - max(read, long))
        return self._billed(total, read, written, written_long, output)

    def _found(self, places: Sequence[_Place], mark: int, at: float) -> int | None:
        """The first entry on the way back from a mark."""
        back = range(mark, max(-1, mark - self.rules.look_back), -1)
        return next((index for index in back if self._alive(places[index], at)), None)

    def _turns(self, prompt: Sequence[Block], places: Sequence[_Place], total: int, at: float, output: int) -> Usage:
        tried = [index for index, block in enumerate(prompt) if block.mark or block.turn_end][-self.rules.candidates :]
        hit = next((index for index in reversed(tried) if self._alive(places[index], at)), None)
        read = 0 if hit is None else places[hit].tokens
        if hit is not None:
            self._keep(places[hit], at, 0.0)
        marked = [index for index in tried if prompt[index].mark][-(self.rules.marks - 1) :]
        implicit = [index for index in tried if prompt[index].turn_end][-1:]
        writing = [index for index in {*marked, *implicit} if places[index].tokens >= self.rules.smallest]
        for index in writing:
            self._keep(places[index], at, self._life(prompt[index].mark))
        last = max((places[index].tokens for index in writing), default=0)
        return self._billed(total, read, max(0, last - read), 0, output)

    def _life(self, mark: Mark | None) -> float:
        long = self.rules.ttl_long
        return long if mark == "long" and long is not None else self.rules.ttl

    def _billed(self, total: int, read: int, written: int, written_long: int, output: int) -> Usage:
        fresh = total - read - written - written_long
        if self.rules.write_fee:
            return Usage(fresh, read, written, written_long, output)
        return Usage(fresh + written + written_long, read, 0, 0, output)


def _places(prompt: Sequence[Block]) -> list[_Place]:
    places: list[_Place] = []
    key, tokens = 0, 0
    for block in prompt:
        key, tokens = hash((key, block.key)), tokens + block.tokens
        places.append(_Place(key, tokens))
    return places
