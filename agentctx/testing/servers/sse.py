"""Server-sent events, as the providers' streams send them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import anyio
from starlette.responses import StreamingResponse

Event = tuple[str | None, Mapping[str, Any] | str]
"""An event's name, if it has one, and its data: an object, or a text as it stands."""


def events(of: Iterable[Event], pause: float = 0.0) -> StreamingResponse:
    """A stream of events.

    Args:
        of: The events.
        pause: Seconds before each.
    """

    async def sent() -> AsyncIterator[str]:
        for name, data in of:
            await anyio.sleep(pause)
            head = "" if name is None else f"event: {name}\n"
            yield f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n"

    return StreamingResponse(sent(), media_type="text/event-stream")
