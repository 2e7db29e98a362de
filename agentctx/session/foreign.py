"""What another model thought: left out when a model is called that does not take it."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from agentctx.core.message import Context, Message
from agentctx.models.table import shares_reasoning
from agentctx.protocols import Call
from agentctx.providers.translate.parts import FOREIGN_REASONING

FOREIGN_ID = f"its id is tied to reasoning, and {FOREIGN_REASONING}"


def understands(model: str | None, other: str | None) -> bool:
    """Whether a model takes the reasoning of another; of a model that is not named, nothing is known against it."""
    return model is None or other is None or model == other or shares_reasoning(model, other)


@frozen
class DropForeignReasoning:
    """Leave out the reasoning of messages from before the model was changed.

    Args:
        origins: For each message, its index in the history.
        until: The first index in the history that the model of now may have made.
    """

    origins: Sequence[int]
    until: int

    async def __call__(self, context: Context, call: Call, /) -> Context:
        """Return the context without it."""
        wire = call.wire
        if wire is None:
            return context
        kept: list[Message] = []
        for message, origin in zip(context.messages, self.origins, strict=True):
            bare = wire.without_reasoning(message) if origin < self.until else message
            if bare is not message:
                by_id_only = bare is not None and bare.given is not None
                call.note(message, FOREIGN_ID if by_id_only else FOREIGN_REASONING)
            if bare is not None:
                kept.append(bare)
        same = len(kept) == len(context.messages) and all(map(_is, kept, context.messages))
        return context if same else context.with_messages(tuple(kept))


def _is(one: Message, other: Message) -> bool:
    return one is other
