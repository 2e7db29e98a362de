"""Where system messages may stand among the messages.

Source: Anthropic's page on system messages in a conversation: behind a user turn (or a turn of the assistant that ends
in the result of a server tool), last or before a turn of the assistant, and only on some models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import evolve

from agentctx.core.message import Message
from agentctx.core.parts import Opaque, ToolCall
from agentctx.core.profile import ModelProfile

NOT_TAKEN = "the model takes no system message among the messages: it is said by the user"
NO_PLACE = "no user turn stands before the system message: it is said by the user"
MOVED = "a system message stands before a turn of the assistant, or last"

Note = Callable[[Message, str], None]


def place_system(
    messages: Sequence[Message], profile: ModelProfile | None, note: Note, after: Message | None = None
) -> Sequence[Message]:
    """The messages with each system message where the provider takes it; the same object when they stand so.

    Args:
        messages: Messages whose pairs are whole.
        profile: The model's profile; None when it is not known: then it takes them.
        note: Told of each message that is another or stands elsewhere, and why.
        after: The message before them; None at the start of the conversation.
    """
    if not any([message.role == "system" for message in messages]):  # noqa: C419 - a list makes no call for each
        return messages
    takes = profile is None or profile.system_in_messages
    out: list[Message] = []
    waiting: list[Message] = []
    for message in messages:
        if message.role == "system":
            waiting.append(message)
            continue
        if waiting and (message.role == "assistant" or not takes):
            out += _settled(waiting, out[-1] if out else after, note, takes=takes)
            waiting = []
        for each in (*waiting, message) if waiting else ():
            note(each, MOVED)
        out.append(message)
    out += _settled(waiting, out[-1] if out else after, note, takes=takes)
    same = len(out) == len(messages) and all(one is other for one, other in zip(out, messages, strict=True))
    return messages if same else out


def _settled(waiting: Sequence[Message], before: Message | None, note: Note, *, takes: bool) -> list[Message]:
    """System messages as they may stand behind ``before``: as they are, or as words of the user."""
    if takes and before is not None and _may_precede(before):
        return list(waiting)
    for message in waiting:
        note(message, NO_PLACE if takes else NOT_TAKEN)
    return [evolve(message, role="user") for message in waiting if message.parts]


def _may_precede(message: Message) -> bool:
    if message.role != "assistant":
        return True
    last = message.parts[-1] if message.parts else None
    ends = isinstance(last, Opaque) and last.closes is not None
    return ends and not any(isinstance(part, ToolCall) for part in message.parts)
