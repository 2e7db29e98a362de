"""OpenAI's Chat Completions format, and what calls itself compatible with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from attrs import frozen

from agentctx.core.message import Message, Native, Tool, ToolCall
from agentctx.core.validity import Violation
from agentctx.models.profile import ModelProfile
from agentctx.protocols import CacheMarkers
from agentctx.providers import cache_markers
from agentctx.providers.native import mapping_or_none
from agentctx.providers.openai_chat import messages, repair, rules
from agentctx.providers.openai_chat.messages import answer_to
from agentctx.providers.openai_chat.rules import CALLS_MAX
from agentctx.providers.translate.target import numbered

IMPOSSIBLE, POSSIBLE, LIKELY, CERTAIN = 0, 1, 5, 10

_ROLES = {"tool": CERTAIN, "function": CERTAIN, "developer": CERTAIN, "system": LIKELY}
_CALL_KEYS = frozenset({"tool_calls", "function_call", "tool_call_id"})
# What an answer of this format has beside its content, if only as null; no other format has it there.
_ANSWER_KEYS = frozenset({"refusal", "audio", "annotations", *_CALL_KEYS})
_BLOCKS = frozenset({"image_url", "input_audio", "file", "refusal", "video_url"})
_FOREIGN = frozenset(
    {"tool_use", "tool_result", "server_tool_use", "thinking", "redacted_thinking", "image", "document"}
    | {"input_text", "output_text", "input_image", "input_file"}
)
_OPTIONS = frozenset(
    {"response_format", "functions", "max_completion_tokens", "frequency_penalty", "presence_penalty", "logit_bias"}
)


def evidence(request: Mapping[str, Any]) -> int:
    """0 impossible, 1 possible, 5 likely, 10 certain. Looks no further than the first certain sign."""
    messages = request.get("messages")
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        return IMPOSSIBLE
    best = _tools(request.get("tools"))
    if best in (IMPOSSIBLE, CERTAIN):
        return best
    if not _OPTIONS.isdisjoint(request):
        best = LIKELY
    for message in messages:
        found = _message(message)
        if found in (IMPOSSIBLE, CERTAIN):
            return found
        best = max(best, found)
    return best


def _tools(tools: object) -> int:
    if not isinstance(tools, Sequence) or isinstance(tools, str) or not tools:
        return POSSIBLE
    first = mapping_or_none(tools[0]) or {}
    kind = first.get("type")
    if kind in ("function", "custom") and mapping_or_none(first.get(kind)) is not None:
        return CERTAIN
    return POSSIBLE if kind == "function" or "parameters" in first else IMPOSSIBLE


def _message(message: object) -> int:
    native = mapping_or_none(message)
    if native is None or not isinstance(role := native.get("role"), str) or isinstance(native.get("type"), str):
        return IMPOSSIBLE  # Messages of Responses and of Anthropic's answers have a type, these have none.
    content = native.get("content")
    said = _blocks(content) if isinstance(content, list | tuple) else POSSIBLE
    own = role == "assistant" and not _ANSWER_KEYS.isdisjoint(native)
    if said == IMPOSSIBLE or own or any(native.get(key) is not None for key in _CALL_KEYS):
        return said and CERTAIN
    return said if role in ("user", "assistant") else _ROLES.get(role, IMPOSSIBLE)


def _blocks(blocks: Sequence[Any]) -> int:
    """A block without a type is another provider's; a type that nobody knows may be a dialect's."""
    for block in blocks:
        kind = "text" if isinstance(block, str) else (mapping_or_none(block) or {}).get("type")
        if not isinstance(kind, str) or kind in _FOREIGN:
            return IMPOSSIBLE
        if kind in _BLOCKS:
            return CERTAIN
    return POSSIBLE


@frozen
class OpenAIChat:
    """Reads and writes Chat Completions requests without loss; a ``protocols.WireFormat``.

    System messages stand within the messages. Results follow the one message that holds their calls. Call ids may
    come again in another round.
    """

    name: ClassVar[str] = "openai-chat"
    system_apart: ClassVar[bool] = False
    merges_turns: ClassVar[bool] = False
    results_anywhere: ClassVar[bool] = False
    unique_ids: ClassVar[bool] = False
    most_calls: ClassVar[int | None] = CALLS_MAX
    answers_server_calls: ClassVar[bool] = False

    @property
    def cache_markers(self) -> CacheMarkers:
        """How cache markers are written."""
        return cache_markers.CHAT

    def recognises(self, request: Mapping[str, Any], /) -> int:
        """How surely the request is in this format: 0 impossible, 1 possible, 5 likely, 10 certain."""
        return evidence(request)

    def read_message(self, native: Native, index: int, /) -> Message:
        """One native message as a value. See ``messages.read_message``."""
        return messages.read_message(native, index)

    def read_system(self, native: Native, /) -> Message | None:
        """A system prompt passed apart from the messages. See ``messages.read_system``."""
        return messages.read_system(native)

    def read_tools(self, native: Sequence[Any] | None, /) -> tuple[Tool, ...]:
        """The native tool definitions. See ``messages.read_tools``."""
        return messages.read_tools(native)

    def write_message(self, message: Message, /) -> Native:
        """A message as Chat Completions writes it. See ``messages.write_message``."""
        return messages.write_message(message)

    def mend(self, messages: Sequence[Message], /) -> tuple[tuple[int, Message | None, str], ...]:
        """What is refused and can be mended in one message. See ``repair.mend``."""
        return repair.mend(messages)

    def numbered(self, call_id: str, number: int, /) -> str:
        """Another id for a call, made of the one that it shares with others; a legacy function call has none."""
        return call_id if call_id.startswith(messages.LEGACY) else numbered(call_id, number, repair.IDS)

    def synthetic_result(self, calls: Sequence[ToolCall], text: str, /) -> tuple[Message, ...]:
        """One tool message for each call, saying ``text``; the format cannot say that it failed."""
        return tuple(Message("tool", (answer_to(call, text),)) for call in calls)

    def validate(
        self, request: Mapping[str, Any], profile: ModelProfile | None, before: Mapping[str, Any] | None, /
    ) -> tuple[Violation, ...]:
        """Every rule that the request breaks. See ``rules.validate``."""
        return rules.validate(request, profile, before)
