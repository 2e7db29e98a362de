"""The tool that gives the model back what was left out: by handle, by lines or bytes of it, and by search."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial

from attrs import define, field, frozen

from agentctx.core.message import Message, Native, ToolResult
from agentctx.core.recap import quoted
from agentctx.engine.options import check_store
from agentctx.engine.originals import ARGUMENTS, asked_of, recall_tool
from agentctx.engine.relevance import Bm25, raw_words
from agentctx.engine.shrink import cutter_of
from agentctx.errors import ConfigError, InvalidInput
from agentctx.offload import offload
from agentctx.protocols import Store, TokenCounter
from agentctx.providers.registry import FORMATS, format_named
from agentctx.tokens.remembering import counter_of_texts

FOUND = 8
"""So many places a search names."""

AROUND = 2
"""So many lines a search shows before and after one that it found."""

_LEAST = 100
"""Tokens; in fewer, an answer could not say how to read on."""

_REMEMBERED = 4_000_000
"""So many characters of what was read for a search are remembered."""

_RANGE = re.compile(r"\s*(\d{1,12})?\s*(?:(-|:|\.\.|,)\s*(\d{1,12})?)?\s*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


@define(eq=False, repr=False)
class _Texts:
    """What was read for a search, so that the next one need not read it again: what is kept never changes."""

    by_handle: dict[str, str] = field(factory=dict)
    size: int = 0

    def remember(self, handle: str, text: str) -> None:
        """Remember a text, as far as there is room."""
        if self.size + len(text) <= _REMEMBERED:
            self.by_handle[handle] = text
            self.size += len(text)


@frozen
class Recall:
    """A tool for the model: it gives back what was left out and is in the store, in full or in part.

    Put ``definition`` among the tools of the request: then what was left out names its handle, and a call of the tool
    is answered by awaiting this with the call's arguments. The answer has at most ``max_tokens`` tokens, and says how
    to read on where that is not all. What a model sends is never an error: the answer says then what is wrong.

    A search looks through one content, or through all that is in the store: by the store's own ``search(query, limit)``
    where it has one, else by the words of what its ``handles()`` name. Give each conversation a store of its own where
    one must not read what another left out.

    Args:
        store: The store of the pipeline.
        name: What the model calls the tool.
        max_tokens: The most tokens of an answer, at least 100.
        counter: Counts them; without it tiktoken.

    Raises:
        ConfigError: If an option makes no sense.

    Example:
        >>> from agentctx import ClearToolResults, Pipeline
        >>> from agentctx.memory import Recall
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

    store: Store
    name: str = "recall"
    max_tokens: int = 2_000
    counter: TokenCounter = field(default=None, converter=counter_of_texts, kw_only=True, eq=False, repr=False)
    _texts: _Texts = field(factory=_Texts, init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        """Check the options."""
        check_store(self.store)
        name: object = self.name
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            msg = f"Recall: name must be a word of letters, digits, _ and -, got {self.name!r:.80}"
            raise ConfigError(msg)
        if isinstance(self.max_tokens, bool) or not isinstance(self.max_tokens, int) or self.max_tokens < _LEAST:
            msg = f"Recall: max_tokens must be a whole number of at least {_LEAST}, got {self.max_tokens!r}"
            raise ConfigError(msg)

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
        if "handle" in asked:
            return await self._of_one(asked["handle"], asked)
        return await self._search_all(asked["search"]) if "search" in asked else self._capped(self._usage())

    async def _of_one(self, handle: str, asked: Mapping[str, str]) -> str:
        """The answer to what is asked of one handle."""
        text = await self._read(handle)
        if text is None:
            shown = quoted(handle[:_LEAST])
            what = "it is not one that the text shows, or it has expired. Search for words of it instead."
            return self._capped(f"Nothing is kept under the handle {shown}: {what}")
        if "search" in asked:
            return await offload(partial(self._search_in, handle, text, asked["search"]), 1, len(text))
        if "lines" in asked:
            return self._lines(handle, text, asked["lines"])
        return self._bytes(handle, text, asked.get("bytes", ""))

    def _usage(self) -> str:
        arguments = "; ".join(f"{name}: {what}" for name, what in ARGUMENTS.items())
        return f"Call {self.name} with a handle or a search. {arguments}"

    async def _read(self, handle: str) -> str | None:
        """The text under a handle; None where there is none."""
        known = self._texts.by_handle.get(handle)
        if known is not None:
            return known
        bare, _, part = handle.partition("#")
        content = await asked_of(self.store, lambda: self.store.get(bare)) if bare else None
        if not isinstance(content, bytes):
            return None
        return await offload(partial(text_of, content, part), 1, len(content))

    def _bytes(self, handle: str, text: str, wanted: str) -> str:
        start, stop = _range(wanted)
        if start is None and wanted:
            return self._capped(f"bytes: {quoted(wanted[:80])} is no range such as '0-4000'")
        data = text.encode("utf-8", "surrogatepass")
        first = _boundary(data, min(start or 0, len(data)))
        piece = data[first : _boundary(data, len(data) if stop is None else stop)]
        return self._shown(handle, piece.decode("utf-8", "surrogatepass"), first, len(data), wanted)

    def _lines(self, handle: str, text: str, wanted: str) -> str:
        start, stop = _range(wanted)
        lines = text.split("\n")
        if start is None or start > len(lines):
            return self._capped(f"lines: {quoted(wanted[:80])} is no range of the {len(lines):,} lines, such as '1-80'")
        begin = max(0, start - 1)
        stop = stop if _has_end(wanted) else (None if _is_open(wanted) else start)
        piece = "\n".join(lines[begin:stop])
        before = len("\n".join(lines[:begin]).encode("utf-8", "surrogatepass")) + (begin > 0)
        return self._shown(handle, piece, before, len(text.encode("utf-8", "surrogatepass")), wanted)

    def _shown(self, handle: str, piece: str, start: int, whole: int, wanted: str) -> str:
        """A piece of a content as it stands; what does not fit is left out, and how to read on is said."""
        if not piece:
            return self._capped(f"There is nothing: {quoted(handle)} has {whole:,} bytes")
        cutter = cutter_of(self.counter)
        if not cutter.exceeds(piece, self.max_tokens):
            return piece
        head = cutter.head(piece, self.max_tokens - _LEAST // 2 - len(handle) // 2)
        stop = start + len(head.encode("utf-8", "surrogatepass"))
        more = "" if not wanted else " of what was asked for"
        return f"{head}\n[bytes {start}-{stop} of {whole}{more}; read on with handle {handle}, bytes {stop}-]"

    def _capped(self, text: str) -> str:
        cutter = cutter_of(self.counter)
        return cutter.head(text, self.max_tokens) if cutter.exceeds(text, self.max_tokens) else text

    def _search_in(self, handle: str, text: str, search: str) -> str:
        lines = text.split("\n")
        places = _best_lines(lines, search)
        if not places:
            return self._capped(f"{quoted(search[:80])} is not in {handle}, which has {len(lines):,} lines")
        return self._joined(f"{handle} has {len(lines):,} lines. Found in:", _around(lines, places))

    async def _search_all(self, search: str) -> str:
        handles = await self._candidates(search)
        if handles is None:
            return self._capped("This store cannot be searched; give a handle")
        texts = await self._texts_of(handles)
        found = await offload(partial(_ranked, search, texts), len(texts), sum(len(text) for text in texts.values()))
        if not found:
            return self._capped(f"{quoted(search[:80])} was not found in what was left out")
        told = [
            f"{handle} ({len(texts[handle]):,} characters):\n"
            + "\n".join(_around(lines, _best_lines(lines, search)[:1]))
            for handle in found[:FOUND]
            for lines in [texts[handle].split("\n")]
        ]
        return self._joined(f"Found in {len(found):,} of what was left out; read one by its handle.", told)

    async def _candidates(self, search: str) -> Sequence[str] | None:
        """The handles to look through; None where the store does not tell."""
        own: Callable[..., Awaitable[Native]] | None = getattr(self.store, "search", None)
        listed: Callable[..., Awaitable[Native]] | None = getattr(self.store, "handles", None)
        found: object = None
        if own is not None:
            found = await asked_of(self.store, lambda: own(search, FOUND * 8))
        if found is None and listed is not None:
            found = await asked_of(self.store, listed)
        if isinstance(found, str) or not isinstance(found, Iterable):
            return None
        return [handle for handle in found if isinstance(handle, str)]

    async def _texts_of(self, handles: Sequence[str]) -> dict[str, str]:
        """Different texts by handle."""
        texts: dict[str, str] = {}
        seen: set[str] = set()
        for handle in handles:
            text = await self._read(handle)
            if text is not None and text not in seen:
                self._texts.remember(handle, text)
                seen.add(text)
                texts[handle] = text
        return texts

    def _joined(self, opening: str, parts: Sequence[str]) -> str:
        """Parts one below the other, as many as there is room for."""
        text = opening
        for part in parts:
            longer = f"{text}\n\n{part}"
            if cutter_of(self.counter).exceeds(longer, self.max_tokens):
                return self._capped(longer if text is opening else text)
            text = longer
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


def _range(wanted: str) -> tuple[int | None, int | None]:
    """The first and the last number of a range; None where it has none."""
    found = _RANGE.fullmatch(wanted)
    if found is None or not found[0].strip():
        return None, None
    return int(found[1] or 0), None if found[3] is None else int(found[3])


def _has_end(wanted: str) -> bool:
    found = _RANGE.fullmatch(wanted)
    return found is not None and found[3] is not None


def _is_open(wanted: str) -> bool:
    found = _RANGE.fullmatch(wanted)
    return found is not None and found[2] is not None


def _boundary(data: bytes, place: int) -> int:
    """The place, or the start of the character that it is in."""
    while 0 < place < len(data) and data[place] & 0xC0 == 0x80:
        place -= 1
    return place


def _best_lines(lines: Sequence[str], search: str) -> list[int]:
    """The lines in which words are found, best first."""
    exact = [place for place, line in enumerate(lines) if search.casefold() in line.casefold()]
    scores = Bm25().scores(search, lines) if raw_words(search) else []
    by_words = sorted((place for place, score in enumerate(scores) if score > 0), key=lambda place: -scores[place])
    return list(dict.fromkeys([*exact, *by_words]))[:FOUND]


def _around(lines: Sequence[str], places: Sequence[int]) -> list[str]:
    """Lines with those around them, numbered."""
    return [
        "\n".join(
            f"{number + 1}: {lines[number][:_LINE]}"
            for number in range(max(0, place - AROUND), min(len(lines), place + AROUND + 1))
        )
        for place in places
    ]


_LINE = 400
"""Characters of a line that a search shows."""


def _ranked(search: str, texts: Mapping[str, str]) -> list[str]:
    """The handles of the texts in which words are found, best first: what is there letter for letter before all."""
    handles = list(texts)
    scores = Bm25().scores(search, list(texts.values()))
    exact = {handle for handle in handles if search.casefold() in texts[handle].casefold()}
    found = [(handle not in exact, -score, handle) for handle, score in zip(handles, scores, strict=True)]
    return [handle for other, score, handle in sorted(found) if not other or score < 0]


def text_of(content: bytes, part: str = "") -> str:
    """What is kept as a text: of the JSON of a message what it says, of one with results these.

    Args:
        content: What is kept.
        part: Which of its results, counted from 1; ``"0"``: the content as it is.
    """
    text = content.decode("utf-8", "surrogatepass" if _is_text(content) else "replace")
    message = _message_in(text) if part != "0" else None
    if message is None:
        return text
    results = message.results
    if part.isdecimal() and 0 < int(part) <= len(results):
        return results[int(part) - 1].text
    if len(results) > 1:
        return "\n\n".join(f"[result {place}]\n{result.text}" for place, result in enumerate(results, 1))
    return results[0].text if results else _said(message) or text


def _said(message: Message) -> str:
    """The text of a message, and its calls."""
    calls = [f"{call.name} {call.arguments}" for call in message.calls]
    return "\n".join(each for each in (message.text, *calls) if each)


def _is_text(content: bytes) -> bool:
    try:
        content.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def _message_in(text: str) -> Message | None:
    """The message that is kept as this JSON, read in the format that finds most in it."""
    if not text.startswith("{"):
        return None
    try:
        native = json.loads(text)
    except (ValueError, RecursionError):
        return None
    read = [message for name in FORMATS if (message := _read_as(name, native)) is not None]
    return max(read, key=lambda message: sum(map(_weight, message.results)) or len(message.text), default=None)


def _weight(result: ToolResult) -> int:
    return 1_000_000 + len(result.text)


def _read_as(name: str, native: Native) -> Message | None:
    try:
        return format_named(name).read_message(native, 0)
    except (InvalidInput, ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        return None
