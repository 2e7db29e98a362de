"""A counter for tests: sizes that can be worked out in the head."""

from __future__ import annotations

from attrs import frozen

from agentctx.core.message import Message
from agentctx.errors import ConfigError


@frozen
class FixedCounter:
    """Every message costs the same, whatever it holds; so do every text, the system prompt, and the tools together.

    Nothing else costs anything: a request of three messages and no tools has ``3 * tokens`` tokens.

    Args:
        tokens: What each costs, in tokens.

    Raises:
        ConfigError: If ``tokens`` is not positive.
    """

    tokens: int = 10

    def __attrs_post_init__(self) -> None:
        """Check the option."""
        if isinstance(self.tokens, bool) or not isinstance(self.tokens, int) or self.tokens < 1:
            msg = f"tokens: expected a positive number, got {self.tokens!r}"
            raise ConfigError(msg)

    def count(self, text: str, /) -> int:
        """``tokens``, or 0 for the empty text."""
        return self.tokens if text else 0

    def count_message(self, message: Message, /) -> int:
        """``tokens``, for any message."""
        del message
        return self.tokens

    def exceeds(self, text: str, tokens: int, /) -> bool:
        """Whether ``text`` has more than ``tokens`` tokens."""
        return self.count(text) > tokens

    def head(self, text: str, tokens: int, /) -> str:
        """The whole text when it fits, else nothing of it: no shorter text costs less."""
        return text if self.count(text) <= tokens else ""

    def tail(self, text: str, tokens: int, /) -> str:
        """The whole text when it fits, else nothing of it: no shorter text costs less."""
        return self.head(text, tokens)
