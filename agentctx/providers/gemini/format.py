"""The generateContent format of Google Gemini, read and written without loss.

Source: https://ai.google.dev/api/generate-content. Calls and responses need no ids; then names and order pair them. All
responses to the calls of one content stand in the next content, and a content with calls stands behind the user's or
behind responses.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

from attrs import define, evolve, field, frozen

from agentctx.core.message import Message, Native, Part, Text, Tool, ToolCall, ToolResult
from agentctx.core.protection import NOT_SHOWN
from agentctx.errors import InvalidInput
from agentctx.lazy import lazy_pattern
from agentctx.models.profile import ModelProfile
from agentctx.providers.adapter import Adapter, Body, RequestParts, get
from agentctx.providers.gemini import usage_keys
from agentctx.providers.gemini.messages import (
    DATA,
    ROLES,
    UNSIGNED,
    bare_parts,
    is_bare,
    is_made,
    is_object,
    made_id,
    read_message,
    read_system,
    read_tools,
    repair,
    unsigned,
    with_signatures,
    write_message,
    write_part,
)
from agentctx.providers.native import (
    FILMS,
    PDF,
    PICTURES,
    SOUNDS,
    TEXT_FILES,
    fields_or_none,
    same,
)
from agentctx.wire_format import Arranged, Capabilities, Spelling, TokenOverheads, Validator, Violation, WireFormat

_POSSIBLE, _LIKELY, _SURE = 1, 4, 8
_SURE_ROLES = frozenset({"model", "function"})


def recognise(request: Mapping[str, Any]) -> int:
    """0 when it cannot be this format, more with every specific sign."""
    contents = request.get("contents", request.get("messages"))
    named = "contents" in request
    if named and isinstance(contents, str):
        return _LIKELY
    if not isinstance(contents, (list, tuple)):
        return 0
    if not contents:
        return _LIKELY if named else 0
    if not named and not any(_is_sign(content) for content in contents):
        return 0
    best = _POSSIBLE
    for content in contents:
        sign = _sign(content)
        best = max(best, sign)
        if sign == 0 or best == _SURE:
            return sign and best + _LIKELY * named
    return best + _LIKELY * named


def _is_sign(native: object) -> bool:
    """Whether it can be told from a mere text or mapping: a content, or an object of the SDK."""
    return bare_parts(native) is None or not isinstance(native, (str, list, tuple, Mapping))


def _sign(native: object) -> int:
    """What one content says; 0 when it is none of this format."""
    if (bare := bare_parts(native)) is not None:
        return _POSSIBLE if all(map(is_bare, bare)) else 0
    content = fields_or_none(native)
    if content is None or "content" in content or "type" in content:
        return 0
    role, parts = content.get("role"), content.get("parts")
    if role is not None and not isinstance(role, str):
        return 0
    if not isinstance(parts, (list, tuple)):
        return _LIKELY if parts is None and role in _SURE_ROLES else 0
    if any((fields_or_none(part) or {}).keys() & DATA for part in parts):
        return _SURE
    return _LIKELY if role in ROLES else 0


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


@frozen
class Gemini(WireFormat):
    """The generateContent format.

    Each content with calls is answered before the next one. Ids are optional, and only a turn's own have to differ.
    """

    name = "gemini"
    provider = "gcp.gemini"
    other_names = ("google", "vertex")
    messages_key = "contents"
    system_key = "system_instruction"
    system_apart = True
    roles = frozenset({"user", "model", "function", "tool"})
    reads_places = True
    minds_the_end = True
    usage_keys = usage_keys
    overheads = TokenOverheads(message=4, call=8, result=8, schema_as_json=True)  # estimates
    keys_taken = frozenset(
        {"role", "parts", "text", "thought", "thoughtSignature", "functionCall", "functionResponse", "inlineData"}
        | {"fileData", "name", "args", "response", "id", "mimeType", "data", "fileUri", "uri"}
        | {"thought_signature", "mime_type", "file_uri"}  # as google-genai spells them
    )

    overflow_words = lazy_pattern(r"input token count\b[^.]{0,60}?(?:exceeds|supports up to)")
    error_words = lazy_pattern(r"input token count")

    def usual_for(self, family: str, /) -> int:
        """Gemini's own."""
        return 3 if "gemini" in family else 0

    recognises = staticmethod(recognise)
    read_message = staticmethod(read_message)
    read_system = staticmethod(read_system)
    read_tools = staticmethod(read_tools)
    write_message = staticmethod(write_message)
    pair = staticmethod(pair)
    arrange = staticmethod(arrange)
    arrange_for = staticmethod(with_signatures)
    repair = staticmethod(repair)
    is_object = staticmethod(is_object)

    def validate(
        self, request: Mapping[str, Any], profile: ModelProfile | None, before: Mapping[str, Any] | None, /
    ) -> tuple[Violation, ...]:
        """Every rule that the request breaks."""
        from agentctx.providers.gemini.rules import violations  # noqa: PLC0415 - a step needs no rules

        return violations(request, profile, before)

    def validator(self, profile: ModelProfile | None, /) -> Validator:
        """Validates without reading all of a conversation again at each request."""
        from agentctx.providers.gemini.rules import GrowingContents  # noqa: PLC0415 - a step needs no rules

        own = type(self).validate is Gemini.validate
        return GrowingContents(profile) if own else super().validator(profile)

    def synthetic_result(self, calls: Sequence[ToolCall], text: str, /) -> tuple[Message, ...]:
        """One user content that answers all the calls with ``text``, as errors."""
        if not calls:
            return ()
        results = (ToolResult(call.id, (Text(text),), call.name, is_error=True) for call in calls)
        return (Message("user", tuple(results)),)

    def capabilities(self, _model: str | None, _profile: ModelProfile | None, /) -> Capabilities:
        """What it can say."""
        return Capabilities(
            names=Spelling("a-zA-Z0-9_.:-", 64),
            in_user={
                "image": PICTURES | {"image/heic", "image/heif"},
                "audio": SOUNDS | {"audio/flac", "audio/ogg", "audio/aac", "audio/aiff"},
                "video": FILMS,
                "document": PDF | TEXT_FILES,
            },
            in_results={"image": PICTURES, "document": PDF},
            by_url=frozenset({"image", "audio", "video", "document"}),
            unsigned_call=UNSIGNED,
            results_in_one=True,
        )

    def without_reasoning(self, message: Message, /) -> Message | None:
        """The message without reasoning and signatures; None when nothing is left."""
        kept = super().without_reasoning(message)
        return None if kept is None else unsigned(kept)

    def write_system(self, system: Message, /) -> Native:
        """The system instruction: a content without a role."""
        return {"parts": [write_part(part) for part in system.parts]}

    def write_tool(self, tool: Tool, /) -> Native:
        """A tool of the caller's as a declaration, which has to be described."""
        declared = {"name": tool.name, "description": tool.description or tool.name}
        return {"functionDeclarations": [{**declared, "parametersJsonSchema": tool.parameters}]}


@frozen
class GenerateContent(Adapter):
    """``POST /models/…:generateContent`` and ``:streamGenerateContent``, as Google's SDK sends and answers them."""

    model: str
    format = "gemini"
    messages_key = "contents"
    system_key = "systemInstruction"

    def read(self, body: Body, /) -> RequestParts | None:
        """Contents, system instruction and tools."""
        if body.get("cachedContent") is not None:
            what = "what the provider keeps can be neither counted nor cut: pass its contents instead"
            raise InvalidInput("cachedContent", what)
        return super().read({**body, "model": self.model})

    def usage(self, said: Native, /) -> Native:
        """The ``usageMetadata`` of an answer or a chunk."""
        return get(_payload(said), "usageMetadata")

    def begins(self, event: Native, /) -> bool:
        """Whether a chunk has parts, or ends."""
        candidates = get(_payload(event), "candidates") or ()
        return any(get(each, "content", "parts") or get(each, "finishReason") for each in candidates)


def _payload(said: Native) -> Mapping[str, Native]:
    body = get(said, "body")
    payload = json.loads(body) if isinstance(body, str) and body else None
    return payload if isinstance(payload, Mapping) else {}
