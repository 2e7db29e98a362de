"""A conversation taken from one provider's format to another: parts, ids, turns and tools."""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from itertools import groupby
from mimetypes import guess_type
from time import perf_counter
from typing import Any

from attrs import define, evolve, field, frozen

from agentctx.changes import Change, ChangesInForce, Outcome, match
from agentctx.engine.reading import Reader, as_list, naming_what_is_too_deep, reader, write_native
from agentctx.engine.repair import repair
from agentctx.errors import InvalidInput
from agentctx.formats.native import HEARD, fields_or_none, json_object, mapping_or_none
from agentctx.formats.registry import format_named
from agentctx.message import (
    KEYS,
    SYSTEM_ROLES,
    Context,
    Media,
    Message,
    Native,
    Opaque,
    Part,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    is_marker,
)
from agentctx.models.table import shares_reasoning
from agentctx.protocols import Call, TokenCounter
from agentctx.reports import Report, StageReport
from agentctx.tokens.counting import as_counter
from agentctx.tokens.media import carried, document_text
from agentctx.unit import FOREIGN_REASONING, NOT_SHOWN
from agentctx.wire_format import Capabilities, MediaTypes, Spelling, WireFormat

FAILED = "that the tool failed is not said here"
NEW_ID = "ids and names of calls are spelled as the provider takes them"
_FREE_TEXT = frozenset({"custom", "custom_tool_call"})


@define
class Translator:
    """Turns the messages of one conversation into plain values, one after the other."""

    target: Capabilities
    taken: frozenset[str]
    ids: Respelling
    names: Respelling
    _called: dict[str, str] = field(factory=dict, init=False)

    @classmethod
    def to(cls, target: Capabilities, source: WireFormat) -> Translator:
        """A translator for a conversation that begins."""
        return cls(
            target,
            source.capabilities(None, None).keys,
            Respelling(target.ids, target.unique_ids),
            Respelling(target.names),
        )

    def message(self, message: Message) -> Spoken:
        """What a message says, without anything that belongs to its provider."""
        spoken = Spoken()
        takes = self.target.in_user if message.role in {"user", "tool"} else {}
        for part in message.parts:
            spoken.parts.extend(self._part(part, takes, spoken))
        left = _beside(message, self.taken, spoken.named)
        if alone := [key for key in left if key not in self.target.also]:
            spoken.why.append(f"only its own format has a place for: {', '.join(alone)}")
        if shared := [key for key in left if key in self.target.also]:
            spoken.why.append(f"not taken along: {', '.join(shared)}")
        return spoken

    def _part(self, part: Part, takes: MediaTypes, spoken: Spoken) -> Iterator[Part]:
        match part:
            case Text(text):
                yield Text(text)
            case Media():
                yield self._media(part, takes, spoken)
            case ToolCall():
                yield self._call(part, spoken)
            case ToolResult():
                yield self._result(part, spoken)
            case Thinking():
                spoken.why.append(FOREIGN_REASONING)
            case Opaque():
                yield from self._read(part, takes, spoken)

    def _media(self, part: Media, takes: MediaTypes, spoken: Spoken) -> Part:
        if (found := _placed(part, takes, self.target)) is not None:
            if part.detail not in {None, "auto", found.detail}:
                spoken.why.append(f"the wish for resolution went: {part.detail}")
            return self._named(found, part, spoken)
        if (text := document_text(part)) is not None:
            spoken.why.append("a document of plain text became text")
            return Text(text)
        spoken.why.append(f"this {part.kind} cannot be sent here")
        return _left_out(part)

    def _named(self, found: Media, part: Media, spoken: Spoken) -> Media:
        made = _named(found, part, self.target)
        if made is not found and _name_of(part) is not None:
            spoken.named.add(id(part))
        return made

    def _call(self, part: ToolCall, spoken: Spoken) -> ToolCall:
        call_id, name = self.ids.of_call(part.id), self.names.of(part.name)
        if call_id != part.id or name != part.name:
            spoken.why.append(NEW_ID)
        if part.signature is not None:
            spoken.why.append(FOREIGN_REASONING)
        self._called[call_id] = name
        arguments = part.arguments
        if str((fields_or_none(part.source) or {}).get("type")) in _FREE_TEXT:
            # The free text of a custom tool is wrapped, as its definition then says.
            arguments = json.dumps({"input": arguments}, ensure_ascii=False)
        elif self.target.arguments_object and not arguments.startswith("{"):
            arguments = json.dumps(json_object(arguments), ensure_ascii=False)
        return ToolCall(call_id, name, arguments)

    def _result(self, part: ToolResult, spoken: Spoken) -> ToolResult:
        call_id = self.ids.of_result(part.call_id)
        content: list[Part] = []
        for each in part.content:
            content.extend(self._output(each, call_id, spoken))
        if part.is_error and not self.target.says_failed:
            spoken.why.append(FAILED)
        if part.interim:
            spoken.why.append("that the tool says more later is not said here")
        return ToolResult(call_id, tuple(content), self._called.get(call_id, part.name), part.is_error)

    def _output(self, part: Part, call_id: str, spoken: Spoken) -> Iterator[Part]:
        if not isinstance(part, Media):
            yield from self._part(part, {}, spoken)
        elif (found := _placed(part, self.target.in_results, self.target)) is not None:
            yield self._named(found, part, spoken)
        elif (found := _placed(part, self.target.in_user, self.target)) is not None:
            spoken.why.append(f"the user shows the {part.kind} that a tool returned")
            shown = self._named(found, part, spoken)
            spoken.shown += [Text(f"[{part.kind} returned by the tool call {call_id}]"), shown]
            yield Text(f"[{part.kind}: see the next user message]")
        else:
            yield self._media(part, {}, spoken)

    def _read(self, part: Opaque, takes: MediaTypes, spoken: Spoken) -> Iterator[Part]:
        """What can be read and seen in a block that only its provider understands."""
        if is_marker(part):
            return
        found = carried(part.data)
        text = _readable(evolve(part, data=found.rest))
        if text is None and not found.media:
            spoken.why.append(f"a block that only its provider understands went: {part.kind}")
            return
        if part.kind != "refusal" or found.media:
            spoken.why.append(f"what can be read of a block became text: {part.kind}")
        if text is not None:
            yield Text(text)
        yield from (self._media(each, takes, spoken) for each in found.media)


@define
class Spoken:
    """A message in plain values.

    Args:
        shown: Media that a tool returned and that only a user may show.
        named: The ids of the parts whose names were taken along.
    """

    parts: list[Part] = field(factory=list)
    shown: list[Part] = field(factory=list)
    why: list[str] = field(factory=list)
    named: set[int] = field(factory=set)


def _in_one_text(parts: Sequence[Part]) -> list[Part]:
    """The parts with all texts joined where the first one stood, each on lines of its own."""
    texts = [part.text for part in parts if isinstance(part, Text) and part.text]
    if len(texts) < 2:
        return list(parts)
    joined: list[Part] = []
    for part in parts:
        if not isinstance(part, Text):
            joined.append(part)
        elif texts:
            joined.append(Text("\n".join(texts)))
            texts = []
    return joined


@define
class Respelling:
    """New words for old ones.

    Args:
        unique: Whether each use of a word has to get a word of its own.
    """

    spelling: Spelling
    unique: bool = False
    _made: dict[tuple[str, int], str] = field(factory=dict, init=False)
    _owner: dict[str, tuple[str, int]] = field(factory=dict, init=False)
    _uses: dict[str, int] = field(factory=dict, init=False)
    _open: dict[str, deque[str]] = field(factory=dict, init=False)

    def of(self, word: str) -> str:
        """The new word for an old one: always the same."""
        return self._word(word, 0)

    def of_call(self, call_id: str) -> str:
        """The new id of a call."""
        use = self._uses.get(call_id, 0) if self.unique else 0
        self._uses[call_id] = use + 1
        made = self._word(call_id, use)
        self._open.setdefault(call_id, deque()).append(made)
        return made

    def of_result(self, call_id: str) -> str:
        """The new id of the call that a result answers: of the earliest one that is not answered."""
        waiting = self._open.get(call_id)
        return waiting.popleft() if waiting else self._word(call_id, max(0, self._uses.get(call_id, 1) - 1))

    def _word(self, word: str, use: int) -> str:
        if (made := self._made.get((word, use))) is not None:
            return made
        attempt = 0
        while True:
            salt = f"{use}.{attempt}" if use or attempt else ""
            made = self.spelling.respelled(word, salt)
            if self._owner.setdefault(made, (word, use)) == (word, use):
                self._made[word, use] = made
                return made
            attempt += 1


_WORDS = frozenset(
    {"title", "text", "content", "url", "uri", "query", "queries", "refusal", "code", "output", "stdout", "stderr"}
    | {"summary", "data", "transcript", "tool_name"}
)
"""Keys whose strings are meant to be read."""

_DEEPEST = 12


def _readable(block: Opaque) -> str | None:
    """The words in a block, with its kind before them; a refusal and a summary by themselves. None when it has none."""
    if block.kind == "refusal" and isinstance(block.data, str):
        return block.data
    words = "\n".join(_words(block.data, 0)).strip()
    if not words:
        return None
    return words if block.kind in {"compaction", "text"} else f"[{block.kind}] {words}"


def _words(data: object, depth: int) -> Iterator[str]:
    """Strings under the keys that are meant to be read, in the order in which they stand."""
    if depth > _DEEPEST:
        return
    if isinstance(data, (list, tuple)):
        for each in data:
            yield from _words(each, depth + 1)
    elif (block := mapping_or_none(data)) is not None:
        # ``data`` may be no text: media in base64, hidden reasoning.
        media_type = block.get("media_type") or block.get("mimeType") or block.get("mime_type")
        hidden = block.get("type") != "text" and not str(media_type or "").startswith("text/")
        for key, value in block.items():
            if isinstance(value, str):
                if key in _WORDS and not (hidden and key == "data") and value.strip():
                    yield value
            elif key in _WORDS and isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value):
                yield from (each for each in value if each.strip())
            else:
                yield from _words(value, depth + 1)


_USUAL = {"image": "image/png", "document": "application/pdf"}
_SAME = {"image/jpg": "image/jpeg", "audio/x-wav": "audio/wav", "audio/mpeg": "audio/mp3"}
_USUAL_ALPHABET = str.maketrans("-_", "+/")
_DETAILS = frozenset({"low", "high", "auto"})
NAMES = ("filename", "title", "displayName", "display_name", "name")
"""The keys under which the formats have the name of a document."""

_LONGEST_TITLE = 500


def _placed(part: Media, takes: MediaTypes, target: Capabilities) -> Media | None:
    """The media as they may stand where ``takes`` says what may; None when they may not."""
    if part.kind not in takes:
        return None
    detail = part.detail if target.details and part.detail in _DETAILS else None
    bare = Media(part.kind, part.media_type, part.data, part.url, detail)
    if part.data is None:  # what a provider keeps under a name of its own, no other provider has
        url = part.url or ""
        if part.kind not in target.by_url or not url.startswith(("https://", "http://")):
            return None
        return evolve(bare, media_type=part.media_type or guess_type(url.partition("?")[0])[0])
    media_type = _SAME.get(part.media_type or "", part.media_type) or _USUAL.get(part.kind)
    data = _plain_base64(part.data)
    allowed = {_SAME.get(one, one) for one in takes[part.kind]}
    if media_type not in allowed or data is None:
        return None
    return evolve(bare, media_type=part.media_type or media_type, data=data, url=None)


def _named(part: Media, was: Media, target: Capabilities) -> Media:
    """A document with the name that it had, where it has a place, or with a neutral one where it has to have one."""
    if part.kind != "document" or target.names_files is None:
        return part
    name = _name_of(was)
    if target.names_files == "title":
        title = (name or "")[:_LONGEST_TITLE]
        return evolve(part, source={"type": "document", "title": title}, words=title) if title else part
    if part.data is None:
        return part
    name = name or "document"
    filename = name if name.lower().endswith(".pdf") else f"{name}.pdf"
    told: dict[str, Any] = {"filename": filename}
    block = {"file": told} if target.names_files == "file" else told
    return evolve(part, source={"type": target.names_files, **block}, words=filename)


def _name_of(part: Media) -> str | None:
    """The name that a document has in its own format, if any."""
    block = fields_or_none(part.source) or {}
    inner = (fields_or_none(held) for held in block.values() if not isinstance(held, str))
    holders = (block, *(each for each in inner if each is not None))
    names = (holder.get(key) for holder in holders for key in NAMES)
    return next((name for name in names if isinstance(name, str) and name.strip()), None)


def _plain_base64(data: str) -> str | None:
    """Base64 as all providers take it: in one line, in the usual alphabet and padded; None when it is none."""
    plain = "".join(data.split()).translate(_USUAL_ALPHABET).rstrip("=")
    plain += "=" * (-len(plain) % 4)
    try:
        b64decode(plain, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if plain == data else plain


def _left_out(part: Media) -> Text:
    """What stands for media that cannot be sent."""
    kind = part.media_type or part.kind
    place = f": {part.url}" if part.url is not None and part.data is None else ""
    return Text(f"[{kind} left out{place}]")


_MARKS = KEYS | {"type", "cachePoint"}
"""Keys that say nothing, or are not taken along as ``convert`` says."""

_ANSWER = frozenset(
    {"id", "model", "stop_reason", "stop_sequence", "stop_details", "usage", "container", "status", "phase"}
)
"""Keys of an answer as its SDK returns it, about the call that it answered."""

_HOLDERS = frozenset(
    {
        "function",
        "custom",
        "input_audio",
        "image_url",
        "video_url",
        "file",
        "source",
        "functionCall",
        "functionResponse",
    }
    | {"inlineData", "fileData", "toolUse", "toolResult", "image", "video", "audio", "document", "s3Location"}
)
"""Keys that hold more of the block itself; what stands under any other is content of its own."""

_TOOL = frozenset(
    {"type", "name", "description", "parameters", "input_schema", "inputSchema", "parametersJsonSchema", "function"}
    | {"custom", "toolSpec", "strict", "functionDeclarations", "json"}
)
_NAMED = frozenset({"function", "custom", "functionCall", "functionResponse", "toolUse"})
"""Keys under which a name is that of a tool."""

_CAMELS = _HOLDERS | {"parametersJsonSchema", "functionDeclarations"}


def _beside(message: Message, taken: frozenset[str], named: AbstractSet[int]) -> list[str]:
    """The keys of a native message that say something which is not taken along, each once."""
    for part in message.parts:
        if isinstance(part, Media) and type(part.source) is dict and len(part.source) == 1:
            taken |= part.source.keys()  # the part is the value of this key of the message
    answer = _ANSWER if isinstance((fields_or_none(message.source) or {}).get("usage"), Mapping) else _MARKS
    if message.results:  # the name of a tool goes along with its result; that of a participant does not
        answer |= {"name"}
    found = [key for key in _keys(message.source, taken) if key not in answer]
    found += [key for part in message.parts for key in _of_part(part, taken, named)]
    return list(dict.fromkeys(found))


def beside_tool(tool: Tool) -> list[str]:
    """The keys of a tool's definition that are not taken along."""
    definition = fields_or_none(tool.source) or {}
    inner = [fields_or_none(definition.get(key)) or {} for key in ("function", "custom", "toolSpec")]
    return list(dict.fromkeys(key for each in (definition, *inner) for key in _unknown(each, _TOOL)))


def _of_part(part: Part, taken: frozenset[str], named: AbstractSet[int]) -> Iterator[str]:
    if isinstance(part, (Opaque, Thinking)):  # these are said to go as a whole
        return
    if id(part) in named:
        taken |= frozenset(NAMES)
    yield from (key for key in _keys(part.source, taken) if not (key == "name" and isinstance(part, ToolResult)))
    if isinstance(part, ToolResult):
        for each in part.content:
            if not (
                isinstance(each, Text) and "text" not in (fields_or_none(each.source) or {})
            ):  # else read as a whole
                yield from _of_part(each, taken, named)


def _keys(native: object, taken: frozenset[str], depth: int = 0) -> Iterator[str]:
    block = None if isinstance(native, str) else fields_or_none(native)
    if block is None or depth > 4:
        return
    yield from _unknown(block, taken)
    for key, value in block.items():
        if _camel(key) in _HOLDERS:
            yield from _keys(value, taken | ({"name"} if _camel(key) in _NAMED else set()), depth + 1)


def _unknown(block: Mapping[str, Any], taken: frozenset[str]) -> Iterator[str]:
    return (
        key for key, value in block.items() if _says(value) and key not in _MARKS and not {key, _camel(key)} & taken
    )


def _says(value: object) -> bool:
    """Whether there is anything in it but what is empty, null or false."""
    waiting, seen = [value], {id(value): value}
    while waiting:
        each = waiting.pop()
        if (inner := fields_or_none(each)) is None:
            if each:
                return True
            continue
        new = {id(item): item for item in inner.values() if id(item) not in seen}
        seen |= new
        waiting.extend(new.values())
    return False


def _camel(key: str) -> str:
    """The API's spelling of a key of google-genai; other formats' keys are known as they are."""
    head, *rest = key.split("_")
    made = head + "".join(each[:1].upper() + each[1:] for each in rest)
    return made if made in _CAMELS else key


@frozen
class Turn:
    """Something that one side says.

    Args:
        role: ``"system"``, ``"developer"``, ``"user"`` (also what tools answer) or ``"assistant"``.
        origins: The indexes of the messages that it was made from.
        why: What could not be put into it.
    """

    role: str
    parts: tuple[Part, ...]
    origins: tuple[int, ...] = field(default=(), eq=False)
    why: tuple[str, ...] = field(default=(), eq=False)


def grouped(turns: Iterable[Turn], target: Capabilities) -> list[Turn]:
    """The turns in the grouping, the order and the roles of the target. Grouping twice changes nothing."""
    roles = {"tool": "user", **dict.fromkeys(SYSTEM_ROLES, target.system_between)}
    sided = [evolve(turn, role=roles.get(turn.role, turn.role)) for turn in turns if turn.parts]
    found: list[Turn] = []
    for side, run in groupby(sided, key=lambda turn: turn.role):
        said = list(run)
        if side != "assistant":
            found += _of_others(side, said, target)
        elif target.grouping != "one item":
            whole = _joined("assistant", said)
            parts = _in_one_text(whole.parts) if target.texts_in_one else list(whole.parts)
            first = next((part for part in parts if isinstance(part, ToolCall)), None)
            if target.unsigned_call is not None and first is not None:
                signed = evolve(first, signature=target.unsigned_call)
                parts = [signed if part is first else part for part in parts]
            found.append(evolve(whole, parts=tuple(parts)))
        else:  # one item for each call and for the words between
            for turn in said:
                for apart, each in groupby(turn.parts, key=lambda part: isinstance(part, (Thinking, ToolCall))):
                    held = tuple(each)
                    found += [evolve(turn, parts=item) for item in (zip(held) if apart else (held,))]
    if target.user_first and found and found[0].role == "assistant":
        found.insert(0, Turn("user", (Text(NOT_SHOWN),)))
    return list(found if target.user_after_results else _with_answers(found))


def _joined(role: str, turns: Sequence[Turn], parts: Iterable[Part] | None = None) -> Turn:
    said = (part for turn in turns for part in turn.parts) if parts is None else parts
    return Turn(role, tuple(said), tuple(dict.fromkeys(origin for turn in turns for origin in turn.origins)))


def _of_others(role: str, run: Sequence[Turn], target: Capabilities) -> list[Turn]:
    """The results of tools first, then what else is said."""
    answering = [turn for turn in run if any(isinstance(part, ToolResult) for part in turn.parts)]
    answers = [
        Turn("tool", (_plain(part, target),), turn.origins)
        for turn in answering
        for part in turn.parts
        if isinstance(part, ToolResult)
    ]
    results = [part for answer in answers for part in answer.parts]
    said = [rest for turn in run if (rest := _without_results(turn)).parts]
    if target.grouping == "one turn":
        parts = [*results, *(part for turn in said for part in turn.parts)]
        few = list(parts)
        why: tuple[str, ...] = ()
        for kind, most in target.most.items():
            media = [(place, part) for place, part in enumerate(parts) if isinstance(part, Media) and part.kind == kind]
            for place, part in media[: max(0, len(media) - most)]:
                few[place] = _left_out(part)
                why = ("a message takes no more media of this kind: the latest stay",)
        return [evolve(_joined(role, run, few), why=why)]
    if not results:
        return said
    if target.grouping == "all results":
        return [_joined("user", answering, results), *said]
    return [*answers, *said]


def _without_results(turn: Turn) -> Turn:
    return evolve(turn, parts=tuple(part for part in turn.parts if not isinstance(part, ToolResult)))


def _plain(result: ToolResult, target: Capabilities) -> ToolResult:
    return evolve(result, content=tuple(_in_one_text(result.content))) if target.results_in_one else result


def _with_answers(turns: Sequence[Turn]) -> Iterator[Turn]:
    """The model says a word where the user would speak directly after the results of tools."""
    heard = False
    for turn in turns:
        results = tuple(part for part in turn.parts if isinstance(part, ToolResult))
        rest = _without_results(turn)
        if results:
            yield evolve(turn, parts=results)
        if rest.parts:
            if rest.role == "user" and (heard or results):
                yield Turn("assistant", (Text(HEARD),))
            yield rest
        heard = bool(results) and not rest.parts


Schema = Mapping[str, Any]
_NOTHING: Schema = {"type": "object", "properties": {}}
_FREE_INPUT: Schema = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "The input as plain text."}},
    "required": ["input"],
}
_DEFINED = frozenset({"functionDeclarations", "function_declarations", "toolSpec", "input_schema", "parameters"})
"""Keys of which each definition has one that is not told by its type."""


def translated(tools: Iterable[Tool], wire: WireFormat, names: Respelling) -> tuple[list[Any], list[str]]:
    """Tool definitions as a format writes them, and the names of those that have no counterpart."""
    made: list[Any] = []
    lost: list[str] = []
    for tool in tools:
        schema = _schema_of(tool)
        if schema is None:
            source = fields_or_none(tool.source) or {}
            kind = source.get("type")
            lost.append(tool.name or (kind if isinstance(kind, str) else next(iter(source), "tool")))
        else:
            made.append(wire.write_tool(evolve(tool, name=names.of(tool.name), parameters=schema)))
    return made, lost


def placeholder(name: str) -> Tool:
    """A tool that is called in the history and not on offer any more."""
    return Tool(name, "Not available any more.", _NOTHING)


def _schema_of(tool: Tool) -> Schema | None:
    """The JSON schema of a tool's arguments; None when the tool is no function of the caller's."""
    source = fields_or_none(tool.source) or {}
    # The caller runs a function, and its definition says all of it.
    own = tool.source is None or source.get("type") in ("function", "custom") or not _DEFINED.isdisjoint(source)
    if not tool.name or not own:
        return None
    if source.get("type") == "custom" and "input_schema" not in source:
        return _FREE_INPUT
    if tool.parameters is None:
        return _NOTHING
    google = "functionDeclarations" in source or "function_declarations" in source
    schema: Schema = _lowered(tool.parameters) if google else tool.parameters
    return schema if schema.get("type") == "object" else {**schema, "type": "object"}


def _lowered(schema: object) -> Native:
    """Gemini's own dialect of OpenAPI schemas as JSON schema: types in small letters, null as a type."""
    if isinstance(schema, (list, tuple)):
        return [_lowered(each) for each in schema]
    if (fields := fields_or_none(schema)) is None:
        return schema
    lowered: dict[str, Native] = {}
    for key, value in fields.items():
        if key == "type" and isinstance(name := getattr(value, "value", value), str):
            lowered[key] = name.lower()
        elif key in {"properties", "defs", "$defs"} and (named := fields_or_none(value)) is not None:
            lowered[key] = {name: _lowered(each) for name, each in named.items()}
        elif key != "nullable":
            lowered[key] = value if key in {"enum", "required", "example", "default"} else _lowered(value)
    if fields.get("nullable") is True and isinstance(kind := lowered.get("type"), str):
        lowered["type"] = [kind, "null"]
    return lowered


_STAGE = "convert"
SAID_BY_THE_USER = "no system message may stand in the middle here: it is said by the user"


_Models = tuple[str | None, str | None]
"""The model that will be called, and the one before."""


@frozen
class Converted:
    """A conversation in another provider's shape.

    Args:
        messages: The messages (Gemini's ``contents``, Responses' ``input`` items).
        system: The system prompt where the format keeps it apart from the messages (``system``, ``instructions``,
            ``system_instruction``), else None.
        tools: The tool definitions, or None when there are none.
        report: What could not stay as it was; its indexes are those of the messages passed in.

    Example:
        >>> from agentctx import convert
        >>> moved = convert([{"role": "user", "content": "Hi"}], to="gemini")
        >>> moved.messages
        [{'role': 'user', 'parts': [{'text': 'Hi'}]}]
    """

    messages: list[Any]
    system: Native
    tools: list[Any] | None
    report: Report


def convert(
    messages: Sequence[Any],
    to: str,
    *,
    format: str | None = None,  # noqa: A002 - the contract's name
    model: str | None = None,
    from_model: str | None = None,
    system: Native = None,
    tools: Native = None,
    counter: TokenCounter | Callable[[str], int] | None = None,
) -> Converted:
    """Take a conversation to another provider or model: legal there, and as whole as it can be.

    Reasoning stays with the model that made it. Ids and names of calls get the spelling that the provider takes, the
    same for the same every time, so that a growing conversation may be converted again at each step. Media that it
    does not take are named in a text. What only its own provider understands (server-side tools, compaction) becomes
    text where it can be read, else it goes. Cache markers are not taken along. A broken history is repaired. Within
    one format only the reasoning goes, unless both models are named and share it.

    Args:
        messages: The transcript in its provider's own shape; neither it nor anything in it is changed.
        to: The format to convert to, for example ``"anthropic"``.
        format: The format of ``messages``; found out when not given.
        model: The model that will be called: some take less than their format does.
        from_model: The model that was called until now; helps to find out the format.
        system: The system prompt, where the format keeps it apart.
        tools: The tool definitions.
        counter: Counts text for the report, instead of the models' encodings: a counter, or a function of a text.

    Raises:
        InvalidInput: If something cannot be read, is nested too deep, or a format is unknown.
        AmbiguousFormat: If the messages fit several formats and none is named.
        ConfigError: If the counter is none, or async.

    Example:
        >>> from agentctx import convert
        >>> messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
        >>> moved = convert(messages, to="anthropic")
        >>> moved.system, moved.messages
        ('Be brief.', [{'role': 'user', 'content': 'Hi'}])
    """
    as_list(messages)
    counted = as_counter(counter)
    with naming_what_is_too_deep(messages, system, tools):
        source = reader(messages, system=system, tools=tools, format=format, model=from_model, counter=counted)
        format_named(to, model, "to")
        goal = reader(messages, format=to, model=model, counter=counted)
        return _converted(source, goal, (messages, system, tools), (model, from_model))


def _converted(source: Reader, goal: Reader, passed: tuple[Sequence[Any], Any, Any], models: _Models) -> Converted:
    """What was passed, for the model that will be called, from the one before."""
    started, (messages, system, tools), (model, from_model) = perf_counter(), passed, models
    given = source.context(messages, system, tools)
    log = _Log(source, goal)
    if source.wire.name.partition("/")[0] == goal.wire.name.partition("/")[0]:
        # Reasoning may stay where nothing says that another model is called, or both models share it.
        keep = model is None or (from_model is not None and shares_reasoning(model, from_model))
        converted = _within(given, log, keep=keep), system, None if tools is None else [*tools]
    else:
        converted = _across(given, log, goal.wire.capabilities(model, goal.profile))
    after = goal.context(*converted)
    if not after.messages:
        where = "messages"
        raise InvalidInput(where, "nothing is left to send: no message says anything that can be taken along")
    if len(after.messages) != len(given.messages):
        numbers = f"{len(given.messages)} messages became {len(after.messages)}"
        done = "joined" if len(after.messages) < len(given.messages) else "split"
        log.remarks.append(f"{numbers}, {done} as {goal.wire.name} has them")
    return Converted(*converted, log.report(given, after, perf_counter() - started))


@define
class _Log:
    """What has to be said about the messages passed in.

    Args:
        why: The reasons, by index, of those that could not stay as they were.
        outcomes: What became of them, where that is not "edited".
    """

    source: Reader
    goal: Reader
    why: dict[int, list[str]] = field(factory=dict)
    outcomes: dict[int, Outcome] = field(factory=dict)
    remarks: list[str] = field(factory=list)

    def say(self, indexes: Sequence[int | None], *reasons: str, outcome: Outcome | None = None) -> None:
        """Say something about messages passed in; a message that was made on the way has no index."""
        for index in indexes:
            if index is not None and reasons:
                self.why.setdefault(index, []).extend(reasons)
                if outcome is not None:
                    self.outcomes[index] = outcome

    def dropped(self, indexes: Iterable[int]) -> None:
        """Say that nothing is left of messages passed in."""
        for index in indexes:
            self.outcomes[index] = Outcome.DROPPED
            self.why.setdefault(index, ["nothing in it could be sent"])

    def report(self, given: Context, after: Context, seconds: float) -> Report:
        """The report as of one stage."""
        meter = self.source.meter
        changes: list[Change] = []
        for index in sorted(self.why):
            message, outcome = given.messages[index], self.outcomes.get(index, Outcome.EDITED)
            reason, tokens = "; ".join(dict.fromkeys(self.why[index])), meter.message(message)
            left = 0 if outcome is Outcome.DROPPED else tokens
            changes.append(Change(index, message.role, outcome, _STAGE, reason, tokens, left, by="fit"))
        before, size = meter.size(given), self.goal.meter.size(after)
        stage = StageReport(_STAGE, tuple(changes), before, size, seconds, tuple(dict.fromkeys(self.remarks)))
        return Report(
            (stage,) if stage.acted else (),
            ChangesInForce(tuple(changes)),
            len(given.messages),
            len(after.messages),
            before,
            size,
            meter.bytes(given),
            self.goal.meter.bytes(after),
            seconds=seconds,
        )


def _within(given: Context, log: _Log, *, keep: bool) -> list[Any]:
    """The messages in the format that they are in: legal for where they go, and without reasoning that is not."""
    wire = log.goal.wire
    bare: list[Message] = []
    places: list[tuple[int, ...]] = []
    for index, message in enumerate(given.messages):
        kept = message if keep else wire.without_reasoning(message)
        if kept is not message:
            log.say((index,), FOREIGN_REASONING, outcome=Outcome.DROPPED if kept is None else None)
        if kept is not None:
            bare.append(kept)
            places.append((index,))
    return _written(wire, _legal(bare, places, log.goal, log))


def _legal(
    messages: Sequence[Message], places: Sequence[tuple[int, ...]], reading: Reader, log: _Log
) -> Sequence[Message]:
    """The messages made legal for their format; what was done is said of where they come from."""
    call = Call(reading.meter, reading.wire.name, wire=reading.wire)
    whole = repair(messages, call, reading.wire)
    log.remarks += call.internals.notes.remarks
    for place, message in zip(places, messages, strict=True):
        if said := call.internals.notes.why(message).why:
            log.say(place, said)
    return messages if whole is None else whole


def _across(given: Context, log: _Log, target: Capabilities) -> tuple[list[Any], Any, list[Any] | None]:
    """Messages, system prompt and tools in the other format."""
    wire = log.goal.wire
    turns, translator = _turns(given, log, target)
    lead = next((n for n, turn in enumerate(turns) if turn.role not in SYSTEM_ROLES), len(turns))
    system = None
    if wire.keys.system is not None:
        said = (part for turn in turns[:lead] for part in turn.parts)
        texts = tuple(part for part in said if isinstance(part, Text) and part.text.strip())
        system = wire.write_system(Message("system", texts)) if texts else None
        for turn in turns[:lead]:
            log.say(turn.origins, "the system prompt stands apart from the messages", outcome=Outcome.MOVED)
        turns = turns[lead:]
    made = _settled(turns, target, log)
    tools = _tools(given.tools, made, translator, log)
    return _written(wire, made), system, tools


def _written(wire: WireFormat, messages: Sequence[Message]) -> list[Any]:
    return [write_native(wire, message, f"converted messages[{place}]") for place, message in enumerate(messages)]


def _turns(given: Context, log: _Log, target: Capabilities) -> tuple[list[Turn], Translator]:
    """What was said, in plain values; the system prompt first."""
    places = [(index,) for index in range(len(given.messages))]
    messages = _legal(given.messages, places, log.source, log)
    origins = match(given.messages, messages).origins
    translator = Translator.to(target, log.source.wire)
    turns: list[Turn] = []
    if given.system is not None:  # what is lost of it has no index, and is remarked
        spoken = translator.message(given.system)
        log.remarks += [f"the system prompt: {why}" for why in spoken.why]
        turns.append(Turn("system", tuple(spoken.parts)))
    for origin, message in zip(origins, messages, strict=True):
        spoken, place = translator.message(message), () if origin is None else (origin,)
        if origin is not None and origin not in log.why and message != given.messages[origin]:
            log.say(place, "what breaks a rule of its own format was repaired")
        said = bool(spoken.parts or spoken.shown)
        log.say(place, *spoken.why, outcome=None if said else Outcome.DROPPED)
        if not said and not spoken.why:
            log.dropped(place)
        turns.append(Turn(message.role, tuple(spoken.parts), place))
        turns.append(Turn("user", tuple(spoken.shown), place))
    log.dropped(set(range(len(given.messages))) - {origin for origin in origins if origin is not None})
    return [turn for turn in turns if turn.parts], translator


def _settled(turns: Sequence[Turn], target: Capabilities, log: _Log) -> list[Message]:
    """The turns as messages that the format takes: grouped, and repaired where that broke a rule."""
    if target.system_between == "user":
        for turn in turns:
            log.say(turn.origins if turn.role in SYSTEM_ROLES else (), SAID_BY_THE_USER)
    found = grouped(turns, target)
    for turn in found:
        log.say(turn.origins, *turn.why)
    messages = [Message(turn.role, turn.parts) for turn in found]
    origins = {id(message): turn.origins for message, turn in zip(messages, found, strict=True)}
    if target.system_between == "system":  # system messages stand where they may
        messages = [*log.goal.wire.arrange_for(messages, None, lambda each, why: log.say(origins[id(each)], why))]
    places = [origins.get(id(message), ()) for message in messages]
    legal = _legal(messages, places, log.goal, log)
    if legal is messages:
        return messages
    again = grouped((Turn(each.role, each.parts) for each in legal), target)
    return [Message(turn.role, turn.parts) for turn in again]


def _tools(tools: Sequence[Tool], messages: Sequence[Message], translator: Translator, log: _Log) -> list[Any] | None:
    """The tool definitions; where a provider wants each tool that was called, also those that are gone."""
    made, lost = translated(tools, log.goal.wire, translator.names)
    if lost:
        log.remarks.append(f"tools without a counterpart went: {', '.join(lost)}")
    if left := list(dict.fromkeys(key for tool in tools for key in beside_tool(tool))):
        log.remarks.append(f"only its own format has a place for, in tools: {', '.join(left)}")
    if not made and translator.target.called_tools:
        called = dict.fromkeys(call.name for message in messages for call in message.calls)
        made, _ = translated(map(placeholder, called), log.goal.wire, Respelling(translator.target.names))
        if called:
            wanted = f"{log.goal.wire.name} wants the tools that were called"
            log.remarks.append(f"{wanted}: placeholders for {', '.join(called)}")
    return made or None
