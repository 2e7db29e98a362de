"""A local server between any agent and its provider, which prepares each model call by a pipeline."""

from typing import TYPE_CHECKING

from agentctx.lazy import lazily

if TYPE_CHECKING:
    from agentctx.proxy.app import Proxy as Proxy
    from agentctx.proxy.upstream import Timeouts as Timeouts, Upstreams as Upstreams
    from agentctx.session.conversations import Histories as Histories, SharedHistories as SharedHistories
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.proxy.app": "Proxy",
            "agentctx.session.conversations": "Histories SharedHistories",
            "agentctx.proxy.upstream": "Timeouts Upstreams",
        },
    )
