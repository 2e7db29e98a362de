"""A store in Redis or Valkey, by redis-py, whose plain client is used in threads."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from attrs import define, field
from attrs.validators import matches_re

from agentctx.characters import said_by
from agentctx.errors import ConfigError, StoreConflict, StoreError, StoreFull, StoreUnavailable
from agentctx.lazy import unmet
from agentctx.message import Native
from agentctx.stores.store import (
    CONNECTIONS,
    REMEMBERED,
    Claim,
    ConversationStore,
    Kind,
    NoRoom,
    Owned,
    Places,
    Write,
    span_below,
)
from agentctx.validators import MustBe

try:
    from redis import Redis, RedisCluster, exceptions
    from redis.backoff import NoBackoff
    from redis.retry import Retry
except ImportError as error:
    raise ConfigError(unmet("RedisStore", "redis", error)) from error

logger = logging.getLogger("agentctx")

SCHEMA = 1

_PREFIX = re.compile(r"[^{}\s]{1,100}")


_NAME = MustBe("1 to 100 characters without braces and blanks", matches_re(_PREFIX))


@define(eq=False)
class RedisStore(ConversationStore):
    """Keeps all in Redis or Valkey (6.2 or newer), for any number of workers on any number of machines.

    What the server has acknowledged is as safe as its ``appendfsync`` makes it; it must not evict keys
    (``maxmemory-policy noeviction``; the log says where it may): what is taken away behind the store's back is missed
    when it is read. All keys of a store have one hash tag, its prefix, and so one slot of a cluster:
    stores with several prefixes spread over its nodes. Needs ``pip install 'agentctx-middleware[redis]'``.

    Args:
        url: Where it is, as for redis-py: ``"redis://host:6379/0"``, ``"rediss://..."``, ``"unix:///path"``.
        prefix: What each key begins with; stores with several prefixes know nothing of each other.
        cluster: Whether it is a node of a cluster.
        create: Whether a store is made where there is none; without it, that is a ``StoreError``.
        ttl: Seconds after the last write for a conversation after which all of it is taken away; None: never.
        max_bytes: The most bytes that the store keeps; what is oldest goes first.
        cipher: Encrypts contents, messages and states.
        timeout: Seconds that one call may take.
        clock: Tells seconds since 1970, by which conversations expire.

    Raises:
        ConfigError: If an option makes no sense.

    Example:
        >>> from agentctx.stores import RedisStore
        >>> store = RedisStore("redis://localhost:6379/0", ttl=30 * 24 * 3600)
    """

    url: str = field(repr=False)
    prefix: str = field(default="agentctx", validator=_NAME, kw_only=True)
    cluster: bool = field(default=False, kw_only=True)
    create: bool = field(default=True, kw_only=True)

    def __attrs_post_init__(self) -> None:
        """Nothing is opened yet."""
        self._backend = _Server(self.url, f"{{{self.prefix}}}:", self.timeout, self.cluster, self.create)


@define(eq=False)
class _Server:
    """A back end in the keys of one prefix; its options are those of the store, the prefix as it stands in the keys."""

    waits = True
    url: str
    prefix: str
    timeout: float
    cluster: bool
    create: bool
    _client: Native = field(init=False, default=None)
    _script: Native = field(init=False, default=None)
    _places: Places = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Nothing is opened yet."""
        self._places = Places(self.timeout)

    def put(self, claim: Claim, handle: str, digest: bytes, body: bytes) -> bool:
        done, *told = map(int, self._ask("put", claim.now, *_told(claim), handle, digest, body))
        if done == _FULL:
            raise NoRoom(claim, told[0])
        return bool(done)

    def get(self, handle: str, owner: bytes | None, now: float) -> bytes | None:
        found = self._ask("get", now, owner or b"", handle)
        return bytes(found[0]) if found else None

    def handles(self, owner: bytes | None, now: float) -> list[str]:
        told = self._ask("handles", now, owner or b"")
        numbered = sorted(zip(map(float, told[1::2]), told[::2], strict=True))
        return list(dict.fromkeys(handle.decode() for _, handle in numbered))

    def version(self, owner: bytes, kind: Kind, now: float) -> int:
        return int(self._ask("version", now, owner, kind)[0])

    def read(self, owner: bytes, kind: Kind, now: float) -> tuple[int, list[tuple[str, bytes]]]:
        version, *told = self._ask("read", now, owner, kind)
        pieces = sorted((body[:_PLACE], piece.decode(), body[_PLACE:]) for piece, body in _pairs(told))
        return int(version), [(piece, body) for _, piece, body in pieces]

    def write(self, claim: Claim, write: Write) -> int:
        version = b"" if write.version is None else b"%d" % write.version
        drop = {*(write.drop or ()), *write.put}
        partly = b"0" if write.drop is None else b"1"
        put = [each for named in write.put.items() for each in named]
        parameters = write.kind, version, write.key, partly, b"%d" % write.stamp, b"%d" % len(drop), *drop, *put
        answer = self._ask("write", claim.now, *_told(claim), *parameters)
        done, *told = map(int, answer)
        if done == _CONFLICT:
            raise StoreConflict(claim.name, told[0])
        if done == _FULL:
            raise NoRoom(claim, told[0])
        return done

    def make_room(self, claim: Claim, grown: int) -> None:
        how = _MORE
        while how == _MORE:  # some at a time: nobody else is served while a script runs
            how, *alone = map(int, self._ask("make_room", claim.now, *_told(claim), str(grown)))
        if how == _FULL:
            claim.check_alone(alone[0])

    def owned(self, now: float) -> list[Owned]:
        found, cursor = dict[bytes, Owned](), b"0"
        while True:  # some at a time: nobody else is served while a script runs
            cursor, *told = self._ask("owned", now, cursor)
            for each in told:  # one text each, which a client reads faster
                size, contents, history, state, expires, owner = each.split(b" ", _NUMBERS)
                versions = [int(version) if version else None for version in (history, state)]
                until = float(expires) if expires else math.inf
                found[owner] = Owned(owner, int(size), int(contents), versions[0], versions[1], until)
            if int(cursor) == 0:
                return list(found.values())

    def purge(self, owners: Sequence[bytes]) -> int:
        return sum(map(self._purge, owners))

    def _purge(self, owner: bytes) -> int:
        freed, left, span = 0, 1, span_below(owner)
        while left:  # some at a time: nobody else is served while a script runs
            size, left = map(int, self._ask("purge", 0.0, owner, *span))
            freed += size
        return freed

    def sweep(self, now: float, most: int) -> int:
        return int(self._ask("sweep", now, str(most))[0])

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            _hang_up(client)

    def _ask(self, *arguments: Native) -> list[Any]:  # what the script takes
        with self._places.one(), _translating():
            known = self._client
            client = self._open() if known is None else known
            operation, now, *rest = arguments
            said = [operation, repr(now), *rest]
            try:
                return _listed(self._script(keys=[self.prefix], args=said, client=client))
            except exceptions.ResponseError as error:
                if _ANOTHER_SCHEMA not in str(error):
                    raise
            finally:
                if client is not self._client:  # it was closed meanwhile
                    _hang_up(client)
            self.close()
            client = self._open()  # it was lost, and is made anew; or a newer release was here, which is an error
            return _listed(self._script(keys=[self.prefix], args=said, client=client))

    def _open(self) -> Native:  # a client of redis-py
        kind: Native = RedisCluster if self.cluster else Redis
        client = kind.from_url(
            self.url,
            socket_timeout=self.timeout,
            socket_connect_timeout=self.timeout,
            retry=Retry(NoBackoff(), 0),
            max_connections=8 * CONNECTIONS,
        )
        self._script = client.register_script(_LUA)
        made = str(SCHEMA) if self.create else ""
        version = int(_listed(self._script(keys=[self.prefix], args=["schema", "0", made]))[0])
        if not 0 < version <= SCHEMA:
            client.close()
            msg = f"the store {self.prefix} has version {version} of the schema; this release knows {SCHEMA}"
            raise StoreError(msg if version else f"Redis: there is no store under the prefix {self.prefix[1:-2]}")
        self._client = client
        self._say_what_it_evicts(client)
        return client

    def _say_what_it_evicts(self, client: Native) -> None:  # of redis-py
        try:
            told = client.info("memory")
        except exceptions.ResponseError:  # who may not ask is told nothing
            return
        policy = str(told.get("maxmemory_policy", ""))
        if policy.startswith("allkeys"):
            logger.warning("the Redis server evicts keys where memory is short (%s): it needs noeviction", policy)


_PLACE = 32
"""Digits in front of a piece: its version and its place."""

_NUMBERS = 5
"""Numbers that are told of an owner, before its name."""

_CONFLICT, _FULL, _MORE = -1, -2, -3


def _hang_up(client: Native) -> None:  # of redis-py
    """Close the connections of a client that are free; those that are at work end their work, and are free then."""
    clustered = isinstance(client, RedisCluster)
    for each in [node.redis_connection for node in client.get_nodes()] if clustered else [client]:
        if each is not None:
            each.connection_pool.disconnect(inuse_connections=False)


def _listed(answer: Native) -> list[Any]:  # what the script returns
    """What the script answers, which is always a list: anything else is said by somebody else.

    Raises:
        StoreError: If it is none: nothing was done then.
    """
    if not isinstance(answer, list):
        msg = f"Redis: the server answered {answer!r:.80}"
        raise StoreError(msg)
    return answer


def _told(claim: Claim) -> tuple[bytes, str, str]:
    expires, most = ("" if each == math.inf else repr(float(each)) for each in (claim.expires, claim.most))
    return claim.owner, expires, most


def _pairs(told: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(told[::2], told[1::2], strict=True)


@contextmanager
def _translating() -> Iterator[None]:
    """Errors of the client as ours, and of a server that answers something else."""
    try:
        yield
    except exceptions.OutOfMemoryError as error:
        raise _as(StoreFull, error) from error
    except (exceptions.AuthenticationError, exceptions.AuthorizationError) as error:
        raise _as(StoreError, error) from error
    except (exceptions.ConnectionError, exceptions.TimeoutError, exceptions.ClusterDownError, OSError) as error:
        raise _as(StoreUnavailable, error) from error
    except exceptions.RedisError as error:
        raise _as(_kind(str(error)), error) from error
    except (TypeError, ValueError, IndexError) as error:
        raise _as(StoreError, error) from error


def _kind(said: str) -> type[StoreError]:
    if re.search(r"OOM|No space left", said):
        return StoreFull
    transient = r"READONLY|LOADING|BUSY|MISCONF|NOREPLICAS|MASTERDOWN|TRYAGAIN|CLUSTERDOWN|read only replica|loading"
    return StoreUnavailable if re.search(transient, said) else StoreError


def _as(kind: type[StoreError], error: Exception) -> StoreError:
    return kind(f"Redis: {said_by(error)}")


_ANOTHER_SCHEMA = "OTHERSCHEMA"

_LUA = (
    """
local P, op, now = KEYS[1], ARGV[1], tonumber(ARGV[2])
local KINDS = {'history', 'state'}

local function number(name)
  return tonumber(redis.call('HGET', P .. 'n', name) or 0)
end

local function whole(value)
  return string.format('%.0f', value)
end

local function alive(owner)
  if redis.call('HEXISTS', P .. 'o', owner) == 0 then return false end
  local expires = redis.call('ZSCORE', P .. 'e', owner)
  return not expires or tonumber(expires) > now
end

local function forget(owner, handle)
  redis.call('SREM', P .. 'r:' .. handle, owner)
  if redis.call('EXISTS', P .. 'r:' .. handle) == 0 then redis.call('DEL', P .. 'c:' .. handle) end
end

local function remove(owner)
  redis.call('ZREM', P .. 'e', owner)
  redis.call('ZREM', P .. 'b', owner)
  redis.call('ZREM', P .. 'w', owner)
  local known = redis.call('HGET', P .. 'o', owner)
  if not known then return 0 end
  local size = tonumber(known) or 0
  for _, handle in ipairs(redis.call('ZRANGE', P .. 'h:' .. owner, 0, -1)) do forget(owner, handle) end
  for _, kind in ipairs(KINDS) do
    local mine = kind .. ':' .. owner
    local version = tonumber(redis.call('HGET', P .. 'v', mine) or '')
    if version and version >= number('floor') then redis.call('HSET', P .. 'n', 'floor', whole(version + 1)) end
    redis.call('HDEL', P .. 'v', mine)
    redis.call('DEL', P .. 'd:' .. mine, P .. 'k:' .. mine)
  end
  redis.call('DEL', P .. 'h:' .. owner)
  redis.call('HDEL', P .. 'o', owner)
  redis.call('HINCRBY', P .. 'n', 'total', -size)
  return size
end

local function too_much(grown)
  local most = tonumber(ARGV[5])
  if grown > 0 and most and number('total') + grown > most then return {-2, grown} end
end

local function keep(owner, grown)
  redis.call('HINCRBY', P .. 'o', owner, grown)
  redis.call('HINCRBY', P .. 'n', 'total', grown)
  redis.call('ZADD', P .. 'w', ARGV[2], owner)
  if string.find(owner, '/', 1, true) then redis.call('ZADD', P .. 'b', 0, owner) end
  if ARGV[4] == '' then redis.call('ZREM', P .. 'e', owner) else redis.call('ZADD', P .. 'e', ARGV[4], owner) end
end

local function need_memory()
  -- a server that is full refuses this; it no longer looks once a script has written something
  redis.call('HSETNX', P .. 'n', 'floor', 0)
end

local does = {}

function does.schema()
  if ARGV[3] ~= '' then redis.call('HSETNX', P .. 'n', 'schema', ARGV[3]) end
  return {number('schema')}
end

function does.put()
  local owner, handle, digest, body = ARGV[3], ARGV[6], ARGV[7], ARGV[8]
  need_memory()
  if not alive(owner) then remove(owner) end
  local known = redis.call('GETRANGE', P .. 'c:' .. handle, 0, 31)
  if known ~= '' and known ~= digest then return {0} end
  local grown = 0
  if not redis.call('ZSCORE', P .. 'h:' .. owner, handle) then
    grown = #body
    local refused = too_much(grown)
    if refused then return refused end
    if known == '' then redis.call('SET', P .. 'c:' .. handle, digest .. body) end
    redis.call('SADD', P .. 'r:' .. handle, owner)
    redis.call('ZADD', P .. 'h:' .. owner, redis.call('HINCRBY', P .. 'n', 'order', 1), handle)
  end
  keep(owner, grown)
  return {1}
end

function does.get()
  local owner, handle = ARGV[3], ARGV[4]
  local having = {owner}
  if owner == '' then having = redis.call('SMEMBERS', P .. 'r:' .. handle) end
  for _, each in ipairs(having) do
    if alive(each) and redis.call('SISMEMBER', P .. 'r:' .. handle, each) == 1 then
      return {redis.call('GETRANGE', P .. 'c:' .. handle, 32, -1)}
    end
  end
  return {}
end

function does.handles()
  local owners, told = {ARGV[3]}, {}
  if ARGV[3] == '' then owners = redis.call('HKEYS', P .. 'o') end
  for _, owner in ipairs(owners) do
    if alive(owner) then
      for _, each in ipairs(redis.call('ZRANGE', P .. 'h:' .. owner, 0, -1, 'WITHSCORES')) do
        told[#told + 1] = each
      end
    end
  end
  return told
end

local function version_of(owner, mine)
  local version = tonumber(redis.call('HGET', P .. 'v', mine) or '')
  if not version or not alive(owner) then return 0, false end
  return version, true
end

function does.version()
  return {(version_of(ARGV[3], ARGV[4] .. ':' .. ARGV[3]))}
end

function does.read()
  local mine = ARGV[4] .. ':' .. ARGV[3]
  local version, there = version_of(ARGV[3], mine)
  local told = {version}
  if not there then return told end
  for _, each in ipairs(redis.call('HGETALL', P .. 'd:' .. mine)) do told[#told + 1] = each end
  return told
end

function does.write()
  local owner, kind, expected, key, partly = ARGV[3], ARGV[6], ARGV[7], ARGV[8], ARGV[9]
  local stamp, drops = tonumber(ARGV[10]), tonumber(ARGV[11])
  local mine = kind .. ':' .. owner
  need_memory()
  if not alive(owner) then remove(owner) end
  local done = redis.call('ZSCORE', P .. 'k:' .. mine, key)
  if done then return {tonumber(done)} end
  local version = tonumber(redis.call('HGET', P .. 'v', mine) or '')
  if expected ~= '' and tonumber(expected) ~= (version or 0) then return {-1, version or 0} end
  local grown, old = 0, {}
  if partly == '0' then
    old = redis.call('HKEYS', P .. 'd:' .. mine)
  else
    for at = 12, 11 + drops do old[#old + 1] = ARGV[at] end
  end
  for _, piece in ipairs(old) do
    local size = redis.call('HSTRLEN', P .. 'd:' .. mine, piece)
    if size > 0 then grown = grown - size + 32 end
  end
  for at = 12 + drops, #ARGV, 2 do grown = grown + #ARGV[at + 1] end
  local refused = too_much(grown)
  if refused then return refused end
  version = math.max((version or number('floor')) + 1, stamp)
  for _, piece in ipairs(old) do redis.call('HDEL', P .. 'd:' .. mine, piece) end
  for at = 12 + drops, #ARGV, 2 do
    redis.call('HSET', P .. 'd:' .. mine, ARGV[at], string.format('%016.0f%016.0f', version, at) .. ARGV[at + 1])
  end
  redis.call('HSET', P .. 'v', mine, whole(version))
  redis.call('ZADD', P .. 'k:' .. mine, whole(version), key)
  redis.call('ZREMRANGEBYRANK', P .. 'k:' .. mine, 0, -1 - REMEMBERED)
  keep(owner, grown)
  return {version}
end

function does.make_room()
  local owner, most, grown = ARGV[3], tonumber(ARGV[5]), tonumber(ARGV[6])
  if not alive(owner) then remove(owner) end
  local handles, sizes, alone = redis.call('ZRANGE', P .. 'h:' .. owner, 0, -1), {}, grown
  alone = alone + tonumber(redis.call('HGET', P .. 'o', owner) or 0)
  for at, handle in ipairs(handles) do
    sizes[at] = redis.call('STRLEN', P .. 'c:' .. handle) - 32
    alone = alone - sizes[at]
  end
  if alone > most then return {-2, alone} end
  local over = number('total') + grown - most
  local oldest = redis.call('ZRANGE', P .. 'w', 0, 100)
  for _, each in ipairs(oldest) do
    if over > 0 and each ~= owner then over = over - remove(each) end
  end
  if over > 0 and #oldest > 100 then return {-3} end
  for at, handle in ipairs(handles) do
    if over > 0 then
      redis.call('ZREM', P .. 'h:' .. owner, handle)
      forget(owner, handle)
      redis.call('HINCRBY', P .. 'o', owner, -sizes[at])
      redis.call('HINCRBY', P .. 'n', 'total', -sizes[at])
      over = over - sizes[at]
    end
  end
  return {0}
end

function does.owned()
  local scanned = redis.call('HSCAN', P .. 'o', ARGV[3], 'COUNT', 500)
  local told, owners = {scanned[1]}, scanned[2]
  for at = 1, #owners, 2 do
    local owner = owners[at]
    if alive(owner) then
      told[#told + 1] = table.concat({
        owners[at + 1], redis.call('ZCARD', P .. 'h:' .. owner),
        redis.call('HGET', P .. 'v', 'history:' .. owner) or '', redis.call('HGET', P .. 'v', 'state:' .. owner) or '',
        redis.call('ZSCORE', P .. 'e', owner) or '', owner
      }, ' ')
    end
  end
  return told
end

function does.purge()
  local below = redis.call('ZRANGEBYLEX', P .. 'b', '[' .. ARGV[4], '(' .. ARGV[5], 'LIMIT', 0, 100)
  local size = remove(ARGV[3])
  for _, owner in ipairs(below) do size = size + remove(owner) end
  return {size, #below == 100 and 1 or 0}
end

function does.sweep()
  local expired = redis.call('ZRANGEBYSCORE', P .. 'e', '-inf', ARGV[2], 'LIMIT', 0, ARGV[3])
  for _, owner in ipairs(expired) do remove(owner) end
  return {#expired}
end

if op ~= 'schema' and number('schema') ~= SCHEMA then return redis.error_reply('ANOTHER_SCHEMA') end
return does[op]()
""".replace("SCHEMA then", f"{SCHEMA} then")
    .replace("ANOTHER_SCHEMA", _ANOTHER_SCHEMA)
    .replace("REMEMBERED", str(REMEMBERED))
)
"""All that is done, each in one script, so that nobody sees half of it. The keys, behind the prefix: ``c:`` a content,
``r:`` its owners, ``h:`` an owner's handles, ``o`` the owners' sizes, ``b`` those that may be below others, by name,
``e`` when they expire, ``w`` when they were written last, ``d:`` a document's pieces, ``k:`` its keys, ``v`` the
versions, ``n`` numbers of the store."""
