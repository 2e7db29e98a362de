"""The definitions of tools, as any format can write them: those of functions, with a JSON schema of their arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import evolve

from agentctx.core.message import Native, Tool
from agentctx.providers.native import fields_or_none
from agentctx.providers.spelling import Respelling
from agentctx.wire_format import WireFormat

Schema = Mapping[str, Any]

_NOTHING: Schema = {"type": "object", "properties": {}}
_FREE_TEXT: Schema = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "The input as plain text."}},
    "required": ["input"],
}
_DEFINED = frozenset({"functionDeclarations", "function_declarations", "toolSpec", "input_schema", "parameters"})
"""Keys of which each definition has one that is not told by its type."""


def translated(tools: Iterable[Tool], wire: WireFormat, names: Respelling) -> tuple[list[Any], list[str]]:
    """Tool definitions as a format writes them, and the names of those that have no counterpart."""
    made: list[Any] = []
    lost: list[str] = []
    for tool in tools:
        schema = schema_of(tool)
        if schema is None:
            lost.append(tool.name or _kind(tool))
        else:
            made.append(wire.write_tool(evolve(tool, name=names.of(tool.name), parameters=schema)))
    return made, lost


def placeholder(name: str) -> Tool:
    """A tool that is called in the history and not on offer any more."""
    return Tool(name, "Not available any more.", _NOTHING)


def schema_of(tool: Tool) -> Schema | None:
    """The JSON schema of a tool's arguments; None when the tool is no function of the caller's."""
    source = fields_or_none(tool.source) or {}
    if not tool.name or not _is_function(tool, source):
        return None
    if source.get("type") == "custom" and "input_schema" not in source:
        return _FREE_TEXT
    if tool.parameters is None:
        return _NOTHING
    return _lower(tool.parameters) if _is_google(source) else _object(tool.parameters)


def _is_function(tool: Tool, source: Mapping[str, Any]) -> bool:
    """Whether the caller runs it, and its definition says all of it."""
    return tool.source is None or source.get("type") in ("function", "custom") or not _DEFINED.isdisjoint(source)


def _kind(tool: Tool) -> str:
    source = fields_or_none(tool.source) or {}
    kind = source.get("type")
    return kind if isinstance(kind, str) else next(iter(source), "tool")


def _is_google(source: Mapping[str, Any]) -> bool:
    return "functionDeclarations" in source or "function_declarations" in source


def _object(schema: Schema) -> Schema:
    """The schema; an object's where it does not say so."""
    return schema if schema.get("type") == "object" else {**schema, "type": "object"}


def _lower(schema: Schema) -> Schema:
    """Gemini's own dialect of OpenAPI schemas as JSON schema: types in small letters, null as a type."""
    return _object(_lowered(schema))


def _lowered(schema: object) -> Native:
    if isinstance(schema, (list, tuple)):
        return [_lowered(each) for each in schema]
    if (fields := fields_or_none(schema)) is None:
        return schema
    found = {key: _property(key, value) for key, value in fields.items() if key != "nullable"}
    if fields.get("nullable") is True and isinstance(kind := found.get("type"), str):
        found["type"] = [kind, "null"]
    return found


def _property(key: str, value: object) -> Native:
    if key == "type" and isinstance(name := getattr(value, "value", value), str):
        return name.lower()
    if key in {"properties", "defs", "$defs"} and (named := fields_or_none(value)) is not None:
        return {name: _lowered(each) for name, each in named.items()}
    return value if key in {"enum", "required", "example", "default"} else _lowered(value)


def is_strict(tool: Tool) -> bool:
    """Whether a definition says that the model has to keep to it."""
    source = fields_or_none(tool.source) or {}
    body = fields_or_none(source.get("function")) or source
    return body.get("strict") is True
