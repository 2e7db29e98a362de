"""The Converse format of Amazon Bedrock, read and written without loss.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from agentctx.core.message import CacheMarker, Message, Native, Opaque, Thinking, Tool, Ttl, is_marker
from agentctx.core.report import View
from agentctx.lazy import lazy_pattern
from agentctx.models.profile import ModelProfile
from agentctx.providers.adapter import Adapter, Body, RequestParts, get, put
from agentctx.providers.bedrock.messages import (
    IDS,
    REFUSES_MIXED,
    ROLES,
    arrange_for,
    is_object,
    kind_of,
    read_message,
    read_system,
    read_tools,
    repair,
    write_block,
    write_message,
)
from agentctx.providers.cache_markers import MOST, for_minutes, ttl_of
from agentctx.providers.native import (
    ALSO,
    FILMS,
    OPEN_MODELS,
    PDF,
    PICTURES,
    TEXT_FILES,
    fields_or_none,
    mapping_or_none,
)
from agentctx.wire_format import CacheWish, Capabilities, TokenOverheads, WireFormat

_POSSIBLE, _LIKELY, _SURE = 1, 4, 8
_OWN_KEYS = ("modelId", "toolConfig", "inferenceConfig", "guardrailConfig", "additionalModelRequestFields")
_SHARED = frozenset({"text", "image", "document", "video", "audio"})
_OWN_BLOCKS = frozenset(
    {"toolUse", "toolResult", "reasoningContent", "cachePoint", "guardContent", "citationsContent", "searchResult"}
    | {"toolAddition", "toolRemoval"}
)


def recognise(request: Mapping[str, Any]) -> int:
    """0 when it cannot be this format, more with every specific sign."""
    messages = request.get("messages")
    if not isinstance(messages, (list, tuple)):
        return 0
    signs = _LIKELY * any(request.get(key) is not None for key in _OWN_KEYS)
    best = _POSSIBLE if signs else 0
    for message in messages:
        sign = _message(message)
        if sign is None:
            return 0
        best = max(best, sign)
        if best == _SURE:
            break
    return best + signs if best else 0


def _message(native: object) -> int | None:
    """What one message says; None when it rules the format out."""
    message = fields_or_none(native)
    if message is None or message.get("role") not in ROLES or "type" in message:
        return None
    content = message.get("content")
    if not isinstance(content, (list, tuple)):
        return None
    best = 0
    for item in content:
        block = fields_or_none(item)
        if block is None or "type" in block:
            return None
        kind = kind_of(block)
        if kind in _OWN_BLOCKS:
            return _SURE
        best = max(best, _LIKELY if kind in _SHARED else 0)
    return best


POINT = "cachePoint"
_TAKE_POINTS = re.compile(r"claude|nova")


@frozen
class PointMarkers:
    """Markers that are a block of their own behind what shall be kept (``wire_format.CacheMarkers``).

    Args:
        marks_head: As of ``KeyMarkers``; here the first task is marked, which the system prompt precedes.
    """

    marks_head: bool = False
    most: int = MOST

    def new(self, ttl: Ttl, profile: ModelProfile | None) -> Mapping[str, Any] | None:
        """A marker, which other models than Claude and Nova refuse."""
        if profile is None or not _TAKE_POINTS.search(profile.family):
            return None
        return {POINT: {"type": "default"} if ttl == "5m" else {"type": "default", "ttl": ttl}}

    def given(self, cache: CacheWish) -> Mapping[str, Any] | None:
        """The marker that a caller asks for: by a lifetime, or in full."""
        if isinstance(cache, Mapping):
            return {POINT: dict(cache)}
        return {POINT: {"type": "default", "ttl": cache} if isinstance(cache, str) else {"type": "default"}}

    def refused(self, _mark: Mapping[str, Any], profile: ModelProfile | None) -> bool:
        """Whether a model is known that refuses markers."""
        return profile is not None and self.new("5m", profile) is None

    def rolls(self, _profile: ModelProfile | None) -> bool:
        """The end of each request needs a marker."""
        return True

    def of(self, message: Message) -> tuple[CacheMarker, ...]:
        """The markers in a message, in order."""
        markers = []
        for place, part in enumerate(message.parts):
            if isinstance(part, Opaque) and is_marker(part):
                block = mapping_or_none(part.data) or {}
                markers.append(CacheMarker(place - 1, ttl_of(block.get(POINT)), block, part.source))
        return tuple(markers)

    def put(self, message: Message, place: int, mark: Mapping[str, Any]) -> Message | None:
        """The message with a marker behind one of its parts; None when there is nothing to keep in it."""
        part = message.parts[place]
        if isinstance(part, Thinking) or is_marker(part):
            return None
        made = Opaque(POINT, mark, source=mark)
        return message.with_parts((*message.parts[: place + 1], made, *message.parts[place + 1 :]))

    def lift(self, message: Message, place: int) -> Message:
        """The message without the marker behind one of its parts."""
        stop = place + 1
        while stop < len(message.parts) and is_marker(message.parts[stop]):
            stop += 1
        return message.with_parts((*message.parts[: place + 1], *message.parts[stop:]))

    def shorten(self, message: Message, place: int) -> Message:
        """The message with markers for five minutes behind one of its parts where there are some for an hour."""
        parts = list(message.parts)
        for at in range(place + 1, len(parts)):
            part = parts[at]
            if not (isinstance(part, Opaque) and is_marker(part)):
                break
            mark = {key: for_minutes(value) for key, value in (mapping_or_none(part.data) or {}).items()}
            parts[at] = evolve(part, data=mark, source=mark)
        return message.with_parts(tuple(parts))


@frozen
class Bedrock(WireFormat):
    """The Converse format.

    Newer models take neighbouring messages of one role as one turn. Claude, the family most called here, refuses an
    id that occurs twice.
    """

    name = "bedrock"
    provider = "aws.bedrock"
    other_names = ("aws", "converse")
    system_apart = True
    merges_turns = True
    unique_ids = True
    answers_server_calls = True
    minds_the_end = True
    wants_reasoning_back = True
    cache_markers = PointMarkers()
    overheads = TokenOverheads(message=4, call=12, result=8, schema_as_json=True)  # as of Anthropic
    keys_taken = frozenset(
        {"role", "content", "text", "json", "toolUse", "toolResult", "toolUseId", "input", "status", "image", "video"}
        | {"audio", "document", "format", "source", "bytes", "s3Location", "uri"}
    )

    overflow_words = lazy_pattern(r"input is too long for requested model")
    error_words = lazy_pattern(r"the model returned the following errors|for requested model")

    def usual_for(self, family: str, /) -> int:
        """After Claude's own API; of open models after Chat Completions."""
        return 2 if "claude" in family else 1 if OPEN_MODELS.search(family) else 0

    recognises = staticmethod(recognise)
    read_message = staticmethod(read_message)
    read_system = staticmethod(read_system)
    read_tools = staticmethod(read_tools)
    write_message = staticmethod(write_message)
    repair = staticmethod(repair)
    arrange_for = staticmethod(arrange_for)
    numbered = staticmethod(IDS.numbered)
    is_object = staticmethod(is_object)

    def request(
        self, messages: Sequence[Any], system: Native = None, tools: Native = None, model: str | None = None, /
    ) -> dict[str, Any]:
        """A request of Converse."""
        said = {"modelId": model, "messages": messages, "system": system}
        config = None if tools is None else {"tools": tools}
        return {key: value for key, value in {**said, "toolConfig": config}.items() if value is not None}

    def capabilities(self, model: str | None, _profile: ModelProfile | None, /) -> Capabilities:
        """What it can say to a model: some refuse results and words in one turn."""
        apart = model is not None and REFUSES_MIXED.search(model.lower()) is not None
        return Capabilities(
            grouping="all results" if apart else "one turn",
            user_first=True,
            user_after_results=not apart,
            in_user={"image": PICTURES, "document": PDF | TEXT_FILES, "video": FILMS},
            in_results={"image": PICTURES, "document": PDF | TEXT_FILES},
            most={"image": 20, "document": 5},
            also=ALSO,
            called_tools=True,
        )

    def write_system(self, system: Message, /) -> Native:
        """The system prompt as blocks."""
        return [write_block(part) for part in system.parts]

    def write_tool(self, tool: Tool, /) -> Native:
        """A tool of the caller's as a definition."""
        said = {"description": tool.description} if tool.description else {}
        return {"toolSpec": {"name": tool.name, **said, "inputSchema": {"json": tool.parameters}}}


_BEFORE_CONTENT = frozenset({"messageStart", "contentBlockStart"})


@frozen
class Converse(Adapter):
    """``Converse`` and ``ConverseStream``, as botocore sends and answers them."""

    format = "bedrock"
    system_key = "system"

    def read(self, body: Body, /) -> RequestParts | None:
        """Messages, system prompt, tools and model; None for a prompt that the provider keeps."""
        tools = get(body.get("toolConfig"), "tools")
        return super().read({**body, "tools": tools, "model": body.get("modelId")})

    def write(self, body: Body, request: RequestParts, view: View, /) -> dict[str, Any]:
        """The request with the view's messages, system prompt, tools and options."""
        written = super().write(body, request, view)
        if view.tools is not request.tools:
            written.pop("tools", None)
            put(written, "toolConfig", {**(body.get("toolConfig") or {}), "tools": view.tools} if view.tools else None)
        return written

    def usage(self, said: Native, /) -> Native:
        """The ``usage`` of an answer, or of a stream's ``metadata`` event."""
        return get(said, "usage") or get(said, "metadata", "usage")

    def ends(self, event: Native, /) -> bool:
        """Tell whether an event has the usage, which is the last one."""
        return "metadata" in event

    def failure(self, _answer: Native, /) -> Native:
        """Return None: an SDK raises what Converse refuses."""
        return None

    def too_long(self, tokens: int, limit: int, /) -> str:
        """Return the sentence of Converse, with the numbers that Claude gives there."""
        return f"Input is too long for requested model. prompt is too long: {tokens} tokens > {limit} maximum"

    def begins(self, event: Native, /) -> bool:
        """Whether an event carries something that the model said."""
        return not _BEFORE_CONTENT.issuperset(event)
