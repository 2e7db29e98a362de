"""Chat Completions in a provider's dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from attrs import field, frozen

from agentctx.core.message import Message, Tool
from agentctx.core.parts import ToolCall
from agentctx.core.profile import ModelProfile
from agentctx.core.violation import Violation
from agentctx.protocols import CacheMarkers
from agentctx.wire import dialects_mend, dialects_rules
from agentctx.wire.dialects import Dialect
from agentctx.wire.native import mapping_or_none
from agentctx.wire.openai_chat import OpenAIChat


@frozen
class ChatDialect:
    """Reads and writes Chat Completions as one provider takes them.

    It is a ``protocols.WireFormat`` and a ``protocols.ReadsPlaces``: some dialects want certain roles to follow
    each other.

    Args:
        dialect: What the provider does otherwise.
    """

    dialect: Dialect
    chat: OpenAIChat = field(factory=OpenAIChat, repr=False)

    @property
    def name(self) -> str:
        """The format's name, for example ``openai-chat/mistral``."""
        return self.dialect.full_name

    @property
    def system_apart(self) -> bool:
        """System messages stand within the messages."""
        return self.chat.system_apart

    @property
    def merges_turns(self) -> bool:
        """Results follow the one message that holds their calls."""
        return self.chat.merges_turns

    @property
    def results_anywhere(self) -> bool:
        """Results follow their calls directly."""
        return self.chat.results_anywhere

    @property
    def unique_ids(self) -> bool:
        """Whether call ids may come again in another round."""
        return self.dialect.unique_ids

    @property
    def most_calls(self) -> int | None:
        """The most calls that one message may hold."""
        return self.chat.most_calls

    @property
    def answers_server_calls(self) -> bool:
        """There are no calls that the server runs."""
        return self.chat.answers_server_calls

    @property
    def cache_markers(self) -> CacheMarkers:
        """How cache markers are written."""
        return self.chat.cache_markers

    def recognises(self, request: Mapping[str, Any], /) -> int:
        """How surely the request is in this format: as surely as in any dialect."""
        return self.chat.recognises(request)

    def read_message(self, native: Any, index: int, /) -> Message:  # noqa: ANN401 - a dict or any SDK's object
        """One native message as a value; all dialects are read alike."""
        return self.chat.read_message(native, index)

    def read_system(self, native: Any, /) -> Message | None:  # noqa: ANN401 - a string or blocks
        """A system prompt passed apart from the messages."""
        return self.chat.read_system(native)

    def read_tools(self, native: Sequence[Any] | None, /) -> tuple[Tool, ...]:
        """The native tool definitions."""
        return self.chat.read_tools(native)

    def write_message(self, message: Message, /) -> Any:  # noqa: ANN401 - the caller's object or a new dict
        """A message as Chat Completions writes it."""
        return self.chat.write_message(message)

    def mend(self, messages: Sequence[Message], /) -> tuple[tuple[int, Message | None, str], ...]:
        """What is refused by all, and what the dialect refuses, mended in one message."""
        found: dict[int, tuple[Message | None, str]] = {
            index: (instead, why) for index, instead, why in self.chat.mend(messages)
        }
        now = [found[index][0] if index in found else message for index, message in enumerate(messages)]
        kept = [(index, message) for index, message in enumerate(now) if message is not None]
        for place, instead, why in dialects_mend.mend([message for _, message in kept], self.dialect):
            index = kept[place][0]
            before = found[index][1] if index in found else ""
            found[index] = instead, f"{before}, {why}" if before else why
        return tuple((index, *found[index]) for index in sorted(found))

    def pair(self, messages: list[Message], _after: Sequence[Message] = (), /) -> list[Message]:
        """The messages themselves: each result says which call it answers."""
        return messages

    def arrange(
        self, messages: Sequence[Message], after: Message | None = None, /
    ) -> Sequence[tuple[int, tuple[Message, ...], str]]:
        """What has to stand between messages so that they may follow each other. See ``dialects_mend.arrange``."""
        return tuple(dialects_mend.arrange(messages, after, self.dialect))

    def may_end_on(self, message: Message, _profile: ModelProfile | None, /) -> bool:
        """Whether the model answers a request that ends on this message."""
        begun = (mapping_or_none(message.source) or {}).get("prefix") is True
        return message.role != "assistant" or self.dialect.assistant_last or begun

    def numbered(self, call_id: str, number: int, /) -> str:
        """Another id for a call, made of the one that it shares with others."""
        return dialects_mend.numbered(call_id, number, self.dialect)

    def synthetic_result(self, calls: Sequence[ToolCall], text: str, /) -> tuple[Message, ...]:
        """One tool message for each call, saying ``text``."""
        return self.chat.synthetic_result(calls, text)

    def validate(
        self, request: Mapping[str, Any], profile: ModelProfile | None, before: Mapping[str, Any] | None, /
    ) -> tuple[Violation, ...]:
        """Every rule that the request breaks: those of all, and the dialect's own."""
        model = request.get("model") if profile is None else profile.family
        dialect = self.dialect.of_model(model) if isinstance(model, str) else self.dialect
        own = dialects_rules.violations(request, model if isinstance(model, str) else None, dialect)
        found = [*self.chat.validate(request, profile, before), *own]
        return tuple(sorted(found, key=lambda one: (one.index is None, one.index or 0)))


@cache
def in_dialect(dialect: Dialect) -> ChatDialect:
    """Chat Completions in a dialect; the same object for the same dialect."""
    return ChatDialect(dialect)
