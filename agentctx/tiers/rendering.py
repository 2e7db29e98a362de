"""Blocks written as text, for a system message."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Protocol

from attrs import field, frozen

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
    """

    header: str = "Context"

    def __call__(self, texts: Sequence[tuple[str, str]], /) -> str:
        """``### Context``, and a line that begins with ``- `` for each text; its further lines are indented."""
        items = ["- " + text.replace("\n", "\n  ") for _, text in texts]
        return "\n".join((f"### {self.header}", *items))
