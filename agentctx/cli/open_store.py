"""The store that a command is about: a file, a Redis URL or a PostgreSQL URL, opened and never made."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, TypeVar
from urllib.parse import urlsplit

import anyio
import typer

from agentctx import stores
from agentctx.errors import ConfigError, StoreError
from agentctx.stores.store import Cipher, ConversationStore
from agentctx.users_code import called, imported

T = TypeVar("T")

StorePlace = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="PATH_OR_URL",
        envvar="AGENTCTX_STORE",
        show_default=False,
        help="A SQLite file, redis://HOST:PORT/DB, or postgresql://USER@HOST/DATABASE.",
    ),
]
Namespace = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        show_default="agentctx",
        help="The prefix of the store in Redis, or its schema in PostgreSQL.",
    ),
]

CipherNamed = Annotated[
    str | None,
    typer.Option(
        "--cipher",
        metavar="MODULE:NAME",
        envvar="AGENTCTX_CIPHER",
        show_default=False,
        help="What decrypts the store: an object with encrypt and decrypt, or a function that makes one.",
    ),
]

_TIMEOUT = 30.0
_URL = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.IGNORECASE | re.DOTALL)
_REDIS = {"redis": "redis", "rediss": "rediss", "valkey": "redis", "valkeys": "rediss", "unix": "unix"}
_POSTGRES = frozenset({"postgres", "postgresql"})


def with_store(
    place: str | None,
    namespace: str | None,
    work: Callable[[ConversationStore], Awaitable[T]],
    cipher: str | None = None,
) -> T:
    """Open the store that is meant, work with it, and close it.

    Raises:
        ConfigError: If no store is named, or it cannot be one, or the cipher is none.
        StoreError: If there is no store, or it fails. No error has a password in it.
    """
    if not place:
        msg = "which store? pass --store PATH_OR_URL, or set AGENTCTX_STORE"
        raise ConfigError(msg)
    return anyio.run(partial(_work, place, namespace, work, None if cipher is None else _cipher(cipher)))


async def _work(
    place: str, namespace: str | None, work: Callable[[ConversationStore], Awaitable[T]], cipher: Cipher | None
) -> T:
    async with _opened(place, namespace, cipher) as store:
        return await work(store)


def _cipher(named: str) -> Cipher:
    """The cipher of that name.

    Raises:
        ConfigError: If there is none.
    """
    found = imported(named, "--cipher")
    if isinstance(found, type) or (callable(found) and not isinstance(found, Cipher)):
        found = called(found, named, "--cipher")
    if not isinstance(found, Cipher):
        msg = f"--cipher {named}: expected an object with encrypt and decrypt, got {type(found).__name__}"
        raise ConfigError(msg)
    return found


@asynccontextmanager
async def _opened(place: str, namespace: str | None, cipher: Cipher | None) -> AsyncIterator[ConversationStore]:
    try:
        async with store_at(place, namespace) as store:
            store.cipher = cipher
            yield store
    except StoreError as error:
        raise StoreError(_without_password(str(error), place)) from error


def store_at(
    place: str, namespace: str | None = None, *, create: bool = False, ttl: float | None = None
) -> ConversationStore:
    """The store at a path or a URL.

    Args:
        place: The path or the URL.
        namespace: The prefix in Redis, or the schema in PostgreSQL.
        create: Whether to make one where none is.
        ttl: Seconds that a conversation stays after it was written to last.

    Raises:
        ConfigError: If it cannot be one.
    """
    url = _URL.fullmatch(place)
    if url is None:
        if namespace is not None:
            msg = "--namespace: a SQLite file has none"
            raise ConfigError(msg)
        return stores.SQLiteStore(place, timeout=_TIMEOUT, create=create, ttl=ttl)
    scheme, rest, name = url[1].lower(), url[2], namespace or "agentctx"
    if scheme in _REDIS:
        _check_port(place)
        return stores.RedisStore(f"{_REDIS[scheme]}://{rest}", prefix=name, timeout=_TIMEOUT, create=create, ttl=ttl)
    if scheme in _POSTGRES:
        return stores.PostgresStore(place, schema=name, timeout=_TIMEOUT, create=create, ttl=ttl)
    msg = f"--store: {scheme}:// is no store: pass a SQLite file, redis://..., unix://..., or postgresql://..."
    raise ConfigError(msg)


def _check_port(place: str) -> None:
    """Refuse a URL that redis-py cannot read; it would quote what it takes for the port, such as half a password."""
    try:
        _ = urlsplit(place).port
    except ValueError:
        msg = "--store: what stands behind the host is no port; in a password / # ? : and @ are written as %2F %23 ..."
        raise ConfigError(msg) from None


def _without_password(said: str, place: str) -> str:
    """What a driver said, without the URL that it may quote."""
    found = re.search(r"//[^/@]*:([^/@]+)@", place)
    for secret in (place, *(() if found is None else (found[1],))) if _URL.fullmatch(place) else ():
        said = said.replace(secret, "***")
    return said
