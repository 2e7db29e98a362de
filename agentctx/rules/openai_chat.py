"""What Chat Completions refuse, rule by rule in the order in which it is looked at; behind it what single dialects do.

The requests of one conversation are validated without a look at all of their messages again: ``GrowingChat``.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import define, field, frozen

from agentctx.formats.dialects import Dialect
from agentctx.formats.native import clean_text, mapping_or_none, string_of
from agentctx.formats.openai_chat import (
    CALLS_MAX,
    CARRIES_SIGNATURE,
    ID_MAX,
    IDS,
    NAME,
    NAME_MAX,
    REASONING_BLOCKS,
    REASONING_TEXTS,
    ChatDialect,
)
from agentctx.message import BREAKPOINT, CONTROL
from agentctx.models.profile import ModelProfile
from agentctx.rules.rule import Rule, checked, in_order
from agentctx.wire_format import Violation, WireFormat

ROLES = ("system", "assistant", "user", "function", "tool", "developer")


@frozen
class ChatRequest:
    """A request, whatever it is, opened as far as it can be.

    Args:
        total: How many messages there are, objects or not.
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


def type_text(path: str, expected: str, got: object) -> str:
    """What OpenAI says of a value of another type than it must be."""
    return f"Invalid type for '{path}': expected {expected}, but got {kind_of(got)} instead."


def length_text(path: str, limit: int = 1, length: int = 0, kind: str = "string") -> str:
    """What OpenAI says of a string (in characters) or an array that is longer than it may be, or empty."""
    one = "an array" if kind == "array" else "a string"
    if not length:
        return f"Invalid '{path}': empty {kind}. Expected {one} with minimum length 1, but got an empty {kind} instead."
    text = f"Expected {one} with maximum length {limit}, but got {one} with length {length} instead."
    return f"Invalid '{path}': {kind} too long. {text}"


def name_text(path: str) -> str:
    """What OpenAI says of a name with characters that are not allowed."""
    text = "string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
    return f"Invalid '{path}': {text}"


def wrong_type(rule: str, index: int | None, path: str, expected: str, got: object) -> Violation:
    """Something is of another type than it must be."""
    return error(rule, index, path, type_text(path, expected, got))


def needed_text(rule: str, index: int | None, path: str, got: object) -> Iterator[Violation]:
    """Complain unless ``got`` is a string."""
    if got is None:
        yield missing(rule, index, path)
    elif not isinstance(got, str):
        yield wrong_type(rule, index, path, "a string", got)


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
        yield error("messages_empty", None, "messages", length_text("messages", kind="array"))
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
            yield error("tool_calls_empty", index, path, length_text(path, kind="array"))
        elif len(native) > CALLS_MAX:
            yield error("tool_calls_too_many", index, path, length_text(path, CALLS_MAX, len(native), "array"))
        known = {place for place, _ in calls(message)}
        for place, call in enumerate(native if isinstance(native, list | tuple) else ()):
            if place not in known:
                yield wrong_type("tool_calls_type", index, f"{path}[{place}]", "an object", call)


def call_ids(request: ChatRequest) -> Iterator[Violation]:
    """C9: each call has an id of 1 to 40 characters; a longer one that carries a signature is let through."""
    for index, message in request.messages:
        for place, call in calls(message):
            path, identity = f"messages[{index}].tool_calls[{place}].id", call.get("id")
            yield from needed_text("call_id", index, path, identity)
            if isinstance(identity, str) and not IDS.takes(identity) and CARRIES_SIGNATURE not in identity:
                yield error("call_id_length", index, path, length_text(path, ID_MAX, len(identity)))


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
        yield error("function_name_length", index, path, length_text(path, NAME_MAX, len(name)))
    else:
        yield error("function_name", index, path, name_text(path))


def strings(request: ChatRequest) -> Iterator[Violation]:
    """C18: no string is too long for the endpoint, and each can be sent as UTF-8."""
    for index, message in request.messages:
        for path, text in _strings(message, f"messages[{index}]"):
            if len(text) > STRING_SEEN:
                limit, told = (STRING_MAX, error) if len(text) > STRING_MAX else (STRING_SEEN, warn)
                yield told("string_length", index, path, length_text(path, limit, len(text)))
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


_UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
    "The following tool_call_ids did not have response messages: "
)
_ORPHAN = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
_NO_ID = "Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'."


@define
class _Round:
    """An assistant message with calls, and what has answered them.

    Args:
        answers: The index of the answer to each call, by id; None while there is none.
        nameless: How many tool messages did not say which call they answer.
    """

    index: int
    answers: dict[str, int | None] = field(factory=dict)
    nameless: int = 0

    def close(self) -> Iterator[Violation]:
        """C2: each call is answered. An answer without an id may belong to any of them."""
        left = [identity for identity, answer in self.answers.items() if answer is None]
        if len(left) > self.nameless:
            yield error("call_unanswered", self.index, "messages", _UNANSWERED + ", ".join(left))


def rounds(request: ChatRequest) -> Iterator[Violation]:
    """C2 to C5: results follow their calls directly, each with the id of its call, one for each call."""
    current = _Round(-1)
    expected = 0
    for index, message in request.messages:
        broken = index != expected  # what stood between is no object
        expected = index + 1
        if message.get("role") == "tool" and not broken:
            yield from _answer(current, index, message.get("tool_call_id"))
            continue
        yield from current.close()
        current = _Round(index)
        if message.get("role") == "tool":
            yield from _answer(current, index, message.get("tool_call_id"))
        for _, call in calls(message):
            if isinstance(identity := call.get("id"), str):
                current.answers[identity] = None
    yield from current.close()


def _answer(current: _Round, index: int, identity: object) -> Iterator[Violation]:
    if not isinstance(identity, str):
        current.nameless += 1
        yield error("tool_call_id_missing", index, f"messages.[{index}].tool_call_id", _NO_ID)
    elif identity not in current.answers:
        yield error("tool_orphan", index, f"messages.[{index}].role", _ORPHAN)
    elif (first := current.answers[identity]) is not None:
        places = f"in messages[{first}] and messages[{index}]."
        text = f"Invalid parameter: Duplicate value for 'tool_call_id' of '{identity}', {places}"
        yield error("tool_dup", index, f"messages.[{index}].tool_call_id", text)
    else:
        current.answers[identity] = index


TOOLS_MAX = 128
CACHE_KEY_MAX = 64

# Keys of openai 3.52, completion_create_params.py and the message params; the second line of each is dialects'.
_MESSAGE_KEYS = frozenset(
    {"role", "content", "name", "tool_calls", "tool_call_id", "function_call", "refusal", "audio", "annotations"}
)
_DIALECT_KEYS = frozenset({*REASONING_BLOCKS, *REASONING_TEXTS, CONTROL, "prefix", "partial"})
_REQUEST_KEYS = frozenset(
    {"messages", "model", "audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs"}
    | {"max_completion_tokens", "max_tokens", "metadata", "modalities", "moderation", "n", "parallel_tool_calls"}
    | {"prediction", "presence_penalty", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"}
    | {"reasoning_effort", "response_format", "safety_identifier", "seed", "service_tier", "stop", "store", "stream"}
    | {"stream_options", "temperature", "tool_choice", "tools", "top_logprobs", "top_p", "user", "verbosity"}
    | {"web_search_options"}
)
# What the SDK takes for itself, and a system prompt that the caller keeps apart.
_NOT_SENT = frozenset({"extra_body", "extra_headers", "extra_query", "timeout", "system"})


def tools(request: ChatRequest) -> Iterator[Violation]:
    """C8, C10: at most 128 tools, functions with legal names."""
    if (native := request.body.get("tools")) is None:
        return
    if not isinstance(native, list | tuple):
        yield wrong_type("tools_type", None, "tools", "an array of objects", native)
        return
    if not native:
        yield warn("tools_empty", None, "tools", length_text("tools", kind="array"))
    if len(native) > TOOLS_MAX:
        yield error("tools_too_many", None, "tools", length_text("tools", TOOLS_MAX, len(native), "array"))
    for place, tool in enumerate(native):
        definition = mapping_or_none(tool)
        if definition is None:
            yield wrong_type("tools_type", None, f"tools[{place}]", "an object", tool)
        elif definition.get("type", "function") == "function":
            body = mapping_or_none(definition.get("function")) or {}
            yield from function_name(body.get("name"), None, f"tools[{place}].function.name")


def tool_choice(request: ChatRequest) -> Iterator[Violation]:
    """C14: what ``tool_choice`` names is among the tools; without tools there is nothing to choose."""
    native = request.body.get("tools")
    if not native:
        for key in ("tool_choice", "parallel_tool_calls"):
            if request.body.get(key) is not None:
                text = f"Invalid value for '{key}': '{key}' is only allowed when 'tools' are specified."
                yield error("tool_choice_without_tools", None, key, text)
        return
    listed = {_name(tool) for tool in native} if isinstance(native, list | tuple) else set()
    chosen = mapping_or_none(request.body.get("tool_choice")) or {}
    allowed = (mapping_or_none(chosen.get("allowed_tools")) or {}).get("tools")
    for named in map(_name, [chosen, *(allowed if isinstance(allowed, list | tuple) else ())]):
        if named is not None and named not in listed:
            text = (
                f"Invalid value for 'tool_choice': no function named '{named}' was specified in the 'tools' parameter."
            )
            yield error("tool_choice_name", None, "tool_choice", text)


def function_call(request: ChatRequest) -> Iterator[Violation]:
    """C14, the legacy form: what ``function_call`` names is among the functions."""
    choice, native = mapping_or_none(request.body.get("function_call")), request.body.get("functions")
    if choice is None or not isinstance(named := choice.get("name"), str):
        return
    listed = [mapping_or_none(one) or {} for one in native] if isinstance(native, list | tuple) else []
    if named not in [one.get("name") for one in listed]:
        text = f"no function named '{named}' was specified in the 'functions' parameter."
        yield error("tool_choice_name", None, "function_call", f"Invalid value for 'function_call': {text}")


def _name(tool: object) -> str | None:
    """The name of a tool, defined or chosen."""
    native = mapping_or_none(tool) or {}
    kind = native.get("type", "function")
    body = mapping_or_none(native.get(kind)) if isinstance(kind, str) else None
    return string_of(body or {}, "name")


def json_word(request: ChatRequest) -> Iterator[Violation]:
    """C13: who asks for a JSON object says so in the messages."""
    wanted = mapping_or_none(request.body.get("response_format")) or {}
    if wanted.get("type") != "json_object" or any("json" in text.casefold() for text in _words(request)):
        return
    text = "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'."
    yield error("json_word", None, "messages", text)


def _words(request: ChatRequest) -> Iterator[str]:
    if isinstance(system := request.body.get("system"), str):
        yield system
    for _, message in request.messages:
        if isinstance(content := message.get("content"), str):
            yield content
        for _, block in blocks(message):
            if isinstance(text := block.get("text"), str):
                yield text


def unknown_keys(request: ChatRequest) -> Iterator[Violation]:
    """C15: OpenAI refuses keys that it does not know; others take their own."""
    known = _MESSAGE_KEYS if request.gpt is not None else _MESSAGE_KEYS | _DIALECT_KEYS
    for key in request.body:
        if key not in _REQUEST_KEYS and key not in _NOT_SENT:
            yield warn("unknown_key", None, str(key), f"Unknown parameter: '{key}'.")
    for index, message in request.messages:
        for key, value in message.items():
            if key not in known and value is not None:
                path = f"messages[{index}].{key}"
                yield warn("unknown_key", index, path, f"Unknown parameter: '{path}'.")


def cache_keys(request: ChatRequest) -> Iterator[Violation]:
    """C17: a cache key has at most 64 characters; each generation of models takes its own cache options."""
    key = request.body.get(path := "prompt_cache_key")
    if isinstance(key, str) and len(key) > CACHE_KEY_MAX:
        yield error("cache_key_length", None, path, length_text(path, CACHE_KEY_MAX, len(key)))
    if request.gpt is None:
        return
    if request.gpt >= (5, 5) and request.body.get("prompt_cache_retention") == "in_memory":
        text = "This model is compatible only with 24h extended prompt caching"
        yield error("cache_retention", None, "prompt_cache_retention", text)
    if request.gpt >= (5, 6):
        return
    if request.body.get("prompt_cache_options") is not None:
        text = "Unknown parameter: 'prompt_cache_options'."
        yield error("cache_options", None, "prompt_cache_options", text)
    for index, message in request.messages:
        for place, block in blocks(message):
            if block.get(BREAKPOINT) is not None:
                path = f"messages[{index}].content[{place}].prompt_cache_breakpoint"
                yield error("cache_options", index, path, f"Unknown parameter: '{path}'.")


def reasoning_bytes(request: ChatRequest) -> Iterator[Violation]:
    """Reasoning goes back as it came or not at all: signed blocks are checked, and some dialects check text too."""
    if request.before is None:
        return
    known = {value for _, message in request.before.messages for value in reasoning_in(message)}
    for index, message in request.messages:
        for path, value, signed in _reasoning(message):
            if _bytes(value) not in known:
                told = error if signed else warn
                where = f"messages[{index}].{path}"
                yield told(
                    "reasoning_changed", index, where, f"Invalid '{where}': reasoning must be returned unmodified."
                )


def reasoning_in(message: Mapping[str, Any]) -> Iterator[str]:
    """Each piece of reasoning in a message, in the spelling by which it is compared."""
    return (_bytes(value) for _, value, _ in _reasoning(message))


def _reasoning(message: Mapping[str, Any]) -> Iterator[tuple[str, Any, bool]]:
    """Each piece of reasoning in a message: its path, its value, whether it is signed."""
    for key in REASONING_BLOCKS:
        native = message.get(key)
        for place, block in enumerate(native if isinstance(native, list | tuple) else ()):
            fields = mapping_or_none(block) or {}
            signed = fields.get("signature") is not None or fields.get("data") is not None
            yield f"{key}[{place}]", fields or block, signed
    for key in REASONING_TEXTS:
        if (value := message.get(key)) is not None:
            yield key, value, False
    for place, call in calls(message):
        extra = mapping_or_none(call.get("extra_content")) or {}
        google = mapping_or_none(extra.get("google")) or {}
        if google.get("thought_signature") is not None:
            yield f"tool_calls[{place}]", [google["thought_signature"], call.get("function")], True


def _bytes(value: object) -> str:
    """A JSON value in the one spelling by which it is compared."""
    try:
        return json.dumps(value, sort_keys=True, default=repr)
    except (TypeError, ValueError, RecursionError):
        return repr(type(value))


RULES: tuple[Rule[ChatRequest], ...] = (
    messages_present, role, content_required, content_type, media_role, tool_calls, call_ids, call_bodies, strings,
    rounds, tools, tool_choice, function_call, json_word, cache_keys, reasoning_bytes, unknown_keys,
)  # fmt: skip
"""Each looks at the whole request and yields what it finds wrong."""


_SYSTEM = ("system", "developer")
_SPEAKING = ("user", "assistant")

DialectRule = Callable[[ChatRequest, Dialect], Iterator[Violation]]


def developer(request: ChatRequest, dialect: Dialect) -> Iterator[Violation]:
    """The role ``developer`` is OpenAI's own."""
    if dialect.developer_role:
        return
    for index, message in request.messages:
        if message.get("role") == "developer":
            text = f"messages[{index}].role: unknown variant `developer`, expected one of `system`, `user`, "
            yield error("dialect_role", index, f"messages[{index}].role", f"{text}`assistant`, `tool`")


def reasoning(request: ChatRequest, dialect: Dialect) -> Iterator[Violation]:
    """A message with calls brings its reasoning along: in the current turn, or everywhere."""
    bodies = (request.body, mapping_or_none(request.body.get("extra_body")) or {})
    disabled = any((mapping_or_none(body.get("thinking")) or {}).get("type") == "disabled" for body in bodies)
    if dialect.reasoning_needed is None or disabled:
        return
    latest = max((index for index, message in request.messages if message.get("role") == "user"), default=-1)
    for index, message in request.messages:
        thought = string_of(message, "reasoning_content")
        brings = thought is not None and len(thought) >= len(dialect.no_reasoning)
        if brings or not any(True for _ in calls(message)):
            continue
        told = error if dialect.keep_reasoning == "all" or index > latest else warn
        path = f"messages[{index}].reasoning_content"
        yield told("dialect_reasoning", index, path, dialect.reasoning_needed.format(index=index))


def empty_content(request: ChatRequest, dialect: Dialect) -> Iterator[Violation]:
    """Beside calls, content that is empty is null."""
    if not dialect.null_content_with_calls:
        return
    for index, message in request.messages:
        if message.get("content") == "" and any(True for _ in calls(message)):
            path = f"messages[{index}].content"
            text = f"Invalid assistant message: '{path}' beside tool_calls must be null or hold text"
            yield error("dialect_empty_content", index, path, text)


def ids(request: ChatRequest, dialect: Dialect) -> Iterator[Violation]:
    """The ids of calls are spelled as the dialect wants them, in calls and in results."""
    if (pattern := dialect.id_pattern) is None:
        return
    for index, message in request.messages:
        named = [(f"messages[{index}].tool_calls[{place}].id", call.get("id")) for place, call in calls(message)]
        if message.get("role") == "tool":
            named.append((f"messages[{index}].tool_call_id", message.get("tool_call_id")))
        for path, identity in named:
            if isinstance(identity, str) and not pattern.fullmatch(identity):
                text = f"Tool call id was {identity} but must be a-z, A-Z, 0-9, with a length of {dialect.id_max}."
                yield error("dialect_id", index, path, text)


def unique(request: ChatRequest, dialect: Dialect) -> Iterator[Violation]:
    """A call id occurs once."""
    if not dialect.unique_ids:
        return
    seen: set[str] = set()
    for index, message in request.messages:
        for place, call in calls(message):
            if isinstance(identity := call.get("id"), str):
                if identity in seen:
                    path = f"messages[{index}].tool_calls[{place}].id"
                    text = "invalid params, tool call result does not follow tool call (2013)"
                    yield error("dialect_id_repeated", index, path, text)
                seen.add(identity)


def counted(request: ChatRequest, dialect: Dialect) -> Iterator[Violation]:
    """Over the whole history there are as many results of each id as calls."""
    if not dialect.counts_results:
        return
    asked: Counter[str] = Counter()
    for _, message in request.messages:
        if message.get("role") == "tool" and isinstance(answered := message.get("tool_call_id"), str):
            asked[answered] -= 1
        asked.update(identity for _, call in calls(message) if isinstance(identity := call.get("id"), str))
    if any(asked.values()):
        yield error("dialect_counted", None, "messages", "Not the same number of function calls and responses")


def after_tool(request: ChatRequest, dialect: Dialect) -> Iterator[Violation]:
    """The user does not speak directly after a result."""
    last: object = None
    for index, message in request.messages:
        role = message.get("role")
        if not dialect.user_after_tool and (last, role) == ("tool", "user"):
            text = "Unexpected role 'user' after role 'tool'"
            yield error("dialect_user_after_tool", index, f"messages[{index}].role", text)
        last = role


def last_word(request: ChatRequest, dialect: Dialect) -> Iterator[Violation]:
    """The model does not have the last word, unless it shall go on with it."""
    index, message = request.messages[-1] if request.messages else (0, {})
    if dialect.assistant_last or message.get("role") != "assistant" or message.get("prefix") is True:
        return
    text = "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant"
    yield error("dialect_last_role", index, f"messages[{index}].role", text)


def alternation(request: ChatRequest, dialect: Dialect) -> Iterator[Violation]:
    """User and assistant take turns; whether that has to be is up to the model's template."""
    if not dialect.alternation:
        return
    last = "assistant"
    for index, message in request.messages:
        role = message.get("role")
        if role in _SPEAKING:
            if role == last or (role == "user" and last == "tool"):
                text = "Conversation roles must alternate user/assistant/user/assistant/..."
                yield warn("dialect_alternation", index, f"messages[{index}].role", text)
            last = role
        elif role == "tool":
            last = role


def system_first(request: ChatRequest, dialect: Dialect) -> Iterator[Violation]:
    """System messages stand at the beginning; whether that has to be is up to the model's template."""
    if not dialect.system_first_only:
        return
    begun = False
    for index, message in request.messages:
        if message.get("role") not in _SYSTEM:
            begun = True
        elif begun:
            text = "System message must be at the beginning."
            yield warn("dialect_system_first", index, f"messages[{index}].role", text)


_DIALECT_RULES: tuple[DialectRule, ...] = (
    developer, reasoning, empty_content, ids, unique, counted, after_tool, last_word, alternation, system_first,
)  # fmt: skip


def violations(
    wire: WireFormat, request: Mapping[str, Any], profile: ModelProfile | None, before: Mapping[str, Any] | None
) -> tuple[Violation, ...]:
    """Return every rule that the request breaks, those of the request as a whole last; those of its dialect, too."""
    model = None if profile is None else profile.family
    origin = None if before is None else opened(before, model)
    found = checked(RULES, opened(request, model, origin))
    if not isinstance(wire, ChatDialect):
        return in_order(found, whole="last")
    held = (each for each in found if wire.spoken.shortens_ids or each.rule != "chat.call_id_length")
    model = model or string_of(request, "model")
    view, dialect = opened(request, model), wire.spoken.of_model(model)
    own = (violation for rule in _DIALECT_RULES for violation in rule(view, dialect))
    return in_order((*held, *own), whole="last")
