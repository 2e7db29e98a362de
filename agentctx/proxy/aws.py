"""Signatures for AWS over host and body, with the credentials of this machine. The one file for botocore."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlsplit

import anyio.to_thread
from attrs import define, field

from agentctx.errors import ConfigError
from agentctx.proxy.apis import Headers

SERVICE = "bedrock"


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
