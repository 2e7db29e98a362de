"""Keep the last rounds."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import ClassVar

from attrs import field, frozen

from agentctx.core.message import Context
from agentctx.core.units import segments, units
from agentctx.engine.drop import droppable, without
from agentctx.engine.options import check_whole
from agentctx.protocols import Call, Scope, Stage


@frozen
class TrimRounds(Stage):
    """Keep the last ``max_rounds`` rounds, with the questions that began them, and everything protected.

    A round is an assistant turn with all its tool results. Of what ``Protect.prefer`` names, rounds are kept before
    others that are newer, but for the last one, and the user's words stay.

    Args:
        max_rounds: How many rounds to keep; at least 1.

    Raises:
        ConfigError: If ``max_rounds`` is below 1.

    Example:
        >>> from agentctx import Pipeline, TrimRounds
        >>> from agentctx.testing import assistant, transcript, user
        >>> turns = user("One?"), assistant("1."), user("Two?"), assistant("2."), user("Three?")
        >>> messages = transcript("openai-chat", *turns)
        >>> [message["content"] for message in (await Pipeline(TrimRounds(max_rounds=1)).prepare(messages)).messages]
        ['One?', 'Two?', '2.', 'Three?']
    """

    max_rounds: int = field()
    scope: ClassVar[Scope] = Scope.PRESSURE

    @max_rounds.validator
    def _check(self, _attribute: object, value: int) -> None:
        check_whole("TrimRounds: max_rounds", value, 1)

    def effort(self, context: Context, _call: Call, /) -> Iterable[int]:
        """It reads no text."""
        return repeat(0, len(context.messages))

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context with the older rounds dropped."""
        bundles = segments(context.messages, units(context.messages))
        rounds = [index for index, bundle in enumerate(bundles) if bundle[-1].is_round]
        if len(rounds) <= self.max_rounds:
            return context
        named, stop = call.preferred(context), bundles[rounds[-1]][0].start
        older = sorted(rounds[:-1], key=lambda place: (named.isdisjoint(bundles[place][-1].places), -place))
        kept = {rounds[-1], *older[: self.max_rounds - 1]}
        loose = [unit for place, bundle in enumerate(bundles) if place not in kept for unit in bundle]
        old = [unit for unit in loose if unit.start < stop and (unit.is_round or named.isdisjoint(unit.places))]
        why = f"older than the last {self.max_rounds} rounds"
        return without(context, droppable(old, call.protected(context).union(call.unread(context))), call, why)
