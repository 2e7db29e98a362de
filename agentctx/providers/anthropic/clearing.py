"""What Anthropic clears of a request, when asked to, before the model reads it: context editing.

Source: https://platform.claude.com/docs/en/build-with-claude/context-editing. The provider works on each request anew;
what is sent stays whole, so reasoning that is bound to it stays legal. Where the page leaves something open, that
reading counts by which less is cleared: uses of excluded tools are none of those to keep, and the size that triggers is
that without the reasoning that is cleared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from attrs import evolve, frozen

from agentctx.core.message import Message, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.core.pace import paced
from agentctx.core.protection import is_user_turn
from agentctx.wire_format import Clearing

BETA = "context-management-2025-06-27"
USES, REASONING = "clear_tool_uses_20250919", "clear_thinking_20251015"

PLACEHOLDER = "[Old tool result content cleared]"
"""Stands for a cleared result; the provider's own words are not documented."""


@frozen
class ContextEditing:
    """How the provider is asked for it, and what it clears."""

    def options(self, clearing: Clearing, /) -> Mapping[str, Any]:
        """The edits, with the beta feature that they need; reasoning has to be named first."""
        edits: list[Mapping[str, Any]] = []
        if clearing.thinking is not None:
            turns = {"type": "thinking_turns", "value": clearing.thinking}
            edits.append({"type": REASONING, "keep": "all" if clearing.thinking == "all" else turns})
        uses: dict[str, Any] = {"type": USES, "trigger": _tokens(clearing.trigger)}
        uses["keep"] = {"type": "tool_uses", "value": clearing.keep}
        if clearing.at_least is not None:
            uses["clear_at_least"] = _tokens(clearing.at_least)
        if clearing.exclude:
            uses["exclude_tools"] = sorted(clearing.exclude)
        if clearing.inputs:
            uses["clear_tool_inputs"] = True
        return {"context_management": {"edits": [*edits, uses]}, "betas": [BETA]}

    def read(
        self, messages: Sequence[Message], clearing: Clearing, size: int, count: Callable[[Message], int], /
    ) -> Mapping[int, Message]:
        """What the model reads otherwise: reasoning first, then uses of tools, if what is left is above the trigger."""

        def freed(read: Mapping[int, Message]) -> int:
            return sum(count(messages[place]) - count(message) for place, message in read.items())

        thought = {} if not isinstance(clearing.thinking, int) else dict(_forgotten(messages, clearing.thinking))
        if size - freed(thought) <= clearing.trigger:
            return thought
        both = thought | dict(_cleared([thought.get(*each) for each in enumerate(messages)], clearing))
        enough = clearing.at_least is None or freed(both) - freed(thought) >= clearing.at_least
        return both if enough else thought


def _tokens(value: int) -> Mapping[str, Any]:
    return {"type": "input_tokens", "value": value}


def _forgotten(messages: Sequence[Message], keep: int) -> Iterator[tuple[int, Message]]:
    """The messages without the reasoning of all turns of the assistant but the last that reason."""
    turns: list[list[int]] = [[]]
    for place, message in paced(enumerate(messages)):
        if is_user_turn(message):
            turns.append([])
        if any(isinstance(part, Thinking) for part in message.parts):
            turns[-1].append(place)
    for place in (place for turn in [turn for turn in turns if turn][:-keep] for place in turn):
        rest = tuple(part for part in messages[place].parts if not isinstance(part, Thinking))
        yield place, messages[place].with_parts(rest)


def _cleared(messages: Sequence[Message], clearing: Clearing) -> Iterator[tuple[int, Message]]:
    """The messages without all uses of tools but the last."""
    parts = (part for message in paced(messages) for part in message.parts)
    uses = [part.id for part in parts if isinstance(part, ToolCall) and part.name not in clearing.exclude]
    old = frozenset(uses[: max(0, len(uses) - clearing.keep)])
    for place, message in paced(enumerate(messages)) if old else ():
        if message.parts and all(isinstance(part, ToolResult) and part.call_id in old for part in message.parts):
            yield place, _placeholders(message.role, tuple(result.name for result in message.results))
            continue
        read = tuple(_without(part, old, clearing) for part in message.parts)
        if any(one is not other for one, other in zip(read, message.parts, strict=True)):
            yield place, message.with_parts(read)


@lru_cache(maxsize=256)
def _placeholders(role: str, names: tuple[str | None, ...]) -> Message:
    """What stands for a message of results only: one for all that read alike, which is counted once."""
    return Message(role, tuple(ToolResult("", (Text(PLACEHOLDER),), name) for name in names))


def _without(part: Part, old: frozenset[str], clearing: Clearing) -> Part:
    if isinstance(part, ToolResult) and part.call_id in old:
        return evolve(part, content=(Text(PLACEHOLDER),))
    return evolve(part, arguments="{}") if clearing.inputs and isinstance(part, ToolCall) and part.id in old else part
