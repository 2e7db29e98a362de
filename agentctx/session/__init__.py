"""One conversation: the only object that remembers."""

from agentctx.session.session import Session

__all__ = ["Session"]
