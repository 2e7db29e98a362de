"""Messages of the Anthropic Messages API as values: read, written, and repaired where they would be refused.

Source: https://docs.anthropic.com/en/api/messages and the block types of the ``anthropic`` SDK.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set as AbstractSet
from hashlib import sha256
from typing import Any

from attrs import evolve, frozen

from agentctx.core.message import (
    CONTROL,
    Media,
    Message,
    Native,
    Opaque,
    Part,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
)
from agentctx.errors import InvalidInput
from agentctx.models.profile import BOUND_THINKING, NO_PREFILL, SYSTEM_IN_MESSAGES, ModelProfile
from agentctx.providers.native import (
    Parts,
    as_block,
    as_mapping,
    cleaned,
    each_read,
    fields_of,
    json_object,
    json_of,
    mapping_or_none,
    placed,
    put_results_first,
    same,
    spoken,
    string_of,
    tool_as_read,
    with_object,
    words_of,
)
from agentctx.tokens.media import base64_of
from agentctx.wire_format import Clearing, Note, Repaired, Spelling

Block = Mapping[str, Any]

ROLES = ("user", "assistant", "system")
_WRITTEN_ROLES = {"tool": "user", "developer": "system"}

IDS = Spelling("a-zA-Z0-9_-", 64)
"""How an id is spelled that has to be made anew; the provider takes longer ones."""

_SPELLED = "the id of a call is spelled as the provider takes it"
_MARKED = "a cache marker cannot stand on reasoning"
_TAKES = re.compile("[a-zA-Z0-9_-]+")
_SERVER_TAKES = re.compile("srvtoolu_[a-zA-Z0-9_]+")


def read_message(native: object, index: int) -> Message:
    """One native message (a mapping or an SDK object) as a value that remembers it."""
    message: Mapping[str, Any] = native if type(native) is dict else as_mapping(native, f"messages[{index}]")
    role = message.get("role")
    if role not in ROLES:
        listed = ", ".join(ROLES)
        raise InvalidInput(where=f"messages[{index}].role", what=f"expected one of {listed}, got {role!r}")
    if "content" not in message and role != "system":
        raise InvalidInput(where=f"messages[{index}].content", what="missing")
    parts = placed(read_content, message.get("content"), "messages[{}].content", index)
    return Message.read(role, parts, native)


def read_system(native: object) -> Message | None:
    """The native system prompt (a string or a list of text blocks) as a value; None when there is none."""
    return None if native is None else Message.read("system", placed(read_content, native, "system"), native)


def read_tools(native: Sequence[Any] | None) -> tuple[Tool, ...]:
    """The native tool definitions as values."""
    tools = ((as_mapping(each, f"tools[{index}]"), each) for index, each in enumerate(native or ()))
    return tuple(tool_as_read(tool, tool.get("input_schema"), source) for tool, source in tools)


def write_message(message: Message) -> object:
    """A message as this format writes it: the payload it was read from when nobody touched it."""
    if message.as_read:
        return message.source
    old = mapping_or_none(message.source) or {}
    role = _WRITTEN_ROLES.get(message.role, message.role)
    return {**old, "role": role, "content": write_content(message.parts, old.get("content"))}


def read_block(native: object) -> Part:
    """One content block as a part that remembers it. A type that we do not know becomes ``Opaque``."""
    block: Block = native if type(native) is dict else as_mapping(native, "")
    kind = block.get("type")
    if not isinstance(kind, str):
        raise InvalidInput(where=".type", what=f"expected the block's type as a string, got {kind!r}")
    match kind:
        case "text":
            text = block.get("text")
            if not isinstance(text, str):
                raise InvalidInput(where=".text", what=f"expected a string, got {text!r}")
            return Text(text, source=native)
        case "tool_use":
            arguments = json_of(block.get("input", {}), ".input")
            call_id, name = _string(block, "id"), _string(block, "name")
            return ToolCall(call_id, name, arguments, source=native, caller=_caller(block))
        case "tool_result":
            content = placed(_read_said, block.get("content"), ".content")
            failed = bool(block.get("is_error"))
            return ToolResult(_string(block, "tool_use_id"), content, is_error=failed, source=native)
        case "thinking":
            return Thinking(_string(block, "thinking"), string_of(block, "signature"), source=native)
        case "redacted_thinking":
            return Thinking("", encrypted=_string(block, "data"), source=native)
        case "image" | "document":
            source = mapping_or_none(block.get("source")) or {}
            carried = source.get("type")
            data = source.get("data") if carried == "base64" else None
            try:  # the SDK takes a path and a stream, too, and reads them itself
                data = data if isinstance(data, str) else base64_of(data)
            except (OSError, ValueError) as error:
                raise InvalidInput(where=".source.data", what=f"cannot be read: {error}") from error
            url = string_of(source, "file_id" if carried == "file" else "url") if carried in ("url", "file") else None
            if data is not None or url is not None:
                media_type, words = string_of(source, "media_type"), words_of(block, ("title", "context"))
                return Media(kind, media_type, data, url, source=native, words=words)
            # A document given as plain text or as blocks is read as text by the model: it is counted by its characters.
    opens = string_of(block, "id") if kind.endswith("_tool_use") else None
    closes = string_of(block, "tool_use_id") if kind.endswith("_tool_result") else None
    return Opaque(kind, block, opens, closes, source=native, caller=_caller(block))


def read_content(content: object) -> tuple[Part, ...]:
    """The content of a message or a tool result as parts: None has none, a string is one text."""
    if isinstance(content, str):
        return (Text(content, source=content),)
    return each_read(read_block, content, "a string or a list of blocks")


def write_block(part: Part) -> object:
    """A part as a content block: the very block it was read from when it still says the same.

    An edited part keeps the other keys of its block (``cache_control``, ``title``, …). Reasoning and blocks that we
    do not understand always go back as they came.
    """
    return as_block(part, mapping_or_none(part.source), read_block, _made)


def write_content(parts: tuple[Part, ...], old: object = None) -> str | list[object]:
    """Parts as the content of a message: one text that was never a block stays a string."""
    text = parts[0] if len(parts) == 1 and not isinstance(old, (list, tuple)) else None
    if isinstance(text, Text) and mapping_or_none(text.source) is None:
        return text.text
    return [write_block(part) for part in parts]


def freed(part: Part, callers: AbstractSet[str]) -> Part:
    """The part as what the model itself called, when code of one of these callers called it; else the part itself."""
    if not isinstance(part, (ToolCall, Opaque)) or part.caller not in callers:
        return part
    block = {key: value for key, value in fields_of(part.source).items() if key != "caller"}
    if isinstance(part, Opaque):
        return evolve(part, caller=None, source=block, data=block)
    return evolve(part, caller=None, source=block)


def _string(block: Block, key: str) -> str:
    value = block.get(key)
    if not isinstance(value, str):
        raise InvalidInput(where=f".{key}", what=f"expected a string, got {value!r}" if key in block else "missing")
    return value


def _read_said(content: Native) -> Parts:
    """What a result says; an absent content and an empty one say the same."""
    return () if content == "" else read_content(content)


def _caller(block: Block) -> str | None:
    """The id of the server tool's call whose code calls; None where the model itself does."""
    caller = block.get("caller")
    return None if caller is None else string_of(mapping_or_none(caller) or {}, "tool_id")


def _made(part: Text | Media | Thinking | ToolCall | ToolResult, old: Block) -> dict[str, Any]:
    """A block saying what the part says, with the other keys of the block that it replaces."""
    match part:
        case Text():
            return {**_keys(old, "text"), "text": part.text}
        case ToolCall():
            return {**_keys(old, "tool_use"), "id": part.id, "name": part.name, "input": json_object(part.arguments)}
        case ToolResult():
            block = {**_keys(old, "tool_result"), "tool_use_id": part.call_id}
            if part.is_error or "is_error" in block:
                block["is_error"] = part.is_error
            try:
                unchanged = _read_said(block.get("content")) == part.content
            except InvalidInput:
                unchanged = False
            if not unchanged:
                # The empty string is the one empty content that every endpoint takes.
                block["content"] = write_content(part.content, block.get("content")) if part.content else ""
            return block
        case Thinking() if part.encrypted is not None:
            return {"type": "redacted_thinking", "data": part.encrypted}
        case Thinking():
            return {"type": "thinking", "thinking": part.text, "signature": part.signature or ""}
        case Media():
            made = {"title": part.words} if part.words and not old else {}
            return {**_keys(old, part.kind), **made, "source": _media_source(part)}


def _keys(old: Block, kind: str) -> dict[str, Any]:
    return dict(old) if old.get("type") == kind else {"type": kind}


def _media_source(part: Media) -> dict[str, Any]:
    if part.kind not in {"image", "document"}:
        raise InvalidInput(where="source", what=f"the Messages API takes no {part.kind}")
    if part.data is not None:
        default = "image/png" if part.kind == "image" else "application/pdf"
        return {"type": "base64", "media_type": part.media_type or default, "data": part.data}
    url = part.url or ""
    if "://" in url or not url:
        return {"type": "url", "url": url}
    return {"type": "file", "file_id": url}


def repair(messages: Sequence[Message], _earlier: object = None) -> list[Repaired]:
    """The messages that cannot be sent as they are, each with what to send instead."""
    found: list[Repaired] = []
    for index, message in enumerate(messages):
        why: list[str] = []
        parts = [better for part in message.parts if (better := _repair_part(part, why)) is not None]
        if message.role != "assistant":
            put_results_first(parts, why)
        elif index == len(messages) - 1 and parts and isinstance(last := parts[-1], Text) and last.text[-1].isspace():
            # The last words of the transcript, when they are the model's own, must not end in blanks.
            why.append("trailing blanks removed")
            parts[-1] = evolve(last, text=last.text.rstrip())
        if not parts and (message.parts or message.role != "system"):  # a system message may hold settings only
            found.append((index, None, "empty content"))
        elif not same(parts, message.parts):
            found.append((index, message.with_parts(tuple(parts)), "; ".join(dict.fromkeys(why))))
    return found


def _repair_part(part: Part, why: list[str]) -> Part | None:
    """The part to send instead of this one, itself when it is fine, None when it must not be sent."""
    if isinstance(part, Text):
        return spoken(part, why)
    if isinstance(part, ToolResult):
        # As a string the content may be blank, as blocks it may not.
        block = mapping_or_none(part.source) or {}
        as_string = len(part.content) == 1 and not isinstance(block.get("content"), (list, tuple))
        content: list[Part] = []
        for item in part.content:
            better = cleaned(item, why) if as_string and isinstance(item, Text) else _repair_part(item, why)
            if better is not None:
                content.append(better)
        call_id = _spelled(part.call_id, why)
        if same(content, part.content) and call_id == part.call_id:
            return part
        return evolve(part, call_id=call_id, content=tuple(content))
    if isinstance(part, ToolCall):
        call, call_id = with_object(part, why), _spelled(part.id, why)
        caller, new = _repair_caller(part, why)
        if new:
            call = evolve(call, caller=caller, source={**fields_of(call.source), **new})
        return call if call_id == part.id else evolve(call, id=call_id)
    if isinstance(part, Opaque):
        return _repair_server(part, why)
    if isinstance(part, Thinking):
        # The signature of reasoning does not cover a marker on it.
        block = part.source if type(part.source) is dict else mapping_or_none(part.source) or {}
        if block.get(CONTROL) is not None:
            why.append(_MARKED)
            return evolve(part, source={key: value for key, value in block.items() if key != CONTROL})
    return part


def _repair_server(part: Opaque, why: list[str]) -> Opaque:
    """A server's call, or its result, under an id that the provider takes."""
    spell = _spelled if part.kind.startswith("mcp_") else _spelled_for_server
    opens = None if part.opens is None else spell(part.opens, why)
    closes = None if part.closes is None else spell(part.closes, why)
    caller, new = _repair_caller(part, why)
    if (opens, closes, caller) == (part.opens, part.closes, part.caller):
        return part
    if opens != part.opens:
        new["id"] = opens
    if closes != part.closes:
        new["tool_use_id"] = closes
    block = {**fields_of(part.source), **new}
    return evolve(part, opens=opens, closes=closes, caller=caller, data=block, source=block)


def _repair_caller(part: ToolCall | Opaque, why: list[str]) -> tuple[str | None, dict[str, Any]]:
    """The id of the server's call that made what the part holds, and the fields that say so when it is another."""
    if part.caller is None or (name := _spelled_for_server(part.caller, why)) == part.caller:
        return part.caller, {}
    return name, {"caller": {**fields_of(fields_of(part.source).get("caller")), "tool_id": name}}


def _spelled_for_server(call_id: str, why: list[str]) -> str:
    """The id of a server's call, or one that is made of it alone, so that all who name it still match."""
    if _SERVER_TAKES.fullmatch(call_id):
        return call_id
    why.append(_SPELLED)
    return "srvtoolu_" + sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _spelled(call_id: str, why: list[str]) -> str:
    """The id, or one that is made of it alone, so that call and result still match."""
    if _TAKES.fullmatch(call_id):
        return call_id
    why.append(_SPELLED)
    return IDS.respelled(call_id)


NOT_TAKEN = "the model takes no system message among the messages: it is said by the user"
NO_PLACE = "no user turn stands before the system message: it is said by the user"
MOVED = "a system message stands before a turn of the assistant, or last"


def place_system(
    messages: Sequence[Message], profile: ModelProfile | None, note: Note, standing_before: Message | None = None
) -> Sequence[Message]:
    """The messages with each system message where the provider takes it; the same object when they stand so."""
    if not any([message.role == "system" for message in messages]):  # noqa: C419 - a list makes no call for each
        return messages
    takes = profile is None or profile.system_in_messages
    out: list[Message] = []
    waiting: list[Message] = []
    for message in messages:
        if message.role == "system":
            waiting.append(message)
            continue
        if waiting and (message.role == "assistant" or not takes):
            out += _settled(waiting, out[-1] if out else standing_before, note, takes=takes)
            waiting = []
        for each in (*waiting, message) if waiting else ():
            note(each, MOVED)
        out.append(message)
    out += _settled(waiting, out[-1] if out else standing_before, note, takes=takes)
    return messages if same(out, messages) else out


def _settled(waiting: Sequence[Message], before: Message | None, note: Note, *, takes: bool) -> list[Message]:
    """System messages as they may stand behind ``before``: as they are, or as words of the user."""
    last = before.parts[-1] if before is not None and before.parts else None
    ends_on_server = isinstance(last, Opaque) and last.closes is not None
    if takes and before is not None and (before.role != "assistant" or (ends_on_server and not before.calls)):
        return list(waiting)
    for message in waiting:
        note(message, NO_PLACE if takes else NOT_TAKEN)
    return [evolve(message, role="user") for message in waiting if message.parts]


BETA = "context-management-2025-06-27"
USES, REASONING = "clear_tool_uses_20250919", "clear_thinking_20251015"


def clearing_options(clearing: Clearing, /) -> Mapping[str, Any]:
    """Return the edits that ask for the clearing, with the beta feature that they need.

    Source: https://platform.claude.com/docs/en/build-with-claude/context-editing. The API wants the edit that clears
    reasoning first.

    Args:
        clearing: The options of the clearing.
    """
    edits: list[Mapping[str, Any]] = []
    if clearing.thinking is not None:
        turns = {"type": "thinking_turns", "value": clearing.thinking}
        edits.append({"type": REASONING, "keep": "all" if clearing.thinking == "all" else turns})
    uses: dict[str, Any] = {"type": USES, "trigger": {"type": "input_tokens", "value": clearing.trigger}}
    uses["keep"] = {"type": "tool_uses", "value": clearing.keep}
    if clearing.at_least is not None:
        uses["clear_at_least"] = {"type": "input_tokens", "value": clearing.at_least}
    if clearing.exclude:
        uses["exclude_tools"] = sorted(clearing.exclude)
    if clearing.inputs:
        uses["clear_tool_inputs"] = True
    return {"context_management": {"edits": [*edits, uses]}, "betas": [BETA]}


_NO_FORCED_CHOICE = re.compile(r"claude-(?:(?:opus|sonnet)-5-5|(?:fable|mythos)-5-1)(?!\d)")


@frozen
class Traits:
    """What a model takes, as its profile says it; where the model is not known, everything that some model takes."""

    bound_thinking: bool = False
    system_in_messages: bool = True
    prefill: bool = True
    forced_choice: bool = True
    window: int | None = None


def traits(model: str | None, profile: ModelProfile | None) -> Traits:
    """What a model takes: by its profile when there is one, else by its name."""
    name = ((model or "") if profile is None else profile.family).lower().replace(".", "-")
    forced_choice = not _NO_FORCED_CHOICE.search(name)
    if profile is not None:
        return Traits(
            profile.bound_thinking, profile.system_in_messages, profile.prefill, forced_choice, profile.window
        )
    if "claude" not in name:
        return Traits()
    return Traits(
        bound_thinking=bool(BOUND_THINKING.search(name)),
        system_in_messages=bool(SYSTEM_IN_MESSAGES.search(name)),
        prefill=not NO_PREFILL.search(name),
        forced_choice=forced_choice,
    )
