"""Long made sessions with exact values planted in tool outputs that no later step names again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from recorded import Recorded, of_recording
from transcript import KINDS, WORDS, text, tool_round

from agentctx.replay import Recording

PLANTED = 20
"""Values in a session."""
ROUNDS = 240
"""Rounds of a call and its output; the values stand in those of the first third."""
PART = 12
"""The window is one part in so many of the session, so that it is cut ten times and more."""


def planted(seed: int) -> tuple[Recorded, list[str]]:
    """A session, and the values that are planted in it."""
    rng = random.Random(seed)  # noqa: S311 - the same session every time is the point
    values: list[str] = []
    messages = [{"role": "user", "content": "Find out why deliveries are late, and write down what you see."}]
    for number in range(ROUNDS):
        call, result = tool_round(rng, number)
        if number % (ROUNDS // 3 // PLANTED) == 1 and len(values) < PLANTED:
            result = {**result, "content": "\n".join(_with_value(rng, values))}
        messages += [call, result]
    messages.append({"role": "user", "content": "Now tell me under which name each service is registered."})
    return of_recording("planted", Recording(messages, format="openai-chat", id=f"planted-{seed}")), values


def _with_value(rng: random.Random, values: list[str]) -> Iterator[Any]:
    """The lines of a long output, with a value in the middle."""
    kind = rng.choice(KINDS)
    values.append(f"{rng.choice(WORDS)}-{rng.getrandbits(40):010x}-{len(values)}")
    yield text(rng, kind, 2_500)
    yield f"registered service {len(values)} as {values[-1]}"
    yield text(rng, kind, 2_500)
