"""What the formats share: SDK objects as mappings and JSON, snapshots, text that is valid Unicode, valid JSON.

Cache markers that are a key of a block are read and written here, too, as Anthropic and OpenAI have them written
(``KeyMarkers``). Sources: their prompt-caching pages (2026-07/08).
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence, Set as AbstractSet
from functools import cache
from operator import is_
from typing import Any, TypeVar

from attrs import evolve, field, frozen

from agentctx.errors import InvalidInput
from agentctx.lazy import lazy_pattern
from agentctx.message import (
    BREAKPOINT,
    CONTROL,
    KEYS,
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
from agentctx.tokens.media import base64_of
from agentctx.wire_format import CacheMarkers, CacheWish, Note

T = TypeVar("T")
Parts = tuple[Part, ...]

_STRING_OR_CONSTANT = lazy_pattern(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN', re.DOTALL)


DEEPEST = 200
"""So many levels tools may be nested: what walks through them must not run out of stack."""


def too_deep(value: object, most: int) -> bool:
    """Whether a value is nested deeper than ``most`` levels of objects and lists, or contains itself."""
    level = [value]
    for _ in range(most):
        known = {id(item): item for each in level for item in _inside(each) if not isinstance(item, _LEAVES)}
        if not known:
            return False
        level = list(known.values())
    return True


_LEAVES = (str, bytes, int, float, type(None))


def _inside(value: object) -> Iterable[object]:
    """What a mapping, a list or an SDK object holds, one level."""
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, (list, tuple)):
        return value
    return (fields_or_none(value) or {}).values() if hasattr(value, "model_fields_set") else ()


PLAIN = frozenset({str, int, float, bool, type(None)})
"""Types of which a value cannot be edited."""


def snapshot(native: Native) -> Native:
    """A copy that equals ``native`` until someone edits it: containers are copied, strings are shared.

    Containers are dicts, lists, tuples, and objects of pydantic. Anything else is kept as it is: that it was edited in
    place is not noticed.
    """
    if isinstance(native, dict):
        copied = dict(native.items())
        for key, value in native.items():
            if type(value) not in PLAIN:
                copied[key] = snapshot(value)
        return copied
    if isinstance(native, list):
        return [value if type(value) in PLAIN else snapshot(value) for value in native]
    if type(native) is tuple:
        copies = tuple(map(snapshot, native))
        return native if all(map(is_, copies, native)) else copies
    if isinstance(native, type):
        return native
    copy = getattr(native, "model_copy", None)
    return native if copy is None else copy(deep=True)


def as_mapping(native: object, where: str = "message") -> Mapping[str, Any]:
    """A native message or block as a mapping: a mapping as it is, an SDK object by its ``model_dump``.

    An SDK object is dumped the way its own client sends it: set fields only, as JSON.
    """
    if type(native) is dict:
        return native
    if (found := mapping_or_none(native)) is None:
        raise InvalidInput(where, f"must be an object (a dict or an SDK object), got {type(native).__name__}")
    return found


def mapping_or_none(native: object) -> Mapping[str, Any] | None:
    """Like ``as_mapping``, but None for what is not an object."""
    if isinstance(native, Mapping):
        return native
    # A class has the method too, but cannot be dumped.
    if isinstance(native, type) or not callable(dump := getattr(native, "model_dump", None)):
        return None
    dumped = dump(mode="json", exclude_unset=True)
    if not isinstance(dumped, Mapping):
        return None
    return {**fixed, **dumped} if (fixed := _fixed(native)) else dumped


def string_of(data: Mapping[str, Any], key: str) -> str | None:
    """The value of a key when it is a string."""
    value = data.get(key)
    return value if isinstance(value, str) else None


def located(kind: str, url: str, detail: str | None, source: Native, words: str = "") -> Media:
    """Media by its URL or file id; a ``data:`` URL carries the content itself."""
    head, comma, content = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return Media(kind, head[5:-7] or None, content, detail=detail, source=source, words=words)
    return Media(kind, url=url, detail=detail, source=source, words=words)


def needed_string(block: Mapping[str, Any], key: str, where: str = "") -> str:
    """The value of a key that must be a string."""
    found = block.get(key)
    if not isinstance(found, str):
        raise InvalidInput(
            where=f"{where}.{key}", what="missing" if found is None else f"must be a string, got {found!r}"
        )
    return found


def object_spelled(text: str) -> tuple[Native] | None:
    """The value that a text is the JSON of, in a tuple, where ``json_of`` spells it so; None where it does not.

    Another spelling would be counted, and not sent.
    """
    try:
        value: Native = json.loads(text)
        return (value,) if json_of(value, "") == text else None
    except (ValueError, RecursionError, InvalidInput):
        return None


def json_of(data: object, where: str) -> str:
    """A value as JSON text."""
    try:
        return json.dumps(data, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(where=where, what=f"cannot be written as JSON: {error}") from error


def base64_or_text(data: object) -> str | None:
    """Bytes as base64 (SDKs give bytes, the APIs themselves base64), text as it is, None for anything else."""
    if isinstance(data, (bytes, bytearray)):
        return b64encode(data).decode()
    return data if isinstance(data, str) else None


def without_callers(message: Message, callers: AbstractSet[str]) -> Message:
    """The message with no word of these server-side calls, whose code made others: the model made those itself.

    The providers write the caller under the key ``caller`` of a block, or of an item.

    Args:
        message: A message of the model, with server-side calls or with calls that their code made.
        callers: The ids of the server-side calls.
    """
    parts: list[Part] = []
    for part in message.parts:
        if not isinstance(part, (ToolCall, ToolResult, Opaque)) or part.caller not in callers:
            parts.append(part)
            continue
        block = {key: each for key, each in fields_of(part.source).items() if key != "caller"}
        if isinstance(part, Opaque):
            parts.append(evolve(part, caller=None, source=block, data=block))
        else:
            parts.append(evolve(part, caller=None, source=block))
    item = fields_or_none(message.source) or {}
    if "caller" not in item:
        return message.with_parts(tuple(parts))
    role, read = (message.role, tuple(parts)) if message.as_read else (None, None)
    source = {key: each for key, each in item.items() if key != "caller"}
    return message.replaced(Message(message.role, tuple(parts), source=source, read_role=role, read_parts=read))


def may_end_on(message: Message) -> bool:
    """Whether a request may end on this message: words of the assistant there are refused, or the answer goes on."""
    return message.role != "assistant"


def tool_as_read(definition: Mapping[str, Any], schema: object, source: Native) -> Tool:
    """A tool by its definition; what is not said as it should be is taken for nothing."""
    name, description = string_of(definition, "name") or "", string_of(definition, "description") or ""
    return Tool(name, description, mapping_or_none(schema), source=source)


def is_strict(tool: Tool) -> bool:
    """Whether a definition says that the model has to keep to it."""
    source = fields_or_none(tool.source) or {}
    body = fields_or_none(source.get("function")) or source
    return body.get("strict") is True


def placed(read: Callable[[Native], T], native: Native, where: str, index: int = 0) -> T:
    """What ``read`` makes of a value; an error says where in the request it stands (``messages[{}]``)."""
    try:
        return read(native)
    except InvalidInput as error:
        raise InvalidInput(where=f"{where.format(index)}{error.where}", what=error.what) from error


def each_read(read: Callable[[Native], Part], natives: Native, what: str) -> Parts:
    """The members of a list (of ``what``) as parts; None has none. An error names the place: ``[2].text``."""
    if natives is None:
        return ()
    if not isinstance(natives, (list, tuple)):
        raise InvalidInput(where="", what=f"must be {what}, got {type(natives).__name__}")
    parts: list[Part] = []
    try:
        for native in natives:
            parts.append(read(native))  # noqa: PERF401 - the length tells which could not be read
    except InvalidInput as error:
        raise InvalidInput(where=f"[{len(parts)}]{error.where}", what=error.what) from error
    return tuple(parts)


def still_says(part: Part, read: Callable[..., Part], *where: object) -> bool:
    """Whether a part still says what its native block says."""
    try:
        return read(part.source, *where) == part
    except InvalidInput:
        return False


def as_block(
    part: Part,
    old: Mapping[str, Any] | None,
    read: Callable[[Native], Part],
    made: Callable[[Any, Mapping[str, Any]], T],
) -> T | Native:
    """A part as a block: the very block it was read from when it still says the same, else one ``made`` over the old.

    Reasoning and blocks that we do not understand always go back as they came.
    """
    if isinstance(part, Opaque):
        return part.data if part.source is None else part.source
    if old is not None and (isinstance(part, Thinking) or still_says(part, read)):
        return part.source
    return made(part, old or {})


def words_of(block: Mapping[str, Any], keys: Iterable[str]) -> str:
    """What a block says under keys of words, each on a line of its own; what is no text says nothing."""
    return "\n".join(text for key in keys if isinstance(text := block.get(key), str) and text)


def fields(native: object, where: str = "message") -> Mapping[str, Any]:
    """Like ``as_mapping``, but one level only: what an SDK object holds stays the caller's own objects."""
    if type(native) is dict:
        return native
    if (found := fields_or_none(native)) is None:
        raise InvalidInput(where, f"must be an object (a dict or an SDK object), got {type(native).__name__}")
    return found


def fields_or_none(native: object) -> Mapping[str, Any] | None:
    """Like ``fields``, but None for what is not an object. Fields that are unset or None are left out."""
    if isinstance(native, Mapping):
        return native
    names = None if isinstance(native, type) else getattr(native, "model_fields_set", None)
    if names is None:
        return mapping_or_none(native)
    names = {*names, *_fixed(native)}
    return {name: value for name in sorted(names) if (value := getattr(native, name)) is not None}


_PYTHON_NAMES = {"async_": "async"}  # the SDKs' fields that are called otherwise on the wire


def fields_of(native: object) -> dict[str, Any]:
    """A native object as a dict of its own, with the names that the wire has; empty for what is no object."""
    return {_PYTHON_NAMES.get(key, key): value for key, value in (mapping_or_none(native) or {}).items()}


def _fixed(native: Native) -> Mapping[str, str]:
    """The role or type that the class of an SDK's object fixes: no one has set it, and the client sends it."""
    return _fixed_by(native.__class__)


@cache
def _fixed_by(kind: type) -> Mapping[str, str]:
    known = getattr(kind, "model_fields", None) or {}
    found = {name: getattr(known[name], "default", None) for name in ("role", "type") if name in known}
    return {name: default for name, default in found.items() if isinstance(default, str)}


def clean_text(text: str) -> str:
    """The text without lone surrogates, which cannot be sent: each becomes U+FFFD. Clean text is returned itself.

    Two surrogates that form a pair become the character that they stand for.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def finite_json(text: str) -> str:
    """JSON text with ``NaN``, ``Infinity`` and ``-Infinity`` (which JSON has not) as ``null``.

    The text itself is returned when it has none of them, and when it is not JSON in any other respect either.
    """
    if "NaN" not in text and "Infinity" not in text:
        return text
    if not is_json(text):
        return text
    fixed = _STRING_OR_CONSTANT.sub(lambda found: found[0] if found[0][0] == '"' else "null", text)
    return text if fixed == text else fixed


def is_json(text: str) -> bool:
    """Whether Python reads the text as JSON (it takes ``NaN`` and infinities too)."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def json_object(arguments: str) -> dict[str, Any]:
    """The arguments of a call as the object that an API asks for.

    What is no object is wrapped: text that holds a JSON object (as some frameworks send it) becomes that object,
    ``null`` and nothing at all the empty one, anything else ``{"input": …}``.
    """
    value = _json_or_text(arguments)
    if isinstance(value, str):
        value = _json_or_text(value)
    if value is None or (isinstance(value, str) and not value.strip()):
        return {}
    return value if isinstance(value, dict) else {"input": value}


def _json_or_text(text: str) -> Native:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


SURROGATES = "lone surrogates replaced"
NOT_JSON = "numbers that JSON has not replaced by null"


def cleaned(part: Text, why: list[str]) -> Text:
    """The text without lone surrogates; itself when there are none."""
    if (text := clean_text(part.text)) is part.text:
        return part
    why.append(SURROGATES)
    return Text(text, source=part.source)


def joined(message: Message, follower: Message, note: Note) -> Message:
    """Two messages of one turn as one."""
    one = follower.with_parts((*message.parts, *follower.parts))
    for each in (message, follower, one):
        note(each, "what is said in one turn stands in one message")
    return one


NAMELESS = "a tool without a name"


def with_object(part: ToolCall, why: list[str]) -> ToolCall:
    """The call with a name, and with arguments that are a JSON object; itself when so."""
    if not part.name:
        why.append(NAMELESS)
        part = evolve(part, name="_")
    arguments = clean_text(part.arguments)
    if arguments is not part.arguments:
        why.append(SURROGATES)
    if (finite := finite_json(arguments)) is not arguments:
        why.append(NOT_JSON)
        arguments = finite
    if not arguments.startswith("{"):
        why.append("tool input made an object")
        arguments = json.dumps(json_object(arguments), ensure_ascii=False)
    return part if arguments is part.arguments else evolve(part, arguments=arguments)


def put_results_first(parts: list[Part], why: list[str]) -> None:
    """Sort the results of tools before everything else; cache markers may stand among them."""
    results = [isinstance(part, ToolResult) for part in parts if not is_marker(part)]
    if True in results and results != sorted(results, reverse=True):
        why.append("tool results put before the text")
        parts.sort(key=lambda part: not isinstance(part, ToolResult))


def spoken(part: Text, why: list[str]) -> Text | None:
    """The text without lone surrogates; itself when there are none, None where it is blank."""
    if not part.text or part.text.isspace():
        why.append("blank text removed")
        return None
    return cleaned(part, why)


def same(new: Sequence[object], old: Sequence[object]) -> bool:
    """Whether these are the very same objects."""
    return len(new) == len(old) and all(map(is_, new, old))


IMPOSSIBLE, POSSIBLE, LIKELY, CERTAIN = 0, 1, 5, 10
"""How surely something is in a format."""


def surest(natives: Iterable[Native], sign: Callable[[Native], int], best: int) -> int:
    """The surest sign of the members and ``best``. Looks no further than the first that decides."""
    for native in natives:
        if (found := sign(native)) in (IMPOSSIBLE, CERTAIN):
            return found
        best = max(best, found)
    return best


HEARD = "[tool results received]"
"""What the model says where the user may not speak directly after the results of tools."""

NO_ANSWER = "[no answer]"
"""What the model says between two messages of the user that have to be parted."""

PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The MIME types of images that every provider takes."""

PDF = frozenset({"application/pdf"})
TEXT_FILES = frozenset({"text/plain", "text/markdown", "text/html", "text/csv"})
SOUNDS = frozenset({"audio/wav", "audio/mp3", "audio/mpeg"})
FILMS = frozenset({"video/mp4", "video/quicktime", "video/mov", "video/webm"})

ALSO = frozenset({"title", "name", "context", "citations"})
"""Keys of documents that several formats have, and that are not taken along."""

OPENAI_MODELS = lazy_pattern(r"gpt-|chatgpt|codex|(^|/)o\d")
"""OpenAI's own families of models."""

OPEN_MODELS = lazy_pattern(
    r"deepseek|grok|mi[sx]tral|kimi|moonshot|glm|qwen|llama|mimo|minimax|gemma|command|phi-|nova"
)
"""Families that many serve, most of them in the Chat format."""


BYTES, _MAPPING = "$bytes", "$mapping"
"""What stands for bytes in JSON; and for an object that looks like what stands for something."""


def to_json(native: object, where: str) -> Native:
    """A native value as plain JSON values, SDK objects and bytes within it included.

    Args:
        native: A native message, or a part of one.
        where: Its place, for the error.

    Raises:
        InvalidInput: If JSON cannot hold it; names the place.
    """
    if native is None or isinstance(native, (str, int, float)):
        return native
    if isinstance(native, (list, tuple)):
        return [to_json(each, f"{where}[{place}]") for place, each in enumerate(native)]
    if isinstance(native, (bytes, bytearray)):
        return {BYTES: b64encode(native).decode("ascii")}
    if (found := mapping_or_none(native)) is None:
        return _file(native, where)
    made = {str(key): to_json(value, f"{where}.{key}") for key, value in found.items()}
    return {_MAPPING: made} if made.keys() in ({BYTES}, {_MAPPING}) else made


def _file(native: object, where: str) -> str:
    """The base64 of what a path or a stream holds, which an SDK takes in its place.

    Raises:
        InvalidInput: If it is none of them, or cannot be read.
    """
    try:
        content = base64_of(native)
    except (OSError, ValueError) as error:
        raise InvalidInput(where, f"cannot be read: {error}") from error
    if content is None:
        raise InvalidInput(where, f"{type(native).__name__} cannot be written as JSON")
    return content


def from_json(value: Native) -> Native:
    """What ``to_json`` was given, SDK objects as mappings.

    Raises:
        ValueError: If bytes in it are no base64.
    """
    if isinstance(value, list):
        return [from_json(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {BYTES} and isinstance(value[BYTES], str):
        return b64decode(value[BYTES], validate=True)
    if value.keys() == {_MAPPING} and isinstance(value[_MAPPING], dict):
        value = value[_MAPPING]
    return {key: from_json(each) for key, each in value.items()}


MOST = 4
"""The most markers of one request, on every provider that has them."""

_TEXTS = frozenset({"text", "input_text", "output_text"})
_BREAKPOINTS = re.compile(r"gpt-(?:5\.[6-9]|[6-9]|\d\d)")


def unmarked(native: Native) -> Native:
    """A native message without cache markers, to be compared with another one.

    Content that is one plain text is the text, since a text becomes a block when it is marked.
    """
    if isinstance(native, (list, tuple)):
        points = [isinstance(each, Mapping) and set(each) == {"cachePoint"} for each in native]
        blocks = [unmarked(each) for each, point in zip(native, points, strict=True) if not point]
        match blocks:
            case [{"type": kind, "text": text, **more}] if kind in _TEXTS and not more:
                return text
        return blocks
    if isinstance(native, str) or (fields := mapping_or_none(native)) is None:
        return native
    return {key: unmarked(value) for key, value in fields.items() if key not in KEYS}


NewMark = Callable[[Ttl, ModelProfile | None], "Mapping[str, Any] | None"]
_Change = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def ttl_of(value: object) -> Ttl:
    """How long a marker is for."""
    return "1h" if (mapping_or_none(value) or {}).get("ttl") == "1h" else "5m"


def for_minutes(mark: object) -> object:
    """A marker as it is for five minutes, which is what one is for that does not say."""
    held = mapping_or_none(mark)
    return mark if held is None else {key: value for key, value in held.items() if key != "ttl"}


def control(ttl: Ttl, _profile: ModelProfile | None) -> Mapping[str, Any]:
    """Anthropic's marker."""
    return {CONTROL: {"type": "ephemeral"} if ttl == "5m" else {"type": "ephemeral", "ttl": ttl}}


def breakpoint_of(_ttl: Ttl, profile: ModelProfile | None) -> Mapping[str, Any] | None:
    """OpenAI's marker, which models take since GPT-5.6; those before find the longest prefix by themselves."""
    new = profile is not None and _BREAKPOINTS.match(profile.family)
    return {BREAKPOINT: {"mode": "explicit"}} if new else None


@frozen(eq=False, repr=False)
class KeyMarkers:
    """Markers that are a key of a content block (``wire_format.CacheMarkers``).

    Args:
        keys: The keys; the first one is the format's own.
        take_control: The models that take Anthropic's key; None for all.
        any_block: Whether calls and results can carry one themselves, and not only what is said in them.
        roles: The roles whose messages can carry one; empty for all.
    """

    keys: tuple[str, ...]
    new: NewMark = field(repr=False)
    take_control: re.Pattern[str] | None = None
    text_type: str = "text"
    any_block: bool = False
    roles: frozenset[str] = frozenset()
    marks_head: bool = False
    most: int = MOST

    def refused(self, mark: Mapping[str, Any], profile: ModelProfile | None) -> bool:
        """Whether a model is known that refuses this marker, or does not know what to do with it."""
        if profile is None:
            return False
        if BREAKPOINT in mark:
            return breakpoint_of("5m", profile) is None
        return self.take_control is not None and not self.take_control.search(profile.family)

    def given(self, cache: CacheWish) -> Mapping[str, Any] | None:
        """Anthropic's marker; where it is not the format's own, only one that is given in full."""
        if CONTROL not in self.keys or not (self.keys[0] == CONTROL or isinstance(cache, Mapping)):
            return None
        if isinstance(cache, Mapping):
            return {CONTROL: dict(cache)}
        return {CONTROL: {"type": "ephemeral", "ttl": cache} if isinstance(cache, str) else {"type": "ephemeral"}}

    def rolls(self, profile: ModelProfile | None) -> bool:
        """Whether the end of each request needs a marker; OpenAI finds it by itself."""
        return CONTROL in (self.new("5m", profile) or {})

    def of(self, message: Message) -> tuple[CacheMarker, ...]:
        """The markers in a message, in order; one that its whole message carries stands on the last part."""
        found: list[CacheMarker] = []
        for place, part in enumerate(message.parts):
            if isinstance(part, ToolResult):
                for inner in part.content:
                    if type(inner.source) is not str:
                        self._look(inner.source, place, found)
            source = part.source
            if type(source) is not str and not (type(source) is dict and KEYS.isdisjoint(source)):
                self._look(source, place, found)
        source, whole = message.source, not (found or self.any_block or not message.parts or message.role == "tool")
        if whole and not (type(source) is dict and KEYS.isdisjoint(source)):
            self._look(source, len(message.parts) - 1, found)
        return tuple(found)

    def put(self, message: Message, place: int, mark: Mapping[str, Any]) -> Message | None:
        """The message with a marker on one of its parts; None when that part cannot carry one."""
        if self.roles and message.role not in self.roles:
            return None
        if message.role == "assistant" and BREAKPOINT in mark:
            return None
        part = message.parts[place]
        marked = self._put(part, mark)
        if marked is None:
            return None
        return message.with_parts((*message.parts[:place], marked, *message.parts[place + 1 :]))

    def lift(self, message: Message, place: int) -> Message:
        """The message without the markers on one of its parts."""
        return self._changed(message, place, self._without)

    def shorten(self, message: Message, place: int) -> Message:
        """The message with markers for five minutes on one of its parts where there are some for an hour."""
        return self._changed(message, place, self._short)

    def _look(self, native: object, place: int, found: list[CacheMarker]) -> None:
        """Add the markers of a block; a plain dict, asked for at every step, costs next to nothing."""
        if native is None or isinstance(native, str):
            return
        block = native if type(native) is dict else mapping_or_none(native)
        if block is None:
            return
        for key in self.keys:
            value = mapping_or_none(block[key]) if key in block else None
            found += [] if value is None else [CacheMarker(place, ttl_of(value), {key: value}, native)]

    def _put(self, part: Part, mark: Mapping[str, Any]) -> Part | None:
        if isinstance(part, Text) and part.text.strip():
            said = mapping_or_none(part.source) or {"type": self.text_type, "text": part.text}
            return evolve(part, source={**said, **mark})
        if isinstance(part, ToolResult) and not self.any_block:
            inner = self._put(part.content[-1], mark) if part.content else None
            return None if inner is None else evolve(part, content=(*part.content[:-1], inner))
        if isinstance(part, (Thinking, Opaque, Text)):
            return None
        if isinstance(part, Media) and (block := mapping_or_none(part.source)) is not None:
            return evolve(part, source={**block, **mark})
        if not self.any_block:
            return None
        kinds = {ToolCall: "tool_use", ToolResult: "tool_result"}
        kind = part.kind if isinstance(part, Media) else kinds[type(part)]
        return evolve(part, source={**(mapping_or_none(part.source) or {"type": kind}), **mark})

    def _changed(self, message: Message, place: int, change: _Change) -> Message:
        part = self._part(message.parts[place], change)
        if part is message.parts[place] and self._marks(block := mapping_or_none(message.source)):
            return message.replaced(evolve(message, source=change(block or {})))
        return message.with_parts((*message.parts[:place], part, *message.parts[place + 1 :]))

    def _part(self, part: Part, change: _Change) -> Part:
        if isinstance(part, ToolResult):
            content = tuple(self._part(item, change) for item in part.content)
            part = part if same(content, part.content) else evolve(part, content=content)
        block = mapping_or_none(part.source)
        return evolve(part, source=change(block)) if block is not None and self._marks(block) else part

    def _marks(self, block: Mapping[str, Any] | None) -> bool:
        return block is not None and any(key in block for key in self.keys)

    def _without(self, block: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in block.items() if key not in self.keys}

    def _short(self, block: Mapping[str, Any]) -> dict[str, Any]:
        return {key: for_minutes(value) if key in self.keys else value for key, value in block.items()}


CONTROL_MARKERS = KeyMarkers((CONTROL,), control, any_block=True, marks_head=True)
"""Anthropic's."""


Marked = dict[int, tuple[CacheMarker, ...]]
"""The markers of messages, by the place of the message; without those that have none."""


def find_marked(messages: Sequence[Message], markers: CacheMarkers, asked: Sequence[int] | None = None) -> Marked:
    """Find the markers of messages, by place, and note on each that has none that it has none.

    For there are many such, and all are asked often. What a message says does not change, and a caller who marks its
    native payload is read again.

    Args:
        messages: The messages.
        markers: How they are written.
        asked: The places of those that may have some, where they are known.
    """
    found: Marked = {}
    places = range(len(messages)) if asked is None else asked
    for place in places:
        message = messages[place]
        if message.bare_of is not markers:
            if carried := markers.of(message):
                found[place] = carried
            else:
                object.__setattr__(message, "bare_of", markers)  # invisible to equality
    return found
