"""What a conversation has to look like to go to a provider, as data.

Sources: the providers' pages on messages, images, files and tools (2026-07 to 2026-09) and the validity rules of each
format. Where a provider sets no limit, the narrowest that is known elsewhere holds: an id that all of them take need
not be rewritten at the next switch.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any, Literal

from attrs import define, evolve, field, frozen

from agentctx.core.message import Message, Native, Opaque, Part, Text, Thinking, Tool, ToolCall
from agentctx.models.profile import ModelProfile
from agentctx.providers.dialects import DIALECTS, Dialect
from agentctx.providers.native import fields_of, fields_or_none

UNSIGNED = "skip_thought_signature_validator"
"""What stands for the thought signature of a call that another model made; Gemini lets it pass."""

_SIGNATURES = frozenset({"thoughtSignature", "thought_signature"})
_FAMILY = re.compile(r"(?P<name>gpt|gemini)-(?P<version>\d+(?:\.\d+)?)|(?P<other>.*?)(?:-\d{4}[-\d]*)?\Z")


def shares_reasoning(one: str, other: str, profiles: tuple[ModelProfile | None, ModelProfile | None]) -> bool:
    """Whether a model reads the reasoning that another one signed.

    Claude models read each other's, unless it is bound to one model (since the 5.1 and 5.5 generations). GPT and Gemini
    models read that of their own version (5.6 that of 5.6, not of 5.5). Of others nothing is known.

    Args:
        one: A model's name.
        other: Another's.
        profiles: Their profiles, where they are known.
    """
    first, second = (
        _plain(name if known is None else known.family) for name, known in zip((one, other), profiles, strict=True)
    )
    if first.startswith("claude") and second.startswith("claude"):
        return first == second or not any(profile is None or profile.bound_thinking for profile in profiles)
    return _family(first) == _family(second)


def _plain(name: str) -> str:
    return re.sub(r"^(?:[a-z]{2,6}\.)?(?:anthropic\.)?", "", name.lower().rpartition("/")[2])


def _family(name: str) -> str:
    found = _FAMILY.match(name)
    if found is None or found["other"] is not None:
        return name if found is None else found["other"]
    return f"{found['name']}-{found['version']}"


def without_reasoning(message: Message, format_name: str) -> Message | None:
    """The message without its model's reasoning and signatures; itself when it has none, None when nothing is left.

    Args:
        message: A message as it was read.
        format_name: Name of the format that it is in.
    """
    kept: tuple[Part, ...] = tuple(part for part in message.parts if not isinstance(part, Thinking))
    if not kept and message.parts:
        return None
    if format_name == "openai-responses":
        return without_id(message) if message.role == "assistant" else message
    if format_name == "gemini":
        kept = tuple(map(_unsigned, kept))
    unchanged = len(kept) == len(message.parts) and all(a is b for a, b in zip(kept, message.parts, strict=True))
    return message if unchanged else message.with_parts(kept)


def without_id(message: Message) -> Message:
    """The message as its item without the id, which ties it to reasoning; itself when that has none."""
    return without_field(message, "id")


def without_field(message: Message, name: str) -> Message:
    """The message as its item without a field; itself when that has none."""
    fields = fields_of(message.source)
    if name not in fields:
        return message
    native = {key: value for key, value in fields.items() if key != name}
    value = fields[name]
    parts = tuple(_of_item(part, native, name) if _has(part, name, value) else part for part in message.parts)
    role, read = (message.role, parts) if message.as_read else (None, None)
    return message.replaced(Message(message.role, parts, source=native, read_role=role, read_parts=read))


def _has(part: Part, name: str, value: object) -> bool:
    """Whether a part was read from a whole item; maybe from an equal one, since callers make theirs anew."""
    fields = fields_or_none(part.source) or {}
    return name in fields and bool(fields[name] == value)


def _of_item(part: Part, native: Mapping[str, Any], name: str) -> Part:
    """A part that was read from a whole item, as read from that item without this field."""
    if not isinstance(part, Opaque):
        return evolve(part, source=native)
    data = {key: value for key, value in fields_of(part.data).items() if key != name}
    return evolve(part, data=data, source=native)


def _unsigned(part: Part) -> Part:
    """A part of Gemini's without its signature; a call gets the one that stands for none."""
    native = fields_or_none(part.source)
    if native is None or _SIGNATURES.isdisjoint(native):
        return part
    bare = {key: value for key, value in native.items() if key not in _SIGNATURES}
    if isinstance(part, ToolCall):
        return evolve(part, signature=UNSIGNED, source={**bare, "thoughtSignature": UNSIGNED})
    return Text(part.text, source=bare) if isinstance(part, Text) else evolve(part, source=bare)


PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The MIME types of images that every provider takes."""

_PDF = frozenset({"application/pdf"})
_TEXTS = frozenset({"text/plain", "text/markdown", "text/html", "text/csv"})
_SOUNDS = frozenset({"audio/wav", "audio/mp3", "audio/mpeg"})
_OTHER_SOUNDS = frozenset({"audio/flac", "audio/ogg", "audio/aac", "audio/aiff"})
_FILMS = frozenset({"video/mp4", "video/quicktime", "video/mov", "video/webm"})

REFUSES_MIXED = re.compile(r"mi[sx]tral|magistral|llama|command|jamba")
"""Models on Bedrock that refuse results and words in one turn."""

Media = Mapping[str, frozenset[str]]
"""The MIME types that may be carried inline, by the kind of media."""


@frozen
class Spelling:
    """How ids or names have to be spelled.

    Args:
        pattern: What the whole of it matches.
        longest: The most characters.
        shortest: The fewest characters.
        letters: What it may consist of, as the inside of a character class.
    """

    letters: str
    longest: int
    shortest: int = 1
    pattern: re.Pattern[str] = field(init=False, repr=False, eq=False)

    @pattern.default
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(f"[{self.letters}]{{{self.shortest},{self.longest}}}")

    def takes(self, word: str) -> bool:
        """Whether a word is spelled so."""
        return self.pattern.fullmatch(word) is not None


@frozen
class Target:
    """What a provider's format can say, and how.

    Args:
        ids: How the ids of calls are spelled.
        names: How the names of tools are spelled.
        unique_ids: Whether an id may occur only once.
        grouping: What one message holds: ``"one result"`` (Chat: a turn of the model is one message, each result
            another), ``"one item"`` (Responses), ``"all results"`` (the results of a turn stand in one message), or
            ``"one turn"`` (everything that a side says stands in one message).
        system_between: The role of a system message in the middle of a conversation.
        user_first: Whether the user has to speak first.
        user_after_results: Whether the user may speak directly after the results of tools.
        in_user: The media that a user may show.
        in_results: The media that a tool may show; a tool's other media that a user may show, the user shows then.
        by_url: The kinds of media that may be given by a web address.
        most: The most media of a kind in one message.
        texts_in_one: Whether what the model says is one text.
        results_in_one: Whether what a tool says is one text.
        says_failed: Whether a result says that its tool has failed.
        details: Whether media go with a wish for resolution.
        arguments_object: Whether the arguments of a call are an object.
        names_files: Where documents have a name: ``"file"`` and ``"input_file"`` (which need one when they are carried
            inline), or ``"title"``; None where none is given.
        also: Keys of documents that other formats have as well, and that are not taken along.
        unsigned_call: What stands for the signature of a call that another model made; None when none is needed.
    """

    ids: Spelling
    names: Spelling = Spelling("a-zA-Z0-9_-", 64)
    unique_ids: bool = True
    grouping: Literal["one result", "one item", "all results", "one turn"] = "all results"
    system_between: Literal["system", "developer", "user"] = "user"
    user_first: bool = False
    user_after_results: bool = True
    in_user: Media = field(factory=dict, hash=False)
    in_results: Media = field(factory=dict, hash=False)
    by_url: frozenset[str] = frozenset()
    most: Mapping[str, int] = field(factory=dict, hash=False)
    texts_in_one: bool = False
    results_in_one: bool = False
    says_failed: bool = True
    details: bool = False
    arguments_object: bool = True
    names_files: Literal["file", "input_file", "title"] | None = None
    also: frozenset[str] = frozenset()
    unsigned_call: str | None = None


_ALSO = frozenset({"title", "name", "context", "citations"})
_IDS = Spelling("a-zA-Z0-9_-", 64)
_OPENAI: Media = {"image": PICTURES, "audio": _SOUNDS, "document": _PDF}
_CLAUDE: Media = {"image": PICTURES, "document": _PDF}
_GOOGLE: Media = {
    "image": PICTURES | {"image/heic", "image/heif"},
    "audio": _SOUNDS | _OTHER_SOUNDS,
    "video": _FILMS,
    "document": _PDF | _TEXTS,
}
_AMAZON: Media = {"image": PICTURES, "document": _PDF | _TEXTS, "video": _FILMS}

TARGETS: Mapping[str, Target] = {
    "openai-chat": Target(
        Spelling("a-zA-Z0-9_-", 40),
        unique_ids=False,
        grouping="one result",
        system_between="system",
        in_user=_OPENAI,
        by_url=frozenset({"image"}),
        texts_in_one=True,
        results_in_one=True,
        says_failed=False,
        details=True,
        arguments_object=False,
        names_files="file",
    ),
    "openai-responses": Target(
        _IDS,
        grouping="one item",
        system_between="developer",
        says_failed=False,
        details=True,
        in_user={"image": PICTURES, "document": _PDF},
        in_results={"image": PICTURES, "document": _PDF},
        by_url=frozenset({"image", "document"}),
        arguments_object=False,
        names_files="input_file",
    ),
    "anthropic": Target(
        _IDS,
        system_between="system",
        user_first=True,
        in_user=_CLAUDE,
        in_results=_CLAUDE,
        by_url=frozenset({"image", "document"}),
        names_files="title",
        also=_ALSO,
    ),
    "gemini": Target(
        _IDS,
        Spelling("a-zA-Z0-9_.:-", 64),
        in_user=_GOOGLE,
        in_results={"image": PICTURES, "document": _PDF},
        by_url=frozenset({"image", "audio", "video", "document"}),
        unsigned_call=UNSIGNED,
        results_in_one=True,
    ),
    "bedrock": Target(
        _IDS,
        grouping="one turn",
        user_first=True,
        in_user=_AMAZON,
        in_results={"image": PICTURES, "document": _PDF | _TEXTS},
        most={"image": 20, "document": 5},
        also=_ALSO,
    ),
}
"""What each format can say."""


def target_of(format_name: str, model: str | None = None, *, takes_system: bool = True) -> Target:
    """What a format can say to a model.

    Args:
        format_name: Name of the format, with its dialect if it has one.
        model: The model's name, if known.
        takes_system: Whether the model takes system messages in the middle, where its format has them.
    """
    format_name, _, dialect = format_name.partition("/")
    target = TARGETS[format_name]
    if dialect:
        return _in_dialect(target, DIALECTS[dialect])
    if format_name == "bedrock" and model is not None and REFUSES_MIXED.search(model.lower()):
        return evolve(target, grouping="all results", user_after_results=False)
    if format_name == "anthropic" and not takes_system:
        return evolve(target, system_between="user")
    return target


def _in_dialect(target: Target, dialect: Dialect) -> Target:
    return evolve(
        target,
        ids=spelling_of(dialect),
        unique_ids=dialect.unique_ids,
        user_after_results=dialect.user_after_tool,
    )


def spelling_of(dialect: Dialect) -> Spelling:
    """How the ids of calls are spelled in a dialect of Chat Completions."""
    if dialect.id_regex is None:
        return Spelling("a-zA-Z0-9_-", dialect.id_max)
    return Spelling("a-zA-Z0-9", dialect.id_max, dialect.id_max)


_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_MARK = 8
"""Characters of the hash in a word that keeps some of what it was made from."""


def respelled(word: str, spelling: Spelling, salt: str = "") -> str:
    """A word as the spelling wants it, made from the word (and the salt) alone; the word itself when it may stay.

    Args:
        word: An id or a name.
        spelling: What is wanted.
        salt: Tells apart what is made from the same word.
    """
    if not salt and spelling.takes(word):
        return word
    digest = sha256(f"{word}\0{salt}".encode("utf-8", "surrogatepass")).digest()
    number = int.from_bytes(digest)
    if not spelling.takes("a_0"):  # no room for a part of the word
        return _in_digits(number, spelling.longest)
    kept = re.sub(r"[^a-zA-Z0-9_-]", "_", word)[: spelling.longest - _MARK - 1]
    return f"{kept if kept[:1].isalpha() else f'c{kept[:-1]}'}_{_in_digits(number, _MARK)}"


def numbered(word: str, number: int, spelling: Spelling) -> str:
    """The word with a number behind it, as the spelling wants it.

    Args:
        word: An id that is spelled so.
        number: The number.
        spelling: What is wanted.
    """
    plain = f"{word}_{number}"
    return plain if spelling.takes(plain) else respelled(word, spelling, str(number))


def _in_digits(number: int, length: int) -> str:
    digits = ""
    for _ in range(length):
        number, rest = divmod(number, len(_DIGITS))
        digits += _DIGITS[rest]
    return digits


@define
class Respelling:
    """New words for old ones.

    Args:
        spelling: What is wanted.
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
            made = respelled(word, self.spelling, salt)
            if self._owner.setdefault(made, (word, use)) == (word, use):
                self._made[word, use] = made
                return made
            attempt += 1


def native_system(parts: Iterable[Part], format_name: str) -> Native:
    """The texts as the format's own system prompt; None when there is nothing to see in them.

    Args:
        parts: What the prompt says.
        format_name: Name of a format that keeps it apart.
    """
    texts = [part.text for part in parts if isinstance(part, Text) and part.text.strip()]
    if not texts:
        return None
    match format_name:
        case "gemini":
            return {"parts": [{"text": text} for text in texts]}
        case "bedrock":
            return [{"text": text} for text in texts]
        case "anthropic" if len(texts) > 1:
            return [{"type": "text", "text": text} for text in texts]
    return "\n\n".join(texts)


Schema = Mapping[str, Any]

_NOTHING: Schema = {"type": "object", "properties": {}}
_FREE_TEXT: Schema = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "The input as plain text."}},
    "required": ["input"],
}
_DEFINED = frozenset({"functionDeclarations", "function_declarations", "toolSpec", "input_schema", "parameters"})
"""Keys of which each definition has one that is not told by its type."""


def translated(tools: Iterable[Tool], format_name: str, names: Respelling) -> tuple[list[Any], list[str]]:
    """Tool definitions as a format writes them, and the names of those that have no counterpart.

    Args:
        tools: The tools as they were read.
        format_name: Name of the format, with its dialect if it has one.
        names: How their names are spelled there.
    """
    write = _WRITERS[format_name.partition("/")[0]]
    made, lost = [], []
    for tool in tools:
        schema = schema_of(tool)
        if schema is None:
            lost.append(tool.name or _kind(tool))
        else:
            made.append(write(names.of(tool.name), tool, schema))
    return made, lost


def placeholder(name: str) -> Tool:
    """A tool that is called in the history and not on offer any more."""
    return Tool(name, "Not available any more.", _NOTHING)


def schema_of(tool: Tool) -> Schema | None:
    """The JSON schema of a tool's arguments; None when the tool is no function of the caller's."""
    source = fields_or_none(tool.source) or {}
    if not tool.name or not _is_function(tool, source):
        return None
    if source.get("type") == "custom" and "input_schema" not in source:
        return _FREE_TEXT
    if tool.parameters is None:
        return _NOTHING
    return _lower(tool.parameters) if _is_google(source) else _object(tool.parameters)


def _is_function(tool: Tool, source: Mapping[str, Any]) -> bool:
    """Whether the caller runs it, and its definition says all of it."""
    return tool.source is None or source.get("type") in ("function", "custom") or not _DEFINED.isdisjoint(source)


def _kind(tool: Tool) -> str:
    source = fields_or_none(tool.source) or {}
    kind = source.get("type")
    return kind if isinstance(kind, str) else next(iter(source), "tool")


def _is_google(source: Mapping[str, Any]) -> bool:
    return "functionDeclarations" in source or "function_declarations" in source


def _object(schema: Schema) -> Schema:
    """The schema; an object's where it does not say so."""
    return schema if schema.get("type") == "object" else {**schema, "type": "object"}


def _lower(schema: Schema) -> Schema:
    """Gemini's own dialect of OpenAPI schemas as JSON schema: types in small letters, null as a type."""
    return _object(_lowered(schema))


def _lowered(schema: Native) -> Native:
    if isinstance(schema, (list, tuple)):
        return [_lowered(each) for each in schema]
    if (fields := fields_or_none(schema)) is None:
        return schema
    found = {key: _property(key, value) for key, value in fields.items() if key != "nullable"}
    if fields.get("nullable") is True and isinstance(kind := found.get("type"), str):
        found["type"] = [kind, "null"]
    return found


def _property(key: str, value: Native) -> Native:
    if key == "type" and isinstance(name := getattr(value, "value", value), str):
        return name.lower()
    if key in {"properties", "defs", "$defs"} and (named := fields_or_none(value)) is not None:
        return {name: _lowered(each) for name, each in named.items()}
    return value if key in {"enum", "required", "example", "default"} else _lowered(value)


def _strict(tool: Tool) -> bool:
    source = fields_or_none(tool.source) or {}
    body = fields_or_none(source.get("function")) or source
    return body.get("strict") is True


def _described(tool: Tool) -> dict[str, str]:
    return {"description": tool.description} if tool.description else {}


def _chat(name: str, tool: Tool, schema: Schema) -> Native:
    function = {"name": name, **_described(tool), "parameters": schema}
    return {"type": "function", "function": {**function, "strict": True} if _strict(tool) else function}


def _responses(name: str, tool: Tool, schema: Schema) -> Native:
    """The Responses API reads a definition that says nothing of it as a strict one."""
    return {"type": "function", "name": name, **_described(tool), "parameters": schema, "strict": _strict(tool)}


def _anthropic(name: str, tool: Tool, schema: Schema) -> Native:
    return {"name": name, **_described(tool), "input_schema": schema}


def _gemini(name: str, tool: Tool, schema: Schema) -> Native:
    declared = {"name": name, "description": tool.description or name, "parametersJsonSchema": schema}
    return {"functionDeclarations": [declared]}


def _bedrock(name: str, tool: Tool, schema: Schema) -> Native:
    return {"toolSpec": {"name": name, **_described(tool), "inputSchema": {"json": schema}}}


_WRITERS: Mapping[str, Callable[[str, Tool, Schema], Any]] = {
    "openai-chat": _chat,
    "openai-responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "bedrock": _bedrock,
}
