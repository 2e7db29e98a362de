"""A Converse request as the rules look at it: never refused, whatever is in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, Literal

from attrs import frozen

from agentctx.core.profile import ModelProfile
from agentctx.core.violation import Violation
from agentctx.wire.bedrock.read import kind_of
from agentctx.wire.native import fields_or_none

NOTHING: Mapping[str, Any] = {}
_FAMILY = re.compile(
    r"claude|qwen|nova|mi[sx]tral|magistral|llama|command|jamba|deepseek|gpt-oss|kimi|glm|minimax|titan"
)


@frozen
class BlockAt:
    """One content block.

    Args:
        message: Index of its message; None in the system prompt.
        path: Its place, as the provider writes it, for example ``messages.3.content.1``.
        role: The role of its message.
        kind: The member that it holds; empty when it holds none.
        data: The block itself.
    """

    message: int | None
    path: str
    role: str
    kind: str
    data: Mapping[str, Any]

    @property
    def held(self) -> Mapping[str, Any]:
        """What it holds, when that is an object; else empty."""
        return fields_or_none(self.data.get(self.kind)) or NOTHING

    @property
    def text(self) -> str | None:
        """Its text, when it is one."""
        text = self.data.get("text")
        return text if isinstance(text, str) else None

    @property
    def call(self) -> str | None:
        """The id of the call, when it is a caller's own tool call or the result of one."""
        if self.kind not in {"toolUse", "toolResult"} or self.held.get("type") is not None:
            return None
        found = self.held.get("toolUseId")
        return found if isinstance(found, str) else None

    @property
    def inner(self) -> tuple[BlockAt, ...]:
        """The blocks in the content of a tool result."""
        if self.kind != "toolResult":
            return ()
        return blocks_of(self.held.get("content"), self.message, f"{self.path}.toolResult.content", self.role)


@frozen
class Entry:
    """One message.

    Args:
        index: Its index.
        role: Its role; empty when it is no string.
        data: The message itself; empty when it is no object.
        blocks: Its content.
    """

    index: int
    role: str
    data: Mapping[str, Any]
    blocks: tuple[BlockAt, ...]

    @property
    def path(self) -> str:
        """Its place, as the provider writes it."""
        return f"messages.{self.index}"


@frozen
class Turn:
    """Neighbouring messages of one role, which newer models take as one.

    Args:
        role: ``"user"`` or ``"assistant"``.
        entries: Its messages.
    """

    role: str
    entries: tuple[Entry, ...]

    def of_kind(self, kind: str) -> tuple[BlockAt, ...]:
        """Its blocks of one kind that belong to the caller's own tools."""
        return tuple(block for entry in self.entries for block in entry.blocks if block.kind == kind and block.call)


@frozen
class Request:
    """A request, laid out.

    Args:
        data: The request itself.
        entries: Its messages, in order.
        turns: Its user and assistant messages, grouped by role.
        system: The blocks of the system prompt.
        model: The model's id; empty when none is named.
        profile: The model's profile, if known.
    """

    data: Mapping[str, Any]
    entries: tuple[Entry, ...]
    turns: tuple[Turn, ...]
    system: tuple[BlockAt, ...]
    model: str
    profile: ModelProfile | None

    @property
    def family(self) -> str:
        """The model's family; empty when it is not known."""
        found = _FAMILY.search(self.model.lower())
        return found[0] if found else ""

    @property
    def blocks(self) -> Iterator[BlockAt]:
        """The blocks of all messages, in order."""
        return (block for entry in self.entries for block in entry.blocks)

    @property
    def tools(self) -> tuple[Mapping[str, Any], ...] | None:
        """The members of ``toolConfig.tools`` (or of ``tools``); None when there is no such list."""
        config = fields_or_none(self.data.get("toolConfig")) or NOTHING
        given = config.get("tools", self.data.get("tools"))
        if not isinstance(given, (list, tuple)):
            return None
        return tuple(fields_or_none(tool) or NOTHING for tool in given)


def lay_out(data: Mapping[str, Any], profile: ModelProfile | None) -> Request:
    """Lay a request out; its model is known by the profile, else by its id."""
    native = data.get("messages")
    given = native if isinstance(native, (list, tuple)) else ()
    entries = tuple(_entry(message, index) for index, message in enumerate(given))
    named = data.get("modelId", data.get("model"))
    model = profile.family if profile is not None else named if isinstance(named, str) else ""
    system = data.get("system")
    said = ({"text": system},) if isinstance(system, str) else system
    return Request(data, entries, tuple(_turns(entries)), blocks_of(said, None, "system", "system"), model, profile)


def blocks_of(content: object, message: int | None, path: str, role: str) -> tuple[BlockAt, ...]:
    """Content blocks; none when there is no list of them."""
    if not isinstance(content, (list, tuple)):
        return ()
    return tuple(_block(native, message, f"{path}.{place}", role) for place, native in enumerate(content))


def refused(
    rule: str, at: BlockAt | Entry | None, message: str, path: str = "", severity: Literal["error", "warn"] = "error"
) -> Violation:
    """A rule broken at a block or a message (None: the request as a whole).

    Args:
        rule: The rule's name without ``br.``.
        at: Where.
        message: The provider's words.
        path: The place, when it is not the block or message itself.
        severity: See ``Violation``.
    """
    index = at.message if isinstance(at, BlockAt) else None if at is None else at.index
    return Violation(f"br.{rule}", severity, index, path or ("messages" if at is None else at.path), message)


def _entry(native: object, index: int) -> Entry:
    message = fields_or_none(native) or NOTHING
    named = message.get("role")
    role = named if isinstance(named, str) else ""
    return Entry(index, role, message, blocks_of(message.get("content"), index, f"messages.{index}.content", role))


def _block(native: object, message: int | None, path: str, role: str) -> BlockAt:
    data = fields_or_none(native) or NOTHING
    return BlockAt(message, path, role, kind_of(data), data)


def _turns(entries: Iterable[Entry]) -> Iterator[Turn]:
    speaking = (entry for entry in entries if entry.role in {"user", "assistant"})
    for role, run in groupby(speaking, key=lambda entry: entry.role):
        yield Turn(role, tuple(run))
