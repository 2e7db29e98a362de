"""Which conversation a request goes on with: found by its history, since the client says nothing of it.

Each request shows the whole history. After each message a digest stands for all that was said up to there, so that a
conversation is known by the digest of what it showed last (its tip), and a request goes on with it when that digest is
among its own. The longest one counts. A history that leaves a known one in its midst is another conversation: the same
task twice, or a branch. It begins with what was decided about the part that both share.
"""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import takewhile
from time import time
from typing import Protocol
from uuid import uuid4

from attrs import define, field, frozen

from agentctx.core.message import CONTROL
from agentctx.engine.listeners import logger
from agentctx.errors import StoreConflict, StoreError
from agentctx.protocols import StateStore
from agentctx.providers.adapter import RequestParts

REMEMBERED = 64
"""So many of the places at which a conversation was seen are known, for what branches off there."""

_SIZE = 12


@frozen
class History:
    """What a request shows, in digests.

    Args:
        caller: Whose it is, and in which format: the histories of others are never looked at.
        system: The system prompt, and the system messages at its start.
        links: For each other message, what was said up to it.
        bytes: How large the request is.
    """

    caller: str
    system: bytes
    links: Sequence[bytes] = field(repr=False)
    bytes: int = 0


def history_of(request: RequestParts, caller: str, size: int = 0) -> History:
    """The history of a request. Cache markers, which move from step to step, are passed over."""
    told = list(takewhile(_is_system, request.messages))
    system = _digest(_text([request.system, *told]), b"system")
    link, links = _digest(caller.encode(), b"caller"), []
    for message in request.messages[len(told) :]:
        link = _digest(_text(message), link)
        links.append(link)
    return History(caller, system, links or [_digest(system, link)], size)


def _is_system(message: object) -> bool:
    return isinstance(message, Mapping) and message.get("role") in ("system", "developer")


def _digest(said: bytes, before: bytes) -> bytes:
    return blake2b(said, digest_size=_SIZE, key=before).digest()


_written = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def _text(message: object) -> bytes:
    """A message as it is compared: without cache markers, text in a block of its own as text."""
    text = _written(_plain(message))
    if any(marker in text for marker in _MARKERS):
        text = _written(_plain(_unmarked(message)))
    return text.encode()


_MARKERS = frozenset({CONTROL, "cachePoint"})
_TEXTS = frozenset({"text", "input_text", "output_text"})


def _plain(message: object) -> object:
    if not isinstance(message, dict):
        return message
    content = message.get("content")
    if not isinstance(content, list) or len(content) != 1 or not isinstance(content[0], dict):
        return message
    block = content[0]
    alone = block.keys() == {"type", "text"} and block["type"] in _TEXTS
    return {**message, "content": block["text"]} if alone else message


def _unmarked(value: object) -> object:
    if isinstance(value, list):
        return [each for each in map(_unmarked, value) if each != {}]
    if isinstance(value, dict):
        return {key: _unmarked(each) for key, each in value.items() if key not in _MARKERS}
    return value


@define(eq=False)
class Known:
    """A conversation that was seen.

    Args:
        name: Its session's name.
        tip: What it showed last.
        system: Its system prompt then.
        past: What it showed before.
        bytes: How large its last request was.
    """

    name: str
    tip: bytes
    system: bytes
    past: deque[bytes] = field(factory=lambda: deque(maxlen=REMEMBERED), repr=False)
    bytes: int = 0


@frozen
class Found:
    """The conversation of a request.

    Args:
        name: Its session's name.
        branches_off: The conversation that it shares more than the task with, if it is new.
        forgotten: Conversations that there is no room for any more.
    """

    name: str
    branches_off: str | None = None
    forgotten: Sequence[str] = ()


@define(eq=False)
class Histories:
    """The conversations that were seen, by what they showed; those unused for longest are forgotten first.

    Args:
        most: So many are known.
        most_bytes: So many bytes their last requests have together.

    Example:
        >>> from agentctx.presets import coding_agent
        >>> from agentctx.proxy import Histories, Proxy
        >>> proxy = Proxy(coding_agent(64_000), histories=Histories(most=200))
        >>> len(proxy.histories)
        0
    """

    most: int = 1_000
    most_bytes: int = 256_000_000
    _known: OrderedDict[str, Known] = field(init=False, factory=OrderedDict, repr=False)
    _at: dict[bytes, list[Known]] = field(init=False, factory=dict, repr=False)
    _bytes: int = field(init=False, default=0)

    def __len__(self) -> int:
        """How many are known."""
        return len(self._known)

    async def find(self, history: History) -> Found:
        """The conversation that a request goes on with, which has shown this history from now on."""
        known, branches_off = self._going_on(history), None
        if known is None:
            branches_off = self._shared_with(history)
            known = Known(f"{history.caller}-{uuid4().hex}", history.links[-1], history.system)
            self._known[known.name] = known
            self._put(known.tip, known)
        self._move(known, history)
        return Found(known.name, branches_off, [*self._forget()])

    def hold(self, name: str, history: History) -> Sequence[str]:
        """Remember a conversation that has a name; gives those that there is no room for any more.

        Args:
            name: The conversation's name, with the caller's at its start.
            history: What stands for its latest request, and the size of that in bytes.
        """
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = Known(name, history.links[-1], history.system)
            self._put(known.tip, known)
        self._move(known, history)
        return [*self._forget()]

    def _going_on(self, history: History) -> Known | None:
        """The conversation whose last history is the longest that this one begins with.

        Under another system prompt it is one only if more than the task is the same.
        """
        for place in range(len(history.links) - 1, -1, -1):
            here = [known for known in self._at.get(history.links[place], ()) if known.tip == history.links[place]]
            for known in here:
                if known.system == history.system:
                    return known
            if here and place > 0:
                return here[-1]
        return None

    def _shared_with(self, history: History) -> str | None:
        """The conversation that a new one shares the longest part with, if that is more than the task."""
        for place in range(len(history.links) - 1, 0, -1):
            if (here := self._at.get(history.links[place])) is not None:
                return here[-1].name
        return None

    def _move(self, known: Known, history: History) -> None:
        tip = history.links[-1]
        if known.tip != tip:
            if len(known.past) == known.past.maxlen:
                self._take(known.past[0], known)
            known.past.append(known.tip)
            known.tip = tip
            self._put(tip, known)
        known.system = history.system
        self._bytes += history.bytes - known.bytes
        known.bytes = history.bytes
        self._known.move_to_end(known.name)

    def _forget(self) -> Iterator[str]:
        while len(self._known) > 1 and (len(self._known) > self.most or self._bytes > self.most_bytes):
            name, known = self._known.popitem(last=False)
            self._bytes -= known.bytes
            for link in (*known.past, known.tip):
                self._take(link, known)
            yield name

    def _put(self, link: bytes, known: Known) -> None:
        self._at.setdefault(link, []).append(known)

    def _take(self, link: bytes, known: Known) -> None:
        left = [each for each in self._at.get(link, ()) if each is not known]
        if left:
            self._at[link] = left
        else:
            self._at.pop(link, None)


class FindsConversations(Protocol):
    """Finds the conversation of a request."""

    @property
    def most(self) -> int:
        """So many are known here."""
        ...

    def __len__(self) -> int:
        """How many are known here."""
        ...

    async def find(self, history: History) -> Found:
        """The conversation that a request goes on with, which has shown this history from now on."""
        ...

    def hold(self, name: str, history: History) -> Sequence[str]:
        """Remember a conversation that has a name; gives those that there is no room for any more."""
        ...


MOST_ALIKE = 256
"""So many conversations that begin with the same message are found in a store; those that went on longest ago are
forgotten first."""

MOST_CONFLICTS = 20


@define(eq=False)
class SharedHistories:
    """The conversations that several workers have seen, in a store: each is found by whichever worker is asked.

    All that begin with the same message stand together, each under what it showed last. Where the store fails, a
    worker finds those that it has seen itself.

    Args:
        store: Where they stand.
        here: What this worker has seen.

    Example:
        >>> from agentctx.proxy import SharedHistories
        >>> from agentctx.stores import MemoryStore  # for several workers: RedisStore, PostgresStore
        >>> SharedHistories(MemoryStore()).most
        1000
    """

    store: StateStore
    here: Histories = field(factory=Histories)

    @property
    def most(self) -> int:
        """So many are known here."""
        return self.here.most

    def __len__(self) -> int:
        """How many are known here."""
        return len(self.here)

    async def find(self, history: History) -> Found:
        """The conversation that a request goes on with, which has shown this history from now on."""
        for _ in range(MOST_CONFLICTS):
            try:
                name = await self._found(history)
            except StoreConflict:
                continue
            except StoreError as error:
                logger.warning("conversations of other workers cannot be found: %s", error)
                break
            return Found(name, None, self.here.hold(name, history))
        return await self.here.find(history)

    def hold(self, name: str, history: History) -> Sequence[str]:
        """Remember a conversation that has a name; gives those that there is no room for any more.

        Args:
            name: The conversation's name, with the caller's at its start.
            history: What stands for its latest request, and the size of that in bytes.
        """
        return self.here.hold(name, history)

    async def _found(self, history: History) -> str:
        index = f"{history.caller}-index-{history.links[0].hex()}"
        known = await self.store.load_state(index)
        before, now = self._going_on(known.pieces, history), _piece(history.links[-1], history.system)
        name = f"{history.caller}-{uuid4().hex}" if before is None else _name_in(known.pieces[before])
        if before != now:
            left = [] if before is None else [before]
            if len(known.pieces) >= MOST_ALIKE:
                oldest = sorted(known.pieces, key=lambda piece: json.loads(known.pieces[piece])["at"])
                left += oldest[: len(oldest) - MOST_ALIKE + 1]
            tip = json.dumps({"name": name, "at": time()}).encode()
            await self.store.save_state(index, {**dict.fromkeys(left), now: tip}, known.version)
        return name

    def _going_on(self, pieces: Mapping[str, bytes], history: History) -> str | None:
        for place in range(len(history.links) - 1, -1, -1):
            link = history.links[place].hex()
            here = [piece for piece in pieces if piece.startswith(link)]
            same = _piece(history.links[place], history.system)
            if same in here or (here and place > 0):
                return same if same in here else here[-1]
        return None


def _piece(link: bytes, system: bytes) -> str:
    return f"{link.hex()}-{system.hex()}"


def _name_in(piece: bytes) -> str:
    name: str = json.loads(piece)["name"]
    return name
