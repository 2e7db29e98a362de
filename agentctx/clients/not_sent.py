"""A request that cannot fit is refused before it is sent, in the words of the SDK as well as in ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentctx.errors import BigItem, ContextOverflow


class NotSent(ContextOverflow):
    """A ``ContextOverflow`` that is the SDK's own error for a request that is too large, too.

    Each SDK's file derives its class from this and from the SDK's, so that both ``except`` clauses catch it. It can be
    pickled, and it has the attributes that the SDK's error has: status 400, a message, a body, a response.

    Args:
        tokens: See ``ContextOverflow``.
        limit: See ``ContextOverflow``.
        biggest: See ``ContextOverflow``.
    """

    status_code: Any = 400

    def __init__(self, tokens: int, limit: int, biggest: Sequence[BigItem] = ()) -> None:
        self.tell(str(ContextOverflow(tokens, limit, biggest)))
        self.tokens = tokens
        self.limit = limit
        self.biggest = tuple(biggest)

    def tell(self, message: str) -> None:
        """Be built as the SDK builds its error."""
        raise NotImplementedError

    def __reduce__(self) -> tuple[Any, ...]:
        """What it is pickled as."""
        return type(self), (self.tokens, self.limit, self.biggest)

    @classmethod
    def of(cls, error: ContextOverflow) -> NotSent:
        """The same overflow as the SDK's error."""
        return cls(error.tokens, error.limit, error.biggest)


def body_of(message: str) -> dict[str, Any]:
    """An error body as most providers write it."""
    return {"message": message, "type": "invalid_request_error", "param": None, "code": "context_length_exceeded"}
