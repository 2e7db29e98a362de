"""What the place of a content says: which call a response answers, and where a call may stand.

Calls and responses need no ids; then names and order pair them. All responses to the calls of one content stand in
the next content, and a content with calls stands behind the user's or behind responses.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from itertools import groupby, pairwise

from attrs import define, evolve, field

from agentctx.core.message import Message, Part, Text, ToolCall, ToolResult
from agentctx.core.protection import NOT_SHOWN
from agentctx.providers.gemini.messages import is_bare, is_made, made_id
from agentctx.providers.native import same
from agentctx.wire_format import Arranged


def pair(messages: Sequence[Message], standing_before: Sequence[Message] = ()) -> list[Message]:
    """The messages with each response under the id of the call that it answers.

    A message that says so already is returned itself; any other is still written as it came.
    """
    walk = _Walk()
    seen: list[Message] = []
    for acts, run in groupby((*standing_before, *messages), lambda message: message.role == "assistant"):
        said = list(run)
        seen += map(walk.see_turn, said) if acts else walk.see_answers(said)
    return seen[len(standing_before) :]


@define
class _Waiting:
    """Calls that wait for a response, in order, to be found by id and by name without looking at the others."""

    calls: dict[int, ToolCall] = field(factory=dict)
    _content: dict[int, int] = field(factory=dict)
    _contents: int = 0
    _by_id: dict[str, deque[int]] = field(factory=lambda: defaultdict(deque))
    _by_name: dict[tuple[str, bool], deque[int]] = field(factory=lambda: defaultdict(deque))
    _expected: dict[tuple[str, bool], deque[int]] = field(factory=dict)
    _next: int = 0

    def add_content(self, calls: Sequence[ToolCall]) -> None:
        """The calls of one more content."""
        self._contents += 1
        for call in calls:
            self._add(call)

    def _add(self, call: ToolCall) -> None:
        self.calls[self._next] = call
        self._content[self._next] = self._contents
        self._by_id[call.id].append(self._next)
        self._by_name[call.name, False].append(self._next)
        if is_made(call.id, call.name):
            self._by_name[call.name, True].append(self._next)
        self._next += 1

    def nearest(self, name: str, number: int) -> None:
        """From now on so many responses are expected by this name: they answer the nearest contents that called it.

        Where not all calls of a content are answered, the first are; what is answered, is in order.
        """
        for key in ((name, False), (name, True)):
            waiting = [place for place in self._by_name.get(key, ()) if place in self.calls]
            contents = [list(run) for _, run in groupby(waiting, self._content.__getitem__)]
            kept: list[int] = []
            while contents and len(kept) < number:
                kept[:0] = contents.pop()[: number - len(kept)]
            self._expected[key] = deque(kept)

    def of_id(self, call_id: str) -> ToolCall | None:
        """Take the first call with this id."""
        return self._take(self._by_id.get(call_id))

    def of_name(self, name: str | None, *, without_id: bool) -> ToolCall | None:
        """Take the first call of this tool that is expected, perhaps among those without an id of their own only."""
        return self._take(self._expected.get((name or "", without_id)))

    def first(self) -> ToolCall | None:
        """Take the first call."""
        return self.calls.pop(next(iter(self.calls))) if self.calls else None

    def _take(self, places: deque[int] | None) -> ToolCall | None:
        while places:
            if (call := self.calls.pop(places.popleft(), None)) is not None:
                return call
        return None


@define
class _Walk:
    """The calls that wait for a response, on a walk through a conversation."""

    waiting: _Waiting = field(factory=_Waiting)
    names: set[str] = field(factory=set)
    places: Counter[str] = field(factory=Counter)
    answered: bool = False

    def see_turn(self, message: Message) -> Message:
        """Take in the next message of the model; return it with the ids that it ought to have."""
        return self._see_run([self._see_calls(message)])[0]

    def see_answers(self, run: Sequence[Message]) -> list[Message]:
        """Take in all that stands between the model's turns; return it with the ids of the calls that it answers."""
        self.answered = True
        return self._see_run(run)

    def _see_calls(self, message: Message) -> Message:
        calls = message.calls
        if not calls:
            return message
        if self.answered:
            self.waiting, self.names, self.places, self.answered = _Waiting(), set(), Counter(), False
        named = [self._renumbered(call) for call in calls]
        self.waiting.add_content(named)
        return _replaced(message, dict(zip(map(id, calls), named, strict=True)))

    def _see_run(self, run: Sequence[Message]) -> list[Message]:
        results = [result for message in run for result in message.results]
        if results and self.waiting.calls:
            self._expect(results)
        return [self._see_results(message) if self.waiting.calls and message.results else message for message in run]

    def _expect(self, results: Sequence[ToolResult]) -> None:
        asked = {call.id for call in self.waiting.calls.values()}
        nameless = [r for r in results if is_made(r.call_id, r.name) or r.call_id not in asked]
        for name, number in Counter(result.name or "" for result in nameless).items():
            self.waiting.nearest(name, number)

    def _renumbered(self, call: ToolCall) -> ToolCall:
        """The call; under another number when a call of the same turn has its made-up id."""
        name = call.id
        while name in self.names and is_made(call.id, call.name):
            name = made_id(call.name, self.places[call.name])
            self.places[call.name] += 1
        self.names.add(name)
        return (
            call if name == call.id else ToolCall(name, call.name, call.arguments, call.signature, source=call.source)
        )

    def _see_results(self, message: Message) -> Message:
        """Find the call of each response: by its id, else by its name, else by its place, since the provider counts."""
        results = message.results
        answered = self._found(results, self._by_id)
        rest = [result for result in results if id(result) not in answered]
        answered |= self._found(rest, self._by_name)
        rest = [result for result in rest if id(result) not in answered]
        if len(rest) == len(self.waiting.calls) and all(is_made(result.call_id, result.name) for result in rest):
            answered |= self._found(rest, lambda _result: self.waiting.first())
        return _replaced(message, {key: _answering(result, call) for key, (result, call) in answered.items()})

    def _found(
        self, results: Sequence[ToolResult], take: Callable[[ToolResult], ToolCall | None]
    ) -> dict[int, tuple[ToolResult, ToolCall]]:
        found = ((result, take(result)) for result in results)
        return {id(result): (result, call) for result, call in found if call is not None}

    def _by_id(self, result: ToolResult) -> ToolCall | None:
        return None if is_made(result.call_id, result.name) else self.waiting.of_id(result.call_id)

    def _by_name(self, result: ToolResult) -> ToolCall | None:
        """A response with an id of its own answers a call without one only."""
        return self.waiting.of_name(result.name, without_id=not is_made(result.call_id, result.name))


def _answering(result: ToolResult, call: ToolCall) -> ToolResult:
    return result if result.call_id == call.id else evolve(result, call_id=call.id)


def _replaced(message: Message, new: dict[int, ToolCall] | dict[int, ToolResult]) -> Message:
    """The message with other parts, as if it had been read with them; itself when they are the same."""
    parts: tuple[Part, ...] = tuple(new.get(id(part), part) for part in message.parts)
    if same(parts, message.parts):
        return message
    return Message.read(message.role, parts, message.source)


@define
class _Place:
    """A message of the arranged conversation.

    Args:
        indexes: Where the messages stood that it is made of.
    """

    indexes: list[int]
    messages: list[Message]

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls in it."""
        return tuple(call for message in self.messages for call in message.calls)


def arrange(messages: Sequence[Message], standing_before: Message | None = None) -> list[Arranged]:
    """What has to change so that all responses of a turn stand together and each call where it may stand."""
    places: list[_Place] = []
    for index, message in enumerate(messages):
        if places and (
            _of_one_run(places[-1].messages[-1:], message) or _go_together(places[-1].messages[-1], message)
        ):
            places[-1].messages.append(message)
            places[-1].indexes.append(index)
        else:
            places.append(_Place([index], [message]))
    before = _Place([], [] if standing_before is None else [standing_before])
    return [change for one, place in pairwise((before, *places)) for change in _changes(place, one)]


def _of_one_run(before: Sequence[Message], message: Message) -> bool:
    """Whether the SDK itself makes one content of these: parts of one side that stand there by themselves."""
    side = message.role == "assistant"
    return all((each.role == "assistant") == side for each in before) and all(
        each.untouched and is_bare(each.source) for each in (*before, message)
    )


def _go_together(one: Message, other: Message) -> bool:
    """Whether two neighbours have to be one: words and then calls of the model, or responses of one turn."""
    if one.role == "assistant":
        return other.role == "assistant" and not one.calls and bool(other.calls)
    return other.role != "assistant" and bool(one.results) and bool(other.results)


def _joined(messages: Sequence[Message], calls: Sequence[ToolCall]) -> Message:
    """One message of several; responses in the order of the calls that they answer."""
    parts = tuple(part for message in messages for part in message.parts)
    if messages[0].role != "assistant":
        order = {call.id: place for place, call in enumerate(calls)}
        parts = tuple(sorted(parts, key=lambda part: _rank(part, order)))
    native = next((message for message in messages if message.source is not None), messages[-1])
    return native.with_parts(parts)


def _rank(part: Part, order: dict[str, int]) -> int:
    """Responses stand in the order of their calls, before everything else."""
    return order.get(part.call_id, len(order)) if isinstance(part, ToolResult) else len(order) + 1


def _changes(place: _Place, before: _Place) -> list[Arranged]:
    first, *others = place.indexes
    homeless = place.messages[0].role == "assistant" and place.calls and not _heard(before)
    opening = (Message("user", (Text(NOT_SHOWN),)),) if homeless else ()
    if others and not _of_one_run(place.messages, place.messages[0]):
        acts = place.messages[0].role == "assistant"  # what becomes one here may have been one before repair
        why = f"the {'words and calls' if acts else 'responses to the calls'} of one turn stand in one content"
        joined = _joined(place.messages, before.calls)
        return [(first, (*opening, joined), why), *((index, (), why) for index in others)]
    why = "a function call stands behind the user or a function response"
    return [(first, (*opening, place.messages[0]), why)] if opening else []


def _heard(before: _Place) -> bool:
    """Whether the user or a tool spoke last."""
    return bool(before.messages) and before.messages[-1].role != "assistant"
