"""The requests of one conversation in Converse, validated without a look at all of them again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve

from agentctx.providers.bedrock.rules import (
    RULES,
    RULES_OF_ALL_MESSAGES,
    BlockAt,
    ConverseRequest,
    Message,
    blocks_of,
    lay_out,
    reasoning,
    seal,
    violations,
)
from agentctx.providers.growing import GrowingRequest, Natives, Seen, looked_at
from agentctx.providers.native import fields_or_none
from agentctx.providers.rules import checked, entry_of, in_order, turns_of
from agentctx.wire_format import Violation

_EACH = tuple(rule for rule in RULES if rule not in RULES_OF_ALL_MESSAGES)


class GrowingConverse(GrowingRequest[ConverseRequest]):
    """Finds what ``violations`` finds in the requests of a conversation.

    A round is a message of the assistant's with calls, and one with nothing but a result for each, between a message
    of the user's and one of the assistant's.
    """

    messages_key = "messages"
    keys = frozenset({"messages", "system", "toolConfig"})

    def anew(self, request: Mapping[str, Any], before: Mapping[str, Any] | None) -> tuple[Violation, ...]:
        """What the rules find in the whole request."""
        return violations(request, self.profile, before)

    def opened(self, request: Mapping[str, Any], natives: Natives) -> ConverseRequest:
        """A request of which only these messages are looked at."""
        entries = tuple(entry_of(native, index, fields_or_none, blocks_of) for index, native in natives)
        whole = lay_out({**request, "messages": []}, self.profile)
        return evolve(whole, data=request, entries=entries, turns=tuple(turns_of(entries)))

    def found(self, request: ConverseRequest, before: ConverseRequest | None) -> tuple[Violation, ...]:
        """What the rules find."""
        return in_order((*checked(RULES, request), *reasoning(request, before)))

    def read(self, native: dict[str, Any]) -> Seen | None:
        """What is known of a message; None where reasoning is bound to all that stands before it."""
        alone = self.opened({}, ((0, native),))
        (entry,) = alone.entries
        seals = tuple(found for block in entry.blocks if (found := seal(block)) is not None)
        if seals and self.profile is not None and self.profile.bound_thinking:
            return None
        names = tuple(block.call for block in entry.blocks if block.call is not None)
        part = _part(entry)
        return looked_at(
            native,
            part,
            quiet=next(checked(_EACH, alone), None) is None,
            calls=names if part == "call" else (),
            answers=names if part == "answer" else (),
            marks=frozenset(seals),
            unique=tuple(block.call for block in entry.blocks if block.kind == "toolUse" and block.call is not None),
            once=seals,
        )

    def rounds(self, seen: Sequence[Seen], start: int) -> Iterator[tuple[int, int]]:
        """Calls with their results."""
        place = max(start, 1)
        while place < len(seen) - 2:
            if _is_round(*seen[place - 1 : place + 3]):
                yield place, place + 2
                place += 1
            place += 1


def _part(entry: Message) -> str:
    """What a message is to its round: calls, or nothing but results; else who says it."""
    if entry.role == "assistant" and all(map(_may_call, entry.blocks)):
        return "call" if any(block.kind == "toolUse" for block in entry.blocks) else "assistant"
    if entry.role == "user" and entry.blocks and all(map(_answers, entry.blocks)):
        return "answer"
    return entry.role


def _may_call(block: BlockAt) -> bool:
    """Whether no rule about more than its message finds anything in it, beside calls."""
    if block.kind == "toolUse":
        return block.call is not None
    return block.kind == "text" or seal(block) is not None


def _answers(block: BlockAt) -> bool:
    return (
        block.kind == "toolResult" and block.call is not None and all(each.kind != "cachePoint" for each in block.inner)
    )


def _is_round(before: Seen, calling: Seen, answering: Seen, after: Seen) -> bool:
    if before.part not in ("user", "answer") or after.part not in ("assistant", "call"):
        return False
    told = calling.part == "call" and answering.part == "answer" and calling.quiet and answering.quiet
    return told and sorted(calling.calls, key=str) == sorted(answering.answers, key=str)
