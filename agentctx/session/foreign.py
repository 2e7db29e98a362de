"""What another model thought: left out when a model is called that does not take it."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from agentctx.core.message import Context, Message
from agentctx.engine.reading import known_profile
from agentctx.models.profile import ModelProfile
from agentctx.protocols import Call
from agentctx.providers.translate.parts import FOREIGN_REASONING
from agentctx.providers.translate.target import shares_reasoning, without_reasoning

FOREIGN_ID = f"its id is tied to reasoning, and {FOREIGN_REASONING}"


def understands(model: str | None, other: str | None) -> bool:
    """Whether a model takes the reasoning of another; of a model that is not named, nothing is known against it."""
    if model is None or other is None or model == other:
        return True
    profiles: tuple[ModelProfile | None, ModelProfile | None] = known_profile(model), known_profile(other)
    return shares_reasoning(model, other, profiles)


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
        kept: list[Message] = []
        for message, origin in zip(context.messages, self.origins, strict=True):
            bare = without_reasoning(message, call.format) if origin < self.until else message
            if bare is not message:
                by_id_only = bare is not None and bare.given is not None
                call.note(message, FOREIGN_ID if by_id_only else FOREIGN_REASONING)
            if bare is not None:
                kept.append(bare)
        same = len(kept) == len(context.messages) and all(map(_is, kept, context.messages))
        return context if same else context.with_messages(tuple(kept))


def _is(one: Message, other: Message) -> bool:
    return one is other
