"""What AWS asks for: signatures over host and body, and streams in its own binary form. The one file for botocore."""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.parse import urlsplit

import anyio.to_thread
from attrs import define, field

from agentctx.core.message import Native
from agentctx.errors import ConfigError
from agentctx.proxy.apis import Headers

SERVICE = "bedrock"
_HEADERS_AT = 12
_STRING = 7
_FIXED = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""The lengths of the kinds of header values that have one."""


def said_in_frame(frame: bytes) -> Native:
    """What a message of an event stream says: its payload, by the name of its event or its exception.

    Source: https://docs.aws.amazon.com/transcribe/latest/dg/streaming-setting-up.html, "event stream encoding".
    """
    try:
        headers = _headers(frame)
        start = _HEADERS_AT + int.from_bytes(frame[4:8], "big")
        payload = json.loads(frame[start:-4] or b"null")
    except (ValueError, IndexError, KeyError, RecursionError):
        return None
    name = headers.get(":event-type") or headers.get(":exception-type")
    return {name: payload} if name else None


def _headers(frame: bytes) -> dict[str, str]:
    found, place = dict[str, str](), _HEADERS_AT
    end = place + int.from_bytes(frame[4:8], "big")
    while place < end:
        length = frame[place]
        name = frame[place + 1 : place + 1 + length].decode()
        kind, place = frame[place + 1 + length], place + 2 + length
        size = _FIXED[kind] if kind in _FIXED else int.from_bytes(frame[place : place + 2], "big") + 2
        if kind == _STRING:
            found[name] = frame[place + 2 : place + size].decode()
        place += size
    return found


@define(eq=False)
class Signer:
    """Signs requests with the credentials of this machine, as every AWS tool finds them.

    Where ``AWS_BEARER_TOKEN_BEDROCK`` has an API key, that goes in the place of a signature.

    Raises:
        ConfigError: If there is neither, or botocore is not installed.
    """

    _credentials: Any = field(init=False, default=None, repr=False)
    _bearer: str | None = field(init=False, factory=lambda: os.environ.get("AWS_BEARER_TOKEN_BEDROCK"), repr=False)

    def __attrs_post_init__(self) -> None:
        """Find the credentials."""
        if self._bearer:
            return
        try:
            from botocore.session import get_session  # type: ignore[import-untyped]  # noqa: PLC0415 - optional
        except ModuleNotFoundError:
            msg = "signing for AWS needs botocore: pip install botocore"
            raise ConfigError(msg) from None
        self._credentials = get_session().get_credentials()
        if self._credentials is None:
            msg = "no AWS credentials were found: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            raise ConfigError(msg)

    async def signed(self, method: str, url: str, headers: Headers, body: bytes, region: str) -> Headers:
        """The header fields with a signature over this address and this body, in the place of the one that came.

        Args:
            method: The method.
            url: The address.
            headers: The header fields as they came, without those that concern a connection.
            body: The body.
            region: The AWS region.
        """
        kept = [(name, value) for name, value in headers if name not in _REPLACED]
        if self._bearer:
            return [*kept, (b"authorization", f"Bearer {self._bearer}".encode())]
        return await anyio.to_thread.run_sync(self._sign, method, url, kept, body, region)

    def _sign(self, method: str, url: str, headers: Headers, body: bytes, region: str) -> Headers:
        from botocore.auth import SigV4Auth  # type: ignore[import-untyped]  # noqa: PLC0415 - optional
        from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]  # noqa: PLC0415 - optional

        content = {name.decode(): value.decode("latin-1") for name, value in headers if name == b"content-type"}
        request = AWSRequest(method, url, headers={"host": urlsplit(url).netloc, **content}, data=body)
        SigV4Auth(self._credentials.get_frozen_credentials(), SERVICE, region).add_auth(request)
        added = [(name.lower().encode(), value.encode()) for name, value in request.headers.items()]
        return [*headers, *((name, value) for name, value in added if name not in (b"content-type", b"host"))]


_REPLACED = frozenset({b"authorization", b"x-amz-date", b"x-amz-security-token", b"x-amz-content-sha256"})
