"""What the formats share: SDK objects as mappings and JSON, snapshots, text that is valid Unicode, valid JSON."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence, Set as AbstractSet
from functools import cache
from operator import is_
from typing import Any, TypeVar

from attrs import evolve

from agentctx.errors import InvalidInput
from agentctx.lazy import lazy_pattern
from agentctx.message import (
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
from agentctx.tokens.media import base64_of

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


def with_object(part: ToolCall, why: list[str]) -> ToolCall:
    """The call with arguments that are a JSON object; itself when they are."""
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
    return len(new) == len(old) and all(one is other for one, other in zip(new, old, strict=True))


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
