"""OpenAI's Chat Completions format, and what calls itself compatible with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from attrs import frozen

from agentctx.core.message import Message, Tool
from agentctx.core.parts import ToolCall
from agentctx.core.profile import ModelProfile
from agentctx.core.violation import Violation
from agentctx.protocols import CacheMarkers
from agentctx.wire import cache_markers
from agentctx.wire.openai_chat import mend, read, rules, write
from agentctx.wire.openai_chat.evidence import evidence
from agentctx.wire.openai_chat.rules_message import CALLS_MAX
from agentctx.wire.openai_chat.write import answer_to
from agentctx.wire.translate.ids import numbered


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

    def read_message(self, native: Any, index: int, /) -> Message:  # noqa: ANN401 - a dict or any SDK's object
        """One native message as a value. See ``read.read_message``."""
        return read.read_message(native, index)

    def read_system(self, native: Any, /) -> Message | None:  # noqa: ANN401 - a string or blocks
        """A system prompt passed apart from the messages. See ``read.read_system``."""
        return read.read_system(native)

    def read_tools(self, native: Sequence[Any] | None, /) -> tuple[Tool, ...]:
        """The native tool definitions. See ``read.read_tools``."""
        return read.read_tools(native)

    def write_message(self, message: Message, /) -> Any:  # noqa: ANN401 - the caller's object or a new dict
        """A message as Chat Completions writes it. See ``write.write_message``."""
        return write.write_message(message)

    def mend(self, messages: Sequence[Message], /) -> tuple[tuple[int, Message | None, str], ...]:
        """What is refused and can be mended in one message. See ``mend.mend``."""
        return mend.mend(messages)

    def numbered(self, call_id: str, number: int, /) -> str:
        """Another id for a call, made of the one that it shares with others; a legacy function call has none."""
        return call_id if call_id.startswith(read.LEGACY) else numbered(call_id, number, mend.IDS)

    def synthetic_result(self, calls: Sequence[ToolCall], text: str, /) -> tuple[Message, ...]:
        """One tool message for each call, saying ``text``; the format cannot say that it failed."""
        return tuple(Message("tool", (answer_to(call, text),)) for call in calls)

    def validate(
        self, request: Mapping[str, Any], profile: ModelProfile | None, before: Mapping[str, Any] | None, /
    ) -> tuple[Violation, ...]:
        """Every rule that the request breaks. See ``rules.validate``."""
        return rules.validate(request, profile, before)
