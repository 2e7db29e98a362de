"""Calls that came without the thought signature that Gemini 3 asks for: another model made them, or it was lost.

Source: https://ai.google.dev/gemini-api/docs/thought-signatures: from Gemini 3 on, the first call of each step of the
current turn bears its signature; what another model called bears a word that stands for none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import evolve

from agentctx.core.message import Message
from agentctx.core.parts import Part, Text, ToolCall
from agentctx.core.profile import ModelProfile
from agentctx.wire.gemini.request import generation_of
from agentctx.wire.native import fields_or_none
from agentctx.wire.translate.reasoning import UNSIGNED

ASKED_FROM = 3
"""The first generation that refuses an unsigned call."""

WHY = "the model asks for a thought signature on the call: one that stands for none"


def with_signatures(
    messages: Sequence[Message], profile: ModelProfile | None, note: Callable[[Message, str], None]
) -> Sequence[Message]:
    """The messages with a signature on the first call of each step of the current turn; the same object when all have.

    Args:
        messages: Messages whose pairs are whole; where the user does not speak in them, all are of the current turn.
        profile: The model's profile; None when it is not known: then they stay.
        note: Told of each message that gets one, and why.
    """
    if profile is None or (generation_of(profile.family.lower()) or 0) < ASKED_FROM:
        return messages
    places = range(len(messages) - 1, -1, -1)
    start = next((place + 1 for place in places if _speaks(messages[place])), 0)
    bare = [place for place in range(start, len(messages)) if _asks_unsigned(messages[place])]
    if not bare:
        return messages
    signed = list(messages)
    for place in bare:
        note(messages[place], WHY)
        signed[place] = _with_signature(messages[place])
    return signed


def _speaks(message: Message) -> bool:
    """Whether a turn begins here: the user says something, and not only functions answer."""
    if message.role == "assistant":
        return False
    return not message.results or any(isinstance(part, Text) for part in message.parts)


def _asks_unsigned(message: Message) -> bool:
    return message.role == "assistant" and next((not call.signature for call in message.calls), False)


def _with_signature(message: Message) -> Message:
    first = message.calls[0]
    return message.with_parts(tuple(_marked(part) if part is first else part for part in message.parts))


def _marked(part: Part) -> Part:
    if not isinstance(part, ToolCall):
        return part
    native = fields_or_none(part.source)
    source = None if native is None else {**native, "thoughtSignature": UNSIGNED}
    return evolve(part, signature=UNSIGNED, source=source)
