"""OpenAI's Responses format, read and written without loss.

Source: https://platform.openai.com/docs/api-reference/responses/create.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from attrs import evolve, frozen

from agentctx.core.message import Message, Tool
from agentctx.core.parts import Opaque, ToolCall, ToolResult
from agentctx.core.profile import ModelProfile
from agentctx.core.violation import Violation
from agentctx.errors import InvalidInput
from agentctx.protocols import CacheMarkers
from agentctx.wire import cache_markers
from agentctx.wire.openai_responses import mend, read, rules, write
from agentctx.wire.openai_responses.evidence import evidence
from agentctx.wire.openai_responses.kinds import openai_family
from agentctx.wire.openai_responses.outputs import lost_output
from agentctx.wire.translate.ids import numbered
from agentctx.wire.translate.reasoning import without_field

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

    def read_message(self, native: Any, index: int, /) -> Message:  # noqa: ANN401 - a dict or any SDK's object
        """One native item as a value. See ``read.read_message``."""
        return read.read_message(native, index)

    def read_system(self, native: Any, /) -> Message | None:  # noqa: ANN401 - a string or messages
        """The ``instructions``. See ``read.read_system``."""
        return read.read_system(native)

    def read_tools(self, native: Sequence[Any] | None, /) -> tuple[Tool, ...]:
        """The native tool definitions. See ``read.read_tools``."""
        return read.read_tools(native)

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

    def write_message(self, message: Message, /) -> Any:  # noqa: ANN401 - the caller's object or a new dict
        """A message as an item. See ``write.write_message``."""
        return write.write_message(message)

    def item_name(self, message: Message, /) -> str | None:
        """The id of an item, which no other may have. See ``mend.item_id``."""
        return mend.item_id(message)

    def mend(
        self, messages: Sequence[Message], earlier: Mapping[str, Message] | None = None, /
    ) -> tuple[tuple[int, Message | None, str], ...]:
        """What is refused and can be mended without looking for pairs. See ``mend.mend``."""
        return mend.mend(messages, {} if earlier is None else earlier)

    def pair(self, messages: list[Message], _after: Sequence[Message] = (), /) -> list[Message]:
        """The messages themselves: each answer says which call it answers."""
        return messages

    def arrange(
        self, messages: Sequence[Message], _after: Message | None = None, /
    ) -> Sequence[tuple[int, tuple[Message, ...], str]]:
        """Which answers have to be of another kind, that of their calls. See ``mend.of_their_kind``."""
        return tuple(mend.of_their_kind(messages))

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
        return mend.summarised(messages, note)

    def numbered(self, call_id: str, number: int, /) -> str:
        """Another id for a call, made of the one that it shares with others."""
        return numbered(call_id, number, mend.IDS)

    def synthetic_result(self, calls: Sequence[ToolCall], text: str, /) -> tuple[Message, ...]:
        """One answer for each call, of the kind that the call asks for, saying ``text`` where that kind has words."""
        return tuple(read.read_message(lost_output(call, text), 0) for call in calls)

    def validate(
        self, request: Mapping[str, Any], profile: ModelProfile | None, before: Mapping[str, Any] | None, /
    ) -> tuple[Violation, ...]:
        """Every rule that the request breaks. See ``rules.validate``."""
        return rules.validate(request, profile, before)
