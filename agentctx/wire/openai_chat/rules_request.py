"""Rules of Chat Completions about the request as a whole: tools, words that are needed, keys, reasoning."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from agentctx.core.violation import Violation
from agentctx.wire.native import mapping_or_none
from agentctx.wire.openai_chat.read import REASONING_BLOCKS, REASONING_TEXTS
from agentctx.wire.openai_chat.rules_message import function_name
from agentctx.wire.openai_chat.view import (
    ChatRequest,
    blocks,
    calls,
    empty_array,
    error,
    too_long,
    too_many,
    warn,
    wrong_type,
)

TOOLS_MAX = 128
CACHE_KEY_MAX = 64

# Keys of openai 3.52, completion_create_params.py and the message params; the second line of each is dialects'.
_MESSAGE_KEYS = frozenset(
    {"role", "content", "name", "tool_calls", "tool_call_id", "function_call", "refusal", "audio", "annotations"}
)
_DIALECT_KEYS = frozenset({*REASONING_BLOCKS, *REASONING_TEXTS, "cache_control", "prefix", "partial"})
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
        yield warn("tools_empty", None, "tools", empty_array("tools_empty", None, "tools").message)
    if len(native) > TOOLS_MAX:
        yield too_many("tools_too_many", None, "tools", TOOLS_MAX, len(native))
    for place, tool in enumerate(native):
        definition = mapping_or_none(tool)
        if definition is None:
            yield wrong_type("tools_type", None, f"tools[{place}]", "an object", tool)
        elif definition.get("type", "function") == "function":
            body = mapping_or_none(definition.get("function")) or {}
            yield from function_name(body.get("name"), None, f"tools[{place}].function.name")


def tool_choice(request: ChatRequest) -> Iterator[Violation]:
    """C14: what ``tool_choice`` names is among the tools; without tools there is nothing to choose."""
    choice, native = request.body.get("tool_choice"), request.body.get("tools")
    if choice is None:
        return
    if not native:
        text = "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
        yield error("tool_choice_without_tools", None, "tool_choice", text)
        return
    listed = {_name(tool) for tool in native} if isinstance(native, list | tuple) else set()
    for named in _chosen(choice):
        if named not in listed:
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
    name = (body or {}).get("name")
    return name if isinstance(name, str) else None


def _chosen(choice: object) -> Iterator[str]:
    """The names of the tools that a ``tool_choice`` names."""
    native = mapping_or_none(choice) or {}
    allowed = (mapping_or_none(native.get("allowed_tools")) or {}).get("tools")
    for one in [native, *(allowed if isinstance(allowed, list | tuple) else ())]:
        if (named := _name(one)) is not None:
            yield named


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
    key = request.body.get("prompt_cache_key")
    if isinstance(key, str) and len(key) > CACHE_KEY_MAX:
        yield too_long("cache_key_length", None, "prompt_cache_key", CACHE_KEY_MAX, len(key))
    if request.gpt is None:
        return
    if request.gpt >= (5, 5) and request.body.get("prompt_cache_retention") == "in_memory":
        text = "This model is compatible only with 24h extended prompt caching"
        yield error("cache_retention", None, "prompt_cache_retention", text)
    if request.gpt < (5, 6):
        yield from _new_cache_keys(request)


def _new_cache_keys(request: ChatRequest) -> Iterator[Violation]:
    if request.body.get("prompt_cache_options") is not None:
        text = "Unknown parameter: 'prompt_cache_options'."
        yield error("cache_options", None, "prompt_cache_options", text)
    for index, message in request.messages:
        for place, block in blocks(message):
            if block.get("prompt_cache_breakpoint") is not None:
                path = f"messages[{index}].content[{place}].prompt_cache_breakpoint"
                yield error("cache_options", index, path, f"Unknown parameter: '{path}'.")


def reasoning_bytes(request: ChatRequest) -> Iterator[Violation]:
    """Reasoning goes back as it came or not at all: signed blocks are checked, and some dialects check text too."""
    if request.before is None:
        return
    known = {_bytes(value) for _, message in request.before.messages for _, value, _ in _reasoning(message)}
    for index, message in request.messages:
        for path, value, signed in _reasoning(message):
            if _bytes(value) not in known:
                told = error if signed else warn
                where = f"messages[{index}].{path}"
                yield told(
                    "reasoning_changed", index, where, f"Invalid '{where}': reasoning must be returned unmodified."
                )


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
