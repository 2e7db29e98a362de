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
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from itertools import accumulate, takewhile
from time import time
from uuid import uuid4

from attrs import define, field, frozen

from agentctx.engine.listeners import logger
from agentctx.errors import InvalidInput, StoreConflict, StoreError
from agentctx.formats.adapter import RequestParts
from agentctx.message import CONTROL, Message, ToolResult
from agentctx.protocols import StateStore
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


@frozen
class History:
    """What a request shows, in digests.

    Args:
        caller: Whose it is, and in which format: the histories of others are never looked at.
        system: The system prompt, and the system messages at its start.
        links: For each other message, what was said up to it.
        size: How large the request is, in bytes.
        end: What the caller says at its end.
        words: Each message by itself.
        read: Reads the message at a place, as is needed of few; None where it cannot be read.
    """

    caller: str
    system: bytes
    links: Sequence[bytes] = field(repr=False)
    size: int = 0
    end: End = field(default=NO_END, repr=False)
    words: Sequence[bytes] = field(default=(), repr=False)
    read: Callable[[int], Message | None] = field(default=lambda _place: None, repr=False)

    def answers(self, place: int, end: End) -> bool:
        """Whether behind a place the model's answer stands, and before it nothing but words of that end."""
        later = range(place + 1, len(self.words))
        first = next((self.read(at) for at in later if self.words[at] not in end.words), None)
        return first is not None and first.role == "assistant"

    def goes_on_with(self, seen_at: Mapping[bytes, Sequence[_Conversation]]) -> _Conversation | None:
        """Return the conversation whose last history is the longest that this one begins with.

        A last history counts as it was, or without the words that the caller said at its end for one call alone. Under
        another system prompt a conversation goes on only if more than the task is the same.

        Args:
            seen_at: The conversations, by the histories that they showed.
        """
        for place in range(len(self.links) - 1, -1, -1):
            link = self.links[place]
            here = seen_at.get(link, ())
            whole = [conversation for conversation in here if conversation.tip == link]
            without_end = [conversation for conversation in reversed(here) if conversation.end.stem == link]
            same = [conversation for conversation in whole if conversation.system == self.system]
            if same or (whole and place > 0):
                return same[0] if same else whole[-1]
            for conversation in without_end:
                if (place > 0 or conversation.system == self.system) and self.answers(place, conversation.end):
                    return conversation
        return None


def history_of(request: RequestParts, caller: str, wire: WireFormat, size: int = 0) -> History:
    """Return the history of a request of ``size`` bytes; cache markers, which move from step to step, do not count."""
    system_messages = list(takewhile(_is_system, request.messages))
    messages = request.messages[len(system_messages) :]

    def read(place: int) -> Message | None:
        try:
            return wire.read_message(messages[place], place)
        except InvalidInput:
            return None

    system = _digest(_text([request.system, *system_messages]), b"system")
    words = [_digest(_text(message), b"message") for message in messages]
    links = [*accumulate(words, lambda link, word: _digest(word, link), initial=_digest(caller.encode(), b"caller"))]
    last = len(messages)
    while last > 1 and (message := read(last - 1)) is not None and (message.is_system or message.role == "user"):
        if message.results:
            break
        last -= 1
    stem = links[last] if last < len(messages) else None
    if last > 1 and (message := read(last - 1)) is not None and message.role == "user":
        numbers = [number for number, part in enumerate(message.parts, 1) if isinstance(part, ToolResult)]
        if numbers and numbers[-1] < len(message.parts):  # what the caller says behind results in the same message
            results = wire.write_message(message.with_parts(message.parts[: numbers[-1]]))
            stem = _digest(_digest(_text(results), b"message"), links[last - 1])
    end = NO_END if stem is None else End(stem, frozenset(words[last:]))
    return History(caller, system, links[1:] or [_digest(system, links[0])], size, end, words, read)


def _is_system(message: object) -> bool:
    return isinstance(message, Mapping) and message.get("role") in ("system", "developer")


def _digest(content: bytes, before: bytes) -> bytes:
    return blake2b(content, digest_size=_SIZE, key=before).digest()


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
        return [part for part in map(_unmarked, value) if part != {}]
    if isinstance(value, dict):
        return {key: _unmarked(part) for key, part in value.items() if key not in _MARKERS}
    return value


@define(eq=False)
class _Conversation:
    """A conversation that was seen.

    Args:
        name: Its session's name.
        tip: What it showed last.
        system: Its system prompt then.
        past: What it showed before.
        size: How large its last request was, in bytes.
        end: What the caller said last.
    """

    name: str
    tip: bytes
    system: bytes
    past: deque[bytes] = field(factory=deque, repr=False)
    size: int = 0
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
        conversation = history.goes_on_with(self._at)
        if conversation is not None:
            return Found(conversation.name, None, self.hold(conversation.name, history))
        name, branches_off = f"{history.caller}-{uuid4().hex}", self.shared_with(history)
        return Found(name, branches_off, self.hold(name, history))

    def hold(self, name: str, history: History) -> Sequence[str]:
        """Remember a conversation that has a name; gives those that there is no room for any more.

        Args:
            name: The conversation's name, with the caller's at its start.
            history: What stands for its latest request, and the size of that in bytes.
        """
        tip, stem = history.links[-1], history.end.stem
        conversation = self._known.get(name)
        if conversation is None:
            conversation = self._known[name] = _Conversation(name, tip, history.system)
            self._put(tip, conversation)
        if conversation.tip != tip:
            conversation.past.append(conversation.tip)
            conversation.tip = tip
            self._put(tip, conversation)
        if stem is not None and conversation.end.stem != stem:
            conversation.past.append(stem)
            self._put(stem, conversation)
        while len(conversation.past) > REMEMBERED:
            self._take(conversation.past.popleft(), conversation)
        self._bytes += history.size - conversation.size
        conversation.end, conversation.system, conversation.size = history.end, history.system, history.size
        self._known.move_to_end(name)
        forgotten = []
        while len(self._known) > 1 and (len(self._known) > self.most or self._bytes > self.most_bytes):
            oldest, conversation = self._known.popitem(last=False)
            self._bytes -= conversation.size
            for link in (*conversation.past, conversation.tip):
                self._take(link, conversation)
            forgotten.append(oldest)
        return forgotten

    def shared_with(self, history: History) -> str | None:
        """Return the conversation that shares the longest part of ``history``, if that is more than the task."""
        for place in range(len(history.links) - 1, 0, -1):
            if (here := self._at.get(history.links[place])) is not None:
                return here[-1].name
        return None

    def _put(self, link: bytes, conversation: _Conversation) -> None:
        self._at.setdefault(link, []).append(conversation)

    def _take(self, link: bytes, conversation: _Conversation) -> None:
        others = [other for other in self._at.get(link, ()) if other is not conversation]
        if others:
            self._at[link] = others
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
        >>> SharedHistories(MemoryStore()).here.most
        1000
    """

    store: StateStore
    here: Histories = field(factory=Histories)

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

    async def _found(self, history: History) -> str:
        index = f"{history.caller}-index-{history.links[0].hex()}"
        state = await self.store.load_state(index)
        stored = {piece: json.loads(content) for piece, content in state.pieces.items()}
        seen_at: dict[bytes, list[_Conversation]] = {}
        for piece, fields in stored.items():
            tip, system = map(bytes.fromhex, piece.split("-"))
            end = NO_END
            if "stem" in fields:
                end = End(bytes.fromhex(fields["stem"]), frozenset(map(bytes.fromhex, fields["words"])))
            for link in {tip, end.stem or tip}.intersection(history.links):
                seen_at.setdefault(link, []).append(_Conversation(fields["name"], tip, system, end=end))
        before = history.goes_on_with(seen_at)
        name = f"{history.caller}-{uuid4().hex}" if before is None else before.name
        replaced = [] if before is None else [f"{before.tip.hex()}-{before.system.hex()}"]
        piece, end = f"{history.links[-1].hex()}-{history.system.hex()}", history.end
        if replaced != [piece]:
            if len(stored) >= MOST_ALIKE:
                oldest = sorted(stored, key=lambda piece: stored[piece]["at"])
                replaced += oldest[: len(oldest) - MOST_ALIKE + 1]
            fields = {"name": name, "at": time()}
            if end.stem is not None:
                fields |= {"stem": end.stem.hex(), "words": [word.hex() for word in end.words]}
            content = json.dumps(fields).encode()
            await self.store.save_state(index, {**dict.fromkeys(replaced), piece: content}, state.version)
        return name
