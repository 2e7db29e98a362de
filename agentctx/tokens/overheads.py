"""What costs tokens beside text: tools, and blocks that are not understood."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from agentctx.core.message import Tool, without_marker
from agentctx.models.names import JSON_TOOLS, SHORT_TOOLS
from agentctx.models.profile import ModelProfile
from agentctx.wire_format import TokenOverheads


def serialise(value: object) -> str:
    """``value`` as compact JSON; what JSON cannot hold as Python writes it."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)
    except (TypeError, ValueError, RecursionError):
        return _as_python(value)


def _as_python(value: object) -> str:
    try:
        return repr(value)
    except RecursionError:  # nested deeper than Python can go: its strings, and its other values as one sign each
        return "".join(_leaves(value))


def _leaves(value: object) -> Iterator[str]:
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, (Mapping, list, tuple)):
            yield "[]"
            if id(each) not in seen:
                seen.add(id(each))
                waiting.extend(_both(each) if isinstance(each, Mapping) else each)
        else:
            yield "0"


def _plain(value: object) -> object:
    """Mappings and SDK objects (pydantic models) as dicts, bytes as base64, the rest as text."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (bytes, bytearray)):
        return b64encode(value).decode("ascii")
    dump = getattr(value, "model_dump", None)
    return dump(exclude_unset=True) if callable(dump) else str(value)


def characters(value: object) -> int:
    """About how many characters ``serialise`` would make of ``value``, without making them."""
    total, open_values = 0, [value]
    while open_values:
        each = open_values.pop()
        if isinstance(each, (str, bytes, bytearray)):
            total += len(each) + 2
        elif isinstance(each, Mapping):
            total += 2
            open_values.extend(_both(each))
        elif isinstance(each, (list, tuple)):
            total += 2  # so that this ends with a value that contains itself, too
            open_values.extend(each)
        else:
            total += 8
        if total > ENOUGH:
            return total
    return total


def _both(mapping: Mapping[Any, Any]) -> Iterable[object]:
    yield from mapping.keys()
    yield from mapping.values()


ENOUGH = 1_000_000
"""Where ``characters`` stops counting: it is far more than anyone would count without a thread."""


Count = Callable[[str], int]

TOOL_START = 7
"""Tokens that open a tool; 10 for models on cl100k_base."""
TOOL_START_CL100K = 10
PROPERTIES_START = 3
PROPERTY = 3
ENUM_START = -3
ENUM_ITEM = 3
TOOLS_END = 12
"""Tokens that close the list of tools, once."""

_NESTED = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_CHOICES = ("anyOf", "oneOf", "allOf", "prefixItems")
_DEFINITIONS = ("$defs", "definitions", "patternProperties", "dependentSchemas")
# Told by the form itself, or not told to the model at all.
_SILENT = frozenset({"type", "description", "enum", "properties", "required", "title", "strict", "$schema", "$id"})
_KNOWN = _SILENT.union(_NESTED, _CHOICES, _DEFINITIONS)


def openai_tools(tools: tuple[Tool, ...], count: Count, start: int = TOOL_START) -> int:
    """Tokens of the tools in OpenAI's form; 0 for none."""
    return sum(start + _openai_tool(tool, count) for tool in tools) + (TOOLS_END if tools else 0)


def json_tools(tools: tuple[Tool, ...], count: Count) -> int:
    """Tokens of the tools where the model is shown their JSON schema; 0 for none."""
    return sum(TOOL_START + _json_tool(tool, count) for tool in tools)


def _openai_tool(tool: Tool, count: Count) -> int:
    if not tool.name:  # a server tool: nothing is known of it but its definition
        return count(serialise(without_marker(tool.source)))
    return count(f"{tool.name}:{tool.description.rstrip('.')}") + _schema(tool.parameters or {}, count)


def _json_tool(tool: Tool, count: Count) -> int:
    for kind, tokens in SERVER_TOOLS:
        if _type_of(tool).startswith(kind):
            return tokens
    if not tool.name or tool.parameters is None:
        return (
            count(serialise(without_marker(tool.source)))
            if tool.source is not None
            else count(tool.name + tool.description)
        )
    return count(tool.name) + count(tool.description) + count(serialise(tool.parameters))


SERVER_TOOLS = (("bash_", 325), ("text_editor_", 700), ("computer_", 4500), ("memory_", 1050))
"""Tools whose definition Anthropic holds, by the start of their type, with the tokens that they cost.

That of memory is what a recorded call with it alone cost beside its words and the surcharge for tools."""


def _type_of(tool: Tool) -> str:
    kind = tool.source.get("type") if isinstance(tool.source, Mapping) else None
    return kind if isinstance(kind, str) else ""


def _schema(schema: Mapping[str, Any], count: Count) -> int:
    """Tokens of a schema's insides: its properties, the schemas within it, and what else it says."""
    total = 0
    open_schemas = [schema]
    while open_schemas:
        each = open_schemas.pop()
        properties = each.get("properties")
        if isinstance(properties, Mapping) and properties:
            total += PROPERTIES_START
            for key, value in properties.items():
                body = value if isinstance(value, Mapping) else {}
                total += PROPERTY + _heading(str(key), body, count)
                open_schemas.append(body)
        for inner in _within(each):
            total += _heading("", inner, count)
            open_schemas.append(inner)
        total += sum(count(f"{key}:{_text(value)}") for key, value in each.items() if key not in _KNOWN)
    return total


def _heading(key: str, schema: Mapping[str, Any], count: Count) -> int:
    """Tokens of a schema's own line: key, type, description, and the values to choose from."""
    enum = schema.get("enum")
    choices = ENUM_START + sum(ENUM_ITEM + count(_text(item)) for item in enum) if isinstance(enum, list) else 0
    description = _text(schema.get("description", "")).rstrip(".")
    return choices + count(f"{key}:{_text(schema.get('type', '')).lower()}:{description}")


def _within(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The schemas directly within one, but for its properties."""
    yield from (schema[key] for key in _NESTED if isinstance(schema.get(key), Mapping))
    for key in _CHOICES:
        if isinstance(schema.get(key), list):
            yield from (each for each in schema[key] if isinstance(each, Mapping))
    for key in _DEFINITIONS:
        if isinstance(schema.get(key), Mapping):
            yield from (each for each in schema[key].values() if isinstance(each, Mapping))


def _text(value: object) -> str:
    return value if isinstance(value, str) else serialise(value)


def shows_schemas(overheads: TokenOverheads, profile: ModelProfile | None) -> bool:
    """Whether a model is shown its tools as JSON schemas: that is the model's way, whatever format they come in.

    The format's ``overheads`` decide where the model's family is not known.
    """
    if profile is not None and SHORT_TOOLS.match(profile.family):
        return False
    return bool(profile and JSON_TOOLS.match(profile.family)) or overheads.schema_as_json
