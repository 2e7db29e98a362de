"""What Chat Completions refuses and can be repaired within one message."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence

from attrs import evolve

from agentctx.core.message import Media, Message, Native, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.core.pace import EVERY, paced
from agentctx.providers.native import clean_text, finite_json
from agentctx.providers.openai_chat.messages import LEGACY
from agentctx.wire_format import Repaired, Spelling

ID_MAX = 40
"""The longest id of a tool call, in characters: some endpoints refuse more."""

IDS = Spelling(r"\s\S", ID_MAX)
"""How the ids of calls are spelled: anyhow, if they are short."""

NAME_MAX = 64
"""The longest name of a function, in characters."""

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What a function may be called."""

CARRIES_SIGNATURE = "__thought__"
"""LiteLLM hides Gemini's signature in the call's id, after this mark; such an id is never shortened."""


def repair(messages: Sequence[Message]) -> Iterator[Repaired]:
    """What the format refuses and can be repaired in one message: (index, new message or None to drop it, why).

    Text without media in a role that takes none stands for the media; ids are shortened alike in calls and results.
    """
    for index, message in enumerate(messages) if len(messages) < EVERY else paced(enumerate(messages)):
        reasons: list[str] = []
        parts = message.parts
        if not all(map(_is_ordinary, parts)):
            repaired = _each(parts, message.role, reasons)
            parts = repaired if reasons else parts
        reasons += _shape(message)
        if not reasons:
            continue
        why = ", ".join(dict.fromkeys(reasons))
        if message.role == "assistant" and not parts:
            yield index, None, "the message says nothing"
        else:
            # Other parts, be they equal: written anew even when only what stands beside the parts was at fault.
            yield index, message.with_parts((*parts,) or (Text(""),)), why


def _is_ordinary(part: Part) -> bool:
    """Whether a glance tells that there is nothing to repair in a part, as in most."""
    if type(part) is ToolResult:
        for each in part.content:
            if type(each) is not Text or not each.text.isascii():
                return False
        return len(part.call_id) <= ID_MAX and part.content != ()
    if type(part) is not ToolCall:
        return type(part) is Text and part.text.isascii()
    typed = type(part.source) is dict and part.source.get("type") is not None
    words = part.arguments
    plain = words.isascii() and "NaN" not in words and "Infinity" not in words
    return typed and plain and len(part.id) <= ID_MAX and NAME.fullmatch(part.name) is not None


def _each(parts: Sequence[Part], role: str, reasons: list[str]) -> tuple[Part, ...]:
    """Each part repaired; of plain text there is nothing to repair, and most parts are that."""
    return tuple([part if type(part) is Text and part.text.isascii() else _part(part, role, reasons) for part in parts])


def _part(part: Part, role: str, reasons: list[str]) -> Part:
    if isinstance(part, Text):
        return _text(part, reasons)
    if isinstance(part, ToolCall):
        return _call(part, reasons)
    if isinstance(part, ToolResult):
        return _result(part, reasons)
    if isinstance(part, Media):
        return _media(part, role, reasons)
    return _reasoning(part, reasons) if isinstance(part, Thinking) else part


def _text(part: Text, reasons: list[str]) -> Text:
    clean = cleaned(part.text, reasons)
    return part if clean is part.text else evolve(part, text=clean)


def _call(part: ToolCall, reasons: list[str]) -> ToolCall:
    finite = sent_arguments(part, reasons)
    identity, name = _short(part.id, reasons), _legal_name(part, reasons)
    if finite is not part.arguments or identity is not part.id or name is not part.name:
        part = evolve(part, id=identity, name=name, arguments=finite)
    if part.id.startswith(LEGACY) or not isinstance(part.source, dict) or part.source.get("type") is not None:
        return part
    reasons.append("the type of a tool call is missing")
    return evolve(part, source={**part.source, "type": "function"})


def _result(part: ToolResult, reasons: list[str]) -> ToolResult:
    before = len(reasons)
    content: tuple[Part, ...] = _each(part.content, "tool", reasons)
    if not content and value_of(part.source, "content") is None:
        content = (Text(""),)
        reasons.append("content must not be null")
    identity = _short(part.call_id, reasons)
    return part if len(reasons) == before else evolve(part, call_id=identity, content=content)


def _media(part: Media, role: str, reasons: list[str]) -> Part:
    """Media stands in user messages only; an assistant may refer to its own earlier audio."""
    if role == "user" or (role == "assistant" and part.kind == "audio"):
        return part
    reasons.append(f"{part.kind}s are only allowed for messages with role 'user'")
    return Text(f"[{part.kind} left out: only user messages may carry it]")


def _reasoning(part: Thinking, reasons: list[str]) -> Thinking:
    """Reasoning held by a key of the message is unsigned text, so that it can be cleaned."""
    if part.signed or not isinstance(part.source, dict) or len(part.source) != 1:
        return part
    if (clean := cleaned(part.text, reasons)) is part.text:
        return part
    return evolve(part, text=clean, source=dict.fromkeys(part.source, clean))


def _short(identity: str, reasons: list[str]) -> str:
    """The id, or one that fits, made from it alone, so that call and result still match."""
    if len(identity) <= ID_MAX or CARRIES_SIGNATURE in identity:
        return identity
    reasons.append(f"the id of a tool call is longer than {ID_MAX} characters")
    return short_id(identity)


def _legal_name(call: ToolCall, reasons: list[str]) -> str:
    if NAME.fullmatch(call.name) or call.id.startswith(LEGACY):
        return call.name
    reasons.append("the name of a tool call has characters that are not allowed")
    return nearest_name(call.name)


def _shape(message: Message) -> list[str]:
    """What is at fault beside the parts: no content at all, an empty list of calls."""
    source = message.source
    if source is None or message.role == "tool":
        return []
    reasons = []
    said, calls = (
        (source.get("content"), source.get("tool_calls"))
        if type(source) is dict
        else (value_of(source, "content"), value_of(source, "tool_calls"))
    )
    if message.role == "assistant" and calls == [] and not message.calls:
        reasons.append("tool_calls must not be empty")
    if said is None and all(message.role == "assistant" and isinstance(part, Thinking) for part in message.parts):
        reasons.append("content must not be null")
    return reasons


def value_of(source: Native, key: str) -> Native:
    """The value of a key of a native message, without dumping SDK objects."""
    return source.get(key) if type(source) is dict or isinstance(source, Mapping) else getattr(source, key, None)


def cleaned(text: str, why: list[str]) -> str:
    """Text without lone surrogates; itself when there are none."""
    if text.isascii() or (clean := clean_text(text)) is text:
        return text
    why.append("lone surrogates cannot be sent")
    return clean


def sent_arguments(call: ToolCall, why: list[str]) -> str:
    """The arguments of a call as they can be sent; themselves when they can."""
    clean = cleaned(call.arguments, why)
    if (finite := finite_json(clean)) is not clean:
        why.append("arguments are not JSON: it has no NaN and no Infinity")
    return finite


def short_id(identity: str) -> str:
    """An id that fits, made from a longer one alone, so that call and result still match."""
    return "call_" + hashlib.sha256(identity.encode(errors="surrogatepass")).hexdigest()[:32]


def nearest_name(name: str) -> str:
    """What is nearest to a name among the names that are taken; models make names up."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:NAME_MAX] or "_"
