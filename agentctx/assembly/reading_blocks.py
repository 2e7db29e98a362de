"""Blocks of native messages as blocks of values, legal ones."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

from agentctx.core.message import Message
from agentctx.errors import InvalidInput
from agentctx.protocols import Call, TokenCounter, WireFormat
from agentctx.reading import Reader, known_profile
from agentctx.strategies.repair_history import repair
from agentctx.tiers.block import Block, names_of
from agentctx.tokens.default import default_counter
from agentctx.tokens.meter import MessageMeter
from agentctx.tokens.remembering import remembering
from agentctx.wire.registry import FORMATS, detect, format_named

USUAL = "openai-chat"
"""The format of values, and of messages that every format would write alike."""


def reader_for(
    blocks: Sequence[Block], tools: object, format_name: str | None, model: str | None, counter: TokenCounter | None
) -> Reader:
    """Find out how to read blocks, from all their messages together.

    Raises:
        AmbiguousFormat: If several formats fit, none was named, and it makes a difference.
        InvalidInput: If no format fits, or the named one is unknown.
    """
    wire = format_named(format_name) if format_name is not None else _found(blocks, tools, model)
    profile = known_profile(model)
    return Reader(
        wire,
        MessageMeter(default_counter(model) if counter is None else remembering(counter), profile, wire.name),
        profile,
    )


def _found(blocks: Sequence[Block], tools: object, model: str | None) -> WireFormat:
    natives = [message for block in blocks for message in block.messages if not isinstance(message, Message)]
    if not natives and tools is None:
        return FORMATS[USUAL]
    return detect({"messages": natives} if tools is None else {"messages": natives, "tools": tools}, model)


@define(eq=False)
class BlockReader:
    """Reads blocks, each once.

    Args:
        known: What was read, by the identity of the block; with it the format, and the block itself.
    """

    known: dict[int, tuple[Block, str, tuple[Message, ...]]] = field(factory=dict)

    def read(self, blocks: Sequence[Block], source: Reader, notes: list[str]) -> list[Block]:
        """The blocks with values for messages; what was illegal is repaired, and put into the notes.

        Raises:
            InvalidInput: If a message cannot be read; names the block, the message and the field.
        """
        self.known = {id(block): self.known.get(id(block)) or (block, "", ()) for block in blocks}
        seen: set[str] = set()
        return [
            self._legal(block, name, self._values(block, name, source), source, seen, notes)
            for block, name in zip(blocks, names_of(blocks), strict=True)
        ]

    def _values(self, block: Block, name: str, source: Reader) -> tuple[Message, ...]:
        _, format_name, values = self.known[id(block)]
        if format_name != source.wire.name:
            values = _read(block, name, source)
            self.known[id(block)] = (block, source.wire.name, values)
        return values

    def _legal(
        self, block: Block, name: str, values: tuple[Message, ...], source: Reader, seen: set[str], notes: list[str]
    ) -> Block:
        call = Call(source.meter, source.wire.name, wire=source.wire)
        legal = repair(values, call, source.wire, seen=seen)
        if legal is None:
            return block.with_messages(values)
        said = [*(reason.why for reason in call.notes.reasons.values()), *call.notes.remarks]
        notes.extend(f"{name} was repaired: {why}" for why in dict.fromkeys(said))
        return block.with_messages(legal)


def _read(block: Block, name: str, source: Reader) -> tuple[Message, ...]:
    if all(isinstance(message, Message) for message in block.messages):
        return block.messages
    try:
        natives = [message for message in block.messages if not isinstance(message, Message)]
        values = iter(source.messages(natives))
    except InvalidInput as error:
        where = f"{name}, {error.where}"
        raise InvalidInput(where, error.what) from error
    return tuple(message if isinstance(message, Message) else next(values) for message in block.messages)
