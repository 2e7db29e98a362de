"""What the place of a content says: which call a response answers, and where a call may stand.

Calls and responses need no ids; then names and order pair them. All responses to the calls of one content stand in
the next content, and a content with calls stands behind the user's or behind responses.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, evolve, field

from agentctx.core.message import Message
from agentctx.core.parts import Part, Text, ToolCall, ToolResult
from agentctx.wire.gemini.names import is_made, made_id

Arranged = tuple[int, tuple[Message, ...], str]
"""Index of a message, what stands in its place instead, and why."""

NOT_SHOWN = "[earlier messages are not shown]"
"""What the user says where a call would stand behind nothing or behind the model's own words."""


def pair(messages: Sequence[Message], after: Sequence[Message] = ()) -> list[Message]:
    """The messages with each response under the id of the call that it answers.

    A message that says so already is returned itself; any other is still written as it came.

    Args:
        messages: Messages as they were read one by one.
        after: What stands before them.
    """
    walk = _Walk()
    for message in after:
        walk.see(message)
    return [walk.see(message) for message in messages]


@define
class _Walk:
    """The calls that wait for a response, on a walk through a conversation."""

    waiting: list[ToolCall] = field(factory=list)
    names: set[str] = field(factory=set)
    in_run: bool = False

    def see(self, message: Message) -> Message:
        """Take in the next message; return it with the ids that it ought to have."""
        if message.role == "assistant":
            return self._see_calls(message)
        self.in_run = False
        return self._see_results(message) if self.waiting and message.results else message

    def _see_calls(self, message: Message) -> Message:
        calls = message.calls
        if calls and not self.in_run:
            self.waiting, self.names = [], set()
        self.in_run = True
        if not calls:
            return message
        named = [self._renumbered(call) for call in calls]
        self.waiting.extend(named)
        return _replaced(message, dict(zip(map(id, calls), named, strict=True)))

    def _renumbered(self, call: ToolCall) -> ToolCall:
        """The call; under another number when a call of the same turn has its made-up id."""
        name, place = call.id, 0
        while name in self.names and is_made(call.id, call.name):
            name, place = made_id(call.name, place), place + 1
        self.names.add(name)
        return (
            call if name == call.id else ToolCall(name, call.name, call.arguments, call.signature, source=call.source)
        )

    def _see_results(self, message: Message) -> Message:
        results = message.results
        answered = self._by_id(results)
        rest = [result for result in results if id(result) not in answered]
        self._by_name(rest, answered)
        self._by_place([result for result in rest if id(result) not in answered], answered)
        return _replaced(message, {key: _answering(result, call) for key, (result, call) in answered.items()})

    def _by_id(self, results: Sequence[ToolResult]) -> dict[int, tuple[ToolResult, ToolCall]]:
        answered: dict[int, tuple[ToolResult, ToolCall]] = {}
        for result in results:
            if not is_made(result.call_id, result.name):
                call = next((call for call in self.waiting if call.id == result.call_id), None)
                self._take(result, call, answered)
        return answered

    def _by_name(self, results: Sequence[ToolResult], answered: dict[int, tuple[ToolResult, ToolCall]]) -> None:
        for result in results:
            foreign = not is_made(result.call_id, result.name)
            call = next((call for call in self.waiting if _fits(call, result, foreign=foreign)), None)
            self._take(result, call, answered)

    def _by_place(self, results: Sequence[ToolResult], answered: dict[int, tuple[ToolResult, ToolCall]]) -> None:
        """The provider counts; where the numbers agree, the names need not."""
        if len(results) == len(self.waiting) and all(is_made(result.call_id, result.name) for result in results):
            for result in results:
                self._take(result, self.waiting[0], answered)

    def _take(
        self, result: ToolResult, call: ToolCall | None, answered: dict[int, tuple[ToolResult, ToolCall]]
    ) -> None:
        if call is not None:
            self.waiting.remove(call)
            answered[id(result)] = (result, call)


def _fits(call: ToolCall, result: ToolResult, *, foreign: bool) -> bool:
    """Whether the names agree; a result with an id of its own fits a call without one only."""
    return call.name == result.name and not (foreign and not is_made(call.id, call.name))


def _answering(result: ToolResult, call: ToolCall) -> ToolResult:
    return result if result.call_id == call.id else evolve(result, call_id=call.id)


def _replaced(message: Message, new: dict[int, ToolCall] | dict[int, ToolResult]) -> Message:
    """The message with other parts, as if it had been read with them; itself when they are the same."""
    parts: tuple[Part, ...] = tuple(new.get(id(part), part) for part in message.parts)
    if all(one is other for one, other in zip(parts, message.parts, strict=True)):
        return message
    return Message.read(message.role, parts, message.source)


@define
class _Place:
    """A message of the arranged conversation.

    Args:
        indexes: Where the messages stood that it was made of.
        message: The message.
        opening: What has to stand before it.
    """

    indexes: list[int]
    message: Message
    opening: tuple[Message, ...] = ()


def arrange(messages: Sequence[Message], after: Message | None = None) -> list[Arranged]:
    """What has to change so that all responses of a turn stand together and each call where it may stand.

    Args:
        messages: Messages whose pairs are whole.
        after: The message before them; None at the start of the conversation.
    """
    places: list[_Place] = []
    last = after
    for index, message in enumerate(messages):
        if places and _go_together(places[-1].message, message):
            calls = places[-2].message.calls if len(places) > 1 else ()
            places[-1].message = _joined(places[-1].message, message, calls)
            places[-1].indexes.append(index)
        else:
            homeless = message.role == "assistant" and (last is None or last.role == "assistant") and message.calls
            places.append(_Place([index], message, (Message("user", (Text(NOT_SHOWN),)),) if homeless else ()))
        last = places[-1].message
    return [change for place in places for change in _changes(place)]


def _go_together(one: Message, other: Message) -> bool:
    """Whether two neighbours have to be one: words and then calls of the model, or responses of one turn."""
    if one.role == "assistant":
        return other.role == "assistant" and not one.calls and bool(other.calls)
    return other.role != "assistant" and bool(one.results) and bool(other.results)


def _joined(one: Message, other: Message, calls: Sequence[ToolCall]) -> Message:
    parts = one.parts + other.parts
    if one.role != "assistant":
        order = {call.id: place for place, call in enumerate(calls)}
        parts = tuple(sorted(parts, key=lambda part: _rank(part, order)))
    return (other if one.source is None else one).with_parts(parts)


def _rank(part: Part, order: dict[str, int]) -> int:
    """Responses stand in the order of their calls, before everything else."""
    return order.get(part.call_id, len(order)) if isinstance(part, ToolResult) else len(order) + 1


def _changes(place: _Place) -> list[Arranged]:
    first, *others = place.indexes
    if others:
        why = "joined with the content beside it"
        return [(first, (*place.opening, place.message), why), *((index, (), why) for index in others)]
    why = "a function call stands behind the user or a function response"
    return [(first, (*place.opening, place.message), why)] if place.opening else []
