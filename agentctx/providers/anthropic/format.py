"""The Anthropic Messages format, read and written without loss.

Source: https://docs.anthropic.com/en/api/messages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set as AbstractSet
from typing import Any

from attrs import evolve, frozen

from agentctx.core.message import Message, Native, Tool
from agentctx.core.report import View
from agentctx.errors import InvalidInput
from agentctx.lazy import lazy_pattern
from agentctx.models.profile import ModelProfile
from agentctx.providers.adapter import Adapter, Body, RequestParts, get
from agentctx.providers.anthropic.messages import (
    IDS,
    REASONING,
    ROLES,
    clearing_options,
    freed,
    place_system,
    read_message,
    read_system,
    read_tools,
    repair,
    traits,
    write_content,
    write_message,
)
from agentctx.providers.cache_markers import CONTROL_MARKERS
from agentctx.providers.native import ALSO, PDF, PICTURES, mapping_or_none
from agentctx.wire_format import Capabilities, TokenOverheads, WireFormat

_POSSIBLE = 1
_HINT = 1
_LIKELY = 2
_SURE = 5

_OWN_KEYS = ("anthropic_version", "anthropic_beta", "betas", "thinking", "stop_sequences", "mcp_servers", "top_k")
_FOREIGN_KEYS = ("contents", "input", "modelId", "toolConfig", "inferenceConfig", "response_format")
_FOREIGN_MESSAGE_KEYS = ("tool_calls", "tool_call_id", "function_call")
_OWN_BLOCKS = frozenset(
    {"tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document", "search_result"}
    | {"container_upload", "compaction", "tool_addition", "tool_removal", "mcp_tool_listing", "fallback"}
)
_DATED = re.compile(r"_\d{8}\Z")


def recognise(request: Mapping[str, Any]) -> int:
    """0 when it cannot be this format, 1 when nothing speaks against it, more with every specific sign."""
    messages = request.get("messages")
    if not isinstance(messages, (list, tuple)) or any(request.get(key) is not None for key in _FOREIGN_KEYS):
        return 0
    system, tools = _system(request.get("system")), _tools(request.get("tools"))
    if system is None or tools is None:
        return 0
    signs = system + tools + _HINT * ("claude" in str(request.get("model")))
    signs += _LIKELY * any(request.get(key) is not None for key in _OWN_KEYS)
    for message in messages:
        sign = _message(message)
        if sign is None:
            return 0
        if sign:
            return _POSSIBLE + signs + sign
    return _POSSIBLE + signs


def _system(system: object) -> int | None:
    """What the system prompt says of the format; None when it rules this format out."""
    if system is None:
        return 0
    if isinstance(system, (list, tuple)):
        typed = all((block := mapping_or_none(item)) is not None and "type" in block for item in system)
        return _LIKELY if typed else None
    return _LIKELY


def _tools(tools: object) -> int | None:
    if not isinstance(tools, (list, tuple)) or not tools:
        return 0
    tool = mapping_or_none(tools[0])
    if tool is None or "function" in tool or "toolSpec" in tool or "functionDeclarations" in tool:
        return None
    if "input_schema" in tool or _DATED.search(str(tool.get("type"))):
        return _SURE
    return None if tool.get("type") == "function" else 0


def _message(native: object) -> int | None:
    message = mapping_or_none(native)
    if message is None or message.get("role") not in ROLES:
        return None
    if any(message.get(key) is not None for key in _FOREIGN_MESSAGE_KEYS):
        return None
    content = message.get("content")
    return _content(content) if isinstance(content, (list, tuple)) else 0


def _content(blocks: list[Any] | tuple[Any, ...]) -> int | None:
    for item in blocks:
        block = mapping_or_none(item)
        kind = None if block is None else block.get("type")
        if not isinstance(kind, str):
            return None
        if kind in _OWN_BLOCKS or kind.endswith(("_tool_use", "_tool_result")):
            return _SURE
        if kind != "text":
            return None
    return 0


_MEDIA = {"image": PICTURES, "document": PDF}


@frozen
class Anthropic(WireFormat):
    """The Anthropic Messages format."""

    name = "anthropic"
    provider = "anthropic"
    other_names = ("claude", "vertex")
    roles = frozenset(ROLES)
    system_apart = True
    merges_turns = True
    unique_ids = True
    answers_server_calls = True
    minds_the_end = True
    wants_reasoning_back = True
    cache_markers = CONTROL_MARKERS
    # Estimates: 3 to 5 tokens a message were seen; calls and results stand in markup. The surcharge for having tools at
    # all is published and stands in the model table.
    overheads = TokenOverheads(message=4, call=12, result=8, schema_as_json=True)
    keys_taken = frozenset(
        {"role", "content", "text", "id", "name", "input", "tool_use_id", "is_error", "source", "media_type", "data"}
        | {"url", "file_id"}
    )

    overflow_words = lazy_pattern(r"exceed context limit:|prompt is too long: \d+ tokens >")
    error_words = lazy_pattern(r"exceed context limit:|prompt is too long: \d+ tokens >|request_too_large")

    def usual_for(self, family: str, /) -> int:
        """Claude's own."""
        return 3 if "claude" in family else 0

    recognises = staticmethod(recognise)
    repair = staticmethod(repair)
    arrange_for = staticmethod(place_system)
    numbered = staticmethod(IDS.numbered)
    read_message = staticmethod(read_message)
    read_system = staticmethod(read_system)
    read_tools = staticmethod(read_tools)
    write_message = staticmethod(write_message)
    clearing_options = staticmethod(clearing_options)

    def without_callers(self, message: Message, callers: AbstractSet[str], /) -> Message:
        """The message with no word of these callers: what they called, the model called itself."""
        return message.with_parts(tuple(freed(part, callers) for part in message.parts))

    def capabilities(self, model: str | None, profile: ModelProfile | None, /) -> Capabilities:
        """What it can say to a model: system messages in the middle only where the model takes them."""
        return Capabilities(
            system_between="system" if traits(model, profile).system_in_messages else "user",
            user_first=True,
            in_user=_MEDIA,
            in_results=_MEDIA,
            by_url=frozenset({"image", "document"}),
            names_files="title",
            also=ALSO,
        )

    def write_system(self, system: Message, /) -> Native:
        """The system prompt as a string, or as blocks."""
        return write_content(system.parts)

    def write_tool(self, tool: Tool, /) -> Native:
        """A tool of the caller's as a definition."""
        said = {"description": tool.description} if tool.description else {}
        return {"name": tool.name, **said, "input_schema": tool.parameters}


_BEFORE_CONTENT = frozenset({"message_start", "ping"})
_EMPTY_AT_FIRST = frozenset({"text", "thinking", "tool_use", "server_tool_use", "mcp_tool_use"})


@frozen
class Messages(Adapter):
    """``POST /v1/messages``, as Anthropic's SDK sends and answers it. Betas among the options belong into a header."""

    format = "anthropic"
    system_key = "system"

    def read(self, body: Body, /) -> RequestParts | None:
        """Messages, system prompt, tools and model."""
        if body.get("thread") is not None:
            what = "the provider adds what it has kept, which can be neither counted nor cut here: send all messages"
            raise InvalidInput("thread", what)
        return super().read(body)

    def usage(self, said: Native, /) -> Native:
        """The ``usage`` of a message; of a stream that at its start, or at its end when the prompt is in it."""
        usage = get(said, "message", "usage") or get(said, "usage")
        return usage if get(usage, "input_tokens") is not None else None

    def applied_edits(self, said: Native, /) -> Native:
        """What was cleared of the prompt; of a stream, at its end."""
        return get(said, "context_management", "applied_edits")

    def write(self, body: Body, request: RequestParts, view: View, /) -> dict[str, Any]:
        """The request; of a kind of edit that the caller asks for as well, the caller's stays."""
        if (own := get(body, "context_management", "edits")) is not None:
            kinds = {get(edit, "type") for edit in own}
            edits = get(view.options, "context_management", "edits") or ()
            others = [edit for edit in edits if get(edit, "type") not in kinds]
            view = evolve(view, options={**view.options, "context_management": {"edits": others}})
        written = super().write(body, request, view)
        if (edits := get(written, "context_management", "edits")) is not None:
            first = sorted(edits, key=lambda edit: get(edit, "type") != REASONING)  # which the provider wants so
            written["context_management"] = {**written["context_management"], "edits": first}
        return written

    def begins(self, event: Native, /) -> bool:
        """Whether an event carries something that the model said; most blocks are empty when they start."""
        kind = get(event, "type")
        if kind == "content_block_start":
            return get(event, "content_block", "type") not in _EMPTY_AT_FIRST
        return kind not in _BEFORE_CONTENT

    def ends(self, event: Native, /) -> bool:
        """Tell whether an event is the last one of a message."""
        return bool(get(event, "type") == "message_stop")

    def failure(self, said: Native, /) -> Native:
        """The error event of a stream's body; the SDK raises it where it reads the stream itself."""
        return said if get(said, "type") == "error" else None
