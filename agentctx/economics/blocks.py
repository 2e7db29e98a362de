"""A request as the blocks that a provider's cache sees."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from attrs import define, evolve, field

from agentctx.core.message import SYSTEM_ROLES, Context, Message
from agentctx.economics.cache import Block, Mark, Prompt
from agentctx.protocols import Meter


@define
class BlockReader:
    """Cuts the requests of one conversation into blocks; a message as it was read is counted once.

    Args:
        meter: Counts messages.
        mark: The markers to set, as a careful client does: at the end of the system prompt and of the request; None
            for none.
    """

    meter: Meter
    mark: Mark | None = "short"
    _known: dict[int, tuple[Message, tuple[Block, ...]]] = field(factory=dict, init=False, repr=False)

    def read(self, context: Context) -> Prompt:
        """A request as blocks, tools and system prompt first."""
        blocks = [Block(("fixed", context.tools, context.system), self.meter.fixed(context))]
        leading = list(takewhile(lambda message: message.role in SYSTEM_ROLES, context.messages))
        for message in leading:
            blocks.extend(self._blocks(message))
        blocks[-1] = evolve(blocks[-1], mark=self.mark)
        for message in context.messages[len(leading) :]:
            blocks.extend(self._blocks(message))
        blocks[-1] = evolve(blocks[-1], mark=self.mark)
        return Prompt.of(blocks)

    def _blocks(self, message: Message) -> tuple[Block, ...]:
        if not message.untouched:
            return self._cut(message)
        known = self._known.get(id(message))
        if known is None:
            known = self._known[id(message)] = message, self._cut(message)
        return known[1]

    def _cut(self, message: Message) -> tuple[Block, ...]:
        sizes = self._sizes(message)
        keys = [hash((message.role, part)) for part in message.parts] or [hash(message.role)]
        heard = message.role in {"user", "tool"}
        return tuple(
            Block(key, size, turn_end=heard and place == len(keys) - 1)
            for place, (key, size) in enumerate(zip(keys, sizes, strict=True))
        )

    def _sizes(self, message: Message) -> Sequence[int]:
        """Tokens of each part, with what the message itself costs on the first."""
        whole = self.meter.message(message)
        if len(message.parts) < 2:
            return [whole]
        sizes = [self.meter.parts((part,)) for part in message.parts]
        return [max(0, whole - sum(sizes[1:])), *sizes[1:]]
