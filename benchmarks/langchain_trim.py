"""LangChain's ``trim_messages``, on messages of any provider.

Called as LangGraph's guide to memory does, but for ``start_on``: an agent that runs long after its last user message
would be left with nothing but its system prompt, so a request may start with the assistant too.

Needs the ``bench`` extra: ``pip install agentctx-middleware[bench]``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage, trim_messages

from agentctx import Message
from agentctx.message import SYSTEM_ROLES


def langchain_trim(messages: Sequence[Message], room: int, count: Callable[[Message], int]) -> list[int]:
    """The places of the messages that LangChain keeps of them in ``room`` tokens.

    Args:
        messages: The transcript so far.
        room: The most tokens that may be kept.
        count: How many tokens a message has.
    """
    shells = [_shell(message, place) for place, message in enumerate(messages)]

    def tokens(some: list[BaseMessage]) -> int:
        return sum(count(messages[int(shell.id or 0)]) for shell in some)

    kept = trim_messages(
        shells,
        max_tokens=room,
        strategy="last",
        token_counter=tokens,
        start_on=("human", "ai"),
        end_on=("human", "tool"),
        include_system=True,
    )
    return [int(shell.id or 0) for shell in kept]


def _shell(message: Message, place: int) -> BaseMessage:
    """LangChain's message of the same kind, which knows the place; it needs no words, they are counted elsewhere."""
    name = str(place)
    if message.role in SYSTEM_ROLES:
        return SystemMessage("-", id=name)
    if message.role == "assistant":
        calls = [{"name": call.name, "args": {}, "id": call.id, "type": "tool_call"} for call in message.calls]
        return AIMessage("-", id=name, tool_calls=calls)
    if message.results:
        return ToolMessage("-", id=name, tool_call_id=message.results[0].call_id)
    return HumanMessage("-", id=name)
