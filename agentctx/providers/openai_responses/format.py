"""OpenAI's Responses format, read and written without loss.

Source: https://platform.openai.com/docs/api-reference/responses/create.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from typing import Any

from attrs import evolve, frozen

from agentctx.core.message import Message, Native, Opaque, Tool, ToolCall, ToolResult
from agentctx.core.validity import Violation
from agentctx.errors import InvalidInput
from agentctx.models.profile import ModelProfile
from agentctx.protocols import CacheMarkers
from agentctx.providers import cache_markers
from agentctx.providers.native import mapping_or_none
from agentctx.providers.openai_responses import items, repair, rules
from agentctx.providers.openai_responses.items import (
    CALLS,
    OUTPUTS,
    REFERENCE,
    ROLES,
    SETTINGS,
    kind_of,
    lost_output,
    openai_family,
)
from agentctx.providers.translate.target import numbered, without_field

IMPOSSIBLE, POSSIBLE, LIKELY, CERTAIN = 0, 1, 5, 10

_ITEMS = frozenset({*CALLS, *OUTPUTS, *SETTINGS, REFERENCE, "message", "reasoning"})
_CHAT_KEYS = ("tool_calls", "function_call", "tool_call_id")
_BLOCKS = frozenset({"input_text", "output_text", "input_image", "input_file", "input_audio"})
_FOREIGN = frozenset(
    {"text", "image_url", "file", "image", "document", "thinking", "redacted_thinking", "tool_use", "tool_result"}
    | {"server_tool_use", "video_url"}
)


def evidence(request: Mapping[str, Any]) -> int:
    """0 impossible, 1 possible, 5 likely, 10 certain. Looks no further than the first certain sign."""
    items = request.get("input", request.get("messages"))
    if isinstance(items, str):
        return LIKELY if "input" in request else IMPOSSIBLE
    if not isinstance(items, Sequence) or "contents" in request:
        return IMPOSSIBLE
    best = _tools(request.get("tools"))
    if best in (IMPOSSIBLE, CERTAIN):
        return best
    if "input" in request or "instructions" in request:
        best = LIKELY
    for item in items:
        found = _item(item)
        if found in (IMPOSSIBLE, CERTAIN):
            return found
        best = max(best, found)
    return best


def _tools(tools: object) -> int:
    """Functions are described one level higher than in Chat Completions."""
    if not isinstance(tools, Sequence) or isinstance(tools, str) or not tools:
        return POSSIBLE
    first = mapping_or_none(tools[0]) or {}
    kind = first.get("type")
    if kind in ("function", "custom"):
        return (
            CERTAIN if isinstance(first.get("name"), str) and mapping_or_none(first.get(kind)) is None else IMPOSSIBLE
        )
    foreign = "input_schema" in first or "functionDeclarations" in first or "toolSpec" in first
    return IMPOSSIBLE if foreign else POSSIBLE


def _item(native: object) -> int:
    item = mapping_or_none(native)
    if item is None or any(item.get(key) is not None for key in _CHAT_KEYS):
        return IMPOSSIBLE
    kind = kind_of(item)
    if kind == "message":
        # The messages of Anthropic's answers have the type "message" too, and blocks of their own.
        said = _blocks(item.get("content")) if item.get("role") in ROLES else IMPOSSIBLE
        return CERTAIN if said and isinstance(item.get("type"), str) else said
    if kind in _ITEMS:
        return CERTAIN
    return LIKELY if kind and "content" not in item else POSSIBLE if kind else IMPOSSIBLE


def _blocks(content: object) -> int:
    if not isinstance(content, (list, tuple)):
        return POSSIBLE if content is None or isinstance(content, str) else IMPOSSIBLE
    for block in content:
        kind = (mapping_or_none(block) or {}).get("type")
        if not isinstance(kind, str) or kind in _FOREIGN:
            return IMPOSSIBLE
        if kind in _BLOCKS:
            return CERTAIN
    return POSSIBLE


_CHAINS = ("previous_response_id", "conversation")


@frozen
class OpenAIResponses:
    """Reads and writes Responses requests without loss; a ``protocols.WireFormat`` that reads places and names items.

    One item is one message: a piece of reasoning, a call and an answer each have a message of their own.

    Args:
        name: The format's name.
        system_apart: The ``instructions`` are kept apart from the items.
        merges_turns: Neighbouring items of the model are one turn.
        results_anywhere: An answer may stand anywhere after its call.
        unique_ids: A call id may occur only once in a request.
        most_calls: A message may hold any number of calls.
        answers_server_calls: A call that the server runs is taken without its result.
    """

    name: str = "openai-responses"
    system_apart: bool = True
    merges_turns: bool = True
    results_anywhere: bool = True
    unique_ids: bool = True
    most_calls: int | None = None
    answers_server_calls: bool = False

    @property
    def cache_markers(self) -> CacheMarkers:
        """How cache markers are written."""
        return cache_markers.RESPONSES

    def recognises(self, request: Mapping[str, Any], /) -> int:
        """How surely the request is in this format: 0 impossible, 1 possible, 5 likely, 10 certain."""
        return evidence(request)

    def read_message(self, native: Native, index: int, /) -> Message:
        """One native item as a value. See ``items.read_message``."""
        return items.read_message(native, index)

    def read_system(self, native: Native, /) -> Message | None:
        """The ``instructions``. See ``items.read_system``."""
        return items.read_system(native)

    def read_tools(self, native: Sequence[Any] | None, /) -> tuple[Tool, ...]:
        """The native tool definitions. See ``items.read_tools``."""
        return items.read_tools(native)

    def read_request(self, request: Mapping[str, Any], /) -> list[Any]:
        """The items of a whole request; a string is one message of the user.

        Raises:
            InvalidInput: If the request goes on from what the provider keeps: that can be neither counted nor cut.
        """
        for key in _CHAINS:
            if request.get(key) is not None:
                what = (
                    "the provider adds what it has kept, which can be neither counted nor cut here: leave it out and "
                    "send all items in input, with store=False and include=['reasoning.encrypted_content'] "
                    "(in Microsoft's Agent Framework: Agent(client, default_options={'store': False}))"
                )
                raise InvalidInput(key, what)
        items = request.get("input")
        if isinstance(items, str):
            return [{"role": "user", "content": items}]
        if not isinstance(items, (list, tuple)):
            raise InvalidInput("input", f"expected a string or a list of items, got {type(items).__name__}")
        return list(items)

    def write_message(self, message: Message, /) -> Native:
        """A message as an item. See ``items.write_message``."""
        return items.write_message(message)

    def item_name(self, message: Message, /) -> str | None:
        """The id of an item, which no other may have. See ``repair.item_id``."""
        return repair.item_id(message)

    def mend(
        self, messages: Sequence[Message], earlier: Mapping[str, Message] | None = None, /
    ) -> tuple[tuple[int, Message | None, str], ...]:
        """What is refused and can be mended without looking for pairs. See ``repair.mend``."""
        return repair.mend(messages, {} if earlier is None else earlier)

    def pair(self, messages: list[Message], _after: Sequence[Message] = (), /) -> list[Message]:
        """The messages themselves: each answer says which call it answers."""
        return messages

    def arrange(
        self, messages: Sequence[Message], _after: Message | None = None, /
    ) -> Sequence[tuple[int, tuple[Message, ...], str]]:
        """Which answers have to be of another kind, that of their calls. See ``repair.of_their_kind``."""
        return tuple(repair.of_their_kind(messages))

    def without_callers(self, message: Message, _callers: AbstractSet[str], /) -> Message:
        """The item without its caller: what a program called, the model called itself."""
        bare = without_field(message, "caller")
        called = (ToolCall, ToolResult, Opaque)
        parts = tuple(evolve(part, caller=None) if isinstance(part, called) else part for part in bare.parts)
        return evolve(bare, parts=parts, read_parts=parts if bare.as_read else bare.read_parts)

    def arrange_for(
        self,
        messages: Sequence[Message],
        profile: ModelProfile | None,
        note: Callable[[Message, str], None],
        _after: Message | None = None,
        /,
    ) -> Sequence[Message]:
        """The messages as the model takes them: OpenAI's own take no readable reasoning back but as a summary."""
        if profile is None or openai_family(profile.family) is None:
            return messages
        return repair.summarised(messages, note)

    def numbered(self, call_id: str, number: int, /) -> str:
        """Another id for a call, made of the one that it shares with others."""
        return numbered(call_id, number, repair.IDS)

    def synthetic_result(self, calls: Sequence[ToolCall], text: str, /) -> tuple[Message, ...]:
        """One answer for each call, of the kind that the call asks for, saying ``text`` where that kind has words."""
        return tuple(items.read_message(lost_output(call, text), 0) for call in calls)

    def validate(
        self, request: Mapping[str, Any], profile: ModelProfile | None, before: Mapping[str, Any] | None, /
    ) -> tuple[Violation, ...]:
        """Every rule that the request breaks. See ``rules.validate``."""
        return rules.validate(request, profile, before)
