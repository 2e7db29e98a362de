"""Whether messages are still the same: snapshots, digests, ``begins_with``."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from attrs import frozen

from agentctx.core.message import Native
from agentctx.core.pace import EVERY, paced
from agentctx.errors import InvalidInput
from agentctx.providers.native import BYTES, PLAIN, mapping_or_none, snapshot
from agentctx.tokens.carried import base64_of

DIGEST_BYTES = 12
"""A message is compared to the one that stood at the same place, so that few bytes tell them apart."""


@frozen(eq=False, repr=False)
class Digest:
    """Equals every native message that has this digest: stands for one whose content is not kept.

    Args:
        content: The first bytes of the SHA-256 of the message's canonical JSON.
    """

    content: bytes

    def __eq__(self, other: object) -> bool:
        try:
            return self.content == digest(other)
        except RecursionError:  # it contains itself, or is nested too deep: reading it will say so
            return False

    def __hash__(self) -> int:
        return hash(self.content)


def digest(native: object) -> bytes:
    """What tells a native value from others.

    An object of an SDK, its fields as a dict, and that dict with the fields that are null, have the same digest: a
    history that was written down and read again is the same history.
    """
    if isinstance(native, Digest):
        return native.content
    return _digest_of(_sorted(_canonical(native)).encode("utf-8", "surrogatepass"))


_sorted = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode


def exact_digest(plain: object) -> bytes:
    """What tells plain JSON values from all others, those with a null and without it too."""
    return _digest_of(json.dumps(plain, sort_keys=True).encode())


def _digest_of(content: bytes) -> bytes:
    from hashlib import sha256  # noqa: PLC0415 - loads OpenSSL, for what is written down only

    return sha256(content).digest()[:DIGEST_BYTES]


def _canonical(native: object) -> Native:
    if type(native) is dict:  # the most, with few calls
        return {
            key if type(key) is str else str(key): value if type(value) in PLAIN else _canonical(value)
            for key, value in native.items()
            if value is not None
        }
    if native is None or isinstance(native, (str, int, float)):
        return native
    if isinstance(native, (list, tuple)):
        return [_canonical(each) for each in native]
    if isinstance(native, (bytes, bytearray)):
        return {BYTES: b64encode(native).decode("ascii")}
    if (found := mapping_or_none(native)) is None:
        return _file_or_repr(native)
    return {str(key): _canonical(value) for key, value in found.items() if value is not None}


def _file_or_repr(native: object) -> str:
    """A path or a stream is what it holds, as in a state; anything else is as Python writes it."""
    try:
        return base64_of(native) or repr(native)
    except (OSError, ValueError):
        return repr(native)


def snapshots(natives: Sequence[Any], first: int) -> list[Any]:
    """A snapshot of each message.

    Args:
        natives: The native messages.
        first: The index of the first one, for the error.

    Raises:
        InvalidInput: If a message contains itself, or is nested so deep that it cannot be looked at; names it.
    """
    seen: list[Any] = []
    try:
        for native in natives if len(natives) < EVERY else paced(natives):
            seen.append(snapshot(native))  # noqa: PERF401 - its length tells which message failed
    except RecursionError:
        where = f"messages[{first + len(seen)}]"
        raise InvalidInput(where, "it is nested too deep, or contains itself") from None
    return seen


def begins_with(messages: Sequence[Any], known: list[Any]) -> bool:
    """Whether ``messages`` begins with ``known``: the same object, or an equal one, at every place.

    Lists of one length are compared without a look at what is the same object, and to cut one of them is to look at
    each: so what comes after is put behind ``known``, and taken off again.
    """
    length = len(known)
    if type(messages) is not list:
        # As lists: what has an order of its own, such as a tuple, must be the same and not only come before.
        return known == list(messages[:length])
    if len(messages) <= length:
        return known == messages
    known += messages[length:]
    try:
        return known == messages
    finally:
        del known[length:]


def shared_length(messages: Sequence[Any], known: list[Any]) -> int:
    """How many messages at the start are the same in both."""
    low, high = 0, min(len(messages), len(known))
    while low < high:
        middle = (low + high + 1) // 2
        if begins_with(messages[low:middle], known[low:middle]):
            low = middle
        else:
            high = middle - 1
    return low
