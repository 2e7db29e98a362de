"""The Anthropic Messages format, read and written without loss.

Source: https://docs.anthropic.com/en/api/messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from attrs import frozen

from agentctx.core.message import Message, Tool
from agentctx.core.parts import Text, ToolCall, ToolResult
from agentctx.core.profile import ModelProfile
from agentctx.core.violation import Violation
from agentctx.errors import InvalidInput
from agentctx.protocols import CacheMarkers
from agentctx.wire import cache_markers
from agentctx.wire.anthropic.blocks import freed, read_content, write_content
from agentctx.wire.anthropic.mend import IDS, mend
from agentctx.wire.anthropic.place import place_system
from agentctx.wire.anthropic.recognise import recognise
from agentctx.wire.anthropic.rules import violations
from agentctx.wire.native import as_mapping, mapping_or_none
from agentctx.wire.translate.ids import numbered

ROLES = ("user", "assistant", "system")
_WRITTEN_ROLES = {"tool": "user", "developer": "system"}


@frozen
class Anthropic:
    """The Anthropic Messages format (``protocols.WireFormat``).

    Args:
        name: The format's name.
        system_apart: The system prompt is kept apart from the messages.
        merges_turns: Neighbouring messages of one role are one turn.
        results_anywhere: Results stand directly after the turn of their calls.
        unique_ids: A call id may occur only once in a request.
        most_calls: A message may hold any number of calls.
        answers_server_calls: A call that the server runs has its result, unless its turn is not over.
    """

    name: str = "anthropic"
    system_apart: bool = True
    merges_turns: bool = True
    results_anywhere: bool = False
    unique_ids: bool = True
    most_calls: int | None = None
    answers_server_calls: bool = True

    @property
    def cache_markers(self) -> CacheMarkers:
        """How cache markers are written."""
        return cache_markers.ANTHROPIC

    def recognises(self, request: Mapping[str, Any], /) -> int:
        """How surely this request is in this format: 0 means impossible, higher is surer."""
        return recognise(request)

    def read_message(self, native: object, index: int, /) -> Message:
        """One native message (a mapping or an SDK object) as a value that remembers it.

        Args:
            native: The message.
            index: Its place among the messages; used in errors.

        Raises:
            InvalidInput: If it cannot be read; names ``messages[index]`` and the field.
        """
        message: Mapping[str, Any] = native if type(native) is dict else as_mapping(native, f"messages[{index}]")
        role = message.get("role")
        if role not in ROLES:
            raise InvalidInput(
                where=f"messages[{index}].role", what=f"expected one of {', '.join(ROLES)}, got {role!r}"
            )
        if "content" not in message and role != "system":
            raise InvalidInput(where=f"messages[{index}].content", what="missing")
        try:
            parts = read_content(message.get("content"))
        except InvalidInput as error:
            raise InvalidInput(where=f"messages[{index}].content{error.where}", what=error.what) from error
        return Message.read(role, parts, native)

    def read_system(self, native: object, /) -> Message | None:
        """The native system prompt (a string or a list of text blocks) as a value; None when there is none.

        Raises:
            InvalidInput: If it cannot be read; names the place in ``system``.
        """
        if native is None:
            return None
        try:
            parts = read_content(native)
        except InvalidInput as error:
            raise InvalidInput(where=f"system{error.where}", what=error.what) from error
        return Message.read("system", parts, native)

    def read_tools(self, native: Sequence[Any] | None, /) -> tuple[Tool, ...]:
        """The native tool definitions as values.

        Raises:
            InvalidInput: If one is neither a mapping nor an SDK object.
        """
        return tuple(_read_tool(tool, index) for index, tool in enumerate(native or ()))

    def write_message(self, message: Message, /) -> object:
        """A message as this format writes it: the payload it was read from when nobody touched it."""
        if message.as_read:
            return message.source
        old = mapping_or_none(message.source) or {}
        role = _WRITTEN_ROLES.get(message.role, message.role)
        return {**old, "role": role, "content": write_content(message.parts, old.get("content"))}

    def mend(self, messages: Sequence[Message], /) -> Sequence[tuple[int, Message | None, str]]:
        """What this format refuses and can be mended in place: (index, new message or None to drop it, why)."""
        return mend(messages)

    def arrange_for(
        self,
        messages: Sequence[Message],
        profile: ModelProfile | None,
        note: Callable[[Message, str], None],
        after: Message | None = None,
        /,
    ) -> Sequence[Message]:
        """The messages with each system message where the model takes it; the same object when they stand so."""
        return place_system(messages, profile, note, after)

    def without_callers(self, message: Message, callers: AbstractSet[str], /) -> Message:
        """The message with no word of these callers: what they called, the model called itself."""
        return message.with_parts(tuple(freed(part, callers) for part in message.parts))

    def may_end_on(self, message: Message, _profile: ModelProfile | None, /) -> bool:
        """Whether the model answers this message: its own last words are refused, or it goes on with them."""
        return message.role != "assistant"

    def numbered(self, call_id: str, number: int, /) -> str:
        """Another id for a call, made of the one that it shares with others."""
        return numbered(call_id, number, IDS)

    def synthetic_result(self, calls: Sequence[ToolCall], text: str, /) -> tuple[Message, ...]:
        """One user message that answers all the calls with ``text``, as errors."""
        if not calls:
            return ()
        return (Message("user", tuple(ToolResult(call.id, (Text(text),), is_error=True) for call in calls)),)

    def validate(
        self, request: Mapping[str, Any], profile: ModelProfile | None, before: Mapping[str, Any] | None, /
    ) -> tuple[Violation, ...]:
        """Every rule that the request breaks, in the order of its messages.

        Args:
            request: ``messages`` and what else the provider takes (``system``, ``tools``, ``thinking``, …).
            profile: The model's profile; without it the model is known by the name in the request; when there is
                none, only the rules of all models are checked.
            before: The request that this one was made from; with it, signed bytes are compared too.
        """
        return violations(request, profile, before)


def _read_tool(native: object, index: int) -> Tool:
    tool = as_mapping(native, f"tools[{index}]")
    name, description = tool.get("name"), tool.get("description")
    return Tool(
        name if isinstance(name, str) else "",
        description if isinstance(description, str) else "",
        mapping_or_none(tool.get("input_schema")),
        source=native,
    )
