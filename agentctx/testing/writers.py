"""Transcripts by hand: short words make messages as values, and the format's own writer gives them its shape.

Example::

    messages = transcript(
        "anthropic",
        user("why does the build fail?"),
        assistant("let me look", call("c1", "read", {"path": "build.log"})),
        result("c1", "error: missing semicolon"),
    )
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import evolve, field, frozen

from agentctx.errors import ConfigError
from agentctx.formats.registry import format_named
from agentctx.message import SYSTEM_ROLES, Media, Message, Native, Part, Text, Thinking, Tool, ToolCall, ToolResult


@frozen
class History:
    """A conversation as its provider would see it; ``system`` is None where the format does not keep it apart."""

    format: str
    messages: list[Any] = field(hash=False)
    system: Native = field(default=None, hash=False)
    tools: list[Any] | None = field(default=None, hash=False)

    @property
    def request(self) -> dict[str, Any]:
        """The request as ``agentctx.validate`` takes it."""
        apart = {"system": self.system, "tools": self.tools}
        return {"messages": self.messages} | {key: value for key, value in apart.items() if value is not None}


def transcript(format: str, *turns: Message | ToolResult) -> list[Any]:  # noqa: A002 - the library's name
    """Write the native messages alone.

    Args:
        format: Name of the wire format, ``"anthropic"`` for example.
        turns: The turns in order: ``user(...)``, ``assistant(...)``, ``result(...)``.

    Raises:
        InvalidInput: If there is no such format.
        ConfigError: If the format keeps the system prompt apart and there is one.

    Example:
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> messages = transcript("anthropic", user("Go."), assistant(call("c1", "read")), result("c1", "…"))
        >>> [message["role"] for message in messages]
        ['user', 'assistant', 'user']
    """
    written = history(format, *turns)
    if written.system is not None:
        msg = f"{format} keeps the system prompt apart from the messages: use history(...) and take its .system"
        raise ConfigError(msg)
    return written.messages


def history(
    format: str,  # noqa: A002 - the name that the whole library gives it
    *turns: Message | ToolResult,
    tools: Iterable[Tool] = (),
) -> History:
    """Write a whole request: messages, and system prompt and tools where the format keeps them.

    Args:
        format: Name of the format.
        turns: The turns in order; results stand between them as they are.
        tools: The tools on offer.

    Raises:
        InvalidInput: If there is no such format.

    Example:
        >>> from agentctx.testing import history, system, tool, user
        >>> request = history("anthropic", system("Be brief."), user("Hi"), tools=[tool("read")])
        >>> len(request.messages), len(request.tools)
        (1, 1)
    """
    wire = format_named(format)
    grouping = wire.capabilities(None, None).grouping
    messages, opening = _messages(turns, grouping), None
    # The Responses API takes a system prompt as an item, too.
    if wire.keys.system is not None and grouping != "one item" and messages and messages[0].role in SYSTEM_ROLES:
        opening = wire.write_system(messages.pop(0))
    return History(
        format,
        [wire.write_message(message) for message in messages],
        opening,
        [wire.write_tool(each) for each in tools] or None,
    )


def _messages(turns: Iterable[Message | ToolResult], grouping: str) -> list[Message]:
    """Put into each message as much as one of the format holds."""
    messages, names = list[Message](), dict[str, str]()
    each_result, each_item = grouping == "one result", grouping == "one item"
    for turn in turns:
        if isinstance(turn, ToolResult):
            if each_result or each_item:
                messages.append(Message("tool", (turn,)))
                continue
            answered = messages.pop().parts if messages and messages[-1].role == "tool" else ()
            messages.append(Message("tool", (*answered, evolve(turn, name=names.get(turn.call_id, "unknown")))))
        elif each_item and turn.role == "assistant":
            messages += [Message("assistant", (part,)) for part in turn.parts]
        else:
            names |= {each.id: each.name for each in turn.calls}
            unsigned = tuple(part for part in turn.parts if not isinstance(part, Thinking))
            messages.append(Message(turn.role, unsigned if each_result else turn.parts))  # chat has nothing signed
    return messages


def user(*parts: str | Part) -> Message:
    """Say something as the user.

    Args:
        parts: Texts, or values such as a ``Media``, in order.

    Example:
        >>> from agentctx.testing import transcript, user
        >>> transcript("openai-chat", user("Hi"))
        [{'role': 'user', 'content': 'Hi'}]
    """
    return _message("user", parts)


def system(text: str) -> Message:
    """Give the system prompt.

    Args:
        text: Its words.

    Example:
        >>> from agentctx.testing import system, transcript, user
        >>> transcript("openai-chat", system("Be brief."), user("Hi"))[0]["role"]
        'system'
    """
    return _message("system", (text,))


def assistant(*parts: str | Part) -> Message:
    """Say something as the model.

    Args:
        parts: Texts, ``thinking(...)`` and ``call(...)``, in order.

    Example:
        >>> from agentctx.testing import assistant, transcript, user
        >>> transcript("openai-chat", user("Hi"), assistant("Hello"))[1]
        {'role': 'assistant', 'content': 'Hello'}
    """
    return _message("assistant", parts)


def _message(role: str, parts: tuple[str | Part, ...]) -> Message:
    return Message(role, tuple(Text(part) if isinstance(part, str) else part for part in parts))


def thinking(text: str, signature: str = "c2lnbmVk") -> Thinking:
    """Put signed reasoning into an assistant turn; Chat Completions has none.

    Args:
        text: The thoughts of the model.
        signature: The provider's signature, where the format has one.

    Example:
        >>> from agentctx.testing import assistant, thinking, transcript, user
        >>> transcript("anthropic", user("Hi"), assistant(thinking("Be kind."), "Hello"))[1]["content"][0]["type"]
        'thinking'
    """
    return Thinking(text, signature)


def call(call_id: str, name: str, arguments: Mapping[str, Any] | str | None = None) -> ToolCall:
    """Call a tool in an assistant turn.

    Args:
        call_id: The call's id, which its result names.
        name: The tool's name.
        arguments: Its arguments by name; a text is written as it is where the format has arguments as text.

    Example:
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> messages = transcript("openai-chat", user("Go."), assistant(call("c1", "read")), result("c1", "…"))
        >>> messages[1]["tool_calls"][0]["function"]["name"]
        'read'
    """
    written = arguments if isinstance(arguments, str) else json.dumps(dict(arguments or {}), ensure_ascii=False)
    return ToolCall(call_id, name, written)


def result(call_id: str, content: str | tuple[Text | Media, ...] | None = "", *, is_error: bool = False) -> ToolResult:
    """Answer a call. Results that stand side by side are one turn: one message where the format has it so.

    Args:
        call_id: The id of the call that is answered.
        content: The tool's output: a text, or texts and pictures.
        is_error: Whether the tool failed.

    Example:
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> messages = transcript("openai-chat", user("Go."), assistant(call("c1", "read")), result("c1", "an error"))
        >>> messages[2]["content"]
        'an error'
    """
    parts = (Text(content),) if isinstance(content, str) else content or ()
    return ToolResult(call_id, parts, is_error=is_error)


def tool(name: str, description: str = "", **properties: Native) -> Tool:
    """Offer a tool.

    Args:
        name: The tool's name.
        description: The description that the model reads.
        properties: The JSON schema of each argument, by its name.

    Example:
        >>> from agentctx.testing import history, tool, user
        >>> history("openai-chat", user("Hi"), tools=[tool("read", path={"type": "string"})]).tools[0]["type"]
        'function'
    """
    return Tool(name, description, {"type": "object", "properties": properties})
