"""A request as values: the parts of a message, messages, tools, the request as a whole, and the cache markers in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import is_not
from typing import Any, Literal, TypeAlias

from attrs import Factory, evolve, field, frozen

Native: TypeAlias = Any
"""A value as its provider or SDK writes it: a dict, a string, an object of the SDK; it is passed on as it is."""


def _source() -> Native:
    return field(default=None, eq=False, repr=False, kw_only=True)


def _caller() -> Native:
    return field(default=None, repr=False, kw_only=True)


@frozen
class Mark:
    """A short text that a stage has written in the place of another one.

    Args:
        text: The characters, with the blanks around them that were written with them.
        length: The number of characters of the text that it stands for; its own, where that is not counted.
        digest: What tells that text from any other, where another place in the request has it; else empty.
    """

    text: str
    length: int = Factory(lambda self: len(self.text), takes_self=True)
    digest: str = ""


def _marks() -> tuple[Mark, ...]:
    return field(default=(), eq=False, repr=False, kw_only=True)


@frozen(weakref_slot=False)
class Text:
    """Text that the model reads.

    Args:
        text: The characters.
        source: The native block it was read from, if any.
        marks: The marks that stages have written into it. Nothing else in the text is a mark, whatever it looks like:
            text that a format has read has none.

    Example:
        >>> from agentctx import Text
        >>> Text("Hello")
        Text(text='Hello')
    """

    text: str
    source: Native = _source()
    marks: tuple[Mark, ...] = _marks()


@frozen
class Media:
    """An image, a sound, a document or a film.

    Args:
        kind: ``"image"``, ``"audio"``, ``"video"`` or ``"document"``.
        media_type: The MIME type, when known.
        data: The content in base64, when it is carried inline.
        url: Where it is, when it is carried by reference (a URL, or a provider's file id).
        detail: The provider's wish for resolution (``"low"``, ``"high"``, …), when given.
        source: The native block it was read from, if any.
        words: What is said beside it and read with it (a document's title, context, file name); empty when nothing is.

    Example:
        >>> from agentctx import Media
        >>> Media("image", url="https://example.com/log.png").kind
        'image'
    """

    kind: str
    media_type: str | None = None
    data: str | None = field(default=None, repr=False)
    url: str | None = None
    detail: str | None = None
    source: Native = _source()
    words: str = field(default="", repr=False, kw_only=True)


@frozen
class Thinking:
    """Reasoning that the provider may have signed. It is kept whole or dropped, never edited.

    Args:
        text: The readable reasoning; empty when it is redacted or encrypted.
        signature: The provider's signature, when it signed.
        encrypted: Encrypted or redacted reasoning, as opaque characters.
        source: The native block it was read from, if any.

    Example:
        >>> from agentctx import Thinking
        >>> Thinking("Let me see.", signature="c2lnbmVk").signed
        True
    """

    text: str
    signature: str | None = None
    encrypted: str | None = field(default=None, repr=False)
    source: Native = _source()

    @property
    def signed(self) -> bool:
        """Whether the provider checks these bytes when they come back."""
        return self.signature is not None or self.encrypted is not None


@frozen(weakref_slot=False)
class ToolCall:
    """The model asks for a tool.

    Args:
        id: The provider's id of the call; not always unique in real transcripts.
        name: The tool's name.
        arguments: The arguments as JSON text (or free text for custom tools).
        signature: A signature that travels with the call (Gemini), when there is one.
        source: The native block it was read from, if any.
        optional: Whether the provider takes the call also while nobody has answered it: a request for approval.
        caller: The id of the server-side call whose code made this one, when one did.
        marks: The marks that stages have written into the arguments.

    Example:
        >>> from agentctx import ToolCall
        >>> ToolCall("call_1", "read", '{"path": "build.log"}').name
        'read'
    """

    id: str
    name: str
    arguments: str
    signature: str | None = None
    source: Native = _source()
    optional: bool = field(default=False, eq=False, repr=False, kw_only=True)
    caller: str | None = _caller()
    marks: tuple[Mark, ...] = _marks()


@frozen(weakref_slot=False)
class ToolResult:
    """What a tool answered.

    Args:
        call_id: The id of the call that it answers.
        content: What the tool said, as parts (``Text``, ``Media``, ``Opaque``).
        name: The tool's name, when the format carries it in the result.
        is_error: Whether the tool failed.
        source: The native block or message it was read from, if any.
        interim: Whether the tool says more later: another result of the same call takes this one's place.
        caller: The id of the server-side call whose code made the call that this answers, when one did.

    Example:
        >>> from agentctx import Text, ToolResult
        >>> ToolResult("call_1", (Text("a comma is missing"),)).text
        'a comma is missing'
    """

    call_id: str
    content: tuple[Part, ...]
    name: str | None = None
    is_error: bool = False
    source: Native = _source()
    interim: bool = field(default=False, eq=False, repr=False, kw_only=True)
    caller: str | None = _caller()

    @property
    def text(self) -> str:
        """The text of all text parts, joined as they stand."""
        return "".join([part.text for part in self.content if isinstance(part, Text)])

    @property
    def marks(self) -> tuple[Mark, ...]:
        """The marks that stages have written into its text parts."""
        return marks_in(self.content)

    def with_content(self, content: tuple[Part, ...]) -> ToolResult:
        """Return the same result with another content.

        Args:
            content: The parts that the tool is to have answered.
        """
        return evolve(self, content=content)


@frozen
class Opaque:
    """A block that we do not understand: it rides through untouched and is counted by its serialised size.

    Args:
        kind: The block's own type name.
        data: The native block.
        opens: The id of a server-side call that this block opens, if it does.
        closes: The id of the server-side call that this block answers, if it does.
        source: The native block it was read from, if any.
        caller: The id of the server-side call whose code made the call that this block opens or answers, if one did.

    Example:
        >>> from agentctx import Opaque
        >>> Opaque("container_upload", {"type": "container_upload", "file_id": "file_1"}).kind
        'container_upload'
    """

    kind: str
    data: Native = field(hash=False)
    opens: str | None = None
    closes: str | None = None
    source: Native = _source()
    caller: str | None = _caller()


Part = Text | Media | Thinking | ToolCall | ToolResult | Opaque


def server_ends(parts: Iterable[Part]) -> Iterator[tuple[str, bool]]:
    """The ids of the server-side calls that parts open (True) or answer (False), in order."""
    for part in parts:
        if isinstance(part, Opaque):
            if part.opens is not None:
                yield part.opens, True
            if part.closes is not None:
                yield part.closes, False


def texts_in(parts: Iterable[Part]) -> Iterator[Text | ToolCall]:
    """The parts that stages may have written marks into, those within results among them, in order."""
    for part in parts:
        if isinstance(part, ToolResult):
            yield from texts_in(part.content)
        elif isinstance(part, (Text, ToolCall)):
            yield part


Noted: TypeAlias = list[list[Mark]]
"""The marks in parts, of each of ``texts_in``; nothing where there are none."""


def noted_in(parts: Iterable[Part]) -> Noted:
    """The marks in parts."""
    marks = [list(part.marks) for part in texts_in(parts)]
    return marks if any(marks) else []


def with_marks(parts: Iterable[Part], marks: Noted) -> tuple[Part, ...]:
    """The parts with these marks in them, and no others."""
    waiting = iter(marks)
    return with_texts(parts, lambda part: evolve(part, marks=tuple(next(waiting, ()))))


def with_texts(parts: Iterable[Part], edit: Callable[[Text | ToolCall], Text | ToolCall]) -> tuple[Part, ...]:
    """The parts with those edited that stages may have written marks into."""

    def edited(part: Part) -> Part:
        if isinstance(part, ToolResult):
            return evolve(part, content=with_texts(part.content, edit))
        return edit(part) if isinstance(part, (Text, ToolCall)) else part

    return tuple(map(edited, parts))


def marks_in(parts: Iterable[Part]) -> tuple[Mark, ...]:
    """The marks that stages have written into parts."""
    return tuple([mark for part in texts_in(parts) for mark in part.marks])


ROLES = ("system", "developer", "user", "assistant", "tool")
"""Every role that a message may have."""

SYSTEM_ROLES = frozenset({"system", "developer"})

_NOT_COUNTED = (object(), 0, 0)


@frozen(weakref_slot=False)
class Message:
    """One native message.

    Equal when it looks equal: the payload it was read from takes no part.

    Args:
        role: ``"system"``, ``"developer"``, ``"user"``, ``"assistant"`` or ``"tool"``.
        parts: What it says.
        source: The native payload it was read from, if any.
        read_role: The role as it was read from ``source``; None when it was not read from anything.
        read_parts: The parts as they were read from ``source``; None when it was not read from anything.
        given: The caller's own payload, where ``source`` is another one that was made of it; for a message without any
            payload the one that it was made of; else None.
        as_system: Whether it is a system message, also where neither ``role`` nor ``read_role`` says so: after a load,
            or when the caller has written a view back in which it went out under another role.
        as_recap: Whether it is the library's own word on what was left out, and not the user's who may say the same.

    Example:
        >>> from agentctx import Message, Text
        >>> Message("user", (Text("Hello"),)).text
        'Hello'
    """

    role: str
    parts: tuple[Part, ...]
    source: Native = _source()
    read_role: str | None = field(default=None, eq=False, repr=False, kw_only=True)
    read_parts: tuple[Part, ...] | None = field(default=None, eq=False, repr=False, kw_only=True)
    given: Native = _source()
    as_system: bool = field(default=False, eq=False, repr=False, kw_only=True)
    as_recap: bool = field(default=False, eq=False, repr=False, kw_only=True)
    counted: tuple[object, int, int] = field(default=_NOT_COUNTED, eq=False, repr=False, init=False)
    """The mark of the counter that counted the message last, the number of tokens, and the number of bytes."""
    bare_of: object = field(default=None, eq=False, repr=False, init=False)
    """The format's cache markers, once the message was searched for them and carries none."""

    @staticmethod
    def read(role: str, parts: tuple[Part, ...], source: Native) -> Message:
        """Return the message that a wire format reads from the native payload ``source``.

        Args:
            role: The role of the speaker.
            parts: The content of the payload, in its order.
            source: The native payload, which is kept as it is.
        """
        return Message(role, parts, source=source, read_role=role, read_parts=parts)

    @property
    def as_read(self) -> bool:
        """Whether it says what ``source`` says, so that this can be sent."""
        return self.read_parts is self.parts and self.read_role == self.role

    @property
    def untouched(self) -> bool:
        """Whether it still says what the caller's own payload says, so that the payload itself can go back."""
        return self.given is None and self.read_parts is self.parts and self.read_role == self.role

    @property
    def is_system(self) -> bool:
        """Whether it is a system message, under whichever role it goes out."""
        return self.role in SYSTEM_ROLES or self.read_role in SYSTEM_ROLES or self.as_system

    @property
    def identity(self) -> int:
        """What it is known by whatever it says: the caller's own payload, or itself when a stage made it."""
        payload = self.source if self.given is None else self.given
        return id(self if payload is None else payload)

    @property
    def payload(self) -> Native:
        """The caller's own payload; of a message made of one without a payload, that message; None for a new one."""
        return self.source if self.given is None else self.given

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls in it."""
        return tuple([part for part in self.parts if isinstance(part, ToolCall)])

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The tool results in it."""
        return tuple([part for part in self.parts if isinstance(part, ToolResult)])

    @property
    def text(self) -> str:
        """The text of its own text parts (not of its tool results), joined as they stand."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    def with_parts(self, parts: tuple[Part, ...]) -> Message:
        """The same message saying something else; everything else of its native payload is kept.

        Args:
            parts: What it says instead.
        """
        return evolve(self, parts=parts, given=self if self.payload is None else self.given)

    def replaced(self, made: Message) -> Message:
        """The same message as another one says it, which was read from another payload or from none.

        Args:
            made: The other message: its role and parts are taken.
        """
        payload = self.payload
        given = self if payload is None else payload
        return evolve(made, given=given, as_system=self.as_system, as_recap=self.as_recap)


@frozen
class Tool:
    """A tool that the model may call.

    Args:
        name: Its name; empty for server tools that have none.
        description: What the model is told of it.
        parameters: The JSON schema of its arguments; None when it has none.
        source: The native definition it was read from.

    Example:
        >>> from agentctx import Tool
        >>> Tool("read", "Read a file.", {"type": "object", "properties": {}}).name
        'read'
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Native] | None = field(default=None, hash=False)
    source: Native = _source()


@frozen
class Context:
    """Everything that one model call sees, and everything that is counted.

    Args:
        messages: The transcript.
        system: The system prompt where the format keeps it apart from the messages, else None.
        tools: The tool definitions.

    Example:
        >>> from agentctx import Context, Message, Text
        >>> context = Context((Message("user", (Text("Hello"),)),))
        >>> context.with_messages(()).messages
        ()
    """

    messages: tuple[Message, ...]
    system: Message | None = None
    tools: tuple[Tool, ...] = ()

    def with_messages(self, messages: tuple[Message, ...]) -> Context:
        """The same request with other messages; the same object when all of them are."""
        messages = tuple(messages)  # which a stage's author may have as a list, or as a generator
        if len(messages) == len(self.messages) and not any(map(is_not, messages, self.messages)):
            return self
        return Context(messages, self.system, self.tools)


Ttl = Literal["5m", "1h"]
"""How long the cache keeps what it is asked to: five minutes since its last use, or an hour."""


@frozen
class CacheMarker:
    """A marker that a message carries.

    Args:
        place: The index of the part up to which the prefix shall be kept.
        ttl: How long.
        mark: The marker as the provider writes it: the key and the value that stand in a block, or a block.
        owner: The native block that carries it, or that it is; tells whether it is still there.
    """

    place: int
    ttl: Ttl
    mark: Mapping[str, Native] = field(hash=False)
    owner: Native = field(default=None, eq=False, repr=False)


CONTROL, BREAKPOINT = "cache_control", "prompt_cache_breakpoint"
KEYS = frozenset({CONTROL, BREAKPOINT})
"""The keys of a block that are markers."""


def without_marker(data: object) -> object:
    """The data of a block without the marker that it carries as a key."""
    if not isinstance(data, Mapping) or KEYS.isdisjoint(data):
        return data
    return {key: value for key, value in data.items() if key not in KEYS}


def is_marker_tool(tool: Tool) -> bool:
    """Whether a member of the tools is none, and only marks a place for the provider's cache."""
    return isinstance(tool.source, Mapping) and "cachePoint" in tool.source


def is_marker(part: Part) -> bool:
    """Whether a part says nothing and only marks a place for the provider's cache."""
    return isinstance(part, Opaque) and part.kind == "cachePoint"


def flaw(message: object) -> tuple[str, str] | None:
    """The place in it that is wrong (for example ``.role``; empty: all of it) and what it is; None: a message."""
    if not isinstance(message, Message):
        return "", f"no Message, but {type(message).__name__}"
    if message.role not in ROLES:
        return ".role", f"{message.role!r}, not one of {', '.join(ROLES)}"
    return _flaw_in(".parts", message.parts)


def _flaw_in(where: str, parts: object) -> tuple[str, str] | None:
    """What is wrong with the parts of a message or of a result."""
    if not isinstance(parts, tuple):
        return where, f"no tuple of parts, but {type(parts).__name__}"
    for place, part in enumerate(parts):
        if (texts := _TEXTS.get(type(part))) is None:
            return f"{where}[{place}]", f"no part, but {type(part).__name__}"
        for name, allowed in texts:
            if not isinstance(value := getattr(part, name), allowed):
                return f"{where}[{place}].{name}", f"no text, but {type(value).__name__}"
        if type(part) is ToolResult and (wrong := _flaw_in(f"{where}[{place}].content", part.content)) is not None:
            return wrong
    return None


_OR_NONE = (str, type(None))
_TEXTS: Mapping[type, tuple[tuple[str, type | tuple[type, ...]], ...]] = {
    Text: (("text", str),),
    Media: (("kind", str), *((name, _OR_NONE) for name in ("media_type", "data", "url", "detail")), ("words", str)),
    Thinking: (("text", str), ("signature", _OR_NONE), ("encrypted", _OR_NONE)),
    ToolCall: (("id", str), ("name", str), ("arguments", str), ("signature", _OR_NONE)),
    ToolResult: (("call_id", str), ("name", _OR_NONE)),
    Opaque: (("kind", str), ("opens", _OR_NONE), ("closes", _OR_NONE)),
}
"""The fields of each part that hold text."""
