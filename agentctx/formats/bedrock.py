"""Messages of Converse as values: read, written, and repaired where they would be refused.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ContentBlock.html and the service model in
botocore. A block is an object with one member, which names its kind. Which messages may follow each other is known
from recorded errors, as of ``rules``: models other than Claude and Qwen want the user to begin, older ones want user
and assistant to speak by turns, and some take no words beside the results of tools.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from agentctx.errors import InvalidInput
from agentctx.formats.native import (
    ALSO,
    FILMS,
    HEARD,
    MOST,
    NO_ANSWER,
    NOT_JSON,
    OPEN_MODELS,
    PDF,
    PICTURES,
    TEXT_FILES,
    as_block,
    base64_or_text,
    each_read,
    fields,
    fields_or_none,
    finite_json,
    for_minutes,
    joined,
    json_object,
    json_of,
    mapping_or_none,
    may_end_on,
    needed_string,
    object_spelled,
    placed,
    put_results_first,
    same,
    spoken,
    string_of,
    tool_as_read,
    ttl_of,
    with_object,
    words_of,
)
from agentctx.formats.registry import Adapter, Body, RequestParts, get
from agentctx.message import (
    CacheMarker,
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
    Ttl,
    is_marker,
)
from agentctx.models.profile import ModelProfile
from agentctx.reports import View
from agentctx.unit import GO_ON, NOT_SHOWN, RoundRules
from agentctx.wire_format import (
    CacheWish,
    Capabilities,
    Note,
    Repaired,
    RequestKeys,
    Spelling,
    TokenOverheads,
    WireFormat,
)

Block = Mapping[str, Any]

ROLES = ("user", "assistant", "system")

_WORDS = ("name", "context")
"""The keys of what is said beside a document."""

MIME = {
    "png": "image/png",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "pdf": "application/pdf",
    "csv": "text/csv",
    "html": "text/html",
    "txt": "text/plain",
    "md": "text/markdown",
    "mp4": "video/mp4",
    "mov": "video/quicktime",
    "webm": "video/webm",
    "mp3": "audio/mpeg",
    "wav": "audio/wav",
    "flac": "audio/flac",
    "ogg": "audio/ogg",
}
"""MIME types by the formats that blocks name, the usual ones."""

IDS = Spelling("a-zA-Z0-9_.:-", 64)
"""How the ids of calls are spelled."""

ID = IDS.pattern
NAMES = Spelling("a-zA-Z0-9_-", 64)
NAME = NAMES.pattern


def read_message(native: object, index: int) -> Message:
    """One message as a value that remembers it."""
    message: Block = native if type(native) is dict else fields(native, f"messages[{index}]")
    role = message.get("role")
    if role not in ROLES:
        raise InvalidInput(where=f"messages[{index}].role", what=f"must be user or assistant, got {role!r}")
    if "content" not in message:
        raise InvalidInput(where=f"messages[{index}].content", what="missing")
    parts = placed(read_content, message["content"], "messages[{}].content", index)
    return Message.read(role, parts, native)


def read_system(native: object) -> Message | None:
    """The system prompt (a list of blocks, or a string) as a value; None when there is none."""
    if native is None:
        return None
    parts = (Text(native, source=native),) if isinstance(native, str) else placed(read_content, native, "system")
    return Message.read("system", parts, native)


def read_tools(native: Sequence[Any] | None) -> tuple[Tool, ...]:
    """The members of ``toolConfig.tools`` as values."""
    tools = []
    for index, each in enumerate(native or ()):
        tool = fields(each, f"tools[{index}]")
        spec = fields_or_none(tool.get("toolSpec")) or fields_or_none(tool.get("systemTool")) or {}
        schema = fields_or_none(spec.get("inputSchema")) or {}
        tools.append(tool_as_read(spec, schema.get("json"), each))
    return tuple(tools)


def read_content(content: object) -> tuple[Part, ...]:
    """A list of content blocks as parts; None has none."""
    return each_read(read_block, content, "a list of blocks")


def read_block(native: object) -> Part:
    """One content block as a part that remembers it. A kind that we do not know becomes ``Opaque``."""
    block: Block = native if type(native) is dict else fields(native, "")
    if len(block) == 1 and isinstance(text := block.get("text"), str):
        return Text(text, source=native)
    match kind := kind_of(block):
        case "text":
            return Text(needed_string(block, kind), source=native)
        case "json":
            return Text(json_of(block["json"], ".json"), source=native)
        case "toolUse":
            call = fields(block[kind], f".{kind}")
            call_id, name = needed_string(call, "toolUseId", f".{kind}"), needed_string(call, "name", f".{kind}")
            if call.get("type") is not None:  # a tool that the provider runs itself
                return Opaque(kind, block, opens=call_id, source=native)
            return ToolCall(call_id, name, json_of(call.get("input", {}), f".{kind}.input"), source=native)
        case "toolResult":
            result = fields(block[kind], f".{kind}")
            call_id = needed_string(result, "toolUseId", f".{kind}")
            if result.get("type") is not None:
                return Opaque(kind, block, closes=call_id, source=native)
            content = placed(read_content, result.get("content"), f".{kind}.content")
            return ToolResult(call_id, content, is_error=result.get("status") == "error", source=native)
        case "reasoningContent":
            reasoning = fields(block[kind], f".{kind}")
            said = fields_or_none(reasoning.get("reasoningText"))
            if said is not None:
                text = needed_string(said, "text", f".{kind}.reasoningText")
                return Thinking(text, string_of(said, "signature"), source=native)
            if (hidden := base64_or_text(reasoning.get("redactedContent"))) is not None:
                return Thinking("", encrypted=hidden, source=native)
        case "image" | "document" | "video" | "audio":
            media = fields(block[kind], f".{kind}")
            source = fields_or_none(media.get("source")) or {}
            mime, words = MIME.get(str(media.get("format"))), words_of(media, _WORDS)
            if (data := base64_or_text(source.get("bytes"))) is not None:
                return Media(kind, mime, data, source=native, words=words)
            if (uri := string_of(fields_or_none(source.get("s3Location")) or {}, "uri")) is not None:
                return Media(kind, mime, url=uri, source=native, words=words)
            # A document given as text or as blocks is read as text by the model: it is counted by its characters.
    return Opaque(kind, block, source=native)


def kind_of(block: Block) -> str:
    """The name of the member that a block holds; empty when it holds none."""
    return next((str(key) for key, held in block.items() if held is not None), "")


NativeBlock = Mapping[str, Any]

_WRITTEN_ROLES = {"tool": "user", "developer": "user", "system": "user"}
_FORMATS = {mime: name for name, mime in MIME.items()}
_USUAL_FORMAT = {"image": "png", "document": "pdf", "video": "mp4", "audio": "mp3"}


def write_message(message: Message) -> object:
    """A message as this format writes it: the payload it was read from when nobody touched it."""
    if message.as_read:
        return message.source
    old = fields_or_none(message.source) or {}
    role = message.role if old.get("role") == message.role else _WRITTEN_ROLES.get(message.role, message.role)
    return {**old, "role": role, "content": [write_block(part) for part in message.parts]}


def write_block(part: Part) -> object:
    """A part as a content block: the very block it was read from when it still says the same."""
    return as_block(part, fields_or_none(part.source), read_block, _made)


def _made(part: Text | Media | Thinking | ToolCall | ToolResult, old: NativeBlock) -> dict[str, Any]:
    """A block saying what the part says, with what else stood in the block that it replaces."""
    match part:
        case Text():
            # The JSON of a result stays JSON while it is such, and spelled as it is counted.
            value = object_spelled(part.text) if "json" in old else None
            return {"text": part.text} if value is None else {"json": value[0]}
        case ToolCall():
            call = {**_held(old, "toolUse"), "toolUseId": part.id, "name": part.name}
            return {"toolUse": {**call, "input": json_object(part.arguments)}}
        case ToolResult():
            content = [write_block(item) for item in part.content]
            result = {**_held(old, "toolResult"), "toolUseId": part.call_id, "content": content}
            if part.is_error or "status" in result:
                result["status"] = "error" if part.is_error else "success"
            return {"toolResult": result}
        case Thinking() if part.encrypted is not None:
            return {"reasoningContent": {"redactedContent": _as_bytes(part.encrypted)}}
        case Thinking():
            signed = {} if part.signature is None else {"signature": part.signature}
            return {"reasoningContent": {"reasoningText": {"text": part.text, **signed}}}
        case Media():
            return {part.kind: {**_held(old, part.kind), **_made_media(part)}}


def _held(old: NativeBlock, kind: str) -> NativeBlock:
    return fields_or_none(old.get(kind)) or {}


def is_object(text: Text) -> bool:
    """Whether a text of a result stands for its JSON."""
    return "json" in (fields_or_none(text.source) or {})


def _made_media(part: Media) -> dict[str, Any]:
    made: dict[str, Any] = {"format": _FORMATS.get(part.media_type or "", _USUAL_FORMAT.get(part.kind, ""))}
    if part.data is not None:
        made["source"] = {"bytes": _as_bytes(part.data)}
    elif part.url is not None and part.url.startswith("s3://"):
        made["source"] = {"s3Location": {"uri": part.url}}
    else:
        raise InvalidInput(where="source", what=f"Converse takes {part.kind}s as bytes or from S3, not {part.url!r}")
    return made if part.kind != "document" else {"name": "document", **made}


def _as_bytes(data: str) -> bytes:
    """What boto3 sends: it encodes bytes itself."""
    try:
        return b64decode(data, validate=True)
    except ValueError as error:
        raise InvalidInput(where="bytes", what=f"is no base64: {error}") from error


_MEDIA = frozenset({"image", "document", "video", "audio"})

NO_OUTPUT = "[no output]"
"""What a tool says that said nothing: some models refuse a result without content."""
DOCUMENT = "[a document]"
"""What is said beside a document that came without a word."""


def repair(messages: Sequence[Message], _earlier: object = None) -> list[Repaired]:
    """The messages that cannot be sent as they are, each with what to send instead."""
    found: list[Repaired] = []
    for index, message in enumerate(messages):
        why: list[str] = []
        told = (_of_user(part, message.role, why) for part in message.parts)
        parts = [better for part in told if (better := _repair_part(part, why)) is not None]
        if message.role != "assistant":
            put_results_first(parts, why)
        documents = any(isinstance(part, (Media, Opaque)) and part.kind == "document" for part in parts)
        if documents and not any(isinstance(part, Text) for part in parts):
            why.append("a document needs a text beside it")
            parts.append(Text(DOCUMENT))
        if all(map(is_marker, parts)):  # there is no block, or cache points alone
            found.append((index, None, "empty content"))
        elif not same(parts, message.parts):
            found.append((index, message.with_parts(tuple(parts)), "; ".join(dict.fromkeys(why))))
    return found


def _of_user(part: Part, role: str, why: list[str]) -> Part:
    """What says that media stood there, where the role may not carry any; a document's own text as text."""
    kind = part.kind if isinstance(part, (Media, Opaque)) else ""
    if role == "user" or kind not in _MEDIA:
        return part
    why.append(f"{kind}s are only allowed in messages of the user")
    held = fields_or_none((fields_or_none(part.source) or {}).get(kind)) or {}
    text = (fields_or_none(held.get("source")) or {}).get("text")
    return Text(text if isinstance(text, str) else f"[{kind} left out: only user messages may carry it]")


def _repair_part(part: Part, why: list[str]) -> Part | None:
    """The part to send instead of this one, itself when it is fine, None when it must not be sent."""
    if isinstance(part, Text):
        return spoken(part, why)
    if isinstance(part, ToolResult):
        content: list[Part] = []
        for item in part.content:
            better = _repair_part(item, why)
            if isinstance(better, Text) and is_object(better) and (finite := finite_json(better.text)) != better.text:
                why.append(NOT_JSON)
                better = Text(finite, source=better.source)
            if better is not None:
                content.append(better)
        if not content:
            why.append("a result without content says so")
            content = [Text(NO_OUTPUT)]
        call_id = _legal(part.call_id, IDS, why)
        if same(content, part.content) and call_id == part.call_id:
            return part
        return evolve(part, call_id=call_id, content=tuple(content))
    if isinstance(part, ToolCall):
        call = with_object(part, why)
        call_id, name = _legal(part.id, IDS, why), _legal(part.name, NAMES, why)
        return call if call_id == part.id and name == part.name else evolve(call, id=call_id, name=name)
    if isinstance(part, Opaque) and not part.kind:
        why.append("a block without a member removed")
        return None
    return part


def _legal(name: str, spelling: Spelling, why: list[str]) -> str:
    """An id or a name in the characters and the length that it may have; the same for the same, always."""
    if not spelling.takes(name):
        why.append("an id or a name spelled as the provider takes it")
    return spelling.respelled(name)


TAKES_ASSISTANT_FIRST = re.compile(r"claude|qwen")
"""Families that take a conversation which the assistant begins."""

REFUSES_MIXED = re.compile(r"mi[sx]tral|magistral|llama|command|jamba")
"""Families that refuse results and words in one message."""

BY_TURNS = re.compile(r"claude-(?:[23](?!\d)|instant|v2)|mi[sx]tral|magistral|llama|command|jamba|titan")
"""Families that refuse two messages of one role in a row; later ones take them as one."""

OPENED = "the model wants the user to begin"
PARTED = "the model takes no words beside the results of tools"
TURNS = "the model wants the user and the assistant to speak by turns"


def arrange_for(
    messages: Sequence[Message],
    profile: ModelProfile | None,
    note: Note,
    standing_before: Message | None = None,
) -> Sequence[Message]:
    """The messages as the model takes them one after the other; the same object when it takes them as they are."""
    family = "" if profile is None else profile.family.lower()
    opened = standing_before is None and messages and messages[0].role == "assistant" and family
    arranged = list(messages)
    if REFUSES_MIXED.search(family):
        several = [place for place, message in enumerate(messages) if len(message.parts) > 1]
        for place in reversed(several):
            arranged[place : place + 1] = _parted(messages[place], note)
    if opened and not TAKES_ASSISTANT_FIRST.search(family):
        arranged.insert(0, _noted(Message("user", (Text(NOT_SHOWN),)), OPENED, note))
    if BY_TURNS.search(family):
        arranged = _by_turns(arranged, standing_before, note)
    return messages if same(arranged, messages) else arranged


def _by_turns(messages: Sequence[Message], last: Message | None, note: Note) -> list[Message]:
    """The messages, with a word of the other between two of one role; as one where it would part calls and results."""
    out: list[Message] = []
    for message in messages:
        if last is not None and last.role == message.role:
            if not message.results and not last.calls:
                role, said = ("assistant", NO_ANSWER) if message.role == "user" else ("user", GO_ON)
                out.append(_noted(Message(role, (Text(said),)), TURNS, note))
            elif out:
                message = joined(out.pop(), message, note)  # noqa: PLW2901
        out.append(message)
        last = message
    return out


def _parted(message: Message, note: Note) -> Sequence[Message]:
    """Results in one message, and the user's words in the next one, with a word of the model between them."""
    last = max((place for place, part in enumerate(message.parts) if isinstance(part, ToolResult)), default=-1)
    stop = next((place for place in range(last + 1, len(message.parts)) if not is_marker(message.parts[place])), None)
    if last < 0 or stop is None or message.role == "assistant":
        return (message,)
    note(message, PARTED)
    results = _noted(Message("user", message.parts[:stop]), PARTED, note)
    return results, _noted(Message("assistant", (Text(HEARD),)), PARTED, note), message.with_parts(message.parts[stop:])


def _noted(message: Message, why: str, note: Note) -> Message:
    note(message, why)
    return message


_POSSIBLE, _LIKELY, _SURE = 1, 4, 8
_OWN_KEYS = ("modelId", "toolConfig", "inferenceConfig", "guardrailConfig", "additionalModelRequestFields")
_SHARED = frozenset({"text", "image", "document", "video", "audio"})
_OWN_BLOCKS = frozenset(
    {"toolUse", "toolResult", "reasoningContent", "cachePoint", "guardContent", "citationsContent", "searchResult"}
    | {"toolAddition", "toolRemoval"}
)


def recognise(request: Mapping[str, Any]) -> int:
    """0 when it cannot be this format, more with every specific sign."""
    messages = request.get("messages")
    if not isinstance(messages, (list, tuple)):
        return 0
    signs = _LIKELY * any(request.get(key) is not None for key in _OWN_KEYS)
    best = _POSSIBLE if signs else 0
    for message in messages:
        sign = _message(message)
        if sign is None:
            return 0
        best = max(best, sign)
        if best == _SURE:
            break
    return best + signs if best else 0


def _message(native: object) -> int | None:
    """What one message says; None when it rules the format out."""
    message = fields_or_none(native)
    if message is None or message.get("role") not in ROLES or "type" in message:
        return None
    content = message.get("content")
    if not isinstance(content, (list, tuple)):
        return None
    best = 0
    for item in content:
        block = fields_or_none(item)
        if block is None or "type" in block:
            return None
        kind = kind_of(block)
        if kind in _OWN_BLOCKS:
            return _SURE
        best = max(best, _LIKELY if kind in _SHARED else 0)
    return best


POINT = "cachePoint"
_TAKE_POINTS = re.compile(r"claude|nova")


@frozen
class PointMarkers:
    """Markers that are a block of their own behind what shall be kept (``wire_format.CacheMarkers``).

    Args:
        marks_head: As of ``KeyMarkers``; here the first task is marked, which the system prompt precedes.
    """

    marks_head: bool = False
    most: int = MOST

    def new(self, ttl: Ttl, profile: ModelProfile | None) -> Mapping[str, Any] | None:
        """A marker, which other models than Claude and Nova refuse."""
        if profile is None or not _TAKE_POINTS.search(profile.family):
            return None
        return {POINT: {"type": "default"} if ttl == "5m" else {"type": "default", "ttl": ttl}}

    def given(self, cache: CacheWish) -> Mapping[str, Any] | None:
        """The marker that a caller asks for: by a lifetime, or in full."""
        if isinstance(cache, Mapping):
            return {POINT: dict(cache)}
        return {POINT: {"type": "default", "ttl": cache} if isinstance(cache, str) else {"type": "default"}}

    def refused(self, _mark: Mapping[str, Any], profile: ModelProfile | None) -> bool:
        """Whether a model is known that refuses markers."""
        return profile is not None and self.new("5m", profile) is None

    def rolls(self, _profile: ModelProfile | None) -> bool:
        """The end of each request needs a marker."""
        return True

    def of(self, message: Message) -> tuple[CacheMarker, ...]:
        """The markers in a message, in order."""
        markers = []
        for place, part in enumerate(message.parts):
            if isinstance(part, Opaque) and is_marker(part):
                block = mapping_or_none(part.data) or {}
                markers.append(CacheMarker(place - 1, ttl_of(block.get(POINT)), block, part.source))
        return tuple(markers)

    def put(self, message: Message, place: int, mark: Mapping[str, Any]) -> Message | None:
        """The message with a marker behind one of its parts; None when there is nothing to keep in it."""
        part = message.parts[place]
        if isinstance(part, Thinking) or is_marker(part):
            return None
        made = Opaque(POINT, mark, source=mark)
        return message.with_parts((*message.parts[: place + 1], made, *message.parts[place + 1 :]))

    def lift(self, message: Message, place: int) -> Message:
        """The message without the marker behind one of its parts."""
        stop = place + 1
        while stop < len(message.parts) and is_marker(message.parts[stop]):
            stop += 1
        return message.with_parts((*message.parts[: place + 1], *message.parts[stop:]))

    def shorten(self, message: Message, place: int) -> Message:
        """The message with markers for five minutes behind one of its parts where there are some for an hour."""
        parts = list(message.parts)
        for at in range(place + 1, len(parts)):
            part = parts[at]
            if not (isinstance(part, Opaque) and is_marker(part)):
                break
            mark = {key: for_minutes(value) for key, value in (mapping_or_none(part.data) or {}).items()}
            parts[at] = evolve(part, data=mark, source=mark)
        return message.with_parts(tuple(parts))


_TAKEN_ALONG = frozenset(
    {"role", "content", "text", "json", "toolUse", "toolResult", "toolUseId", "input", "status", "image", "video"}
    | {"audio", "document", "format", "source", "bytes", "s3Location", "uri"}
)
"""The keys of messages whose values a conversion takes along, or reports as left behind."""


@frozen
class Bedrock(WireFormat):
    """The Converse format.

    Newer models take neighbouring messages of one role as one turn. Claude, the family most called here, refuses an
    id that occurs twice.
    """

    name = "bedrock"
    provider = "aws.bedrock"
    other_names = ("aws", "converse")
    keys = RequestKeys(system="system", model="modelId", config="toolConfig")
    rounds = RoundRules(merges_turns=True, unique_ids=True, server_results=True, reasoning_back=True)
    cache_markers = PointMarkers()
    overheads = TokenOverheads(message=4, call=12, result=8, schema_as_json=True)  # as of Anthropic

    def usual_for(self, family: str, /) -> int:
        """After Claude's own API; of open models after Chat Completions."""
        return 2 if "claude" in family else 1 if OPEN_MODELS.search(family) else 0

    recognises = staticmethod(recognise)
    read_message = staticmethod(read_message)
    read_system = staticmethod(read_system)
    read_tools = staticmethod(read_tools)
    write_message = staticmethod(write_message)
    repair = staticmethod(repair)
    may_end_on = staticmethod(may_end_on)
    arrange_for = staticmethod(arrange_for)
    numbered = staticmethod(IDS.numbered)
    is_object = staticmethod(is_object)

    def capabilities(self, model: str | None, _profile: ModelProfile | None, /) -> Capabilities:
        """What it can say to a model: some refuse results and words in one turn."""
        apart = model is not None and REFUSES_MIXED.search(model.lower()) is not None
        return Capabilities(
            keys=_TAKEN_ALONG,
            grouping="all results" if apart else "one turn",
            user_first=True,
            user_after_results=not apart,
            in_user={"image": PICTURES, "document": PDF | TEXT_FILES, "video": FILMS},
            in_results={"image": PICTURES, "document": PDF | TEXT_FILES},
            most={"image": 20, "document": 5},
            also=ALSO,
            called_tools=True,
        )

    def write_system(self, system: Message, /) -> Native:
        """The system prompt as blocks."""
        return [write_block(part) for part in system.parts]

    def write_tool(self, tool: Tool, /) -> Native:
        """A tool of the caller's as a definition."""
        said = {"description": tool.description} if tool.description else {}
        return {"toolSpec": {"name": tool.name, **said, "inputSchema": {"json": tool.parameters}}}


_BEFORE_CONTENT = frozenset({"messageStart", "contentBlockStart"})


@frozen
class Converse(Adapter):
    """``Converse`` and ``ConverseStream``, as botocore sends and answers them."""

    format = "bedrock"
    system_key = "system"

    def read(self, body: Body, /) -> RequestParts | None:
        """Messages, system prompt, tools and model; None for a prompt that the provider keeps."""
        tools = get(body.get("toolConfig"), "tools")
        return super().read({**body, "tools": tools, "model": body.get("modelId")})

    def write(self, body: Body, request: RequestParts, view: View, /) -> dict[str, Any]:
        """The request with the view's messages, system prompt, tools and options."""
        if view.tools is not request.tools:
            body = {**body, "toolConfig": {**(body.get("toolConfig") or {}), "tools": view.tools or []}}
        written = super().write(body, request, view)
        written.pop("tools", None)
        return written

    def usage(self, said: Native, /) -> Native:
        """The ``usage`` of an answer, or of a stream's ``metadata`` event."""
        return get(said, "usage") or get(said, "metadata", "usage")

    def ends(self, event: Native, /) -> bool:
        """Tell whether an event has the usage, which is the last one."""
        return "metadata" in event

    def failure(self, _answer: Native, /) -> Native:
        """Return None: an SDK raises what Converse refuses."""
        return None

    def begins(self, event: Native, /) -> bool:
        """Whether an event carries something that the model said."""
        return not _BEFORE_CONTENT.issuperset(event)
