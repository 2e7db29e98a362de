"""Which conversation a request goes on with: found by its history, since the client says nothing of it.

Each request shows the whole history. After each message a digest stands for all that was said up to there, so that a
conversation is known by the digest of what it showed last (its tip), and a request goes on with it when that digest is
among its own. The longest one counts. Words at the end of a request that are for this call alone (a reminder, what was
found for a question) are gone once the model's answer stands behind them: the conversation is the same. A history that
leaves a known one in its midst is another: the same task twice, or a branch. It begins with what was decided about the
part that both share.
"""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import accumulate, takewhile
from time import time
from uuid import uuid4

from attrs import define, field, frozen

from agentctx.core.message import CONTROL, Message, Native, ToolResult
from agentctx.engine.listeners import logger
from agentctx.errors import InvalidInput, StoreConflict, StoreError
from agentctx.protocols import StateStore
from agentctx.providers.adapter import RequestParts
from agentctx.wire_format import WireFormat

REMEMBERED = 64
"""So many of the places at which a conversation was seen are known, for what branches off there."""

_SIZE = 12


@frozen
class End:
    """What the caller says at the end of a request, behind the model's last words and the results: it may not stay.

    Args:
        stem: What was said up to there; None where the caller says nothing there, or all that it says is the task.
        words: Each message of it by itself.
    """

    stem: bytes | None = None
    words: frozenset[bytes] = frozenset()


NO_END = End()


def _no_answer(_place: int) -> bool:
    """Of a history without messages."""
    return False


@frozen
class History:
    """What a request shows, in digests.

    Args:
        caller: Whose it is, and in which format: the histories of others are never looked at.
        system: The system prompt, and the system messages at its start.
        links: For each other message, what was said up to it.
        end: What the caller says at its end.
        words: Each message by itself.
        is_answer: Whether the message at a place is the model's.
        bytes: How large the request is.
    """

    caller: str
    system: bytes
    links: Sequence[bytes] = field(repr=False)
    end: End = field(default=NO_END, repr=False)
    words: Sequence[bytes] = field(default=(), repr=False)
    is_answer: Callable[[int], bool] = field(default=_no_answer, repr=False)
    bytes: int = 0

    def answers(self, place: int, end: End) -> bool:
        """Whether behind a place the model's answer stands, and before it nothing but words of that end."""
        later = range(place + 1, len(self.words))
        first = next((at for at in later if self.words[at] not in end.words), None)
        return first is not None and self.is_answer(first)


def history_of(request: RequestParts, caller: str, wire: WireFormat, size: int = 0) -> History:
    """The history of a request. Cache markers, which move from step to step, are passed over.

    Args:
        request: What the client sends.
        caller: Whose it is.
        wire: The format of its messages.
        size: How large the request is, in bytes.
    """
    told = list(takewhile(_is_system, request.messages))
    system = _digest(_text([request.system, *told]), b"system")
    said = _Said(request.messages[len(told) :], wire)
    words = [_digest(_text(message), b"message") for message in said.natives]
    links = [*accumulate(words, lambda link, word: _digest(word, link), initial=_digest(caller.encode(), b"caller"))]
    end = said.end(words, links)
    return History(caller, system, links[1:] or [_digest(system, links[0])], end, words, said.is_answer, size)


@frozen
class _Said:
    """The messages of a request behind its system messages; few of them are read."""

    natives: Sequence[Native]
    wire: WireFormat

    def at(self, place: int) -> Message | None:
        """The message at a place; None where it cannot be read."""
        try:
            return self.wire.read_message(self.natives[place], place)
        except InvalidInput:
            return None

    def is_answer(self, place: int) -> bool:
        """Whether the message at a place is the model's."""
        message = self.at(place)
        return message is not None and message.role == "assistant"

    def end(self, words: Sequence[bytes], links: Sequence[bytes]) -> End:
        """What the caller says at the end."""
        last = len(self.natives)
        while last > 1 and _is_what_the_caller_says(self.at(last - 1)):
            last -= 1
        stem = links[last] if last < len(self.natives) else None
        if last > 1 and (results := self._without_words(last - 1)) is not None:
            stem = _digest(_digest(_text(results), b"message"), links[last - 1])
        return NO_END if stem is None else End(stem, frozenset(words[last:]))

    def _without_words(self, place: int) -> Native:
        """Results without what the caller says behind them in the same message; None where there is nothing of both."""
        message = self.at(place)
        parts = () if message is None or message.role != "user" else message.parts
        results = max((number for number, part in enumerate(parts, 1) if isinstance(part, ToolResult)), default=0)
        if message is None or not 0 < results < len(parts):
            return None
        return self.wire.write_message(message.with_parts(parts[:results]))


def _is_what_the_caller_says(message: Message | None) -> bool:
    return message is not None and (message.is_system or message.role == "user") and not message.results


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
class _Conversation:
    """A conversation that was seen.

    Args:
        name: Its session's name.
        tip: What it showed last.
        system: Its system prompt then.
        past: What it showed before.
        bytes: How large its last request was.
        end: What the caller said last.
    """

    name: str
    tip: bytes
    system: bytes
    past: deque[bytes] = field(factory=deque, repr=False)
    bytes: int = 0
    end: End = NO_END


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
    _known: OrderedDict[str, _Conversation] = field(init=False, factory=OrderedDict, repr=False)
    _at: dict[bytes, list[_Conversation]] = field(init=False, factory=dict, repr=False)
    _bytes: int = field(init=False, default=0)

    def __len__(self) -> int:
        """How many are known."""
        return len(self._known)

    def __contains__(self, name: object) -> bool:
        """Whether a conversation of this name is known."""
        return name in self._known

    async def find(self, history: History) -> Found:
        """The conversation that a request goes on with, which has shown this history from now on."""
        known = self._going_on(history)
        name = f"{history.caller}-{uuid4().hex}" if known is None else known.name
        branches_off = self.shared_with(history) if known is None else None
        return Found(name, branches_off, self.hold(name, history))

    def hold(self, name: str, history: History) -> Sequence[str]:
        """Remember a conversation that has a name; gives those that there is no room for any more.

        Args:
            name: The conversation's name, with the caller's at its start.
            history: What stands for its latest request, and the size of that in bytes.
        """
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = _Conversation(name, history.links[-1], history.system)
            self._put(known.tip, known)
        self._move(known, history)
        return [*self._forget()]

    def _going_on(self, history: History) -> _Conversation | None:
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
        return self._without_end(history)

    def _without_end(self, history: History) -> _Conversation | None:
        """The conversation that a request goes on with, but for what the caller said at its end for one call alone."""
        for place in range(len(history.links) - 1, -1, -1):
            for known in reversed(self._at.get(history.links[place], ())):
                same = place > 0 or known.system == history.system
                if same and known.end.stem == history.links[place] and history.answers(place, known.end):
                    return known
        return None

    def shared_with(self, history: History) -> str | None:
        """The conversation that a new one shares the longest part with, if that is more than the task.

        Args:
            history: What the new one shows.
        """
        for place in range(len(history.links) - 1, 0, -1):
            if (here := self._at.get(history.links[place])) is not None:
                return here[-1].name
        return None

    def _move(self, known: _Conversation, history: History) -> None:
        tip, stem = history.links[-1], history.end.stem
        if known.tip != tip:
            known.past.append(known.tip)
            known.tip = tip
            self._put(tip, known)
        if stem is not None and known.end.stem != stem:
            known.past.append(stem)
            self._put(stem, known)
        known.end = history.end
        while len(known.past) > REMEMBERED:
            self._take(known.past.popleft(), known)
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

    def _put(self, link: bytes, known: _Conversation) -> None:
        self._at.setdefault(link, []).append(known)

    def _take(self, link: bytes, known: _Conversation) -> None:
        left = [each for each in self._at.get(link, ()) if each is not known]
        if left:
            self._at[link] = left
        else:
            self._at.pop(link, None)


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
            branches_off = None if name in self.here else self.here.shared_with(history)
            return Found(name, branches_off, self.here.hold(name, history))
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
            tip = json.dumps({"name": name, "at": time(), **_written_end(history.end)}).encode()
            await self.store.save_state(index, {**dict.fromkeys(left), now: tip}, known.version)
        return name

    def _going_on(self, pieces: Mapping[str, bytes], history: History) -> str | None:
        for place in range(len(history.links) - 1, -1, -1):
            link = history.links[place].hex()
            here = [piece for piece in pieces if piece.startswith(link)]
            same = _piece(history.links[place], history.system)
            if same in here or (here and place > 0):
                return same if same in here else here[-1]
        return self._without_end(pieces, history)

    def _without_end(self, pieces: Mapping[str, bytes], history: History) -> str | None:
        """As where it was seen here: but for what the caller said at its end for one call alone."""
        places = {link: place for place, link in enumerate(history.links)}
        system, found = history.system.hex(), (-1, "")
        for piece, known in pieces.items():
            end = _read_end(known)
            place = -1 if end.stem is None else places.get(end.stem, -1)
            if place > found[0] and (place > 0 or piece.endswith(system)) and history.answers(place, end):
                found = place, piece
        return found[1] or None


def _written_end(end: End) -> dict[str, object]:
    return {} if end.stem is None else {"stem": end.stem.hex(), "words": [word.hex() for word in end.words]}


def _read_end(piece: bytes) -> End:
    known = json.loads(piece)
    if "stem" not in known:
        return NO_END
    return End(bytes.fromhex(known["stem"]), frozenset(map(bytes.fromhex, known["words"])))


def _piece(link: bytes, system: bytes) -> str:
    return f"{link.hex()}-{system.hex()}"


def _name_in(piece: bytes) -> str:
    name: str = json.loads(piece)["name"]
    return name
