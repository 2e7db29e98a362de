"""What a dialect of Chat Completions refuses and can be mended: within one message, and between neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import evolve

from agentctx.core.message import SYSTEM_ROLES, Message
from agentctx.core.parts import Part, Text, Thinking, ToolCall, ToolResult
from agentctx.core.protection import GO_ON
from agentctx.wire.dialects import Dialect
from agentctx.wire.openai_chat.mend import IDS
from agentctx.wire.openai_chat.read import LEGACY
from agentctx.wire.translate.ids import numbered as with_number
from agentctx.wire.translate.ids import respelled
from agentctx.wire.translate.target import spelling_of
from agentctx.wire.translate.turns import HEARD

NO_ANSWER = "[no answer]"
"""What the model says between two messages of the user that have to be parted."""

_KEY = "reasoning_content"

Mended = tuple[int, Message, str]
Arranged = tuple[int, tuple[Message, ...], str]


def mend(messages: Sequence[Message], dialect: Dialect) -> Iterator[Mended]:
    """What is refused and can be mended in one message: (index, what to send instead, why)."""
    for index, message in enumerate(messages):
        why: list[str] = []
        mended = _role(message, dialect, why)
        if mended.role in {"assistant", "tool"}:
            mended = _parts(mended, dialect, why)
        if why:
            yield index, mended, ", ".join(dict.fromkeys(why))


def _role(message: Message, dialect: Dialect, why: list[str]) -> Message:
    if message.role != "developer" or dialect.developer_role:
        return message
    why.append("there is no role developer")
    return evolve(message, role="system")


def _parts(message: Message, dialect: Dialect, why: list[str]) -> Message:
    calls = any(isinstance(part, ToolCall) for part in message.parts)
    parts: list[Part] = []
    for part in message.parts:
        if calls and dialect.null_content_with_calls and isinstance(part, Text) and not part.text:
            why.append("beside calls empty content is null")
        else:
            parts.append(_spelled(part, dialect, why))
    if calls and dialect.reasoning_needed is not None and not _brings_reasoning(message, dialect):
        why.append("a message with calls brings its reasoning along")
        parts.insert(0, _stand_in(message, dialect))
    return message.with_parts(tuple(parts)) if why else message


def _spelled(part: Part, dialect: Dialect, why: list[str]) -> Part:
    """A call or a result under an id that the provider takes, made from the id alone."""
    pattern = dialect.id_pattern
    if pattern is None or not isinstance(part, (ToolCall, ToolResult)):
        return part
    identity = part.id if isinstance(part, ToolCall) else part.call_id
    if pattern.fullmatch(identity):
        return part
    why.append("the id of a tool call is spelled as the provider takes it")
    new = respelled(identity, spelling_of(dialect))
    return evolve(part, id=new) if isinstance(part, ToolCall) else evolve(part, call_id=new)


def numbered(call_id: str, number: int, dialect: Dialect) -> str:
    """Another id for a call, made of the one that it shares with others; a legacy function call has none."""
    if call_id.startswith(LEGACY):
        return call_id
    return with_number(call_id, number, IDS if dialect.id_pattern is None else spelling_of(dialect))


def _brings_reasoning(message: Message, dialect: Dialect) -> bool:
    thought = next((part for part in message.parts if isinstance(part, Thinking) and _own(part)), None)
    return thought is not None and len(thought.text) >= len(dialect.no_reasoning)


def _own(part: Thinking) -> bool:
    """Whether the reasoning stands where the dialects look for it."""
    return part.source is None or (isinstance(part.source, dict) and _KEY in part.source)


def _stand_in(message: Message, dialect: Dialect) -> Thinking:
    """The reasoning that stands under another key, or what stands for none."""
    texts = [part.text for part in message.parts if isinstance(part, Thinking) and part.text]
    text = "\n".join(texts) or dialect.no_reasoning
    return Thinking(text, source={_KEY: text})


def arrange(messages: Sequence[Message], after: Message | None, dialect: Dialect) -> Iterator[Arranged]:
    """What has to stand between messages so that they may follow each other: (index, what stands there, why).

    Args:
        messages: Messages whose pairs are whole.
        after: The message before them; None at the start of the conversation.
        dialect: The dialect.
    """
    if not dialect.minds_places:
        return
    last = after
    for index, given in enumerate(messages):
        message = given
        why: list[str] = []
        if dialect.system_first_only and last is not None and message.role in SYSTEM_ROLES and not _leads(last):
            why.append("a system message has to be the first")
            message = evolve(message, role="user")
        between = _between(last, message, dialect)
        if between is not None:
            why.append("the roles on both sides may not follow each other")
        if why:
            yield index, (message,) if between is None else (between, message), ", ".join(why)
        last = message


def _leads(message: Message) -> bool:
    return message.role in SYSTEM_ROLES


def _between(last: Message | None, message: Message, dialect: Dialect) -> Message | None:
    """The message that has to stand between two; None when nothing has to."""
    before = "" if last is None or _leads(last) else last.role
    if message.role == "user" and before == "tool" and not dialect.user_after_tool:
        return Message("assistant", (Text(HEARD),))
    if not dialect.alternation:
        return None
    if message.role == "user" and before in {"user", "tool"}:
        return Message("assistant", (Text(NO_ANSWER if before == "user" else HEARD),))
    if message.role == "assistant" and before in {"assistant", ""}:
        return Message("user", (Text(GO_ON),))
    return None
