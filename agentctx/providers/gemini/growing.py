"""The requests of one conversation in generateContent, validated without a look at all of them again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve

from agentctx.providers.gemini.contents import bare_parts
from agentctx.providers.gemini.rules import (
    RULES,
    RULES_OF_ALL_CONTENTS,
    ContentAt,
    GenerateRequest,
    PartAt,
    checked_signature,
    content_at,
    lay_out,
    signatures_kept,
    violations,
)
from agentctx.providers.growing import GrowingRequest, Natives, Seen, looked_at
from agentctx.providers.rules import checked, in_order
from agentctx.wire_format import Violation

_EACH = tuple(rule for rule in RULES if rule not in RULES_OF_ALL_CONTENTS)
_SIGNED_FROM = 3


class GrowingContents(GrowingRequest[GenerateRequest]):
    """Finds what ``violations`` finds in the requests of a conversation.

    A round is a content of the model's with calls, and one with a response for each, between one that is not the
    model's and one that is.
    """

    messages_key = "contents"
    keys = frozenset({"contents", "tools", "system_instruction", "systemInstruction"})

    def anew(self, request: Mapping[str, Any], before: Mapping[str, Any] | None) -> tuple[Violation, ...]:
        """What the rules find in the whole request."""
        return violations(request, self.profile, before)

    def opened(self, request: Mapping[str, Any], natives: Natives) -> GenerateRequest:
        """A request of which only these contents are looked at."""
        contents = tuple(content_at(native, index) for index, native in natives)
        return evolve(lay_out({**request, "contents": []}, self.profile), data=request, contents=contents)

    def found(self, request: GenerateRequest, before: GenerateRequest | None) -> tuple[Violation, ...]:
        """What the rules find."""
        return in_order(checked(RULES, request, (signatures_kept,), before))

    def read(self, native: dict[str, Any]) -> Seen | None:
        """What is known of a content; None for a part that stands without one."""
        if bare_parts(native) is not None:
            return None
        content = content_at(native, 0)
        alone = self.opened({}, ((0, native),))
        signed = bool(content.calls) and bool(content.calls[0].signature)
        return looked_at(
            native,
            _part(content),
            quiet=next(checked(_EACH, alone), None) is None and (signed or not self._signs(content, alone)),
            calls=tuple(map(_asked, content.calls)) if content.by_model else (),
            answers=() if content.by_model else tuple(map(_asked, content.responses)),
            marks=frozenset(found for part in content.parts if (found := checked_signature(part)) is not None),
        )

    @staticmethod
    def _signs(content: ContentAt, request: GenerateRequest) -> bool:
        """Whether the first call of a content has to be signed, where it is of the current turn."""
        newer = request.generation is not None and request.generation >= _SIGNED_FROM
        return newer and content.by_model and bool(content.calls)

    def rounds(self, seen: Sequence[Seen], start: int) -> Iterator[tuple[int, int]]:
        """Calls with the responses to them."""
        place = max(start, 1)
        while place < len(seen) - 2:
            if seen[place - 1].part != "call" and seen[place - 1].part != "model" and _is_round(seen, place):
                yield place, place + 2
                place += 1
            place += 1


def _part(content: ContentAt) -> str:
    if content.by_model:
        return "call" if content.calls else "model"
    return "answer" if content.parts and len(content.parts) == len(content.responses) else "user"


def _asked(part: PartAt) -> tuple[str | None, str]:
    return part.id, part.name


def _is_round(seen: Sequence[Seen], place: int) -> bool:
    calling, answering, after = seen[place : place + 3]
    told = calling.part == "call" and answering.part == "answer" and after.part in ("call", "model")
    return told and calling.quiet and answering.quiet and _agree(calling.calls, answering.answers)


def _agree(calls: Sequence[Any], answers: Sequence[Any]) -> bool:
    """Whether there is one response for each call, of its name, with its id where both have one."""
    names = Counter(name for _, name in calls) == Counter(name for _, name in answers)
    given = [each for each, _ in answers if each is not None]
    asked = {each for each, _ in calls}
    return names and (None in asked or (asked.issuperset(given) and len(set(given)) == len(given)))
