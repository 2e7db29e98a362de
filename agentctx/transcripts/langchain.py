"""LangChain's messages (``messages_to_dict``, ``dumpd``, ``model_dump()``); LangGraph's states and checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve

from agentctx.core.message import Native, Part, ToolCall, ToolResult
from agentctx.errors import InvalidInput
from agentctx.providers.native import string_of
from agentctx.providers.other_tools import tool_of
from agentctx.transcripts.costs import usage_of
from agentctx.transcripts.files import Fields, Read, left_out
from agentctx.transcripts.turns import Turns, arguments, content_parts

NAME = "LangChain"
STATE = "LangGraph (state)"
CHECKPOINT = "LangGraph (checkpoint)"

_ROLES = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}
_STATE = frozenset({"values", "channel_values", "config", "metadata"})
_THREAD = ("config", "configurable", "thread_id")


def read(messages: Sequence[Native], beside: Fields) -> Read:
    """A list of messages as LangChain writes them.

    Raises:
        InvalidInput: If one of them is none of LangChain's; names its place.
    """
    turns = Turns()
    for index, message in enumerate(messages):
        _add(turns, message, f"messages[{index}]")
    return Read(turns.recording(id=string_of(beside, "id")))


def read_state(state: Fields, place: str) -> Iterator[Read]:
    """The messages of a state: of ``values`` of a snapshot, or of ``channel_values`` of a checkpoint."""
    yield _of_state(state, place)


def read_history(states: Sequence[Native], _beside: Fields) -> Read:
    """The longest of several states of one thread: it holds what the others hold."""
    held = [(messages, state) for state in states if isinstance(state, Mapping) and (messages := _held(state))]
    if not held:
        raise InvalidInput("values", "no state of this history of LangGraph holds messages: no model was called")
    messages, state = max(held, key=lambda one: len(one[0]))
    found = read(messages, {"id": _thread(state)})
    others = [each for each in states if isinstance(each, Mapping) and not _STATE & each.keys()]
    return evolve(found, notes=(*found.notes, *left_out(others, "state")))


def _of_state(state: Fields, place: str) -> Read:
    messages = _held(state)
    if not messages:
        raise InvalidInput(place, "this state of LangGraph holds no messages: no model was called")
    return read(messages, {"id": _thread(state)})


def _held(state: Fields) -> Sequence[Native]:
    """The messages of a state, whatever its channel for them is called."""
    values = state.get("values", state.get("channel_values"))
    lists = values.values() if isinstance(values, Mapping) else [values]
    found = (each for each in lists if isinstance(each, list) and each and _is_message(each[0]))
    return next(found, ())


def _is_message(value: Native) -> bool:
    tool = tool_of(value)
    return tool is not None and tool.name == NAME


def _thread(state: Fields) -> str | None:
    value: Native = state
    for key in _THREAD:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) else None


def _add(turns: Turns, message: Native, where: str) -> None:
    said = _fields(message)
    if said is None:
        raise InvalidInput(where, "this is no message of LangChain, as the ones before it are")
    role, content = _role(said), said.get("content")
    if role == "tool":
        turns.add("tool", [_result(said)])
    elif role == "assistant":
        calls = [*_calls(said)]
        turns.add("assistant", [*content_parts(content, [call.id for call in calls]), *calls])
        named = said.get("response_metadata")
        model = (named.get("model_name") or named.get("model")) if isinstance(named, Mapping) else None
        turns.bill(usage_of(said.get("usage_metadata")), model if isinstance(model, str) else None)
    elif role is not None:
        turns.add(role, content_parts(content))


def _fields(message: Native) -> dict[str, Any] | None:
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


def _role(said: Fields) -> str | None:
    kind = str(said.get("type")).removesuffix("MessageChunk").lower()
    if kind == "chat":
        return {"assistant": "assistant", "system": "system", "tool": "tool"}.get(str(said.get("role")), "user")
    return None if kind == "remove" else _ROLES.get(kind, "user")


def _calls(said: Fields) -> Iterator[ToolCall]:
    for key in ("tool_calls", "invalid_tool_calls"):
        calls = said.get(key)
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, Mapping) and isinstance(call.get("id"), str):
                yield ToolCall(call["id"], str(call.get("name")), arguments(call.get("args")))


def _result(said: Fields) -> Part:
    call = string_of(said, "tool_call_id")
    return ToolResult(
        str(said.get("name")) if call is None else call,
        tuple(content_parts(said.get("content"))),
        string_of(said, "name"),
        is_error=said.get("status") == "error",
    )
