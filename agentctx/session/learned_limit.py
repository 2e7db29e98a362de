"""The limit that an overflow taught: how long it holds, and when it is given up.

One refusal may be of one request alone: a gateway that fell back to a smaller deployment, a proxy set up wrongly for an
hour. So a limit holds only as long as the provider does not take larger prompts, by its own count. What it took before
the refusal speaks against the limit, too; where the same is refused again, it does not any more.
"""

from __future__ import annotations

from collections import deque

from attrs import define, field

CONTRADICTED = 10
"""So many accepted prompts that were larger than a limit say that it is none. A few may be sums of several prompts,
which some providers report when tools ran on the server."""

OBEYED = 64
"""So many accepted prompts after the one error that named a limit, the room of before is tried once more: whoever obeys
a limit never contradicts it. Refused again, it is believed."""

FEW = 16
"""So many are enough where larger ones were accepted."""

REMEMBERED = 32
"""The sizes of so many accepted prompts are remembered."""


@define
class LearnedLimit:
    """The most that a provider takes, as far as its errors and its answers tell.

    Args:
        tokens: The most by our count, in tokens; None when no error taught any, or it was given up.
        stated: The same by the provider's count: a larger prompt that it takes contradicts the limit.
        accepted: The sizes of the last prompts that it took, by its count, in tokens.
        given_up: The limit, by the provider's count, that was given up last; None once a larger prompt was taken.
        obeyed: So many prompts were accepted since one error named the limit; None where it is believed, or guessed.
    """

    tokens: int | None = None
    stated: int | None = None
    accepted: deque[int] = field(factory=lambda: deque(maxlen=REMEMBERED))
    given_up: int | None = None
    obeyed: int | None = None

    def taken(self, billed: int) -> bool:
        """Take in that the provider took a prompt of this size, by its count, and say whether a limit was given up."""
        self.accepted.append(billed)
        if self.given_up is not None and billed > self.given_up:
            self.given_up = None
        if self.stated is None:
            return False
        larger = sum(size > self.stated for size in self.accepted)
        if self.obeyed is not None:
            self.obeyed += 1
        if larger < CONTRADICTED and (self.obeyed or 0) < (FEW if larger else OBEYED):
            return False
        self.given_up = self.stated
        self.reset()
        return True

    def refused(self, tokens: int, stated: int, *, named: bool = False) -> None:
        """Take in that the provider takes no more than this; of two limits the smaller one holds.

        Args:
            tokens: The most by our count.
            stated: The most by the provider's count, as it says or as far as it can be told.
            named: Whether it says so.
        """
        if self.given_up is not None and stated <= self.given_up:
            self.accepted.clear()  # refused again, and nothing larger was taken in between
            self.obeyed = None
        elif self.stated is None or stated < self.stated:
            self.obeyed = 0 if named else None
        self.given_up = None
        self.tokens = tokens if self.tokens is None else min(tokens, self.tokens)
        self.stated = stated if self.stated is None else min(stated, self.stated)

    def reset(self) -> None:
        """Forget the limit; what was accepted stays known."""
        self.tokens = self.stated = self.obeyed = None
