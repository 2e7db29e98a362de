"""Short words to write transcripts with in tests; the same words for every format.

Example::

    messages = transcript(
        "anthropic",
        user("why does the build fail?"),
        assistant("let me look", call("c1", "read", {"path": "build.log"})),
        result("c1", "error: missing semicolon"),
    )
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from agentctx.core.message import Native
from agentctx.errors import ConfigError
from agentctx.testing.plan import Answer, Ask, History, Item, Picture, Plan, Say, Think, ToolSpec, Turn, TurnRole
from agentctx.testing.writers import write


def user(*items: str | Item) -> Turn:
    """The user speaks: texts, or items such as a ``Picture``.

    Example:
        >>> from agentctx.testing import transcript, user
        >>> transcript("openai-chat", user("Hi"))
        [{'role': 'user', 'content': 'Hi'}]
    """
    return _turn("user", items)


def system(text: str) -> Turn:
    """The system prompt.

    Example:
        >>> from agentctx.testing import system, transcript, user
        >>> transcript("openai-chat", system("Be brief."), user("Hi"))[0]["role"]
        'system'
    """
    return _turn("system", (text,))


def assistant(*items: str | Item) -> Turn:
    """The model speaks: texts, ``thinking(...)`` and ``call(...)``, in order.

    Example:
        >>> from agentctx.testing import assistant, transcript, user
        >>> transcript("openai-chat", user("Hi"), assistant("Hello"))[1]
        {'role': 'assistant', 'content': 'Hello'}
    """
    return _turn("assistant", items)


def thinking(text: str, signature: str = "c2lnbmVk") -> Think:
    """Signed reasoning in an assistant turn.

    Example:
        >>> from agentctx.testing import assistant, thinking, transcript, user
        >>> transcript("anthropic", user("Hi"), assistant(thinking("Be kind."), "Hello"))[1]["content"][0]["type"]
        'thinking'
    """
    return Think(text, signature)


def call(call_id: str, name: str, arguments: Mapping[str, Any] | str | None = None) -> Ask:
    """A tool call in an assistant turn; arguments given as text are written as they are.

    Example:
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> messages = transcript("openai-chat", user("Go."), assistant(call("c1", "read")), result("c1", "…"))
        >>> messages[1]["tool_calls"][0]["function"]["name"]
        'read'
    """
    return Ask(call_id, name, {} if arguments is None else arguments)


def result(call_id: str, content: str | tuple[Say | Picture, ...] | None = "", *, is_error: bool = False) -> Answer:
    """What a tool answered. Results that stand side by side are one turn: one message where the format has it so.

    Example:
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> messages = transcript("openai-chat", user("Go."), assistant(call("c1", "read")), result("c1", "an error"))
        >>> messages[2]["content"]
        'an error'
    """
    return Answer(call_id, content, is_error)


def tool(name: str, description: str = "", **properties: Native) -> ToolSpec:
    """A tool on offer, with the JSON schema of each argument.

    Example:
        >>> from agentctx.testing import history, tool, user
        >>> history("openai-chat", user("Hi"), tools=[tool("read", path={"type": "string"})]).tools[0]["type"]
        'function'
    """
    return ToolSpec(name, description, properties)


def history(
    format: str,  # noqa: A002 - the name that the whole library gives it
    *turns: Turn | Answer,
    tools: Iterable[ToolSpec] = (),
) -> History:
    """A whole request: messages, and system prompt and tools where the format keeps them.

    Args:
        format: Name of the format.
        turns: The turns in order; results stand between them as they are.
        tools: The tools on offer.

    Raises:
        ConfigError: If there is no writer for the format.

    Example:
        >>> from agentctx.testing import history, system, tool, user
        >>> request = history("anthropic", system("Be brief."), user("Hi"), tools=[tool("read")])
        >>> len(request.messages), len(request.tools)
        (1, 1)
    """
    return write(Plan(_grouped(turns), tuple(tools)), format)


def transcript(format: str, *turns: Turn | Answer) -> list[Any]:  # noqa: A002 - the name that the library gives it
    """The native messages alone.

    Raises:
        ConfigError: If there is no writer for the format, or if it keeps the system prompt apart and there is one.

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


def _turn(role: TurnRole, items: tuple[str | Item, ...]) -> Turn:
    return Turn(role, tuple(Say(item) if isinstance(item, str) else item for item in items))


def _grouped(turns: Iterable[Turn | Answer]) -> tuple[Turn, ...]:
    """Neighbouring answers as one turn."""
    found: list[Turn] = []
    for are_answers, run in groupby(turns, lambda turn: isinstance(turn, Answer)):
        if are_answers:
            found.append(Turn("results", tuple(item for item in run if isinstance(item, Answer))))
        else:
            found.extend(turn for turn in run if isinstance(turn, Turn))
    return tuple(found)
