"""OpenAI's Responses format, read and written without loss.

Source: https://platform.openai.com/docs/api-reference/responses/create.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set as AbstractSet
from typing import Any

from attrs import evolve, frozen

from agentctx.core.message import BREAKPOINT, Message, Native, Opaque, Tool, ToolCall, ToolResult
from agentctx.errors import InvalidInput
from agentctx.models.profile import ModelProfile
from agentctx.providers.cache_markers import KeyMarkers, breakpoint_of
from agentctx.providers.native import OPENAI_MODELS, PDF, PICTURES, mapping_or_none
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
    without_field,
    without_id,
)
from agentctx.providers.spelling import numbered
from agentctx.providers.translate.tools import is_strict
from agentctx.wire_format import Arranged, Capabilities, Note, Repaired, TokenOverheads, Violation, WireFormat

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
class OpenAIResponses(WireFormat):
    """The Responses format.

    One item is one message: a piece of reasoning, a call and an answer each have a message of their own. System
    messages may stand beside the ``instructions``. An answer names the call that it answers, wherever it stands, and
    has to be of its kind.
    """

    name = "openai-responses"
    other_names = ("openai", "responses")
    messages_key = "input"
    system_key = "instructions"
    system_apart = True
    system_leads = True
    user_first = False
    roles = frozenset(ROLES)
    merges_turns = True
    results_anywhere = True
    unique_ids = True
    reads_places = True
    names_items = True
    cache_markers = KeyMarkers(
        (BREAKPOINT,), breakpoint_of, text_type="input_text", roles=frozenset({"user", "system", "developer"})
    )
    # Like Chat. The envelope: encrypted items of 26 to 1,792 reasoning tokens had 1,080 to 9,572 characters.
    overheads = TokenOverheads(envelope=900)
    keys_taken = frozenset(
        {"role", "content", "text", "call_id", "name", "arguments", "input", "output", "action", "operation", "id"}
        | {"image_url", "file_id", "file_data", "file_url", "detail", "input_audio", "data", "format", "status"}
        | {"logprobs", "result"}
    )

    def usual_for(self, family: str, /) -> int:
        """After Chat Completions."""
        return 1 if OPENAI_MODELS.search(family) else 0

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

    def repair(self, messages: Sequence[Message], earlier: Mapping[str, Message], /) -> Sequence[Repaired]:
        """What is refused and can be repaired without looking for pairs. See ``repair.repair``."""
        return repair.repair(messages, earlier)

    def arrange(self, messages: Sequence[Message], _after: Message | None = None, /) -> Sequence[Arranged]:
        """Which answers have to be of another kind, that of their calls. See ``repair.of_their_kind``."""
        return tuple(repair.of_their_kind(messages))

    def without_callers(self, message: Message, _callers: AbstractSet[str], /) -> Message:
        """The item without its caller: what a program called, the model called itself."""
        bare = without_field(message, "caller")
        called = (ToolCall, ToolResult, Opaque)
        parts = tuple(evolve(part, caller=None) if isinstance(part, called) else part for part in bare.parts)
        return evolve(bare, parts=parts, read_parts=parts if bare.as_read else bare.read_parts)

    def arrange_for(
        self, messages: Sequence[Message], profile: ModelProfile | None, note: Note, _after: Message | None = None, /
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

    def capabilities(self, _model: str | None, _profile: ModelProfile | None, /) -> Capabilities:
        """What it can say."""
        media = {"image": PICTURES, "document": PDF}
        return Capabilities(
            grouping="one item",
            system_between="developer",
            says_failed=False,
            details=True,
            in_user=media,
            in_results=media,
            by_url=frozenset({"image", "document"}),
            arguments_object=False,
            names_files="input_file",
        )

    def without_reasoning(self, message: Message, /) -> Message | None:
        """The message without reasoning, and without the id that ties it to some; None when nothing is left."""
        kept = super().without_reasoning(message)
        return kept if kept is None or kept.role != "assistant" else without_id(kept)

    def write_tool(self, tool: Tool, /) -> Native:
        """A tool of the caller's as a definition: one that does not say it would be read as a strict one."""
        said = {"description": tool.description} if tool.description else {}
        made = {"type": "function", "name": tool.name, **said, "parameters": tool.parameters}
        return {**made, "strict": is_strict(tool)}
