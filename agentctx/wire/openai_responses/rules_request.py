"""Rules of the Responses API about the request as a whole."""

from __future__ import annotations

from collections.abc import Iterator

from agentctx.core.violation import Violation
from agentctx.wire.native import mapping_or_none
from agentctx.wire.openai_responses.rules_items import function_name, words
from agentctx.wire.openai_responses.view import Request, broken, too_long, wrong_type

CACHE_KEY_MAX = 64


def chain(request: Request) -> Iterator[Violation]:
    """R8: a request goes on from a response or from a conversation, not from both."""
    body = request.body
    if body.get("previous_response_id") is not None and body.get("conversation") is not None:
        text = "Mutually exclusive parameters: 'previous_response_id' and 'conversation'."
        yield broken("chain_conflict", None, "previous_response_id", text)


def json_word(request: Request) -> Iterator[Violation]:
    """R13: who asks for a JSON object says so in the input."""
    text = mapping_or_none(request.body.get("text")) or {}
    wanted = mapping_or_none(text.get("format")) or {}
    if wanted.get("type") != "json_object" or any("json" in said.casefold() for said in words(request)):
        return
    told = (
        "Response input messages must contain the word 'json' in some form to use 'text.format' of type 'json_object'."
    )
    yield broken("json_word", None, "input", told)


def tools(request: Request) -> Iterator[Violation]:
    """Tools are objects with a type; functions have legal names."""
    native = request.body.get("tools")
    if native is None:
        return
    if not isinstance(native, (list, tuple)):
        yield wrong_type("tools_type", None, "tools", "an array of objects", native)
        return
    for place, tool in enumerate(native):
        data = mapping_or_none(tool)
        if data is None:
            yield wrong_type("tools_type", None, f"tools[{place}]", "an object", tool)
        elif not isinstance(data.get("type"), str):
            # A warning: clients keep tool definitions in forms of their own, and send them in another.
            path = f"tools[{place}].type"
            yield broken("tool_type", None, path, f"Missing required parameter: '{path}'.", "warn")
        elif data["type"] in {"function", "custom"}:
            yield from function_name(data.get("name"), None, f"tools[{place}].name")


def tool_choice(request: Request) -> Iterator[Violation]:
    """What ``tool_choice`` names is among the tools."""
    choice = mapping_or_none(request.body.get("tool_choice")) or {}
    listed = choice.get("tools") if choice.get("type") == "allowed_tools" else [choice]
    for each in listed if isinstance(listed, (list, tuple)) else ():
        name = (mapping_or_none(each) or {}).get("name")
        if isinstance(name, str) and name not in set(_names(request.body.get("tools"))):
            text = f"Tool choice '{name}' not found in 'tools' parameter."
            yield broken("tool_choice_name", None, "tool_choice", text)


def _names(native: object) -> Iterator[str]:
    """The names of tools, with those within namespaces."""
    for tool in native if isinstance(native, (list, tuple)) else ():
        data = mapping_or_none(tool) or {}
        if isinstance(name := data.get("name"), str):
            yield name
        if data.get("type") == "namespace":
            yield from _names(data.get("tools"))


def cache_key(request: Request) -> Iterator[Violation]:
    """A cache key has at most 64 characters."""
    key = request.body.get("prompt_cache_key")
    if isinstance(key, str) and len(key) > CACHE_KEY_MAX:
        yield too_long("cache_key_length", None, "prompt_cache_key", CACHE_KEY_MAX, len(key))
