"""One conversation: the only object that remembers; and many of them, by name."""

from typing import TYPE_CHECKING

from agentctx.lazy import lazily

if TYPE_CHECKING:
    from agentctx.session.session import forecast as forecast, forget_limit as forget_limit
    from agentctx.session.sessions import SessionEvicted as SessionEvicted
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__, {"agentctx.session.session": "forecast forget_limit", "agentctx.session.sessions": "SessionEvicted"}
    )
