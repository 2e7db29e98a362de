"""One message, and everything one model call sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from attrs import field, frozen

from agentctx.core.parts import Part, Text, ToolCall, ToolResult

SYSTEM_ROLES = frozenset({"system", "developer"})


class Price(NamedTuple):
    """The size of a message by one counter.

    Args:
        key: What it was counted by; compared by identity.
        tokens: Tokens.
        bytes: Bytes of text and of inline media.
    """

    key: object
    tokens: int
    bytes: int


@frozen
class Message:
    """One native message.

    Equal when it looks equal: the payload it was read from takes no part.

    Args:
        role: ``"system"``, ``"developer"``, ``"user"``, ``"assistant"`` or ``"tool"``.
        parts: What it says.
        source: The native payload it was read from, if any.
        read_as: The role and the parts as they were read from ``source``; set by the wire format.
    """

    role: str
    parts: tuple[Part, ...]
    source: Any = field(default=None, eq=False, repr=False, kw_only=True)
    read_as: tuple[str, tuple[Part, ...]] | None = field(default=None, eq=False, repr=False, kw_only=True)
    _price: Price | None = field(default=None, eq=False, repr=False, init=False)

    @property
    def untouched(self) -> bool:
        """Whether it still says what its native payload says, so that the payload itself can go back."""
        read_as = self.read_as
        return read_as is not None and read_as[1] is self.parts and read_as[0] == self.role

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls in it."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The tool results in it."""
        return tuple(part for part in self.parts if isinstance(part, ToolResult))

    @property
    def text(self) -> str:
        """The text of its own text parts (not of its tool results), joined as they stand."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    def with_parts(self, parts: tuple[Part, ...]) -> Message:
        """The same message saying something else; everything else of its native payload is kept."""
        return Message(self.role, parts, source=self.source, read_as=self.read_as)

    def price(self, key: object) -> Price | None:
        """The size that was remembered under ``key``, or None."""
        price = self._price
        return price if price is not None and price.key is key else None

    def remember_price(self, price: Price) -> None:
        """Remember this message's size; a cache, invisible to equality."""
        object.__setattr__(self, "_price", price)


@frozen
class Tool:
    """A tool that the model may call.

    Args:
        name: Its name; empty for server tools that have none.
        description: What the model is told of it.
        parameters: The JSON schema of its arguments; None when it has none.
        source: The native definition it was read from.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] | None = field(default=None, hash=False)
    source: Any = field(default=None, eq=False, repr=False, kw_only=True)


@frozen
class Context:
    """Everything that one model call sees, and everything that is counted.

    Args:
        messages: The transcript.
        system: The system prompt where the format keeps it apart from the messages, else None.
        tools: The tool definitions.
    """

    messages: tuple[Message, ...]
    system: Message | None = None
    tools: tuple[Tool, ...] = ()

    def with_messages(self, messages: tuple[Message, ...]) -> Context:
        """The same request with other messages."""
        return Context(messages, self.system, self.tools)
