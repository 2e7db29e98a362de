"""Tell listeners; one that raises is logged and costs nothing."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable

from agentctx.core.event import Compaction
from agentctx.protocols import Listener

logger = logging.getLogger("agentctx")


async def tell(listeners: Iterable[Listener | None], event: Compaction) -> None:
    """Call each listener with the event, one after the other; None is nobody."""
    for listener in listeners:
        if listener is None:
            continue
        try:
            answer = listener(event)
            if inspect.isawaitable(answer):
                await answer
        except Exception:  # the one place where any error is expected: a listener's own
            logger.exception("on_compact listener %r raised; the request goes on without it", listener)
