"""How much room a session believes that it has: its budget, corrected by what the provider said."""

from __future__ import annotations

from attrs import define, field

from agentctx.core.budget import Budget
from agentctx.economics.overflow import Overflow
from agentctx.economics.truncation import Suspicion
from agentctx.session.learned_limit import LearnedLimit
from agentctx.tokens.calibration import Calibration

WORTH_IT = 0.99
"""A correction that leaves this share of the budget or more is not made: it would move the cut for nothing."""

SAFE = 0.98
"""Share of a limit that an error named which is used from then on."""

STRICTLY = 0.95
"""The next view has at most this share of the one that was refused."""

BLIND = 0.75
"""Share of the refused view when the error names no number."""

MOST_RESERVED = 0.5
"""Share of a limit that an error named which is kept free for the answer at most: the reserve was set for another."""


@define
class Allowance:
    """The budget in force.

    Args:
        given: The budget as it was configured; None when there is none.
        calibration: How the provider counts, compared to us.
        learned: The most that the provider takes, as an error taught.
        truncation: Why the provider is suspected of cutting prompts silently; None when it is not.
        in_force: The budget to keep now; None when there is none.
    """

    given: Budget | None
    calibration: Calibration = field(factory=Calibration)
    learned: LearnedLimit = field(factory=LearnedLimit)
    truncation: Suspicion | None = None
    in_force: Budget | None = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Work out what is in force."""
        self._renew()

    def learn(self, sent: int, billed: int) -> None:
        """Take in a report of usage: what we counted, and what was billed, in tokens."""
        self.calibration.learn(sent, billed)
        self.learned.taken(billed)
        self._renew()

    def suspects(self, doubt: Suspicion) -> bool:
        """Take in that a prompt was probably cut, take back what was learned on the way, and say whether it is new."""
        self.calibration.go_back()
        self._renew()
        new = self.truncation is None
        self.truncation = doubt if new else self.truncation
        return new

    def refused(self, overflow: Overflow, sent: int) -> None:
        """Take in that a view which we counted as ``sent`` tokens was too large."""
        says = overflow.limit if overflow.kind in ("window", "rate") else None
        stated = self.calibration.estimate(sent) if says is None else says
        most = max(1, min(int(sent * STRICTLY), self._taken(overflow, sent)))
        self.learned.refused(most, max(1, stated), named=says is not None)
        self._renew()

    def forget(self, before: LearnedLimit | None = None) -> None:
        """Take back what errors taught.

        Args:
            before: What was known before the error of which nothing smaller could be made; None: nothing is known.
        """
        self.learned = LearnedLimit() if before is None else before
        self._renew()

    def _taken(self, overflow: Overflow, sent: int) -> int:
        """The largest view that the provider would have taken, by our count, as far as its error tells."""
        limit, requested, prompt = overflow.limit, overflow.requested, overflow.prompt
        size = requested if prompt is None or prompt < 1 else prompt
        if limit is not None and size is not None and size > 0:
            answer = 0 if prompt is None or requested is None else max(0, requested - prompt)
            return int(sent * max(0, limit - max(answer, self._reserve(overflow, limit))) / size * SAFE)
        if overflow.excess is not None and overflow.kind == "window":
            return int((sent - overflow.excess) * SAFE)
        if limit is not None and overflow.kind == "window":
            most = self.calibration.local(limit - self._reserve(overflow, limit))
            if most < sent:
                return int(most * SAFE)
        return int(sent * BLIND)

    def _reserve(self, overflow: Overflow, limit: int) -> int:
        """Tokens of the limit to keep free for the answer: most providers count both together, and few say so."""
        if self.given is None or overflow.kind not in ("window", "rate"):
            return 0
        return min(self.given.reserved, int(limit * MOST_RESERVED))

    def local(self, limit: int) -> int:
        """A limit in the provider's tokens by our count, and at most what an error taught."""
        limit = self.calibration.local(limit)
        return limit if self.learned.tokens is None else min(limit, self.learned.tokens)

    def _renew(self) -> None:
        given = self.given
        if given is None:
            self.in_force = None if self.learned.tokens is None else Budget(self.learned.tokens)
            return
        share = self.local(given.limit) / given.limit
        self.in_force = given if share >= WORTH_IT else given.scaled(share)
