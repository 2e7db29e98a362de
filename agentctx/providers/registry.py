"""The wire formats by name, and which of them a request is in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from attrs import frozen

from agentctx.core.message import Native
from agentctx.errors import AmbiguousFormat, InvalidInput
from agentctx.models.table import family_of
from agentctx.protocols import WireFormat
from agentctx.providers.dialects import DIALECTS, FORMAT as DIALECTS_OF, Dialect, dialect_of
from agentctx.providers.foreign import refuse_foreign, refuse_foreign_document
from agentctx.providers.native import fields_or_none

# Where each format lives. A format is imported when it is first asked for: most programs use one.
_HOMES: Mapping[str, tuple[str, str]] = {
    "openai-chat": ("agentctx.providers.openai_chat", "OpenAIChat"),
    "openai-responses": ("agentctx.providers.openai_responses", "OpenAIResponses"),
    "anthropic": ("agentctx.providers.anthropic", "Anthropic"),
    "gemini": ("agentctx.providers.gemini", "Gemini"),
    "bedrock": ("agentctx.providers.bedrock", "Bedrock"),
}


class _Formats(Mapping[str, WireFormat]):
    """The wire formats by name, each imported when it is first looked up."""

    def __init__(self) -> None:
        self._loaded: dict[str, WireFormat] = {}

    def __getitem__(self, name: str) -> WireFormat:
        if name not in self._loaded:
            module, kind = _HOMES[name]
            self._loaded[name] = getattr(import_module(module), kind)()
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_HOMES)

    def __len__(self) -> int:
        return len(_HOMES)


FORMATS: Mapping[str, WireFormat] = _Formats()
"""Every wire format that can be read and written, by name."""

_MESSAGE_KEYS = ("messages", "input", "contents")


def messages_of(request: Mapping[str, Native]) -> Native:
    """What stands in a request where its messages belong, whatever its format; None when there is nothing."""
    return next((request[key] for key in _MESSAGE_KEYS if key in request), None)


_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function", "model"})
"""Every role that some format knows."""

# Which formats a family of models is called in, the usual one first; asked only when a request fits several.
_CALLED_IN: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (re.compile(r"claude"), ("anthropic", "bedrock", "openai-chat")),
    (re.compile(r"gemini"), ("gemini", "openai-chat")),
    (re.compile(r"gpt-|chatgpt|codex|(^|/)o\d"), ("openai-chat", "openai-responses")),
    (
        re.compile(r"deepseek|grok|mi[sx]tral|kimi|moonshot|glm|qwen|llama|mimo|minimax|gemma|command|phi-|nova"),
        ("openai-chat", "bedrock"),
    ),
)


def format_named(name: str, model: str | None = None) -> WireFormat:
    """The wire format of this name, in the dialect of the model that is called.

    Args:
        name: The format's name, or a dialect's after that of its format: ``openai-chat/mistral``.
        model: The model's name, as its provider writes it.

    Raises:
        InvalidInput: If there is none; the message lists the names.
    """
    base, _, dialect = name.partition("/") if isinstance(name, str) else ("", "", "")
    found = FORMATS.get(base)
    spoken = found if found is None or not dialect else _dialect_named(base, dialect, model)
    if spoken is None:
        names = [*FORMATS, *(each.full_name for each in DIALECTS.values())]
        where = "format"
        raise InvalidInput(where, f"no wire format is called {name!r}{_meant(name, names)}; there are {_listed(names)}")
    return spoken if dialect else _as_called(spoken, model)


_SPOKEN_OF = {
    "claude": ("anthropic",),
    "openai": ("openai-chat", "openai-responses"),
    "chat": ("openai-chat",),
    "responses": ("openai-responses",),
    "google": ("gemini",),
    "vertex": ("gemini", "anthropic"),
    "aws": ("bedrock",),
    "converse": ("bedrock",),
}
"""What people call the formats."""


def _meant(name: object, names: Sequence[str]) -> str:
    """What a wrong name may have been meant for, as a half sentence; empty where nothing is near."""
    given = name.lower() if isinstance(name, str) else ""
    near = _SPOKEN_OF.get(given) or get_close_matches(given, names, 2)
    return f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""


def _dialect_named(base: str, name: str, model: str | None) -> WireFormat | None:
    if base != DIALECTS_OF or name not in DIALECTS:
        return None
    return _in_dialect(DIALECTS[name].of_model(model))


def _as_called(wire: WireFormat, model: str | None) -> WireFormat:
    """The format in the dialect in which a model is called; the format itself where it is called in none."""
    if model is None or wire.name != DIALECTS_OF:
        return wire
    dialect = dialect_of(model) or dialect_of(family_of(model))
    return wire if dialect is None else _in_dialect(dialect)


def _in_dialect(dialect: Dialect) -> WireFormat:
    made: WireFormat = import_module("agentctx.providers.openai_chat.dialects").in_dialect(dialect)
    return made


@frozen
class Detected:
    """The wire format that a request was found to be in.

    Args:
        wire: The format, in the dialect of the model that is called.
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
        InvalidInput: If it fits none, or is a transcript of another tool.
    """
    refuse_foreign_document(request)
    refuse_foreign(messages_of(request))
    scores = {name: wire.recognises(request) for name, wire in FORMATS.items()}
    best = max(scores.values())
    if best == 0:
        raise _in_no_format(request)
    fitting = [name for name, score in scores.items() if score == best]
    named = model if model is not None else request.get("model")
    named = named if isinstance(named, str) else None
    likely = fitting if len(fitting) == 1 or named is None else _usual(named, fitting)
    if len(likely) > 1 and not _read_alike(request, likely):
        where = "messages"
        raise AmbiguousFormat(where, f"they could be {_listed(likely)}: pass format=")
    return Detected(_as_called(FORMATS[likely[0]], named), certain=len(fitting) == 1)


def _read_alike(request: Mapping[str, Any], names: Sequence[str]) -> bool:
    """Whether messages mean the same in all these formats, so that it makes no difference which is taken."""
    messages, alone = request.get("messages"), request.keys() <= {"messages", "model"}
    if not alone or not isinstance(messages, (list, tuple)):
        return False
    if all(map(_is_plain, messages)):
        return True
    first, *others = ([FORMATS[name].read_message(native, 0) for native in messages] for name in names)
    return all(first == other for other in others)


def _is_plain(native: Native) -> bool:
    """Whether it says one text in a role that all formats have."""
    if not isinstance(native, Mapping) or native.keys() != {"role", "content"}:
        return False
    return native["role"] in ("user", "assistant") and isinstance(native["content"], str)


def _in_no_format(request: Mapping[str, Any]) -> InvalidInput:
    """What is wrong with a request that is in no format: names the first message that is in none by itself."""
    none = f"in none of the wire formats {_listed(list(FORMATS))}"
    messages = request.get("messages")
    for index, message in enumerate(messages if isinstance(messages, (list, tuple)) else ()):
        where = f"messages[{index}]"
        if (known := fields_or_none(message)) is None:
            return InvalidInput(where, f"expected an object (a dict or an SDK object), got {type(message).__name__}")
        if not any(wire.recognises({"messages": [message]}) for wire in FORMATS.values()):
            role = known.get("role")
            if "role" in known and (not isinstance(role, str) or role not in _ROLES):
                return InvalidInput(f"{where}.role", f"no wire format knows the role {role!r}")
            return InvalidInput(where, f"it is {none}")
    return InvalidInput("messages", f"they are {none}")


def _usual(model: str, fitting: list[str]) -> list[str]:
    """Of the fitting formats the one that this model is usually called in; all of them for an unknown model."""
    named = family_of(model).lower()
    called = next((formats for family, formats in _CALLED_IN if family.search(named)), ())
    return next(([name] for name in called if name in fitting), fitting)


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(map(repr, names[:-1])), repr(names[-1]))))
