"""Messages of the Anthropic Messages API as values: read, written, and repaired where they would be refused.

Source: https://docs.anthropic.com/en/api/messages and the block types of the ``anthropic`` SDK.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set as AbstractSet
from hashlib import sha256
from typing import Any

from attrs import evolve, frozen

from agentctx.errors import InvalidInput
from agentctx.formats.native import (
    ALSO,
    CONTROL_MARKERS,
    PDF,
    PICTURES,
    Parts,
    as_block,
    as_mapping,
    cleaned,
    each_read,
    fields_of,
    json_object,
    json_of,
    mapping_or_none,
    may_end_on,
    placed,
    put_results_first,
    same,
    spoken,
    string_of,
    tool_as_read,
    with_object,
    words_of,
)
from agentctx.formats.registry import Adapter, Body, RequestParts, get
from agentctx.message import (
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
from agentctx.models.profile import BOUND_THINKING, NO_PREFILL, SYSTEM_IN_MESSAGES, ModelProfile
from agentctx.reports import View
from agentctx.tokens.media import base64_of
from agentctx.unit import RoundRules
from agentctx.wire_format import Capabilities, Note, Repaired, RequestKeys, Spelling, TokenOverheads, WireFormat

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
        raise InvalidInput(where=f"messages[{index}].role", what=f"must be one of {listed}, got {role!r}")
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
                raise InvalidInput(where=".text", what=f"must be a string, got {text!r}")
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


def _string(block: Block, key: str) -> str:
    value = block.get(key)
    if not isinstance(value, str):
        raise InvalidInput(where=f".{key}", what=f"must be a string, got {value!r}" if key in block else "missing")
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


def clearing_options(
    trigger: int,
    keep: int,
    *,
    at_least: int | None,
    exclude: AbstractSet[str],
    inputs: bool,
    thinking: int | str | None,
) -> Mapping[str, Any]:
    """Return the edits that ask for the clearing, with the beta feature that they need.

    Source: https://platform.claude.com/docs/en/build-with-claude/context-editing. The API wants the edit that clears
    reasoning first.

    Args:
        trigger: The size of a request, in tokens, above which the provider clears uses of tools.
        keep: How many uses of tools, counted from the end, stay.
        at_least: Uses of tools are only cleared if so many tokens go; None: any number.
        exclude: Names of tools whose uses stay.
        inputs: Whether the arguments of the calls go as well as the results.
        thinking: How many of the last turns of the assistant keep their reasoning, or ``"all"``; None: the provider's
            own rule.
    """
    edits: list[Mapping[str, Any]] = []
    if thinking is not None:
        turns = {"type": "thinking_turns", "value": thinking}
        edits.append({"type": REASONING, "keep": "all" if thinking == "all" else turns})
    uses: dict[str, Any] = {"type": USES, "trigger": {"type": "input_tokens", "value": trigger}}
    uses["keep"] = {"type": "tool_uses", "value": keep}
    if at_least is not None:
        uses["clear_at_least"] = {"type": "input_tokens", "value": at_least}
    if exclude:
        uses["exclude_tools"] = sorted(exclude)
    if inputs:
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


_TAKEN_ALONG = frozenset(
    {"role", "content", "text", "id", "name", "input", "tool_use_id", "is_error", "source", "media_type", "data"}
    | {"url", "file_id"}
)
"""The keys of messages whose values a conversion takes along, or reports as left behind."""


@frozen
class Anthropic(WireFormat):
    """The Anthropic Messages format."""

    name = "anthropic"
    provider = "anthropic"
    other_names = ("claude", "vertex")
    keys = RequestKeys(system="system")
    rounds = RoundRules(merges_turns=True, unique_ids=True, server_results=True, reasoning_back=True)
    cache_markers = CONTROL_MARKERS
    # Estimates: 3 to 5 tokens a message were seen; calls and results stand in markup. The surcharge for having tools at
    # all is published and stands in the model table.
    overheads = TokenOverheads(message=4, call=12, result=8, schema_as_json=True)

    def usual_for(self, family: str, /) -> int:
        """Claude's own."""
        return 3 if "claude" in family else 0

    recognises = staticmethod(recognise)
    repair = staticmethod(repair)
    may_end_on = staticmethod(may_end_on)
    arrange_for = staticmethod(place_system)
    numbered = staticmethod(IDS.numbered)
    read_message = staticmethod(read_message)
    read_system = staticmethod(read_system)
    read_tools = staticmethod(read_tools)
    write_message = staticmethod(write_message)

    def capabilities(self, model: str | None, profile: ModelProfile | None, /) -> Capabilities:
        """What it can say to a model: system messages in the middle only where the model takes them."""
        return Capabilities(
            keys=_TAKEN_ALONG,
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
