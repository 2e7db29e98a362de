"""A provider's prompt cache, simulated: what of each request is read, written, and billed in full."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import accumulate, takewhile
from typing import Literal

from attrs import define, evolve, field, frozen

from agentctx.core.json_text import serialise
from agentctx.core.message import (
    SYSTEM_ROLES,
    Context,
    Message,
    Opaque,
    Part,
    ToolResult,
    is_marker,
    without_marker,
)
from agentctx.economics.costs import Usage, tools_as_sent
from agentctx.models.profile import CacheRules
from agentctx.protocols import Meter
from agentctx.wire_format import CacheMarkers, head_markers

Mark = Literal["short", "long"]


@frozen
class CachedBlock:
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
class Prompt:
    """The blocks of a request, with what stands before the end of each: worked out once, for any number of caches.

    Args:
        blocks: The blocks in the provider's order: tools, system, messages.
        keys: For each block, a hash of the prompt up to its end.
        ends: For each block, the tokens of the prompt up to its end.
    """

    blocks: tuple[CachedBlock, ...]
    keys: tuple[int, ...]
    ends: tuple[int, ...]

    @classmethod
    def of(cls, blocks: Iterable[CachedBlock]) -> Prompt:
        """The prompt of these blocks."""
        whole, keys, key = tuple(blocks), [], 0
        for block in whole:
            key = hash((key, block.key))
            keys.append(key)
        return cls(whole, tuple(keys), tuple(accumulate(block.tokens for block in whole)))

    @property
    def tokens(self) -> int:
        """Its size."""
        return self.ends[-1] if self.ends else 0


@define
class CacheSimulator:
    """The cache of one conversation, by the provider's rules.

    Best effort is taken for certain: what the rules allow to be read is read.

    Args:
        rules: The provider's rules.

    Example:
        >>> from agentctx.economics import CacheSimulator
        >>> from agentctx.economics.cache import CachedBlock, Prompt
        >>> from agentctx.models.profile import cache_rules
        >>> from agentctx.models.table import profile
        >>> cache = CacheSimulator(cache_rules(profile("gpt-5.4")))
        >>> prompt = Prompt.of([CachedBlock("system", 2_000), CachedBlock("task", 500)])
        >>> cache.send(prompt, at=0.0).cached, cache.send(prompt, at=10.0).cached
        (0, 2432)
    """

    rules: CacheRules
    _until: dict[int, float] = field(factory=dict, init=False, repr=False)
    _lives: dict[int, float] = field(factory=dict, init=False, repr=False)

    def send(self, prompt: Prompt, at: float, output: int = 0) -> Usage:
        """The bill of one request.

        Args:
            prompt: What is sent.
            at: When it is sent, in seconds; never earlier than the request before.
            output: Tokens of its answer.
        """
        if self.rules.kind == "prefix":
            return self._prefix(prompt, at, output)
        if self.rules.kind == "marks":
            return self._marks(prompt, at, output)
        if self.rules.kind == "turns":
            return self._turns(prompt, at, output)
        return Usage(fresh=prompt.tokens, output=output)

    def hold(self, prompt: Prompt, at: float, seconds: float) -> Usage:
        """Keep a prompt for a fixed time, as Gemini's explicit ``cachedContents`` does; what creating it bills.

        Args:
            prompt: What is kept.
            at: When it is created, in seconds on the same clock as for ``send``.
            seconds: How long it is kept.
        """
        for key in prompt.keys:
            self._until[key] = max(at + seconds, self._until.get(key, 0.0))
        return Usage(fresh=prompt.tokens)

    def _alive(self, key: int, at: float) -> bool:
        return self._until.get(key, -1.0) >= at

    def _write(self, key: int, at: float, mark: Mark | None) -> None:
        """Write an entry, or use one that is there: it lives on, for the longer of its times."""
        long = self.rules.ttl_long
        lives = long if mark == "long" and long is not None else self.rules.ttl
        if self._alive(key, at):
            lives = max(lives, self._lives.get(key, 0.0))
        self._lives[key], self._until[key] = lives, at + lives

    def _use(self, key: int, at: float) -> None:
        """Read an entry: it lives its own time again."""
        self._until[key] = max(self._until[key], at + self._lives.get(key, 0.0))

    def _prefix(self, prompt: Prompt, at: float, output: int) -> Usage:
        until, end = self._until, at + self.rules.ttl
        alive = sum(1 for _ in takewhile(lambda key: until.get(key, -1.0) >= at, prompt.keys))
        for key in prompt.keys:
            until[key] = max(end, until.get(key, 0.0))
        shared = prompt.ends[alive - 1] if alive else 0
        read = self.rules.readable(shared)
        return Usage(fresh=prompt.tokens - read, cached=read, output=output)

    def _marks(self, prompt: Prompt, at: float, output: int) -> Usage:
        ends, keys, rules = prompt.ends, prompt.keys, self.rules
        marked = [place for place, block in enumerate(prompt.blocks) if block.mark][-rules.marks :]
        marked = [place for place in marked if ends[place] >= rules.smallest]
        hits: list[int] = []  # the first entry on the way back from each mark
        for place in marked:
            back = range(place, max(-1, place - rules.look_back), -1)
            hits += [hit for hit in back if self._alive(keys[hit], at)][:1]
        for hit in hits:
            self._use(keys[hit], at)
        read = max((ends[hit] for hit in hits), default=0)
        for place in marked:
            self._write(keys[place], at, prompt.blocks[place].mark)
        return self._written(prompt, read, marked, output)

    def _turns(self, prompt: Prompt, at: float, output: int) -> Usage:
        ends, keys, blocks = prompt.ends, prompt.keys, prompt.blocks
        tried = [place for place, block in enumerate(blocks) if block.mark or block.turn_end][-self.rules.candidates :]
        hit = next((place for place in reversed(tried) if self._alive(keys[place], at)), None)
        if hit is not None:
            self._use(keys[hit], at)
        marked = [place for place in tried if blocks[place].mark][-(self.rules.marks - 1) :]
        implicit = [place for place in tried if blocks[place].turn_end][-1:]
        writing = [place for place in {*marked, *implicit} if ends[place] >= self.rules.smallest]
        for place in writing:
            self._write(keys[place], at, blocks[place].mark)
        read = 0 if hit is None else ends[hit]
        return self._written(prompt, read, writing, output)

    def _written(self, prompt: Prompt, read: int, places: Sequence[int], output: int) -> Usage:
        """The bill of a request that writes up to these places: for the long time up to the deepest that asks for it.

        What lies behind the last of them is plain input.
        """
        if not self.rules.write_fee:
            return Usage(prompt.tokens - read, read, 0, 0, output)
        long = max((prompt.ends[place] for place in places if prompt.blocks[place].mark == "long"), default=0)
        last = max((prompt.ends[place] for place in places), default=0)
        written_long = max(0, long - read)
        written = max(0, last - max(read, long))
        return Usage(prompt.tokens - read - written - written_long, read, written, written_long, output)


@define
class PromptReader:
    """Cuts the requests of one conversation into blocks; a message as it was read is counted once.

    Args:
        meter: Counts messages.
        mark: The markers to set, as the most careful client does: at the end of the system prompt, of what this
            request shares with the one before, of what that shared with its own, and of the request; None for none.
        own: How the format has markers written: then those count that the request has itself, and no others.
    """

    meter: Meter
    mark: Mark | None = "short"
    own: CacheMarkers | None = None
    _known: dict[int, tuple[Message, tuple[CachedBlock, ...]]] = field(factory=dict, init=False, repr=False)
    _before: Sequence[CachedBlock] = field(factory=tuple, init=False, repr=False)
    _shared: int = field(default=0, init=False, repr=False)

    def read(self, context: Context) -> Prompt:
        """A request as blocks, tools and system prompt first."""
        on_head = [] if self.own is None else head_markers(context, self.own)
        system = None if context.system is None else tuple(map(_as_sent, context.system.parts))
        fixed = hash(("fixed", tools_as_sent(context), system))
        # Tools and system prompt are one block here: of their markers the last one stands for all.
        mark: Mark | None = None if not on_head else "long" if on_head[-1].ttl == "1h" else "short"
        blocks = [CachedBlock(fixed, self.meter.fixed(context), mark)]
        leading = list(takewhile(lambda message: message.role in SYSTEM_ROLES, context.messages))
        for message in leading:
            blocks.extend(self._blocks(message))
        head = len(blocks)
        for message in context.messages[len(leading) :]:
            blocks.extend(self._blocks(message))
        if self.own is None and self.mark is not None:
            pairs = takewhile(lambda pair: pair[0].key == pair[1].key, zip(blocks, self._before, strict=False))
            shared = sum(1 for _ in pairs) or head
            for end in {head, min(self._shared or head, shared), shared, len(blocks)}:
                blocks[end - 1] = evolve(blocks[end - 1], mark=self.mark)
            self._before, self._shared = blocks, shared
        return Prompt.of(blocks)

    def _blocks(self, message: Message) -> tuple[CachedBlock, ...]:
        if not message.untouched:
            return self._cut(message)
        known = self._known.get(id(message))
        if known is None:
            known = self._known[id(message)] = message, self._cut(message)
        return known[1]

    def _cut(self, message: Message) -> tuple[CachedBlock, ...]:
        parts = [place for place, part in enumerate(message.parts) if not is_marker(part)]
        heard = message.role in {"user", "tool"}
        if not parts:
            return (CachedBlock(hash(message.role), self.meter.message(message), turn_end=heard),)
        # The first part takes what the message itself costs.
        whole, sizes = self.meter.message(message), [0]
        if len(message.parts) > 1:
            sizes = [self.meter.parts((part,)) for part in message.parts]
        sizes[0] = max(0, whole - sum(sizes[1:]))
        markers = () if self.own is None else self.own.of(message)
        marks: dict[int, Mark] = {marker.place: "long" if marker.ttl == "1h" else "short" for marker in markers}
        keys = {at: hash((message.role, _as_sent(message.parts[at]))) for at in parts}
        return tuple(
            CachedBlock(keys[at], sizes[at], marks.get(at), turn_end=heard and at == parts[-1]) for at in parts
        )


def _as_sent(part: Part) -> Hashable:
    """What is sent of a part, but for cache markers: of blocks that are not understood only the kind has a hash."""
    if isinstance(part, Opaque):
        return None if is_marker(part) else (part.kind, serialise(without_marker(part.data)))
    return (part, *map(_as_sent, part.content)) if isinstance(part, ToolResult) else part
