"""A transcript before any provider writes it down: a neutral plan of turns, and short words to make it of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import field, frozen

from agentctx.core.message import Native

TurnRole = Literal["system", "developer", "user", "assistant", "results"]


@frozen
class Say:
    """Text."""

    text: str


@frozen
class Picture:
    """An image, carried inline in base64."""

    data: str = field(repr=False)
    media_type: str = "image/png"


@frozen
class Think:
    """Reasoning that the provider signed; formats without such blocks leave it out.

    Args:
        text: The reasoning; when ``redacted``, its encrypted form, which only the provider can read.
        signature: The provider's signature.
    """

    text: str
    signature: str
    redacted: bool = False


@frozen
class Ask:
    """The model calls a tool.

    Args:
        arguments: The arguments; text stands for arguments that are not a JSON object.
        caller: The id of the ``Code`` that calls it; None when the model itself does.
    """

    id: str
    name: str
    arguments: Mapping[str, Any] | str = field(factory=dict, hash=False)
    caller: str | None = None


@frozen
class Hosted:
    """A tool that the provider ran itself within the turn; formats without such blocks leave it out.

    Args:
        result: What the tool found; None when the call is cut off from its result.
    """

    id: str
    name: str = "web_search"
    input: Mapping[str, Any] = field(factory=dict, hash=False)
    result: Any = field(factory=list, hash=False)


@frozen
class Code:
    """Code that the provider runs, and that may call tools; formats without such blocks leave it out."""

    id: str
    text: str = "await read()"


@frozen
class Ran:
    """What the code with this id has printed; the code stands before it, in this turn or an earlier one."""

    id: str
    output: str = ""


@frozen
class Foreign:
    """A block of a kind that nobody knows, and what is in it; formats that cannot carry it leave it out."""

    kind: str
    data: Mapping[str, Any] = field(factory=dict, hash=False)


@frozen
class Answer:
    """What a tool answered.

    Args:
        content: Text, or parts, or None for no content at all.
        is_error: Whether the tool failed.
        caller: The id of the ``Code`` that made the call, if one did.
    """

    call_id: str
    content: str | tuple[Say | Picture, ...] | None
    is_error: bool = False
    caller: str | None = None


Item = Say | Picture | Think | Ask | Hosted | Code | Ran | Foreign | Answer


@frozen
class Turn:
    """One turn of the conversation.

    Args:
        role: Who speaks; ``"results"`` is the turn in which the tools answer, and in it the user may speak as well.
        items: What is said, in order.
        blocks: Whether a lone text is written as a list of blocks rather than as a plain string.
        split: In a turn of results, how many go into a first message of their own where the format puts several
            into one message; 0 for one message.
    """

    role: TurnRole
    items: tuple[Item, ...]
    blocks: bool = False
    split: int = 0


@frozen
class ToolSpec:
    """A tool that the model may call.

    Args:
        properties: The JSON schema of each argument, by name.
        hosted: Whether the provider runs it itself; formats without such tools leave it out.
    """

    name: str
    description: str = ""
    properties: Mapping[str, Any] = field(factory=dict, hash=False)
    hosted: bool = False


@frozen
class Plan:
    """A whole conversation: its turns in order, and the tools on offer."""

    turns: tuple[Turn, ...]
    tools: tuple[ToolSpec, ...] = ()


@frozen
class History:
    """A conversation as its provider would see it; ``system`` is None where the format does not keep it apart."""

    format: str
    messages: list[Any] = field(hash=False)
    system: Any = field(default=None, hash=False)
    tools: list[Any] | None = field(default=None, hash=False)

    @property
    def request(self) -> dict[str, Any]:
        """The request as ``agentctx.validate`` takes it."""
        apart = {"system": self.system, "tools": self.tools}
        return {"messages": self.messages} | {key: value for key, value in apart.items() if value is not None}


def user(*items: str | Item) -> Turn:
    """The user speaks.

    Args:
        items: Texts, or items such as a ``Picture``, in order.

    Example:
        >>> from agentctx.testing import transcript, user
        >>> transcript("openai-chat", user("Hi"))
        [{'role': 'user', 'content': 'Hi'}]
    """
    return _turn("user", items)


def system(text: str) -> Turn:
    """The system prompt.

    Args:
        text: What it says.

    Example:
        >>> from agentctx.testing import system, transcript, user
        >>> transcript("openai-chat", system("Be brief."), user("Hi"))[0]["role"]
        'system'
    """
    return _turn("system", (text,))


def assistant(*items: str | Item) -> Turn:
    """The model speaks.

    Args:
        items: Texts, ``thinking(...)`` and ``call(...)``, in order.

    Example:
        >>> from agentctx.testing import assistant, transcript, user
        >>> transcript("openai-chat", user("Hi"), assistant("Hello"))[1]
        {'role': 'assistant', 'content': 'Hello'}
    """
    return _turn("assistant", items)


def thinking(text: str, signature: str = "c2lnbmVk") -> Think:
    """Signed reasoning in an assistant turn.

    Args:
        text: What the model thought.
        signature: The provider's signature, where the format has one.

    Example:
        >>> from agentctx.testing import assistant, thinking, transcript, user
        >>> transcript("anthropic", user("Hi"), assistant(thinking("Be kind."), "Hello"))[1]["content"][0]["type"]
        'thinking'
    """
    return Think(text, signature)


def call(call_id: str, name: str, arguments: Mapping[str, Any] | str | None = None) -> Ask:
    """A tool call in an assistant turn.

    Args:
        call_id: The call's id, which its result names.
        name: The tool's name.
        arguments: Its arguments by name; a text is written as it is, also where it is no JSON.

    Example:
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> messages = transcript("openai-chat", user("Go."), assistant(call("c1", "read")), result("c1", "…"))
        >>> messages[1]["tool_calls"][0]["function"]["name"]
        'read'
    """
    return Ask(call_id, name, {} if arguments is None else arguments)


def result(call_id: str, content: str | tuple[Say | Picture, ...] | None = "", *, is_error: bool = False) -> Answer:
    """What a tool answered. Results that stand side by side are one turn: one message where the format has it so.

    Args:
        call_id: The id of the call that is answered.
        content: What the tool said: a text, or texts and pictures.
        is_error: Whether the tool failed.

    Example:
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> messages = transcript("openai-chat", user("Go."), assistant(call("c1", "read")), result("c1", "an error"))
        >>> messages[2]["content"]
        'an error'
    """
    return Answer(call_id, content, is_error)


def tool(name: str, description: str = "", **properties: Native) -> ToolSpec:
    """A tool on offer.

    Args:
        name: The tool's name.
        description: What the model is told of it.
        properties: The JSON schema of each argument, by its name.

    Example:
        >>> from agentctx.testing import history, tool, user
        >>> history("openai-chat", user("Hi"), tools=[tool("read", path={"type": "string"})]).tools[0]["type"]
        'function'
    """
    return ToolSpec(name, description, properties)


def _turn(role: TurnRole, items: tuple[str | Item, ...]) -> Turn:
    return Turn(role, tuple(Say(item) if isinstance(item, str) else item for item in items))
