"""What was sent last."""

from __future__ import annotations

from attrs import frozen


@frozen
class Sent:
    """The last request.

    Args:
        tokens: Its size by our count, in tokens; 0 when there was none.
        length: How many messages it had.
        intact: How many messages at its start stand in what is known of the conversation now as they were sent.
        at: When it was prepared, in seconds since 1970; None when there was none.
    """

    tokens: int = 0
    length: int = 0
    intact: int = 0
    at: float | None = None

    def idle(self, now: float) -> float | None:
        """Seconds since it was prepared; None when there was none."""
        return None if self.at is None else max(0.0, now - self.at)
