"""What whole messages, tools and requests cost: each message is counted once, and remembers it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

from attrs import define, field

from agentctx.core.json_text import characters, serialise
from agentctx.core.message import (
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
    is_marker_tool,
    without_marker,
)
from agentctx.models.profile import JSON_TOOLS, SERVER_TOOLS, SHORT_TOOLS, ImageRule, ModelProfile
from agentctx.offload import MUCH_TEXT, offload
from agentctx.protocols import MessageCounter, PartCounter, TokenCounter
from agentctx.tokens.counting import Asking, RememberingCounter, whole_tokens
from agentctx.tokens.media import carried, may_be_office, may_be_text, media_tokens
from agentctx.wire_format import TokenOverheads


@define(eq=False, repr=False)
class MessageMeter:
    """Counts messages and requests as a provider would, and remembers the count on the message.

    Meters with an equal counter, profile and overheads share what messages remember.

    Args:
        counter: Counts text. One that is a ``MessageCounter`` counts whole messages itself, and one that is a
            ``PartCounter`` what parts it likes, but plain text.
        profile: The model's profile: how images count, what tools add. None when no model was named.
        overheads: What the provider's format adds.
    """

    counter: TokenCounter
    profile: ModelProfile | None = None
    overheads: TokenOverheads = field(factory=TokenOverheads)
    _key: _Key = field(init=False)
    _mark: object = field(init=False)
    _whole: MessageCounter | None = field(init=False)
    _own: PartCounter | None = field(init=False)
    _image: ImageRule = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Find what goes with the format and the profile."""
        self._key = _key_of(self.counter, self.profile, self.overheads)
        self._mark = self._key.mark
        self._whole = self.counter if isinstance(self.counter, MessageCounter) else None
        asked = self.counter.counter if isinstance(self.counter, RememberingCounter) else self.counter
        self._own = asked if isinstance(asked, PartCounter) else None
        self._image = _IMAGES if self.profile is None else self.profile.image

    def message(self, message: Message, /) -> int:
        """Tokens of one message, with role, name, calls, media; counted once and remembered."""
        mark, tokens, _ = message._counted  # noqa: SLF001 - a call less, on the hottest path there is
        return tokens if mark is self._mark else self._work_out(message)[0]

    def weight(self, message: Message, /) -> int:
        """Bytes of one message; worked out once and remembered."""
        mark, _, size = message._counted  # noqa: SLF001 - as in message
        return size if mark is self._mark else self._work_out(message)[1]

    def parts(self, parts: Sequence[Part], /) -> int:
        """Tokens of parts, without a message around them."""
        return sum(map(self._part, parts))

    def fixed(self, context: Context, /) -> int:
        """Tokens of system prompt and tools, and what every request costs."""
        system = 0 if context.system is None else self.message(context.system)
        tools = self._tools(context.tools)[0] if context.tools else 0
        return system + tools + (self.overheads.reply if self._whole is None else 0)

    def size(self, context: Context, /) -> int:
        """Tokens of a whole request: ``fixed`` and all its messages."""
        return self.fixed(context) + sum(map(self.message, context.messages))

    def bytes(self, context: Context, /) -> int:
        """Bytes of text (as UTF-8) and inline media of a whole request, without the provider's syntax around them."""
        system = 0 if context.system is None else self.weight(context.system)
        tools = self._tools(context.tools)[1] if context.tools else 0
        return system + tools + sum(map(self.weight, context.messages))

    async def settle(self, messages: Sequence[Message], /) -> None:
        """Count what was not counted yet: here when it is little, in one worker thread when it is much.

        A message that is settled costs no more than a look at it. The event loop is held for a few milliseconds at
        most (but for the first count of all, which loads the vocabulary: see ``agentctx.warmup``).
        """
        mark = self._mark
        pending = [each for each in messages if each._counted[0] is not mark]  # noqa: SLF001 - as in message
        if pending:
            work = len(pending), characters_to_count(pending)
            await offload(lambda: [self._work_out(message) for message in pending], *work)

    def _work_out(self, message: Message) -> tuple[int, int]:
        size = sum(map(part_bytes, message.parts))
        if self._whole is not None:
            with Asking(self._whole):
                tokens = self._whole.count_message(message)
        else:
            tokens = self.overheads.message + self.counter.count(message.role) + self.parts(message.parts)
            name = _name_of(message)
            if name:
                tokens += self.overheads.name + self.counter.count(name)
        if type(tokens) is not int or tokens < 0:
            tokens = whole_tokens(self.counter, tokens, "a message")
        object.__setattr__(message, "_counted", (self._mark, tokens, size))  # invisible to equality
        return tokens, size

    def _part(self, part: Part) -> int:
        """Tokens of a part: by the user's counter of parts, else by its text and the provider's formulas."""
        count = self.counter.count
        if self._own is not None and not isinstance(part, Text):
            with Asking(self._own):
                tokens = self._own.count_part(part)
            if tokens is not None:
                return tokens
        match part:
            case Text():
                return count(part.text)
            case ToolCall():
                return self.overheads.call + count(part.name) + count(part.arguments)
            case ToolResult():
                return self.overheads.result + self.parts(part.content) + count(part.name or "")
            case Thinking():
                return _hidden(part.encrypted, self.overheads.envelope) if part.encrypted else count(part.text)
            case Media():
                words = count(part.words) if part.words else 0
                return words + media_tokens(part, self._image, count)
            case Opaque():
                return 0 if is_marker(part) else max(1, self._opaque(without_marker(part.data)))

    def _opaque(self, data: object) -> int:
        """A block that is not understood: its words as text, and what it carries as what that is."""
        found = carried(data)
        media = sum(media_tokens(each, self._image, self.counter.count) for each in found.media)
        return self.counter.count(serialise(found.rest)) + media + found.encrypted

    def _tools(self, tools: tuple[Tool, ...]) -> tuple[int, int]:
        """Tokens and bytes of the tools; worked out again when they say something else than the last time."""
        seen = self._key.tools
        if seen is not None and seen[0] is tools:
            return seen[2], seen[3]
        real = tuple(tool for tool in tools if not is_marker_tool(tool))
        now: list[object] = [(tool.name, tool.description, tool.parameters, tool.source) for tool in tools]
        if seen is None or seen[1] != now:
            self._key.tools = seen = (tools, _copied(now), self._tool_tokens(real), sum(map(tool_bytes, tools)))
        return seen[2], seen[3]

    def _tool_tokens(self, tools: tuple[Tool, ...]) -> int:
        count = self.counter.count
        if not tools:
            return 0
        if self._whole is not None:
            return count("tools")
        overhead = 0 if self.profile is None else self.profile.tool_overhead
        if shows_schemas(self.overheads, self.profile):
            return overhead + json_tools(tools, count)
        old = self.profile is not None and self.profile.encoding == "cl100k_base"
        return overhead + openai_tools(tools, count, TOOL_START_CL100K if old else TOOL_START)


def _hidden(encrypted: str, envelope: int) -> int:
    """Estimate of reasoning that cannot be read, at six characters a token; never zero.

    Source: what OpenAI's usage said of the reasoning in recorded answers (``reasoning_tokens``), of 26 to 1,792 tokens.
    A summary beside it is not read by the model.
    """
    return max(1, -(-(len(encrypted) - envelope) // 6))


def _name_of(message: Message) -> str | None:
    """The participant's name, which the Chat format keeps beside role and content."""
    source = message.source
    if not isinstance(source, dict) or "name" not in source or "role" not in source or message.role == "tool":
        return None  # the name of a call's item, where a call is a message, is that of the tool
    name = source.get("name")
    return name if isinstance(name, str) else None


_IMAGES = ImageRule("openai-tiles")


class _Key:
    """What a counter, a profile and overheads share: messages remember by its mark what they were counted by."""

    __slots__ = ("__weakref__", "mark", "tools")

    def __init__(self) -> None:
        self.mark = object()
        self.tools: tuple[tuple[Tool, ...], list[object], int, int] | None = None


_keys: WeakValueDictionary[tuple[TokenCounter, ModelProfile | None, TokenOverheads], _Key] = WeakValueDictionary()
_lock = Lock()


def _key_of(counter: TokenCounter, profile: ModelProfile | None, overheads: TokenOverheads) -> _Key:
    """The key shared by all meters that count alike; one of its own for a counter without a hash."""
    try:
        with _lock:
            return _keys.setdefault((counter, profile, overheads), _Key())
    except TypeError:
        return _Key()


def _copied(value: object) -> Native:
    """Containers copied, all else shared, so that what a caller changes in place is noticed."""
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_copied, value))
    return value


Count = Callable[[str], int]

TOOL_START = 7
"""Tokens that open a tool; 10 for models on cl100k_base."""
TOOL_START_CL100K = 10
PROPERTIES_START = 3
PROPERTY = 3
ENUM_START = -3
ENUM_ITEM = 3
TOOLS_END = 12
"""Tokens that close the list of tools, once."""

_NESTED = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_CHOICES = ("anyOf", "oneOf", "allOf", "prefixItems")
_DEFINITIONS = ("$defs", "definitions", "patternProperties", "dependentSchemas")
# Told by the form itself, or not told to the model at all.
_SILENT = frozenset({"type", "description", "enum", "properties", "required", "title", "strict", "$schema", "$id"})
_KNOWN = _SILENT.union(_NESTED, _CHOICES, _DEFINITIONS)


def shows_schemas(overheads: TokenOverheads, profile: ModelProfile | None) -> bool:
    """Whether a model is shown its tools as JSON schemas: that is the model's way, whatever format they come in.

    The format's ``overheads`` decide where the model's family is not known.
    """
    if profile is not None and SHORT_TOOLS.match(profile.family):
        return False
    return bool(profile and JSON_TOOLS.match(profile.family)) or overheads.schema_as_json


def openai_tools(tools: tuple[Tool, ...], count: Count, start: int = TOOL_START) -> int:
    """Tokens of the tools in OpenAI's form; 0 for none."""
    return sum(start + _openai_tool(tool, count) for tool in tools) + (TOOLS_END if tools else 0)


def json_tools(tools: tuple[Tool, ...], count: Count) -> int:
    """Tokens of the tools where the model is shown their JSON schema; 0 for none."""
    return sum(TOOL_START + _json_tool(tool, count) for tool in tools)


def _openai_tool(tool: Tool, count: Count) -> int:
    if not tool.name:  # a server tool: nothing is known of it but its definition
        return count(serialise(without_marker(tool.source)))
    return count(f"{tool.name}:{tool.description.rstrip('.')}") + _schema(tool.parameters or {}, count)


def _json_tool(tool: Tool, count: Count) -> int:
    for kind, tokens in SERVER_TOOLS:
        if _type_of(tool).startswith(kind):
            return tokens
    if not tool.name or tool.parameters is None:
        return (
            count(serialise(without_marker(tool.source)))
            if tool.source is not None
            else count(tool.name + tool.description)
        )
    return count(tool.name) + count(tool.description) + count(serialise(tool.parameters))


def _type_of(tool: Tool) -> str:
    kind = tool.source.get("type") if isinstance(tool.source, Mapping) else None
    return kind if isinstance(kind, str) else ""


def _schema(schema: Mapping[str, Any], count: Count) -> int:
    """Tokens of a schema's insides: its properties, the schemas within it, and what else it says."""
    total = 0
    open_schemas = [schema]
    while open_schemas:
        each = open_schemas.pop()
        properties = each.get("properties")
        if isinstance(properties, Mapping) and properties:
            total += PROPERTIES_START
            for key, value in properties.items():
                body = value if isinstance(value, Mapping) else {}
                total += PROPERTY + _heading(str(key), body, count)
                open_schemas.append(body)
        for inner in _within(each):
            total += _heading("", inner, count)
            open_schemas.append(inner)
        total += sum(count(f"{key}:{_text(value)}") for key, value in each.items() if key not in _KNOWN)
    return total


def _heading(key: str, schema: Mapping[str, Any], count: Count) -> int:
    """Tokens of a schema's own line: key, type, description, and the values to choose from."""
    enum = schema.get("enum")
    choices = ENUM_START + sum(ENUM_ITEM + count(_text(item)) for item in enum) if isinstance(enum, list) else 0
    description = _text(schema.get("description", "")).rstrip(".")
    return choices + count(f"{key}:{_text(schema.get('type', '')).lower()}:{description}")


def _within(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The schemas directly within one, but for its properties."""
    yield from (schema[key] for key in _NESTED if isinstance(schema.get(key), Mapping))
    for key in _CHOICES:
        if isinstance(schema.get(key), list):
            yield from (each for each in schema[key] if isinstance(each, Mapping))
    for key in _DEFINITIONS:
        if isinstance(schema.get(key), Mapping):
            yield from (each for each in schema[key].values() if isinstance(each, Mapping))


def _text(value: object) -> str:
    return value if isinstance(value, str) else serialise(value)


_MESSAGE_CHARACTERS = 200  # what looking at a message costs, beside counting its text


def characters_to_count(messages: Iterable[Message]) -> int:
    """About how many characters have to be counted; of much text only that it is much."""
    total = 0
    for message in messages:
        total += _MESSAGE_CHARACTERS
        for part in message.parts:
            total += _characters(part)
        if total > MUCH_TEXT:
            break
    return total


def _characters(part: Part) -> int:
    """About how many characters have to be counted."""
    match part:
        case ToolCall():
            return len(part.arguments)
        case Text() | Thinking():
            return len(part.text)
        case ToolResult():
            return sum(map(_characters, part.content))
        case Opaque():
            return characters(part.data)
        case Media() if may_be_office(part):
            return MUCH_TEXT  # there may be much in a small archive
        case Media():
            return len(part.words) + (len(part.data or "") if may_be_text(part) else 0)


def part_bytes(part: Part) -> int:
    """Bytes of text (as UTF-8) and inline media."""
    match part:
        case ToolCall():
            return _utf8(part.name) + _utf8(part.arguments) + len(part.signature or "")
        case Text():
            return _utf8(part.text)
        case ToolResult():
            return sum(map(part_bytes, part.content))
        case Thinking():
            return _utf8(part.text) + len(part.signature or "") + len(part.encrypted or "")
        case Media():
            return len(part.data or "") + len(part.url or "") + _utf8(part.words)
        case Opaque():
            return _utf8(serialise(part.data))


def tool_bytes(tool: Tool) -> int:
    """Bytes of a tool definition as JSON."""
    return _utf8(serialise(tool.source if tool.source is not None else [tool.name, tool.description, tool.parameters]))


def _utf8(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
