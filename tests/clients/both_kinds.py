"""Ask async and sync clients in the same words; a sync one blocks the thread whose event loop is running."""

from inspect import isawaitable


async def now(result):
    """The result of a call of either kind."""
    return await result if isawaitable(result) else result


async def listed(stream, seen=None):
    """All events of a stream of either kind; they are put into ``seen`` as they come."""
    events = [] if seen is None else seen
    if hasattr(stream, "__aiter__") and not hasattr(stream, "__next__"):
        async for event in stream:
            events.append(event)
    else:
        events.extend(stream)
    return events


async def inside(manager, use):
    """What ``use`` makes of a context manager of either kind."""
    if hasattr(manager, "__aenter__"):
        async with manager as entered:
            return await now(use(entered))
    with manager as entered:
        return await now(use(entered))
