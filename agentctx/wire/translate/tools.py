"""Tool definitions in another format's shape.

A tool that its provider runs, or whose shape only its provider's models know, has no counterpart and goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agentctx.core.message import Tool
from agentctx.wire.native import fields_or_none
from agentctx.wire.translate.ids import Respelling

Schema = Mapping[str, Any]

_NOTHING: Schema = {"type": "object", "properties": {}}
_FREE_TEXT: Schema = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "The input as plain text."}},
    "required": ["input"],
}
_DEFINED = frozenset({"functionDeclarations", "function_declarations", "toolSpec", "input_schema", "parameters"})
"""Keys of which each definition has one that is not told by its type."""


def translated(tools: Iterable[Tool], format_name: str, names: Respelling) -> tuple[list[Any], list[str]]:
    """Tool definitions as a format writes them, and the names of those that have no counterpart.

    Args:
        tools: The tools as they were read.
        format_name: Name of the format, with its dialect if it has one.
        names: How their names are spelled there.
    """
    write = _WRITERS[format_name.partition("/")[0]]
    made, lost = [], []
    for tool in tools:
        schema = schema_of(tool)
        if schema is None:
            lost.append(tool.name or _kind(tool))
        else:
            made.append(write(names.of(tool.name), tool, schema))
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


def _lowered(schema: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(schema, (list, tuple)):
        return [_lowered(each) for each in schema]
    if (fields := fields_or_none(schema)) is None:
        return schema
    found = {key: _property(key, value) for key, value in fields.items() if key != "nullable"}
    if fields.get("nullable") is True and isinstance(kind := found.get("type"), str):
        found["type"] = [kind, "null"]
    return found


def _property(key: str, value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if key == "type" and isinstance(name := getattr(value, "value", value), str):
        return name.lower()
    if key in {"properties", "defs", "$defs"} and (named := fields_or_none(value)) is not None:
        return {name: _lowered(each) for name, each in named.items()}
    return value if key in {"enum", "required", "example", "default"} else _lowered(value)


def _strict(tool: Tool) -> bool:
    source = fields_or_none(tool.source) or {}
    body = fields_or_none(source.get("function")) or source
    return body.get("strict") is True


def _described(tool: Tool) -> dict[str, str]:
    return {"description": tool.description} if tool.description else {}


def _chat(name: str, tool: Tool, schema: Schema) -> Any:  # noqa: ANN401 - a native definition
    function = {"name": name, **_described(tool), "parameters": schema}
    return {"type": "function", "function": {**function, "strict": True} if _strict(tool) else function}


def _responses(name: str, tool: Tool, schema: Schema) -> Any:  # noqa: ANN401 - as _chat
    """The Responses API reads a definition that says nothing of it as a strict one."""
    return {"type": "function", "name": name, **_described(tool), "parameters": schema, "strict": _strict(tool)}


def _anthropic(name: str, tool: Tool, schema: Schema) -> Any:  # noqa: ANN401 - as _chat
    return {"name": name, **_described(tool), "input_schema": schema}


def _gemini(name: str, tool: Tool, schema: Schema) -> Any:  # noqa: ANN401 - as _chat
    declared = {"name": name, "description": tool.description or name, "parametersJsonSchema": schema}
    return {"functionDeclarations": [declared]}


def _bedrock(name: str, tool: Tool, schema: Schema) -> Any:  # noqa: ANN401 - as _chat
    return {"toolSpec": {"name": name, **_described(tool), "inputSchema": {"json": schema}}}


_WRITERS: Mapping[str, Callable[[str, Tool, Schema], Any]] = {
    "openai-chat": _chat,
    "openai-responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "bedrock": _bedrock,
}
