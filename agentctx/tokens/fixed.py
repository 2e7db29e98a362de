"""A counter for tests: sizes that can be worked out in the head."""

from __future__ import annotations

from attrs import frozen

from agentctx.core.message import Message
from agentctx.core.parts import Media, Part, ToolCall, ToolResult
from agentctx.errors import ConfigError


@frozen
class FixedCounter:
    """Every message costs the same, whatever it holds; so do every text, the system prompt, and the tools together.

    Nothing else costs anything, unless a price is given for it: a request of three messages and no tools has
    ``3 * tokens`` tokens.

    Args:
        tokens: What each message costs, in tokens.
        per_part: What each part of a message adds (a text, a thought; what a tool result holds), in tokens.
        per_call: What each tool call adds, in tokens.
        per_media: What each image, sound, film or document adds, in tokens; None: what any part adds.

    Raises:
        ConfigError: If ``tokens`` is not positive, or another number is negative.
    """

    tokens: int = 10
    per_part: int = 0
    per_call: int = 0
    per_media: int | None = None

    def __attrs_post_init__(self) -> None:
        """Check the options."""
        if isinstance(self.tokens, bool) or not isinstance(self.tokens, int) or self.tokens < 1:
            msg = f"tokens: expected a positive number, got {self.tokens!r}"
            raise ConfigError(msg)
        more = {"per_part": self.per_part, "per_call": self.per_call, "per_media": self.per_media or 0}
        for name, value in more.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                msg = f"{name}: expected a number of tokens, not negative, got {value!r}"
                raise ConfigError(msg)

    def count(self, text: str, /) -> int:
        """``tokens``, or 0 for the empty text."""
        return self.tokens if text else 0

    def count_message(self, message: Message, /) -> int:
        """``tokens``, and what its parts add."""
        return self.tokens + sum(map(self._added, message.parts))

    def _added(self, part: Part) -> int:
        if isinstance(part, ToolResult):
            return sum(map(self._added, part.content))
        if isinstance(part, Media):
            return self.per_part if self.per_media is None else self.per_media
        return self.per_call if isinstance(part, ToolCall) else self.per_part

    def exceeds(self, text: str, tokens: int, /) -> bool:
        """Whether ``text`` has more than ``tokens`` tokens."""
        return self.count(text) > tokens

    def head(self, text: str, tokens: int, /) -> str:
        """The whole text when it fits, else nothing of it: no shorter text costs less."""
        return text if self.count(text) <= tokens else ""

    def tail(self, text: str, tokens: int, /) -> str:
        """The whole text when it fits, else nothing of it: no shorter text costs less."""
        return self.head(text, tokens)
