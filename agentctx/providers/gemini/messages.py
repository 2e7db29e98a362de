"""Gemini's contents as values: read, written, and repaired or placed elsewhere where they would be refused.

Their fields come in both spellings (``functionCall``, ``function_call``).

An id is optional in this format. A call without one is called by its name and its place among the calls of that name
in its turn (``search#0``); so is its result, once names and order have paired the two. All responses to the calls of
one content stand in the next content, and a content with calls stands behind the user's or behind responses.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, pairwise
from typing import Any

from attrs import define, evolve, field

from agentctx.core.message import Media, Message, Native, Opaque, Part, Text, Thinking, Tool, ToolCall, ToolResult
from agentctx.core.protection import NOT_SHOWN
from agentctx.errors import InvalidInput
from agentctx.models.profile import ModelProfile
from agentctx.providers.native import (
    NOT_JSON,
    base64_or_text,
    cleaned,
    each_read,
    fields,
    fields_or_none,
    finite_json,
    json_object,
    json_of,
    needed_string,
    object_spelled,
    placed,
    same,
    tool_as_read,
    with_object,
    words_of,
)
from agentctx.wire_format import Arranged, Note, Repaired

_SNAKE = re.compile(r"(?<!^)(?=[A-Z])")
_MADE = re.compile(r".*#\d+\Z", re.DOTALL)


def snake(key: str) -> str:
    """The SDK's spelling of a key of the API."""
    return _SNAKE.sub("_", key).lower()


def both(keys: Iterable[str]) -> Iterator[str]:
    """Each key in both spellings."""
    for key in keys:
        yield from {key: None, snake(key): None}


DATA = frozenset(
    both(
        {"text", "functionCall", "functionResponse", "inlineData", "fileData"}
        | {"executableCode", "codeExecutionResult", "toolCall", "toolResponse"}
    )
)
"""What a part may hold: exactly one of these."""

BESIDE = frozenset(
    both(
        {"thought", "thoughtSignature", "videoMetadata", "partMetadata", "mediaResolution", "mediaProcessing"}
        | {"speechMetadata", "documentMetadata", "spreadsheetMetadata", "audioMetadata"}
    )
)
"""What may stand in a part beside that."""


def spelled(block: Mapping[str, Any], key: str) -> str:
    """How ``block`` spells ``key``; the API's spelling when it has none of both."""
    return other if key not in block and (other := snake(key)) in block else key


def value(block: Mapping[str, Native], key: str) -> Native:
    """The value of a key in either spelling, or None."""
    found = block.get(key)
    return block.get(snake(key)) if found is None else found


def data_key(block: Mapping[str, Any]) -> str | None:
    """The key under which a part holds its data, as the part spells it; None when it holds none."""
    unknown: str | None = None
    for key, held in block.items():
        if held is None:
            continue
        if key in DATA:
            return key
        if unknown is None and key not in BESIDE:
            unknown = key
    return unknown


def signature_of(block: Mapping[str, Any]) -> str | None:
    """The thought signature of a part in base64; the SDK holds it as bytes."""
    return base64_or_text(value(block, "thoughtSignature")) or None


def made_id(name: str, place: int) -> str:
    """What a call without an id is called."""
    return f"{name}#{place}"


def is_made(call_id: str, name: str | None) -> bool:
    """Whether this is the id of a call that has none of its own."""
    return bool(_MADE.match(call_id)) and call_id.rpartition("#")[0] == (name or "")


def tool_of(call_id: str, name: str | None) -> str:
    """The name of the tool that a result belongs to: its own, else the one in the id."""
    return name or (call_id.rpartition("#")[0] if _MADE.match(call_id) else "") or call_id


_CONTENT = frozenset({"role", "parts"})
_URIS = ("uri", "fileUri")


def bare_parts(native: object) -> Sequence[Any] | None:
    """The native parts that stand without a content around them; None for a content, and for what is none of these."""
    if isinstance(native, (list, tuple)):
        return native
    return (native,) if is_bare(native) else None


def is_bare(native: object) -> bool:
    """Whether it is a single part, which the SDK puts into one content with those beside it."""
    if isinstance(native, str):
        return True
    block = fields_or_none(native)
    if block is None or not _CONTENT.isdisjoint(block):
        return False
    return not DATA.isdisjoint(block) or _uri(block) is not None


def bare_file(native: object) -> Mapping[str, Any] | None:
    """A file as the ``fileData`` of a part; None when it is no file."""
    block = fields_or_none(native)
    uri = None if block is None or not DATA.isdisjoint(block) else _uri(block)
    return None if block is None or uri is None else {"fileUri": uri, "mimeType": value(block, "mimeType")}


def _uri(block: Mapping[str, Any]) -> str | None:
    """Where a file is, when this is one."""
    found = next((uri for key in _URIS if isinstance(uri := value(block, key), str)), None)
    return found if isinstance(value(block, "mimeType"), str) else None


def read_bare(native: object) -> Part | None:
    """A text or a file as a part that remembers it; None for a part in the API's own shape."""
    if isinstance(native, str):
        return Text(native, source=native)
    if (file := bare_file(native)) is not None:
        family = file["mimeType"].partition("/")[0]
        kind = family if family in {"image", "audio", "video"} else "document"
        return Media(kind, file["mimeType"], url=file["fileUri"], source=native)
    if type(native).__module__.partition(".")[0] == "PIL":
        what = "an image of PIL: pass types.Part.from_bytes(data=..., mime_type=...), whose content is kept"
        raise InvalidInput(where="", what=what)
    return None


def role_of(natives: Sequence[object]) -> str:
    """Who says such parts: the model, where a single one calls a function."""
    block = fields_or_none(natives[0]) if len(natives) == 1 else None
    return "user" if block is None or value(block, "functionCall") is None else "model"


def as_contents(natives: Sequence[object]) -> Iterator[tuple[int, object]]:
    """The contents that the SDK makes of its ``contents``, each with the index of what begins it."""
    run: dict[str, Any] | None = None
    for index, native in enumerate(natives):
        if (parts := bare_parts(native)) is None or not is_bare(native):
            if run is not None:
                yield run.pop("index"), run
                run = None
            yield index, native if parts is None else {"role": "user", "parts": list(map(_as_part, parts))}
            continue
        if run is None or run["role"] != role_of(parts):
            if run is not None:
                yield run.pop("index"), run
            run = {"index": index, "role": role_of(parts), "parts": []}
        run["parts"].append(_as_part(native))
    if run is not None:
        yield run.pop("index"), run


def _as_part(native: object) -> object:
    if isinstance(native, str):
        return {"text": native}
    file = bare_file(native)
    return native if file is None else {"fileData": file}


Block = Mapping[str, Any]
Counts = dict[str, int]
"""How many calls (or results) of each tool were read in this content: they number those without an id."""
_Reader = Callable[[str, Block, object, Counts], Part]

ROLES = {"user": "user", "model": "assistant", "function": "tool", "tool": "tool", None: "user"}
"""Our roles by those of the provider; a content without a role is the user's.

``tool`` is how the SDK's own documentation calls who answers a function call (README of google-genai).
"""

_LABELS = ("displayName", "display_name")
"""The keys of the label of a file."""

_RESOLUTIONS = {
    "MEDIA_RESOLUTION_LOW": "low",
    "MEDIA_RESOLUTION_MEDIUM": "medium",
    "MEDIA_RESOLUTION_HIGH": "high",
    "MEDIA_RESOLUTION_ULTRA_HIGH": "ultra",
}
_CODE = ""
"""Where ``Counts`` counts pieces of code: no tool has this name."""


def read_message(native: object, index: int) -> Message:
    """One content (a mapping, an SDK object, or what the SDK takes in its place) as a value that remembers it."""
    if type(native) is not dict or "parts" not in native:
        if (bare := bare_parts(native)) is not None:
            parts = placed(partial(read_parts, bare=True), bare, "messages[{}]", index)
            return Message.read(ROLES[role_of(bare)], parts, native)
        placed(read_bare, native, "messages[{}]", index)
    content: Block = native if type(native) is dict else fields(native, f"messages[{index}]")
    named = content.get("role")
    role = ROLES.get(named) if isinstance(named, str) or named is None else None
    if role is None:
        raise InvalidInput(
            where=f"messages[{index}].role", what=f"expected user, model, function or tool, got {named!r}"
        )
    parts = placed(read_parts, content.get("parts"), "messages[{}].parts", index)
    return Message.read(role, parts, native)


def read_system(native: object) -> Message | None:
    """The system instruction (a string, a content, a list of parts) as a value; None when there is none."""
    return None if native is None else Message.read("system", placed(_instruction, native, "system"), native)


def _instruction(native: object) -> tuple[Part, ...]:
    """A system instruction as parts: a string, a content, a part, or a list of strings and parts."""
    if isinstance(native, str):
        return (Text(native, source=native),)
    if isinstance(native, (list, tuple)):
        return tuple(part for item in native for part in _instruction(item))
    content = fields(native, "")
    return read_parts(content.get("parts")) if "parts" in content else (read_part(native, {}),)


def read_tools(native: Sequence[Any] | None) -> tuple[Tool, ...]:
    """The functions of the native tools, and each built-in tool, as values."""
    return tuple(tool for index, each in enumerate(native or ()) for tool in _read_tool(each, f"tools[{index}]"))


def _read_tool(native: object, where: str) -> Iterator[Tool]:
    """The functions that a native tool declares; itself when it declares none."""
    if callable(native) and not isinstance(native, type):  # the SDK makes declarations of plain functions itself
        yield Tool(getattr(native, "__name__", ""), getattr(native, "__doc__", None) or "", source=native)
        return
    tool = fields(native, where)
    declared = value(tool, "functionDeclarations")
    if not isinstance(declared, (list, tuple)):
        yield Tool(str(next(iter(tool), "")), source=native)
        return
    for each in declared:
        one = len(declared) == 1
        yield _read_function(each, native if one else {"functionDeclarations": [each]})


def _read_function(native: object, source: object) -> Tool:
    function = fields_or_none(native) or {}
    schema = value(function, "parameters")
    return tool_as_read(function, value(function, "parametersJsonSchema") if schema is None else schema, source)


def read_parts(natives: object, *, bare: bool = False) -> tuple[Part, ...]:
    """The parts of a content; none when there is no list of them."""
    counts: Counts = {}

    def read(native: Native) -> Part:
        return (read_bare(native) if bare else None) or read_part(native, counts)

    parts = each_read(read, natives, "a list of parts")
    return _with_code_pairs(parts) if _CODE in counts else parts


def read_part(native: object, counts: Counts) -> Part:
    """One part as a value that remembers it. What we do not know becomes ``Opaque``."""
    block: Block = native if type(native) is dict else fields(native, "")
    if len(block) == 1 and isinstance(text := block.get("text"), str):
        return Text(text, source=native)
    key = data_key(block)
    reader = _READERS.get(key or "")
    return (
        Opaque(key or "", block, source=native) if reader is None or key is None else reader(key, block, native, counts)
    )


def read_response(response: object) -> tuple[Part, ...]:
    """What a function's response says: its one text, or all of it as JSON."""
    if response is None or response == {}:
        return ()
    if (key := only_text(response)) is not None and isinstance(response, Mapping):
        return (Text(response[key], source=response),) if response[key] else ()
    return (Text(json_of(response, ".response"), source=response),)


def only_text(response: object) -> str | None:
    """The key of a response that is nothing but a text (``output``, ``result``, ``error``, …), or None."""
    if isinstance(response, Mapping) and len(response) == 1:
        key, held = next(iter(response.items()))
        return key if isinstance(held, str) else None
    return None


def _numbered(block: Block, name: str, counts: Counts) -> str:
    """The id of a call or result: its own, else its name and its place."""
    given = block.get("id")
    if isinstance(given, str) and given:
        return given
    place = counts.get(name, 0)
    counts[name] = place + 1
    return made_id(name, place)


def _read_text(key: str, block: Block, native: object, _counts: Counts) -> Part:
    text = needed_string(block, key, "")
    if block.get("thought"):
        return Thinking(text, signature_of(block), source=native)
    return Text(text, source=native)


def _read_call(key: str, block: Block, native: object, counts: Counts) -> Part:
    call = fields(block[key], f".{key}")
    name = needed_string(call, "name", f".{key}")
    given = call.get("args")
    arguments = "{}" if given is None else json_of(given, f".{key}.args")
    return ToolCall(_numbered(call, name, counts), name, arguments, signature_of(block), source=native)


def _read_result(key: str, block: Block, native: object, counts: Counts) -> Part:
    answer = fields(block[key], f".{key}")
    name = needed_string(answer, "name", f".{key}")
    response = answer.get("response")
    content = read_response(response) + _read_attached(answer.get("parts"))
    number, failed = _numbered(answer, name, counts), only_text(response) == "error"
    return ToolResult(number, content, name, failed, source=native, interim=value(answer, "willContinue") is True)


def _read_attached(natives: object) -> tuple[Part, ...]:
    """The media that go with a response."""
    return tuple(read_part(native, {}) for native in natives) if isinstance(natives, (list, tuple)) else ()


def _read_inline(key: str, block: Block, native: object, _counts: Counts) -> Part:
    blob = fields(block[key], f".{key}")
    data, mime = base64_or_text(blob.get("data")), _mime(blob)
    if data is None:
        return Opaque("inlineData", block, source=native)
    return Media(_kind(mime), mime, data, detail=_detail(block), source=native, words=words_of(blob, _LABELS))


def _read_file(key: str, block: Block, native: object, _counts: Counts) -> Part:
    file = fields(block[key], f".{key}")
    uri, mime = value(file, "fileUri"), _mime(file)
    if not isinstance(uri, str):
        return Opaque("fileData", block, source=native)
    return Media(_kind(mime), mime, url=uri, detail=_detail(block), source=native, words=words_of(file, _LABELS))


def _mime(file: Block) -> str | None:
    """The MIME type; None when none is told."""
    told = value(file, "mimeType")
    return told if isinstance(told, str) else None


def _kind(mime: str | None) -> str:
    family = (mime or "").partition("/")[0]
    return family if family in {"image", "audio", "video"} else "document"


def _detail(block: Block) -> str | None:
    """The wish for resolution, as the counter of images knows it."""
    wish = fields_or_none(value(block, "mediaResolution")) or {}
    level = wish.get("level")
    return _RESOLUTIONS.get(getattr(level, "value", level) or "")


def _of_server(kind: str, *, opens: bool) -> _Reader:
    """Reads what the provider runs itself, or what came of it."""

    def read(key: str, block: Block, native: object, counts: Counts) -> Part:
        if kind == "executableCode":
            counts[_CODE] = counts.get(_CODE, 0) + 1
        name = _id_of(block[key])
        return Opaque(kind, block, name if opens else None, None if opens else name, source=native)

    return read


def _id_of(native: object) -> str | None:
    found = (fields_or_none(native) or {}).get("id")
    return found if isinstance(found, str) and found else None


def _with_code_pairs(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Code and its output belong together: by their ids, else an output to the first code before it that waits."""
    waiting: deque[Opaque] = deque()
    named: dict[int, Part] = {}
    for part in parts:
        if not isinstance(part, Opaque) or part.opens is not None or part.closes is not None:
            continue
        if part.kind == "executableCode":
            waiting.append(part)
        elif part.kind == "codeExecutionResult" and waiting:
            asked, name = waiting.popleft(), made_id("code", len(named) // 2)
            named[id(asked)] = Opaque(asked.kind, asked.data, opens=name, source=asked.source)
            named[id(part)] = Opaque(part.kind, part.data, closes=name, source=part.source)
    return tuple(named.get(id(part), part) for part in parts) if named else parts


_READERS: Mapping[str, _Reader] = {
    spelling: reader
    for key, reader in {
        "text": _read_text,
        "functionCall": _read_call,
        "functionResponse": _read_result,
        "inlineData": _read_inline,
        "fileData": _read_file,
        "executableCode": _of_server("executableCode", opens=True),
        "codeExecutionResult": _of_server("codeExecutionResult", opens=False),
        "toolCall": _of_server("toolCall", opens=True),
        "toolResponse": _of_server("toolResponse", opens=False),
    }.items()
    for spelling in both((key,))
}


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


NativePart = Mapping[str, Any]

_WRITTEN_ROLES = {"assistant": "model"}


def write_message(message: Message) -> object:
    """A message as this format writes it: the content it was read from when all its parts are still the same."""
    if message.as_read:
        return message.source
    bare = message.source is None or bare_parts(message.source) is not None
    old = {} if bare else fields_or_none(message.source) or {}
    parts = [write_part(part) for part in message.parts]
    before = old.get("parts")
    same_role = bool(old) and ROLES.get(old.get("role")) == message.role
    if same_role and isinstance(before, (list, tuple)) and same(parts, before):
        return message.source
    if bare and message.source is not None and message.role != "assistant":
        return parts  # the SDK makes one content of them, and puts a mapping before the parts beside it
    role = (old.get("role") if same_role else None) or _WRITTEN_ROLES.get(message.role, "user")
    return {**old, "role": role, "parts": parts}


def write_part(part: Part) -> object:
    """A part of a message as a native part: the very one it was read from when it still says the same."""
    native = part.source
    if isinstance(part, Opaque):
        return part.data if native is None else native
    block = fields_or_none(native)
    if block is None or bare_file(native) is not None:
        return _made(part, {})
    if isinstance(part, Thinking) or _still_says(native, part):
        return native
    return _made(part, block)


def _still_says(native: object, part: Part) -> bool:
    try:
        now = read_part(native, {})
    except InvalidInput:
        return False
    if isinstance(now, ToolCall) and isinstance(part, ToolCall) and is_made(now.id, now.name):
        now = ToolCall(part.id, now.name, now.arguments, now.signature)
    if isinstance(now, ToolResult) and isinstance(part, ToolResult) and is_made(now.call_id, now.name):
        now = ToolResult(part.call_id, now.content, now.name, now.is_error)
    return now == part


def _made(part: Text | Media | Thinking | ToolCall | ToolResult, old: NativePart) -> dict[str, Any]:
    """A native part saying what ``part`` says, with the other keys of the one that it replaces."""
    match part:
        case Text():
            kept = {key: held for key, held in old.items() if key not in _SIGNATURES and key != data_key(old)}
            return {**kept, "text": part.text}
        case Thinking():
            return _signed({"text": part.text, "thought": True}, part.signature)
        case ToolCall():
            return _made_call(part, old)
        case ToolResult():
            return _made_result(part, old)
        case Media():
            return _made_media(part)


_SIGNATURES = frozenset({"thoughtSignature", "thought_signature"})
"""Keys of a signature: on other words than those that were signed it would be refused."""


def _signed(block: dict[str, Any], signature: str | None) -> dict[str, Any]:
    return block if signature is None else {**block, "thoughtSignature": signature}


def _made_call(part: ToolCall, old: NativePart) -> dict[str, Any]:
    key = spelled(old, "functionCall")
    before = fields_or_none(old.get(key))
    call = {**(before or {}), "name": part.name, "args": json_object(part.arguments)}
    _set_id(call, part.id, part.name, made=before is None)
    return {**old, key: call} if before is not None else _signed({key: call}, part.signature)


def _made_result(part: ToolResult, old: NativePart) -> dict[str, Any]:
    key = spelled(old, "functionResponse")
    before = fields_or_none(old.get(key))
    answer = dict(before or {})
    answer["name"] = tool_of(part.call_id, part.name)
    answer["response"] = _response(part, answer.get("response"))
    _set_id(answer, part.call_id, part.name, made=before is None)
    attached = [write_part(item) for item in part.content if not isinstance(item, Text)]
    if attached:
        answer["parts"] = attached
    else:
        answer.pop("parts", None)
    return {**old, key: answer} if before is not None else {key: answer}


def _set_id(block: dict[str, Any], call_id: str, name: str | None, *, made: bool) -> None:
    """Say the id where there was one, and in a part made from scratch; never one that only we made up."""
    if (made or block.get("id")) and not is_made(call_id, name):
        block["id"] = call_id


def _response(part: ToolResult, old: object) -> Native:
    """What the function answered: the old response when it says the same, else an object of the same kind."""
    texts = tuple(item for item in part.content if isinstance(item, Text))
    key = only_text(old)
    if old is not None and read_response(old) == texts and part.is_error == (key == "error"):
        return old
    text = "".join(item.text for item in texts)
    if key is None and isinstance(old, Mapping) and (whole := _object(text)) is not None:
        return whole
    if key is None or part.is_error != (key == "error"):
        key = "error" if part.is_error else "output"
    return {key: text} if texts or old else {}


def _object(text: str) -> dict[str, Any] | None:
    """The JSON object that the text is, spelled as it is counted, or None."""
    found = object_spelled(text)
    return found[0] if found is not None and isinstance(found[0], dict) else None


def is_object(text: Text) -> bool:
    """Whether a text of a result stands for a response that is more than a text."""
    return isinstance(text.source, Mapping) and only_text(text.source) is None


def _made_media(part: Media) -> dict[str, Any]:
    mime = part.media_type or _MIME.get(part.kind, "application/octet-stream")
    if part.data is not None:
        return {"inlineData": {"mimeType": mime, "data": part.data}}
    if part.url is None:
        raise InvalidInput(where="media", what="has neither data nor a place where it is")
    return {"fileData": {"mimeType": mime, "fileUri": part.url}}


_MIME = {"image": "image/png", "audio": "audio/wav", "video": "video/mp4", "document": "application/pdf"}


UNSIGNED = "skip_thought_signature_validator"
"""What stands for the thought signature of a call that another model made; the provider lets it pass."""


def repair(messages: Sequence[Message], _earlier: object = None) -> list[Repaired]:
    """The messages that cannot be sent as they are, each with what to send instead."""
    found: list[Repaired] = []
    for index, message in enumerate(messages):
        why: list[str] = []
        parts = [better for part in message.parts if (better := _repair_part(part, why)) is not None]
        if not parts:
            found.append((index, None, "no parts"))
        elif not same(parts, message.parts):
            found.append((index, message.with_parts(tuple(parts)), "; ".join(dict.fromkeys(why))))
    return found


def _repair_part(part: Part, why: list[str]) -> Part | None:
    """The part to send instead of this one, itself when it is fine, None when it must not be sent."""
    if isinstance(part, Text):
        # A signature may stand on a text with nothing in it; there it has to stay.
        if not part.text and signature_of(fields_or_none(part.source) or {}) is None:
            why.append("empty text removed")
            return None
        return cleaned(part, why)
    if isinstance(part, ToolResult):
        return _repair_result(part, why)
    if isinstance(part, ToolCall):
        return with_object(part, why)
    if isinstance(part, Opaque) and not part.kind:
        why.append("a part without data removed")
        return None
    return part


def _repair_result(part: ToolResult, why: list[str]) -> ToolResult:
    content = tuple(_repair_text(item, part, why) if isinstance(item, Text) else item for item in part.content)
    return part if same(content, part.content) else evolve(part, content=content)


def _repair_text(text: Text, result: ToolResult, why: list[str]) -> Text:
    better = cleaned(text, why)
    if not ("NaN" in better.text or "Infinity" in better.text) or not _is_whole_response(result):
        return better
    if (finite := finite_json(better.text)) is better.text:
        return better
    why.append(NOT_JSON)
    return Text(finite, source=better.source)


def _is_whole_response(result: ToolResult) -> bool:
    """Whether the text is the JSON of a native response, and not a text in it."""
    block = fields_or_none(result.source) or {}
    answer = fields_or_none(value(block, "functionResponse")) or {}
    return answer.get("response") is not None and only_text(answer["response"]) is None


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


_GENERATION = re.compile(r"gemini-(\d+)")
_NEWEST = re.compile(r"gemini-(?:pro|flash|flash-lite)-latest")


def generation_of(name: str) -> int | None:
    """The generation (2, 3, …) of a Gemini model, by its name in lower case; None when the name does not tell."""
    if _NEWEST.search(name):
        return 3
    found = _GENERATION.search(name)
    return int(found[1]) if found else None


ASKED_FROM = 3
"""The first generation that refuses an unsigned call."""

WHY = "the model asks for a thought signature on the call: one that stands for none"


def with_signatures(
    messages: Sequence[Message], profile: ModelProfile | None, note: Note, _after: Message | None = None
) -> Sequence[Message]:
    """The messages with a signature on the first call of each step of the current turn; the same when all have."""
    if profile is None or (generation_of(profile.family.lower()) or 0) < ASKED_FROM:
        return messages
    places = range(len(messages) - 1, -1, -1)
    start = next((place + 1 for place in places if _speaks(messages[place])), 0)
    bare = [place for place in range(start, len(messages)) if _asks_unsigned(messages[place])]
    if not bare:
        return messages
    signed = list(messages)
    for place in bare:
        note(messages[place], WHY)
        signed[place] = _with_signature(messages[place])
    return signed


def _speaks(message: Message) -> bool:
    """Whether a turn begins here: the user says something, and not only functions answer."""
    if message.role == "assistant":
        return False
    return not message.results or any(isinstance(part, Text) for part in message.parts)


def _asks_unsigned(message: Message) -> bool:
    return message.role == "assistant" and next((not call.signature for call in message.calls), False)


def _with_signature(message: Message) -> Message:
    first = message.calls[0]
    return message.with_parts(tuple(_marked(part) if part is first else part for part in message.parts))


def _marked(part: Part) -> Part:
    if not isinstance(part, ToolCall):
        return part
    native = fields_or_none(part.source)
    source = None if native is None else {**native, "thoughtSignature": UNSIGNED}
    return evolve(part, signature=UNSIGNED, source=source)


def unsigned(message: Message) -> Message:
    """The message without signatures, as for another model; itself when it has none."""
    bare = tuple(map(_unsigned, message.parts))
    return message if same(bare, message.parts) else message.with_parts(bare)


def _unsigned(part: Part) -> Part:
    """A part without its signature; a call gets the one that stands for none."""
    native = fields_or_none(part.source)
    if native is None or _SIGNATURES.isdisjoint(native):
        return part
    bare = {key: value for key, value in native.items() if key not in _SIGNATURES}
    if isinstance(part, ToolCall):
        source = {**bare, "thoughtSignature": UNSIGNED}
        return part if source == native else evolve(part, signature=UNSIGNED, source=source)
    return Text(part.text, source=bare) if isinstance(part, Text) else evolve(part, source=bare)
