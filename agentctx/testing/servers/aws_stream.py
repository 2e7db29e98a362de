"""Streams in AWS's binary form.

Source: https://docs.aws.amazon.com/AmazonS3/latest/API/RESTSelectObjectAppendix.html.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from struct import pack
from typing import Any
from zlib import crc32

import anyio
from starlette.responses import StreamingResponse

Sent = tuple[str, str, Mapping[str, Any]]
"""A message of a stream: whether it is an event or an exception, its name, and what it says."""


def frames(of: Iterable[Sent], pause: float = 0.0) -> StreamingResponse:
    """A stream of messages."""

    async def sent() -> AsyncIterator[bytes]:
        for kind, name, said in of:
            await anyio.sleep(pause)
            yield _frame(kind, name, json.dumps(said).encode())

    return StreamingResponse(sent(), media_type="application/vnd.amazon.eventstream")


def _frame(kind: str, name: str, payload: bytes) -> bytes:
    """One message: lengths, headers and payload, each part with its checksum."""
    headers = {":message-type": kind, f":{kind}-type": name, ":content-type": "application/json"}
    written = b"".join(
        pack("!B", len(key)) + key.encode() + pack("!BH", 7, len(value)) + value.encode()
        for key, value in headers.items()
    )
    lengths = pack("!II", 16 + len(written) + len(payload), len(written))
    whole = lengths + pack("!I", crc32(lengths)) + written + payload
    return whole + pack("!I", crc32(whole))
