"""The requests of one conversation in Chat Completions, validated without a look at all of them again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve

from agentctx.providers.growing import GrowingRequest, Natives, Seen, looked_at
from agentctx.providers.openai_chat.rules import (
    RULES,
    RULES_OF_ALL_MESSAGES,
    ChatRequest,
    calls,
    messages_present,
    opened,
    reasoning_in,
    validate,
)
from agentctx.providers.rules import checked, in_order
from agentctx.wire_format import Violation

_EACH = tuple(rule for rule in RULES if rule not in RULES_OF_ALL_MESSAGES)
_RULES = tuple(rule for rule in RULES if rule is not messages_present)


class GrowingChat(GrowingRequest[ChatRequest]):
    """Finds what ``validate`` finds in the requests of a conversation.

    A round is a message with calls and the tool messages behind it, one for each; or any other message, which is
    nothing to those around it.
    """

    messages_key = "messages"
    keys = frozenset({"messages", "tools", "system"})

    @property
    def _model(self) -> str | None:
        return None if self.profile is None else self.profile.family

    def anew(self, request: Mapping[str, Any], before: Mapping[str, Any] | None) -> tuple[Violation, ...]:
        """What the rules find in the whole request."""
        return validate(request, self.profile, before)

    def opened(self, request: Mapping[str, Any], natives: Natives) -> ChatRequest:
        """A request of which only these messages are looked at."""
        whole = opened({**request, "messages": []}, self._model)
        return evolve(whole, body=request, messages=tuple(natives))

    def found(self, request: ChatRequest, before: ChatRequest | None) -> tuple[Violation, ...]:
        """What the rules find."""
        return in_order(checked(_RULES, evolve(request, before=before)), whole="last")

    def read(self, native: dict[str, Any]) -> Seen:
        """What is known of a message; what it reasoned is known again."""
        alone = opened({"messages": [native]}, self._model)
        asked = [call.get("id") for _, call in calls(native)]
        answering = native.get("role") == "tool"
        return looked_at(
            native,
            "answer" if answering else "call" if asked else "other",
            quiet=next(checked(_EACH, alone), None) is None,
            calls=tuple(name for name in asked if isinstance(name, str)),
            answers=(name,) if answering and isinstance(name := native.get("tool_call_id"), str) else (),
            marks=frozenset(reasoning_in(native)),
        )

    def rounds(self, seen: Sequence[Seen], start: int) -> Iterator[tuple[int, int]]:
        """Calls with all their answers, and what is neither."""
        while start < len(seen):
            stop = start + 1
            while stop < len(seen) and seen[stop].part == "answer":
                stop += 1
            if seen[start].part == "other":
                if seen[start].quiet:
                    yield start, start + 1
            elif seen[start].part == "call" and _complete(seen[start], seen[start + 1 : stop]):
                yield start, stop
            start = stop


def _complete(calling: Seen, answering: Sequence[Seen]) -> bool:
    """Whether each call has one answer, and nothing is found in any of these messages."""
    given = [name for each in answering for name in each.answers]
    complete = set(given) == set(calling.calls) and len(set(given)) == len(answering) == len(calling.calls)
    return complete and calling.quiet and all(each.quiet for each in answering)
