"""The messages that frameworks keep, read as a provider takes them.

LangChain's, Pydantic AI's, OpenAI Agents', OpenHands' events (of its server: ``action``, ``observation``; of its SDK:
``kind``), and Inspect's logs (``.eval``, a zip archive with a file for each sample; ``.json``, one document).

A framework's messages are no provider's. They are read as values first, a ``Turns``; whether there is signed reasoning,
which only Anthropic's shape can hold, shows when all of them are read: without any, they are Chat Completions.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from attrs import define, evolve, field, frozen

from agentctx.economics import Usage
from agentctx.errors import InvalidInput
from agentctx.formats.registry import format_named
from agentctx.message import Media, Message, Native, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.models.table import find
from agentctx.replay import Billed, Recording
from agentctx.transcripts.costs import seconds, usage_of
from agentctx.transcripts.exchanges import chat_message
from agentctx.transcripts.files import (
    Fields,
    Read,
    left_out,
    list_in,
    object_in,
    objects_in,
    parse,
    text_in,
    tool_of,
)

if TYPE_CHECKING:
    import zipfile
else:
    try:  # before Python 3.14 the standard library does not unpack what Inspect packs
        from backports.zstd import zipfile
    except ModuleNotFoundError:
        import zipfile

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


def read_langchain(messages: Sequence[Native], beside: Fields) -> Read:
    """A list of LangChain's messages, as ``messages_to_dict``, ``dumpd`` and ``model_dump()`` write them.

    Raises:
        InvalidInput: If one of them is none of LangChain's; names its place.
    """
    turns = Turns()
    for index, message in enumerate(messages):
        _add_langchain(turns, message, f"messages[{index}]")
    return Read(turns.recording(id=text_in(beside, "id")))


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
    return text_in(object_in(state, "config", "configurable"), "thread_id")


def _add_langchain(turns: Turns, message: Native, where: str) -> None:
    said = _langchain_fields(message)
    if said is None:
        raise InvalidInput(where, "this is no message of LangChain, as the ones before it are")
    role, content = _langchain_role(said), said.get("content")
    if role == "tool":
        turns.add("tool", [_langchain_result(said)])
    elif role == "assistant":
        keys = ("tool_calls", "invalid_tool_calls")
        turns.answer(content, [call for key in keys for call in calls_beside(said, key, "name", "args")])
        model = text_in(object_in(said, "response_metadata"), "model_name", "model")
        turns.bill(usage_of(said.get("usage_metadata")), model)
    elif role is not None:
        turns.add(role, content_parts(content))


def _langchain_fields(message: Native) -> dict[str, Any] | None:
    """What a message says, out of each of the three shapes."""
    if not isinstance(message, Mapping):
        return None
    if isinstance(message.get("data"), Mapping):
        return {**message["data"], "type": message.get("type")}
    if isinstance(message.get("kwargs"), Mapping):
        path = list_in(message, "id")
        name = str(path[-1]) if path else ""
        kind = name.removesuffix("Chunk").removesuffix("Message").lower()
        return {"type": kind, **message["kwargs"]}
    return dict(message) if "content" in message and "type" in message else None


def _langchain_role(said: Fields) -> str | None:
    kind = str(said.get("type")).removesuffix("MessageChunk").lower()
    if kind == "chat":
        return {"assistant": "assistant", "system": "system", "tool": "tool"}.get(str(said.get("role")), "user")
    return None if kind == "remove" else _LANGCHAIN_ROLES.get(kind, "user")


def _langchain_result(said: Fields) -> Part:
    call = text_in(said, "tool_call_id")
    return ToolResult(
        str(said.get("name")) if call is None else call,
        tuple(content_parts(said.get("content"))),
        text_in(said, "name"),
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
            turns.bill(usage_of(message.get("usage")), text_in(message, "model_name"), at)
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
    return ToolResult(str(part.get("tool_call_id")), tuple(said), text_in(part, "tool_name"), is_error=failed)


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
    return left_out([item for item in items if isinstance(item, Mapping) and not object_in(item, "raw_item")], "item")


def _raw_items(items: Sequence[Native]) -> list[Native]:
    raw = filter(None, (object_in(item, "raw_item") for item in items))
    return [{key: value for key, value in item.items() if value is not None} for item in raw]


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
        tools: Sequence[Native] = (),
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
        definitions = [_tool(tool, format_name) for tool in tools if isinstance(tool, Mapping)]
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
    inner = object_in(tool, "function") or tool
    name, description = text_in(inner, "name"), text_in(inner, "description")
    if name is None:
        return None
    schema = inner.get("parameters") or inner.get("input_schema") or {"type": "object", "properties": {}}
    said = {"name": name} if description is None else {"name": name, "description": description}
    if format_name == "anthropic":
        return {**said, "input_schema": schema}
    return {"type": "function", "function": {**said, "parameters": schema}}


def calls_beside(message: Fields, key: str, name: str, given: str) -> list[ToolCall]:
    """Read the calls that stand beside a message's content.

    Args:
        message: The message.
        key: Where the calls are; a call may keep tool and arguments in its ``function``.
        name: The key of the tool.
        given: The key of the arguments.
    """
    calls = []
    for call in objects_in(message, key):
        inner = object_in(call, "function") or call
        if (id_of_call := text_in(call, "id")) is not None:
            calls.append(ToolCall(id_of_call, str(inner.get(name)), arguments(inner.get(given))))
    return calls


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
    blocks = content if isinstance(content, (list, tuple)) else [content]
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
    signed = text_in(block, "signature") or text_in(object_in(block, "extras"), "signature")
    hidden = text_in(block, "data") if block.get("type") == "redacted_thinking" else None
    if block.get("redacted") is True:  # as Inspect keeps it
        return Thinking("", encrypted=str(block.get("reasoning")))
    text = text_in(block, "thinking", "reasoning", "text") or ""
    return Thinking(text, signed, hidden) if text or hidden is not None else None


def _media(block: Fields) -> Media | None:
    """A picture, a sound or a document, wherever the block keeps it."""
    kind = _kind_of_media(str(block["type"]).removeprefix("input_").removesuffix("_url"))
    held = next((block[key] for key in ("image_url", "source", "input_audio", "file", kind) if key in block), block)
    if isinstance(held, str):
        return _from_url(kind, held)
    if not isinstance(held, Mapping):
        return None
    data, url = text_in(held, "base64", "data", "file_data"), text_in(held, "url")
    if data is None:
        return None if url is None else _from_url(kind, url)
    if data.startswith("data:"):
        return _from_url(kind, data)
    stated = text_in(held, "media_type", "mime_type")
    return Media(kind, stated or ("image/png" if kind == "image" else None), data)


def _kind_of_media(word: str) -> str:
    return word if word in ("image", "audio", "video") else "document"


def _from_url(kind: str, url: str) -> Media:
    """A picture, a sound or a document by its address, which may hold it."""
    found = _DATA_URL.fullmatch(url)
    return Media(kind, url=url) if found is None else Media(kind, found[1], found[2])


OPENHANDS = "OpenHands"
OPENHANDS_TRAJECTORY = "OpenHands (trajectory)"

_SILENT = ("agent_state_changed", "change_agent_state", "null", "recall", "condensation")
_KINDS = ("Event", "Observation", "Condensation", "CondensationRequest", "CondensationSummaryEvent")


def read_openhands(events: Sequence[Native], beside: Fields) -> Read:
    """The events of a conversation."""
    # early versions keep an action together with its observation
    flat = (one for event in events for one in (event if isinstance(event, list) else [event]))
    said = [event for event in flat if isinstance(event, Mapping)]
    ends = ("ObservationEvent", "AgentErrorEvent")
    answered = {_call_of(event) for event in said if "observation" in event or event.get("kind") in ends}
    conversation = _Conversation(answered=answered)
    for event in said:
        _take_in(conversation, event)
    conversation.flush()
    name = text_in(beside, "instance_id", "id")
    times = conversation.condensed
    often = "once" if times == 1 else f"{times:,} times"
    notes = left_out([event for event in said if not _is_known(event)], "event")
    if times:
        notes = (*notes, f"the conversation was condensed {often} by OpenHands itself: its requests were shorter")
    return Read(conversation.turns.recording(tools=conversation.tools, id=name), notes)


def read_openhands_trajectory(document: Fields, place: str) -> Iterator[Read]:
    """The events that a line of an evaluation's output, or a saved trajectory, holds."""
    events = list_in(document, "history", "trajectory", "events")
    if not events:
        raise InvalidInput(place, "this trajectory of OpenHands holds no events: no model was called")
    yield read_openhands(events, document)


def read_openhands_folder(folder: Path, max_bytes: int) -> Iterator[Read]:
    """The events of a folder as the SDK keeps them: ``events/event-00000-<id>.json``, a file each.

    Args:
        folder: The conversation's folder, or the one of its events.
        max_bytes: All events together may have no more.

    Raises:
        InvalidInput: If no events are in it, one cannot be read, or they are larger together.
    """
    files = sorted([*folder.glob("event-*.json"), *folder.glob("events/event-*.json")])
    if not files:
        raise InvalidInput(str(folder), "is a directory, not a file")
    size = sum(file.stat().st_size for file in files)
    if size > max_bytes:
        raise InvalidInput(str(folder), f"has more than {max_bytes:,} bytes: pass --max-bytes to read more of it")
    events = [parse(str(file), (1, file.read_bytes())) for file in files]
    name = folder.parent.name if folder.name == "events" else folder.name
    yield read_openhands(events, {"id": name})


@define
class _Conversation:
    """What the events have said so far.

    An answer with several calls is an event for each call; it is one message, which stands where the first stands.
    """

    turns: Turns = field(factory=Turns)
    tools: Sequence[Native] = ()
    id: str | None = None
    condensed: int = 0
    answered: set[str] = field(factory=set)
    _answer: tuple[str | None, list[Part], Fields] | None = None
    _results: list[Part] = field(factory=list)

    def say(self, role: str, parts: Sequence[Part]) -> None:
        """What the user or the system said, or an answer without a call."""
        self.flush()
        self.turns.add(role, parts)

    def ask(self, answer: str | None, parts: Sequence[Part], bill: Fields) -> None:
        """A part of an answer: one that goes on with the answer before is joined with it."""
        if self._answer is not None and answer is not None and self._answer[0] == answer:
            known = {part.id for part in self._answer[1] if isinstance(part, ToolCall)}
            new = [part for part in parts if isinstance(part, ToolCall) and part.id not in known]
            self._answer[1].extend(new)
            return
        self.flush()
        self._answer = answer, list(parts), bill

    def hear(self, result: ToolResult) -> None:
        """The result of a call."""
        self._results.append(result)

    def flush(self) -> None:
        """The answer that is open is whole, and so are its results."""
        if self._answer is not None:
            _, parts, bill = self._answer
            # the call that ends a task has no result, and is no call for those after it
            ends = [each for each in parts if isinstance(each, ToolCall) and each.name == "finish"]
            self.turns.add("assistant", [each for each in parts if each not in ends or each.id in self.answered])
            self.turns.bill(usage_of(bill.get("usage")), text_in(bill, "model"), seconds(bill.get("timestamp")))
            self._answer = None
        self.turns.add("tool", self._results)
        self._results = []


def _is_known(event: Fields) -> bool:
    """Whether an event is of a kind that OpenHands writes."""
    kind = event.get("kind")
    return kind.endswith(_KINDS) if isinstance(kind, str) else "observation" in event or "action" in event


def _take_in(conversation: _Conversation, event: Fields) -> None:
    if isinstance(event.get("kind"), str):
        _take_in_of_sdk(conversation, event)
    elif event.get("action") in _SILENT or event.get("observation") in _SILENT:
        conversation.condensed += event.get("action") == "condensation"
    elif "observation" in event:
        _observe(conversation, event)
    elif "action" in event:
        _act(conversation, event)


def _act(conversation: _Conversation, event: Fields) -> None:
    args = object_in(event, "args")
    action, content = event.get("action"), args.get("content")
    if action == "system":
        conversation.say("system", content_parts(content))
        conversation.tools = list_in(args, "tools") or conversation.tools
    elif action == "message" and event.get("source") == "user":
        urls = (url for url in list_in(args, "image_urls") if isinstance(url, str))
        shown = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
        conversation.say("user", [*content_parts(content), *content_parts(shown)])
    elif event.get("source") == "agent":
        _answer(conversation, event, args)


def _answer(conversation: _Conversation, event: Fields, args: Fields) -> None:
    metadata = object_in(event, "tool_call_metadata")
    response = object_in(metadata, "model_response")
    bill = {"usage": response.get("usage"), "model": response.get("model"), "timestamp": event.get("timestamp")}
    if (message := chat_message(response)) is not None:
        conversation.ask(text_in(response, "id"), _parts(message), bill)
    elif event.get("action") == "message":
        conversation.ask(None, content_parts(args.get("content")), bill)
    elif event.get("action") == "finish":
        said = args.get("final_thought") or args.get("thought") or event.get("message")
        conversation.ask(None, content_parts(str(said or "Done.")), bill)
    else:
        name, thought = metadata.get("function_name") or event.get("action"), text_in(args, "thought")
        given = {key: value for key, value in args.items() if key != "thought"}
        call = ToolCall(_call_of(event), str(name), arguments(given))
        conversation.ask(None, [*content_parts(thought or ""), call], bill)


def _observe(conversation: _Conversation, event: Fields) -> None:
    content = event.get("content")
    said = content if isinstance(content, str) else arguments(content)
    if event.get("cause") is None and not object_in(event, "tool_call_metadata"):
        conversation.say("user", content_parts(said))
        return
    failed = event.get("observation") == "error"
    conversation.hear(ToolResult(_call_of(event), tuple(content_parts(said)), is_error=failed))


def _call_of(event: Fields) -> str:
    """The id of the call that an event is, or answers; without one, the number of the event that was the call."""
    named = text_in(event, "tool_call_id") or text_in(object_in(event, "tool_call_metadata"), "tool_call_id")
    return named or f"event_{event.get('cause', event.get('id'))}"


def _parts(message: Fields) -> list[Part]:
    """The parts of a message of Chat Completions."""
    thought = text_in(message, "reasoning_content")
    parts: list[Part] = [Thinking(thought)] if thought else []
    calls = calls_beside(message, "tool_calls", "name", "arguments")
    return [*parts, *content_parts(message.get("content")), *calls]


def _take_in_of_sdk(conversation: _Conversation, event: Fields) -> None:
    kind = event["kind"]
    if kind == "SystemPromptEvent":
        conversation.say("system", content_parts(event.get("system_prompt")))
        conversation.tools = list_in(event, "tools") or conversation.tools
    elif kind == "MessageEvent":
        said = object_in(event, "llm_message")
        parts = [*content_parts(said.get("content")), *content_parts(list_in(event, "extended_content"))]
        if said.get("role") == "assistant":
            conversation.ask(None, parts, {"timestamp": event.get("timestamp")})
        else:
            conversation.say("user", parts)
    elif kind == "ActionEvent":
        _act_of_sdk(conversation, event)
    elif kind in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation"):
        _observe_of_sdk(conversation, event)
    elif kind == "Condensation":
        conversation.condensed += 1


def _act_of_sdk(conversation: _Conversation, event: Fields) -> None:
    call = object_in(event, "tool_call")
    inner = object_in(call, "function") or call
    name = inner.get("name") or event.get("tool_name")
    asked = ToolCall(_call_of(event), str(name), arguments(inner.get("arguments")))
    thought, reasoning = content_parts(list_in(event, "thinking_blocks")), text_in(event, "reasoning_content")
    if not thought and reasoning:
        thought = [Thinking(reasoning)]
    said = content_parts(text_in(event, "thought") or list_in(event, "thought"))
    parts = [*thought, *said, asked]
    if name == "finish" and asked.id not in conversation.answered and not said:
        parts.append(Text(text_in(event.get("action"), "message") or "Done."))
    conversation.ask(text_in(event, "llm_response_id"), parts, {"timestamp": event.get("timestamp")})


def _observe_of_sdk(conversation: _Conversation, event: Fields) -> None:
    held = object_in(event, "observation")
    content = next((held[key] for key in ("content", "output", "message", "text") if held.get(key)), None)
    failed = event["kind"] != "ObservationEvent" or held.get("is_error") is True
    if content is None:
        content = event.get("error") or event.get("rejection_reason") or arguments(held)
    parts = content_parts(content if isinstance(content, (str, list)) else arguments(content))
    conversation.hear(ToolResult(_call_of(event), tuple(parts), text_in(event, "tool_name"), is_error=failed))


INSPECT_LOG = "Inspect (evaluation log)"
INSPECT = "Inspect"

_KEPT_APART = "attachment://"
_BUFFER = 1 << 20


def read_inspect_archive(file: IO[bytes], name: str, max_bytes: int) -> Iterator[Read]:
    """The samples of an ``.eval`` file, one by one.

    Args:
        file: The archive, which is sought in.
        name: What errors call it.
        max_bytes: All samples together may have no more, unpacked.

    Raises:
        InvalidInput: If it is another archive, damaged, or larger; says what to do.
    """
    try:
        archive = zipfile.ZipFile(file)
    except zipfile.BadZipFile as error:
        raise InvalidInput(name, f"damaged archive: {error}") from None
    names = sorted((one for one in archive.namelist() if one.startswith("samples/")), key=_in_order)
    if not names and not any(one in archive.namelist() for one in ("header.json", "_journal/start.json")):
        raise InvalidInput(name, "this is a zip archive, and not an .eval file of Inspect: unpack it first")
    if not names:
        raise InvalidInput(name, "this .eval file of Inspect holds no sample: no model was called")
    left = max_bytes
    for one in names:
        where = f"{name}, {one}"
        content = _member(archive, one, name, left, max_bytes)
        left -= len(content)
        sample = parse(where, (1, content))
        if not isinstance(sample, Mapping):
            raise InvalidInput(where, "this is no sample of Inspect")
        yield from _sample(sample, where)


def _in_order(name: str) -> list[tuple[bool, int, str]]:
    words = name.replace("/", "_").replace(".", "_").split("_")
    return [(word.isdigit(), int(word) if word.isdecimal() else 0, word) for word in words]


def _member(archive: zipfile.ZipFile, name: str, where: str, left: int, most: int) -> bytes:
    try:
        content = _unpacked(archive, name, left + 1)
    except NotImplementedError:
        install = "pip install 'agentctx-middleware[inspect-logs]'"
        what = f"packed with zstd, which Python before 3.14 does not unpack by itself: {install}"
        raise InvalidInput(where, what) from None
    except (zipfile.BadZipFile, EOFError, OSError, ValueError, RuntimeError, zlib.error) as error:
        raise InvalidInput(where, f"damaged archive: {name}: {error}") from None
    except Exception as error:
        if type(error).__name__ not in ("ZstdError", "LZMAError"):  # of a library that may not be there
            raise
        raise InvalidInput(where, f"damaged archive: {name}: {error}") from None
    if len(content) > left:
        raise InvalidInput(where, f"has more than {most:,} bytes, unpacked: pass --max-bytes to read more of it")
    return content


def _unpacked(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """What a file of an archive holds, but no more of it than ``most`` bytes."""
    pieces, size = [], 0
    with archive.open(name) as member:
        while size < most and (piece := member.read(min(_BUFFER, most - size))):
            pieces.append(piece)
            size += len(piece)
    return b"".join(pieces)


def read_inspect_log(log: Fields, place: str) -> Iterator[Read]:
    """The samples of a log that is one document."""
    samples = list_in(log, "samples")
    if not samples:
        raise InvalidInput(place, "this log of Inspect holds no sample: no model was called")
    for index, sample in enumerate(samples):
        if isinstance(sample, Mapping):
            yield from _sample(sample, f"{place}, samples[{index}]")


def _sample(sample: Fields, place: str) -> Iterator[Read]:
    messages = list_in(sample, "messages")
    if not messages:
        raise InvalidInput(place, "this sample holds no messages: no model was called")
    yield read_inspect(messages, sample)


def read_inspect(messages: Sequence[Native], sample: Fields) -> Read:
    """Messages as Inspect keeps them, with the sample that they stand in."""
    apart = object_in(sample, "attachments")
    turns, model, bills = Turns(), None, _bills(sample)
    others: list[Fields] = []
    for message in messages:
        if not isinstance(message, Mapping):
            continue
        said = _whole(message, apart)
        role = said.get("role")
        if role == "tool":
            turns.add("tool", [_result(said)])
        elif role == "assistant":
            turns.answer(said.get("content"), calls_beside(said, "tool_calls", "function", "arguments"))
            model = text_in(said, "model") or model
            usage, at = bills.get(str(said.get("id")), (None, None))
            turns.bill(usage_of(usage), model, at)
        elif isinstance(role, str):
            turns.add("system" if role in ("system", "developer") else "user", content_parts(said.get("content")))
        else:
            others.append(message)
    name = None if sample.get("id") is None else f"{sample.get('id')}/{sample.get('epoch', 1)}"
    tools = next(filter(None, (list_in(event, "tools") for event in _model_events(sample))), ())
    return Read(turns.recording(tools=tools, model=model, id=name), left_out(others, "message"))


def _whole(value: Native, apart: Mapping[str, Native]) -> Native:
    """A value with the long texts that are kept apart back in their places."""
    if isinstance(value, str) and value.startswith(_KEPT_APART):
        found = apart.get(value.removeprefix(_KEPT_APART))
        return found if isinstance(found, str) else value
    if isinstance(value, Mapping):
        return {key: _whole(each, apart) for key, each in value.items()}
    return [_whole(each, apart) for each in value] if isinstance(value, list) else value


def _result(said: Fields) -> Part:
    error = said.get("error")
    parts = content_parts(said.get("content"))
    if not parts and isinstance(error, Mapping):
        parts = content_parts(str(error.get("message")))
    called, named = str(said.get("tool_call_id")), text_in(said, "function")
    return ToolResult(called, tuple(parts), named, is_error=error is not None)


def _model_events(sample: Fields) -> list[Fields]:
    return [event for event in objects_in(sample, "events") if event.get("event") == "model"]


def _bills(sample: Fields) -> dict[str, tuple[Native, float | None]]:
    """What was billed for each answer, by the answer's id."""
    found: dict[str, tuple[Native, float | None]] = {}
    for event in _model_events(sample):
        output = object_in(event, "output")
        if (message := chat_message(output)) is not None:
            found[str(message.get("id"))] = output.get("usage"), seconds(event.get("timestamp"))
    return found
