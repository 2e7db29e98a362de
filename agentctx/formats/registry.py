"""The formats by name: the registered ones, and how the format of messages is found out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

from attrs import frozen
from attrs.validators import matches_re

from agentctx.characters import said_by, shown
from agentctx.errors import AmbiguousFormat, ConfigError, InvalidInput
from agentctx.formats.native import fields_or_none, string_of
from agentctx.message import Native
from agentctx.models.table import family_of
from agentctx.reports import View
from agentctx.validators import MustBe, must_be
from agentctx.wire_format import USUAL, UsageKeys, WireFormat

Body = Mapping[str, Any]
"""A request's body: what the API calls its parameters."""


@frozen
class RequestParts:
    """What a pipeline prepares of a request."""

    messages: Sequence[Any]
    system: Native = None
    tools: Native = None
    model: str | None = None


class Adapter(Protocol):
    """One API of one provider. Inherit it: what an API does not say otherwise holds as it stands here."""

    @property
    def format(self) -> str:
        """The wire format of its messages."""
        ...

    @property
    def messages_key(self) -> str:
        """Where the messages stand in a request."""
        return "messages"

    @property
    def system_key(self) -> str | None:
        """Where the system prompt stands in a request; None where it stands among the messages."""
        return None

    def read(self, body: Body, /) -> RequestParts | None:
        """What there is to prepare in a request; None when it has no messages: then it is sent as it is.

        Raises:
            InvalidInput: If it cannot be prepared.
        """
        if (messages := body.get(self.messages_key)) is None:
            return None
        system = None if self.system_key is None else body.get(self.system_key)
        return RequestParts(messages, system, body.get("tools"), string_of(body, "model"))

    def write(self, body: Body, request: RequestParts, view: View, /) -> dict[str, Any]:
        """The same request with the view's messages and options, and its system prompt and tools where they changed.

        Where no tools are left, what is only about tools goes as well, unless it demands one.
        ``request`` is what was read. ``body`` stays as it is.
        """
        written = {**body, self.messages_key: view.messages}
        if self.system_key is not None and view.system is not request.system:
            put(written, self.system_key, view.system)
        if view.tools is not request.tools:
            put(written, "tools", view.tools)
            for key in () if view.tools else ("tool_choice", "parallel_tool_calls", "toolConfig", "tool_config"):
                if _leaves_it_to_the_model(written.get(key)):
                    written.pop(key, None)
        return merged(written, view.options)

    def usage(self, said: Native, /) -> Native:
        """The usage in an answer, or in one event of a stream; None when it says nothing of the prompt."""
        return get(said, "usage")

    def applied_edits(self, _said: Native, /) -> Native:
        """Return the edits of the prompt that an answer, or one event of a stream, names; None: it names none."""
        return None

    def begins(self, event: Native, /) -> bool:
        """Whether an event of a stream carries something that the model said: from then on nothing is sent again."""
        ...

    def ends(self, _event: Native, /) -> bool:
        """Tell whether an event of a stream is the one after which nothing more is told of the usage."""
        return False

    def failure(self, answer: Native, /) -> Native:
        """Return the error that an answer or an event tells of; None when there is none."""
        return get(answer, "error")

    def tells_usage(self, _body: Body, /) -> bool:
        """Whether the answer to this request tells what was billed, also when it is a stream."""
        return True


def _leaves_it_to_the_model(choice: object) -> bool:
    """Whether a choice of tools demands none."""
    for key in ("functionCallingConfig", "function_calling_config", "toolChoice", "mode", "type"):
        choice = choice.get(key, choice) if isinstance(choice, Mapping) else choice
    if isinstance(choice, Mapping):
        choice = next((key for key in choice if key != "tools"), "auto")
    return choice is None or isinstance(choice, bool) or str(choice).lower() in ("auto", "none")


def get(thing: object, *path: str) -> Native:
    """The value at a path of keys or attributes; None when something on the way is missing."""
    for name in path:
        if thing is None:
            return None
        thing = thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)
    return thing


def put(body: dict[str, Native], key: str, value: object) -> None:
    """Write a part of a request, or take it out when nothing is left of it."""
    if value:
        body[key] = value
    else:
        body.pop(key, None)


def merged(given: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """A request with more options: mappings are merged, lists joined; what else both say stays as the caller has it."""
    both = {**more, **given}
    for name in given.keys() & more.keys():
        mine, other = given[name], more[name]
        if isinstance(mine, Mapping) and isinstance(other, Mapping):
            both[name] = merged(mine, other)
        elif isinstance(mine, list) and isinstance(other, list):
            both[name] = [*mine, *(each for each in other if each not in mine)]
        elif mine is None:
            both[name] = other
    return both


def api_path(url: str, known: Iterable[str]) -> str:
    """The path of a request in the API; of a whole address, as one may write it by hand, the known one it ends with."""
    path = "/" + url.partition("?")[0].strip("/")
    if "://" not in url:
        return path
    return max((each for each in known if path.endswith(each)), key=len, default=path)


_PROVIDERS: Mapping[str, tuple[str, str]] = {
    "openai-chat": ("agentctx.formats.openai_chat", "OpenAIChat"),
    "openai-responses": ("agentctx.formats.openai_responses", "OpenAIResponses"),
    "anthropic": ("agentctx.formats.anthropic", "Anthropic"),
    "gemini": ("agentctx.formats.gemini", "Gemini"),
    "bedrock": ("agentctx.formats.bedrock", "Bedrock"),
}
"""The one table of the providers: the module of each, and the class in it, imported when asked for."""


_USAGE_KEYS: Mapping[str, UsageKeys] = {
    "openai-chat": UsageKeys(("prompt_tokens", "prompt_eval_count"), answer=("completion_tokens", "eval_count")),
    "openai-responses": UsageKeys(("input_tokens",), answer=("output_tokens",)),
    "anthropic": UsageKeys(
        ("input_tokens",),
        parts=("cache_creation_input_tokens", "cache_read_input_tokens"),
        answer=("output_tokens",),
        rounds="iterations",
        server_tools=(
            "server_tool_use",
            ("web_search_requests", "web_fetch_requests", "code_execution_requests", "tool_search_requests"),
        ),
    ),
    "gemini": UsageKeys(
        ("promptTokenCount", "prompt_token_count"), answer=("candidatesTokenCount", "candidates_token_count")
    ),
    "bedrock": UsageKeys(
        ("inputTokens",), parts=("cacheReadInputTokens", "cacheWriteInputTokens"), answer=("outputTokens",)
    ),
}
"""The keys under which the answers of each provider tell the size of a request; of Chat Completions also Ollama's."""


class _Formats(Mapping[str, WireFormat]):
    """The wire formats by name, each imported when it is first looked up."""

    def __init__(self) -> None:
        self._loaded: dict[str, WireFormat] = {}

    def __getitem__(self, name: str) -> WireFormat:
        if name not in self._loaded:
            module, kind = _PROVIDERS[name]
            self._loaded[name] = getattr(import_module(module), kind)()
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**_PROVIDERS, **self._loaded})

    def __len__(self) -> int:
        return len({**_PROVIDERS, **self._loaded})

    def add(self, wire: WireFormat) -> None:
        """Have one more format, or another in place of one that was added."""
        self._loaded[wire.name] = wire


_formats = _Formats()

FORMATS: Mapping[str, WireFormat] = _formats
"""Every wire format that can be read and written, by name."""


def usage_keys() -> tuple[UsageKeys, ...]:
    """Return the keys under which each format tells the size of a request; for that no format is loaded."""
    added = (FORMATS[name].usage_keys for name in FORMATS if name not in _PROVIDERS)
    return (*_USAGE_KEYS.values(), *added)


def register_format(wire: WireFormat) -> None:
    """Add a provider's format for this process: its requests are recognised, prepared, counted and converted.

    Register it before its first request. One that was registered under the same name is replaced. Its messages may be
    of any shape; a session sees edits in place of dicts, lists, tuples and objects of pydantic. A store keeps them as
    JSON: objects, lists and texts as they are, bytes as base64, an SDK's object as its fields, anything else as its
    text.

    Args:
        wire: The format, of a class that inherits ``WireFormat``.

    Raises:
        ConfigError: If it is none, has no ``read_message`` or ``write_message``, or its ``recognises`` gives no whole
            number; if its name holds a blank or a ``/``, or is a format of the library or what people call one.

    Example:
        >>> from agentctx import FitContextWindow, Message, Pipeline, Text
        >>> from agentctx.formats import WireFormat, register_format
        >>> class Pairs(WireFormat):
        ...     name = "pairs"
        ...     def read_message(self, native, index, /):
        ...         role, text = native
        ...         return Message.read(role, (Text(text),), native)
        ...     def write_message(self, message, /):
        ...         text = " ".join(part.text for part in message.parts if isinstance(part, Text))
        ...         return message.source if message.as_read else (message.role, text)
        >>> register_format(Pairs())
        >>> pipeline = Pipeline(FitContextWindow(1_000))
        >>> (await pipeline.prepare([("user", "Hi"), ("assistant", "Yes?")], format="pairs")).messages
        [('user', 'Hi'), ('assistant', 'Yes?')]
    """
    if WireFormat not in type(wire).__mro__:
        raise must_be("register_format.wire", "an object of a class that inherits WireFormat", wire)
    _refuse_name(wire.name)
    for member in ("read_message", "write_message"):
        if getattr(type(wire), member) is getattr(WireFormat, member):
            msg = f"register_format: the format {wire.name!r} has no {member}: say how it is done"
            raise ConfigError(msg)
    said = _recognised(wire, {})
    if isinstance(said, str):
        msg = f"register_format: {said} when it was shown an empty request; it gives 0 to 10 for any"
        raise ConfigError(msg)
    _formats.add(wire)


def _refuse_name(name: str) -> None:
    """Refuse a name that is none, or that means a format of the library."""
    MustBe("a name without '/' and blanks", matches_re(r"[^/\s]+")).check("register_format.wire.name", name)
    for own in _PROVIDERS:
        if name.lower() in (own, *FORMATS[own].other_names):
            raise must_be("register_format.wire.name", f"a name of its own, and no name of {own!r}", name)


def is_registered(wire: WireFormat) -> bool:
    """Whether a format was added by ``register_format``."""
    return wire.name.partition("/")[0] not in _PROVIDERS


def _recognised(wire: WireFormat, request: Mapping[str, Any]) -> int | str:
    """How surely a request is in a format; a text where the format cannot say: what it did instead."""
    if not is_registered(wire):
        return wire.recognises(request)
    try:
        said: object = wire.recognises(request)
    except Exception as error:  # noqa: BLE001 - whatever the format of another raises
        return f"recognises of the format {wire.name!r} raised {said_by(error)}"
    known = isinstance(said, int) and said >= 0
    return said if known and isinstance(said, int) else f"recognises of the format {wire.name!r} gave {said!r}"


def may_be_in(wire: WireFormat, native: Native) -> bool:
    """Whether a message may be in a format; one that was added has to recognise it, since it may read anything."""
    if not is_registered(wire):
        return True
    said = _recognised(wire, {wire.keys.messages: [native]})
    return isinstance(said, int) and said > 0


def _scores(request: Mapping[str, Any]) -> tuple[dict[str, int], list[str]]:
    """How surely a request is in each format; and what those did that cannot say: it is in none of these."""
    said = {name: _recognised(wire, request) for name, wire in FORMATS.items()}
    scores = {name: 0 if isinstance(each, str) else each for name, each in said.items()}
    return scores, [each for each in said.values() if isinstance(each, str)]


def messages_of(request: Mapping[str, Native]) -> Native:
    """What stands in a request where its messages belong, whatever its format; None when there is nothing."""
    keys = dict.fromkeys(wire.keys.messages for wire in FORMATS.values())
    return next((request[key] for key in keys if key in request), None)


def format_named(name: str, model: str | None = None, where: str = "format") -> WireFormat:
    """The wire format of this name, in the dialect of the model that is called.

    Raises:
        InvalidInput: If there is none; the message lists the names.
    """
    base, _, dialect = name.partition("/") if isinstance(name, str) else ("", "", "")
    if base in FORMATS and (spoken := _in_dialect(FORMATS[base], dialect, model)) is not None:
        return spoken
    from difflib import get_close_matches  # noqa: PLC0415 - for the error alone

    from agentctx.formats.dialects import DIALECTS  # noqa: PLC0415 - for the error alone

    names = [*FORMATS, *(f"{USUAL}/{each}" for each in DIALECTS)]
    given = name.lower() if isinstance(name, str) else ""
    near = [wire.name for wire in FORMATS.values() if given in wire.other_names] or get_close_matches(given, names, 2)
    meant = f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""
    raise InvalidInput(where, f"no wire format is called {shown(name)}{meant}; there are {_listed(names)}")


@runtime_checkable
class _HasDialects(Protocol):
    """A format that its providers take in several dialects, as Chat Completions is."""

    def dialect(self, name: str, model: str | None, /) -> WireFormat | None:
        """The format in the dialect of this name, or in that of the model if the name is empty."""
        ...


def _in_dialect(wire: WireFormat, dialect: str, model: str | None) -> WireFormat | None:
    """A format in the dialect of this name, or in that of the model; None where it has none of this name."""
    if isinstance(wire, _HasDialects):
        return wire.dialect(dialect, model)
    return None if dialect else wire


@frozen(eq=False, repr=False)
class Detected:
    """The wire format that a request was found to be in.

    Args:
        certain: False when the request fits other formats as well, also where the model's name suggests this one:
            later messages may tell otherwise.
    """

    wire: WireFormat
    certain: bool = True


def detect(request: Mapping[str, Any], model: str | None = None) -> WireFormat:
    """The wire format that a request is in, in the dialect of the model that is called; see ``detected``."""
    return detected(request, model).wire


def detected(request: Mapping[str, Any], model: str | None = None) -> Detected:
    """The wire format that a request is in, in the dialect of the model that is called.

    Where the request fits several formats equally, the model's name decides: that of ``model``, else the request's.
    Where that does not decide, but all of them read the messages alike, the first of them will do.

    Args:
        request: ``messages`` and what else the provider takes.
        model: The model's name, as its provider writes it.

    Raises:
        AmbiguousFormat: If it fits several, no known model is named, and they would read it differently.
        InvalidInput: If it fits none.
    """
    scores, failed = _scores(request)
    best = max(scores.values())
    if best == 0:
        nothing = _in_no_format(request)
        raise InvalidInput(nothing.where, "; ".join((nothing.what, *failed))) if failed else nothing
    fitting = [name for name, score in scores.items() if score == best]
    named = model if model is not None else request.get("model")
    named = named if isinstance(named, str) else None
    likely = fitting
    if len(fitting) > 1 and named is not None:  # the format that this model is usually called in, if it is known
        family = family_of(named).lower()
        best_for = max(fitting, key=lambda name: FORMATS[name].usual_for(family))
        likely = [best_for] if FORMATS[best_for].usual_for(family) else fitting
    if len(likely) > 1 and not _read_alike(request, likely):
        raise AmbiguousFormat("messages", _listed(likely))
    wire = FORMATS[likely[0]]
    return Detected(_in_dialect(wire, "", named) or wire, certain=len(fitting) == 1)


def _read_alike(request: Mapping[str, Any], names: Sequence[str]) -> bool:
    """Whether messages mean the same in all these formats, so that it makes no difference which is taken."""
    messages, alone = request.get("messages"), request.keys() <= {"messages", "model"}
    if not alone or not isinstance(messages, (list, tuple)):
        return False
    if all(map(_is_plain, messages)):
        return True
    try:
        first, *others = ([FORMATS[name].read_message(native, 0) for native in messages] for name in names)
    except Exception:
        if any(is_registered(FORMATS[name]) for name in names):
            return False  # one that takes for its own what it cannot read
        raise
    return all(first == other for other in others)


def _is_plain(native: Native) -> bool:
    """Whether it says one text in a role that all formats have."""
    if not isinstance(native, Mapping) or native.keys() != {"role", "content"}:
        return False
    return native["role"] in ("user", "assistant") and isinstance(native["content"], str)


_ROLES = ("assistant", "developer", "function", "model", "system", "tool", "user")
"""The roles that the formats of the library know."""


def _in_no_format(request: Mapping[str, Any]) -> InvalidInput:
    """What is wrong with a request that is in no format: names the first message that is in none by itself."""
    silent = [wire.name for wire in FORMATS.values() if type(wire).recognises is WireFormat.recognises]
    hint = f"; {_listed(silent)} recognises no request: to mean it, pass format=" if silent else ""
    none = f"in none of the wire formats {_listed(list(FORMATS))}{hint}"
    messages = request.get("messages")
    for index, message in enumerate(messages if isinstance(messages, (list, tuple)) else ()):
        where = f"messages[{index}]"
        if (known := fields_or_none(message)) is None:
            what = f"must be an object (a dict or an SDK object), got {type(message).__name__}{hint}"
            return InvalidInput(where, what)
        if not any(_scores({"messages": [message]})[0].values()):
            role = known.get("role")
            if "role" in known and role not in _ROLES:
                return InvalidInput(f"{where}.role", f"no wire format knows the role {role!r}")
            return InvalidInput(where, f"it is {none}")
    return InvalidInput("messages", f"they are {none}")


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(map(repr, names[:-1])), repr(names[-1]))))
