"""Whether a model takes the reasoning of another, and a conversation without it in the format that it is in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attrs import evolve

from agentctx.core.message import Message
from agentctx.core.parts import Opaque, Part, Text, Thinking, ToolCall
from agentctx.core.profile import ModelProfile
from agentctx.wire.native import fields_of, fields_or_none

UNSIGNED = "skip_thought_signature_validator"
"""What stands for the thought signature of a call that another model made; Gemini lets it pass."""

_SIGNATURES = frozenset({"thoughtSignature", "thought_signature"})
_FAMILY = re.compile(r"(?P<name>gpt|gemini)-(?P<version>\d+(?:\.\d+)?)|(?P<other>.*?)(?:-\d{4}[-\d]*)?\Z")


def shares_reasoning(one: str, other: str, profiles: tuple[ModelProfile | None, ModelProfile | None]) -> bool:
    """Whether a model reads the reasoning that another one signed.

    Claude models read each other's, unless it is bound to one model (since the 5.1 and 5.5 generations). GPT and Gemini
    models read that of their own version (5.6 that of 5.6, not of 5.5). Of others nothing is known.

    Args:
        one: A model's name.
        other: Another's.
        profiles: Their profiles, where they are known.
    """
    first, second = (
        _plain(name if known is None else known.family) for name, known in zip((one, other), profiles, strict=True)
    )
    if first.startswith("claude") and second.startswith("claude"):
        return first == second or not any(profile is None or profile.bound_thinking for profile in profiles)
    return _family(first) == _family(second)


def _plain(name: str) -> str:
    return re.sub(r"^(?:[a-z]{2,6}\.)?(?:anthropic\.)?", "", name.lower().rpartition("/")[2])


def _family(name: str) -> str:
    found = _FAMILY.match(name)
    if found is None or found["other"] is not None:
        return name if found is None else found["other"]
    return f"{found['name']}-{found['version']}"


def without_reasoning(message: Message, format_name: str) -> Message | None:
    """The message without its model's reasoning and signatures; itself when it has none, None when nothing is left.

    Args:
        message: A message as it was read.
        format_name: Name of the format that it is in.
    """
    kept: tuple[Part, ...] = tuple(part for part in message.parts if not isinstance(part, Thinking))
    if not kept and message.parts:
        return None
    if format_name == "openai-responses":
        return without_id(message) if message.role == "assistant" else message
    if format_name == "gemini":
        kept = tuple(map(_unsigned, kept))
    unchanged = len(kept) == len(message.parts) and all(a is b for a, b in zip(kept, message.parts, strict=True))
    return message if unchanged else message.with_parts(kept)


def without_id(message: Message) -> Message:
    """The message as its item without the id, which ties it to reasoning; itself when that has none."""
    return without_field(message, "id")


def without_field(message: Message, name: str) -> Message:
    """The message as its item without a field; itself when that has none."""
    fields = fields_of(message.source)
    if name not in fields:
        return message
    native = {key: value for key, value in fields.items() if key != name}
    value = fields[name]
    parts = tuple(_of_item(part, native, name) if _has(part, name, value) else part for part in message.parts)
    role, read = (message.role, parts) if message.as_read else (None, None)
    return message.replaced(Message(message.role, parts, source=native, read_role=role, read_parts=read))


def _has(part: Part, name: str, value: object) -> bool:
    """Whether a part was read from a whole item; maybe from an equal one, since callers make theirs anew."""
    fields = fields_or_none(part.source) or {}
    return name in fields and bool(fields[name] == value)


def _of_item(part: Part, native: Mapping[str, Any], name: str) -> Part:
    """A part that was read from a whole item, as read from that item without this field."""
    if not isinstance(part, Opaque):
        return evolve(part, source=native)
    data = {key: value for key, value in fields_of(part.data).items() if key != name}
    return evolve(part, data=data, source=native)


def _unsigned(part: Part) -> Part:
    """A part of Gemini's without its signature; a call gets the one that stands for none."""
    native = fields_or_none(part.source)
    if native is None or _SIGNATURES.isdisjoint(native):
        return part
    bare = {key: value for key, value in native.items() if key not in _SIGNATURES}
    if isinstance(part, ToolCall):
        return evolve(part, signature=UNSIGNED, source={**bare, "thoughtSignature": UNSIGNED})
    return Text(part.text, source=bare) if isinstance(part, Text) else evolve(part, source=bare)
