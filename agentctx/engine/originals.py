"""Originals of what a step left out: put into the store, side by side and each once, and read back.

A store that has not answered in time is not asked again in that step. What a step asks a store for is asked in several
places: the state of its session is loaded and saved, what it leaves out is put in. Each keeps to a time limit of its
own; that a store has let one of them pass is known to all (``waiting_once``).
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache, partial
from inspect import isawaitable
from itertools import chain
from time import monotonic
from typing import TypeVar

import anyio
from attrs import define, evolve, field, frozen

from agentctx.changes import Change, Outcome
from agentctx.characters import said_by, shown
from agentctx.engine.reading import write_native
from agentctx.engine.shrink import OFFLOADED
from agentctx.errors import ConfigError, InvalidInput, StoreError, StoreUnavailable
from agentctx.formats.registry import FORMATS, may_be_in
from agentctx.lazy import lazy_pattern
from agentctx.marks import quoted
from agentctx.message import (
    Context,
    Media,
    Message,
    Native,
    Part,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    marks_in,
    texts_in,
    with_texts,
)
from agentctx.protocols import Store
from agentctx.users_code import FAILURES, WAS_CANCELLED, is_cancelled, offload, side_by_side
from agentctx.wire_format import WireFormat

SILENT = 0.8
"""Of a time limit: from when on a store that fails has not answered."""

AGAIN_LATER = "did not answer in time, and is asked again in a while"

_silent: ContextVar[dict[int, object] | None] = ContextVar("agentctx.engine.originals", default=None)


@contextmanager
def waiting_once() -> Iterator[None]:
    """One step: what is given up in it is not asked again until it ends."""
    token = _silent.set({})
    try:
        yield
    finally:
        _silent.reset(token)


def give_up(store: object) -> None:
    """The store has not answered in time: it is not asked again in this step."""
    known = _silent.get()
    if known is not None:
        known[id(store)] = store


def is_given_up(store: object) -> bool:
    """Whether the store has not answered in time in this step."""
    known = _silent.get()
    return known is not None and id(store) in known


def limit_of(store: object, most: float) -> float:
    """Seconds that one call of a store may take: as it says itself, and no more than ``most``."""
    told: object = getattr(store, "timeout", None)
    if isinstance(told, bool) or not isinstance(told, (int, float)) or not told > 0:
        return most
    return min(most, told)


def took_too_long(begun: float, limit: float) -> bool:
    """Whether what failed now, and began then, has not answered within its limit."""
    return monotonic() - begun > SILENT * limit


T = TypeVar("T")

_PROOF = 16
"""Characters of an original that tell that a text was made of it."""

_PUT_TOGETHER = 16
"""So many contents are put into a store at the same time."""

ELSEWHERE = frozenset({Outcome.MOVED, Outcome.ADDED, Outcome.KEPT})
"""What became of messages of which nothing was left out."""


@frozen(eq=False, repr=False)
class Originals:
    """What a stage changed, as it was before.

    Args:
        messages: The message of each change: as it was, or the added one.
        store: Where they are kept.
        wire: The format of the messages.
    """

    messages: Sequence[Message]
    store: Store
    wire: WireFormat

    def contents(self, changes: Iterable[Change]) -> list[bytes | None]:
        """What to keep for each change; None where nothing was left out, or what it was cannot be written."""
        pairs = zip(changes, self.messages, strict=True)
        return [None if change.outcome in ELSEWHERE else content_of(old, self.wire) for change, old in pairs]


def content_of(message: Message, wire: WireFormat) -> bytes | None:
    """What is kept of a message: the caller's own as JSON; None where it cannot be written."""
    native = message.payload
    made = native is None or isinstance(native, Message)
    try:
        return original_bytes(write_native(wire, message, "message") if made else native)
    except (StoreError, InvalidInput):
        return None


async def kept(changes: Sequence[Change], originals: Originals, shelf: StoreShelf) -> Sequence[Change]:
    """The changes, each with the handle of its original, as far as the store keeps it.

    Args:
        changes: What a stage did.
        originals: What it did it to.
        shelf: What puts them into the store.
    """
    contents = await offload(partial(originals.contents, changes), len(changes))
    shelf = shelf.of(originals.store)
    handles = await shelf.keep_all([content for content in contents if content is not None])
    pairs = zip(changes, contents, strict=True)
    return [
        change if content is None or content not in handles else change.with_handle(handles[content])
        for change, content in pairs
    ]


STORE_TIMEOUT = 10.0
"""Seconds that a step waits for a store to keep one content; its own ``timeout`` where that is shorter."""

TO_CLEAN = 60.0
"""Seconds that a step waits for secrets to be taken out of one content: a redactor of the user's may hang."""

LONGEST_HANDLE = 64
"""Characters of the longest handle: the model reads it in each mark, and writes it to get the original back."""

_WORD = "[A-Za-z0-9_~/=+@%:.-]*[A-Za-z0-9_~/=+@%-]"
_HANDLE = re.compile(rf"(?=.{{1,{LONGEST_HANDLE}}}\Z){_WORD}", re.ASCII)
_EXPECTED = re.compile("[0-9a-f]{16}")


def expected_handle(content: bytes) -> str:
    """The handle that a store of ours gives a content."""
    from hashlib import sha256  # noqa: PLC0415 - loads OpenSSL, for what is left out only

    return sha256(content).hexdigest()[:16]


@define(eq=False, repr=False)
class _Known:
    """What a step knows of its stores.

    Args:
        handles: Of what was put, by store and content.
        awaited: What text that a stage has written names by the handle that it is expected to get.
        pieces: Of these, those of texts that name another handle; which texts they are.
        clean: Contents without secrets, by store and content, until the store has them; of one that takes secrets out.
        failures: What went wrong with a store, by the store; it is not asked again.
        waited: Seconds that were waited for a store, by the store.
    """

    handles: dict[tuple[int, bytes], str] = field(factory=dict)
    awaited: dict[str, bytes] = field(factory=dict)
    pieces: dict[str, str] = field(factory=dict)
    clean: dict[tuple[int, bytes], bytes] = field(factory=dict)
    failures: dict[int, StoreError] = field(factory=dict)
    waited: dict[int, float] = field(factory=dict)


@frozen(eq=False, repr=False)
class StoreShelf:
    """What puts contents into a store for one step: each once, and not again once the store has failed.

    All that a step keeps in a store may take so long as one call of the store: one that is slow costs a step no more
    than one that says nothing. Taking secrets out (``without_secrets`` of a store) comes before, and is not its time.

    A plain stage cannot wait for a store: it writes the handle that a content is expected to get (``pointer``). Where
    it gets another or none, the engine puts that right once the stage is done (``settled``).

    Args:
        store: The store.
        wire: The format of the messages.
        tool: The name of the recall tool in the request; None where there is none: then no text names a handle.
        conversation: By what name the store knows the conversation; None: it belongs to none.
    """

    store: Store
    wire: WireFormat
    tool: str | None
    conversation: str | None = None
    known: _Known = field(factory=_Known)

    def of(self, store: Store) -> StoreShelf:
        """The same for another store."""
        return self if store is self.store else evolve(self, store=store)

    def unnamed(self) -> StoreShelf:
        """The same, of which no text names a handle."""
        return evolve(self, tool=None)

    @property
    def failures(self) -> Collection[str]:
        """What went wrong with stores."""
        return list(map(str, self.known.failures.values()))

    def pointer(self, message: Message, result: ToolResult | None = None) -> str:
        """How a text says with what to get back a message, or one of the results in it; empty without the tool."""
        if self.tool is None or self._has_failed():
            return ""
        own = () if message.calls or message.results else message.parts
        texts = [each for each in (own if result is None else result.content) if isinstance(each, Text)]
        earlier = (found[0] for mark in marks_in(texts) if (found := _named(self.tool).search(mark.text)) is not None)
        if (pointer := next(earlier, None)) is not None:  # what is there was made of another text, as a stage has noted
            return pointer
        content = content_of(message, self.wire)
        if content is None:
            return ""
        handle = expected_handle(content)
        self.known.awaited[handle] = content
        text, pointer = "".join([each.text for each in texts]), handle + _part(message, result)
        if self._said("") in text:
            self.known.pieces[pointer] = text
        return self._said(pointer)

    def _has_failed(self) -> bool:
        """Whether the store has failed in this step, here or where the session's state is kept."""
        place = id(self.store)
        if place not in self.known.failures and is_given_up(self.store):
            self.known.failures[place] = StoreUnavailable(f"the store {type(self.store).__name__} {AGAIN_LATER}")
        return place in self.known.failures

    async def _whole_of(self, text: str) -> str | None:
        """Under which handle the store has the whole of which a text in a view that was written back is a piece.

        The text names it, and any tool can write such a text: so it must be the beginning and the end of the whole,
        around as many characters as it says, or more where a view was cut that was written back.
        """
        preview = _PREVIEW.match(text)
        piece = text if preview is None else text[preview.end() :]
        cuts = [*_CUT.finditer(piece)]
        cut, named = next(iter(cuts), None), preview or next(iter(cuts), None)
        if named is None or named["tool"] != self.tool or len(cuts) > 1 or self._has_failed():
            return None
        head, tail = (piece, "") if cut is None else (piece[: cut.start()], piece[cut.end() :])
        omitted = 0 if cut is None else int(cut["omitted"].replace(",", ""))
        store, (handle, _, part) = of_conversation(self.store, self.conversation), named["handle"].partition("#")
        content = await asked_of(store, lambda: store.get(handle), self.store)
        whole = text_of(content, part) if isinstance(content, bytes) else ""
        ends = whole.startswith(head) and whole.rstrip().endswith(tail.rstrip())
        is_made_of_it = ends and len(head) + omitted + len(tail) <= len(whole)
        return named["handle"] if is_made_of_it and len(f"{head}{tail}".strip()) >= _PROOF else None

    def _said(self, handle: str) -> str:
        return f"; {self.tool} {handle}"

    async def keep(self, content: bytes) -> str | None:
        """The handle of a content; None where the recall tool is not in the request, or the store fails."""
        return None if self.tool is None else (await self.keep_all([content])).get(content)

    async def keep_message(self, message: Message, result: ToolResult | None = None) -> str | None:
        """By which handle a message, or a result in it, can be had back; None as for ``keep``."""
        content = None if self.tool is None else content_of(message, self.wire)
        handle = None if content is None else await self.keep(content)
        return None if handle is None else handle + _part(message, result)

    async def keep_messages(self, messages: Sequence[Message]) -> list[str | None]:
        """By which handle each message can be had back; None for what is not kept."""
        written = await offload(lambda: [content_of(each, self.wire) for each in messages], len(messages))
        handles = await self.keep_all(content for content in written if content is not None)
        return [None if content is None else handles.get(content) for content in written]

    async def keep_all(self, contents: Iterable[bytes]) -> dict[bytes, str]:
        """The handles of contents, of those that the store keeps; some are put at a time, and each is tried twice."""
        wanted, place, known = list(dict.fromkeys(contents)), id(self.store), self.known.handles
        missing = [content for content in wanted if (place, content) not in known]
        if missing and not self._has_failed():
            await self._put_all(missing)
        return {content: known[place, content] for content in wanted if (place, content) in known}

    async def _put_all(self, missing: Sequence[bytes]) -> None:
        clean, place = without_secrets(self.store), id(self.store)
        if clean is None:
            await self._put_ready([(content, content) for content in missing])
            return
        failure = await self._clean_all(clean, missing)
        known = self.known.clean
        await self._put_ready([(each, known[place, each]) for each in missing if (place, each) in known])
        if failure is not None:
            self.known.failures.setdefault(place, failure)

    async def _clean_all(self, clean: Callable[[bytes], bytes], contents: Sequence[bytes]) -> StoreError | None:
        """Take secrets out; what went wrong with one: those behind it are not kept."""
        place = id(self.store)
        for content in contents:
            if (place, content) in self.known.clean:
                continue
            made = None
            try:
                with anyio.move_on_after(TO_CLEAN):
                    made = await offload(partial(clean, content), 1, len(content))
            except StoreError as error:
                return error
            if made is None:
                return StoreError(f"secrets were not taken out of {len(content):,} bytes within {TO_CLEAN:g} seconds")
            self.known.clean[place, content] = made
        return None

    async def _put_ready(self, missing: Sequence[tuple[bytes, bytes]]) -> None:
        """Put contents into the store, each with what is to be put of it."""
        work = partial(self._put_each, iter(missing))
        with self._waiting() as scope:
            await side_by_side([work] * min(_PUT_TOGETHER, len(missing)))
        if scope.cancelled_caught:
            said = "did not keep all"
            place, known = id(self.store), self.known.handles
            if not any((place, content) in known for content, _ in missing):
                said = "did not answer"
                give_up(self.store)
            msg = f"the store {type(self.store).__name__} {said} within {self._limit:g} seconds"
            self.known.failures.setdefault(place, StoreUnavailable(msg))

    async def _put_each(self, waiting: Iterator[tuple[bytes, bytes]]) -> None:
        """Put what waits into the store, as long as it has not failed."""
        place, name = id(self.store), type(self.store).__name__
        for content, made in waiting:
            if self._has_failed():
                return
            try:
                self.known.handles[place, content] = await self._put(made)
                self.known.clean.pop((place, content), None)
            except StoreError as error:
                self.known.failures.setdefault(place, _later(error))
            except anyio.get_cancelled_exc_class():
                if is_cancelled():
                    raise
                self.known.failures.setdefault(place, StoreError(f"the store {name} {WAS_CANCELLED}"))

    @property
    def _limit(self) -> float:
        """Seconds that the step may wait for the store."""
        return limit_of(self.store, STORE_TIMEOUT)

    @contextmanager
    def _waiting(self) -> Iterator[anyio.CancelScope]:
        """So long as the step may still wait for the store."""
        begun, place = monotonic(), id(self.store)
        waited = self.known.waited.get(place, 0.0)
        try:
            with anyio.move_on_after(max(0.0, self._limit - waited)) as scope:
                yield scope
        finally:
            self.known.waited[place] = waited + monotonic() - begun

    async def _put(self, content: bytes) -> str:
        store, begun = of_conversation(self.store, self.conversation), monotonic()
        try:
            return await put(store, content)
        except StoreError:
            if took_too_long(begun, self._limit):
                give_up(self.store)
                raise
            return await put(store, content)

    async def put_again(
        self, changes: Iterable[Change], messages: Sequence[Native], sent: Sequence[Message], tool: str | None
    ) -> tuple[int, int]:
        """Put what the store has lost into it again, as far as the caller still shows it.

        Args:
            changes: The changes in force, with the handles of what they have left out.
            messages: What the caller shows.
            sent: What is sent: its texts may name handles of what nobody shows any more.
            tool: The name of the recall tool in the request; None where there is none.

        Returns:
            How many originals are missing then, and how many handles besides that the request names.

        Raises:
            StoreUnavailable: If the store cannot be asked now, or takes nothing now: later it may.
            StoreError: If it cannot tell what it has.
        """
        handles = {change.handle.partition("#")[0] for change in changes if change.handle}
        named = await offload(partial(_named_in, sent, tool), len(sent)) - handles
        part = of_conversation(self.store, self.conversation)
        tells = getattr(part, "handles", None)
        there: object = await answer_of(part, tells, self.store) if tells and (handles or named) else None
        if not isinstance(there, Iterable):
            return 0, 0
        lost = (handles | named).difference(there)
        contents = await offload(partial(self._contents_under, lost, messages), len(messages)) if lost else {}
        lost -= set((await self.keep_all(contents.values())).values())
        failure = self.known.failures.get(id(self.store))
        if isinstance(failure, StoreUnavailable) and not lost.isdisjoint(contents):
            raise failure
        return len(handles & lost), len(named & lost)

    def _contents_under(self, handles: Collection[str], messages: Sequence[Native]) -> dict[str, bytes]:
        """What was put under these handles, of those messages that are as they were."""
        found, clean, place = {}, without_secrets(self.store), id(self.store)
        for native in messages:
            try:
                content = original_bytes(native)
                made = content if clean is None else clean(content)
            except StoreError:  # nor was it put in then
                continue
            if (handle := expected_handle(made)) in handles:
                found[handle] = content
                if clean is not None:
                    self.known.clean[place, content] = made
        return found

    async def settled(self, before: Context, after: Context) -> Context:
        """What a stage returned, with the handles that the store has given for what the stage was to say."""
        if not self.known.awaited or after is before:
            return after
        old = set(map(id, before.messages))
        new = {place: each for place, each in enumerate(after.messages) if id(each) not in old}
        named = {}
        for place, message in new.items():
            texts = (each.text if isinstance(each, Text) else each.arguments for each in texts_in(message.parts))
            handles = {handle for text in texts for handle in _EXPECTED.findall(text)}
            named[place] = {each: self.known.awaited[each] for each in sorted(handles & self.known.awaited.keys())}
        contents = {handle: content for found in named.values() for handle, content in found.items()}
        got = await self.keep_all(contents.values())
        lost = {handle: got.get(content) for handle, content in contents.items() if got.get(content) != handle}
        pieces = {pointer: text for pointer, text in self.known.pieces.items() if pointer.partition("#")[0] in contents}
        wholes = {pointer: await self._whole_of(text) for pointer, text in pieces.items()}
        wrong = {pointer: whole for pointer, whole in wholes.items() if whole is not None} | lost
        if not wrong:
            return after
        messages, meant = list(after.messages), {handle.partition("#")[0] for handle in wrong}
        known, markers = {message.identity: message for message in before.messages}, self.wire.cache_markers
        for place, found in named.items():
            if not meant.isdisjoint(found):
                made = self._put_right(messages[place], wrong)
                was = known.get(made.identity)
                if was is not None and was == made and (markers is None or markers.of(was) == markers.of(made)):
                    made = was  # cut again, it says the same; no comparison of messages sees their markers
                messages[place] = made
        return after.with_messages(tuple(messages))

    def _put_right(self, message: Message, wrong: Mapping[str, str | None]) -> Message:
        def right(text: str) -> str:
            for handle, given in wrong.items():
                said = re.escape(self._said(handle)) + "(#[0-9]+|(?![0-9]))"
                new = "" if given is None else self._said(given).replace("\\", r"\\") + r"\1"
                text = re.sub(said, new, text)
            return text

        def edit(part: Text | ToolCall) -> Text | ToolCall:
            marks = tuple([evolve(mark, text=right(mark.text)) for mark in part.marks])
            if isinstance(part, Text):
                return evolve(part, text=right(part.text), marks=marks)
            return evolve(part, arguments=right(part.arguments), marks=marks)

        return message.with_parts(with_texts(message.parts, edit))


_NAMES = r"; (?P<tool>\S+) (?P<handle>[^\s\]]+)"
_PREVIEW = lazy_pattern(rf"{re.escape(OFFLOADED)}[^\n;]*{_NAMES}\]\n?")
_CUT = lazy_pattern(rf"\n\[… (?P<omitted>\d[\d,]{{0,18}}) characters omitted(?:{_NAMES})? …\]\n")


@lru_cache(maxsize=16)
def _named(tool: str) -> re.Pattern[str]:
    """How a text names a handle with which a tool gets something back."""
    return re.compile(rf"(?:; |^){re.escape(tool)} ({_WORD})(?:#[0-9]+)?(?=[\]: ])", re.MULTILINE)


def _part(message: Message, result: ToolResult | None) -> str:
    """Which of several results of a message is meant."""
    results = message.results
    place = next((place for place, each in enumerate(results, 1) if each is result), None)
    return f"#{place}" if place is not None and len(results) > 1 else ""


def without_secrets(store: Store) -> Callable[[bytes], bytes] | None:
    """How a store takes secrets out of a content before it keeps it; None where it does not."""
    found: object = getattr(store, "without_secrets", None)
    return found if callable(found) else None


def tells_apart(store: Store | None) -> bool:
    """Whether a store knows which conversation has left out what."""
    return callable(getattr(store, "for_conversation", None))


def of_conversation(store: Store, conversation: str | None) -> Store:
    """The store as a conversation sees it; as it is, where it does not tell conversations apart.

    Raises:
        StoreError: If the store raises.
    """
    part: Callable[[str], Store] | None = getattr(store, "for_conversation", None)
    if conversation is None or part is None:
        return store
    with _Failing(f"the store {type(store).__name__} could not tell conversations apart"):
        return part(conversation)


def check_conversation(store: object, name: str) -> None:
    """Refuse a name under which a store never keeps anything: else each step would say that nothing is kept.

    Raises:
        ConfigError: If the store says so of itself; one that fails in another way is told of by the step that needs it.
    """
    part: Callable[[str], object] | None = getattr(store, "for_conversation", None)
    if part is None:
        return
    try:
        part(name)
    except StoreUnavailable:
        return
    except StoreError as error:
        msg = f"the store {type(store).__name__} would keep nothing of the conversation {name!r:.80}: {error}"
        raise ConfigError(msg) from error
    except FAILURES:
        return


async def put(store: Store, content: bytes) -> str:
    """Put one content into a store.

    Raises:
        StoreError: If the store raises, or gives back something else than a handle.
    """
    name = f"the store {type(store).__name__}"
    with _Failing(f"{name} could not keep {len(content):,} bytes"):
        answer: object = store.put(content)
        if not isawaitable(answer):
            msg = f"{name}: put is not async: it gave {type(answer).__name__}, which cannot be awaited"
            raise StoreError(msg)
        handle = await answer
    if not isinstance(handle, str) or not _HANDLE.fullmatch(handle):
        what = f"a handle is a word of 1 to {LONGEST_HANDLE} letters, digits and _ ~ / = + @ % : . -"
        msg = f"{name}: put gave {shown(handle)} as a handle; {what}, which ends with none of : and ."
        raise StoreError(msg)
    return handle


async def asked_of(store: Store, ask: Callable[[], Awaitable[T]], whole: Store | None = None) -> T | None:
    """What a store, or a part of the ``whole``, answers; None where it fails, or takes too long."""
    try:
        return await answer_of(store, ask, whole)
    except StoreError:
        return None


async def answer_of(store: Store, ask: Callable[[], Awaitable[T]], whole: Store | None = None) -> T:
    """What a store, or a part of the ``whole``, answers in time.

    Raises:
        StoreUnavailable: If it cannot be asked now, or takes too long.
        StoreError: If it fails in another way.
    """
    begun, limit, name = monotonic(), limit_of(whole or store, STORE_TIMEOUT), f"the store {type(store).__name__}"
    try:
        with anyio.move_on_after(limit), _Failing(name):
            return await ask()
    except StoreError as error:
        if took_too_long(begun, limit):
            give_up(whole or store)
        if (later := _later(error)) is not error:
            raise later from error
        raise
    give_up(whole or store)
    msg = f"{name} did not answer within {limit:g} seconds"
    raise StoreUnavailable(msg)


@frozen(eq=False, repr=False)
class _Failing:
    """Any error of a store that passes through it becomes a ``StoreError``."""

    what: str

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Say which store, and what it was asked for."""
        if isinstance(error, Exception) and not isinstance(error, StoreError):
            msg = f"{self.what}: {said_by(error)}"
            raise StoreError(msg) from error


def original_bytes(native: Native) -> bytes:
    """A native message as the JSON bytes that the store keeps.

    Raises:
        StoreError: If it cannot be written as JSON.
    """
    try:
        return json.dumps(native, ensure_ascii=False, default=_as_sent).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError) as error:
        msg = f"a {type(native).__name__} that is to be kept in the store cannot be written as JSON: {error}"
        raise StoreError(msg) from error


def _named_in(messages: Sequence[Message], tool: str | None) -> set[str]:
    """The handles that marks name with which the model can get something back."""
    if tool is None:
        return set()
    marks = (mark.text for message in messages for mark in marks_in(message.parts))
    recaps = (message.text for message in messages if message.as_recap)
    return {found for text in chain(marks, recaps) for found in _named(tool).findall(text)}


def _later(error: StoreError) -> StoreError:
    """The error, as one that says that the same call may succeed later, where that is known."""
    passing = isinstance(error.__cause__, (ConnectionError, TimeoutError)) and not isinstance(error, StoreUnavailable)
    return StoreUnavailable(str(error)) if passing else error


def _as_sent(value: object) -> Native:
    """What a client sends for it: bytes as base64, an object as its fields; anything else as its text."""
    if isinstance(value, (bytes, bytearray)):
        return b64encode(value).decode()
    if callable(dump := getattr(value, "model_dump", None)) and not isinstance(value, type):
        return dump(mode="json", exclude_unset=True)
    return dict(value) if isinstance(value, Mapping) else str(value)


DESCRIPTION = (
    "Get back what was left out: the original behind a handle that the text shows, or 'lines' or 'bytes' of it; "
    "'search' finds words in it, without a handle in all of them."
)
"""How the definition describes the tool to the model."""

ARGUMENTS = {
    "handle": "As the text shows it.",
    "lines": "From 1: '120-180', '120-' or '120'.",
    "bytes": "From 0, the end not included: '4000-8000' or '4000-'.",
    "search": "Words to look for.",
}
"""Its arguments; each is a text, and none must be given."""


def recall_tool(name: str) -> Tool:
    """The tool under a name."""
    properties = {key: {"type": "string", "description": what} for key, what in ARGUMENTS.items()}
    return Tool(name, f"{DESCRIPTION} {_mark(name)}", {"type": "object", "properties": properties})


def _mark(name: str) -> str:
    """The mark of the tool in its definition: frameworks keep descriptions, and no other field of ours."""
    return f"[agentctx:{name}]"


def name_of_recall(tools: Iterable[Tool]) -> str | None:
    """The name of the tool among those of a request; None where it is not there.

    The tool carries the mark of its own name, and takes its arguments; a framework may write around the description.
    A copy of the definition under another name is another tool.
    """
    for tool in tools:
        properties = (tool.parameters or {}).get("properties")
        takes = isinstance(properties, Mapping) and properties.keys() == ARGUMENTS.keys()
        if tool.name and takes and _mark(tool.name) in tool.description:
            return tool.name
    return None


def text_of(content: bytes, part: str = "") -> str:
    """What is kept as a text: of the JSON of a message what it says, of one with results these.

    What is no text is told: which media stand beside a text, and how large a content is that is none.

    Args:
        content: What is kept.
        part: Which of its results, counted from 1, all where there is no such; ``"0"``: the content as it is.
    """
    message = _message_in(_decoded(content)) if part != "0" else None
    if message is None:
        return _decoded(content)
    results = message.results
    if part.isdecimal() and 0 < int(part) <= len(results):
        return _with_media(results[int(part) - 1].text, results[int(part) - 1].content)
    if len(results) > 1:
        told = (_with_media(result.text, result.content) for result in results)
        return "\n\n".join(f"[result {place}]\n{text}" for place, text in enumerate(told, 1))
    return _with_media(results[0].text, results[0].content) if results else _said_in(message) or _decoded(content)


def results_in(content: bytes) -> int:
    """How many results a content holds that is a message; 0 where it is none, or holds none."""
    message = _message_in(_decoded(content))
    return 0 if message is None else len(message.results)


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        text = content.decode("utf-8", "replace")
    if "\0" in text or text.count("\ufffd") * _FEW > len(text):
        return f"[binary content of {len(content):,} bytes: it is no text]"
    return text


_FEW = 10
"""In a text, fewer than one character in so many may be a sign that it is none."""


def _with_media(text: str, parts: Sequence[Part]) -> str:
    media = [part for part in parts if isinstance(part, Media)]
    return "\n".join([*([text] if text or not media else []), *map(_told, media)])


def _told(media: Media) -> str:
    """A picture, a sound, a document or a film in words."""
    size = "" if media.data is None else f" of about {len(media.data) * 3 // 4:,} bytes"
    where = "" if media.url is None else f" at {quoted(media.url[:200])}"
    return f"[{media.kind}{f', {media.media_type}' if media.media_type else ''}{size}{where}: it is no text]"


def _said_in(message: Message) -> str:
    """The text of a message, and its calls."""
    calls = [f"{call.name} {call.arguments}" for call in message.calls]
    said = "\n".join(each for each in (message.text, *calls) if each)
    return _with_media(said, message.parts)


def _message_in(text: str) -> Message | None:
    """The message that is kept as this JSON, read in the format that finds most in it."""
    if not text.startswith("{"):
        return None
    try:
        native = json.loads(text)
    except (ValueError, RecursionError):
        return None
    read = []
    for wire in FORMATS.values():
        if may_be_in(wire, native):
            with suppress(InvalidInput, ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
                read.append(wire.read_message(native, 0))
    return max(
        read,
        key=lambda message: sum(1_000_000 + len(each.text) for each in message.results) or len(message.text),
        default=None,
    )
