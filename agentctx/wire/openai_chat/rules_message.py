"""Rules of Chat Completions about one message: its role, content and calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentctx.core.violation import Violation
from agentctx.wire.native import clean_text, mapping_or_none
from agentctx.wire.openai_chat.mend import CARRIES_SIGNATURE, ID_MAX, NAME, NAME_MAX
from agentctx.wire.openai_chat.view import (
    ROLES,
    ChatRequest,
    blocks,
    calls,
    empty_array,
    error,
    missing,
    needed_text,
    too_long,
    too_many,
    warn,
    wrong_type,
)

CALLS_MAX = 128
"""The most calls in one message: "Expected an array with maximum length 128" is what OpenAI answers to more."""

STRING_MAX = 10_485_760
STRING_SEEN = 1_048_576
_INSTEAD = ("tool_calls", "function_call", "refusal", "audio")
_MEDIA = {"image_url": "Image URLs", "video_url": "Videos", "input_audio": "Audio inputs", "file": "Files"}
_BLOCKS = {"text": "text", "refusal": "refusal"}


def messages_present(request: ChatRequest) -> Iterator[Violation]:
    """C11: there are messages, and they are objects."""
    native = request.body.get("messages")
    if native is None:
        yield missing("messages_missing", None, "messages")
    elif not isinstance(native, list | tuple):
        yield wrong_type("messages_type", None, "messages", "an array of objects", native)
    elif not native:
        yield empty_array("messages_empty", None, "messages")
    else:
        known = {index for index, _ in request.messages}
        for index in range(len(native)):
            if index not in known:
                yield wrong_type("message_type", index, f"messages[{index}]", "an object", native[index])


def role(request: ChatRequest) -> Iterator[Violation]:
    """C1: the role is one of six."""
    for index, message in request.messages:
        if (named := message.get("role")) is None:
            yield missing("role", index, f"messages[{index}].role")
        elif named not in ROLES:
            listed = ", ".join(f"'{one}'" for one in ROLES[:-1])
            text = f"Invalid value: '{named}'. Supported values are: {listed}, and '{ROLES[-1]}'."
            yield error("role", index, f"messages[{index}].role", text)


def content_required(request: ChatRequest) -> Iterator[Violation]:
    """C6: content may be null only beside something else that the assistant said."""
    for index, message in request.messages:
        named = message.get("role")
        if named not in ROLES or message.get("content") is not None or (named == "function" and "content" in message):
            continue
        if named == "developer":
            yield missing("content_required", index, f"messages[{index}].content")
        elif named != "assistant" or all(message.get(key) is None for key in _INSTEAD):
            text = "Invalid value for 'content': expected a string, got null."
            yield error("content_required", index, f"messages.[{index}].content", text)


def content_type(request: ChatRequest) -> Iterator[Violation]:
    """C6: content is a string or an array of blocks, each with a type; a text block has text."""
    for index, message in request.messages:
        content, path = message.get("content"), f"messages[{index}].content"
        if content is None or isinstance(content, str):
            continue
        if not isinstance(content, list | tuple):
            yield wrong_type("content_type", index, path, "one of a string or array of objects", content)
            continue
        for place, block in enumerate(content):
            yield from _block_type(block, index, f"{path}[{place}]")


def _block_type(block: object, index: int, path: str) -> Iterator[Violation]:
    native = mapping_or_none(block)
    if native is None:
        yield wrong_type("content_type", index, path, "an object", block)
        return
    yield from needed_text("block_type", index, f"{path}.type", kind := native.get("type"))
    if isinstance(kind, str) and kind in _BLOCKS:
        yield from needed_text("block_text", index, f"{path}.{_BLOCKS[kind]}", native.get(_BLOCKS[kind]))
    elif isinstance(kind, str) and kind not in _MEDIA:
        yield warn("block_type", index, f"{path}.type", f"Invalid value: '{kind}'.")


def media_role(request: ChatRequest) -> Iterator[Violation]:
    """C12: images, audio and files stand in user messages only."""
    for index, message in request.messages:
        if (named := message.get("role")) == "user" or named not in ROLES:
            continue
        kinds = (kind for _, block in blocks(message) if isinstance(kind := block.get("type"), str) and kind in _MEDIA)
        if kind := next(kinds, None):
            what = "an image URL" if kind == "image_url" else f"a block of type '{kind}'"
            text = f"{_MEDIA[kind]} are only allowed for messages with role 'user', but this message with role"
            yield error(
                "image_role",
                index,
                f"messages[{index}]",
                f"Invalid 'messages[{index}]'. {text} '{named}' contains {what}.",
            )


def tool_calls(request: ChatRequest) -> Iterator[Violation]:
    """C7, C8: ``tool_calls`` is an array of 1 to 128 objects, or is left out."""
    for index, message in request.messages:
        native, path = message.get("tool_calls"), f"messages[{index}].tool_calls"
        if native is None or message.get("role") != "assistant":
            continue
        if not isinstance(native, list | tuple):
            yield wrong_type("tool_calls_type", index, path, "an array of objects", native)
        elif not native:
            yield empty_array("tool_calls_empty", index, path)
        elif len(native) > CALLS_MAX:
            yield too_many("tool_calls_too_many", index, path, CALLS_MAX, len(native))
        known = {place for place, _ in calls(message)}
        for place, call in enumerate(native if isinstance(native, list | tuple) else ()):
            if place not in known:
                yield wrong_type("tool_calls_type", index, f"{path}[{place}]", "an object", call)


def call_ids(request: ChatRequest) -> Iterator[Violation]:
    """C9: each call has an id of at most 40 characters; a longer one that carries a signature is let through."""
    for index, message in request.messages:
        for place, call in calls(message):
            path, identity = f"messages[{index}].tool_calls[{place}].id", call.get("id")
            yield from needed_text("call_id", index, path, identity)
            if isinstance(identity, str) and len(identity) > ID_MAX and CARRIES_SIGNATURE not in identity:
                yield too_long("call_id_length", index, path, ID_MAX, len(identity))


def call_bodies(request: ChatRequest) -> Iterator[Violation]:
    """C10: each call says what is called, by a legal name, with what arguments, as text."""
    for index, message in request.messages:
        for place, call in calls(message):
            yield from _call_body(call, index, f"messages[{index}].tool_calls[{place}]")


def _call_body(call: Mapping[str, Any], index: int, path: str) -> Iterator[Violation]:
    if (kind := call.get("type")) is None:
        yield missing("call_type", index, f"{path}.type")
    elif kind not in ("function", "custom"):
        text = f"Invalid value: '{kind}'. Supported values are: 'function' and 'custom'."
        yield error("call_type", index, f"{path}.type", text)
        return
    key, words = ("custom", "input") if kind == "custom" else ("function", "arguments")
    if (body := mapping_or_none(call.get(key))) is None:
        yield missing("call_body", index, f"{path}.{key}")
        return
    yield from function_name(body.get("name"), index, f"{path}.{key}.name")
    yield from needed_text("call_arguments", index, f"{path}.{key}.{words}", body.get(words))


def function_name(name: object, index: int | None, path: str) -> Iterator[Violation]:
    """C10: a name has 1 to 64 letters, digits, ``_`` and ``-``."""
    yield from needed_text("function_name", index, path, name)
    if not isinstance(name, str) or NAME.fullmatch(name):
        return
    if len(name) > NAME_MAX:
        yield too_long("function_name_length", index, path, NAME_MAX, len(name))
    else:
        text = "string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
        yield error("function_name", index, path, f"Invalid '{path}': {text}")


def strings(request: ChatRequest) -> Iterator[Violation]:
    """C18: no string is too long for the endpoint, and each can be sent as UTF-8."""
    for index, message in request.messages:
        for path, text in _strings(message, f"messages[{index}]"):
            if len(text) > STRING_MAX:
                yield too_long("string_length", index, path, STRING_MAX, len(text))
            elif len(text) > STRING_SEEN:
                seen = too_long("string_length", index, path, STRING_SEEN, len(text))
                yield warn("string_length", index, path, seen.message)
            if clean_text(text) is not text:
                yield error("surrogate", index, path, "We could not parse the JSON body of your request.")


def _strings(message: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    if isinstance(content := message.get("content"), str):
        yield f"{path}.content", content
    for place, block in blocks(message):
        if isinstance(text := block.get("text"), str):
            yield f"{path}.content[{place}].text", text
    for place, call in calls(message):
        for key, words in (("function", "arguments"), ("custom", "input")):
            if isinstance(text := (mapping_or_none(call.get(key)) or {}).get(words), str):
                yield f"{path}.tool_calls[{place}].{key}.{words}", text
