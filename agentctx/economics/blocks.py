"""A request as the blocks that a provider's cache sees."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from attrs import define, evolve, field

from agentctx.core.marker import CacheMarker, is_marker
from agentctx.core.message import SYSTEM_ROLES, Context, Message
from agentctx.economics.cache import Block, Mark, Prompt
from agentctx.protocols import CacheMarkers, Meter, head_markers


@define
class BlockReader:
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
    _known: dict[int, tuple[Message, tuple[Block, ...]]] = field(factory=dict, init=False, repr=False)
    _before: Sequence[Block] = field(factory=tuple, init=False, repr=False)
    _shared: int = field(default=0, init=False, repr=False)

    def read(self, context: Context) -> Prompt:
        """A request as blocks, tools and system prompt first."""
        on_head = [] if self.own is None else head_markers(context, self.own)
        blocks = [Block(("fixed", context.tools, context.system), self.meter.fixed(context), _deepest(on_head))]
        leading = list(takewhile(lambda message: message.role in SYSTEM_ROLES, context.messages))
        for message in leading:
            blocks.extend(self._blocks(message))
        head = len(blocks)
        for message in context.messages[len(leading) :]:
            blocks.extend(self._blocks(message))
        if self.own is None and self.mark is not None:
            self._set_marks(blocks, head)
        return Prompt.of(blocks)

    def _set_marks(self, blocks: list[Block], head: int) -> None:
        pairs = takewhile(lambda pair: pair[0].key == pair[1].key, zip(blocks, self._before, strict=False))
        shared = sum(1 for _ in pairs) or head
        for end in {head, min(self._shared or head, shared), shared, len(blocks)}:
            blocks[end - 1] = evolve(blocks[end - 1], mark=self.mark)
        self._before, self._shared = blocks, shared

    def _blocks(self, message: Message) -> tuple[Block, ...]:
        if not message.untouched:
            return self._cut(message)
        known = self._known.get(id(message))
        if known is None:
            known = self._known[id(message)] = message, self._cut(message)
        return known[1]

    def _cut(self, message: Message) -> tuple[Block, ...]:
        parts = [place for place, part in enumerate(message.parts) if not is_marker(part)]
        heard = message.role in {"user", "tool"}
        if not parts:
            return (Block(hash(message.role), self.meter.message(message), turn_end=heard),)
        sizes, marks = self._sizes(message), self._own_marks(message)
        return tuple(
            Block(hash((message.role, message.parts[at])), sizes[at], marks.get(at), turn_end=heard and at == parts[-1])
            for at in parts
        )

    def _own_marks(self, message: Message) -> dict[int, Mark]:
        found = () if self.own is None else self.own.of(message)
        return {marker.place: "long" if marker.ttl == "1h" else "short" for marker in found}

    def _sizes(self, message: Message) -> Sequence[int]:
        """Tokens of each part, with what the message itself costs on the first."""
        whole = self.meter.message(message)
        if len(message.parts) < 2:
            return [whole]
        sizes = [self.meter.parts((part,)) for part in message.parts]
        return [max(0, whole - sum(sizes[1:])), *sizes[1:]]


def _deepest(markers: Sequence[CacheMarker]) -> Mark | None:
    """The one mark that stands for those on tools and system prompt, which are one block here."""
    if not markers:
        return None
    return "long" if markers[-1].ttl == "1h" else "short"
