"""LangChain's messages and tools in the format of Chat Completions, and back: for LangChain's and LangGraph's hooks.

LangChain's own converters do it, but for what they leave in the content: reasoning that is signed stands beside it, and
a call once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, convert_to_messages, convert_to_openai_messages
from langchain_core.utils.function_calling import convert_to_openai_tool

from agentctx.core.message import Native
from agentctx.frameworks.calls import UNNAMED, Converted, Piece, Request
from agentctx.providers.openai_chat.format import ChatCompletions

_THINKING = frozenset({"thinking", "redacted_thinking"})
_CALLS = frozenset({"tool_use", "function_call", "tool_call"})
_API = ChatCompletions()


def read(
    thread: object, messages: Sequence[BaseMessage], tools: Sequence[Native], model: object
) -> Request[BaseMessage]:
    """What LangChain is about to send.

    Args:
        thread: The conversation's name, if it has one; without it, the id of its first message.
        messages: The messages, the system prompt first.
        tools: LangChain's tools, or a provider's own definitions.
        model: LangChain's chat model, or its name.
    """
    first = next((each.id for each in messages if each.type != "system"), None)
    name = (first or UNNAMED) if thread is None else str(thread)
    pieces = [_pieces_of(message) for message in messages]
    definitions = [_tool_of(tool) for tool in tools] or None
    return Request(name, _API, messages, pieces, write, tools=definitions, model=_name_of(model))


def usage_of(message: object) -> Native:
    """What was billed for an answer, as the API has it; None when it is not told."""
    billed = getattr(message, "usage_metadata", None)
    if not billed:
        return None
    cached = (billed.get("input_token_details") or {}).get("cache_read") or 0
    return {
        "prompt_tokens": billed["input_tokens"],
        "completion_tokens": billed["output_tokens"],
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def _read_message(message: BaseMessage) -> list[Any]:
    natives: list[dict[str, Any]] = convert_to_openai_messages([message])
    if isinstance(message, AIMessage) and isinstance(content := natives[0].get("content"), list):
        thought = [block for block in content if _kind(block) in _THINKING]
        natives[0]["content"] = [block for block in content if _kind(block) not in _THINKING | _CALLS]
        natives[0].update({"thinking_blocks": thought} if thought else {})
    return natives


def _parts(message: BaseMessage) -> Sequence[object]:
    content = message.content if isinstance(message.content, list) else [message.content]
    return [message.content, *content, *getattr(message, "tool_calls", ())]


_pieces_of: Converted[BaseMessage] = Converted(_read_message, _parts)
_tool_of_object: Converted[Any] = Converted(lambda tool: [convert_to_openai_tool(tool)], lambda _tool: ())


def _tool_of(tool: Native) -> Native:
    """A tool's definition; a provider's own stays as it is."""
    return tool if isinstance(tool, Mapping) else _tool_of_object(tool)[0]


def _name_of(model: Native) -> str | None:
    while (bound := getattr(model, "bound", None)) is not None:
        model = bound
    names = (model, *(getattr(model, name, None) for name in ("model_name", "model", "model_id")))
    return next((name for name in names if isinstance(name, str)), None)


def write(was: BaseMessage | None, pieces: Sequence[Piece]) -> BaseMessage:
    """LangChain's message of what is to be sent, with the id that it had."""
    native = pieces[0].message
    if was is None:
        made: BaseMessage = convert_to_messages([native])[0]
        return made
    if was.type == "human" and len(_pieces_of(was)) > 1:
        return was.model_copy(update={"content": [block for piece in pieces for block in _in_human(piece.message)]})
    if not isinstance(was, AIMessage):
        return was.model_copy(update={"content": native["content"]})
    calls = {call["id"]: json.loads(call["function"]["arguments"] or "{}") for call in native.get("tool_calls") or ()}
    kept = [{**call, "args": calls[call["id"]]} for call in was.tool_calls if call["id"] in calls]
    beside = {name: value for name, value in was.additional_kwargs.items() if name != "tool_calls"}
    return was.model_copy(
        update={"content": _content(was, native, calls), "tool_calls": kept, "additional_kwargs": beside}
    )


def _in_human(native: Mapping[str, Any]) -> list[Any]:
    """What stands in one message beside others, as Anthropic has it."""
    content = native["content"]
    if native["role"] == "tool":
        return [{"type": "tool_result", "tool_use_id": native["tool_call_id"], "content": content}]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _content(was: AIMessage, native: Mapping[str, Any], calls: Mapping[Any, Any]) -> Native:
    """The content of an answer as it is now: without reasoning and calls that are gone, with their new arguments."""
    said = native.get("content") or ""
    if isinstance(was.content, str):
        return said
    if said == _pieces_of(was)[0]["content"]:
        said = [block for block in was.content if _kind(block) not in _THINKING | _CALLS]
    words = iter([{"type": "text", "text": said}] if isinstance(said, str) else said)
    thought = native.get("thinking_blocks") or ()
    content: list[Any] = []
    for block in was.content:
        if _kind(block) in _THINKING:
            content += [block] if block in thought else []
        elif isinstance(block, Mapping) and _kind(block) in _CALLS:
            content += _call_in_content(block, calls)
        else:
            content += islice(words, 1)
    return [*content, *words]


def _call_in_content(block: Mapping[str, Any], calls: Mapping[Any, Any]) -> list[Any]:
    name = block.get("call_id") or block.get("id")
    if name not in calls:
        return []
    key = next(key for key in ("input", "arguments", "args") if key in block)
    return [{**block, key: json.dumps(calls[name]) if isinstance(block[key], str) else calls[name]}]


def _kind(block: object) -> object:
    return block.get("type") if isinstance(block, Mapping) else None
