"""The messages that frameworks keep, read as a provider takes them: LangChain's, Pydantic AI's, OpenAI Agents'.

A framework's messages are no provider's. They are read as values first, a ``Turns``; whether there is signed reasoning,
which only Anthropic's shape can hold, shows when all of them are read: without any, they are Chat Completions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import define, evolve, field, frozen

from agentctx.economics import Usage
from agentctx.errors import InvalidInput
from agentctx.formats.native import string_of
from agentctx.formats.registry import format_named
from agentctx.message import Media, Message, Native, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.models.table import find
from agentctx.replay import Billed, Recording
from agentctx.transcripts.costs import seconds, usage_of
from agentctx.transcripts.files import Fields, Read, left_out, tool_of

LANGCHAIN = "LangChain"
LANGGRAPH_STATE = "LangGraph (state)"
LANGGRAPH_CHECKPOINT = "LangGraph (checkpoint)"

_LANGCHAIN_ROLES = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}
_STATE_KEYS = frozenset({"values", "channel_values", "config", "metadata"})
_THREAD = ("config", "configurable", "thread_id")


def read_langchain(messages: Sequence[Native], beside: Fields) -> Read:
    """A list of LangChain's messages, as ``messages_to_dict``, ``dumpd`` and ``model_dump()`` write them.

    Raises:
        InvalidInput: If one of them is none of LangChain's; names its place.
    """
    turns = Turns()
    for index, message in enumerate(messages):
        _add_langchain(turns, message, f"messages[{index}]")
    return Read(turns.recording(id=string_of(beside, "id")))


def read_langgraph_state(state: Fields, place: str) -> Iterator[Read]:
    """The messages of a state: of ``values`` of a snapshot, or of ``channel_values`` of a checkpoint."""
    messages = _messages_of_state(state)
    if not messages:
        raise InvalidInput(place, "this state of LangGraph holds no messages: no model was called")
    yield read_langchain(messages, {"id": _thread(state)})


def read_langgraph_history(states: Sequence[Native], _beside: Fields) -> Read:
    """The longest of several states of one thread: it holds what the others hold."""
    held = [
        (messages, state) for state in states if isinstance(state, Mapping) and (messages := _messages_of_state(state))
    ]
    if not held:
        raise InvalidInput("values", "no state of this history of LangGraph holds messages: no model was called")
    messages, state = max(held, key=lambda one: len(one[0]))
    found = read_langchain(messages, {"id": _thread(state)})
    others = [each for each in states if isinstance(each, Mapping) and not _STATE_KEYS & each.keys()]
    return evolve(found, notes=(*found.notes, *left_out(others, "state")))


def _messages_of_state(state: Fields) -> Sequence[Native]:
    """The messages of a state, whatever its channel for them is called."""
    values = state.get("values", state.get("channel_values"))
    lists = values.values() if isinstance(values, Mapping) else [values]
    found = (each for each in lists if isinstance(each, list) and each and _is_langchain(each[0]))
    return next(found, ())


def _is_langchain(value: Native) -> bool:
    tool = tool_of(value)
    return tool is not None and tool.name == LANGCHAIN


def _thread(state: Fields) -> str | None:
    value: Native = state
    for key in _THREAD:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) else None


def _add_langchain(turns: Turns, message: Native, where: str) -> None:
    said = _langchain_fields(message)
    if said is None:
        raise InvalidInput(where, "this is no message of LangChain, as the ones before it are")
    role, content = _langchain_role(said), said.get("content")
    if role == "tool":
        turns.add("tool", [_langchain_result(said)])
    elif role == "assistant":
        valid, invalid = (calls_beside(said.get(key), "name", "args") for key in ("tool_calls", "invalid_tool_calls"))
        turns.answer(content, [*valid, *invalid])
        named = said.get("response_metadata")
        model = (named.get("model_name") or named.get("model")) if isinstance(named, Mapping) else None
        turns.bill(usage_of(said.get("usage_metadata")), model if isinstance(model, str) else None)
    elif role is not None:
        turns.add(role, content_parts(content))


def _langchain_fields(message: Native) -> dict[str, Any] | None:
    """What a message says, out of each of the three shapes."""
    if not isinstance(message, Mapping):
        return None
    if isinstance(message.get("data"), Mapping):
        return {**message["data"], "type": message.get("type")}
    if isinstance(message.get("kwargs"), Mapping):
        path = message.get("id")
        name = str(path[-1]) if isinstance(path, list) and path else ""
        kind = name.removesuffix("Chunk").removesuffix("Message").lower()
        return {"type": kind, **message["kwargs"]}
    return dict(message) if "content" in message and "type" in message else None


def _langchain_role(said: Fields) -> str | None:
    kind = str(said.get("type")).removesuffix("MessageChunk").lower()
    if kind == "chat":
        return {"assistant": "assistant", "system": "system", "tool": "tool"}.get(str(said.get("role")), "user")
    return None if kind == "remove" else _LANGCHAIN_ROLES.get(kind, "user")


def _langchain_result(said: Fields) -> Part:
    call = string_of(said, "tool_call_id")
    return ToolResult(
        str(said.get("name")) if call is None else call,
        tuple(content_parts(said.get("content"))),
        string_of(said, "name"),
        is_error=said.get("status") == "error",
    )


PYDANTIC_AI = "pydantic-ai (ModelMessages)"


def read_pydantic_ai(messages: Sequence[Native], _beside: Fields) -> Read:
    """Requests and responses, as ``ModelMessagesTypeAdapter.dump_json`` and ``result.all_messages_json()`` write them.

    Raises:
        InvalidInput: If one of them is neither; names its place.
    """
    turns = Turns()
    instructions = [said for one in messages if isinstance(one, Mapping) and (said := one.get("instructions"))]
    if instructions and isinstance(instructions[-1], str):
        turns.add("system", [Text(instructions[-1])])
    name = None
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("parts"), list):
            where = f"messages[{index}]"
            raise InvalidInput(where, "this is no message of pydantic-ai, as the ones before it are")
        name = name or message.get("conversation_id")
        parts = [part for part in message["parts"] if isinstance(part, Mapping)]
        if message.get("kind") == "response":
            turns.add("assistant", [part for each in parts if (part := _answer_part(each)) is not None])
            at = seconds(message.get("timestamp"))
            turns.bill(usage_of(message.get("usage")), string_of(message, "model_name"), at)
        else:
            _add_request(turns, parts)
    return Read(turns.recording(id=name if isinstance(name, str) else None))


def _add_request(turns: Turns, parts: Sequence[Fields]) -> None:
    """What was sent beside the history: results first, as each belongs to the answer before."""
    turns.add("tool", [_tool_return(part) for part in parts if _is_tool_return(part)])
    for part in parts:
        kind = part.get("part_kind")
        if kind == "system-prompt":
            turns.add("system", _said(part.get("content")))
        elif kind == "user-prompt" or (kind == "retry-prompt" and not _is_tool_return(part)):
            turns.add("user", _said(part.get("content")))


def _is_tool_return(part: Fields) -> bool:
    kind = part.get("part_kind")
    return kind == "tool-return" or (kind == "retry-prompt" and part.get("tool_name") is not None)


def _tool_return(part: Fields) -> ToolResult:
    content = part.get("content")
    said = _said(content) if isinstance(content, (str, list)) else [Text(arguments(content))]
    failed = part.get("part_kind") == "retry-prompt" or part.get("outcome") == "failed"
    return ToolResult(str(part.get("tool_call_id")), tuple(said), string_of(part, "tool_name"), is_error=failed)


def _answer_part(part: Fields) -> Part | None:
    kind, content = part.get("part_kind"), part.get("content")
    if kind == "text":
        return Text(content) if isinstance(content, str) and content else None
    if kind == "thinking":
        signature = part.get("signature")
        signed = signature if isinstance(signature, str) and part.get("provider_name") == "anthropic" else None
        return Thinking(str(content), signed) if content else None
    if kind == "tool-call":
        return ToolCall(str(part.get("tool_call_id")), str(part.get("tool_name")), arguments(part.get("args")))
    return Text(arguments(part))  # what the provider's own tools did, and files that it made


def _said(content: Native) -> list[Part]:
    if isinstance(content, str):
        return [Text(content)] if content else []
    blocks = content if isinstance(content, list) else [content]
    parts = [Text(each) if isinstance(each, str) else _pydantic_media(each) for each in blocks]
    return [part for part in parts if not isinstance(part, Text) or part.text]


def _pydantic_media(value: Native) -> Part:
    if isinstance(value, Mapping) and isinstance(value.get("url"), str):
        return _from_url(str(value.get("kind")).removesuffix("-url"), value["url"])
    if isinstance(value, Mapping) and value.get("kind") == "binary" and isinstance(value.get("data"), str):
        stated = str(value.get("media_type"))
        data = value["data"].replace("-", "+").replace("_", "/")  # it is written with the letters of addresses
        return Media(_kind_of_media(stated.partition("/")[0]), stated, data)
    return Text(arguments(value))


AGENTS_ITEMS = "the OpenAI Agents SDK (RunItem)"
AGENTS_STATE = "the OpenAI Agents SDK (RunState)"


def read_run_items(items: Sequence[Native], _beside: Fields) -> Read:
    """The items of a run, each with the item of Responses that it holds; what was asked is not among them."""
    note = "the items of a run do not hold what was asked: result.to_input_list() does"
    return Read(Recording(_raw_items(items), format="openai-responses", pending=False), (note, *_other_items(items)))


def read_run_state(state: Fields, place: str) -> Iterator[Read]:
    """The items of a run's state, behind what was asked.

    Raises:
        InvalidInput: If nothing was asked.
    """
    asked = state.get("original_input")
    messages = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
    items: Native = next((state[key] for key in ("session_items", "generated_items") if state.get(key)), [])
    if not isinstance(messages, list) or not isinstance(items, list) or not messages:
        raise InvalidInput(place, "this run's state holds no items: no model was called")
    waits = not items
    recording = Recording([*messages, *_raw_items(items)], format="openai-responses", pending=waits)
    yield Read(recording, _other_items(items))


def _other_items(items: Sequence[Native]) -> tuple[str, ...]:
    """What there is to say of items that hold none of Responses."""
    others = [item for item in items if isinstance(item, Mapping) and not isinstance(item.get("raw_item"), Mapping)]
    return left_out(others, "item")


def _raw_items(items: Sequence[Native]) -> list[Native]:
    raw = [item.get("raw_item") for item in items if isinstance(item, Mapping)]
    return [
        {key: value for key, value in each.items() if value is not None} for each in raw if isinstance(each, Mapping)
    ]


@frozen
class _Bill:
    """What was billed for an answer, by the place of the answer among the turns."""

    place: int
    usage: Usage
    model: str | None
    at: float | None


@define
class Turns:
    """A conversation as it is read, message by message."""

    messages: list[Message] = field(factory=list)
    _bills: list[_Bill] = field(factory=list)

    def add(self, role: str, parts: Iterable[Part]) -> None:
        """Add a message; one that says nothing is none."""
        said = tuple(parts)
        if said:
            self.messages.append(Message(role, said))

    def answer(self, content: Native, calls: Iterable[ToolCall]) -> None:
        """Add an answer of the model, with the calls that stand beside its content, which may say them again."""
        beside = tuple(calls)
        self.add("assistant", [*content_parts(content, [call.id for call in beside]), *beside])

    def bill(self, usage: Usage | None, model: str | None = None, at: float | None = None) -> None:
        """Note what the message that was added last was billed."""
        if usage is not None and self.messages:
            self._bills.append(_Bill(len(self.messages) - 1, usage, model, at))

    def recording(
        self,
        *,
        tools: Sequence[Native] | None = None,
        model: str | None = None,
        id: str | None = None,  # noqa: A002 - as a recording calls it
    ) -> Recording:
        """The conversation as it would have been sent."""
        model = model or next((bill.model for bill in reversed(self._bills) if bill.model), None)
        reasoning = (part for one in self.messages for part in one.parts if isinstance(part, Thinking))
        signed = any(part.signed for part in reasoning)
        if signed and model is not None:  # by Anthropic, where the model is one of Claude's, or in no table
            signed = "claude" in model.lower() or find(model) is None
        natives, places, system = (_for_anthropic if signed else _for_chat)(self.messages)
        billed = (Billed(places[bill.place], bill.usage, bill.model or model, bill.at) for bill in self._bills)
        format_name = "anthropic" if signed else "openai-chat"
        definitions = [_tool(tool, format_name) for tool in tools or () if isinstance(tool, Mapping)]
        return Recording(
            natives,
            system=system,
            tools=[tool for tool in definitions if tool is not None] or None,
            format=format_name,
            model=model,
            id=id,
            pending=False,
            billed=tuple(billed),
        )


def _for_chat(messages: Sequence[Message]) -> tuple[list[Native], list[int], Native]:
    """One message for each result; reasoning beside what is said."""
    wire = format_named("openai-chat")
    natives: list[Native] = []
    places = []
    for message in messages:
        places.append(len(natives))
        results = [part for part in message.parts if isinstance(part, ToolResult)]
        natives += [wire.write_message(Message("tool", (result,))) for result in results]
        rest = tuple(part for part in message.parts if not isinstance(part, (ToolResult, Thinking)))
        thought = "\n".join(part.text for part in message.parts if isinstance(part, Thinking) and part.text)
        if rest or thought:
            role = "user" if message.role == "tool" else message.role
            native = wire.write_message(Message(role, rest or (Text(""),)))
            natives.append({**native, "reasoning_content": thought} if thought else native)
    return natives, places, None


def _for_anthropic(messages: Sequence[Message]) -> tuple[list[Native], list[int], Native]:
    """What stands between two answers is one message, its results first; the first system messages stand apart."""
    wire = format_named("anthropic")
    system = [part.text for one in messages if one.role == "system" for part in one.parts if isinstance(part, Text)]
    merged: list[Message] = []
    places = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        parts = tuple(
            evolve(part, name=None) if isinstance(part, ToolResult) else part
            for part in (() if message.role == "system" else message.parts)
            if not isinstance(part, Thinking) or part.signed
        )
        if not parts or (merged and role == "user" and merged[-1].role == "user"):
            if parts:
                merged[-1] = merged[-1].with_parts(_results_first((*merged[-1].parts, *parts)))
        else:
            merged.append(Message(role, _results_first(parts) if role == "user" else parts))
        places.append(max(0, len(merged) - 1))
    return [wire.write_message(message) for message in merged], places, "\n\n".join(system) or None


def _results_first(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    return tuple(sorted(parts, key=lambda part: not isinstance(part, ToolResult)))


def _tool(tool: Fields, format_name: str) -> dict[str, Any] | None:
    inner = tool.get("function") if isinstance(tool.get("function"), Mapping) else tool
    if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str):
        return None
    schema = inner.get("parameters") or inner.get("input_schema") or {"type": "object", "properties": {}}
    said = {"description": inner["description"]} if isinstance(inner.get("description"), str) else {}
    if format_name == "anthropic":
        return {"name": inner["name"], **said, "input_schema": schema}
    return {"type": "function", "function": {"name": inner["name"], **said, "parameters": schema}}


def calls_beside(calls: Native, name: str, given: str) -> Iterator[ToolCall]:
    """The calls that stand beside a message's content; ``name`` and ``given`` are the keys of tool and arguments."""
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, Mapping) and isinstance(call.get("id"), str):
            yield ToolCall(call["id"], str(call.get(name)), arguments(call.get(given)))


def arguments(value: Native) -> str:
    """Arguments of a call as JSON text, from an object or from text."""
    if isinstance(value, str):
        return value
    return json.dumps({} if value is None else value, ensure_ascii=False)


_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,(.*)", re.DOTALL)
_SPOKEN = ("text", "input_text", "output_text")
_MEDIA = ("image", "image_url", "input_image", "audio", "input_audio", "video", "document", "file", "media")


def content_parts(content: Native, calls: Iterable[Native] = ()) -> list[Part]:
    """What a message says, from text or from blocks as the frameworks keep them.

    Args:
        content: A text, a block or a list of them. A block of a kind that is not known is said as JSON.
        calls: Ids of calls that stand beside the content: blocks that say them again are left out.
    """
    if isinstance(content, str):
        return [Text(content)] if content else []
    blocks = content if isinstance(content, list) else [content]
    known = {call for call in calls if isinstance(call, str)}
    return [part for block in blocks if (part := _part(block, known)) is not None]


def _part(block: Native, calls: set[str]) -> Part | None:
    if isinstance(block, str):
        return Text(block) if block else None
    if not isinstance(block, Mapping):
        return None
    kind = block.get("type")
    if kind in _SPOKEN and isinstance(block.get("text"), str):
        return Text(block["text"]) if block["text"] else None
    if kind in ("thinking", "reasoning", "redacted_thinking"):
        return _thinking(block)
    if kind in ("tool_use", "tool_call", "function_call", "server_tool_call"):
        names = [each for key in ("id", "call_id") if isinstance(each := block.get(key), str)]
        if not names or not calls.isdisjoint(names):
            return None
        given = next((block[key] for key in ("input", "args", "arguments") if key in block), None)
        return ToolCall(names[0], str(block.get("name")), arguments(given))
    media = _media(block) if kind in _MEDIA else None
    return media or Text(json.dumps(block, ensure_ascii=False))


def _thinking(block: Fields) -> Thinking | None:
    extras = block.get("extras")
    signed = block.get("signature") or (extras.get("signature") if isinstance(extras, Mapping) else None)
    hidden = block.get("data") if block.get("type") == "redacted_thinking" else None
    if block.get("redacted") is True:  # as Inspect keeps it
        return Thinking("", encrypted=str(block.get("reasoning")))
    text = next((block[key] for key in ("thinking", "reasoning", "text") if isinstance(block.get(key), str)), "")
    if not text and not isinstance(hidden, str):
        return None
    return Thinking(text, signed if isinstance(signed, str) else None, hidden if isinstance(hidden, str) else None)


def _media(block: Fields) -> Media | None:
    """A picture, a sound or a document, wherever the block keeps it."""
    kind = _kind_of_media(str(block["type"]).removeprefix("input_").removesuffix("_url"))
    held = next((block[key] for key in ("image_url", "source", "input_audio", "file", kind) if key in block), block)
    if isinstance(held, str):
        return _from_url(kind, held)
    if not isinstance(held, Mapping):
        return None
    data = next((held[key] for key in ("base64", "data", "file_data") if isinstance(held.get(key), str)), None)
    url = held.get("url")
    if data is None:
        return _from_url(kind, url) if isinstance(url, str) else None
    if data.startswith("data:"):
        return _from_url(kind, data)
    stated = next((held[key] for key in ("media_type", "mime_type") if isinstance(held.get(key), str)), None)
    return Media(kind, stated or ("image/png" if kind == "image" else None), data)


def _kind_of_media(word: str) -> str:
    return word if word in ("image", "audio", "video") else "document"


def _from_url(kind: str, url: str) -> Media:
    """A picture, a sound or a document by its address, which may hold it."""
    found = _DATA_URL.fullmatch(url)
    return Media(kind, url=url) if found is None else Media(kind, found[1], found[2])
