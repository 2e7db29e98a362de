"""Which conversation a model call goes on with, where nobody names it: for wrapped clients, frameworks and the proxy.

A call shows its history. It goes on with the conversation of which it shows most, as that came or as it went, without
the words that were for one call alone (a reminder, a text that was found for a question) once the model's answer stands
behind the rest. Where it shows all of none, since its history was edited or cut at the start, it goes on with one of
which it has what the model said last and what followed (frameworks only). Any other call begins a conversation, with
what was decided about the part that it shares with another, if that is more than the task. ``goes_on_with`` is that
rule. Two ways to compare stand below it, and who asks chooses one:

- ``Opening`` compares a request with the record of a session in memory, message by message, in any form that it took.
  ``UnnamedSessions`` (frameworks) asks it about many sessions, and ``holding`` (a session of a wrapped client) about
  that one and those beside it, for which the beginning is enough: there the user has said whose the calls are.
- ``History`` compares digests of what the client showed. ``Histories`` and ``SharedHistories`` (the proxy) keep nothing
  else of a conversation, so that thousands have room and workers share them in a store, where no messages are. Views
  are not known there: a client of the proxy never sees one.
"""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from itertools import accumulate, chain, pairwise, takewhile
from operator import itemgetter
from threading import Lock
from time import time
from typing import Any, TypeVar
from uuid import uuid4

from attrs import define, field, frozen

from agentctx.engine.plan import logger
from agentctx.errors import InvalidInput, StoreConflict, StoreError
from agentctx.formats.native import unmarked
from agentctx.formats.registry import RequestParts, format_named
from agentctx.message import CONTROL, ROLES, Message, Native, Text, ToolCall, ToolResult
from agentctx.plain import from_plain, to_plain
from agentctx.protocols import StateStore
from agentctx.session.record import Digest, Record, shared_length
from agentctx.session.session import Session
from agentctx.session.sessions import Sessions
from agentctx.session.step_context import Beginning, State
from agentctx.unit import is_user_turn
from agentctx.wire_format import WireFormat

C = TypeVar("C")
"""A conversation, in whatever form it is known."""

Shown = tuple[int, bool, bool]
"""How much a request shows of a conversation: so many messages; whether all of it; whether its system prompt, too."""

NOTHING: Shown = (0, False, False)


def goes_on_with(groups: Iterable[Iterable[tuple[Shown, C]]]) -> C | None:
    """Return the conversation of which a request shows most; None where it shows nothing of any.

    Args:
        groups: How much it shows of each. A group counts only where the request shows nothing of those before it.
    """
    for group in groups:
        most = max(group, key=itemgetter(0), default=None)
        if most is not None and most[0] > NOTHING:
            return most[1]
    return None


MOST_FOR_ONE_CALL = 8
"""So many messages at the end of a request may be for that call alone."""


@frozen(eq=False, repr=False)
class Opening:
    """What a request begins with.

    Args:
        beginning: Its words.
        natives: All its messages.
        place: The index of the first one in which the user speaks.
        wire: Their format.
    """

    beginning: Beginning
    natives: Sequence[Any]
    place: int
    wire: WireFormat

    def goes_on(self, begun: Beginning, record: Record) -> bool:
        """Whether the request is one of the conversation that began as ``begun``.

        It is when system prompt and task are the same. A system prompt that changes (it tells the time) is taken for
        the same conversation when the message after the task is, too; another task under the same prompt, when that is
        a later part of the same history, of which the caller has cut off the beginning; and anything that begins as the
        last view does, in which a system message may stand as the user's.

        Args:
            begun: How the conversation begins.
            record: The messages of the conversation.
        """
        mine = self.beginning
        if mine.task == begun.task:
            return mine.system == begun.system or not (mine.system and begun.system) or self._follows(record)
        return (mine.system == begun.system and self._is_within(record.seen)) or self._begins_as(record.shown)

    def shown_of(self, begun: Beginning, record: Record) -> Shown:
        """Return how much of a conversation the request shows from the task on; nothing where it is of another.

        Cache markers, which move from request to request, are passed over.

        Args:
            begun: How the conversation begins.
            record: The messages of the conversation.
        """
        shown = max(self._shown_of(natives[self.place :]) for natives in (record.seen, record.shown))
        return (*shown, True) if shown[0] and self.goes_on(begun, record) else NOTHING

    def _shown_of(self, natives: list[Any]) -> tuple[int, bool]:
        if not natives or not self._has_at(len(natives) - 1 - MOST_FOR_ONE_CALL, natives):
            return 0, False
        shared = self._shared(natives)
        if shared == len(natives):
            return shared, True
        return (shared if self._goes_on_without_end(natives, shared) else 0), False

    def _has_at(self, place: int, natives: list[Any]) -> bool:
        """Whether one message is the same: most conversations of the same task are told apart by it alone."""
        at = self.place + max(0, place)
        return at < len(self.natives) and _are_alike(self.natives[at], natives[max(0, place)])

    def _shared(self, natives: list[Any]) -> int:
        mine, place = self.natives[self.place :], 0
        while place < len(natives):
            place += shared_length(mine[place:], natives[place:])
            if place in (len(mine), len(natives)) or not _are_alike(mine[place], natives[place]):
                break
            place += 1
        return place

    def _goes_on_without_end(self, natives: list[Any], shared: int) -> bool:
        if not 0 < shared < len(natives) <= shared + MOST_FOR_ONE_CALL:
            return False
        later = iter(self.natives[self.place + shared :])
        with suppress(InvalidInput):
            mine = self._read(next(later, None))
            for message in map(self._read, natives[shared:]):
                if mine is not None and message is not None and _is_left_of(mine, message):
                    mine = self._read(next(later, None))
                elif message is None or not _is_the_caller_s(message):
                    return False
            return mine is not None and mine.role == "assistant"
        return False

    def _read(self, native: Native) -> Message | None:
        """A message; None for none, or for one of which only a digest is kept."""
        return None if native is None or isinstance(native, Digest) else self.wire.read_message(unmarked(native), 0)

    def is_edited(self, begun: Beginning, record: Record) -> bool:
        """Whether the request has, in a row, what the model said last in a conversation and all that came after it.

        What came after it tells no conversation from another: in each a tool says "ok", and the user "Go on.".
        """
        length = _since_the_model_spoke(record.roles)
        rows = (natives[len(natives) - length :] for natives in (record.seen, record.shown) if length)
        return any(map(self._has, rows)) and self.goes_on(begun, record)

    def _has(self, row: list[Any]) -> bool:
        mine = self.natives
        starts = range(len(mine) - len(row), self.place, -1)
        return any(mine[start] == row[0] and list(mine[start : start + len(row)]) == row for start in starts)

    def shares(self, record: Record) -> int:
        """How many messages, from the task on, are those of a conversation."""
        return shared_length(self.natives[self.place :], record.seen[self.place :])

    def _follows(self, record: Record) -> bool:
        after = slice(self.place + 1, self.place + 2)
        mine = list(self.natives[after])
        return bool(mine) and mine in (record.seen[after], record.shown[after])

    def _begins_as(self, shown: list[Any]) -> bool:
        start = slice(self.place + 2)
        mine = list(self.natives[start])
        return len(mine) > 1 and mine == shown[start]

    def _is_within(self, seen: Sequence[Any]) -> bool:
        mine = list(self.natives[self.place : self.place + 2])
        return len(mine) > 1 and any(mine == list(pair) for pair in pairwise(seen))


def beginning(messages: Iterable[Message], system: Message | None) -> Beginning:
    """How a conversation begins.

    Args:
        messages: Its messages.
        system: The system prompt, where the format keeps it apart.
    """
    said: list[str] = [] if system is None else list(_words(system))
    for message in messages:
        if message.is_system:
            said += _words(message)
        elif is_user_turn(message):
            return Beginning.of(said, _words(message))
    return Beginning.of(said)


def beginning_of(state: State) -> Beginning | None:
    """How a conversation that is known begins; None before its first step."""
    if not state.steps:
        return None
    if state.record.missing is not None:  # its words are with the caller
        return None
    if state.last is not None and state.ctx is not None:
        return opening_of(state.last.messages, state.last.system, state.ctx.reader.wire).beginning
    return beginning(state.record.view, None) if state.record.view else None


def opening_of(natives: Sequence[Native], system: Native, wire: WireFormat) -> Opening:
    """What a request begins with; no more of it is read.

    Args:
        natives: Its messages.
        system: The system prompt, where the format keeps it apart.
        wire: The format.

    Raises:
        InvalidInput: If a message cannot be read; names it.
    """
    read: list[Message] = []
    for index, native in enumerate(natives):
        read.append(wire.read_message(native, index))
        if is_user_turn(read[-1]):
            break
    return Opening(beginning(read, wire.read_system(system)), natives, len(read) - 1, wire)


def _are_alike(one: Native, other: Native) -> bool:
    return bool(one == other) or bool(unmarked(one) == unmarked(other))


def _is_the_caller_s(message: Message) -> bool:
    return (message.role == "user" or message.is_system) and not message.results


def _is_left_of(message: Message, before: Message) -> bool:
    """Whether it is what was there before, with or without the words that the caller had put behind it."""
    after = before.parts[len(message.parts) :]
    same = message.role == before.role and message.parts == before.parts[: len(message.parts)]
    return same and bool(message.parts) and not any(isinstance(part, (ToolCall, ToolResult)) for part in after)


def _since_the_model_spoke(roles: bytes | bytearray) -> int:
    """How many messages stand at the end from the first on that the model said last; 0 where it never spoke."""
    model = bytes([ROLES.index("assistant")])
    said = roles.rstrip(bytes(range(len(ROLES))).replace(model, b""))
    return len(roles) - len(said.rstrip(model)) if said else 0


def _words(message: Message) -> tuple[str, ...]:
    """What it says, without what a repair takes away."""
    texts = (part.text.strip() for part in message.parts if isinstance(part, Text))
    return tuple(text for text in texts if text)


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

        Args:
            seen_at: The conversations, by the histories that they showed.
        """
        return goes_on_with(
            [(self.shown_of(conversation, place), conversation) for conversation in reversed(seen_at.get(link, ()))]
            for place, link in reversed([*enumerate(self.links)])
        )

    def shown_of(self, conversation: _Conversation, place: int) -> Shown:
        """Return how much of a conversation the request shows that has its history up to a place in common with it.

        Under another system prompt a conversation goes on only if more than the task is the same.
        """
        link, same = self.links[place], conversation.system == self.system
        whole, end = conversation.tip == link, conversation.end
        if (place > 0 or same) and (whole or (end.stem == link and self.answers(place, end))):
            return place + 1, whole, same
        return NOTHING


def history_of(request: RequestParts, caller: str, wire: WireFormat, size: int = 0) -> History:
    """Return the history of a request of ``size`` bytes; cache markers, which move from step to step, do not count."""
    system_messages = list(takewhile(_is_system, request.messages))
    messages = request.messages[len(system_messages) :]

    @cache  # conversations that are alike are told apart by the same message
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


@frozen
class _Shown:
    """What a store has of a conversation beside what it showed last: its session's name, when that was, and its end."""

    name: str
    at: float
    end: End


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
        stored = {piece: from_plain(_Shown, json.loads(content), piece) for piece, content in state.pieces.items()}
        seen_at: dict[bytes, list[_Conversation]] = {}
        for piece, shown in stored.items():
            tip, system = map(bytes.fromhex, piece.split("-"))
            for link in {tip, shown.end.stem or tip}.intersection(history.links):
                seen_at.setdefault(link, []).append(_Conversation(shown.name, tip, system, end=shown.end))
        before = history.goes_on_with(seen_at)
        name = f"{history.caller}-{uuid4().hex}" if before is None else before.name
        replaced = [] if before is None else [f"{before.tip.hex()}-{before.system.hex()}"]
        piece = f"{history.links[-1].hex()}-{history.system.hex()}"
        if replaced != [piece]:
            if len(stored) >= MOST_ALIKE:
                oldest = sorted(stored, key=lambda piece: stored[piece].at)
                replaced += oldest[: len(oldest) - MOST_ALIKE + 1]
            content = json.dumps(to_plain(_Shown, _Shown(name, time(), history.end))).encode()
            await self.store.save_state(index, {**dict.fromkeys(replaced), piece: content}, state.version)
        return name


MOST_TOKENS = 64_000_000
"""The histories of so many tokens together are held, about 256 MB; those unused for longest are forgotten first."""

MOST_EDITED = 16
"""So many conversations, the last ones, may go on with a history that was edited."""


@define(eq=False)
class UnnamedSessions:
    """The conversations of one hook of a framework that have no name, each in a session in memory.

    Many may begin alike: the same task for three agents at once, or again and again. Those of other owners are never
    looked at.

    Args:
        sessions: The sessions; some may have a name, and are passed over.
    """

    sessions: Sessions
    _begun: dict[Hashable, tuple[str, Beginning]] = field(init=False, factory=dict, repr=False)
    _guard: Lock = field(init=False, factory=Lock, repr=False)

    def find(self, request: RequestParts, owner: str, format_name: str) -> Found:
        """Return the conversation that a request goes on with; a new one has its session already, where one is alike.

        Args:
            request: The request.
            owner: Whose it is.
            format_name: Its wire format.

        Raises:
            InvalidInput: If a message cannot be read; names it.
        """
        opening = opening_of(request.messages, request.system, format_named(format_name, request.model))
        with self._guard:
            known = [
                (str(name), begun[1], session, session.internals.state.record)
                for name, session in reversed([*self.sessions.items()])
                if session.steps and (begun := self._begun.get(name)) is not None and begun[0] == owner
            ]
            alike = [conversation for conversation in known if conversation[1].task == opening.beginning.task]
            shown = ((opening.shown_of(begun, record), name) for name, begun, _, record in alike)
            edited = (
                [((opening.is_edited(begun, record), False, False), name)]
                for name, begun, _, record in known[:MOST_EDITED]
            )
            name = goes_on_with(chain([shown], edited))
            if name is None:
                name = f"unnamed-{uuid4().hex}"
                near = [(opening.shares(record), session) for _, _, session, record in alike or known]
                if near:
                    shared, before = max(near, key=itemgetter(0))
                    self.sessions[name] = (branch if shared > 1 else beginning_as)(before, name)
            self._begun[name] = owner, opening.beginning
            return Found(name, forgotten=self._beyond())

    def _beyond(self) -> Sequence[str]:
        """Forget how conversations began that are in memory no more; gives those that there is no room for."""
        held, tokens, beyond = dict(self.sessions.items()), 0, []
        for name in reversed(held):
            if name in self._begun:
                tokens += held[name].internals.state.record.history_tokens
                if tokens > MOST_TOKENS:
                    beyond.append(str(name))
        if len(self._begun) > 2 * self.sessions.capacity:  # a new one is not in memory yet
            gone = [name for name in self._begun if name not in held]
            for name in gone[: -self.sessions.capacity // 2]:
                del self._begun[name]
        return beyond


def branch(before: Session, name: str) -> Session:
    """Return the session of a conversation that branches off another: all that was decided there holds in it."""
    with suppress(InvalidInput):  # JSON cannot hold what it has shown
        return Session.load(before.plan, {**before.dump(), "id": name})
    return beginning_as(before, name)


def beginning_as(before: Session, name: str) -> Session:
    """Return the session of a conversation that begins, and knows what another has learned of the models."""
    inner = before.internals
    session = Session(before.plan, before.model, None, name, clock=inner.clock)
    session.internals.subscribers = inner.subscribers
    learned = inner.state.limits_by_model
    limits = learned.for_child(learned.own, before.model)
    session.internals.state = State.empty(before.plan, before.model, None, limits)
    return session


MOST_BESIDE = 16
"""So many conversations held beside a session's own are remembered; the one unused for longest is forgotten first."""


def holding(session: Session, request: RequestParts, format_name: str) -> Session:
    """Return the session that holds the conversation of a request: this one, or one beside it.

    Two agents in one block, or a guardrail's calls among an agent's, are two conversations: they are told apart by
    system prompt and task. The session's own is the first that comes, or the first that goes on, if that one does
    not. The others know what was learned up to their start, and are not in its dump.

    Args:
        session: The session that the user has named for the request.
        request: The request.
        format_name: Its wire format.

    Raises:
        InvalidInput: If a message cannot be read; names it.
    """
    home = home_of(session)
    if not request.messages:
        return home
    opening = opening_of(request.messages, request.system, format_named(format_name, request.model))
    with home.internals.guard:
        others = home.internals.others
        held = goes_on_with([((_is_of(one, opening), False, False), one)] for one in (home, *others))
        if held is None:
            held = beginning_as(home, home.id or "session")
            held.id = f"{held.id}+"  # in events; in a store it has the name of its home
            held.internals.home = home
        if held is not home:
            home.internals.others = [*(other for other in others if other is not held), held][-MOST_BESIDE:]
            at_work = home.internals.lock.holder or held.internals.lock.holder
            if home.steps == 1 and held.steps and not at_work:
                _exchange(home, held)
                held = home
        held.internals.begun = opening.beginning
        return held


def home_of(session: Session) -> Session:
    """Return the session that a user knows: this one, or the one beside which it is held."""
    return session.internals.home or session


def _is_of(session: Session, opening: Opening) -> bool:
    inner = session.internals
    known = inner.begun or beginning_of(inner.state)
    return known is None or opening.goes_on(known, inner.state.record)


def _exchange(home: Session, other: Session) -> None:
    """Let each session hold the other's conversation: that of ``home`` was never gone on with."""
    own = ("billed_tokens", "view")
    inner = ("state", "begun", "retried", "unjudged", "unfinished")
    for one, two, names in ((home, other, own), (home.internals, other.internals, inner)):
        for name in names:
            before = getattr(one, name)
            setattr(one, name, getattr(two, name))
            setattr(two, name, before)
