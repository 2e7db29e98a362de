"""What must survive: the rules that always hold, what a user's own rule is, and signed reasoning."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, SupportsIndex, get_args

from attrs import evolve, frozen

from agentctx.core.message import Message, Part, Text, Thinking, ToolCall, ToolResult, is_marker
from agentctx.core.recap import Recap, is_recap
from agentctx.errors import ConfigError

ProtectRule = Callable[[Sequence[Message]], Iterable[int]]
"""Given the messages, the indexes of those that must survive byte for byte."""


@frozen
class Preferred:
    """A soft rule: what it names may go, but last of all, after the user's own words. It protects nothing.

    Args:
        rule: Gives the indexes of what goes last.
    """

    rule: ProtectRule

    def __call__(self, _messages: Sequence[Message], /) -> Iterable[int]:
        """No index: nothing of it must survive."""
        return ()


NOT_SHOWN = "[earlier messages are not shown]"
"""What the user says where the model, or a call, would come first or behind the model's own words."""

FOREIGN_REASONING = "reasoning stays with the model that made it"
"""What is said of reasoning that another model may not be shown."""

GO_ON = "[go on]"
"""What the user says where the model would speak twice in a row, would begin, or would have the last word."""

STAND_INS = frozenset({NOT_SHOWN, GO_ON})
"""What no user has said: it stands where a provider wants words of the user's and there are none."""


def words(message: Message) -> tuple[Part, ...]:
    """What a message says beside tool results."""
    return tuple(part for part in message.parts if not isinstance(part, ToolResult) and not is_marker(part))


def is_user_turn(message: Message) -> bool:
    """Whether this is a message of the user with anything but tool results in it, even a blank text."""
    return message.role == "user" and any(
        not isinstance(part, ToolResult) and not is_marker(part) for part in message.parts
    )


def has_user_words(message: Message) -> bool:
    """Whether this is a message in which the user says something: a text that is not blank, or anything but text.

    Words that stand in for those of a user say nothing, nor does a recap of what was said.
    """
    if message.role != "user" or message.is_system or is_recap(message):
        return False
    return any(map(_has_user_words, message.parts))


def _has_user_words(part: Part) -> bool:
    if isinstance(part, Text):
        return bool(part.text.strip()) and part.text not in STAND_INS
    return not isinstance(part, ToolResult) and not is_marker(part)


def system_messages(messages: Sequence[Message]) -> list[int]:
    """The indexes of all system and developer messages, also of those that go out under another role."""
    return [index for index, message in enumerate(messages) if message.is_system]


def first_task(messages: Sequence[Message]) -> list[int]:
    """The index of the first message in which the user says something; empty when there is none."""
    return next(([index] for index, message in enumerate(messages) if has_user_words(message)), [])


def knowing_the_recap(messages: list[Message]) -> list[Message]:
    """Messages as they were read, the library's own recap among them as such: directly behind the first task.

    What reads so anywhere else is the user's, as what the user says first or last is; only the first may be ours.
    """
    place = next((task + 1 for task in first_task(messages)), len(messages))
    if place + 1 >= len(messages) or messages[place].as_recap or Recap.read(messages[place]) is None:
        return messages
    return [*messages[:place], evolve(messages[place], as_recap=True), *messages[place + 1 :]]


def last_words(messages: Sequence[Message], count: int = 1) -> list[int]:
    """The indexes of the last ``count`` messages in which the user says something, latest first."""
    found: list[int] = []
    for index in range(len(messages) - 1, -1, -1):
        if len(found) == count:
            break
        if has_user_words(messages[index]):
            found.append(index)
    return found


def _first_turn(messages: Iterable[tuple[int, Message]]) -> list[int]:
    """The first message of the user that is not only tool results, even a blank one.

    At either end of the conversation that is what the provider takes for what the user said first or last.
    """
    return next(([index] for index, message in messages if is_user_turn(message) and not is_recap(message)), [])


def unread(messages: Sequence[Message]) -> list[int]:
    """The indexes of the messages with tool results that the model has not read yet: those after its last message."""
    found: list[int] = []
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "assistant":
            break
        if messages[index].results:
            found.append(index)
    return found


def pending(messages: Sequence[Message]) -> list[int]:
    """The indexes of requests for approval that nobody answered, and of results that are not the last word."""
    open_at: dict[str, int] = {}
    for index, message in enumerate(messages):
        for part in message.parts:
            if isinstance(part, ToolCall):
                if open_at:
                    open_at.pop(part.id, None)
                if part.optional:
                    open_at[part.id] = index
            elif isinstance(part, ToolResult):
                if open_at:
                    open_at.pop(part.call_id, None)
                if part.interim:
                    open_at[part.call_id] = index
    return list(open_at.values())


def places_of(rule: ProtectRule, messages: Sequence[Message]) -> list[int]:
    """The indexes that a caller's rule gives.

    Raises:
        ConfigError: If it gives something else.
    """
    found: object = rule(messages)
    places = list(found) if isinstance(found, Iterable) and not isinstance(found, str) else None
    if places is None or not all(isinstance(place, SupportsIndex) for place in places):
        msg = f"protect: the rule {rule!r} gave {found!r}; expected indexes of messages"
        raise ConfigError(msg)
    return [operator.index(place) for place in places]


def always(messages: Sequence[Message], start: int = 0) -> frozenset[int]:
    """What survives without being asked for: system messages, the first task, the latest user message, what waits.

    Of a message that holds tool results beside the user's words, as Anthropic, Gemini and Bedrock have them, the words
    survive: every part that is no tool result, byte for byte, in its order, in a message of the same role. The results
    in it are results as all others: they may be cut or cleared, unless a rule of the caller's names the message.

    Args:
        messages: The transcript.
        start: Leave out the messages before it, but for the first task. Nothing of what they say matters to the others.
    """
    later = messages[start:]
    backwards = ((index, later[index]) for index in range(len(later) - 1, -1, -1))
    found = (*system_messages(later), *last_words(later), *_first_turn(backwards), *pending(later))
    first = (*first_task(messages), *_first_turn(enumerate(messages)))
    return frozenset((*first, *(start + index for index in found)))


ThinkingPolicy = Literal["postpone", "drop"]
"""What to do where an edit would part reasoning of the open tool round from the prefix that it is bound to.

``"postpone"``: a session edits when the round has ended, and drops the reasoning only when the request would not fit
until then; without a session, like ``"drop"``. ``"drop"``: edit at once, and drop the reasoning behind the edit.
Reasoning of closed turns is dropped in any case: it may be, on every model.
"""

POLICIES: tuple[str, ...] = get_args(ThinkingPolicy)


def signed(message: Message) -> bool:
    """Whether there is signed reasoning in a message."""
    return any(isinstance(part, Thinking) and part.signed for part in message.parts)


def signed_thinking(message: Message) -> frozenset[Thinking]:
    """The signed reasoning of a message: what is never edited."""
    return frozenset(part for part in message.parts if isinstance(part, Thinking) and part.signed)


def open_round(messages: Sequence[Message]) -> int:
    """Where the open tool round begins: after the last message of the user that is not only tool results."""
    return next((index + 1 for index in range(len(messages) - 1, -1, -1) if is_user_turn(messages[index])), 0)


def leading_thought(messages: Sequence[Message]) -> frozenset[int]:
    """The message whose reasoning the open tool round begins with, when the round's next step could not lead it.

    With manual thinking the first assistant message of the open round must begin with reasoning, later ones need
    none: a model that does not interleave thinks once, at the start.
    """
    steps = [index for index in range(open_round(messages), len(messages)) if messages[index].role == "assistant"]
    if not steps or not _leads(messages[steps[0]]) or all(_leads(messages[index]) for index in steps):
        return frozenset()
    return frozenset(steps[:1])


def _leads(message: Message) -> bool:
    return bool(message.parts) and isinstance(message.parts[0], Thinking)
