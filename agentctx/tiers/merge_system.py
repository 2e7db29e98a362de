"""Background blocks written into the system message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import field, frozen

from agentctx.core.message import Message
from agentctx.core.parts import Media, Part, Text
from agentctx.tiers.formatter import Section
from agentctx.tiers.rendering import Rendering, XmlTags
from agentctx.tiers.tier import Tier, as_tier


@frozen
class MergeSystem:
    """One system message: the words of the ``SYSTEM`` tier as they are, and after them the background blocks as text.

    Text alone is merged. What else the system messages hold stays in the system message; images and other media of
    a background block follow as a user's message of their own; messages with tool calls, results or reasoning stay
    messages. Without a background block the system messages stay as they are.

    Args:
        render: How the texts of the background blocks are written.
        upto: The last tier that is background.
    """

    render: Rendering = field(default=XmlTags())
    upto: Tier = field(default=Tier.RAG, converter=as_tier)

    async def __call__(self, sections: Sequence[Section], /) -> Sequence[Message]:
        """The system message, what could not be merged, and the rest."""
        heads: list[Message] = []
        texts: list[tuple[str, str]] = []
        rest: list[Message] = []
        for section in sections:
            for message in section.messages:
                if section.tier <= Tier.SYSTEM and message.role in ("system", "developer"):
                    heads.append(message)
                elif section.tier <= self.upto and _is_plain(message):
                    texts.append((section.id, message.text))
                    rest.extend(_media_of(message))
                else:
                    rest.append(message)
        if not texts:
            return [*heads, *rest]
        return [_merged(heads, self.render(texts)), *rest]


def _is_plain(message: Message) -> bool:
    return all(isinstance(part, (Text, Media)) for part in message.parts)


def _media_of(message: Message) -> list[Message]:
    media = tuple(part for part in message.parts if isinstance(part, Media))
    return [Message("user", media)] if media else []


def _merged(heads: Sequence[Message], text: str) -> Message:
    """One text when the system messages are text without marks; else their parts as they are, and the text behind."""
    parts: tuple[Part, ...] = tuple(part for head in heads for part in head.parts)
    role = heads[0].role if heads else "system"
    if all(isinstance(part, Text) and not isinstance(part.source, Mapping) for part in parts):
        said = "\n\n".join(head.text for head in heads if head.text)
        return Message(role, (Text(f"{said}\n{text}" if said else text),))
    return Message(role, (*parts, Text("\n" + text)))
