"""Other libraries' ways to keep a transcript within a number of tokens, called as their documentation says.

Each is a plain function of the transcript so far, converted beforehand where the library has message classes of its
own (converting is not timed). Tokens are counted with the same vocabulary everywhere, where a library lets one
choose. None of these libraries remembers anything from one call to the next, so the time of a call depends on the
transcript alone, and a loop may be timed at a sample of its steps.

Needs the ``bench`` extra: ``pip install agentctx-middleware[bench]``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from attrs import frozen

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # before litellm is imported: it would fetch the list of prices

from agentix import FitContextWindow, Message as AgentixMessage, Role, ToolCall
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage, trim_messages
from litellm.utils import trim_messages as litellm_trim_messages

Message = dict[str, Any]
Count = Callable[[str], int]


@frozen
class Peer:
    """A library and one way to use it.

    Args:
        name: What the table says.
        convert: A message in the library's own class.
        trim: Bring messages down to a number of tokens; may be async.
        exact: Whether it counts with a tokenizer.
    """

    name: str
    convert: Callable[[Message], Any]
    trim: Callable[[list[Any], int], Awaitable[object] | object]
    exact: bool


def peers(count: Count) -> dict[str, Peer]:
    """The peers by a short key.

    Args:
        count: How many tokens a text has.
    """
    exact = partial(_langchain_trim, _langchain_count(count))
    approximate = partial(_langchain_trim, "approximate")
    return {
        "langchain-exact": Peer("langchain_core.trim_messages, tiktoken", _langchain, exact, exact=True),
        "langchain-approximate": Peer(
            "langchain_core.trim_messages, approximate", _langchain, approximate, exact=False
        ),
        "litellm": Peer("litellm.trim_messages", _as_it_is, _litellm_trim, exact=True),
        "agentix-exact": Peer(
            "agentix FitContextWindow, tiktoken",
            _agentix,
            lambda messages, room: FitContextWindow(room, count).compact(messages),
            exact=True,
        ),
        "agentix-heuristic": Peer(
            "agentix FitContextWindow, heuristic",
            _agentix,
            lambda messages, room: FitContextWindow(room).compact(messages),
            exact=False,
        ),
    }


def _langchain_trim(counter: object, messages: list[BaseMessage], room: int) -> object:
    """As the docstring of ``trim_messages`` advises for chat models."""
    return trim_messages(
        messages, max_tokens=room, strategy="last", token_counter=counter, start_on="human", include_system=True
    )


def _langchain_count(count: Count) -> Callable[[list[BaseMessage]], int]:
    """A counter of message lists: three tokens a message and for the reply, role, text, names and arguments."""

    def tokens(messages: list[BaseMessage]) -> int:
        total = 3
        for message in messages:
            total += 3 + count(message.type) + count(message.text)
            for call in getattr(message, "tool_calls", ()):
                total += count(call["name"]) + count(json.dumps(call["args"]))
        return total

    return tokens


def _langchain(message: Message) -> BaseMessage:
    match message["role"]:
        case "system":
            return SystemMessage(message["content"])
        case "user":
            return HumanMessage(message["content"])
        case "tool":
            return ToolMessage(message["content"], tool_call_id=message["tool_call_id"])
    return AIMessage(message["content"], tool_calls=[{**call, "type": "tool_call"} for call in _calls(message)])


def _litellm_trim(messages: list[Message], room: int) -> object:
    """With a limit of its own instead of a share of the model's."""
    return litellm_trim_messages(messages, model="gpt-4o", max_tokens=room)


def _as_it_is(message: Message) -> Message:
    return message


def _agentix(message: Message) -> AgentixMessage:
    meta: dict[str, Any] = {}
    if calls := _calls(message):
        meta["tool_calls"] = [ToolCall(**call) for call in calls]
    if "tool_call_id" in message:
        meta["call_id"] = message["tool_call_id"]
    return AgentixMessage(Role(message["role"]), message["content"], meta=meta)


def _calls(message: Message) -> list[dict[str, Any]]:
    """Id, name and arguments of the tool calls, the arguments read."""
    return [
        {"id": call["id"], "name": call["function"]["name"], "args": json.loads(call["function"]["arguments"])}
        for call in message.get("tool_calls", ())
    ]
