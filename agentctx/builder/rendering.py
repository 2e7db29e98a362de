"""Blocks written as text, for a system message."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from attrs import field, frozen

from agentctx.core.message import Media, Message, Part, Text
from agentctx.core.tier import Tier, as_tier
from agentctx.errors import ConfigError

_NOT_IN_A_NAME = re.compile(r"[^\w.-]")


class Rendering(Protocol):
    """Writes texts, each with the name of the block that it comes from, as one text."""

    def __call__(self, texts: Sequence[tuple[str, str]], /) -> str:
        """The text that stands for ``(block, text)`` pairs, in order; never empty."""
        ...


def _tag(_instance: object, attribute: object, value: str | None) -> None:
    if value is not None and tag_name(value) != value:
        msg = f"XmlTags: {getattr(attribute, 'name', 'tag')}: {value!r} cannot be the name of an XML tag"
        raise ConfigError(msg)


def tag_name(name: str) -> str:
    """The name, or what is nearest to it among the names that an XML tag can have."""
    legal = _NOT_IN_A_NAME.sub("_", name)
    return legal if legal[:1].isalpha() or legal.startswith("_") else f"_{legal}"


def escape(text: str) -> str:
    """The text with ``&``, ``<``, ``>`` and quotes written so that neither a tag nor an attribute can be forged."""
    return html.escape(text, quote=True)


@frozen
class XmlTags:
    """Each text in a tag of its own, all of them in one around.

    Args:
        wrapper: The tag around all.
        item: The tag around each text; None names it after the block.

    Raises:
        ConfigError: If a name cannot be that of a tag.

    Example:
        >>> from agentctx.builder import XmlTags
        >>> print(XmlTags()([("rules", "Be brief.")]))
        <context>
          <rules>Be brief.</rules>
        </context>
    """

    wrapper: str = field(default="context", validator=_tag)
    item: str | None = field(default=None, validator=_tag)

    def __call__(self, texts: Sequence[tuple[str, str]], /) -> str:
        """``<context>``, a line for each text, ``</context>``."""
        lines = [f"<{self.wrapper}>"]
        for block, text in texts:
            tag = self.item or tag_name(block)
            lines.append(f"  <{tag}>{escape(text)}</{tag}>")
        return "\n".join((*lines, f"</{self.wrapper}>"))


@frozen
class MarkdownList:
    """A heading, and each text as an item of a list; nothing is escaped.

    Args:
        header: The heading.

    Example:
        >>> from agentctx.builder import MarkdownList
        >>> print(MarkdownList("Known")([("rules", "Be brief."), ("task", "Mend it.")]))
        ### Known
        - Be brief.
        - Mend it.
    """

    header: str = "Context"

    def __call__(self, texts: Sequence[tuple[str, str]], /) -> str:
        """``### Context``, and a line that begins with ``- `` for each text; its further lines are indented."""
        items = ["- " + text.replace("\n", "\n  ") for _, text in texts]
        return "\n".join((f"### {self.header}", *items))


@frozen
class Section:
    """What is left of a block.

    Args:
        id: The block's name.
        tier: Its tier.
        messages: What goes out of it; never empty.
    """

    id: str
    tier: Tier
    messages: tuple[Message, ...]


class Formatter(Protocol):
    """Makes one list of messages of the sections. A plain async function qualifies.

    Its answer is held to a contract: messages, no call without its result, signed reasoning whole or not at all, the
    user's newest words as they were, and all of it within the budget, else the blocks are cut further and it is asked
    again.
    """

    async def __call__(self, sections: Sequence[Section], /) -> Sequence[Message]:
        """The messages of the request, from sections in the order of the request."""
        ...


async def concatenate(sections: Sequence[Section], /) -> Sequence[Message]:
    """The messages one section after the other, as they are."""
    return [message for section in sections for message in section.messages]


@frozen
class MergeSystem:
    """One system message: the words of the ``SYSTEM`` tier as they are, and after them the background blocks as text.

    Text alone is merged. What else the system messages hold stays in the system message; images and other media of
    a background block follow as a user's message of their own; messages with tool calls, results or reasoning stay
    messages. Without a background block the system messages stay as they are.

    Args:
        render: How the texts of the background blocks are written.
        upto: The last tier that is background.

    Example:
        >>> from agentctx.builder import ContextBuilder, MarkdownList, MergeSystem
        >>> builder = ContextBuilder(16_000, formatter=MergeSystem(MarkdownList()))
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
                elif section.tier <= self.upto and all(isinstance(part, (Text, Media)) for part in message.parts):
                    texts.append((section.id, message.text))
                    media = tuple(part for part in message.parts if isinstance(part, Media))
                    rest.extend([Message("user", media)] if media else [])
                else:
                    rest.append(message)
        if not texts:
            return [*heads, *rest]
        return [_merged(heads, self.render(texts)), *rest]


def _merged(heads: Sequence[Message], text: str) -> Message:
    """One text when the system messages are text without marks; else their parts as they are, and the text behind."""
    parts: tuple[Part, ...] = tuple(part for head in heads for part in head.parts)
    role = heads[0].role if heads else "system"
    if all(isinstance(part, Text) and not isinstance(part.source, Mapping) for part in parts):
        said = "\n\n".join(head.text for head in heads if head.text)
        return Message(role, (Text(f"{said}\n{text}" if said else text),))
    return Message(role, (*parts, Text("\n" + text)))
