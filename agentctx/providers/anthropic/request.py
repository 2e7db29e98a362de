"""An Anthropic Messages request as the rules look at it: never refused, whatever is in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from attrs import frozen

from agentctx.models import names
from agentctx.models.profile import ModelProfile
from agentctx.providers.native import mapping_or_none, string_of
from agentctx.wire_format import Violation

_NO_FORCED_CHOICE = re.compile(r"claude-(?:(?:opus|sonnet)-5-5|(?:fable|mythos)-5-1)(?!\d)")


@frozen
class Traits:
    """What a model takes; where the model is not known, everything that some model takes.

    Args:
        bound_thinking: Whether each thinking block is bound to all that stands before it.
        system_in_messages: Whether system messages may stand among the messages.
        prefill: Whether the request may end on words of the assistant.
        forced_choice: Whether ``tool_choice`` may force a tool.
        window: The context window in tokens, when known.
    """

    bound_thinking: bool = False
    system_in_messages: bool = True
    prefill: bool = True
    forced_choice: bool = True
    window: int | None = None


def traits(model: str | None, profile: ModelProfile | None) -> Traits:
    """What a model takes: by its profile when there is one, else by its name."""
    name = ((model or "") if profile is None else profile.family).lower().replace(".", "-")
    forced_choice = not _NO_FORCED_CHOICE.search(name)
    if profile is not None:
        return Traits(
            profile.bound_thinking, profile.system_in_messages, profile.prefill, forced_choice, profile.window
        )
    if "claude" not in name:
        return Traits()
    return Traits(
        bound_thinking=bool(names.BOUND_THINKING.search(name)),
        system_in_messages=bool(names.SYSTEM_IN_MESSAGES.search(name)),
        prefill=not names.NO_PREFILL.search(name),
        forced_choice=forced_choice,
    )


THINKING = frozenset({"thinking", "redacted_thinking"})
NOTHING: Mapping[str, Any] = {}


@frozen
class ContentBlock:
    """One content block.

    Args:
        message: Index of its message; None in the system prompt.
        path: Its place, as the provider writes it, for example ``messages.3.content.1``.
        role: The role of its message.
        kind: Its type; empty when it has none.
        data: The block itself.
    """

    message: int | None
    path: str
    role: str
    kind: str
    data: Mapping[str, Any]

    def string(self, key: str) -> str | None:
        """The value of a key when it is a string."""
        return string_of(self.data, key)

    @property
    def inner(self) -> tuple[ContentBlock, ...]:
        """The blocks in the content of a tool result; a string is no block."""
        content = self.data.get("content")
        if self.kind != "tool_result" or not isinstance(content, (list, tuple)):
            return ()
        return _blocks(content, self.message, f"{self.path}.tool_result.content", self.role)


@frozen
class Entry:
    """One message.

    Args:
        index: Its index.
        role: Its role; empty when it is no string.
        data: The message itself; empty when it is no object.
        blocks: Its content; a string is one text block.
    """

    index: int
    role: str
    data: Mapping[str, Any]
    blocks: tuple[ContentBlock, ...]

    @property
    def path(self) -> str:
        """Its place, as the provider writes it."""
        return f"messages.{self.index}"


@frozen
class Turn:
    """Neighbouring messages of one role, which the provider merges. System messages do not part them.

    Args:
        role: ``"user"`` or ``"assistant"``.
        entries: Its messages.
    """

    role: str
    entries: tuple[Entry, ...]

    @property
    def blocks(self) -> tuple[ContentBlock, ...]:
        """The blocks of all its messages."""
        return tuple(block for entry in self.entries for block in entry.blocks)

    @property
    def only_results(self) -> bool:
        """Whether it is nothing but tool results."""
        return self.role == "user" and all(block.kind == "tool_result" for block in self.blocks)


@frozen
class MessagesRequest:
    """A request, laid out.

    Args:
        data: The request itself.
        entries: Its messages, in order.
        turns: Its user and assistant messages, merged by role.
        system: The blocks of the system prompt.
        tools: The tool definitions.
        model: What the model takes and refuses.
    """

    data: Mapping[str, Any]
    entries: tuple[Entry, ...]
    turns: tuple[Turn, ...]
    system: tuple[ContentBlock, ...]
    tools: tuple[Mapping[str, Any], ...]
    model: Traits

    @property
    def blocks(self) -> Iterator[ContentBlock]:
        """The blocks of all messages, in order."""
        return (block for entry in self.entries for block in entry.blocks)

    def option(self, key: str) -> Mapping[str, Any]:
        """An option of the request that is an object; empty when it is not."""
        return mapping_or_none(self.data.get(key)) or NOTHING


def lay_out(data: Mapping[str, Any], profile: ModelProfile | None) -> MessagesRequest:
    """Lay a request out; without a profile its model is known by its name."""
    messages, tools = data.get("messages"), data.get("tools")
    native = messages if isinstance(messages, (list, tuple)) else ()
    entries = tuple(_entry(message, index) for index, message in enumerate(native))
    return MessagesRequest(
        data,
        entries,
        tuple(_turns(entries)),
        _blocks(data.get("system"), None, "system", "system"),
        tuple(mapping_or_none(tool) or NOTHING for tool in (tools if isinstance(tools, (list, tuple)) else ())),
        traits(string_of(data, "model"), profile),
    )


def refused(
    rule: str,
    at: ContentBlock | Entry | None,
    message: str,
    path: str = "",
    severity: Literal["error", "warn"] = "error",
) -> Violation:
    """A rule broken at a block or a message (None: the request as a whole)."""
    index = at.message if isinstance(at, ContentBlock) else None if at is None else at.index
    return Violation(f"anth.{rule}", severity, index, path or ("messages" if at is None else at.path), message)


def _entry(native: object, index: int) -> Entry:
    message = mapping_or_none(native) or NOTHING
    role = string_of(message, "role") or ""
    return Entry(index, role, message, _blocks(message.get("content"), index, f"messages.{index}.content", role))


def _blocks(content: object, message: int | None, path: str, role: str) -> tuple[ContentBlock, ...]:
    if isinstance(content, str):
        return (ContentBlock(message, path, role, "text", {"type": "text", "text": content}),)
    if not isinstance(content, (list, tuple)):
        return ()
    return tuple(_block(native, message, f"{path}.{place}", role) for place, native in enumerate(content))


def _block(native: object, message: int | None, path: str, role: str) -> ContentBlock:
    data = mapping_or_none(native) or NOTHING
    return ContentBlock(message, path, role, string_of(data, "type") or "", data)


def _turns(entries: Iterable[Entry]) -> Iterator[Turn]:
    run: list[Entry] = []
    for entry in entries:
        if entry.role not in {"user", "assistant"}:
            continue
        if run and run[-1].role != entry.role:
            yield Turn(run[0].role, tuple(run))
            run = []
        run.append(entry)
    if run:
        yield Turn(run[0].role, tuple(run))
