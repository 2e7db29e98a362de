"""What a provider's format says of itself: how its requests are read and written, and what holds for them.

A format is one class that inherits ``WireFormat`` and says what is otherwise than it stands here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from attrs import Factory, field, frozen

from agentctx.errors import InvalidInput
from agentctx.message import (
    CacheMarker,
    Context,
    Message,
    Native,
    Opaque,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Ttl,
    is_marker_tool,
)
from agentctx.models.profile import ModelProfile
from agentctx.unit import RoundRules

USUAL = "openai-chat"
"""The format of values that were read in none, and of messages that every format would write alike."""

Repaired = tuple[int, Message | None, str]
"""Index of a message, what to send instead (None: nothing), and why."""

Arranged = tuple[int, tuple[Message, ...], str]
"""Index of a message, what stands there instead, and why."""

Note = Callable[[Message, str], None]
"""Told of a message that moved, was made or became another, and why."""


@frozen
class Violation:
    """A rule that a request breaks.

    Args:
        rule: The rule's name, for example ``"chat.tool_orphan"``.
        severity: ``"error"`` when the provider refuses the request, ``"warn"`` when some endpoints do.
        index: Index of the message (or item) concerned, or None when it is the request as a whole.
        path: The place, as the provider writes it, for example ``messages[2].tool_call_id``.
        message: The provider's own words where they are known.

    Example:
        >>> from agentctx import validate
        >>> found = validate({"messages": [{"role": "tool", "tool_call_id": "a", "content": "…"}]}, "openai-chat")
        >>> found[0].severity, found[0].path
        ('error', 'messages.[0].role')
    """

    rule: str
    severity: Literal["error", "warn"]
    index: int | None
    path: str
    message: str

    def __str__(self) -> str:
        """One line: severity, place, rule and the provider's words."""
        return f"{self.severity}: {self.path}: [{self.rule}] {self.message}"


@frozen
class TokenOverheads:
    """Tokens that a format adds to what is said in it.

    Args:
        message: For each message.
        reply: For each request: the opening of the answer.
        name: For a participant's name, beside the name itself.
        call: For each tool call, beside its name and arguments.
        result: For each tool result, beside what it says.
        envelope: Not tokens but characters, of encrypted reasoning that are no reasoning.
        schema_as_json: Whether tools are shown as JSON, where no model is known; else in OpenAI's short form.

    Example:
        >>> from agentctx.formats import TokenOverheads
        >>> TokenOverheads(message=2).reply
        3
    """

    message: int = 3
    reply: int = 3
    name: int = 1
    call: int = 7
    result: int = 2
    envelope: int = 0
    schema_as_json: bool = False


@frozen
class RequestKeys:
    """Where the parts of a request stand in it.

    Args:
        messages: The key of the messages.
        system: The key of a system prompt that is kept apart; None where it stands among the messages.
        system_leads: Whether system messages may lead the messages although a system prompt has a key of its own.
        model: The key of the model's name.
        config: The key of the object that holds the tools; empty where they stand in the request itself.

    Example:
        >>> from agentctx.formats import RequestKeys
        >>> RequestKeys("contents", system="system_instruction").request(["Hi"], "Be brief.")
        {'contents': ['Hi'], 'system_instruction': 'Be brief.'}
    """

    messages: str = "messages"
    system: str | None = None
    system_leads: bool = field(default=Factory(lambda self: self.system is None, takes_self=True), kw_only=True)
    model: str = field(default="model", kw_only=True)
    config: str = field(default="", kw_only=True)

    def request(
        self, messages: Sequence[Any], system: Native = None, tools: Native = None, model: str | None = None, /
    ) -> dict[str, Any]:
        """Put a request together, as ``validate`` takes one and the API does.

        Args:
            messages: Native messages.
            system: The native system prompt; left out where the format keeps none apart.
            tools: Native tool definitions; None: none are sent.
            model: The model's name; None: the request does not name one.
        """
        parts: dict[str, Any] = {self.model: model, self.messages: messages}
        if self.system is not None:
            parts[self.system] = system
        parts[self.config or "tools"] = {"tools": tools} if self.config and tools is not None else tools
        return {key: part for key, part in parts.items() if part is not None}


@frozen
class UsageKeys:
    """Under which keys a provider says in a usage how large a request was.

    Args:
        prompt: The tokens of the prompt: all of them, or all but those of ``parts``. The first key that is there holds.
        parts: Tokens of the prompt that are not in it: they are added up.
        answer: The tokens of the answer.
        rounds: A list of the rounds, where several prompts may be summed up in one usage.
        server_tools: An object of counts, of which each also tells of more than one prompt, and the keys of the counts.

    Example:
        >>> from agentctx.formats import UsageKeys
        >>> UsageKeys(prompt=("tokens_in",), answer=("tokens_out",)).parts
        ()
    """

    prompt: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    answer: tuple[str, ...] = ()
    rounds: str = ""
    server_tools: tuple[str, tuple[str, ...]] = ("", ())


@frozen
class Spelling:
    """How ids or names have to be spelled.

    Args:
        letters: What it may consist of, as the inside of a character class.
        longest: The most characters.
        shortest: The fewest characters.

    Example:
        >>> from agentctx.formats import Spelling
        >>> Spelling("a-z0-9_", 12).takes("call_1"), Spelling("a-z0-9_", 12).takes("Call 1")
        (True, False)
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

    def respelled(self, word: str, salt: str = "") -> str:
        """A word spelled so, made from the word (and the salt) alone; the word itself when it may stay."""
        if not salt and self.takes(word):
            return word
        from hashlib import sha256  # noqa: PLC0415 - loads OpenSSL, for ids that nearly no history has

        number = int.from_bytes(sha256(f"{word}\0{salt}".encode("utf-8", "surrogatepass")).digest())
        if not self.takes("a_0"):  # no room for a part of the word
            return _in_digits(number, self.longest)
        kept = re.sub(r"[^a-zA-Z0-9_-]", "_", word)[: self.longest - _MARK - 1]
        return f"{kept if kept[:1].isalpha() else f'c{kept[:-1]}'}_{_in_digits(number, _MARK)}"

    def numbered(self, word: str, number: int) -> str:
        """The word with a number behind it, spelled so."""
        plain = f"{word}_{number}"
        return plain if self.takes(plain) else self.respelled(word, str(number))


_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_MARK = 8
"""Characters of the hash in a word that keeps some of what it was made from."""


def _in_digits(number: int, length: int) -> str:
    digits = ""
    for _ in range(length):
        number, rest = divmod(number, len(_DIGITS))
        digits += _DIGITS[rest]
    return digits


MediaTypes = Mapping[str, frozenset[str]]
"""The MIME types that may be carried inline, by the kind of media."""


@frozen(eq=False, repr=False)
class Capabilities:
    """What a format can say, and how: what a conversation becomes that is taken to it from another one.

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
        keys: The keys of messages, on every level, whose values are taken along or reported as left behind.
        also: Keys of documents that other formats have as well, and that are not taken along.
        unsigned_call: What stands for the signature of a call that another model made; None when none is needed.
        called_tools: Whether each tool that was called has to be defined, also when it is not on offer any more.

    Example:
        >>> from agentctx.formats import Capabilities, Spelling
        >>> Capabilities(Spelling("a-zA-Z0-9", 9), texts_in_one=True).says_failed
        True
    """

    ids: Spelling = Spelling("a-zA-Z0-9_-", 64)
    names: Spelling = Spelling("a-zA-Z0-9_-", 64)
    unique_ids: bool = True
    grouping: Literal["one result", "one item", "all results", "one turn"] = "all results"
    system_between: Literal["system", "developer", "user"] = "user"
    user_first: bool = False
    user_after_results: bool = True
    in_user: MediaTypes = field(factory=dict, hash=False)
    in_results: MediaTypes = field(factory=dict, hash=False)
    by_url: frozenset[str] = frozenset()
    most: Mapping[str, int] = field(factory=dict, hash=False)
    texts_in_one: bool = False
    results_in_one: bool = False
    says_failed: bool = True
    details: bool = False
    arguments_object: bool = True
    names_files: Literal["file", "input_file", "title"] | None = None
    keys: frozenset[str] = frozenset()
    also: frozenset[str] = frozenset()
    unsigned_call: str | None = None
    called_tools: bool = False


class WireFormat(Protocol):
    """One provider's way to write a request, read and written without loss.

    Inherit it and say ``name``, ``read_message`` and ``write_message``, and what is otherwise than it stands here:
    what is a property here, such as ``name``, as a class attribute.

    Example:
        >>> from agentctx.formats.registry import format_named
        >>> wire = format_named("anthropic")
        >>> wire.read_message({"role": "user", "content": "Hi"}, 0).text, wire.keys.system
        ('Hi', 'system')
    """

    @property
    def name(self) -> str:
        """The format's name, for example ``openai-chat``."""
        ...

    provider: str = ""
    """The provider as OpenTelemetry names it (``gen_ai.provider.name``); empty where it has no name for it."""

    # Where things stand in a request, and how the messages follow each other.

    keys: RequestKeys = RequestKeys()
    """Where the parts of a request stand in it."""

    rounds: RoundRules = RoundRules()
    """The rules for tool rounds: for calls, for their ids, and for the places of their results."""

    # What its messages cost, and what the provider keeps and reasons.

    @property
    def overheads(self) -> TokenOverheads:
        """What its messages cost beside what they say."""
        return TokenOverheads()

    @property
    def usage_keys(self) -> UsageKeys:
        """Under which keys its usage says how large a request was; empty: under those of another format."""
        return UsageKeys()

    @property
    def cache_markers(self) -> CacheMarkers | None:
        """How cache markers are written; None when its provider has none."""
        return None

    @property
    def overflow_words(self) -> re.Pattern[str] | None:
        """The words, in small letters, in which its provider refuses a request larger than the model's window.

        Named groups hold the numbers: ``limit``, ``prompt``, ``requested``, ``answer``, ``excess``.
        """
        return None

    # Which models are called in it.

    @property
    def other_names(self) -> tuple[str, ...]:
        """What people call it who do not know its name."""
        return ()

    def usual_for(self, family: str, /) -> int:
        """How usual it is to call a model of this family in it, 0 to 3; asked when a request fits several formats."""
        return 0

    # Reading and writing.

    def recognises(self, request: Mapping[str, Any], /) -> int:
        """How surely this request is in this format: 0 means impossible, 1 possible, 5 likely, 10 certain.

        One that does not say it has to be named.
        """
        return 0

    def read_message(self, native: Native, index: int, /) -> Message:
        """One native message as a value.

        Raises:
            InvalidInput: If it cannot be read; names ``messages[index]`` and the field.
        """
        ...

    def write_message(self, message: Message, /) -> Native:
        """A message as this format writes it: the payload it was read from when nobody touched it."""
        ...

    def is_object(self, _text: Text, /) -> bool:
        """Whether a text of a tool result stands for an object: how that is spelled as JSON is not sent."""
        return False

    def read_system(self, native: Native, /) -> Message | None:
        """The native system prompt, kept apart from the messages, as a value."""
        if native is None:
            return None
        if not isinstance(native, str):
            raise InvalidInput("system", f"must be a string, got {type(native).__name__}")
        return Message.read("system", (Text(native, source=native),), native)

    def write_system(self, system: Message, /) -> Native:
        """A system prompt that is kept apart, as this format writes it."""
        return "\n\n".join(part.text for part in system.parts if isinstance(part, Text))

    def read_tools(self, native: Sequence[Any] | None, /) -> tuple[Tool, ...]:
        """The native tool definitions as values; here each has a name, a description and a schema of parameters.

        Raises:
            InvalidInput: If one is no mapping with a name.
        """
        tools = []
        for index, each in enumerate(native or ()):
            if not isinstance(each, Mapping) or not isinstance(each.get("name"), str):
                where = f"tools[{index}]"
                raise InvalidInput(where, f"must be an object with a name, got {type(each).__name__}")
            tools.append(Tool(each["name"], each.get("description", ""), each.get("parameters"), source=each))
        return tuple(tools)

    def write_tool(self, tool: Tool, /) -> Native:
        """A tool of the caller's, with the JSON schema of its arguments, as a definition."""
        said = {"description": tool.description} if tool.description else {}
        return {"name": tool.name, **said, "parameters": tool.parameters}

    # Repair: what the format refuses, and what is made in its place.

    def repair(self, messages: Sequence[Message], earlier: Mapping[str, Message], /) -> Sequence[Repaired]:
        """What this format refuses and can be repaired in place; ``earlier`` are named messages before, by name."""
        return ()

    @property
    def item_name(self) -> Callable[[Message], str | None] | None:
        """Reads the name of a message, which no other message of a request may have; None where none has a name."""
        return None

    @property
    def pair(self) -> Callable[[Sequence[Message], Sequence[Message]], list[Message]] | None:
        """Puts each result under the id of the call that it answers; None where a message says that by itself.

        It gets the messages, read one by one, and those before them, at least from the tail of the last step on.
        """
        return None

    def arrange(self, messages: Sequence[Message], standing_before: Message | None = None, /) -> Sequence[Arranged]:
        """What has to change so that messages with whole pairs may follow each other.

        ``standing_before`` is the message before them, None at the start of the conversation.
        """
        return ()

    def arrange_for(
        self,
        messages: Sequence[Message],
        profile: ModelProfile | None,
        note: Note,
        standing_before: Message | None = None,
        /,
    ) -> Sequence[Message]:
        """The messages as a model takes them one after the other; the same object when it takes them as they are.

        Args:
            messages: The messages of a request, with whole pairs of calls and results.
            profile: What is known of the model; None: it is unknown.
            note: Told of each message that moved, was made or became another, and why.
            standing_before: The message before them; None at the start of the conversation.
        """
        return messages

    def may_end_on(self, message: Message, /) -> bool:
        """Whether a request may end on this message; else it is refused, or taken for the start of the answer."""
        return True

    def numbered(self, call_id: str, number: int, /) -> str:
        """Another id for a call, made of the one that it shares with others: as the provider takes it.

        The id itself when it is none that is written.

        Args:
            call_id: The id that several calls share.
            number: The number that tells this call from the others.
        """
        return f"{call_id}_{number}"

    def synthetic_result(self, calls: Sequence[ToolCall], text: str, /) -> tuple[Message, ...]:
        """Messages that answer the calls with ``text``: one, where it does not say otherwise."""
        results = tuple(ToolResult(call.id, (Text(text),), is_error=True) for call in calls)
        return (Message("user", results),) if results else ()

    def validate(
        self, _request: Mapping[str, Any], _profile: ModelProfile | None, _before: Mapping[str, Any] | None, /
    ) -> tuple[Violation, ...]:
        """Return the rules of its own that a request breaks, in the order of its messages; a format has none at first.

        Args:
            request: The request, as it is sent.
            profile: What is known of the model; None: it is unknown.
            before: The request that this one was made from; None: there is none.
        """
        return ()

    # Taking a conversation to it, and from it.

    def capabilities(self, model: str | None, profile: ModelProfile | None, /) -> Capabilities:
        """What it can say to a model.

        Args:
            model: The model's name; None: it is not known.
            profile: What is known of the model; None: it is unknown.
        """
        return Capabilities(user_first=True)

    def without_reasoning(self, message: Message, /) -> Message | None:
        """The message without its model's reasoning and signatures; itself when it has none, None when none is left."""
        kept = tuple(part for part in message.parts if not isinstance(part, Thinking))
        if len(kept) == len(message.parts):
            return message
        return message.with_parts(kept) if kept else None


CacheWish = bool | str | Mapping[str, Any]
"""How long a caller wants something kept: for the usual time, a lifetime (``"1h"``), or the provider's own marker."""


class CacheMarkers(Protocol):
    """How a format has cache markers written.

    Example:
        >>> from agentctx.formats.registry import format_named
        >>> format_named("anthropic").cache_markers.given("1h")
        {'cache_control': {'type': 'ephemeral', 'ttl': '1h'}}
    """

    @property
    def most(self) -> int:
        """The most markers of one request."""
        ...

    @property
    def marks_head(self) -> bool:
        """Whether tools and a system prompt that is kept apart can carry a marker."""
        ...

    @property
    def new(self) -> Callable[[Ttl, ModelProfile | None], Mapping[str, Any] | None]:
        """Makes a marker that lives so long, for a model; None where its cache needs none."""
        ...

    def given(self, cache: CacheWish, /) -> Mapping[str, Any] | None:
        """The marker that a caller asks for: by a lifetime, or as the provider writes it; None where there is none.

        Args:
            cache: True for the usual time, a lifetime such as ``"1h"``, or the marker itself.
        """
        ...

    def refused(self, mark: Mapping[str, Any], profile: ModelProfile | None, /) -> bool:
        """Whether a model is known that refuses this marker, or does not know what to do with it.

        Args:
            mark: The marker, as the provider writes it.
            profile: What is known of the model; None: it is unknown.
        """
        ...

    def rolls(self, profile: ModelProfile | None, /) -> bool:
        """Whether the end of each request needs a marker to be found again.

        Args:
            profile: What is known of the model; None: it is unknown.
        """
        ...

    def of(self, message: Message, /) -> tuple[CacheMarker, ...]:
        """The markers that a message carries, in order."""
        ...

    def put(self, message: Message, place: int, mark: Mapping[str, Any], /) -> Message | None:
        """The message with a marker on the part at ``place``; None when that part cannot carry one.

        Args:
            message: The message.
            place: The index of the part in it.
            mark: The marker, as the provider writes it.
        """
        ...

    def lift(self, message: Message, place: int, /) -> Message:
        """The message without the markers on the part at ``place``."""
        ...

    def shorten(self, message: Message, place: int, /) -> Message:
        """The message with markers for five minutes on the part at ``place``, instead of those for an hour."""
        ...


def head_markers(context: Context, markers: CacheMarkers) -> list[CacheMarker]:
    """The markers on tools, and on a system prompt that is kept apart."""
    tools = (Message("user", (_tool_block(tool),)) for tool in context.tools)
    on_tools = [marker for tool in tools for marker in markers.of(tool)]
    return on_tools + ([] if context.system is None else list(markers.of(context.system)))


def _tool_block(tool: Tool) -> Opaque:
    """A member of the tools as a block; it may be a marker itself."""
    kind, data = ("cachePoint", tool.source) if is_marker_tool(tool) else ("tool", None)
    return Opaque(kind, data, source=tool.source)
