"""Gemini's contents as values: read, written, and repaired or placed elsewhere where they would be refused.

Their fields come in both spellings (``functionCall``, ``function_call``).

An id is optional in this format. A call without one is called by its name and its place among the calls of that name
in its turn (``search#0``); so is its result, once names and order have paired the two. All responses to the calls of
one content stand in the next content, and a content with calls stands behind the user's or behind responses.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from math import inf
from typing import Any

from attrs import define, evolve, field, frozen

from agentctx.errors import InvalidInput
from agentctx.formats.native import (
    FILMS,
    NAMELESS,
    NOT_JSON,
    PDF,
    PICTURES,
    SOUNDS,
    TEXT_FILES,
    base64_or_text,
    cleaned,
    each_read,
    fields,
    fields_or_none,
    finite_json,
    json_object,
    json_of,
    may_end_on,
    needed_string,
    object_spelled,
    placed,
    same,
    string_of,
    tool_as_read,
    with_object,
    words_of,
)
from agentctx.formats.registry import Adapter, Body, RequestParts, get
from agentctx.message import Media, Message, Native, Opaque, Part, Text, Thinking, Tool, ToolCall, ToolResult
from agentctx.models.profile import ModelProfile
from agentctx.unit import NOT_SHOWN
from agentctx.wire_format import (
    Arranged,
    Capabilities,
    Note,
    Repaired,
    RequestKeys,
    Spelling,
    TokenOverheads,
    WireFormat,
)

_SNAKE = re.compile(r"(?<!^)(?=[A-Z])")
_MADE = re.compile(r".*#\d+\Z", re.DOTALL)


def snake(key: str) -> str:
    """The SDK's spelling of a key of the API."""
    return _SNAKE.sub("_", key).lower()


def both(keys: Iterable[str]) -> Iterator[str]:
    """Each key in both spellings."""
    for key in keys:
        yield from {key: None, snake(key): None}


_KINDS = {
    spelling: kind
    for kind in (
        {"text", "functionCall", "functionResponse", "inlineData", "fileData"}
        | {"executableCode", "codeExecutionResult", "toolCall", "toolResponse"}
    )
    for spelling in both((kind,))
}
DATA = frozenset(_KINDS)
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
        return Media(_kind(file["mimeType"]), file["mimeType"], url=file["fileUri"], source=native)
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

ROLES = {"user": "user", "model": "assistant", "function": "tool", "tool": "tool", None: "user"}
"""Our roles by those of the provider; a content without a role is the user's.

``tool`` is how the SDK's own documentation calls who answers a function call (README of google-genai).
"""

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
            where=f"messages[{index}].role", what=f"must be user, model, function or tool, got {named!r}"
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
        function = fields_or_none(each) or {}
        schema = value(function, "parameters")
        schema = value(function, "parametersJsonSchema") if schema is None else schema
        yield tool_as_read(function, schema, native if len(declared) == 1 else {"functionDeclarations": [each]})


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
    key = data_key(block) or ""
    match kind := _KINDS.get(key, key):
        case "text":
            text = needed_string(block, key, "")
            if block.get("thought"):
                return Thinking(text, signature_of(block), source=native)
            return Text(text, source=native)
        case "functionCall":
            call = fields(block[key], f".{key}")
            name, args = needed_string(call, "name", f".{key}"), call.get("args")
            arguments = "{}" if args is None else json_of(args, f".{key}.args")
            return ToolCall(_numbered(call, name, counts), name, arguments, signature_of(block), source=native)
        case "functionResponse":
            answer = fields(block[key], f".{key}")
            name = needed_string(answer, "name", f".{key}")
            response, media = answer.get("response"), answer.get("parts")
            content = read_response(response)
            if isinstance(media, (list, tuple)):
                content += tuple(read_part(each, {}) for each in media)
            call_id, interim = _numbered(answer, name, counts), value(answer, "willContinue") is True
            return ToolResult(call_id, content, name, only_text(response) == "error", source=native, interim=interim)
        case "inlineData" | "fileData":
            file = fields(block[key], f".{key}")
            data = base64_or_text(file.get("data")) if kind == "inlineData" else None
            uri = value(file, "fileUri") if kind == "fileData" else None
            if data is None and not isinstance(uri, str):
                return Opaque(kind, block, source=native)
            mime = mime if isinstance(mime := value(file, "mimeType"), str) else None
            level = (fields_or_none(value(block, "mediaResolution")) or {}).get("level")
            detail = _RESOLUTIONS.get(getattr(level, "value", level) or "")
            words = words_of(file, ("displayName", "display_name"))
            return Media(_kind(mime), mime, data, uri, detail, source=native, words=words)
        case "executableCode" | "codeExecutionResult" | "toolCall" | "toolResponse":
            # The provider runs these itself: a call and its answer have one id.
            if kind == "executableCode":
                counts[_CODE] = counts.get(_CODE, 0) + 1
            pair_id = string_of(fields_or_none(block[key]) or {}, "id") or None
            opens = kind in {"executableCode", "toolCall"}
            return Opaque(kind, block, pair_id if opens else None, None if opens else pair_id, source=native)
    return Opaque(key, block, source=native)


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


def _kind(mime: str | None) -> str:
    family = (mime or "").partition("/")[0]
    return family if family in {"image", "audio", "video"} else "document"


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


def pair(messages: Sequence[Message], standing_before: Sequence[Message] = ()) -> list[Message]:
    """The messages with each response under the id of the call that it answers.

    A message that says so already is returned itself; any other is still written as it came.
    """
    waiting, answered = _Waiting(), False
    paired: list[Message] = []
    for acts, run in groupby((*standing_before, *messages), lambda message: message.role == "assistant"):
        # The model's contents are looked at one by one, all that is between its turns together.
        for group in ([message] for message in run) if acts else (list(run),):
            if not acts:
                answered = True
            elif group[0].calls:
                if answered:
                    waiting, answered = _Waiting(), False
                group[0] = waiting.add_calls(group[0])
            results = [result for message in group for result in message.results]
            if results and waiting.calls:
                waiting.expect(results)
            paired += [waiting.answer(message) if waiting.calls and message.results else message for message in group]
    return paired[len(standing_before) :]


@define
class _Waiting:
    """Calls of one turn that wait for a response, in order, to be found by id and by name without the others."""

    calls: dict[int, ToolCall] = field(factory=dict)
    _content: dict[int, int] = field(factory=dict)
    _contents: int = 0
    _by_id: dict[str, deque[int]] = field(factory=lambda: defaultdict(deque))
    _by_name: dict[tuple[str, bool], deque[int]] = field(factory=lambda: defaultdict(deque))
    _expected: dict[tuple[str, bool], deque[int]] = field(factory=dict)
    _numbers: Counter[str] = field(factory=Counter)

    def add_calls(self, message: Message) -> Message:
        """Add the calls of a content; return it with another number in a made-up id that the turn has already."""
        self._contents += 1
        named: dict[int, ToolCall] = {}
        for call in message.calls:
            made, name = is_made(call.id, call.name), call.id
            while made and name in self._by_id:
                name = made_id(call.name, self._numbers[call.name])
                self._numbers[call.name] += 1
            if name != call.id:
                new = ToolCall(name, call.name, call.arguments, call.signature, source=call.source)
            else:
                new = call
            place = len(self._content)
            named[id(call)] = self.calls[place] = new
            self._content[place] = self._contents
            self._by_id[name].append(place)
            self._by_name[call.name, False].append(place)
            if made:
                self._by_name[call.name, True].append(place)
        return _replaced(message, named)

    def expect(self, results: Sequence[ToolResult]) -> None:
        """Take so many responses by a name for answers to the nearest contents that called it.

        Where not all calls of a content are answered, the first are; what is answered, is in order.
        """
        asked = {call.id for call in self.calls.values()}
        nameless = [r for r in results if is_made(r.call_id, r.name) or r.call_id not in asked]
        for name, number in Counter(result.name or "" for result in nameless).items():
            for key in ((name, False), (name, True)):
                waiting = [place for place in self._by_name.get(key, ()) if place in self.calls]
                contents = [list(run) for _, run in groupby(waiting, self._content.__getitem__)]
                kept: list[int] = []
                while contents and len(kept) < number:
                    kept[:0] = contents.pop()[: number - len(kept)]
                self._expected[key] = deque(kept)

    def answer(self, message: Message) -> Message:
        """Find the call of each response: by its id, else by its name, else by its place, since the provider counts."""
        answers: dict[int, ToolCall] = {}
        for result in message.results:
            call = None if is_made(result.call_id, result.name) else self._take(self._by_id.get(result.call_id))
            if call is not None:
                answers[id(result)] = call
        for result in message.results:
            # A response with an id of its own answers a call without one only.
            without_id = not is_made(result.call_id, result.name)
            if id(result) not in answers and (call := self._take(self._expected.get((result.name or "", without_id)))):
                answers[id(result)] = call
        rest = [result for result in message.results if id(result) not in answers]
        if len(rest) == len(self.calls) and all(is_made(result.call_id, result.name) for result in rest):
            answers |= zip(map(id, rest), self.calls.values(), strict=True)
            self.calls.clear()
        new: dict[int, ToolResult] = {}
        for result in message.results:
            call = answers.get(id(result))
            if call is not None and call.id != result.call_id:
                new[id(result)] = evolve(result, call_id=call.id)
        return _replaced(message, new)

    def _take(self, places: deque[int] | None) -> ToolCall | None:
        while places:
            if (call := self.calls.pop(places.popleft(), None)) is not None:
                return call
        return None


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
            key = spelled(old, "functionCall")
            before = fields_or_none(old.get(key))
            call = {**(before or {}), "name": part.name, "args": json_object(part.arguments)}
            _set_id(call, part.id, part.name, made=before is None)
            return {**old, key: call} if before is not None else _signed({key: call}, part.signature)
        case ToolResult():
            key = spelled(old, "functionResponse")
            before = fields_or_none(old.get(key))
            answer = dict(before or {})
            answer["name"] = tool_of(part.call_id, part.name)
            answer["response"] = _response(part, answer.get("response"))
            _set_id(answer, part.call_id, part.name, made=before is None)
            if attached := [write_part(item) for item in part.content if not isinstance(item, Text)]:
                answer["parts"] = attached
            else:
                answer.pop("parts", None)
            return {**old, key: answer} if before is not None else {key: answer}
        case Media():
            mime = part.media_type or _MIME.get(part.kind, "application/octet-stream")
            if part.data is not None:
                return {"inlineData": {"mimeType": mime, "data": part.data}}
            if part.url is None:
                raise InvalidInput(where="media", what="has neither data nor a place where it is")
            return {"fileData": {"mimeType": mime, "fileUri": part.url}}


_SIGNATURES = frozenset({"thoughtSignature", "thought_signature"})
"""Keys of a signature: on other words than those that were signed it would be refused."""


def _signed(block: dict[str, Any], signature: str | None) -> dict[str, Any]:
    return block if signature is None else {**block, "thoughtSignature": signature}


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
    if key is None and isinstance(old, Mapping):
        match object_spelled(text):
            case (dict() as whole,):  # a JSON object, spelled as it is counted
                return whole
    if key is None or part.is_error != (key == "error"):
        key = "error" if part.is_error else "output"
    return {key: text} if texts or old else {}


def is_object(text: Text) -> bool:
    """Whether a text of a result stands for a response that is more than a text."""
    return isinstance(text.source, Mapping) and only_text(text.source) is None


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
        answer = fields_or_none(value(fields_or_none(part.source) or {}, "functionResponse")) or {}
        as_json = answer.get("response") is not None and only_text(answer["response"]) is None
        content: list[Part] = []
        for item in part.content:
            better = cleaned(item, why) if isinstance(item, Text) else item
            if as_json and isinstance(better, Text) and (finite := finite_json(better.text)) is not better.text:
                why.append(NOT_JSON)
                better = Text(finite, source=better.source)
            content.append(better)
        if part.name == "":
            why.append(NAMELESS)
            part = evolve(part, name="_")
        return part if same(content, part.content) else evolve(part, content=tuple(content))
    if isinstance(part, ToolCall):
        return with_object(part, why)
    if isinstance(part, Opaque) and not part.kind:
        why.append("a part without data removed")
        return None
    return part


def arrange(messages: Sequence[Message], standing_before: Message | None = None) -> list[Arranged]:
    """What has to change so that all responses of a turn stand together and each call where it may stand."""
    groups: list[list[Message]] = []  # the messages of each content of the arranged conversation
    for message in messages:
        last = groups[-1][-1] if groups else None
        if last is None:
            together = False
        elif last.role == "assistant":  # words and then calls of the model are one
            together = message.role == "assistant" and not last.calls and bool(message.calls)
        else:  # and so are the responses of one turn
            together = message.role != "assistant" and bool(last.results) and bool(message.results)
        if last is not None and (together or _of_one_run((last,), message)):
            groups[-1].append(message)
        else:
            groups.append([message])
    changes: list[Arranged] = []
    before = [] if standing_before is None else [standing_before]
    index = 0
    for group in groups:
        acts = group[0].role == "assistant"
        homeless = acts and any(message.calls for message in group) and (not before or before[-1].role == "assistant")
        opening = (Message("user", (Text(NOT_SHOWN),)),) if homeless else ()
        if len(group) > 1 and not _of_one_run(group, group[0]):
            parts = [part for message in group for part in message.parts]
            if not acts:  # responses in the order of their calls, before everything else
                calls = [call.id for message in before for call in message.calls]
                order = {call_id: place for place, call_id in enumerate(calls)}
                ranks = [order.get(part.call_id, len(calls)) if isinstance(part, ToolResult) else inf for part in parts]
                parts = [parts[place] for place in sorted(range(len(parts)), key=ranks.__getitem__)]
            native = next((message for message in group if message.source is not None), group[-1])
            # Messages that become one here may have been one before repair.
            why = f"the {'words and calls' if acts else 'responses to the calls'} of one turn stand in one content"
            changes.append((index, (*opening, native.with_parts(tuple(parts))), why))
            changes += [(place, (), why) for place in range(index + 1, index + len(group))]
        elif opening:
            why = "a function call stands behind the user or a function response"
            changes.append((index, (*opening, group[0]), why))
        before = group
        index += len(group)
    return changes


def _of_one_run(before: Sequence[Message], message: Message) -> bool:
    """Whether the SDK itself makes one content of these: parts of one side that stand there by themselves."""
    side = message.role == "assistant"
    return all((each.role == "assistant") == side for each in before) and all(
        each.untouched and is_bare(each.source) for each in (*before, message)
    )


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
    asking: list[int] = []
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if message.role == "assistant":
            if message.calls and not message.calls[0].signature:
                asking.append(place)
        elif not message.results or any(isinstance(part, Text) for part in message.parts):
            break  # the turn begins here: the user says something, and not only functions answer
    if not asking:
        return messages
    signed = list(messages)
    for place in reversed(asking):
        message, first = messages[place], messages[place].calls[0]
        note(message, WHY)
        native = fields_or_none(first.source)
        source = None if native is None else {**native, "thoughtSignature": UNSIGNED}
        call = evolve(first, signature=UNSIGNED, source=source)
        signed[place] = message.with_parts(tuple(call if part is first else part for part in message.parts))
    return signed


def unsigned(part: Part) -> Part:
    """A part without its signature, as for another model; a call gets the one that stands for none."""
    native = fields_or_none(part.source)
    if native is None or _SIGNATURES.isdisjoint(native):
        return part
    bare = {key: value for key, value in native.items() if key not in _SIGNATURES}
    if isinstance(part, ToolCall):
        source = {**bare, "thoughtSignature": UNSIGNED}
        return part if source == native else evolve(part, signature=UNSIGNED, source=source)
    return Text(part.text, source=bare) if isinstance(part, Text) else evolve(part, source=bare)


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
    # Elsewhere it has to differ from a mere text or mapping: a content, or an object of the SDK.
    if not named and all(
        bare_parts(each) is not None and isinstance(each, (str, list, tuple, Mapping)) for each in contents
    ):
        return 0
    best = _POSSIBLE
    for content in contents:
        sign = _sign(content)
        best = max(best, sign)
        if sign == 0 or best == _SURE:
            return sign and best + _LIKELY * named
    return best + _LIKELY * named


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


_TAKEN_ALONG = frozenset(
    {"role", "parts", "text", "thought", "thoughtSignature", "functionCall", "functionResponse", "inlineData"}
    | {"fileData", "name", "args", "response", "id", "mimeType", "data", "fileUri", "uri"}
    | {"thought_signature", "mime_type", "file_uri"}  # as google-genai spells them
)
"""The keys of messages whose values a conversion takes along, or reports as left behind."""


@frozen
class Gemini(WireFormat):
    """The generateContent format.

    Each content with calls is answered before the next one. Ids are optional, and only a turn's own have to differ.
    """

    name = "gemini"
    provider = "gcp.gemini"
    other_names = ("google", "vertex")
    keys = RequestKeys("contents", system="system_instruction")
    overheads = TokenOverheads(message=4, call=8, result=8, schema_as_json=True)  # estimates

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
    may_end_on = staticmethod(may_end_on)
    is_object = staticmethod(is_object)

    def synthetic_result(self, calls: Sequence[ToolCall], text: str, /) -> tuple[Message, ...]:
        """One user content that answers all the calls with ``text``, as errors."""
        if not calls:
            return ()
        results = (ToolResult(call.id, (Text(text),), call.name, is_error=True) for call in calls)
        return (Message("user", tuple(results)),)

    def capabilities(self, _model: str | None, _profile: ModelProfile | None, /) -> Capabilities:
        """What it can say."""
        return Capabilities(
            keys=_TAKEN_ALONG,
            names=Spelling("a-zA-Z0-9_.:-", 64),
            user_first=True,
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
        bare = () if kept is None else tuple(map(unsigned, kept.parts))
        return kept if kept is None or same(bare, kept.parts) else kept.with_parts(bare)

    def write_system(self, system: Message, /) -> Native:
        """The system instruction: a content without a role."""
        return {"parts": [write_part(part) for part in system.parts]}

    def write_tool(self, tool: Tool, /) -> Native:
        """A tool of the caller's as a declaration, which has to be described."""
        declared = {"name": tool.name, "description": tool.description or tool.name}
        return {"functionDeclarations": [{**declared, "parametersJsonSchema": tool.parameters}]}


@frozen
class GenerateContent(Adapter):
    """``POST /models/…:generateContent`` and ``:streamGenerateContent``, as they are sent and answered over HTTP."""

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

    def usage(self, answer: Native, /) -> Native:
        """Return the ``usageMetadata`` of an answer or a chunk."""
        return get(answer, "usageMetadata")

    def begins(self, event: Native, /) -> bool:
        """Tell whether a chunk has parts, or ends."""
        candidates = get(event, "candidates") or ()
        return any(get(one, "content", "parts") or get(one, "finishReason") for one in candidates)

    def ends(self, event: Native, /) -> bool:
        """Tell whether a chunk is the last one of an answer."""
        return any(get(one, "finishReason") for one in get(event, "candidates") or ())
