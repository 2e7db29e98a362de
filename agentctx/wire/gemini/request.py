"""A generateContent request as the rules look at it: never refused, whatever is in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from attrs import frozen

from agentctx.core.profile import ModelProfile
from agentctx.core.violation import Violation
from agentctx.wire.gemini.bare import as_contents
from agentctx.wire.gemini.names import data_key, signature_of, snake, value
from agentctx.wire.native import fields_or_none

NOTHING: Mapping[str, Any] = {}
_GENERATION = re.compile(r"gemini-(\d+)")
_NEWEST = re.compile(r"gemini-(?:pro|flash|flash-lite)-latest")
_CAMEL = re.compile(r"_([a-z])")


@frozen
class PartAt:
    """One part.

    Args:
        content: Index of its content.
        path: Its place, as the provider writes it, for example ``contents[3].parts[1]``.
        kind: What it holds, in the API's spelling; empty when it holds nothing.
        data: The part itself.
        held: What it holds, when that is an object; else empty.
    """

    content: int
    path: str
    kind: str
    data: Mapping[str, Any]
    held: Mapping[str, Any]

    @property
    def text(self) -> str | None:
        """Its text, when it is one."""
        text = self.data.get("text")
        return text if isinstance(text, str) else None

    @property
    def signature(self) -> str | None:
        """Its thought signature in base64, when it has one."""
        return signature_of(self.data)

    @property
    def name(self) -> str:
        """The function's name, when it is a call or a response and has one."""
        name = self.held.get("name")
        return name if isinstance(name, str) else ""

    @property
    def id(self) -> str | None:
        """The id of the call, when it is a call or a response and has one."""
        found = self.held.get("id")
        return found if isinstance(found, str) and found else None

    @property
    def field(self) -> str:
        """The place of what it holds; the provider's errors use the snake spelling."""
        return f"{self.path}.{snake(self.kind)}"


@frozen
class ContentAt:
    """One content.

    Args:
        index: Its index.
        role: Its role as it stands; None when it has none.
        data: The content itself; empty when it is no object.
        parts: Its parts.
    """

    index: int
    role: object
    data: Mapping[str, Any]
    parts: tuple[PartAt, ...]

    @property
    def path(self) -> str:
        """Its place, as the provider writes it."""
        return f"contents[{self.index}]"

    @property
    def by_model(self) -> bool:
        """Whether the model speaks."""
        return self.role == "model"

    @property
    def calls(self) -> tuple[PartAt, ...]:
        """Its function calls."""
        return tuple(part for part in self.parts if part.kind == "functionCall")

    @property
    def responses(self) -> tuple[PartAt, ...]:
        """Its function responses."""
        return tuple(part for part in self.parts if part.kind == "functionResponse")


@frozen
class Request:
    """A request, laid out.

    Args:
        data: The request itself.
        contents: Its contents, in order.
        generation: The model's generation (2, 3, …); None when the model is not known.
    """

    data: Mapping[str, Any]
    contents: tuple[ContentAt, ...]
    generation: int | None

    def option(self, key: str) -> Any:  # noqa: ANN401 - any JSON value
        """An option of the request, at its top or in the SDK's ``config``."""
        found = value(self.data, key)
        return value(fields_or_none(self.data.get("config")) or NOTHING, key) if found is None else found


def contents_of(data: Mapping[str, Any]) -> object:
    """The native contents of a request."""
    return data.get("contents", data.get("messages"))


def lay_out(data: Mapping[str, Any], profile: ModelProfile | None) -> Request:
    """Lay a request out; without a profile its model is known by its name."""
    native = contents_of(data)
    given = native if isinstance(native, (list, tuple)) else () if native is None else (native,)
    contents = tuple(_content(each, index) for index, each in as_contents(given))
    named = data.get("model")
    name = profile.family if profile is not None else named if isinstance(named, str) else ""
    return Request(data, contents, generation_of(name.lower()))


def refused(
    rule: str, at: PartAt | ContentAt | None, message: str, severity: Literal["error", "warn"] = "error"
) -> Violation:
    """A rule broken at a part or a content (None: the request as a whole).

    Args:
        rule: The rule's name without ``gem.``.
        at: Where.
        message: The provider's words.
        severity: See ``Violation``.
    """
    index = at.content if isinstance(at, PartAt) else None if at is None else at.index
    return Violation(f"gem.{rule}", severity, index, "contents" if at is None else at.path, message)


def generation_of(name: str) -> int | None:
    """The generation (2, 3, …) of a Gemini model, by its name in lower case; None when the name does not tell."""
    if _NEWEST.search(name):
        return 3
    found = _GENERATION.search(name)
    return int(found[1]) if found else None


def _content(native: object, index: int) -> ContentAt:
    content = fields_or_none(native) or NOTHING
    natives = content.get("parts")
    parts = natives if isinstance(natives, (list, tuple)) else ()
    found = (_part(part, index, f"contents[{index}].parts[{place}]") for place, part in enumerate(parts))
    return ContentAt(index, content.get("role"), content, tuple(found))


def _part(native: object, content: int, path: str) -> PartAt:
    block = fields_or_none(native) or NOTHING
    key = data_key(block)
    if key is None:
        return PartAt(content, path, "", block, NOTHING)
    kind = _CAMEL.sub(lambda found: found[1].upper(), str(key))
    return PartAt(content, path, kind, block, fields_or_none(block[key]) or NOTHING)
