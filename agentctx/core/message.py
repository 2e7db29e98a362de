"""One message, and everything one model call sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve, field, frozen

from agentctx.core.parts import Part, Text, ToolCall, ToolResult

SYSTEM_ROLES = frozenset({"system", "developer"})


_NOT_COUNTED = (object(), 0, 0)


@frozen
class Message:
    """One native message.

    Equal when it looks equal: the payload it was read from takes no part.

    There may be many thousands, so it brings few objects along that the garbage collector has to look at: how long
    it holds everything up depends on their number.

    Args:
        role: ``"system"``, ``"developer"``, ``"user"``, ``"assistant"`` or ``"tool"``.
        parts: What it says.
        source: The native payload it was read from, if any.
        read_role: The role as it was read from ``source``; None when it was not read from anything.
        read_parts: The parts as they were read from ``source``; None when it was not read from anything.
        given: The caller's own payload, where ``source`` is another one that was made of it; for a message without any
            payload the one that it was made of; else None.
        as_system: Whether it is a system message, also where neither ``role`` nor ``read_role`` says so: after a load,
            or when the caller has written a view back in which it went out under another role.
    """

    role: str
    parts: tuple[Part, ...]
    source: Any = field(default=None, eq=False, repr=False, kw_only=True)
    read_role: str | None = field(default=None, eq=False, repr=False, kw_only=True)
    read_parts: tuple[Part, ...] | None = field(default=None, eq=False, repr=False, kw_only=True)
    given: Any = field(default=None, eq=False, repr=False, kw_only=True)
    as_system: bool = field(default=False, eq=False, repr=False, kw_only=True)
    _counted: tuple[object, int, int] = field(default=_NOT_COUNTED, eq=False, repr=False, init=False)
    _bare: object = field(default=None, eq=False, repr=False, init=False)

    @classmethod
    def read(cls, role: str, parts: tuple[Part, ...], source: Any) -> Message:  # noqa: ANN401 - any native payload
        """What a wire format has read from the native payload ``source``."""
        return cls(role, parts, source=source, read_role=role, read_parts=parts)

    @property
    def as_read(self) -> bool:
        """Whether it says what ``source`` says, so that this can be sent."""
        return self.read_parts is self.parts and self.read_role == self.role

    @property
    def untouched(self) -> bool:
        """Whether it still says what the caller's own payload says, so that the payload itself can go back."""
        return self.given is None and self.as_read

    @property
    def is_system(self) -> bool:
        """Whether it is a system message, under whichever role it goes out."""
        return self.role in SYSTEM_ROLES or self.read_role in SYSTEM_ROLES or self.as_system

    @property
    def identity(self) -> int:
        """What it is known by whatever it says: the caller's own payload, or itself when a stage made it."""
        payload = self.payload
        return id(self if payload is None else payload)

    @property
    def payload(self) -> Any:  # noqa: ANN401 - any native payload
        """The caller's own payload; of a message made of one without a payload, that message; None for a new one."""
        return self.source if self.given is None else self.given

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
        return Message(
            self.role,
            parts,
            source=self.source,
            read_role=self.read_role,
            read_parts=self.read_parts,
            given=self if self.payload is None else self.given,
            as_system=self.as_system,
        )

    def replaced(self, made: Message) -> Message:
        """The same message as another one says it, which was read from another payload or from none."""
        payload = self.payload
        return evolve(made, given=self if payload is None else payload, as_system=self.as_system)

    def remember_count(self, mark: object, tokens: int, size: int) -> None:
        """Remember what it was counted as; a cache, invisible to equality.

        Args:
            mark: Stands for what counted it. Best a bare ``object()``: what is remembered then holds nothing that the
                garbage collector looks at, and it stops looking at what is remembered.
            tokens: Tokens.
            size: Bytes of text and of inline media.
        """
        object.__setattr__(self, "_counted", (mark, tokens, size))

    def remember_bare(self, markers: object) -> None:
        """Remember that it carries no cache marker, so that nobody looks again; a cache, invisible to equality.

        Args:
            markers: How markers are written that it has none of (``protocols.CacheMarkers``), compared by identity.
        """
        object.__setattr__(self, "_bare", markers)


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
