"""Tell listeners; one that raises is logged and costs nothing."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Iterable
from functools import partial

from agentctx.core.event import Compaction
from agentctx.protocols import Listener

logger = logging.getLogger("agentctx")

_RAISED = "on_compact listener %r raised; the request goes on without it"


async def tell(listeners: Iterable[Listener | None], event: Compaction) -> None:
    """Call each listener with the event, one after the other; None is nobody."""
    for listener in listeners:
        if listener is None:
            continue
        try:
            answer = listener(event)
            if inspect.isawaitable(answer):
                await answer
        except Exception:  # the one kind of place where any error is expected: a listener's own
            logger.exception(_RAISED, listener)


def tell_plain(listeners: Iterable[Listener | None], event: Compaction) -> list[Listener]:
    """Call those listeners that do not wait, and give back the others, to be told where waiting is possible."""
    waiting: list[Listener] = []
    for listener in listeners:
        if listener is None:
            continue
        if inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(type(listener).__call__):
            waiting.append(listener)
            continue
        try:
            answer = listener(event)
        except Exception:  # see above
            logger.exception(_RAISED, listener)
            continue
        if inspect.isawaitable(answer):
            waiting.append(partial(_answer, answer))
    return waiting


def _answer(answer: Awaitable[object], _event: Compaction) -> Awaitable[object]:
    """What a listener gave back when it was called."""
    return answer
