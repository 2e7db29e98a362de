"""The Converse format of Amazon Bedrock, read and written without loss.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen

from agentctx.core.message import Message, Part, Text, Tool, ToolCall, ToolResult
from agentctx.core.validity import Violation
from agentctx.errors import InvalidInput
from agentctx.models.profile import ModelProfile
from agentctx.protocols import CacheMarkers
from agentctx.providers import cache_markers
from agentctx.providers.bedrock.blocks import read_content, read_message, recognise, write_message
from agentctx.providers.bedrock.repair import IDS, arrange_for, mend
from agentctx.providers.bedrock.rules import violations
from agentctx.providers.native import fields, fields_or_none, mapping_or_none
from agentctx.providers.translate.target import numbered


@frozen
class Bedrock:
    """The Converse format (``protocols.WireFormat``).

    Args:
        name: The format's name.
        system_apart: The system prompt is kept apart from the messages.
        merges_turns: Newer models take neighbouring messages of one role as one turn.
        results_anywhere: Results stand directly after the turn of their calls.
        unique_ids: Claude, the family most called here, refuses an id that occurs twice.
        most_calls: A message may hold any number of calls.
        answers_server_calls: A call that the server runs has its result, unless its turn is not over.
    """

    name: str = "bedrock"
    system_apart: bool = True
    merges_turns: bool = True
    results_anywhere: bool = False
    unique_ids: bool = True
    most_calls: int | None = None
    answers_server_calls: bool = True

    @property
    def cache_markers(self) -> CacheMarkers:
        """How cache markers are written."""
        return cache_markers.BEDROCK

    def recognises(self, request: Mapping[str, Any], /) -> int:
        """How surely this request is in this format: 0 means impossible, higher is surer."""
        return recognise(request)

    def read_message(self, native: object, index: int, /) -> Message:
        """One native message as a value that remembers it.

        Args:
            native: The message.
            index: Its place among the messages; used in errors.

        Raises:
            InvalidInput: If it cannot be read; names ``messages[index]`` and the field.
        """
        return read_message(native, index)

    def read_system(self, native: object, /) -> Message | None:
        """The system prompt (a list of blocks, or a string) as a value; None when there is none.

        Raises:
            InvalidInput: If it cannot be read; names the place in ``system``.
        """
        if native is None:
            return None
        try:
            parts: tuple[Part, ...] = (
                (Text(native, source=native),) if isinstance(native, str) else read_content(native)
            )
        except InvalidInput as error:
            raise InvalidInput(where=f"system{error.where}", what=error.what) from error
        return Message.read("system", parts, native)

    def read_tools(self, native: Sequence[Any] | None, /) -> tuple[Tool, ...]:
        """The members of ``toolConfig.tools`` as values.

        Raises:
            InvalidInput: If one is neither a mapping nor an SDK object.
        """
        return tuple(_read_tool(tool, index) for index, tool in enumerate(native or ()))

    def write_message(self, message: Message, /) -> object:
        """A message as this format writes it: the payload it was read from when nobody touched it."""
        return message.source if message.as_read else write_message(message)

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
        """The messages as the model takes them one after the other; the same object when it takes them as they are."""
        return arrange_for(messages, profile, note, after)

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
            request: ``messages`` and what else the provider takes (``modelId``, ``system``, ``toolConfig``, …).
            profile: The model's profile; without it the model is known by its id in the request; when there is none,
                only the rules of all models are checked.
            before: The request that this one was made from; with it, signed reasoning is compared too.
        """
        return violations(request, profile, before)


def _read_tool(native: object, index: int) -> Tool:
    tool = fields(native, f"tools[{index}]")
    spec = fields_or_none(tool.get("toolSpec")) or fields_or_none(tool.get("systemTool")) or {}
    name, description = spec.get("name"), spec.get("description")
    schema = fields_or_none(spec.get("inputSchema")) or {}
    return Tool(
        name if isinstance(name, str) else "",
        description if isinstance(description, str) else "",
        mapping_or_none(schema.get("json")),
        source=native,
    )
