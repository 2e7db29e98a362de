"""The tool that gives the model back what was left out: by handle, by lines or bytes of it, and by search."""

from __future__ import annotations

import json
import re
import sqlite3
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, Sized
from functools import partial
from threading import Lock
from typing import NamedTuple

from attrs import define, field, frozen
from attrs.validators import matches_re

from agentctx.characters import printable
from agentctx.engine.originals import (
    ARGUMENTS,
    answer_of,
    asked_of,
    of_conversation,
    recall_tool,
    results_in,
    tells_apart,
    text_of,
)
from agentctx.engine.plan import STORE
from agentctx.engine.relevance import forms, raw_words
from agentctx.errors import StoreError, StoreUnavailable
from agentctx.formats.registry import format_named
from agentctx.marks import quoted
from agentctx.message import Native
from agentctx.protocols import Store, TextCutter, TokenCounter, cutter_of
from agentctx.tokens.counting import counter_of_texts
from agentctx.users_code import offload
from agentctx.validators import NAME, MustBe, must_be, whole_number

_LEAST = 100
"""Tokens; in fewer, an answer could not say how to read on."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


@frozen
class Recall:
    """A tool for the model: it gives back what was left out and is in the store, in full or in part.

    Put ``definition`` among the tools of the request: then what was left out names its handle, and a call of the tool
    is answered by awaiting this with the call's arguments. The answer has at most ``max_tokens`` tokens, and says how
    to read on where that is not all. What a model sends is never an error: the answer says then what is wrong.

    A search looks through one content, or through all that the conversation has left out: by the store's own
    ``search(query, limit)`` where it has one, else by the words of what its ``handles()`` name (SQLite's full text
    search, in memory). What is no text, such as a picture, is named, with its size.

    Where conversations share a store, each has a tool of its own, by ``conversation``: it finds and reads what this one
    has left out, and a handle of another, guessed or copied, is unknown to it. What two have left out, both find. A
    tool that was not told reads whatever handle it is given; it does not search as soon as more than one conversation
    has left something out. The name is what counts: a session that was loaded goes on under its own, and one that
    begins under another name has not left out what the first has.

    Args:
        store: The store of the pipeline.
        name: What the model calls the tool.
        max_tokens: The most tokens of an answer, at least 100.
        conversation: The ``id`` of the session that the tool is for; None where the store has one conversation.
        counter: Counts tokens; without it tiktoken.

    Raises:
        ConfigError: If an option makes no sense, or the store does not tell conversations apart and one is named.

    Example:
        >>> from agentctx import ClearToolResults, Pipeline
        >>> from agentctx.recall import Recall
        >>> from agentctx.stores import MemoryStore
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> store = MemoryStore()
        >>> recall, pipeline = Recall(store), Pipeline(ClearToolResults(keep_last=0), store=store)
        >>> turns = user("Read it."), assistant(call("a", "read")), result("a", "port 8080, " * 20), assistant("Done.")
        >>> messages = transcript("openai-chat", *turns, user("Which port?"))
        >>> view = await pipeline.prepare(messages, tools=[recall.definition("openai-chat")])
        >>> view.messages[2]["content"]
        '[old tool result cleared; recall c18f975f065f9fae]'
        >>> (await recall({"handle": "c18f975f065f9fae"}))[:9]
        'port 8080'
    """

    store: Store = field(validator=STORE)
    name: str = field(default="recall", validator=MustBe("a word of letters, digits, _ and -", matches_re(_NAME)))
    max_tokens: int = field(default=2_000, validator=whole_number(_LEAST))
    conversation: str | None = field(default=None, validator=NAME.or_none, kw_only=True)
    counter: TokenCounter = field(default=None, converter=counter_of_texts, kw_only=True, eq=False, repr=False)
    _indexes: list[_Index] = field(factory=list, init=False, eq=False, repr=False)  # one, once there was a search

    def __attrs_post_init__(self) -> None:
        """Check that the store tells conversations apart where one is named."""
        if self.conversation is not None and not tells_apart(self.store):
            raise must_be(
                "Recall.store", "a store of its own for each conversation, or one with for_conversation", self.store
            )

    def definition(self, format: str) -> Native:  # noqa: A002 - the contract's name
        """The tool as a request of this format defines it: an item of its list of tools.

        Args:
            format: ``"openai-chat"``, ``"openai-responses"``, ``"anthropic"``, ``"gemini"`` or ``"bedrock"``.

        Raises:
            InvalidInput: If there is no such format.
        """
        return format_named(format).write_tool(recall_tool(self.name))

    async def __call__(self, arguments: Mapping[str, object] | str | None = None, /) -> str:
        """The answer to a call of the tool.

        Args:
            arguments: The arguments of the call, as a mapping or as the JSON text that the model has written.
        """
        asked = _asked(arguments)
        if isinstance(asked, str):
            return self._capped(f"{asked}. {self._usage()}")
        try:
            if "handle" in asked:
                return await self._of_one(_bare(asked["handle"]), asked)
            return await self._search_all(asked["search"]) if "search" in asked else self._capped(self._usage())
        except StoreUnavailable:
            return "What was left out cannot be read now: the store does not answer. Go on without it, or ask later."
        except (StoreError, sqlite3.Error):
            return "What was left out cannot be searched now; give a handle"

    async def _of_one(self, handle: str, asked: Mapping[str, str]) -> str:
        """The answer to what is asked of one handle."""
        text = await self._read(handle)
        if isinstance(text, int):
            known = f"{handle.partition('#')[0]} has {text} result{'s' * (text != 1)}"
            return self._capped(f"There is no {quoted(handle[:_LEAST])}: {known}")
        if text is None:
            shown = quoted(handle[:_LEAST])
            why = "it is not one of this conversation's, it has expired, or it is damaged"
            return self._capped(f"Nothing is kept under the handle {shown}: {why}. Search for words of it instead.")
        if "search" in asked:
            return await offload(partial(self._search_in, handle, text, asked["search"]), 1, len(text))
        if "lines" in asked:
            return self._lines(handle, text, asked["lines"])
        return self._bytes(handle, text, asked.get("bytes", ""))

    def _usage(self) -> str:
        arguments = "; ".join(f"{name}: {what}" for name, what in ARGUMENTS.items())
        return f"Call {self.name} with a handle or a search. {arguments}"

    async def _read(self, handle: str) -> str | int | None:
        """The text under a handle; where it has not so many results, how many it has; None where there is nothing.

        Raises:
            StoreUnavailable: If the store does not answer now.
        """
        bare, _, part = handle.partition("#")
        try:
            content = await answer_of(self.store, lambda: self._own.get(bare)) if bare else None
        except StoreUnavailable:
            raise
        except StoreError:
            return None
        if not isinstance(content, bytes):
            return None
        return await offload(partial(_text_of_part, content, part), 1, len(content))

    @property
    def _own(self) -> Store:
        """The store as the conversation sees it."""
        return of_conversation(self.store, self.conversation)

    def _bytes(self, handle: str, text: str, wanted: str) -> str:
        start, stop, _ = _range(wanted)
        if start is None and wanted:
            return self._capped(f"bytes: {quoted(wanted[:80])} is no range such as '0-4000'")
        data = text.encode("utf-8", "surrogatepass")
        first = _boundary(data, min(start or 0, len(data)))
        piece = data[first : _boundary(data, len(data) if stop is None else stop)]
        return self._shown(handle, piece.decode("utf-8", "surrogatepass"), first, len(data), wanted)

    def _lines(self, handle: str, text: str, wanted: str) -> str:
        start, stop, is_open = _range(wanted)
        lines = text.split("\n")
        known = start is not None and start <= len(lines) and (stop is None or stop >= max(1, start))
        if start is None or not known or (start == 0 and not is_open):
            return self._capped(f"lines: {quoted(wanted[:80])} is no range of the {len(lines):,} lines, such as '1-80'")
        begin = max(0, start - 1)
        piece = "\n".join(lines[begin : start if stop is None and not is_open else stop])
        before = len("\n".join(lines[:begin]).encode("utf-8", "surrogatepass")) + (begin > 0)
        return self._shown(handle, piece, before, len(text.encode("utf-8", "surrogatepass")), wanted)

    def _shown(self, handle: str, piece: str, start: int, whole: int, wanted: str) -> str:
        """A piece of a content as it stands; what does not fit is left out, and how to read on is said."""
        if not piece:
            return self._capped(f"There is nothing: {quoted(handle)} has {whole:,} bytes")
        cutter = cutter_of(self.counter)
        if not cutter.exceeds(piece, self.max_tokens):
            return piece
        room = self.max_tokens - _LEAST // 2 - len(handle) // 2
        head = cutter.head(piece, room) or _characters(piece, room, cutter)
        stop = start + len(head.encode("utf-8", "surrogatepass"))
        more = "" if not wanted else " of what was asked for"
        return f"{head}\n[bytes {start}-{stop} of {whole}{more}; read on with handle {handle}, bytes {stop}-]"

    def _capped(self, text: str) -> str:
        cutter = cutter_of(self.counter)
        return cutter.head(text, self.max_tokens) if cutter.exceeds(text, self.max_tokens) else text

    def _search_in(self, handle: str, text: str, search: str) -> str:
        lines = text.split("\n")
        found = _found_in(lines, search)
        if not found:
            return self._capped(f"{quoted(search[:80])} is not in {handle}, which has {len(lines):,} lines")
        return self._joined(f"{handle} has {len(lines):,} lines. Found in:", [each.told for each in found])

    async def _search_all(self, search: str) -> str:
        handles = await self._candidates(search)
        if isinstance(handles, str):
            return self._capped(f"{handles}; give a handle")
        found = await self._found(search, handles)
        if not found:
            unread = any(handle not in self._indexes[0].names for handle in handles)
            where = "those parts of what was left out that can be read" if unread else "what was left out"
            return self._capped(f"{quoted(search[:80])} was not found in {where}")
        texts: dict[str, str] = {}  # each once, however often it was left out
        for handle in found:
            text = await self._read(handle) if len(texts) < FOUND else None
            if isinstance(text, str):
                texts.setdefault(text, handle)
        told = await offload(partial(_places, search, texts), len(texts), sum(map(len, texts)))
        return self._joined(f"Found in {len(found):,} of what was left out; read one by its handle.", told)

    async def _candidates(self, search: str) -> Sequence[str] | str:
        """The handles to look through; why there are none, where they are not told."""
        several = getattr(self._own, "conversations", None)
        if several is not None:
            whose = await answer_of(self.store, several)
            if not isinstance(whose, Sized):
                return "What was left out cannot be searched now"
            if len(whose) > 1:
                return "Several conversations share this store, and this tool does not know which one it is for"
        own: Callable[..., Awaitable[Native]] | None = getattr(self._own, "search", None)
        listed: Callable[..., Awaitable[Native]] | None = getattr(self._own, "handles", None)
        found: object = None
        if own is not None:
            found = await asked_of(self.store, lambda: own(search, FOUND * 8))
        if found is None and listed is not None:
            found = await answer_of(self.store, listed)
        if isinstance(found, str) or not isinstance(found, Iterable):
            return "This store cannot be searched"
        return [handle for handle in found if isinstance(handle, str)]

    async def _found(self, search: str, handles: Sequence[str]) -> list[str]:
        """Those of the handles in whose texts words are found, best first; each is read for it once."""
        index = self._indexes[0] if self._indexes else _Index()
        self._indexes[:] = [index]
        new: dict[str, str] = {}
        for handle in handles:
            if handle not in index.names and isinstance(text := await self._read(handle), str):
                new[handle] = text
        await offload(partial(index.add, new), len(new), sum(map(len, new.values())))
        there = frozenset(handles)
        found = await offload(partial(index.find, search), len(index.names))
        return [handle for handle in found if handle in there]

    def _joined(self, opening: str, parts: Sequence[Callable[[int, int], str]]) -> str:
        """Parts one below the other, as many as there is room for; the first in as few words as it takes."""
        text = opening
        for part in parts:
            sizes = _SIZES if text is opening else _SIZES[:1]
            longer = (f"{text}\n\n{part(*size)}" for size in sizes)
            fits = next((each for each in longer if not cutter_of(self.counter).exceeds(each, self.max_tokens)), None)
            if fits is None:
                return self._capped(f"{text}\n\n{part(*_SIZES[-1])}" if text is opening else text)
            text = fits
        return text


def _asked(arguments: object) -> dict[str, str] | str:
    """The arguments that were given, each as a text; what is wrong with them."""
    if isinstance(arguments, (str, bytes)):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            return "The arguments are no JSON"
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        return "The arguments are no JSON object"
    asked = {}
    for name in ARGUMENTS:
        given = arguments.get(name)
        if isinstance(given, (list, tuple)) and given and all(isinstance(each, int) for each in given[:2]):
            given = "-".join(str(each) for each in given[:2])
        if isinstance(given, int) and not isinstance(given, bool):
            given = str(given)
        if given is not None and not isinstance(given, str):
            return f"{name} is no text"
        if given is not None and given.strip():
            asked[name] = given.strip()
    return asked


def _bare(handle: str) -> str:
    """A handle as the text shows it, also where a model has copied what stands around it there."""
    words = handle.replace("…", " ").strip("[]()`'\" .,;\n").split()
    return words[-1] if words else handle


def _text_of_part(content: bytes, part: str) -> str | int:
    """What is asked for of a content; how many results it has, where there is none of that number."""
    known = results_in(content) if part not in ("", "0") else 0
    if part not in ("", "0") and not (part.isascii() and part.isdecimal() and 0 < int(part) <= max(1, known)):
        return known
    return text_of(content, part)


_RANGE = re.compile(r"\s*(\d{1,12})?\s*(?:(-|:|\.\.|,)\s*(\d{1,12})?)?\s*")


class _Range(NamedTuple):
    """A range as it was asked for.

    Args:
        first: Its first number; None where it is no range.
        last: Its last one; None where it has none.
        is_open: Whether it goes on behind the first.
    """

    first: int | None = None
    last: int | None = None
    is_open: bool = False


def _range(wanted: str) -> _Range:
    found = _RANGE.fullmatch(wanted)
    if found is None or not found[0].strip():
        return _Range()
    return _Range(int(found[1] or 0), None if found[3] is None else int(found[3]), found[2] is not None)


def _boundary(data: bytes, place: int) -> int:
    """The place, or the start of the character that it is in."""
    while 0 < place < len(data) and data[place] & 0xC0 == 0x80:
        place -= 1
    return place


def _characters(text: str, tokens: int, cutter: TextCutter) -> str:
    """What has room of a text that begins with one sign of many characters, which has none as a whole."""
    counts = range(1, min(len(text), _AT_MOST * tokens) + 1)
    return text[: max(1, bisect_left(counts, 1, key=lambda count: cutter.exceeds(text[:count], tokens)))]


_AT_MOST = 4
"""So many characters of such a sign are given for a token."""

FOUND = 8
"""So many places a search names."""


def _places(search: str, handles: Mapping[str, str]) -> list[Callable[[int, int], str]]:
    """Of each text, given with its handle, the place where it is found best."""
    return [partial(_place, search, handle, text) for text, handle in handles.items()]


def _place(search: str, handle: str, text: str, characters: int, around: int) -> str:
    told = [each.told(characters, around) for each in _found_in(text.split("\n"), search, 1)]
    return "\n".join([f"{handle} ({len(text):,} characters):", *told])


def _found_in(lines: Sequence[str], search: str, most: int = FOUND) -> list[_Found]:
    """The places at which words are found, best first; of those in one piece of a line, and its neighbours, one."""
    pieces = [
        _Found(lines, number, start, min(start + _LINE, len(line)), search)
        for number, line in enumerate(lines)
        for start in range(0, max(1, len(line) - _OVERLAP), _LINE - _OVERLAP)
    ]
    index = _Index()
    index.add({str(place): each.lines[each.number][each.start : each.stop] for place, each in enumerate(pieces)})
    found: list[_Found] = []
    for each in (pieces[int(place)] for place in index.find(search)):
        if len(found) == most:
            break
        if not any(map(each.meets, found)):
            found.append(each)
    return found


_LINE = 400
"""Characters of a line that a search shows; of a longer one these are pieces, each found by itself."""

_OVERLAP = 100
"""Characters that a piece has in common with the one before: what stands on the border of two is found, too."""

AROUND = 2
"""So many lines a search shows before and after one that it found."""

_SIZES = ((_LINE, AROUND), (_LINE, 0), (100, 0), (40, 0))
"""How many characters of a line are shown, and how many lines on either side, where there is room, and where not."""


@frozen
class _Found:
    """A place in a text at which words were found.

    Args:
        lines: The lines of the text.
        number: The line, counted from 0.
        start: The first character of the piece of it that has them.
        stop: The first one after that.
        search: What was looked for.
    """

    lines: Sequence[str]
    number: int
    start: int
    stop: int
    search: str

    def meets(self, other: _Found) -> bool:
        """Whether another one has characters of this one."""
        return self.number == other.number and self.start < other.stop and other.start < self.stop

    def told(self, characters: int, around: int) -> str:
        """The place with so many lines around it, numbered, at most so many characters of each."""
        first, last = max(0, self.number - around), min(len(self.lines), self.number + around + 1)
        return "\n".join(
            self._here(characters) if number == self.number else f"{number + 1}: {_beginning(self.lines[number])}"
            for number in range(first, last)
        )

    def _here(self, characters: int) -> str:
        """The line itself; of a long one what stands around the words, and at which bytes of the text that is."""
        line = self.lines[self.number]
        if len(line) <= characters:
            return f"{self.number + 1}: {printable(line)}"
        start = max(0, min(self._hit() - characters // 4, len(line) - characters))
        piece = line[start : start + characters]
        before = "\n".join([*self.lines[: self.number], line[:start]])
        first = len(before.encode("utf-8", "surrogatepass"))
        stop = first + len(piece.encode("utf-8", "surrogatepass"))
        dots = "…" * (start > 0), "…" * (start + len(piece) < len(line))
        return f"{self.number + 1}, bytes {first}-{stop}: {dots[0]}{printable(piece)}{dots[1]}"

    def _hit(self) -> int:
        """Where in the line the first of the words stands, what was looked for letter for letter before parts of it."""
        line, words = self.lines[self.number], raw_words(self.search)
        wanted = [self.search, *sorted(words, key=len, reverse=True), *(form for word in words for form in forms(word))]
        for each in dict.fromkeys(wanted):
            found = re.compile(re.escape(each), re.IGNORECASE).search(line, self.start, self.stop)
            if found is not None:
                return found.start()
        return self.start


def _beginning(line: str) -> str:
    return printable(line) if len(line) <= _LINE else f"{printable(line[:_LINE])}…"


@define(eq=False, repr=False)
class _Index:
    """Texts found by the words in them, and letter for letter, best first: SQLite's full text search, in memory."""

    names: set[str] = field(factory=set)
    rows: sqlite3.Connection = field(factory=lambda: sqlite3.connect(":memory:", check_same_thread=False))
    guard: Lock = field(factory=Lock)

    def __attrs_post_init__(self) -> None:
        """Nothing is in it yet."""
        self.rows.execute(
            "CREATE VIRTUAL TABLE texts "
            "USING fts5(name UNINDEXED, folded UNINDEXED, words, tokenize = \"unicode61 tokenchars '_'\")"
        )

    def __del__(self) -> None:
        """Give the memory back."""
        self.rows.close()

    def add(self, texts: Mapping[str, str]) -> None:
        """Let more texts be found, by name."""
        read = [(name, _folded(text), " ".join(_forms_in(text))) for name, text in texts.items()]
        with self.guard:
            self.rows.executemany(
                "INSERT INTO texts VALUES (?, ?, ?)", [row for row in read if row[0] not in self.names]
            )
            self.names.update(texts)

    def find(self, search: str) -> list[str]:
        """The names of texts: those that have it letter for letter before those that have words of it."""
        words = list(dict.fromkeys(_forms_in(search)))[:_WORDS]
        anyone = " OR ".join(f'"{word}"' for word in words)
        with self.guard:
            exact = self._names("SELECT name FROM texts WHERE instr(folded, ?)", _folded(search))
            ranked = (
                self._names("SELECT name FROM texts WHERE texts MATCH ? ORDER BY rank, rowid", anyone) if words else []
            )
        found = frozenset(exact)
        return list(dict.fromkeys([*(name for name in ranked if name in found), *exact, *ranked]))

    def _names(self, query: str, wanted: str) -> list[str]:
        return [name for (name,) in self.rows.execute(query, (wanted,))]


_WORDS = 64
"""So many words of a search are looked for."""


def _folded(text: str) -> str:
    """A text without case, and without what SQLite takes for an end or cannot keep."""
    return text.casefold().replace("\0", " ").encode("utf-8", "replace").decode()


def _forms_in(text: str) -> Iterator[str]:
    return (_folded(form) for word in raw_words(text) for form in forms(word))
