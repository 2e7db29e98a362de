"""What the rules of the Responses API look at, and how they speak."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from attrs import frozen

from agentctx.core.violation import Violation
from agentctx.wire.native import mapping_or_none
from agentctx.wire.openai_responses.kinds import (
    CALLS,
    SETTINGS,
    answered_id,
    is_client_call,
    is_client_output,
    kind_of,
    openai_family,
)


@frozen
class Item:
    """An item, opened as far as it can be.

    Args:
        index: Its index in the input.
        kind: Its type; empty when it has none.
        data: What is in it.
    """

    index: int
    kind: str
    data: Mapping[str, Any]

    @property
    def path(self) -> str:
        """Its place, as the provider writes it."""
        return f"input[{self.index}]"

    @property
    def id(self) -> str | None:
        """Its own id, if it has one. The id of a local shell's answer is that of the call."""
        value = self.data.get("id")
        return value if isinstance(value, str) and self.kind != "local_shell_call_output" else None

    @property
    def is_call(self) -> bool:
        """Whether the client has to answer it."""
        return is_client_call(self.kind, self.data)

    @property
    def is_output(self) -> bool:
        """Whether it is the client's answer to a call."""
        return is_client_output(self.kind, self.data)

    @property
    def call_id(self) -> object:
        """The id of the call that it is, or that it answers; None when it is neither."""
        if self.is_call:
            return self.data.get(CALLS[self.kind].id_key)
        return answered_id(self.kind, self.data) if self.is_output else None

    @property
    def is_words(self) -> bool:
        """Whether it is a message of the model."""
        return self.kind == "message" and self.data.get("role") == "assistant"

    @property
    def by_model(self) -> bool:
        """Whether the model, or a tool of the provider, made it."""
        if self.kind == "message":
            return self.is_words
        return not self.is_output and self.kind not in SETTINGS and self.kind != "item_reference"


@frozen
class Request:
    """A request, whatever it is, opened as far as it can be.

    Args:
        body: The request.
        items: Its items that are objects.
        total: How many items there are, objects or not.
        model: The model's name without provider prefix, when one is named.
        before: The request that this one was made from, opened alike; None when there is none.
    """

    body: Mapping[str, Any]
    items: tuple[Item, ...]
    total: int
    model: str | None = None
    before: Request | None = None

    @property
    def chained(self) -> bool:
        """Whether the provider puts items that it has kept before these."""
        return self.body.get("previous_response_id") is not None or self.body.get("conversation") is not None

    @property
    def family(self) -> str | None:
        """The family of one of OpenAI's own models, for example ``gpt-5.6``; None for any other, or none named."""
        return None if self.model is None else openai_family(self.model)

    @property
    def foreign(self) -> bool:
        """Whether another provider's model is named."""
        return self.model is not None and self.family is None


Rule = Callable[[Request], Iterator[Violation]]


def input_of(body: Mapping[str, Any]) -> Any:  # noqa: ANN401 - whatever stands there
    """The input of a request; ``messages`` stands for it where all formats are treated alike."""
    return body.get("input", body.get("messages"))


def opened(body: Mapping[str, Any], model: str | None, before: Request | None = None) -> Request:
    """Open a request. Never raises."""
    native = input_of(body)
    natives = list(native) if isinstance(native, (list, tuple)) else []
    found = ((index, mapping_or_none(one)) for index, one in enumerate(natives))
    items = tuple([Item(index, kind_of(data), data) for index, data in found if data is not None])
    named = model if isinstance(model, str) else body.get("model")
    name = named.rpartition("/")[2] if isinstance(named, str) else None
    return Request(body, items, len(natives), name, before)


def blocks(item: Item) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The blocks of a message's content, or of an answer's output, that are objects, with their paths."""
    key = "output" if item.is_output else "content"
    content = item.data.get(key)
    for place, block in enumerate(content if isinstance(content, (list, tuple)) else ()):
        if (found := mapping_or_none(block)) is not None:
            yield f"{item.path}.{key}[{place}]", found


def broken(
    rule: str, at: Item | None, path: str, message: str, severity: Literal["error", "warn"] = "error"
) -> Violation:
    """A rule broken at an item (None: by the request as a whole).

    Args:
        rule: The rule's name without ``resp.``.
        at: Where.
        path: The place, as the provider writes it.
        message: The provider's words.
        severity: See ``Violation``.
    """
    return Violation(f"resp.{rule}", severity, None if at is None else at.index, path, message)


def json_type(value: object) -> str:
    """The JSON type of a value as the provider calls it, with its article."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    names = ((str, "a string"), (int, "an integer"), (float, "a decimal number"), ((list, tuple), "an array"))
    return next((name for kind, name in names if isinstance(value, kind)), "an object")


def wrong_type(rule: str, at: Item | None, path: str, expected: str, got: object) -> Violation:
    """Something is missing, or of another type than it must be."""
    if got is None:
        return broken(rule, at, path, f"Missing required parameter: '{path}'.")
    text = f"Invalid type for '{path}': expected {expected}, but got {json_type(got)} instead."
    return broken(rule, at, path, text)


def too_long(rule: str, at: Item | None, path: str, limit: int, length: int) -> Violation:
    """A string is longer than it may be, in characters."""
    text = f"Expected a string with maximum length {limit}, but got a string with length {length} instead."
    return broken(rule, at, path, f"Invalid '{path}': string too long. {text}")


def too_many(rule: str, at: Item | None, path: str, limit: int, length: int) -> Violation:
    """A list has more entries than it may have."""
    text = f"Expected an array with maximum length {limit}, but got an array with length {length} instead."
    return broken(rule, at, path, f"Invalid '{path}': array too long. {text}")
