"""Windows that force a session to be cut several times."""

from __future__ import annotations

from attrs import frozen
from recorded import Recorded

from agentctx.models import ModelProfile
from agentctx.models.profile import cache_rules

FEWEST_CALLS, SMALLEST_WINDOW = 20, 4_096
"""Shorter sessions, and windows smaller than any model's, show nothing."""
CALLS_A_PART = 20
"""The more calls a session has, the smaller the part of it that its window holds."""
OUTGROWN = 2.0
"""A session is sent in a given window when it grows to so many times of it, and what it cannot be without to half."""


@frozen
class Windows:
    """Which window each session is sent in.

    Args:
        given: One window for all sessions that outgrow it, in tokens; None: one made for each.
    """

    given: int | None = None

    def of(self, recorded: Recorded) -> int:
        """The window: the given one, or what no request can be without and a half to a quarter of the rest.

        The longer the session, the smaller the part, so that at least some dozen calls lie between two compactions.
        """
        if self.given is not None:
            return self.given
        parts = max(2, min(4, len(recorded.calls) // CALLS_A_PART))
        return recorded.floor + (recorded.largest - recorded.floor) // parts

    def worth(self, recorded: Recorded, model: ModelProfile) -> bool:
        """Whether a session is long enough for its window, and the window large enough for the model's cache."""
        if len(recorded.calls) < FEWEST_CALLS:
            return False
        if self.given is not None:
            return recorded.largest >= OUTGROWN * self.given and 2 * recorded.floor <= self.given
        return self.of(recorded) >= max(SMALLEST_WINDOW, 4 * cache_rules(model).smallest)
