"""What the rules of Chat Completions look at, and how they speak."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import frozen

from agentctx.core.violation import Violation
from agentctx.wire.native import mapping_or_none

ROLES = ("system", "assistant", "user", "function", "tool", "developer")


@frozen
class ChatRequest:
    """A request, whatever it is, opened as far as it can be.

    Args:
        body: The request.
        messages: Its messages that are objects, with their indexes.
        total: How many messages there are, objects or not.
        model: The model's name without provider prefix, when one is named.
        before: The request that this one was made from, opened alike; None when there is none.
    """

    body: Mapping[str, Any]
    messages: tuple[tuple[int, Mapping[str, Any]], ...]
    total: int
    model: str | None = None
    before: ChatRequest | None = None

    @property
    def gpt(self) -> tuple[int, int] | None:
        """The version of one of OpenAI's own models, (0, 0) for those not named by version; None for any other."""
        if self.model is None:
            return None
        if found := re.match(r"gpt-(\d+)(?:\.(\d+))?", self.model):
            return int(found[1]), int(found[2] or 0)
        return (0, 0) if re.match(r"o\d|chatgpt-", self.model) else None


Rule = Callable[[ChatRequest], Iterator[Violation]]


def opened(body: Mapping[str, Any], model: str | None, before: ChatRequest | None = None) -> ChatRequest:
    """Open a request. Never raises."""
    native = body.get("messages")
    messages = list(native) if isinstance(native, list | tuple) else []
    objects = tuple([(i, found) for i, one in enumerate(messages) if (found := mapping_or_none(one)) is not None])
    named = model if isinstance(model, str) else body.get("model")
    name = named.rpartition("/")[2] if isinstance(named, str) else None
    return ChatRequest(body, objects, len(messages), name, before)


def blocks(message: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The blocks of a message's content that are objects, with their places."""
    content = message.get("content")
    for place, block in enumerate(content if isinstance(content, list | tuple) else ()):
        if (found := mapping_or_none(block)) is not None:
            yield place, found


def calls(message: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The entries of an assistant message's ``tool_calls`` that are objects, with their places."""
    entries = message.get("tool_calls") if message.get("role") == "assistant" else None
    for place, call in enumerate(entries if isinstance(entries, list | tuple) else ()):
        if (found := mapping_or_none(call)) is not None:
            yield place, found


def kind_of(value: object) -> str:
    """The JSON type of a value as the provider calls it, with its article."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    names = ((str, "a string"), (int, "an integer"), (float, "a decimal number"), (list | tuple, "an array"))
    return next((name for kind, name in names if isinstance(value, kind)), "an object")


def error(rule: str, index: int | None, path: str, message: str) -> Violation:
    """A violation that the provider refuses."""
    return Violation(f"chat.{rule}", "error", index, path, message)


def warn(rule: str, index: int | None, path: str, message: str) -> Violation:
    """A violation that some endpoints refuse."""
    return Violation(f"chat.{rule}", "warn", index, path, message)


def missing(rule: str, index: int | None, path: str) -> Violation:
    """Something that must be there is not."""
    return error(rule, index, path, f"Missing required parameter: '{path}'.")


def wrong_type(rule: str, index: int | None, path: str, expected: str, got: object) -> Violation:
    """Something is of another type than it must be."""
    text = f"Invalid type for '{path}': expected {expected}, but got {kind_of(got)} instead."
    return error(rule, index, path, text)


def needed_text(rule: str, index: int | None, path: str, got: object) -> Iterator[Violation]:
    """Complain unless ``got`` is a string."""
    if got is None:
        yield missing(rule, index, path)
    elif not isinstance(got, str):
        yield wrong_type(rule, index, path, "a string", got)


def too_long(rule: str, index: int | None, path: str, limit: int, length: int) -> Violation:
    """A string is longer than it may be, in characters."""
    text = f"Expected a string with maximum length {limit}, but got a string with length {length} instead."
    return error(rule, index, path, f"Invalid '{path}': string too long. {text}")


def too_many(rule: str, index: int | None, path: str, limit: int, length: int) -> Violation:
    """A list has more entries than it may have."""
    text = f"Expected an array with maximum length {limit}, but got an array with length {length} instead."
    return error(rule, index, path, f"Invalid '{path}': array too long. {text}")


def empty_array(rule: str, index: int | None, path: str) -> Violation:
    """A list is empty that must not be."""
    text = "Expected an array with minimum length 1, but got an empty array instead."
    return error(rule, index, path, f"Invalid '{path}': empty array. {text}")
