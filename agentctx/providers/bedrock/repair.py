"""Which messages may stand where, by the model that is called through Converse.

Source: recorded errors, as of ``rules`` and ``rules_tools``: models other than Claude and Qwen want the user to begin,
older ones want user and assistant to speak by turns, and some take no words beside the results of tools.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256

from attrs import evolve

from agentctx.core.message import Media, Message, Opaque, Part, Text, ToolCall, ToolResult, is_marker
from agentctx.core.protection import GO_ON, NOT_SHOWN
from agentctx.models.profile import ModelProfile
from agentctx.providers.native import (
    HEARD,
    NO_ANSWER,
    NOT_JSON,
    fields_or_none,
    finite_json,
    put_results_first,
    same,
    spoken,
    with_object,
)
from agentctx.wire_format import Note, Repaired, Spelling

TAKES_ASSISTANT_FIRST = re.compile(r"claude|qwen")
"""Families that take a conversation which the assistant begins."""

REFUSES_MIXED = re.compile(r"mi[sx]tral|magistral|llama|command|jamba")
"""Families that refuse results and words in one message."""

BY_TURNS = re.compile(r"claude-(?:[23](?!\d)|instant|v2)|mi[sx]tral|magistral|llama|command|jamba|titan")
"""Families that refuse two messages of one role in a row; later ones take them as one."""

OPENED = "the model wants the user to begin"
PARTED = "the model takes no words beside the results of tools"
TURNS = "the model wants the user and the assistant to speak by turns"


def arrange_for(
    messages: Sequence[Message],
    profile: ModelProfile | None,
    note: Note,
    standing_before: Message | None = None,
) -> Sequence[Message]:
    """The messages as the model takes them one after the other; the same object when it takes them as they are."""
    family = "" if profile is None else profile.family.lower()
    opened = standing_before is None and messages and messages[0].role == "assistant" and family
    arranged = list(messages)
    if REFUSES_MIXED.search(family):
        several = [place for place, message in enumerate(messages) if len(message.parts) > 1]
        for place in reversed(several):
            arranged[place : place + 1] = _parted(messages[place], note)
    if opened and not TAKES_ASSISTANT_FIRST.search(family):
        arranged.insert(0, _noted(Message("user", (Text(NOT_SHOWN),)), OPENED, note))
    if BY_TURNS.search(family):
        arranged = [*_by_turns(arranged, standing_before, note)]
    return messages if len(arranged) == len(messages) else arranged


def _by_turns(messages: Sequence[Message], last: Message | None, note: Note) -> Iterator[Message]:
    """The messages, with a word of the other between two of one role; results stand where their calls want them."""
    for message in messages:
        if last is not None and last.role == message.role and not message.results and not last.calls:
            role, said = ("assistant", NO_ANSWER) if message.role == "user" else ("user", GO_ON)
            yield _noted(Message(role, (Text(said),)), TURNS, note)
        yield message
        last = message


def _parted(message: Message, note: Note) -> Sequence[Message]:
    """Results in one message, and the user's words in the next one, with a word of the model between them."""
    last = max((place for place, part in enumerate(message.parts) if isinstance(part, ToolResult)), default=-1)
    stop = next((place for place in range(last + 1, len(message.parts)) if not is_marker(message.parts[place])), None)
    if last < 0 or stop is None or message.role == "assistant":
        return (message,)
    note(message, PARTED)
    results = _noted(Message("user", message.parts[:stop]), PARTED, note)
    return results, _noted(Message("assistant", (Text(HEARD),)), PARTED, note), message.with_parts(message.parts[stop:])


def _noted(message: Message, why: str, note: Note) -> Message:
    note(message, why)
    return message


IDS = Spelling("a-zA-Z0-9_.:-", 64)
"""How the ids of calls are spelled."""

ID = IDS.pattern
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

_MEDIA = frozenset({"image", "document", "video", "audio"})

NO_OUTPUT = "[no output]"
"""What a tool says that said nothing: some models refuse a result without content."""
DOCUMENT = "[a document]"
"""What is said beside a document that came without a word."""


def repair(messages: Sequence[Message], _earlier: object = None) -> list[Repaired]:
    """The messages that cannot be sent as they are, each with what to send instead."""
    found: list[Repaired] = []
    for index, message in enumerate(messages):
        why: list[str] = []
        parts = _repair_parts(message, why)
        if all(map(is_marker, parts)):  # there is no block, or cache points alone
            found.append((index, None, "empty content"))
        elif parts is not message.parts:
            found.append((index, message.with_parts(parts), "; ".join(dict.fromkeys(why))))
    return found


def _repair_parts(message: Message, why: list[str]) -> tuple[Part, ...]:
    """The parts to send; the very tuple when they are fine."""
    told = (_of_user(part, message.role, why) for part in message.parts)
    repaired = [better for part in told if (better := _repair_part(part, why)) is not None]
    if message.role != "assistant":
        put_results_first(repaired, why)
    if any(_is_document(part) for part in repaired) and not any(isinstance(part, Text) for part in repaired):
        why.append("a document needs a text beside it")
        repaired.append(Text(DOCUMENT))
    return message.parts if same(repaired, message.parts) else tuple(repaired)


def _of_user(part: Part, role: str, why: list[str]) -> Part:
    """What says that media stood there, where the role may not carry any; a document's own text as text."""
    kind = part.kind if isinstance(part, (Media, Opaque)) else ""
    if role == "user" or kind not in _MEDIA:
        return part
    why.append(f"{kind}s are only allowed in messages of the user")
    held = fields_or_none((fields_or_none(part.source) or {}).get(kind)) or {}
    text = (fields_or_none(held.get("source")) or {}).get("text")
    return Text(text if isinstance(text, str) else f"[{kind} left out: only user messages may carry it]")


def _is_document(part: Part) -> bool:
    return isinstance(part, (Media, Opaque)) and part.kind == "document"


def _repair_part(part: Part, why: list[str]) -> Part | None:
    """The part to send instead of this one, itself when it is fine, None when it must not be sent."""
    if isinstance(part, Text):
        return spoken(part, why)
    if isinstance(part, ToolResult):
        return _repair_result(part, why)
    if isinstance(part, ToolCall):
        return _repair_call(part, why)
    if isinstance(part, Opaque) and not part.kind:
        why.append("a block without a member removed")
        return None
    return part


def _repair_call(part: ToolCall, why: list[str]) -> ToolCall:
    call = with_object(part, why)
    call_id, name = _legal(part.id, ID, why), _legal(part.name, NAME, why)
    return call if call_id == part.id and name == part.name else evolve(call, id=call_id, name=name)


def _repair_result(part: ToolResult, why: list[str]) -> ToolResult:
    content = [better for item in part.content if (better := _repair_output(item, why)) is not None]
    if not content:
        why.append("a result without content says so")
        content = [Text(NO_OUTPUT)]
    call_id = _legal(part.call_id, ID, why)
    if same(content, part.content) and call_id == part.call_id:
        return part
    return evolve(part, call_id=call_id, content=tuple(content))


def _repair_output(item: Part, why: list[str]) -> Part | None:
    better = _repair_part(item, why)
    if isinstance(better, Text) and "json" in (fields_or_none(better.source) or {}):
        finite = finite_json(better.text)
        if finite is not better.text:
            why.append(NOT_JSON)
            return Text(finite, source=better.source)
    return better


def _legal(name: str, pattern: re.Pattern[str], why: list[str]) -> str:
    """An id or a name in the characters and the length that it may have; the same for the same, always."""
    if pattern.fullmatch(name):
        return name
    why.append("an id or a name spelled as the provider takes it")
    allowed = re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:55]
    return f"{allowed}_{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
