"""What was left out, in one line, and a message that says it to the model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentctx.core.message import Message
from agentctx.core.parts import Text
from agentctx.core.protection import first_task, last_words, speaks
from agentctx.tokens.graphemes import floor

TOPICS = 5
"""How many topics are named."""

TOPIC_CHARACTERS = 50
"""The longest topic, in characters."""

SHORTEST_TOPIC = 5
"""Lines shorter than this name no topic, in characters."""


OPENING = "Earlier: "
"""How the line begins."""


def note_of(messages: Sequence[Message]) -> Message:
    """A user message that says what was left out."""
    return Message("user", (Text(f"[{dropped_line(messages)}]"),))


def is_note(message: Message) -> bool:
    """Whether this is such a message."""
    return message.role == "user" and message.text.startswith(f"[{OPENING}")


def task_of(messages: Sequence[Message]) -> str:
    """What the user said first and last, notes of what was left out aside."""
    latest = (index for index in last_words(messages, len(messages)) if not is_note(messages[index]))
    places = dict.fromkeys((*first_task(messages), *(index for index in [next(latest, None)] if index is not None)))
    return "\n".join(messages[place].text for place in places)


def dropped_line(messages: Sequence[Message]) -> str:
    """How many messages and calls were left out, and the first lines of what was said; empty when there are none."""
    if not messages:
        return ""
    calls = sum(len(message.calls) for message in messages)
    users = sum(speaks(message) for message in messages)
    models = sum(message.role == "assistant" for message in messages)
    counted = ((calls, "tool call"), (users, "user message"), (models, "assistant message"))
    told = [f"{_many(len(messages), 'message')} dropped", *(_many(*each) for each in counted if each[0])]
    topics = _topics(messages)
    return OPENING + "; ".join([*told, f"topics: {', '.join(topics)}"] if topics else told)


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")


def _topics(messages: Sequence[Message]) -> list[str]:
    topics: dict[str, None] = {}
    for topic in _first_lines(messages):
        topics.setdefault(topic)
        if len(topics) == TOPICS:
            break
    return list(topics)


def _first_lines(messages: Sequence[Message]) -> Iterator[str]:
    """The first line of each message that says something, at most ``TOPIC_CHARACTERS`` long, in whole clusters."""
    for message in messages:
        start = message.text[: 40 * TOPIC_CHARACTERS].lstrip()
        line = start.split("\n", 1)[0].strip()
        if len(line) >= SHORTEST_TOPIC:
            yield line if len(line) <= TOPIC_CHARACTERS else line[: floor(line, TOPIC_CHARACTERS - 1)].rstrip() + "…"
