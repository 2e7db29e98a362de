"""How single parts are made sendable, for formats whose calls take a JSON object."""

from __future__ import annotations

import json
from collections.abc import Sequence

from attrs import evolve

from agentctx.core.message import Message
from agentctx.core.parts import Part, Text, ToolCall
from agentctx.wire.native import clean_text, finite_json, json_object

Mended = tuple[int, Message | None, str]
"""Index of a message, what to send instead (None: nothing), and why."""

SURROGATES = "lone surrogates replaced"
NOT_JSON = "numbers that JSON has not replaced by null"


def cleaned(part: Text, why: list[str]) -> Text:
    """The text without lone surrogates; itself when there are none."""
    if (text := clean_text(part.text)) is part.text:
        return part
    why.append(SURROGATES)
    return Text(text, source=part.source)


def with_object(part: ToolCall, why: list[str]) -> ToolCall:
    """The call with arguments that are a JSON object; itself when they are."""
    arguments = clean_text(part.arguments)
    if arguments is not part.arguments:
        why.append(SURROGATES)
    if (finite := finite_json(arguments)) is not arguments:
        why.append(NOT_JSON)
        arguments = finite
    if not arguments.startswith("{"):
        why.append("tool input made an object")
        arguments = json.dumps(json_object(arguments), ensure_ascii=False)
    return part if arguments is part.arguments else evolve(part, arguments=arguments)


def same(new: Sequence[Part], old: Sequence[Part]) -> bool:
    """Whether these are the very same parts."""
    return len(new) == len(old) and all(one is other for one, other in zip(new, old, strict=True))
