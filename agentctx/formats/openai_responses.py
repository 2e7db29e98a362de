"""The items of the Responses API as values: read, written, and repaired where they would be refused.

Source: https://platform.openai.com/docs/api-reference/responses/create and the item types of the ``openai`` SDK.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from mimetypes import guess_type
from typing import Any

from attrs import define, evolve, field, frozen

from agentctx.errors import InvalidInput
from agentctx.formats.native import (
    CERTAIN,
    IMPOSSIBLE,
    LIKELY,
    OPENAI_MODELS,
    PDF,
    PICTURES,
    POSSIBLE,
    KeyMarkers,
    as_mapping,
    breakpoint_of,
    fields_of,
    fields_or_none,
    is_strict,
    located,
    mapping_or_none,
    still_says,
    string_of,
    surest,
    tool_as_read,
)
from agentctx.formats.openai_chat import NAME, cleaned, nearest_name, sent_arguments, value_of
from agentctx.formats.registry import Adapter, Body, RequestParts, get
from agentctx.json_text import serialise
from agentctx.message import (
    BREAKPOINT,
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
from agentctx.models.profile import ModelProfile
from agentctx.reports import View
from agentctx.unit import RoundRules
from agentctx.wire_format import (
    Arranged,
    Capabilities,
    Note,
    Repaired,
    RequestKeys,
    Spelling,
    TokenOverheads,
    WireFormat,
)

ROLES = ("user", "assistant", "system", "developer")
"""Who may speak in a message."""


@frozen
class CallKind:
    """A kind of call that the client runs, and the item that answers it.

    Args:
        tool: What the tool is called when the item does not name it.
        arguments: The key of the call that says what to do; a second one is used when the first is absent.
        answer_keys: The keys of the answer that may hold the id; the first is the one to write.
    """

    call: str
    output: str
    tool: str | None
    arguments: tuple[str, ...]
    id_key: str = "call_id"
    answer_keys: tuple[str, ...] = ("call_id",)


_KINDS = (
    CallKind("function_call", "function_call_output", None, ("arguments",)),
    CallKind("custom_tool_call", "custom_tool_call_output", None, ("input",)),
    CallKind("computer_call", "computer_call_output", "computer", ("actions", "action")),
    CallKind("local_shell_call", "local_shell_call_output", "local_shell", ("action",), answer_keys=("id", "call_id")),
    CallKind("shell_call", "shell_call_output", "shell", ("action",)),
    CallKind("apply_patch_call", "apply_patch_call_output", "apply_patch", ("operation",)),
    CallKind("tool_search_call", "tool_search_output", "tool_search", ("arguments",)),
    CallKind("mcp_approval_request", "mcp_approval_response", None, ("arguments",), "id", ("approval_request_id",)),
)

CALLS: Mapping[str, CallKind] = {kind.call: kind for kind in _KINDS}
"""The kinds of calls by the type of the call."""

OUTPUTS: Mapping[str, CallKind] = {kind.output: kind for kind in _KINDS}
"""The kinds of calls by the type of the answer."""

SETTINGS = frozenset(
    {"compaction", "compaction_summary", "compaction_trigger", "additional_tools", "configuration_update"}
)
"""Items that set up what follows, or stand for what was before: they must survive, as a developer's words do."""

REFERENCE = "item_reference"

CALL_ID_MAX = 64
"""The longest ``call_id``, in characters."""

IDS = Spelling(r"\s\S", CALL_ID_MAX)
"""How the ids of calls are spelled: anyhow, if they are short."""

CACHEABLE = ("input_text", "input_image", "input_file")
"""The blocks that a cache marker may stand on."""


def openai_family(model: str) -> str | None:
    """The family of one of OpenAI's own models, for example ``gpt-5.6``; None for any other."""
    found = re.match(r"gpt-\d+(?:\.\d+)?|o\d|chatgpt-|codex-|computer-use|chat-latest", model)
    return found[0] if found else None


def kind_of(item: Mapping[str, Any]) -> str:
    """The type of an item; messages may leave it out, and so may references. Empty when there is none."""
    kind = item.get("type")
    if isinstance(kind, str):
        return kind
    if kind is None and "role" in item:
        return "message"
    return REFERENCE if kind is None and isinstance(item.get("id"), str) else ""


def is_client_call(kind: str, item: Mapping[str, Any]) -> bool:
    """Whether the item is a call that the client has to answer."""
    return kind in CALLS and (kind != "tool_search_call" or item.get("execution") == "client")


def is_client_output(kind: str, item: Mapping[str, Any]) -> bool:
    """Whether the item is a client's answer to a call."""
    return kind in OUTPUTS and (kind != "tool_search_output" or item.get("execution") == "client")


def caller_of(item: Mapping[str, Any]) -> str | None:
    """The id of the program that made a call, or the call that an item answers; None where the model itself did."""
    caller = item.get("caller")
    found = None if caller is None else (mapping_or_none(caller) or {}).get("caller_id")
    return found if isinstance(found, str) else None


def answered_id(kind: str, item: Mapping[str, Any]) -> object:
    """The id of the call that an answer is for; whatever stands there."""
    for key in OUTPUTS[kind].answer_keys:
        if (found := item.get(key)) is not None:
            return found
    return None


TEXTS = frozenset({"input_text", "output_text", "text"})
"""Types of blocks that hold text."""

_MARKED = ("annotations", "logprobs")  # what is said about single characters of a text


def read_content(content: Native, where: str) -> tuple[Part, ...]:
    """The content of a message or of an answer as parts: a string is one text, None says nothing."""
    if isinstance(content, str):
        return (Text(content, source=content),)
    if content is None:
        return ()
    if not isinstance(content, (list, tuple)):
        raise InvalidInput(where, f"must be a string or a list of blocks, got {type(content).__name__}")
    return tuple([read_block(block, where, place) for place, block in enumerate(content)])


def read_block(block: Native, where: str, place: int) -> Part:
    """One block as a part that remembers it; a type that is not understood becomes ``Opaque``."""
    data = block if type(block) is dict else as_mapping(block, f"{where}[{place}]")
    kind = data.get("type")
    if isinstance(kind, str) and kind in TEXTS:
        if not isinstance(text := data.get("text"), str):
            raise InvalidInput(where=f"{where}[{place}].text", what=f"must be a string, got {text!r}")
        return Text(text, source=block)
    media = _media(kind, data, block) if isinstance(kind, str) else None
    return media or Opaque(kind if isinstance(kind, str) else "unknown", data, source=block)


def location(part: Media, url_key: str) -> tuple[str, str]:
    """The key and the value that say where media is: a URL (for inline content, too), or an uploaded file's id."""
    if part.data is not None:
        return url_key, f"data:{part.media_type or 'application/octet-stream'};base64,{part.data}"
    url = part.url or ""
    return (url_key if "://" in url or url.startswith("data:") else "file_id"), url


def _media(kind: str, data: Mapping[str, Native], block: Native) -> Media | None:
    if kind == "input_image" and (url := string_of(data, "image_url") or string_of(data, "file_id")):
        detail = string_of(data, "detail")
        return located("image", url, None if detail == "auto" else detail, block)
    if kind == "input_file":
        words, content = string_of(data, "filename") or "", string_of(data, "file_data")
        if content and not content.startswith("data:"):  # base64 alone
            return Media("document", guess_type(words)[0], content, source=block, words=words)
        url = content or string_of(data, "file_url") or string_of(data, "file_id")
        return located("document", url, string_of(data, "detail"), block, words) if url else None
    if kind == "input_audio":
        fields = mapping_or_none(data.get("input_audio")) or {}
        if (content := string_of(fields, "data")) is not None:
            return Media("audio", f"audio/{string_of(fields, 'format') or 'wav'}", content, source=block)
    return None


def write_content(parts: tuple[Part, ...], old: object, text_type: str) -> str | list[Any]:
    """Parts as content: one text that was never a block stays a string, a list stays a list."""
    if not isinstance(old, (list, tuple)):
        if not parts:
            return ""
        if len(parts) == 1 and isinstance(text := parts[0], Text) and mapping_or_none(text.source) is None:
            return text.text
    return [write_block(part, text_type) for part in parts]


def write_block(part: Part, text_type: str) -> Native:
    """A part as a block: the very block it was read from when it still says the same."""
    native = part.source
    if isinstance(part, Opaque):
        return part.data if native is None else native
    kept = mapping_or_none(native)
    if kept is not None and "type" in kept and still_says(part, read_block, "", 0):
        return native
    if isinstance(part, Text):
        return _text_block(part, kept or {}, text_type)
    if isinstance(part, Media):
        return _media_block(part, kept or {})
    raise InvalidInput("message.parts", f"a {type(part).__name__} cannot stand within content")


def _text_block(part: Text, kept: Mapping[str, Any], text_type: str) -> dict[str, Any]:
    """A text block; notes about single characters of the text that was there before go."""
    kind = kept.get("type")
    old = kept if kind in TEXTS else {}
    block = {**{key: value for key, value in old.items() if key not in _MARKED}, "text": part.text}
    block["type"] = kind if old else text_type
    if block["type"] == "output_text":
        block["annotations"] = []
    return block


def _media_block(part: Media, kept: Mapping[str, Any]) -> dict[str, Any]:
    if part.kind == "image":
        key, value = location(part, "image_url")
        old = {name: each for name, each in kept.items() if name not in {"image_url", "file_id"}}
        detail = part.detail or string_of(kept, "detail") or "auto"
        return {**old, "type": "input_image", key: value, "detail": detail}
    if part.kind == "audio":
        sound = (part.media_type or "audio/wav").removeprefix("audio/")
        return {"type": "input_audio", "input_audio": {"data": part.data or part.url, "format": sound}}
    if part.kind != "document":
        raise InvalidInput("message.parts", f"the Responses API takes no {part.kind}")
    key, value = location(part, "file_url")
    old = {name: each for name, each in kept.items() if name not in {"file_data", "file_url", "file_id"}}
    return {**old, "type": "input_file", ("file_data" if part.data is not None else key): value}


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A PNG of one pixel, in base64: the screenshot of a computer that did not answer."""

_FAILED = {"type": "exit", "exit_code": 1}
_STREAMS = ("stdout", "stderr")


def read_output(native: Native, item: Mapping[str, Native], kind: str, index: int) -> tuple[Part, ...]:
    """The parts of an answer: one result, and beside it what it holds that is no word."""
    identity = answered_id(kind, item)
    if identity is None and kind == "function_call_output":
        return (Opaque(kind, item, source=native),)  # a tool that spoke without being asked
    if not isinstance(identity, str):
        key = OUTPUTS[kind].answer_keys[0]
        what = "missing" if identity is None else f"must be a string, got {identity!r}"
        raise InvalidInput(where=f"messages[{index}].{key}", what=what)
    content: tuple[Part, ...] = ()
    beside: tuple[Part, ...] = ()
    output = item.get("output")
    if kind == "computer_call_output":
        beside = _screenshot(output, native)
    elif kind in {"tool_search_output", "mcp_approval_response"}:
        beside = (Opaque(kind, item, source=native),)
    elif kind == "shell_call_output" and isinstance(output, (list, tuple)):
        content = tuple(Text(text) for _, _, text in _streams(output))
    else:
        content = read_content(output, f"messages[{index}].output")
    failed = kind == "apply_patch_call_output" and item.get("status") == "failed"
    return ToolResult(identity, content, is_error=failed, source=native, caller=caller_of(item)), *beside


def _screenshot(output: object, native: Native) -> tuple[Part, ...]:
    picture = mapping_or_none(output) or {}
    url = string_of(picture, "image_url") or string_of(picture, "file_id")
    shown = Opaque("computer_screenshot", output, source=native)
    return (located("image", url, string_of(picture, "detail"), native) if url else shown,)


def _streams(output: Sequence[Any]) -> Iterator[tuple[int, str, str]]:
    """What a shell printed: the chunk's place, the stream, the text; silent streams are left out."""
    for place, chunk in enumerate(output):
        for stream in _STREAMS:
            if text := string_of(mapping_or_none(chunk) or {}, stream):
                yield place, stream, text


def write_output(parts: tuple[Part, ...], item: Mapping[str, Any]) -> dict[str, Any]:
    """An answer as an item, with the other keys of the item that it was read from."""
    result = next((part for part in parts if isinstance(part, ToolResult)), None)
    if result is None:
        raise InvalidInput("message.parts", "a message of role 'tool' holds one ToolResult")
    kind = OUTPUTS.get(item.get("type", "function_call_output"), OUTPUTS["function_call_output"])
    id_key = next((key for key in kind.answer_keys if item.get(key) is not None), kind.answer_keys[0])
    native = {**item, "type": kind.output, id_key: result.call_id}
    if kind.output == "computer_call_output":
        # The screenshot stays when it is the same, or nobody took it along.
        picture = next((part for part in parts if isinstance(part, Media)), None)
        if picture is not None and _screenshot(mapping_or_none(item.get("output")) or {}, None) != (picture,):
            key, value = location(picture, "image_url")
            native["output"] = {"type": "computer_screenshot", key: value}
        return native
    if kind.output in {"tool_search_output", "mcp_approval_response"}:
        return native
    if kind.output == "shell_call_output":
        return {**native, "output": _shell(result, item.get("output"))}
    if kind.output == "apply_patch_call_output":
        native["status"] = "failed" if result.is_error else item.get("status", "completed")
    native["output"] = write_content(result.content, item.get("output"), "input_text")
    if kind.output in {"local_shell_call_output", "apply_patch_call_output"}:
        native["output"] = result.text  # these two take text only
    return native


def _shell(result: ToolResult, old: object) -> list[Any]:
    """The chunks of a shell's output: each text in the stream that it came from, or all in new chunks."""
    chunks = list(old) if isinstance(old, (list, tuple)) else []
    texts = [part.text for part in result.content if isinstance(part, Text)]
    places = list(_streams(chunks))
    if len(places) != len(texts):
        outcome = (mapping_or_none(chunks[-1]) or {}).get("outcome") if chunks else None
        return [{"stdout": text, "stderr": "", "outcome": outcome or _FAILED} for text in texts]
    for (place, stream, was), text in zip(places, texts, strict=True):
        if text != was:
            chunks[place] = {**(mapping_or_none(chunks[place]) or {}), stream: text}
    return chunks


def kind_answering(call: ToolCall) -> str:
    """The type of the item that answers a call."""
    item = mapping_or_none(call.source) or {}
    return CALLS.get(item.get("type", ""), CALLS["function_call"]).output


def answer_as(call: ToolCall, result: ToolResult) -> dict[str, Any]:
    """The item that answers a call with what a result says, where its kind has words."""
    text = result.text
    answer = lost_output(call, text)
    match answer["type"]:
        case "function_call_output" | "custom_tool_call_output":
            answer["output"] = write_content(result.content, None, "input_text") if result.content else ""
        case "shell_call_output":
            answer["output"] = [{"stdout": text, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]
        case "apply_patch_call_output":
            answer["status"] = "failed" if result.is_error else "completed"
    return answer


def lost_output(call: ToolCall, text: str) -> dict[str, Any]:
    """The item that answers a call whose result is lost, saying ``text`` where its kind has words."""
    item = mapping_or_none(call.source) or {}
    kind = CALLS.get(item.get("type", ""), CALLS["function_call"])
    answer: dict[str, Any] = {"type": kind.output, kind.answer_keys[0]: call.id}
    match kind.call:
        case "computer_call":
            screenshot = {"type": "computer_screenshot", "image_url": f"data:image/png;base64,{PIXEL}"}
            return answer | {"output": screenshot}
        case "shell_call":
            return answer | {"output": [{"stdout": "", "stderr": text, "outcome": _FAILED}]}
        case "apply_patch_call":
            return answer | {"status": "failed", "output": text}
        case "tool_search_call":
            return answer | {"execution": "client", "status": "completed", "tools": []}
        case "mcp_approval_request":
            return answer | {"approve": False, "reason": text}
    caller = item.get("caller")
    return answer | ({"output": text} if caller is None else {"output": text, "caller": caller})


NO_REFERENCES = (
    "an item_reference stands for an item that only the provider has, so that it can be neither counted nor kept with "
    "what belongs to it: put the item itself here (with store=False and include=['reasoning.encrypted_content'], "
    "response.output holds all that is needed)"
)


def read_message(native: Native, index: int) -> Message:
    """One native item as a value."""
    item = native if type(native) is dict else as_mapping(native, f"messages[{index}]")
    kind = item.get("type")
    if (kind is None or kind == "message") and "role" in item:
        role = item["role"]
        if role not in ROLES:
            raise InvalidInput(where=f"messages[{index}].role", what=f"must be one of {', '.join(ROLES)}, got {role!r}")
        content = item.get("content")
        where = f"messages[{index}].content"
        parts = (Text(content, source=content),) if isinstance(content, str) else read_content(content, where)
        return Message.read(role, parts, native)
    if kind == "function_call":
        role, parts = "assistant", (read_call(native, item, CALLS["function_call"], index),)
    elif kind == "function_call_output":
        role, parts = "tool", read_output(native, item, "function_call_output", index)
    else:
        role, parts = _other(native, item, index)
    return Message.read(role, parts, native)


def _other(native: Native, item: Mapping[str, Native], index: int) -> tuple[str, tuple[Part, ...]]:
    kind = kind_of(item)
    if kind == REFERENCE:
        raise InvalidInput(where=f"messages[{index}]", what=NO_REFERENCES)
    if not kind:
        raise InvalidInput(
            where=f"messages[{index}].type", what=f"must be an item's type as a string, got {item.get('type')!r}"
        )
    if kind == "message":
        raise InvalidInput(where=f"messages[{index}].role", what="missing")
    if kind == "reasoning":
        blocks = (b for key in ("summary", "content") if isinstance(held := item.get(key), (list, tuple)) for b in held)
        texts = [text for b in blocks if (text := string_of(mapping_or_none(b) or {}, "text")) is not None]
        # The id is the signature, since the provider ties reasoning to the items that follow it.
        signature, encrypted = string_of(item, "id"), string_of(item, "encrypted_content")
        return "assistant", (Thinking("\n".join(texts), signature, encrypted, source=native),)
    if is_client_call(kind, item):
        return "assistant", (read_call(native, item, CALLS[kind], index),)
    if is_client_output(kind, item):
        return "tool", read_output(native, item, kind, index)
    if kind == "image_generation_call" and (result := string_of(item, "result")):
        # A generated picture counts as a picture, and not as the characters that carry it.
        rest = {key: value for key, value in item.items() if key != "result"}
        picture = Media("image", f"image/{string_of(item, 'output_format') or 'png'}", result, source=native)
        return "assistant", (Opaque(kind, rest, source=native), picture)
    if kind in SETTINGS:
        return "developer", (Opaque(kind, item, source=native),)
    # The provider made the rest, or nobody knows it. Programs and tool searches come in two halves.
    role = item.get("role")
    opens = string_of(item, "call_id") if kind in {"program", "tool_search_call"} else None
    closes = string_of(item, "call_id") if kind in {"program_output", "tool_search_output"} else None
    opaque = Opaque(kind, item, opens, closes, source=native, caller=caller_of(item))
    return (role if role in ROLES else "assistant"), (opaque,)


def read_call(native: Native, item: Mapping[str, Native], kind: CallKind, index: int) -> ToolCall:
    """A call that the client runs; what a built-in tool shall do stands in its arguments as JSON."""
    identity, name = item.get(kind.id_key), kind.tool or item.get("name")
    key = arguments_key(item, kind)
    arguments = item.get(key)
    if kind.tool is not None and not isinstance(arguments, str):
        arguments = serialise(arguments)
    if isinstance(identity, str) and isinstance(name, str) and isinstance(arguments, str):
        asks = kind.output == "mcp_approval_response"
        return ToolCall(identity, name, arguments, source=native, optional=asks, caller=caller_of(item))
    found = ((kind.id_key, identity), ("name", name), (key, arguments))
    field, value = next(pair for pair in found if not isinstance(pair[1], str))
    raise InvalidInput(where=f"messages[{index}].{field}", what=_expected(value))


def arguments_key(item: Mapping[str, Any], kind: CallKind) -> str:
    """The key of a call that says what to do."""
    return next((key for key in kind.arguments if item.get(key) is not None), kind.arguments[0])


def _expected(value: object) -> str:
    return "missing" if value is None else f"must be a string, got {value!r}"


def read_system(native: Native) -> Message | None:
    """The ``instructions`` of a request: a string, or (as in a response) messages; None when there are none."""
    if native is None:
        return None
    if not isinstance(native, (str, list, tuple)):
        raise InvalidInput("system", f"must be instructions as a string, got {type(native).__name__}")
    if isinstance(native, str):
        return Message.read("system", read_content(native, "system"), native)
    parts: list[Part] = []
    for place, each in enumerate(native):
        is_message = "role" in as_mapping(each, f"system[{place}]")
        parts += read_message(each, place).parts if is_message else read_content([each], "system")
    return Message.read("system", tuple(parts), native)


def read_tools(native: Sequence[Any] | None) -> tuple[Tool, ...]:
    """The native tool definitions as values; a hosted tool has an empty name and is counted by its definition."""
    tools = []
    for index, tool in enumerate(native or ()):
        data = as_mapping(tool, f"tools[{index}]")
        kind = data.get("type", "function")
        if kind not in ("function", "custom"):
            tools.append(Tool("", source=tool))
            continue
        body = mapping_or_none(data.get(kind)) or data  # Chat's form, where the definition is one level deeper
        if string_of(body, "name") is None:
            raise InvalidInput(where=f"tools[{index}].name", what=_expected(body.get("name")))
        # A custom tool has no schema; the grammar of its input is what the model is told instead.
        keys = ("parameters", "inputSchema", "format")
        schema = next((found for key in keys if (found := mapping_or_none(body.get(key))) is not None), None)
        tools.append(tool_as_read(body, schema, tool))
    return tuple(tools)


_PARTS = "message.parts"


def write_message(message: Message) -> Native:
    """A message as an item: the payload it was read from when nobody touched it."""
    if message.as_read:
        return message.source
    item = fields_of(message.source)
    parts = message.parts
    alone = parts[0] if len(parts) == 1 else None
    if message.role == "tool" and isinstance(alone, Opaque):
        return alone.data if alone.source is None else alone.source
    if message.role == "tool":
        return write_output(parts, item)
    if isinstance(alone, ToolCall):
        return _call(alone, fields_of(alone.source) or item)
    if parts and all(isinstance(part, Thinking) for part in parts):
        return _reasoning(parts, message.source)
    if item.get("type", "message") != "message":
        return _unknown(parts, item, message.source)
    wrong = next((part for part in parts if isinstance(part, (Thinking, ToolCall, ToolResult))), None)
    if wrong is not None:
        raise InvalidInput(_PARTS, f"a {type(wrong).__name__} is an item of its own: give it a message of its own")
    text_type = "output_text" if message.role == "assistant" else "input_text"
    return {**item, "role": message.role, "content": write_content(parts, item.get("content"), text_type)}


def _reasoning(parts: tuple[Part, ...], source: object) -> Native:
    """Reasoning is never edited: it goes back as it came."""
    part = parts[0]
    if len(parts) != 1 or not isinstance(part, Thinking):
        raise InvalidInput(_PARTS, "each piece of reasoning is an item of its own: give it a message of its own")
    if part.source is not None or source is not None:
        return source if part.source is None else part.source
    summary = [{"type": "summary_text", "text": part.text}] if part.text else []
    made: dict[str, Any] = {"type": "reasoning", "summary": summary}
    if part.signature is not None:
        made["id"] = part.signature
    if part.encrypted is not None:
        made["encrypted_content"] = part.encrypted
    return made


def _call(call: ToolCall, item: Mapping[str, Any]) -> dict[str, Any]:
    kind = CALLS.get(item.get("type", ""), CALLS["function_call"])
    native = {**item, "type": kind.call, kind.id_key: call.id}
    if kind.tool is None:
        native["name"] = call.name
    if not item or read_call(item, item, kind, 0).arguments != call.arguments:
        key = arguments_key(item, kind)
        native[key] = item.get(key)
        if kind.tool is None or isinstance(native[key], str):
            native[key] = call.arguments
        else:
            with suppress(ValueError):  # the arguments of a built-in tool are JSON
                native[key] = json.loads(call.arguments)
    return native


def _unknown(parts: tuple[Part, ...], item: dict[str, Native], source: object) -> Native:
    """An item that we do not write: as it came. A generated picture may be taken out, or another may be put in."""
    if item.get("type") != "image_generation_call":
        return source
    picture = next((part for part in parts if isinstance(part, Media)), None)
    words = "\n".join(part.text for part in parts if isinstance(part, Text))
    if picture is None and words:
        return {"role": "assistant", "content": words}
    if picture is None or picture.data == item.get("result"):
        return {key: value for key, value in item.items() if picture is not None or key != "result"}
    return {**item, "result": picture.data}


def without_id(message: Message) -> Message:
    """The message as its item without the id, which ties it to reasoning; itself when that has none."""
    fields = fields_of(message.source)
    if "id" not in fields:
        return message
    native = {key: value for key, value in fields.items() if key != "id"}
    parts: list[Part] = []
    for part in message.parts:
        # A part may have been read from this item, or from an equal one, since callers make theirs anew.
        source = fields_or_none(part.source) or {}
        if "id" not in source or source["id"] != fields["id"]:
            parts.append(part)
        elif isinstance(part, Opaque):
            data = {key: value for key, value in fields_of(part.data).items() if key != "id"}
            parts.append(evolve(part, data=data, source=native))
        else:
            parts.append(evolve(part, source=native))
    role, read = (message.role, tuple(parts)) if message.as_read else (None, None)
    return message.replaced(Message(message.role, tuple(parts), source=native, read_role=role, read_parts=read))


_NEEDS_ID = frozenset({"reasoning", "mcp_approval_request"})


@define
class _Repairing:
    """What is sent instead of messages.

    Args:
        instead: By index, the message to send instead (None: nothing), and why.
    """

    messages: Sequence[Message]
    instead: dict[int, tuple[Message | None, str]] = field(factory=dict)

    def now(self, index: int) -> Message | None:
        """What is sent at this place; None when nothing is."""
        return self.instead[index][0] if index in self.instead else self.messages[index]

    def put(self, index: int, message: Message | None, why: str) -> None:
        """Send something else at this place."""
        before = self.instead.get(index, (None, ""))[1]
        self.instead[index] = message, f"{before}, {why}" if before else why


def repair(messages: Sequence[Message], earlier: Mapping[str, Message]) -> tuple[Repaired, ...]:
    """What is refused and can be repaired: (index, new message or None to drop it, why).

    Text is cleaned, ids are shortened alike in calls and results, an item that is there twice goes once, reasoning
    that nothing follows goes.
    """
    repairing = _Repairing(messages)
    for index, message in enumerate(messages):
        for part in message.parts:
            if not _is_fine(part):
                why: list[str] = []
                parts = tuple([_repair_part(each, why) for each in message.parts])
                if why:
                    repairing.put(index, message.with_parts(parts), ", ".join(dict.fromkeys(why)))
                break
    _repeated(repairing, earlier, reasoning=False)
    for index, message in enumerate(messages[:-1]):  # a wish for compaction stands at the end or not at all
        wish = message.parts[0] if message.role == "developer" and message.parts else None
        if isinstance(wish, Opaque) and wish.kind == "compaction_trigger":
            repairing.put(index, None, "a compaction_trigger must be the last item")
    _unfollowed(repairing)
    _repeated(repairing, earlier, reasoning=True)  # last: of two with one id, the first may be among those that went
    return tuple((index, *repairing.instead[index]) for index in sorted(repairing.instead))


def _is_fine(part: Part) -> bool:
    """Whether a part is surely fine: looked at before anything is made, since nearly every part is."""
    if isinstance(part, Text):
        return part.text.isascii() and not _marked_wrongly(part)
    if isinstance(part, ToolCall):
        plain = part.arguments.isascii() and "NaN" not in part.arguments and "Infinity" not in part.arguments
        return plain and IDS.takes(part.id) and NAME.fullmatch(part.name) is not None
    if isinstance(part, ToolResult):
        return IDS.takes(part.call_id) and all(map(_is_fine, part.content))
    return not isinstance(part, Thinking) or not value_of(part.source, "content")


def _repair_part(part: Part, why: list[str]) -> Part:
    before, source = len(why), part.source
    match part:
        case Text():
            if _marked_wrongly(part):
                why.append("a cache marker stands on input only")
                source = {key: held for key, held in fields_of(source).items() if key != BREAKPOINT}
            clean = cleaned(part.text, why)
            return part if len(why) == before else evolve(part, text=clean, source=source)
        case ToolCall():
            finite, identity, name = sent_arguments(part, why), _short(part.id, why), part.name
            if not NAME.fullmatch(name):
                why.append("the name of a call has characters that are not allowed")
                name = nearest_name(name)
            return part if len(why) == before else evolve(part, id=identity, name=name, arguments=finite)
        case ToolResult():
            content = tuple([_repair_part(each, why) for each in part.content])
            identity = _short(part.call_id, why)
            return part if len(why) == before else evolve(part, call_id=identity, content=content)
        case Thinking() if part.encrypted is not None and value_of(source, "content"):
            # Encrypted reasoning goes back without its readable form, which OpenAI refuses.
            why.append("reasoning goes back encrypted only")
            native = {**fields_of(source), "content": []}
            summary = (string_of(fields_of(each), "text") for each in native.get("summary") or ())
            return evolve(part, text="\n".join(text for text in summary if text is not None), source=native)
    return part


def _marked_wrongly(part: Text) -> bool:
    """Whether a cache marker stands on a block that is none of input."""
    block = part.source
    if block is None or isinstance(block, str) or value_of(block, BREAKPOINT) is None:
        return False
    return value_of(block, "type") not in CACHEABLE


def summarised(
    messages: Sequence[Message], profile: ModelProfile | None, note: Note, _after: Message | None = None
) -> Sequence[Message]:
    """The messages with readable reasoning in its summary, the one place that OpenAI's own models take it in."""
    if profile is None or openai_family(profile.family) is None:
        return messages
    changed: dict[int, Message] = {}
    for index, message in enumerate(messages):
        if not any(isinstance(part, Thinking) and value_of(part.source, "content") for part in message.parts):
            continue
        part = message.parts[0]
        native = {**fields_of(part.source), "content": []}
        if isinstance(part, Thinking) and part.text and part.encrypted is None:
            native["summary"] = [{"type": "summary_text", "text": part.text}]
        changed[index] = message.with_parts((evolve(part, source=native),))
        for each in (message, changed[index]):
            note(each, "reasoning goes back as a summary")
    return [changed.get(index, message) for index, message in enumerate(messages)] if changed else messages


def _short(identity: str, why: list[str]) -> str:
    """The id, or one that fits, made from it alone, so that call and result still match."""
    if not IDS.takes(identity):
        why.append("the id of a call is empty, or too long")
    return IDS.respelled(identity)


def item_id(message: Message) -> str | None:
    """The id of an item, which no other may have; None when it has none."""
    identity = value_of(message.source, "id")
    if not isinstance(identity, str) or value_of(message.source, "type") == "local_shell_call_output":
        return None  # the id of a local shell's answer is that of the call
    return identity


def of_their_kind(messages: Sequence[Message], _after: Message | None = None) -> list[Arranged]:
    """Answers of another kind than their calls, each with what says the same in the kind that the call asks for."""
    found: list[Arranged] = []
    asked: dict[str, ToolCall] = {}
    for index, message in enumerate(messages):
        for part in message.parts:
            if isinstance(part, ToolCall):
                asked[part.id] = part
            elif isinstance(part, ToolResult) and (call := asked.get(part.call_id)) is not None:
                kind = value_of(message.source, "type") or "function_call_output"
                if message.role == "tool" and kind != kind_answering(call):
                    made = message.replaced(read_message(answer_as(call, part), index))
                    found.append((index, (made,), f"a {kind_answering(call)} has to answer the call, not a {kind}"))
    return found


def _repeated(repairing: _Repairing, earlier: Mapping[str, Message], *, reasoning: bool) -> None:
    """No two items may have one id: the same item again goes, another one with that id goes on without id."""
    seen: dict[str, Message] = {}
    for index, message in enumerate(repairing.messages):
        now = repairing.now(index)
        if now is None or (identity := item_id(now)) is None or (_thought(now) is not None and not reasoning):
            continue
        first = earlier.get(identity) or seen.setdefault(identity, message)
        if first is message:
            continue
        same = first == message or bool(first.payload == message.payload)  # which may have been cut since
        if same or value_of(message.source, "type") in _NEEDS_ID:
            repairing.put(index, None, f"the item {identity!r} is there twice")
        else:
            repairing.put(index, without_id(now), f"another item has the id {identity!r}")


def _unfollowed(repairing: _Repairing) -> None:
    """Signed reasoning goes when the item that it led to is not there."""
    followed = False
    for index in range(len(repairing.messages) - 1, -1, -1):
        if (message := repairing.now(index)) is None:
            continue
        if (thought := _thought(message)) is None:
            followed = message.role == "assistant"
        elif thought.signed and not followed:
            repairing.put(index, None, "nothing follows the reasoning")


def _thought(message: Message) -> Thinking | None:
    """The reasoning that an item is; None when it is another."""
    first = message.parts[0] if message.parts else None
    return first if isinstance(first, Thinking) else None


_ITEMS = frozenset({*CALLS, *OUTPUTS, *SETTINGS, REFERENCE, "message", "reasoning"})
_CHAT_KEYS = ("tool_calls", "function_call", "tool_call_id")
_BLOCKS = frozenset({"input_text", "output_text", "input_image", "input_file", "input_audio"})
_FOREIGN = frozenset(
    {"text", "image_url", "file", "image", "document", "thinking", "redacted_thinking", "tool_use", "tool_result"}
    | {"server_tool_use", "video_url"}
)


def recognise(request: Mapping[str, Any]) -> int:
    """0 impossible, 1 possible, 5 likely, 10 certain. Looks no further than the first certain sign."""
    items = request.get("input", request.get("messages"))
    if isinstance(items, str):
        return LIKELY if "input" in request else IMPOSSIBLE
    if not isinstance(items, Sequence) or "contents" in request:
        return IMPOSSIBLE
    best = _tools(request.get("tools"))
    if best in (IMPOSSIBLE, CERTAIN):
        return best
    return surest(items, _item, LIKELY if "input" in request or "instructions" in request else best)


def _tools(tools: object) -> int:
    """Functions are described one level higher than in Chat Completions."""
    if not isinstance(tools, Sequence) or isinstance(tools, str) or not tools:
        return POSSIBLE
    first = mapping_or_none(tools[0]) or {}
    kind = first.get("type")
    if kind in ("function", "custom"):
        flat = isinstance(first.get("name"), str) and mapping_or_none(first.get(kind)) is None
        return CERTAIN if flat else IMPOSSIBLE
    foreign = "input_schema" in first or "functionDeclarations" in first or "toolSpec" in first
    return IMPOSSIBLE if foreign else POSSIBLE


def _item(native: object) -> int:
    item = mapping_or_none(native)
    if item is None or any(item.get(key) is not None for key in _CHAT_KEYS):
        return IMPOSSIBLE
    kind = kind_of(item)
    if kind == "message":
        # The messages of Anthropic's answers have the type "message" too, and blocks of their own.
        said = _blocks(item.get("content")) if item.get("role") in ROLES else IMPOSSIBLE
        return CERTAIN if said and isinstance(item.get("type"), str) else said
    if kind in _ITEMS:
        return CERTAIN
    return LIKELY if kind and "content" not in item else POSSIBLE if kind else IMPOSSIBLE


def _blocks(content: object) -> int:
    if not isinstance(content, (list, tuple)):
        return POSSIBLE if content is None or isinstance(content, str) else IMPOSSIBLE
    for block in content:
        kind = (mapping_or_none(block) or {}).get("type")
        if not isinstance(kind, str) or kind in _FOREIGN:
            return IMPOSSIBLE
        if kind in _BLOCKS:
            return CERTAIN
    return POSSIBLE


_TAKEN_ALONG = frozenset(
    {"role", "content", "text", "call_id", "name", "arguments", "input", "output", "action", "operation", "id"}
    | {"image_url", "file_id", "file_data", "file_url", "detail", "input_audio", "data", "format", "status"}
    | {"logprobs", "result"}
)
"""The keys of messages whose values a conversion takes along, or reports as left behind."""


@frozen
class OpenAIResponses(WireFormat):
    """The Responses format.

    One item is one message: a piece of reasoning, a call and an answer each have a message of their own. System
    messages may stand beside the ``instructions``. An answer names the call that it answers, wherever it stands, and
    has to be of its kind.
    """

    name = "openai-responses"
    provider = "openai"
    other_names = ("openai", "responses")
    keys = RequestKeys("input", system="instructions", system_leads=True)
    rounds = RoundRules(merges_turns=True, results_anywhere=True, unique_ids=True)
    cache_markers = KeyMarkers(
        (BREAKPOINT,), breakpoint_of, text_type="input_text", roles=frozenset({"user", "system", "developer"})
    )
    # Like Chat. The envelope: encrypted items of 26 to 1,792 reasoning tokens had 1,080 to 9,572 characters.
    overheads = TokenOverheads(envelope=900)

    def usual_for(self, family: str, /) -> int:
        """After Chat Completions."""
        return 1 if OPENAI_MODELS.search(family) else 0

    recognises = staticmethod(recognise)
    read_message = staticmethod(read_message)
    read_system = staticmethod(read_system)
    read_tools = staticmethod(read_tools)
    write_message = staticmethod(write_message)
    numbered = staticmethod(IDS.numbered)
    item_name = staticmethod(item_id)
    repair = staticmethod(repair)
    arrange = staticmethod(of_their_kind)
    arrange_for = staticmethod(summarised)

    def synthetic_result(self, calls: Sequence[ToolCall], text: str, /) -> tuple[Message, ...]:
        """One answer for each call, of the kind that the call asks for, saying ``text`` where that kind has words."""
        return tuple(read_message(lost_output(call, text), 0) for call in calls)

    def capabilities(self, _model: str | None, _profile: ModelProfile | None, /) -> Capabilities:
        """What it can say."""
        media = {"image": PICTURES, "document": PDF}
        return Capabilities(
            keys=_TAKEN_ALONG,
            grouping="one item",
            system_between="developer",
            says_failed=False,
            details=True,
            in_user=media,
            in_results=media,
            by_url=frozenset({"image", "document"}),
            arguments_object=False,
            names_files="input_file",
        )

    def without_reasoning(self, message: Message, /) -> Message | None:
        """The message without reasoning, and without the id that ties it to some; None when nothing is left."""
        kept = super().without_reasoning(message)
        return kept if kept is None or kept.role != "assistant" else without_id(kept)

    def write_tool(self, tool: Tool, /) -> Native:
        """A tool of the caller's as a definition: one that does not say it would be read as a strict one."""
        return {"type": "function", **super().write_tool(tool), "strict": is_strict(tool)}


_LAST = frozenset({"response.completed", "response.incomplete", "response.failed"})
_BEFORE_CONTENT = frozenset(
    {"response.created", "response.queued", "response.in_progress", "response.content_part.added", "keepalive"}
)
_CHAINS = ("previous_response_id", "conversation")


@frozen
class Responses(Adapter):
    """``POST /responses``, as OpenAI's SDK sends and answers it."""

    format = "openai-responses"
    messages_key = "input"
    system_key = "instructions"

    def read(self, body: Body, /) -> RequestParts | None:
        """Items, instructions, tools and model; None for a prompt that the provider keeps, without any input."""
        for key in _CHAINS:
            if body.get(key) is not None:
                what = (
                    "the provider adds what it has kept, which can be neither counted nor cut here: leave it out and "
                    "send all items in input, with store=False and include=['reasoning.encrypted_content'] "
                    "(in Microsoft's Agent Framework: Agent(client, default_options={'store': False}))"
                )
                raise InvalidInput(key, what)
        items = body.get("input")
        if isinstance(items, str):
            items = [{"role": "user", "content": items}]
        elif items is not None and not isinstance(items, (list, tuple)):
            raise InvalidInput("input", f"must be a string or a list of items, got {type(items).__name__}")
        return super().read({**body, "input": None if items is None else [*items]})

    def write(self, body: Body, request: RequestParts, view: View, /) -> dict[str, Any]:
        """The request with the view's items, instructions and tools; an input that was a string stays one."""
        written = super().write(body, request, view)
        if isinstance(body.get("input"), str) and view.messages == list(request.messages):
            written["input"] = body["input"]
        return written

    def usage(self, said: Native, /) -> Native:
        """The ``usage`` of a response, or of the response within an event."""
        return get(said, "usage") or get(said, "response", "usage")

    def begins(self, event: Native, /) -> bool:
        """Whether an event is of something that the model made."""
        kind = get(event, "type")
        if kind == "response.output_item.added":
            return bool(get(event, "item", "type") != "message")
        return kind not in _BEFORE_CONTENT

    def ends(self, event: Native, /) -> bool:
        """Tell whether an event is the last one of a response."""
        return get(event, "type") in _LAST

    def failure(self, said: Native, /) -> Native:
        """The error of a failed response, which the SDK hands over like any other."""
        if get(said, "type") == "error":
            return said
        failed = get(said, "response") if get(said, "type") == "response.failed" else said
        return get(failed, "error") if get(failed, "status") in ("failed", None) else None  # a gateway's has no status
